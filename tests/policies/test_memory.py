"""What is made of contexts is made once, and goes with them."""

from __future__ import annotations

import gc
import pickle
import weakref

from pacbandits.policies.base import PerContexts
from pacbandits.records import Contexts


def test_made_once_for_each_contexts() -> None:
    memory: PerContexts[int] = PerContexts()
    asked: list[int] = []

    def count(contexts: Contexts) -> int:
        asked.append(len(contexts))
        return len(contexts)

    three, four = Contexts.finite(3), Contexts.finite(4)
    assert [memory.get(one, count) for one in (three, four, three, four)] == [3, 4, 3, 4]
    assert asked == [3, 4]
    # Contexts that look alike are others: what they are is compared by no one.
    assert memory.get(Contexts.finite(3), count) == 3
    assert asked == [3, 4, 3]


def test_forgotten_with_the_contexts() -> None:
    memory: PerContexts[list[int]] = PerContexts()
    contexts = Contexts.finite(3)
    memory.get(contexts, lambda own: [len(own)])
    assert len(memory) == 1
    alive = weakref.ref(contexts)
    del contexts
    gc.collect()
    assert alive() is None
    assert len(memory) == 0


def test_another_process_begins_with_no_memories() -> None:
    memory: PerContexts[int] = PerContexts()
    contexts = Contexts.finite(3)
    memory.get(contexts, len)
    assert len(pickle.loads(pickle.dumps(memory))) == 0
    assert len(memory) == 1
