"""What a trial's state is in JSON, all but its tables, and how it is made again from that.

Policies are numbered and described once, as designs, pools and names share most of theirs. A design that weighs actions
by a reward model is described by the rows of the log which that model was fitted to.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from itertools import accumulate
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, as_read, plain_number
from pacbandits.certificate import Certificate, Named, Naming
from pacbandits.errors import InputError, nearest, plain
from pacbandits.policies import class_from_json, class_to_json, policy_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Design, Log, Policy, RewardBounds, Sampler
from pacbandits.rewards import RewardModel, model_from_json, no_idea
from pacbandits.trials.coda import Coda
from pacbandits.trials.exploration import NoisyDesign
from pacbandits.trials.trial import Exploration, Trial, TrialState
from pacbandits.trials.uniform import Uniform

TRIALS: dict[str, type[Trial]] = {kind.name: kind for kind in (Coda, Uniform)}

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Tables:
    """What a state holds beside its JSON: contexts, and after the first round the log and its predictions (n, A)."""

    contexts: Contexts
    log: Log | None
    predictions: FloatArray | None


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
        "policy": policies.number(state.policy),
        "leader": None if state.leader is None else policies.number(state.leader),
        "named": [{"policy": policies.number(one.policy), **asdict(one.naming)} for one in state.named],
        "pool": [policies.number(policy) for policy in state.pool],
        "current": _describe_current(state, policies),
        "played": _describe_played(state, policies),
        "certificate": None if state.certificate is None else state.certificate.to_json(),
        "policies": [policy.to_json() for policy in policies.all],
    }


def restore(given: Json, tables: Tables, *, model: RewardModel, policies: PolicyClass | None) -> TrialState:
    """The state that `describe` described; policies: the class, where it is not one that JSON can make again."""
    numbered: list[Policy] = [policy_from_json(policy, policies) for policy in given["policies"]]
    played = tuple(
        (_sampler_of(value, numbered, tables.log, model), int(value["samples"])) for value in given["played"]
    )
    policy: Policy = numbered[int(given["policy"])]
    certificate = None
    if given["certificate"] is not None:
        certificate = replace(Certificate.from_json(given["certificate"], policies), policy=policy)
    return TrialState(
        class_from_json(given["class"], policies),
        tables.contexts,
        policy,
        round_number=given["round_number"],
        samples=given["samples"],
        oracle_calls=given["oracle_calls"],
        finished=given["finished"],
        history=tuple(given["history"]),
        log=tables.log,
        certificate=certificate,
        model=model,
        predictions=tables.predictions,
        scales=tuple(given["scales"]),
        pool=_some(numbered, given["pool"]),
        current=None if given["current"] is None else _exploration_of(given["current"], numbered, played[-1][0]),
        played=played,
        leader=None if given["leader"] is None else numbered[int(given["leader"])],
        named=tuple(Named(numbered[one["policy"]], Naming(one["round"], one["number"])) for one in given["named"]),
    )


def describe_algorithm(algorithm: Trial) -> Json:
    """The algorithm by its name and options; of a model of its own only that it has one."""
    if algorithm.name in TRIALS and not is_built_in(algorithm):
        raise InputError(
            f"the state of {type(algorithm).__name__} cannot be kept while it is called '{algorithm.name}', as a "
            "built-in trial is: it would be taken for that one; give it a name of its own"
        )
    options = {field.name: getattr(algorithm, field.name) for field in fields(algorithm)}
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
    options = dict(described)
    name = str(options.pop("name"))
    if name not in TRIALS:
        raise InputError(
            f"the state was made by '{plain(name)}', an algorithm of your own{nearest(name, TRIALS)}; pass it again as "
            "algorithm=…"
        )
    options["rewards"] = RewardBounds(**options["rewards"])
    options["model"] = model if options["model"] else None
    return TRIALS[name](**options)


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
        design = sampler.design if isinstance(sampler, NoisyDesign) else sampler
        if not isinstance(design, Design):
            raise InputError(
                f"a state that was played by a {type(sampler).__name__} cannot be saved, as files describe nothing "
                "but designs (pacbandits.Design)"
            )
        out.append(
            {
                "samples": samples,
                "rows": _rows_of(state.log, since) if isinstance(sampler, NoisyDesign) else None,
                "support": [policies.number(policy) for policy in design.support],
                "weights": design.weights.tolist(),
                "reference": policies.number(design.reference),
                "floor": design.floor,
                "smoothing": design.smoothing,
            }
        )
    return out


def _rows_of(log: Log | None, samples: int) -> int:
    """How many rows of the log its first so many interactions are."""
    return 0 if log is None else int(np.searchsorted(np.cumsum(log.repeats), samples, side="right"))


def _exploration_of(described: Json, policies: list[Policy], sampler: Sampler) -> Exploration:
    return Exploration(
        sampler,
        described["price"],
        described["since"],
        pool=_some(policies, described["pool"]),
        oracle_calls=described["oracle_calls"],
    )


def _sampler_of(described: Json, policies: list[Policy], log: Log | None, model: RewardModel) -> Sampler:
    (reference,) = _some(policies, [described["reference"]])
    design = Design(
        _some(policies, described["support"]),
        np.array(described["weights"], dtype=np.float64),
        reference,
        floor=described["floor"],
        smoothing=described["smoothing"],
    )
    rows: int | None = described["rows"]
    if rows is None:
        return design
    if log is None or rows == 0:
        return NoisyDesign(design, no_idea(design.n_actions))
    return NoisyDesign(design, model.fit(log.take(np.arange(rows))))


def _some(policies: list[Policy], numbers: list[int]) -> tuple[Policy, ...]:
    return tuple(policies[number] for number in numbers)


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
