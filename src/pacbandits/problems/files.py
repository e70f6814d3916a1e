"""Problem files: a finite problem in an `.npz`, read without executing anything in it.

context_weights (N,)    ν, sums to one
mean_rewards (N, A)     r(c, a)
policy_actions (K, N)   integers: the action of policy k in context c
noise_variance (N, A)   optional: Gaussian noise of this variance; without it rewards are Bernoulli
action_features (N, A, d)  optional: φ(c, a), for linear policies and for rewards that are linear in it
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, check_shape, floats, probabilities
from pacbandits.checks import instance, path_of
from pacbandits.errors import InputError, nearest, plain
from pacbandits.policies.finite import Finite
from pacbandits.problems.base import Problem, RealizableTruth
from pacbandits.problems.noise import MAX_MAGNITUDE, VARIANCE_ARRAY, StoredNoise, noise_from_arrays
from pacbandits.records import Contexts
from pacbandits.records.npz import open_arrays, write_arrays
from pacbandits.records.text_files import naming

NEEDED_ARRAYS = ("context_weights", "mean_rewards", "policy_actions")
OPTIONAL_ARRAYS = (VARIANCE_ARRAY, "action_features")

Arrays = dict[str, NDArray[Any]]


def load_file(path: str | Path) -> Problem:
    """Return the problem in a file."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    with naming(path):
        with open_arrays(path) as file:
            _check_names(file.names)
            arrays = file.read(file.names)
        for name in file.names:
            if name not in arrays:
                raise InputError(f"array '{name}' holds Python objects, which are never loaded; store numbers")
        return _problem(arrays, name=path.name)


def save_problem(problem: Problem, path: str | Path) -> None:
    """Write a problem with a finite class to a file that `load_problem` reads.

    The file holds weights, means, noise, policies and φ; other features, names and descriptions are lost.
    """
    path = path_of(path)
    instance(problem, Problem, name="problem")
    if path.suffix != ".npz":
        raise InputError(f"a problem file ends in .npz, got {path}")
    if not problem.policies.lists_policies:
        raise InputError(
            f"only a problem with a policy class that can be listed can be saved; {problem.name} has "
            f"{problem.policies.type_name}"
        )
    if not isinstance(problem.noise, StoredNoise):
        raise InputError(
            f"a problem file holds Bernoulli or Gaussian rewards; {problem.name} has {problem.noise.name} ones"
        )
    arrays: Arrays = {
        "context_weights": problem.population.weights,
        "mean_rewards": problem.mean_rewards,
        "policy_actions": np.asarray(problem.policies.actions(problem.population)),
        **problem.noise.to_arrays(problem.mean_rewards),
    }
    if problem.population.phi is not None:
        arrays["action_features"] = problem.population.phi.array
    try:
        write_arrays(path, arrays)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def _check_names(names: tuple[str, ...]) -> None:
    for name in NEEDED_ARRAYS:
        if name not in names:
            there = plain(", ".join(sorted(names)) or "none")
            raise InputError(f"array '{name}' is missing (there are: {there})")
    for name in names:
        if name not in NEEDED_ARRAYS + OPTIONAL_ARRAYS:
            raise InputError(f"unknown array '{plain(name)}'{nearest(name, NEEDED_ARRAYS + OPTIONAL_ARRAYS)}")


def _problem(arrays: Arrays, *, name: str) -> Problem:
    weights = probabilities(arrays["context_weights"], name="context_weights")
    n = len(weights)
    means, table = arrays["mean_rewards"], arrays["policy_actions"]
    try:
        check_shape(means, name="mean_rewards", shape=(n, None))
        check_shape(table, name="policy_actions", shape=(None, n))
    except InputError as error:
        raise InputError(f"{error} (context_weights has shape {weights.shape})") from None
    policies = Finite(table, n_actions=means.shape[1])
    phi = arrays.get("action_features")
    if phi is not None:
        check_shape(phi, name="action_features", shape=(n, means.shape[1], None))
        _check_magnitude(floats(phi, name="action_features", shape=phi.shape))
    return Problem(
        name=name,
        description=f"{len(policies)} policies on {n} contexts and {means.shape[1]} actions, from a file.",
        population=Contexts.finite(n, weights=weights, phi=phi),
        mean_rewards=means,
        noise=noise_from_arrays(arrays),
        policies=policies,
        realizable=None if phi is None else _linear(floats(phi, name="action_features", shape=phi.shape), means),
    )


def _check_magnitude(phi: FloatArray) -> None:
    """Raise if squares of the features would overflow or underflow."""
    largest = float(np.abs(phi).max(initial=0.0))
    if largest > MAX_MAGNITUDE or 0 < largest < 1 / MAX_MAGNITUDE:
        raise InputError(
            f"action_features with {largest:.6g} as the largest cannot be computed with; give them other units"
        )


def _linear(phi: FloatArray, means: NDArray[Any]) -> RealizableTruth | None:
    """Return φ and θ* if the means (N, A) are linear in φ (N, A, d), else None."""
    targets = floats(means, name="mean_rewards", shape=phi.shape[:2])
    parameter = np.asarray(np.linalg.pinv(phi.reshape(-1, phi.shape[2])), dtype=np.float64) @ targets.reshape(-1)
    fits = np.allclose(phi @ parameter, targets, rtol=0, atol=1e-9)
    return RealizableTruth(phi, parameter) if fits else None
