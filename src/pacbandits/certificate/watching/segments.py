"""Halves of the contexts: where their shares change, contexts drift; where rewards change within one, that is seen."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.errors import plain
from pacbandits.records import Contexts

MAX_SEGMENTS = 32
MAX_ID_SEGMENTS = 8


@dataclass(frozen=True, eq=False)
class Segments:
    """G ways to cut the contexts in two, fixed by a few first rows.

    inside (n, G): whether a row's context lies in the first half, 1 or 0.
    names (G,): of the first halves.
    others (G,): of the second.
    """

    inside: NDArray[np.uint8]
    names: tuple[str, ...]
    others: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


def cut_in_halves(
    contexts: Contexts, first: IntArray, *, most: int = MAX_SEGMENTS, but: Collection[str] = ()
) -> Segments:
    """A numeric feature at its median, a categorical one at its most common label, both among the first rows.

    Contexts without features are told apart by φ, without that by ids: each of the most common ones against the rest.
    At most so many ways; but: features that are no reason for any.
    """
    found = list(islice(_columns(contexts, first, but), min(most, MAX_SEGMENTS)))
    inside = np.empty((len(contexts), len(found)), dtype=np.uint8)
    for g, (rows, _, _) in enumerate(found):
        inside[:, g] = rows
    return Segments(inside, tuple(name for _, name, _ in found), tuple(other for _, _, other in found))


def _columns(contexts: Contexts, first: IntArray, but: Collection[str]) -> Iterator[tuple[BoolArray, str, str]]:
    """Halves one by one: which rows lie in the first, its name and the other's."""
    for j, (name, labels) in enumerate(zip(contexts.names, contexts.categories, strict=True)):
        values, word = contexts.features[:, j], f"'{plain(name)}'"
        if name in but:
            continue
        if labels is None:
            yield _halves(values, word, first)
        else:
            code = int(np.bincount(values[first].astype(np.int64)).argmax())
            yield values == code, f"{word} is '{plain(labels[code])}'", f"{word} is not '{plain(labels[code])}'"
    if contexts.n_features > 0:
        return
    if contexts.phi is not None:
        phi = contexts.phi
        for a in range(phi.n_actions):
            for k in range(phi.dimension):
                yield _halves(phi.table[phi.rows, a, k], f"phi {k} of action {a}", first)
    elif contexts.ids is not None:
        ids, counts = np.unique(contexts.ids[first], return_counts=True)
        for i in ids[np.argsort(-counts, kind="stable")[:MAX_ID_SEGMENTS]]:
            yield contexts.ids == i, f"the context id is {i}", f"the context id is not {i}"


def _halves(values: FloatArray, word: str, first: IntArray) -> tuple[BoolArray, str, str]:
    """Above the lower median of the first rows or not; or with the median itself, where that is nearer to a half.

    What is missing is not above; where missing or not is nearer to a half of the first rows, these are the halves.
    """
    early = values[first]
    there = np.sort(early[~np.isnan(early)])
    missing = 1.0 - len(there) / len(early)
    cut = float(there[(len(there) - 1) // 2]) if len(there) else math.inf
    above, below = (float(side.sum()) / len(early) for side in (there > cut, there < cut))
    if missing > 0 and min(missing, 1.0 - missing) >= max(above, below):
        return np.isnan(values), f"{word} is missing", f"{word} is not missing"
    too = ", or missing" if np.isnan(values).any() else ""
    if above >= below:
        return values > cut, f"{word} is above {cut:.4g}", f"{word} is {cut:.4g} or below{too}"
    return values >= cut, f"{word} is {cut:.4g} or above", f"{word} is below {cut:.4g}{too}"
