"""Certificates of logs of any size: time and memory as rows grow, by engine, against small logs' way, and on paper.

python -m benchmarks.scale rows [N …] [--folder F]    rows by the million from Parquet: is time linear, is memory level?
python -m benchmarks.scale engines [N]                threads, stream, and Dask with 1, 2 and 3 workers: the same bits?
python -m benchmarks.scale now [N]                    against the way of small logs, which holds all rows in memory
python -m benchmarks.scale model [N …]                the estimates of `certificate.summed.cost` beside what it took
python -m benchmarks.scale parts                      the constants of these estimates, measured again
python -m benchmarks.scale paper                      10¹⁰ rows on 100 workers, and where it stops: by the estimates

It prints Markdown. 10 features, 10 actions, Bernoulli rewards, a uniform split; N is a million if not given. Files are
made once, in the folder, which is a temporary one if not given. Every figure is measured in a process of its own, after
one that compiles what is yet to be compiled. "Core-seconds" are those of the processor, of which other work on the
machine takes little away; seconds are those of the clock.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pacbandits as pb
from benchmarks.measuring import in_subprocess, print_table
from benchmarks.scale_model import print_paper, print_parts
from pacbandits.certificate.certify import Request, certify_survey
from pacbandits.certificate.learning import learn_from_blocks
from pacbandits.certificate.summed.cost import estimate_cost, tree_work
from pacbandits.certificate.survey import LogInMemory
from pacbandits.compiled import cores
from pacbandits.engines import Aggregation, Local, Source, Sums
from pacbandits.errors import InputError

ROWS, FEATURES, ACTIONS, BINS = 10**6, 10, 10, 32
SPEC, EPSILON, DELTA = "trees:depth=2", 0.01, 0.05
PART_ROWS = 10**6  # of a file
WARMING_ROWS = 5 * 10**5  # enough for every pass
DASK_WORKERS = (1, 2, 3)
OTHER_SHAPE = (16, 24, 6)  # features, bins, actions


class Took(NamedTuple):
    """What a certificate took.

    seconds: of the clock.
    core_seconds: of the processor, child processes included.
    made: the certificate, as JSON.
    children_mb: the peak of the largest child process.
    passes: over all rows, the look at them when files are opened included.
    """

    seconds: float
    core_seconds: float
    made: str
    children_mb: float = 0.0
    passes: int = 0


def make_set(rows: int, folder: Path, *, d: int = FEATURES, actions: int = ACTIONS) -> list[str]:
    """Files of so many rows together, made if they are not there."""
    place = folder / (f"{rows}-rows" if (d, actions) == (FEATURES, ACTIONS) else f"{rows}-rows-{d}-{actions}")
    place.mkdir(parents=True, exist_ok=True)
    names = [place / f"part-{number:04d}.parquet" for number in range(-(-rows // PART_ROWS))]
    for number, name in enumerate(names):
        if not name.exists():
            drawn = draw_log(min(PART_ROWS, rows - number * PART_ROWS), seed=number, d=d, actions=actions)
            drawn.write(name.with_suffix(".new.parquet"))
            name.with_suffix(".new.parquet").rename(name)
    return [str(name) for name in names]


def draw_log(n: int, *, seed: int, d: int = FEATURES, actions: int = ACTIONS) -> pb.Log:
    """Rows in which a tree of depth 2 knows which action succeeds more often."""
    rng = np.random.default_rng(seed)
    x, played = rng.normal(size=(n, d)), rng.integers(actions, size=n)
    left, right = np.where(x[:, 2] > -0.2, 7, 1), np.where(x[:, 1] > 0.3, 2, 5)
    best = np.where(x[:, 0] > 0, right, left) % actions
    rewards = (rng.random(n) < np.where(played == best, 0.45, 0.3)).astype(np.float64)
    contexts = pb.Contexts.of(x, names=[f"f{j}" for j in range(d)])
    return pb.Log.of(contexts, actions=played, rewards=rewards, propensities=np.full((n, actions), 1 / actions))


class Counting:
    """An engine whose passes are counted."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.name, self.passes = engine, str(engine.name), 0

    def ask(self, source: Source, question: Aggregation, *, what: str) -> Sums:
        self.passes += 1
        return self.engine.ask(source, question, what=what)


def open_engine(name: str) -> Any:
    """An engine by its name; `dask 2` has two workers."""
    kind, _, workers = name.partition(" ")
    if kind != "dask":
        return nullcontext(Local(kind))
    from pacbandits.engines.dask import DaskEngine

    return DaskEngine(workers=int(workers))


def by_engine(files: list[str], name: str, spec: str = SPEC) -> Took:
    """A certificate by an engine; to start workers and to end them is not counted, but what they used is."""
    with open_engine(name) as engine:
        counted = Counting(engine)
        took = timed(lambda: pb.certify(files, spec, epsilon=EPSILON, delta=DELTA, engine=counted).certificate)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # of workers, who have ended by now
    busy = took.core_seconds + ended.ru_utime + ended.ru_stime
    return took._replace(core_seconds=busy, children_mb=ended.ru_maxrss / 1024, passes=counted.passes + 1)


def by_rows_in_memory(files: list[str], name: str) -> Took:
    """A certificate as of small logs: all rows, scores and sums of each in memory."""

    def certify() -> pb.Certificate:
        log, _ = pb.read_log(files[0])
        read = LogInMemory.arranged(log, ordered=False, shuffle=False)
        learnt = learn_from_blocks(SPEC, read.early, None)
        asked = Request(epsilon=EPSILON, delta=DELTA)
        return certify_survey(read.set_apart(learnt.learning), learnt, asked).certificate

    return timed(certify)


def timed(certify: Callable[[], pb.Certificate]) -> Took:
    """What it took in this process."""
    began, used = time.perf_counter(), time.process_time()
    made = certify()
    seconds, busy = time.perf_counter() - began, time.process_time() - used
    return Took(seconds, busy, json.dumps(made.to_json(), sort_keys=True))


def rows_table(sizes: list[int], folder: Path) -> None:
    found: list[list[str]] = []
    first = 0.0
    for size in sizes:
        took, peak = in_subprocess(by_engine, make_set(size, folder), "stream")
        first = first or took.seconds / size
        found.append(
            [
                f"{size:,}",
                f"{took.seconds:.1f}",
                f"{took.core_seconds:.1f}",
                f"{took.seconds / size * 1e6:.1f}",
                f"{took.seconds / size / first:.2f}",
                f"{peak:,.0f} MB",
                str(took.passes),
            ]
        )
    head = ["rows", "seconds", "core-seconds", "seconds a million rows", "to the first", "peak memory", "passes"]
    print_table(
        f"`stream` from Parquet, {cores()} cores, {FEATURES} features × {BINS} bins × {ACTIONS} actions", head, found
    )


def engines_table(size: int, folder: Path) -> None:
    files, found = make_set(size, folder), list[list[str]]()
    base: Took | None = None
    for name in ("stream", "threads", *(f"dask {workers}" for workers in DASK_WORKERS)):
        try:
            took, peak = in_subprocess(by_engine, files, name)
        except (InputError, ImportError) as missing:
            found.append([f"`{name}`", *["–"] * 4, str(missing)])
            continue
        base = took if base is None else base
        workers = int(name.partition(" ")[2] or 0)
        found.append(
            [
                f"`{name}`",
                f"{took.seconds:.1f}",
                f"{took.core_seconds:.1f}",
                f"{took.seconds / base.seconds:.2f}",
                f"{peak + workers * took.children_mb:,.0f} MB",
                "yes" if took.made == base.made else "no",
            ]
        )
    head = ["engine", "seconds", "core-seconds", "to `stream`", "peak memory, workers included", "same bits"]
    print_table(f"{size:,} rows by engine, {cores()} cores", head, found)


def now_table(size: int, folder: Path) -> None:
    one = folder / f"{size}-rows-in-one.parquet"
    if not one.exists():
        draw_log(size, seed=0).write(one)
    in_subprocess(by_rows_in_memory, make_set(WARMING_ROWS, folder), "threads")  # so that nothing is compiled below
    found, base = list[list[str]](), (0.0, 0.0, 0.0)
    for words, call in (("all rows in memory", by_rows_in_memory), ("`stream`", by_engine)):
        took, peak = in_subprocess(call, [str(one)], "stream")
        mine = took.seconds, took.core_seconds, peak
        base = mine if not found else base
        shares = [f"{now / before:.2f}" for now, before in zip(mine, base, strict=True)]
        proven = json.loads(took.made)["certified_epsilon"]
        found.append([words, f"{mine[0]:.1f}", f"{mine[1]:.1f}", f"{peak:,.0f} MB", *shares, f"{proven:.5f}"])
    head = [
        "way",
        "seconds",
        "core-seconds",
        "peak memory",
        "ratio of seconds",
        "of core-seconds",
        "of memory",
        "proven ε",
    ]
    print_table(f"{size:,} rows, {cores()} cores", head, found)


def model_table(sizes: list[int], folder: Path) -> None:
    """Of the usual shape, by which what is done once and memory were fitted, and of one that nothing was fitted to."""
    found: list[list[str]] = []
    usual = FEATURES, BINS, ACTIONS
    for size, (d, bins, actions) in [*((size, usual) for size in sizes), (sizes[0], OTHER_SHAPE)]:
        files = make_set(size, folder, d=d, actions=actions)
        took, peak = in_subprocess(by_engine, files, "stream", f"{SPEC},bins={bins}")
        told = estimate_cost(tree_work(size, features=d, bins=bins, actions=actions), engine="stream")
        pairs = (told.seconds, took.seconds), (told.core_seconds, took.core_seconds), (told.memory_bytes / 2**20, peak)
        cells = [(f"{one:,.0f}", f"{other:,.0f}", f"{one / other:.2f}") for one, other in pairs]
        found.append([f"{size:,} × {d} × {bins} × {actions}", *(cell for three in cells for cell in three)])
    each = ["{}, told", "{}, measured", "ratio of {}"]
    head = [
        "rows × features × bins × actions",
        *(one.format(what) for what in ("seconds", "core-seconds", "MB") for one in each),
    ]
    print_table(f"Estimates for `stream`, {cores()} cores", head, found)


def main(words: list[str] | None = None) -> None:
    """Print what is asked for; all of it, with a million rows, if nothing is."""
    parser = argparse.ArgumentParser(description="Time and memory of certificates of large logs.")
    parts = ("rows", "engines", "now", "model", "parts", "paper")
    parser.add_argument("part", nargs="?", choices=parts)
    parser.add_argument("sizes", nargs="*", type=lambda text: int(float(text)), help="rows, as 10000000 or 1e7")
    parser.add_argument("--folder", type=Path, help="where files are made and kept")
    asked = parser.parse_args(words)
    sizes = asked.sizes or [ROWS]
    with tempfile.TemporaryDirectory() as own:
        folder = asked.folder or Path(own)
        if asked.part in (None, "rows", "engines", "now", "model"):
            in_subprocess(by_engine, make_set(WARMING_ROWS, folder), "stream")
        tables: dict[str, Callable[[], None]] = {
            "rows": lambda: rows_table(sizes, folder),
            "engines": lambda: engines_table(sizes[0], folder),
            "now": lambda: now_table(sizes[0], folder),
            "model": lambda: model_table(sizes, folder),
            "parts": lambda: print_parts(draw_log),
            "paper": print_paper,
        }
        for name in parts if asked.part is None else (asked.part,):
            tables[name]()


if __name__ == "__main__":
    main()
