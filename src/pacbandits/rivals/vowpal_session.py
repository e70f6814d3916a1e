"""A Vowpal Wabbit model in this process: loaded from bytes, queried, updated, and saved to bytes again.

A model that is saved with its online state and loaded again goes on to the last bit as if it had never stopped, so that
bytes are all that a state of an algorithm needs to keep.
"""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rivals.vowpal_lines import Costs, Lines, read_weights

_ALWAYS = ("--quiet", "--preserve_performance_counters")
_FILE = "model"


def check_installed() -> Any:
    """Return Vowpal Wabbit's module; raise InputError if it is not installed."""
    try:
        return import_module("vowpalwabbit")
    except ImportError:
        raise InputError("vowpal needs Vowpal Wabbit; pip install 'pacbandits[peers]'") from None


class Session:
    """A model in use, as a context manager that releases it.

    What Vowpal Wabbit's `learn` and `predict` do with a list of lines is done here without wrapping every line into an
    object of Python first, which would take four times as long as to read the lines and to learn from them.
    """

    def __init__(self, lines: Lines, *, arguments: tuple[str, ...] = (), model: bytes | None = None) -> None:
        """A new model by its arguments, or one that was saved."""
        package = check_installed()
        self._lines = lines
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / _FILE
        if model is not None:
            self._path.write_bytes(model)
            arguments = ("-i", str(self._path))
        self._workspace = package.Workspace(arg_list=[*_ALWAYS, *arguments])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workspace.finish()
        self._folder.cleanup()

    def save(self) -> bytes:
        """Return the model as bytes, with all state that further learning depends on."""
        self._workspace.save(str(self._path))
        return self._path.read_bytes()

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return Vowpal Wabbit's probabilities (n, A), which sum to 1 in double precision."""
        first, which = contexts.distinct()
        out = np.array([self._ask(lines) for lines in self._lines.written(contexts.take(first))], dtype=np.float64)
        return (out / out.sum(axis=1, keepdims=True))[which]

    def learn(self, log: Log, rng: np.random.Generator) -> None:
        """Learn from the rows of a log one by one, in random order; a cost is the negative reward."""
        first, which = log.contexts.distinct()
        written = list(self._lines.written(log.contexts.take(first)))
        contexts: list[int] = which.tolist()
        actions: list[int] = log.actions.tolist()
        costs, probabilities = (-log.rewards).tolist(), log.played_propensities.tolist()
        # Sorted first, so that it does not matter in what order a log has its rows.
        rows = np.lexsort((log.played_propensities, log.rewards, log.actions, which))
        order: list[int] = rng.permutation(np.repeat(rows, log.repeats[rows])).tolist()
        for row in order:
            lines = written[contexts[row]].copy()
            played = 1 + actions[row]
            lines[played] = f"{actions[row]}:{costs[row]:.9g}:{probabilities[row]:.9g} {lines[played]}"
            self._teach(lines)

    def costs(self, contexts: Contexts) -> Costs:
        """Return the learnt costs, for contexts like these or, if known by ids alone, for these."""
        probes = self._workspace.parse(self._lines.probes(contexts))
        weights = read_weights(self._workspace, probes)
        self._workspace.finish_example(probes)
        return Costs(self._lines, weights, contexts.ids if self._lines.kind == "ids" else None)

    def _ask(self, lines: list[str]) -> list[float]:
        """Return the probabilities (A,) of a context."""
        examples = self._workspace._parse("\n".join(lines))
        self._workspace.predict_multi(examples)
        out: list[float] = examples[0].get_action_scores()
        self._workspace._finish_example_multi_ex(examples)
        return out

    def _teach(self, lines: list[str]) -> None:
        """Learn from one interaction."""
        examples = self._workspace._parse("\n".join(lines))
        self._workspace.learn_multi(examples)
        self._workspace._finish_example_multi_ex(examples)
