"""The paper's estimates of values and gaps: importance weighting, its regularised form, Catoni's mean."""
