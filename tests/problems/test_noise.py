"""Beta noise: rewards in [0, 1] of the mean and the variance that are stated."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.problems.noise import Beta

DRAWS = 40_000


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_beta_rewards_have_their_mean_and_variance(share):
    noise, rng = Beta(share), np.random.default_rng(1)
    for mean in (0.03, 0.5, 0.8):
        means = np.full(DRAWS, mean)
        variance = share * mean * (1 - mean)
        assert noise.variances(means)[0] == pytest.approx(variance)
        rewards = noise.sample(means, variances=noise.variances(means), rng=rng)
        assert 0 <= rewards.min() <= rewards.max() <= 1
        assert abs(rewards.mean() - mean) < 4.5 * np.sqrt(variance / DRAWS)
        squares = (rewards - mean) ** 2
        assert abs(squares.mean() - variance) < 4.5 * squares.std() / np.sqrt(DRAWS)


def test_what_is_certain_stays_so_and_means_beyond_the_range_are_refused():
    noise, rng = Beta(0.3), np.random.default_rng(0)
    means = np.array([0.0, 1.0, 0.0, 1.0])
    np.testing.assert_array_equal(noise.sample(means, variances=noise.variances(means), rng=rng), means)
    with pytest.raises(InputError, match="mean_rewards must lie in"):
        noise.check(np.array([[1.2]]))
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(InputError, match="share of the largest variance"):
            Beta(share)


def test_every_draw_of_a_tally_is_a_reward_of_its_own():
    noise, counts = Beta(0.3), np.array([3, 0, 5])
    means = np.array([0.2, 0.5, 0.9])
    which, rewards, repeats = noise.tally(
        counts, means=means, variances=noise.variances(means), rng=np.random.default_rng(2)
    )
    np.testing.assert_array_equal(np.bincount(which, minlength=3), counts)
    assert (repeats == 1).all()
    assert len(np.unique(rewards)) == 8
