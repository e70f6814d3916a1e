"""The thread pool behind the kernels."""

from __future__ import annotations

import multiprocessing
import sys
import threading

import numpy as np
import pytest

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
    before, pieces, threads = cores(), [], set()

    def task(start: int, stop: int) -> None:
        pieces.append((start, stop))
        threads.add(threading.get_ident())

    with using_cores(count):
        assert cores() == count
        assert doubled() == list(range(0, 200, 2))
        over_cores(task, count=100)
    assert cores() == before
    assert sorted(pieces)[0][0] == 0
    assert len(pieces) == (1 if count == 1 else 4 * count)
    assert (threads == {threading.get_ident()}) is (count == 1)


def test_an_error_in_a_piece_is_raised():
    def task(start: int, stop: int) -> None:
        raise ValueError("in a piece")

    with pytest.raises(ValueError, match="in a piece"):
        over_cores(task, count=10)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    doubled()  # the parent's pool now exists
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map_async(doubled, [0]).get(timeout=30) == [doubled()]
