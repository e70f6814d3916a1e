"""What the tests of the command line share."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def run(command):
    return command


@pytest.fixture
def problem_file(tmp_path):
    path = tmp_path / "problem.npz"
    np.savez(
        path,
        context_weights=[0.5, 0.5],
        mean_rewards=[[0.9, 0.1], [0.4, 0.6]],
        policy_actions=[[0, 1], [1, 1], [0, 0]],
    )
    return path


@pytest.fixture
def clicks(tmp_path):
    """A CSV of 3,000 people of two places, three actions played with 0.2, 0.3 and 0.5, and rewards from 0 to 10."""
    rng = np.random.default_rng(0)
    place, action = rng.integers(2, size=3000), rng.choice(3, size=3000, p=[0.2, 0.3, 0.5])
    reward = 10 * (rng.random(3000) < np.where(action == 2 * place, 0.9, 0.1))
    path = tmp_path / "clicks.csv"
    people = enumerate(zip(place, action, reward, strict=True))
    rows = [f"{'ca'[p]},{p + i % 3},{a},{r},{(0.2, 0.3, 0.5)[a]}" for i, (p, a, r) in people]
    path.write_text("place,age,action,reward,propensity\n" + "\n".join(rows) + "\n")
    return path
