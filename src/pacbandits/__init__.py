"""Best-policy identification for contextual bandits: which policy is best, within ε, with probability 1 − δ."""

__version__ = "0.1.0"
