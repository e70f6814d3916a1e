"""What certificates of large logs take, told and refused before rows are read."""

from __future__ import annotations

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.certify import certify
from pacbandits.certificate.summed import cost
from pacbandits.certificate.summed.cost import (
    check_engine_fits,
    check_rows_fit,
    estimate_cost,
    foresee_work,
    foretell_engine,
    tree_work,
)
from pacbandits.certificate.summed.survey import as_engine_reads
from pacbandits.compiled import using_cores
from pacbandits.engines import Local, LogSource
from pacbandits.errors import InputError
from pacbandits.logs.data_set import open_set

GB = 10**9


def usual(rows: int) -> cost.Work:
    return tree_work(rows, features=10, bins=32, actions=10)


def drawn(n: int = 3_000, d: int = 3, actions: int = 4) -> pb.Log:
    rng = np.random.default_rng(1)
    contexts = pb.Contexts.of(rng.normal(size=(n, d)), names=[f"f{j}" for j in range(d)])
    return pb.Log.of(
        contexts,
        actions=rng.integers(actions, size=n),
        rewards=(rng.random(n) < 0.5).astype(np.float64),
        propensities=np.full((n, actions), 1 / actions),
    )


class Counting:
    """An engine that counts how often it was asked."""

    name = "stream"

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, source, question, *, what):
        self.asked += 1
        return Local("stream").ask(source, question, what=what)


def test_memory_of_a_stream_does_not_grow_with_rows_and_time_does():
    small, large = (estimate_cost(usual(rows), engine="stream", workers=2) for rows in (10**7, 10**9))
    assert small.memory_bytes == large.memory_bytes
    assert 90 < large.core_seconds / small.core_seconds < 101


def test_memory_of_threads_grows_with_rows_unless_they_are_there_already():
    files = estimate_cost(usual(10**8), engine="threads", workers=2).memory_bytes
    stream = estimate_cost(usual(10**8), engine="stream", workers=2).memory_bytes
    there = cost.Work(10**8, 10, 10, 320**2, 55, rows_in_memory=10**8)
    assert files > 10 * stream
    assert estimate_cost(there, engine="threads", workers=2).memory_bytes == stream


def test_work_is_shared_but_for_the_first_look_and_the_early_rows():
    one, many = (estimate_cost(usual(10**9), engine="dask", workers=w) for w in (1, 100))
    alone = cost.looking_seconds(usual(10**9)) + cost.early_seconds(usual(10**9)) + cost.SECONDS_OF_A_CERTIFICATE
    assert one.core_seconds == many.core_seconds
    assert many.seconds == pytest.approx(alone + (one.seconds - alone) / 100)


@pytest.mark.thorough
def test_the_work_that_is_foreseen_is_the_work_that_is_done():
    """Cells and passes as the ledger has them: the class learnt from the first rows has as many bins."""
    log, engine = drawn(), Counting()
    work = foresee_work(LogSource(log), "trees:depth=2,bins=6")
    assert work is not None
    assert (work.features, work.actions, work.pairs, work.late_choices) == (3, 4, 6, 0)
    made = pb.learn_class("trees:depth=2,bins=6", log)
    sums = made.policies.summing().zeros(4)  # pyright: ignore
    assert work.sums_bytes == sums.nbytes
    certify(LogSource(log), "trees:depth=2,bins=6", engine=engine, epsilon=0.5)
    assert engine.asked == work.passes - 1  # but for the look when files are opened


def test_passes_grow_where_the_sums_of_all_experts_are_too_large_for_one():
    assert usual(10**6).passes == 5
    wide = tree_work(10**6, features=30, bins=32, actions=20)
    assert (wide.at_once, wide.passes) == (2, 9)


def test_what_cannot_be_told_yet_is_left_open():
    log = drawn()
    assert foresee_work(LogSource(log), "trees:bins=nonsense") is None
    made = pb.learn_class("trees:depth=1,bins=6", log)
    work = foresee_work(LogSource(log), made)
    assert work is not None
    assert (work.cells, work.pairs) == (18, 3)


def test_a_class_that_needs_all_rows_at_once_says_so_before_they_are_read():
    engine = Counting()
    with pytest.raises(InputError, match=r"searched with all rows at once"):
        certify(LogSource(drawn()), "trees:depth=3", engine=engine, epsilon=0.5)
    assert engine.asked == 0


def test_rows_too_many_for_memory_are_refused_with_the_engine_that_would_do():
    with pytest.raises(InputError, match=r"30,000,000 rows .* by threads .* 8.0 GB are free; .*stream.* would do"):
        check_engine_fits(usual(3 * 10**7), engine="threads", workers=2, free_bytes=8 * GB)
    check_engine_fits(usual(3 * 10**7), engine="stream", workers=2, free_bytes=2 * GB)


def test_sums_too_large_for_any_engine_are_refused_with_their_size():
    huge = tree_work(10**6, features=200, bins=32, actions=64)
    for engine in ("threads", "stream", "dask", "cuda"):
        with pytest.raises(InputError, match=r"21 GB for each of 10 experts, .*fewer features"):
            check_engine_fits(huge, engine=engine, workers=2, free_bytes=64 * GB)


def test_a_card_too_small_is_refused_and_a_larger_one_is_not():
    wide = tree_work(10**8, features=60, bins=32, actions=20)
    with pytest.raises(InputError, match=r"by cuda would take about .* of the card's memory, and 1.0 GB are free"):
        check_engine_fits(wide, engine="cuda", workers=2, free_bytes=200 * GB, card_bytes=GB)
    check_engine_fits(wide, engine="cuda", workers=2, free_bytes=200 * GB, card_bytes=80 * GB)


def test_nothing_is_read_of_what_is_refused(monkeypatch):
    monkeypatch.setattr(cost, "free_memory_bytes", lambda: 10**6)
    engine = Counting()
    with pytest.raises(InputError, match=r"1 MB are free"):
        certify(LogSource(drawn()), "trees:depth=2", engine=engine, epsilon=0.5)
    assert engine.asked == 0


def test_files_are_not_read_into_memory_that_is_too_small(monkeypatch, tmp_path):
    drawn().write(tmp_path / "rows.parquet")
    source = open_set([tmp_path / "rows.parquet"])
    check_rows_fit(source)
    words = r"3,000 rows would take about 1 MB .*stream.* reads them as they are needed"
    for workers in (1, 64):  # each reads a part of them
        with using_cores(workers), pytest.raises(InputError, match=words):
            check_rows_fit(source, free_bytes=10**5)
    monkeypatch.setattr(cost, "free_memory_bytes", lambda: 10**5)
    with pytest.raises(InputError, match=r"while they are read"):
        as_engine_reads(source, "threads")
    with pytest.raises(InputError, match=r"by threads would take about .* of memory"):
        certify(source, "trees:depth=1", epsilon=0.5, engine="threads")


def test_what_takes_long_is_told_and_what_does_not_is_not():
    assert foretell_engine(usual(10**5), engine="stream", workers=2) == ""
    words = foretell_engine(usual(10**7), engine="stream", workers=2)
    assert words.startswith("10,000,000 rows with 10 features and 10 actions: about 2 minutes by stream with 2 cores")
    assert "5 passes" in words
    assert "1 core," in foretell_engine(usual(10**7), engine="stream", workers=1)
