"""Traffic: as people write it, in periods and back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.errors import InputError
from pacbandits.planning import Traffic


@pytest.mark.parametrize(
    ("words", "people", "period"),
    [
        ("4000/week", 4_000, "week"),
        ("4,000 / weeks", 4_000, "week"),
        ("4.000/Month", 4_000, "month"),
        ("150 a day", 150, "day"),
        ("12 an hour", 12, "hour"),
        ("1_000_000 per year", 1_000_000, "year"),
    ],
)
def test_traffic_as_people_write_it(words, people, period):
    assert Traffic.read(words) == Traffic(people, period)


@pytest.mark.parametrize("words", ["", "4000", "week", "4.5/week", "-3/day", "many a day", "0/week", "4000/fortnight"])
def test_what_is_no_traffic_is_refused_in_a_sentence(words):
    with pytest.raises(InputError, match="traffic"):
        Traffic.read(words)


def test_late_rewards_make_batches():
    with pytest.raises(InputError, match="delay, in periods of the traffic, must be"):
        Traffic(100, delay=-1)
    assert Traffic(100, delay=1).batched
    assert Traffic(100, "week", delay=2).describe() == (
        "100 people a week, a design that changes once a week, rewards known 2 weeks later"
    )
    assert Traffic(100, "day", delay=1).describe().endswith("1 day later")
    assert Traffic(**Traffic(100, "day", delay=1).to_json()) == Traffic(100, "day", delay=1)


def test_people_come_in_whole_periods_and_while_rewards_are_awaited():
    freely, batched, late = Traffic(100), Traffic(100, batched=True), Traffic(100, delay=3)
    assert (freely.taken(250), freely.periods(250)) == (250, 2.5)
    assert (batched.taken(250), batched.periods(batched.taken(250))) == (300, 3)
    assert (late.taken(250), late.periods(late.taken(250))) == (600, 6)
    assert (late.counted(600), late.counted(599), late.counted(250)) == (300, 200, 0)
    assert late.taken(math.inf) == late.periods(math.inf) == math.inf


@given(people=st.integers(1, 999), delay=st.integers(0, 5), batched=st.booleans(), samples=st.floats(1, 1e7))
def test_as_many_are_known_as_were_waited_for(people, delay, batched, samples):
    traffic = Traffic(people, batched=batched, delay=delay)
    come = traffic.taken(samples)
    assert traffic.counted(come) >= samples * (1 - 1e-6)
    if traffic.batched:  # and not before
        assert traffic.counted(come - people) <= samples * (1 + 1e-6)
        assert come == traffic.people_in(traffic.periods(come))
