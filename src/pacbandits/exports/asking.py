"""What every export begins with: the decision of a policy, and what its actions are called."""

from __future__ import annotations

from collections.abc import Sequence

from pacbandits.checks import texts
from pacbandits.errors import InputError, count_of, plain
from pacbandits.policies.decisions import DecidingPolicy, Decision, inputs_of
from pacbandits.records import Chosen, Policy
from pacbandits.records.dates import DatePart, date_parts

Action = str | int  # as it is written: its name, or its number


def decision_of(policy: Policy) -> Decision:
    """What a policy does, or a sentence for one that cannot say it."""
    if isinstance(policy, DecidingPolicy):
        return policy.decision()
    kind = plain(getattr(policy, "kind", type(policy).__name__))
    raise InputError(
        f"a policy of kind '{kind}' cannot be written out so that it acts the same everywhere; use `pacbandits apply`, "
        "or call the policy on contexts"
    )


def written_actions(chosen: Chosen, actions: Sequence[str] | None) -> tuple[Action, ...]:
    """What stands for each action: its name if there are names, else its number."""
    if actions is None:
        return tuple(range(chosen.n_actions))
    names = texts(actions, name="actions")
    if len(names) != chosen.n_actions:
        there, given = count_of(chosen.n_actions, "action"), count_of(len(names), "name")
        raise InputError(f"the policy has {there}, and actions were given {given}; give one for each")
    return names


def made_of_dates(chosen: Chosen, dates: Sequence[str]) -> dict[str, DatePart]:
    """The features that a policy asks about and that are made of these columns of dates, and how."""
    asked = inputs_of(chosen)
    known = texts(dates, name="dates")
    return {} if asked is None else date_parts((*asked.numbers, *asked.labels), known)
