"""How good a policy is, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pacbandits.certificate import Interval, Worth
from pacbandits.certificate.certificate import count_words
from pacbandits.errors import one_line, visible_lines
from pacbandits.records.beside import UNIT_RANGE
from pacbandits.records.log import Log

ALARM = "ALARM: "
IN_DOUBT = "no interval here can be relied on, as the log speaks against an assumption (see the alarm)"
EMPTY_WORDS = "empty interval: the assumptions contradict the data"
OWN_LOG = "the policy was chosen by this log, and the intervals allow for that"
OTHER_LOG = "holds if the policy was not chosen by looking at this log (else the estimates flatter it)"


def show_mean(value: float, *, percent: bool) -> str:
    """A mean reward: rates in percent, everything else in its units."""
    return f"{100 * value:.3g} %" if percent else f"{value:.4g}"


def show_gain(value: float, *, percent: bool, sign: bool = False) -> str:
    """A difference between mean rewards: of rates in percentage points."""
    plus = "+" if sign else ""
    if not percent:
        return f"{value:{plus}.3g}"
    points = f"{100 * value:{plus}.3g}"
    return f"{points} {'point' if points.lstrip('+-') == '1' else 'points'}"


def mean_words(interval: Interval, *, percent: bool) -> str:
    """A mean reward, and between what it lies."""
    if interval.empty:
        return f"{show_mean(interval.estimate, percent=percent)} ({EMPTY_WORDS})"
    low, mean, high = (show_mean(x, percent=percent) for x in (interval.low, interval.estimate, interval.high))
    return f"{mean} ({low} to {high})"


def gain_words(interval: Interval, *, percent: bool) -> str:
    """A gain, and between what it lies."""
    if interval.empty:
        return f"{show_gain(interval.estimate, percent=percent, sign=True)} ({EMPTY_WORDS})"
    ends = (interval.low, interval.estimate, interval.high)
    low, mean, high = (show_gain(x, percent=percent, sign=True) for x in ends)
    return f"{mean} ({low} to {high})"


def alarm_lines(alarms: Sequence[str]) -> Text:
    """Alarms in red, to be shown before anything else; nothing where there are none."""
    return Text("".join(f"{ALARM}{one_line(alarm)}\n\n" for alarm in alarms), "bold red")


def worth_table(
    worth: Worth,
    names: tuple[str, ...],
    policy: str,
    *,
    own: bool,
    control: int | None,
    log: Log,
    outcome: str = "reward",
) -> RenderableType:
    """The policy in words, its mean reward, and what it gains.

    names (A,): of the actions. own: whether the policy was chosen by this log. control: the action to compare with.
    log: that it was measured by. outcome: what a reward is called.
    """
    percent = log.reward_range == UNIT_RANGE
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column()
    table.add_row(f"mean {one_line(outcome)} of the policy", mean_words(worth.value, percent=percent))
    compared = range(len(names)) if control is None else [control]
    for action in compared:
        table.add_row(f"always {one_line(names[action])}", mean_words(worth.singles[action], percent=percent))
    for action in compared:
        gain = gain_words(worth.over_each[action], percent=percent)
        table.add_row(f"gain over always {one_line(names[action])}", gain)
    table.add_row("gain over the best single action", gain_words(worth.over_best, percent=percent))
    visits = "" if worth.units is None else f"; {count_words(worth.samples, worth.units)}"
    table.add_row("measured by", f"{worth.measured_by}{visits}")
    sure = f"each interval is right except with probability {worth.delta:g}; {OWN_LOG if own else OTHER_LOG}"
    sure = IN_DOUBT if worth.alarms else sure
    sure += "; assuming that " + "; that ".join(one_line(words) for words in worth.assumptions)
    words = Text.assemble(alarm_lines(worth.alarms), ("policy\n", "bold cyan"), f"{visible_lines(policy)}\n")
    return Group(words, table, Text(), Text(sure, style="dim"))
