"""Verification of certificates by code that imports no module that makes them.

verify: the flow, and rows in memory.
figures: the figures of a certificate, checked against each other, the facts about the log and the class.
wealth: the log-wealth of bets against every policy.
rule: the rule by which `certify` fixes class, model, stakes and leaders, followed again.
order: the order in which rows count.
sums: rows that an engine adds up.
"""

from pacbandits.verifier.verify import (
    RowsToTest,
    Verdict,
    learn_class_again,
    recompute,
    rows_to_test,
    verify_log,
    verify_rows,
)

__all__ = ["RowsToTest", "Verdict", "learn_class_again", "recompute", "rows_to_test", "verify_log", "verify_rows"]
