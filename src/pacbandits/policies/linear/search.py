"""Local search for a good parameter where the grid is too large to enumerate.

    1. candidates that are cheap to evaluate: constant policies and policies of a single coefficient
    2. ascent on the smoothed value, from the least-squares fit and from random starts, first in R^d, then on the grid
    3. coordinate ascent from the results; from the best, random kicks and coordinate ascent again
    4. with many rows, of which 2 and 3 use a sample: step 3 on all rows, from the best few and the fit to all rows

The search has no state and fixed random seeds: equal scores give equal policies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.policies.base import at_stake, compact
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.linear.enumeration import count_directions, directions, primitive, simplest
from pacbandits.policies.linear.policy import DistinctRows, Table, act

# Coordinate ascent on the grid: each coefficient in turn is set to the best of its 2L + 1 values, until none improves.


# Linear scores this close, relative to the largest possible, count as equal, as the ascent sums them in different
# orders. The same holds for values, relative to the total stake.
_CLIMB_TIE_SHARE = 1e-12
_MOST_SWEEPS = 30


@dataclass(frozen=True, eq=False)
class BlockSlope:
    """Rows laid out for coordinate ascent, with a block of coefficients for each action.

    x (u, m): the columns of the rows.
    inverse (u, m): 1/x, 0 where x is 0.
    actions (k,): the action of each block.
    """

    x: FloatArray
    inverse: FloatArray
    actions: IntArray

    @property
    def cost(self) -> float:
        """The relative cost, per row, of one pass over all coefficients."""
        return climbing_work(len(self.x) * len(self.actions), in_blocks=True)

    def climb(self, parameter: IntArray, scores: FloatArray, *, levels: int) -> tuple[IntArray, float]:
        """Return the end of the ascent from θ (d,) and its value, for scores (m, A)."""
        matrix = np.array(parameter, dtype=np.int64).reshape(len(self.x), -1)
        least = _CLIMB_TIE_SHARE * at_stake(scores)
        value = _climb_blocks(self.x, self.inverse, self.actions, matrix, scores, levels, least, _MOST_SWEEPS)
        return matrix.reshape(-1), value


@dataclass(frozen=True, eq=False)
class PhiSlope:
    """Rows laid out for coordinate ascent, with φ of any form.

    phi (d, m, A): φ as a dense array.
    """

    phi: FloatArray

    @property
    def cost(self) -> float:
        """The relative cost, per row, of one pass over all coefficients."""
        return climbing_work(self.phi.shape[0], n_actions=self.phi.shape[2])

    def climb(self, parameter: IntArray, scores: FloatArray, *, levels: int) -> tuple[IntArray, float]:
        """Return the end of the ascent from θ (d,) and its value, for scores (m, A)."""
        theta = np.array(parameter, dtype=np.int64)
        return theta, _climb_phi(self.phi, theta, scores, levels, _CLIMB_TIE_SHARE * at_stake(scores), _MOST_SWEEPS)


Slope = BlockSlope | PhiSlope


def climbing_work(dimension: int, *, n_actions: int = 1, in_blocks: bool = False) -> float:
    """Return the relative cost, per row, of one pass over all coefficients; one in a block moves one action only."""
    return float(dimension) if in_blocks else dimension * max(1.0, 0.8 * n_actions)


def slope_of(rows: DistinctRows) -> Slope:
    """Lay out rows for the ascent."""
    blocks = rows.features.blocks()
    if blocks is None:
        return PhiSlope(np.ascontiguousarray(rows.features.spelled().transpose(2, 0, 1)))
    columns, actions = blocks
    x = np.ascontiguousarray(columns.T)
    inverse = np.divide(1.0, x, out=np.zeros_like(x), where=np.abs(x) > 1e-100)
    return BlockSlope(x, inverse, actions)


@kernel
def _value(sums: FloatArray, slack: FloatArray, scores: FloatArray) -> float:
    """Return the value of the policy with linear scores `sums` (m, A)."""
    total = 0.0
    for i in range(scores.shape[0]):
        best = 0
        for a in range(1, scores.shape[1]):
            if sums[i, a] > sums[i, best] + slack[i]:
                best = a
        total += scores[i, best]
    return total


@kernel
def _climb_blocks(
    x: FloatArray,
    inverse: FloatArray,
    block_actions: IntArray,
    matrix: IntArray,
    scores: FloatArray,
    levels: int,
    least: float,
    sweeps: int,
) -> float:
    """Ascend from the coefficients matrix (u, k), changed in place; return the value. x (u, m).

    A change must gain more than `least`. While the coefficients of one action change, the best of the other actions
    stays the same on every row.
    """
    m, n_actions = scores.shape
    columns, blocks = matrix.shape
    sums = np.zeros((n_actions, m))
    slack = np.zeros(m)
    for u in range(columns):
        for i in range(m):
            slack[i] += _CLIMB_TIE_SHARE * levels * abs(x[u, i])
    for k in range(blocks):
        for u in range(columns):
            if matrix[u, k] != 0:
                for i in range(m):
                    sums[block_actions[k], i] += x[u, i] * matrix[u, k]
    needed, gain, share, top = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    best, place = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.uint32)
    past = 2.0 * levels + 1.0
    values = np.empty(2 * levels + 2)
    idle = 0
    for _ in range(sweeps):
        for k in range(blocks):
            a = block_actions[k]
            first = 1 if a == 0 and n_actions > 1 else 0
            for i in range(m):  # slices would take seconds to compile
                top[i], best[i] = sums[first, i], first
            for b in range(first + 1, n_actions):
                if b != a:
                    for i in range(m):
                        if sums[b, i] > top[i] + slack[i]:
                            top[i] = sums[b, i]
                            best[i] = b
            for i in range(m):
                # Action a is taken where its sum exceeds this.
                needed[i] = top[i] - slack[i] if a < best[i] else top[i] + slack[i]
                gain[i] = scores[i, a] - scores[i, best[i]]
            for u in range(columns):
                own = matrix[u, k]
                values[:] = 0.0
                for i in range(m):
                    # Beyond the t at which the sum reaches this, the action is taken or (x < 0) no longer taken.
                    cross = (needed[i] - sums[a, i]) * inverse[u, i] + (own + levels + 1)
                    cross = cross if cross > 0.0 else 0.0
                    place[i] = np.uint32(cross if cross < past else past)
                    share[i] = gain[i] if inverse[u, i] > 0.0 else -gain[i] if inverse[u, i] < 0.0 else 0.0
                for i in range(m):
                    values[place[i]] += share[i]
                for t in range(1, 2 * levels + 1):
                    values[t] += values[t - 1]
                to = own + levels
                for t in range(2 * levels + 1):
                    if values[t] > values[to] + least:
                        to = t
                idle += 1
                if to != own + levels:
                    matrix[u, k] = to - levels
                    for i in range(m):
                        sums[a, i] += x[u, i] * (to - levels - own)
                    idle = 0
                if idle >= columns * blocks:
                    return _value(sums.T, slack, scores)
    return _value(sums.T, slack, scores)


@kernel
def _climb_phi(phi: FloatArray, theta: IntArray, scores: FloatArray, levels: int, least: float, sweeps: int) -> float:
    """Ascend from theta (d,), changed in place; return the value. phi (d, m, A)."""
    d, m, n_actions = phi.shape
    sums = np.zeros((m, n_actions))
    slack = np.zeros(m)
    for j in range(d):
        for i in range(m):
            size = 0.0
            for a in range(n_actions):
                sums[i, a] += phi[j, i, a] * theta[j]
                size = max(size, abs(phi[j, i, a]))
            slack[i] += _CLIMB_TIE_SHARE * levels * size
    values = np.empty(2 * levels + 2)
    ends, taken = np.empty(32, dtype=np.int64), np.empty(32, dtype=np.int64)
    idle = 0
    for _ in range(sweeps):
        for j in range(d):
            own = theta[j]
            values[:] = 0.0
            for i in range(m):
                # An action is taken on an interval of t: bisection finds where it changes, if it does.
                low, here = -levels, _taken(sums[i], phi[j, i], -levels - own, slack[i])
                ends[0], taken[0] = levels, _taken(sums[i], phi[j, i], levels - own, slack[i])
                depth = 1
                while depth > 0:
                    high, there = ends[depth - 1], taken[depth - 1]
                    if here != there and high - low > 1:
                        middle = (low + high) // 2
                        ends[depth], taken[depth] = middle, _taken(sums[i], phi[j, i], middle - own, slack[i])
                        depth += 1
                    else:
                        if here != there:
                            values[high + levels] += scores[i, there] - scores[i, here]
                        low, here = high, there
                        depth -= 1
            for t in range(1, 2 * levels + 1):
                values[t] += values[t - 1]
            to = own + levels
            for t in range(2 * levels + 1):
                if values[t] > values[to] + least:
                    to = t
            idle += 1
            if to != own + levels:
                theta[j] = to - levels
                for i in range(m):
                    for a in range(n_actions):
                        sums[i, a] += phi[j, i, a] * (to - levels - own)
                idle = 0
            if idle >= d:
                return _value(sums, slack, scores)
    return _value(sums, slack, scores)


@kernel
def _taken(sums: FloatArray, phi: FloatArray, step: int, slack: float) -> int:
    """Return the action of one row after a coefficient has moved by `step`; sums, phi (A,)."""
    best, top = 0, sums[0] + phi[0] * step
    for a in range(1, sums.shape[0]):
        score = sums[a] + phi[a] * step
        if score > top + slack:
            best, top = a, score
    return best


# Ascent on a smoothed value: a softmax policy whose temperature falls.
#
#     J_T(θ) = Σ_i Σ_a p_ia s_ia,   p_ia ∝ exp(⟨φ(c_i, a), θ⟩/T),   ∇J_T = Σ_i Σ_a p_ia (s_ia − s̄_i) φ(c_i, a)/T
#
# Steps are measured by their effect on the scores. With H the within-context covariance of φ over actions, averaged
# over contexts, a step h has the direction H⁻¹∇J and a given length √(hᵀHh), relative to √(θᵀHθ), the spread of θ's own
# scores; T is relative to that spread too. The first step from zero would lead to the least-squares fit of the scores,
# so the ascent starts there.


_METRIC_ROWS = 20_000  # enough to estimate H
_RIDGE_SHARE = 1e-3  # of the average variance
_NEGLIGIBLE_LOG_WEIGHT = -30.0


@dataclass(frozen=True, eq=False)
class SearchMetric:
    """H⁻¹ as a whole or (for crossed features) as two Kronecker factors.

    left (d, d): the whole, or (u, u): the factor of the columns.
    right (k, k): the factor of the features of actions; None if left is the whole.
    """

    left: FloatArray
    right: FloatArray | None

    @classmethod
    def of(cls, rows: DistinctRows) -> SearchMetric:
        few = rows.some(slice(None, None, -(-len(rows) // _METRIC_ROWS)))
        left, right = few.features.factors()
        return cls(_inverse(left), None if right is None else _inverse(right))

    def __call__(self, gradient: FloatArray) -> FloatArray:
        if self.right is None:
            return self.left @ gradient
        return (self.left @ gradient.reshape(len(self.left), -1) @ self.right).reshape(-1)


def _inverse(x: FloatArray) -> FloatArray:
    gram = x.T @ x / len(x)
    size = max(float(np.trace(gram)) / len(gram), 1e-300)
    inverse: FloatArray = np.linalg.inv(gram / size + _RIDGE_SHARE * np.eye(len(gram))).astype(np.float64)
    return inverse / size


@dataclass(frozen=True, eq=False)
class Smooth:
    """The smoothed value as a function of θ.

    rows: φ.
    scores (m, A): the scores of the rows.
    metric: measures steps.
    """

    rows: DistinctRows
    scores: FloatArray
    metric: SearchMetric

    def fit(self) -> FloatArray:
        """Return the least-squares parameter (d,): scores, minus their mean in each row, regressed on the features."""
        return self.metric(self.rows.features.pull(self.scores - self.scores.mean(axis=1, keepdims=True)))

    def look(self, parameter: FloatArray, temperature: float) -> tuple[float, float, FloatArray]:
        """Return the value of the hard policy, the spread of its linear scores, and T·∇J.

        temperature: T, in units of the linear scores of `parameter`.
        """
        softened = self.rows.features.scores(parameter)
        value, square = _soften(softened, self.scores, temperature)
        return value, math.sqrt(square), self.rows.features.pull(softened)

    def ascend(
        self, start: FloatArray, *, steps: int, temperatures: tuple[float, float], lengths: tuple[float, float]
    ) -> FloatArray:
        """Return the end of the ascent from θ (d,); temperatures and step lengths fall from the first to the last."""
        _, spread, _ = self.look(start, 1.0)
        if not spread > 0:
            return start
        theta, momentum = start / spread, np.zeros_like(start)
        for temperature, length in _schedule(steps, temperatures, lengths):
            _, spread, gradient = self.look(theta, temperature)
            theta = theta / max(spread, 1e-300)
            momentum = 0.8 * momentum + 0.2 * self._step(gradient)
            theta = theta + length * momentum
        return theta

    def ascend_on_grid(self, start: FloatArray, *, levels: int, steps: int) -> IntArray:
        """Ascend with θ rounded to the grid at every evaluation; return the best rounded θ seen.

        Here plain gradients work better than H⁻¹∇J.
        """
        reach = levels + 0.49
        theta, momentum = np.clip(start, -reach, reach), np.zeros_like(start)
        best, top, spread = np.zeros_like(start), -np.inf, 1.0
        for temperature, length in _schedule(steps, (0.3, 0.05), (0.3, 0.03)):
            rounded = np.rint(theta)
            value, spread, gradient = self.look(rounded, temperature * max(spread, 1e-9))
            if value > top:
                best, top = rounded, value
            momentum = 0.8 * momentum + 0.2 * gradient / max(float(np.linalg.norm(gradient)), 1e-300)
            theta = np.clip(theta + length * max(spread, 1e-9) * momentum, -reach, reach)
        return best.astype(np.int64)

    def _step(self, gradient: FloatArray) -> FloatArray:
        """Return H⁻¹∇J scaled to length 1."""
        step = self.metric(gradient)
        return step / math.sqrt(max(float(gradient @ step), 1e-300))


def _schedule(steps: int, temperatures: tuple[float, float], lengths: tuple[float, float]) -> list[tuple[float, float]]:
    pair = (np.geomspace(first, last, steps).tolist() for first, last in (temperatures, lengths))
    return list(zip(*pair, strict=True))


@kernel
def _soften(f: FloatArray, scores: FloatArray, temperature: float) -> tuple[float, float]:
    """Replace linear scores f (m, A) by p(s − s̄); return the value of the policy and the squared spread of f."""
    m, n_actions = f.shape
    value, square = 0.0, 0.0
    for i in range(m):
        best, mean = 0, 0.0
        for a in range(n_actions):
            mean += f[i, a]
            if f[i, a] > f[i, best]:
                best = a
        mean /= n_actions
        value += scores[i, best]
        highest, weight, average = f[i, best], 0.0, 0.0
        for a in range(n_actions):
            square += (f[i, a] - mean) ** 2
            power = (f[i, a] - highest) / temperature
            f[i, a] = math.exp(power) if power > _NEGLIGIBLE_LOG_WEIGHT else 0.0
            weight += f[i, a]
            average += f[i, a] * scores[i, a]
        average /= weight
        for a in range(n_actions):
            f[i, a] *= (scores[i, a] - average) / weight
    return value, square / (m * n_actions)


# Simple candidate policies, evaluated before any search: constant ones and those of a single coefficient.


_MOST_POOL_ACTIONS = 2**23  # policies of one coefficient × rows: beyond, these policies are left out
_MOST_LISTED_PARAMETERS = 4096  # directions tried for constant policies


def simple_parameters(rows: DistinctRows, levels: int, metric: SearchMetric) -> IntArray:
    """Return zero, ± single coefficients, and nearly constant policies, by increasing Σ|θ_j|."""
    d = rows.dimension
    found = [np.zeros((1, d), dtype=np.int64), _constants(rows, levels, metric)]
    if 2 * d * len(rows) <= _MOST_POOL_ACTIONS:
        found.append(np.concatenate([np.eye(d, dtype=np.int64), -np.eye(d, dtype=np.int64)]))
    whole = np.unique(np.concatenate(found), axis=0)
    return whole[np.lexsort((*whole.T[::-1], np.abs(whole).sum(axis=1)))]


def _constants(rows: DistinctRows, levels: int, metric: SearchMetric) -> IntArray:
    """Return parameters (K, d) of constant policies, if the grid has them; for given φ, the nearest found."""
    z = rows.features.action_features
    if z is not None:
        towards = np.eye(z.shape[1]) if metric.right is None else metric.right
        return _constants_of(z, levels, towards=towards, dimension=rows.dimension)
    wanted = np.eye(rows.n_actions) - 1.0 / rows.n_actions
    pulls = [rows.features.pull(np.tile(row, (len(rows), 1))) for row in wanted]
    return np.concatenate([roundings(metric(pull), levels) for pull in pulls])


def _constants_of(z: FloatArray, levels: int, *, towards: FloatArray, dimension: int) -> IntArray:
    """Return for every action a parameter that takes it through coefficients of the constant alone; zero if none.

    towards (k, k): the inverse covariance of z, which turns z(a) into a direction that favours a.
    """
    k = z.shape[1]
    if count_directions(k, levels) <= _MOST_LISTED_PARAMETERS:
        tried = directions(k, levels)
    else:
        own = (z - z.mean(axis=0)) @ towards
        unit = np.eye(k, dtype=np.int64)
        tried = np.concatenate(
            [0 * unit[:1], unit, -unit, [-unit.sum(axis=0)], *(roundings(row, levels) for row in own)]
        )
    taken = np.argmax(tried @ z.T, axis=1)
    out = np.zeros((len(z), dimension), dtype=np.int64)
    for a in np.unique(taken):
        own_tries = tried[taken == a]
        out[a, :k] = own_tries[simplest(own_tries)]
    return out


def roundings(parameter: FloatArray, levels: int) -> IntArray:
    """Return a parameter (d,) rounded to the grid at several scales."""
    size = np.abs(parameter).max()
    if not size > 0:
        return np.zeros((1, len(parameter)), dtype=np.int64)
    scaled = np.linspace(0.6, 2.4, 7)[:, None] * levels * parameter / size
    return np.clip(np.rint(scaled), -levels, levels).astype(np.int64)


# Sample size for steps 2 and 3: as many rows as this work allows (rows × cost of climbing one), within limits.
_SAMPLE_WORK = 1.6e5
_SAMPLE_ROWS = (3_000, 8_000)
# Kicks: as many as this work allows (rows × cost of climbing one × kicks), up to a limit.
_KICK_WORK = 2.4e6
_MOST_KICKS = 160
_KICKS_FOR_A_SECOND_START = 24  # with so many kicks affordable, there is time for a second start
_KICKED_SHARES = (0.04, 0.04, 0.12, 0.12)  # of the coefficients, redrawn on average; one kick each, in parallel
_ROUNDED_SIZES = (1.0, 1.7)  # of the largest coefficient before rounding, as shares of the largest level
_FINALISTS = 2
_SEARCH_TIE_SHARE = 1e-12  # of the total stake

End = tuple[IntArray, float]  # the parameter where an ascent ended, and its value


@dataclass(frozen=True, eq=False)
class Ground:
    """The data of a search that depend on the contexts and not on the scores.

    rows: φ.
    levels: the largest coefficient.
    metric: measures steps of the smoothed ascent.
    slope: the rows laid out for coordinate ascent.
    pool (K, d): parameters of simple policies, the simplest first.
    actions (K, m): their actions.
    """

    rows: DistinctRows
    levels: int
    metric: SearchMetric
    slope: Slope
    pool: IntArray
    actions: Table

    @classmethod
    def of(cls, rows: DistinctRows, *, levels: int) -> Ground:
        metric = SearchMetric.of(rows)
        pool = simple_parameters(rows, levels, metric)
        actions = np.stack([act(rows, one).astype(compact(rows.n_actions)) for one in pool])
        return cls(rows, levels, metric, slope_of(rows), pool, actions)

    def search(self, scores: FloatArray, *, times: int = 1) -> IntArray:
        """Return the parameter (d,) of the best policy found for scores (m, A), with `times` the usual effort."""
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
        """Run steps 2 and 3; return where they end, the best first."""
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
        """Run step 4, on all rows."""
        fits = roundings(Smooth(self.rows, scores, self.metric).fit(), self.levels)
        ends = self._climb(self.slope, [*found, self._best(list(fits), scores)], scores)
        kicks = times * int(min(_KICK_WORK / (len(scores) * self.slope.cost), _MOST_KICKS))
        return [self._kick(self.slope, ends[0], scores, kicks, np.random.default_rng(1)), *ends]

    def _climb(self, slope: Slope, starts: list[IntArray], scores: FloatArray) -> list[End]:
        """Return the ends of coordinate ascents, the best first."""
        ends: list[End] = [(start, -np.inf) for start in starts]

        def climb(first: int, last: int) -> None:
            for k in range(first, last):
                ends[k] = slope.climb(starts[k], scores, levels=self.levels)

        over_cores(climb, count=len(starts))
        return sorted(ends, key=lambda end: -end[1])

    def _kick(self, slope: Slope, end: End, scores: FloatArray, kicks: int, rng: np.random.Generator) -> End:
        """Return the best end of ascents from random kicks, each from the best so far."""
        best, top = end
        for _ in range(0, kicks - len(_KICKED_SHARES) + 1, len(_KICKED_SHARES)):
            kicked = [_drawn_anew(best, self.levels, share, rng) for share in _KICKED_SHARES]
            other, value = self._climb(slope, kicked, scores)[0]
            if value >= top:
                best, top = other, value
        return best, top

    def _best(self, found: list[IntArray], scores: FloatArray) -> IntArray:
        """Return the best of parameters by the value of their policies; ties go to the simplest."""
        tried = np.array([primitive(one) for one in found])
        rows = np.arange(len(scores))
        values = np.array([scores[rows, act(self.rows, one)].sum() for one in tried])
        top = tried[values >= values.max() - _SEARCH_TIE_SHARE * scores.max(axis=1).sum()]
        return top[simplest(top)]


def sampled_rows(work: float) -> int:
    """Return the maximum number of rows in the sample, given the cost of climbing one."""
    return int(np.clip(_SAMPLE_WORK / work, *_SAMPLE_ROWS))


def kicks_for(n_rows: int, work: float) -> int:
    """Return the number of kicks on n_rows rows, given the cost of climbing one."""
    return int(np.clip(_KICK_WORK / (n_rows * work), 2 * len(_KICKED_SHARES), _MOST_KICKS))


def _sample(scores: FloatArray, spans: FloatArray, *, size: int) -> tuple[IntArray | None, FloatArray]:
    """Sample rows in proportion to their span, with scores rescaled to equal spans; None and all scores if few rows."""
    if len(scores) <= size:
        return None, scores
    edges: FloatArray = np.cumsum(spans)
    marks: FloatArray = (np.arange(size) + np.random.default_rng(0).random()) * (edges[-1] / size)
    picked = np.minimum(np.searchsorted(edges, marks), len(scores) - 1)
    return picked, np.ascontiguousarray(scores[picked] / np.maximum(spans[picked], 1e-300)[:, None])


def _drawn_anew(parameter: IntArray, levels: int, share: float, rng: np.random.Generator) -> IntArray:
    """Return the parameter with a few coefficients redrawn at random, at least two if there are."""
    d = len(parameter)
    size = min(d, 1 + int(rng.geometric(1.0 / max(1.5, share * d))))
    out = parameter.copy()
    out[rng.choice(d, size=size, replace=False)] = rng.integers(-levels, levels + 1, size)
    return out
