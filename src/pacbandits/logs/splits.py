"""Splits: propensities that were the same for everybody, as in an A/B/n test."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError, nearest, plain
from pacbandits.records.naming import call

UNIFORM = "uniform"
MAX_SUM_ROUNDING = 1e-6  # how far the shares of a split may sum from 1
MIN_PLAYS = 10  # of each action, for propensities that are the same to be no coincidence
MIN_EXPECTED_PLAYS = 20  # of an action, for it to be missing by no chance
MAX_SHARE_ROUNDING = 1e-9  # how far a propensity that is always the same may differ from itself, relatively


def parse_split(split: str, *, n_actions: int, names: tuple[str, ...] | None) -> tuple[FloatArray, str]:
    """The propensities (A,) of a split, and what it assumes, in words.

    split: `uniform`, or the share of each action, `a=0.4,b=0.6`, by its name or number.
    names (A,): of the actions, if they have any.
    """
    if split.strip().lower() == UNIFORM:
        words = f"everybody was given one of the {n_actions} actions at random, each with the same probability"
        words = words if n_actions > 1 else "everybody was given the only action"
        return np.full(n_actions, 1.0 / n_actions), words
    known = names if names is not None else tuple(str(action) for action in range(n_actions))
    shares: dict[str, float] = {}
    for part in re.split(r"[,;]", split):
        name, equals, share = part.rpartition("=")
        if not equals:
            raise InputError(
                f"the split '{plain(split)}' is neither '{UNIFORM}' nor a share for each action, as in "
                f"{_example(known)}"
            )
        shares[_known(name.strip(), known)] = _share(share, name)
    lacking = [f"'{plain(name)}'" for name in known if name not in shares]
    if lacking:
        raise InputError(f"the split lacks a share of {', '.join(lacking[:5])}; it has one for each action")
    out = np.array([shares[name] for name in known])
    if abs(out.sum() - 1.0) > MAX_SUM_ROUNDING:
        raise InputError(f"the shares of the split sum to {out.sum():.10g}; they must sum to 1")
    return out, _words(out, names)


def split_names(split: str) -> set[str]:
    """The actions that a split speaks of by name."""
    return {name.strip() for part in re.split(r"[,;]", split) for name, equals, _ in [part.rpartition("=")] if equals}


def check_shown(split: str, shown: Collection[str], *, rows: int, column: str) -> None:
    """Raise where a split gives a share to an action that so many rows would have shown; shown: those they do."""
    for part in re.split(r"[,;]", split):
        name, equals, share = part.rpartition("=")
        if equals and name.strip() not in shown and _share(share, name) * rows >= MIN_EXPECTED_PLAYS:
            raise InputError(
                f"the split gives '{plain(name.strip())}' a share of {share.strip()}, but no row has it in {column}, "
                f"which holds {plain(', '.join(sorted(shown)))}; correct the name, or leave it out of the split"
            )


def constant_split(
    played: FloatArray, actions: IntArray, *, n_actions: int, names: tuple[str, ...] | None
) -> tuple[FloatArray, str] | None:
    """The propensities (A,), and words on them, if each action was always played with the same, and these sum to 1.

    played (n,): the propensities of played actions (n,). None where they differ, or not all actions were played.
    """
    low, high = np.full(n_actions, np.inf), np.full(n_actions, -np.inf)
    np.minimum.at(low, actions, played)
    np.maximum.at(high, actions, played)
    if np.bincount(actions, minlength=n_actions).min() < MIN_PLAYS or (high - low > MAX_SHARE_ROUNDING * high).any():
        return None
    if abs(low.sum() - 1.0) > MAX_SUM_ROUNDING:
        return None
    return low, _words(low, names)


def _words(shares: FloatArray, names: tuple[str, ...] | None) -> str:
    each = ", ".join(f"{call(action, names)} with probability {share:.6g}" for action, share in enumerate(shares))
    return f"everybody was given an action at random, with the same probabilities: {each}"


def _known(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise InputError(f"the split speaks of an action '{plain(name)}' that the log does not{nearest(name, known)}")
    return name


def _share(share: str, name: str) -> float:
    try:
        value = float(share)
    except ValueError:
        value = np.nan
    if not 0 < value <= 1:
        raise InputError(f"the share of '{plain(name.strip())}' is '{plain(share)}'; it must lie above 0 and up to 1")
    return value


def _example(known: tuple[str, ...]) -> str:
    return plain(",".join(f"{name}={1 / len(known):.3g}" for name in known[:3])) + (",…" if len(known) > 3 else "")
