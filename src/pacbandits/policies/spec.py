"""What makes a function a policy class that can be called by its name: declared options, checked.

    @policy_class("halves", description="one action below a threshold, another above")
    def halves(contexts, *, n_actions, at: Annotated[float, About("the threshold")] = 0.5): ...

makes `halves(contexts, n_actions=2, at=0.3)`, which checks its options, and knows its name, description and options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pacbandits.checks import text
from pacbandits.options import Option, check_options, declared_options, read_options
from pacbandits.policies.base import PolicyClass, check_n_actions
from pacbandits.records import Contexts, check_contexts


@dataclass(frozen=True, eq=False)
class ClassSpec:
    """A policy class by its name.

    name: what a spec calls it.
    description: one line.
    options: what it takes.
    build: makes the class for contexts, `n_actions` and options.
    learns: whether the class depends on more of the contexts than which ones there are.
    sharing: options by which it depends on shares of the contexts, so that it takes many of them.
    restricted: says in words what options, as a spec spells them, restrict it to, given how many contexts there were.
    """

    name: str
    description: str
    options: tuple[Option, ...]
    build: Callable[..., PolicyClass]
    learns: bool = True
    sharing: frozenset[str] = frozenset()
    restricted: Callable[[Mapping[str, str], int], str] | None = None

    def __call__(self, contexts: Contexts, *, n_actions: int, **options: Any) -> PolicyClass:
        """The class for these contexts."""
        check_contexts(contexts)
        check_n_actions(n_actions)
        checked: dict[str, Any] = check_options(options, self.options, of=f"policy class '{self.name}'")
        return self.build(contexts, n_actions=n_actions, **checked)

    def from_text(self, given: Mapping[str, str], contexts: Contexts, *, n_actions: int) -> PolicyClass:
        """The class for these contexts, and options as a spec spells them."""
        options: dict[str, Any] = read_options(given, self.options, of=f"policy class '{self.name}'")
        return self.build(contexts, n_actions=n_actions, **options)


def policy_class(
    name: str, *, description: str, learns: bool = True
) -> Callable[[Callable[..., PolicyClass]], ClassSpec]:
    """Turn a function of contexts, `n_actions` and declared options into a policy class with a name.

    learns: whether the class depends on more of the contexts than which ones there are.
    """
    text(name, name="name")
    text(description, name="description")

    def declare(function: Callable[..., PolicyClass]) -> ClassSpec:
        return ClassSpec(name, description, declared_options(function), function, learns)

    return declare
