"""Import SQLAlchemy, or raise InputError with the command that installs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pacbandits.errors import InputError

if TYPE_CHECKING:
    import sqlalchemy
    from sqlalchemy import event, exc
else:
    try:
        sqlalchemy, event, exc = (import_module(name) for name in ("sqlalchemy", "sqlalchemy.event", "sqlalchemy.exc"))
    except ModuleNotFoundError:
        raise InputError("experiments are kept by SQLAlchemy; pip install 'pacbandits[service]'") from None

__all__ = ["event", "exc", "sqlalchemy"]
