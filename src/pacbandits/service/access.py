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

# API keys; the database stores nothing that grants access.
#
# A key is `pb_ID_SECRET`. It is looked up by ID; of the secret, 256 random bits, only the SHA-256 is stored, and it is
# compared in constant time. A key is valid for one experiment, with the scope read or write (which includes read); or
# for all: the admin key, which alone may create experiments and keys.


Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")
ADMIN_KEY_VARIABLE = "PACBANDITS_ADMIN_KEY"
MIN_ADMIN_KEY_CHARACTERS = 16
MAX_KEY_CHARACTERS = 200
REFRESH_SECONDS = 2.0  # after which a key that another server created or revoked is known
_LEAST_SECONDS_BETWEEN_LOOKS = 0.5  # between queries, however many unknown keys arrive
_ID_BYTES, _SECRET_BYTES = 6, 32
_ADVISORY_LOCK = 0x7061_6362_6B65  # of PostgreSQL, so that two servers that start together do not both draw a secret

keys, signing = tables.service_keys, tables.service_signing


@dataclass(frozen=True)
class Grant:
    """The permissions of a key.

    id: the key's ID, which is not secret.
    experiment: the experiment it is for; '' for all.
    scope: read, write or admin.
    created: time of creation in microseconds since 1970; 0 for the key from the environment.
    """

    id: str
    experiment: str
    scope: Scope
    created: int = 0

    def opens(self, name: str, scope: Scope) -> bool:
        """Return whether the key has this scope for the named experiment."""
        if self.scope == "admin":
            return True
        return name == self.experiment and SCOPES.index(scope) <= SCOPES.index(self.scope)


class Keys:
    """The keys of one database, cached in memory and reloaded every few seconds.

    admin: an admin key from the environment, which is not stored.
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
        """Create a key for an experiment ('' for an admin key); return it, this once, with its permissions."""
        identity, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
        grant = Grant(identity, experiment, scope, time_ns() // 1_000)
        row = {"id": identity, "experiment": experiment, "scope": scope, "created": grant.created, "withdrawn": 0}
        with self._database.engine.begin() as connection:
            connection.execute(keys.insert(), row | {"digest": _digest(secret)})
        self.refresh()
        return f"pb_{identity}_{secret}", grant

    def withdraw(self, identity: str, *, experiment: str) -> Grant:
        """Revoke a key of an experiment and return its permissions; raise InputError if there is no such key."""
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
        """Return the keys of an experiment, oldest first."""
        grants = [grant for grant, _ in self._known.values() if grant.experiment == experiment]
        return sorted(grants, key=lambda grant: (grant.created, grant.id))

    @property
    def has_admin(self) -> bool:
        """Return whether there is an admin key."""
        return self._admin is not None or any(grant.scope == "admin" for grant, _ in self._known.values())

    def grant(self, key: str) -> Grant | None:
        """Return the permissions of a key; None if it is unknown or revoked."""
        if len(key) > MAX_KEY_CHARACTERS:
            return None
        if self._admin is not None and hmac.compare_digest(_digest(key), self._admin):
            return Grant("environment", "", "admin")
        identity, secret = _parts(key)
        grant, digest = self._known.get(identity, (None, bytes(32)))
        return grant if hmac.compare_digest(_digest(secret), digest) else None

    def may_be_newer(self, key: str) -> bool:
        """Return whether a reload could find an unknown key."""
        return _parts(key)[0] not in self._known and monotonic() - self._looked > _LEAST_SECONDS_BETWEEN_LOOKS

    def scopes_of(self, key: str) -> Mapping[str, Scope]:
        """Return the scope of a key by experiment: all experiments for an admin key, none for an unknown key."""
        grant = self.grant(key)
        if grant is None:
            return {}
        names = self._database.names() if grant.scope == "admin" else (grant.experiment,)
        return dict.fromkeys(names, grant.scope)

    def refresh(self) -> None:
        """Reload the keys from the database."""
        with self._lock:
            self._looked = monotonic()
            with self._database.reading() as connection:
                rows = connection.execute(sa.select(keys).where(keys.c.withdrawn == 0)).all()
            self._known = {
                row.id: (Grant(row.id, row.experiment, row.scope, row.created), bytes(row.digest)) for row in rows
            }


def shared_secret(database: Database) -> bytes:
    """Return the signing secret that all servers of a database share; the first one draws it."""
    with database.engine.begin() as connection:
        _lock(connection)
        found = connection.execute(sa.select(signing.c.secret)).scalar_one_or_none()
        if found is None:
            found = secrets.token_bytes(_SECRET_BYTES)
            connection.execute(signing.insert(), {"only": 1, "secret": found})
    return bytes(found)


def _lock(connection: Connection) -> None:
    """Exclude other servers until the transaction ends; in SQLite a writer is exclusive anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _parts(key: str) -> tuple[str, str]:
    """Return the ID and the secret of a key; empty texts if it is not a key."""
    head, _, rest = key.partition("_")
    identity, _, secret = rest.partition("_")
    return (identity, secret) if head == "pb" else ("", "")


# Admission of requests, rate limits, and parsing of bodies.


MAX_BUCKETS = 10_000
Asked = MutableMapping[str, Any]  # the ASGI scope of a request
Said = TypeVar("Said")


@dataclass(eq=False)
class Service:
    """The state that the routes of one server share.

    shelf: the cache of open experiments.
    keys: the API keys.
    limits: limits on requests.
    meters, journal: metrics and server log.
    stopping: whether the server is shutting down.
    """

    shelf: Shelf
    keys: Keys
    limits: ServiceLimits
    meters: Meters
    journal: Journal
    stopping: bool = False
    _buckets: dict[str, Bucket] = field(default_factory=dict[str, Bucket])

    async def admit(self, request: Asked, name: str, scope: Scope) -> Grant:
        """Return the permissions of a request's key; raise Refusal unless it has this scope for the experiment."""
        grant = await self.holder(request)
        if not grant.opens(name, scope):
            if grant.experiment == name:
                raise Refusal(403, f"this key may only {grant.scope}; ask the admin for one with the scope '{scope}'")
            raise Refusal(403, f"this key is not for the experiment '{plain(name)}'")
        request[NOTES]["experiment"] = name
        return grant

    async def admit_admin(self, request: Asked) -> Grant:
        """Return the permissions of a request's key; raise Refusal unless it is an admin key."""
        grant = await self.holder(request)
        if grant.scope != "admin":
            raise Refusal(403, "this takes the admin's key")
        return grant

    async def holder(self, request: Asked) -> Grant:
        """Return the permissions of a request's key; raise Refusal if it is missing or unknown."""
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
        """Count rows against a key's rate limit; raise Refusal (429) if it is exceeded."""
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
    """Parse a body as the adapter's type; raise Refusal (422) if it is invalid."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise Refusal(422, sentence_of(error)) from None


def parse_either(body: bytes, one: TypeAdapter[Said], several: TypeAdapter[Said], word: bytes) -> Said:
    """Parse a body as one item, or as a batch of items under the key `word`; raise Refusal (422) if it is neither.

    Usually one pass suffices: a batch begins with the word, and a single item rarely contains it. If both fail and the
    body contains the word, the message is about the batch.
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
