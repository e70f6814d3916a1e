"""Webhooks: what is told, to whom, how it is signed, and that nothing is lost when a process is killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from pacbandits.certificate.check import DRIFT, SAMPLE_RATIO, AssumptionCheck
from pacbandits.errors import InputError
from pacbandits.experiment import analyses, steering, webhooks
from pacbandits.experiment.database import Database
from pacbandits.experiment.experiment import Experiment, delete_experiment
from pacbandits.experiment.protocol import GuardrailRule
from pacbandits.experiment.protocol_files import read_protocol, read_protocol_webhooks
from pacbandits.experiment.webhooks import Webhook, deliver_due, is_refused, pause_after, queue, send
from pacbandits.service.event_log import Meters
from pacbandits.service.parts import PartWatch
from tests.experiment.cases import people, protocol
from tests.experiment.live import Played
from tests.service.postgres import postgres

SECRET = "a secret of some length"
DOCS = Path(__file__).parents[2] / "docs"


class Receiver:
    """An HTTP server on the loopback that keeps what it is sent.

    statuses: its next answers; 200 when there are no more. before: called with each request before its answer.
    """

    def __init__(self, context=None):
        self.requests, self.statuses, self.before = [], [], lambda request: None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = SimpleNamespace(path=self.path, headers=self.headers, body=body)
                outer.requests.append(request)
                outer.before(request)
                status = outer.statuses.pop(0) if outer.statuses else 200
                self.send_response(status)
                if status // 100 == 3:
                    self.send_header("Location", outer.url)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook?key=hidden"

    @property
    def ids(self):
        return [one.headers["Pacbandits-Delivery"] for one in self.requests]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    made = Receiver()
    yield made
    made.close()


def tell(database, event="drift", cause="", words="signs of drift", **options):
    """Store an event as an analysis does."""
    with database.writing("checkout") as (connection, _):
        given = {"details": {}, "rehearsal": False, "at": database.clock(), **options}
        queue(connection, "checkout", event, cause=cause, words=words, **given)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A database with an experiment, as bytes."""
    path = tmp_path_factory.mktemp("webhooks") / "e.db"
    Experiment.create(path, protocol()).close()
    return path.read_bytes()


@pytest.fixture
def base(tmp_path, made):
    """Such a database of the test's own."""
    (tmp_path / "e.db").write_bytes(made)
    database = Database(tmp_path / "e.db")
    yield database
    database.close()


def add(database, *hooks):
    with database.writing("checkout") as (connection, standing):
        return webhooks.add_webhooks(connection, "checkout", hooks, at=standing.seen_until)


def deliveries(database):
    """The rows of the outbox by the time of the event."""
    with database.engine.connect() as connection:
        return connection.exec_driver_sql("SELECT * FROM webhook_deliveries ORDER BY at, event").all()


def make_due(database):
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE webhook_deliveries SET due = 0")


def documented_check():
    """The check of signatures that the documentation gives to receivers."""
    page = (DOCS / "experiments.md").read_text(encoding="utf-8")
    names = {}
    exec(re.search(r"<!-- webhook: .*?```python\n(.*?)```", page, re.DOTALL)[1], names)
    return names["is_genuine"]


# Settings.


TOML = """
name = "checkout"
contexts = "contexts.parquet"
actions = ["standard", "discount", "free shipping"]
policies = "trees:depth=1"
epsilon = 0.2
seed = 17
"""
HOOKS = """
[[webhooks]]
url = "https://example.org/hook"
secret = "file:hook.secret"
events = ["drift", "certified"]
[[webhooks]]
url = "env:SLACK_URL"
format = "slack"
"""


def test_webhooks_of_a_file_are_no_part_of_the_protocol(tmp_path):
    people().write(tmp_path / "contexts.parquet")
    for name, words in (("with", TOML + HOOKS), ("without", TOML)):
        (tmp_path / f"{name}.toml").write_text(words)
    found = read_protocol_webhooks(tmp_path / "with.toml")
    assert found == (
        Webhook("https://example.org/hook", ("drift", "certified"), f"file:{tmp_path / 'hook.secret'}"),
        Webhook("env:SLACK_URL", format="slack"),
    )
    assert found[1].events == webhooks.EVENTS
    assert read_protocol_webhooks(tmp_path / "without.toml") == ()
    assert read_protocol(tmp_path / "with.toml").digest == read_protocol(tmp_path / "without.toml").digest


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "'url' of [[webhooks]] is missing"),
        ('url = "https://h.example/s3cr3t"', "needs a secret"),
        ('url = "https://h.example/s3cr3t"\nsecret = "s3cr3t"', "must not be the secret itself"),
        ('url = "https://h.example/s3cr3t"\nsecret = 5', "must not be the secret itself"),
        ('url = "ftp://h.example/s3cr3t"\nformat = "slack"', "must be an address"),
        ('url = "https://h.example:99999/s3cr3t"\nformat = "slack"', "must be an address"),
        ('url = "https://h.example/s3cr3t x"\nformat = "slack"', "must be an address"),
        ('url = "https://me:s3cr3t@h.example/"\nformat = "slack"', "must not hold a password"),
        ('url = 7\nformat = "slack"', "'url' of a webhook must be text"),
        ('url = "env:A-B"\nformat = "slack"', "write env:NAME"),
        ('url = "https://h.example"\nformat = "slak"', "'format' of a webhook must be json or slack"),
        ('url = "https://h.example"\nformat = "slack"\nevents = []', "'events' of a webhook is empty"),
        ('url = "https://h.example"\nformat = "slack"\nevents = ["drit"]', "did you mean 'drift'?"),
        ('url = "https://h.example"\nformat = "slack"\nevent = "drift"', "did you mean 'events'?"),
    ],
)
def test_wrong_settings_are_refused_without_quoting_a_secret(tmp_path, words, reason):
    (tmp_path / "a.toml").write_text(f"{TOML}[[webhooks]]\n{words}\n")
    for read in (read_protocol, read_protocol_webhooks):
        with pytest.raises(InputError) as refused:
            read(tmp_path / "a.toml")
        assert reason in str(refused.value)
        assert "s3cr3t" not in str(refused.value)


def test_a_table_that_is_no_list_is_refused(tmp_path):
    (tmp_path / "a.toml").write_text(f'{TOML}[webhooks]\nurl = "https://h.example"\n')
    with pytest.raises(InputError, match=r"write \[\[webhooks\]\]"):
        read_protocol(tmp_path / "a.toml")


def test_webhooks_are_counted_listed_and_removed_with_what_waits(base):
    hook = Webhook("https://example.org/T00/s3cr3t", format="slack")
    first, second = add(base, hook, hook)
    tell(base)
    with base.reading() as connection:
        listed = webhooks.list_webhooks(connection, "checkout")
    assert [one["id"] for one in listed] == sorted([first, second])
    assert listed[0]["url"] == "https://example.org/…"
    assert (listed[0]["waiting"], listed[0]["last"]) == (1, None)
    with base.writing("checkout") as (connection, _):
        webhooks.remove_webhooks(connection, "checkout", first)
        with pytest.raises(InputError, match=f"'checkout' has no webhook '{first}'"):
            webhooks.remove_webhooks(connection, "checkout", first)
    assert [row.webhook for row in deliveries(base)] == [second]
    with pytest.raises(InputError, match="at most 20 webhooks"):
        add(base, *[hook] * 20)
    delete_experiment(base, "checkout")
    assert deliveries(base) == []
    with base.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT * FROM webhooks").all() == []


# Events.


def test_a_guardrail_drift_a_mismatch_and_a_failure_are_told(tmp_path, monkeypatch):
    hooks = (Webhook("https://example.org", format="slack"), Webhook("https://h.example", ("drift",), "env:A"))
    played = Played(tmp_path / "e.db", {"guardrail": GuardrailRule("complaint", 0.05)}, webhooks=hooks)
    experiment = played.experiment
    signs = [AssumptionCheck(kind, 99.0, 5.0, "here", "all") for kind in (SAMPLE_RATIO, DRIFT)]
    monkeypatch.setattr(analyses, "look", lambda log: signs)
    played.day(30, guardrail=lambda action: 1.0)
    experiment.advance()
    experiment.advance(at_once=True)  # alarms are still there, and not told again

    def fail(*_):
        raise ZeroDivisionError("row 17 says Alice")

    monkeypatch.setattr(steering, "find_out", fail)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            experiment.advance(at_once=True)
    found = deliveries(experiment.database)
    assert sorted(row.event for row in found if "text" in json.loads(row.body)) == sorted(
        ["paused_by_guardrail", "sample_ratio_mismatch", "drift", "drift", "analysis_failed"]
    )
    by_event = {row.event: json.loads(row.body)["text"] for row in found}
    assert by_event["paused_by_guardrail"].startswith(
        "Experiment checkout: paused by its guardrail: complaint exceeds 5 %"
    )
    assert by_event["drift"].startswith("Experiment checkout: signs of drift: here")
    assert "the analysis failed: ZeroDivisionError." in by_event["analysis_failed"]
    assert "Alice" not in str(found)
    figures = experiment.status().to_json()["webhooks"]
    assert (figures["count"], figures["waiting"], figures["given_up"]) == (2, 5, 0)
    experiment.close()


def test_an_event_and_its_deliveries_are_stored_together_or_not_at_all(base):
    add(base, Webhook("https://example.org", format="slack"))
    experiment = Experiment.open(base, "checkout")
    stored = experiment._stored

    def interrupted():
        with stored.writing(at=None) as transaction:
            transaction.enter("paused", {"reason": "x"})
            experiment._advancer._tell(transaction, webhooks.GUARDRAIL, 1, "x", {})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert deliveries(base) == []
    assert [one["kind"] for one in experiment.seal().entries] == ["created", "round"]


def test_a_stored_webhook_of_another_version_keeps_no_event_from_being_stored(base):
    add(base, Webhook("https://example.org", format="slack"), Webhook("https://example.org", format="slack"))
    with base.engine.begin() as connection:
        connection.exec_driver_sql(
            """UPDATE webhooks SET events = '["drift", "x"]', url = 'x:y' WHERE id IN (SELECT min(id) FROM webhooks)"""
        )
    tell(base)
    assert len(deliveries(base)) == 2
    with base.reading() as connection:
        assert sorted(one["url"] for one in webhooks.list_webhooks(connection, "checkout")) == [
            "https://example.org/…",
            "…",
        ]


def test_slack_gets_text_that_commands_nothing(base):
    add(base, Webhook("https://example.org", format="slack"))
    tell(base, words="<!channel> & more", rehearsal=True)
    assert json.loads(deliveries(base)[0].body) == {"text": "Rehearsal checkout: &lt;!channel&gt; &amp; more"}


# Deliveries.


def test_a_delivery_is_signed_as_documented_and_stored_without_secrets(base, receiver):
    add(base, Webhook(receiver.url, secret="env:HOOK_SECRET"))
    tell(base)
    said = []
    assert deliver_due(base, say=lambda event, **fields: said.append({"event": event} | fields)) == 1
    [request] = receiver.requests
    [row] = deliveries(base)
    assert (row.state, row.attempts, row.answer) == ("delivered", 1, "")
    assert request.path == "/hook?key=hidden"
    assert request.headers["Pacbandits-Delivery"] == row.id == json.loads(request.body)["id"]
    assert request.headers["Pacbandits-Event"] == "drift"
    is_genuine, header = documented_check(), request.headers["Pacbandits-Signature"]
    assert is_genuine(SECRET, header, request.body)
    assert not is_genuine("another secret altogether", header, request.body)
    assert not is_genuine(SECRET, header, request.body + b" ")
    assert not is_genuine(SECRET, re.sub(r"t=\d+", "t=1", header), request.body)
    assert not is_genuine(SECRET, "é", request.body)
    old = webhooks.sign(SECRET, int(time.time()) - 400, request.body.decode())
    assert not is_genuine(SECRET, old, request.body)
    assert deliver_due(base) == 0
    told = str(said) + str(deliveries(base))
    assert said[0]["event"] == "a webhook was delivered"
    assert SECRET not in told
    assert "hidden" not in told


def test_a_failed_attempt_is_made_again_later_with_the_same_id(base, receiver):
    add(base, Webhook(receiver.url, secret="env:HOOK_SECRET"))
    tell(base)
    receiver.statuses = [500, 302, 200]  # a redirect is not followed
    for attempt, answer in ((1, "status 500"), (2, "status 302")):
        before = base.clock()
        deliver_due(base)
        [row] = deliveries(base)
        assert (row.state, row.attempts, row.answer) == ("waiting", attempt, answer)
        assert 5e6 * 2 ** (attempt - 1) <= row.due - before <= 10e6 * 2 ** (attempt - 1) + 9e6
        assert deliver_due(base) == 0  # it is not due
        make_due(base)
    deliver_due(base)
    assert deliveries(base)[0].state == "delivered"
    assert len(receiver.requests) == 3
    assert len(set(receiver.ids)) == 1
    with base.reading() as connection:
        found = webhooks.count_deliveries(connection)
    assert found == {"waiting": 0, "delivered": 1, "given_up": 0, "failed_attempts": 2, "waiting_seconds": 0.0}


def test_pauses_grow_to_an_hour_and_differ():
    for attempts, longest in ((1, 10), (2, 20), (5, 160), (9, 2560), (10, 3600), (99, 3600), (10**6, 3600)):
        found = [pause_after(attempts) for _ in range(20)]
        assert all(longest / 2 <= one <= longest for one in found)
        assert len(set(found)) > 10


def test_after_the_last_attempt_it_is_given_up_until_somebody_asks(base, receiver, monkeypatch):
    monkeypatch.setattr(webhooks, "MAX_ATTEMPTS", 1)
    add(base, Webhook(receiver.url, secret="env:HOOK_SECRET"))
    tell(base)
    receiver.statuses = [503]
    deliver_due(base)
    assert deliveries(base)[0].state == "given up"
    make_due(base)
    assert deliver_due(base) == 0
    found = PartWatch(base).look()
    assert (found.webhooks_given_up, found.webhooks_failed_attempts, found.webhooks_waiting) == (1, 1, 0)
    meters = Meters()
    meters.show(found)
    assert b"\npacbandits_webhooks_given_up 1.0\n" in meters.text()
    assert webhooks.try_again(base, "checkout") == 1
    deliver_due(base)
    assert deliveries(base)[0].state == "delivered"


def test_a_receiver_that_hangs_holds_up_no_other(base, receiver, monkeypatch):
    monkeypatch.setattr(webhooks, "ATTEMPT_SECONDS", 3.0)  # a busy machine may take one to answer
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        add(base, Webhook(url, format="slack"), Webhook(receiver.url, format="slack"))
        tell(base)
        begun = time.monotonic()
        deliver_due(base)
        assert time.monotonic() - begun < 9
        assert sorted((row.state, row.answer) for row in deliveries(base)) == [
            ("delivered", ""),
            ("waiting", "no answer within 3 seconds"),
        ]


def test_an_answer_that_drips_does_not_hold_the_worker(base, monkeypatch):
    """Each byte comes within the time-out of the socket, and the whole never."""
    monkeypatch.setattr(webhooks, "ATTEMPT_SECONDS", 0.3)
    over = threading.Event()

    def drip():
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not over.wait(0.05):
                try:
                    connection.sendall(b"a")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        add(base, Webhook(f"http://127.0.0.1:{server.getsockname()[1]}", format="slack"))
        tell(base)
        deliver_due(base)
        [row] = deliveries(base)
        assert (row.state, row.attempts, row.answer) == ("waiting", 1, "no answer within 0.3 seconds")
        over.set()
        dripping.join()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"secret": "env:NO_SUCH_VARIABLE"}, "the environment variable NO_SUCH_VARIABLE is not set or empty"),
        ({"secret": "file:/no/such/file"}, "the file /no/such/file cannot be read: No such file or directory"),
        ({"secret": "env:SHORT"}, "the secret of a webhook must have 16 characters or more"),
        ({"url": "env:SHORT", "format": "slack"}, "'url' of a webhook must be an address such as"),
        ({"url": "http://127.0.0.1:1", "format": "slack"}, "cannot connect: Connection refused"),
        ({"url": "https://127.0.0.1:PORT", "format": "slack"}, "cannot connect: "),
        ({"url": "http://nowhere.invalid", "format": "slack"}, "the host of its URL is not known"),
        ({"url": "http://a..b/", "format": "slack"}, "the host of its URL is not known"),
        ({"url": "http://169.254.169.254/latest/meta-data", "format": "slack"}, "cloud metadata address"),
        ({"url": "http://[::ffff:169.254.169.254]/", "format": "slack"}, "cloud metadata address"),
        ({"url": "http://0xa9fea9fe/", "format": "slack"}, "cloud metadata address"),
    ],
)
def test_what_cannot_be_sent_has_a_reason_without_secrets(receiver, monkeypatch, options, reason):
    monkeypatch.setenv("SHORT", "s3cr3t")
    given = {"url": receiver.url} | options
    given["url"] = given["url"].replace("PORT", str(receiver._server.server_port))
    found = send(Webhook(**given), id="1", event="drift", body="{}")
    assert reason in found
    assert "s3cr3t" not in found
    assert receiver.requests == []


def test_a_host_of_which_one_address_is_refused_is_refused(receiver, monkeypatch):
    """The addresses that were checked are used: a name may resolve otherwise a moment later."""
    answers = [["127.0.0.1", "169.254.169.254"], ["127.0.0.1"]]
    port, asked = receiver._server.server_port, []
    real = socket.getaddrinfo

    def resolved(host, *rest, **options):
        if host != "hook.example":
            return real(host, *rest, **options)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in answers.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    hook = Webhook(f"http://hook.example:{port}", format="slack")
    assert "refused" in send(hook, id="1", event="drift", body="{}")
    assert send(hook, id="1", event="drift", body="{}") == ""
    assert (len(asked), len(receiver.requests)) == (2, 1)
    assert receiver.requests[0].headers["Host"] == f"hook.example:{port}"


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("169.254.0.1", True),
        ("fe80::1%eth0", True),
        ("fd00:ec2::254", True),
        ("100.100.100.200", True),
        ("64:ff9b::a9fe:a9fe", True),
        ("224.0.0.1", True),
        ("ff02::1", True),
        ("0.0.0.0", True),
        ("::", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("::1", False),
        ("fd12::1", False),
        ("93.184.216.34", False),
    ],
)
def test_link_local_and_metadata_addresses_are_refused(address, refused):
    assert is_refused(address) is refused


def test_two_workers_do_not_deliver_the_same_at_once(base, receiver):
    add(base, Webhook(receiver.url, format="slack"))
    for cause in range(6):
        tell(base, cause=cause)
    receiver.before = lambda request: time.sleep(0.02)
    workers = [threading.Thread(target=deliver_due, args=(base,)) for _ in range(3)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert len(receiver.ids) == len(set(receiver.ids)) == 6
    assert {row.state for row in deliveries(base)} == {"delivered"}


def test_the_worker_goes_on_delivering_after_an_error(base, receiver, monkeypatch):
    add(base, Webhook(receiver.url, format="slack"))
    tell(base)
    monkeypatch.setattr(webhooks, "POLL_SECONDS", 0.01)
    over, said, errors = threading.Event(), [], [sa.exc.OperationalError("", {}, Exception()), ZeroDivisionError()]

    def deliver(*given, **options):
        if errors:
            raise errors.pop(0)
        over.set()
        return deliver_due(*given, **options)

    monkeypatch.setattr(webhooks, "deliver_due", deliver)
    webhooks.keep_delivering(base, None, over, lambda event, **fields: said.append((event, fields.get("error"))))
    assert said == [("webhooks cannot be delivered", "ZeroDivisionError"), ("a webhook was delivered", None)]


def test_a_process_that_ends_between_claim_and_answer_loses_nothing(base, receiver, monkeypatch):
    """Whatever is claimed and not settled is tried again when the claim is over."""
    add(base, Webhook(receiver.url, format="slack"))
    tell(base)
    with monkeypatch.context() as patch:
        patch.setattr(webhooks._Attempt, "run", lambda self: None)
        deliver_due(base)
    [row] = deliveries(base)
    assert (row.state, row.attempts) == ("waiting", 0)
    assert 0 < row.due - base.clock() <= webhooks.CLAIM_SECONDS * 1e6
    assert deliver_due(base) == 0
    make_due(base)
    assert deliver_due(base) == 1
    assert deliveries(base)[0].state == "delivered"


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_the_certificate_of_a_host_is_checked(tmp_path, monkeypatch):
    made = [
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
    ]
    how = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *made]
    subprocess.run(how, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    receiver = Receiver(context)
    port = receiver._server.server_port
    hook, other = (Webhook(f"https://{host}:{port}/hook", format="slack") for host in ("localhost", "127.0.0.1"))
    assert "certificate of its host is not valid: self-signed" in send(hook, id="1", event="drift", body="{}")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    assert send(hook, id="1", event="drift", body="{}") == ""
    assert "certificate of its host is not valid: IP address mismatch" in send(other, id="1", event="drift", body="{}")
    assert [one.path for one in receiver.requests] == ["/hook"]
    receiver.close()


def start_worker(database):
    command = [sys.executable, "-m", "pacbandits.experiment.worker", str(database)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.thorough
def test_workers_that_are_killed_before_and_during_a_delivery_lose_nothing(base, receiver, tmp_path):
    """One is killed as soon as the receiver has the request, before it could store that; another delivers it again."""
    add(base, Webhook(receiver.url, secret="env:HOOK_SECRET"))
    # The process that stores the event is killed before, and then after it has committed.
    script = (
        "import os, signal, sys\n"
        "from pacbandits.experiment.database import Database\n"
        "from pacbandits.experiment.webhooks import queue\n"
        "with Database(sys.argv[1]).writing('checkout') as (connection, _):\n"
        "    queue(connection, 'checkout', 'drift', cause=0, at=1, words='', details={}, rehearsal=False)\n"
    )
    for kill, stored in (("    os.kill(os.getpid(), signal.SIGKILL)", 0), ("os.kill(os.getpid(), signal.SIGKILL)", 1)):
        ended = subprocess.run([sys.executable, "-c", script + kill, str(tmp_path / "e.db")], check=False)
        assert (ended.returncode, len(deliveries(base))) == (-signal.SIGKILL, stored)
    workers = [start_worker(tmp_path / "e.db")]
    receiver.before = lambda request: os.kill(workers[-1].pid, signal.SIGKILL) if len(receiver.requests) == 1 else None
    try:
        assert workers[0].wait(60) == -signal.SIGKILL
        assert (len(receiver.requests), deliveries(base)[0].state) == (1, "waiting")
        make_due(base)  # instead of a minute
        workers.append(start_worker(tmp_path / "e.db"))
        wait_for(lambda: deliveries(base)[0].state == "delivered")
        assert len(receiver.requests) == 2
        assert len(set(receiver.ids)) == 1
        assert documented_check()(
            SECRET, receiver.requests[1].headers["Pacbandits-Signature"], receiver.requests[1].body
        )
    finally:
        for one in workers:
            one.terminate()
            one.wait(30)
    assert workers[-1].returncode == 0


@pytest.mark.thorough
def test_postgresql_keeps_and_delivers_events_as_sqlite_does(receiver):
    with postgres() as url:
        hook = Webhook(receiver.url, secret="env:HOOK_SECRET")
        with Experiment.create(url, protocol(), webhooks=(hook,)) as experiment:
            base = experiment.database
            for cause in range(3):
                tell(base, cause=cause)
                tell(base, cause=cause)
            receiver.statuses = [500]
            workers = [threading.Thread(target=deliver_due, args=(base,)) for _ in range(3)]
            for one in workers:
                one.start()
            for one in workers:
                one.join()
            assert sorted(row.state for row in deliveries(base)) == ["delivered", "delivered", "waiting"]
            assert len(receiver.requests) == 3
            assert experiment.status().to_json()["webhooks"]["failed_attempts"] == 1


# From the shell.


@pytest.mark.thorough
def test_webhooks_from_the_shell(tmp_path, receiver, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    people().write(tmp_path / "contexts.parquet")
    (tmp_path / "hook.secret").write_text(f"{SECRET}\n")
    hook = f'[[webhooks]]\nurl = "{receiver.url}"\nsecret = "file:hook.secret"\nevents = ["drift"]\n'
    (tmp_path / "checkout.toml").write_text(TOML + hook)
    code, out, err = command("experiment", "create", "checkout.toml")
    assert (code, err) == (0, "")
    shown = receiver.url.partition("hook?")[0] + "…"
    assert f"{shown}: drift" in out
    assert "hidden" not in out
    code, out, _ = command(
        "experiment", "webhooks", "add", "checkout", "env:SLACK_URL", "--slack", "--event", "certified"
    )
    id = re.search(r"has a webhook (\w+);", out)[1]
    code, out, _ = command("experiment", "webhooks", "test", "checkout")
    assert code == 1
    assert f"{shown}: delivered" in out
    assert f"{id} env:SLACK_URL: the environment variable SLACK_URL is not set or empty" in out
    assert json.loads(receiver.requests[0].body)["event"] == "test"
    assert documented_check()(SECRET, receiver.requests[0].headers["Pacbandits-Signature"], receiver.requests[0].body)
    monkeypatch.setenv("SLACK_URL", receiver.url)
    assert command("experiment", "webhooks", "test", "checkout", id)[0] == 0
    assert json.loads(receiver.requests[1].body) == {"text": "Experiment checkout: this is a test of a webhook"}
    base = Database("pacbandits.db")
    tell(base)
    receiver.statuses = [418]
    deliver_due(base)
    code, out, _ = command("experiment", "webhooks", "list", "checkout", "--json")
    assert [(one["waiting"], one["url"], one["secret"]) for one in json.loads(out)] == [
        (1, shown, f"file:{tmp_path / 'hook.secret'}"),
        (0, "env:SLACK_URL", None),
    ]
    code, out, _ = command("experiment", "webhooks", "list", "checkout")
    assert "drift: status 418" in out
    assert "2; 0 events delivered, 1 waiting" in command("experiment", "status", "checkout")[1]
    assert "1 deliveries of checkout are due now" in command("experiment", "webhooks", "retry", "checkout")[1]
    assert command("experiment", "advance", "checkout")[0] == 0  # where no worker runs, it delivers
    assert "2; 1 events delivered" in command("experiment", "status", "checkout")[1]
    assert command("experiment", "webhooks", "remove", "checkout", id)[0] == 0
    code, _, err = command("experiment", "webhooks", "test", "checkout", id)
    assert (code, f"'checkout' has no webhook '{id}'" in err) == (2, True)
    code, _, err = command(
        "experiment", "webhooks", "add", "checkout", "https://h.example/s3cr3t", "--secret", "s3cr3t"
    )
    assert (code, "must not be the secret itself" in err, "s3cr3t" in err) == (2, True, False)
    base.close()
