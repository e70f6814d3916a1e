"""The chain of records: each is hashed together with the hash of all before it.

    head_i = SHA-256(head_{i−1} ‖ kind ‖ record_i),     head_0 = 0

Whoever noted down a head can tell later whether any record before it was altered, added or left out, as long as nobody
finds two inputs of the same SHA-256. A chain that nobody noted down proves less: whoever keeps the database could have
made all of it anew.

Units stand in the chain by a keyed hash, whose key stays in the database: so a record can be handed on without telling
who the people were, and without anybody being able to look for a known one.
"""

from __future__ import annotations

import hmac
import json
import struct
from hashlib import blake2b, sha256
from typing import Any

BEGINNING = bytes(32)
MARK_BYTES, ID_BYTES = 16, 10
ASSIGNMENT, OUTCOME, ENTRY = b"a", b"o", b"e"
_ASSIGNED = struct.Struct("<qqiiiiq")
_OUTCOME = struct.Struct("<qqiidq")
_ENTRY = struct.Struct("<qq")


def mark_of(secret: bytes, unit: str) -> bytes:
    """What stands for a unit in the chain and in what is handed on."""
    return blake2b(b"unit:" + unit.encode("utf-8", "surrogatepass"), key=secret, digest_size=MARK_BYTES).digest()


def id_of(secret: bytes, row: int) -> str:
    """The id of an assignment: its row, and what nobody without the secret can guess."""
    return f"{row:x}-{blake2b(b'row:%d' % row, key=secret, digest_size=ID_BYTES).hexdigest()}"


def row_of(secret: bytes, given: str) -> int | None:
    """The row of an id that this experiment gave out; None for any other text."""
    digits, _, _ = given.partition("-")
    if not 0 < len(digits) <= 15 or not digits.isascii() or not digits.isalnum():
        return None
    try:
        row = int(digits, 16)
    except ValueError:
        return None
    known = id_of(secret, row).encode()
    return row if hmac.compare_digest(known, given.encode("utf-8", "surrogatepass")) else None


def assignment_bytes(
    sequence: int,
    row: int,
    mark: bytes,
    visit: int,
    round_number: int,
    action: int,
    holdout: int,
    at: int,
    features: bytes,
    propensities: bytes,
) -> bytes:
    """An assignment as it is hashed."""
    head = _ASSIGNED.pack(sequence, row, visit, round_number, action, holdout, at)
    return b"".join((head, mark, features, propensities))


def outcome_bytes(sequence: int, row: int, kind: int, late: int, value: float, at: int) -> bytes:
    """What came of an assignment, as it is hashed."""
    return _OUTCOME.pack(sequence, row, kind, late, value, at)


def entry_bytes(sequence: int, at: int, kind: str, body: str) -> bytes:
    """Any other entry, as it is hashed; body: its JSON as it is stored."""
    return _ENTRY.pack(sequence, at) + json.dumps([kind, body], ensure_ascii=True).encode()


def linked(head: bytes, kind: bytes, record: bytes) -> bytes:
    """The head after one more record."""
    return sha256(b"".join((head, kind, record))).digest()


def canonical(body: Any) -> str:
    """The one text that stands for something in JSON."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
