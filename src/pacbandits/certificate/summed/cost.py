"""The predicted time and memory of a certificate by sums; and a refusal if an engine cannot compute it.

Legend: n rows, d features, A actions, K experts, C cells (all bins squared, for trees of depth 2), P pairs of features,
w workers. Work on every row, in seconds of one core:

    look        A + 4 numbers (no feature that is a number), once, when files are opened
    reading     d + A + 2 numbers, in every pass; digested in the first
    predicting  a model of d features for A actions, in every pass that computes scores
    betting     K A logarithms, and K A scores added for P pairs
    comparing   2 A scores added for P pairs

Partial sums are 8 C A K bytes for each worker, and as many again where they are joined. The constants were measured on
one core of 2020 (`python -m benchmarks.scale model` measures them again).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from pacbandits.certificate.conventions import EXPERT_STAKES, SETTLING_SHARE
from pacbandits.certificate.learning import LearntClass
from pacbandits.certificate.learning_record import fewest_to_teach
from pacbandits.certificate.summed.ledger import MAX_SUM_BYTES
from pacbandits.certificate.summed.limits import LIMITS
from pacbandits.compiled import cores
from pacbandits.engines import ROWS_PER_BLOCK, Engine, LogSource, Source
from pacbandits.engines.base import CardEngine
from pacbandits.engines.registry import STREAM, THREADS
from pacbandits.errors import InputError
from pacbandits.machine import free_memory_bytes
from pacbandits.policies.base import PATIENCE_SECONDS, PolicyClass, spell_bytes, spell_seconds
from pacbandits.policies.registry import learns, load_policies
from pacbandits.policies.summation import summing
from pacbandits.records import Contexts

DASK, CUDA = "dask", "cuda"

# Seconds of one core.
SECONDS_PER_NUMBER_LOOKED_AT = 26e-9
SECONDS_PER_NUMBER_READ = 22e-9
SECONDS_PER_NUMBER_NAMED = 5.5e-9
SECONDS_PER_ROW_ARRANGED = 0.25e-6
SECONDS_PER_FEATURE_CUT = 40e-9
SECONDS_PER_ROW_PREDICTED, SECONDS_PER_FEATURE_AND_ACTION_PREDICTED = 1.1e-6, 11e-9
SECONDS_PER_LOGARITHM = 40e-9  # of an expert, with the computation of its score
SECONDS_PER_PAIR, SECONDS_PER_ADDITION = 10e-9, 0.65e-9
SECONDS_PER_EARLY_ROW, SECONDS_PER_EARLY_FEATURE_AND_ACTION = 17e-6, 0.22e-6  # models and leaders of all blocks
SECONDS_OF_A_CERTIFICATE = 6.0  # imports, searches in sums, tests for drift

BYTES_OF_A_PROCESS = 3.2e8
BLOCK_COPIES = 4  # of the rows of a block: as they are read, as a log, predicted, rounded
GATHERED_COPIES = 1.5  # of rows that are kept in memory, with derived arrays
COPIES_WHILE_LOADING = 4.0  # of rows that are read into memory: 3.2 to 4.6 measured, with 1 to 64 cores
BYTES_PER_NUMBER = 8
OWN_COLUMNS = 4  # of a row besides its features and propensities: action, reward, round, repeats
MANY_WORKERS, JOINED_BY_WORKERS = 16, 8  # of Dask: with this many workers, workers join sums, so many at a time
IN_HAND_PER_WORKER, TASKS_PER_WORKER = 2, 4
CARD_SHARE = 0.8  # of a card's memory that may be used


@dataclass(frozen=True)
class Work:
    """The sizes that determine the cost of a certificate.

    rows: n.
    features: d.
    actions: A.
    cells: C, in which scores are added up.
    pairs: P, the number of additions of each score of a row.
    experts: K.
    late_choices: the number of choices of a leader by passes over all rows so far.
    rows_in_memory: the number of rows that are in memory already.
    """

    rows: int
    features: int
    actions: int
    cells: int
    pairs: int
    experts: int = len(EXPERT_STAKES)
    late_choices: int = 1
    rows_in_memory: int = 0

    @property
    def rows_in_files(self) -> int:
        """The number of rows that are still to be read."""
        return self.rows - self.rows_in_memory

    @property
    def numbers(self) -> int:
        """The numbers that are read of a row."""
        return self.features + self.actions + 2

    @property
    def sums_bytes(self) -> int:
        """The bytes of the sums of one expert."""
        return self.cells * self.actions * BYTES_PER_NUMBER

    @property
    def at_once(self) -> int:
        """The number of experts whose sums are computed in one pass."""
        return min(self.experts, max(1, MAX_SUM_BYTES // max(self.sums_bytes, 1)))

    @property
    def gathered_bytes(self) -> int:
        """The bytes of the rows that are kept in memory: early and watched ones."""
        rows = min(self.rows, LIMITS.early) + min(self.rows, LIMITS.watched)
        return rows * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """The bytes of a row in memory."""
        return (self.features + self.actions + OWN_COLUMNS) * BYTES_PER_NUMBER

    @property
    def block_bytes(self) -> int:
        """The bytes of a block of rows while it is processed: its scores and their inputs."""
        return min(self.rows, ROWS_PER_BLOCK) * (
            self.at_once * self.actions * BYTES_PER_NUMBER + BLOCK_COPIES * self.row_bytes
        )

    @property
    def passes(self) -> int:
        """The number of passes over all rows: to open, to gather, to choose leaders and simplify, and to bet."""
        betting = -(-self.experts // self.at_once)
        return 2 + (self.late_choices + 1 if self.late_choices else 0) + betting

    @property
    def words(self) -> str:
        """The size in words."""
        return f"{self.rows:,} rows with {self.features:,} features and {self.actions:,} actions"


def tree_work(
    rows: int, *, features: int, bins: int, actions: int, experts: int = len(EXPERT_STAKES), late_choices: int = 1
) -> Work:
    """Return the work for trees of depth 2; bins: of each feature."""
    cells, pairs = (features * bins) ** 2, features * (features + 1) // 2
    return Work(rows, features, actions, cells, pairs, experts, late_choices)


def foresee_work(
    source: Source,
    policies: PolicyClass | LearntClass | str,
    *,
    contexts: Contexts | None = None,
    ordered: bool = False,
) -> Work | None:
    """Return the work for a class on the rows of a source, by its first block; None if the class is not known yet.

    Raises:
        InputError: If the class needs all rows at once.
    """
    head = next(iter(source.blocks(0, 1)))
    made = policies.policies if isinstance(policies, LearntClass) else policies
    if isinstance(made, str):
        given = contexts
        if given is None and learns(made):
            given = head.contexts.take(np.arange(min(len(head), fewest_to_teach(made))))
        if given is None:
            return None
        spec, made = made, None
        with suppress(InputError):  # raised later, when the class is learnt from the rows that teach it
            made = load_policies(spec, given, n_actions=head.n_actions)
    if made is None:
        return None
    shape, d, n = summing(made).zeros(0).shape[:-1], head.contexts.n_features, source.n_rows
    pairs = {1: 1 if head.contexts.ids is not None else d, 2: d * (d + 1) // 2}[len(shape)]
    beyond = n * (1.0 if ordered else SETTLING_SHARE) / LIMITS.early
    late = 0 if beyond <= 1 else math.ceil(math.log2(beyond)) if ordered else 1
    there = n if isinstance(source, LogSource) else 0
    return Work(n, d, head.n_actions, math.prod(shape), pairs, late_choices=late, rows_in_memory=there)


@dataclass(frozen=True)
class Estimate:
    """The predicted cost of a certificate by an engine.

    seconds: wall time.
    core_seconds: of all cores together.
    memory_bytes: at most, of the process that calls the engine.
    worker_bytes: of each worker process; 0 if there are none.
    card_bytes: at least, of a card.
    read_bytes: numbers that are read from files, by their size in memory.
    sent_bytes: partial sums that travel between processes.
    """

    seconds: float
    core_seconds: float
    memory_bytes: float
    worker_bytes: float = 0.0
    card_bytes: float = 0.0
    read_bytes: float = 0.0
    sent_bytes: float = 0.0


def estimate_cost(work: Work, *, engine: str, workers: int | None = None) -> Estimate:
    """Return the predicted cost of a certificate; workers: cores that add up (default: those of this machine)."""
    w = cores() if workers is None else workers
    alone = looking_seconds(work) + early_seconds(work) + SECONDS_OF_A_CERTIFICATE
    shared = passes_seconds(work, on_card=engine == CUDA)
    joined = _at_once_bytes(work)
    held = BYTES_OF_A_PROCESS + GATHERED_COPIES * work.gathered_bytes + (work.experts + 2) * work.sums_bytes
    worker_bytes = sent = card = 0.0
    if engine == DASK:
        groups = IN_HAND_PER_WORKER * w if w < MANY_WORKERS else IN_HAND_PER_WORKER * w // JOINED_BY_WORKERS
        memory = held + (2 + groups) * joined
        worker_bytes = BYTES_OF_A_PROCESS + work.block_bytes + 2 * joined
        sent = TASKS_PER_WORKER * w * (work.gathered_bytes + _summed_bytes(work))
    else:
        memory = held + (w + 2) * joined + w * work.block_bytes
        card = (2 * work.at_once + 1) * work.sums_bytes if engine == CUDA else 0.0
    if engine == THREADS:
        memory += COPIES_WHILE_LOADING * work.rows_in_files * work.row_bytes
    return Estimate(
        alone + shared / w,
        alone + shared,
        memory,
        worker_bytes,
        card,
        (work.passes - 1) * work.rows * work.numbers * BYTES_PER_NUMBER,
        sent,
    )


def looking_seconds(work: Work) -> float:
    """Return the seconds of the first scan of all rows when files are opened, on one core."""
    return work.rows * (work.actions + OWN_COLUMNS) * SECONDS_PER_NUMBER_LOOKED_AT


def early_seconds(work: Work) -> float:
    """Return the seconds for models and leaders that are learnt from early rows."""
    rows, size = min(work.rows, LIMITS.early), work.features * work.actions
    return rows * (SECONDS_PER_EARLY_ROW + size * SECONDS_PER_EARLY_FEATURE_AND_ACTION)


def row_seconds(work: Work) -> dict[str, float]:
    """Return the seconds of one core for a row in one pass, by task."""
    w, size = work, work.features * work.actions

    def adding(width: float) -> float:
        return w.pairs * (SECONDS_PER_PAIR + width * SECONDS_PER_ADDITION) + w.features * SECONDS_PER_FEATURE_CUT

    return {
        "reading": w.numbers * SECONDS_PER_NUMBER_READ,
        "gathering": w.numbers * SECONDS_PER_NUMBER_NAMED + SECONDS_PER_ROW_ARRANGED,
        "predicting": SECONDS_PER_ROW_PREDICTED + size * SECONDS_PER_FEATURE_AND_ACTION_PREDICTED,
        "comparing": SETTLING_SHARE * adding(2 * w.actions),
        "betting": w.at_once * w.actions * SECONDS_PER_LOGARITHM + adding(w.at_once * w.actions),
    }


def passes_seconds(work: Work, *, on_card: bool = False) -> float:
    """Return the seconds of one core for the work that workers share; on_card: they only read, predict and send."""
    per = row_seconds(work)
    making = per["reading"] + per["predicting"]
    if on_card:
        cut = work.features * SECONDS_PER_FEATURE_CUT
        return work.rows * (per["reading"] + per["gathering"] + making + cut)
    betting = -(-work.experts // work.at_once) * (making + per["betting"])
    choosing = work.late_choices * (making + per["comparing"]) + (making if work.late_choices else 0.0)
    return work.rows * (per["reading"] + per["gathering"] + choosing + betting)


def check_engine_fits(
    work: Work,
    *,
    engine: str,
    workers: int | None = None,
    free_bytes: int | None = None,
    card_bytes: int | None = None,
) -> None:
    """Raise InputError if a certificate is too large for an engine; the message has the memory needed and a remedy.

    free_bytes: free memory, if not as the machine reports. card_bytes: the card's memory, if there is one.
    """
    free = free_memory_bytes() if free_bytes is None else free_bytes
    found = estimate_cost(work, engine=engine, workers=workers)
    if card_bytes is not None and found.card_bytes > CARD_SHARE * card_bytes:
        where, needed, room = "of the card's memory", found.card_bytes, float(card_bytes)
    elif free is not None and found.memory_bytes - BYTES_OF_A_PROCESS > free:  # the process has its share
        where, needed, room = "of memory", found.memory_bytes, float(free)
    else:
        return
    raise InputError(
        f"{work.words} by {engine} would take about {spell_bytes(needed)} {where}, and {spell_bytes(room)} are free; "
        f"{_remedy(work, engine, free=math.inf if free is None else free)}"
    )


def card_bytes(engine: Engine) -> int | None:
    """Return the memory of the card that an engine uses; None if there is none."""
    return engine.card_bytes if isinstance(engine, CardEngine) else None


def check_rows_fit(source: Source, *, free_bytes: int | None = None) -> None:
    """Raise InputError if the rows of files do not fit into memory; free_bytes: as for `check_engine_fits`."""
    head = next(iter(source.blocks(0, 1)))
    row_bytes = (head.contexts.n_features + head.n_actions + OWN_COLUMNS) * BYTES_PER_NUMBER
    needed = COPIES_WHILE_LOADING * source.n_rows * row_bytes
    free = free_memory_bytes() if free_bytes is None else free_bytes
    if free is not None and needed > free:
        raise InputError(
            f"{source.n_rows:,} rows would take about {spell_bytes(needed)} of memory while they are read, and "
            f"{spell_bytes(free)} are free; --engine 'stream' reads them as they are needed"
        )


def _remedy(work: Work, engine: str, *, free: float) -> str:
    """Return what to do instead of using an engine that does not fit, in words."""
    instead = estimate_cost(work, engine=STREAM)
    if engine != STREAM and instead.memory_bytes - BYTES_OF_A_PROCESS <= free:
        return f"--engine 'stream' would do, with {spell_bytes(instead.memory_bytes)} in {_time(instead)}"
    return (
        f"the sums of all pairs of bins are {spell_bytes(work.sums_bytes)} for each of {work.experts} experts, whoever "
        "adds up: use fewer features (--without), bins (trees:bins=8) or actions"
    )


def foretell_engine(
    work: Work, *, engine: str, workers: int | None = None, patience_seconds: float = PATIENCE_SECONDS
) -> str:
    """Return the predicted cost of a certificate by an engine, in a line; "" if it takes little time."""
    found = estimate_cost(work, engine=engine, workers=workers)
    if found.seconds <= patience_seconds:
        return ""
    w = cores() if workers is None else workers
    return (
        f"{work.words}: about {spell_seconds(found.seconds)} by {engine} with {w} {'core' if w == 1 else 'cores'}, "
        f"{work.passes} passes over all rows, {spell_bytes(found.memory_bytes)} of memory"
    )


def _time(found: Estimate) -> str:
    return f"about {spell_seconds(found.seconds)}"


def _at_once_bytes(work: Work) -> float:
    """Return the bytes of the largest partial sums of one worker."""
    return max(work.gathered_bytes, work.at_once * work.sums_bytes, 2 * work.sums_bytes)


def _summed_bytes(work: Work) -> float:
    """Return the bytes of the sums of all passes, once."""
    return (work.experts + 2 * work.late_choices) * work.sums_bytes
