"""Verification of certificates by code that imports nothing of what makes them.

verify   the flow: figures, then class, model, stakes and leaders
figures  what the figures of a certificate must be by each other, the log's facts and the class
wealth   the log-wealth of bets against every policy, and its least over the class
rule     the rule by which `certify` fixes class, model, stakes and leaders, followed again
order    the order in which rows count
memory   rows in memory
sums     rows that an engine reads, added up in whole numbers
"""

from pacbandits.verifier.verdict import Verdict
from pacbandits.verifier.verify import learn_class_again, recompute, verify_log, verify_rows, watched_rows

__all__ = ["Verdict", "learn_class_again", "recompute", "verify_log", "verify_rows", "watched_rows"]
