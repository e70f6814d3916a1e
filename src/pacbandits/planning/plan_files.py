"""Plans as JSON files, with their assumptions and contexts, so that a run can start from one."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import cast

import numpy as np

from pacbandits.checks import finite, instance, path_of
from pacbandits.errors import InputError
from pacbandits.planning.assumptions import Assumptions, Supposition, Traffic
from pacbandits.planning.sample_sizes import ANALYSES, CERTIFY, SampleSizeEstimate, people_of_log
from pacbandits.planning.simulated_trials import RIVALS, PlayedTrial
from pacbandits.planning.study_plan import StudyPlan
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import class_from_json, class_to_json
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import Outcome, Scenario
from pacbandits.records import Contexts, Log
from pacbandits.records.text_files import naming
from pacbandits.schema import Fields, Json, format_text, json_text, number, read_format, read_json, texts
from pacbandits.version import __version__

FORMAT = 1  # of the file (docs/stability.md)
FIELDS = (
    "format",
    "made_by",
    "source",
    "budget",
    "deadline",
    "max_samples",
    "supposed",
    "estimates",
    "trials",
    "answer",
)


def plan_to_json(plan: StudyPlan) -> Json:
    """Serialise a plan to JSON-compatible values; `answer` holds the results alone."""
    return {
        "format": format_text("plan", FORMAT),
        "made_by": f"pacbandits {__version__}",
        "source": plan.source,
        "answer": answer_to_json(plan),
        "budget": plan.budget,
        "deadline": plan.deadline,
        "max_samples": plan.max_samples,
        "supposed": _supposed_to_json(plan.supposed),
        "estimates": [one.to_json() for one in plan.estimates],
        "trials": [one.to_json() for one in plan.trials],
    }


def answer_to_json(plan: StudyPlan) -> Json:
    """Serialise the results of a plan, without its assumptions."""
    s, out = plan.supposed, {}
    for one in ANALYSES:
        means = plan.means(one) if one in RIVALS else None
        periods = {str(share): finite(plan.periods(one, share)) for share in (0.5, 0.8, 0.95)}
        out[one] = {
            "people": plan.quantiles(one).to_json(),
            "people_foretold": plan.foretold(one).to_json(),
            "by_scenario": {scenario.name: plan.quantiles(one, i).to_json() for i, scenario in enumerate(s.scenarios)},
            "periods": None if s.traffic is None else periods | {"period": s.traffic.period},
            "done_by_budget": None if plan.budget is None else plan.chance(plan.budget, one),
            "done_by_deadline": None if plan.deadline is None else plan.chance_in(plan.deadline, one),
            "means": None if means is None else means.to_json(),
        }
    return {
        "epsilon": s.epsilon,
        "delta": s.delta,
        "effects": list(s.effects),
        "simulated": plan.simulated,
        "lower_bound": plan.lower_bound,
        "largest_gain_over_best_single_action": plan.largest_gain,
        "findings": list(plan.findings()),
        **out,
    }


def save_plan(path: str | Path, plan: StudyPlan) -> None:
    """Write a plan to a JSON file that `load_plan` reads."""
    target = path_of(path)
    instance(plan, StudyPlan, name="plan", remedy="make one by plan(…)")
    if target.suffix.lower() != ".json":
        raise InputError(f"a plan is written as JSON; name it {target.with_suffix('.json')}")
    try:
        target.write_text(json_text(plan_to_json(plan)) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def load_plan(path: str | Path) -> StudyPlan:
    """Read a plan from a file.

    Raises:
        InputError: If there is no such file, or it holds no plan; the message says which.
    """
    with naming(path_of(path)):
        return _plan_from_json(read_json(path))


def _plan_from_json(value: object) -> StudyPlan:
    given = Fields.read(value, of="plan")
    read_format(given.given, "plan", latest=FORMAT)
    given.check_known(FIELDS)
    supposed = _supposed_from_json(given.fields("supposed", of="plan"))
    names = [Fields.read(one, of="estimate of a plan") for one in given.items("estimates", least=1)]
    trials = tuple(PlayedTrial.from_json(one) for one in given.items("trials"))
    estimates = tuple(_estimate_from_json(one, supposed) for one in names)
    for one in (*estimates, *trials):
        if one.scenario >= len(supposed.scenarios):
            raise InputError(f"the plan refers to scenario {one.scenario + 1}, but has {len(supposed.scenarios)}")
    if {one.scenario for one in estimates} != set(range(len(supposed.scenarios))):
        raise InputError("the plan lacks an estimate of one of its scenarios")
    return StudyPlan(
        supposed,
        estimates,
        trials,
        given.whole_number("max_samples", least=1),
        source=given.text("source"),
        budget=None if given["budget"] is None else given.whole_number("budget", least=1),
        deadline=given.number_or_null("deadline", least=0),
    )


def _estimate_from_json(given: Fields, supposed: Assumptions) -> SampleSizeEstimate:
    medians = given.fields("medians", of="estimate of a plan")
    known = {one: medians.number(one, least=1e-9) for one in ANALYSES if one in RIVALS or one in medians.given}
    # Plans of earlier versions have no estimate for finished logs.
    known.setdefault(CERTIFY, people_of_log(known["uniform"], supposed, gap=1.0))
    return SampleSizeEstimate(
        given.whole_number("scenario"),
        known,
        given.number("scatter", least=1e-9),
        given.number("gain"),
        given.number("gain_over_control"),
        given.number("advantage", least=0),
        given.number_or_null("lower_bound", least=0),
    )


def _supposed_to_json(s: Assumptions) -> Json:
    return {
        "people": contexts_to_json(s.people),
        "policies": class_to_json(s.policies),
        "spec": s.spec,
        "epsilon": s.epsilon,
        "delta": s.delta,
        "outcome": asdict(s.outcome),
        "scenarios": [_scenario_to_json(one) for one in s.scenarios],
        "control": s.control,
        "traffic": None if s.traffic is None else s.traffic.to_json(),
        "seed": s.seed,
    }


def _supposed_from_json(given: Fields) -> Assumptions:
    outcome = given.fields("outcome", of="plan's rewards")
    traffic = None if given["traffic"] is None else given.fields("traffic", of="plan's traffic")
    policies: PolicyClass = class_from_json(given["policies"])
    return Assumptions(
        contexts_from_json(given.fields("people", of="plan's people")),
        policies,
        given.number("epsilon"),
        given.number("delta"),
        Outcome(
            outcome.number("baseline"),
            outcome.number_or_null("spread"),
            outcome.number("low"),
            outcome.number("high"),
            outcome.number("variation"),
        ),
        tuple(_scenario_from_json(one) for one in given.items("scenarios", least=1)),
        control=given.whole_number("control"),
        traffic=None if traffic is None else _traffic_from_json(traffic),
        seed=given.whole_number("seed"),
        spec=None if given["spec"] is None else given.text("spec"),
    )


def _traffic_from_json(given: Fields) -> Traffic:
    return Traffic(
        given.whole_number("people", least=1),
        given.text("period"),
        batched=given.flag("batched"),
        delay=given.whole_number("delay"),
    )


def _scenario_to_json(one: Supposition) -> Json:
    if isinstance(one, Scenario):
        return asdict(one)
    if isinstance(one, PilotEffects):
        log = one.log
        return {
            "kind": "pilot",
            "name": one.name,
            "weight": one.weight,
            "contexts": contexts_to_json(log.contexts),
            "actions": log.actions.tolist(),
            "rewards": log.rewards.tolist(),
            "propensities": log.propensities.tolist(),
            "repeats": log.repeats.tolist(),
            "action_names": None if log.action_names is None else list(log.action_names),
            "reward_range": list(log.reward_range),
        }
    raise InputError(f"a plan with scenario '{one.name}', a custom {type(one).__name__}, cannot be written")


def _scenario_from_json(value: object) -> Supposition:
    given = Fields.read(value, of="scenario")
    if given["kind"] != "pilot":
        return Scenario(
            given.text("kind"),  # pyright: ignore[reportArgumentType]
            effect=given.number("effect"),
            share=given.number("share"),
            matter=given.whole_number("matter"),
            weight=given.number("weight"),
            name=given.text("name"),
        )
    low, high = given.numbers("reward_range", shortest=2, longest=2)
    log = Log.of(
        contexts_from_json(given.fields("contexts", of="pilot")),
        actions=given.whole_numbers("actions"),
        rewards=given.numbers("rewards"),
        propensities=given.number_rows("propensities"),
        repeats=given.whole_numbers("repeats", least=1),
        action_names=None if given["action_names"] is None else given.texts("action_names"),
        reward_range=(low, high),
    )
    return PilotEffects(log, given.number("weight"), given.text("name"))


def contexts_to_json(contexts: Contexts) -> Json:
    """Serialise contexts to JSON-compatible values; null for missing values."""
    if contexts.phi is not None:
        raise InputError("a plan for contexts with features of actions (phi) cannot be written")
    columns = [[None if math.isnan(x) else x for x in column] for column in contexts.features.T.tolist()]
    return {
        "size": len(contexts),
        "names": list(contexts.names),
        "categories": [None if labels is None else list(labels) for labels in contexts.categories],
        "columns": columns,
        "ids": None if contexts.ids is None else contexts.ids.tolist(),
        "weights": contexts.weights.tolist(),
    }


def contexts_from_json(given: Fields) -> Contexts:
    """Read what `contexts_to_json` wrote."""
    size = given.whole_number("size", least=1)
    names = given.texts("names")
    features = np.empty((size, len(names)))
    listed = given.items("columns", least=len(names), most=len(names))
    for j, column in enumerate(listed):
        values = cast(list[object], column) if isinstance(column, list) else []
        if len(values) != size:
            raise InputError(f"column {j + 1} of the {given.of} must hold {size:,} numbers")
        called = f"an entry of column {j + 1} of the {given.of}"
        features[:, j] = [math.nan if x is None else number(x, name=called) for x in values]
    labels = [
        None if one is None else texts(one, name="labels of a feature")
        for one in given.items("categories", least=len(names), most=len(names))
    ]
    weights = given.numbers("weights", shortest=size, longest=size, least=0)
    ids = None if given["ids"] is None else given.whole_numbers("ids", shortest=size, longest=size)
    return Contexts.of(features, names=names, categories=labels, ids=ids, weights=weights)
