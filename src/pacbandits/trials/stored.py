"""The JSON of a trial's state without its tables; and the algorithm and the reward model made from JSON.

Policies are numbered and described once, as designs, pools and leaders share most of theirs. A design that weighs
actions by a reward model is described by the rows of the log which that model was fitted to.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import asdict
from itertools import accumulate

from pacbandits.arrays import as_read, plain_number
from pacbandits.errors import InputError, nearest, plain
from pacbandits.fields import Fields, Json
from pacbandits.policies import class_to_json
from pacbandits.records import Chosen, Log, Lottery, Policy, RewardBounds
from pacbandits.rewards import RewardModel, model_from_json
from pacbandits.trials.coda import Coda
from pacbandits.trials.coherence import design_of, rows_of
from pacbandits.trials.exploration import NoisyDesign
from pacbandits.trials.trial import Trial, TrialState
from pacbandits.trials.uniform import Uniform

TRIALS: dict[str, type[Trial]] = {kind.name: kind for kind in (Coda, Uniform)}

OTHER_OPTIONS = ("name", "model", "rewards")  # all the others are numbers, or a flag


def describe(algorithm: Trial, state: TrialState) -> Json:
    """All of a state but its tables."""
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
    """The algorithm by its name and options; of a model of its own only that it has one."""
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
    """Whether the name of a trial is enough to make it again."""
    return type(algorithm) is TRIALS.get(algorithm.name)


def restore_algorithm(described: Json, model: RewardModel, *, given: Trial | None) -> Trial:
    """The algorithm of that description; given: one of the user's own, which must be the same."""
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
    """Raise unless an algorithm is described as the one that made a state was."""
    maker = f"the state was made by '{plain(described['name'])}'"
    if own["name"] != described["name"]:
        raise InputError(f"{maker}, not by '{plain(own['name'])}'; pass the same")
    for option in {**described, **own}:
        before, now = described.get(option), own.get(option)
        if before != now:
            raise InputError(f"{maker} with {plain(option)} = {plain(before)}, not {plain(now)}; pass the same")


def restore_model(described: Json, *, given: RewardModel | None) -> RewardModel:
    """The reward model of that description; given: one of the user's own, which must be the same."""
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
    """Every sampler in turn, with how often it was used; a noisy design by the rows of the log its model is of."""
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
