"""Small logs of all kinds that are certified by sums, and an engine that takes nothing in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pacbandits.certificate.certify import certify
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.engines import Aggregation, Engine, Local, LogSource, Source, Sums
from pacbandits.engines.base import add_to, count_blocks, even_stripes
from pacbandits.policies import Finite, Trees, Trivial
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Log
from pacbandits.rewards import Constant
from pacbandits.verifier import verify_rows

THREADS = Local("threads")
SMALL = RowLimits(early=600, neighbours=200, watched=700)  # so that a log of some thousand rows is a large one
N_ACTIONS = 3
SPLIT = np.array([0.4, 0.3, 0.3])


@dataclass(frozen=True)
class Scattered:
    """An engine that takes blocks in any order, begins several sums, and adds these up in any order."""

    seed: int
    name: str = "scattered"

    def ask(self, source: Source, question: Aggregation, *, what: str) -> Sums:
        rng = np.random.default_rng(self.seed)
        parts = [question.begin() for _ in range(int(rng.integers(1, 5)))]
        for number in rng.permutation(count_blocks(source.n_rows)).tolist():
            (block,) = source.blocks(number, number + 1)
            question.add(number, block, parts[int(rng.integers(len(parts)))])
        while len(parts) > 1:
            one = parts.pop(int(rng.integers(len(parts))))
            add_to(parts[int(rng.integers(len(parts)))], one)
        return parts[0]


@dataclass(frozen=True, eq=False)
class Striped(LogSource):
    """Rows in memory in stripes of other lengths."""

    length: int

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return even_stripes(self.n_rows, most_blocks=self.length)


def people(n: int, seed: int, *, missing: bool = False) -> Contexts:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 2))
    if missing:
        numbers[rng.random(n) < 0.1, 1] = np.nan
    features = np.column_stack([numbers, rng.integers(0, 3, n)])
    return Contexts.of(features, names=["age", "dose", "place"], categories=[None, None, ("a", "b", "c")])


def means_of(contexts: Contexts, gap: float) -> np.ndarray:
    """What each action earns on average (n, A): the first one where age is high, the second where it is low."""
    high = contexts.features[:, 0] > 0
    sides = np.where(high, gap, -gap)
    return np.column_stack([0.5 + sides, 0.5 - sides, np.where(contexts.features[:, 2] == 1, 0.5 + 0.5 * gap, 0.4)])


def draw(contexts: Contexts, means: np.ndarray, seed: int, *, fixed: bool, **columns: Any) -> Log:
    """A log of rows in these contexts; fixed: whether all were played with the same propensities."""
    rng, n = np.random.default_rng(seed), len(contexts)
    p = np.tile(SPLIT, (n, 1)) if fixed else rng.dirichlet(np.full(N_ACTIONS, 6.0), size=n)
    actions = (rng.random((n, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    rewards = (rng.random(n) < means[np.arange(n), actions]).astype(float)
    return Log.of(contexts, actions=actions, rewards=rewards, propensities=p, **columns)


def log_of_people(
    n: int, seed: int, *, fixed: bool = False, missing: bool = False, gap: float = 0.4, **columns: Any
) -> Log:
    contexts = people(n, seed, missing=missing)
    return draw(contexts, means_of(contexts, gap), seed + 1, fixed=fixed, **columns)


def log_with_ids(n: int, seed: int, **columns: Any) -> Log:
    """A log of five contexts that are known by their ids."""
    ids = np.random.default_rng(seed).integers(0, 5, n)
    means = np.random.default_rng(7).random((5, N_ACTIONS))
    return draw(Contexts.finite(5).take(ids), means[ids], seed + 1, fixed=False, **columns)


def played_alone(log: Log, least: float) -> Log:
    """The log as if the propensities of played actions were all that is known."""
    return Log.of_played(
        log.contexts,
        actions=log.actions,
        rewards=log.rewards,
        played=log.played_propensities,
        least=np.full(log.propensities.shape, least),
        rounds=log.rounds,
        repeats=log.repeats,
    )


def fixed_trees(depth: int) -> Trees:
    return Trees.learn(people(200, 99), n_actions=N_ACTIONS, depth=depth, bins=5)


def listed() -> Finite:
    return Finite(np.random.default_rng(3).integers(0, N_ACTIONS, (40, 5)), n_actions=N_ACTIONS)


@dataclass(frozen=True)
class Kind:
    """A kind of log, and what is asked of it.

    log: made by how many rows and a seed.
    policies: a class, or its name.
    asked: of certify.
    rows: that are enough for it.
    """

    log: Callable[[int, int], Log]
    policies: Callable[[], PolicyClass | str]
    asked: dict[str, Any] = field(default_factory=dict[str, Any])
    rows: int = 700


def _in_rounds(n: int, seed: int, *, rounds: int = 5) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).integers(0, rounds, n)) * 3 + 2


def _mixed(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(_in_rounds(n, seed))


def _repeats(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 4, n)


SPEC = "trees:depth=2,bins=5"
KINDS: dict[str, Kind] = {
    "a fixed split": Kind(lambda n, s: log_of_people(n, s, fixed=True), lambda: SPEC),
    "a fixed split, missing values": Kind(lambda n, s: log_of_people(n, s, fixed=True, missing=True), lambda: SPEC),
    "in order": Kind(lambda n, s: log_of_people(n, s), lambda: SPEC, {"ordered": True}),
    "in order, a single policy": Kind(
        lambda n, s: log_of_people(n, s), lambda: fixed_trees(2), {"ordered": True, "single": True}
    ),
    "rounds": Kind(lambda n, s: log_of_people(n, s, rounds=_in_rounds(n, s)), lambda: SPEC),
    "rounds, mixed": Kind(lambda n, s: log_of_people(n, s, rounds=_mixed(n, s)), lambda: SPEC, {"epsilon": 0.2}),
    "rounds with repeats, mixed": Kind(
        lambda n, s: log_of_people(n, s, rounds=_mixed(n, s), repeats=_repeats(n, s)), lambda: SPEC
    ),
    "no order": Kind(lambda n, s: log_of_people(n, s), lambda: SPEC, {"epsilon": 0.4}),
    "no order, a class from before": Kind(lambda n, s: log_of_people(n, s), lambda: fixed_trees(2)),
    "no order, repeats": Kind(lambda n, s: log_of_people(n, s, repeats=_repeats(n, s)), lambda: fixed_trees(1)),
    "no order, any will do": Kind(lambda n, s: log_of_people(n, s), lambda: fixed_trees(2), {"shuffle": True}),
    "played alone, in order": Kind(
        lambda n, s: played_alone(log_of_people(n, s, rounds=_in_rounds(n, s)), 0.02), lambda: SPEC
    ),
    "a list": Kind(lambda n, s: log_with_ids(n, s), listed),
    "a list, rounds": Kind(lambda n, s: log_with_ids(n, s, rounds=_mixed(n, s)), listed, {"epsilon": 0.3}),
    "all policies": Kind(lambda n, s: log_with_ids(n, s, repeats=_repeats(n, s)), lambda: Trivial(5, N_ACTIONS)),
    "stumps in order": Kind(lambda n, s: log_of_people(n, s), lambda: "trees:depth=1,bins=5", {"ordered": True}),
    "one action for all": Kind(lambda n, s: log_of_people(n, s, fixed=True), lambda: fixed_trees(0)),
    "large leaves": Kind(lambda n, s: log_of_people(n, s, fixed=True), lambda: "trees:bins=5,leaf=0.1", rows=1500),
}


class ActionMeans:
    """The mean reward of each action, whatever the context."""

    def fit(self, log: Log) -> Constant:
        counts = np.bincount(log.actions, weights=log.weights, minlength=log.n_actions)
        totals = np.bincount(log.actions, weights=log.weights * log.rewards, minlength=log.n_actions)
        return Constant((totals + 1.0) / (counts + 2.0))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "means of actions"}


# A model that is quick, where nothing depends on which one it is.
QUICK = {"model": ActionMeans()}


def by_sums(kind: Kind, source: Source, engine: Engine = THREADS, **asked: Any) -> Any:
    """The certificate of a kind of log by sums."""
    return certify(source, kind.policies(), engine=engine, **{**kind.asked, **asked})


def rechecked(certificate: Any, source: Source, policies: PolicyClass, engine: Engine = THREADS, **given: Any) -> Any:
    """What a recheck of it says."""
    return verify_rows(certificate, source, policies, engine=engine, **given)[0]


def in_files(log: Log, folder: Any, seed: int) -> list[Any]:
    """The log in files that are cut anywhere, in row groups of odd sizes."""
    rng = np.random.default_rng(seed)
    log.write(folder / "whole.parquet")
    table = pq.read_table(folder / "whole.parquet")
    cuts = sorted(rng.choice(np.arange(1, len(log)), 3, replace=False).tolist())
    paths = []
    for k, (start, stop) in enumerate(pairwise([0, *cuts, len(log)])):
        paths.append(folder / f"part-{k}.parquet")
        pq.write_table(table.slice(start, stop - start), paths[-1], row_group_size=int(rng.integers(100, len(log))))
    return paths


def with_row(log: Log, row: int, **changed: Any) -> Log:
    """The log with something else in one row."""
    columns = {}
    for name, value in changed.items():
        column = getattr(log, name).copy()
        column[row] = value
        columns[name] = column
    return replace(log, **columns)
