"""Suites as constants: problems, algorithms with their options, and numbers of seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from pacbandits.benchmark.cases import Case, Entry, Role, Task
from pacbandits.checks import whole_number
from pacbandits.errors import InputError, nearest, plain


@dataclass(frozen=True)
class Suite:
    """The runs of a command.

    name: its name in the command.
    description: its purpose, in a line.
    cases: problems with accuracy and budget.
    entries: algorithms; those that refuse a case are left out of it.
    seeds: the number of runs of each.
    dear: names of slow cases.
    dear_seeds: the number of runs of each there.
    tuned_on_dear: whether tuned entries play slow cases, too, and not only published defaults.
    screened: whether an algorithm that is clearly behind on a case plays no more seeds there (`standings.behind`).
    """

    name: str
    description: str
    cases: tuple[Case, ...]
    entries: tuple[Entry, ...]
    seeds: int
    dear: tuple[str, ...] = ()
    dear_seeds: int = 0
    tuned_on_dear: bool = False
    screened: bool = False

    def tasks(self) -> tuple[Task, ...]:
        """Return all runs, case by case, all entries with one seed before the next: early results can be compared."""
        return tuple(
            Task(self.name, case, entry, seed)
            for case in self.cases
            for seed in range(min(self.seeds, self.dear_seeds) if case.name in self.dear else self.seeds)
            for entry in self.entries
            if self.tuned_on_dear or case.name not in self.dear or entry.role == "default"
        )


def _default(name: str, options: str = "") -> Entry:
    return _entry(name, options, "default")


def _tuned(name: str, options: str) -> Entry:
    return _entry(name, options, "tuned")


def _entry(name: str, options: str, role: Role) -> Entry:
    """Return an entry by its name in tables; words after a space distinguish variants of one algorithm."""
    return Entry(name, f"{name.split()[0]}:{options}" if options else name.split()[0], role)


# As published, where a paper gives values. Vowpal Wabbit gets longer rounds, as its predictions and updates are slow.
DEFAULTS = (
    _default("coda"),
    _default("uniform"),
    _default("policy-elimination"),
    _default("randomized-ucb"),
    _default("ilovetoconbandits"),
    _default("epoch-greedy"),
    _default("epsilon-greedy"),
    _default("exp4"),
    _default("explore-then-commit"),
    _default("adacb"),
    _default("squarecb"),
    _default("lin-ucb"),
    _default("lin-ts"),
    _default("plas"),
    _default("proportional-response"),
    _default("policy-sets"),
    _default("track-and-stop"),
    _default("per-context elimination", "rule=elimination"),
    _default("per-context lucb", "rule=lucb"),
    _default("planner-sampler"),
    _default("rage"),
    _default("rage-free"),
    _default("coda-paper"),
    _default("vowpal cover", "explore=cover,growth=0.15"),
    _default("vowpal squarecb", "explore=squarecb,growth=0.15"),
    _default("vowpal regcb", "explore=regcb,growth=0.15"),
    _default("vowpal first", "explore=first,growth=0.15"),
)
# Where the class is large, certificates may be of a mixture policy; these are of a single policy.
SINGLE = (_default("coda single", "answer=single"), _default("uniform single", "answer=single"))
# A grid for algorithms with options to tune, in both directions: less exploration than published, which most papers and
# experiments prefer for little regret, and more, which certified stopping prefers. policy-elimination with radius=3
# would play as with 1, which drops no policy within these budgets; plas with floor=0.25 would play as uniform.
TUNED = (
    _tuned("policy-elimination", "radius=0.3"),
    _tuned("randomized-ucb", "confidence=0.01"),
    _tuned("randomized-ucb", "confidence=10"),
    _tuned("ilovetoconbandits", "psi=1"),
    _tuned("ilovetoconbandits", "psi=1,mu=0.1"),
    _tuned("ilovetoconbandits", "mu=10"),
    _tuned("epoch-greedy", "explore=3"),
    _tuned("epoch-greedy", "explore=10"),
    _tuned("epsilon-greedy", "explore=1"),
    _tuned("epsilon-greedy", "explore=10"),
    _tuned("epsilon-greedy", "explore=100"),
    _tuned("exp4", "rate=3"),
    _tuned("exp4", "explore=0.3,rate=3"),
    _tuned("exp4", "explore=2"),
    _tuned("exp4", "explore=3"),
    _tuned("exp4", "explore=10"),
    _tuned("explore-then-commit", "explore=3"),
    _tuned("explore-then-commit", "explore=10"),
    _tuned("adacb", "confidence=0.01"),
    _tuned("adacb", "confidence=0.002,gamma=10"),
    _tuned("adacb", "gamma=0.3"),
    _tuned("adacb", "gamma=0.03333"),
    _tuned("squarecb", "gamma=10"),
    _tuned("squarecb", "gamma=0.3"),
    _tuned("squarecb", "gamma=0.03333"),  # FALCON's γ, a thirtieth
    _tuned("squarecb", "model=house"),
    _tuned("squarecb", "model=house,gamma=0.3"),
    _tuned("lin-ucb", "alpha=0.6"),
    _tuned("lin-ucb", "alpha=3"),
    _tuned("lin-ts", "spread=2"),
    _tuned("lin-ts", "spread=5"),
    _tuned("plas", "floor=0.05"),
    _tuned("proportional-response", "scale=0.3"),
    _tuned("proportional-response", "scale=3"),
    _tuned("proportional-response", "simple=0"),
    _tuned("policy-sets", "truncation=1"),
    _tuned("policy-sets", "sequence=lil"),
    _tuned("vowpal cover", "explore=cover-nu,growth=0.15"),
    _tuned("vowpal cover", "explore=cover,psi=10,growth=0.15"),
    _tuned("vowpal squarecb", "explore=squarecb,gamma_scale=100,growth=0.15"),
    _tuned("vowpal squarecb", "explore=squarecb,gamma_scale=1,growth=0.15"),
    _tuned("vowpal squarecb", "explore=squarecb,gamma_scale=0.3,growth=0.15"),
    _tuned("vowpal regcb", "explore=regcb,mellowness=0.01,growth=0.15"),
    _tuned("vowpal regcb", "explore=regcb,mellowness=1,growth=0.15"),
    _tuned("vowpal first", "explore=first,first=4000,growth=0.15"),
    _tuned("vowpal first", "explore=first,first=16000,growth=0.15"),
)
HARD = Case("hard 16", "hard-coins:m=16,gap=0.25", 0.02, 0.1, 12_000)
RANDOM = Case("random 10", "random:policies=100,contexts=20,actions=10,skew=1,seed=2", 0.05, 0.1, 12_000)
TWO = Case("two-of-many 10", "two-of-many:actions=10,policies=100,contexts=20", 0.05, 0.1, 25_000)
TRIVIAL = Case("trivial 10/8", "trivial:contexts=10,actions=8,gap=0.2", 0.1, 0.1, 6_000)
LINEAR = Case("linear 5", "linear:dimension=4,actions=5,contexts=50,policies=60", 0.05, 0.1, 12_000)
TREES = Case("trees 8", "trees:actions=8,contexts=500,depth=1", 0.1, 0.1, 16_000)

QUICK = Suite(
    "quick",
    "small problems, published defaults: minutes",
    (HARD, RANDOM, TWO, TRIVIAL, LINEAR, TREES),
    DEFAULTS,
    10,
    dear=(TREES.name,),
    dear_seeds=5,
)
FULL = Suite(
    "full",
    "problems of all kinds, published defaults and the best of a grid: hours on two cores",
    (
        HARD,
        Case("hard 64", "hard-coins:m=64,gap=0.25", 0.005, 0.1, 60_000),
        RANDOM,
        Case("random 6", "random:policies=200,contexts=20,actions=6,seed=1", 0.05, 0.1, 16_000),
        TWO,
        Case("two-of-many 20", "two-of-many", 0.05, 0.1, 60_000),
        Case("two-of-many 40", "two-of-many:actions=40,policies=500,contexts=50,seed=1", 0.05, 0.1, 80_000),
        TRIVIAL,
        Case("trivial 20/4", "trivial:contexts=20,actions=4,gap=0.1,skew=1", 0.1, 0.1, 10_000),
        LINEAR,
        Case("linear 10", "linear:seed=1", 0.05, 0.1, 40_000),
        Case("linear 5, misfit", "linear:dimension=4,actions=5,contexts=50,policies=60,misfit=0.5", 0.05, 0.1, 12_000),
        Case("trees 2", "trees:actions=2,competitive=2,contexts=500,depth=1", 0.05, 0.1, 12_000),
        TREES,
        Case("trees 16", "trees:actions=16,contexts=500,depth=1,seed=1", 0.1, 0.1, 30_000),
        Case("trees 64", "trees:actions=64,contexts=500,depth=1,seed=1", 0.1, 0.1, 60_000),
        Case("trees 8, depth 2", "trees:actions=8,contexts=1000", 0.1, 0.1, 12_000),
        Case("iris", "iris:flip=0.2", 0.1, 0.1, 3_000),
        Case("wine", "wine:flip=0.2", 0.1, 0.1, 3_000),
        Case("digits", "digits:flip=0.2", 0.1, 0.1, 12_000),
        Case("actg175", "actg175", 0.05, 0.1, 12_000),
    ),
    (*DEFAULTS, *SINGLE, *TUNED),
    20,
    dear=(
        "two-of-many 20",
        "two-of-many 40",
        "trees 2",
        "trees 16",
        "trees 64",
        "trees 8, depth 2",
        "iris",
        "wine",
        "digits",
        "actg175",
    ),
    dear_seeds=10,
    tuned_on_dear=True,
    screened=True,
)
_SEPARATION_CASES = tuple(
    Case(
        f"hard coins {m}",
        f"hard-coins:m={m},gap=0.25",
        0.0,  # the theorem is about the best policy itself
        0.1,
        1_000 * m**2,  # the budget of low-regret algorithms
        growth=0.1,
        certified=False,
    )
    for m in (8, 16, 32, 64, 128, 256, 512, 1000)
)
_SEPARATION_ENTRIES = tuple(
    Entry(name, name)
    for name in (
        "coda",
        "uniform",
        "epoch-greedy",
        "epsilon-greedy",
        "exp4",
        "ilovetoconbandits",
        "randomized-ucb",
        "squarecb",
        "lin-ts",
    )
)
SEPARATION = Suite(
    "separation",
    "the paper's hard instance, m up to 1,000, low regret against us: an hour of a core",
    _SEPARATION_CASES,
    _SEPARATION_ENTRIES,
    20,
)
SUITES: dict[str, Suite] = {suite.name: suite for suite in (QUICK, FULL, SEPARATION)}


# Select a suite, and a part of it by names with wildcards.


def find_suite(name: str) -> Suite:
    """Return the suite of that name."""
    if name not in SUITES:
        raise InputError(f"there is no suite '{plain(name)}'{nearest(name, SUITES)}")
    return SUITES[name]


def select(suite: Suite, *, cases: Sequence[str] = (), entries: Sequence[str] = (), seeds: int | None = None) -> Suite:
    """Return a part of a suite.

    cases: patterns of names, `trees*`; none for all.
    entries: patterns of names in tables or of specs; none for all.
    seeds: the number of runs of each, instead of the suite's.

    Raises:
        InputError: If a pattern matches nothing, or no run is left.
    """
    for pattern in cases:
        _check_any(pattern, [case.name for case in suite.cases], suite=suite, noun="case")
    for pattern in entries:
        _check_any(pattern, [name for one in suite.entries for name in (one.name, one.spec)], suite=suite, noun="entry")
    chosen = replace(
        suite,
        cases=tuple(case for case in suite.cases if not cases or _fits(cases, case.name)),
        entries=tuple(one for one in suite.entries if not entries or _fits(entries, one.name, one.spec)),
    )
    if seeds is not None:
        count = whole_number(seeds, name="--seeds", least=1)
        chosen = replace(chosen, seeds=count, dear_seeds=count)
    if not chosen.tasks():
        raise InputError(
            f"nothing to play: the suite '{suite.name}' has published defaults alone on "
            f"{', '.join(case.name for case in chosen.cases)}; name another --entry or --case"
        )
    return chosen


def _fits(patterns: Sequence[str], *names: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _check_any(pattern: str, names: Sequence[str], *, suite: Suite, noun: str) -> None:
    if not _fits([pattern], *names):
        raise InputError(f"the suite '{suite.name}' has no {noun} '{plain(pattern)}'{nearest(pattern, set(names))}")
