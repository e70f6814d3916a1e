"""The hash chain of records: each is hashed together with the hash of all before it.

    head_i = SHA-256(head_{i−1} ‖ kind ‖ record_i),     head_0 = 0

With a head noted down, one can check later whether any record before it was altered, added or left out, unless SHA-256
has a collision. Without a noted head the chain proves less: the owner of the database could have rebuilt all of it.

Units are in the chain as keyed hashes, and the key stays in the database: an export neither reveals the units nor lets
anyone search for a known one.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from pacbandits.arrays import plain_number
from pacbandits.errors import InputError, plain
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


# Time-stamps of a digest (RFC 3161): the request and the answer of a service, in DER.


MAX_STAMP_BYTES = 2**20
SERVICE_SECONDS = 30
_INTEGER, _OCTETS, _NULL, _OID, _TIME, _SEQUENCE = 0x02, 0x04, 0x05, 0x06, 0x18, 0x30
_SHA256 = bytes.fromhex("608648016503040201")
_SIGNED_DATA, _STAMP_INFO = bytes.fromhex("2a864886f70d010702"), bytes.fromhex("2a864886f70d0109100104")
_TIME_WRITTEN = re.compile(rb"([0-9]{14})(?:\.([0-9]{1,6})[0-9]*)?Z")


@dataclass(frozen=True)
class TimeStamp:
    """A time-stamp: somebody's signed word that a digest existed by a time.

    digest: in hexadecimal.
    by: the time, in microseconds, with the accuracy that the service states added.
    nonce: the number of the request, if the service repeats it.
    whole: the bytes as read, a service's answer or the token in it.
    token: whether they are the token alone.
    """

    digest: str
    by: int
    nonce: int | None
    whole: bytes
    token: bool

    @classmethod
    def parse(cls, whole: bytes, *, name: str) -> TimeStamp:
        """Parse the answer of a service, or the token in it; name: what it is called in messages."""
        try:
            (parts,) = _sequences(whole)
            if parts[0][0] == _SEQUENCE:  # an answer: its status, and the token if it was granted
                status, *reasons = _elements(parts[0][1])
                if _of(_INTEGER, status) not in (b"\0", b"\1") or len(parts) < 2:
                    said = [text.decode() for tag, texts in reasons if tag == _SEQUENCE for _, text in _elements(texts)]
                    raise InputError(f"{name} refuses a time-stamp: {plain(' '.join(said)) or 'it says no reason'}")
                token = _elements(_of(_SEQUENCE, parts[1]))
            else:
                token = parts
            return cls(*_read_token(token), whole, token is parts)
        except InputError:
            raise
        except (ValueError, IndexError, OverflowError):
            raise InputError(f"{name} is not an RFC 3161 time-stamp of a SHA-256 digest") from None

    @classmethod
    def read(cls, path: Path) -> TimeStamp:
        """Read a time-stamp from a file."""
        try:
            if not path.is_file():
                raise InputError(f"there is no file {plain(path)}")
            with path.open("rb") as file:
                return cls.parse(file.read(MAX_STAMP_BYTES), name=plain(path))
        except OSError as error:
            raise InputError(f"cannot read {plain(path)}: {error.strerror}") from None

    def wrong_signature(self, authorities: Path) -> str | None:
        """Return why the signature is not of somebody whom these certificates vouch for; None if it is.

        Raise FileNotFoundError if there is no program `openssl`, which checks it.
        """
        if not authorities.is_file():
            raise InputError(f"there is no file {plain(authorities)} with certificates, in PEM")
        known = str(authorities.resolve())
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder, "stamp.tsr")
            answer.write_bytes(self.whole)
            how = ["-digest", self.digest, "-in", str(answer), *(["-token_in"] if self.token else [])]
            command = ["openssl", "ts", "-verify", *how, "-CAfile", known, "-untrusted", known]
            found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if found.returncode == 0 and "Verification: OK" in found.stdout:
            return None
        reasons = re.findall(r"(?:Verify error:|:ts_[a-z_]+:|:PKCS7_[a-z_]+:)([^:\n]+)", found.stderr)
        return plain(reasons[-1] if reasons else "openssl refuses it")


def request_stamp(digest: str, service: str) -> TimeStamp:
    """Return the time-stamp of a digest by a service at this address, whose signature is not checked."""
    import http.client
    import urllib.error
    import urllib.request

    if not re.fullmatch(r"https?://[!-~]+", service):
        raise InputError(
            f"'{plain(service)}' is no address of a time-stamping service; give one with http:// or https://"
        )
    nonce, where = int.from_bytes(os.urandom(7), "big"), f"the time-stamping service at {plain(service)}"
    query = _der(_SEQUENCE, _number(1), _imprint(digest), _number(nonce), b"\x01\x01\xff")  # and its certificates
    headers = {"Content-Type": "application/timestamp-query", "Accept": "application/timestamp-reply"}
    try:
        asked = urllib.request.Request(service, data=query, headers=headers)
        with urllib.request.urlopen(asked, timeout=SERVICE_SECONDS) as answer:
            given = answer.read(MAX_STAMP_BYTES)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection's answer, and Python 3.14 warns of one left open
        raise InputError(f"{where} answers with {error.code} {plain(error.reason)}; check its address") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = plain(getattr(error, "reason", error))
        raise InputError(f"cannot reach {where}: {why}; check its address, or try again later") from None
    made = TimeStamp.parse(given, name=f"the answer of {where}")
    if made.digest != digest or made.nonce not in (None, nonce):
        raise InputError(f"{where} stamped another digest than {digest}, or at another time; ask another service")
    return made


def _read_token(token: list[tuple[int, bytes]]) -> tuple[str, int, int | None]:
    """Return the digest, the time in microseconds and the nonce of a signed token."""
    signed = _elements(_elements(_of(0xA0, token[1]))[0][1])
    content = _elements(_of(_SEQUENCE, signed[2]))
    if _of(_OID, token[0]) != _SIGNED_DATA or _of(_OID, content[0]) != _STAMP_INFO:
        raise ValueError
    (info,) = _sequences(_of(_OCTETS, _elements(_of(0xA0, content[1]))[0]))
    algorithm, digest = _elements(_of(_SEQUENCE, info[2]))
    if _of(_OID, _elements(_of(_SEQUENCE, algorithm))[0]) != _SHA256:
        raise ValueError
    written = _TIME_WRITTEN.fullmatch(_of(_TIME, info[4]))
    if written is None:
        raise ValueError
    at = datetime.strptime(written[1].decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    by = int(at.timestamp()) * 10**6 + int((written[2] or b"0").ljust(6, b"0"))
    accuracy = next((_elements(value) for tag, value in info[5:] if tag == _SEQUENCE), list[tuple[int, bytes]]())
    units = {_INTEGER: 10**6, 0x80: 10**3, 0x81: 1}  # seconds, milliseconds, microseconds
    by += sum(units[tag] * int.from_bytes(value, "big") for tag, value in accuracy)
    nonce = next((int.from_bytes(value, "big") for tag, value in info[5:] if tag == _INTEGER), None)
    return _of(_OCTETS, digest).hex(), by, nonce


def _der(tag: int, *parts: bytes) -> bytes:
    """Return a DER element."""
    body = b"".join(parts)
    size = len(body).to_bytes(-(-len(body).bit_length() // 8) or 1, "big")
    return bytes([tag]) + (size if len(body) < 128 else bytes([128 + len(size)]) + size) + body


def _number(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _imprint(digest: str) -> bytes:
    return _der(_SEQUENCE, _der(_SEQUENCE, _der(_OID, _SHA256), _der(_NULL)), _der(_OCTETS, bytes.fromhex(digest)))


def _elements(body: bytes) -> list[tuple[int, bytes]]:
    """Return the tag and the content of each DER element; raise ValueError if they do not fill the bytes."""
    out, place = list[tuple[int, bytes]](), 0
    while place < len(body):
        tag, size, place = body[place], body[place + 1], place + 2
        if size >= 128:
            count = size - 128
            if not 1 <= count <= 4:
                raise ValueError
            size, place = int.from_bytes(body[place : place + count], "big"), place + count
        if place + size > len(body):
            raise ValueError
        out.append((tag, body[place : place + size]))
        place += size
    return out


def _of(tag: int, element: tuple[int, bytes]) -> bytes:
    """Return the content of an element that must have this tag."""
    if element[0] != tag:
        raise ValueError
    return element[1]


def _sequences(body: bytes) -> list[list[tuple[int, bytes]]]:
    """Return the elements of each sequence."""
    return [_elements(_of(_SEQUENCE, one)) for one in _elements(body)]
