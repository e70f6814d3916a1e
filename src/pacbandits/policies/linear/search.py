"""The search for a good parameter of the grid where looking at all of them is out of reach.

    1. what is cheap to know: constant policies and those of a single coefficient
    2. ascents on the smoothed value, from the least-squares fit and from elsewhere, first anywhere, then on the grid
    3. from where these end, ascent one coefficient at a time; from the best, kicks and the same again
    4. where there are many rows, of which 2 and 3 have seen a sample: the best few, and the fit to all rows, as in 3

Nothing in it depends on earlier calls, and its random numbers are always the same: equal scores give equal policies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import over_cores
from pacbandits.policies.base import compact
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.linear.acting import DistinctRows, Table, act
from pacbandits.policies.linear.ascent import Metric, Smooth
from pacbandits.policies.linear.climb import Slope, slope_of
from pacbandits.policies.linear.grid import primitive, simplest
from pacbandits.policies.linear.simple import roundings, simple_parameters

# Rows that steps 2 and 3 look at: as many as this work allows (rows × what it costs to climb one), within limits.
_SAMPLE_WORK = 1.6e5
_SAMPLE_ROWS = (3_000, 8_000)
# Kicks: as many as this work allows (rows × what it costs to climb one × kicks), up to a limit.
_KICK_WORK = 2.4e6
_MOST_KICKS = 160
_KICKS_FOR_A_SECOND_START = 24  # where so many are affordable, there is time for it
_KICKED_SHARES = (0.04, 0.04, 0.12, 0.12)  # of the coefficients, drawn anew on average: one kick each, side by side
_ROUNDED_SIZES = (1.0, 1.7)  # of the largest coefficient before rounding, as shares of the largest level
_FINALISTS = 2
_SEARCH_TIE_SHARE = 1e-12  # of all that is at stake

End = tuple[IntArray, float]  # a parameter where an ascent ended, and its value


@dataclass(frozen=True, eq=False)
class Ground:
    """What a search needs to know of contexts, whatever the scores.

    rows: φ.
    levels: the largest coefficient.
    metric: what measures steps of the ascent.
    slope: the rows laid out for the ascent one coefficient at a time.
    pool (K, d): parameters of simple policies, the simplest first.
    actions (K, m): what these do.
    """

    rows: DistinctRows
    levels: int
    metric: Metric
    slope: Slope
    pool: IntArray
    actions: Table

    @classmethod
    def of(cls, rows: DistinctRows, *, levels: int) -> Ground:
        metric = Metric.of(rows)
        pool = simple_parameters(rows, levels, metric)
        actions = np.stack([act(rows, one).astype(compact(rows.n_actions)) for one in pool])
        return cls(rows, levels, metric, slope_of(rows), pool, actions)

    def search(self, scores: FloatArray, *, times: int = 1) -> IntArray:
        """The parameter (d,) of the best policy found for scores (m, A), with `times` the usual effort."""
        low = scores.min(axis=1, keepdims=True)
        spans = scores.max(axis=1) - low[:, 0]
        if not spans.max() > 0:
            return self.pool[0]
        scores = (scores - low) / spans.max()
        values = sum_scores(self.actions, scores)
        simple = self.pool[np.argsort(-values, kind="stable")[: times * _FINALISTS]]
        picked, sampled = _sample(scores, spans / spans.max(), size=sampled_rows(self.slope.cost))
        if picked is None:
            found = self._explore(self.rows, self.slope, scores, simple, times)
        else:
            few = self.rows.some(picked)
            ends = self._explore(few, slope_of(few), sampled, simple, times)
            found = self._polish([end for end, _ in ends[: times * _FINALISTS]], scores, times)
        return self._best([simple[0], *(end for end, _ in found)], scores)

    def _explore(self, rows: DistinctRows, slope: Slope, scores: FloatArray, simple: IntArray, times: int) -> list[End]:
        """Steps 2 and 3: where they end, the best first."""
        rng = np.random.default_rng(0)
        smooth = Smooth(rows, scores, self.metric)
        share = _KICK_WORK / (len(rows) * slope.cost)
        others = times * (1 if share < _KICKS_FOR_A_SECOND_START else 2) - 1
        starts = list(simple)
        for begin in (smooth.fit(), *(rng.standard_normal(rows.dimension) for _ in range(others))):
            free = smooth.ascend(begin, steps=50, temperatures=(0.5, 0.02), lengths=(0.3, 0.02))
            size = np.abs(free).max()
            for scale in _ROUNDED_SIZES if size > 0 else ():
                onto = free * (scale * self.levels / size)
                starts.append(smooth.ascend_on_grid(onto, levels=self.levels, steps=40))
        ends = self._climb(slope, starts, scores)
        kicks = times * kicks_for(len(rows), slope.cost)
        return [self._kick(slope, ends[0], scores, kicks, rng), *ends]

    def _polish(self, found: list[IntArray], scores: FloatArray, times: int) -> list[End]:
        """Step 4, on all rows."""
        fits = roundings(Smooth(self.rows, scores, self.metric).fit(), self.levels)
        ends = self._climb(self.slope, [*found, self._best(list(fits), scores)], scores)
        kicks = times * int(min(_KICK_WORK / (len(scores) * self.slope.cost), _MOST_KICKS))
        return [self._kick(self.slope, ends[0], scores, kicks, np.random.default_rng(1)), *ends]

    def _climb(self, slope: Slope, starts: list[IntArray], scores: FloatArray) -> list[End]:
        """Where ascents one coefficient at a time end, the best first."""
        ends: list[End] = [(start, -np.inf) for start in starts]

        def climb(first: int, last: int) -> None:
            for k in range(first, last):
                ends[k] = slope.climb(starts[k], scores, levels=self.levels)

        over_cores(climb, count=len(starts))
        return sorted(ends, key=lambda end: -end[1])

    def _kick(self, slope: Slope, end: End, scores: FloatArray, kicks: int, rng: np.random.Generator) -> End:
        """The best of where ascents from the neighbourhood end, and from the neighbourhood of that, and so on."""
        best, top = end
        for _ in range(0, kicks - len(_KICKED_SHARES) + 1, len(_KICKED_SHARES)):
            kicked = [_drawn_anew(best, self.levels, share, rng) for share in _KICKED_SHARES]
            other, value = self._climb(slope, kicked, scores)[0]
            if value >= top:
                best, top = other, value
        return best, top

    def _best(self, found: list[IntArray], scores: FloatArray) -> IntArray:
        """The best of parameters, judged by what their policies do; of equals the simplest."""
        tried = np.array([primitive(one) for one in found])
        rows = np.arange(len(scores))
        values = np.array([scores[rows, act(self.rows, one)].sum() for one in tried])
        top = tried[values >= values.max() - _SEARCH_TIE_SHARE * scores.max(axis=1).sum()]
        return top[simplest(top)]


def sampled_rows(work: float) -> int:
    """How many rows are explored at the most, given what it takes to climb one."""
    return int(np.clip(_SAMPLE_WORK / work, *_SAMPLE_ROWS))


def kicks_for(n_rows: int, work: float) -> int:
    """How many kicks there are on so many rows, given what it takes to climb one."""
    return int(np.clip(_KICK_WORK / (n_rows * work), 2 * len(_KICKED_SHARES), _MOST_KICKS))


def _sample(scores: FloatArray, spans: FloatArray, *, size: int) -> tuple[IntArray | None, FloatArray]:
    """Rows drawn in proportion to what is at stake on them, each then with the same at stake; None for all rows."""
    if len(scores) <= size:
        return None, scores
    edges: FloatArray = np.cumsum(spans)
    marks: FloatArray = (np.arange(size) + np.random.default_rng(0).random()) * (edges[-1] / size)
    picked = np.minimum(np.searchsorted(edges, marks), len(scores) - 1)
    return picked, np.ascontiguousarray(scores[picked] / np.maximum(spans[picked], 1e-300)[:, None])


def _drawn_anew(parameter: IntArray, levels: int, share: float, rng: np.random.Generator) -> IntArray:
    """A parameter of which a few coefficients, two or more where there are, are random."""
    d = len(parameter)
    size = min(d, 1 + int(rng.geometric(1.0 / max(1.5, share * d))))
    out = parameter.copy()
    out[rng.choice(d, size=size, replace=False)] = rng.integers(-levels, levels + 1, size)
    return out
