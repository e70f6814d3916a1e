"""How far the estimates of what a search takes are from what it takes: time and memory, for several classes and sizes.

Run `python -m benchmarks.estimates`, a minute or two; it prints Markdown. Every row is measured in a process of its
own: a small problem first, so that nothing is compiled, then the problem itself, once to lay out its contexts and then
once more. Seconds are those of the processor, divided by the cores that are used, so that other work on the machine
does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measuring import in_subprocess, print_table
from benchmarks.trees import peak, problem
from pacbandits.compiled import cores
from pacbandits.policies import DeepTrees, Finite, Linear, Trees, Trivial
from pacbandits.policies.base import PolicyClass, SearchCost, spell_bytes
from pacbandits.records import Contexts

Sizes = dict[str, int]
Task = tuple[PolicyClass, Contexts, np.ndarray, np.ndarray]

ONE_CORE = ("trivial",)  # all others use every core
MIN_BYTES_COMPARED = 2e7  # less is lost in what a process holds anyway


def trees(rows: int, features: int, bins: int, actions: int, depth: int = 2) -> Task:
    contexts, first, second = problem(rows, features, actions)
    kind = Trees if depth <= 2 else DeepTrees
    return kind.learn(contexts, n_actions=actions, bins=bins, depth=depth), contexts, first, second


def linear(rows: int, features: int, actions: int, levels: int = 2, listed: int = 0) -> Task:
    contexts, first, second = problem(rows, features, actions)
    oracle = "list" if listed else "search"
    return Linear.learn(contexts, n_actions=actions, levels=levels, oracle=oracle), contexts, first, second


def finite(rows: int, policies: int, actions: int) -> Task:
    _, first, second = problem(rows, 2, actions)
    table = np.random.default_rng(0).integers(0, actions, (policies, rows), dtype=np.uint8)
    return Finite(table, n_actions=actions), Contexts.finite(rows), first, second


def trivial(rows: int, actions: int) -> Task:
    _, first, second = problem(rows, 2, actions)
    return Trivial(rows, actions), Contexts.finite(rows), first, second


MAKERS: dict[str, Callable[..., Task]] = {"trees": trees, "linear": linear, "finite": finite, "trivial": trivial}
CASES: list[tuple[str, str, Sizes]] = [
    ("trees", "argmax", {"rows": 20_000, "features": 10, "bins": 32, "actions": 10}),
    ("trees", "argmax", {"rows": 200_000, "features": 10, "bins": 32, "actions": 4}),
    ("trees", "argmax", {"rows": 5_000, "features": 60, "bins": 32, "actions": 10}),
    ("trees", "argmax", {"rows": 5_000, "features": 100, "bins": 32, "actions": 20}),
    ("trees", "argmax", {"rows": 20_000, "features": 200, "bins": 4, "actions": 20}),
    ("trees", "frontier", {"rows": 20_000, "features": 10, "bins": 32, "actions": 10}),
    ("trees", "frontier", {"rows": 3_000, "features": 6, "bins": 16, "actions": 16}),
    ("trees", "frontier", {"rows": 5_000, "features": 40, "bins": 16, "actions": 8}),
    ("trees", "frontier", {"rows": 2_000, "features": 60, "bins": 32, "actions": 4}),
    ("trees", "argmax", {"rows": 5_000, "features": 10, "bins": 32, "actions": 4, "depth": 3}),
    ("trees", "argmax", {"rows": 3_000, "features": 40, "bins": 16, "actions": 4, "depth": 3}),
    ("trees", "argmax", {"rows": 3_000, "features": 10, "bins": 16, "actions": 4, "depth": 4}),
    ("trees", "argmax", {"rows": 3_000, "features": 10, "bins": 32, "actions": 4, "depth": 6}),
    ("linear", "argmax", {"rows": 20_000, "features": 10, "actions": 4}),
    ("linear", "argmax", {"rows": 200_000, "features": 10, "actions": 4}),
    ("linear", "argmax", {"rows": 10_000, "features": 30, "actions": 8, "levels": 1}),
    ("linear", "argmax", {"rows": 20_000, "features": 2, "actions": 2, "levels": 8, "listed": 1}),
    ("linear", "argmax", {"rows": 20_000, "features": 2, "actions": 3, "levels": 1, "listed": 1}),
    ("finite", "argmax", {"rows": 2_000, "policies": 100_000, "actions": 8}),
    ("trivial", "frontier", {"rows": 2_000, "actions": 10}),
]


def ask(kind: str, task: Task) -> object:
    policies, contexts, first, second = task
    if kind == "argmax":
        return policies.argmax(contexts, first + second)
    return policies.frontier(contexts, first, second)


def expected(kind: str, policies: PolicyClass, n_rows: int) -> SearchCost:
    cost = policies.argmax_cost(n_rows) if kind == "argmax" else policies.frontier_cost(n_rows)
    assert cost is not None
    return cost


def measure(what: str, kind: str, sizes: Sizes) -> dict[str, Any]:
    """What a search was expected to take, and what it took."""
    small = {"rows": 60, "features": 2, "policies": 9, "actions": 3}
    ask(kind, MAKERS[what](**{name: min(size, small.get(name, size)) for name, size in sizes.items()}))
    task = MAKERS[what](**sizes)
    cost = expected(kind, task[0], sizes["rows"])
    before = peak()
    ask(kind, task)
    start = time.process_time()
    ask(kind, task)
    seconds = (time.process_time() - start) / (1 if what in ONE_CORE else cores())
    return {"cost": cost, "seconds": seconds, "bytes": (peak() - before) * 1e9}


def main() -> None:
    """Print the table."""
    ratios: list[float] = []
    rows: list[list[str]] = []
    for what, kind, sizes in CASES:
        got, _ = in_subprocess(measure, what, kind, sizes)
        cost: SearchCost = got["cost"]
        ratios.append(cost.seconds / got["seconds"])
        large = max(cost.memory_bytes, got["bytes"]) >= MIN_BYTES_COMPARED
        times = f"{cost.memory_bytes / max(got['bytes'], 1e6):.2f}" if large else "–"
        words = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
        seconds = (f"{cost.seconds:.3f}", f"{got['seconds']:.3f}", f"{ratios[-1]:.2f}")
        rows.append(
            [f"{what}, {kind}", words, *seconds, spell_bytes(cost.memory_bytes), spell_bytes(got["bytes"]), times]
        )
    head = ["search", "sizes", "expected s", "measured s", "ratio", "expected memory", "measured", "ratio"]
    print_table(f"what searches take, by estimate and by the clock ({cores()} cores)", head, rows)
    print(f"\nRatios of time from {min(ratios):.2f} to {max(ratios):.2f}.")


if __name__ == "__main__":
    main()
