"""Keys: what each opens, that none is stored, and that one which is withdrawn opens nothing."""

from __future__ import annotations

import sqlite3

import pytest

from pacbandits.errors import InputError
from pacbandits.experiment.database import Database
from pacbandits.service import access, server
from pacbandits.service.access import REFRESH_SECONDS, Grant, Keys, Sessions
from tests.service.cases import ADMIN, SOMEBODY, refused, serving

AT = "/experiments/checkout"
READ = ("", "/result", "/seal", "/design", "/export")
ASSIGN = {
    "/assignments": {"unit": "k", "context": SOMEBODY},
    "/rewards": {"assignment": "0-0", "reward": 1},
}
STEER = {
    "/pause": {"reason": "x"},
    "/resume": {"reason": "x"},
    "/stop": {"reason": "x"},
    "/withdraw": {"action": "discount", "reason": "x"},
    "/close-round": {"reason": "x"},
}
WRITE = ASSIGN | STEER


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


@pytest.mark.parametrize(
    ("scope", "reads", "posts"),
    [("read", True, {}), ("assign", False, ASSIGN), ("steer", True, STEER), ("assign read", True, ASSIGN)],
)
def test_a_key_does_what_its_scope_says_and_nothing_else(service, scope, reads, posts):
    """The shop's key, which assigns, cannot stop an experiment, and need not see what others earn."""
    service.assign()
    before = service.records()
    key = service.post(f"{AT}/keys", {"scope": scope}).json()["key"]
    for path in READ:
        assert service.get(AT + path, key=key).status_code == (200 if reads else 403)
    for path, body in WRITE.items():
        if path not in posts:
            assert refused(service.post(AT + path, body, key=key), 403, "this key may only")
    assert service.records() == before
    for path in posts:  # an empty body is wrong, which is found after the key is admitted
        assert service.post(AT + path, {}, key=key).status_code == 422


def test_who_steered_is_in_the_event_log(service):
    service.create(name="steered")
    key = service.post("/experiments/steered/keys", {"scope": "steer", "label": "Ada"}).json()
    answer = service.post("/experiments/steered/pause", {"reason": "lunch"}, key=key["key"]).json()
    assert answer["events"][-1]["words"] == f"paused by key {key['id']} (Ada): lunch"
    entry = service.get("/experiments/steered/seal").json()["entries"][-1]
    assert entry["body"] == {"by": f"key {key['id']} (Ada)", "reason": "lunch"}
    service.post("/experiments/steered/resume", {"reason": "back"})
    assert service.get("/experiments/steered/seal").json()["entries"][-1]["body"]["by"] == "key environment"


def test_every_key_can_be_withdrawn_rotated_and_expires(service, monkeypatch):
    """Admin keys, too: the one that a server printed at its first start among them."""
    keys = service.client.app.state.service.keys
    printed, grant = keys.make("", "admin", label="first start")
    made = service.post("/keys", {"label": "Ada", "expires": "1 hour"}, key=printed).json()
    assert [one["label"] for one in service.get("/keys").json()["keys"] if one["scope"] == "admin"] == [
        "first start",
        "Ada",
    ]
    assert service.ask("DELETE", f"/keys/{grant.id}", key=made["key"]).json()["id"] == grant.id
    assert service.get("/experiments", key=printed).status_code == 401
    assert refused(service.ask("DELETE", f"/keys/{grant.id}"), 404, "no key")
    new = service.post(f"/keys/{made['id']}/rotate", {"grace": "10 minutes"}).json()
    for key in (made["key"], new["key"]):
        assert service.get("/experiments", key=key).status_code == 200
    assert new["label"] == "Ada"
    now = access.time_ns()
    monkeypatch.setattr(access, "time_ns", lambda: now + 700 * 10**9)
    assert service.get("/experiments", key=made["key"]).status_code == 401
    assert service.get("/experiments", key=new["key"]).status_code == 200
    monkeypatch.setattr(access, "time_ns", lambda: now + 3601 * 10**9)
    assert service.get("/experiments", key=new["key"]).status_code == 401
    monkeypatch.undo()
    last = service.post(f"/keys/{new['id']}/rotate", {}).json()
    assert service.get("/experiments", key=new["key"]).status_code == 401
    service.ask("DELETE", f"/keys/{last['id']}")
    for wrong in ({"expires": "soon"}, {"expires": "0 days"}, {"label": "x" * 101}, {"scope": "read"}):
        assert service.post("/keys", wrong).status_code == 422
    assert refused(service.get("/keys", key=service.keys["steer"]), 403, "admin")


def test_a_session_dies_with_its_key_and_with_signing_out_on_all_servers(service):
    """Sessions are stored: another server, or one that starts later, knows of neither key nor cookie."""
    state = service.client.app.state.service
    database, keys = state.shelf.database, state.keys
    here, there = Sessions(database, keys), Sessions(database, Keys(database, admin=ADMIN))
    made = service.post(f"{AT}/keys", {"scope": "read"}).json()
    one, other, admin = here.begin(made["key"]), here.begin(made["key"]), here.begin(ADMIN)
    assert there.read(one) == there.read(other) == {"checkout"}
    assert there.read(admin) == {"*"}
    here.end(one)
    assert here.read(one) is there.read(one) is None
    service.ask("DELETE", f"{AT}/keys/{made['id']}")
    restarted = Sessions(database, Keys(database, admin="another-admin-key-of-the-environment"))
    assert here.read(other) is restarted.read(other) is restarted.read(admin) is None
    assert Sessions(database, Keys(database)).read(admin) is None
    assert here.begin(service.keys["assign"]) is None  # which may not read
    for bad in (None, "", "x", "ü" * 50, "\ud800", "x" * 10_000):
        assert here.read(bad) is None
        here.end(bad)


def test_a_key_for_very_many_experiments_and_a_scope_that_is_none(service):
    for wrong in ("", "admin", "write admin", "Read", "read,assign", " ".join(["read"] * 9)):
        assert refused(service.post(f"{AT}/keys", {"scope": wrong}), 422, "'scope': a scope is one or more of assign")
    assert service.post(f"{AT}/keys", {"scope": "write"}).json()["scope"] == "assign read"


def test_a_key_is_for_one_experiment_and_does_not_tell_which_others_there_are(service):
    service.create(name="other")
    other = service.post("/experiments/other/keys", {"scope": "assign read"}).json()["key"]
    for name in ("checkout", "nowhere"):
        assert refused(service.get(f"/experiments/{name}", key=other), 403, f"not for the experiment '{name}'")
        answer = service.post(f"/experiments/{name}/assignments", WRITE["/assignments"], key=other)
        assert refused(answer, 403, "not for the experiment")
    assert service.get("/experiments", key=other).json() == {"experiments": ["other"]}
    assert service.get("/experiments/other", key=other).status_code == 200
    assert "checkout" in service.get("/experiments").json()["experiments"]


def test_only_the_admin_creates_experiments_and_keys(service):
    for method, path in (("POST", "/experiments"), ("POST", f"{AT}/keys"), ("GET", f"{AT}/keys")):
        assert refused(service.ask(method, path, {}, key=service.keys["assign"]), 403, "admin")
    made = service.post(f"{AT}/keys", {"scope": "read"}).json()
    assert service.get(AT, key=made["key"]).status_code == 200
    shown = service.get(f"{AT}/keys").json()["keys"]
    assert [one["scope"] for one in shown][:3] == ["assign", "read", "steer"]
    assert shown[-1]["id"] == made["id"]
    assert made["key"] not in service.get(f"{AT}/keys").text
    assert service.ask("DELETE", f"{AT}/keys/{made['id']}").json()["id"] == made["id"]
    assert service.get(AT, key=made["key"]).status_code == 401
    assert len(service.get(f"{AT}/keys").json()["keys"]) == len(shown) - 1
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


def test_a_new_key_works_on_all_servers_at_once(tmp_path):
    """Though another has just looked for keys, and found none."""
    with serving(tmp_path) as here, serving(tmp_path) as there:
        here.create()
        assert there.get(AT, key="pb_unknown_key").status_code == 401
        made = here.post(f"{AT}/keys", {"scope": "read"}).json()
        assert there.get(AT, key=made["key"]).status_code == 200


def test_the_printed_key_ends_when_the_environment_has_one(tmp_path, capsys):
    database = Database(tmp_path / "keys.db", create=True)
    server._settle_admin(Keys(database), from_environment=False)
    printed = capsys.readouterr().out.rpartition(" ")[2].strip()
    other, _ = Keys(database).make("", "admin", label="Ada")
    assert Keys(database).grant(printed).scope == "admin"
    keys = Keys(database, admin=ADMIN)
    server._settle_admin(keys, from_environment=True)
    assert "is withdrawn" in capsys.readouterr().out
    assert keys.grant(printed) is None
    assert keys.grant(other).scope == "admin"
    database.close()


def test_a_key_of_another_server_becomes_known(tmp_path):
    """Two servers over one database: a new key at once, a withdrawn one after a moment."""
    database = Database(tmp_path / "keys.db", create=True)
    here, there = Keys(database), Keys(database)
    assert not here.has_admin
    key, grant = there.make("", "admin")
    assert here.grant(key) is None
    here._looked -= REFRESH_SECONDS
    assert here.may_be_newer(key)
    assert here.due_in() == 0.0
    here.refresh()
    assert here.grant(key) == grant
    assert here.has_admin
    assert here.due_in() > 0.0  # it has just looked: unknown keys do not hammer the database
    there.withdraw(grant.id, experiment="")
    here.refresh()
    assert here.grant(key) is None
    with pytest.raises(InputError, match="no key"):
        there.withdraw(grant.id, experiment="")
    database.close()


def test_the_key_of_the_environment_must_be_long(tmp_path):
    database = Database(tmp_path / "keys.db", create=True)
    with pytest.raises(InputError, match="16 to 200 characters, got 5"):
        Keys(database, admin="short")
    keys = Keys(database, admin=ADMIN)
    assert keys.grant(ADMIN) == Grant("environment", "", "admin")
    database.close()


@pytest.mark.parametrize(
    ("grant", "name", "scope", "opens"),
    [
        (Grant("i", "a", "read"), "a", "read", True),
        (Grant("i", "a", "read"), "a", "assign", False),
        (Grant("i", "a", "assign"), "a", "read", False),
        (Grant("i", "a", "assign read"), "a", "read", True),
        (Grant("i", "a", "assign read"), "a", "steer", False),
        (Grant("i", "a", "steer"), "a", "read", True),
        (Grant("i", "a", "steer"), "b", "read", False),
        (Grant("i", "a", "steer"), "a", "admin", False),
        (Grant("i", "", "admin"), "b", "steer", True),
        (Grant("i", "", "assign"), "b", "read", False),
    ],
)
def test_what_a_grant_opens(grant, name, scope, opens):
    assert grant.opens(name, scope) is opens
