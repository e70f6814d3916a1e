"""API keys, sessions of the dashboard, and the admission of requests by key, scope and rate."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from math import ceil
from pathlib import Path
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from pacbandits.errors import InputError, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.database import Database
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.service.gate import NOTES, header_of
from pacbandits.service.limits import Bucket, ServiceLimits
from pacbandits.service.messages import Refusal, sentence_of

if TYPE_CHECKING:
    from pacbandits.experiment.experiment import Experiment
    from pacbandits.service.event_log import Journal, Meters
    from pacbandits.service.open_experiments import Shelf

# API keys; the database stores nothing that grants access.
#
# A key is `pb_ID_SECRET`. It is looked up by ID; of the secret, 256 random bits, only the SHA-256 is stored, and it is
# compared in constant time. A key is valid for one experiment, or, with the scope admin, for all. Every key can be
# withdrawn and replaced, and may expire.


Scope = Literal["assign", "read", "steer", "admin"]
SCOPES: tuple[Scope, ...] = ("assign", "read", "steer")  # of a key for one experiment
INCLUDED: Mapping[str, tuple[str, ...]] = {"steer": ("read", "steer")}
ADMIN: Scope = "admin"
ADMIN_KEY_VARIABLE = "PACBANDITS_ADMIN_KEY"
ENVIRONMENT = "environment"  # the ID of the key from the environment
FIRST_START = "first start"  # the label of the admin key that a server prints when it finds none
MIN_ADMIN_KEY_CHARACTERS = 16
MAX_KEY_CHARACTERS = 200
REFRESH_SECONDS = 2.0  # after which a key that another server revoked is known
_LEAST_SECONDS_BETWEEN_LOOKS = 0.2  # between queries, however many unknown keys arrive
_ID_BYTES, _SECRET_BYTES = 6, 32

keys = tables.service_keys


@dataclass(frozen=True)
class Grant:
    """The permissions of a key.

    id: the key's ID, which is not secret.
    experiment: the experiment it is for; '' for all.
    scope: one or more of assign, read and steer, with blanks between them; or admin. steer includes read.
    created: time of creation in microseconds since 1970; 0 for the key from the environment.
    expires: when it expires, in microseconds; 0 for never.
    label: a name that the admin gave it.
    origins: origins of browsers that may use it, with blanks between them; '' for a key of servers.
    """

    id: str
    experiment: str
    scope: str
    created: int = 0
    expires: int = 0
    label: str = ""
    origins: str = ""

    def opens(self, name: str, scope: Scope) -> bool:
        """Return whether the key has this scope for the named experiment."""
        if self.scope == ADMIN:
            return True
        return name == self.experiment and scope in scopes_in(self.scope)

    @property
    def expired(self) -> bool:
        """Return whether its time is over."""
        return 0 < self.expires <= time_ns() // 1_000

    @property
    def who(self) -> str:
        """Return the key as the event log names it."""
        return f"key {self.id}" + (f" ({self.label})" if self.label else "")


@cache
def scopes_in(scope: str) -> frozenset[str]:
    """Return all scopes that a key's scope stands for."""
    return frozenset(one for word in scope.split() for one in INCLUDED.get(word, (word,)))


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
        self._admin = None if admin is None else _digest(admin)
        self._known: dict[str, tuple[Grant, bytes]] = {}
        self._looked = -REFRESH_SECONDS
        self._lock = threading.Lock()
        self.refresh()

    def make(
        self, experiment: str, scope: str, *, label: str = "", seconds: float | None = None, origins: str = ""
    ) -> tuple[str, Grant]:
        """Create a key for an experiment ('' for an admin key); return it, this once, with its permissions.

        seconds: how long it is valid; None for ever.
        """
        identity, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
        now = time_ns() // 1_000
        expires = 0 if seconds is None else now + round(seconds * 1e6)
        grant = Grant(identity, experiment, scope, now, expires, label, origins)
        with self._database.engine.begin() as connection:
            connection.execute(keys.insert(), vars(grant) | {"withdrawn": 0, "digest": _digest(secret)})
        self.refresh()
        return f"pb_{identity}_{secret}", grant

    def withdraw(self, identity: str, *, experiment: str | None = None) -> Grant:
        """Revoke a key, of an experiment or of any; return its permissions; raise InputError if there is none."""
        return self._change(identity, experiment, {"withdrawn": 1})

    def rotate(self, identity: str, *, grace_seconds: float) -> tuple[str, Grant]:
        """Create a key with the permissions of another, which is valid for some more seconds."""
        ends = time_ns() // 1_000 + round(grace_seconds * 1e6)
        old = self._change(identity, None, {"expires": ends} if grace_seconds else {"withdrawn": 1})
        lasting = (old.expires - old.created) / 1e6 if old.expires else None
        return self.make(old.experiment, old.scope, label=old.label, seconds=lasting, origins=old.origins)

    def _change(self, identity: str, experiment: str | None, values: Mapping[str, int]) -> Grant:
        of = [] if experiment is None else [keys.c.experiment == experiment]
        with self._database.engine.begin() as connection:
            query = sa.select(keys).where(keys.c.id == identity, keys.c.withdrawn == 0, *of)
            found = connection.execute(query).one_or_none() if identity.isalnum() else None
            if found is None:
                where = "there is" if experiment is None else f"experiment '{plain(experiment)}' has"
                raise InputError(f"{where} no key '{plain(identity)}'")
            connection.execute(keys.update().where(keys.c.id == identity).values(**values))
        self.refresh()
        return _grant(found)

    def of(self, experiment: str | None = None) -> list[Grant]:
        """Return the keys of an experiment, or all, oldest first."""
        grants = [one for one, _ in self._known.values() if experiment in (None, one.experiment)]
        return sorted(grants, key=lambda grant: (grant.created, grant.id))

    def allows(self, experiment: str, origin: str) -> bool:
        """Return whether a key of the experiment is for pages of this origin."""
        return any(
            origin in one.origins.split()
            for one, _ in self._known.values()
            if one.origins and one.experiment == experiment
        )

    @property
    def has_admin(self) -> bool:
        """Return whether there is an admin key."""
        return self._admin is not None or any(one.scope == ADMIN and not one.expired for one in self.of(""))

    def grant(self, key: str) -> Grant | None:
        """Return the permissions of a key; None if it is unknown, revoked or expired."""
        if len(key) > MAX_KEY_CHARACTERS:
            return None
        if self._admin is not None and hmac.compare_digest(_digest(key), self._admin):
            return Grant(ENVIRONMENT, "", ADMIN)
        identity, secret = _parts(key)
        grant, digest = self._known.get(identity, (None, bytes(32)))
        valid = hmac.compare_digest(_digest(secret), digest)
        return grant if valid and grant is not None and not grant.expired else None

    def held(self, identity: str) -> tuple[Grant, bytes] | None:
        """Return the permissions and the digest of a valid key by its ID; None if it is no longer valid."""
        if identity == ENVIRONMENT:
            return None if self._admin is None else (Grant(ENVIRONMENT, "", ADMIN), self._admin)
        found = self._known.get(identity)
        return None if found is None or found[0].expired else found

    def may_be_newer(self, key: str) -> bool:
        """Return whether a reload could find an unknown key."""
        return _parts(key)[0] not in self._known

    def due_in(self) -> float:
        """Return in how many seconds the keys may be reloaded: unknown keys must not hammer the database."""
        return max(0.0, self._looked + _LEAST_SECONDS_BETWEEN_LOOKS - monotonic())

    def refresh(self) -> None:
        """Reload the keys from the database."""
        with self._lock:
            begun = monotonic()
            with self._database.reading() as connection:
                rows = connection.execute(sa.select(keys).where(keys.c.withdrawn == 0)).all()
            self._known = {row.id: (_grant(row), bytes(row.digest)) for row in rows}
            self._looked = begun


def _grant(row: tables.Row) -> Grant:
    return Grant(row.id, row.experiment, row.scope, row.created, row.expires, row.label, row.origins)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _parts(key: str) -> tuple[str, str]:
    """Return the ID and the secret of a key; empty texts if it is not a key."""
    head, _, rest = key.partition("_")
    identity, _, secret = rest.partition("_")
    return (identity, secret) if head == "pb" else ("", "")


# Sessions of the dashboard: stored, so that they end on all servers at once, and with the key that began them.


SESSION_SECONDS = 12 * 60 * 60
EVERYTHING = "*"  # stands for all experiments
_TOKEN_BYTES, _MAX_TOKEN_CHARACTERS = 32, 100
sessions = tables.service_sessions


class Sessions:
    """Begins, reads and ends sessions; a session is valid as long as its key is. The cookie is a random token."""

    def __init__(self, database: Database, keys: Keys) -> None:
        self._database, self._keys = database, keys

    def begin(self, key: str) -> str | None:
        """Return the cookie of a new session; None if the key may read nothing."""
        grant = self._keys.grant(key)
        if grant is None and not self._keys.due_in():
            self._keys.refresh()  # another server may have made it just now
            grant = self._keys.grant(key)
        found = None if grant is None else self._keys.held(grant.id)
        if found is None or not _readable(found[0]):
            return None
        token, now = secrets.token_urlsafe(_TOKEN_BYTES), time_ns() // 1_000
        row = {"id": _session(token), "key": found[0].id, "digest": found[1], "until": now + SESSION_SECONDS * 10**6}
        with self._database.engine.begin() as connection:
            connection.execute(sessions.delete().where(sessions.c.until <= now))
            connection.execute(sessions.insert(), row)
        return token

    def read(self, token: str | None) -> frozenset[str] | None:
        """Return the names of the readable experiments, or EVERYTHING; None if the session is not valid."""
        if not token or len(token) > _MAX_TOKEN_CHARACTERS:
            return None
        with self._database.reading() as connection:
            found = connection.execute(sa.select(sessions).where(sessions.c.id == _session(token))).one_or_none()
        if found is None or found.until <= time_ns() // 1_000:
            return None
        held = self._keys.held(found.key)
        if held is None:
            self._keys.refresh()  # another server may have made it just now
            held = self._keys.held(found.key)
        if held is None or not hmac.compare_digest(held[1], bytes(found.digest)):
            self.end(token)
            return None
        return _readable(held[0])

    def end(self, token: str | None) -> None:
        """End a session on all servers."""
        if token and len(token) <= _MAX_TOKEN_CHARACTERS:
            with self._database.engine.begin() as connection:
                connection.execute(sessions.delete().where(sessions.c.id == _session(token)))


PROXY_SECRET_VARIABLE, SIGN_IN_HEADER_VARIABLE = "PACBANDITS_PROXY_SECRET", "PACBANDITS_SIGN_IN_HEADER"
SECRET_HEADER = "x-pacbandits-proxy-secret"


@dataclass(frozen=True)
class ProxySignIn:
    """Sign-in by a proxy in front of the service, as with OpenID Connect: it names the user in a header.

    header: the name of that header, which the proxy sets or removes on each request.
    secret: that the proxy sends with it, so that nobody who reaches the server directly can claim to be a user.
    """

    header: str
    secret: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ProxySignIn | None:
        """Return the sign-in that environment variables ask for; None if they ask for none."""
        header, secret = (environment.get(one, "") for one in (SIGN_IN_HEADER_VARIABLE, PROXY_SECRET_VARIABLE))
        if not header and not secret:
            return None
        if not header or len(secret) < MIN_ADMIN_KEY_CHARACTERS:
            raise InputError(
                f"sign-in by a proxy needs {SIGN_IN_HEADER_VARIABLE}, the header with the user's name, and "
                f"{PROXY_SECRET_VARIABLE}, {MIN_ADMIN_KEY_CHARACTERS} characters or more that the proxy sends as "
                f"{SECRET_HEADER}"
            )
        return cls(header.lower(), secret)

    def read(self, headers: Mapping[str, str]) -> frozenset[str] | None:
        """Return what a request's user may read: everything; None if the proxy has signed nobody in."""
        given = headers.get(SECRET_HEADER, "")
        known = hmac.compare_digest(_digest(given), _digest(self.secret))
        return frozenset((EVERYTHING,)) if known and headers.get(self.header, "").strip() else None


def _session(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _readable(grant: Grant) -> frozenset[str] | None:
    """Return the experiments that a key may read; None if there are none."""
    if grant.scope == ADMIN:
        return frozenset((EVERYTHING,))
    return frozenset((grant.experiment,)) if "read" in scopes_in(grant.scope) else None


# Admission of requests, rate limits, and parsing of bodies.


MAX_BUCKETS = 10_000
READING_SHARE = 0.25  # of the time of a thread, that one key may use for reading
Asked = MutableMapping[str, Any]  # the ASGI scope of a request
Said = TypeVar("Said")
Result = TypeVar("Result")


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
    _finding: asyncio.Future[None] | None = None

    async def admit(self, request: Asked, name: str, scope: Scope) -> Grant:
        """Return the permissions of a request's key; raise Refusal unless it has this scope for the experiment."""
        grant = await self.holder(request)
        if not grant.opens(name, scope):
            if grant.experiment == name:
                may = " and ".join(grant.scope.split())
                raise Refusal(403, f"this key may only {may}; ask the admin for one with the scope '{scope}'")
            raise Refusal(403, f"this key is not for the experiment '{plain(name)}'")
        if grant.origins and header_of(request, b"origin") not in grant.origins.split():
            raise Refusal(403, f"this key is for pages of {grant.origins}, and this request is not from one")
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
        kind, _, key = header_of(request, b"authorization").partition(" ")
        if kind.lower() != "bearer" or not 0 < len(key) <= MAX_KEY_CHARACTERS:
            raise _unknown("a key is needed: send the header 'Authorization: Bearer KEY'")
        grant = self.keys.grant(key)
        if grant is None and self.keys.may_be_newer(key):
            await self._find_newer()
            grant = self.keys.grant(key)
        if grant is None:
            raise _unknown("no such key, or it was withdrawn or has expired; ask the admin for another")
        request[NOTES]["key"] = grant.id
        return grant

    async def _find_newer(self) -> None:
        """Reload the keys, for all requests that wait for it together, as soon as it is due."""
        if self._finding is None:
            self._finding = asyncio.ensure_future(self._reload())
        await asyncio.shield(self._finding)

    async def _reload(self) -> None:
        await asyncio.sleep(self.keys.due_in())
        self._finding = None  # a request that comes from here on may have a key that this query does not see
        await run_in_threadpool(self.keys.refresh)

    def spend(self, grant: Grant, rows: int) -> None:
        """Count rows against a key's rate limit; raise Refusal (429) if it is exceeded."""
        wait = self._bucket(grant).take(rows)
        if wait:
            raise Refusal(
                429,
                f"this key may ask for {self.limits.rows_per_second:g} rows a second; ask again in {wait:.1f} seconds",
                headers={"Retry-After": str(ceil(wait))},
            )

    async def look(self, grant: Grant, name: str, question: Callable[[Experiment], Result]) -> Result:
        """Ask an experiment for something that takes time, and count that time against the key's rate limit.

        A key may use READING_SHARE of the time of a thread: the rest of its limit is for assignments and rewards.
        """
        self.spend(grant, 1)

        def timed(experiment: Experiment) -> Result:
            begun = monotonic()
            try:
                return question(experiment)
            finally:
                self._charge(grant, monotonic() - begun)

        return await self.shelf.ask(name, timed)

    async def export(self, grant: Grant, name: str) -> Path:
        """Write the event log of an experiment to a new file, and count its CPU time against the key's rate limit."""
        self.spend(grant, 1)
        path, seconds = await self.shelf.export(name)
        self._charge(grant, seconds)
        return path

    def _charge(self, grant: Grant, seconds: float) -> None:
        self._bucket(grant).charge(seconds * self.limits.rows_per_second / READING_SHARE)

    def _bucket(self, grant: Grant) -> Bucket:
        bucket = self._buckets.get(grant.id)
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._buckets.clear()
            bucket = self._buckets[grant.id] = Bucket(self.limits.rows_per_second, self.limits.burst_rows)
        return bucket


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
