"""The interface of a policy class, and the frontier that some classes can offer beside the argmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from pacbandits.errors import FloatArray, InputError, floats
from pacbandits.records import Contexts, Policy


@runtime_checkable
class PolicyClass(Protocol):
    """A set Π of policies, known through its size and its argmax oracle.

    n_actions: how many actions there are. log_size: log|Π|, or an upper bound on it. exact: whether `argmax` finds a
    true maximiser, on which a guarantee may rest.
    """

    @property
    def n_actions(self) -> int: ...
    @property
    def log_size(self) -> float: ...
    @property
    def exact(self) -> bool: ...

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """A policy that maximises `Σ_i scores[i, π(c_i)]`, for scores (n, A) of any sign; ties break the same way always.

        The weights of the contexts play no part: whoever makes the scores has multiplied them in.
        """
        ...


@runtime_checkable
class FrontierClass(PolicyClass, Protocol):
    """A policy class that can also say what two scores can be had together."""

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of `(Σ first[i, π(c_i)], Σ second[i, π(c_i)])` over Π, both to be large."""
        ...


@runtime_checkable
class EnumeratedClass(PolicyClass, Protocol):
    """A policy class small enough to list."""

    def __len__(self) -> int: ...
    def policy(self, index: int) -> Policy: ...
    def actions(self, contexts: Contexts) -> FloatArray | np.ndarray[tuple[int, int], np.dtype[np.unsignedinteger]]:
        """The action (|Π|, n) of every policy on every context."""
        ...


@dataclass(frozen=True, eq=False)
class Frontier:
    """Points that together dominate every policy of a class, and policies that reach them.

    first (m,) strictly decreasing, second (m,) strictly increasing. When `exact`, `policy(i)` attains point i and no
    policy attains more. Otherwise points were rounded outward: every policy is still dominated by some point, so the
    maximum of a function monotone in both is a valid upper bound, and `policy(i)` comes close to point i from below.
    """

    first: FloatArray
    second: FloatArray
    exact: bool
    build: Callable[[int], Policy]

    def __len__(self) -> int:
        return self.first.shape[0]

    def policy(self, index: int) -> Policy:
        """A policy at (or, when rounded, near) the given point."""
        return self.build(int(index))


def check_scores(scores: FloatArray, *, contexts: Contexts, n_actions: int, name: str = "scores") -> FloatArray:
    """Scores as a finite (n, A) array, or a sentence."""
    array = np.asarray(scores)
    if array.shape == (len(contexts), n_actions) and array.dtype == np.float64:
        if not np.isfinite(array).all():
            raise InputError(f"{name} must be finite")
        return array
    return floats(scores, name=name, shape=(len(contexts), n_actions))


def compact(n_actions: int) -> type[np.unsignedinteger]:
    """The smallest unsigned integer type that holds an action."""
    return np.uint8 if n_actions <= 256 else np.uint16 if n_actions <= 65536 else np.uint32
