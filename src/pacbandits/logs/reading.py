"""What the file of a log may not tell of itself, so that its reader must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from pacbandits.checks import flag, number, settle, text, texts, whole_number
from pacbandits.errors import InputError, close_to, plain
from pacbandits.fields import Fields
from pacbandits.logs.times import check_time_format
from pacbandits.records.beside import check_range


class Reading(TypedDict, total=False):
    """How a log is to be read: the arguments of `read_log`, as `ReadingOptions` explains them."""

    n_actions: int | None
    least_propensity: float | None
    reward_range: tuple[float, float] | None
    position: int | None
    action: str | None
    reward: str | None
    propensity: str | None
    split: str | Mapping[str, float] | None
    time: str | None
    time_format: str | None
    unit: str | None
    features: Sequence[str] | None
    without: Sequence[str]
    clip: bool
    keep: Sequence[str]


def check_arguments(given: Iterable[str], *, of: str, others: Iterable[str] = ()) -> None:
    """Raise where a name is none of `read_log`'s arguments; of: the function that was called, others: its own."""
    known = (*Reading.__annotations__, *others)
    for name in given:
        if name not in known:
            close = close_to(name, known)
            meant = f"did you mean {close}=…?" if close else f"it takes {', '.join(sorted(known))}"
            raise InputError(f"{of} has no argument '{plain(name)}'; {meant}")


@dataclass(frozen=True)
class ReadingOptions:
    """What a log's file may not tell, so that its reader must.

    n_actions: how many actions there are.
    least_propensity: what every action's propensity was at least, always, for logs that tell the played one's alone.
    reward_range: the least and the largest that rewards can be, if not 0 and 1.
    position: which one to take of a feedback with several.
    action, reward, propensity: the columns that hold these, if they are not called so.
    split: the propensities, where they were the same for everybody: `uniform`, or those of each action (`a=0.4,b=0.6`).
    time: the column that tells when a row occurred, by which rows are brought into order.
    time_format: how times are written in it, as Python's strptime has it (`%d/%m/%Y`), where it leaves that open.
    unit: the column that tells whose row it is, where people come back.
    features: the columns to use as features, if not all that are left.
    without: columns to leave out.
    clip: whether rewards beyond the range are cut to it, which makes another reward of them.
    keep: columns that stay features though they look like identifiers, outcomes, or the time.
    """

    n_actions: int | None = None
    least_propensity: float | None = None
    reward_range: tuple[float, float] | None = None
    position: int | None = None
    action: str | None = None
    reward: str | None = None
    propensity: str | None = None
    split: str | Mapping[str, float] | None = None
    time: str | None = None
    time_format: str | None = None
    unit: str | None = None
    features: Sequence[str] | None = None
    without: Sequence[str] = ()
    clip: bool = False
    keep: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.n_actions is not None:
            settle(self, n_actions=whole_number(self.n_actions, name="--actions", least=1))
        if self.least_propensity is not None:
            settle(self, least_propensity=number(self.least_propensity, name="--least-propensity"))
        if self.reward_range is not None:
            settle(self, reward_range=check_range(self.reward_range))
        if flag(self.clip, name="clip") and self.reward_range is None:
            raise InputError("to clip rewards, say to what: the least and the largest (--reward-range 0 500)")
        if self.position is not None:
            settle(self, position=whole_number(self.position, name="--position", least=0))
        for name in ("action", "reward", "propensity", "time", "time_format", "unit"):
            if getattr(self, name) is not None:
                text(getattr(self, name), name=name)
        if self.time_format is not None:
            check_time_format(self.time_format)
            if self.time is None:
                raise InputError("--time-format says how times are written; say in which column, too (--time COLUMN)")
        if self.split is not None and not isinstance(self.split, str):
            shares = {text(a, name="an action of split"): number(p, name="split") for a, p in self.split.items()}
            settle(self, split=",".join(f"{action}={share!r}" for action, share in shares.items()))
        if self.features is not None:
            settle(self, features=texts(self.features, name="features"))
        settle(self, without=texts(self.without, name="without"), keep=texts(self.keep, name="keep"))
        columns = (self.action, self.reward, self.propensity, self.time, self.unit)
        used = [name for name in columns if name is not None]
        twice = next((name for i, name in enumerate(used) if name in used[:i]), None)
        if twice is not None:
            raise InputError(f"the column '{plain(twice)}' cannot be two things at once: name it once")

    @property
    def of_columns(self) -> tuple[str, ...]:
        """Which options were given that say what the columns of a table are."""
        names = ("action", "reward", "propensity", "split", "time", "time_format", "unit", "features", "without")
        return tuple(name for name in names if getattr(self, name) not in (None, ()))

    @property
    def outcome(self) -> str:
        """What a reward is called."""
        name = self.reward or "reward"
        return f"clipped {name}" if self.clip else name

    def to_json(self) -> dict[str, Any]:
        """What was said, as what JSON knows, by the names that `read_log` has for it."""
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = ("reward_range", "features", "without", "keep")
        return {
            name: list(v) if name in lists else v for name, v in given.items() if v not in (None, ()) and v is not False
        }

    @classmethod
    def from_json(cls, value: object) -> ReadingOptions:
        """What `to_json` wrote."""
        given = Fields.read(value, of="reading of the log")
        given.check_known(tuple(field.name for field in fields(cls)))
        made: Reading = {}
        for name in ("n_actions", "position"):
            if name in given:
                made[name] = given.whole_number(name)
        for name in ("action", "reward", "propensity", "split", "time", "time_format", "unit"):
            if name in given:
                made[name] = given.text(name)
        if "least_propensity" in given:
            made["least_propensity"] = given.number("least_propensity", least=0.0, most=1.0)
        if given.given.get("reward_range") is not None:
            ends = given.numbers("reward_range", shortest=2, longest=2)
            made["reward_range"] = (ends[0], ends[1])
        if "clip" in given:
            made["clip"] = given.flag("clip")
        if "features" in given:
            made["features"] = given.texts("features")
        if "without" in given:
            made["without"] = given.texts("without")
        if "keep" in given:
            made["keep"] = given.texts("keep")
        return cls(**made)
