"""Rounds as entries of the record: what is played, staked and believed in each, written down before it begins.

A round of kind `design` has a design of its own. When as many have come as it was planned for, or its time is over, a
round `continued` begins at once, with the same design, stakes and leader, while the next one is computed from what is
known. A round `deployed` plays what was certified; it is no part of the trial.

Whoever designs takes a snapshot first: all records before a number `snapshot`, at a time `snapshot_at`. The design, the
leader, and the predictions by which its rows are scored know the rewards of the first `mature` rows, as far as they
were in by then, and nothing else of what came of anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from pacbandits.arrays import FloatArray, as_read, floats
from pacbandits.checks import settle
from pacbandits.errors import InputError
from pacbandits.policies import chosen_from_json, policy_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.trees.tree_policy import StackedTrees, stack
from pacbandits.records import Chosen, Contexts, Design, Lottery, Policy, Sampler
from pacbandits.records.design import Sparing, spare_actions
from pacbandits.schema import Fields, Json
from pacbandits.trials.coda import NoisyDesign, variances
from pacbandits.trials.late_rewards import PlayedRound
from pacbandits.trials.trial import Exploration

# Designs as a live experiment plays them: small, the same wherever they are read, and quick for one person.
#
# A trial's own designs may weigh actions by what a reward model predicts of the noise in a context, and such a model
# may hold all the data. What is played here weighs each action by one number, its mean over the known contexts. Never
# does that change what may be claimed. It may cost people: 1.2 times as many on trees:actions=16,competitive=3 (the
# geometric mean of 14 pairs of runs, of which 10 took more), though designs are priced the same to a percent.


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
        """Parse the output of `to_json`."""
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
        """Serialise to JSON-compatible values."""
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


Kind = Literal["design", "continued", "deployed"]
KINDS: tuple[Kind, ...] = ("design", "continued", "deployed")
ROUND = "round"  # the kind of entry
LOOK = "look"  # that of a look at the data, whose time tells which windows are over
ENDLESS = 2**52  # planned, of a round that no count ends


@dataclass(frozen=True, eq=False)
class Round:
    """A round, as it was fixed before it began.

    number: from 0.
    kind: see above.
    planned: how many were to take part.
    sampler: what is played.
    scale: of its bets.
    price: V/d² of the policy that the sampler serves worst.
    since: after how many rows the sampler was chosen.
    leader: who leads; None where nobody does.
    design: the number of the round whose design it plays.
    snapshot: how many records were known to the design.
    snapshot_at: when, in microseconds.
    mature: of how many of the first rows the rewards were used, as far as they were in.
    opened: when, in microseconds.
    sequence: the number of its entry; -1 before it has one.
    model: the reward model in JSON.
    """

    number: int
    kind: Kind
    planned: int
    sampler: Live
    scale: float
    price: float
    since: int
    leader: Policy | None
    design: int
    snapshot: int
    snapshot_at: int
    mature: int
    model: Json
    opened: int = -1
    sequence: int = -1

    def continued(self, *, rows: int) -> Round:
        """The round after this one, with the same design, planned for as many again as there were before."""
        kind: Kind = "continued"
        return replace(self, number=self.number + 1, kind=kind, planned=max(self.planned, rows, 1), sequence=-1)

    def played(self) -> PlayedRound:
        """As a trial takes it."""
        pool = self.sampler.design.support if isinstance(self.sampler, LiveDesign) else ()
        exploration = Exploration(self.sampler, self.price, self.since, pool=pool if self.since else ())
        return PlayedRound(exploration, self.scale, self.planned, self.leader)

    def to_json(self) -> Json:
        """What its entry says: of a continued one, whose design it plays."""
        common: Json = {"number": self.number, "kind": self.kind, "planned": self.planned}
        if self.kind == "continued":
            return common | {"design": self.design}
        return as_read(
            common
            | {
                "sampler": self.sampler.to_json(),
                "scale": self.scale,
                "price": self.price,
                "since": self.since,
                "leader": None if self.leader is None else self.leader.to_json(),
                "snapshot": self.snapshot,
                "snapshot_at": self.snapshot_at,
                "mature": self.mature,
                "model": self.model,
            }
        )


def round_from_json(
    value: object, before: Sequence[Round], policies: PolicyClass | None, *, opened: int, sequence: int
) -> Round:
    """The round that an entry tells of; before: all earlier ones."""
    given = Fields.read(value, of="round")
    number, kind = given.whole_number("number"), given.one_of("kind", KINDS)
    planned = given.whole_number("planned", least=1)
    if kind == "continued":
        of = before[given.whole_number("design", most=len(before) - 1)]
        same: Kind = "continued"
        return replace(of, number=number, kind=same, planned=planned, opened=opened, sequence=sequence)
    return Round(
        number=number,
        kind="design" if kind == "design" else "deployed",
        planned=planned,
        sampler=live_from_json(given["sampler"], policies),
        scale=given.number("scale"),
        price=given.number("price"),
        since=given.whole_number("since"),
        leader=None if given["leader"] is None else policy_from_json(given["leader"], policies),
        design=number,
        snapshot=given.whole_number("snapshot"),
        snapshot_at=given.whole_number("snapshot_at"),
        mature=given.whole_number("mature"),
        model=given.json_object("model"),
        opened=opened,
        sequence=sequence,
    )
