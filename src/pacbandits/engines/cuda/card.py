"""The card, if there is one, and what lies in its memory."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any


@cache
def cupy() -> Any:
    """CuPy, through which everything on the card is done."""
    return importlib.import_module("cupy")
