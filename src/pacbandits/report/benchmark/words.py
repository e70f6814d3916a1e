"""Numbers of a benchmark as people read them."""

from __future__ import annotations

import math

from pacbandits.benchmark.claims import TOLERATED_RATIO, ClaimVerdict
from pacbandits.benchmark.intervals import IntervalEstimate
from pacbandits.benchmark.standings import Score, Yardstick
from pacbandits.benchmark.yardsticks import Stopped

NONE = "—"


def show_count(samples: float, *, most: int) -> str:
    """A number of interactions; beyond what may be played, that it is more."""
    return f"{samples:,.0f}" if math.isfinite(samples) else f"> {most:,}"


def show_stopping(samples: IntervalEstimate, *, most: int) -> str:
    """A number of interactions and its interval: 338 (310–352), 900 (700–> 1,000), > 1,000."""
    middle = show_count(samples.value, most=most)
    if samples.low == 0.0 and not math.isfinite(samples.high):  # too few runs to say
        return middle
    if not math.isfinite(samples.low):
        return middle
    return f"{middle} ({samples.low:,.0f}–{show_count(samples.high, most=most)})"


def show_score(score: Score | None, yardstick: Yardstick, *, most: int, brief: bool = False) -> str:
    """What an algorithm takes by a yardstick; brief: without the interval."""
    if score is None or (yardstick == "certified" and score.certified is None):
        return NONE
    found = score.oracle.samples if yardstick == "oracle" or score.certified is None else score.certified.samples
    return show_count(found.value, most=most) if brief else show_stopping(found, most=most)


def show_ratio(ratio: IntervalEstimate) -> str:
    """A ratio and its interval, with two digits behind the point."""
    if math.isnan(ratio.value):
        return NONE
    low, value, high = (f"{x:.2f}" if math.isfinite(x) else "∞" for x in (ratio.low, ratio.value, ratio.high))
    return f"{value} ({low}–{high})"


def show_bracket_ratio(bracket: tuple[float, float] | None) -> str:
    """A ratio that is known to lie in a bracket."""
    if bracket is None:
        return NONE
    low, high = (f"{x:.3g}" if math.isfinite(x) else "∞" for x in bracket)
    return low if low == high else f"{low} … {high}"


def show_errors(found: Stopped | None) -> str:
    """How often a proof was wrong, of how many runs, and the largest error rate that fits."""
    if found is None:
        return NONE
    return f"{found.wrong} of {found.runs} (≤ {show_clock(100 * found.error.high)} %)"


def show_lost(lost: IntervalEstimate) -> str:
    """Reward lost, and its interval."""
    if not math.isfinite(lost.value):
        return NONE
    ends = "" if not math.isfinite(lost.high) else f" ({_digits(lost.low)}–{_digits(lost.high)})"
    return _digits(lost.value) + ends


def show_clock(value: float) -> str:
    """Seconds, microseconds or percent, with two digits."""
    if not math.isfinite(value):
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def knob_of(score: Score) -> str:
    """The options of an algorithm; `default` if it has its published ones."""
    if score.role == "default":
        return "default"
    _, _, options = score.spec.partition(":")
    return options or score.spec


def claim_words(verdict: ClaimVerdict) -> str:
    """What we claim of a case."""
    return "first" if verdict.large else f"≤ {TOLERATED_RATIO:g}"


def verdict_words(verdict: ClaimVerdict) -> str:
    """What came of it: kept or broken, and whether by more than chance."""
    if verdict.kept is None:
        return "nobody is done"
    outcome = "kept" if verdict.kept else "broken"
    return outcome if verdict.beyond_chance else f"{outcome}, within chance"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
