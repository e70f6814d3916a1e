"""SQLAlchemy, which keeps experiments: missed in one line that says how to get it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pacbandits.errors import InputError

if TYPE_CHECKING:
    import sqlalchemy
else:
    try:
        sqlalchemy = import_module("sqlalchemy")
    except ModuleNotFoundError:
        raise InputError("experiments are kept by SQLAlchemy; pip install 'pacbandits[service]'") from None

__all__ = ["sqlalchemy"]
