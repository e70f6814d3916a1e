"""Experiments from the shell: created from a file, driven, steered, exported and verified."""

from __future__ import annotations

import io
import json

import pytest

import pacbandits as pb
from pacbandits.cli.drive import truth_of
from pacbandits.cli.simulated_traffic import Behaviour
from pacbandits.errors import InputError
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol_files import read_protocol
from pacbandits.service.application import create_app
from pacbandits.service.event_log import Journal
from tests.experiment.cases import people, protocol
from tests.service.cases import ADMIN
from tests.service.servers import listening

LISTS = ("derived again", "taken on trust", "not checkable")
PROTOCOL = """
name = "checkout"
contexts = "contexts.parquet"
actions = ["standard", "discount", "free shipping"]
policies = "trees:depth=1"
epsilon = 0.4
seed = 17
holdout = 0.1
rehearsal = true
control = "standard"
metrics = ["returned", ["minutes", 0, 600]]
guardrails = ["returned <= control + 0.1"]
[guardrail]
name = "complaint"
most = 0.3
"""


@pytest.fixture
def at(tmp_path, monkeypatch):
    """A folder with a protocol, in which commands are run."""
    _write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def created(tmp_path_factory):
    """The same, with an experiment to which nobody has come."""
    place = tmp_path_factory.mktemp("created")
    _write(place)
    Experiment.create(place / "pacbandits.db", read_protocol(place / "checkout.toml")).close()
    return place


def _write(place):
    people().write(place / "contexts.parquet")
    (place / "checkout.toml").write_text(PROTOCOL)


def test_from_a_file_to_a_certified_policy(run, at):
    code, out, _ = run("experiment", "create", "checkout.toml")
    assert code == 0
    made = Experiment.open("pacbandits.db", "checkout")
    assert made.protocol.digest in out
    assert made.seal().head in out
    code, out, _ = run("experiment", "status", "checkout")
    assert (code, "nothing yet" in out) == (0, True)
    options = ("--rate", 0, "--people", 250, "--lost", 0.02, "--problem", "segments:effect=0.6,baseline=0.2", "--json")
    code, out, _ = run("experiment", "drive", "checkout", *options)
    got = json.loads(out)
    assert code == 0
    assert got["errors"] == {}
    assert got["counts"]["assigned"] == 250
    assert got["counts"]["came back"] > 10
    assert "got another action when they returned" not in got["counts"]
    assert got["counts"]["rewards recorded"] + got["counts"]["rewards lost"] == 250
    assert got["counts"]["rewards repeated"] > 0
    assert got["status"]["state"] == "certified"
    assert got["truth"]["distance"] <= 0.4
    code, out, _ = run("experiment", "status", "checkout")
    assert len(got["status"]["metrics"]) == 2
    for words in (
        "is certified",
        "got discount",
        "metrics returned minutes",
        "'returned <= control + 0.1'",
        "complaint, all",
        "held out, always standard",
        made.seal().head,
    ):
        assert words in " ".join(out.split())
    code, out, _ = run("experiment", "list", "--json")
    assert [one["name"] for one in json.loads(out)] == ["checkout"]
    code, out, _ = run("experiment", "list")
    assert "certified" in out
    code, out, _ = run("experiment", "export", "checkout", "record.parquet", "--certificate", "proof.json")
    assert code == 0
    assert "pacbandits verify proof.json record.parquet" in out
    how = "certify record.parquet --policies trees:depth=1 --control standard --guardrail 'returned <= control + 0.1'"
    assert f"its guardrails are proven by: pacbandits {how}" in " ".join(out.split())
    code, out, err = run("verify", "proof.json", "record.parquet")
    assert (code, err) == (0, "")
    assert out.startswith("good: ")
    derived, trusted, unknown = (out.index(f"\n{words}\n") for words in LISTS)
    assert derived < trusted < unknown
    said = " ".join(out[trusted:unknown].split())
    assert "whoever keeps the database could have made it afterwards" in said
    assert "whoever keeps the database could have chosen who gets what" in said
    assert "independent draws from one distribution" in " ".join(out[unknown:].split())
    assert "no chain shows what was reported wrongly" in " ".join(out[unknown:].split())
    code, line, _ = run("experiment", "head", "checkout", "--publish", "heads.txt")
    assert (code, (at / "heads.txt").read_text()) == (0, line)
    assert line.split()[2:5:2] == ["checkout", made.seal().head]
    code, out, _ = run("verify", "proof.json", "record.parquet", "--head", line.strip(), "--json")
    got = json.loads(out)
    assert (code, got["noted"]) == (0, got["records"])
    assert any("fixed by then were the protocol" in words for words in got["checked"])
    assert not any("made it afterwards" in words for words in got["trusted"])
    code, _, err = run("experiment", "export", "checkout", "x.parquet", "--certificate", "y.json", "--analysis", 0)
    assert (code, "leave out --analysis or --certificate" in err) == (2, True)
    run("experiment", "export", "checkout", "first.parquet", "--look", 1, "--reveal-seed")
    code, _, err = run("verify", "proof.json", "first.parquet")
    assert (code, "export it again with --analysis" in err) == (2, True)
    run("experiment", "withdraw", "checkout", "free shipping", "--reason", "sold-out")
    code, out, _ = run("experiment", "export", "checkout", "record.parquet", "--certificate", "proof.json")
    assert "nothing is proven yet" in out  # of policies that do without it
    assert "from before" in out
    run("experiment", "advance", "checkout")
    run("experiment", "export", "checkout", "record.parquet", "--certificate", "proof.json")
    assert run("verify", "proof.json", "record.parquet")[0] == 0
    run("experiment", "stop", "checkout", "--reason", "enough")
    run("experiment", "export", "checkout", "record.parquet", "--certificate", "proof.json")
    code, out, _ = run("verify", "proof.json", "record.parquet", "--json")
    assert code == 0
    assert any("was drawn by the seed that the protocol sealed" in words for words in json.loads(out)["checked"])
    assert not any("propensities are those" in words for words in json.loads(out)["trusted"])


@pytest.mark.thorough
def test_an_experiment_is_steered(run, at):
    run("experiment", "create", "checkout.toml")
    code, out, _ = run("experiment", "pause", "checkout", "--reason", "down")
    assert (code, out.strip().endswith("pacbandits experiment resume checkout --reason …")) == (0, True)
    code, out, _ = run("experiment", "drive", "checkout", "--rate", 0, "--people", 100, "--json")
    assert code == 0
    assert json.loads(out)["counts"]["left out after too many refusals"] > 10
    code, out, _ = run("experiment", "status", "checkout", "--json")
    assert (json.loads(out)["state"], json.loads(out)["reason"], json.loads(out)["assigned"]) == ("paused", "down", 0)
    assert "collecting again" in run("experiment", "resume", "checkout", "--reason", "up")[1]
    code, out, _ = run("experiment", "withdraw", "checkout", "discount", "--reason", "margins")
    assert code == 0
    assert "except with probability 0.00083" in out
    code, out, _ = run("experiment", "advance", "checkout")
    assert "withdrawn" in out
    assert "is stopped" in run("experiment", "stop", "checkout", "--reason", "over")[1]
    code, out, _ = run("experiment", "status", "checkout", "--json")
    assert [one["kind"] for one in json.loads(out)["events"]].count("withdrawn") == 1


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("status", "checkot"), "did you mean 'checkout'|there are: checkout"),
        (("status", "checkout", "--database", "none.db"), "no database none.db"),
        (("create", "checkout.toml"), "already"),
        (("create", "none.toml"), "none.toml"),
        (("withdraw", "checkout", "discoun", "--reason", "x"), "did you mean 'discount'"),
        (("resume", "checkout", "--reason", "x"), "is collecting"),
        (("pause", "checkout", "--reason", " "), "say why"),
        (("export", "checkout", "record.csv"), "must end in .parquet"),
        (("export", "checkout", "record.parquet"), "nothing to export"),
        (("drive", "checkout", "--url", "http://127.0.0.1:9"), "needs a key"),
        (("drive", "checkout", "--people", 0), "--people"),
        (("drive", "checkout", "--lost", 2), "--lost"),
        (("drive", "checkout", "--problem", "segment"), "did you mean 'segments'"),
        (("drive", "checkout", "--problem", "segments:efect=1"), "did you mean 'effect'"),
        (("drive", "checkout", "--problem", "trees"), "other features"),
    ],
)
def test_what_is_wrong_is_one_line(run, created, monkeypatch, arguments, words):
    monkeypatch.chdir(created)
    code, _, err = run("experiment", *arguments)
    assert code == 2
    assert err.splitlines()[-1].startswith("pacbandits: ")
    assert any(one in err for one in words.split("|"))


@pytest.mark.thorough
def test_people_come_to_a_service_that_runs(run, at):
    run("experiment", "create", "checkout.toml")
    app = create_app("pacbandits.db", admin_key=ADMIN, journal=Journal(io.StringIO()))
    with listening(app) as address:
        asked = ("--url", address, "--key", ADMIN, "--people", 60, "--rate", 400, "--delay", 0.05, "--workers", 4)
        code, out, _ = run("experiment", "drive", "checkout", *asked, "--lost", 0.1, "--returning", 0.3, "--json")
        got = json.loads(out)
        assert (code, got["errors"], got["counts"]["assigned"]) == (0, {}, 60)
        assert got["counts"]["came back"] > 5
        assert "got another action when they returned" not in got["counts"]
        assert got["status"]["rewards"]["in"] == got["counts"]["rewards recorded"] == 60 - got["counts"]["rewards lost"]
        code, _, err = run("experiment", "drive", "checkout", *asked[:3], "wrong", "--people", 2, "--json")
        assert code == 2
    code, _, err = run("experiment", "drive", "checkout", *asked, "--database", "none.db")
    assert (code, "--protocol" in err) == (2, True)


def test_simulated_visitors_come_to_rehearsals_alone(run, at):
    """They would certify an experiment on made-up people, for good, and it would serve that rule to real ones."""
    (at / "real.toml").write_text(PROTOCOL.replace("rehearsal = true\n", ""))
    run("experiment", "create", "real.toml")
    code, _, err = run("experiment", "drive", "checkout", "--rate", 0, "--people", 10)
    assert (code, "'checkout' is not a rehearsal" in err) == (2, True)
    with Experiment.open("pacbandits.db", "checkout") as real:
        assert real.status().assigned == 0
        digest = real.protocol.digest
        assert "rehearsal" not in real.protocol.to_json()
    code, out, _ = run("experiment", "create", "real.toml", "--rehearsal")
    assert (code, "checkout-rehearsal, in pacbandits.db; a rehearsal" in out) == (0, True)
    assert run("experiment", "drive", "checkout-rehearsal", "--rate", 0, "--people", 10)[0] == 0
    with Experiment.open("pacbandits.db", "checkout-rehearsal") as made:
        assert made.status().to_json()["rehearsal"]
        assert made.protocol.remarks()[0].startswith("the experiment is a rehearsal")
        assert made.protocol.digest != digest
        assert made.protocol.policy_class.log_size == real.protocol.policy_class.log_size


def test_the_database_of_the_service_is_that_of_the_commands(run, created, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PACBANDITS_DATABASE", str(created / "pacbandits.db"))
    code, out, _ = run("experiment", "list")
    assert (code, "checkout" in out) == (0, True)


def test_without_a_database_nothing_is_listed(run, at):
    code, _, err = run("experiment", "list")
    assert (code, "pacbandits.db" in err) == (2, True)
    code, out, _ = run("experiment")
    assert "withdraw" in out


def test_the_truth_is_a_scenario_or_a_problem_with_the_same_features():
    fixed = protocol(reward_range=(0.0, 10.0), epsilon=1.0)
    truth = truth_of("winner:effect=2,baseline=3", fixed, seed=1)
    assert truth.mean_rewards.shape == (200, 3)
    means = truth.population.weights @ truth.mean_rewards
    assert sorted(means - means.min()) == pytest.approx([0.0, 0.0, 0.2])
    assert (truth_of("none", fixed, seed=1).mean_rewards.std(axis=1) < 1e-12).all()
    own = pb.load_problem("trees:actions=3,contexts=50,features=2")
    same = protocol(contexts=own.population)
    assert truth_of("trees:actions=3,contexts=50,features=2", same, seed=0).name == own.name
    with pytest.raises(InputError, match="must be a number"):
        truth_of("winner:effect=x", fixed, seed=0)


def test_behaviours_that_cannot_be_are_refused():
    for options, words in (({"rate": -1}, "rate"), ({"workers": 0}, "workers"), ({"guardrail": 2}, "guardrail")):
        with pytest.raises(InputError, match=words):
            Behaviour(**options)


def test_who_excludes_an_action_is_told_that_the_experiment_explores_it(command, at):
    excluding = PROTOCOL.replace('"trees:depth=1"', '"trees:depth=1,never=1:age<=25,fallback=0"')
    (at / "checkout.toml").write_text(excluding, encoding="utf-8")
    code, _, err = command("experiment", "create", "checkout.toml")
    assert code == 0
    assert "everybody may get every action" in " ".join(err.split())
    (at / "checkout.toml").write_text(PROTOCOL.replace("checkout", "other"), encoding="utf-8")
    code, _, err = command("experiment", "create", "checkout.toml")
    assert (code, err) == (0, "")
