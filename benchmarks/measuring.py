"""Measuring: each figure in a process of its own, so that its peak memory is its own."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def in_subprocess(function: Callable[..., Any], *arguments: object) -> tuple[Any, float]:
    """The function's result and the peak memory of its process in MB."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:  # whose processes may have children
        return pool.submit(_measured, function, arguments).result()


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table."""
    print(f"\n**{title}**\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def power(number: float, *, digits: int = 1) -> str:
    """A large number as 1.3·10⁷."""
    mantissa, _, exponent = f"{number:.{digits}e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def _measured(function: Callable[..., Any], arguments: tuple[object, ...]) -> tuple[Any, float]:
    result = function(*arguments)
    return result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
