"""Designs as a live experiment plays them: small, the same wherever they are read, and quick for one person.

A trial's own designs may weigh actions by what a reward model predicts of the noise in a context, and such a model may
hold all the data. What is played here weighs each action by one number, its mean over the known contexts. Never does
that change what may be claimed. It may cost people: 1.2 times as many on trees:actions=16,competitive=3 (the geometric
mean of 14 pairs of runs, of which 10 took more), though designs are priced the same to a percent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pacbandits.arrays import FloatArray, floats
from pacbandits.checks import settle
from pacbandits.errors import InputError
from pacbandits.fields import Fields, Json
from pacbandits.policies import chosen_from_json, policy_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.trees.stacked import StackedTrees, stack
from pacbandits.records import Chosen, Contexts, Design, Lottery, Policy, Sampler
from pacbandits.records.design import Sparing, spare_actions
from pacbandits.trials.exploration import NoisyDesign, variances

MAX_SUPPORT = 100_000  # of a design in JSON


@dataclass(frozen=True, eq=False)
class LiveDesign:
    """A design that weighs each action by one number.

    design: what is weighed.
    noise (A,): by what, 0 or more; None for no weights.
    barred: actions that are never played; the others are as likely as before, compared with each other.
    """

    design: Design
    noise: FloatArray | None = None
    barred: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.noise is not None:
            settle(self, noise=floats(self.noise, name="noise", shape=(self.n_actions,)))
        if not set(self.barred) < set(range(self.n_actions)):
            raise InputError(f"some of {self.n_actions} actions must be left, and {list(self.barred)} are barred")

    @property
    def n_actions(self) -> int:
        return self.design.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """p(a|c) as (n, A)."""
        noise = None if self.noise is None else np.broadcast_to(self.noise, (len(contexts), self.n_actions))
        asked = None if self._stacked is None else self._stacked(contexts)
        return spare_actions(self.design.propensities(contexts, noise=noise, asked=asked), self.barred)

    @cached_property
    def _stacked(self) -> StackedTrees | None:
        return stack((*self.design.support, self.design.reference))

    def to_json(self) -> Json:
        """As what JSON knows; `pacbandits.records.Design` says what probabilities follow from it."""
        d = self.design
        return {
            "kind": "design",
            "support": [policy.to_json() for policy in d.support],
            "weights": d.weights.tolist(),
            "reference": d.reference.to_json(),
            "floor": d.floor,
            "smoothing": d.smoothing,
            "even_share": d.even_share,
            "noise": None if self.noise is None else self.noise.tolist(),
            "barred": list(self.barred),
        }

    @classmethod
    def from_json(cls, value: object, policies: PolicyClass | None = None) -> LiveDesign:
        """What `to_json` wrote."""
        given = Fields.read(value, of="design")
        support = tuple(policy_from_json(one, policies) for one in given.items("support", most=MAX_SUPPORT))
        reference = policy_from_json(given["reference"], policies)
        weights = given.numbers("weights", shortest=len(support), longest=len(support), least=0.0)
        design = Design(
            support,
            np.array(weights, dtype=np.float64),
            reference,
            floor=given.number("floor"),
            smoothing=given.number("smoothing"),
            even_share=given.number("even_share"),
        )
        n = reference.n_actions
        noise = None if given["noise"] is None else given.numbers("noise", shortest=n, longest=n, least=0.0)
        barred = given.whole_numbers("barred", longest=n, most=n - 1)
        return cls(design, None if noise is None else np.array(noise), barred)


@dataclass(frozen=True, eq=False)
class Deployed:
    """What was certified, played for everybody.

    chosen: a policy or a lottery.
    """

    chosen: Chosen

    @property
    def n_actions(self) -> int:
        return self.chosen.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """1 for the action that the policy takes, or as likely as its lottery makes it (n, A)."""
        if isinstance(self.chosen, Lottery):
            return self.chosen.propensities(contexts)
        return np.eye(self.n_actions)[self.chosen(contexts)]

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {"kind": "deployed", "policy": self.chosen.to_json()}


Live = LiveDesign | Deployed


def live(sampler: Sampler, contexts: Contexts) -> LiveDesign:
    """A trial's sampler as an experiment plays it; contexts: the known ones."""
    if isinstance(sampler, LiveDesign):
        return sampler
    if isinstance(sampler, Sparing):
        return without(live(sampler.sampler, contexts), sampler.spared)
    if isinstance(sampler, NoisyDesign):
        noise = contexts.weights @ variances(sampler.fitted.predict(contexts))
        return LiveDesign(slim(sampler.design), noise)
    if isinstance(sampler, Design):
        return LiveDesign(slim(sampler))
    raise InputError(f"an experiment plays designs, and {type(sampler).__name__} is none; use coda or uniform")


def without(design: LiveDesign, barred: tuple[int, ...]) -> LiveDesign:
    """The same design without some actions."""
    return replace(design, barred=tuple(sorted({*design.barred, *barred})))


def slim(design: Design) -> Design:
    """The same design without the policies that weigh nothing."""
    kept = np.flatnonzero(design.weights > 0)
    if len(kept) == len(design.support) or not len(kept):
        return design
    support: tuple[Policy, ...] = tuple(design.support[int(i)] for i in kept)
    return replace(design, support=support, weights=design.weights[kept])


def live_from_json(value: object, policies: PolicyClass | None = None) -> Live:
    """What `to_json` of either wrote."""
    given = Fields.read(value, of="design")
    if given.one_of("kind", ("design", "deployed")) == "deployed":
        return Deployed(chosen_from_json(given["policy"], policies))
    return LiveDesign.from_json(value, policies)
