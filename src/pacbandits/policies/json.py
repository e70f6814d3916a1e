"""Policies and policy classes to JSON and back, by kind; no code is ever loaded from a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pacbandits.errors import InputError, nearest
from pacbandits.policies.base import PolicyClass, whole_number
from pacbandits.policies.features import map_from_json
from pacbandits.policies.finite import Finite, TablePolicy
from pacbandits.policies.greedy import GreedyPolicy
from pacbandits.policies.linear import Linear, LinearPolicy
from pacbandits.policies.trees import DeepTrees, TreePolicy, Trees
from pacbandits.policies.trees.bins import Bins, Cuts, Labels
from pacbandits.policies.trivial import Trivial
from pacbandits.records import Policy

KINDS: dict[str, Callable[[dict[str, Any]], Policy]] = {
    TablePolicy.kind: TablePolicy.from_json,
    TreePolicy.kind: TreePolicy.from_json,
    GreedyPolicy.kind: GreedyPolicy.from_json,
    LinearPolicy.kind: LinearPolicy.from_json,
}


def policy_from_json(value: object) -> Policy:
    """The policy that `to_json` described."""
    if not isinstance(value, dict):
        raise InputError(f"a policy in JSON must be an object, got {type(value).__name__}")
    policy = cast(dict[str, Any], value)
    kind = policy.get("kind")
    if not isinstance(kind, str):
        raise InputError("a policy in JSON must be an object with a 'kind'")
    if kind not in KINDS:
        raise InputError(f"unknown kind of policy '{kind}'{nearest(kind, KINDS)}")
    try:
        return KINDS[kind](policy)
    except KeyError as missing:
        raise InputError(f"a policy of kind '{kind}' in JSON lacks {missing}") from None


def class_to_json(policies: PolicyClass) -> dict[str, Any]:
    """A policy class as what JSON knows; a sentence for one that has no such form."""
    if isinstance(policies, Finite):
        return {"kind": "finite", "n_actions": policies.n_actions, "table": policies.table.tolist()}
    if isinstance(policies, Trivial):
        return {"kind": "trivial", "n_actions": policies.n_actions, "n_contexts": policies.n_contexts}
    if isinstance(policies, Trees | DeepTrees):
        features = [
            {"name": f.name, "thresholds": list(f.thresholds)}
            if isinstance(f, Cuts)
            else {"name": f.name, "labels": list(f.labels)}
            for f in policies.bins.features
        ]
        return {"kind": "trees", "n_actions": policies.n_actions, "depth": policies.depth, "features": features}
    if isinstance(policies, Linear):
        return {"kind": "linear", "map": policies.map.to_json(), "levels": policies.levels, "oracle": policies.oracle}
    raise InputError(f"the policy class {type(policies).__name__} has no description in JSON")


def class_from_json(value: object) -> PolicyClass:
    """The policy class that `class_to_json` described."""
    given = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    try:
        if given.get("kind") == "finite":
            return Finite(given["table"], n_actions=whole_number(given["n_actions"], name="n_actions"))
        if given.get("kind") == "trivial":
            size, n_actions = given["n_contexts"], given["n_actions"]
            return Trivial(whole_number(size, name="n_contexts"), whole_number(n_actions, name="n_actions"))
        if given.get("kind") == "trees":
            features = tuple(
                Cuts(str(f["name"]), tuple(float(x) for x in f["thresholds"]))
                if "thresholds" in f
                else Labels(str(f["name"]), tuple(str(x) for x in f["labels"]))
                for f in given["features"]
            )
            n_actions, depth = (whole_number(given[name], name=name) for name in ("n_actions", "depth"))
            return (Trees if depth <= 2 else DeepTrees)(Bins(features), n_actions=n_actions, depth=depth)
        if given.get("kind") == "linear":
            levels = whole_number(given["levels"], name="levels")
            return Linear(map_from_json(given["map"]), levels=levels, oracle=str(given["oracle"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the policy class in JSON cannot be read: {error}") from None
    raise InputError("a policy class in JSON must be an object of kind finite, trivial, trees or linear")
