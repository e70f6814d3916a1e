"""Baselines, one a file: what others would do with the same problem."""
