"""Linear policies: how near the search comes to the best there is, and what coarse grids of coefficients lose.

python -m benchmarks.linear_oracle             everything
python -m benchmarks.linear_oracle quality     the search against all policies, or against many times the effort
python -m benchmarks.linear_oracle levels      the best value found on grids of 1 to 32 levels

Values are given as the share `(found − one action)/(best − one action)` of what the best policy gains over the best
single action. Times are of one call, on contexts that were asked about before.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.measuring import print_table
from pacbandits.policies.features import Crossed, FeatureMap, Given
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.linear.enumeration import count_directions, directions
from pacbandits.policies.linear.policy import act, act_all, rows_of
from pacbandits.policies.linear.search import Ground
from pacbandits.records import Contexts

MOST_WORK = 3e9  # rows × policies that are looked at for an exact answer
KINDS = ("planted", "one reward a row", "noise")


@dataclass(frozen=True)
class Size:
    rows: int
    actions: int
    levels: int
    features: int | None = None  # of contexts, with a block of coefficients for each action
    phi: int | None = None  # of contexts and actions together
    seeds: int = 2
    harder: int = 20  # times the effort, where not all policies can be looked at

    def draw(self, seed: int) -> tuple[Contexts, FeatureMap]:
        """Contexts, standard normal, and what policies are linear in."""
        rng = np.random.default_rng(seed)
        if self.phi is not None:
            phi = rng.standard_normal((self.rows, self.actions, self.phi))
            return Contexts.of(np.empty((self.rows, 0)), phi=phi), Given(self.actions, self.phi)
        contexts = Contexts.of(rng.standard_normal((self.rows, self.features or 1)))
        return contexts, Crossed.blocks(contexts, n_actions=self.actions, relative=True)

    @property
    def words(self) -> str:
        return f"φ of {self.phi}" if self.phi is not None else f"blocks of {(self.features or 1) + 1}"


SIZES = (
    Size(1_000, 2, 8, features=1),
    Size(1_000, 2, 4, features=4),
    Size(1_000, 3, 2, features=2),
    Size(1_000, 20, 3, phi=5),
    Size(1_000, 6, 2, features=3),
    Size(1_000, 20, 2, phi=20),
    Size(10_000, 5, 2, features=4),
    Size(10_000, 10, 2, features=10, seeds=1, harder=10),
    Size(100_000, 5, 2, features=4, seeds=1, harder=5),
    Size(100_000, 10, 2, features=10, seeds=1, harder=5),
    Size(100_000, 10, 2, phi=10, seeds=1, harder=5),
)


def draw_scores(kind: str, features: FeatureMap, contexts: Contexts, seed: int) -> np.ndarray:
    """Rewards that a linear model explains in part; the same as a log shows them, one a row; or nothing but noise."""
    rng = np.random.default_rng(seed + 1000)
    n, n_actions = len(contexts), features.n_actions
    if kind == "noise":
        return rng.standard_normal((n, n_actions))
    signal = features.on(contexts).scores(rng.standard_normal(features.dimension))
    rewards = 1 / (1 + np.exp(-1.5 * signal / signal.std()))
    if kind == "planted":
        return rewards + 0.5 * rng.standard_normal((n, n_actions))
    played, each = rng.integers(0, n_actions, n), np.arange(n)
    scores = np.zeros((n, n_actions))
    scores[each, played] = n_actions * (rng.random(n) < rewards[each, played])
    return scores


def quality() -> None:
    rows = []
    for size in SIZES:
        for kind in KINDS:
            got = [compare(size, kind, seed) for seed in range(size.seeds)]
            dimension = size.draw(0)[1].dimension
            rows.append(
                [
                    f"{size.rows:,}",
                    f"{size.actions}",
                    f"{size.words}: {dimension}",
                    f"{size.levels}",
                    kind,
                    f"{np.mean([one['share'] for one in got]):.3f}",
                    f"{min(one['share'] for one in got):.3f}",
                    "all policies" if got[0]["exact"] else f"{size.harder} × the effort",
                    f"{np.median([one['seconds'] for one in got]):.2f} s",
                ]
            )
    print_table(
        "The search against the best",
        ["rows", "actions", "coefficients", "levels", "scores", "share, mean", "least", "the best by", "time"],
        rows,
    )


def compare(size: Size, kind: str, seed: int) -> dict[str, float]:
    """The share that the search attains of the best gain, whether that is exact, and the seconds of one call."""
    contexts, features = size.draw(seed)
    scores = draw_scores(kind, features, contexts, seed)
    ground = Ground.of(rows_of(features, contexts), levels=size.levels)
    ground.search(scores)
    began = time.perf_counter()
    found = value(ground, ground.search(scores), scores)
    seconds = time.perf_counter() - began
    count = count_directions(features.dimension, size.levels)
    exact = count * size.rows <= MOST_WORK
    best = of_all(ground, scores) if exact else value(ground, ground.search(scores, times=size.harder), scores)
    base = float(scores.sum(axis=0).max())
    best = max(best, found)
    return {"share": (found - base) / (best - base) if best > base else 1.0, "exact": exact, "seconds": seconds}


def of_all(ground: Ground, scores: np.ndarray) -> float:
    """The best value on the whole grid."""
    everything = directions(ground.rows.dimension, ground.levels)
    parts = np.array_split(everything, max(1, len(everything) * len(scores) // 2**24))
    return max(float(sum_scores(act_all(ground.rows, part), scores).max()) for part in parts)


def value(ground: Ground, parameter: np.ndarray, scores: np.ndarray) -> float:
    return float(scores[np.arange(len(scores)), act(ground.rows, parameter)].sum())


def levels() -> None:
    tried = (1, 2, 4, 8, 32)
    rows = []
    for features, actions in ((1, 2), (4, 2), (4, 5), (9, 11)):
        for kind in ("dense", "sparse", "not linear"):
            gains = np.array([gains_by_level(features, actions, kind, seed, tried) for seed in range(3)])
            best = gains.max(axis=1, keepdims=True)
            dimension = (features + 1) * (actions - 1)
            sizes = [f" ({_log_size(dimension, one):.1f})" if kind == "dense" else "" for one in tried]
            shares = [f"{share:.3f}{size}" for share, size in zip((gains / best).mean(axis=0), sizes, strict=True)]
            rows.append([f"{dimension}", f"{actions}", kind, f"{best.mean():.3f}", *shares])
    print_table(
        "Share of the gain left on a grid of L levels (in brackets: log|Π|)",
        ["coefficients", "actions", "rewards", "gain over one action", *(f"L = {one}" for one in tried)],
        rows,
    )


def gains_by_level(features: int, actions: int, kind: str, seed: int, tried: tuple[int, ...]) -> list[float]:
    """The gain in mean reward over the best single action, of the best policy found on each grid.

    Rewards are logistic in linear functions of standard normal features: with all coefficients, with about a quarter of
    them, or through a sine and a threshold on the first feature.
    """
    rng = np.random.default_rng(seed)
    n = 2_000
    x = rng.standard_normal((n, features))
    weights = rng.standard_normal((features + 1, actions)) / np.sqrt(features + 1)
    weights[0] = 0.3 * rng.standard_normal(actions)
    if kind == "sparse":
        weights[1:] *= rng.random((features, actions)) < 0.25
        weights[1, 0] += 0.5
    signal = np.column_stack([np.ones(n), x]) @ weights
    if kind == "not linear":
        signal = np.sin(1.5 * signal) + 0.5 * (x[:, :1] > 0) * rng.standard_normal(actions)
    rewards = 1 / (1 + np.exp(-1.5 * signal)) / n
    contexts = Contexts.of(x)
    laid_out = rows_of(Crossed.blocks(contexts, n_actions=actions, relative=True), contexts)
    base = float(rewards.sum(axis=0).max())
    grounds = [Ground.of(laid_out, levels=one) for one in tried]
    return [value(ground, ground.search(rewards, times=2), rewards) - base for ground in grounds]


def _log_size(dimension: int, levels: int) -> float:
    return float(np.log(float(count_directions(dimension, levels))))


PARTS = {"quality": quality, "levels": levels}


def main() -> None:
    for name in sys.argv[1:] or list(PARTS):
        PARTS[name]()


if __name__ == "__main__":
    main()
