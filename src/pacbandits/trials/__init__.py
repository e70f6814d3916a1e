"""Trials that stop by their certificate, and saved states of them."""
