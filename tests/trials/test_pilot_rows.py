"""Rows of a pilot count as the first rows of a trial: the same proof, for fewer new people."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import pacbandits as pb
from pacbandits.certificate import Certificate
from pacbandits.policies import Finite
from pacbandits.problems import Problem, load_problem
from pacbandits.problems.noise import Bernoulli
from pacbandits.records import Contexts, Design, Log
from pacbandits.records.log import digest_log
from pacbandits.trials.coda import Coda, Uniform
from pacbandits.trials.pilot_rows import ArrangedPilot, LoggedSampler, add_pilot, arrange_pilot, check_pilot
from pacbandits.trials.saved_state import load_state

SPEC = "trivial:contexts=4,actions=3,gap=0.4"
LED = "trivial:contexts=16,actions=3,gap=0.3"
ASKED = {"epsilon": 0.2, "delta": 0.1, "rng": 3}


@cache
def piloted(spec=SPEC, samples=150, seed=7):
    """A pilot of one round, uniform."""
    problem = load_problem(spec)
    even = Design.uniform(problem.best_policy())
    return problem, problem.interact(even, samples=samples, rng=np.random.default_rng(seed))


@cache
def finished(spec=SPEC):
    problem, pilot = piloted(spec)
    return pb.run(problem, algorithm="coda:pilot=60", pilot=pilot, **ASKED)


def started(trial, spec=LED, samples=400):
    """A trial that has begun with a pilot: its first state, the arranged rows, and the state after them."""
    problem, pilot = piloted(spec, samples)
    start = trial.start(problem.policies, problem.population)
    arranged = arrange_pilot(trial, check_pilot(pilot, problem.policies, problem.population))
    return start, arranged, add_pilot(trial, start, arranged)


def test_its_rows_are_the_first_of_the_log_whatever_their_order_in_the_file():
    (problem, pilot), done = piloted(), finished()
    made = done.certificate
    assert isinstance(made, Certificate)
    assert made.pilot is not None
    assert (made.pilot.samples, done.pilot_samples, done.new_samples) == (150, 150, done.samples - 150)
    assert "the first 150 rows are those of a pilot" in made.assuming()
    assert "150 of them of a pilot" in made.counted
    verdict = pb.verify(made, done.log, problem.policies)
    assert verdict.good, verdict.faults
    assert any("rows of the pilot count in the order of their contents" in words for words in verdict.checked)
    assert Certificate.from_json(json.loads(json.dumps(made.to_json()))).pilot == made.pilot
    turned = pilot.take(np.random.default_rng(1).permutation(len(pilot)))
    assert pb.run(problem, algorithm="coda:pilot=60", pilot=turned, **ASKED).certificate.to_json() == made.to_json()


def test_verify_refuses_rows_of_a_pilot_that_were_altered_or_moved():
    problem, done = piloted()[0], finished()
    made, log = done.certificate, done.log
    assert made.pilot is not None
    other = log.rewards.copy()
    other[5] = 1.0 - other[5]
    assert not pb.verify(made, replace(log, rewards=other), problem.policies).good
    # A forger who writes the digests anew is stopped by the order of rows within a round.
    inside = np.flatnonzero(log.rounds == 0)
    moved = log.take(np.concatenate([inside[::-1], np.arange(len(inside), len(log))]))
    part = moved.take(np.arange(made.pilot.rows))
    flat = digest_log(replace(part, rounds=np.zeros(len(part), dtype=np.int64)))
    forged = replace(made, digest=digest_log(moved), pilot=replace(made.pilot, digest=flat))
    assert "do not stand in the order of their contents" in str(pb.verify(forged, moved, problem.policies).faults)
    hidden = pb.verify(replace(made, pilot=None, remarks=()), log, problem.policies)
    assert "does not say that it assumes: the first 150 rows are those of a pilot" in str(hidden.faults)
    for pilot, words in (
        (replace(made.pilot, rows=149, samples=149), "are not the 149 rows"),
        (replace(made.pilot, digest="0" * 64), "not those that the certificate was made from"),
        (replace(made.pilot, rounds=99), "has no such rounds"),
    ):
        assert words in str(pb.verify(replace(made, pilot=pilot), log, problem.policies).faults)


@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_bets_on_a_round_of_the_pilot_depend_on_earlier_rounds_alone(kind):
    trial = kind(0.2, 0.1, pilot=60)
    start, arranged, state = started(trial)
    log, last = arranged.log, arranged.record.rounds - 1
    late = log.rounds == last
    others = np.roll(np.arange(len(log.contexts)), 11)
    contexts = log.contexts.take(np.where(late, others, np.arange(len(log))))
    uneven = np.where(late[:, None], [[0.6, 0.3, 0.1]], log.propensities)
    changed = replace(log, contexts=contexts, rewards=np.where(late, 1.0 - log.rewards, log.rewards))
    for other in (
        changed,
        replace(changed, propensities=uneven),
        replace(log, propensities=np.roll(uneven, 1, axis=1)),
    ):
        mixed = replace(other, propensities=np.where(late[:, None], other.propensities, log.propensities))
        again = add_pilot(trial, start, ArrangedPilot(mixed, arranged.record))
        assert again.scales == state.scales
        assert np.array_equal(again.predictions[~late], state.predictions[~late])
        assert again.leaders.turns == state.leaders.turns
        assert [one.to_json() for one in again.leaders.policies] == [one.to_json() for one in state.leaders.policies]


@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_the_weight_moved_in_a_round_of_a_pilot_does_not_depend_on_where_the_round_ended(kind):
    """Whoever closes rounds may have seen their rewards; blocks of rows by contents are planned."""
    trial = kind(0.2, 0.1, pilot=60)
    start, arranged, planned = started(trial)
    assert planned.leaders.sizes == tuple(int(size) for size in arranged.log.round_sizes)
    rounds = replace(arranged.record, by_content=False, digest="")
    shorter = arranged.log.take(np.arange(len(arranged.log) - 20))
    sizes = [add_pilot(trial, start, ArrangedPilot(log, rounds)).leaders.sizes for log in (arranged.log, shorter)]
    assert sizes[0] == sizes[1]
    assert sizes[0][1:] == tuple(np.cumsum(arranged.log.round_sizes)[:-1].astype(int))


@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_no_stake_depends_on_whether_the_propensities_of_a_pilot_stay_the_same(kind):
    """An adaptive pilot may change them by rewards, and a small class bets on the first round, too."""
    trial = kind(0.2, 0.1, pilot=60)
    start, arranged, _ = started(trial, SPEC, 150)
    log, late = arranged.log, (arranged.log.rounds == arranged.record.rounds - 1)[:, None]
    scales = set[tuple[float, ...]]()
    for last in ([0.8, 0.15, 0.05], [0.4, 0.3, 0.3]):
        played = replace(log, propensities=np.where(late, last, [0.8, 0.15, 0.05]))
        scales.add(add_pilot(trial, start, ArrangedPilot(played, arranged.record)).scales)
    assert len(scales) == 1


def test_a_pilot_with_rounds_keeps_them_and_a_small_one_is_filled_up():
    problem, pilot = piloted()
    before = pb.run(problem, algorithm="coda:pilot=60", epsilon=0.05, delta=0.1, rng=5, max_samples=150)
    done = pb.run(problem, algorithm="coda:pilot=60", pilot=before.log, **ASKED)
    assert done.certificate.pilot.rounds == before.rounds
    assert not done.certificate.pilot.by_content
    assert pb.verify(done.certificate, done.log, problem.policies).good
    done = pb.run(problem, algorithm="uniform:pilot=200", pilot=pilot, max_samples=50, epsilon=0.1, delta=0.1, rng=1)
    assert [one["samples"] for one in done.history] == [150, 50]
    # pilot=SIZE is the option of the algorithm, with or without a log.
    done = pb.run(problem, algorithm="uniform", pilot=70, max_samples=70, epsilon=0.1, delta=0.1, rng=1)
    assert done.samples == 70


def test_a_trial_that_stops_by_a_gain_counts_them_too():
    problem, pilot = piloted(samples=600)
    done = pb.run(problem, algorithm="uniform:pilot=60", pilot=pilot, improve_on=0, delta=0.1, rng=2, max_samples=400)
    assert done.certificate.pilot.samples == 600
    assert pb.verify(done.certificate, done.log, problem.policies).good


def test_a_pilot_of_the_same_seed_is_of_other_people():
    problem = pb.load_problem("trees:actions=3,contexts=500,depth=1")
    pilot = pb.run(problem, algorithm="uniform", epsilon=0.2, delta=0.1, rng=3, max_samples=400).log
    log = pb.run(problem, epsilon=0.2, delta=0.1, rng=3, pilot=pilot, max_samples=400).log
    old = Counter(pilot.contexts.ids[pilot.rounds == 0].repeat(pilot.repeats[pilot.rounds == 0]).tolist())
    here = log.rounds == pilot.rounds.max() + 1
    new = Counter(log.contexts.ids[here].repeat(log.repeats[here]).tolist())
    assert new.total() > 20
    assert not new <= old


def test_a_run_with_a_pilot_is_resumed(tmp_path):
    problem, pilot = piloted()
    asked = {"algorithm": "uniform:pilot=60", "pilot": pilot, **ASKED}
    whole = pb.run(problem, **asked)
    pb.run(problem, **asked, state=tmp_path / "trial", max_samples=20)
    done = pb.run(problem, **asked, state=tmp_path / "trial")
    assert done.certificate.to_json() == whole.certificate.to_json()
    _, state = load_state(tmp_path / "trial")
    assert (state.pilot, state.samples) == (whole.certificate.pilot, whole.samples)
    with pytest.raises(pb.InputError, match="and is None now"):
        pb.run(problem, **{**asked, "pilot": None}, state=tmp_path / "trial")
    pb.run(problem, **{**asked, "pilot": None}, state=tmp_path / "plain", max_samples=60)
    with pytest.raises(pb.InputError, match="its pilot's digest was None"):
        pb.run(problem, **asked, state=tmp_path / "plain")


BAD = {
    "the propensity of the played action alone": lambda log: Log.of_played(
        log.contexts,
        actions=log.actions,
        played=log.played_propensities,
        least=np.zeros_like(log.propensities),
        rewards=log.rewards,
    ),
    "has a reward of 2, outside 0 to 1": lambda log: replace(log, rewards=log.rewards + 1.0),
    "lie in 0 to 5, and those of the trial in 0 to 1": lambda log: replace(log, reward_range=(0.0, 5.0)),
    "could not play action 2: its propensity is 0": lambda log: replace(
        log, actions=np.minimum(log.actions, 1), propensities=np.tile([0.5, 0.5, 0.0], (len(log), 1))
    ),
    "has 4 actions and the trial 3": lambda log: replace(
        log, propensities=np.tile([0.25, 0.25, 0.25, 0.25], (len(log), 1))
    ),
    "the actions a, b, c, and the trial 0 to 2": lambda log: replace(log, action_names=("a", "b", "c")),
    "have no column context_id": lambda log: replace(log, contexts=replace(log.contexts, ids=None)),
    "'age' is in one of them alone": lambda log: replace(
        log, contexts=Contexts.of(np.ones((len(log), 1)), names=["age"], ids=log.contexts.ids)
    ),
    "are of 2 people": lambda log: replace(
        log, repeats=np.ones(len(log), dtype=np.int64), units=np.arange(len(log)) % 2
    ),
    "still missing": lambda log: replace(
        log,
        repeats=np.ones(len(log), dtype=np.int64),
        rewards=np.where(np.arange(len(log)) == 1, np.nan, log.rewards),
        known=np.where(np.arange(len(log)) == 1, -1, 1),
    ),
}


@pytest.mark.parametrize("words", BAD)
def test_a_pilot_that_cannot_count_is_refused_with_the_remedy(words):
    problem, pilot = piloted()
    with pytest.raises(pb.InputError, match=words) as refused:
        pb.run(problem, pilot=BAD[words](pilot), **ASKED)
    assert "\n" not in str(refused.value)
    assert ";" in str(refused.value)


def test_other_arguments_are_refused():
    problem, pilot = piloted()
    with pytest.raises(pb.InputError, match="not in rage"):
        pb.run(problem, algorithm="rage", pilot=pilot, **ASKED)
    with pytest.raises(pb.InputError, match="read_log of a file"):
        pb.run(problem, pilot="pilot.parquet", **ASKED)


def test_propensities_of_a_log_in_its_contexts_and_others():
    contexts = Contexts.of([[1.0, 0], [2.0, 1], [1.0, 0]], names=["age", "site"], categories=[None, ["a", "b"]])
    log = Log.of(contexts, actions=[0, 1, 0], rewards=[0, 1, 1], propensities=[[0.2, 0.8], [0.5, 0.5], [0.4, 0.6]])
    asked = Contexts.of([[1.0, 0], [1.1, 1], [np.nan, 1]], names=["age", "site"], categories=[None, ["a", "b"]])
    assert np.allclose(LoggedSampler.of(log).propensities(asked), [[0.3, 0.7], [0.5, 0.5], [0.5, 0.5]])
    finite = Log.of(Contexts.finite(3), actions=[0, 1, 0], rewards=[0, 1, 1], propensities=log.propensities)
    few = LoggedSampler.of(finite.take(np.array([0, 2])))
    assert np.allclose(few.propensities(Contexts.finite(3))[:, 0], [0.2, 0.3, 0.4])


def test_a_pilot_of_other_people_raises_an_alarm():
    problem, pilot = piloted(samples=400)
    other = replace(problem, mean_rewards=1.0 - problem.mean_rewards)
    done = pb.run(other, algorithm="uniform", pilot=pilot, epsilon=0.01, delta=0.1, rng=1, max_samples=400)
    assert done.new_samples > 0
    assert any("changed" in words or "went from" in words for words in done.certificate.alarms)


# Statistics.

# Two policies that differ by a little more than ε: whoever certifies the worse one errs.
GAP = 0.21
TRAP = Problem(
    "trap",
    "",
    Contexts.finite(1),
    np.array([[0.5 + GAP / 2, 0.5 - GAP / 2]]),
    Bernoulli(),
    Finite([[0], [1]], n_actions=2),
)


def _wrong(kind, *, delta, runs, policies=None):
    even, wrong = Design.uniform(TRAP.best_policy()), 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 5])
        pilot = TRAP.interact(even, samples=40, rng=rng)
        options = {"algorithm": f"{kind}:pilot=10,growth=0.5", "epsilon": 0.2, "delta": delta}
        wrong += not pb.run(TRAP, policies, pilot=pilot, rng=seed, max_samples=400, **options).correct
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uniform", "coda"])
def test_certificates_with_a_pilot_err_no_more_often_than_delta_says(kind):
    runs, delta = 200, 0.4
    assert _wrong(kind, delta=delta, runs=runs) <= binom.ppf(0.999, runs, delta)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "rows"), [("two-of-many:actions=3,policies=40", 600), (LED, 300)])
def test_a_pilot_saves_about_as_many_new_people_as_it_has(spec, rows):
    problem, plain, with_pilot = load_problem(spec), [], []
    even = Design.uniform(problem.best_policy())
    for seed in range(16):
        pilot = problem.interact(even, samples=rows, rng=np.random.default_rng([seed, 9]))
        asked = {"algorithm": "uniform", "epsilon": 0.1, "delta": 0.05, "rng": seed}
        plain.append(pb.run(problem, **asked).samples)
        with_pilot.append(pb.run(problem, **asked, pilot=pilot).new_samples)
    saved = np.array(plain) - np.array(with_pilot)
    error = saved.std() / np.sqrt(len(saved))
    assert np.mean(plain) > 1.5 * rows
    assert abs(saved.mean() - rows) <= 4 * error + 0.1 * rows, (saved.mean(), error)
