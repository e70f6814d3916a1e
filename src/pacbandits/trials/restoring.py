"""Restore a trial's state from its JSON and its tables; an invalid field is refused by its name.

Nothing is made to fit. What is read must also be what saving it again would write, so that no field can say anything
that nobody looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pacbandits.arrays import FloatArray, as_read
from pacbandits.certificate import Certificate, Leaders
from pacbandits.certificate.leaders import NOBODY
from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields, Json, number, same_json, text, whole_number
from pacbandits.policies import policy_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Design, Log, Lottery, Policy, Sampler
from pacbandits.rewards import FittedModel, RewardModel, no_idea
from pacbandits.trials.coherence import MAX_DESCRIPTION_CHARACTERS, rows_of
from pacbandits.trials.exploration import NoisyDesign
from pacbandits.trials.protocol import Details
from pacbandits.trials.stored import describe
from pacbandits.trials.trial import Exploration, Trial, TrialState

MAX_ROUND_FIGURES = 100


@dataclass(frozen=True, eq=False)
class Refitted:
    """A reward model that is fitted once to the first so many rows of one log, however often that is asked for.

    model: which one.
    fits: by the number of rows.
    """

    model: RewardModel
    fits: dict[int, FittedModel] = field(default_factory=dict[int, FittedModel])

    def fit(self, log: Log) -> FittedModel:
        if len(log) not in self.fits:
            self.fits[len(log)] = self.model.fit(log)
        return self.fits[len(log)]

    def to_json(self) -> Json:
        return self.model.to_json()


def restore_rounds(
    fields: Fields, policies: PolicyClass, contexts: Contexts, log: Log | None, *, model: RewardModel
) -> tuple[TrialState, list[Policy]]:
    """The state without what was played in its rounds, and its policies by their numbers."""
    numbered = _policies_of(fields, policies)
    state = TrialState(
        policies,
        contexts,
        _chosen_of(fields, numbered),
        round_number=fields.whole_number("round_number"),
        samples=fields.whole_number("samples"),
        oracle_calls=fields.whole_number("oracle_calls"),
        finished=fields.flag("finished"),
        history=_history_of(fields),
        scales=fields.numbers("scales"),
        log=log,
        model=model,
    )
    return state, numbered


def restore_play(
    fields: Fields, state: TrialState, numbered: Sequence[Policy], refitted: Refitted, predictions: FloatArray | None
) -> TrialState:
    """The whole state; its rounds must fit its log, as otherwise there is no end to what they ask for.

    refitted: the reward model, to be fitted to what was seen before each round.
    """
    played = _played_of(fields, state, numbered, refitted)
    certificate = None
    if fields["certificate"] is not None:
        certificate = Certificate.from_json(fields["certificate"], state.policies)
        _check_own_policy(certificate, state.policy)
        certificate = replace(certificate, policy=state.policy)
    leader = None if fields["leader"] is None else numbered[_number_of(fields, "leader", numbered)]
    return replace(
        state,
        certificate=certificate,
        predictions=predictions,
        pool=_some_of(fields, "pool", numbered),
        current=_current_of(fields, numbered, played),
        played=played,
        leader=leader,
        leaders=_leaders_of(fields, numbered),
        missing=fields.number("missing", least=0.0),
    )


def check_described(fields: Fields, algorithm: Trial, state: TrialState, *, beside: Collection[str]) -> None:
    """Raise unless the state's description is what was read; beside: the names of what else may stand there."""
    described = as_read(describe(algorithm, state))
    fields.check_known((*described, *beside))
    for name, own in described.items():
        if not same_json(own, fields[name]):
            raise InputError(f"{fields.name(name)} is not in the form in which it is written")


def _policies_of(fields: Fields, policies: PolicyClass) -> list[Policy]:
    return [policy_from_json(value, policies) for value in fields.items("policies", least=1)]


def _number_of(fields: Fields, name: str, numbered: Sequence[Policy]) -> int:
    return fields.whole_number(name, most=len(numbered) - 1)


def _some_of(fields: Fields, name: str, numbered: Sequence[Policy]) -> tuple[Policy, ...]:
    numbers = fields.whole_numbers(name, longest=len(numbered), most=len(numbered) - 1)
    return tuple(numbered[one] for one in numbers)


def _history_of(fields: Fields) -> tuple[Details, ...]:
    out: list[Details] = []
    for entry, value in enumerate(fields.items("history")):
        figures = Fields.read(value, of=f"entry {entry} of the history")
        if len(figures.given) > MAX_ROUND_FIGURES:
            raise InputError(f"entry {entry} of the history has {len(figures.given):,} figures")
        for name in ("round", "samples", "total"):
            figures.whole_number(name, least=1)
        out.append({name: _figure(one, name=figures.name(name)) for name, one in figures.given.items()})
    return tuple(out)


def _figure(value: object, *, name: str) -> float | int | str:
    """A number or a text, as it is."""
    if isinstance(value, str):
        return text(value, name=name, most=MAX_DESCRIPTION_CHARACTERS)
    return (
        whole_number(value, name=name, least=-(2**63), most=2**63) if type(value) is int else number(value, name=name)
    )


def _played_of(
    fields: Fields, state: TrialState, numbered: Sequence[Policy], refitted: Refitted
) -> tuple[tuple[Sampler, int], ...]:
    out: list[tuple[Sampler, int]] = []
    since = 0
    for entry, value in enumerate(fields.items("played", most=state.round_number)):
        given = Fields.read(value, of=f"entry {entry} of what was played")
        design, samples = _design_of(given, numbered), given.whole_number("samples", least=1)
        if given["rows"] is None:
            out.append((design, samples))
        else:
            out.append((NoisyDesign(design, _fitted_before(given, state, refitted, since=since)), samples))
        since += samples
    return tuple(out)


def _design_of(given: Fields, numbered: Sequence[Policy]) -> Design:
    support = _some_of(given, "support", numbered)
    return Design(
        support,
        np.array(given.numbers("weights", shortest=len(support), longest=len(support), least=0.0), dtype=np.float64),
        numbered[_number_of(given, "reference", numbered)],
        floor=given.number("floor"),
        smoothing=given.number("smoothing"),
        even_share=given.number("even_share"),
    )


def _fitted_before(given: Fields, state: TrialState, refitted: Refitted, *, since: int) -> FittedModel:
    """The reward model of the first so many interactions, whose rows what was played names."""
    rows = given.whole_number("rows")
    if state.log is None or rows != rows_of(state.log, since):
        raise InputError(f"the 'rows' of the {given.of} are {rows}, which are not those that were played before")
    if rows == 0:
        return no_idea(state.policies.n_actions)
    return refitted.fit(state.log.take(np.arange(rows)))


def _current_of(
    fields: Fields, numbered: Sequence[Policy], played: Sequence[tuple[Sampler, int]]
) -> Exploration | None:
    if fields["current"] is None:
        return None
    given = fields.fields("current", of="current exploration")
    if not played:
        raise InputError("the state says how it plays, but has played nothing")
    return Exploration(
        played[-1][0],
        given.number("price"),
        given.whole_number("since"),
        pool=_some_of(given, "pool", numbered),
        oracle_calls=given.whole_number("oracle_calls"),
    )


def _chosen_of(fields: Fields, numbered: Sequence[Policy]) -> Chosen:
    if not isinstance(fields["policy"], dict):
        return numbered[_number_of(fields, "policy", numbered)]
    given = fields.fields("policy", of="lottery")
    some = _some_of(given, "policies", numbered)
    return Lottery(some, given.numbers("weights", shortest=len(some), longest=len(some)))


def _leaders_of(fields: Fields, numbered: Sequence[Policy]) -> Leaders | None:
    if fields["leaders"] is None:
        return None
    given = fields.fields("leaders", of="leaders")
    return Leaders(
        _some_of(given, "policies", numbered),
        given.whole_numbers("turns", least=NOBODY),
        given.whole_numbers("sizes", least=1),
        given.number("moving"),
    )


def _check_own_policy(certificate: Certificate, policy: Chosen) -> None:
    """Raise unless a certificate is of that policy."""
    if as_read(certificate.policy.to_json()) != as_read(policy.to_json()):
        raise InputError(f"the policy of the certificate is another than that of the state: {plain(policy.describe())}")
