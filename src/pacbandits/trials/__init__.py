"""Trials that stop when their certificate holds, and their saved states."""
