"""The order of rows by their contents, derived again.

The rule is that of `pacbandits.certificate.content_order`, in other code: every hash is by the standard library, row by
row. A row's contents are all that a certificate takes from it. What they hash to depends neither on the row's number
nor on its file, and where it stands depends on the contents of all rows.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.records import Log
from pacbandits.records.contexts import Phi

DIGEST_WORDS = 2  # of 64 bits
DIGEST_BYTES, KEY_BYTES, PLACE_BYTES = 16, 32, 8


def digests_of(log: Log) -> NDArray[np.uint64]:
    """Return the digest (n, 2) of the contents of each row."""
    data = _contents(log).tobytes()
    width = len(data) // len(log)
    rows = (data[start : start + width] for start in range(0, len(data), width))
    return _pairs([blake2b(row, digest_size=DIGEST_BYTES).digest() for row in rows])


def log_by_content(log: Log) -> Log:
    """Return a log in the order of its contents."""
    return with_equal_bits(log).take(content_order(log))


def with_equal_bits(log: Log) -> Log:
    """Return a log with one zero and one NaN, so that equal rows are equal in all bits."""
    contexts, least = log.contexts, log.least
    phi = contexts.phi if contexts.phi is None else Phi(_alike(contexts.phi.table), contexts.phi.rows)
    return replace(
        log,
        contexts=replace(contexts, features=_alike(contexts.features), phi=phi),
        rewards=_alike(log.rewards),
        propensities=_alike(log.propensities),
        least=least if least is None else _alike(least),
        metric_values=None if log.metric_values is None else _alike(log.metric_values),
    )


def content_order(log: Log) -> IntArray:
    """Return the rows (n,) of a log in the order of their contents, those of each person one after the other."""
    digests = digests_of(log)
    if log.units is None:
        return place_by_digest(digests)
    rows: dict[int, list[tuple[int, int, int]]] = {}
    for row, (unit, first, second) in enumerate(zip(log.units.tolist(), *digests.T.tolist(), strict=True)):
        rows.setdefault(unit, []).append((first, second, row))
    people = [sorted(visits) for visits in rows.values()]
    ordered: list[int] = place_by_digest(_pairs([_digest_of_person(digests, visits) for visits in people])).tolist()
    return np.array([visit[2] for person in ordered for visit in people[person]], dtype=np.int64)


def place_by_digest(digests: NDArray[np.uint64]) -> IntArray:
    """Return the order (n,) of items with these digests (n, 2): by a digest of all items, their own, and their copy."""
    rising = np.lexsort(digests.T[::-1])
    data = digests[rising].astype("<u8").tobytes()
    key = blake2b(data, digest_size=KEY_BYTES).digest()
    items = (data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES))
    places = b"".join(
        blake2b(key + item + copy.to_bytes(8, "little"), digest_size=PLACE_BYTES).digest()
        for _, equals in groupby(items)
        for copy, item in enumerate(equals)
    )
    return rising[np.argsort(np.frombuffer(places, dtype="<u8"), kind="stable")]


def _contents(log: Log) -> NDArray[np.int64]:
    """Return the contents (n, words) of each row, little-endian."""
    contexts, parts = log.contexts, list[NDArray[np.int64]]()
    for name in sorted(contexts.names):
        j = contexts.names.index(name)
        labels = contexts.categories[j]
        if labels is None:
            parts.append(_as_words(contexts.features[:, j]))
            continue
        texts = _pairs([blake2b(label.encode("utf-8"), digest_size=DIGEST_BYTES).digest() for label in labels])
        parts.append(texts.view(np.int64)[contexts.features[:, j].astype(np.int64)])
    parts += [log.actions, _as_words(log.rewards), _as_words(log.propensities)]
    if log.least is not None:
        parts.append(_as_words(log.least))
    if contexts.ids is not None:
        parts.append(contexts.ids)
    if contexts.phi is not None:
        parts.append(_as_words(contexts.phi.array))
    if log.metric_values is not None:
        parts.append(_as_words(log.metric_values))
    if log.known is not None:
        parts.append(log.known)
    return np.hstack([np.asarray(part, dtype="<i8").reshape(len(log), -1) for part in parts])


def _as_words(numbers: FloatArray) -> NDArray[np.int64]:
    """Return numbers as 64-bit words; −0 is 0, and there is one NaN."""
    return _alike(numbers).view(np.int64)


def _alike(numbers: FloatArray) -> FloatArray:
    """Return numbers with one zero and one NaN."""
    out = np.array(numbers, dtype=np.float64)
    out[out == 0.0] = 0.0
    out[np.isnan(out)] = np.nan
    return out


def _digest_of_person(digests: NDArray[np.uint64], visits: list[tuple[int, int, int]]) -> bytes:
    """Return the digest of a person: that of the only row, or of the digests of all of them, rising."""
    data = b"".join(digests[row].astype("<u8").tobytes() for _, _, row in visits)
    return data if len(visits) == 1 else blake2b(data, digest_size=DIGEST_BYTES).digest()


def _pairs(digests: list[bytes]) -> NDArray[np.uint64]:
    """Return digests of 16 bytes as two words each (n, 2)."""
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, DIGEST_WORDS)
