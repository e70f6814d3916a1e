"""Format numbers, units, intervals and names for readers."""

from __future__ import annotations

import math
from collections.abc import Callable

from pacbandits.certificate.claim import rounded_outward
from pacbandits.errors import one_line

EMPTY_INTERVAL = "empty interval: the assumptions contradict the data"


def show_number(value: float | None, *, digits: int = 4) -> str:
    """Return a number to `digits` significant digits with thousands separators; ∞ if infinite, — if missing."""
    if value is None:
        return "—"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 10**15 or size < 10**-4:
        return f"{value:.{digits - 1}e}"
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def show_count(samples: float, *, most: int) -> str:
    """Return a number of interactions, or "> most" beyond the budget."""
    return f"{samples:,.0f}" if math.isfinite(samples) else f"> {most:,}"


def show_samples(value: float | None) -> str:
    """Return a number of samples, rounded up."""
    if value is None or math.isinf(value):
        return show_number(value)
    return f"{math.ceil(value):,}" if value < 10**12 else f"{value:.2e}"


def show_name(problem: str) -> str:
    """Return the name of a problem, with room to break the line between its options."""
    name, colon, options = one_line(problem).partition(":")
    return name + colon + (options.replace(",", ", ") if "=" in options else options)


def show_in_figure(words: str) -> str:
    """Return text for a figure, with dollar signs escaped, which would otherwise delimit a formula."""
    return one_line(words).replace("$", r"\$")


def show_bracket(lower: float, upper: float) -> str:
    """Return one number if both ends agree to the digits shown; else both, with enough digits to tell them apart."""
    if lower == upper or math.isinf(upper):
        return show_number(upper) if math.isinf(lower) or lower == upper else f"{show_number(lower)} … ∞"
    for digits in range(4, 8):
        low, high = show_number(lower, digits=digits), show_number(upper, digits=digits)
        if low != high:
            return f"{low} … {high}"
    return show_number(upper)


def show_short(value: float | None) -> str:
    """Return a number to three significant digits, with a minus sign."""
    return show_number(value, digits=3).replace("-", "−")


def show_signed(value: float) -> str:
    """Return a difference with its sign, to three significant digits."""
    return f"+{show_short(value)}" if value > 0 else show_short(value)


def about(count: float) -> str:
    """Return a count that is only known roughly, to two digits."""
    return f"{float(f'{count:.2g}'):,.0f}"


def percent(share: float | None) -> str:
    """Return a share in percent: 12 %, 0.4 %."""
    if share is None:
        return "—"
    figure = 100 * share
    if 0 < figure < 0.1:
        return "under 0.1 %"
    near_whole = figure >= 9.95 or figure == round(figure)
    return f"{figure:.0f} %" if near_whole else f"{figure:.1f} %"


def show_mean(value: float, *, percent: bool) -> str:
    """Return a mean reward: rates in percent, everything else in its units."""
    return f"{100 * value:.{mean_digits(percent=True)}g} %" if percent else f"{value:.{mean_digits(percent=False)}g}"


def mean_digits(*, percent: bool) -> int:
    """Return how many digits a mean reward is shown with."""
    return 3 if percent else 4


def show_gain(value: float, *, percent: bool, sign: bool = False) -> str:
    """Return a difference between mean rewards: of rates in percentage points."""
    plus = "+" if sign else ""
    if not percent:
        return f"{value:{plus}.3g}"
    points = f"{100 * value:{plus}.3g}"
    return f"{points} {'point' if points.lstrip('+-') == '1' else 'points'}"


def show_interval(
    low: float | None, estimate: float, high: float | None, *, show: Callable[[float], str], digits: int = 3
) -> str:
    """Return an estimate and its interval in words; an interval without ends is empty. digits: as for `show_ends`."""
    if low is None or high is None:
        return f"{show(estimate)} ({EMPTY_INTERVAL})"
    return f"{show(estimate)} ({' to '.join(show_ends(low, high, show=show, digits=digits))})"


def show_ends(low: float, high: float, *, show: Callable[[float], str], digits: int = 3) -> tuple[str, str]:
    """Return the ends of an interval, rounded outward to as many digits as `show` shows."""
    least, most = rounded_outward(low, high, digits=digits)
    return show(least), show(most)
