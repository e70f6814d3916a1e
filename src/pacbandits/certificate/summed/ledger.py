"""A log that is asked for sums: what `pacbandits.certificate.ledger` is for rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.moving import AnyAgainst
from pacbandits.certificate.summed.questions import (
    GAP_BITS,
    SQUARE_BITS,
    GapSums,
    PartSums,
    WealthSums,
    check_room,
    wealth_bits,
)
from pacbandits.certificate.summed.setting import Setting
from pacbandits.engines import Engine, Source
from pacbandits.errors import count_of
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.summing import Summation
from pacbandits.records import Contexts, Policy

MAX_SUM_BYTES = 3 * 10**8  # that are added to in one pass; experts who need more are asked for in several


class PoliciesAgainst(NamedTuple):
    """What policies are scored against, by the leaders themselves: as `rows.Against` by their actions."""

    policies: tuple[Policy, ...]
    turns: IntArray
    moves: FloatArray


@dataclass(eq=False)
class SummedLedger:
    """A log that is asked for sums over its rows.

    source: where rows come from.
    engine: who adds up.
    setting: what scores are made from.
    summing: how the class adds them up.
    samples: how many interactions there are.
    passes: how often rows were read so far.
    """

    source: Source
    engine: Engine
    setting: Setting
    summing: Summation
    samples: int
    passes: int = 0
    _known: list[tuple[tuple[Any, ...], AnyAgainst, list[FloatArray]]] = field(default_factory=list[Any])

    @property
    def contexts(self) -> Contexts:
        return self.summing.contexts

    @property
    def n_rounds(self) -> int:
        return self.setting.n_rounds

    @property
    def round_sizes(self) -> FloatArray:
        return self.setting.arrangement.counts

    def searched(self, policies: PolicyClass) -> PolicyClass:
        """The class as it is searched by sums."""
        return self.summing.policies

    def against(self, policies: Sequence[Policy], turns: IntArray, moves: FloatArray) -> PoliciesAgainst:
        """What policies are scored against: these, who lead in turns (rounds,) and give up moves (rounds, L)."""
        return PoliciesAgainst(tuple(policies), turns, moves)

    def log_wealths(
        self, against: AnyAgainst, *, stakes: Sequence[FloatArray], share: float, epsilon: float
    ) -> list[FloatArray]:
        """Sums of the log-wealth of experts with these stakes (rounds,) each, in as few passes as memory allows."""
        assert isinstance(against, PoliciesAgainst)
        whom = tuple(map(id, against.policies)), against.turns.tobytes(), against.moves.tobytes()
        key = (tuple(tuple(one) for one in stakes), share, epsilon, *whom)
        for known, _, found in self._known:
            if known == key:
                return found
        found = self._ask_wealths(against, np.array(stakes), share, epsilon)
        self._known = [(key, against, found)]  # those of the last pass, which are asked for again
        return found

    def _ask_wealths(
        self, against: PoliciesAgainst, stakes: FloatArray, share: float, epsilon: float
    ) -> list[FloatArray]:
        width, bits = self.summing.policies.n_actions, wealth_bits(self.samples)
        at_once = max(1, MAX_SUM_BYTES // max(self.summing.zeros(width).nbytes, 1))
        out: list[FloatArray] = []
        for start in range(0, len(stakes), at_once):
            some = stakes[start : start + at_once]
            asked = WealthSums(self.setting, self.summing, *against, some, share, epsilon, bits)
            sums = self._ask(asked, f"betting by {count_of(len(some), 'expert')}")
            check_room(sums)
            whole = np.ldexp(self.summing.finish(sums[0]), -bits)
            out.extend(np.ascontiguousarray(whole[..., k * width : (k + 1) * width]) for k in range(len(some)))
        return out

    def gaps(self, reference: Policy, *, before: int) -> tuple[FloatArray, FloatArray]:
        """Sums whose value at a policy is its estimated gap to a reference, and the square of that one's error.

        By the rows of the rounds before one.
        """
        (sums,) = self._ask(GapSums(self.setting, self.summing, reference, before), "comparing policies")
        whole, width = self.summing.finish(sums), self.summing.policies.n_actions
        seen = float(self.round_sizes[:before].sum())
        gaps, squares = np.ldexp(whole[..., :width], -GAP_BITS), np.ldexp(whole[..., width:], -SQUARE_BITS)
        return np.ascontiguousarray(gaps) / seen, np.ascontiguousarray(squares) / seen**2

    def part_gaps(
        self, policies: PolicyClass, reference: Policy, *, before: int, n_parts: int
    ) -> tuple[FloatArray, FloatArray]:
        """The same (parts, A) by the parts on which the reference, and the simpler ones made from it, act alike."""
        asked = PartSums(self.setting, policies, reference, before, n_parts)
        gaps, squares = self._ask(asked, "looking for a simpler policy")
        seen = float(self.round_sizes[:before].sum())
        return np.ldexp(gaps.astype(np.float64), -GAP_BITS) / seen, np.ldexp(
            squares.astype(np.float64), -SQUARE_BITS
        ) / seen**2

    def _ask(self, question: Any, what: str) -> Any:
        self.passes += 1
        return self.engine.ask(self.source, question, what=what)
