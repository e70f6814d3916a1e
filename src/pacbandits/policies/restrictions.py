"""What policies that one may deploy have to keep to, in the words of those who deploy them, as options of a spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pacbandits.checks import number, settle, text, texts
from pacbandits.errors import InputError, nearest, plain
from pacbandits.policies.trees.bars import BAR_FORM, check_label, spell_bar
from pacbandits.records import Log

_TREES = "trees"  # the class that can be restricted


@dataclass(frozen=True)
class Restrictions:
    """What policies have to keep to. Actions are called by their names, or by their numbers where they have none.

    smallest_leaf: the share of known contexts that every leaf of a tree holds at the least.
    cost: what actions cost, by name; those not named cost nothing.
    max_cost: what a policy costs at the most, on average over the known contexts.
    max_treated: the share of known contexts that get another action than the control, at the most.
    never: where actions must not be taken, as in `"email: age <= 25"` or `"email: country = DE"`.
    control: the action that is taken there, and that counts as no treatment.

    >>> import pacbandits as pb
    >>> pb.Restrictions(max_treated=0.3, control="0").added_to("trees:depth=2", ["0", "1"])
    'trees:depth=2,costs=0/1,budget=0.3'
    """

    smallest_leaf: float = 0.0
    cost: Mapping[str, float] = field(default_factory=dict[str, float])
    max_cost: float | None = None
    max_treated: float | None = None
    never: Sequence[str] = ()
    control: str | None = None

    def __post_init__(self) -> None:
        number(self.smallest_leaf, name="--smallest-leaf", least=0.0, most=1.0)
        if not isinstance(cast(object, self.cost), Mapping):
            raise InputError(f"--cost must say what actions cost, as in {{'email': 2.5}}, got {plain(self.cost)}")
        for name, price in self.cost.items():
            number(price, name=f"--cost, of '{plain(name)}',")
        settle(self, never=texts(self.never, name="--never"))
        for name, given in (("--max-cost", self.max_cost), ("--max-treated", self.max_treated)):
            if given is not None:
                number(given, name=name, most=1.0 if name == "--max-treated" else None)
        if self.control is not None:
            text(self.control, name="--control")
        for words in self.never:
            if ":" not in words:
                raise InputError(f"--never '{plain(words)}' does not say where; {BAR_FORM}")
        self._check_together()

    def _check_together(self) -> None:
        """Raise where one restriction lacks another, or there are two budgets."""
        if self.max_treated is not None and (self.cost or self.max_cost is not None):
            raise InputError("one budget at a time: --max-treated is one, and so is --max-cost; leave one of them out")
        if bool(self.cost) != (self.max_cost is not None):
            lacking = "--max-cost" if self.cost else "--cost"
            raise InputError(f"a budget is made of --cost, of actions by name, and --max-cost; add {lacking}")
        for name, given in (("--max-treated", self.max_treated is not None), ("--never", bool(self.never))):
            if given and self.control is None:
                raise InputError(f"{name} needs the action that is taken instead; name it, --control NAME")

    def added_to(self, spec: str, actions: Sequence[str]) -> str:
        """The spec of a class with these restrictions; actions (A,): what they are called."""
        options: list[str] = []
        if self.smallest_leaf > 0:
            options.append(f"leaf={_digits(self.smallest_leaf)}")
        costs = self._costs(actions)
        if costs is not None:
            most = (self.max_cost or 0.0) if self.max_treated is None else self.max_treated
            options += [f"costs={'/'.join(map(_digits, costs))}", f"budget={_digits(most)}"]
        if self.never and self.control is not None:
            barred = [_spell(one, actions) for one in self.never]
            own = _place(self.control, actions, what="--control")
            for words, place in zip(self.never, barred, strict=True):
                if place.startswith(f"{own}:"):
                    raise InputError(
                        f"'{plain(self.control)}' is what is done where others are barred, so --never '{plain(words)}' "
                        "leaves nothing to do there; name another control, --control NAME"
                    )
            spelt = ";".join(barred)
            options += [f"never={spelt}", f"fallback={own}"]
        if not options:
            return spec
        name, colon, given = spec.partition(":")
        if name.strip() != _TREES:
            raise InputError(f"restrictions are for trees, and '{plain(spec)}' is another class; take trees:depth=2")
        return f"{name}:{','.join([given, *options] if colon else options)}"

    def for_log(self, spec: str, log: Log) -> str:
        """The same for the actions of a log, whose contexts must know the labels that bars speak of."""
        for words in self.never:
            check_label(words, log.contexts)
        return self.added_to(spec, log.action_names or tuple(str(action) for action in range(log.n_actions)))

    def _costs(self, actions: Sequence[str]) -> list[float] | None:
        """What each action costs (A,); None without a budget."""
        if self.max_treated is not None and self.control is not None:
            own = _place(self.control, actions, what="--control")
            return [float(action != own) for action in range(len(actions))]
        if not self.cost:
            return None
        named = {_place(str(name), actions, what="--cost"): float(price) for name, price in self.cost.items()}
        return [named.get(action, 0.0) for action in range(len(actions))]


def _digits(value: float) -> str:
    """A number with as many digits as it takes to read it again."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _place(name: str, actions: Sequence[str], *, what: str) -> int:
    """The number of an action."""
    if name not in actions:
        raise InputError(f"{what} names '{plain(name)}', which is no action{nearest(str(name), actions)}")
    return list(actions).index(name)


def _spell(words: str, actions: Sequence[str]) -> str:
    """Where an action is barred, as a spec spells it."""
    given = words.strip()
    for name in sorted(actions, key=len, reverse=True):
        rest = given.removeprefix(name).lstrip()
        if rest != given and rest.startswith(":"):
            return spell_bar(list(actions).index(name), rest[1:])
    raise InputError(f"--never '{plain(words)}' names no action{nearest(given.partition(':')[0], actions)}; {BAR_FORM}")
