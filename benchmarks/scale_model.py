"""The estimates of `pacbandits.certificate.summed.cost`: their constants measured again, and 10¹⁰ rows by them.

It is called by `python -m benchmarks.scale parts` and `python -m benchmarks.scale paper`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.measuring import in_subprocess, power, print_table
from pacbandits.certificate.learning import LearntClass
from pacbandits.certificate.ledger import Against, add_log_wealth
from pacbandits.certificate.summed import cost
from pacbandits.certificate.summed.cost import Work, estimate_cost, tree_work
from pacbandits.certificate.summed.ledger import ScoreSetting, wealth_bits
from pacbandits.certificate.summed.survey import first_model, learn_policies, make_setting, survey_for
from pacbandits.engines import Local
from pacbandits.engines.local import BlockDigests
from pacbandits.logs.data_set import open_set
from pacbandits.policies.base import spell_bytes, spell_seconds
from pacbandits.policies.summation import actions_on, summing
from pacbandits.records import Log

Draw = Callable[..., Log]

# Features and actions that constants are measured at, with enough rows that what is done once counts for little.
MEASURED = ((4, 3), (10, 10), (20, 20))
MEASURED_ROWS, BLOCKS, TIMES = 2**18 + 2**17, 4, 3
WIDTHS = 2, 10  # scores for each action that are added up, to tell what a pair takes from what an addition does

PAPER_ROWS, PAPER_WORKERS = 10**10, 100
DOLLARS_PER_CORE_HOUR = 0.05  # assumed
STORE_BYTES_PER_SECOND = 1e8  # assumed, of each worker from where files are kept
LOOKED_AT_BYTES_PER_ROW = 1  # actions, rewards and shares, which are few different numbers
FILE_BYTES_PER_ROW = 84  # of 10 features without compression to speak of; shares of a split are hardly any
LARGE = ((10, 32, 10), (30, 32, 20), (60, 32, 20), (100, 32, 20), (200, 8, 64), (200, 32, 64))
LARGE_ROWS = 10**8
ROUNDED_ROWS = (10**6, 10**7, 10**8, 10**9, 10**10)
GIGABYTES_THERE = 64


def print_parts(draw: Draw) -> None:
    """Each constant, and what it is by measurements at several sizes."""
    found = [in_subprocess(measure_parts, draw, *size)[0] for size in MEASURED]
    rows = [
        [f"`{name}`", f"{getattr(cost, name) * 1e9:,.3g}", *(f"{one[name] * 1e9:,.3g}" for one in found)]
        for name in found[0]
    ]
    head = ["constant", "ns", *(f"{d} features × {a} actions" for d, a in MEASURED)]
    print_table("Seconds of one core, in billionths", head, rows)


def measure_parts(draw: Draw, d: int, actions: int) -> dict[str, float]:
    """The constants at one size."""
    with tempfile.TemporaryDirectory() as folder:
        name = Path(folder) / "rows.parquet"
        draw(MEASURED_ROWS, seed=0, d=d, actions=actions).write(name)
        open_set([name])
        looking = quickest(lambda: open_set([name])) / MEASURED_ROWS
        source = open_set([name])
        reading = quickest(lambda: list(source.blocks(0, BLOCKS))) / BLOCKS
        surveyed = survey_for(
            source, "trees:depth=2", engine=Local("stream"), contexts=None, ordered=False, shuffle=False
        )
        block = next(source.blocks(BLOCKS - 1, BLOCKS))
    learnt, n = learn_policies(surveyed, "trees:depth=2", None), len(block)
    model, numbers, number = first_model(surveyed.early), d + actions + 2, BLOCKS - 1
    setting = make_setting(surveyed.early, model, surveyed.arrangement, learns=True)
    sums, digests = summing(learnt.policies), BlockDigests(BLOCKS)
    naming = quickest(lambda: digests.add(number, block, digests.begin()))
    arranging = quickest(lambda: surveyed.arrangement.places_of(number * n, block))
    predicting = quickest(lambda: setting.rows_of(number, block)) / n
    size = d * actions * cost.SECONDS_PER_FEATURE_AND_ACTION_PREDICTED
    bins = learnt.policies.bins  # pyright: ignore
    cutting, codes, pairs = quickest(lambda: bins.encode(block.contexts)), bins.encode(block.contexts), d * (d + 1) / 2
    adding: list[float] = []
    for times in WIDTHS:
        scores, total = np.ones((n, times * actions), dtype=np.int64), sums.zeros(times * actions)
        adding.append(quickest(lambda s=scores, t=total: sums.add_coded(codes, s, t)) / n / pairs)  # pyright: ignore
    slope = (adding[1] - adding[0]) / ((WIDTHS[1] - WIDTHS[0]) * actions)
    return {
        "SECONDS_PER_NUMBER_LOOKED_AT": looking / (actions + cost.OWN_COLUMNS),
        "SECONDS_PER_NUMBER_READ": reading / n / numbers,
        "SECONDS_PER_NUMBER_NAMED": naming / n / numbers,
        "SECONDS_PER_ROW_ARRANGED": arranging / n,
        "SECONDS_PER_FEATURE_CUT": cutting / n / d,
        "SECONDS_PER_ROW_PREDICTED": predicting - size,
        "SECONDS_PER_LOGARITHM": bet_once(setting, learnt, block, number) / n / actions,
        "SECONDS_PER_PAIR": adding[0] - slope * WIDTHS[0] * actions,
        "SECONDS_PER_ADDITION": slope,
    }


def bet_once(setting: ScoreSetting, learnt: LearntClass, block: Log, number: int) -> float:
    """Core-seconds of one expert's bets on a block, rounded to whole numbers."""
    rows, rounds = setting.rows_of(number, block), setting.n_rounds
    leader = learnt.policies.argmax(block.contexts, rows.predictions)
    acted = np.array([actions_on(leader, block.contexts)])
    against = Against(acted, np.zeros(rounds, dtype=np.int64), np.zeros((rounds, 1)))
    stakes, wealth = np.full(rounds, 0.1), np.zeros_like(rows.predictions)

    def bet() -> None:
        wealth[:] = 0.0
        add_log_wealth(rows, against, stakes, 0.9, 0.01, wealth, 0, len(block))
        np.floor(np.ldexp(wealth, 36)).astype(np.int64)

    return quickest(bet)


def quickest(call: Callable[[], object]) -> float:
    """The least of a few times that a call takes, in core-seconds."""
    times: list[float] = []
    for _ in range(TIMES + 1):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return min(times)


def print_paper() -> None:
    """10¹⁰ rows on 100 workers, and sizes at which sums are too large: by the estimates alone."""
    work = tree_work(PAPER_ROWS, features=10, bins=32, actions=10)
    print_steps(work)
    print_rounding()
    rows: list[list[str]] = []
    for features, bins, actions in LARGE:
        large = tree_work(LARGE_ROWS, features=features, bins=bins, actions=actions)
        found = estimate_cost(large, engine=cost.DASK, workers=PAPER_WORKERS)
        rows.append(
            [
                f"{features} × {bins} × {actions}",
                spell_bytes(large.sums_bytes),
                str(large.passes),
                spell_bytes(found.memory_bytes),
                spell_bytes(found.worker_bytes),
                spell_bytes(found.sent_bytes),
                "yes" if found.memory_bytes < GIGABYTES_THERE * 1e9 else "no",
            ]
        )
    head = ["features × bins × actions", "sums of an expert", "passes", "memory of who asks", "of a worker", "sent"]
    title = f"{power(LARGE_ROWS, digits=0)} rows on {PAPER_WORKERS} workers, as sums grow"
    print_table(title, [*head, f"fits in {GIGABYTES_THERE} GB"], rows)


def print_rounding() -> None:
    """What rounding the wealth of every row down may lose."""
    rows: list[list[str]] = []
    for n in ROUNDED_ROWS:
        bits = wealth_bits(n)
        rows.append(
            [power(n, digits=0), str(bits), power(2.0**-bits), f"{n * 2.0**-bits:.2g}", power(2.0 ** (63 - bits))]
        )
    head = ["rows", "bits after the point", "most lost by a row, nats", "by all rows", "room for"]
    print_table("What is lost by rounding down", head, rows)


def print_steps(work: Work) -> None:
    """What each step takes, on one core or shared by all workers."""
    per, w, n = cost.row_seconds(work), PAPER_WORKERS, work.rows
    making = per["reading"] + per["predicting"]
    row = FILE_BYTES_PER_ROW
    steps = {
        "look at all rows, by one core": (cost.looking_seconds(work), 1, LOOKED_AT_BYTES_PER_ROW),
        "gather early rows, name all": (n * (per["reading"] + per["gathering"]), w, row),
        "choose a leader": (n * (making + per["comparing"]), w, row),
        "look for a simpler one": (n * making, w, row),
        "bet by all experts": (n * (making + per["betting"]), w, row),
        "models and early leaders, by one core": (cost.early_seconds(work) + cost.SECONDS_OF_A_CERTIFICATE, 1, 0),
    }
    total = [0.0, 0.0, 0.0]
    rows: list[list[str]] = []
    for name, (seconds, workers, bytes_) in steps.items():
        read = n * bytes_
        clock = max(seconds / workers, read / (workers * STORE_BYTES_PER_SECOND))
        total = [total[0] + seconds / 3600, total[1] + clock, total[2] + read]
        rows.append([name, f"{seconds / 3600:.1f}", spell_seconds(clock), spell_bytes(read) if read else "–"])
    rows.append(["in all", f"{total[0]:.1f}", spell_seconds(total[1]), spell_bytes(total[2])])
    title = f"{power(n, digits=0)} rows, {work.features} features × 32 bins × {work.actions} actions, {w} workers"
    print_table(title, ["step", "core-hours", "clock", "read from files"], rows)
    held, busy = w * total[1] / 3600, total[0]
    price = DOLLARS_PER_CORE_HOUR
    print(
        f"\nAt ${price:.2f} a core-hour: ${held * price:,.2f} if all workers are held from beginning to end, "
        f"${busy * price:,.2f} for what they work."
    )
