"""Export of policies for deployment: as SQL, as a Python function, as rules in JSON.

An export takes exactly the actions of the policy, or InputError says why the policy cannot be exported.
"""

from pacbandits.exports.deployed import DeployedPolicy
from pacbandits.exports.python import to_python
from pacbandits.exports.rules import to_rules
from pacbandits.exports.sql import to_sql

__all__ = ["DeployedPolicy", "to_python", "to_rules", "to_sql"]
