"""Array types, and checks that convert user input to valid arrays."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbandits.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
SomeArray = TypeVar("SomeArray", bound=NDArray[Any])


class LateModule:
    """A module that is imported when an attribute of it is first read.

    To import SciPy takes as long as a server needs for all else until it answers, and the server does not use it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


optimize: Any = LateModule("scipy.optimize")
sparse: Any = LateModule("scipy.sparse")
special: Any = LateModule("scipy.special")
linalg: Any = LateModule("scipy.linalg")
spatial: Any = LateModule("scipy.spatial")

_NAN_BITS = np.array(np.nan).view(np.uint64)


def floats(value: ArrayLike, *, name: str, shape: tuple[int | None, ...] | None = None) -> FloatArray:
    """Return `value` as a finite read-only float64 array of the given shape (None: any shape, or any length).

    The array is a copy, unless `value` already is a read-only float64 array that owns its data.
    """
    array = _doubles(value, name=name, shape=shape)
    _refuse(~np.isfinite(array), array, name=name)
    array.setflags(write=False)
    return array


def floats_or_missing(value: ArrayLike, *, name: str, shape: tuple[int | None, ...] | None = None) -> FloatArray:
    """Return the same array where NaN or None marks a missing value; every NaN gets one bit pattern."""
    array = _doubles(value, name=name, shape=shape)
    if not np.isfinite(array).all():
        _refuse(np.isinf(array), array, name=name)
        missing = np.isnan(array)
        if (array[missing].view(np.uint64) != _NAN_BITS).any():
            array = np.where(missing, np.nan, array)
    array.setflags(write=False)
    return array


def _doubles(value: ArrayLike, *, name: str, shape: tuple[int | None, ...] | None) -> FloatArray:
    """Return numbers as doubles of the given shape, copied unless `_is_settled`."""
    raw = _array(value, name=name, noun="numbers")
    try:
        if raw.dtype.kind not in "biufO":  # refuse text, dates and complex numbers
            raise TypeError
        with np.errstate(over="ignore"):
            array = raw if _is_settled(raw) else np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be numbers, got {_kind(value)}") from None
    if shape is not None:
        check_shape(array, name=name, shape=shape)
    return array


def _refuse(bad: BoolArray, array: FloatArray, *, name: str) -> None:
    """Raise InputError if an entry is bad, and name the first."""
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(f"{name} must be finite, but entry {where} is {array[where]}; fill or drop it")


def integers(value: ArrayLike, *, name: str, shape: tuple[int | None, ...], below: int | None = None) -> IntArray:
    """Return a read-only int64 copy of `value`, of the given shape, with entries in [0, below)."""
    raw = _array(value, name=name, noun="integers")
    if raw.dtype.kind not in "iuf":
        raise InputError(f"{name} must be integers, got {raw.dtype}")
    check_shape(raw, name=name, shape=shape)
    # Beyond 2^53 floats skip integers, and beyond 2^63 int64 overflows.
    whole = np.abs(raw) < 2**53 if raw.dtype.kind == "f" else raw <= np.iinfo(np.int64).max
    bad_entries = ~(whole & (raw == np.floor(raw)))
    if bad_entries.any():
        where = tuple(int(i) for i in np.argwhere(bad_entries)[0])
        raise InputError(f"{name} must be integers, but entry {where} is {raw[where]}")
    array = np.array(raw, dtype=np.int64)
    if array.size:
        low, high = int(array.min()), int(array.max())
        if low < 0 or (below is not None and high >= below):
            bad = low if low < 0 else high
            limit = "0 or more" if below is None else f"between 0 and {below - 1}"
            raise InputError(f"{name} must be {limit}, got {bad}")
    array.setflags(write=False)
    return array


def check_shape(array: NDArray[Any], *, name: str, shape: tuple[int | None, ...]) -> None:
    """Raise InputError unless `array` has the given shape; None matches any length."""
    fits = array.ndim == len(shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "")
        raise InputError(f"{name} must have shape ({wanted}), got {array.shape}")


def probabilities(value: ArrayLike, *, name: str, size: int | None = None) -> FloatArray:
    """Return a read-only vector of nonnegative weights that sum to 1 (to 1e-6; then normalised once, to rounding)."""
    array = floats(value, name=name, shape=(size,))
    if array.size == 0:
        raise InputError(f"{name} is empty; at least one entry is needed")
    if array.min() < 0:
        raise InputError(f"{name} must not be negative, but entry {int(array.argmin())} is {array.min()}")
    with np.errstate(over="ignore"):
        total = float(array.sum())
    if abs(total - 1.0) > 1e-6:
        raise InputError(f"{name} must sum to 1, but sums to {total:.10g}; divide by the sum")
    if abs(total - 1.0) > 1e-14:  # a normalised vector stays the same to the last bit
        array = array / total
    array.setflags(write=False)
    return array


def read_only(array: SomeArray) -> SomeArray:
    """Return a read-only view, so that numba compiles a kernel once for writeable and read-only arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


def _is_settled(array: NDArray[Any]) -> bool:
    """Return whether the array holds read-only doubles and owns its data."""
    return array.dtype == np.float64 and array.base is None and not array.flags.writeable


def _array(value: ArrayLike, *, name: str, noun: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be {noun} in rows of one length") from None


def _kind(value: object) -> str:
    dtype = getattr(value, "dtype", None)
    return f"dtype {dtype}" if dtype is not None else type(value).__name__


def plain_number(value: object) -> object:
    """Return the Python number of a numpy number, for JSON encoders."""
    if isinstance(value, np.generic):
        return cast(object, value.item())
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def as_read(value: dict[str, Any]) -> dict[str, Any]:
    """Return the value as it would be read back from a JSON file."""
    return json.loads(json.dumps(value, default=plain_number))
