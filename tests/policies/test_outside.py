"""A policy class from outside the package: everything it is in one place, and nothing about it in any registry."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.policies import class_from_json, class_to_json
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.registry import describe_class


@dataclass(frozen=True)
class StepPolicy:
    """Action 1 where the feature x exceeds a threshold, else action 0."""

    threshold: float
    n_actions: int = 2

    def __call__(self, contexts: pb.Contexts) -> np.ndarray:
        return (contexts.features[:, contexts.names.index("x")] > self.threshold).astype(np.int64)

    def describe(self) -> str:
        return f"action 1 where x > {self.threshold:g}, else action 0"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "step", "threshold": self.threshold}


@dataclass(frozen=True)
class Steps:
    """All step policies with one of the given thresholds."""

    thresholds: tuple[float, ...]

    n_actions = 2
    exact = True

    @property
    def log_size(self) -> float:
        return math.log(len(self.thresholds))

    def argmax(self, contexts: pb.Contexts, scores: np.ndarray) -> StepPolicy:
        rows = np.arange(len(contexts))
        found = [StepPolicy(threshold) for threshold in self.thresholds]
        return max(found, key=lambda policy: scores[rows, policy(contexts)].sum())

    def describe(self) -> str:
        return "steps"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "steps", "thresholds": list(self.thresholds)}

    def policy_from_json(self, value: dict[str, Any]) -> StepPolicy:
        return StepPolicy(float(value["threshold"]))


STEPS = Steps((-1.0, 0.0, 1.0))


def problem() -> pb.Problem:
    x = np.linspace(-2, 2, 20)
    return pb.Problem(
        name="steps",
        description="Action 1 is better from 0 on.",
        population=pb.Contexts.of(x[:, None], names=["x"], ids=np.arange(20)),
        mean_rewards=np.column_stack([np.full(20, 0.5), np.where(x > 0, 0.9, 0.1)]),
        noise=pb.Bernoulli(),
        policies=STEPS,
    )


def test_it_runs_and_is_certified_and_saved(tmp_path) -> None:
    done = pb.run(problem(), epsilon=0.1, delta=0.05, rng=0)
    assert done.policy == StepPolicy(0.0)
    assert done.certificate is not None
    assert done.log is not None
    path = tmp_path / "certificate.json"
    pb.save_certificate(path, done.certificate, STEPS)
    proof = pb.load_certificate(path, STEPS)
    assert proof.policies is STEPS
    assert proof.policy.chosen == StepPolicy(0.0)
    assert pb.verify(proof.certificate, done.log, STEPS).good
    with pytest.raises(pb.InputError, match="no code is ever loaded from a file"):
        pb.load_certificate(path)


def test_its_words_and_its_json() -> None:
    assert describe_class(STEPS) == "steps, 3 policies on 2 actions"
    written = json.loads(json.dumps(class_to_json(STEPS)))
    assert class_from_json(written, STEPS) is STEPS
    with pytest.raises(pb.InputError, match="is another than the one given"):
        class_from_json(written, Steps((0.0,)))
    with pytest.raises(pb.InputError, match="unknown kind of policy class 'steps'"):
        class_from_json(written)
    with pytest.raises(pb.InputError, match="kind 'trivial' is another than the one given"):
        class_from_json(class_to_json(pb.Trivial(2, 2)), STEPS)


def test_an_object_with_the_required_members_is_wrapped_with_what_it_can_do() -> None:
    made, bare = check_class(STEPS), check_class(ArgmaxOnly())
    assert check_class(made) is made
    assert made == check_class(Steps((-1.0, 0.0, 1.0)))
    assert [flag for flag in PolicyClass.flags if getattr(made, flag)] == ["reads_policies"]
    assert not any(getattr(bare, flag) for flag in PolicyClass.flags)
    assert (made.type_name, made.describe(), made.thresholds) == ("Steps", "steps", STEPS.thresholds)
    assert pickle.loads(pickle.dumps(made)) == made
    assert problem().policies == made
    with pytest.raises(pb.InputError, match="ArgmaxOnly cannot find the frontier of two scores"):
        bare.frontier(problem().population, np.zeros((20, 2)), np.zeros((20, 2)))
    with pytest.raises(AttributeError, match="colour"):
        _ = made.colour


def test_a_subclass_has_the_capabilities_whose_methods_it_defines() -> None:
    class Listed(pb.PolicyClass):
        """Two constant policies."""

        n_actions, log_size, exact = 2, math.log(2), True

        def __len__(self) -> int:
            return 2

        def policy(self, index: int) -> StepPolicy:
            return StepPolicy(-math.inf if index else math.inf)

        def actions(self, contexts: pb.Contexts) -> np.ndarray:
            return np.stack([np.zeros(len(contexts), dtype=np.uint8), np.ones(len(contexts), dtype=np.uint8)])

        def argmax(self, contexts: pb.Contexts, scores: np.ndarray) -> StepPolicy:
            return self.policy(int(np.argmax(scores.sum(axis=0))))

    assert [flag for flag in PolicyClass.flags if getattr(Listed(), flag)] == ["lists_policies"]
    done = pb.run(problem(), Listed(), epsilon=0.1, delta=0.05, rng=0)
    assert done.policy == StepPolicy(math.inf)

    class Nameless(pb.PolicyClass):
        n_actions, exact = 2, True

        def argmax(self, contexts: pb.Contexts, scores: np.ndarray) -> StepPolicy:
            return StepPolicy(0.0)

    with pytest.raises(pb.InputError, match="Nameless lacks log_size"):
        check_class(Nameless())


def test_it_reads_its_own_policies() -> None:
    policy = StepPolicy(1.0)
    assert pb.policy_from_json(json.loads(json.dumps(policy.to_json())), STEPS) == policy
    with pytest.raises(pb.InputError, match="unknown kind of policy 'step'"):
        pb.policy_from_json(policy.to_json())
    with pytest.raises(pb.InputError, match="of kind 'step' in JSON lacks 'threshold'"):
        pb.policy_from_json({"kind": "step"}, STEPS)
    table = pb.Finite([[0, 1]], n_actions=2).policy(0)
    assert pb.policy_from_json(table.to_json(), STEPS).describe() == table.describe()


Count = Annotated[int, pb.About("how many thresholds", least=1, most=9)]


class ArgmaxOnly:
    """No more than the interface asks for."""

    n_actions, log_size, exact = 2, STEPS.log_size, True

    def argmax(self, contexts: pb.Contexts, scores: np.ndarray) -> StepPolicy:
        return STEPS.argmax(contexts, scores)


def test_what_has_no_json_says_so() -> None:
    assert describe_class(ArgmaxOnly()) == "ArgmaxOnly, 3 policies on 2 actions"
    for ask in (class_to_json, lambda own: class_from_json({"kind": "steps"}, own)):
        with pytest.raises(pb.InputError, match=r"ArgmaxOnly has no description in JSON \(no to_json\)"):
            ask(ArgmaxOnly())


def test_a_function_makes_a_class_with_a_name_and_options() -> None:
    @pb.policy_class("steps", description="one action below a threshold, another above")
    def steps(contexts: pb.Contexts, *, n_actions: int, count: Count = 3) -> Steps:
        return Steps(tuple(np.quantile(contexts.features[:, 0], np.linspace(0, 1, count)).tolist()))

    contexts = problem().population
    assert (steps.name, [option.name for option in steps.options]) == ("steps", ["count"])
    assert len(steps(contexts, n_actions=2).thresholds) == 3
    assert len(steps(contexts, n_actions=2, count=5).thresholds) == 5
    assert len(steps.from_text({"count": "4"}, contexts, n_actions=2).thresholds) == 4
    with pytest.raises(pb.InputError, match="count must be an integer from 1 to 9, got 10"):
        steps(contexts, n_actions=2, count=10)
    with pytest.raises(pb.InputError, match="policy class 'steps' has no option 'size'"):
        steps(contexts, n_actions=2, size=10)
