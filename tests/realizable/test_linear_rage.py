"""linear-rage: right when rewards are linear, honest about it, and cheap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.errors import InputError
from pacbandits.policies.features import Given
from pacbandits.policies.finite import Trivial
from pacbandits.policies.linear.policy import GreedyPolicy
from pacbandits.realizable.algorithm import LinearRage
from pacbandits.realizable.certificate import RealizableCertificate
from pacbandits.realizable.moments import Population
from pacbandits.realizable.sampler import SKETCHED_CONTEXTS, Sketch
from pacbandits.realizable.verify import verify_realizable
from pacbandits.records import Contexts, RewardBounds
from pacbandits.simulation import Run, run

PROBLEMS = (
    "linear:dimension=3,actions=4,contexts=40,policies=60,seed=1",
    "linear:dimension=6,actions=12,contexts=60,policies=100,spread=2,seed=2",
    "linear:dimension=2,actions=2,contexts=30,policies=20,seed=3,noise=gaussian,variance=0.1",
)


def play(spec: str, *, every: bool = False, epsilon: float = 0.1, delta: float = 0.1, seed: int = 0, **more) -> Run:
    problem = pb.load_problem(spec)
    policies = Trivial(len(problem.population), problem.n_actions) if every else problem.policies
    return run(problem, policies, algorithm="linear-rage", epsilon=epsilon, delta=delta, rng=seed, **more)


@pytest.mark.first(2)
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("spec", PROBLEMS)
def test_it_stops_right_with_a_certificate_that_verifies(spec: str, every: bool):
    done = play(spec, every=every)
    assert done.stopped == "done"
    assert done.correct
    assert isinstance(done.certificate, RealizableCertificate)
    assert done.certificate.certified
    assert done.log is not None
    assert done.contexts is not None
    problem = pb.load_problem(spec)
    policies = Trivial(len(problem.population), problem.n_actions) if every else problem.policies
    verdict = verify_realizable(done.certificate, done.log, done.contexts, policies)
    assert verdict.good, verdict.faults
    assert "linear in the given features" in done.guarantee
    assert isinstance(done.policy, GreedyPolicy) is every


@pytest.mark.thorough
@pytest.mark.parametrize("every", [pytest.param(False, marks=pytest.mark.slow), True])
def test_errors_are_rare(every: bool):
    """At so small a δ a single error is too many, but for one choice of seeds in a million."""
    assert all(play(PROBLEMS[0], every=every, epsilon=0.03, delta=5e-8, seed=seed).correct for seed in range(15))


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("spec", PROBLEMS)
def test_the_error_rate_is_at_most_delta(spec: str, every: bool):
    wrong = sum(not play(spec, every=every, epsilon=0.03, delta=0.05, seed=seed).correct for seed in range(100))
    assert wrong <= 0.05 * 100


def test_the_same_seed_gives_the_same_run():
    first, second = play(PROBLEMS[0], every=True), play(PROBLEMS[0], every=True)
    assert first.samples == second.samples
    assert first.certificate is not None
    assert second.certificate is not None
    assert first.certificate.to_json() == second.certificate.to_json()


@pytest.mark.thorough
def test_rewards_that_are_not_linear_mislead_it_and_not_coda():
    """On one problem the certificate of linear rewards is wrong most of the time, the agnostic one right."""
    spec = "linear:dimension=3,actions=10,contexts=60,policies=80,spread=3,misfit=0.9,seed=2"
    wrong = [not play(spec, epsilon=0.05, seed=seed).correct for seed in range(8)]
    assert sum(wrong) >= 6
    assert run(spec, algorithm="coda", epsilon=0.05, delta=0.1, rng=0).correct


def test_a_sketch_of_many_contexts_prices_designs_nearly_as_well():
    problem = pb.load_problem("linear:dimension=4,actions=5,contexts=3000,policies=50,seed=1")
    population = Population.of(problem.policies, problem.population, Given(5, 4))
    sketch = Sketch.of(population)
    assert len(sketch.weights) == SKETCHED_CONTEXTS
    assert population.points is not None
    pool = population.points - population.points[0]
    whole = Sketch(population, population.phi, population.contexts.weights)
    some, best = sketch.solve(pool, np.ones(len(pool))), whole.solve(pool, np.ones(len(pool)))
    assert some.table.shape == (3000, 5)
    assert best.worst_cost <= some.worst_cost * 1.05
    assert some.worst_cost <= 1.25 * best.worst_cost


def test_contexts_that_the_design_has_not_seen_are_played():
    done = play(PROBLEMS[0], offline_contexts=15)
    assert done.stopped == "done"
    assert done.correct


def test_what_it_cannot_do_is_said():
    with pytest.raises(InputError, match="not of Trees"):
        run("trees:actions=3,contexts=50", algorithm="linear-rage", epsilon=0.1, delta=0.1, rng=0)
    with pytest.raises(InputError, match="neither features nor phi"):
        run("hard:m=5", algorithm="linear-rage", epsilon=0.1, delta=0.1, rng=0)
    with pytest.raises(InputError, match="epsilon above 0"):
        LinearRage(0.0, 0.1)
    with pytest.raises(InputError, match="sub-Gaussian proxy"):
        LinearRage(0.1, 0.1, rewards=RewardBounds(2.0, in_unit=False))
    with pytest.raises(InputError, match="linear-rage has no option 'scale'"):
        run(PROBLEMS[0], algorithm="linear-rage", epsilon=0.1, delta=0.1, rng=0, scale=0.5)
    with pytest.raises(InputError, match="cannot be kept"):
        run(PROBLEMS[0], algorithm="linear-rage", epsilon=0.1, delta=0.1, rng=0, state=Path("nowhere"))


def test_a_budget_ends_it_with_what_is_known():
    done = play(PROBLEMS[1], epsilon=0.01, max_samples=300)
    assert done.stopped == "budget"
    assert done.certificate is not None
    assert not done.certificate.certified


def test_collinear_features_are_no_obstacle():
    problem = pb.load_problem(PROBLEMS[0])
    assert problem.population.phi is not None
    phi = problem.population.phi.array
    doubled = Contexts.finite(len(phi), phi=np.concatenate([phi, 100 * phi[:, :, :1] - phi[:, :, 1:2]], axis=2))
    algorithm = LinearRage(0.1, 0.1)
    state = algorithm.start(problem.policies, doubled)
    plain = algorithm.start(problem.policies, problem.population)
    assert state.population.span.rank == plain.population.span.rank == 3
    mine, theirs = algorithm.design(state), algorithm.design(plain)
    assert mine is not None
    assert theirs is not None
    assert mine.samples == theirs.samples
    assert np.allclose(mine.sampler.propensities(doubled), theirs.sampler.propensities(problem.population), atol=0.05)


@pytest.mark.slow
def test_a_bad_action_among_many_contexts_costs_little():
    """Designs made on some contexts keep a floor on all: without it a clearly bad action would never be seen again."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1100)
    contexts = Contexts.of(x[:, None], ids=np.arange(1100))
    means = 0.5 + 0.1 * np.column_stack([x, -x, np.zeros(1100)]).clip(-3, 3) - np.array([0.0, 0.0, 0.4]) * 0.3
    problem = pb.Problem("many", "", contexts, means, pb.Bernoulli(), Trivial(1100, 3))
    done = run(problem, algorithm="linear-rage", epsilon=0.1, delta=0.1, rng=0)
    assert done.stopped == "done"
    assert done.samples < 5_000


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_a_proof_that_was_given_up_does_not_fail_verification(seed: int):
    spec = "linear:dimension=7,actions=3,contexts=40"
    done = play(spec, every=True, epsilon=0.05, delta=0.05, seed=seed)
    problem = pb.load_problem(spec)
    assert isinstance(done.certificate, RealizableCertificate)
    assert done.log is not None
    assert done.contexts is not None
    verdict = verify_realizable(done.certificate, done.log, done.contexts, Trivial(len(problem.population), 3))
    assert verdict.good, verdict.faults


@pytest.mark.thorough
def test_the_command_when_nothing_is_left_to_doubt(command, tmp_path: Path):
    proof, log = tmp_path / "proof.json", tmp_path / "log.parquet"
    spec = "linear:dimension=2,actions=2,contexts=1"
    options = ["--algorithm", "linear-rage", "--epsilon", "0.1", "--certificate", str(proof), "--log", str(log)]
    assert command("run", spec, *options)[0] == 0
    assert "good: if rewards are linear" in command("verify", str(proof), str(log))[1]
    noisy = "linear:dimension=2,actions=3,contexts=10,noise=gaussian,variance=0.3"
    assert command("run", noisy, *options)[0] == 0
    assert command("verify", str(proof), str(log))[0] == 0
    (tmp_path / "proof.json.contexts.parquet").unlink()
    assert "name it with --contexts" in command("verify", str(proof), str(log))[2]


@pytest.mark.thorough
def test_features_that_were_learnt_are_the_same_when_read_again(command, tmp_path: Path):
    """Means and spreads are sums, and those of a file differ in the last bit from those of memory."""
    proof, log = tmp_path / "proof.json", tmp_path / "log.parquet"
    options = ["--policies", "linear", "--algorithm", "linear-rage", "--epsilon", "0.45", "--seed", "3"]
    assert command("run", "wine", *options, "--certificate", str(proof), "--log", str(log))[0] == 0
    code, out, _ = command("verify", str(proof), str(log))
    assert code == 0, out


def test_contexts_that_cannot_occur_play_no_part():
    kinds = ("a", "b", "never")
    features = np.array([[0.0], [1.0], [0.0], [1.0], [2.0]])
    contexts = Contexts.of(features, categories=[kinds], ids=np.arange(5), weights=[0.25, 0.25, 0.25, 0.25, 0.0])
    means = np.array([[0.2, 0.8], [0.8, 0.2], [0.2, 0.8], [0.8, 0.2], [0.5, 0.5]])
    problem = pb.Problem("kinds", "", contexts, means, pb.Bernoulli(), Trivial(5, 2))
    done = run(problem, algorithm="linear-rage", epsilon=0.2, delta=0.1, rng=0)
    assert isinstance(done.certificate, RealizableCertificate)
    assert done.log is not None
    assert done.correct
    verdict = verify_realizable(done.certificate, done.log, contexts, Trivial(5, 2))
    assert verdict.good, verdict.faults
