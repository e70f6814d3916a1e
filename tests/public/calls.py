"""What a public call is, and which values are wrong for an argument of each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

NAN, INFINITY = float("nan"), float("inf")
NO_SCALARS = ([0.1], {}, np.array([1, 2]), object(), 1j, np.datetime64("2020-01-01"), np.timedelta64(3, "s"), b"1")
NO_NUMBERS = ("0.1", "many", True, np.bool_(True), NAN, INFINITY, -INFINITY, np.float64("nan"), *NO_SCALARS)
NO_RECORDS = ("many", 1.5, True, object(), [], {}, np.eye(2), int)

# What is wrong for an argument of each kind, in whatever call; None is wrong unless the argument may be left out.
BAD: dict[str, tuple[object, ...]] = {
    "number": (Decimal("0.1"), Fraction(1, 10), 10**400, *NO_NUMBERS),
    "whole": (2.5, 1e30, -(10**40), np.float64(2.5), Fraction(3), 10**400, *NO_NUMBERS),
    "rng": (2.5, -1, np.int64(-3), np.random.RandomState(0), *NO_NUMBERS),
    "generator": (1, np.random.RandomState(0), *NO_NUMBERS),
    "flag": (0, 1, "yes", 0.0, *NO_SCALARS),
    "array": ("many", NAN, object(), {}, 1j, [[1], [2, 3]], [NAN], np.array(["a"]), np.array([1j])),
    "record": NO_RECORDS,
    "text": (1.5, True, object(), [], {}, b"trees", np.eye(2)),
    "path": (1.5, True, object(), [], {}, b"trees", np.eye(2), ""),
    "list": (1.5, True, object(), "age", [1, object()]),
    "function": ("many", 1.5, True, object(), []),
    "mapping": ("many", 1.5, True, object(), []),
    "span": ("many", 1.5, True, (0,), (1, 0), (0, NAN), ("a", "b"), (None, 1)),
}


@dataclass(frozen=True)
class Call:
    """A public function or class.

    function: what is called.
    good: arguments by name, with which the call succeeds.
    kinds: of the arguments whose values can be wrong.
    optional: those of them that may be None.
    beyond: values of the right kind that are out of range.
    called: what sentences call an argument, if not by its name.
    """

    function: Callable[..., Any]
    good: dict[str, Any]
    kinds: dict[str, str]
    optional: tuple[str, ...] = ()
    beyond: dict[str, tuple[object, ...]] = field(default_factory=dict[str, tuple[object, ...]])
    called: dict[str, str] = field(default_factory=dict[str, str])

    def __call__(self, **changed: object) -> Any:
        return self.function(**{**self.good, **changed})

    def wrong(self) -> list[tuple[str, object]]:
        """Arguments, and values that are wrong for them."""
        out = [(name, value) for name, kind in self.kinds.items() for value in BAD[kind]]
        out += [(name, None) for name in self.kinds if name not in self.optional]
        return out + [(name, value) for name, values in self.beyond.items() for value in values]

    def of_numpy(self) -> dict[str, object]:
        """The good numbers as numpy has them."""
        kinds = {"number": np.float64, "whole": np.int64, "flag": np.bool_, "rng": np.uint16}
        return {
            name: kinds[kind](self.good[name])
            for name, kind in self.kinds.items()
            if kind in kinds and self.good.get(name) is not None
        }


ASKED = {"epsilon": 0.3, "delta": 0.1}
ASKED_KINDS = {"epsilon": "number", "delta": "number"}
ASKED_BEYOND: dict[str, tuple[object, ...]] = {"epsilon": (-0.1, 1e-200, 1e200), "delta": (0, 1, -0.1, 2)}
