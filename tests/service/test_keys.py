"""Keys: what each opens, that none is stored, and that one which is withdrawn opens nothing."""

from __future__ import annotations

import sqlite3

import pytest

from pacbandits.errors import InputError
from pacbandits.experiment.database import Database
from pacbandits.service.access import REFRESH_SECONDS, Grant, Keys
from tests.service.cases import ADMIN, SOMEBODY, refused

AT = "/experiments/checkout"
READ = ("", "/result", "/seal", "/design", "/export")
WRITE = {
    "/assignments": {"unit": "k", "context": SOMEBODY},
    "/rewards": {"assignment": "0-0", "reward": 1},
    "/pause": {"reason": "x"},
    "/resume": {"reason": "x"},
    "/stop": {"reason": "x"},
    "/withdraw": {"action": "discount", "reason": "x"},
    "/close-round": {"reason": "x"},
}


@pytest.mark.first(1)
@pytest.mark.parametrize("key", [None, "", "nonsense", "pb_x_y", "pb__", "pb_0123456789ab_wrong", "x" * 1_000, "\xe4"])
def test_nothing_opens_without_a_key_that_was_made(service, key):
    before = service.records()
    for path in READ:
        assert refused(service.get(AT + path, key=key), 401, "key")
    for path, body in WRITE.items():
        answer = service.post(AT + path, body, key=key)
        assert refused(answer, 401, "key")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert refused(service.get("/experiments", key=key), 401, "key")
    assert refused(service.post("/experiments", {}, key=key), 401, "key")
    assert service.records() == before


def test_a_secret_that_is_nearly_right_opens_nothing(service):
    right = service.keys["read"]
    for wrong in (right[:-1], right + "x", right[:-1] + ("a" if right[-1] != "a" else "b"), right.upper()):
        assert service.get(AT, key=wrong).status_code == 401
    assert service.get(AT, key=right).status_code == 200
    assert service.client.request("GET", AT, headers={"Authorization": f"Basic {right}"}).status_code == 401


def test_a_key_that_reads_does_not_write(service):
    service.assign()
    before = service.records()
    for path in READ:
        assert service.get(AT + path, key=service.keys["read"]).status_code == 200
    for path, body in WRITE.items():
        assert refused(service.post(AT + path, body, key=service.keys["read"]), 403, "may only read")
    assert service.records() == before


def test_a_key_is_for_one_experiment_and_does_not_tell_which_others_there_are(service):
    other = service.create(name="other")["write"]
    for name in ("checkout", "nowhere"):
        assert refused(service.get(f"/experiments/{name}", key=other), 403, f"not for the experiment '{name}'")
        answer = service.post(f"/experiments/{name}/assignments", WRITE["/assignments"], key=other)
        assert refused(answer, 403, "not for the experiment")
    assert service.get("/experiments", key=other).json() == {"experiments": ["other"]}
    assert service.get("/experiments/other", key=other).status_code == 200
    assert "checkout" in service.get("/experiments").json()["experiments"]


def test_only_the_admin_creates_experiments_and_keys(service):
    for method, path in (("POST", "/experiments"), ("POST", f"{AT}/keys"), ("GET", f"{AT}/keys")):
        assert refused(service.ask(method, path, {}, key=service.keys["write"]), 403, "admin")
    made = service.post(f"{AT}/keys", {"scope": "read"}).json()
    assert service.get(AT, key=made["key"]).status_code == 200
    shown = service.get(f"{AT}/keys").json()["keys"]
    assert [one["scope"] for one in shown] == ["read", "write", "read"]
    assert made["key"] not in service.get(f"{AT}/keys").text
    assert service.ask("DELETE", f"{AT}/keys/{made['id']}").json()["id"] == made["id"]
    assert service.get(AT, key=made["key"]).status_code == 401
    assert len(service.get(f"{AT}/keys").json()["keys"]) == 2
    for wrong in (made["id"], "nonsense", "a%00", "ä"):
        assert refused(service.ask("DELETE", f"{AT}/keys/{wrong}"), 404, "key")
    assert refused(service.post(f"{AT}/keys", {"scope": "admin"}), 422, "'scope'")
    assert refused(service.post("/experiments/nowhere/keys", {"scope": "read"}), 404, "nowhere")


def test_no_key_is_stored(service):
    database = service.client.app.state.service.shelf.database.engine.url.database
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        stored = "".join(map(str, connection.execute("SELECT * FROM service_keys").fetchall()))
    connection.close()
    for key in (*service.keys.values(), ADMIN):
        assert key.split("_", 2)[-1] not in stored
    for suffix in ("", "-wal"):
        with open(database + suffix, "rb") as file:  # noqa: PTH123
            held = file.read()
        for key in (*service.keys.values(), ADMIN):
            assert key.split("_", 2)[-1].encode() not in held


def test_a_key_of_another_server_becomes_known(tmp_path):
    """Two servers over one database: a new key at once, a withdrawn one after a moment."""
    database = Database(tmp_path / "keys.db", create=True)
    here, there = Keys(database), Keys(database)
    assert not here.has_admin
    key, grant = there.make("", "admin")
    assert here.grant(key) is None
    here._looked -= REFRESH_SECONDS
    assert here.may_be_newer(key)
    here.refresh()
    assert here.grant(key) == grant
    assert here.has_admin
    assert not here.may_be_newer("pb_nobody_knows")  # it has just looked: unknown keys do not hammer the database
    there.withdraw(grant.id, experiment="")
    here.refresh()
    assert here.grant(key) is None
    with pytest.raises(InputError, match="has no key"):
        there.withdraw(grant.id, experiment="")
    database.close()


def test_the_key_of_the_environment_must_be_long(tmp_path):
    database = Database(tmp_path / "keys.db", create=True)
    with pytest.raises(InputError, match="16 to 200 characters, got 5"):
        Keys(database, admin="short")
    keys = Keys(database, admin=ADMIN)
    assert keys.grant(ADMIN) == Grant("environment", "", "admin")
    assert keys.scopes_of(ADMIN) == {}
    assert keys.scopes_of("pb_a_b") == {}
    key, _ = keys.make("checkout", "read")
    assert keys.scopes_of(key) == {"checkout": "read"}
    database.close()


@pytest.mark.parametrize(
    ("grant", "name", "scope", "opens"),
    [
        (Grant("i", "a", "read"), "a", "read", True),
        (Grant("i", "a", "read"), "a", "write", False),
        (Grant("i", "a", "write"), "a", "read", True),
        (Grant("i", "a", "write"), "b", "read", False),
        (Grant("i", "a", "write"), "a", "admin", False),
        (Grant("i", "", "admin"), "b", "write", True),
        (Grant("i", "", "write"), "b", "read", False),
    ],
)
def test_what_a_grant_opens(grant, name, scope, opens):
    assert grant.opens(name, scope) is opens
