"""What is special to the paper's algorithms; what they share with all others is in tests/algorithms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.algorithms.cases import TREES, make, play
from tests.paper.cases import CASES, LISTED, NAMES

from pacbandits.algorithms import ALGORITHMS, make_algorithm
from pacbandits.errors import InputError
from pacbandits.paper.coda import CodaPaper
from pacbandits.paper.coda_common import CodaCommon
from pacbandits.paper.coda_oracle import CodaOracle
from pacbandits.paper.frank_wolfe import solve_frank_wolfe
from pacbandits.paper.rage import Rage
from pacbandits.paper.rage_free import RageFree
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem, load_problem
from pacbandits.records import Contexts, Log, RewardBounds
from pacbandits.simulation import run
from pacbandits.trials.protocol import Setting


@pytest.mark.first(11)
@pytest.mark.parametrize(("name", "spec"), CASES)
def test_accuracies_halve_from_round_to_round(name, spec):
    problem = load_problem(spec)
    done = play(make(name, problem), problem, seed=1)
    assert [figures["epsilon"] for figures in done.last.history] == [0.5**plan.round_number for plan in done.plans]
    assert [plan.epsilon for plan in done.plans] == [0.5**number for number in range(1, len(done.plans) + 1)]
    assert len(done.plans) <= done.algorithm.rounds + 1
    assert (done.last.oracle_calls > 0) is isinstance(done.algorithm, CodaCommon | CodaOracle)


@pytest.mark.parametrize("name", ["rage", "rage-free"])
def test_gaussian_rewards_may_leave_the_unit_interval(name):
    problem = load_problem("hard:m=4,variance=0.5")
    algorithm = make(name, problem, scale=0.1)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    assert log.rewards.min() < 0
    assert algorithm.absorb(state, plan, log).round_number == 1


@pytest.mark.first(12)
@pytest.mark.parametrize(("name", "spec"), CASES)
def test_a_log_written_out_row_by_row_says_the_same(name, spec):
    """Simulation counts interactions; an experiment writes them one by one."""
    problem = load_problem(spec)
    algorithm = make(name, problem, scale=0.002)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(6))
    rows = np.random.default_rng(7).permutation(np.repeat(np.arange(len(log)), log.repeats))
    long = Log.of(
        log.contexts.take(rows),
        actions=log.actions[rows],
        rewards=log.rewards[rows],
        propensities=log.propensities[rows],
    )
    one, two = algorithm.absorb(state, plan, log), algorithm.absorb(state, plan, long)
    assert one.policy.to_json() == two.policy.to_json()
    for field in ("gaps", "values", "alive"):
        if hasattr(one, field):
            assert np.allclose(getattr(one, field), getattr(two, field), atol=1e-9)


@pytest.mark.first(26)
@pytest.mark.parametrize(("name", "spec"), CASES)
@pytest.mark.parametrize("epsilon", [1.0, 7.0])
def test_an_epsilon_of_1_needs_no_samples(name, spec, epsilon):
    done = run(load_problem(spec), algorithm=name, epsilon=epsilon, delta=0.1, rng=0)
    assert done.stopped == "done"
    assert done.samples == done.rounds == 0
    assert done.correct
    assert done.guarantee.startswith("except with probability 0.1 the policy")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("copies", [1, 5])
def test_one_policy_or_all_alike(name, copies):
    problem = Problem(
        name="alike",
        description="Nothing to choose.",
        population=Contexts.finite(2),
        mean_rewards=np.array([[0.2, 0.9], [0.7, 0.1]]),
        noise=Bernoulli(),
        policies=Finite([[0, 1]] * copies, n_actions=2),
    )
    done = run(problem, algorithm=name, epsilon=0.1, delta=0.05, rng=0)
    assert done.stopped == "done"
    assert done.correct
    assert done.value_gap == 0
    assert done.samples == done.rounds == 0
    assert done.guarantee.startswith("except with probability 0.05")


@pytest.mark.parametrize("name", ["coda-paper", "coda-oracle", "coda-common-gamma"])
@pytest.mark.parametrize("copies", [1, 5])
def test_one_policy_or_all_alike_through_an_oracle(name, copies):
    class Hidden:
        """A class known through its argmax alone; it says whether that can be trusted."""

        n_actions, log_size = 2, np.log(copies)

        def __init__(self, *, exact):
            self.exact = exact

        def argmax(self, contexts, scores):
            return Finite([[0, 1]] * copies, n_actions=2).argmax(contexts, scores)

    problem = Problem(
        name="alike",
        description="Nothing to choose.",
        population=Contexts.finite(2),
        mean_rewards=np.array([[0.2, 0.9], [0.7, 0.1]]),
        noise=Bernoulli(),
        policies=Finite([[0, 1]], n_actions=2),
    )
    done = run(problem, Hidden(exact=True), algorithm=name, epsilon=0.1, delta=0.05, rng=0)
    assert done.stopped == "done"
    assert done.samples == done.rounds == 0
    assert done.oracle_calls == 2
    # An oracle that may overlook a policy cannot say that there is none.
    assert run(problem, Hidden(exact=False), algorithm=name, epsilon=0.1, delta=0.05, rng=0).rounds > 0


@pytest.mark.parametrize("name", NAMES)
def test_policies_that_differ_only_where_no_context_comes(name):
    problem = Problem(
        name="alike",
        description="They differ where nobody looks.",
        population=Contexts.finite(2, weights=[1.0, 0.0]),
        mean_rewards=np.array([[0.2, 0.9], [0.7, 0.1]]),
        noise=Bernoulli(),
        policies=Finite([[0, 1], [0, 0]], n_actions=2),
    )
    done = run(problem, algorithm=name, epsilon=0.1, delta=0.05, rng=0)
    assert done.correct
    assert done.samples == 0


@pytest.mark.first(3)
@pytest.mark.parametrize(("name", "spec"), [*[(name, LISTED[0]) for name in NAMES], ("coda-paper", TREES)])
def test_the_words_of_the_guarantee(name, spec):
    problem = load_problem(spec)
    full = run(problem, algorithm=name, epsilon=0.4, delta=0.05, rng=0)
    assert full.guarantee == (
        "except with probability 0.05 the policy is within 0.4 of the best of its class; assumes that contexts are "
        "independent, that rewards lie in [0, 1], and that the distribution of contexts is known"
    )
    short = run(problem, algorithm=name, epsilon=0.4, delta=0.05, rng=0, scale=0.01)
    assert short.guarantee == "void: sample sizes were multiplied by 0.01, and the proof needs 1"
    assert short.samples < full.samples
    offline = run(problem, algorithm=name, epsilon=0.4, delta=0.05, rng=0, offline_contexts=1234)
    assert offline.guarantee.endswith(
        "and that 1,234 contexts stand well enough for their distribution "
        "(policies that act alike on them are not told apart)"
    )
    sure = run(problem, algorithm=name, epsilon=0.4, delta=1e-20, rng=0)
    assert sure.guarantee.startswith("except with probability 1e-20 the policy is within 0.4")
    stopped = run(problem, algorithm=name, epsilon=0.4, delta=0.05, rng=0, max_samples=5)
    assert stopped.guarantee.startswith("none: stopped after 0 of about 2 rounds")


def test_a_class_whose_argmax_is_not_exact_is_named():
    problem = load_problem("trivial:contexts=2,actions=2")

    class Rough:
        """The same class, through an oracle that does not vouch for itself."""

        n_actions, log_size, exact = 2, problem.policies.log_size, False

        def argmax(self, contexts, scores):
            return problem.policies.argmax(contexts, scores)

    done = run(problem, Rough(), algorithm="coda-paper", epsilon=0.4, delta=0.1, rng=0)
    assert done.guarantee.endswith("and that the argmax oracle, which is not exact, was right")
    assert done.correct


@pytest.mark.parametrize("name", ["rage", "rage-free"])
def test_gaussian_rewards_pay_for_their_second_moment(name):
    first = load_problem("hard:m=6,variance=0.5")
    second = load_problem("hard:m=6,variance=2.0")
    bernoulli = load_problem("hard:m=6,noise=bernoulli")
    sizes = []
    for problem in (bernoulli, first, second):
        algorithm = make(name, problem)
        sizes.append(algorithm.design(algorithm.start(problem.policies, problem.population)).samples)
    assert sizes[1] == pytest.approx(1.5 * sizes[0], abs=2)
    assert sizes[2] == pytest.approx(3.0 * sizes[0], abs=3)
    done = run(first, algorithm=name, epsilon=0.4, delta=0.1, rng=0)
    assert done.correct
    assert "mean rewards lie in [0, 1], and E[r² | c, a] ≤ 1.5" in done.guarantee


def test_coda_refuses_gaussian_rewards():
    with pytest.raises(InputError, match=r"coda-paper needs rewards in \[0, 1\].*use rage or rage-free"):
        run(load_problem("hard"), algorithm="coda-paper", epsilon=0.3, delta=0.1, rng=0)
    for kind in (CodaPaper, CodaCommon, CodaOracle):
        with pytest.raises(InputError, match="needs rewards in"):
            kind(0.1, 0.1, rewards=RewardBounds(2.0, in_unit=False))


@pytest.mark.parametrize("kind", [Rage, RageFree, CodaPaper, CodaOracle, CodaCommon])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": -0.1}, "epsilon must be 0 or more, got -0.1"),
        ({"epsilon": 1e-200}, "epsilon must be 0 or between 1e-100 and 1e\\+100, got 1e-200"),
        ({"delta": 0.0}, "delta must lie strictly between 0 and 1"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"scale": float("nan")}, "scale must be positive"),
        ({"floor": 1.0}, "floor, a share of uniform exploration, must be"),
    ],
)
def test_refuses_bad_options(kind, options, message):
    with pytest.raises(InputError, match=message) as caught:
        kind(**({"epsilon": 0.1, "delta": 0.1} | options))
    assert "\n" not in str(caught.value)


def test_the_registry():
    assert set(ALGORITHMS) >= set(NAMES)
    listed, large = load_problem(LISTED[0]), load_problem(TREES)
    assert isinstance(make("rage", listed), Rage)
    assert isinstance(make("rage-free", listed), RageFree)
    assert isinstance(make("coda-paper", listed), CodaPaper)
    assert isinstance(make("coda-paper", large), CodaOracle)
    assert make("coda-paper", large, solver="fw-gd").solver == "fw-gd"
    assert isinstance(make("coda-common-gamma", large), CodaCommon)
    assert make("coda-paper", listed, solver="fw-gd").solver == "fw-gd"
    small, many = load_problem("trivial:contexts=3,actions=3"), load_problem("trivial:contexts=40,actions=3")
    assert isinstance(make("coda-paper", small), CodaOracle)
    assert isinstance(make("coda-paper", small, solver="fw-gd"), CodaPaper)
    assert isinstance(make("coda-paper", many, solver="fw-gd"), CodaOracle)
    with pytest.raises(InputError, match="solver must be ratio or fw-gd, got 'bogus'"):
        make("coda-paper", small, solver="bogus")
    assert make("coda-paper", listed).floor == 0.0
    assert make("coda-paper", listed, sampled_contexts=50).floor > 0.0
    with pytest.raises(InputError, match="did you mean 'rage-free'"):
        make("rage-fre", listed)
    with pytest.raises(InputError, match="rage has no option 'solver'"):
        make("rage", listed, solver="fw-gd")
    with pytest.raises(InputError, match="solver must be ratio or fw-gd, got 'bogus'"):
        make("coda-paper", listed, solver="bogus")


def test_classes_too_large_to_list_name_coda():
    large = load_problem(TREES)
    for name in ("rage", "rage-free"):
        with pytest.raises(InputError, match=f"{name} visits every policy, and the class Trees .*; coda-paper can run"):
            run(large, algorithm=name, epsilon=0.3, delta=0.1, rng=0)
    many = load_problem("random:policies=3001,contexts=20,actions=3")
    with pytest.raises(InputError, match=r"3001 are too many \(at most 3000\); use rage-free or coda-paper"):
        run(many, algorithm="rage", epsilon=0.3, delta=0.1, rng=0)
    # A trivial class is listed while it is small.
    done = run(load_problem("trivial:contexts=4,actions=3"), algorithm="rage", epsilon=0.9, delta=0.1, rng=0)
    assert done.stopped == "done"
    with pytest.raises(InputError, match="coda-paper can run on it"):
        run(load_problem("trivial:contexts=40,actions=3"), algorithm="rage", epsilon=0.9, delta=0.1, rng=0)


@pytest.mark.parametrize("spec", LISTED[:3])
def test_frank_wolfe_gives_coda_a_design_as_good_as_the_ratio_form(spec):
    """Dyadic n and a solver gap of ε_l/3 cost a factor, not correctness; n is what the design really delivers."""
    problem = load_problem(spec)
    ratio = make("coda-paper", problem)
    fw = make("coda-paper", problem, solver="fw-gd")
    start = ratio.start(problem.policies, problem.population)
    one, two = ratio.design(start), fw.design(start)
    assert one.samples / 2 <= two.samples <= 4 * one.samples
    done = run(problem, algorithm="coda-paper", solver="fw-gd", epsilon=0.3, delta=0.1, rng=2)
    assert done.stopped == "done"
    assert done.correct


def test_a_solver_is_not_taken_at_its_word(monkeypatch):
    """Whatever n FW-GD says, it is no less than the design really takes to a width of 4ε/3."""

    def careless(*given, **options):
        return replace(solve_frank_wolfe(*given, **options), samples=1)

    problem = load_problem(LISTED[0])
    algorithm = make("coda-paper", problem, solver="fw-gd")
    state = algorithm.start(problem.policies, problem.population)
    monkeypatch.setattr("pacbandits.paper.coda.solve_frank_wolfe", careless)
    plan = algorithm.design(state)
    weights, p = problem.population.weights, plan.sampler.propensities(problem.population)
    rows, table = np.arange(len(weights)), problem.policies.table.astype(int)
    spread = [weights @ ((1 / p[rows, row] + 1 / p[rows, table[0]]) * (row != table[0])) for row in table]
    confidence = algorithm.confidence(problem.policies, 1)
    needed = 256 * confidence * max(spread) / (4 / 3 * plan.epsilon) ** 2
    assert plan.samples == pytest.approx(needed, abs=1, rel=1e-9)
    assert plan.samples > 100


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_by_the_safe_end_of_the_design(name):
    """A design solved to no better than a half is paid for as it is, not as the best one would be."""
    problem = load_problem("random:policies=12,contexts=6,actions=4,skew=2,seed=3")
    algorithm = replace(make(name, problem), precision=0.5)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    weights, p = problem.population.weights, plan.sampler.propensities(problem.population)
    rows, table = np.arange(len(weights)), problem.policies.table.astype(int)

    def spread(one, two):
        return weights @ ((1 / p[rows, one] + 1 / p[rows, two]) * (one != two))

    others = table if name == "rage" else table[:1]
    worst = max(spread(one, two) for one in table for two in others)
    factor = {"rage": 4, "rage-free": 2 * 28**2, "coda-paper": 16**2, "coda-oracle": 16**2}[name]
    needed = factor * algorithm.confidence(problem.policies, 1) * worst / plan.epsilon**2
    assert plan.samples >= needed * (1 - 1e-9)
    assert plan.samples <= 1.5 * needed


def test_make_algorithm_needs_no_problem():
    """An experiment in production has no truth to load: a class and what is assumed of rewards are enough."""
    policies = Finite([[0, 1], [1, 0]], n_actions=2)
    algorithm = make_algorithm("rage", Setting(policies, 0.5, 0.1, RewardBounds()))
    state = algorithm.start(policies, Contexts.finite(2))
    plan = algorithm.design(state)
    assert plan.samples == pytest.approx(4 * 4 * 4 * algorithm.confidence(policies, 1), abs=1)


@pytest.mark.parametrize("name", NAMES)
def test_a_trivial_class_of_one_map_on_many_contexts(name):
    """One action on more contexts than an array has dimensions."""
    done = run(load_problem("trivial:contexts=100,actions=1"), algorithm=name, epsilon=0.3, delta=0.1, rng=0)
    assert done.correct
    assert done.samples == done.rounds == 0


def test_frank_wolfe_runs_on_a_small_trivial_class():
    problem = load_problem("trivial:contexts=3,actions=3,gap=0.3")
    done = run(problem, algorithm="coda-paper", solver="fw-gd", epsilon=0.3, delta=0.1, rng=0)
    assert done.stopped == "done"
    assert done.correct
    assert "solver_gap" in done.history[0]
