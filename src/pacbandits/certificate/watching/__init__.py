"""Looking at a log for signs against what its certificates assume: drift, and a mismatch of the sample ratio.

A certificate rests on contexts and rewards that are drawn independently from one distribution, and on actions that are
drawn with the propensities that the log states. Neither can be proven; both can be refuted. Each is tested by an
e-process: a number that is nonnegative and at most 1 on average while the assumption holds, whenever one looks, and
that grows exponentially fast where it fails in a way that was bet on. By Ville's inequality it ever reaches 1/α with
probability at most α: one may look after every round, for ever, at logs collected in any adaptive way.
"""

from pacbandits.certificate.watching.check import Check, alarm_words, by_gravity
from pacbandits.certificate.watching.looking import FALSE_ALARM_RATE, look

__all__ = ["FALSE_ALARM_RATE", "Check", "alarm_words", "by_gravity", "look"]
