"""Metrics: outcomes of a log beside its reward, and guardrails on them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, floats_or_missing
from pacbandits.checks import Percentage, check_percentage, entries, number, read_rate, settle, shown, text
from pacbandits.errors import ROW, InputError, RowError, nearest, plain
from pacbandits.records.columns import Columns, pop_matrix
from pacbandits.schema import Fields

# Metrics. In text, a column and its range: `returned` (0 to 1), `minutes 0 600`; a ratio of two columns has two ranges,
# `revenue/orders 0 500 0 20`.


MAX_METRICS = 1_000  # of a log
METRICS_COLUMN = "metric_values"  # in our files, whose metadata name the metrics: others may have such a feature
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_RANGE = rf"\s+({_NUMBER})\s+({_NUMBER})"
_FORM = "as in 'returned', 'minutes 0 600' or, for a ratio, 'revenue/orders 0 500 0 20'"


@dataclass(frozen=True)
class Metric:
    """A column of outcomes beside the reward.

    name: the column.
    low, high: the smallest and the largest possible value.
    """

    name: str
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not text(self.name, name="the name of a metric").strip():
            raise InputError(f"a metric has no name; name a column, {_FORM}")
        own = f"the range of metric '{plain(self.name)}'"
        low, high = (number(end, name=own) for end in (self.low, self.high))
        if not (low < high and np.isfinite(high - low)):
            raise InputError(f"{own} goes from a number to a larger one, got {low:g} to {high:g}; the smaller first")
        settle(self, low=low, high=high)

    @property
    def columns(self) -> tuple[Metric, ...]:
        return (self,)

    @property
    def if_missing(self) -> float:
        """The value that stands for a missing one: 0, or the end of the range that is nearest to 0."""
        return min(max(0.0, self.low), self.high)

    @property
    def spelt(self) -> str:
        """The metric as `read_metric` reads it."""
        bare = (self.low, self.high) == (0.0, 1.0) and "/" not in self.name and not _split_ranges(self.name)[1]
        return self.name if bare else f"{self.name} {self.low:.15g} {self.high:.15g}"

    def to_json(self) -> list[str | float]:
        """Serialise to JSON-compatible values."""
        return [self.name, self.low, self.high]


@dataclass(frozen=True)
class Ratio:
    """The mean of one column over the mean of another: revenue per order."""

    numerator: Metric
    denominator: Metric

    def __post_init__(self) -> None:
        one, other = self.numerator, self.denominator
        if one.name == other.name:
            raise InputError(f"the ratio '{plain(self.name)}' is of a column to itself; name two columns")
        if any("/" in column.name for column in self.columns):
            raise InputError(f"the ratio '{plain(self.name)}' has more than one '/'; rename columns that contain one")
        if other.low < 0:
            raise InputError(
                f"the denominator '{plain(other.name)}' of a ratio cannot be negative, but its range begins at "
                f"{other.low:g}; give it a range from 0 or more"
            )

    @property
    def name(self) -> str:
        return f"{self.numerator.name}/{self.denominator.name}"

    @property
    def columns(self) -> tuple[Metric, ...]:
        return (self.numerator, self.denominator)

    @property
    def spelt(self) -> str:
        """The metric as `read_metric` reads it."""
        return " ".join([self.name, *(f"{end:.15g}" for one in self.columns for end in (one.low, one.high))])

    def to_json(self) -> list[str | float]:
        """Serialise to JSON-compatible values."""
        return [self.name, *(end for one in self.columns for end in (one.low, one.high))]


AnyMetric = Metric | Ratio
MetricSpec = AnyMetric | str | Sequence[str | float]  # what `read_metric` reads


def read_metric(given: object) -> AnyMetric:
    """Return the metric that text (`minutes 0 600`), a tuple (`("minutes", 0, 600)`) or a list describes.

    A name with a slash and no range, or two, is a ratio; with a single range it is a column of that name.
    """
    if isinstance(given, Metric | Ratio):
        return given
    if isinstance(given, str):
        name, ends = _split_ranges(given.strip())
    else:
        parts = list(cast(Sequence[object], given)) if isinstance(given, list | tuple) else [None]
        name, numbers = parts[0] if parts else None, parts[1:]
        if not isinstance(name, str) or len(numbers) not in (0, 2, 4):
            raise InputError(f"a metric is a column and its range, {_FORM}; got {shown(cast(object, given))}")
        ends = [number(end, name=f"the range of metric '{plain(name)}'") for end in numbers]
    if "/" not in name or len(ends) == 2:
        if len(ends) == 4:
            raise InputError(f"metric '{plain(name)}' is one column, and has one range, not two; {_FORM}")
        return Metric(name, *ends)
    one, _, other = (part.strip() for part in name.partition("/"))
    return Ratio(Metric(one, *ends[:2]), Metric(other, *ends[2:]))


def _split_ranges(words: str) -> tuple[str, list[float]]:
    """Return a name and the numbers of the ranges at its end."""
    for count in (2, 1) if "/" in words else (1,):
        if (found := re.fullmatch(rf"(.*\S){_RANGE * count}", words)) is not None:
            name, *ends = found.groups()
            return name, [float(end) for end in ends]
    return words, []


def read_metrics(given: object, *, name: str = "--metric") -> tuple[AnyMetric, ...]:
    """Return distinct metrics from their descriptions, or from a single text; raise if a column has two ranges."""
    listed = (given,) if isinstance(given, str | Metric | Ratio) else entries(given, name=name)
    out = tuple(dict.fromkeys(read_metric(one) for one in listed))
    if len(out) > MAX_METRICS:
        raise InputError(f"{len(out):,} metrics were listed, and at most {MAX_METRICS:,} are possible; list fewer")
    metric_columns(out)
    return out


def metric_columns(metrics: Iterable[AnyMetric]) -> tuple[Metric, ...]:
    """Return the distinct columns of metrics, in order."""
    found: dict[str, Metric] = {}
    for column in (column for metric in metrics for column in metric.columns):
        other = found.setdefault(column.name, column)
        if other != column:
            raise InputError(
                f"column '{plain(column.name)}' has two ranges, {other.low:g} to {other.high:g} and {column.low:g} to "
                f"{column.high:g}; give it the same wherever it is a metric"
            )
    return tuple(found.values())


# The values of metrics in a log.


def check_metric_values(
    metrics: object, values: object, *, awaited: BoolArray
) -> tuple[tuple[AnyMetric, ...], FloatArray | None]:
    """Return metrics and their values (n, columns) in [0, 1], NaN in rows whose rewards are pending (n,)."""
    listed = read_metrics(metrics)
    if not listed:
        if values is not None:
            raise InputError("metric_values are given without metrics; say what they are values of (metrics=…)")
        return (), None
    columns = metric_columns(listed)
    if values is None:
        raise InputError(f"there are no values of metric '{plain(listed[0].name)}'; pass them as metric_values")
    given = floats_or_missing(cast(FloatArray, values), name="metric_values", shape=(len(awaited), len(columns)))
    for bad, words in ((np.isnan(given), "has no value"), ((given < 0) | (given > 1), "has the value {0:.6g}")):
        if (bad := bad & ~awaited[:, None]).any():
            row, column = (int(place[0]) for place in np.nonzero(bad))
            remedy = "fill it in, or leave the row out"
            if not np.isnan(given[row, column]):
                remedy = "scale values to lie in [0, 1] by the metric's range"
            name = plain(columns[column].name)
            raise RowError(f"{ROW} {words.format(given[row, column])} of metric '{name}'; {remedy}", row)
    if np.isnan(given).any() or awaited.any():
        given = np.where(awaited[:, None], np.nan, given)
        given.setflags(write=False)
    return listed, given


def kept_values(
    metrics: tuple[AnyMetric, ...], values: FloatArray | None, kept: tuple[AnyMetric, ...]
) -> FloatArray | None:
    """Return the values (n, columns) of some of the metrics of a log; values (n, columns): of all."""
    if lost := [metric.spelt for metric in kept if metric not in metrics]:
        known = [metric.spelt for metric in metrics]
        raise InputError(f"'{plain(lost[0])}' is no metric of the log{nearest(lost[0], known)}")
    columns = metric_columns(metrics)
    places = [columns.index(column) for column in metric_columns(kept)]
    return None if values is None or not kept else values[:, places]


def check_denominators(metrics: tuple[AnyMetric, ...], values: FloatArray | None) -> None:
    """Raise InputError if the denominator of a ratio is 0 in every row; values (n, columns): of the metrics."""
    places = {column: j for j, column in enumerate(metric_columns(metrics))}
    for below in (metric.denominator for metric in metrics if isinstance(metric, Ratio)):
        if values is not None and below.low == 0 and len(values) and (values[:, places[below]] == 0).all():
            raise InputError(
                f"'{plain(below.name)}', the denominator of a ratio, is 0 in every row; name another column, or leave "
                "out that metric and guardrails on it"
            )


def find_metric(metrics: Iterable[AnyMetric], name: str) -> AnyMetric:
    """Return the metric of this name; it may be a column of a ratio."""
    listed = tuple(metrics)
    known: dict[str, AnyMetric] = {column.name: column for metric in listed for column in metric.columns}
    known |= {metric.name: metric for metric in listed}
    if name not in known:
        hint = nearest(name, known) if known else "; it has none"
        raise InputError(f"'{plain(name)}' is no metric of the log{hint}; name it where the log is read (--metric …)")
    return known[name]


def metric_rewards(
    metrics: tuple[AnyMetric, ...], values: FloatArray | None, name: str, *, ratio: float | None
) -> tuple[FloatArray, tuple[float, float]]:
    """Return a metric as rewards (n,) in [0, 1], and their range in its units.

    values (n, columns): those of the metrics' columns.
    ratio: for a ratio of two columns, the number c at which it is tested: the reward is numerator − c · denominator,
        whose mean is 0 if the ratio of means is c, and above 0 if it is larger.
    """
    metric = find_metric(metrics, name)
    assert values is not None
    place = {column: j for j, column in enumerate(metric_columns(metrics))}
    if isinstance(metric, Metric):
        if ratio is not None:
            raise InputError(f"metric '{plain(name)}' is a column and no ratio; leave out ratio")
        return values[:, place[metric]], (metric.low, metric.high)
    if ratio is None:
        raise InputError(f"metric '{plain(name)}' is a ratio, which is tested at a number; pass it as ratio")
    c, one, other = number(ratio, name="ratio"), metric.numerator, metric.denominator
    ends = sorted((c * other.low, c * other.high))
    low, high = one.low - ends[1], one.high - ends[0]
    above = one.low + (one.high - one.low) * values[:, place[one]]
    below = other.low + (other.high - other.low) * values[:, place[other]]
    return np.clip((above - c * below - low) / (high - low), 0.0, 1.0), (low, high)


def pop_stored_metrics(
    table: Columns, about: Fields, *, missing: bool
) -> tuple[tuple[AnyMetric, ...], FloatArray | None]:
    """Remove the metrics that a file's metadata list from its table, and return them with their values (n, columns).

    missing: whether some may be missing, with pending rewards.
    """
    if "metrics" not in about:
        return (), None
    listed = read_metrics(about.items("metrics", most=MAX_METRICS))
    values = pop_matrix(table, METRICS_COLUMN, missing=missing)
    if values is None:
        raise InputError(f"the file says that it has metrics, and has no column '{METRICS_COLUMN}'; write it again")
    return listed, values


# Guardrails: limits on how much worse than control a metric may be.


Side = Literal["<=", ">="]
_SIDES: dict[str, Side] = {"<=": "<=", "≤": "<=", ">=": ">=", "≥": ">="}
_GUARDRAIL = re.compile(r"(?P<metric>.*?\S)\s*(?P<side><=|>=|≤|≥)\s*(?P<limit>\S.*)")
_PLUS = re.compile(r"control\s*(?:(?P<sign>[-+−])\s*(?P<amount>\S.*))?")
_TIMES = re.compile(r"control\s*[*×]\s*(?P<after>\S+)|(?P<before>\S+)\s*[*×]\s*control")
_POINTS = re.compile(r"(.*?)\s*(?:percentage\s+)?(?:points?|pp)")
_GUARDRAIL_FORM = (
    "write it as 'returned <= control + 0.01' ('… + 1 point' is the same), 'minutes >= control - 2' or "
    "'minutes >= control * 0.98'"
)


@dataclass(frozen=True)
class Guardrail:
    """A limit on how much worse than control a policy may be in a metric.

    metric: its name.
    side: whether the metric may be too large (<=) or too small (>=).
    margin: how much larger or smaller than control's its mean may be, in its units; a negative margin demands that it
        is better by that.
    relative: whether the margin is a share of control's mean instead.
    """

    metric: str
    side: Side
    margin: float
    relative: bool = False

    @property
    def spelt(self) -> str:
        """The guardrail as `read_guardrail` reads it."""
        up = self.margin if self.side == "<=" else -self.margin
        limit = "control"
        if self.relative:
            limit = f"control * {1.0 + up:.12g}"
        elif up != 0.0:
            percent = isinstance(self.margin, Percentage)
            limit = (
                f"control {'+' if up > 0 else '-'} {abs(100.0 * up if percent else up):.12g}{'%' if percent else ''}"
            )
        return f"{self.metric} {self.side} {limit}"

    @property
    def words(self) -> str:
        """The guardrail as a sentence."""
        size = f"{abs(100.0 * self.margin if self.relative else self.margin):.12g}"
        if self.relative:
            size += " %"
        elif isinstance(self.margin, Percentage):
            size = f"{abs(100.0 * self.margin):.12g} percentage point{'' if abs(self.margin) == 0.01 else 's'}"
        bad, good = ("above", "below") if self.side == "<=" else ("below", "above")
        name = f"'{plain(self.metric)}'"
        if self.margin == 0:
            return f"{name} must not be {bad} control's"
        return f"{name} must be at {f'most {size} {bad}' if self.margin > 0 else f'least {size} {good}'} control's"

    def check(self, metrics: Iterable[AnyMetric]) -> AnyMetric:
        """Return the guarded metric among those of a log; raise InputError if the margin does not fit its range."""
        metric = find_metric(metrics, self.metric)
        if self.relative:
            if (column := metric.columns[0]).low < 0:  # of a mean below 0, 105 % is less than 100 %
                raise InputError(
                    f"guardrail '{plain(self.spelt)}' goes by a share of control's mean, and '{plain(column.name)}' "
                    f"may be negative, {column.low:g} or more; give an amount, as in 'control - 2', or a range from 0"
                )
            return metric
        own = f"the margin of guardrail '{plain(self.spelt)}'"
        if isinstance(metric, Ratio):
            if isinstance(self.margin, Percentage):
                raise InputError(f"{own} is in percent, and the metric is a ratio; give it in its units")
            return metric
        ends = (metric.low, metric.high)
        check_percentage(self.margin, name=own, reward_range=ends, of=f"values of '{plain(metric.name)}'")
        if abs(self.margin) >= metric.high - metric.low:
            what = "all values are allowed" if self.margin > 0 else "no value is allowed"
            raise InputError(
                f"{own} is as large as the whole range of '{plain(metric.name)}', {metric.low:g} to {metric.high:g}, "
                f"so that {what}; give a smaller one, as in 0.01 or 1%, or state the range (--metric …)"
            )
        return metric


def read_guardrail(given: object) -> Guardrail:
    """Return the guardrail that text describes: `returned <= control + 0.01`.

    The limit is control plus or minus an amount, or times a factor. For metrics from 0 to 1, `1%` and `1 point` are
    0.01, an amount and no factor.
    """
    if isinstance(given, Guardrail):
        return given
    words = text(given, name="a guardrail").strip()
    wrong = InputError(f"guardrail '{plain(words)}' cannot be read; {_GUARDRAIL_FORM}")
    if (found := _GUARDRAIL.fullmatch(words)) is None:
        raise wrong
    name, side, limit = found["metric"], _SIDES[found["side"]], found["limit"].strip()
    if re.search("[<>≤≥]", limit):
        raise wrong
    try:
        if (times := _TIMES.fullmatch(limit)) is not None:
            factor = float(read_rate(times["after"] or times["before"]))
            if not 0.0 < factor < np.inf:
                raise wrong
            share = round(factor - 1.0, 12)
            return Guardrail(name, side, share if side == "<=" else -share, relative=True)
        if (plus := _PLUS.fullmatch(limit)) is None:
            raise wrong
        up = 0.0 if plus["amount"] is None else _read_amount(plus["amount"])
    except ValueError:
        raise wrong from None
    if not 0.0 <= up < np.inf:
        raise wrong
    turned = (plus["sign"] in ("-", "−")) == (side == "<=")
    return Guardrail(name, side, type(up)(-up) if turned and up else up)


def _read_amount(words: str) -> float:
    """Return an amount: 0.01, 1%, or 1 point."""
    points = _POINTS.fullmatch(words.strip())
    return read_rate(words if points is None else f"{points[1]}%")


def read_guardrails(given: object, *, name: str = "--guardrail") -> tuple[Guardrail, ...]:
    """Return distinct guardrails from their descriptions, or from a single text."""
    listed = (given,) if isinstance(given, str | Guardrail) else entries(given, name=name)
    return tuple(dict.fromkeys(read_guardrail(one) for one in listed))


MAX_SEALED_COLUMNS = 20  # of metrics: each is a record of its own with every reward
MAX_SEALED_CHARACTERS = 80  # of a metric's name


def read_sealed_metrics(
    metrics: object, guardrails: object, *, taken: Collection[str]
) -> tuple[tuple[AnyMetric, ...], tuple[Guardrail, ...]]:
    """Return the metrics and guardrails of an experiment, which are fixed before the first row; taken: other columns.

    A guardrail does not add its metric: with a misspelt name no reward could ever be reported.
    """
    listed, rails = read_metrics(metrics, name="metrics"), read_guardrails(guardrails, name="guardrails")
    columns = metric_columns(listed)
    if len(columns) > MAX_SEALED_COLUMNS:
        raise InputError(f"the metrics have {len(columns)} columns, and at most {MAX_SEALED_COLUMNS} are possible")
    for name in (column.name for column in columns):
        if name in taken or plain(name, most=MAX_SEALED_CHARACTERS) != name or name != name.strip():
            why = "of a feature or of another column of the log" if name in taken else "that is not one short line"
            raise InputError(f"the metric '{plain(name)}' has a name {why}; rename it")
    if listed and METRICS_COLUMN in taken:
        raise InputError(f"the feature '{METRICS_COLUMN}' has the name of a column of the log; rename it")
    names = [metric.name for metric in listed]
    for rail in rails:
        if rail.metric not in names:
            raise InputError(
                f"guardrail '{plain(rail.spelt)}' is on '{plain(rail.metric)}', which is not among the metrics"
                f"{nearest(rail.metric, names)}; list it in metrics, with its range"
            )
        rail.check(listed)
    return listed, rails


def with_guarded(metrics: object, guardrails: Iterable[Guardrail]) -> tuple[AnyMetric, ...]:
    """Return metrics with those that guardrails are on; new ones have the range of their column, or 0 to 1."""
    listed = read_metrics(metrics)
    columns = {column.name: column for column in metric_columns(listed)}
    known = {metric.name for metric in listed}
    new = dict.fromkeys(rail.metric for rail in guardrails if rail.metric not in known)
    return read_metrics([*listed, *(columns.get(name) or read_metric(name) for name in new)])
