"""A state that was sealed over nonsense is refused in a sentence; what it says of proofs is not taken from the file."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from tests.trials.saving_cases import FINITE, beginning, forge, led, same, unchanged

from pacbandits import load_state, save_state
from pacbandits.errors import InputError
from pacbandits.simulation import run
from pacbandits.trials.saved_state import StateFile


def at(*path, to):
    """A change of what stands at a path; `to` is the new value, or makes it from the old one."""

    def change(given):
        for name in path[:-1]:
            given = given[name]
        given[path[-1]] = to(given[path[-1]]) if callable(to) else to

    return change


def more(value):
    return value + 1


def double(value):
    return 2 * value


OTHERWISE = "does not come out as before: "

# Of a state with a mixture of leaders, on a class of tables: the number of the entry, a change, and the reason.
FORGERIES = {
    "no samples": (1, lambda given: given.pop("samples"), "the round 1 lacks 'samples'"),
    "more samples": (
        2,
        at("samples", to=more),
        f"round 2 {OTHERWISE}round 2 asks for .* interactions, but",
    ),
    "samples in words": (1, at("samples", to="219"), "'samples' of the round 1 must be a whole number, got the text"),
    "another scale": (2, at("scale", to=double), f"round 2 {OTHERWISE}its certified_epsilon was|its wealth was"),
    "a negative scale": (2, at("scale", to=-1.0), f"round 2 {OTHERWISE}the scales of bets must lie between"),
    "another price": (2, at("details", "price", to=double), f"round 2 {OTHERWISE}its price was"),
    "no price": (2, at("price", to=-1.0), "price must be positive and finite, got -1"),
    "a price in a list": (2, at("details", "price", to=[1.0]), "the details of the round 2 must be numbers or texts"),
    "since later": (2, at("since", to=10**9), "'since' of the round 2 must be a whole number between 0 and"),
    "calls below nothing": (2, at("oracle_calls", to=-1), "'oracle_calls' of the round 2 must be a whole number of 0"),
    "more wealth": (3, at("figures", "wealth", to=more), f"round 3 {OTHERWISE}its wealth was"),
    "a better proof": (3, at("figures", "certified_epsilon", to=1e-3), f"round 3 {OTHERWISE}its certified_epsilon was"),
    "no wealth": (3, lambda given: given["figures"].pop("wealth"), f"round 3 {OTHERWISE}its wealth was nan, and is"),
    "wealth in words": (3, at("figures", "wealth", to="x"), "it lacks what it should hold"),
    "a design of nobody": (1, at("design", to=None), "goes on with the design of a round before, and there is none"),
    "no design": (2, at("design", to=None), f"round 2 {OTHERWISE}row .* of the log has propensity"),
    "no model": (2, at("design", "noisy", to=False), f"round 2 {OTHERWISE}row .* of the log has propensity"),
    "another weight": (2, at("design", "weights", 0, to=lambda old: 1e3 * (old + 1)), f"round 2 {OTHERWISE}row"),
    "a negative weight": (2, at("design", "weights", 0, to=-1.0), "design weights must not be negative"),
    "a weight too few": (2, at("design", "weights", to=lambda old: old[1:]), "'weights' of the design of round 2 must"),
    "a support beyond": (2, at("design", "support", 0, to=10**6), "entry 0 of the 'support' of the design of round 2"),
    "a great floor": (2, at("design", "floor", to=0.9), "floor must lie between 0 and 1/3"),
    "a policy of fewer contexts": (
        2,
        at("policies", 0, "actions", to=lambda old: old[1:]),
        "the round 2 holds a policy that is not of its class",
    ),
    "a policy of more actions": (2, at("policies", 0, "n_actions", to=4), "the round 2 holds a policy that is not of"),
    "a policy that is none": (2, at("policies", 0, to=3), "a policy in JSON must be an object"),
    "another ε": (0, at("algorithm", "epsilon", to=0.3), f"{OTHERWISE}its wealth was"),
    "another δ": (0, at("algorithm", "delta", to=0.2), f"round 1 {OTHERWISE}its (needed|certified_epsilon) was"),
    "a single policy": (0, at("algorithm", "single", to=True), f"{OTHERWISE}"),
    "an unknown option": (0, at("algorithm", "haste", to=1.0), "the options of the algorithm are not those of coda"),
    "growth in words": (0, at("algorithm", "growth", to="x"), "growth must be"),
    "an unknown algorithm": (0, at("algorithm", "name", to="codas"), "made by 'codas', an algorithm of your own"),
    "another class": (0, at("class", "n_contexts", to=17), "cannot be resumed: "),
    "fewer actions": (0, at("class", "n_actions", to=2), "cannot be resumed: "),
    "a class that is none": (0, at("class", to=[]), "a policy class in JSON must be an object"),
    "a list": (0, lambda given: given.clear(), "the start lacks 'algorithm'"),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "trial"
    save_state(path, *led())
    with StateFile.looked_at(path) as file:
        return path, file.entries()


def restore(kept):
    path, entries = kept
    with StateFile.held(path) as file:
        file.replace(entries)
    return path


def test_what_is_sealed_honestly_is_accepted(kept):
    path = restore(kept)
    forge(path, 2, unchanged)
    same(load_state(path)[1], led()[1])


@pytest.mark.first(3)
@pytest.mark.parametrize("name", FORGERIES)
def test_a_sealed_forgery_is_refused(name, kept):
    path = restore(kept)
    number, change, words = FORGERIES[name]
    forge(path, number, change)
    with pytest.raises(InputError, match=words) as caught:
        load_state(path)
    assert len(str(caught.value)) < 500


def uneven(log):
    propensities = log.propensities.copy()
    propensities[-1] = np.eye(log.n_actions)[log.actions[-1]]
    return propensities


LOGS = {
    "repeated": (lambda log: {"repeats": 2 * log.repeats}, "asks for .* interactions, but the log has"),
    "beyond counting": (lambda log: {"repeats": 0 * log.repeats + 2**52}, "interactions, but the log has|sum to"),
    "half told": (lambda log: {"least": log.propensities}, "tells the propensity of the played action alone"),
    "played otherwise": (lambda log: {"propensities": uneven(log)}, "of the log has propensity"),
    "rewarded otherwise": (lambda log: {"rewards": 1.0 - log.rewards}, "its (wealth|certified_epsilon) was"),
}


@pytest.mark.first(2)
@pytest.mark.parametrize("name", LOGS)
def test_a_forged_log_is_refused(name, kept):
    path, (_, state) = restore(kept), led()
    change, words = LOGS[name]
    log = state.log.only(state.log.rounds == 1)
    forge(path, 2, unchanged, rows=replace(log, **change(log)))
    with pytest.raises(InputError, match=f"cannot be resumed: .*({words})"):
        load_state(path)


def test_rounds_after_the_end_are_refused(tmp_path):
    path = tmp_path / "trial"
    run(FINITE, epsilon=0.3, delta=0.1, rng=1, state=path)
    with StateFile.held(path) as file:
        entries = file.entries()
        file.replace([*entries, entries[-1]])
    with pytest.raises(InputError, match=f"it has a round {len(entries)}, but the trial was over before"):
        load_state(path)


def test_a_state_is_loaded_with_what_its_rounds_prove(tmp_path):
    """Whatever the saved state claimed, as by a user who altered it."""
    (algorithm, state), path = led(), tmp_path / "trial"
    leaders = replace(state.leaders, turns=(*state.leaders.turns[:-1], 0))
    certificate = replace(state.certificate, value=1e3, leaders=leaders)
    save_state(path, algorithm, replace(state, leaders=leaders, certificate=certificate, finished=True))
    same(load_state(path)[1], state)


def test_a_run_notices_rows_that_its_random_numbers_do_not_draw(tmp_path):
    """Though every digest and figure fits."""
    path, asked = tmp_path / "trial", {"epsilon": 0.3, "delta": 0.1, "max_samples": 600}
    run(FINITE, rng=2, state=path, **asked)
    forge(path, 0, at("notes", "asked", "seed", to=1))
    load_state(path)
    with pytest.raises(InputError, match="cannot be resumed: it was begun with other random numbers"):
        run(FINITE, rng=1, state=path, **asked)


@pytest.mark.thorough
def test_a_certificate_changes_with_no_figure_of_the_file(tmp_path):
    """Any number of a plan that is doubled: the file is refused, or the certificate is the same."""
    (algorithm, states), path, rng = beginning(FINITE), tmp_path / "trial", random.Random(0)
    save_state(path, algorithm, states[3])
    with StateFile.looked_at(path) as file:
        entries, refused = file.entries(), 0
    for _ in range(40):
        with StateFile.held(path) as file:
            file.replace(entries)
        number = rng.randrange(1, 4)
        names = [name for name, value in json.loads(entries[number].body).items() if isinstance(value, int | float)]
        forge(path, number, at(rng.choice(names), to=lambda old: 2 * old + 1))
        try:
            assert load_state(path)[1].certificate.to_json() == states[3].certificate.to_json()
        except InputError:
            refused += 1
    assert refused > 10
