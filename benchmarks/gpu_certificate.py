"""What a whole certificate takes with a CUDA card, pass by pass; it prints Markdown.

python -m benchmarks.gpu_certificate 1e8                       rows that are drawn as they are read
python -m benchmarks.gpu_certificate 1e8 --parquet FOLDER      the same rows in Parquet files, written there first
python -m benchmarks.gpu_certificate 3e7 --compare 3e7         compares with the processor at so many rows, not at 10⁶

10 features, 10 actions, rewards of 0 and 1, all actions alike; trees of depth 2. The second certificate finds the rows
on the card. What the card says is compared with the processor; more than 1.3·10⁷ rows are several stretches there. Who
is certified, and how far, depends on the number of rows in leaps, as the first of the shuffled rows teach the class.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.measuring import print_table
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.certify import Request, certify_survey
from pacbandits.certificate.learning import LearntClass
from pacbandits.certificate.summed.survey import Surveyed, learn_policies, survey_for
from pacbandits.certificate.worth import measure_policy
from pacbandits.compiled import cores
from pacbandits.engines import ROWS_PER_BLOCK, Aggregation, Engine, Local, Source, Sums
from pacbandits.engines.base import even_stripes
from pacbandits.engines.cuda import CudaEngine, available
from pacbandits.engines.cuda.card import cupy, why_not
from pacbandits.logs.data_set import open_set
from pacbandits.records import Contexts, Log

FEATURES, ACTIONS, EPSILON, DELTA = 10, 10, 0.01, 0.05
SPEC = "trees:depth=2"
COMPARED_ROWS = 10**6
BLOCKS_PER_FILE = 16
NAMES = tuple(f"f{j}" for j in range(FEATURES))


def draw_block(number: int, n: int) -> Log:
    """The rows of a block, the same whoever draws them; a tree of depth 2 has the best actions."""
    rng = np.random.default_rng((0, number))
    x = rng.standard_normal((n, FEATURES))
    actions = rng.integers(ACTIONS, size=n)
    best = np.where(x[:, 0] > 0, np.where(x[:, 1] > 0.3, 2, 5), np.where(x[:, 2] > -0.2, 7, 1))
    rewards = (rng.random(n) < np.where(actions == best, 0.45, 0.3)).astype(np.float64)
    contexts = Contexts.of(x, names=NAMES)
    return Log.of(contexts, actions=actions, rewards=rewards, propensities=np.full((n, ACTIONS), 1 / ACTIONS))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows that are drawn as they are read; all else is what a survey of them would find."""

    n_rows: int
    n_actions: int = ACTIONS
    action_names: None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    dates: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    fixed_split: bool = True
    rounds_rise: bool = True
    max_repeats: int = 1

    @property
    def samples(self) -> int:
        return self.n_rows

    @property
    def round_counts(self) -> dict[int, int]:
        return {0: self.n_rows}

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        for number in range(first, last):
            yield draw_block(number, min(ROWS_PER_BLOCK, self.n_rows - number * ROWS_PER_BLOCK))

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return even_stripes(self.n_rows, most_blocks=most_blocks)


@dataclass
class Timed:
    """An engine that notes what each pass takes."""

    engine: Engine
    notes: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    @property
    def name(self) -> str:
        return self.engine.name

    def ask(self, source: Source, question: Aggregation, *, what: str) -> Sums:
        start = perf_counter()
        found = self.engine.ask(source, question, what=what)
        self.notes.append((what, perf_counter() - start))
        return found


class CardMemory:
    """The most memory of the card that was in use, looked at now and then."""

    def __enter__(self) -> CardMemory:
        self.most, self._over = 0, Event()
        self._watch = Thread(target=self._look)
        self._watch.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.05):
            free, total = cupy().cuda.runtime.memGetInfo()
            self.most = max(self.most, total - free)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()


def report(title: str, engine: Timed, work: Callable[[], Any]) -> Any:
    """Print what some work takes, pass by pass."""
    engine.notes.clear()
    start = perf_counter()
    found = work()
    whole = perf_counter() - start
    rest = whole - sum(seconds for _, seconds in engine.notes)
    lines = [*engine.notes, ("all else, on the processor", rest), ("together", whole)]
    print_table(title, ("pass", "s"), [(what, f"{seconds:.2f}") for what, seconds in lines])
    return found


def certify(surveyed: Surveyed, learnt: LearntClass, engine: Engine) -> Certificate:
    read = replace(surveyed, engine=engine)
    return certify_survey(read, learnt, Request(epsilon=EPSILON, delta=DELTA)).certificate


def prepare(source: Source, engine: Engine) -> tuple[Surveyed, LearntClass]:
    surveyed = survey_for(source, SPEC, engine=engine, contexts=None, ordered=False, shuffle=False)
    return surveyed, learn_policies(surveyed, SPEC, None)


def compare(n: int) -> None:
    """Print how far the card's certificate is from the processor's."""
    source, card, local = Drawn(n), CudaEngine(), Local("stream")
    surveyed, learnt = prepare(source, local)
    certify(surveyed, learnt, card)  # compiles what there is to be compiled
    found, want = certify(surveyed, learnt, card), certify(surveyed, learnt, local)
    worth, same = (measure_policy(replace(surveyed, engine=one), want) for one in (card, local))
    card.close()
    assert worth is not None
    assert same is not None
    scale = n * max(want.bets.stakes(0))
    print(
        f"\nAt {n:,} rows the log-wealth is {found.value:.9g} by the card, {want.value:.9g} by the processor: ", end=""
    )
    print(f"{abs(found.value - want.value) / scale:.1e} of all stakes apart; ", end="")
    print(f"{'the same' if found.policy == want.policy else 'ANOTHER'} policy, ", end="")
    print(f"certified to {found.certified_epsilon:.6g} and {want.certified_epsilon:.6g}. ", end="")
    ends = [abs(getattr(worth.value, end) - getattr(same.value, end)) for end in ("low", "estimate", "high")]
    print(f"The interval of its value is {max(ends):.1e} apart.")


def write_files(n: int, folder: Path) -> list[str]:
    """Write the rows as Parquet files, a core each."""
    folder.mkdir(parents=True, exist_ok=True)
    stripes = even_stripes(n, most_blocks=BLOCKS_PER_FILE)
    given = [(n, stripe, str(folder / f"{place:05d}.parquet")) for place, stripe in enumerate(stripes)]
    with get_context("spawn").Pool(cores()) as pool:
        pool.starmap(_write, given, chunksize=1)
    return [name for _, _, name in given]


def _write(n: int, stripe: range, name: str) -> None:
    log: Log | None = None
    for block in Drawn(n).blocks(stripe.start, stripe.stop):
        log = block if log is None else log.followed_by(block)
    assert log is not None
    log.write(name)


def main(given: list[str]) -> None:
    if not available():
        print(f"nothing is measured: {why_not()}")
        return
    n = int(float(given[0])) if given else 10**8
    card = cupy().cuda.runtime.getDeviceProperties(0)
    print(f"{card['name'].decode()}, {cores()} cores, CuPy {cupy().__version__}; {n:,} rows")
    compared = int(float(given[given.index("--compare") + 1])) if "--compare" in given else COMPARED_ROWS
    compare(min(n, compared))
    source, engine = Drawn(n), Timed(CudaEngine())
    if "--parquet" in given:
        start = perf_counter()
        files = write_files(n, Path(given[given.index("--parquet") + 1]))
        written = sum(Path(name).stat().st_size for name in files)
        print(f"\n{len(files)} files of {written / 1e9:.1f} GB were written in {perf_counter() - start:.0f} s")
    with CardMemory() as memory:
        begun = perf_counter()
        if "--parquet" in given:
            source = report("Opening files", engine, lambda: open_set(files))
        surveyed, learnt = report("The first reading", engine, lambda: prepare(source, engine))
        found = report("A certificate, rows not on the card", engine, lambda: certify(surveyed, learnt, engine))
        print(f"\nAll of that: {perf_counter() - begun:.1f} s")
        again = report("Another certificate, rows on the card", engine, lambda: certify(surveyed, learnt, engine))
        report("What the policy is worth", engine, lambda: measure_policy(surveyed, again))
    assert again.to_json() == found.to_json()
    said = f"log-wealth {found.value:.6g}, {found.threshold:.3g} needed; certified to {found.certified_epsilon:.4g}"
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{said}; at most {memory.most / 1e9:.1f} GB on the card and {host:.1f} GB beside it")


if __name__ == "__main__":
    main(sys.argv[1:])
