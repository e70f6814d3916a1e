"""Policies written down for where they are to act: as SQL, as a Python function, as rules in JSON.

What is written acts exactly as the policy does, or a sentence says why it cannot be written.
"""

from pacbandits.exports.deployed import DeployedPolicy
from pacbandits.exports.python import to_python
from pacbandits.exports.rules import to_rules
from pacbandits.exports.sql import to_sql

__all__ = ["DeployedPolicy", "to_python", "to_rules", "to_sql"]
