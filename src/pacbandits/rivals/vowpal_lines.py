"""Write contexts and actions for Vowpal Wabbit, and read back the weights that it learns.

    shared |c x0:0.5 x1:-1.2        one line for the context: its features, or an indicator of its id
    |a a0                           one line for each action
    2:-1:0.25 |a a1                 with action:cost:probability on the one that was played

With `-q ca` each coordinate of the context is also crossed with each action, so that costs are a line in the context
for every action. Where contexts carry joint features φ(c, a) these stand on the actions' lines, `|p p0:… p1:…`, and
nothing on that of the context.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.features import Category, Crossed, Encoder, Given, NumberEncoder
from pacbandits.policies.finite import TablePolicy
from pacbandits.policies.linear.policy import GreedyPolicy
from pacbandits.records import Contexts, Policy
from pacbandits.rivals.regression import ContextCoordinates

Kind = Literal["phi", "features", "ids"]

CROSSED = "ca"  # what `-q` crosses: contexts and actions
_HASH_PRIME = np.uint64(16777619)  # with which Vowpal Wabbit makes the place of a crossed weight from two others


@dataclass(frozen=True, eq=False)
class Lines:
    """The format of contexts and actions: φ if there is one, else features, else ids.

    kind: which of these.
    n_actions: how many there are.
    coordinates: of features, fixed beforehand.
    """

    kind: Kind
    n_actions: int
    coordinates: ContextCoordinates

    @classmethod
    def of(cls, contexts: Contexts, *, n_actions: int) -> Lines:
        """Return the format that these contexts suggest."""
        kind: Kind = "features"
        if contexts.phi is not None:
            contexts.require_phi(n_actions=n_actions)
            kind = "phi"
        elif not contexts.n_features and contexts.ids is not None:
            kind = "ids"
        return cls(kind, n_actions, ContextCoordinates.of(contexts))

    def width(self, contexts: Contexts) -> int:
        """Return the number of weights for contexts like these."""
        if contexts.phi is not None:
            return 1 + contexts.phi.dimension
        columns = len(contexts) if self.kind == "ids" else self._columns(contexts.take([0])).shape[1]
        return (1 + columns) * (1 + self.n_actions)

    @property
    def actions(self) -> list[str]:
        """The lines of the actions where they are the same for all contexts, which is where there is no φ."""
        return [f"|a a{action}" for action in range(self.n_actions)]

    def written(self, contexts: Contexts) -> Iterator[list[str]]:
        """Return for each context its line, followed by those of the actions."""
        if self.kind == "phi":
            for rows in contexts.require_phi(n_actions=self.n_actions).array.tolist():
                yield ["shared |c", *("|p" + _written("p", row) for row in rows)]
            return
        actions = self.actions
        if self.kind == "ids":
            yield from ([f"shared |c c{one}", *actions] for one in _ids(contexts).tolist())
        else:
            yield from (["shared |c" + _written("x", row), *actions] for row in self._columns(contexts).tolist())

    def probes(self, contexts: Contexts) -> list[str]:
        """Lines from whose features the places of all weights are read: first those of contexts or φ, then actions."""
        if contexts.phi is not None:
            return ["|p" + _written("p", [1.0] * contexts.phi.dimension)]
        if self.kind == "ids":
            first = "shared |c" + "".join(f" c{one}" for one in _ids(contexts).tolist())
        else:
            first = "shared |c" + _written("x", [1.0] * self._columns(contexts.take([0])).shape[1])
        return [first, *self.actions]

    def _columns(self, contexts: Contexts) -> FloatArray:
        return self.coordinates(contexts)[:, 1:]  # Vowpal Wabbit has a constant of its own


def read_weights(workspace: Any, examples: list[Any]) -> FloatArray:
    """Weights of the first scorer at the features of `Lines.probes`: (1 + d,) with φ, else (1 + d, A), constant first.

    Of contexts and actions, entry (j, a) is what coordinate j adds to the cost of action a, crossed or not, and entry
    (0, a) what the action costs by itself.
    """
    mask = workspace.num_weights() - 1

    def weights(places: NDArray[np.uint64]) -> FloatArray:
        flat = (places.reshape(-1) & np.uint64(mask)).tolist()
        return np.array([workspace.get_weight(place, 0) for place in flat], dtype=np.float64).reshape(places.shape)

    # The constant is the last feature of a line.
    places = [np.array([place for place, _ in one.iter_features()], dtype=np.uint64) for one in examples]
    own = weights(places[0])
    if len(examples) == 1:
        return np.roll(own, 1)
    actions = np.array([place[0] for place in places[1:]], dtype=np.uint64)
    crossed = weights(np.bitwise_xor(places[0][:-1, None] * _HASH_PRIME, actions))
    return np.vstack([own[-1] + weights(actions), own[:-1, None] + crossed])


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs that are linear in the written features.

    lines: what that is.
    weights: of `read_weights`.
    ids (d,): whose indicators the weights are of; or None.
    """

    lines: Lines
    weights: FloatArray
    ids: IntArray | None

    def __call__(self, contexts: Contexts) -> FloatArray:
        """Costs (n, A); an id without a weight adds nothing."""
        if contexts.phi is not None:
            return self.weights[0] + contexts.phi.array @ self.weights[1:]
        if self.ids is None:
            return self.lines.coordinates(contexts) @ self.weights
        return self.of_ids(_ids(contexts))

    def of_ids(self, ids: IntArray) -> FloatArray:
        """Costs (n, A) of contexts that are known by their ids alone."""
        assert self.ids is not None
        order = np.argsort(self.ids)
        where = order[np.minimum(np.searchsorted(self.ids[order], ids), len(order) - 1)]
        return self.weights[0] + np.where((self.ids[where] == ids)[:, None], self.weights[1 + where], 0.0)

    def greedy(self, contexts: Contexts) -> Policy:
        """Return the policy of least cost, for contexts like these."""
        n_actions = self.lines.n_actions
        if contexts.phi is not None:
            return GreedyPolicy(Given(n_actions, contexts.phi.dimension), -self.weights[1:])
        if self.ids is not None:
            return TablePolicy(np.argmin(self.of_ids(np.arange(int(self.ids.max()) + 1)), axis=1), n_actions, "greedy")
        return GreedyPolicy(*self._crossed(contexts))

    def _crossed(self, contexts: Contexts) -> tuple[Crossed, FloatArray]:
        """Rewards −cost as a feature map, which has no column for the first label of a feature, and its parameter."""
        given = self.lines.coordinates
        encoders: list[Encoder] = [
            NumberEncoder(contexts.names[int(column)], float(centre), float(scale))
            for column, centre, scale in zip(given.numeric, given.centres, given.scales, strict=True)
        ]
        start = 1 + len(encoders)
        constant, rows = self.weights[0].copy(), list(self.weights[1:start])
        for column, count in given.labelled:
            encoders.append(Category(contexts.names[column], contexts.categories[column] or ()))
            first, *others = self.weights[start : start + count]
            constant += first
            rows.extend(other - first for other in others)
            start += count
        features = Crossed(tuple(encoders), np.eye(self.lines.n_actions))
        return features, -np.vstack([constant, *rows]).reshape(-1)


def _ids(contexts: Contexts) -> IntArray:
    return contexts.require_ids(below=2**62)


def _written(letter: str, row: list[float]) -> str:
    """Return numbers in single precision, as Vowpal Wabbit keeps them."""
    return "".join(f" {letter}{j}:{value:.9g}" for j, value in enumerate(row))
