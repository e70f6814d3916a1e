"""What a policy class makes of contexts, kept for as long as these are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from pacbandits.records import Contexts

Made = TypeVar("Made")


class PerContexts(Generic[Made]):
    """A memory of what was made of contexts: designs ask about the same ones again and again.

    It holds no contexts itself. What is made must not hold them either, or it would keep them, and itself, for ever.
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Contexts, Made] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._made)

    def __reduce__(self) -> tuple[type[PerContexts[Made]], tuple[()]]:
        """Another process begins with no memories."""
        return PerContexts, ()

    def get(self, contexts: Contexts, make: Callable[[Contexts], Made]) -> Made:
        """What was made of these contexts before, or else is made now."""
        made = self._made.get(contexts)
        if made is None:
            made = self._made[contexts] = make(contexts)
        return made
