"""How long the exact searches over depth-2 trees take, and how much memory.

Run `python -m benchmarks.trees`; it prints Markdown. Every row is measured in a process of its own: a small
problem first, whose time is that of compiling (or of loading what was compiled before), then the problem
itself, once to learn its bins' codes and then the better of two times.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pacbandits.policies import Frontier, Trees
from pacbandits.records import Contexts

Out = TypeVar("Out")

ARGMAX = [
    *({"rows": rows, "features": 10, "bins": 32, "actions": 10} for rows in (10**4, 10**5, 10**6)),
    *({"rows": 10**5, "features": features, "bins": 8, "actions": 20} for features in (10, 50, 200)),
]
FRONTIER = [
    {"rows": 3000, "features": 6, "bins": 16, "actions": 16},
    *({"rows": rows, "features": 10, "bins": 32, "actions": 10} for rows in (10**4, 10**5)),
]


def problem(rows: int, features: int, actions: int) -> tuple[Contexts, np.ndarray, np.ndarray]:
    """Contexts, and the two scores a design asks about: the variance of each action, and minus its gap.

    ν_c (1/p_a + 1/p_q) 1{a ≠ q} and −ν_c (r_q − r_a), for smooth rewards r, a reference q that is a tree
    itself and propensities p with a floor of 0.3/A.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, features))
    logits = 0.15 * x @ rng.normal(size=(features, actions)) + 0.3 * rng.normal(size=actions)
    rewards = 1 / (1 + np.exp(-logits))
    reference = rng.integers(0, actions, 4)[2 * (x[:, 0] > 0) + (x[:, 1] > 0)]
    propensities = 0.7 * rng.dirichlet(np.ones(actions), size=rows) + 0.3 / actions
    each = np.arange(rows)
    costs = (1 / propensities + 1 / propensities[each, reference][:, None]) / rows
    costs[each, reference] = 0.0
    return Contexts.of(x), costs, (rewards - rewards[each, reference][:, None]) / rows


def timed(call: Callable[[], Out]) -> tuple[float, Out]:
    """Seconds a call takes, and what it returns."""
    start = time.perf_counter()
    out = call()
    return time.perf_counter() - start, out


def measure(kind: str, rows: int, features: int, bins: int, actions: int) -> dict[str, Any]:
    """Seconds, peak memory and the size of the answer for one search."""

    def ask(trees: Trees, contexts: Contexts, first: np.ndarray, second: np.ndarray) -> object:
        if kind == "argmax":
            return trees.argmax(contexts, first + second)
        return trees.frontier(contexts, first, second)

    small = problem(50, 2, 2)
    compiling, _ = timed(lambda: ask(Trees.learn(small[0], n_actions=2, bins=4), *small))
    data = problem(rows, features, actions)
    before = peak()
    learning, trees = timed(lambda: Trees.learn(data[0], n_actions=actions, bins=bins))
    ask(trees, *data)
    seconds, answer = min((timed(lambda: ask(trees, *data)) for _ in range(2)), key=lambda pair: pair[0])
    out: dict[str, Any] = {"compiling": compiling, "learning": learning, "seconds": seconds}
    out |= {"data": before, "peak": peak(), "log_size": trees.log_size}
    if isinstance(answer, Frontier):
        out |= {"points": len(answer), "exact": answer.exact}
    return out


def peak() -> float:
    """The most memory this process has held so far, in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def apart(kind: str, size: dict[str, int]) -> dict[str, Any]:
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.trees", json.dumps({"kind": kind, **size})]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def row(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def main() -> None:
    """Print the tables."""
    sizes = ("rows", "features", "bins", "actions")
    compiling = 0.0
    row("argmax:", *sizes, "log of policies", "seconds", "learning bins, s", "peak GB (before the search)")
    row(*["---:"] * 9)
    for size in ARGMAX:
        got = apart("argmax", size)
        compiling = max(compiling, got["compiling"])
        answer = (f"{got['log_size']:.1f}", f"{got['seconds']:.3f}", f"{got['learning']:.2f}")
        row("", *(f"{n:,}" for n in size.values()), *answer, f"{got['peak']:.2f} ({got['data']:.2f})")
    print()
    row("frontier:", *sizes, "seconds", "points", "exact", "peak GB (before the search)")
    row(*["---:"] * 9)
    for size in FRONTIER:
        got = apart("frontier", size)
        compiling = max(compiling, got["compiling"])
        answer = (f"{got['seconds']:.3f}", got["points"], "yes" if got["exact"] else "no")
        row("", *(f"{n:,}" for n in size.values()), *answer, f"{got['peak']:.2f} ({got['data']:.2f})")
    print(f"\nCompiling (or loading what was compiled before) took at most {compiling:.1f} s, not counted.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(**json.loads(sys.argv[1]))))
    else:
        main()
