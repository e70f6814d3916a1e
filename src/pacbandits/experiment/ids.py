"""Ids of assignments: by which rewards are reported, and which never stand for two assignments.

    id = row ‖ "-" ‖ BLAKE2b_secret(row, nonce, unit)

Rows are numbered from 0, so a database that is restored from a backup, or fails over to a replica that lacks the last
transactions, numbers new rows as it numbered the lost ones. The nonce, which is drawn with each transaction, and the
unit make their ids differ: a report for a lost assignment is refused rather than counted for somebody else.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import blake2b

ID_BYTES, NONCE_BYTES = 10, 4
MAX_ROW_DIGITS = 15  # hexadecimal


def draw_nonce() -> str:
    """Draw the nonce of a transaction's assignments."""
    return secrets.token_hex(NONCE_BYTES)


def id_of(secret: bytes, row: int, *, unit: str, nonce: str) -> str:
    """Return the id of an assignment, which cannot be guessed without the secret; unit: as stored.

    Without a nonce, that is the id by which the first version issued it: a hash of the row alone.
    """
    hashed = b"row:%d:%s:" % (row, nonce.encode()) + unit.encode() if nonce else b"row:%d" % row
    return f"{row:x}-{blake2b(hashed, key=secret, digest_size=ID_BYTES).hexdigest()}"


def row_in(given: str) -> int | None:
    """Return the row that an id names; None if it has not the form of an id. `is_id` checks the rest."""
    digits, _, _ = given.partition("-")
    if not 0 < len(digits) <= MAX_ROW_DIGITS or not digits.isascii() or not digits.isalnum():
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None


def is_id(given: str, secret: bytes, row: int, *, unit: str, nonce: str) -> bool:
    """Return whether a text is the id of this assignment."""
    known = id_of(secret, row, unit=unit, nonce=nonce)
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "surrogatepass"))
