"""Times: whole microseconds since 1970 in UTC, and how they are written."""

from __future__ import annotations

from datetime import UTC, datetime

from pacbandits.errors import InputError


def microseconds(moment: datetime) -> int:
    """A time as a number."""
    if moment.tzinfo is None:
        raise InputError(f"the clock must tell the time with its zone, as datetime.now(UTC) does; got {moment}")
    return round(moment.timestamp() * 1e6)


def spell(moment: int) -> str:
    """A time as text, in UTC."""
    return datetime.fromtimestamp(moment / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)
