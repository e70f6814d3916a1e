"""A trial that is saved, loaded and continued is the trial that never stopped, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.certificate.test_search import ArgmaxOnly

from pacbandits import load_state, save_state
from pacbandits.errors import InputError
from pacbandits.policies import Finite, Trees, Trivial, class_to_json
from pacbandits.problems import Bernoulli, Problem, load_problem
from pacbandits.records import Contexts, Log
from pacbandits.records.digest import digest_log
from pacbandits.rewards import CellMeans, PerAction
from pacbandits.simulation import run
from pacbandits.trials.coda import Coda, NoisyDesign
from pacbandits.trials.saving import read_state
from pacbandits.trials.uniform import Uniform

KINDS = {"uniform": Uniform, "coda": Coda}
FINITE = "two-of-many:actions=10,policies=20,contexts=8"
TRIVIAL = "trivial:contexts=4,actions=10,gap=0.3"
TREES = "trees:contexts=60,features=2,bins=4,actions=8,competitive=2,depth=1"
SPECS = {FINITE: (Finite, 0.1), TRIVIAL: (Trivial, 0.12), TREES: (Trees, 0.13)}
CASES = [(name, spec) for name in KINDS for spec in SPECS]


def step(algorithm, problem, state, rng):
    """The state after one more round, None when there is none."""
    plan = algorithm.design(state)
    if plan is None:
        return None
    return algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))


def play(algorithm, problem, state, rng):
    """The states that follow, and where the random numbers stood at each; begins with the one given."""
    states, places = [state], [rng.bit_generator.state]
    while (state := step(algorithm, problem, state, rng)) is not None:
        assert len(states) < 60
        states.append(state)
        places.append(rng.bit_generator.state)
    return states, places


@cache
def direct(name, spec):
    """A run that nothing interrupts."""
    problem = load_problem(spec)
    algorithm = KINDS[name](SPECS[spec][1], 0.1, pilot=100)
    first = algorithm.start(problem.policies, problem.population)
    return (algorithm, problem, *play(algorithm, problem, first, np.random.default_rng(0)))


def generator(place):
    rng = np.random.default_rng()
    rng.bit_generator.state = place
    return rng


def same_contexts(one, two):
    assert (one.names, one.categories) == (two.names, two.categories)
    assert (one.ids is None) is (two.ids is None)
    for mine, yours in ((one.features, two.features), (one.ids, two.ids), (one.weights, two.weights)):
        assert np.array_equal(mine, yours)


def same_logs(one, two):
    assert (one is None) is (two is None)
    if one is not None:
        assert digest_log(one) == digest_log(two)
        same_contexts(one.contexts, two.contexts)
        for name in ("actions", "rewards", "propensities", "rounds", "repeats"):
            assert np.array_equal(getattr(one, name), getattr(two, name))


def described(policies):
    return [policy.to_json() for policy in policies]


def same(one, two):
    """Whether two states are alike, to the last bit, and share what they share."""
    assert class_to_json(one.policies) == class_to_json(two.policies)
    same_contexts(one.contexts, two.contexts)
    same_logs(one.log, two.log)
    assert one.policy.to_json() == two.policy.to_json()
    assert one.model.to_json() == two.model.to_json()
    for name in ("round_number", "samples", "oracle_calls", "finished", "history", "scales"):
        assert getattr(one, name) == getattr(two, name)
    assert (one.predictions is None) is (two.predictions is None)
    assert one.predictions is None or np.array_equal(one.predictions, two.predictions)
    assert described(one.pool) == described(two.pool)
    assert [samples for _, samples in one.played] == [samples for _, samples in two.played]
    for (mine, _), (yours, _) in zip(one.played, two.played, strict=True):
        assert type(mine) is type(yours)
        assert np.array_equal(mine.propensities(one.contexts), yours.propensities(two.contexts))
    assert (one.current is None) is (two.current is None)
    if one.current is not None:
        assert (one.current.price, one.current.since) == (two.current.price, two.current.since)
        assert described(one.current.pool) == described(two.current.pool)
        for state in (one, two):
            assert state.current.sampler is state.played[-1][0]
            assert state.certificate.policy is state.policy
        assert one.certificate.to_json() == two.certificate.to_json()


@pytest.mark.parametrize(("name", "spec"), CASES)
def test_saved_and_loaded_after_every_round(name, spec, tmp_path):
    """The longest chain of loads there can be."""
    algorithm, problem, states, _ = direct(name, spec)
    assert isinstance(problem.policies, SPECS[spec][0])
    assert len(states) > 7
    rng = np.random.default_rng(0)
    state = algorithm.start(problem.policies, problem.population)
    for expected in states:
        save_state(tmp_path / "deep" / "er", algorithm, state)
        loaded, state = load_state(tmp_path / "deep" / "er")
        assert loaded == algorithm
        same(state, expected)
        state = step(loaded, problem, state, rng)
    assert state is None


def test_the_cases_are_worth_their_name():
    """Designs with models, played several times over, that begin from each other's policies."""
    for spec in SPECS:
        last = direct("coda", spec)[2][-1]
        assert sum(isinstance(sampler, NoisyDesign) for sampler, _ in last.played) >= 3
        assert len(last.played) < last.round_number
        assert bool(last.pool) is (spec != FINITE)


@given(case=st.sampled_from(CASES), share=st.floats(0, 1))
@settings(max_examples=8)
def test_a_run_goes_on_from_any_round(case, share, tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    algorithm, problem, states, places = direct(*case)
    cut = round(share * (len(states) - 1))
    save_state(folder, algorithm, states[cut])
    loaded, state = load_state(folder)
    rest, ends = play(loaded, problem, state, generator(places[cut]))
    assert ends == places[cut:]
    for one, two in zip(rest, states[cut:], strict=True):
        same(one, two)
    assert loaded.result(rest[-1]).guarantee == algorithm.result(states[-1]).guarantee


IN_ANOTHER_PROCESS = """
import json, sys
import numpy as np
from pacbandits import load_problem, load_state
from pacbandits.records.digest import digest_log

problem, rng = load_problem(sys.argv[2]), np.random.default_rng()
rng.bit_generator.state = json.loads(sys.argv[3])
algorithm, state = load_state(sys.argv[1])
while (plan := algorithm.design(state)) is not None:
    state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
print(json.dumps([digest_log(state.log), state.samples, state.history, state.certificate.to_json()]))
"""


def test_in_another_process(tmp_path):
    algorithm, _, states, places = direct("coda", TREES)
    save_state(tmp_path, algorithm, states[4])
    arguments = [sys.executable, "-c", IN_ANOTHER_PROCESS, tmp_path, TREES, json.dumps(places[4])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    last = states[-1]
    expected = [digest_log(last.log), last.samples, last.history, last.certificate.to_json()]
    assert json.loads(done.stdout) == json.loads(json.dumps(expected))


@pytest.mark.parametrize("name", KINDS)
def test_before_the_first_round_and_after_the_last(name, tmp_path):
    algorithm, problem, states, _ = direct(name, TREES)
    save_state(tmp_path, algorithm, states[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["contexts.parquet", "state.json"]
    loaded, state = load_state(tmp_path)
    same(state, states[0])
    assert loaded.result(state).guarantee == "none: nothing was played"
    save_state(tmp_path, algorithm, states[-1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["contexts.parquet", "log.parquet", "state.json"]
    same_logs(Log.read(tmp_path / "log.parquet").take(np.arange(len(states[-1].log))), states[-1].log)
    loaded, state = load_state(tmp_path)
    assert loaded.design(state) is None
    # An epsilon of one or more ends before it begins.
    easy = KINDS[name](2.0, 0.1)
    save_state(tmp_path, easy, easy.start(problem.policies, problem.population))
    loaded, state = load_state(tmp_path)
    assert state.finished
    assert loaded.result(state).guarantee == "no gap is larger than 1"


def test_every_option_comes_back(tmp_path):
    problem = load_problem(FINITE)
    options = {"pilot": np.int64(70), "growth": 0.7, "floor": 1 / 3, "precision": 0.3, "model": CellMeans(np.pi)}
    algorithm = Coda(0.2, 0.1, **options)
    save_state(tmp_path, algorithm, algorithm.start(problem.policies, problem.population), notes={"who": ["ä", 1e-300]})
    saved = read_state(tmp_path)
    assert saved.algorithm == algorithm
    assert saved.algorithm.model is saved.state.model
    assert saved.notes == {"who": ["ä", 1e-300]}


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
    for number, policies in enumerate((named, Trivial(7, 2, resolution=64), Trees.learn(contexts, n_actions=2))):
        problem = Problem("labels", "labels", contexts, means, Bernoulli(), policies)
        algorithm, draws = Coda(0.3, 0.1, pilot=40), np.random.default_rng(1)
        state = algorithm.start(policies, contexts)
        for _ in range(3):
            save_state(tmp_path / str(number), algorithm, state)
            same(load_state(tmp_path / str(number))[1], state)
            state = step(algorithm, problem, state, draws) or state
    unnumbered = replace(contexts, ids=None)
    state = algorithm.start(policies, unnumbered)
    save_state(tmp_path, algorithm, state)
    same(load_state(tmp_path)[1], state)


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


def test_a_model_of_the_users_own_is_passed_again(tmp_path):
    problem, rng = load_problem(TREES), np.random.default_rng(0)
    algorithm = Coda(0.13, 0.1, pilot=100, model=PerAction(Nearest(), least=5))
    states, places = play(algorithm, problem, algorithm.start(problem.policies, problem.population), rng)
    save_state(tmp_path, algorithm, states[5])
    assert (tmp_path / "predictions.parquet").exists()
    model = PerAction(Nearest(), least=5)
    loaded, state = load_state(tmp_path, model=model)
    assert loaded.model is state.model is model
    same(state, states[5])
    same(play(loaded, problem, state, generator(places[5]))[0][-1], states[-1])
    with pytest.raises(InputError, match=r"a reward model of your own, .*Nearest.*, which is not stored; pass it"):
        load_state(tmp_path)
    with pytest.raises(InputError, match=r"made with the reward model .*Nearest.*, not .*cell-means.*; pass the same"):
        load_state(tmp_path, model=CellMeans())
    with pytest.raises(InputError, match="predicts otherwise than before; it must be the same model"):
        load_state(tmp_path, model=PerAction(Nearest(0.05), least=5))
    (tmp_path / "predictions.parquet").unlink()
    with pytest.raises(InputError, match=r"cannot be resumed: no file at .*predictions\.parquet"):
        load_state(tmp_path, model=model)


def test_a_model_that_never_says_the_same_is_refused_when_it_is_saved(tmp_path):
    problem, rng = load_problem(TREES), np.random.default_rng(0)
    algorithm = Uniform(0.13, 0.1, pilot=100, model=PerAction(Moody(), least=5))
    state = algorithm.start(problem.policies, problem.population)
    for _ in range(2):
        state = step(algorithm, problem, state, rng)
    with pytest.raises(InputError, match="fix its random_state"):
        save_state(tmp_path / "state", algorithm, state)
    assert not (tmp_path / "state").exists()


def test_a_crash_between_the_files_costs_one_round(tmp_path):
    """Tables are written first; those of the newer state serve the older state.json."""
    algorithm, _, states, _ = direct("coda", TRIVIAL)
    for number in range(len(states) - 1):
        save_state(tmp_path, algorithm, states[number])
        older = (tmp_path / "state.json").read_bytes()
        save_state(tmp_path, algorithm, states[number + 1])
        (tmp_path / "state.json").write_bytes(older)
        same(load_state(tmp_path)[1], states[number])


@pytest.mark.parametrize("when", ["contexts.parquet", "log.parquet", "state.json"])
def test_an_interruption_leaves_the_old_state(when, tmp_path, monkeypatch):
    algorithm, _, states, _ = direct("coda", TRIVIAL)
    save_state(tmp_path, algorithm, states[3])
    before = sorted(tmp_path.iterdir())
    opened = type(tmp_path).open

    def interrupted(self, *arguments, **options):
        if self.name == f"{when}.part" and arguments[:1] == ("rb+",):
            raise KeyboardInterrupt
        return opened(self, *arguments, **options)

    monkeypatch.setattr(type(tmp_path), "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_state(tmp_path, algorithm, states[4])
    monkeypatch.undo()
    assert sorted(tmp_path.iterdir()) == before
    same(load_state(tmp_path)[1], states[3])


def altered(path):
    """One character of the figures changed."""
    text = path.read_text()
    assert text.count('"since": ') == 1
    path.write_text(text.replace('"since": ', '"since": 1'))


DAMAGES = {
    "no folder": (lambda folder: [path.unlink() for path in folder.iterdir()], "holds no saved state: there is no"),
    "no log": (lambda folder: (folder / "log.parquet").unlink(), r"cannot be resumed: no file at .*log\.parquet"),
    "no contexts": (lambda folder: (folder / "contexts.parquet").unlink(), "cannot be resumed: no file at"),
    "no state": (lambda folder: (folder / "state.json").unlink(), r"there is no state\.json in it"),
    "half a state": (
        lambda folder: (folder / "state.json").write_bytes((folder / "state.json").read_bytes()[:-100]),
        r"cannot be resumed: state\.json is not JSON; restore it from a copy, or begin anew in another folder",
    ),
    "half a log": (
        lambda folder: (folder / "log.parquet").write_bytes((folder / "log.parquet").read_bytes()[:-100]),
        "cannot be resumed: .* is not a readable Parquet file",
    ),
    "an altered state": (lambda folder: altered(folder / "state.json"), r"state\.json was altered or damaged"),
    "binary": (lambda folder: (folder / "state.json").write_bytes(b"\xff\xfe\x00"), "is not JSON"),
    "a list": (lambda folder: (folder / "state.json").write_text("[1]"), "is not a saved state of this package"),
    "another JSON": (lambda folder: (folder / "state.json").write_text("{}"), "is not a saved state of this package"),
    "the future": (
        lambda folder: (folder / "state.json").write_text('{"kind": "pacbandits state", "format": 99}'),
        "has format 99, and this version reads format 2",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused_in_one_line(damage, tmp_path):
    algorithm, _, states, _ = direct("coda", FINITE)
    save_state(tmp_path, algorithm, states[4])
    spoil, words = DAMAGES[damage]
    spoil(tmp_path)
    with pytest.raises(InputError, match=words) as caught:
        load_state(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["log.parquet", "contexts.parquet"])
def test_tables_of_another_run_are_refused(name, tmp_path):
    algorithm, _, states, _ = direct("coda", FINITE)
    save_state(tmp_path / "one", algorithm, states[3])
    other, _, others, _ = direct("coda", TRIVIAL)
    save_state(tmp_path / "two", other, others[-1])
    for source in (tmp_path / "two" / name, tmp_path / "older.parquet"):
        if not source.exists():
            log, contexts = states[2].log, states[3].contexts.take([0, 1])
            (log if name == "log.parquet" else contexts).write(source)
        (tmp_path / "one" / name).write_bytes(source.read_bytes())
        with pytest.raises(InputError, match=rf"cannot be resumed: {name} (has \d+ rows|is not what state\.json)"):
            load_state(tmp_path / "one")
    save_state(tmp_path / "one", algorithm, states[3])
    changed = replace(states[3].log, rewards=1.0 - states[3].log.rewards)
    changed.write(tmp_path / "one" / "log.parquet")
    with pytest.raises(InputError, match=r"log\.parquet is not what state\.json was written with"):
        load_state(tmp_path / "one")


def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path):
    algorithm, problem, states, _ = direct("coda", FINITE)
    folder = tmp_path / "state"

    class Mine(Coda):
        pass

    class Coin:
        n_actions = 10

    oracle = algorithm.start(ArgmaxOnly(problem.policies), problem.population)
    odd = replace(states[1], played=((Coin(), 100),), current=replace(states[1].current, sampler=Coin()))
    alone = replace(odd, current=replace(odd.current, sampler=odd.played[0][0]))
    crowd = replace(states[1], log=replace(states[1].log, repeats=np.full(len(states[1].log), 2**53)))
    for one, state, words in (
        (Mine(0.1, 0.1), states[0], "the state of Mine cannot be kept while it is called 'coda'"),
        (algorithm, oracle, "the policy class ArgmaxOnly has no description in JSON"),
        (algorithm, odd, "not one that absorb returned"),
        (algorithm, alone, "played by a Coin cannot be saved"),
        (algorithm, crowd, r"cannot be saved; at most 2\^53"),
    ):
        with pytest.raises(InputError, match=words):
            save_state(folder, one, state)
        assert not folder.exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write to .*file"):
        save_state(tmp_path / "file", algorithm, states[0])


@dataclass(frozen=True)
class Eager(Coda):
    """A trial of the user's own, with an option that the built-in one lacks."""

    name: ClassVar[str] = "eager"
    haste: float = field(default=1.0, kw_only=True)


def test_a_trial_of_ones_own_is_handed_in_again(tmp_path):
    problem, eager = load_problem(FINITE), Eager(0.1, 0.1, pilot=100, haste=0.5)
    first = eager.start(problem.policies, problem.population)
    states, places = play(eager, problem, first, np.random.default_rng(0))
    save_state(tmp_path, eager, states[1])
    with pytest.raises(InputError, match=r"made by 'eager', an algorithm of your own.*pass it again as algorithm="):
        load_state(tmp_path)
    for other in (Eager(0.1, 0.1, pilot=100), Coda(0.1, 0.1, pilot=100)):
        with pytest.raises(InputError, match=r"the state was made by .*eager.*pass the same"):
            load_state(tmp_path, algorithm=other)
    algorithm, state = load_state(tmp_path, algorithm=eager)
    assert algorithm is eager
    same(state, states[1])
    same(play(eager, problem, state, generator(places[1]))[0][-1], states[-1])


RUN = {"algorithm": "coda", "epsilon": 0.06, "delta": 0.1}


def without_time(done):
    return {key: value for key, value in done.to_json().items() if key != "seconds"}


@pytest.mark.parametrize(("spec", "rng"), [(FINITE, np.random.Philox), (TRIVIAL, np.random.MT19937), (TREES, 3)])
def test_a_run_in_pieces_is_a_run_in_one(spec, rng, tmp_path):
    def draw():
        return rng if isinstance(rng, int) else np.random.Generator(rng(5))

    problem, options = load_problem(spec), RUN | {"offline_contexts": 40}
    whole = run(problem, rng=draw(), **options)
    assert whole.rounds > 2
    for budget in (1, whole.history[0]["samples"], whole.history[1]["total"]):
        part = run(problem, rng=draw(), state=tmp_path, max_samples=budget, **options)
        assert part.stopped == "budget"
        assert part.samples <= budget
    smaller = run(problem, rng=draw(), state=tmp_path, max_samples=1, **options)
    assert smaller.reason.endswith("and 0 are left")
    for _ in range(2):  # the second time there is nothing left to do
        done = run(problem, rng=draw(), state=tmp_path, **options)
        assert without_time(done) == without_time(whole)
        same_logs(done.log, whole.log)


def test_an_interrupted_round_is_played_again(tmp_path, monkeypatch):
    problem = load_problem(TRIVIAL)
    whole = run(problem, rng=1, **RUN)
    interact, absorb, calls = Problem.interact, Coda.absorb, 0

    def playing(self, *arguments, **options):
        nonlocal calls
        calls += 1
        log = interact(self, *arguments, **options)
        if calls in (1, 4):
            raise KeyboardInterrupt
        return log

    def learning(self, *arguments):
        state = absorb(self, *arguments)
        if calls in (2, 6):
            raise KeyboardInterrupt
        return state

    monkeypatch.setattr(Problem, "interact", playing)
    monkeypatch.setattr(Coda, "absorb", learning)
    for rounds in (0, 0, 1, 2):
        part = run(problem, rng=1, state=tmp_path, **RUN)
        assert (part.stopped, part.rounds) == ("interrupted", rounds)
        assert part.history == whole.history[:rounds]
        assert load_state(tmp_path)[1].round_number == rounds
    done = run(problem, rng=1, state=tmp_path, **RUN)
    assert without_time(done) == without_time(whole)
    assert calls == 4 + whole.rounds


def test_a_folder_of_another_run_is_refused(tmp_path):
    problem, other = load_problem(FINITE), load_problem(FINITE + ",seed=8")
    folder = tmp_path / "state"
    options = RUN | {"rng": 1, "max_samples": 2000}
    run(problem, state=folder, **options)
    moved = replace(problem, mean_rewards=problem.mean_rewards[::-1])
    fewer = Finite(problem.policies.table[:-1], n_actions=10)
    named = Finite(problem.policies.table, n_actions=10, names=[str(i) for i in range(20)])
    before = (folder / "state.json").read_bytes()
    for one, policies, changes, words in (
        (other, None, {}, rf"its problem was {problem.name}, and is {other.name} now"),
        (moved, None, {}, r"its problem's digest was \w+, and is \w+ now"),
        (problem, fewer, {}, "its policy class was another"),
        (problem, named, {}, "its policy class was another"),
        (problem, None, {"algorithm": "uniform"}, "its algorithm was coda, and is uniform now"),
        (problem, None, {"epsilon": 0.2}, r"its epsilon was 0\.06, and is 0\.2 now"),
        (problem, None, {"delta": 0.2}, r"its delta was 0\.1, and is 0\.2 now"),
        (problem, None, {"rng": 2}, "its seed was 1, and is 2 now"),
        (problem, None, {"rng": np.random.default_rng(1)}, "its seed was 1, and is None now"),
        (problem, None, {"offline_contexts": 9}, "its number of offline contexts was None, and is 9 now"),
    ):
        words = f"holds another run: {words}; take another folder, or the same options as before"
        with pytest.raises(InputError, match=words):
            run(one, policies, state=folder, **(options | changes))
    assert (folder / "state.json").read_bytes() == before
    with pytest.raises(
        InputError, match="the state of rage cannot be kept, only that of a trial: coda, uniform, or your own"
    ):
        run(problem, state=tmp_path / "new", **(options | {"algorithm": "rage"}))
    assert not (tmp_path / "new").exists()
    run(problem, state=tmp_path / "new", **(options | {"rng": np.random.default_rng(0), "max_samples": 1}))
    with pytest.raises(InputError, match="another kind of random numbers was drawn"):
        run(problem, state=tmp_path / "new", **(options | {"rng": np.random.Generator(np.random.SFC64(0))}))
    algorithm, _, states, _ = direct("coda", FINITE)
    save_state(folder, algorithm, states[1])
    with pytest.raises(InputError, match="holds a state that no run has left there; take another folder"):
        run(problem, state=folder, **options)
    (folder / "state.json").unlink()
    with pytest.raises(InputError, match=r"holds a log\.parquet but no saved state; take another folder"):
        run(problem, state=folder, **options)


@pytest.mark.parametrize("name", KINDS)
def test_the_command_stops_by_its_budget_and_goes_on(name, command, tmp_path):
    asked = ("run", TREES, "--algorithm", name, "--epsilon", 0.15, "--seed", 2, "--json")
    code, out, _ = command(*asked, "--log", tmp_path / "whole.parquet")
    whole = json.loads(out)
    assert code == 0
    kept = (*asked, "--state", tmp_path / "state")
    for budget in (10, 1000):
        code, out, _ = command(*kept, "--max-samples", budget)
        assert code == 3
        assert json.loads(out)["stopped"] == "budget"
    for _ in range(2):
        code, out, _ = command(*kept, "--log", tmp_path / "parts.parquet")
        assert code == 0
        assert json.loads(out) | {"seconds": 0} == whole | {"seconds": 0}
        same_logs(Log.read(tmp_path / "parts.parquet"), Log.read(tmp_path / "whole.parquet"))
    for more, words in (
        (("--repeat", 2), "a folder keeps the state of one run; leave out --repeat or --state"),
        (("--delta", 0.2), "its delta was 0.05, and is 0.2 now; take another folder, or the same options as before"),
        (("--algorithm", "coda-paper"), "the state of coda-paper cannot be kept"),
    ):
        code, out, err = command(*kept, *more)
        assert (code, out) == (2, "")
        assert words in err
        assert err.count("\n") == 1
