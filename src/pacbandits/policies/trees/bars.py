"""Where actions must not be taken: one feature compared with a number or a label, in words, in JSON and in a spec."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from pacbandits.arrays import BoolArray
from pacbandits.errors import InputError, nearest, plain
from pacbandits.fields import Fields
from pacbandits.policies.trees.tree import AtMost, Is, IsMissing, Node, Test, branch, read_test
from pacbandits.records import Contexts
from pacbandits.records.naming import call

MAX_BARS = 20  # so that a tree with all of them grafted on nests no deeper than files may
BAR_FORM = "write 'action: feature <= number', with <= or >, or 'action: feature = label', with = or !="
_CONDITION = re.compile(r"(.+?)\s*(<=|>=|!=|==|<|>|=)\s*(.+)", re.DOTALL)

Path = tuple[tuple[Test, bool], ...]


@dataclass(frozen=True)
class Bar:
    """Where an action must not be taken.

    action: which.
    test: what is asked of a context.
    holds: whether it is barred where the test holds, or where it does not.
    """

    action: int
    test: AtMost | Is
    holds: bool = True

    def __call__(self, contexts: Contexts) -> BoolArray:
        """Where it is barred (n,)."""
        return self.test(contexts) == self.holds

    def describe(self, actions: Sequence[str] | None = None) -> str:
        """The same in words; actions (A,): what each is called, if they have names."""
        asked = self.test.describe() if self.holds else f"not ({self.test.describe()})"
        return f"never {call(self.action, actions)} where {asked}"

    def to_json(self) -> dict[str, Any]:
        return {"action": self.action, "test": self.test.to_json(), "holds": self.holds}

    @classmethod
    def from_json(cls, value: object) -> Bar:
        """What `to_json` wrote."""
        given = Fields.read(value, of="bar")
        given.check_known(("action", "test", "holds"))
        test = read_test(given.fields("test", of="test"))
        if isinstance(test, IsMissing) or (isinstance(test, AtMost) and test.missing is not None):
            raise InputError("a bar asks whether a number is at most another, or which label there is, and no more")
        return cls(given.whole_number("action"), test, given.flag("holds"))


def spell_bar(action: int, condition: str) -> str:
    """An action and a condition in words, `age <= 25`, as a spec spells them."""
    found = _CONDITION.fullmatch(condition.strip())
    if found is None or found[2] in ("<", ">="):
        raise InputError(f"--never '{plain(condition)}' says no place where an action is barred; {BAR_FORM}")
    sign = "=" if found[2] == "==" else found[2]
    return f"{action}:{quote(found[1], safe='')}{sign}{quote(found[3], safe='')}"


def check_label(words: str, contexts: Contexts) -> None:
    """Raise where words bar an action for a label that a category of these contexts has not."""
    found = _CONDITION.fullmatch(words.rpartition(":")[2].strip())
    if found is None or found[2] not in ("=", "==", "!=") or found[1] not in contexts.names:
        return
    labels = contexts.categories[contexts.names.index(found[1])]
    if labels is not None and found[3] not in labels:
        raise InputError(
            f"--never '{plain(words)}' speaks of '{plain(found[3])}', which '{plain(found[1])}' never is"
            f"{nearest(found[3], labels)}"
        )


def read_bars(words: str, contexts: Contexts, *, n_actions: int) -> tuple[Bar, ...]:
    """Bars as a spec spells them, apart by semicolons: `2:age<=25;1:country=DE`."""
    return tuple(_read_bar(one, contexts, n_actions=n_actions) for one in words.split(";"))


def _read_bar(words: str, contexts: Contexts, *, n_actions: int) -> Bar:
    action, _, condition = words.partition(":")
    found = _CONDITION.fullmatch(condition.strip())
    if not action.strip().isdecimal() or int(action) >= n_actions or found is None or found[2] in ("<", ">="):
        raise InputError(
            f"'{plain(words)}' bars no action from 0 to {n_actions - 1} anywhere; write it as in 1:age<=25 or "
            "1:country=DE, several apart by semicolons"
        )
    sign = "=" if found[2] == "==" else found[2]
    feature, value = unquote(found[1]), unquote(found[3])
    contexts.column_of(feature, categorical=sign in ("=", "!="))
    if sign in ("=", "!="):
        return Bar(int(action), Is(feature, value), sign == "=")
    try:
        return Bar(int(action), AtMost(feature, float(value)), sign == "<=")
    except ValueError:
        raise InputError(
            f"'{plain(value)}' is no number that '{plain(feature)}' could be compared with; {BAR_FORM}"
        ) from None


def graft(action: int, bars: Sequence[Bar], fallback: int, path: Path) -> Node:
    """What a leaf becomes: the action, but the fallback where it is barred and the path to it does not say already."""
    for i, bar in enumerate(bars):
        if bar.action != action:
            continue
        known = implied(bar.test, path)
        if known is None:
            rest = graft(action, bars[i + 1 :], fallback, (*path, (bar.test, not bar.holds)))
            return branch(bar.test, fallback, rest) if bar.holds else branch(bar.test, rest, fallback)
        if known == bar.holds:
            return fallback
    return action


def implied(test: AtMost | Is, path: Path) -> bool | None:
    """Whether a test holds where others did or did not; None where that does not follow from one of them."""
    for asked, passed in path:
        if asked.feature != test.feature:
            continue
        if isinstance(test, Is) and isinstance(asked, Is):
            if asked.label == test.label:
                return passed
            if passed:
                return False
        if isinstance(test, AtMost) and isinstance(asked, AtMost):
            if passed and not asked.missing and asked.threshold <= test.threshold:
                return True
            if not passed and test.threshold <= asked.threshold:
                return False
        if isinstance(asked, IsMissing) and passed:
            return False
    return None
