"""The version, where both the package and its command line can read it."""

__version__ = "0.1.0"
