"""Make a log from raw columns: rewards scaled to [0, 1], and propensities from a split."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, floats, floats_or_missing, integers
from pacbandits.checks import read_rate
from pacbandits.errors import ROW, InputError, RowError, count_of, nearest, plain
from pacbandits.logs.reading_options import MAX_SUM_ROUNDING, ReadingOptions
from pacbandits.records.column_types import Counts
from pacbandits.records.columns import (
    SOMEWHERE,
    CellNames,
    Columns,
    check_present,
    is_text,
    pa,
    pop_floats,
    pop_numbers_or_missing,
    spells_number,
)
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log, OtherColumns
from pacbandits.records.log_metadata import UNIT_RANGE, check_range
from pacbandits.records.metrics import AnyMetric, Metric, Ratio, metric_columns
from pacbandits.records.policy import call
from pacbandits.records.text_files import NUMBER_BYTES, spell_bytes

# Splits: propensities that were the same for everybody, as in an A/B/n test.


UNIFORM = "uniform"
MIN_PLAYS = 10  # of each action, before constant propensities are taken for a split
MIN_EXPECTED_PLAYS = 20  # of an action, for its absence to be no chance
MAX_SHARE_ROUNDING = 1e-9  # relative: how far a constant propensity may vary


def parse_split(split: str, *, n_actions: int, names: tuple[str, ...] | None) -> tuple[FloatArray, str]:
    """Return the propensities (A,) of a split, and its assumption, in words.

    split: `uniform`, or the share of each action, `a=0.4,b=0.6`, by its name or number.
    names (A,): the names of the actions, if they have any.
    """
    if split.strip().lower() == UNIFORM:
        words = f"everybody was given one of the {n_actions} actions at random, each with the same probability"
        words = words if n_actions > 1 else "everybody was given the only action"
        return np.full(n_actions, 1.0 / n_actions), words
    known = names if names is not None else tuple(str(action) for action in range(n_actions))
    shares = {_known(name, known): read_share(share, name) for name, share in _parts(split, known)}
    lacking = [f"'{plain(name)}'" for name in known if name not in shares]
    if lacking:
        raise InputError(f"the split has no share for {', '.join(lacking[:5])}; give one for each action")
    out = np.array([shares[name] for name in known])
    if abs(out.sum() - 1.0) > MAX_SUM_ROUNDING:
        raise InputError(f"the shares of the split sum to {out.sum():.10g}; they must sum to 1 (thirds are 1/3)")
    return out, _split_words(out, names)


def split_names(split: str) -> set[str]:
    """Return the actions that a split names."""
    return {name for name, _ in _pairs(split)}


def check_shown(split: str, shown: Collection[str], *, rows: int, column: str) -> None:
    """Raise InputError if a split names an action that `rows` rows should contain but do not; shown: those present."""
    for name, share in _pairs(split):
        if name not in shown and read_share(share, name) * rows >= MIN_EXPECTED_PLAYS:
            raise InputError(
                f"the split gives '{plain(name)}' a share of {share}, but no row has it in {column}, "
                f"which holds {plain(', '.join(sorted(shown)))}; correct the name, or leave it out of the split"
            )


def constant_split(
    played: FloatArray, actions: IntArray, *, n_actions: int, names: tuple[str, ...] | None
) -> tuple[FloatArray, str] | None:
    """Return the propensities (A,) and their description, if each action's is constant and they sum to 1.

    played (n,): the propensities of the played actions (n,). None if they vary, or some action was played too rarely.
    """
    low, high = np.full(n_actions, np.inf), np.full(n_actions, -np.inf)
    np.minimum.at(low, actions, played)
    np.maximum.at(high, actions, played)
    if np.bincount(actions, minlength=n_actions).min() < MIN_PLAYS or (high - low > MAX_SHARE_ROUNDING * high).any():
        return None
    if abs(low.sum() - 1.0) > MAX_SUM_ROUNDING:
        return None
    return low, _split_words(low, names)


def _split_words(shares: FloatArray, names: tuple[str, ...] | None) -> str:
    each = ", ".join(f"{call(action, names)} with probability {share:.6g}" for action, share in enumerate(shares))
    return f"everybody was given an action at random, with the same probabilities: {each}"


def _known(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise InputError(
            f"the split names an action '{plain(name)}' that the log does not contain{nearest(name, known)}"
        )
    return name


def read_share(words: str, name: str) -> float:
    """Return a share above 0 and up to 1, written as 0.25, 1/4 or 25%; name: the action."""
    try:
        value = float(read_rate(words))
    except ValueError:
        value = np.nan
    if not 0 < value <= 1:
        percent = 1 < value <= 100 and words.strip()[-1:].isdigit() and "/" not in words
        hint = f", as in 0.5, 1/2 or {words.strip()}%" if percent else ", as in 0.5, 1/2 or 50%"
        raise InputError(f"the share of '{plain(name)}' is '{plain(words)}'; it must lie above 0 and up to 1{hint}")
    return value


def _parts(split: str, known: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the names and shares of a split; raise InputError if it contains anything else."""
    found = _pairs(split)
    if not found or sum(len(name) + len(share) for name, share in found) < len(re.sub(r"[\s,;=]", "", split)):
        words = f"the split '{plain(split)}' is neither '{UNIFORM}' nor a share for each action"
        raise InputError(f"{words}, as in {_example(known)}")
    twice = next((name for i, (name, _) in enumerate(found) if name in [other for other, _ in found[:i]]), None)
    if twice is not None:
        raise InputError(f"the split '{plain(split)}' has two shares of '{plain(twice)}'; leave one out")
    return found


def _pairs(split: str) -> list[tuple[str, str]]:
    """Return the names and shares in a split; a name may contain commas and `=`."""
    return [(name.strip(), share.strip()) for name, share in re.findall(r"(.+?)=([^=,;]*)(?:[,;]|$)", split)]


def _example(known: tuple[str, ...]) -> str:
    return plain(",".join(f"{name}=1/{len(known)}" for name in known[:3])) + (",…" if len(known) > 3 else "")


# Facts about all rows of a table, for code that has only some of them.


@dataclass(frozen=True)
class Whole:
    """Facts about all rows on which the treatment of columns depends.

    rows: the number of rows.
    counted: the numbers of values of columns that may be identifiers.
    clocks: the columns of dates or times by which the rows are sorted.
    clipped: the numbers of rewards below and above the range, if they are clipped.
    """

    rows: int
    counted: Mapping[str, Counts]
    clocks: frozenset[str]
    clipped: tuple[int, int]


# Rewards in their own units, scaled to [0, 1]; those out of range are refused, or clipped if asked.


CLIPPED = "the reward is clipped: "  # the start of the remark about it
# Text values of a binary outcome.
_TRUTHS = tuple({yes: 1.0, no: 0.0} for yes, no in (("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f")))
TAIL_SHARES = (0.999, 0.99)  # quantiles of rewards shown if some are too large


def pop_rewards(
    columns: Columns, cells: CellNames, *, late: bool = False, name: str = "reward"
) -> tuple[FloatArray, tuple[str, ...]]:
    """Remove rewards (n,) from a table's columns; return them with a remark on how yes and no are counted.

    late: whether some may be pending, as NaN.
    name: the column; a metric's, if not that of rewards.
    """
    if late:
        return pop_numbers_or_missing(columns, name, cells), ()
    column: Any = columns[name]
    if is_text(column.type):
        labels: list[str] = column.dictionary.to_pylist()
        values = next((each for each in _TRUTHS if {label.strip().lower() for label in labels} <= each.keys()), None)
        if values is None and not any(map(spells_number, labels)):
            check_present(column, name, cells)
            what, option = ("reward", "--reward NAME") if name == "reward" else ("metric", "--metric NAME")
            raise InputError(
                f"{cells.column(name)} holds text such as '{plain(labels[0])}', but a {what} must be a "
                f"number, or yes and no; name another column, {option}, or write 1 for success and 0 for "
                "failure"
            )
        if values is not None:
            numbers: Any = pa.array([values[label.strip().lower()] for label in labels])
            columns[name] = numbers.take(column.indices)
            yes, no = values
            said = f"{cells.column(name)} counts '{yes}' as 1 and '{no}' as 0"
            rewards = pop_floats(columns, name, cells)
            assert rewards is not None
            return rewards, (said,)
    rewards = pop_floats(columns, name, cells)
    assert rewards is not None
    return rewards, ()


def unit_rewards(
    rewards: ArrayLike,
    *,
    n: int,
    reward_range: tuple[float, float] | None,
    clip: bool,
    cells: CellNames,
    late: bool = False,
    whole: Whole | None = None,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return rewards (n,) in [0, 1], and a remark on clipping.

    clip: whether rewards beyond the range are clipped to it.
    cells: names of their rows in messages.
    late: whether some may be pending.
    whole: facts about all rows, if these are some of them.
    """
    given = (floats_or_missing if late else floats)(rewards, name="rewards", shape=(n,))
    low, high = check_range(reward_range or UNIT_RANGE)
    below, above = given < low, given > high
    if clip:
        name = cells.names.get("reward", "reward")
        cut = (np.clip(given, low, high) - low) / (high - low)
        counts = (int(below.sum()), int(above.sum())) if whole is None else whole.clipped
        return cut, (_outcome_words(plain(name), low, high, *counts, n if whole is None else whole.rows),)
    if below.any() or above.any():
        _refuse(given, int((below | above).argmax()), low, high, stated=reward_range is not None, cells=cells)
    return (given if reward_range is None else (given - low) / (high - low)), ()


def _outcome_words(name: str, low: float, high: float, below: int, above: int, n: int) -> str:
    """Return the definition of a clipped reward, and the number of clipped rows, in words."""
    least = f"max({low:g}, {name})" if below else name
    what = f"min({least}, {high:g})" if above or not below else least
    many = f"{below + above:,} of {count_of(n, 'row')} {'was' if below + above == 1 else 'were'} clipped"
    return f"{CLIPPED}it is {what} and not {name} itself, in all that is said here; {many}"


def _refuse(given: FloatArray, row: int, low: float, high: float, *, stated: bool, cells: CellNames) -> None:
    """Raise InputError for a reward out of range, with the observed range and both remedies."""
    wrong, given = given[row], given[~np.isnan(given)]
    least, most = math.floor(given.min()), math.ceil(given.max())
    name, seen = plain(cells.names.get("reward", "reward")), f"they go from {given.min():.6g}"
    seen += f" to {given.max():.6g}"
    stating, clipping = "with --reward-range and two numbers", "with --reward-range and --clip"
    if least < most:
        stating = f"as in --reward-range {least} {most}"
    tails = [(share, float(np.quantile(given, share, method="inverted_cdf"))) for share in TAIL_SHARES]
    if below := [(share, tail) for share, tail in tails if tail < given.max()]:
        share, tail = below[0]
        seen += f", {100 * share:g} % of them up to {tail:.6g}"
        if math.ceil(tail) > min(least, 0):
            clipping = f"as in --reward-range {min(least, 0)} {math.ceil(tail)} --clip"
    found = f"the {name} of {cells.row(row)} is {shortest(wrong)}"
    raise InputError(
        f"{found}, but rewards must lie in [{low:g}, {high:g}]; {seen}: give the smallest and the largest "
        f"possible reward, {stating}; or clip rewards beyond it, {'with --clip' if stated else clipping}, which "
        "changes the reward"
    )


class MeasuredMetrics(NamedTuple):
    """The metrics of rows, with the values (n, columns) of their columns in [0, 1], and remarks on these."""

    metrics: tuple[AnyMetric, ...] = ()
    values: FloatArray | None = None
    remarks: tuple[str, ...] = ()


NOT_MEASURED = MeasuredMetrics()


def unit_metrics(
    columns: Columns, metrics: Sequence[AnyMetric], cells: CellNames, *, late: bool = False
) -> MeasuredMetrics:
    """Remove the columns of metrics from a table and return them scaled to [0, 1].

    late: whether some may be missing, with pending rewards.
    """
    if not metrics:
        return NOT_MEASURED
    scaled: list[FloatArray] = []
    remarks: list[str] = []
    for metric in metric_columns(metrics):
        plain_cells = replace(cells, names={})  # a metric may have the name that another column is given
        given, said = pop_rewards(columns, plain_cells, late=late, name=metric.name)
        remarks += said
        low, high = metric.low, metric.high
        if (out := (given < low) | (given > high)).any():
            row, name, present = int(out.argmax()), plain(metric.name), given[~np.isnan(given)]
            least, most = min(math.floor(present.min()), 0), math.ceil(present.max())
            wide = Metric(metric.name, least, max(most, least + 1))
            listed = next(one for one in metrics if metric in one.columns)
            if isinstance(listed, Ratio):
                listed = Ratio(*(wide if one == metric else one for one in listed.columns))
            raise InputError(
                f"the {name} of {cells.row(row)} is {shortest(given[row])}, but this metric must lie in "
                f"[{low:g}, {high:g}]; values go from {present.min():.6g} to {present.max():.6g}: state the least and "
                f"the largest that they can be, as in --metric '{plain((wide if listed == metric else listed).spelt)}'"
            )
        scaled.append(given if (low, high) == UNIT_RANGE else (given - low) / (high - low))
    return MeasuredMetrics(tuple(metrics), np.column_stack(scaled), tuple(remarks))


def check_denominators(measured: MeasuredMetrics) -> None:
    """Raise InputError if the denominator of a ratio is 0 in all rows."""
    columns = metric_columns(measured.metrics)
    for ratio in (metric for metric in measured.metrics if isinstance(metric, Ratio)):
        assert measured.values is not None
        per = ratio.denominator
        if per.low == 0 and not (measured.values[:, columns.index(per)] > 0).any():
            raise InputError(
                f"the ratio '{plain(ratio.name)}' divides by '{plain(per.name)}', which is 0 in all rows; name another "
                "denominator, or leave the metric out"
            )


def shortest(value: float) -> str:
    """Return the shortest decimal number that identifies a float, without a trailing ".0"."""
    return f"{float(value)!r}".removesuffix(".0")


# From raw columns to a log: rewards are scaled to [0, 1], and propensities completed if possible.


UNIFORM_REMARK = "every action was always played with the same probability, as the played ones were"
TWO_ACTIONS_REMARK = "there were no more than 2 actions, so that the propensity of one is what the other's leaves of 1"
_UNIFORM_ROUNDING = 1e-9  # how far a propensity may be from 1/A to count as uniform
MAX_ACTIONS = 10_000
# A log of played propensities gets the full matrix without --actions if that has at most this many entries, plus this
# many per row.
MAX_UNTOLD_PROPENSITIES = 2**24
MOST_ROOMY_ACTIONS = 16
_MOST_SHOWN_ACTIONS = 10  # of those never played, in messages
# How far two values of one propensity may differ, relatively: silently (as sums of propensities and single precision
# do), and at all.
_SILENT_PROPENSITY_ROUNDING = 1e-6
_MAX_PROPENSITY_ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class RawLog:
    """The unchecked content of a file, with its reader's additions.

    contexts: n rows.
    actions (n,): the played actions.
    rewards (n,): their rewards, in any range.
    propensities (n, A): of all actions, if known.
    played (n,): the propensity of the played action, if known.
    least: the minimum propensity of every action: one number, (n,) or (n, A).
    n_actions: the number of actions, if the file or its reader says.
    declared: whether the file itself lists the actions, so that some may never be played.
    stated: whether the reader, not the file, gave the number of actions.
    rounds (n,): the round of the experiment, from 0.
    repeats (n,): the number of identical interactions.
    remarks: assumptions about the log, in words.
    cells: names of its rows in messages.
    names (A,): the names of the actions, if they have any.
    split: the propensities, if they were the same for everybody, as the reader says (see `parse_split`).
    numbered: whether the log's author numbered the actions.
    units (n,): the unit of each row, if known.
    known (n,): the round from which each reward was known, if recorded; some may then be pending.
    whole: facts about all rows, if these are some of them.
    measured: its metrics.
    """

    contexts: Contexts
    actions: ArrayLike
    rewards: ArrayLike
    propensities: ArrayLike | None = None
    played: ArrayLike | None = None
    least: ArrayLike | None = None
    n_actions: int | None = None
    declared: bool = False
    stated: bool = False
    rounds: ArrayLike | None = None
    repeats: ArrayLike | None = None
    remarks: Sequence[str] = ()
    cells: CellNames = SOMEWHERE
    names: tuple[str, ...] | None = None
    split: str | None = None
    numbered: bool = True
    units: IntArray | None = None
    known: IntArray | None = None
    whole: Whole | None = None
    measured: MeasuredMetrics = NOT_MEASURED


def make_log(raw: RawLog, options: ReadingOptions) -> Log:
    """Return a validated log, with its assumptions among its remarks; options: those of its reader."""
    try:
        return _make_log(raw, reward_range=options.reward_range, clip=options.clip)
    except RowError as error:
        raise InputError(error.words.replace(ROW, raw.cells.row(error.row))) from None


def _make_log(raw: RawLog, *, reward_range: tuple[float, float] | None, clip: bool) -> Log:
    n = len(raw.contexts)
    actions = integers(raw.actions, name="actions", shape=(n,))
    late = raw.known is not None
    rewards, clipped = unit_rewards(
        raw.rewards, n=n, reward_range=reward_range, clip=clip, cells=raw.cells, late=late, whole=raw.whole
    )
    said = [*clipped, *raw.remarks]

    def rest() -> OtherColumns:
        return {
            "rewards": rewards,
            "rounds": raw.rounds,
            "repeats": raw.repeats,
            "remarks": tuple(said),
            "action_names": raw.names,
            "reward_range": reward_range or UNIT_RANGE,
            "units": raw.units,
            "known": raw.known,
            "metrics": raw.measured.metrics,
            "metric_values": raw.measured.values,
        }

    if raw.propensities is not None:
        full, words = _all_propensities(raw.propensities, raw, actions)
        said.extend(words)
        if raw.split is not None:
            _check_split(raw.split, full, raw)
        return Log.of(raw.contexts, actions=actions, propensities=full, **rest())
    count = _count_actions(actions, raw.n_actions)
    if raw.split is not None:
        if raw.played is not None or raw.least is not None:
            raise InputError("the log contains propensities, and --split was given as well; leave one of them out")
        shares, words = parse_split(raw.split, n_actions=count, names=raw.names)
        said.append(words)
        return Log.of(raw.contexts, actions=actions, propensities=np.broadcast_to(shares, (n, count)), **rest())
    if raw.played is None:
        raise InputError("a log needs the propensities of all actions, or that of the logged one")
    alone = check_played(floats(raw.played, name="propensity", shape=(n,)), raw.cells)
    if not raw.stated and raw.whole is None:
        _check_room(n, count)
    unplayed = () if raw.declared else _unplayed(actions, count, numbered=raw.numbered)
    said.extend(unplayed)
    if count == 1 and alone.min() < 1.0 - _UNIFORM_ROUNDING:
        raise InputError(
            f"action 0 is the only one in the log, but was played with probability {alone.min()}, so there were "
            "others; give the number of actions (--actions 2)"
        )
    full, words = (None, ()) if raw.least is not None else _completed(alone, actions, count, raw.names)
    said.extend(words)
    if full is not None:
        return Log.of(raw.contexts, actions=actions, propensities=full, **rest())
    least = least_propensities(raw.least, n=n, n_actions=count, unplayed=unplayed)
    return Log.of_played(raw.contexts, actions=actions, played=alone, least=least, **rest())


def _check_split(split: str, full: FloatArray, raw: RawLog) -> None:
    """Raise RowError unless a split gives the propensities (n, A) that the log contains."""
    shares, _ = parse_split(split, n_actions=full.shape[1], names=raw.names)
    differs = (np.abs(full - shares) > MAX_SUM_ROUNDING).any(axis=1)
    if differs.any():
        raise RowError(
            f"the log contains propensities, and those of {ROW} are not the split '{plain(split)}'; leave out --split",
            int(differs.argmax()),
        )


def _all_propensities(propensities: ArrayLike, raw: RawLog, actions: IntArray) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the file's propensities (n, A), checked against all else that is known, and remarks on them."""
    n = len(raw.contexts)
    full = floats(propensities, name="propensities", shape=(n, None))
    if full.shape[1] > MAX_ACTIONS:
        raise InputError(f"the log has {full.shape[1]:,} actions, and at most {MAX_ACTIONS:,} are possible")
    if raw.n_actions is not None and raw.n_actions != full.shape[1]:
        raise InputError(f"the log has propensities of {full.shape[1]} actions, but was said to have {raw.n_actions}")
    if raw.least is not None:
        raise InputError("the log has the propensities of all actions; leave out --least-propensity")
    if actions.max() >= full.shape[1]:
        row = int(actions.argmax())
        words = f"{ROW} played action {actions[row]}, but there are propensities of {count_of(full.shape[1], 'action')}"
        raise RowError(f"{words}; add those of the others, or number actions from 0", row)
    if raw.played is None:
        return full, ()
    return full, _compare_played(floats(raw.played, name="propensity", shape=(n,)), full, actions, raw.cells)


def check_played(alone: FloatArray, cells: CellNames) -> FloatArray:
    """Return the propensities (n,) of played actions, cut to 1; raise InputError unless they are in (0, 1]."""
    bad = ~((alone > 0) & (alone <= 1 + 1e-6))
    if bad.any():
        row = int(bad.argmax())
        which = cells.row(row)
        raise InputError(f"the propensity of {which} is {alone[row]:.10g}; it must lie above 0 and up to 1: correct it")
    return np.minimum(alone, 1.0)


def _count_actions(actions: IntArray, told: int | None) -> int:
    seen = int(actions.max()) + 1
    if told is not None and told < seen:
        raise InputError(
            f"action {seen - 1} (counted from 0) was played, which --actions {told} excludes; give {seen} or "
            "more, or leave it out"
        )
    count = seen if told is None else told
    if count > MAX_ACTIONS:
        raise InputError(
            f"actions up to {count - 1} would be {count:,} actions, and at most {MAX_ACTIONS:,} are possible; number "
            f"the {len(np.unique(actions))} that were played from 0"
        )
    return count


def _check_room(n: int, n_actions: int) -> None:
    """Raise InputError if the full matrix of propensities would take much more memory than the file's data."""
    if n * n_actions > MAX_UNTOLD_PROPENSITIES + MOST_ROOMY_ACTIONS * n:
        raise InputError(
            f"propensities of {n:,} rows and {n_actions:,} actions, most of which are not in the log, would take "
            f"{spell_bytes(NUMBER_BYTES * n * n_actions)}; if there are that many actions, pass --actions "
            f"{n_actions}"
        )


def _unplayed(actions: IntArray, n_actions: int, *, numbered: bool) -> tuple[str, ...]:
    """Return a remark on actions that no row plays; numbered: whether the log's author numbered the actions."""
    missing = np.setdiff1d(np.arange(n_actions), actions)
    if len(missing) == 0:
        return ()
    shown = [str(action) for action in missing[:_MOST_SHOWN_ACTIONS]]
    if len(missing) > _MOST_SHOWN_ACTIONS:
        shown.append(f"{len(missing) - _MOST_SHOWN_ACTIONS:,} more")
    named = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    which = f"action {named} is never played" if len(shown) == 1 else f"actions {named} are never played"
    hint = "; if actions are numbered from 1, number them from 0" if numbered and missing[0] == 0 else ""
    return (which + hint,)


def _compare_played(played: FloatArray, full: FloatArray, actions: IntArray, cells: CellNames) -> tuple[str, ...]:
    """Return a remark if played propensities (n,) differ from those in the matrix (n, A); raise if by much.

    The matrix is used: a proof needs one distribution over the actions, fixed before one was drawn from it, and with an
    entry replaced it would not sum to 1. Neither the smaller nor the larger value is safer: a reward divided by it
    counts for one policy and against another. If in truth p = p̂(1 + η) with |η| ≤ h, the estimate of a policy's value
    for rewards in [0, 1] has a mean that is off by |η (r − m)| ≤ h, with predictions m of rewards or without; a
    difference of two is off by at most 2h, and a claim within ε holds within ε + 2h.
    """
    own = full[np.arange(len(actions)), actions]
    apart = np.abs(played - own)
    off = apart > _MAX_PROPENSITY_ROUNDING * own
    if off.any():
        row = int(off.argmax())
        raise InputError(
            f"{cells.row(row)} gives the played action the propensity {played[row]:.6g} alone, but {own[row]:.6g} "
            "among those of all actions; leave the wrong one out"
        )
    if not (apart > _SILENT_PROPENSITY_ROUNDING * own).any():
        return ()
    relative = np.divide(apart, own, out=np.zeros(len(own)), where=own > 0)
    row, worst = int(relative.argmax()), float(relative.max())
    return (
        "the propensities of all actions are right, though that of the played one, where it stands alone, differs by "
        f"up to {100 * worst:.2g} % ({cells.row(row)}: {played[row]:.10g}, not {own[row]:.10g}); if it is right, "
        f"distances are larger by up to {2 * worst:.2g}",
    )


def _completed(
    played: FloatArray, actions: IntArray, n_actions: int, names: tuple[str, ...] | None
) -> tuple[FloatArray | None, tuple[str, ...]]:
    """Return all propensities (n, A) if they follow from the played ones, else None, and the assumption used."""
    n = len(actions)
    if (np.abs(played - 1.0 / n_actions) <= _UNIFORM_ROUNDING).all():
        even = np.full((n, n_actions), 1.0 / n_actions)
        even.setflags(write=False)
        return even, (UNIFORM_REMARK,)
    if n_actions == 2:
        return of_two_actions(played, actions), (TWO_ACTIONS_REMARK,)
    constant = constant_split(played, actions, n_actions=n_actions, names=names)
    return (None, ()) if constant is None else (np.broadcast_to(constant[0], (n, n_actions)), (constant[1],))


def of_two_actions(played: FloatArray, actions: IntArray) -> FloatArray:
    """Return the propensities (n, 2) of two actions from those of the played ones (n,)."""
    full = np.repeat(1.0 - played[:, None], 2, axis=1)
    full[np.arange(len(actions)), actions] = played
    full.setflags(write=False)
    return full


def least_propensities(
    given: ArrayLike | None, *, n: int, n_actions: int, unplayed: tuple[str, ...] = ()
) -> FloatArray:
    """Return the minimum propensities (n, A) from one number, (n,) or (n, A); raise InputError if impossible."""
    if given is None:
        also = "".join(f" ({words})" for words in unplayed)
        raise InputError(
            f"the log contains only the propensity of the logged action, and there are {n_actions} actions{also}: "
            "give the minimum propensity of every action (--least-propensity 0.01), or 0 if unknown, which "
            "proves less"
        )
    raw = np.asarray(given)
    value = floats(raw.reshape(-1, 1) if raw.ndim < 2 else raw, name="minimum propensity", shape=(None, None))
    least = np.array(np.broadcast_to(value, (n, n_actions)))
    if least.min() < 0 or (raw.ndim < 2 and least.max() > 1.0 / n_actions + _UNIFORM_ROUNDING):
        worst = least.min() if least.min() < 0 else least.max()
        raise InputError(
            f"a minimum propensity of {shortest(worst)} is impossible with {n_actions} actions; it must lie between 0 "
            f"and 1/{n_actions} (--least-propensity)"
        )
    least.setflags(write=False)
    return least
