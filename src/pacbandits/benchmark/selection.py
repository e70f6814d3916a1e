"""Select a suite, and a part of it by names with wildcards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from pacbandits.benchmark.suites import SUITES, Suite
from pacbandits.checks import whole_number
from pacbandits.errors import InputError, nearest, plain


def find_suite(name: str) -> Suite:
    """The suite of that name."""
    if name not in SUITES:
        raise InputError(f"there is no suite '{plain(name)}'{nearest(name, SUITES)}")
    return SUITES[name]


def select(suite: Suite, *, cases: Sequence[str] = (), entries: Sequence[str] = (), seeds: int | None = None) -> Suite:
    """A part of a suite.

    cases: patterns of names, `trees*`; none for all.
    entries: the same, of what tables call an algorithm or of its spec.
    seeds: how many runs of each, in place of the suite's own numbers.

    Raises:
        InputError: When a pattern fits nothing, or nothing is played of what they fit.
    """
    for pattern in cases:
        _check_any(pattern, [case.name for case in suite.cases], suite=suite, noun="case")
    for pattern in entries:
        _check_any(pattern, [name for one in suite.entries for name in (one.name, one.spec)], suite=suite, noun="entry")
    chosen = replace(
        suite,
        cases=tuple(case for case in suite.cases if not cases or _fits(cases, case.name)),
        entries=tuple(one for one in suite.entries if not entries or _fits(entries, one.name, one.spec)),
    )
    if seeds is not None:
        count = whole_number(seeds, name="--seeds", least=1)
        chosen = replace(chosen, seeds=count, dear_seeds=count)
    if not chosen.tasks():
        raise InputError(
            f"nothing to play: the suite '{suite.name}' has published defaults alone on "
            f"{', '.join(case.name for case in chosen.cases)}; name another --entry or --case"
        )
    return chosen


def _fits(patterns: Sequence[str], *names: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _check_any(pattern: str, names: Sequence[str], *, suite: Suite, noun: str) -> None:
    if not _fits([pattern], *names):
        raise InputError(f"the suite '{suite.name}' has no {noun} '{plain(pattern)}'{nearest(pattern, set(names))}")
