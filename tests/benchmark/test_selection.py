"""Parts of a suite."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pacbandits.algorithms import options_of
from pacbandits.benchmark.cases import Entry
from pacbandits.benchmark.suites import FULL, select
from pacbandits.errors import InputError
from pacbandits.options import parse_spec
from tests.benchmark.cases import EASY, TINY

KNOB = Entry("uniform", "uniform:growth=0.5", "tuned")
DEAR = replace(TINY, entries=(*TINY.entries, KNOB), seeds=4, dear=(EASY.name,), dear_seeds=2)


def seeds_of(suite, case):
    return {task.seed for task in suite.tasks() if task.case.name == case}


def test_dear_cases_have_fewer_seeds_unless_one_asks_for_more():
    assert seeds_of(DEAR, EASY.name) == {0, 1}
    assert seeds_of(select(DEAR, seeds=7), EASY.name) == set(range(7))
    assert seeds_of(select(DEAR, seeds=1), EASY.name) == {0}


def test_tuned_entries_play_dear_cases_where_the_suite_says_so():
    played = {task.entry.spec for task in replace(DEAR, tuned_on_dear=True).tasks() if task.case.name == EASY.name}
    assert played == {one.spec for one in DEAR.entries}


def test_grids_have_more_exploration_as_well_as_less():
    """For each algorithm whose options say how much it explores, values on both sides of the published one, or more."""
    tuned = {entry.spec for entry in FULL.entries if entry.role == "tuned"}
    more = {
        *(f"exp4:explore={c}" for c in (2, 3, 10)),
        *(f"squarecb:gamma={c}" for c in (0.3, 0.03333)),
        *(f"adacb:gamma={c}" for c in (0.3, 0.03333)),
        *(f"vowpal:explore=squarecb,gamma_scale={c},growth=0.15" for c in (1, 0.3)),
        "randomized-ucb:confidence=10",
        "ilovetoconbandits:mu=10",
        "proportional-response:scale=3",
        "lin-ucb:alpha=3",
        "vowpal:explore=regcb,mellowness=1,growth=0.15",
    }
    assert more <= tuned
    on_dear = {task.entry.spec for task in FULL.tasks() if task.case.name == "actg175"}
    assert tuned <= on_dear
    assert (FULL.seeds, FULL.screened) == (20, True)


@pytest.mark.parametrize("entry", FULL.entries, ids=lambda one: one.spec)
def test_every_entry_is_an_algorithm_with_options_that_it_knows(entry):
    name, given = parse_spec(entry.spec, of="algorithm")
    assert set(given) <= {option.name for option in options_of(name)}


def test_where_nothing_is_left_to_play_it_is_said_why():
    assert select(DEAR, entries=[KNOB.spec]).tasks()
    with pytest.raises(InputError, match=f"published defaults alone on {EASY.name}; name another entry or case"):
        select(DEAR, cases=[EASY.name], entries=[KNOB.spec])
