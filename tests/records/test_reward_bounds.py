"""What may be assumed of rewards."""

from __future__ import annotations

import pytest

from pacbandits.errors import InputError
from pacbandits.problems import load_problem
from pacbandits.records import RewardBounds


def test_in_words() -> None:
    assert RewardBounds().describe() == "rewards lie in [0, 1]"
    assert RewardBounds(2.5, in_unit=False).describe() == "mean rewards lie in [0, 1], and E[r² | c, a] ≤ 2.5"


@pytest.mark.parametrize("bound", [0.5, float("nan"), float("inf")])
def test_refuses_a_bound_that_does_not_fit(bound: float) -> None:
    with pytest.raises(InputError, match=r"the bound on E\[r²\], must be .*1 or more, got"):
        RewardBounds(bound, in_unit=False)


def test_rewards_in_the_unit_interval_need_no_larger_bound() -> None:
    with pytest.raises(InputError, match=r"a bound of 2\.0 does not fit"):
        RewardBounds(2.0)


def test_a_problem_tells_its_bounds_and_not_its_means() -> None:
    assert load_problem("hard:noise=bernoulli,gap=0.1").reward_bounds == RewardBounds()
    assert load_problem("hard:gap=0.1,variance=0.5").reward_bounds == RewardBounds(1.5, in_unit=False, proxy=0.5)
