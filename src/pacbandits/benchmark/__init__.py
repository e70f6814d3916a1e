"""Benchmarks: all algorithms on the same problems by the same measures; tables and figures use logged results alone."""
