"""Webhooks of experiments: their settings, the outbox of events, and deliveries over HTTP.

A webhook belongs to an experiment and not to its protocol: it has its own table, which no digest, event log or export
covers, and may change at any time. An event and the deliveries that it causes are stored in one transaction, so a crash
loses neither. The worker process delivers them at least once, with the same idempotency id at each attempt.

Secrets are never stored: the table says in which environment variable or file the worker finds them. Logs and lists
name a webhook by its id and the host of its URL, as the rest of a URL may be a secret too.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import random
import re
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from threading import Event, Thread
from typing import Literal, cast
from urllib.parse import SplitResult, urlsplit

from pacbandits.errors import InputError, nearest, one_line, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.database import Connection, Database, describe_failure, read_standing, spell
from pacbandits.experiment.extra import exc
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.stored_rows import DeliveryRow, WebhookRow
from pacbandits.schema import Json, format_text, items, json_object, one_of, text, texts
from pacbandits.version import __version__

# Settings.


CERTIFIED, GUARDRAIL, SAMPLE_RATIO, DRIFT, FAILED = EVENTS = (
    "certified",
    "paused_by_guardrail",
    "sample_ratio_mismatch",
    "drift",
    "analysis_failed",
)
TEST = "test"  # the event of `pacbandits experiment webhooks test`, which every webhook gets
OF_CHECK = {"sample ratio": SAMPLE_RATIO, "drift": DRIFT}  # by the kind of an assumption check
Format = Literal["json", "slack"]
FORMATS: tuple[Format, ...] = ("json", "slack")
BODY_FORMAT = 1  # number of the format of a JSON body
FIELDS = ("url", "events", "secret", "format")  # of [[webhooks]]
MAX_WEBHOOKS = 20  # of an experiment
MIN_SECRET_CHARACTERS = 16
MAX_URL_CHARACTERS, MAX_TEXT_CHARACTERS = 2_000, 2_000
MAX_SECRET_BYTES = 4_096
_VARIABLE, _FILE = "env:", "file:"
_SECRET_EXAMPLE = 'secret = "env:HOOK_SECRET" or secret = "file:hook.secret"'


@dataclass(frozen=True)
class Webhook:
    """A receiver of an experiment's events.

    url: http:// or https://; or where to find it: "env:NAME", an environment variable of the worker, or "file:PATH".
    events: the events that it is told of; all by default.
    secret: where the worker finds the key of signatures, "env:NAME" or "file:PATH"; required unless format is "slack".
    format: "json", or "slack" for {"text": …}, which Slack and those compatible with it show.
    id: '' before it is stored.
    """

    url: str
    events: tuple[str, ...] = EVENTS
    secret: str = ""
    format: Format = "json"
    id: str = ""

    def check(self) -> None:
        """Raise InputError if a setting is wrong; it quotes no secret.

        Only new webhooks are checked: a stored one must not keep an analysis from its end, whatever it says.
        """
        if not isinstance(self.url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError("'url' of a webhook must be text")
        if _is_reference(self.url):
            _check_reference(self.url, name="url")
        else:
            split_url(self.url)
        for event in texts(list(self.events), name="'events' of a webhook"):
            if event not in EVENTS:
                raise InputError(f"there is no event '{plain(event)}' of webhooks{nearest(event, EVENTS)}")
        if not self.events:
            raise InputError("'events' of a webhook is empty; name some, or leave it out for all")
        one_of(self.format, FORMATS, name="'format' of a webhook")
        if not isinstance(self.secret, str) or (self.secret and not _is_reference(self.secret)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"'secret' of a webhook must not be the secret itself; write {_SECRET_EXAMPLE}")
        if self.secret:
            _check_reference(self.secret, name="secret")
        elif self.format == "json":
            raise InputError(
                f"a webhook needs a secret, by which its receiver checks signatures; write {_SECRET_EXAMPLE}"
            )

    @property
    def shown(self) -> str:
        """Return the URL without what may be secret: its scheme and host."""
        if _is_reference(self.url):
            return self.url
        try:
            parts = split_url(self.url)
        except InputError:
            return "…"
        return f"{parts.scheme}://{parts.netloc}/…"

    def to_json(self) -> Json:
        """Return the settings for lists, with the shown URL."""
        return {
            "id": self.id,
            "url": self.shown,
            "events": list(self.events),
            "secret": self.secret or None,
            "format": self.format,
        }

    @classmethod
    def of_row(cls, row: WebhookRow) -> Webhook:
        """Return a stored webhook."""
        kind: Format = "slack" if row.format == "slack" else "json"
        return cls(row.url, tuple(json.loads(row.events)), row.secret, kind, row.id)


def read_webhooks(value: object, *, folder: Path) -> tuple[Webhook, ...]:
    """Return the webhooks of `[[webhooks]]` in a protocol's file; folder: of the files that they name."""
    out: list[Webhook] = []
    if not isinstance(value, list):
        raise InputError("'webhooks' is a list of tables: write [[webhooks]], and below it url = …")
    for one in items(cast(object, value), name="'webhooks'", most=MAX_WEBHOOKS):
        given = json_object(one, name="an entry of [[webhooks]]")
        for name in given:
            if name not in FIELDS:
                raise InputError(f"[[webhooks]] says '{plain(name)}', which means nothing there{nearest(name, FIELDS)}")
        if "url" not in given:
            raise InputError("'url' of [[webhooks]] is missing; write url = \"https://example.org/hook\"")
        out.append(
            Webhook(
                absolute(given["url"], folder=folder),
                texts(given["events"], name="'events' of [[webhooks]]") if "events" in given else EVENTS,
                absolute(given.get("secret", ""), folder=folder),
                given.get("format", "json"),
            )
        )
        out[-1].check()
    return tuple(out)


def absolute(given: object, *, folder: Path) -> str:
    """Return "file:PATH" with an absolute path, and anything else as it is."""
    if isinstance(given, str) and given.startswith(_FILE) and given != _FILE:
        return f"{_FILE}{(folder / given.removeprefix(_FILE)).absolute()}"
    return cast(str, given)  # `Webhook` checks its type


def split_url(url: str) -> SplitResult:
    """Return the parts of an http(s) URL; raise InputError, which does not quote it, if it is none."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, good = SplitResult("", "", "", "", ""), False
    if not good or len(url) > MAX_URL_CHARACTERS or not url.isascii() or re.search(r"[\x00-\x20\x7f\\]", url):
        raise InputError(
            "'url' of a webhook must be an address such as https://example.org/hook, in ASCII; or "
            "env:NAME or file:PATH, where to find it"
        )
    if "@" in parts.netloc:
        raise InputError("'url' of a webhook must not hold a password; receivers check the signature instead")
    return parts


def _is_reference(given: str) -> bool:
    return given.startswith((_VARIABLE, _FILE))


def _check_reference(given: str, *, name: str) -> None:
    text(given, name=f"'{name}' of a webhook", most=MAX_URL_CHARACTERS)
    good = re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*|file:[^\x00]+", given)
    if good is None:
        raise InputError(f"'{name}' of a webhook is '{plain(given)}'; write env:NAME, a variable, or file:PATH")


def resolve(reference: str) -> str:
    """Return what an environment variable or a file says; raise InputError, which does not quote it, if it is empty."""
    if reference.startswith(_VARIABLE):
        name = reference.removeprefix(_VARIABLE)
        found, where = os.environ.get(name, ""), f"the environment variable {name}"
    else:
        path = Path(reference.removeprefix(_FILE))
        where = f"the file {plain(path, most=200)}"
        try:
            with path.open("rb") as file:
                found = file.read(MAX_SECRET_BYTES).decode()
        except OSError as error:
            raise InputError(f"{where} cannot be read: {error.strerror or type(error).__name__}") from None
        except UnicodeDecodeError:
            raise InputError(f"{where} is not text in UTF-8") from None
    if not found.strip():
        raise InputError(f"{where} is not set or empty")
    return found.strip()


# Stored webhooks.


def add_webhooks(connection: Connection, experiment: str, given: Sequence[Webhook], *, at: int) -> list[str]:
    """Store webhooks of an experiment; return their ids."""
    w = tables.webhooks
    there = connection.execute(sa.select(sa.func.count()).where(w.c.experiment == experiment)).scalar_one()
    if there + len(given) > MAX_WEBHOOKS:
        raise InputError(f"an experiment has at most {MAX_WEBHOOKS} webhooks; remove one first")
    ids: list[str] = []
    for one in given:
        one.check()
        ids.append(secrets.token_hex(4))
        row = WebhookRow(ids[-1], experiment, one.url, one.secret, one.format, json.dumps(list(one.events)), at)
        connection.execute(sa.insert(w), row._asdict())
    return ids


def webhooks_of(connection: Connection, experiment: str) -> list[Webhook]:
    """Return the webhooks of an experiment, oldest first."""
    w = tables.webhooks
    query = sa.select(w).where(w.c.experiment == experiment).order_by(w.c.created, w.c.id)
    return [Webhook.of_row(WebhookRow(*row)) for row in connection.execute(query)]


def find_webhook(connection: Connection, experiment: str, id: str) -> Webhook:
    """Return a webhook by its id; raise InputError if the experiment has none of that id."""
    known = {one.id: one for one in webhooks_of(connection, experiment)}
    if id not in known:
        raise InputError(f"'{plain(experiment)}' has no webhook '{plain(id)}'{nearest(id, known) if known else ''}")
    return known[id]


def remove_webhooks(connection: Connection, experiment: str, id: str | None = None) -> None:
    """Delete a webhook with its deliveries; all of the experiment's without an id."""
    if id is not None:
        find_webhook(connection, experiment, id)
    for table, column in ((tables.webhook_deliveries, "webhook"), (tables.webhooks, "id")):
        query = sa.delete(table).where(table.c.experiment == experiment)
        connection.execute(query if id is None else query.where(table.c[column] == id))


# The outbox.


WAITING, DELIVERED, GIVEN_UP = "waiting", "delivered", "given up"  # states of a delivery


def queue(
    connection: Connection,
    experiment: str,
    event: str,
    *,
    cause: object,
    at: int,
    words: str,
    details: Json,
    rehearsal: bool,
) -> None:
    """Store the deliveries of an event, within its transaction; of an event with the same cause there is one alone.

    words: the event in a sentence, after the experiment's name. details: further fields of the JSON body.
    """
    for hook in _untold(connection, experiment, event, str(cause)):
        id = secrets.token_hex(16)
        body = body_of(hook, id, experiment, event, at=at, words=words, details=details, rehearsal=rehearsal)
        row = DeliveryRow(id, experiment, hook.id, event, str(cause), at, body, WAITING, 0, 0, 0, "")
        connection.execute(sa.insert(tables.webhook_deliveries), row._asdict())


def _untold(connection: Connection, experiment: str, event: str, cause: str) -> list[Webhook]:
    """Return the webhooks that want an event and were not told of this one."""
    d = tables.webhook_deliveries.c
    told = set(
        connection.execute(
            sa.select(d.webhook).where(d.experiment == experiment, d.event == event, d.cause == cause)
        ).scalars()
    )
    return [one for one in webhooks_of(connection, experiment) if event in one.events and one.id not in told]


def queue_failure(database: Database, experiment: str, error: Exception, *, rehearsal: bool) -> None:
    """Store the event that an analysis failed: once for each kind of error until an analysis succeeds."""
    with suppress(InputError, exc.SQLAlchemyError):  # deleted meanwhile, or the database does not answer either
        with database.reading() as connection:
            cause = f"{read_standing(connection, experiment).look} {type(error).__name__}"
            if not _untold(connection, experiment, FAILED, cause):
                return  # read before writing: a failing analysis is tried again twice a second
        # Messages of other errors may quote rows; that of an InputError is in the server log, too.
        reason = one_line(str(error)) if isinstance(error, InputError) else type(error).__name__
        at = database.clock()
        with database.writing(experiment) as (connection, _):
            queue(
                connection,
                experiment,
                FAILED,
                cause=cause,
                at=at,
                words=f"the analysis failed: {reason}. It is tried again; the server log says more",
                details={"reason": reason},
                rehearsal=rehearsal,
            )


def body_of(
    hook: Webhook, id: str, experiment: str, event: str, *, at: int, words: str, details: Json, rehearsal: bool
) -> str:
    """Return the request body of an event in the webhook's format."""
    kind = "Rehearsal" if rehearsal else "Experiment"
    said = one_line(f"{kind} {experiment}: {words}", most=MAX_TEXT_CHARACTERS)
    if hook.format == "slack":  # which reads <!channel> and <https://…> as commands
        escaped = said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return json.dumps({"text": escaped})
    return json.dumps(
        {
            "format": format_text("webhook", BODY_FORMAT),
            "id": id,
            "event": event,
            "experiment": experiment,
            "rehearsal": rehearsal,
            "at": spell(at),
            "text": said,
            "details": details,
        }
    )


def count_deliveries(connection: Connection, *, experiment: str | None = None, now: int = 0) -> Json:
    """Return the numbers of deliveries by state and of failed attempts, and the age of the oldest that waits."""
    d = tables.webhook_deliveries.c
    query = sa.select(d.state, sa.func.count(), sa.func.sum(d.attempts), sa.func.min(d.at)).group_by(d.state)
    found = {
        row[0]: row[1:]
        for row in connection.execute(query if experiment is None else query.where(d.experiment == experiment))
    }
    counts = {state: int(found[state][0]) if state in found else 0 for state in (WAITING, DELIVERED, GIVEN_UP)}
    attempts = sum(int(one[1]) for one in found.values())
    return {
        "waiting": counts[WAITING],
        "delivered": counts[DELIVERED],
        "given_up": counts[GIVEN_UP],
        "failed_attempts": attempts - counts[DELIVERED],
        "waiting_seconds": max(now - int(found[WAITING][2]), 0) / 1e6 if WAITING in found else 0.0,
    }


def list_webhooks(connection: Connection, experiment: str) -> list[Json]:
    """Return the webhooks of an experiment with the state of their deliveries, as JSON."""
    d, out = tables.webhook_deliveries.c, list[Json]()
    for one in webhooks_of(connection, experiment):
        query = sa.select(d.state, d.event, d.tried, d.answer, d.attempts).where(d.webhook == one.id)
        rows = connection.execute(query.order_by(d.tried.desc(), d.at.desc())).all()
        last = next((row for row in rows if row.tried), None)
        out.append(
            one.to_json()
            | {
                name.replace(" ", "_"): sum(row.state == name for row in rows)
                for name in (DELIVERED, WAITING, GIVEN_UP)
            }
            | {
                "last": None
                if last is None
                else {"event": last.event, "at": spell(last.tried), "state": last.state, "answer": last.answer}
            }
        )
    return out


def try_again(database: Database, experiment: str) -> int:
    """Make the deliveries due now that wait or were given up; return how many."""
    t = tables.webhook_deliveries
    with database.writing(experiment) as (connection, _):
        query = sa.update(t).where(t.c.experiment == experiment, t.c.state.in_((WAITING, GIVEN_UP)))
        return connection.execute(query.values(state=WAITING, attempts=0, due=0)).rowcount


# Deliveries.


ATTEMPT_SECONDS = 10.0  # from the look-up of the host to the status of the answer
CLAIM_SECONDS = 60.0  # after which another process may try, as this one may have been killed
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 10.0, 3600.0  # between attempts; doubled each time, less up to half
MAX_ATTEMPTS = 100  # three days with these pauses
AT_ONCE = 8  # attempts in parallel, so that a receiver that is down does not hold up others
POLL_SECONDS = 1.0
Say = Callable[..., None]


def deliver_due(database: Database, *, experiment: str | None = None, say: Say | None = None) -> int:
    """Try the deliveries that are due, of all experiments or of one; return how many there were.

    say: writes a line of the log, with an event and fields.
    """
    d, w = tables.webhook_deliveries, tables.webhooks
    query = sa.select(d, w).join(w, w.c.id == d.c.webhook).where(d.c.state == WAITING)
    if experiment is not None:
        query = query.where(d.c.experiment == experiment)
    now = database.clock()
    with database.reading() as connection:
        rows = connection.execute(query.where(d.c.due <= now).order_by(d.c.due, d.c.at).limit(AT_ONCE)).all()
    width = len(d.c)
    attempts = [_Attempt(database, DeliveryRow(*row[:width]), WebhookRow(*row[width:]), say) for row in rows]
    claimed = [one for one in attempts if one.claim(now)]
    threads = [Thread(target=one.run, name="pacbandits webhook", daemon=True) for one in claimed]
    for thread in threads:
        thread.start()
    until = time.monotonic() + ATTEMPT_SECONDS
    for one, thread in zip(claimed, threads, strict=True):
        thread.join(max(until - time.monotonic(), 0.0))
        if thread.is_alive():  # its result, if there will be one, comes too late to count
            one.settle(f"no answer within {ATTEMPT_SECONDS:g} seconds")
    return len(rows)


def keep_delivering(database: Database, experiment: str | None, stopped: Event, say: Say) -> None:
    """Deliver what is due until `stopped` is set."""
    while not stopped.is_set():
        found = 0
        try:
            found = deliver_due(database, experiment=experiment, say=say)
        except exc.SQLAlchemyError:
            pass  # the database may answer later
        except Exception as error:  # whatever it is, the next attempt may succeed
            say("webhooks cannot be delivered", **describe_failure(error))
        stopped.wait(0.0 if found == AT_ONCE else POLL_SECONDS)


class _Attempt:
    """One attempt at a delivery; its claim keeps other processes from making one at the same time."""

    def __init__(self, database: Database, row: DeliveryRow, hook: WebhookRow, say: Say | None) -> None:
        self._database, self._row, self._hook, self._say = database, row, hook, say

    def claim(self, now: int) -> bool:
        """Claim the delivery; return False if another process did, or the webhook was removed."""
        until = now + round(CLAIM_SECONDS * 1e6)
        claimed = self._update(due=until)
        self._row = self._row._replace(due=until)
        return claimed

    def run(self) -> None:
        """Send the request and store how that ended."""
        try:
            words = send(Webhook.of_row(self._hook), id=self._row.id, event=self._row.event, body=self._row.body)
        except Exception as error:  # whatever it is, it is tried again
            words = type(error).__name__
        with suppress(exc.SQLAlchemyError):  # the claim ends, and it is tried again
            self.settle(words)

    def settle(self, words: str) -> None:
        """Store how the attempt ended, unless that was done; words: the reason if it failed, else ''."""
        row, attempts, now = self._row, self._row.attempts + 1, self._database.clock()
        state = DELIVERED if not words else GIVEN_UP if attempts >= MAX_ATTEMPTS else WAITING
        due = now + round(1e6 * pause_after(attempts))
        if self._update(state=state, attempts=attempts, due=due, tried=now, answer=words) and self._say is not None:
            told = "a webhook was delivered" if not words else "a webhook could not be delivered"
            reason = {"reason": words} if words else {}
            ids = {"experiment": row.experiment, "webhook": row.webhook, "delivery": row.id}
            self._say(told, **ids, kind=row.event, attempt=attempts, **reason)

    def _update(self, **values: object) -> bool:
        t, row = tables.webhook_deliveries, self._row
        query = sa.update(t).where(t.c.id == row.id, t.c.due == row.due, t.c.state == WAITING)
        with self._database.engine.begin() as connection:
            return connection.execute(query.values(**values)).rowcount == 1


def pause_after(attempts: int) -> float:
    """Return the seconds to the next attempt: exponential, with jitter, so that many do not come at once."""
    longest = min(FIRST_PAUSE_SECONDS * 2.0 ** min(attempts - 1, 40), LONGEST_PAUSE_SECONDS)
    return longest * random.uniform(0.5, 1.0)


def sign(secret: str, timestamp: int, body: str) -> str:
    """Return the value of the signature header: HMAC-SHA256 of "TIMESTAMP.BODY" in hexadecimal."""
    made = hmac.new(secret.encode(), f"{timestamp}.{body}".encode(), hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={made}"


def send(hook: Webhook, *, id: str, event: str, body: str) -> str:
    """Post a body to a webhook, once; return '' if the answer's status is 2xx, and else the reason, without secrets.

    Redirects are not followed, proxies of the environment are not used, and the body of the answer is not read.
    """
    try:
        url = split_url(resolve(hook.url) if _is_reference(hook.url) else hook.url)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"pacbandits/{__version__}",
            "Pacbandits-Event": event,
            "Pacbandits-Delivery": id,
        }
        if hook.secret:
            secret = resolve(hook.secret)
            if len(secret) < MIN_SECRET_CHARACTERS:
                raise InputError(f"the secret of a webhook must have {MIN_SECRET_CHARACTERS} characters or more")
            headers["Pacbandits-Signature"] = sign(secret, int(time.time()), body)
        with closing(_connect(url)) as connection:
            target = (url.path or "/") + (f"?{url.query}" if url.query else "")
            connection.request("POST", target, body.encode(), headers)
            status = connection.getresponse().status
    except InputError as error:
        return str(error)
    except (socket.gaierror, UnicodeError):  # the latter for a name that DNS cannot hold
        return "the host of its URL is not known"
    except TimeoutError:
        return f"no answer within {ATTEMPT_SECONDS:g} seconds"
    except ssl.SSLCertVerificationError as error:
        return one_line(f"the certificate of its host is not valid: {error.verify_message}")
    except http.client.RemoteDisconnected:
        return "the connection was closed without an answer"
    except http.client.HTTPException:
        return "the answer is not HTTP"
    except OSError as error:
        return one_line(f"cannot connect: {error.strerror or type(error).__name__}")
    return "" if 200 <= status < 300 else f"status {status}"


def send_test(hook: Webhook, experiment: str, *, at: int, rehearsal: bool) -> str:
    """Send an event of the kind "test"; return '' or the reason, like `send`."""
    id, words = secrets.token_hex(16), "this is a test of a webhook"
    body = body_of(hook, id, experiment, TEST, at=at, words=words, details={}, rehearsal=rehearsal)
    return send(hook, id=id, event=TEST, body=body)


def _connect(url: SplitResult) -> http.client.HTTPConnection:
    """Return a connection to an address of a host; all of them are checked first, and no other is looked up later."""
    host, secure = str(url.hostname), url.scheme == "https"
    port = url.port or (443 if secure else 80)
    addresses = list(dict.fromkeys(str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
    for address in addresses:
        if is_refused(address):
            raise InputError("its host has a link-local, multicast or cloud metadata address, which is refused")
    failed: OSError = OSError("no address")
    for address in addresses:
        try:
            bare = socket.create_connection((address, port), timeout=ATTEMPT_SECONDS)
        except OSError as error:
            failed = error
            continue
        if not secure:
            made = http.client.HTTPConnection(host, port, timeout=ATTEMPT_SECONDS)
            made.sock = bare
            return made
        context = ssl.create_default_context()
        made = http.client.HTTPSConnection(host, port, timeout=ATTEMPT_SECONDS, context=context)
        try:
            made.sock = context.wrap_socket(bare, server_hostname=host)
        except BaseException:
            bare.close()
            raise
        return made
    raise failed


# Instance metadata outside of the link-local networks: Alibaba, Azure, Oracle, and of IPv6 Amazon and Google.
_METADATA = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
_NAT64 = IPv6Network("64:ff9b::/96")  # whose last 32 bits are an IPv4 address


def is_refused(address: str) -> bool:
    """Return whether no webhook may be sent to an IP address: link-local, multicast, unspecified, cloud metadata.

    Loopback and private addresses are allowed: whoever configures webhooks has a shell on the machine, and receivers
    are often internal.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inner = IPv4Address(int(found) & 0xFFFF_FFFF) if found in _NAT64 else found.ipv4_mapped
        found = inner or found
    return found.is_link_local or found.is_multicast or found.is_unspecified or found in _METADATA
