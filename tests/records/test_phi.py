"""φ on contexts: carried through every operation, through Parquet, and refused in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.logs.readers import read_log
from pacbandits.records import Contexts, Log
from pacbandits.records.log import digest_log

PHI = np.random.default_rng(0).standard_normal((5, 3, 2))


def contexts(*, ids: bool = True) -> Contexts:
    return Contexts.of(np.arange(5.0)[:, None], ids=np.arange(5) if ids else None, phi=PHI)


def log(rows: list[int]) -> Log:
    n = len(rows)
    return Log.of(
        contexts().take(rows), actions=np.arange(n) % 3, rewards=np.ones(n), propensities=np.full((n, 3), 1 / 3)
    )


def phi_of(given: Contexts) -> np.ndarray:
    assert given.phi is not None
    return given.phi.array


def test_rows_keep_their_phi():
    assert np.array_equal(phi_of(contexts().take([3, 1, 1])), PHI[[3, 1, 1]])
    some = Contexts.of(np.zeros((5, 1)), weights=[0.5, 0, 0.5, 0, 0], phi=PHI)
    assert np.array_equal(phi_of(some.only(some.weights > 0)), PHI[[0, 2]])
    assert np.array_equal(phi_of(contexts().take([4, 0, 4]).tallied()), PHI[[0, 4]])
    both, where = contexts().take([0, 1]).joined(contexts().take([1, 2]))
    assert np.array_equal(phi_of(both)[where], PHI[[1, 2]])
    assert np.array_equal(phi_of(log([0, 1]).followed_by(log([4])).contexts), PHI[[0, 1, 4]])


def test_rows_from_different_tables_join():
    one, two = contexts().take([0, 1]), Contexts.of(np.arange(5.0)[:, None], ids=np.arange(5), phi=PHI.copy())
    both, where = one.joined(two.take([2]))
    assert np.array_equal(phi_of(both)[where], PHI[[2]])


def test_contexts_without_ids_are_told_apart_by_phi():
    same = np.repeat(PHI[:1], 4, axis=0).copy()
    same[3, 0, 0] += 1.0
    first, which = Contexts.of(np.zeros((4, 1)), phi=same).distinct()
    assert len(first) == 2
    assert which[0] == which[1] == which[2] != which[3]


def test_parquet_gives_phi_back(tmp_path: Path):
    contexts().write(tmp_path / "contexts.parquet")
    assert np.array_equal(phi_of(Contexts.read(tmp_path / "contexts.parquet")), PHI)
    log([4, 4, 2]).write(tmp_path / "log.parquet")
    for back in (Log.read(tmp_path / "log.parquet"), read_log(tmp_path / "log.parquet")[0]):
        assert np.array_equal(phi_of(back.contexts), PHI[[4, 4, 2]])
        assert digest_log(back) == digest_log(log([4, 4, 2]))


def test_weights_survive_parquet_to_the_last_bit(tmp_path: Path):
    weights = np.random.default_rng(1).dirichlet(np.ones(5))
    given = Contexts.of(np.arange(5.0)[:, None], weights=weights, phi=PHI)
    given.write(tmp_path / "contexts.parquet")
    assert np.array_equal(Contexts.read(tmp_path / "contexts.parquet").weights, given.weights)


def test_a_log_without_features_but_with_phi_is_read(tmp_path: Path):
    bare = Contexts.of(np.empty((5, 0)), phi=PHI)
    Log.of(bare, actions=np.zeros(5), rewards=np.ones(5), propensities=np.full((5, 3), 1 / 3)).write(
        tmp_path / "log.parquet"
    )
    back = read_log(tmp_path / "log.parquet")[0]
    assert back.contexts.ids is not None
    assert len(np.unique(back.contexts.ids)) == 5


def test_the_digest_of_a_log_sees_phi():
    changed = PHI.copy()
    changed[4, 2, 1] += 1e-9
    other = Contexts.of(np.arange(5.0)[:, None], ids=np.arange(5), phi=changed)
    same = Log.of(other, actions=np.zeros(5), rewards=np.ones(5), propensities=np.full((5, 3), 1 / 3))
    mine = Log.of(contexts(), actions=np.zeros(5), rewards=np.ones(5), propensities=np.full((5, 3), 1 / 3))
    assert digest_log(same) != digest_log(mine)


@pytest.mark.parametrize(
    ("phi", "words"),
    [
        (np.zeros((4, 3, 2)), r"phi must have shape \(5, any, any\), got \(4, 3, 2\)"),
        (np.zeros((5, 3)), r"phi must have shape"),
        (np.full((5, 3, 2), np.nan), r"phi must be finite"),
        (np.zeros((5, 3, 0)), r"at least one context, action and feature"),
    ],
)
def test_bad_phi_is_refused(phi: np.ndarray, words: str):
    with pytest.raises(InputError, match=words):
        Contexts.of(np.zeros((5, 1)), phi=phi)


def test_what_does_not_fit_is_said():
    with pytest.raises(InputError, match="carry no features of actions"):
        Contexts.finite(3).require_phi(n_actions=2)
    with pytest.raises(InputError, match="phi is of 3 actions, but there are 4"):
        contexts().require_phi(n_actions=4)
    with pytest.raises(InputError, match="cannot join contexts without"):
        contexts(ids=False).joined(Contexts.of(np.zeros((1, 1))))
    with pytest.raises(InputError, match="cannot join that of 3 and 2"):
        contexts(ids=False).joined(Contexts.of(np.zeros((1, 1)), phi=np.ones((1, 3, 4))))
