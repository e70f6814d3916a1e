"""The registry of built-in problems, and `load_problem`."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pacbandits.checks import shown
from pacbandits.errors import InputError, nearest, plain
from pacbandits.options import parse_spec
from pacbandits.policies import registry
from pacbandits.policies.base import PolicyClass
from pacbandits.problems.actg175 import actg175
from pacbandits.problems.base import Problem
from pacbandits.problems.built_in import BuiltIn
from pacbandits.problems.classification import breast_cancer, digits, iris, wine
from pacbandits.problems.files import load_file
from pacbandits.problems.hard import hard, hard_coins
from pacbandits.problems.linear import linear
from pacbandits.problems.random_policies import random_policies
from pacbandits.problems.trees import trees
from pacbandits.problems.trivial import trivial
from pacbandits.problems.two_of_many import two_of_many

BUILT_INS: dict[str, BuiltIn[...]] = {
    problem.name: problem
    for problem in (
        hard,
        hard_coins,
        random_policies,
        two_of_many,
        trees,
        trivial,
        linear,
        digits,
        wine,
        iris,
        breast_cancer,
        actg175,
    )
}


def load_problem(spec: str | Path) -> Problem:
    """Return the problem of a spec `name:key=value,…`, or of a file whose path ends in `.npz`.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("trees:actions=4,contexts=500")
    >>> problem.n_actions, len(problem.population)
    (4, 500)

    Raises:
        InputError: If there is no such problem, option or file; the message names the nearest.
    """
    if not isinstance(cast(object, spec), str | Path):
        raise InputError(f"spec must be the name of a problem or the path of its file, got {shown(spec)}")
    text = str(spec)
    if text.endswith(".npz"):
        return load_file(text)
    if Path(text).suffix and Path(text).is_file():
        raise InputError(f"a problem file ends in .npz, got {text}")
    name, options = parse_spec(text)
    if name not in BUILT_INS:
        raise InputError(f"unknown problem '{plain(name)}'{nearest(name, BUILT_INS)}; a problem file ends in .npz")
    return BUILT_INS[name].from_text(options)


def list_problems() -> tuple[BuiltIn[...], ...]:
    """Return the built-in problems, each with its name, description and options."""
    return tuple(BUILT_INS.values())


def load_policies_for(spec: str, problem: Problem) -> PolicyClass:
    """Return the policy class of a spec `name:key=value,…` on a problem's contexts."""
    return registry.load_policies(spec, problem.population, n_actions=problem.n_actions)
