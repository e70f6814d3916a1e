"""`pacbandits algorithms`, `pacbandits policies` and `pacbandits problems`: lists with their options."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pacbandits.cli.console import AsJson, app, print_json, show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pacbandits.options import Option


@app.command()
def algorithms(as_json: AsJson = False) -> None:
    """List the algorithms with their assumptions, guarantees and options."""
    from dataclasses import asdict

    from pacbandits.algorithms import list_profiles, options_of
    from pacbandits.report import algorithms_document

    profiles = list_profiles()
    if as_json:
        print_json({one.name: asdict(one) | {"options": _options(options_of(one.name))} for one in profiles})
    else:
        show(algorithms_document({one: options_of(one.name) for one in profiles}))


@app.command()
def policies(as_json: AsJson = False) -> None:
    """List the policy classes for --policies and their options."""
    from pacbandits.policies.registry import SPECS
    from pacbandits.report import classes_document

    if as_json:
        print_json({s.name: {"description": s.description, "options": _options(s.options)} for s in SPECS.values()})
    else:
        show(classes_document(SPECS.values()))


@app.command()
def problems(as_json: AsJson = False) -> None:
    """List the built-in problems and their options."""
    from pacbandits.problems import list_problems
    from pacbandits.report import problems_document

    if as_json:
        print_json({p.name: {"description": p.description, "options": _options(p.options)} for p in list_problems()})
    else:
        show(problems_document(list_problems()))


def _options(options: Iterable[Option]) -> dict[str, Any]:
    """Return the options as JSON-compatible values; an infinite default, which means no limit, is null."""
    return {
        option.name: {
            "default": None if option.default in (math.inf, -math.inf) else option.default,
            "permitted": option.permitted,
            "meaning": option.meaning,
        }
        for option in options
    }
