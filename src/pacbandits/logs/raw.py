"""From what others log to a log: rewards brought into [0, 1], and propensities completed where that is possible."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, floats, integers
from pacbandits.errors import InputError
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log

UNIFORM = "every action was always played with the same probability, as the played ones were"
TWO = "there were no more than 2 actions, so that the propensity of one is what the other's leaves of 1"
_SAME = 1e-9  # how far a propensity may lie from 1/A to be taken for it
_MOST_ACTIONS = 10_000
_MOST_SHOWN = 10  # actions that are never played
_AGREE = 1e-3  # relative: how far a propensity that is logged twice may differ from itself


def make_log(
    contexts: Contexts,
    *,
    actions: ArrayLike,
    rewards: ArrayLike,
    propensities: ArrayLike | None = None,
    played: ArrayLike | None = None,
    least: ArrayLike | None = None,
    n_actions: int | None = None,
    reward_range: tuple[float, float] | None = None,
    rounds: ArrayLike | None = None,
    repeats: ArrayLike | None = None,
    remarks: Sequence[str] = (),
    lines: Sequence[int] | None = None,
    declared: bool = False,
) -> Log:
    """A log whose certificates may be trusted, with what had to be assumed among its remarks.

    propensities (n, A), or played (n,), the propensity of the played action alone, and least: what every action's was
    at least, one number, (n,) or (n, A). reward_range: what rewards can be. lines (n,): the lines of the file that the
    rows stand on. declared: whether the file itself says which actions there are, so that none need be played.
    """
    n = len(contexts)
    own = integers(actions, name="actions", shape=(n,))
    earned, words = unit_rewards(rewards, n=n, reward_range=reward_range, lines=lines)
    said = [*remarks, *words]

    def whole(full: FloatArray) -> Log:
        return Log.of(
            contexts,
            actions=own,
            rewards=earned,
            propensities=full,
            rounds=rounds,
            repeats=repeats,
            remarks=tuple(said),
        )

    if propensities is not None:
        full = floats(propensities, name="propensities", shape=(n, None))
        if n_actions is not None and n_actions != full.shape[1]:
            raise InputError(f"the log has propensities of {full.shape[1]} actions, but was said to have {n_actions}")
        if least is not None:
            raise InputError("the log has the propensities of all actions; leave out the least propensity")
        if played is not None:
            _check_same(floats(played, name="propensity", shape=(n,)), full, own, lines)
        return whole(full)
    if played is None:
        raise InputError("a log needs the propensities of all actions, or that of the played one")
    alone = floats(played, name="propensity", shape=(n,))
    bad = ~((alone > 0) & (alone <= 1 + 1e-6))
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"the propensity of {place(row, lines)} is {alone[row]:.6g}; it must lie above 0 and up to 1")
    count = _n_actions(own, n_actions)
    unplayed = () if declared else _unplayed(own, count, numbered=lines is None)
    said.extend(unplayed)
    if count == 1 and alone.min() < 1.0 - _SAME:
        raise InputError(
            f"action 0 is the only one in the log, but was played with probability {alone.min():.6g}, so there were "
            "others; say how many actions there are (--actions 2)"
        )
    full, words = (None, ()) if least is not None else _completed(np.minimum(alone, 1.0), own, count)
    said.extend(words)
    if full is not None:
        return whole(full)
    return Log.of_played(
        contexts,
        actions=own,
        rewards=earned,
        played=np.minimum(alone, 1.0),
        least=_least(least, n=n, n_actions=count, unplayed=unplayed),
        rounds=rounds,
        repeats=repeats,
        remarks=tuple(said),
    )


def unit_rewards(
    rewards: ArrayLike, *, n: int, reward_range: tuple[float, float] | None, lines: Sequence[int] | None = None
) -> tuple[FloatArray, tuple[str, ...]]:
    """Rewards (n,) in [0, 1], and what to say of how they came there."""
    given = floats(rewards, name="rewards", shape=(n,))
    low, high = (0.0, 1.0) if reward_range is None else (float(reward_range[0]), float(reward_range[1]))
    if not -math.inf < low < high < math.inf:
        raise InputError(f"a reward range goes from a number to a larger one, got {low:g} to {high:g}")
    bad = (given < low) | (given > high)
    if bad.any():
        row = int(bad.argmax())
        least, most = math.floor(given.min()), math.ceil(given.max())
        remedy = f"as in --reward-range {least} {most}" if least < most else "with --reward-range and two numbers"
        raise InputError(
            f"the reward of {place(row, lines)} is {given[row]:.6g}, but rewards must lie in [{low:g}, {high:g}]; "
            f"state the least and the largest that they can be, {remedy}"
        )
    if reward_range is None:
        return given, ()
    words = f"rewards lie in [{low:g}, {high:g}], mapped to [0, 1]: an epsilon of 1 stands for {high - low:g}"
    return (given - low) / (high - low), (words,)


def place(row: int, lines: Sequence[int] | None) -> str:
    """Which row or line it is, in words."""
    return f"row {row}" if lines is None else f"line {lines[row]}"


def _n_actions(actions: IntArray, told: int | None) -> int:
    seen = int(actions.max()) + 1
    if told is not None and told < seen:
        raise InputError(f"action {seen - 1} was played, but there are {told} actions, from 0 to {told - 1}")
    count = seen if told is None else told
    if count > _MOST_ACTIONS:
        raise InputError(
            f"actions up to {count - 1} would be {count:,} actions, and at most {_MOST_ACTIONS:,} are possible; number "
            f"the {len(np.unique(actions))} that were played from 0"
        )
    return count


def _unplayed(actions: IntArray, n_actions: int, *, numbered: bool) -> tuple[str, ...]:
    """What to say of actions that no row plays, if any; numbered: whether the log's author numbered the actions."""
    missing = np.setdiff1d(np.arange(n_actions), actions)
    if len(missing) == 0:
        return ()
    shown = [str(action) for action in missing[:_MOST_SHOWN]]
    if len(missing) > _MOST_SHOWN:
        shown.append(f"{len(missing) - _MOST_SHOWN:,} more")
    named = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    which = f"action {named} is never played" if len(shown) == 1 else f"actions {named} are never played"
    hint = "; if actions are numbered from 1, number them from 0" if numbered and missing[0] == 0 else ""
    return (which + hint,)


def _check_same(played: FloatArray, full: FloatArray, actions: IntArray, lines: Sequence[int] | None) -> None:
    if actions.max() >= full.shape[1]:
        raise InputError(f"action {actions.max()} was played, but there are propensities of {full.shape[1]} actions")
    own = full[np.arange(len(actions)), actions]
    off = np.abs(played - own) > _AGREE * own
    if off.any():
        row = int(off.argmax())
        raise InputError(
            f"{place(row, lines)} gives the played action the propensity {played[row]:.6g} alone, but {own[row]:.6g} "
            "among those of all actions; which is it?"
        )


def _completed(played: FloatArray, actions: IntArray, n_actions: int) -> tuple[FloatArray | None, tuple[str, ...]]:
    """The propensities of all actions (n, A) if they follow from those of the played ones, and by what assumption."""
    n = len(actions)
    if (np.abs(played - 1.0 / n_actions) <= _SAME).all():
        return np.full((n, n_actions), 1.0 / n_actions), (UNIFORM,)
    if n_actions == 2:
        full = np.repeat(1.0 - played[:, None], 2, axis=1)
        full[np.arange(n), actions] = played
        return full, (TWO,)
    return None, ()


def _least(given: ArrayLike | None, *, n: int, n_actions: int, unplayed: tuple[str, ...] = ()) -> FloatArray:
    if given is None:
        also = "".join(f" ({words})" for words in unplayed)
        raise InputError(
            f"the log tells the propensity of the played action alone, and there are {n_actions} actions{also}: state "
            "what each action's was at least, always (--least-propensity 0.01), or 0 if you do not know, which proves "
            "less"
        )
    raw = np.asarray(given)
    value = floats(raw.reshape(-1, 1) if raw.ndim < 2 else raw, name="least propensity", shape=(None, None))
    least = np.array(np.broadcast_to(value, (n, n_actions)))
    if least.min() < 0 or (raw.ndim < 2 and least.max() > 1.0 / n_actions + _SAME):
        worst = least.min() if least.min() < 0 else least.max()
        raise InputError(
            f"a least propensity of {worst:.6g} cannot be that of each of {n_actions} actions; "
            f"it lies between 0 and 1/{n_actions}"
        )
    return least
