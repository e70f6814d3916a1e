"""Linear scores in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pacbandits.policies.features.encoders import Encoder

_SHOWN_TERMS = 6


def sum_in_words(terms: Sequence[tuple[int, str]]) -> str:
    """`3 − 2·age + 1·[region is north]`: the constant first, then the largest terms."""
    constant = [term for term in terms if term[0] and not term[1]]
    others = sorted((term for term in terms if term[0] and term[1]), key=lambda term: -abs(term[0]))
    kept = (constant + others)[:_SHOWN_TERMS]
    text = "0"
    for place, (factor, word) in enumerate(kept):
        size = f"{abs(factor)}·{word}" if word else f"{abs(factor)}"
        if place == 0:
            text = size if factor > 0 else f"−{size}"
        else:
            text += f" {'+' if factor > 0 else '−'} {size}"
    rest = len(constant) + len(others) - len(kept)
    return text + (f" … and {rest} more" if rest else "")


def largest_in_words(names: Sequence[str], parameter: Sequence[int]) -> str:
    """The policy of largest score, where a coordinate is called by its name."""
    return f"the action of largest {sum_in_words([(one, f'[{names[j]}]') for j, one in enumerate(parameter)])}"


def scales_in_words(encoders: Iterable[Encoder]) -> list[str]:
    """One line that says what the words stand for, or none."""
    said = "; ".join(encoder.describe() for encoder in encoders)
    return [f"features are standardised: {said}"] if said else []
