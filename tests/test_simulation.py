"""Runs against a truth: reproducible, stopped for a stated reason, and judged by that truth."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from pacbandits.algorithms import ALGORITHMS, profile_of
from pacbandits.errors import InputError
from pacbandits.policies import Finite, chosen_from_json
from pacbandits.problems import Bernoulli, Problem, load_problem
from pacbandits.records import Contexts
from pacbandits.simulation import repeat, run
from tests.algorithms.cases import CASES, PLAYED, PROBLEMS, TREES, problem_of
from tests.paper.cases import LISTED, NAMES

OPTIONS = {"epsilon": 0.3, "delta": 0.1}
BY_LOGS = ("coda", "uniform", "policy-sets", "track-and-stop")
FIRST = [(name, next(spec for other, spec in CASES if other == name)) for name in ALGORITHMS]
# Of each algorithm that takes several rounds a problem on which it does: rage-free has the first one in one round.
ONE_ROUND = ("planner-sampler",)
SOME = [
    *((name, LISTED[1] if name == "rage-free" else spec) for name, spec in FIRST if name not in ONE_ROUND),
    ("coda", TREES),
    ("coda-paper", TREES),
]


def as_kind(kind, problem):
    """The same problem, as one of another kind."""
    return kind(**{field.name: getattr(problem, field.name) for field in fields(problem)})


def without_time(done):
    return {key: value for key, value in done.to_json().items() if key != "seconds"}


@cache
def watched(name, spec):
    """A run, and what was told of it meanwhile."""
    stages = []
    return run(problem_of(spec), algorithm=name, rng=5, watch=stages.append, epsilon=PROBLEMS[spec], delta=0.1), stages


@pytest.mark.first(2)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_a_run_as_json(name, spec):
    problem, (done, _) = problem_of(spec), watched(name, spec)
    value = json.loads(json.dumps(done.to_json(), allow_nan=False))
    # coda-paper is coda-oracle where a class cannot be listed.
    listed = problem.policies.lists_policies
    assert value["algorithm"] == ("coda-oracle" if name == "coda-paper" and not listed else name)
    assert value["problem"] == problem.name
    assert value["seed"] == 5
    assert value["correct"] is True
    assert value["samples"] == sum(figures["samples"] for figures in value["history"])
    again = chosen_from_json(value["policy"])
    assert problem.value(again) == problem.value(done.policy)
    assert value["value_gap"] == pytest.approx(problem.value(problem.best_policy()) - problem.value(again), abs=1e-12)
    assert value["words"] == done.policy.describe()


@pytest.mark.first(5)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_stages_are_told_in_order(name, spec):
    done, stages = watched(name, spec)
    assert [stage.round_number for stage in stages] == sorted(stage.round_number for stage in stages)
    played = [stage for stage in stages if stage.doing.startswith("playing")]
    assert len(played) == done.rounds
    assert sum(int(stage.doing.split()[1].replace(",", "")) for stage in played) == done.samples
    assert stages[0].samples == 0
    assert stages[-1].samples == done.samples
    assert all(1 <= stage.round_number <= stage.rounds for stage in stages)
    assert stages[-1].policy == done.policy.describe()
    if profile_of(name).certifies:
        told = list(dict.fromkeys((stage.samples, stage.certified_epsilon) for stage in stages))
        assert told == [(0, 1.0), *((figures["total"], figures["certified_epsilon"]) for figures in done.history)]
    else:
        assert {stage.certified_epsilon for stage in stages} == {None}


@pytest.mark.parametrize("name", ONE_ROUND)
def test_a_budget_below_the_only_round_ends_a_run_before_it(name):
    spec = dict(FIRST)[name]
    problem, options = problem_of(spec), {"epsilon": PROBLEMS[spec], "delta": 0.1}
    full = run(problem, algorithm=name, rng=2, **options)
    assert full.rounds == 1
    part = run(problem, algorithm=name, rng=2, max_samples=full.samples - 1, **options)
    assert (part.stopped, part.rounds, part.samples) == ("budget", 0, 0)
    assert run(problem, algorithm=name, rng=2, max_samples=full.samples, **options).stopped == "done"


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "spec"), SOME)
def test_a_budget_ends_a_run_with_what_is_known(name, spec):
    problem, options = problem_of(spec), {"epsilon": PROBLEMS[spec], "delta": 0.1}
    full = run(problem, algorithm=name, rng=2, **options)
    assert full.rounds >= 2
    first = full.history[0]["samples"]
    for budget, rounds in ((first - 1, 0), (first, 1), (first + full.history[1]["samples"] - 1, 1)):
        part = run(problem, algorithm=name, rng=2, max_samples=budget, **options)
        assert part.stopped == "budget"
        assert part.rounds == rounds
        assert part.samples == (first if rounds else 0) <= budget
        assert part.history == full.history[:rounds]
        assert f"and {budget - part.samples:,} are left" in part.reason
        assert "within {epsilon:g} of".format(**options) not in part.guarantee
        if name in NAMES:
            assert part.guarantee.startswith(f"none: stopped after {rounds} of about")
        assert isinstance(part.correct, bool)
    assert run(problem, algorithm=name, rng=2, max_samples=full.samples, **options).stopped == "done"
    with pytest.raises(InputError, match=r"max_samples must be .*1 or more, got 0"):
        run(problem, algorithm=name, rng=2, max_samples=0, **options)


def test_a_round_that_does_not_fit_into_memory_ends_a_run():
    problem = replace(load_problem("hard:m=8,gap=0.05"), most_drawn_entries=20_000)
    done = run(problem, algorithm="rage", epsilon=0.002, delta=0.1, rng=0)
    assert done.stopped == "memory"
    assert done.rounds >= 1
    assert done.reason.startswith(f"round {done.rounds + 1}: a round of ")
    assert "GB" in done.reason
    assert done.guarantee.startswith("none")


@pytest.mark.first(2)
@pytest.mark.parametrize(("name", "spec"), SOME)
def test_an_interrupted_run_says_what_is_known(name, spec):
    problem, options = problem_of(spec), {"epsilon": PROBLEMS[spec], "delta": 0.1}
    full = run(problem, algorithm=name, rng=2, **options)
    rounds = []

    class Interrupted(Problem):
        def interact(self, *arguments, **chosen):
            rounds.append(chosen["round_number"])
            if len(rounds) > 1:
                raise KeyboardInterrupt
            return super().interact(*arguments, **chosen)

    interrupted = as_kind(Interrupted, problem)
    part = run(interrupted, algorithm=name, rng=2, **options)
    assert part.stopped == "interrupted"
    assert part.reason == "interrupted in round 2"
    assert part.rounds == 1
    assert part.samples == full.history[0]["samples"]
    assert part.history == full.history[:1]
    assert "within {epsilon:g} of".format(**options) not in part.guarantee
    if name in NAMES:
        assert part.guarantee.startswith("none: stopped after 1 of about")
    rounds.clear()
    assert [one.stopped for one in repeat(interrupted, runs=5, seed=2, algorithm=name, **options)] == ["interrupted"]


def test_repeat_uses_one_seed_after_the_other():
    problem = load_problem(LISTED[0])
    runs = repeat(problem, runs=3, seed=7, algorithm="rage", **OPTIONS)
    assert [one.seed for one in runs] == [7, 8, 9]
    assert without_time(runs[1]) == without_time(run(problem, algorithm="rage", rng=8, **OPTIONS))


@pytest.mark.parametrize("epsilon", [0.3, 0.6, 2.0])  # with one round or none, round numbers do not fall
def test_stages_say_which_run_they_belong_to(epsilon):
    stages = []
    problem = load_problem(LISTED[1])
    runs = repeat(problem, runs=4, seed=7, algorithm="rage-free", epsilon=epsilon, delta=0.1, watch=stages.append)
    order = [stage.run for stage in stages]
    assert order == sorted(order)
    assert set(order) == {0, 1, 2, 3}
    for number, done in enumerate(runs):
        mine = [stage for stage in stages if stage.run == number]
        assert mine[0].samples == 0
        assert mine[-1].samples == done.samples


@pytest.mark.first(1)
@pytest.mark.parametrize("name", [*NAMES, "coda-paper:solver=fw-gd"])
def test_a_round_that_cannot_be_counted_ends_a_run(name):
    """Two policies of equal value and a tiny ε: samples grow until no computer can count them."""
    problem = Problem(
        name="tie",
        description="Two actions of equal worth.",
        population=Contexts.finite(1),
        mean_rewards=np.array([[0.5, 0.5, 0.1]]),
        noise=Bernoulli(),
        policies=Finite([[0], [1], [2]], n_actions=3),
    )
    done = run(problem, algorithm=name, epsilon=1e-9, delta=0.1, rng=0)
    assert done.stopped == "memory"
    assert done.rounds > 10
    assert 2**50 < done.samples == sum(figures["samples"] for figures in done.history)
    assert f"round {done.rounds + 1}: a round of " in done.reason
    assert "more than can be counted" in done.reason
    assert done.guarantee.startswith(f"none: stopped after {done.rounds} of about")
    huge = run(problem, algorithm=name, epsilon=0.3, delta=0.1, rng=0, scale=1e290)
    assert huge.stopped == "memory"
    assert huge.samples == 0
    assert len(huge.reason) < 200
    budget = run(problem, algorithm=name, epsilon=0.3, delta=0.1, rng=0, scale=1e290, max_samples=5)
    assert budget.stopped == "budget"
    assert len(budget.reason) < 200
    with pytest.raises(InputError, match="infinitely many interactions"):
        run(problem, algorithm=name, epsilon=0.3, delta=0.1, rng=0, scale=1e308)


@pytest.mark.first(4)
@pytest.mark.parametrize(("name", "spec"), [*SOME, *((name, LISTED[1]) for name in NAMES)])
def test_sampled_contexts_stand_for_their_distribution(name, spec):
    """With few of them some contexts are never seen beforehand; the log may still hold them."""
    problem = problem_of(spec)
    for offline in (1, 3, 500):
        done = run(problem, algorithm=name, rng=4, offline_contexts=offline, **OPTIONS)
        assert done.stopped == "done"
        # Trials and such go by the contexts of their logs, and need not assume it; those who prove nothing neither.
        assumed = re.search(rf"\b{offline} contexts (that were drawn )?stand well enough", done.guarantee)
        assert (assumed is None) is (name in BY_LOGS or not profile_of(name).proves)
    assert done.correct  # with 500, as good as knowing it


def test_another_class_is_judged_by_its_own_best():
    problem = load_problem("trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=2")
    small = load_problem(TREES).policies
    done = run(problem, small, epsilon=0.3, delta=0.1, rng=0)
    best = small.argmax(problem.population, problem.population.weights[:, None] * problem.mean_rewards)
    assert done.value_gap == pytest.approx(max(problem.value(best) - problem.value(done.policy), 0.0))


def test_a_problem_may_be_given_by_its_name():
    by_name = run(LISTED[1], algorithm="coda", rng=3, **OPTIONS)
    loaded = run(load_problem(LISTED[1]), algorithm="coda", rng=3, **OPTIONS)
    assert (by_name.problem, by_name.samples) == (loaded.problem, loaded.samples)
    assert [one.seed for one in repeat(LISTED[1], runs=2, seed=5, algorithm="coda", **OPTIONS)] == [5, 6]
    with pytest.raises(InputError, match="did you mean 'trees'"):
        run("tree", rng=0, **OPTIONS)
