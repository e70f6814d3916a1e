"""A problem and a noise from outside the package: each in one place, and wherever a built-in one goes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pytest

import pacbandits as pb


@pb.built_in("doors", description="doors of which the first is best")
def doors(
    *,
    doors: Annotated[int, pb.About("how many", least=2)] = 3,
    lead: Annotated[float, pb.About("of the first", above=0, most=0.5)] = 0.4,
) -> pb.Problem:
    """Every door is a policy."""
    return pb.Problem(
        name="doors",
        description=f"{doors} doors, the first better by {lead:g}.",
        population=pb.Contexts.finite(1),
        mean_rewards=np.where(np.arange(doors) == 0, 0.5 + lead, 0.5)[None],
        noise=pb.Bernoulli(),
        policies=pb.Finite(np.arange(doors)[:, None], n_actions=doors),
    )


@dataclass(frozen=True)
class Even:
    """Rewards spread evenly about their mean."""

    width: float

    name = "evenly spread"
    counted = False

    def check(self, means: np.ndarray) -> None:
        if (means < self.width).any() or (means > 1 - self.width).any():
            raise pb.InputError("rewards must stay in [0, 1]")

    def variances(self, means: np.ndarray) -> np.ndarray:
        return np.full(means.shape, self.width**2 / 3)

    def sample(self, means: np.ndarray, *, variances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return means + self.width * rng.uniform(-1, 1, means.shape)

    def bounds(self, means: np.ndarray) -> pb.RewardBounds:
        return pb.RewardBounds()

    def tally(
        self, counts: np.ndarray, *, means: np.ndarray, variances: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        which = np.repeat(np.arange(len(counts)), counts)
        rewards = self.sample(means[which], variances=variances[which], rng=rng)
        return which, rewards, np.ones(len(which), dtype=np.int64)


def test_a_problem_by_its_options_runs_is_measured_and_saved(tmp_path) -> None:
    problem = doors(doors=4)
    assert problem.name == "doors:doors=4,lead=0.4"
    done = pb.run(problem, epsilon=0.1, delta=0.05, rng=0)
    assert done.certificate is not None
    assert done.certificate.certified
    assert done.value_gap == 0
    assert pb.measure(problem, problem.policies, epsilon=0.1, delta=0.05).union_price > 0
    pb.save_problem(problem, tmp_path / "doors.npz")
    again = pb.load_problem(str(tmp_path / "doors.npz"))
    np.testing.assert_array_equal(again.mean_rewards, problem.mean_rewards)
    with pytest.raises(pb.InputError, match="problem 'doors' has no option 'windows'"):
        doors(windows=2)


def test_a_noise_of_ones_own(tmp_path) -> None:
    problem = replace(doors(), noise=Even(0.1))
    done = pb.run(problem, epsilon=0.1, delta=0.05, rng=0)
    assert done.log is not None
    assert (np.abs(done.log.rewards - problem.mean_rewards[0, done.log.actions]) <= 0.1).all()
    assert done.log.repeats.max() == 1
    np.testing.assert_allclose(problem.noise_variance, 0.01 / 3)
    with pytest.raises(pb.InputError, match=r"holds Bernoulli or Gaussian rewards; .* has evenly spread ones"):
        pb.save_problem(problem, tmp_path / "doors.npz")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(pb.InputError, match=r"with evenly spread rewards would need about .* GB; at most 33 fit"):
        replace(problem, most_drawn_entries=100).check_affordable(34)
