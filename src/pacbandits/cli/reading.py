"""The options that say how a log is read, for all commands that read one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pacbandits.errors import InputError

Actions = Annotated[
    int | None,
    typer.Option("--actions", help="How many actions there are, if not the largest in the log and one more."),
]
LeastPropensity = Annotated[
    float | None,
    typer.Option(
        help="For logs with the propensity of the played action alone: what every action's was at least, always. 0 if "
        "you do not know; the larger, the more can be proven."
    ),
]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="The least and the largest that a reward can be, if not 0 and 1."),
]
Position = Annotated[int | None, typer.Option(help="Which position of an Open Bandit feedback with several.")]


def reading_options(
    actions: int | None,
    least_propensity: float | None,
    reward_range: tuple[float, float] | None,
    position: int | None,
) -> dict[str, Any]:
    """The options that were given, by the names that `read_log` has for them."""
    if actions is not None and actions < 1:
        raise InputError(f"actions must be 1 or more, got {actions}")
    options = {
        "n_actions": actions,
        "least_propensity": least_propensity,
        "reward_range": reward_range,
        "position": position,
    }
    return {name: value for name, value in options.items() if value is not None}
