"""Products of small matrices run on one thread, whatever the machine has, and others as before."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import pacbandits as pb
from pacbandits.compiled import one_blas_thread
from pacbandits.rewards import neighbours
from pacbandits.rewards.neighbours import Neighbours


def threads():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_one_thread_inside_and_as_many_as_before_outside():
    with one_blas_thread():
        before = threads()
        assert set(before) == {1}
    outside = threads()
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert threads() == outside


def test_models_of_neighbours_are_fitted_so(monkeypatch):
    seen: list[int] = []
    real = neighbours.Half.gram.func

    def gram(half):
        seen.extend(threads())
        return real(half)

    monkeypatch.setattr(neighbours.Half, "gram", property(gram))
    rng = np.random.default_rng(0)
    log = pb.Log.of(
        pb.Contexts.of(rng.normal(size=(300, 2))),
        actions=rng.integers(0, 2, 300),
        rewards=rng.random(300),
        propensities=np.full((300, 2), 0.5),
    )
    Neighbours().fit(log)
    assert set(seen) == {1}
