"""What it takes to certify a log of a million rows over depth-2 trees, and to verify it.

python -m benchmarks.certify             a million rows
python -m benchmarks.certify 100000      another number

The log lies in a Parquet file. Every row of the table is a process of its own: a small log first, whose time is that of
compiling (or of loading what was compiled before) and not counted, then the file is read, the bins are learnt from its
contexts and the log is certified: as it is, which is one round without a model, and as rows in order, which is seven
blocks with a model refitted for each. Peak memory is that of the whole process, log and libraries included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import pacbandits as pb
from benchmarks.measuring import in_subprocess, print_table
from pacbandits.certificate.ledger import Ledger
from pacbandits.records import Contexts, Log

ROWS, FEATURES, BINS, ACTIONS = 10**6, 10, 32, 10
EPSILON, DELTA = 0.05, 0.05
STAGES = ("reading", "bins", "model", "scores", "oracle", "digest")
MODULES = ("making", "certify", "verify")


def make_log(rows: int, *, seed: int = 0) -> Log:
    """Contexts all distinct, a tree of best actions that earn 0.55 rather than 0.25 to 0.45, propensities of 2 % up."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, FEATURES))
    leaf = np.where(x[:, 0] <= 0.2, (x[:, 1] <= -0.3).astype(int), 2 + (x[:, 2] <= 0.5))
    means = 0.25 + 0.2 * rng.random((4, ACTIONS))
    means[np.arange(4), rng.permutation(ACTIONS)[:4]] = 0.55
    odds = np.exp(0.5 * x @ rng.normal(size=(FEATURES, ACTIONS)) / np.sqrt(FEATURES))
    propensities = 0.8 * odds / odds.sum(axis=1, keepdims=True) + 0.2 / ACTIONS
    actions = (np.cumsum(propensities, axis=1) < rng.random(rows)[:, None]).sum(axis=1).clip(max=ACTIONS - 1)
    rewards = (rng.random(rows) < means[leaf, actions]).astype(float)
    return Log.of(Contexts.of(x), actions=actions, rewards=rewards, propensities=propensities)


class Clock:
    """Seconds and calls of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)
        self.calls: dict[str, int] = dict.fromkeys(STAGES, 0)

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time counts for the stage."""

        def call(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[stage] += time.perf_counter() - start
                self.calls[stage] += 1

        return call

    def watch(self, stage: str, owner: Any, *names: str) -> None:
        """Time what the owner calls by these names, from now on."""
        for name in names:
            setattr(owner, name, self.timed(stage, getattr(owner, name)))

    def watch_all(self) -> None:
        """Time every stage of certifying and verifying."""
        making, certify, verify = (import_module(f"pacbandits.certificate.{name}") for name in MODULES)
        self.watch("model", certify, "default_model", "predict_by_round")
        self.watch("model", verify, "predict_by_round")
        self.watch("digest", making, "digest_log")
        self.watch("digest", verify, "digest_log")
        self.watch("scores", Ledger, "log_wealth", "gaps", "values")
        self.watch("scores", verify.Audit, "wealth")
        self.watch("oracle", pb.Trees, "argmax", "frontier")


def certify(path: str, *, ordered: bool, clock: Clock) -> tuple[pb.Certificate, Log, pb.Trees]:
    """The certificate of the log in a file."""
    log, _ = clock.timed("reading", pb.read_log)(path)
    policies = clock.timed("bins", pb.Trees.learn)(log.contexts, n_actions=ACTIONS, depth=2, bins=BINS)
    return pb.certify(log, policies, epsilon=EPSILON, delta=DELTA, ordered=ordered).certificate, log, policies


def warm_up(folder: str) -> None:
    """Load everything compiled, on a log of few rows."""
    path = f"{folder}/small.parquet"
    for ordered in (False, True):
        made, log, policies = certify(path, ordered=ordered, clock=Clock())
        pb.verify(made, log, policies)


def measure_certify(folder: str, ordered: bool) -> dict[str, Any]:
    """Read and certify the large log."""
    warm_up(folder)
    clock = Clock()
    clock.watch_all()
    start = time.perf_counter()
    made, _, _ = certify(f"{folder}/large.parquet", ordered=ordered, clock=clock)
    total = time.perf_counter() - start
    return {"seconds": clock.seconds, "calls": clock.calls, "total": total, "certificate": made.to_json()}


def measure_verify(folder: str, value: dict[str, Any]) -> dict[str, Any]:
    """Read the large log and verify its certificate."""
    warm_up(folder)
    clock = Clock()
    clock.watch_all()
    start = time.perf_counter()
    log, _ = clock.timed("reading", pb.read_log)(f"{folder}/large.parquet")
    policies = clock.timed("bins", pb.Trees.learn)(log.contexts, n_actions=ACTIONS, depth=2, bins=BINS)
    verdict = pb.verify(pb.Certificate.from_json(value), log, policies)
    assert verdict.good, verdict.faults
    return {"seconds": clock.seconds, "calls": clock.calls, "total": time.perf_counter() - start}


def cells(name: str, got: dict[str, Any], megabytes: float) -> list[str]:
    """A row of the table."""
    seconds, total = got["seconds"], got["total"]
    rest = total - sum(seconds[stage] for stage in STAGES)
    share = f"{seconds['oracle'] / total:.0%}"
    figures = [f"{x:.1f}" for x in (*(seconds[stage] for stage in STAGES), rest, total)]
    return [name, *figures, str(got["calls"]["oracle"]), share, f"{megabytes / 1000:.2f}"]


def main(rows: int = ROWS) -> None:
    """Print the table."""
    table: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        in_subprocess(write_logs, folder, rows)
        for name, ordered in (("as it is", False), ("rows in order", True)):
            made, memory = in_subprocess(measure_certify, folder, ordered)
            table.append(cells(f"certify, {name}", made, memory))
            words = made["certificate"]
            print(f"{name}: {words['claim']} ({words['certified_epsilon']:.4g}, {words['value']:.8g})", flush=True)
            checked, memory = in_subprocess(measure_verify, folder, words)
            table.append(cells(f"verify, {name}", checked, memory))
    head = ["seconds", *STAGES, "rest", "total", "oracle calls", "oracle's share", "peak GB"]
    print_table(f"{rows:,} rows, {FEATURES} features × {BINS} bins, {ACTIONS} actions, depth 2", head, table)


def write_logs(folder: str, rows: int) -> None:
    """A small log and a large one."""
    make_log(300).write(Path(folder) / "small.parquet")
    make_log(rows).write(Path(folder) / "large.parquet")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
