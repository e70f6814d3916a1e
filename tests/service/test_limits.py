"""Bodies, batches and rates that are too much are refused before they do any harm."""

from __future__ import annotations

import pytest

from pacbandits.errors import InputError
from pacbandits.service import limits as limits_module
from pacbandits.service.limits import Bucket, ServiceLimits
from tests.service.cases import ADMIN, SOMEBODY, refused, serving

AT = "/experiments/checkout/assignments"
HUNDRED_MEGABYTES = 100 * 2**20


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    limits = ServiceLimits(max_body_bytes=2**16, max_batch=5, rows_per_second=1e-3, burst_rows=40)
    with serving(tmp_path_factory.mktemp("small"), limits=limits) as asked:
        asked.keys = asked.create()
        yield asked


def ask_raw(service, headers, parts, path=AT):
    """An answer, and how many bytes of the body were read for it."""
    read, sent = 0, []
    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"},
        **{"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": None},
        **{"server": None, "headers": [(b"authorization", f"Bearer {ADMIN}".encode()), *headers]},
    }

    async def receive():
        nonlocal read
        part = next(parts)
        read += len(part)
        return {"type": "http.request", "body": part, "more_body": True}

    async def send(message):
        sent.append(message)

    service.client._portal.call(service.client.app, scope, receive, send)
    return sent[0]["status"], sent[1]["body"], read


@pytest.mark.parametrize("path", [AT, "/experiments", "/experiments/checkout/pause"])
def test_a_body_of_100_megabytes_is_refused_unread(small, path):
    before = small.records()
    length = [(b"content-length", b"%d" % HUNDRED_MEGABYTES)]
    status, body, read = ask_raw(small, length, iter(()), path)
    assert (status, read) == (413, 0)
    assert b"longer than 65,536 bytes" in body
    # Without a length that was told, as much is read as may be, and a part more.
    parts = (b" " * 2**14 for _ in range(HUNDRED_MEGABYTES // 2**14))
    status, body, read = ask_raw(small, [], parts, path)
    assert (status, read) == (413, 2**16 + 2**14)
    assert b"longer than 65,536 bytes" in body
    assert small.records() == before


def test_a_batch_that_is_too_large_is_refused(small):
    before = small.records()
    entries = [{"unit": f"u-{i}", "context": SOMEBODY} for i in range(6)]
    assert refused(small.post(AT, {"assignments": entries}), 413, "6 entries are too many for one request; at most 5")
    rewards = [{"assignment": "0-0", "reward": 1}] * 6
    assert refused(small.post("/experiments/checkout/rewards", {"rewards": rewards}), 413, "at most 5")
    assert small.records() == before
    assert small.post(AT, {"assignments": entries[:5]}).status_code == 200


def test_a_key_that_asks_too_often_is_told_when_to_ask_again(small):
    key = small.keys["assign"]
    entries = [{"unit": f"rate-{i}", "context": SOMEBODY} for i in range(5)]
    statuses = [small.post(AT, {"assignments": entries}, key=key).status_code for _ in range(9)]
    assert statuses == [200] * 8 + [429]
    before = small.records()
    answer = small.post(AT, entries[0] | {"unit": "late"}, key=key)
    assert refused(answer, 429, "0.001 rows a second")
    assert int(answer.headers["retry-after"]) > 100
    assert small.records() == before
    assert small.post(AT, entries[0], key=ADMIN).status_code == 200  # others are not held up


def test_too_many_that_wait_are_refused(tmp_path):
    with serving(tmp_path, limits=ServiceLimits(max_waiting_rows=1)) as service:
        service.create()
        service.assign()
        writer = service.client.app.state.service.shelf._writers["checkout"]
        writer._assigning.rows = 100
        answer = service.post(AT, {"context": SOMEBODY})
        assert refused(answer, 429, "wait to be written")
        assert answer.headers["retry-after"] == "1"
        writer._assigning.rows = 0
        service.assign("u-2")


def test_a_bucket_fills_at_its_rate(monkeypatch):
    now = 100.0
    monkeypatch.setattr(limits_module, "monotonic", lambda: now)
    bucket = Bucket(rate=10, most=20)
    assert bucket.take(20) == 0
    assert bucket.take(5) == pytest.approx(0.5)
    now += 0.4
    assert bucket.take(5) == pytest.approx(0.1)
    now += 0.1
    assert bucket.take(5) == 0
    now += 1e6
    assert bucket.take(21) == pytest.approx(0.1)  # never more than the most


def test_limits_that_cannot_be():
    with pytest.raises(InputError, match="max_batch must be more than 0"):
        ServiceLimits(max_batch=0)
    with pytest.raises(InputError, match="burst_rows"):
        ServiceLimits(max_batch=100, burst_rows=10)
