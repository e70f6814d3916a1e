"""Who is signed in: a cookie that names what one may read and until when, signed, without the key.

The process that saw a key asks again, every few seconds, what it opens: a key that was revoked is soon of no use. A
process that did not (another server with the same secret) takes the signature's word until the session ends.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock

from pacbandits.errors import InputError, count_of
from pacbandits.fields import Json
from pacbandits.service.dashboard.reading import Given

COOKIE = "pacbandits-session"
SESSION_SECONDS = 12 * 60 * 60
RECHECK_SECONDS = 15
MAX_COOKIE_CHARACTERS = 3_600  # browsers keep 4,096 with name and attributes
MAX_REMEMBERED_KEYS = 10_000
EVERYTHING = "*"  # a name that stands for all experiments
ADMIN = "admin"  # the scope of who may do everything everywhere

Scopes = Mapping[str, str]


class Sessions:
    """Makes and reads sessions.

    secret: what they are signed with; servers that share it read one another's.
    """

    def __init__(
        self, scopes_of: Callable[[str], Scopes], *, secret: bytes | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._scopes_of, self._clock = scopes_of, clock
        self._secret = secret or secrets.token_bytes(32)
        self._lock = Lock()
        # By fingerprint: the key, what it opens, and when that was asked.
        self._known: OrderedDict[str, tuple[str, Scopes, float]] = OrderedDict()

    def begin(self, key: str) -> str | None:
        """The cookie for a key, or None where it opens nothing."""
        scopes = self._ask(key)
        if not scopes:
            return None
        who = self._fingerprint(key)
        self._remember(who, key, scopes)
        return self._sealed({"who": who, "scopes": scopes, "until": int(self._clock()) + SESSION_SECONDS})

    def read(self, cookie: str | None) -> frozenset[str] | None:
        """The names of the experiments that one may read; None where nobody is signed in."""
        session = self._opened(cookie or "")
        if session is None or (session.number("until") or 0.0) <= self._clock():
            return None
        scopes = {name: str(scope) for name, scope in session.part("scopes").value.items()}
        return frozenset(self._fresh(session.text("who"), scopes)) or None

    def _fresh(self, who: str, scopes: Scopes) -> Scopes:
        """What the key opens now, where this process knows it."""
        with self._lock:
            known = self._known.get(who)
        if known is None:
            return scopes
        key, last, asked = known
        if self._clock() - asked < RECHECK_SECONDS:
            return last
        now = self._ask(key)
        self._remember(who, key, now)
        return now

    def _ask(self, key: str) -> Scopes:
        """What a key opens now; who may write may read, and the admin is not named one experiment after the other."""
        scopes = dict(self._scopes_of(key))
        return {EVERYTHING: ADMIN} if ADMIN in scopes.values() else scopes

    def _remember(self, who: str, key: str, scopes: Scopes) -> None:
        with self._lock:
            self._known[who] = (key, scopes, self._clock())
            self._known.move_to_end(who)
            while len(self._known) > MAX_REMEMBERED_KEYS:
                self._known.popitem(last=False)

    def _fingerprint(self, key: str) -> str:
        return hmac.new(self._secret, b"key" + key.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:32]

    def _sealed(self, session: Json) -> str:
        body = base64.urlsafe_b64encode(zlib.compress(json.dumps(session).encode())).decode()
        cookie = f"{body}.{self._signature(body)}"
        if len(cookie) > MAX_COOKIE_CHARACTERS:
            many = count_of(len(session["scopes"]), "experiment")
            raise InputError(f"this key opens {many}, more than one session can hold; use a key for fewer of them")
        return cookie

    def _opened(self, cookie: str) -> Given | None:
        body, _, signature = cookie.rpartition(".")
        if len(cookie) > MAX_COOKIE_CHARACTERS or not cookie.isascii():
            return None
        if not hmac.compare_digest(signature, self._signature(body)):
            return None
        return Given(json.loads(zlib.decompress(base64.urlsafe_b64decode(body))))

    def _signature(self, body: str) -> str:
        return hmac.new(self._secret, b"session" + body.encode(), hashlib.sha256).hexdigest()
