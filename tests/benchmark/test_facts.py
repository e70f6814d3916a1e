"""What theory says of a case: figures that are known, and words where there are none."""

from __future__ import annotations

import json
import math

import pytest

from pacbandits.benchmark.cases import Case
from pacbandits.benchmark.results import CaseFacts, find_facts
from pacbandits.errors import InputError
from pacbandits.problems import load_problem

HARD = Case("hard", "hard:m=10,gap=1", 0.0, 0.1, 1_000, certified=False)


@pytest.mark.thorough
def test_the_paper_knows_what_its_hard_instance_costs():
    """ρ = 2m/Δ²; uniform exploration plays each of two actions half of the time, which is as good as can be."""
    found = find_facts(HARD)
    assert found.rho_lower == pytest.approx(20, rel=1e-3)
    assert found.rho_upper == pytest.approx(20, rel=1e-3)
    assert (found.n_contexts, found.n_actions, found.n_policies) == (10, 2, 10)
    assert found.log_size == pytest.approx(math.log(10))
    assert found.law == "Gaussian"
    assert 0 < found.lower_bound < found.union_price
    low, high = found.uniform_over_best
    assert low <= found.uniform_upper / 20 <= high * (1 + 1e-3)
    assert found.words == ""
    assert found.is_of(HARD)
    assert not found.is_of(Case("hard", "hard:m=10,gap=1", 0.1, 0.1, 1_000))


def test_uniform_exploration_pays_for_actions_that_do_not_matter():
    found = find_facts(Case("many", "two-of-many:actions=10,policies=100,contexts=20", 0.1, 0.1, 1_000))
    low, high = found.uniform_over_best
    assert 2 < low <= high < 10
    assert low == pytest.approx(found.uniform_lower / found.rho_upper)
    assert found.sigma_uniform_over_best[0] == pytest.approx(found.sigma_uniform_lower / found.sigma_upper)
    assert found.lower_bound is None
    assert "more than one policy" in found.words


def test_another_class_than_the_problems_own_is_measured():
    case = Case("trees", "trees:actions=3,contexts=30", 0.2, 0.1, 1_000, policies="trees:depth=1")
    found = find_facts(case)
    assert found.rho_lower <= found.rho_upper
    assert found.log_size == case.load().policies.log_size != load_problem(case.problem).policies.log_size


def test_facts_come_back_from_json_also_infinite_ones():
    found = find_facts(HARD)
    for one in (found, CaseFacts("a", "b", "", 0.0, 0.1, 2, 2, None, 1.0, rho_upper=math.inf, words="tied")):
        assert CaseFacts.from_json(json.loads(json.dumps(one.to_json(), allow_nan=False))) == one
    with pytest.raises(InputError, match="lacks 'delta'"):
        CaseFacts.from_json({name: value for name, value in found.to_json().items() if name != "delta"})
    with pytest.raises(InputError, match="means nothing here"):
        CaseFacts.from_json(found.to_json() | {"more": 1})


def test_a_measurement_that_takes_too_long_leaves_sizes_and_words():
    found = find_facts(HARD, patience_seconds=0.0)
    assert found.words == "to measure it takes more than 0 s"
    assert (found.n_contexts, found.rho_lower, found.uniform_over_best) == (10, None, None)
