"""Splits: propensities that were the same for everybody, as in an A/B/n test."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import read_rate
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
    shares = {_known(name, known): read_share(share, name) for name, share in _parts(split, known)}
    lacking = [f"'{plain(name)}'" for name in known if name not in shares]
    if lacking:
        raise InputError(f"the split lacks a share of {', '.join(lacking[:5])}; it has one for each action")
    out = np.array([shares[name] for name in known])
    if abs(out.sum() - 1.0) > MAX_SUM_ROUNDING:
        raise InputError(f"the shares of the split sum to {out.sum():.10g}; they must sum to 1 (thirds are 1/3)")
    return out, _split_words(out, names)


def split_names(split: str) -> set[str]:
    """The actions that a split speaks of by name."""
    return {name for name, _ in _pairs(split)}


def check_shown(split: str, shown: Collection[str], *, rows: int, column: str) -> None:
    """Raise where a split gives a share to an action that so many rows would have shown; shown: those they do."""
    for name, share in _pairs(split):
        if name not in shown and read_share(share, name) * rows >= MIN_EXPECTED_PLAYS:
            raise InputError(
                f"the split gives '{plain(name)}' a share of {share}, but no row has it in {column}, "
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
    return low, _split_words(low, names)


def _split_words(shares: FloatArray, names: tuple[str, ...] | None) -> str:
    each = ", ".join(f"{call(action, names)} with probability {share:.6g}" for action, share in enumerate(shares))
    return f"everybody was given an action at random, with the same probabilities: {each}"


def _known(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise InputError(f"the split speaks of an action '{plain(name)}' that the log does not{nearest(name, known)}")
    return name


def read_share(words: str, name: str) -> float:
    """A share above 0 and up to 1, as in 0.25, 1/4 or 25%; name: of what it is the share."""
    try:
        value = float(read_rate(words))
    except ValueError:
        value = np.nan
    if not 0 < value <= 1:
        percent = 1 < value <= 100 and words.strip()[-1:].isdigit() and "/" not in words
        hint = f", as in 0.5, 1/2 or {words.strip()}%" if percent else ", as in 0.5, 1/2 or 50%"
        raise InputError(f"the share of '{plain(name)}' is '{plain(words)}'; it must lie above 0 and up to 1{hint}")
    return value


def _parts(split: str, known: tuple[str, ...]) -> list[tuple[str, str]]:
    """Names and shares, when there is nothing else in a split."""
    found = _pairs(split)
    if not found or sum(len(name) + len(share) for name, share in found) < len(re.sub(r"[\s,;=]", "", split)):
        words = f"the split '{plain(split)}' is neither '{UNIFORM}' nor a share for each action"
        raise InputError(f"{words}, as in {_example(known)}")
    twice = next((name for i, (name, _) in enumerate(found) if name in [other for other, _ in found[:i]]), None)
    if twice is not None:
        raise InputError(f"the split '{plain(split)}' has two shares of '{plain(twice)}'; leave one out")
    return found


def _pairs(split: str) -> list[tuple[str, str]]:
    """Names and shares that a split holds; a name may have commas and `=` within it."""
    return [(name.strip(), share.strip()) for name, share in re.findall(r"(.+?)=([^=,;]*)(?:[,;]|$)", split)]


def _example(known: tuple[str, ...]) -> str:
    return plain(",".join(f"{name}={1 / len(known):.3g}" for name in known[:3])) + (",…" if len(known) > 3 else "")
