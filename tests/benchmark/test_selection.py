"""Parts of a suite."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pacbandits.benchmark.cases import Entry
from pacbandits.benchmark.suites import select
from pacbandits.errors import InputError
from tests.benchmark.cases import EASY, TINY

KNOB = Entry("uniform", "uniform:growth=0.5", "tuned")
DEAR = replace(TINY, entries=(*TINY.entries, KNOB), seeds=4, dear=(EASY.name,), dear_seeds=2)


def seeds_of(suite, case):
    return {task.seed for task in suite.tasks() if task.case.name == case}


def test_dear_cases_have_fewer_seeds_unless_one_asks_for_more():
    assert seeds_of(DEAR, EASY.name) == {0, 1}
    assert seeds_of(select(DEAR, seeds=7), EASY.name) == set(range(7))
    assert seeds_of(select(DEAR, seeds=1), EASY.name) == {0}


def test_where_nothing_is_left_to_play_it_is_said_why():
    assert select(DEAR, entries=[KNOB.spec]).tasks()
    with pytest.raises(InputError, match=f"published defaults alone on {EASY.name}; name another entry or case"):
        select(DEAR, cases=[EASY.name], entries=[KNOB.spec])
