"""The interface of a feature map, and what a map may offer beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.decisions import Term
from pacbandits.policies.features.rows import FeatureRows, Mapped
from pacbandits.records import Contexts

MAX_STORED_DIMENSION = 10**5  # of φ, in a file


@runtime_checkable
class FeatureMap(Protocol):
    """A map from contexts to φ (n, A, d)."""

    @property
    def n_actions(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]:
        """What each of the d coordinates is, in words."""
        ...

    def __call__(self, contexts: Contexts) -> FloatArray:
        """φ (n, A, d)."""
        ...

    def on(self, contexts: Contexts) -> Mapped:
        """φ on these contexts without spelling it out."""
        ...

    def played(self, contexts: Contexts, actions: IntArray) -> FloatArray:
        """φ(c, a) (n, d) of one action a context, actions (n,)."""
        ...

    def to_json(self) -> dict[str, Any]: ...


@runtime_checkable
class BlockMap(FeatureMap, Protocol):
    """A feature map that may have coefficients of its own for each action.

    in_blocks: whether it has.
    """

    @property
    def in_blocks(self) -> bool: ...


@runtime_checkable
class CompactMap(FeatureMap, Protocol):
    """A feature map that knows a compact form of φ, and words for its scores; that of another map is spelled out."""

    def check_effect(self) -> None:
        """Raise when scores cannot depend on the action, whatever the parameter."""
        ...

    def lay_out(self, contexts: Contexts) -> tuple[FeatureRows, IntArray | None]:
        """φ of the m different contexts, and which (n,) of them each is; None: they are the contexts, in order."""
        ...

    def describe_columns(self) -> list[str]:
        """What the coordinates are made from, line by line."""
        ...

    def describe_scores(self, parameter: Sequence[int]) -> list[str]:
        """The policy that takes the action of largest score under a parameter (d,) that is not zero, line by line."""
        ...


@runtime_checkable
class PlainMap(FeatureMap, Protocol):
    """A feature map whose scores can be written down in another language, to the last bit."""

    def score_terms(self, parameter: Sequence[int]) -> tuple[tuple[Term, ...], ...]:
        """What the score of each action adds up, in order, under a parameter (d,)."""
        ...
