"""Certificates of logs of any size, by whole-number sums over rows in memory, in files or at workers."""
