"""Options for policies that one may deploy: budgets, barred actions, leaves that are not too small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pacbandits.cli.shared import as_rate
from pacbandits.errors import InputError, plain

if TYPE_CHECKING:
    from pacbandits.policies import Restrictions
    from pacbandits.records import Log

SmallestLeaf = Annotated[
    float | None,
    typer.Option(
        parser=as_rate,
        metavar="SHARE",
        help="Minimum share of the known contexts in every leaf of a tree.",
    ),
]
ActionCosts = Annotated[
    str | None,
    typer.Option(
        "--cost", metavar="A=1,B=2.5", help="Cost of each action, by name, for --max-cost; actions not named cost 0."
    ),
]
MaxCost = Annotated[float | None, typer.Option(help="Maximum mean cost of a policy over the known contexts.")]
MaxShare = Annotated[
    str | None,
    typer.Option(metavar="A=0.3", help="Maximum share of the known contexts that get an action."),
]
MaxTreated = Annotated[
    float | None,
    typer.Option(
        parser=as_rate,
        metavar="SHARE",
        help="Maximum share of the known contexts that get an action other than --control.",
    ),
]
Never = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORDS",
        help="Exclude an action for some contexts, [cyan]email: age <= 25[/] or [cyan]email: country = DE[/]; "
        "--control is used there. May be repeated.",
    ),
]
Control = Annotated[
    str | None,
    typer.Option(
        metavar="ACTION",
        help="The action that means no treatment. The gain over it is reported, and it is used where another action "
        "is excluded.",
    ),
]


def restrictions_for(
    log: Log,
    *,
    smallest_leaf: float | None,
    cost: str | None,
    max_cost: float | None,
    max_share: str | None,
    max_treated: float | None,
    never: list[str] | None,
    control: str | None,
) -> Restrictions:
    """Return the restrictions that were given, for the actions of a log."""
    from pacbandits.policies import Restrictions

    budgets = [
        name
        for name, given in (("--max-cost", max_cost), ("--max-share", max_share), ("--max-treated", max_treated))
        if given is not None
    ]
    if len(budgets) > 1:
        raise InputError(f"one budget at a time: {' and '.join(budgets)} are {len(budgets)}; leave all but one out")
    costs = {} if cost is None else _numbers(cost, option="--cost")
    if max_share is not None:
        if costs:
            raise InputError("--max-share is of one action, and takes no --cost; write --max-share email=0.3")
        name, max_cost = _share(max_share, log)
        costs = {name: 1.0}
    return Restrictions(
        smallest_leaf=smallest_leaf or 0.0,
        cost=costs,
        max_cost=max_cost,
        max_treated=max_treated,
        never=tuple(never or ()),
        control=control,
    )


def _share(words: str, log: Log) -> tuple[str, float]:
    """An action and its largest share, from `email=0.3`."""
    from pacbandits.analysis import action_number
    from pacbandits.logs.splits import read_share

    name, equals, share = (part.strip() for part in words.rpartition("="))
    if not equals or ("," in name and name not in (log.action_names or ())):
        raise InputError(f"--max-share is of one action, as in email=0.3 or email=30%, not '{plain(words)}'")
    action_number(name, log, of="--max-share")
    return name, read_share(share, name)


def _numbers(words: str, *, option: str) -> dict[str, float]:
    """Numbers by the names of actions, from `a=1,b=2.5`."""
    found: dict[str, float] = {}
    for item in words.split(","):
        name, equals, value = item.rpartition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"{option} takes numbers by the names of actions, as in email=2.5, not '{plain(item)}'")
    return found
