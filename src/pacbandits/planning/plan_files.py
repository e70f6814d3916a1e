"""Plans as JSON files, with their assumptions and contexts, so that a run can start from one; scenarios in TOML."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from pacbandits.checks import finite, instance, path_of
from pacbandits.errors import InputError, nearest, plain
from pacbandits.planning.assumptions import RIVALS, Assumptions, Supposition, Traffic
from pacbandits.planning.gain_plan import GainPlan, SimulatedTest, quick_gain_plan
from pacbandits.planning.sample_sizes import ANALYSES, CERTIFY, SampleSizeEstimate, people_of_log
from pacbandits.planning.simulated_trials import PlayedTrial
from pacbandits.planning.study_plan import StudyPlan
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import class_from_json, class_to_json
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import Outcome, Scenario
from pacbandits.records import Contexts, Log
from pacbandits.records.text_files import naming, read_toml
from pacbandits.schema import (
    Fields,
    Json,
    flag,
    format_text,
    json_text,
    number,
    numbers,
    rate,
    read_format,
    read_json,
    text,
    texts,
    whole_number,
)
from pacbandits.version import __version__

FORMAT, GAIN_FORMAT = 1, 1  # of the files (docs/stability.md)
GAIN_PLAN = "gain plan"
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
            "people_estimated": plan.foretold(one).to_json(),
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


GAIN_FIELDS = ("format", "made_by", "source", "budget", "deadline", "left_out", "supposed", "tests", "answer")


def gain_plan_to_json(plan: GainPlan) -> Json:
    """Serialise a plan to prove a gain to JSON-compatible values; `answer` holds the results alone."""
    return {
        "format": format_text(GAIN_PLAN, GAIN_FORMAT),
        "made_by": f"pacbandits {__version__}",
        "source": plan.source,
        "answer": gain_answer_to_json(plan),
        "budget": plan.budget,
        "deadline": plan.deadline,
        "left_out": list(plan.left_out),
        "supposed": _supposed_to_json(plan.supposed),
        "tests": [asdict(one) | {"needed": finite(one.needed)} for one in plan.tests],
    }


def gain_answer_to_json(plan: GainPlan) -> Json:
    """Serialise the results of a plan to prove a gain, without its assumptions; null for infinite numbers."""
    s = plan.supposed
    shares = {str(share): share for share in (0.5, 0.8, 0.95)}
    periods = {name: finite(plan.periods(share)) for name, share in shares.items()}
    return {
        "improve_on": s.control,
        "control": plan.control,
        "power": plan.power,
        "delta": s.delta,
        "effects": list(s.effects),
        "simulated": plan.simulated,
        "rows": finite(plan.rows),
        "rows_estimated": finite(plan.foretold(plan.power)),
        "ordinary_test_rows": finite(plan.ordinary()),
        "ratio": plan.ratio,
        "periods": None if s.traffic is None else periods | {"period": s.traffic.period},
        "people": plan.samples.to_json(),
        "by_scenario": {one.name: plan.quantiles(i).to_json() for i, one in enumerate(s.scenarios)},
        "proven_by_budget": None if plan.budget is None else plan.chance(plan.budget),
        "proven_by_deadline": None if plan.deadline is None else plan.chance_in(plan.deadline),
        "findings": list(plan.findings()),
    }


def save_plan(path: str | Path, plan: StudyPlan | GainPlan) -> None:
    """Write a plan to a JSON file that `load_plan` reads, or `load_gain_plan`."""
    target = path_of(path)
    if not isinstance(plan, GainPlan):
        instance(plan, StudyPlan, name="plan", remedy="make one by plan(…)")
    if target.suffix.lower() != ".json":
        raise InputError(f"a plan is written as JSON; name it {target.with_suffix('.json')}")
    try:
        target.write_text(json_text(plan.to_json()) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def load_plan(path: str | Path) -> StudyPlan:
    """Read a plan from a file.

    Raises:
        InputError: If there is no such file, or it holds no plan; the message says which.
    """
    with naming(path_of(path)):
        return _plan_from_json(read_json(path))


def load_gain_plan(path: str | Path) -> GainPlan:
    """Read a plan to prove a gain, of `plan(…, improve_on=…)`, from a file.

    Raises:
        InputError: If there is no such file, or it holds no such plan; the message says which.
    """
    with naming(path_of(path)):
        given = Fields.read(read_json(path), of="plan")
        read_format(given.given, GAIN_PLAN, latest=GAIN_FORMAT)
        given.check_known(GAIN_FIELDS)
        made = quick_gain_plan(_supposed_from_json(given.fields("supposed", of="plan")))
        if made.supposed.power is None:
            raise InputError("the plan lacks its power; make it again by pacbandits plan --improve-on")
        tests = (Fields.read(one, of="test of a plan") for one in given.items("tests"))
        return replace(
            made,
            tests=tuple(_test_from_json(one, len(made.supposed.scenarios)) for one in tests),
            source=given.text("source"),
            budget=None if given["budget"] is None else given.whole_number("budget", least=1),
            deadline=given.number_or_null("deadline", least=0),
            left_out=tuple(given.texts("left_out")),
        )


def load_any_plan(path: str | Path) -> StudyPlan | GainPlan:
    """Read a plan of either kind from a file."""
    with naming(path_of(path)):
        gain = is_gain_plan(Fields.read(read_json(path), of="plan"))
    return load_gain_plan(path) if gain else load_plan(path)


def is_gain_plan(given: Fields) -> bool:
    """Whether a file of a plan holds one to prove a gain."""
    return str(given.given.get("format")).startswith(f"pacbandits {GAIN_PLAN} ")


def _test_from_json(given: Fields, scenarios: int) -> SimulatedTest:
    needed = given.number_or_null("needed", least=0)
    return SimulatedTest(
        given.whole_number("scenario", most=scenarios - 1),
        given.whole_number("number"),
        given.whole_number("rows", least=1),
        given.number("gain"),
        given.number("low"),
        math.inf if needed is None else needed,
    )


def _plan_from_json(value: object) -> StudyPlan:
    given = Fields.read(value, of="plan")
    if is_gain_plan(given):
        raise InputError(
            "this plan is to prove a gain over the control by one analysis of a finished test (plan --improve-on), "
            "and this needs one to find a policy within ε; make one with --epsilon"
        )
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
        **({} if s.power is None else {"power": s.power}),
        **({"count_pilot": True} if s.count_pilot else {}),
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
        power=given.number("power") if "power" in given.given else None,
        count_pilot="count_pilot" in given.given and given.flag("count_pilot"),
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
            **({"rounds": log.rounds.tolist()} if log.rounds.any() else {}),
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
        rounds=given.whole_numbers("rounds") if "rounds" in given.given else None,
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


# A plan's assumptions, with its scenarios, in a TOML file.


SCENARIO_KEYS = ("kind", "effect", "share", "matter", "weight", "name")


def two_numbers(value: object, *, name: str) -> tuple[float, float]:
    """Return a list of two numbers as a pair."""
    low, high = numbers(value, name=name, shortest=2, longest=2)
    return low, high


def _effect(value: object, *, name: str) -> float | str:
    """Return a number, or text as `plan` reads it: "+20%" of the baseline, "2%"."""
    return text(value, name=name) if isinstance(value, str) else number(value, name=name)


# Keys at the top level, with their names as arguments of `plan`, and their readers.
KEYS: dict[str, tuple[str, Any]] = {
    "actions": ("n_actions", whole_number),
    "policies": ("policies", text),
    "epsilon": ("epsilon", rate),
    "delta": ("delta", rate),
    "baseline": ("baseline", rate),
    "spread": ("spread", number),
    "reward_range": ("reward_range", two_numbers),
    "variation": ("variation", rate),
    "effect": ("effect", _effect),
    "share": ("share", rate),
    "control": ("control", whole_number),
    "improve_on": ("improve_on", whole_number),
    "power": ("power", rate),
    "traffic": ("traffic", text),
    "delay": ("delay", whole_number),
    "batched": ("batched", flag),
    "budget": ("budget", whole_number),
    "seed": ("seed", whole_number),
}


def read_scenarios(path: str | Path) -> dict[str, Any]:
    """Read the assumptions in a TOML file, by their names as arguments of `plan`.

    baseline = 0.05
    traffic = "4000/week"

    [[scenario]]
    kind = "segments"
    effect = 0.04
    share = 0.25

    Raises:
        InputError: If the file cannot be read, or has an invalid entry; the message names it.
    """
    source = Path(path)
    with naming(source):
        return _read_assumptions(read_toml(source))


def _read_assumptions(given: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if not given:
        raise InputError('is empty; start with baseline = 0.05, or with a [[scenario]] and its kind = "winner"')
    for key, value in given.items():
        if key == "scenario":
            listed = cast(list[object], value) if isinstance(value, list) else [value]
            out["scenarios"] = tuple(_read_scenario(one, i + 1) for i, one in enumerate(listed))
        elif key in KEYS:
            name, read = KEYS[key]
            out[name] = read(value, name=f"'{key}'")
        else:
            raise InputError(f"unknown key '{plain(key)}'{nearest(key, (*KEYS, 'scenario'))}")
    return out


def _read_scenario(value: object, which: int) -> Scenario:
    """One scenario of the file."""
    if not isinstance(value, dict):
        raise InputError("scenarios are tables: [[scenario]], and below it kind = …")
    given = cast(dict[str, Any], value)
    for key in given:
        if key not in SCENARIO_KEYS:
            raise InputError(f"scenario {which} has an unknown key '{plain(key)}'{nearest(key, SCENARIO_KEYS)}")
    if "kind" not in given:
        raise InputError(f"scenario {which} lacks its kind: none, winner, segments or few")
    called = f"of scenario {which}"
    options: dict[str, Any] = {"kind": text(given["kind"], name=f"kind {called}")}
    options |= {
        key: (number if key == "weight" else rate)(given[key], name=f"{key} {called}")
        for key in ("effect", "share", "weight")
        if key in given
    }
    if "matter" in given:
        options["matter"] = whole_number(given["matter"], name=f"matter {called}")
    if "name" in given:
        options["name"] = text(given["name"], name=f"name {called}")
    return Scenario(**options)
