"""A suite that takes moments, and rows of it."""

from __future__ import annotations

from pacbandits.benchmark.cases import Case, Entry
from pacbandits.benchmark.suites import Suite

EASY = Case("easy", "trivial:contexts=2,actions=2,gap=0.6", 0.3, 0.1, 2_000, growth=0.3)
MANY = Case("many", "two-of-many:actions=4,policies=10,contexts=4", 0.3, 0.1, 4_000, growth=0.3)
TINY = Suite(
    "tiny",
    "takes moments",
    (EASY, MANY),
    (Entry("uniform", "uniform"), Entry("epoch-greedy", "epoch-greedy"), Entry("linear-rage", "linear-rage")),
    2,
)
REFUSED = "linear scores need features, but the contexts have neither features nor phi"


# Wall times, which a repeated run need not reproduce.
CLOCK_COLUMNS = ("seconds", "seconds_certifying", "decision_microseconds")


def timeless(rows):
    """The columns of rows that a repeated run reproduces."""
    return [{name: value for name, value in row.to_json().items() if name not in CLOCK_COLUMNS} for row in rows]
