"""API keys, and the admission of requests by key, scope and rate."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from hashlib import sha256
from math import ceil
from time import monotonic, time_ns
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from pacbandits.errors import InputError, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.database import Connection, Database
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.service.event_log import Journal, Meters
from pacbandits.service.gate import NOTES
from pacbandits.service.limits import Bucket, ServiceLimits
from pacbandits.service.messages import Refusal, sentence_of
from pacbandits.service.open_experiments import Shelf

# Keys of the service: what is stored of one does not open anything.
#
# A key is `pb_ID_SECRET`. The ID finds it; of the secret, 256 bits that were drawn, only the SHA-256 is kept, and
# compared in constant time. A key is for one experiment, to read or to write (which includes to read), or for all of
# them: the admin's, who alone creates experiments and keys.


Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")
ADMIN_KEY_VARIABLE = "PACBANDITS_ADMIN_KEY"
MIN_ADMIN_KEY_CHARACTERS = 16
MAX_KEY_CHARACTERS = 200
REFRESH_SECONDS = 2.0  # after which a key that another server made or withdrew is known
_LEAST_SECONDS_BETWEEN_LOOKS = 0.5  # however many unknown keys come
_ID_BYTES, _SECRET_BYTES = 6, 32
_ADVISORY_LOCK = 0x7061_6362_6B65  # of PostgreSQL, so that two servers that start together do not both draw a secret

keys, signing = tables.service_keys, tables.service_signing


@dataclass(frozen=True)
class Grant:
    """What a key opens.

    id: of the key; no secret.
    experiment: which one; '' for all.
    scope: what may be done there.
    created: when it was made, in microseconds since 1970; 0 for the key of the environment.
    """

    id: str
    experiment: str
    scope: Scope
    created: int = 0

    def opens(self, name: str, scope: Scope) -> bool:
        """Whether this may be done with the experiment of that name."""
        if self.scope == "admin":
            return True
        return name == self.experiment and SCOPES.index(scope) <= SCOPES.index(self.scope)


class Keys:
    """The keys of one database, held in memory and looked up anew every few seconds.

    admin: a key of the environment, which is stored nowhere.
    """

    def __init__(self, database: Database, *, admin: str | None = None) -> None:
        if admin is not None and not MIN_ADMIN_KEY_CHARACTERS <= len(admin) <= MAX_KEY_CHARACTERS:
            raise InputError(
                f"{ADMIN_KEY_VARIABLE} must have {MIN_ADMIN_KEY_CHARACTERS} to {MAX_KEY_CHARACTERS} characters, got "
                f"{len(admin)}; python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
            )
        self._database = database
        self._admin = None if admin is None else sha256(admin.encode()).digest()
        self._known: dict[str, tuple[Grant, bytes]] = {}
        self._looked = -REFRESH_SECONDS
        self._lock = threading.Lock()
        self.refresh()

    def make(self, experiment: str, scope: Scope) -> tuple[str, Grant]:
        """A new key for an experiment, '' for the admin's: shown now, and never again."""
        identity, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
        grant = Grant(identity, experiment, scope, time_ns() // 1_000)
        row = {"id": identity, "experiment": experiment, "scope": scope, "created": grant.created, "withdrawn": 0}
        with self._database.engine.begin() as connection:
            connection.execute(keys.insert(), row | {"digest": _digest(secret)})
        self.refresh()
        return f"pb_{identity}_{secret}", grant

    def withdraw(self, identity: str, *, experiment: str) -> Grant:
        """Let a key of an experiment open nothing any more."""
        with self._database.engine.begin() as connection:
            changed = connection.execute(
                keys.update()
                .where(keys.c.id == identity, keys.c.experiment == experiment, keys.c.withdrawn == 0)
                .values(withdrawn=1)
            )
            found = changed.rowcount
        grant = self._known.get(identity)
        if not found or grant is None:
            raise InputError(f"experiment '{plain(experiment)}' has no key '{plain(identity)}'")
        self.refresh()
        return grant[0]

    def of(self, experiment: str) -> list[Grant]:
        """The keys of an experiment, in the order in which they were made."""
        grants = [grant for grant, _ in self._known.values() if grant.experiment == experiment]
        return sorted(grants, key=lambda grant: (grant.created, grant.id))

    @property
    def has_admin(self) -> bool:
        """Whether anybody may create experiments."""
        return self._admin is not None or any(grant.scope == "admin" for grant, _ in self._known.values())

    def grant(self, key: str) -> Grant | None:
        """What a key opens; None for one that nobody made, or that was withdrawn."""
        if len(key) > MAX_KEY_CHARACTERS:
            return None
        if self._admin is not None and hmac.compare_digest(_digest(key), self._admin):
            return Grant("environment", "", "admin")
        identity, secret = _parts(key)
        grant, digest = self._known.get(identity, (None, bytes(32)))
        return grant if hmac.compare_digest(_digest(secret), digest) else None

    def may_be_newer(self, key: str) -> bool:
        """Whether looking again could find a key that was not known."""
        return _parts(key)[0] not in self._known and monotonic() - self._looked > _LEAST_SECONDS_BETWEEN_LOOKS

    def scopes_of(self, key: str) -> Mapping[str, Scope]:
        """What a key opens, by the names of experiments; of the admin's, all there are."""
        grant = self.grant(key)
        if grant is None:
            return {}
        names = self._database.names() if grant.scope == "admin" else (grant.experiment,)
        return dict.fromkeys(names, grant.scope)

    def refresh(self) -> None:
        """Look up what keys there are."""
        with self._lock:
            self._looked = monotonic()
            with self._database.reading() as connection:
                rows = connection.execute(sa.select(keys).where(keys.c.withdrawn == 0)).all()
            self._known = {
                row.id: (Grant(row.id, row.experiment, row.scope, row.created), bytes(row.digest)) for row in rows
            }


def shared_secret(database: Database) -> bytes:
    """What all servers over a database sign with; drawn by the first of them."""
    with database.engine.begin() as connection:
        _lock(connection)
        found = connection.execute(sa.select(signing.c.secret)).scalar_one_or_none()
        if found is None:
            found = secrets.token_bytes(_SECRET_BYTES)
            connection.execute(signing.insert(), {"only": 1, "secret": found})
    return bytes(found)


def _lock(connection: Connection) -> None:
    """Let no other server do the same; in SQLite, whoever writes is alone anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _parts(key: str) -> tuple[str, str]:
    """The ID and the secret of a key; nothing for what is none."""
    head, _, rest = key.partition("_")
    identity, _, secret = rest.partition("_")
    return (identity, secret) if head == "pb" else ("", "")


# Who may ask for what, how much of it, and what their bodies say.


MAX_BUCKETS = 10_000
Asked = MutableMapping[str, Any]  # a request, as ASGI describes it
Said = TypeVar("Said")


@dataclass(eq=False)
class Service:
    """What the routes of one server share.

    shelf: the experiments. keys: who may do what. limits: how much. meters, journal: what was done.
    stopping: whether the server is about to end.
    """

    shelf: Shelf
    keys: Keys
    limits: ServiceLimits
    meters: Meters
    journal: Journal
    stopping: bool = False
    _buckets: dict[str, Bucket] = field(default_factory=dict[str, Bucket])

    async def admit(self, request: Asked, name: str, scope: Scope) -> Grant:
        """What the key of a request opens; raise unless that is this experiment, for this."""
        grant = await self.holder(request)
        if not grant.opens(name, scope):
            if grant.experiment == name:
                raise Refusal(403, f"this key may only {grant.scope}; ask the admin for one with the scope '{scope}'")
            raise Refusal(403, f"this key is not for the experiment '{plain(name)}'")
        request[NOTES]["experiment"] = name
        return grant

    async def admit_admin(self, request: Asked) -> Grant:
        """Raise unless the key of a request is the admin's."""
        grant = await self.holder(request)
        if grant.scope != "admin":
            raise Refusal(403, "this takes the admin's key")
        return grant

    async def holder(self, request: Asked) -> Grant:
        """What the key of a request opens; raise where there is none, or a wrong one."""
        kind, _, key = _header(request, b"authorization").partition(" ")
        if kind.lower() != "bearer" or not 0 < len(key) <= MAX_KEY_CHARACTERS:
            raise _unknown("a key is needed: send the header 'Authorization: Bearer KEY'")
        grant = self.keys.grant(key)
        if grant is None and self.keys.may_be_newer(key):
            await run_in_threadpool(self.keys.refresh)
            grant = self.keys.grant(key)
        if grant is None:
            raise _unknown("no such key, or it was withdrawn; ask the admin for another")
        request[NOTES]["key"] = grant.id
        return grant

    def spend(self, grant: Grant, rows: int) -> None:
        """Count rows against what a key may ask for; raise where it is too much."""
        bucket = self._buckets.get(grant.id)
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._buckets.clear()
            bucket = self._buckets[grant.id] = Bucket(self.limits.rows_per_second, self.limits.burst_rows)
        wait = bucket.take(rows)
        if wait:
            raise Refusal(
                429,
                f"this key may ask for {self.limits.rows_per_second:g} rows a second; ask again in {wait:.1f} seconds",
                headers={"Retry-After": str(ceil(wait))},
            )


def _header(request: Asked, name: bytes) -> str:
    for key, value in request["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""


def _unknown(sentence: str) -> Refusal:
    return Refusal(401, sentence, headers={"WWW-Authenticate": "Bearer"})


def parse(body: bytes, adapter: TypeAdapter[Said]) -> Said:
    """What a body says, as what it should be."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise Refusal(422, sentence_of(error)) from None


def parse_either(body: bytes, one: TypeAdapter[Said], several: TypeAdapter[Said], word: bytes) -> Said:
    """One thing, or several under a word: whichever it seems to be, told by the other's rules only if it is that.

    Both are read in one pass, as a rule: a batch begins with its word, and one thing seldom holds it.
    """
    quoted = b'"' + word + b'"'
    if quoted not in body:
        return parse(body, one)
    first, second = (several, one) if quoted in body[:64] else (one, several)
    try:
        return first.validate_json(body)
    except ValidationError as error:
        try:
            return second.validate_json(body)
        except ValidationError as other:
            told = error if first is several else other
            raise Refusal(422, sentence_of(told)) from None
