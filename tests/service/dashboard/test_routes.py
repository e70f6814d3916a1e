"""Who gets to see what: keys, sessions, headers, and the answers that the script asks for."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote

import pytest

from pacbandits.errors import InputError
from pacbandits.service.dashboard.routes import SESSION_SECONDS, MemorySessions
from tests.service.dashboard import statuses
from tests.service.dashboard.serving import ADMIN_KEY, READ_KEY, Client, Shop
from tests.service.dashboard.statuses import HOSTILE

PAGES = ("/dashboard", "/dashboard/experiments/checkout")
PARTS = ("/dashboard/parts", "/dashboard/parts/checkout")


@pytest.fixture
def client(shop):
    return Client(shop.app())


def sign_in(client, key=READ_KEY, **more):
    return client.post("/dashboard/sign-in", data={"key": key, **more})


def test_nothing_is_shown_without_a_key(client):
    for path in PAGES:
        answer = client.get(path)
        assert (answer.status_code, answer.text) == (303, "")
        assert answer.headers["location"].startswith("/dashboard/sign-in")
    for path in PARTS:
        answer = client.get(path)
        assert (answer.status_code, answer.text) == (401, "")
    # Whether there is an experiment of that name cannot be told either.
    there, not_there = (client.get(f"/dashboard/experiments/{name}").status_code for name in ("checkout", "nothing"))
    assert there == not_there == 303


def test_a_slash_at_the_end_leads_there_as_well(client):
    assert client.get("/dashboard/").headers["location"] == "/dashboard"


def test_a_key_opens_what_it_may_read(client):
    answer = sign_in(client)
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    assert "checkout" in client.get("/dashboard").text
    assert "newsletter" not in client.get("/dashboard").text
    for path in (*PAGES, *PARTS):
        assert client.get(path).status_code == 200
    for name in ("newsletter", "nothing"):
        answer = client.get(f"/dashboard/experiments/{name}")
        assert answer.status_code == 404
        assert "There is no such experiment, or this key may not read it." in answer.text
        assert client.get(f"/dashboard/parts/{name}").status_code == 404


def test_the_admin_sees_all_whatever_they_are_called(client, shop):
    sign_in(client, ADMIN_KEY)
    for name in shop.statuses:
        assert client.get(f"/dashboard/experiments/{quote(name, safe='')}").status_code == 200
    shop.statuses["a/b?c=d#e %41"] = statuses.created("a/b?c=d#e %41")
    page = client.get("/dashboard").text
    assert "/dashboard/experiments/a%2Fb%3Fc%3Dd%23e%20%2541" in page
    assert "a/b?c=d#e %41</h1>" in client.get("/dashboard/experiments/a%2Fb%3Fc%3Dd%23e%20%2541").text


@pytest.mark.parametrize("key", ["", "wrong", READ_KEY + "x", READ_KEY[:-1], HOSTILE, "ключ", "x" * 100_000])
def test_a_wrong_key_gets_a_sentence(client, key):
    answer = sign_in(client, key)
    assert answer.status_code == 403
    assert "This key opens no experiment." in answer.text
    assert "set-cookie" not in answer.headers
    assert client.get("/dashboard").status_code == 303


def test_no_form_at_all_gets_the_same(client):
    for body in (b"\xff\xfe", b"key", b"&".join(b"a=b" for _ in range(50))):
        assert client.post("/dashboard/sign-in", content=body).status_code == 403


def test_who_was_sent_to_sign_in_comes_back(client):
    to = client.get("/dashboard/experiments/checkout").headers["location"]
    assert to == "/dashboard/sign-in?target=checkout"
    assert 'name="target" value="checkout"' in client.get(to).text
    assert sign_in(client, target="checkout").headers["location"] == "/dashboard/experiments/checkout"
    # An address of somebody else's stays below ours.
    away = sign_in(client, target="//example.org/").headers["location"]
    assert away == "/dashboard/experiments/%2F%2Fexample.org%2F"


def test_the_session_is_a_cookie_without_the_key(client):
    cookie = sign_in(client).headers["set-cookie"]
    for word in ("HttpOnly", "SameSite=strict", "Path=/dashboard", f"Max-Age={SESSION_SECONDS}"):
        assert word in cookie
    assert "Secure" not in cookie
    assert READ_KEY not in cookie
    assert "Secure" in sign_in(Client(client.app, base="https://shop.test")).headers["set-cookie"]


def test_who_signs_out_is_out(client):
    sign_in(client)
    assert client.post("/dashboard/sign-out").headers["location"] == "/dashboard/sign-in"
    assert client.get("/dashboard").status_code == 303


def test_other_sites_can_sign_nobody_in_or_out(client):
    away = {"sec-fetch-site": "cross-site"}
    answer = client.post("/dashboard/sign-in", data={"key": READ_KEY}, headers=away)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    sign_in(client)
    client.post("/dashboard/sign-out", headers=away)
    assert client.get("/dashboard").status_code == 200


def test_a_session_ends_with_its_key_and_with_signing_out():
    scopes = {"key": {"checkout": "read"}}
    sessions = MemorySessions(lambda key: scopes.get(key, {}))
    one, other = sessions.begin("key"), sessions.begin("key")
    assert one != other
    assert sessions.read(one) == sessions.read(other) == {"checkout"}
    for bad in (None, "", ".", "x", one[:-1], one + "a", "ü"):
        assert sessions.read(bad) is None
        sessions.end(bad)
    sessions.end(one)
    assert sessions.read(one) is None
    assert sessions.read(other) == {"checkout"}
    scopes.clear()
    assert sessions.read(other) is None
    assert sessions.begin("key") is None


def test_every_answer_forbids_what_pages_do_not_need(client):
    seen = [client.get("/dashboard/sign-in"), client.get("/dashboard"), sign_in(client, "wrong"), sign_in(client)]
    seen += [
        client.get(path) for path in (*PAGES, *PARTS, "/dashboard/experiments/nothing", "/dashboard/parts/nothing")
    ]
    seen += [client.get("/dashboard/assets/live.js")]
    for answer in seen:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert all(answer.headers["cache-control"] == "no-store" for answer in seen[:-1])
    assert "immutable" in seen[-1].headers["cache-control"]


def test_assets_and_nothing_else_are_served(client):
    for name, kind in (("style.css", "text/css"), ("live.js", "text/javascript"), ("icon.svg", "image/svg+xml")):
        answer = client.get(f"/dashboard/assets/{name}")
        assert answer.headers["content-type"].startswith(kind)
        assert answer.content
    for name in ("routes.py", "..%2Froutes.py", "../routes.py", "%00", "nothing"):
        assert client.get(f"/dashboard/assets/{name}").status_code == 404


def test_the_script_is_answered_only_when_something_changed(client, shop):
    sign_in(client)
    page = client.get("/dashboard/experiments/checkout").text
    first = client.get("/dashboard/parts/checkout")
    etag = first.headers["etag"]
    assert f'data-etag="{etag}"' in unescape(page)
    shop.statuses["checkout"]["now"] = statuses.at(17.45)  # time alone is no news
    again = client.get("/dashboard/parts/checkout", headers={"If-None-Match": etag})
    assert (again.status_code, again.text) == (304, "")
    shop.statuses["checkout"] = statuses.collecting(more=5)
    again = client.get("/dashboard/parts/checkout", headers={"If-None-Match": etag})
    assert again.status_code == 200
    assert again.headers["etag"] != etag
    assert "15,053" in again.text
    listed = client.get("/dashboard/parts").headers["etag"]
    assert client.get("/dashboard/parts", headers={"If-None-Match": listed}).status_code == 304


def test_below_another_path():
    """Behind a server that keeps other things as well."""
    shop = Shop({"checkout": statuses.collecting()})
    client = Client(shop.app(), root_path="/tests")
    answer = client.post("/tests/dashboard/sign-in", data={"key": READ_KEY})
    assert answer.headers["location"] == "/tests/dashboard"
    assert "Path=/tests/dashboard" in answer.headers["set-cookie"]
    assert 'href="/tests/dashboard/experiments/checkout"' in client.get("/tests/dashboard").text


def test_an_experiment_that_cannot_be_read_now_leaves_the_list_standing(shop):
    class Broken:
        def status(self):
            raise InputError("its database is gone")

    whole = shop.open
    shop.open = lambda name: Broken() if name == "newsletter" else whole(name)
    other = Client(shop.app())
    sign_in(other, ADMIN_KEY)
    page = other.get("/dashboard").text
    assert "Its state cannot be read just now." in page
    assert "winter prices" in page


def test_however_many_watch_a_status_is_asked_for_once_in_a_while(shop):
    asked, whole = [], shop.open
    shop.open = lambda name: asked.append(name) or whole(name)
    clients = [Client(shop.app(keep_seconds=3600.0))] * 2
    for client in clients:
        sign_in(client)
        for path in ("/dashboard/experiments/checkout", "/dashboard/parts/checkout", "/dashboard"):
            assert client.get(path).status_code == 200
    assert asked == ["checkout"]


def test_the_api_is_described_without_pages(shop):
    assert shop.app().openapi()["paths"] == {}


def test_the_list_is_searched_and_has_what_is_urgent_first(client, shop):
    sign_in(client, ADMIN_KEY)
    for state in ("stopped", "certified", "collecting"):
        shop.statuses[f"b-{state}"] = statuses.created(f"b-{state}") | {"state": state}
    shop.statuses["b-alarm"] = statuses.created("b-alarm") | {"alarms": ["actions were not drawn as logged"]}
    page = client.get("/dashboard?q=B-").text
    assert re.findall(r">(b-\w+)</a>", page) == ["b-alarm", "b-collecting", "b-certified", "b-stopped"]
    assert "checkout</a>" not in page
    assert 'value="B-"' in page
    assert "/dashboard/parts?q=B-" in page
    assert "checkout</a>" not in client.get("/dashboard/parts?q=b-").text
    nothing = client.get("/dashboard?q=zzz%3Cb%3E").text
    assert "zzz<b>" not in nothing
    assert "No experiment has “zzz&lt;b&gt;” in its name" in nothing


def test_the_list_reads_again_only_what_has_changed(shop):
    versions, read = dict.fromkeys(shop.statuses, 1), []
    shop.open, opened = (lambda name: read.append(name) or opened(name)), shop.open
    client = Client(shop.app(versions=lambda: versions))
    sign_in(client, ADMIN_KEY)
    client.get("/dashboard")
    assert len(read) == len(shop.statuses)
    read.clear()
    versions["checkout"] = 2
    client.get("/dashboard")
    assert read == ["checkout"]
