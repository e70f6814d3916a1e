"""The order of rows by their contents: a shuffle that no arrangement of a file can change.

If any order of rows is valid, they are sorted by a digest of their contents, so that whoever writes the file cannot
choose which rows teach and which bet. All hashes are BLAKE2b.

1. The digest of a row, 16 bytes, is of everything that a certificate takes from it, in words of 8 bytes, little-endian:
   its features in the order of their names, a number as an IEEE double and a label as the 16-byte digest of its text;
   the action; the reward; the propensities; their declared minima, the context id, φ, the metrics and the round from
   which the reward was known, if the log has them. Zero has one sign, and a missing number one form.
2. The digest of a unit with several rows is of the sorted digests of these; otherwise a row is an item of its own.
3. The key, 32 bytes, is the digest of the sorted digests of all items: it depends on every row, and on no order.
4. The j-th copy of an item, from 0, has the place that the 8-byte digest of key, item and j has among all others.

Equal items are interchangeable, but each copy needs its own place: without j all copies would follow each other, and
rows with the same reward would clump. With j, the order is pseudo-random whatever the rows contain.

`pacbandits.verifier.content_order` derives the same order by code of its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.records import Log
from pacbandits.records.log import number_units

Words = NDArray[np.uint64]

ROW_BYTES, KEY_BYTES, PLACE_BYTES = 16, 32, 8
WORDS_PER_DIGEST = ROW_BYTES // 8
ROWS_AT_A_TIME = 2**14  # by one core
MAX_KEYED_ROWS = 2**20  # at a time, to save memory
MEMORY_BYTES_PER_ROW = 80  # while rows are ordered: digests, their order, copies and places

BLAKE_START = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    dtype=np.uint64,
)
BLAKE_ORDER = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    dtype=np.int64,
)
BLAKE_MIXED = np.array(  # the four words of each of the eight steps of a round
    [
        [0, 4, 8, 12],
        [1, 5, 9, 13],
        [2, 6, 10, 14],
        [3, 7, 11, 15],
        [0, 5, 10, 15],
        [1, 6, 11, 12],
        [2, 7, 8, 13],
        [3, 4, 9, 14],
    ],
    dtype=np.int64,
)


@kernel
def digest_words(
    words: Words, size: int, start: Words, order: NDArray[np.int64], mixed: NDArray[np.int64], out: Words
) -> None:
    """Write the BLAKE2b digests of rows of words (n, w) to out (n, 2); size: of a digest, in bytes, 8 or 16.

    start, order, mixed: the constants of BLAKE2b. For digests of 8 bytes the second word of `out` is 0.
    """
    n, width = words.shape
    state, v, message = np.empty(8, dtype=np.uint64), np.empty(16, dtype=np.uint64), np.empty(16, dtype=np.uint64)
    for row in range(n):
        for i in range(8):
            state[i] = start[i]
        state[0] ^= np.uint64(0x01010000) ^ np.uint64(size)
        first = 0
        while True:
            end = min(first + 16, width)
            for i in range(16):
                message[i] = words[row, first + i] if first + i < end else np.uint64(0)
            for i in range(8):
                v[i] = state[i]
                v[i + 8] = start[i]
            v[12] ^= np.uint64(8 * end)
            if end == width:
                v[14] = ~v[14]
            for turn in range(12):
                for step in range(8):
                    a, b, c, d = mixed[step, 0], mixed[step, 1], mixed[step, 2], mixed[step, 3]
                    x, y, z, w = v[a], v[b], v[c], v[d]
                    x = x + y + message[order[turn, 2 * step]]
                    w = w ^ x
                    w = (w >> np.uint64(32)) | (w << np.uint64(32))
                    z = z + w
                    y = y ^ z
                    y = (y >> np.uint64(24)) | (y << np.uint64(40))
                    x = x + y + message[order[turn, 2 * step + 1]]
                    w = w ^ x
                    w = (w >> np.uint64(16)) | (w << np.uint64(48))
                    z = z + w
                    y = y ^ z
                    y = (y >> np.uint64(63)) | (y << np.uint64(1))
                    v[a], v[b], v[c], v[d] = x, y, z, w
            for i in range(8):
                state[i] ^= v[i] ^ v[i + 8]
            first = end
            if end == width:
                break
        out[row, 0] = state[0]
        out[row, 1] = state[1] if size == 16 else np.uint64(0)


def hashed_words(words: Words, size: int) -> Words:
    """Return the digests (n, 2) of rows of words (n, w); size: in bytes, 8 or 16."""
    words = np.require(words, dtype=np.uint64, requirements=("C", "W"))
    out = np.empty((len(words), WORDS_PER_DIGEST), dtype=np.uint64)
    parts = -(-len(words) // ROWS_AT_A_TIME)

    def fill(first: int, last: int) -> None:
        here = slice(first * ROWS_AT_A_TIME, last * ROWS_AT_A_TIME)
        digest_words(words[here], size, BLAKE_START, BLAKE_ORDER, BLAKE_MIXED, out[here])

    over_cores(fill, count=parts)
    return out


def row_digests(log: Log) -> Words:
    """Return the digests (n, 2) of the rows of a log, by their contents alone."""
    contexts, n = log.contexts, len(log)
    columns: list[Words] = []
    for j in sorted(range(contexts.n_features), key=contexts.names.__getitem__):
        labels, values = contexts.categories[j], contexts.features[:, j]
        columns.append(_bits(values) if labels is None else _label_digests(labels)[values.astype(np.int64)])
    columns += [log.actions.astype(np.uint64), _bits(log.rewards), _bits(log.propensities)]
    columns += [] if log.least is None else [_bits(log.least)]
    columns += [] if contexts.ids is None else [contexts.ids.astype(np.uint64)]
    columns += [] if contexts.phi is None else [_bits(contexts.phi.array)]
    columns += [] if log.metric_values is None else [_bits(log.metric_values)]
    columns += [] if log.known is None else [log.known.astype(np.uint64)]
    return hashed_words(np.concatenate([one.reshape(n, -1) for one in columns], axis=1), ROW_BYTES)


def _bits(numbers: FloatArray) -> Words:
    """Return the bits of numbers, with one sign of zero and one form of NaN."""
    return _normal(numbers).view(np.uint64)


def _normal(numbers: FloatArray) -> FloatArray:
    """Return numbers with one sign of zero and one form of NaN, which equal numbers then share to the last bit."""
    return np.where(np.isnan(numbers), np.nan, numbers + 0.0)


@lru_cache(maxsize=256)
def _label_digests(labels: tuple[str, ...]) -> Words:
    """Return the digests (m, 2) of the texts of labels."""
    parts = (hashlib.blake2b(text.encode(), digest_size=ROW_BYTES).digest() for text in labels)
    return np.frombuffer(b"".join(parts), dtype=np.uint64).reshape(-1, WORDS_PER_DIGEST)


def sorted_by_content(log: Log) -> Log:
    """Return the rows of a log in the order of their contents; those of a unit follow each other."""
    return normalised(log).take(order_by_content(log))


def normalised(log: Log) -> Log:
    """Return a log in which equal numbers have the same bits, so that copies of a row are interchangeable."""
    contexts = log.contexts
    phi = None if contexts.phi is None else replace(contexts.phi, table=_normal(contexts.phi.table))
    return replace(
        log,
        contexts=replace(contexts, features=_normal(contexts.features), phi=phi),
        rewards=_normal(log.rewards),
        propensities=_normal(log.propensities),
        least=None if log.least is None else _normal(log.least),
        metric_values=None if log.metric_values is None else _normal(log.metric_values),
    )


def order_by_content(log: Log) -> IntArray:
    """Return the order (n,) of the rows of a log by their contents; the rows of a unit follow each other."""
    digests = row_digests(log)
    if log.units is None:
        return order_items(digests)
    unit = number_units(log.units)
    rows = np.lexsort((digests[:, 1], digests[:, 0], unit))
    starts = np.flatnonzero(np.diff(unit[rows], prepend=-1))
    visits = np.split(digests[rows], starts[1:])
    items = np.array([own[0] if len(own) == 1 else _digest_of_unit(own) for own in visits])
    place = np.empty(len(items), dtype=np.int64)
    place[order_items(items)] = np.arange(len(items))
    return rows[np.argsort(place[unit[rows]], kind="stable")]


def _digest_of_unit(visits: Words) -> Words:
    """Return the digest (2,) of the sorted digests (m, 2) of a unit's rows."""
    return np.frombuffer(hashlib.blake2b(visits.tobytes(), digest_size=ROW_BYTES).digest(), dtype=np.uint64)


def order_items(digests: Words) -> IntArray:
    """Return the order (n,) of rows, or units, with these digests (n, 2)."""
    by = np.argsort(digests[:, 0])
    ranked = digests[by]
    if ((ranked[1:, 0] == ranked[:-1, 0]) & (ranked[1:, 1] != ranked[:-1, 1])).any():
        by = np.lexsort((digests[:, 1], digests[:, 0]))
        ranked = digests[by]
    places = np.empty(len(by), dtype=np.uint64)
    key = np.frombuffer(hashlib.blake2b(ranked.data, digest_size=KEY_BYTES).digest(), dtype=np.uint64)
    copies = _copies(ranked)
    for first in range(0, len(by), MAX_KEYED_ROWS):
        here = slice(first, first + MAX_KEYED_ROWS)
        parts = np.tile(key, (len(by[here]), 1)), ranked[here], copies[here, None]
        places[here] = hashed_words(np.concatenate(parts, axis=1), PLACE_BYTES)[:, 0]
    return by[np.argsort(places, kind="stable")]


def _copies(ranked: Words) -> Words:
    """Return the number j (n,) of each of these sorted digests (n, 2) among its equals."""
    numbers = np.arange(len(ranked), dtype=np.uint64)
    new = np.r_[True, (ranked[1:] != ranked[:-1]).any(axis=1)]
    return numbers - np.maximum.accumulate(np.where(new, numbers, np.uint64(0)))
