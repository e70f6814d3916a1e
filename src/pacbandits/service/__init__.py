"""The HTTP service and dashboard over `pacbandits.experiment`."""
