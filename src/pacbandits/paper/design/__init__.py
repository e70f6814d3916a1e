"""The paper's own designs: FW-GD, corrected and as printed, and the design for all pairs of policies."""
