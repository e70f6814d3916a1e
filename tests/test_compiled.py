"""The thread pool behind the kernels."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time

import numpy as np
import pytest

from pacbandits import compiled
from pacbandits.compiled import cores, over_cores, using_cores


def doubled(_: int = 0) -> list[int]:
    out = np.zeros(100, dtype=np.int64)

    def task(start: int, stop: int) -> None:
        out[start:stop] = 2 * np.arange(start, stop)

    over_cores(task, count=len(out))
    return out.tolist()


def test_every_piece_is_done_once():
    assert doubled() == list(range(0, 200, 2))


@pytest.mark.parametrize("count", [1, 3])
def test_the_number_of_cores_can_be_chosen_for_a_while(count):
    before, pieces, threads, together = cores(), [], set(), threading.Barrier(count)

    def task(start: int, stop: int) -> None:
        if threading.get_ident() not in threads:  # so many are at work at the same time, or this waits in vain
            threads.add(threading.get_ident())
            together.wait(timeout=30)
        pieces.append((start, stop))

    with using_cores(count):
        assert cores() == count
        assert doubled() == list(range(0, 200, 2))
        over_cores(task, count=100)
    assert cores() == before
    assert [start for start, _ in sorted(pieces)] == [0, *(stop for _, stop in sorted(pieces)[:-1])]
    assert len(pieces) == (1 if count == 1 else 4 * count)
    assert len(threads) == count
    assert threading.get_ident() in threads


def test_nobody_is_waited_for_who_has_not_begun():
    """All other threads are busy elsewhere: the caller does all the pieces."""
    begun, over, ended = threading.Barrier(4), threading.Event(), []

    def busy(start: int, stop: int) -> None:
        begun.wait(timeout=30)
        over.wait(timeout=10)
        ended.append(start)

    def elsewhere() -> None:
        with using_cores(3):
            over_cores(busy, count=3)

    others = threading.Thread(target=elsewhere)
    others.start()
    begun.wait(timeout=30)
    try:
        with using_cores(3):
            assert doubled() == list(range(0, 200, 2))
        assert not ended
    finally:
        over.set()
        others.join()


def test_an_error_in_a_piece_is_raised():
    def task(start: int, stop: int) -> None:
        raise ValueError("in a piece")

    with pytest.raises(ValueError, match="in a piece"):
        over_cores(task, count=10)


@pytest.mark.parametrize("by_caller", [True, False])
def test_after_an_error_nothing_more_is_begun(by_caller):
    together, pieces = threading.Barrier(2), []

    def task(start: int, stop: int) -> None:
        pieces.append(start)
        together.wait(timeout=30)
        if (threading.current_thread() is threading.main_thread()) is by_caller:
            raise ValueError("in a piece")
        time.sleep(0.2)  # until the other has failed

    with using_cores(2), pytest.raises(ValueError, match="in a piece"):
        over_cores(task, count=80, chunks_per_core=40)
    time.sleep(0.3)
    assert len(pieces) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    doubled()  # the parent's pool now exists
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map_async(doubled, [0]).get(timeout=30) == [doubled()]


def test_compilation_is_announced_once(tmp_path, monkeypatch):
    """Whatever commands run before the first kernel is compiled."""
    monkeypatch.setattr(compiled.Kernel, "folders", lambda: {tmp_path / "code"})
    assert [compiled.announces_compiling() for _ in range(3)] == [True, False, False]
    monkeypatch.setattr(compiled.Kernel, "folders", lambda: {None})
    assert compiled.announces_compiling()
