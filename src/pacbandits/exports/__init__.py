"""Export of policies for deployment: as SQL, as a function in Python or JavaScript, as rules for engines and flags.

An export takes exactly the actions of the policy, or InputError says why the policy cannot be exported.
"""

from pacbandits.exports.deployed_policy import DeployedPolicy
from pacbandits.exports.python import to_python
from pacbandits.exports.rules import to_flags, to_javascript, to_json_logic, to_rules
from pacbandits.exports.sql import to_sql

__all__ = ["DeployedPolicy", "to_flags", "to_javascript", "to_json_logic", "to_python", "to_rules", "to_sql"]
