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

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, cast

import numpy as np

from pacbandits.arrays import FloatArray, as_read, floats
from pacbandits.checks import settle
from pacbandits.errors import InputError
from pacbandits.policies import chosen_from_json, policy_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.trees.tree_policy import StackedTrees, stack
from pacbandits.records import Chosen, Contexts, Design, Log, Mixture, Policy, Sampler
from pacbandits.records.design import Sparing, spare_actions
from pacbandits.rewards import FittedModel, StoredFit, fit_from_json, stored_fit
from pacbandits.schema import Fields, Json
from pacbandits.trials.coda import MAX_POOLED_POLICIES, NoisyDesign, heaviest, variances
from pacbandits.trials.late_rewards import PlayedRound
from pacbandits.trials.pilot_rows import LoggedSampler
from pacbandits.trials.trial import Exploration

# The samplers of a live experiment: those of a trial, stored so that they are the same wherever they are read, and fast
# for one request.
#
# A trial's design weights actions by what a reward model predicts of the noise in each context. The fitted model is
# stored with the design: with the same people, an experiment then plays the very rounds of the trial in simulation. A
# model that is too large to be stored is replaced by one number per action, the mean over the known contexts, and the
# round says so. That does not affect the validity of claims, only the sample size.
#
# A new kind of sampler is a subclass of `StoredSampler`, with a line in `live` and one in SAMPLERS.


MAX_SUPPORT = 100_000  # of a design in JSON
MAX_MODEL_CHARACTERS = 2**20  # of a fitted reward model in JSON; servers read it once, and predict in microseconds


class StoredSampler(ABC):
    """A sampler that the event log holds.

    barred: excluded actions; the relative probabilities of the others are unchanged.
    """

    kind: ClassVar[str]
    barred: tuple[int, ...]

    @property
    @abstractmethod
    def n_actions(self) -> int: ...

    @abstractmethod
    def whole_propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A), as if no action were excluded."""

    @abstractmethod
    def to_json(self) -> Json:
        """Serialise to JSON-compatible values, from which anyone's propensities follow."""

    @property
    def pool(self) -> tuple[Policy, ...]:
        """The policies from which the next design starts."""
        return ()

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        return spare_actions(self.whole_propensities(contexts), self.barred)

    def check_barred(self) -> None:
        """Raise InputError unless some actions are left."""
        if not set(self.barred) < set(range(self.n_actions)):
            raise InputError(f"some of {self.n_actions} actions must be left, and {list(self.barred)} are excluded")


@dataclass(frozen=True, eq=False)
class LiveDesign(StoredSampler):
    """A design that weights actions by their noise: by a fitted reward model, or by one number each.

    design: the design.
    noise (A,): the weights, 0 or more; None for no weights, or if there is a model.
    barred: excluded actions; the relative probabilities of the others are unchanged.
    fitted: the reward model; None for none.
    simplified: why there is none though the trial's design has one; empty otherwise.
    """

    kind: ClassVar[str] = "design"

    design: Design
    noise: FloatArray | None = None
    barred: tuple[int, ...] = ()
    fitted: StoredFit | None = None
    simplified: str = ""

    def __post_init__(self) -> None:
        if self.noise is not None:
            settle(self, noise=floats(self.noise, name="noise", shape=(self.n_actions,)))
        self.check_barred()

    @property
    def n_actions(self) -> int:
        return self.design.n_actions

    @property
    def pool(self) -> tuple[Policy, ...]:
        return heaviest(self.design, most=MAX_POOLED_POLICIES)

    def whole_propensities(self, contexts: Contexts) -> FloatArray:
        noise = None if self.noise is None else np.broadcast_to(self.noise, (len(contexts), self.n_actions))
        noise = noise if self.fitted is None else variances(self.fitted.predict(contexts))
        asked = None if self._stacked is None else self._stacked(contexts)
        return self.design.propensities(contexts, noise=noise, asked=asked)

    @cached_property
    def _stacked(self) -> StackedTrees | None:
        return stack((*self.design.support, self.design.reference))

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values; `pacbandits.records.Design` defines the probabilities."""
        d = self.design
        return {
            "kind": self.kind,
            "support": [policy.to_json() for policy in d.support],
            "weights": d.weights.tolist(),
            "reference": d.reference.to_json(),
            "floor": d.floor,
            "smoothing": d.smoothing,
            "even_share": d.even_share,
            "noise": None if self.noise is None else self.noise.tolist(),
            "barred": list(self.barred),
            **({} if self.fitted is None else {"model": self.fitted.to_json()}),
            **({"simplified": self.simplified} if self.simplified else {}),
        }

    @classmethod
    def from_json(cls, given: Fields, policies: PolicyClass | None = None) -> LiveDesign:
        """Parse the output of `to_json`."""
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
        fitted = fit_from_json(given["model"], n_actions=n) if "model" in given else None
        simplified = given.text("simplified") if "simplified" in given else ""
        return cls(design, None if noise is None else np.array(noise), barred, fitted, simplified)


@dataclass(frozen=True, eq=False)
class Deployed:
    """The certified policy, played for everybody.

    chosen: a policy or a mixture policy.
    """

    kind: ClassVar[str] = "deployed"

    chosen: Chosen

    @property
    def n_actions(self) -> int:
        return self.chosen.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A): 1 for the policy's action, or the probabilities of a mixture policy."""
        if isinstance(self.chosen, Mixture):
            return self.chosen.propensities(contexts)
        return np.eye(self.n_actions)[self.chosen(contexts)]

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {"kind": self.kind, "policy": self.chosen.to_json()}

    @classmethod
    def from_json(cls, given: Fields, policies: PolicyClass | None = None) -> Deployed:
        """Parse the output of `to_json`."""
        return cls(chosen_from_json(given["policy"], policies))


SAMPLERS: dict[str, type[LiveDesign | Deployed]] = {one.kind: one for one in (LiveDesign, Deployed)}
Live = StoredSampler | Deployed


def live(sampler: Sampler, contexts: Contexts) -> StoredSampler:
    """Convert a trial's sampler to the one that an experiment stores and plays; contexts: the known ones."""
    if isinstance(sampler, StoredSampler):
        return sampler
    if isinstance(sampler, Sparing):
        return without(live(sampler.sampler, contexts), sampler.spared)
    if isinstance(sampler, NoisyDesign):
        design = slim(sampler.design)
        try:
            return LiveDesign(design, fitted=small_fit(sampler.fitted))
        except InputError as error:
            noise = contexts.weights @ variances(sampler.fitted.predict(contexts))
            return LiveDesign(design, noise, simplified=f"each action has one noise figure, as {error}")
    if isinstance(sampler, Design):
        return LiveDesign(slim(sampler))
    raise InputError(f"an experiment plays designs, and {type(sampler).__name__} is none; use coda or uniform")


def small_fit(fitted: FittedModel) -> StoredFit:
    """Return a fitted reward model in the form that is stored; raise InputError if it has none, or is too large."""
    fit = stored_fit(fitted)
    size = len(json.dumps(fit.to_json()))
    if size > MAX_MODEL_CHARACTERS:
        raise InputError(
            f"the fitted reward model has {size:,} characters, and at most {MAX_MODEL_CHARACTERS:,} are stored"
        )
    return fit


def without(sampler: StoredSampler, barred: tuple[int, ...]) -> StoredSampler:
    """Return the sampler with more excluded actions."""
    return replace(cast(Any, sampler), barred=tuple(sorted({*sampler.barred, *barred})))


def slim(design: Design) -> Design:
    """Return the design without the policies of weight 0."""
    kept = np.flatnonzero(design.weights > 0)
    if len(kept) == len(design.support) or not len(kept):
        return design
    support: tuple[Policy, ...] = tuple(design.support[int(i)] for i in kept)
    return replace(design, support=support, weights=design.weights[kept])


def live_from_json(value: object, policies: PolicyClass | None = None) -> Live:
    """Parse the output of `to_json` of any of SAMPLERS."""
    given = Fields.read(value, of="design")
    return SAMPLERS[given.one_of("kind", SAMPLERS)].from_json(given, policies)


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

    @property
    def words(self) -> str:
        """Return a description of its beginning."""
        if self.kind == "continued":
            return f"round {self.number} goes on with the design of round {self.design}"
        if self.kind == "pilot":
            return f"round {self.number}: rows of the pilot"
        if self.kind == "deployed":
            return f"round {self.number}: everybody gets what the certified policy says"
        simplified = self.sampler.simplified if isinstance(self.sampler, LiveDesign) else ""
        return f"round {self.number} begins, planned for {self.planned:,}{'; ' if simplified else ''}{simplified}"

    def played(self) -> PlayedRound:
        """Return the round as the trial's code represents it."""
        pool = self.sampler.pool if isinstance(self.sampler, StoredSampler) else ()
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
