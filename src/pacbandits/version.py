"""The version, in a module that both the package and its command line import."""

__version__ = "0.1.0"
