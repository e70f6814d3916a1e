"""Policy classes by name, for a problem's population: `trivial`, `trees:depth=2,bins=16`, `linear:levels=4`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pacbandits.errors import InputError, nearest
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.linear import Linear
from pacbandits.policies.trees import DeepTrees, Trees
from pacbandits.policies.trivial import Trivial
from pacbandits.problems.base import Problem
from pacbandits.problems.options import About, declared_options, parse_spec
from pacbandits.records import Contexts

Depth = Annotated[int, About("how many questions a tree asks at the most", least=0, most=8)]
Bins = Annotated[int, About("how many bins a number is cut into at the most", least=2, most=256)]
Levels = Annotated[int, About("the largest coefficient; 0: what suits how many there are", least=0, most=1000)]
OracleName = Annotated[Literal["auto", "list", "milp", "search"], About("how the best linear policy is found")]


def load_policies(spec: str, problem: Problem) -> PolicyClass:
    """The policy class of a spec `name:key=value,…` on a problem's contexts."""
    return load_policies_for(spec, problem.population, n_actions=problem.n_actions, of=f"of '{problem.name}' ")


def load_policies_for(spec: str, contexts: Contexts, *, n_actions: int, of: str = "") -> PolicyClass:
    """The policy class of a spec `name:key=value,…` on given contexts."""

    def trivial() -> PolicyClass:
        if contexts.ids is None:
            raise InputError(f"the trivial class is over a finite context set, but the contexts {of}have no ids")
        return Trivial(int(contexts.ids.max()) + 1, n_actions)

    def trees(depth: Depth = 2, bins: Bins = 32) -> PolicyClass:
        if contexts.n_features == 0:
            raise InputError(f"trees ask about features, but the contexts {of}have none")
        kind = Trees if depth <= 2 else DeepTrees
        return kind.learn(contexts, n_actions=n_actions, depth=depth, bins=bins)

    def linear(levels: Levels = 0, oracle: OracleName = "auto") -> PolicyClass:
        if contexts.n_features == 0 and contexts.phi is None:
            raise InputError(f"linear policies need features or phi, but the contexts {of}have neither")
        return Linear.learn(contexts, n_actions=n_actions, levels=levels or None, oracle=oracle)

    classes: dict[str, Callable[..., PolicyClass]] = {"trivial": trivial, "trees": trees, "linear": linear}
    name, given = parse_spec(spec, of="policy class")
    if name not in classes:
        raise InputError(f"unknown policy class '{name[:80]}'{nearest(name, classes)}")
    options = {option.name: option for option in declared_options(classes[name])}
    for key in given:
        if key not in options:
            raise InputError(f"policy class '{name}' has no option '{key[:80]}'{nearest(key, options)}")
    return classes[name](**{key: options[key].read(text) for key, text in given.items()})
