"""Sums made by a card: what CUDA adds up."""
