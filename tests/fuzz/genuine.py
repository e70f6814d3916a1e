"""Genuine certificates of every kind, with small logs, so that a recheck takes milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

import pacbandits as pb
from pacbandits.certificate import Certificate, Claim
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.features import Given
from pacbandits.policies.linear import Linear
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.constraints import make_trees
from pacbandits.proofs import save_certificate
from pacbandits.records import Contexts, Log
from pacbandits.rewards import Additive, Regions
from tests.realizable.test_certificate import certify as certify_realizable
from tests.realizable.test_certificate import listed, make


@dataclass(frozen=True, eq=False)
class Genuine:
    """A certificate that is good, and all that it is rechecked with.

    certificate: the claim.
    policies: its class.
    log: its log.
    contexts: those it speaks of beyond its log.
    made_at: the same made anew at another δ, where a larger one may honestly be of a smaller distance.
    """

    certificate: Claim
    policies: PolicyClass
    log: Log
    contexts: Contexts | None = None
    made_at: Callable[[float], Claim] | None = None

    def text(self, folder: Path) -> str:
        """Its file."""
        path = folder / "genuine.json"
        save_certificate(path, self.certificate, self.policies)
        return path.read_text(encoding="utf-8")


def people(n: int, *, seed: int = 0) -> Contexts:
    """An age and a place for each."""
    rng = np.random.default_rng(seed)
    ages, places = rng.integers(20, 24, size=n), rng.integers(3, size=n)
    return Contexts.of(np.column_stack([ages, places]), names=["age", "place"], categories=[None, ("x", "y", "z")])


def play(contexts: Contexts, means: Callable[[Contexts], np.ndarray], *, rounds: int = 3, seed: int = 0) -> Log:
    """A log of one uniform decision a context, in some rounds; means (n, A) of rewards that are 0 or 1."""
    rng = np.random.default_rng([seed, 1])  # not the numbers that the contexts were drawn with
    table = means(contexts)
    n, n_actions = table.shape
    actions = rng.integers(n_actions, size=n)
    return Log.of(
        contexts,
        actions=actions,
        rewards=(rng.random(n) < table[np.arange(n), actions]).astype(float),
        propensities=np.full((n, n_actions), 1.0 / n_actions),
        rounds=np.sort(rng.integers(rounds, size=n)),
    )


def by_age(contexts: Contexts) -> np.ndarray:
    """The second action is for those of 22 and more."""
    older = contexts.features[:, 0] >= 22
    return np.column_stack([np.where(older, 0.1, 0.9), np.where(older, 0.9, 0.1)])


def by_number(contexts: Contexts) -> np.ndarray:
    """Each of a finite set has an action of its own."""
    assert contexts.ids is not None
    return 0.1 + 0.8 * np.eye(3)[contexts.ids % 3]


def _finite() -> Genuine:
    contexts = Contexts.finite(6).take(np.random.default_rng(1).integers(6, size=400))
    table = np.random.default_rng(2).integers(3, size=(12, 6))
    table[3] = np.arange(6) % 3
    policies = pb.Finite(table, n_actions=3, names=[f"plan {i}" for i in range(12)])
    log = play(contexts, by_number)
    return Genuine(pb.certify(log, policies, epsilon=0.4, delta=0.1).certificate, policies, log)


def _trivial() -> Genuine:
    contexts = Contexts.finite(6).take(np.random.default_rng(1).integers(6, size=400))
    policies, log = pb.Trivial(6, 3), play(contexts, by_number)
    return Genuine(pb.certify(log, policies, epsilon=0.3, delta=0.1).certificate, policies, log)


def _trees() -> Genuine:
    log = replace(play(people(300), by_age, rounds=2), remarks=("whoever came was asked",))
    policies = make_trees(Bins.learn(log.contexts), n_actions=2, depth=1)
    return Genuine(pb.certify(log, policies, epsilon=0.3, delta=0.1).certificate, policies, log)


def _restricted() -> Genuine:
    log = play(people(300), by_age)
    spec = "trees:depth=1,bins=4,leaf=0.1,costs=0/1,budget=0.5,never=1:age<=21.3,fallback=0"
    policies = pb.load_policies(spec, log.contexts, n_actions=2)
    return Genuine(pb.certify(log, policies, epsilon=0.5, delta=0.1).certificate, policies, log)


def _led() -> Genuine:
    who = people(1500)
    noise = np.random.default_rng(9).normal(size=(1500, 3))
    contexts = Contexts.of(
        np.column_stack([who.features, noise]),
        names=[*who.names, "u", "v", "w"],
        categories=[*who.categories, None, None, None],
    )
    log = play(contexts, by_age, rounds=1)
    policies = make_trees(Bins.learn(log.contexts, bins=8), n_actions=2, depth=2)
    model = Regions.learn(log.contexts)
    made = pb.certify(log, policies, epsilon=0.1, delta=0.1, ordered=True, model=model).certificate
    assert isinstance(made, Certificate)
    assert made.leaders is not None
    return Genuine(made, policies, log)


def _crossed() -> Genuine:
    log = play(people(150), by_age)
    policies = Linear.learn(log.contexts, n_actions=2, levels=1, oracle="list")
    made = pb.certify(log, policies, epsilon=0.6, delta=0.1, model=Additive.learn(log.contexts)).certificate
    return Genuine(made, policies, log)


def _given(oracle: str) -> Genuine:
    phi = np.random.default_rng(4).normal(size=(80, 2, 2))
    first_is_best = phi[:, 0, 0] > phi[:, 1, 0]
    means = np.where(np.column_stack([first_is_best, ~first_is_best]), 0.9, 0.1)
    log = play(Contexts.finite(80, phi=phi), lambda _: means)
    policies = Linear.of(Given(2, 2), levels=2, oracle=oracle)
    return Genuine(pb.certify(log, policies, epsilon=0.8, delta=0.1).certificate, policies, log)


def _realizable(form: str) -> Genuine:
    contexts, log, _ = make(samples=300)
    policies = pb.Trivial(12, 3) if form == "all" else listed()
    kind = "list" if form == "list" else "ellipsoid"

    def made_at(delta: float) -> Claim:
        return certify_realizable(contexts, log, policies, kind, delta=delta)

    return Genuine(certify_realizable(contexts, log, policies, kind), policies, log, contexts, made_at)


def _asymptotic() -> Genuine:
    log = play(people(300), by_age)
    policies = make_trees(Bins.learn(log.contexts), n_actions=2, depth=1)
    made = pb.certify_asymptotically(log, policies, epsilon=0.3, delta=0.1, rng=0, draws=20)
    return Genuine(made, policies, log)


_ALL: dict[str, Callable[[], Genuine]] = {
    "finite": _finite,
    "trivial": _trivial,
    "trees": _trees,
    "trees, restricted": _restricted,
    "trees in blocks, led": _led,
    "crossed": _crossed,
    "given": lambda: _given("list"),
    "realizable list": lambda: _realizable("list"),
    "realizable ellipsoid": lambda: _realizable("ellipsoid"),
    "realizable, all policies": lambda: _realizable("all"),
    "asymptotic": _asymptotic,
    "given, searched": lambda: _given("search"),
}
ALL_NAMES = tuple(_ALL)
NAMES = ALL_NAMES[:-1]  # a search takes its time


@cache
def genuine(name: str) -> Genuine:
    """The certificate of that name; with a remark, as strangers write some."""
    made = _ALL[name]()
    return replace(made, certificate=made.certificate.with_remarks("the moon was full"))
