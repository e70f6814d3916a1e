"""The state of a trial as JSON, and back; an invalid field is refused by its name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate

import numpy as np

from pacbandits.arrays import FloatArray, as_read, plain_number
from pacbandits.certificate import Certificate, Leaders
from pacbandits.certificate.leaders import NOBODY
from pacbandits.errors import InputError, nearest, plain
from pacbandits.policies import class_to_json, policy_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Design, Log, Lottery, Policy, RewardBounds, Sampler
from pacbandits.rewards import FittedModel, RewardModel, model_from_json, no_idea
from pacbandits.schema import Fields, Json, number, same_json, text, whole_number
from pacbandits.trials.coda import Coda, NoisyDesign, Uniform
from pacbandits.trials.protocol import Details
from pacbandits.trials.state_checks import MAX_DESCRIPTION_CHARACTERS, design_of, rows_of
from pacbandits.trials.trial import Exploration, Trial, TrialState

# Serialise a trial's state without its tables; restore the algorithm and the reward model from JSON.
#
# Policies are numbered and described once, as designs, pools and leaders share most of theirs. A design that weights
# actions by a reward model is described by the rows of the log to which that model was fitted.


TRIALS: dict[str, type[Trial]] = {kind.name: kind for kind in (Coda, Uniform)}

OTHER_OPTIONS = ("name", "model", "rewards")  # all others are numbers, or a flag


def describe(algorithm: Trial, state: TrialState) -> Json:
    """Serialise a state without its tables to JSON-compatible values."""
    policies = _Numbered()
    return {
        "algorithm": describe_algorithm(algorithm),
        "class": class_to_json(state.policies),
        "model": state.model.to_json(),
        "round_number": state.round_number,
        "samples": state.samples,
        "oracle_calls": state.oracle_calls,
        "finished": bool(state.finished),
        "history": [dict(figures) for figures in state.history],
        "scales": list(state.scales),
        "policy": _describe_chosen(state.policy, policies),
        "leader": None if state.leader is None else policies.number(state.leader),
        "leaders": _describe_leaders(state, policies),
        "missing": state.missing,
        "pool": [policies.number(policy) for policy in state.pool],
        "current": _describe_current(state, policies),
        "played": _describe_played(state, policies),
        "certificate": None if state.certificate is None else state.certificate.to_json(),
        "policies": [policy.to_json() for policy in policies.all],
    }


def describe_algorithm(algorithm: Trial) -> Json:
    """Serialise the algorithm's name and options; for a model of its own, only whether it has one."""
    if algorithm.name in TRIALS and not is_built_in(algorithm):
        raise InputError(
            f"the state of {type(algorithm).__name__} cannot be kept while it is called '{algorithm.name}', as a "
            "built-in trial is: it would be taken for that one; give it a name of its own"
        )
    options = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}
    given = options.pop("model") is not None
    described = {"name": algorithm.name, "model": given, **options, "rewards": asdict(algorithm.rewards)}
    try:
        json.dumps(described, default=plain_number)
    except (TypeError, ValueError):
        raise InputError(
            f"the state of {algorithm.name} cannot be kept, as its options have no form in JSON: {plain(options)}"
        ) from None
    return described


def is_built_in(algorithm: Trial) -> bool:
    """Whether a trial can be made again from its name."""
    return type(algorithm) is TRIALS.get(algorithm.name)


def restore_algorithm(described: Json, model: RewardModel, *, given: Trial | None) -> Trial:
    """Return the described algorithm; given: the user's own, which must match the description."""
    if given is not None:
        _check_same(described, as_read(describe_algorithm(given)))
        return given
    fields = Fields(described, of="algorithm")
    name = fields.text("name")
    if name not in TRIALS:
        raise InputError(
            f"the state was made by '{plain(name)}', an algorithm of your own{nearest(name, TRIALS)}; pass it again as "
            "algorithm=…"
        )
    options = {option: value for option, value in described.items() if option not in OTHER_OPTIONS}
    for option in options:
        if option == "single":
            fields.flag(option)
        else:
            fields.number_or_null(option)
    rewards = fields.fields("rewards", of="rewards of the algorithm")
    bounds = RewardBounds(rewards.number("second_moment"), rewards.flag("in_unit"), rewards.number_or_null("proxy"))
    own = fields.flag("model")
    try:
        made = TRIALS[name](**options, rewards=bounds, model=model if own else None)
    except TypeError:
        raise InputError(f"the options of the algorithm are not those of {name}") from None
    return made


def _check_same(described: Json, own: Json) -> None:
    """Raise unless an algorithm's description equals that of the one that made a state."""
    maker = f"the state was made by '{plain(described['name'])}'"
    if own["name"] != described["name"]:
        raise InputError(f"{maker}, not by '{plain(own['name'])}'; pass the same")
    for option in {**described, **own}:
        before, now = described.get(option), own.get(option)
        if before != now:
            raise InputError(f"{maker} with {plain(option)} = {plain(before)}, not {plain(now)}; pass the same")


def restore_model(described: Json, *, given: RewardModel | None) -> RewardModel:
    """Return the described reward model; given: the user's own, which must match the description."""
    if given is None:
        try:
            return model_from_json(described)
        except InputError:
            raise InputError(
                f"the state was made with a reward model of your own, {plain(described)}, which is not stored; "
                "pass it again as model=…"
            ) from None
    if as_read(given.to_json()) != described:
        raise InputError(
            f"the state was made with the reward model {plain(described)}, not {plain(given.to_json())}; pass the same"
        )
    return given


def _describe_chosen(chosen: Chosen, policies: _Numbered) -> int | Json:
    if not isinstance(chosen, Lottery):
        return policies.number(chosen)
    return {"policies": [policies.number(one) for one in chosen.policies], "weights": list(chosen.weights)}


def _describe_leaders(state: TrialState, policies: _Numbered) -> Json | None:
    leaders = state.leaders
    if leaders is None:
        return None
    return {
        "policies": [policies.number(one) for one in leaders.policies],
        "turns": list(leaders.turns),
        "sizes": list(leaders.sizes),
        "moving": leaders.moving,
    }


def _describe_current(state: TrialState, policies: _Numbered) -> Json | None:
    current = state.current
    if current is None:
        return None
    if not state.played or state.played[-1][0] is not current.sampler:
        raise InputError("the state is not one that absorb returned: it plays otherwise than it last played")
    return {
        "price": current.price,
        "since": current.since,
        "pool": [policies.number(policy) for policy in current.pool],
        "oracle_calls": current.oracle_calls,
    }


def _describe_played(state: TrialState, policies: _Numbered) -> list[Json]:
    """Describe every sampler in order with its samples; a noisy design by the log rows its model was fitted to."""
    before = [0, *accumulate(samples for _, samples in state.played)]
    out: list[Json] = []
    for (sampler, samples), since in zip(state.played, before, strict=False):
        design = design_of(sampler)
        out.append(
            {
                "samples": samples,
                "rows": _rows_before(state.log, since) if isinstance(sampler, NoisyDesign) else None,
                "support": [policies.number(policy) for policy in design.support],
                "weights": design.weights.tolist(),
                "reference": policies.number(design.reference),
                "floor": design.floor,
                "smoothing": design.smoothing,
                "even_share": design.even_share,
            }
        )
    return out


def _rows_before(log: Log | None, samples: int) -> int:
    return 0 if log is None else rows_of(log, samples)


class _Numbered:
    """Policies by number, each described once, as designs and the pool share most of theirs."""

    def __init__(self) -> None:
        self.all: list[Policy] = []
        self._numbers: dict[int, int] = {}

    def number(self, policy: Policy) -> int:
        if id(policy) not in self._numbers:
            self._numbers[id(policy)] = len(self.all)
            self.all.append(policy)
        return self._numbers[id(policy)]


# Restore a trial's state from its JSON and its tables; an invalid field is refused by its name.
#
# Nothing is coerced. Saving the restored state must write exactly what was read, so that no field goes unchecked.


MAX_ROUND_FIGURES = 100


@dataclass(frozen=True, eq=False)
class Refitted:
    """A cache of a reward model's fits to the first rows of one log, by their number.

    model: the reward model.
    fits: fitted models by the number of rows.
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
    """Return the state without its play, and its policies by number."""
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
    """Return the whole state; its rounds must have been checked against its log, which bounds their number.

    refitted: the reward model, to be fitted to the rows before each round.
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
    """Raise unless the state's description equals what was read; beside: names of other allowed fields."""
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
    """Return a number or a text unchanged."""
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
    """Return the reward model fitted to the first `since` interactions; raise unless 'rows' is their number of rows."""
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
