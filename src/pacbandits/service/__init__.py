"""HTTP and the dashboard over `pacbandits.experiment`."""
