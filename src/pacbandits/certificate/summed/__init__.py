"""Certificates of logs of any size: whole-number sums over rows, made wherever these are."""
