"""Somebody else's policy: what a column of the table says that it would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.errors import InputError, nearest, plain
from pacbandits.records import Contexts


@dataclass(frozen=True)
class ColumnPolicy:
    """Do what a column says.

    feature: the column, of the names of actions; or of their numbers, where they have no names.
    actions (A,): what the actions are called.
    """

    feature: str
    actions: tuple[str, ...]

    kind = "column"

    @property
    def n_actions(self) -> int:
        return len(self.actions)

    def __call__(self, contexts: Contexts) -> IntArray:
        if self.feature not in contexts.names:
            raise InputError(f"there is no column '{plain(self.feature)}'{nearest(self.feature, contexts.names)}")
        column = contexts.names.index(self.feature)
        values, labels = contexts.features[:, column], contexts.categories[column]
        said = [f"{number:g}" for number in np.unique(values)] if labels is None else list(labels)
        codes = np.unique(values, return_inverse=True)[1] if labels is None else values.astype(np.int64)
        place = {name: action for action, name in enumerate(self.actions)}
        for word in said:
            if word not in place:
                raise InputError(
                    f"column '{plain(self.feature)}' says '{plain(word)}', which is no action"
                    f"{nearest(word, self.actions)}"
                )
        return np.array([place[word] for word in said], dtype=np.int64)[codes]

    def describe(self) -> str:
        return f"what the column '{plain(self.feature)}' says"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "feature": self.feature, "actions": list(self.actions)}
