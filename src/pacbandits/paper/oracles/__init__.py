"""The paper's reductions: constraints, excluding a set, the steps of CODA and FW-GD, on any argmax oracle."""
