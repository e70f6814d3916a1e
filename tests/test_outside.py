"""An algorithm, a policy class and a problem from outside the package work wherever they can, and a sentence says where
they cannot. `tests/outside` has one file for each; nothing of the package knows of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.rewards.base import CellMeans
from pacbandits.rewards.registry import can_be_made_again
from tests.outside.algorithm import ExploreThenCommit
from tests.outside.policies import SilentSteps, Step, Steps, all_steps
from tests.outside.problem import coupons

STEPS = Steps("age", (30.0, 50.0, 70.0), n_actions=3)
RIGHT = Step("age", 50.0, 1, 2, 3)


class Nameless(ExploreThenCommit):
    """An algorithm that has forgotten its name."""

    name = None


@pytest.fixture(scope="module")
def done():
    return pb.run(coupons(), STEPS, epsilon=0.1, delta=0.05, rng=1)


def test_an_algorithm_of_ones_own_runs_against_coda(done):
    mine = pb.run(coupons(), STEPS, algorithm=ExploreThenCommit(samples=400), epsilon=0.1, delta=0.05, rng=1)
    assert mine.algorithm == "explore-then-commit"
    assert (mine.samples, mine.rounds, mine.stopped) == (800, 2, "done")
    assert mine.policy == RIGHT
    assert mine.correct
    assert mine.log is not None
    assert [figures["total"] for figures in mine.history] == [400, 800]
    assert json.loads(json.dumps(mine.to_json()))["words"] == "action 1 if age ≤ 50, else action 2"
    # Its log can be certified, although it promises nothing itself.
    certified = pb.certify(mine.log, STEPS, epsilon=0.3, delta=0.05).certificate
    assert certified.policy == done.policy == RIGHT
    assert pb.verify(certified, mine.log, STEPS).good


def test_an_algorithm_with_its_own_epsilon_is_judged_by_it():
    run = pb.run(coupons(), STEPS, algorithm=pb.Uniform(0.2, 0.1), rng=1)
    assert (run.epsilon, run.delta) == (0.2, 0.1)
    assert run.certificate is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"algorithm": ExploreThenCommit(10), "delta": 0.1}, "has no epsilon of its own; say which one"),
        ({"algorithm": ExploreThenCommit(10), "epsilon": 0.1}, "has no delta of its own; say which one"),
        ({"algorithm": pb.Coda(0.2, 0.1), "epsilon": 0.1}, "was made with epsilon = 0.2, but the run is asked for 0.1"),
        ({"algorithm": pb.Coda(0.2, 0.1), "floor": 0.1}, "was made already; give 'floor' to it"),
        ({"algorithm": "explore-and-commit", "epsilon": 0.1, "delta": 0.1}, "one of your own runs from Python"),
        ({"algorithm": "coda", "delta": 0.1}, "coda needs an epsilon and a delta"),
        ({"algorithm": None, "epsilon": 0.1, "delta": 0.1}, "NoneType lacks start, design, absorb, result"),
        ({"algorithm": pb.Coda, "epsilon": 0.1, "delta": 0.1}, "Coda is a class; make an object of it first"),
        ({"algorithm": Nameless(10), "epsilon": 0.1, "delta": 0.1}, "the algorithm Nameless has no name"),
        ({"algorithm": ExploreThenCommit(10), "epsilon": -1, "delta": 0.1}, "epsilon must be 0 or more, got -1"),
        ({"algorithm": ExploreThenCommit(10), "epsilon": 0.1, "delta": 7}, "delta must lie strictly between 0 and 1"),
        ({"algorithm": "coda", "epsilon": 0.1, "delta": 0.1, "growth": 10**400}, "growth must be a number above 0"),
        ({"algorithm": "coda", "epsilon": 0.1, "delta": 0.1, "flor": 1}, "no option 'flor'; did you mean 'floor'"),
    ],
)
def test_where_an_algorithm_cannot_run_a_sentence_says_why(options, words):
    with pytest.raises(pb.InputError, match=words):
        pb.run(coupons(), STEPS, rng=0, **options)


def test_the_state_of_an_algorithm_that_is_no_trial_cannot_be_kept(tmp_path):
    mine = ExploreThenCommit(10)
    with pytest.raises(pb.InputError, match="the state of explore-then-commit cannot be kept, only that of a trial"):
        pb.run(coupons(), STEPS, algorithm=mine, epsilon=0.1, delta=0.1, rng=0, state=tmp_path / "trial")


def test_a_class_of_ones_own_runs_certifies_and_verifies(done):
    assert done.certificate is not None
    assert done.certificate.certified
    assert done.policy == RIGHT
    verdict = pb.verify(done.certificate, done.log, STEPS)
    assert verdict.good, verdict.faults
    assert not pb.verify(done.certificate, done.log, Steps("age", (30.0, 50.0), n_actions=3)).good


def test_a_class_of_ones_own_finds_the_best(done):
    """Its argmax is what it says, so that what rests on it holds."""
    problem = coupons()
    values = [problem.value(step) for step in all_steps(STEPS)]
    assert problem.value(done.policy) == pytest.approx(max(values))


def test_a_certificate_of_a_class_of_ones_own_is_written_and_read(done, tmp_path):
    path = tmp_path / "proof.json"
    pb.save_certificate(path, done.certificate, STEPS)
    proof = pb.load_certificate(path, STEPS)
    assert proof.policy.chosen == RIGHT
    assert proof.policies is STEPS
    assert pb.verify(proof.certificate, done.log, proof.policies).good
    with pytest.raises(pb.InputError, match=r"unknown kind of policy 'step'.*no code is ever loaded"):
        pb.load_certificate(path)
    with pytest.raises(pb.InputError, match="is another than the one given"):
        pb.load_certificate(path, Steps("age", (30.0,), n_actions=3))


def test_a_class_that_cannot_be_written_down_runs_and_says_what_it_cannot(tmp_path):
    silent = SilentSteps("age", (30.0, 50.0, 70.0), n_actions=3)
    done = pb.run(coupons(), silent, epsilon=0.2, delta=0.05, rng=1)
    assert pb.verify(done.certificate, done.log, silent).good
    for write in (
        lambda: pb.save_certificate(tmp_path / "proof.json", done.certificate, silent),
        lambda: pb.run(coupons(), silent, epsilon=0.2, delta=0.05, rng=1, state=tmp_path / "trial"),
    ):
        with pytest.raises(pb.InputError, match="SilentSteps has no description in JSON"):
            write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_a_trial_with_a_class_of_ones_own_is_kept_and_goes_on(done, tmp_path):
    asked = {"epsilon": 0.1, "delta": 0.05, "rng": 1, "state": tmp_path / "trial"}
    part = pb.run(coupons(), STEPS, max_samples=done.samples - 1, **asked)
    assert part.stopped == "budget"
    whole = pb.run(coupons(), STEPS, **asked)
    assert whole.samples == done.samples
    assert whole.certificate.to_json() == done.certificate.to_json()
    algorithm, state = pb.load_state(tmp_path / "trial", policies=STEPS)
    assert algorithm.name == "coda"
    assert state.policies.policies is STEPS
    assert state.policy == RIGHT
    with pytest.raises(pb.InputError, match="no code is ever loaded from a file"):
        pb.load_state(tmp_path / "trial")
    with pytest.raises(pb.InputError, match=r"its policy class was another"):
        pb.run(coupons(), Steps("age", (30.0, 50.0), n_actions=3), **asked)


def test_a_problem_of_ones_own_has_a_name_options_and_a_complexity():
    problem = coupons(people=40, lift=0.3)
    assert problem.name == "coupons:people=40,lift=0.3"
    with pytest.raises(pb.InputError, match=r"problem 'coupons' has no option 'lifts'; did you mean 'lift'"):
        coupons(lifts=0.3)
    with pytest.raises(pb.InputError, match=r"lift must be a number above 0 and at most 0\.5, got 0\.6"):
        coupons(lift=0.6)
    measured = pb.measure(problem, STEPS, epsilon=0.1, delta=0.05)
    assert measured.rho_lower <= measured.rho_upper
    assert measured.gaps.best == RIGHT
    assert measured.best_value == pytest.approx(problem.value(RIGHT))


def test_a_reward_model_of_ones_own_is_used_and_verified():
    class Half:
        def fit(self, log):
            return self

        def predict(self, contexts):
            return np.full((len(contexts), 3), 0.5)

        def to_json(self):
            return {"kind": "half"}

    trial = pb.Coda(0.2, 0.1, model=Half())
    done = pb.run(coupons(), STEPS, algorithm=trial, rng=3)
    assert done.certificate.model == {"kind": "half"}
    assert pb.verify(done.certificate, done.log, STEPS, model=Half()).good
    with pytest.raises(pb.InputError, match="a reward model of kind 'half' cannot be made again from a file"):
        pb.verify(done.certificate, done.log, STEPS)


def test_a_model_that_borrows_a_built_in_kind_is_not_taken_for_it(tmp_path):
    """What is loaded would be another model than what was saved."""

    class Borrowed(pb.PerAction):
        def to_json(self):
            return {"kind": "cell-means", "strength": 8.0}

    from sklearn.linear_model import LinearRegression

    model = Borrowed(LinearRegression())
    assert not can_be_made_again(model)
    assert can_be_made_again(CellMeans())
    trial = pb.Coda(0.2, 0.1, model=model)
    state = trial.start(STEPS, coupons().population)
    plan = trial.design(state)
    log = coupons().interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    pb.save_state(tmp_path / "trial", trial, trial.absorb(state, plan, log))
    assert pb.load_state(tmp_path / "trial", model=model, policies=STEPS)[1].model is model


def test_a_class_handed_in_is_the_one_that_goes_on(tmp_path):
    class Watched(pb.Finite):
        """A table with an oracle of its own."""

    problem = pb.load_problem("two-of-many:actions=4,policies=12")
    mine = Watched(problem.policies.table, n_actions=4)
    pb.run(problem, mine, epsilon=0.3, delta=0.1, rng=0, state=tmp_path / "trial")
    assert pb.load_state(tmp_path / "trial", policies=mine)[1].policies is mine
    other = pb.Finite(problem.policies.table[:-1], n_actions=4)
    with pytest.raises(pb.InputError, match="policy class of kind 'finite' is another than the one given"):
        pb.load_state(tmp_path / "trial", policies=other)


def test_numbers_of_numpy_can_be_written_and_what_is_no_certificate_is_said(done, tmp_path):
    approximate = pb.certify_asymptotically(done.log, STEPS, epsilon=np.float64(0.3), delta=0.1, rng=3, draws=20)
    pb.save_certificate(tmp_path / "about.json", approximate, STEPS)
    assert pb.load_certificate(tmp_path / "about.json", STEPS).policy.chosen == approximate.policy
    with pytest.raises(pb.InputError, match="a certificate is needed, not a dict"):
        pb.verify(done.certificate.to_json(), done.log, STEPS)
