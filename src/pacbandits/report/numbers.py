"""Numbers and names as people read them."""

from __future__ import annotations

import math

from pacbandits.errors import one_line


def show_number(value: float | None, *, digits: int = 4) -> str:
    """Four significant digits with thousands separated; ∞ and — where there is no number."""
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


def show_samples(value: float | None) -> str:
    """A number of samples, rounded up."""
    if value is None or math.isinf(value):
        return show_number(value)
    return f"{math.ceil(value):,}" if value < 10**12 else f"{value:.2e}"


def show_name(problem: str) -> str:
    """The name of a problem, with room to break the line between its options."""
    name, colon, options = one_line(problem).partition(":")
    return name + colon + (options.replace(",", ", ") if "=" in options else options)


def show_in_figure(words: str) -> str:
    """Words from anywhere for a figure, where dollar signs would stand around a formula."""
    return one_line(words).replace("$", r"\$")


def show_bracket(lower: float, upper: float) -> str:
    """One number where both ends agree to the digits shown, else both, with as many digits as tell them apart."""
    if lower == upper or math.isinf(upper):
        return show_number(upper) if math.isinf(lower) or lower == upper else f"{show_number(lower)} … ∞"
    for digits in range(4, 8):
        low, high = show_number(lower, digits=digits), show_number(upper, digits=digits)
        if low != high:
            return f"{low} … {high}"
    return show_number(upper)
