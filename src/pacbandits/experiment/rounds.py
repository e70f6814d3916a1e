"""Rounds as entries of the event log: the design, stakes, leader and model of each, logged before it begins.

A round of kind `design` has its own design. When it is full, or its time is over, a round of kind `continued` begins
at once with the same design, stakes and leader, while the next design is computed. A round of kind `deployed` plays the
certified policy; it is not part of the trial. Rounds of kind `pilot` come first: their rows are those of the pilot of
the protocol, stored at creation, and their stakes and leaders follow from the rows before them
(`pacbandits.trials.pilot_rows`).

A design is computed from a snapshot: all records before the sequence number `snapshot`, at the time `snapshot_at`. The
design, the leader, and the predictions that score the round's rows use the rewards of the first `mature` rows that
were known by then, and no other rewards.
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
from pacbandits.records import Chosen, Contexts, Design, Log, Lottery, Policy, Sampler
from pacbandits.records.design import Sparing, spare_actions
from pacbandits.schema import Fields, Json
from pacbandits.trials.coda import NoisyDesign, variances
from pacbandits.trials.late_rewards import PlayedRound
from pacbandits.trials.pilot_rows import LoggedSampler
from pacbandits.trials.trial import Exploration

# Designs of a live experiment: small, reproducible wherever they are read, and fast for one request.
#
# A trial's own designs may weight actions by a reward model's prediction of the noise in each context, and such a model
# may hold all the data. A live design weights each action by one number, the mean of that over the known contexts.
# This does not affect the validity of claims. It may cost samples: 1.2 times as many on trees:actions=16,competitive=3
# (the geometric mean of 14 pairs of runs, of which 10 took more), though the designs' prices agree to a percent.


MAX_SUPPORT = 100_000  # of a design in JSON


@dataclass(frozen=True, eq=False)
class LiveDesign:
    """A design with one noise weight per action.

    design: the design.
    noise (A,): the weights, 0 or more; None for no weights.
    barred: excluded actions; the relative probabilities of the others are unchanged.
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
        """Return p(a|c) as (n, A)."""
        noise = None if self.noise is None else np.broadcast_to(self.noise, (len(contexts), self.n_actions))
        asked = None if self._stacked is None else self._stacked(contexts)
        return spare_actions(self.design.propensities(contexts, noise=noise, asked=asked), self.barred)

    @cached_property
    def _stacked(self) -> StackedTrees | None:
        return stack((*self.design.support, self.design.reference))

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values; `pacbandits.records.Design` defines the probabilities."""
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
    """The certified policy, played for everybody.

    chosen: a policy or a mixture policy.
    """

    chosen: Chosen

    @property
    def n_actions(self) -> int:
        return self.chosen.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A): 1 for the policy's action, or the probabilities of a mixture policy."""
        if isinstance(self.chosen, Lottery):
            return self.chosen.propensities(contexts)
        return np.eye(self.n_actions)[self.chosen(contexts)]

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {"kind": "deployed", "policy": self.chosen.to_json()}


Live = LiveDesign | Deployed


def live(sampler: Sampler, contexts: Contexts) -> LiveDesign:
    """Convert a trial's sampler to a live design; contexts: the known ones."""
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
    """Return the design with more excluded actions."""
    return replace(design, barred=tuple(sorted({*design.barred, *barred})))


def slim(design: Design) -> Design:
    """Return the design without the policies of weight 0."""
    kept = np.flatnonzero(design.weights > 0)
    if len(kept) == len(design.support) or not len(kept):
        return design
    support: tuple[Policy, ...] = tuple(design.support[int(i)] for i in kept)
    return replace(design, support=support, weights=design.weights[kept])


def live_from_json(value: object, policies: PolicyClass | None = None) -> Live:
    """Parse the output of `LiveDesign.to_json` or `Deployed.to_json`."""
    given = Fields.read(value, of="design")
    if given.one_of("kind", ("design", "deployed")) == "deployed":
        return Deployed(chosen_from_json(given["policy"], policies))
    return LiveDesign.from_json(value, policies)


@dataclass(frozen=True, eq=False)
class Piloted:
    """The sampler of a pilot's round: each row has its own propensities, which follow from no design.

    n_actions: the number of actions.
    """

    n_actions: int

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Raise InputError: nobody else is assigned by it."""
        raise InputError("a pilot is over when the experiment begins, and assigns nobody an action")

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {"kind": "pilot", "actions": self.n_actions}


Kind = Literal["design", "continued", "deployed", "pilot"]
KINDS: tuple[Kind, ...] = ("design", "continued", "deployed", "pilot")
ROUND = "round"  # kind of the log entry of a round
LOOK = "look"  # that of an interim analysis, whose time determines which windows are over
ENDLESS = 2**52  # planned size of a round without a limit


@dataclass(frozen=True, eq=False)
class Round:
    """A round, as fixed before it began.

    number: from 0.
    kind: design, continued, deployed or pilot; see the module docstring.
    planned: planned number of rows.
    sampler: the design or deployed policy that is played.
    scale: scale of its bets.
    price: price of the sampler, the largest V/d² over policies.
    since: number of samples with known rewards when the sampler was chosen.
    leader: the leading policy; None if there is none.
    design: number of the round whose design it plays.
    snapshot: number of records that the design is based on.
    snapshot_at: time of that snapshot in microseconds.
    mature: number of first rows whose known rewards the design used.
    opened: when it was opened, in microseconds.
    sequence: number of its log entry; -1 before it has one.
    model: the reward model in JSON.
    """

    number: int
    kind: Kind
    planned: int
    sampler: Live | Piloted
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
        """Return the next round, with the same design; its plan is `rows`, but at least this round's plan."""
        kind: Kind = "continued"
        return replace(self, number=self.number + 1, kind=kind, planned=max(self.planned, rows, 1), sequence=-1)

    def played(self) -> PlayedRound:
        """Return the round as the trial's code represents it."""
        pool = self.sampler.design.support if isinstance(self.sampler, LiveDesign) else ()
        exploration = Exploration(self.sampler, self.price, self.since, pool=pool if self.since else ())
        return PlayedRound(exploration, self.scale, self.planned, self.leader)

    def to_json(self) -> Json:
        """Return the body of its log entry; a continued round only refers to the round whose design it plays."""
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


def played_rounds(rounds: Sequence[Round], log: Log) -> list[PlayedRound]:
    """Return rounds as the trial's code represents them; those of a pilot with the propensities of their rows.

    log: rows of these rounds, at least those of the pilot.
    """
    out = [one.played() for one in rounds]
    for place, one in enumerate(rounds):
        if one.kind == "pilot":  # by the rows so far alone, as leaders are chosen by it
            sampler = LoggedSampler.of(log.only(log.rounds <= one.number))
            out[place] = replace(out[place], exploration=replace(out[place].exploration, sampler=sampler))
    return out


def _pilot_from_json(given: Fields) -> Piloted:
    told = given.fields("sampler", of="pilot's round")
    return Piloted(told.whole_number("actions", least=1))


def round_from_json(
    value: object, before: Sequence[Round], policies: PolicyClass | None, *, opened: int, sequence: int
) -> Round:
    """Parse a round from the body of its log entry; before: all earlier rounds."""
    given = Fields.read(value, of="round")
    number, kind = given.whole_number("number"), given.one_of("kind", KINDS)
    planned = given.whole_number("planned", least=1)
    if kind == "continued":
        of = before[given.whole_number("design", most=len(before) - 1)]
        same: Kind = "continued"
        return replace(of, number=number, kind=same, planned=planned, opened=opened, sequence=sequence)
    return Round(
        number=number,
        kind=next(one for one in KINDS if one == kind),
        planned=planned,
        sampler=_pilot_from_json(given) if kind == "pilot" else live_from_json(given["sampler"], policies),
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
