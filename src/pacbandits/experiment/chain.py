"""The hash chain of records: each is hashed together with the hash of all before it.

    head_i = SHA-256(head_{i−1} ‖ kind ‖ record_i),     head_0 = 0

With a head noted down, one can check later whether any record before it was altered, added or left out, unless SHA-256
has a collision. Without a noted head the chain proves less: the owner of the database could have rebuilt all of it.

Units are in the chain as keyed hashes, and the key stays in the database: an export neither reveals the units nor lets
anyone search for a known one.
"""

from __future__ import annotations

import json
import re
import struct
from hashlib import blake2b, sha256
from typing import Any

from pacbandits.arrays import plain_number
from pacbandits.schema import Json

BEGINNING = bytes(32)
MARK_BYTES = 16
ASSIGNMENT, OUTCOME, ENTRY = b"a", b"o", b"e"
# The line by which a head is published: the experiment, the number of records, the head, and the time of the last one.
PUBLISHED = re.compile(
    r"pacbandits head (?P<experiment>\S+) (?P<records>[0-9]{1,18}) (?P<head>[0-9a-f]{64}) (?P<at>\S+)"
)
_ASSIGNED = struct.Struct("<qqiiiiq")
_OUTCOME = struct.Struct("<qqiidq")
_ENTRY = struct.Struct("<qq")


def mark_of(secret: bytes, unit: str) -> bytes:
    """Return the keyed hash that replaces a unit in the chain and in exports."""
    return blake2b(b"unit:" + unit.encode("utf-8", "surrogatepass"), key=secret, digest_size=MARK_BYTES).digest()


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
    """Return the bytes of an assignment that are hashed."""
    head = _ASSIGNED.pack(sequence, row, visit, round_number, action, holdout, at)
    return b"".join((head, mark, features, propensities))


def outcome_bytes(sequence: int, row: int, kind: int, late: int, value: float, at: int) -> bytes:
    """Return the bytes of an outcome that are hashed."""
    return _OUTCOME.pack(sequence, row, kind, late, value, at)


def entry_bytes(sequence: int, at: int, kind: str, body: str) -> bytes:
    """Return the bytes of any other entry that are hashed; body: its JSON as stored."""
    return _ENTRY.pack(sequence, at) + json.dumps([kind, body], ensure_ascii=True).encode()


def linked(head: bytes, kind: bytes, record: bytes) -> bytes:
    """Return the head after one more record."""
    return sha256(b"".join((head, kind, record))).digest()


def canonical(body: Any) -> str:
    """Return the canonical JSON text of a value."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def publish(protocol: Json) -> Json:
    """Return a protocol in JSON with a hash instead of its seed."""
    if "seed" not in protocol:
        return protocol
    shown = {name: value for name, value in protocol.items() if name != "seed"}
    return shown | {"seed_sha256": hash_seed(str(protocol["seed"]))}


def hash_seed(seed: str) -> str:
    """Return a commitment to a seed: it lets others check the seed once disclosed, and does not reveal a random one."""
    return sha256(f"pacbandits seed {seed}".encode()).hexdigest()


def digest_published(protocol: Json) -> str:
    """Return the digest of a protocol in JSON, the same whether it holds the seed or its hash."""
    written = json.dumps(publish(protocol), sort_keys=True, separators=(",", ":"), default=plain_number)
    return sha256(written.encode("utf-8")).hexdigest()
