"""A saved state is the state: what goes on from it is what would have gone on."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.trials.saving_cases import (
    CASES,
    FINITE,
    KINDS,
    SPECS,
    TREES,
    direct,
    generator,
    play,
    same,
    step,
)

from pacbandits import load_state, save_state
from pacbandits.errors import InputError
from pacbandits.policies import Finite, Trees, Trivial
from pacbandits.problems import Bernoulli, Problem, load_problem
from pacbandits.records import Contexts
from pacbandits.records.log import digest_log
from pacbandits.rewards import CellMeans, PerAction
from pacbandits.trials.coda import Coda, NoisyDesign, Uniform
from pacbandits.trials.saved_state import StateFile, read_start

# The longest of them is for those who have time; from any of its rounds it is loaded below.
LONGEST = ("coda", TREES)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "spec"), [pytest.param(*case, marks=[pytest.mark.slow] * (case == LONGEST)) for case in CASES]
)
def test_saved_and_loaded_after_every_round(name, spec, tmp_path):
    """The longest chain of loads there can be."""
    algorithm, problem, states, _ = direct(name, spec)
    assert isinstance(problem.policies, SPECS[spec][0])
    assert len(states) > 7
    rng = np.random.default_rng(0)
    state = algorithm.start(problem.policies, problem.population)
    path = tmp_path / "deep" / "er" / "trial"
    for expected in states:
        save_state(path, algorithm, state)
        loaded, state = load_state(path)
        assert loaded == algorithm
        same(state, expected)
        state = step(loaded, problem, state, rng)
    assert state is None


@pytest.mark.thorough
def test_the_cases_are_worth_their_name():
    """Designs with models, played several times over, that begin from each other's policies."""
    for spec in SPECS:
        last = direct("coda", spec)[2][-1]
        assert sum(isinstance(sampler, NoisyDesign) for sampler, _ in last.played) >= 3
        assert len(last.played) < last.round_number
        assert bool(last.pool) is (spec != FINITE)


@pytest.mark.thorough
@given(case=st.sampled_from(CASES), share=st.floats(0, 1))
@examples(8)
def test_a_run_goes_on_from_any_round(case, share, tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "trial"
    algorithm, problem, states, places = direct(*case)
    cut = round(share * (len(states) - 1))
    save_state(path, algorithm, states[cut])
    loaded, state = load_state(path)
    rest, ends = play(loaded, problem, state, generator(places[cut]))
    assert ends == places[cut:]
    for one, two in zip(rest, states[cut:], strict=True):
        same(one, two)
    assert loaded.result(rest[-1]).guarantee == algorithm.result(states[-1]).guarantee


IN_ANOTHER_PROCESS = """
import json, sys
import numpy as np
from pacbandits import load_problem, load_state
from pacbandits.records.log import digest_log

problem, rng = load_problem(sys.argv[2]), np.random.default_rng()
rng.bit_generator.state = json.loads(sys.argv[3])
algorithm, state = load_state(sys.argv[1])
while (plan := algorithm.design(state)) is not None:
    state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
print(json.dumps([digest_log(state.log), state.samples, state.history, state.certificate.to_json()]))
"""


@pytest.mark.slow
def test_in_another_process(tmp_path):
    algorithm, _, states, places = direct("coda", TREES)
    save_state(tmp_path / "trial", algorithm, states[4])
    arguments = [sys.executable, "-c", IN_ANOTHER_PROCESS, tmp_path / "trial", TREES, json.dumps(places[4])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    last = states[-1]
    expected = [digest_log(last.log), last.samples, last.history, last.certificate.to_json()]
    assert json.loads(done.stdout) == json.loads(json.dumps(expected))


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_before_the_first_round_and_after_the_last(name, tmp_path):
    algorithm, problem, states, _ = direct(name, TREES)
    path = tmp_path / "trial"
    save_state(path, algorithm, states[0])
    loaded, state = load_state(path)
    same(state, states[0])
    assert loaded.result(state).guarantee == "none: nothing was played"
    save_state(path, algorithm, states[-1])
    assert list(tmp_path.iterdir()) == [path]
    loaded, state = load_state(path)
    assert loaded.design(state) is None
    # An epsilon of one or more ends before it begins.
    easy = KINDS[name](2.0, 0.1)
    save_state(path, easy, easy.start(problem.policies, problem.population))
    loaded, state = load_state(path)
    assert state.finished
    assert loaded.result(state).guarantee == "no gap is larger than 1"


def test_every_option_comes_back(tmp_path):
    problem = load_problem(FINITE)
    options = {"pilot": np.int64(70), "growth": 0.7, "floor": 1 / 3, "precision": 0.3, "model": CellMeans(np.pi)}
    algorithm, path = Coda(0.2, 0.1, **options), tmp_path / "trial"
    save_state(path, algorithm, algorithm.start(problem.policies, problem.population), notes={"who": ["ä", 1e-300]})
    loaded, state = load_state(path)
    assert loaded == algorithm
    assert loaded.model is state.model
    with StateFile.looked_at(path) as file:
        assert read_start(path, file.entries()[0])["notes"] == {"who": ["ä", 1e-300]}


@pytest.mark.thorough
def test_names_resolutions_labels_and_weights_come_back(tmp_path):
    """What other files of this package leave out or divide by its sum again."""
    rng = np.random.default_rng(3)
    contexts = Contexts.of(
        np.column_stack([rng.choice([0, 2, 3], size=7), rng.normal(size=7)]),
        names=["plan", "x"],
        categories=[("z", "never", "a", ""), None],
        ids=np.arange(7),
        weights=rng.dirichlet(np.ones(7)),
    )
    means = rng.uniform(size=(7, 2))
    named = Finite(rng.integers(2, size=(5, 7)), n_actions=2, names=[f"plan {i}" for i in range(5)])
    path = tmp_path / "trial"
    for policies in (named, Trivial(7, 2, resolution=64), Trees.learn(contexts, n_actions=2)):
        problem = Problem("labels", "labels", contexts, means, Bernoulli(), policies)
        algorithm, draws = Coda(0.3, 0.1, pilot=40), np.random.default_rng(1)
        state = algorithm.start(policies, contexts)
        for _ in range(3):
            save_state(path, algorithm, state)
            same(load_state(path)[1], state)
            state = step(algorithm, problem, state, draws) or state
    unnumbered = replace(contexts, ids=None)
    state = algorithm.start(policies, unnumbered)
    save_state(path, algorithm, state)
    same(load_state(path)[1], state)


class Nearest:
    """An estimator as the user may have one: the mean reward of rows whose first feature has the same sign."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, features, rewards):
        right = features[:, 0] > 0
        self.means = [rewards[side].mean() if side.any() else 0.5 for side in (~right, right)]

    def predict(self, features):
        return np.where(features[:, 0] > 0, self.means[1], self.means[0]) + self.shift


class Moody(Nearest):
    def predict(self, features):
        return super().predict(features) + np.random.default_rng().uniform(0, 0.1)


@pytest.mark.thorough
def test_a_model_of_the_users_own_is_passed_again(tmp_path):
    problem, rng, path = load_problem(TREES), np.random.default_rng(0), tmp_path / "trial"
    algorithm = Coda(0.13, 0.1, pilot=100, model=PerAction(Nearest(), least=5))
    states, places = play(algorithm, problem, algorithm.start(problem.policies, problem.population), rng)
    save_state(path, algorithm, states[5])
    model = PerAction(Nearest(), least=5)
    loaded, state = load_state(path, model=model)
    assert loaded.model is state.model is model
    same(state, states[5])
    same(play(loaded, problem, state, generator(places[5]))[0][-1], states[-1])
    with pytest.raises(InputError, match=r"a reward model of your own, .*Nearest.*, which is not stored; pass it"):
        load_state(path)
    with pytest.raises(InputError, match=r"made with the reward model .*Nearest.*, not .*cell-means.*; pass the same"):
        load_state(path, model=CellMeans())
    with pytest.raises(InputError, match=r"cannot be resumed: round \d does not come out as before"):
        load_state(path, model=PerAction(Nearest(0.05), least=5))


def test_a_model_of_the_users_own_that_predicts_otherwise_is_noticed_by_the_figures(tmp_path):
    """Though uniform exploration does not depend on the model."""
    problem, rng, path = load_problem(TREES), np.random.default_rng(0), tmp_path / "trial"
    algorithm = Uniform(0.13, 0.1, pilot=100, model=PerAction(Nearest(), least=5))
    state = algorithm.start(problem.policies, problem.population)
    for _ in range(2):
        state = step(algorithm, problem, state, rng)
    save_state(path, algorithm, state)
    same(load_state(path, model=PerAction(Nearest(), least=5))[1], state)
    with pytest.raises(InputError, match=r"round 2 does not come out as before: its wealth was .*a reward model"):
        load_state(path, model=PerAction(Nearest(0.05), least=5))


def test_a_model_that_never_says_the_same_is_refused_when_it_is_saved(tmp_path):
    problem, rng = load_problem(TREES), np.random.default_rng(0)
    algorithm = Uniform(0.13, 0.1, pilot=100, model=PerAction(Moody(), least=5))
    state = algorithm.start(problem.policies, problem.population)
    for _ in range(2):
        state = step(algorithm, problem, state, rng)
    with pytest.raises(InputError, match="fix its random_state"):
        save_state(tmp_path / "state", algorithm, state)
    assert not (tmp_path / "state").exists()


@dataclass(frozen=True)
class Eager(Coda):
    """A trial of the user's own, with an option that the built-in one lacks."""

    name: ClassVar[str] = "eager"
    haste: float = field(default=1.0, kw_only=True)


@pytest.mark.thorough
def test_a_trial_of_ones_own_is_handed_in_again(tmp_path):
    problem, eager = load_problem(FINITE), Eager(0.1, 0.1, pilot=100, haste=0.5)
    first = eager.start(problem.policies, problem.population)
    states, places = play(eager, problem, first, np.random.default_rng(0))
    save_state(tmp_path / "trial", eager, states[1])
    with pytest.raises(InputError, match=r"made by 'eager', an algorithm of your own.*pass it again as algorithm="):
        load_state(tmp_path / "trial")
    for other in (Eager(0.1, 0.1, pilot=100), Coda(0.1, 0.1, pilot=100)):
        with pytest.raises(InputError, match=r"the state was made by .*eager.*pass the same"):
            load_state(tmp_path / "trial", algorithm=other)
    algorithm, state = load_state(tmp_path / "trial", algorithm=eager)
    assert algorithm is eager
    same(state, states[1])
    same(play(eager, problem, state, generator(places[1]))[0][-1], states[-1])
