"""The paper's algorithms, and small problems for them."""

from __future__ import annotations

from tests.algorithms.cases import TREES

NAMES = ("rage", "rage-free", "coda-paper", "coda-oracle")
LISTED = (
    "hard:m=6,noise=bernoulli",
    "random:policies=12,contexts=5,actions=3,skew=1,seed=3",
    "two-of-many:actions=4,policies=12,contexts=8",
    "trivial:contexts=3,actions=3,gap=0.3",
)
CASES = [(name, spec) for name in NAMES for spec in LISTED] + [
    (name, TREES) for name in ("coda-paper", "coda-oracle", "coda-common-gamma")
]
