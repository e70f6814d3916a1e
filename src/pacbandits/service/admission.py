"""Who may ask for what, how much of it, and what their bodies say."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from pacbandits.errors import plain
from pacbandits.service.gate import NOTES
from pacbandits.service.journal import Journal
from pacbandits.service.keys import MAX_KEY_CHARACTERS, Grant, Keys, Scope
from pacbandits.service.limits import Bucket, ServiceLimits
from pacbandits.service.meters import Meters
from pacbandits.service.refusals import Refusal, sentence_of
from pacbandits.service.shelf import Shelf

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
