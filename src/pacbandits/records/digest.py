"""What names the contents of a table: SHA-256 of texts, bytes and arrays, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.units import number_units

Part = str | bytes | np.ndarray[Any, Any]


def digest(parts: Iterable[Part]) -> str:
    """SHA-256 of the parts one after the other; an array counts with its shape."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            sha.update(str(part.shape).encode())
            sha.update(np.ascontiguousarray(part).data)
        else:
            sha.update(part.encode() if isinstance(part, str) else part)
    return sha.hexdigest()


def digest_log(log: Log) -> str:
    """Of everything in a log that a certificate rests on."""
    least = () if log.least is None else (log.least,)
    known = () if log.known is None else ("known", log.known)
    columns = (log.actions, log.rewards, log.propensities, log.rounds, log.repeats, *least, *_units(log), *known)
    return digest(chain(_described(log.contexts), columns, _phi(log.contexts)))


def _units(log: Log) -> tuple[Part, ...]:
    """Whose row each is, however they are coded; nothing where every row is of another unit."""
    if log.units is None:
        return ()
    numbers = number_units(log.units)
    return ("units", numbers) if numbers.max() < len(log) - 1 else ()


def digest_contexts(contexts: Contexts) -> str:
    """Of contexts with their weights."""
    return digest(chain(_described(contexts), (contexts.weights,), _phi(contexts)))


def _described(contexts: Contexts) -> tuple[Part, ...]:
    """Names, categories, features and ids."""
    ids = np.empty(0) if contexts.ids is None else contexts.ids
    return repr((contexts.names, contexts.categories)), contexts.features, ids


def _phi(contexts: Contexts) -> Iterable[Part]:
    """φ a block at a time, as all of it at once may be much."""
    return () if contexts.phi is None else contexts.phi.blocks()
