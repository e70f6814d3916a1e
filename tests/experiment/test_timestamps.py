"""Time-stamps of heads (RFC 3161), by a service on this machine whose answers `openssl ts` signs."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from pacbandits.errors import InputError
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.chain import TimeStamp, request_stamp
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.exported_record import check_stamp
from pacbandits.experiment.stored_rows import spell
from pacbandits.proofs import save_certificate
from tests.experiment.cases import protocol
from tests.experiment.test_fuzzed_records import play_genuine

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not here")
SETTINGS = """
[ext]
extendedKeyUsage=critical,timeStamping
[t]
serial=serial
signer_cert=tsa.pem
signer_key=tsa.key
signer_digest=sha256
default_policy=1.2.3.4
digests=sha256
accuracy=secs:1,millisecs:500
"""


def openssl(folder, *words, given=None):
    return subprocess.run(["openssl", *words], cwd=folder, input=given, capture_output=True, check=True).stdout


class Service(HTTPServer):
    """A time-stamping service; answer: what it says instead, or for which query."""

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Stamping)
        self.folder, self.answer, self.asked = folder, None, 0
        self.url = f"http://127.0.0.1:{self.server_port}/"


class Stamping(BaseHTTPRequestHandler):
    def do_POST(self):
        query = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/timestamp-query"
        self.server.asked += 1
        answer = self.server.answer
        if answer is None:
            answer = reply(self.server.folder, query)
        self.send_response(answer if isinstance(answer, int) else 200)
        self.end_headers()
        self.wfile.write(b"" if isinstance(answer, int) else answer)

    def log_message(self, *_):
        pass


def reply(folder, query, *options):
    (folder / "q.tsq").write_bytes(query)
    return openssl(folder, "ts", "-reply", "-config", "tsa.cnf", "-section", "t", "-queryfile", "q.tsq", *options)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "tsa.cnf").write_text(SETTINGS)
    (folder / "serial").write_text("01")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for name in ("ca", "other"):
        openssl(folder, "req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
    wish = openssl(folder, "req", *key, "-keyout", "tsa.key", "-subj", "/CN=tsa")
    signed = ("x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "tsa.cnf")
    openssl(folder, *signed, "-extensions", "ext", "-out", "tsa.pem", given=wish)
    server = Service(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def asking(service):
    service.answer = None
    return service


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The export of an experiment that nobody came to but one, and its head."""
    folder = tmp_path_factory.mktemp("exported")
    with Experiment.create(folder / "e.db", protocol(), clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as made:
        made.assign({"age": 30, "country": "AT"})
        made.export(folder / "e.parquet", look=0)
        return folder / "e.parquet", made.seal().head


@needs_openssl
def test_a_stamped_head_says_by_when_what_was_fixed(asking, exported):
    path, head = exported
    before = datetime.now(UTC)
    stamp = request_stamp(head, asking.url)
    assert stamp.digest == head
    late = datetime.fromtimestamp(stamp.by / 1e6, UTC) - before
    assert timedelta(0) < late < timedelta(seconds=60)
    assert stamp.by % 10**6 == 500_000  # in whole seconds, and the accuracy of 1.5
    record, known = read_record(path), asking.folder / "ca.pem"
    for noted in (head, None):
        found = audit(record, head=noted, stamp=stamp, authorities=known)
        assert (found.faults, found.noted) == ((), record.records)
        words = f"time-stamped (RFC 3161): all that it fixes was fixed by {spell(stamp.by)}; {known} vouches for"
        assert any(words in one for one in found.checked)
        assert not any("time-stamp" in one for one in found.trusted)
    unsigned = audit(record, stamp=stamp)
    assert unsigned.good
    assert any("could have made it (--timestamp-ca" in one for one in unsigned.trusted)
    (fault,) = audit(record, head=head, stamp=stamp, authorities=asking.folder / "other.pem").faults
    assert "other.pem does not vouch for the signature of the time-stamp: " in fault


@needs_openssl
def test_altered_stamps_are_refused(asking, exported):
    """Neither the digest nor the time of a signed time-stamp can be changed; nor can it be another head's."""
    path, head = exported
    stamp, record, known = request_stamp(head, asking.url), read_record(path), asking.folder / "ca.pem"
    other = "ab" * 32
    swapped = TimeStamp.parse(stamp.whole.replace(bytes.fromhex(head), bytes.fromhex(other)), name="it")
    assert swapped.digest == other
    (fault,) = check_stamp(swapped, known, latest=0).faults
    assert "does not vouch" in fault
    year = str(datetime.now(UTC).year).encode()
    earlier = stamp.whole.replace(b"\x18\x0f" + year, b"\x18\x0f2026")
    earlier = earlier if year != b"2026" else stamp.whole.replace(b"\x18\x0f" + year, b"\x18\x0f2025")
    dated = TimeStamp.parse(earlier, name="it")
    assert dated.by < stamp.by
    (fault,) = check_stamp(dated, known, latest=0).faults
    assert "does not vouch" in fault
    (fault,) = audit(record, head=head, stamp=request_stamp(other, asking.url)).faults
    assert fault == f"the time-stamp is of {other[:16]}…, not of the head {head[:16]}…"
    (fault,) = audit(record, stamp=swapped).faults
    assert "is none of this chain" in fault
    (fault,) = check_stamp(stamp, None, latest=stamp.by + 10 * 60 * 10**6).faults
    assert "before its last record" in fault


@needs_openssl
def test_the_token_alone_is_a_stamp_too(asking):
    digest = "17" * 32
    query = openssl(asking.folder, "ts", "-query", "-digest", digest, "-sha256", "-cert")
    token = TimeStamp.parse(reply(asking.folder, query, "-token_out"), name="it")
    assert (token.digest, token.token) == (digest, True)
    assert token.wrong_signature(asking.folder / "ca.pem") is None


def test_without_openssl_the_signature_is_taken_on_trust(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "ca.pem").write_text("")
    found = check_stamp(TimeStamp("00" * 32, 10**15, None, b"", False), tmp_path / "ca.pem", latest=0)
    assert found.faults == ()
    assert "its signature is checked where openssl is installed" in found.trusted[0]


@needs_openssl
def test_a_service_that_does_not_stamp_ends_in_a_sentence(asking):
    query = openssl(asking.folder, "ts", "-query", "-digest", "12" * 20, "-sha1")
    others = ("-digest", "34" * 32, "-no_nonce"), ("-digest", "56" * 32)  # another digest; and the same, asked before
    owns = [openssl(asking.folder, "ts", "-query", *words, "-sha256", "-cert") for words in others]
    cases = {
        404: "answers with 404 Not Found; check its address",
        b"<html>": "is not an RFC 3161 time-stamp of a SHA-256 digest",
        b"": "is not an RFC 3161 time-stamp of a SHA-256 digest",
        reply(asking.folder, query): "refuses a time-stamp: Message digest algorithm is not supported.",
        **{reply(asking.folder, own): "stamped another digest than 5656" for own in owns},
    }
    for asking.answer, words in cases.items():
        with pytest.raises(InputError, match="time-stamping service at http://127") as error:
            request_stamp("56" * 32, asking.url)
        assert words in str(error.value)
    for address in ("tsa.example.org", "file:///etc/passwd", "http://a b"):
        with pytest.raises(InputError, match="is no address of a time-stamping service"):
            request_stamp("56" * 32, address)
    with pytest.raises(InputError, match="cannot reach the time-stamping service at http://127"):
        request_stamp("56" * 32, "http://127.0.0.1:9/")


def test_files_that_are_no_stamps_end_in_a_sentence(tmp_path):
    path = tmp_path / "x.tsr"
    for content in (
        b"",
        b"0",
        b"0\x80",
        b"0\x84\xff\xff\xff\xff",
        b"0\x03\x02\x01\x00",
        b"0\x02\x05\x00",
        b"\x00" * 99,
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"x\.tsr is not an RFC 3161 time-stamp"):
            TimeStamp.read(path)
    with pytest.raises(InputError, match="there is no file"):
        TimeStamp.read(tmp_path / "none.tsr")


@needs_openssl
def test_heads_are_stamped_and_verified_from_the_shell(asking, exported, tmp_path, monkeypatch, command):
    folder = exported[0].parent
    monkeypatch.chdir(tmp_path)
    words = ("experiment", "head", "checkout", "--database", folder / "e.db", "--timestamp-service", asking.url)
    code, out, _ = command(*words, "--publish", tmp_path / "heads.txt", "--json")
    told = json.loads(out)
    assert (code, told["head"]) == (0, exported[1])
    path = tmp_path / f"checkout-{told['records']}.tsr"
    assert told["timestamp"] == str(path)
    assert TimeStamp.read(path).digest == told["head"]
    asked, kept = asking.asked, path.read_bytes()
    code, out, _ = command(*words)  # the earlier one is the stronger one
    assert (code, asking.asked, path.read_bytes()) == (0, asked, kept)
    assert f"--timestamp {path.name}" in out
    path.write_bytes(request_stamp("ab" * 32, asking.url).whole)
    code, _, err = command(*words)
    assert (code, "is the time-stamp of another head" in err) == (2, True)
    path.unlink()
    code, _, err = command(*words[:-1], "http://127.0.0.1:9/", "--publish", "other.txt")
    assert (code, "cannot reach" in err) == (2, True)
    assert [one.name for one in tmp_path.iterdir()] == ["heads.txt"]


@needs_openssl
@pytest.mark.thorough
def test_verify_tells_of_a_stamp(asking, tmp_path, monkeypatch, command):
    _, made, policies = play_genuine(tmp_path)
    monkeypatch.chdir(tmp_path)
    save_certificate(tmp_path / "proof.json", made, policies)
    head, verify = audit(read_record(tmp_path / "x.parquet")).head, ("verify", "proof.json", "x.parquet", "--json")
    (tmp_path / "x.tsr").write_bytes(request_stamp(head, asking.url).whole)
    code, out, _ = command(*verify, "--timestamp", "x.tsr", "--timestamp-ca", asking.folder / "ca.pem")
    told = json.loads(out)
    assert (code, told["good"], told["noted"]) == (0, True, told["records"])
    assert any("all that it fixes was fixed by" in words for words in told["checked"])
    code, out, _ = command(*verify, "--timestamp", "x.tsr", "--timestamp-ca", asking.folder / "other.pem")
    assert (code, json.loads(out)["good"]) == (3, False)
    code, _, err = command(*verify, "--timestamp-ca", asking.folder / "ca.pem")
    assert (code, "add --timestamp FILE" in err) == (2, True)
    code, _, err = command(*verify, "--timestamp", "proof.json")
    assert (code, "proof.json is not an RFC 3161 time-stamp" in err) == (2, True)
