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
from typing import Literal

from pacbandits.arrays import as_read
from pacbandits.experiment.live_design import Live, LiveDesign, live_from_json
from pacbandits.fields import Fields, Json
from pacbandits.policies import policy_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Policy
from pacbandits.trials.late import PlayedRound
from pacbandits.trials.trial import Exploration

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
