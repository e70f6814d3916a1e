"""The design problem over contexts that are read a block at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pacbandits.allocation import check_floor
from pacbandits.arrays import FloatArray, floats
from pacbandits.checks import instance, settle
from pacbandits.design.scale import GapScale
from pacbandits.engines.base import Source
from pacbandits.engines.memory import ContextsSource, LogSource
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.records import Contexts, Log, Policy, check_policy

OfContexts = Callable[[Contexts], FloatArray]


@dataclass(frozen=True, eq=False)
class LargeTask:
    """`min_p max_π V_π(p; q)/d(Δ_π)²` over a class, where every row of a source is a context and all count alike.

    policies: Π, a class that is searched by sums over rows.
    source: the contexts, or where they come from; of the rows of a log nothing else is looked at, not even how often
        each of them occurred.
    means: makes mean rewards (n, A) in [0, 1] of any n contexts, such as `predict` of a fitted reward model; the gap of
        a policy is what it earns less than q by these.
    scale: d.
    reference: q; the policy of the class that earns most if none is given.
    noise: makes variances σ² (n, A) in [0, 1] of any n contexts; ones if there is none.
    floor: the least probability of every action.
    """

    policies: PolicyClass
    source: Source | Contexts | Log
    means: OfContexts = field(kw_only=True)
    scale: GapScale = field(kw_only=True)
    reference: Policy | None = field(kw_only=True, default=None)
    noise: OfContexts | None = field(kw_only=True, default=None)
    floor: float = field(kw_only=True, default=0.0)

    def __post_init__(self) -> None:
        instance(self.scale, GapScale, name="scale", remedy="Clipped(epsilon) is one")
        if not self.scale(np.zeros(1))[0] > 0:
            raise InputError(
                "over many contexts some policies hardly differ: the scale needs an epsilon above 0, got 0"
            )
        if not isinstance(self.source, Contexts | Log):
            instance(self.source, Source, name="source", remedy="Contexts will do")
        if self.reference is not None:
            check_policy(self.reference, name="reference")
        _check_function(self.means, name="means")
        if self.noise is not None:
            _check_function(self.noise, name="noise")
        settle(self, policies=check_class(self.policies))
        settle(self, floor=check_floor(self.floor, n_actions=self.policies.n_actions))

    @property
    def rows(self) -> Source:
        """Where the contexts come from."""
        if isinstance(self.source, Contexts):
            return ContextsSource(self.source)
        return LogSource(self.source) if isinstance(self.source, Log) else self.source


def _check_function(given: object, *, name: str) -> None:
    if not callable(given) or isinstance(given, type):
        raise InputError(f"{name} must be a function of contexts, got {type(given).__name__}")


def shares(made: OfContexts, contexts: Contexts, *, n_actions: int, name: str) -> FloatArray:
    """What a function makes of contexts, as (n, A) numbers in [0, 1], or a sentence."""
    got = floats(made(contexts), name=name, shape=(len(contexts), n_actions))
    if got.size and (got.min() < 0 or got.max() > 1):
        worst = got.min() if got.min() < 0 else got.max()
        raise InputError(f"{name} must lie between 0 and 1, got {worst:.6g}; rewards are counted in such units")
    return got
