"""Simulation: it goes on where it was, refuses what is another plan's, and ends when it should."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.planning import Limits
from pacbandits.planning import simulated_trials as pool
from pacbandits.planning.simulated_trials import TRIALS_FILE, known_to, scenario_weights, simulate, stopping_times
from pacbandits.problems.pilots import PilotEffects
from pacbandits.records import Log
from tests.planning.cases import ONE_AFTER_ANOTHER, people, played, question, supposed


def timeless(trials):
    return [replace(one, seconds=0.0) for one in trials]


def forget(path, *, lines, tail=""):
    """Leave so many lines of what was kept, and a piece of another."""
    kept = path.read_text().splitlines(keepends=True)
    path.write_text("".join(kept[:lines]) + tail)


@pytest.mark.thorough
def test_what_is_kept_is_not_played_again_and_what_was_cut_short_is(tmp_path):
    s, folder, seen = supposed(), tmp_path / "kept", []
    first = simulate(s, question(s), limits=ONE_AFTER_ANOTHER, folder=folder)
    assert len(first) == 4
    whole = (folder / TRIALS_FILE).read_text()
    assert len(whole.splitlines()) == 4
    forget(folder / TRIALS_FILE, lines=3, tail=whole.splitlines()[3][:40])
    again = simulate(s, question(s), limits=ONE_AFTER_ANOTHER, folder=folder, watch=lambda done: seen.append(len(done)))
    assert timeless(again) == timeless(first)
    assert seen == [3, 4]
    more = simulate(s, question(s), limits=Limits(trials=2, processes=1), folder=folder)
    assert len(more) == 8
    assert [one for one in timeless(more) if one.number == 0] == timeless(first)
    assert timeless(simulate(s, question(s), limits=Limits(trials=2, processes=1))) == timeless(more)


def test_trials_of_another_plan_are_refused(tmp_path):
    s, folder = supposed(), tmp_path / "kept"
    simulate(s, question(s), limits=ONE_AFTER_ANOTHER, folder=folder)
    assert '"format": "pacbandits trial folder 1"' in (folder / "asked.json").read_text()
    others = (
        supposed(epsilon=0.3),
        supposed(seed=1),
        supposed(baseline=0.31),
        supposed(people(81)),
        supposed(policies="trees:depth=1"),
        supposed(control=1),
        supposed(traffic="100/day"),
        supposed(scenarios=s.scenarios[:1]),
    )
    for other in others:
        with pytest.raises(InputError, match="trials of another plan; use another folder"):
            simulate(other, question(other), limits=ONE_AFTER_ANOTHER, folder=folder)


def test_pilots_with_the_same_sums_are_other_plans(tmp_path):
    rng = np.random.default_rng(0)
    actions, rewards = np.repeat([0, 1], 40), rng.integers(2, size=80).astype(float)

    def assumed(turned):
        played = actions[::-1].copy() if turned else actions
        log = Log.of(people(), actions=played, rewards=rewards, propensities=np.full((80, 2), 0.5))
        return supposed(log, n_actions=None, baseline=None, scenarios=(PilotEffects(log),))

    simulate(assumed(False), question(assumed(False)), limits=ONE_AFTER_ANOTHER, folder=tmp_path / "kept")
    with pytest.raises(InputError, match="another plan"):
        simulate(assumed(True), question(assumed(True)), limits=ONE_AFTER_ANOTHER, folder=tmp_path / "kept")


def test_what_is_no_folder_of_trials_is_refused_in_a_sentence(tmp_path):
    s = supposed()
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "none" / "below"):
        with pytest.raises(InputError, match="cannot store trials in"):
            simulate(s, question(s), limits=ONE_AFTER_ANOTHER, folder=bad)
    folder = tmp_path / "kept"
    simulate(s, question(s), limits=ONE_AFTER_ANOTHER, folder=folder)
    for words in (b"\xff\xfe\n", b"[]\n", b"not json\n"):
        (folder / TRIALS_FILE).write_bytes(words)
        with pytest.raises(InputError, match=TRIALS_FILE.replace(".", r"\.") + "|trial of a plan"):
            simulate(s, question(s), limits=ONE_AFTER_ANOTHER, folder=folder)
    for said, words in (("{}", "digest"), ('{"format": "pacbandits trial folder 2"}', "upgrade pacbandits$")):
        (folder / "asked.json").write_text(said)
        with pytest.raises(InputError, match=words):
            simulate(s, question(s), limits=ONE_AFTER_ANOTHER, folder=folder)


def made_up(monkeypatch, times):
    """Trials that take no time: these many people, over and over."""

    def play_all(assumed, asked, jobs, **_):
        for scenario, number, algorithm in jobs:
            if number == len(times):
                raise KeyboardInterrupt
            yield played(scenario, number, algorithm, times[number])

    monkeypatch.setattr("pacbandits.planning.simulated_trials.play_all", play_all)


def test_an_interruption_leaves_what_is_known(monkeypatch):
    made_up(monkeypatch, [100, 200])
    s = supposed()
    assert len(simulate(s, question(s), limits=Limits())) == 8
    made_up(monkeypatch, [])
    with pytest.raises(KeyboardInterrupt):
        simulate(s, question(s), limits=Limits())


def test_it_ends_when_quantiles_are_known_or_time_is_up(monkeypatch, tmp_path):
    s, steady = supposed(), [100 + number % 7 for number in range(200)]
    made_up(monkeypatch, steady)
    trials = simulate(s, question(s), limits=Limits(), folder=tmp_path / "kept")
    assert 12 < len(trials) < 200
    assert known_to(trials, 2) <= 0.1 < known_to(trials[:-8], 2) or known_to(trials[:-8], 2) == np.inf
    assert simulate(s, question(s), limits=Limits(), folder=tmp_path / "kept") == trials  # that is enough
    assert len(simulate(s, question(s), limits=Limits(minutes=1e-9))) == 1


def test_no_process_is_started_for_nothing(monkeypatch):
    monkeypatch.setattr(pool.local, "_Worker", None)
    s = supposed()
    assert list(pool.play_all(s, question(s), iter([]), processes=2)) == []


def test_processes_end_when_time_is_up():
    s, began = supposed(), time.monotonic()
    assert list(pool.play_all(s, question(s), iter([(0, 0, "coda")] * 50), processes=2, until=began + 0.05)) == []
    assert time.monotonic() - began < 5


@pytest.mark.thorough
def test_a_process_says_what_goes_wrong():
    s = supposed()
    with pytest.raises(InputError, match="not 'rage'"):
        list(pool.play_all(s, question(s), iter([(0, 0, "rage")]), processes=2))


def test_scenarios_count_by_how_likely_they_are():
    trials = (played(0, 0), played(0, 1), played(0, 2, samples=300, done=False), played(1, 0), played(0, 0, "uniform"))
    assert stopping_times(trials, "coda") == [100, 100, np.inf, 100]
    assert stopping_times(trials, "coda", 1) == [100]
    np.testing.assert_allclose(scenario_weights(trials, "coda", (0.75, 0.25)), [0.25, 0.25, 0.25, 0.25])
    assert sum(scenario_weights(trials, "coda", (0.5, 0.5))) == pytest.approx(1)


def test_limits_are_checked():
    for bad in ({"trials": 0}, {"minutes": 0}, {"precision": -1}, {"processes": 0}, {"minutes": float("nan")}):
        with pytest.raises(InputError, match=next(iter(bad))):
            Limits(**bad)
