"""The version, in a module that both the package and its command line import."""

__version__ = "0.2.0"
