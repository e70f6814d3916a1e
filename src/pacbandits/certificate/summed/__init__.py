"""Certificates of logs of any size: sums over rows, made wherever these are."""

from pacbandits.certificate.summed.certify import certify_source

__all__ = ["certify_source"]
