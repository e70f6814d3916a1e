"""The trivial class where its frontier must be rounded."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies import Trivial
from pacbandits.policies.finite import large_maps
from pacbandits.records import Contexts
from tests.policies.brute import values


def test_a_rounded_frontier_dominates_and_stays_close() -> None:
    rng = np.random.default_rng(0)
    n, n_actions, resolution = 40, 4, 256
    contexts = Contexts.finite(n)
    first = rng.normal(size=(n, n_actions))
    second = -first + 0.5 * rng.normal(size=(n, n_actions))
    policies = Trivial(n, n_actions, resolution=resolution)
    front = policies.frontier(contexts, first, second)
    assert not front.exact
    assert len(front) <= resolution
    assert (np.diff(front.first) < 0).all()
    assert (np.diff(front.second) > 0).all()
    # Whatever maximises a mixture of the two lies below some point.
    for share in np.linspace(0, 1, 41):
        actions = policies.argmax(contexts, share * first + (1 - share) * second)(contexts)[None]
        f, s = values(actions, first)[0], values(actions, second)[0]
        assert ((front.first >= f - 1e-9) & (front.second >= s - 1e-9)).any()
    # Each of the six rounds of merging overstates first by an interval at most, the widest of which (equal intervals of
    # the fourth root) is four times the mean; second is attained.
    span = (first.max(axis=1) - first.min(axis=1)).sum()
    for i in range(0, len(front), 7):
        actions = front.policy(i)(contexts)[None]
        assert values(actions, second)[0] == pytest.approx(front.second[i])
        assert -1e-9 <= front.first[i] - values(actions, first)[0] <= 6 * 4 * span / resolution


def test_a_resolution_large_enough_is_exact() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 6, 3))
    coarse, fine = (Trivial(6, 3, resolution=r).frontier(Contexts.finite(6), first, second) for r in (20, 10_000))
    assert fine.exact
    assert len(coarse) <= 20
    for f, s in zip(fine.first, fine.second, strict=True):
        assert ((coarse.first >= f - 1e-9) & (coarse.second >= s - 1e-9)).any()


def test_contexts_never_seen_get_some_action() -> None:
    policies = Trivial(4, 3)
    some = Contexts.finite(4).take([1, 1, 2])
    scores = np.array([[0.0, 1.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(policies.argmax(some, scores)(Contexts.finite(4)), [0, 0, 2, 0])


@pytest.mark.parametrize(("n_contexts", "n_actions"), [(0, 2), (2, 0)])
def test_empty_classes_are_refused(n_contexts: int, n_actions: int) -> None:
    with pytest.raises(InputError, match="must be 1 or more, got 0"):
        Trivial(n_contexts, n_actions)


@pytest.mark.parametrize(("n_contexts", "n_actions"), [(10**12, 2), (10**5, 10**4)])
def test_more_contexts_than_memory_holds_are_refused_in_a_sentence(n_contexts, n_actions):
    """Ids of people instead of contexts, or a class from a file of a stranger's."""
    with pytest.raises(InputError, match="more than the trivial class can hold"):
        Trivial(n_contexts, n_actions)
    with pytest.raises(InputError, match="more than the trivial class can hold"):
        Trivial.from_json({"kind": "trivial", "n_contexts": n_contexts, "n_actions": n_actions})


def test_last_digits_change_no_map() -> None:
    """Which maps are tried depends on scores only as far as all processors agree on them."""
    rng = np.random.default_rng(3)
    first, second = rng.random((40, 3)), -rng.random((40, 3))

    def maps(scores: np.ndarray) -> np.ndarray:
        return np.array(large_maps(scores, second, lambda f, s: f / (5.0 - s) ** 2, most=30))

    np.testing.assert_array_equal(maps(np.nextafter(first, 1.0)), maps(first))
    assert (maps(1.1 * first) != maps(first)).any()
