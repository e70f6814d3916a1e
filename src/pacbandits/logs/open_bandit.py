"""Logs of Open Bandit Pipeline: its `bandit_feedback`, in memory or in an .npz file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, floats, integers
from pacbandits.checks import instance
from pacbandits.errors import InputError, nearest
from pacbandits.logs.raw_log import RawLog, make_log
from pacbandits.logs.reading_options import ReadingOptions
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.npz import open_arrays

_FEEDBACK_KEYS = ("action", "reward", "pscore", "pi_b", "context", "position", "n_actions")


def from_open_bandit(
    feedback: Mapping[str, Any],
    *,
    n_actions: int | None = None,
    least_propensity: float | None = None,
    reward_range: tuple[float, float] | None = None,
    position: int | None = None,
) -> Log:
    """Return a log from Open Bandit Pipeline's `bandit_feedback`.

    With its `pi_b` the propensities of all actions are known, else only that of the played one, `pscore`. position: the
    position to use if there are several. For the other arguments see `read_log`.
    """
    instance(feedback, Mapping, name="feedback")
    return _read_feedback(feedback, ReadingOptions(n_actions, least_propensity, reward_range, position))


def read_open_bandit(path: Path, options: ReadingOptions) -> Log:
    """Return a log from an .npz file of the feedback."""
    return _read_feedback(_read_npz(path), options)


def _read_feedback(feedback: Mapping[str, Any], options: ReadingOptions) -> Log:
    given = {name: feedback[name] for name in _FEEDBACK_KEYS if feedback.get(name) is not None}
    _check_present(given, feedback)
    n = np.shape(given["action"])[0] if np.ndim(given["action"]) == 1 else 0
    if n == 0:
        raise InputError(f"'action' must be a list of actions, got shape {np.shape(given['action'])}")
    told = _same_count(given.get("n_actions"), options.n_actions)
    actions = integers(given["action"], name="'action'", shape=(n,))
    rewards = floats(given["reward"], name="'reward'", shape=(n,))
    context = floats(given["context"], name="'context'", shape=(n, None))
    played = floats(given["pscore"], name="'pscore'", shape=(n,)) if "pscore" in given else None
    every = floats(given["pi_b"], name="'pi_b'", shape=(n, told, None)) if "pi_b" in given else None
    rows, place = _at_position(given.get("position"), every, n=n, asked=options.position)
    raw = RawLog(
        Contexts.of(context[rows], ids=None if context.shape[1] else np.zeros(len(rows), dtype=np.int64)),
        actions=actions[rows],
        rewards=rewards[rows],
        propensities=None if every is None else every[rows, :, place],
        played=None if played is None else played[rows],
        least=options.least_propensity,
        n_actions=told,
        declared="n_actions" in given,
        stated=options.n_actions is not None,
    )
    return make_log(raw, options)


def _read_npz(path: Path) -> dict[str, Any]:
    """Return the needed arrays of a file written by `numpy.savez(path, **bandit_feedback)`, without None values."""
    with open_arrays(path) as file:
        arrays = file.read(name for name in _FEEDBACK_KEYS if name in file.names)
        _check_present(arrays, file.names)
    return dict(arrays)


def _check_present(given: Mapping[str, Any], names: Iterable[object]) -> None:
    """Raise InputError unless all needed keys are given; names: all keys of the feedback."""
    missing = [name for name in ("action", "reward", "context") if name not in given]
    if "pscore" not in given and "pi_b" not in given:
        missing.append("pscore")
    if missing:
        what = ", ".join(f"'{name}'" for name in missing)
        others = sorted(str(name) for name in names if name not in missing)
        raise InputError(f"the feedback lacks {what}{nearest(missing[0], others)}")


def _same_count(own: Any, asked: int | None) -> int | None:
    if own is None:
        return asked
    count = int(integers(np.reshape(own, -1), name="'n_actions'", shape=(1,))[0])
    if asked is not None and asked != count:
        raise InputError(f"the feedback has {count} actions, but was said to have {asked}")
    return count


def _at_position(
    positions: Any, every: FloatArray | None, *, n: int, asked: int | None
) -> tuple[np.ndarray[Any, Any], int]:
    """Return the rows (k,) of a position, and the index of that position in `pi_b`."""
    slots = None if every is None else every.shape[2]
    if positions is None:
        if asked is not None and not (slots and asked < slots and asked >= 0):
            raise InputError(f"position {asked} was asked for, but the feedback has no 'position'; leave it out")
        if slots is not None and slots > 1:
            raise InputError(f"'pi_b' has {slots} positions, but the feedback does not say which one each row is of")
        return np.arange(n), 0
    own = integers(positions, name="'position'", shape=(n,))
    known = np.unique(own)
    if asked is None:
        if len(known) > 1:
            listed = ", ".join(str(p) for p in known[:10])
            raise InputError(f"the feedback has positions {listed}; choose one (--position {known[0]})")
        asked = int(known[0])
    if asked not in known:
        raise InputError(f"no row has position {asked}; there are {', '.join(str(p) for p in known[:10])}")
    if slots is not None and slots > 1 and asked >= slots:
        raise InputError(f"'pi_b' has {slots} positions, but position {asked} was asked for")
    return np.flatnonzero(own == asked), asked if slots is not None and slots > 1 else 0
