"""Shares of the best actions: ties, also those that rounding has parted, and nothing else."""

from __future__ import annotations

import numpy as np

from pacbandits.rivals.samplers import best_shares


def test_the_best_action_takes_all_and_ties_share_alike():
    scores = np.array([[0.1, 0.7, 0.3], [0.4, 0.2, 0.4], [-2.0, -2.0, -2.0]])
    assert best_shares(scores).tolist() == [[0, 1, 0], [0.5, 0, 0.5], [1 / 3] * 3]
    assert best_shares(scores[:1]).tolist() == [[0, 1, 0]]
    assert best_shares(np.stack([scores, -scores]))[1].tolist() == [[1, 0, 0], [0, 1, 0], [1 / 3] * 3]


def test_rounding_parts_no_ties_and_joins_nothing_else():
    for size in (1.0, -1.0, 1e6):
        assert best_shares(np.array([[size, size * (1 + 1e-14)]])).tolist() == [[0.5, 0.5]]
        assert best_shares(np.array([[size, size + abs(size) * 1e-6]])).tolist() == [[0, 1]]
