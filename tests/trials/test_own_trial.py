"""A trial of the user's own: a subclass of `Trial` with `explore` and an option, defined outside of the package."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.rewards import no_idea
from pacbandits.trials.coda import design_task, explore_with, still_recent

SPEC = "two-of-many:actions=6,policies=40"
DEEP = "trees:contexts=60,features=2,bins=4,actions=4,competitive=2,depth=1"


@dataclass(frozen=True)
class Timid(pb.Trial):
    """Plays what the leader and the policy that the trial began with differ over a little more often.

    shift: how much of the probability of other actions is lost to that.
    """

    shift: float = field(default=0.3, kw_only=True)

    def explore(self, state, *, progress=None):
        if (recent := still_recent(state)) is not None:
            return recent
        floor = (1 - self.shift) / state.policies.n_actions
        first = state.played[0][0].reference
        sampler = pb.Design((state.leader,), np.ones(1), first, floor=floor)
        task = design_task(state, no_idea(state.policies.n_actions), epsilon=self.epsilon, floor=0.0)
        return explore_with(state, task, sampler)


@pytest.mark.thorough
@pytest.mark.parametrize("spec", [SPEC, DEEP])
def test_it_runs_and_what_it_certifies_is_proven(spec):
    problem = pb.load_problem(spec)
    done = pb.run(problem, algorithm=Timid(0.2, 0.05), rng=1)
    assert (done.algorithm, done.stopped, done.correct) == ("Timid", "done", True)
    assert done.rounds > 1
    assert done.certificate.certified
    assert pb.verify(done.certificate, done.log, problem.policies).good
    other = pb.run(problem, algorithm=Timid(0.2, 0.05, shift=0.6), rng=1)
    n_actions = problem.policies.n_actions
    assert done.log.propensities.min() == pytest.approx(0.7 / n_actions)
    assert other.log.propensities.min() == pytest.approx(0.4 / n_actions)


def test_a_trial_must_say_how_it_explores():
    class Aimless(pb.Trial):
        pass

    with pytest.raises(TypeError, match="explore"):
        Aimless(0.1, 0.05)


def test_the_checks_of_options_are_those_of_every_trial():
    for options, words in (({"growth": -1.0}, "growth must be"), ({"pilot": 0}, "pilot must be")):
        with pytest.raises(pb.InputError, match=words):
            Timid(0.1, 0.05, **options)
    with pytest.raises(pb.InputError, match="epsilon must be"):
        Timid(-0.1, 0.05)


def play(trial, problem, state, rng, *, rounds):
    for _ in range(rounds):
        plan = trial.design(state)
        state = trial.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
    return state


@pytest.mark.first(1)
@pytest.mark.parametrize("spec", [SPEC, DEEP])
def test_its_state_is_saved_and_loaded_when_the_trial_is_handed_in_again(spec, tmp_path):
    problem, trial = pb.load_problem(spec), Timid(0.05, 0.05, pilot=50, shift=0.5)
    rng = np.random.default_rng(0)
    state = play(trial, problem, trial.start(problem.policies, problem.population), rng, rounds=3)
    pb.save_state(tmp_path / "trial", trial, state)
    loaded, again = pb.load_state(tmp_path / "trial", algorithm=Timid(0.05, 0.05, pilot=50, shift=0.5))
    assert loaded == trial
    place = rng.bit_generator.state
    here = play(trial, problem, state, rng, rounds=2)
    rng.bit_generator.state = place
    there = play(loaded, problem, again, rng, rounds=2)
    assert there.history == here.history
    assert there.certificate.to_json() == here.certificate.to_json()
    with pytest.raises(pb.InputError, match=r"made by 'Timid', an algorithm of your own.*pass it again as algorithm=…"):
        pb.load_state(tmp_path / "trial")
    with pytest.raises(pb.InputError, match=r"made by 'Timid' with shift = 0\.5, not 0\.3; pass the same"):
        pb.load_state(tmp_path / "trial", algorithm=Timid(0.05, 0.05, pilot=50))


@pytest.mark.thorough
def test_a_run_of_it_goes_on_where_it_stopped(tmp_path):
    options = {"algorithm": Timid(0.1, 0.05, pilot=50), "rng": 3}
    whole = pb.run(SPEC, **options)
    part = pb.run(SPEC, **options, state=tmp_path / "trial", max_samples=whole.samples // 2)
    assert part.stopped == "budget"
    done = pb.run(SPEC, **options, state=tmp_path / "trial")
    assert (done.samples, done.history) == (whole.samples, whole.history)
    assert done.certificate.to_json() == whole.certificate.to_json()
    with pytest.raises(pb.InputError, match=r"holds another run: its shift was 0\.3, and is 0\.5 now"):
        pb.run(SPEC, algorithm=Timid(0.1, 0.05, pilot=50, shift=0.5), rng=3, state=tmp_path / "trial")


class Even:
    """A sampler that no file can describe."""

    n_actions = 6

    def propensities(self, contexts):
        return np.full((len(contexts), 6), 1 / 6)


class Stubborn(pb.Trial):
    """Plays its own sampler, whatever was seen."""

    name = "stubborn"

    def explore(self, state, *, progress=None):
        return pb.Exploration(Even(), state.current.price, state.samples)


def test_a_sampler_that_no_file_can_describe_is_played_and_not_saved(tmp_path):
    done = pb.run(SPEC, algorithm=Stubborn(0.2, 0.05), rng=1)
    assert done.certificate.certified
    assert done.algorithm == "stubborn"
    problem, trial = pb.load_problem(SPEC), Stubborn(0.2, 0.05)
    first = trial.start(problem.policies, problem.population)
    state = play(trial, problem, first, np.random.default_rng(0), rounds=2)
    with pytest.raises(pb.InputError, match="played by a Even cannot be saved"):
        pb.save_state(tmp_path / "trial", trial, state)
