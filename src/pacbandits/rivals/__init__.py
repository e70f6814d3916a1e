"""Baseline algorithms, one per file."""
