"""`pacbandits apply`: actions for the rows of a table that stays as it came, and policies for other systems."""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import sqlite3
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pacbandits as pb
from pacbandits.policies import GreedyPolicy, LinearPolicy, TablePolicy, TreePolicy
from pacbandits.policies.trees.tree_policy import AtMost, Is, TreeSplit
from tests.public.things import certificate, log, stumps

TREE = TreePolicy(TreeSplit(AtMost("age", 31.5), 0, TreeSplit(Is("device", "phone"), 1, 0)), 2)
MIXTURE = pb.Mixture((TREE, TreePolicy(1, 2)), (0.25, 0.75))
PEOPLE = """\
id,age,note,device,when
007,20,"says ""hi"", twice",phone,2026-01-01
008,31.5,NA,desktop,
009, 40 ,"two
lines",phone,x
010,1e2,1.50,desktop,true
"""


@pytest.fixture
def save(tmp_path):
    """A certificate of any policy, as a file."""

    def made(policy):
        path = tmp_path / "proof.json"
        pb.save_certificate(path, replace(certificate(), policy=policy), stumps())
        return path

    return made


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE)
    return path


@pytest.fixture
def named(monkeypatch):
    call_actions(monkeypatch, "plain", "10 % off, 'now'")


def call_actions(monkeypatch, *names):
    """Give names to the actions of every proof."""
    named = property(lambda proof: pb.DeployedPolicy(proof.certificate.policy, names))
    monkeypatch.setattr(pb.Proof, "policy", named)


def read(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.thorough
def test_counts_by_action(run, save, people, named):
    code, out, err = run("apply", save(TREE), people)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()[1:] if line.strip()] == [
        ["plain", "3", "75.0%"],
        ["10", "%", "off,", "'now'", "1", "25.0%"],
        ["4", "rows", "in", "all"],
    ]
    out = run("apply", save(TREE), people, "--json")[1]
    each = [{"action": "plain", "rows": 3}, {"action": "10 % off, 'now'", "rows": 1}]
    assert json.loads(out) == {"rows": 4, "actions": each, "out": None}
    assert "used for nobody: 10 % off, 'now'" in run("apply", save(TreePolicy(0, 2)), people)[1]


@pytest.mark.thorough
def test_a_csv_comes_back_as_it_was_with_the_actions(run, save, people, tmp_path, named):
    out = tmp_path / "actions.csv"
    code, said, err = run("apply", save(TREE), people, "--out", out)
    assert (code, err) == (0, "")
    assert "4 rows, plain for 3, 10 % off, 'now' for 1" in " ".join(said.split())
    before, after = read(people), read(out)
    assert [row[:-1] for row in after] == before
    assert [row[-1] for row in after] == ["action", "plain", "plain", "10 % off, 'now'", "plain"]
    assert out.read_text().splitlines()[1] == '007,20,"says ""hi"", twice",phone,2026-01-01,plain'
    code, _, err = run("apply", save(TREE), out, "--out", tmp_path / "again.tsv")
    assert code == 2
    assert "column 'action' already exists" in err
    assert run("apply", save(TREE), out, "--out", tmp_path / "again.tsv", "--column", "next")[0] == 0
    assert (tmp_path / "again.tsv").read_text().splitlines()[0] == "id\tage\tnote\tdevice\twhen\taction\tnext"
    assert run("apply", save(TREE), people, "--out", tmp_path / "actions.parquet")[0] == 0
    table = pq.read_table(tmp_path / "actions.parquet")
    assert table.column("age").to_pylist() == [20.0, 31.5, 40.0, 100.0]
    assert table.column("id").to_pylist() == ["007", "008", "009", "010"]
    assert table.column("action").to_pylist() == [row[-1] for row in after[1:]]


def test_a_parquet_table_may_hold_anything_that_is_not_asked_about(run, save, tmp_path):
    days = [datetime.date(2026, 1, day) for day in (1, 2, 3)]
    odd = {"day": days, "lists": [[{"a": 1}], [], None], "bytes": [b"\xff", None, b""], "": [None, 1.5, float("nan")]}
    given = pa.table({"age": [20, 40, 41], "device": pa.array(["phone", "phone", "x"]).dictionary_encode(), **odd})
    pq.write_table(given, tmp_path / "people.parquet")
    code, _, err = run("apply", save(TREE), tmp_path / "people.parquet", "--out", tmp_path / "out.parquet")
    assert (code, err) == (0, "")
    after = pq.read_table(tmp_path / "out.parquet")
    assert after.drop_columns(["action"]).drop_columns([""]).equals(given.drop_columns([""]))
    assert after.column("action").to_pylist() == [0, 1, 0]
    code, _, err = run("apply", save(TREE), tmp_path / "people.parquet", "--out", tmp_path / "out.csv")
    assert code == 2
    assert "column 'lists'" in err
    assert "cannot be written as text; use a file name that ends in .parquet" in err


@pytest.mark.thorough
def test_a_mixture_draws_by_its_seed_and_tells_the_propensity(run, save, tmp_path):
    rng = np.random.default_rng(0)
    ages, codes = rng.integers(20, 60, size=4000), rng.integers(2, size=4000)
    rows = [f"{age},{('phone', 'desktop')[code]}" for age, code in zip(ages, codes, strict=True)]
    (tmp_path / "many.csv").write_text("age,device\n" + "\n".join(rows) + "\n")
    proof, one, two = save(MIXTURE), tmp_path / "one.csv", tmp_path / "two.csv"
    assert run("apply", proof, tmp_path / "many.csv", "--out", one)[0] == 0
    assert run("apply", proof, tmp_path / "many.csv", "--out", two)[0] == 0
    assert one.read_bytes() == two.read_bytes()
    labels = [None, ("phone", "desktop")]
    contexts = pb.Contexts.of(np.column_stack([ages, codes]), names=["age", "device"], categories=labels)
    actions = MIXTURE.draw(contexts, np.random.default_rng(0))
    after = read(one)
    assert after[0] == ["age", "device", "action", "propensity"]
    assert [int(row[2]) for row in after[1:]] == actions.tolist()
    told = MIXTURE.propensities(contexts)[np.arange(4000), actions]
    assert [float(row[3]) for row in after[1:]] == told.tolist()
    assert run("apply", proof, tmp_path / "many.csv", "--out", two, "--seed", 1, "--column", "act")[0] == 0
    other = read(two)
    assert other[0][2:] == ["act", "act_propensity"]
    assert [row[2] for row in other[1:]] != [row[2] for row in after[1:]]


@pytest.mark.thorough
def test_every_kind_of_policy_acts_as_it_does_in_python(run, save, tmp_path):
    rng = np.random.default_rng(1)
    contexts = pb.Contexts.of(
        np.column_stack([rng.normal(size=300), rng.integers(3, size=300)]),
        names=["x", "place"],
        categories=[None, ("a", "b", "c")],
        ids=rng.integers(5, size=300),
        phi=rng.normal(size=(300, 2, 2)),
    )
    contexts.write(tmp_path / "contexts.parquet")
    crossed = pb.Crossed.blocks(contexts, n_actions=2)
    for policy in (
        TablePolicy(np.array([0, 1, 1, 0, 1]), 2),
        LinearPolicy(crossed, (1, -1, 2, 0, 1, 1, -2, 1)),
        GreedyPolicy(crossed, rng.normal(size=8)),
        LinearPolicy(pb.Given(2, 2), (1, -2)),
    ):
        out = tmp_path / "out.parquet"
        assert run("apply", save(policy), tmp_path / "contexts.parquet", "--out", out)[0] == 0
        assert pq.read_table(out).column("action").to_pylist() == policy(contexts).tolist()


@pytest.mark.thorough
def test_exports_need_no_table(run, save, people, tmp_path, named):
    proof = save(TREE)
    kinds = ("sql", "python", "rules", "javascript", "json-logic", "flags")
    files = {name: tmp_path / f"policy.{name}" for name in kinds}
    code, out, err = run("apply", proof, *(word for name, path in files.items() for word in (f"--{name}", path)))
    assert (code, out, err) == (0, "", "")
    base = sqlite3.connect(":memory:")
    found = base.execute(f"SELECT {files['sql'].read_text()} FROM (SELECT 40 AS age, 'phone' AS device)").fetchone()
    base.close()
    assert found == ("10 % off, 'now'",)
    space = {}
    exec(files["python"].read_text(), space)
    assert space["choose"]({"age": 20, "device": "phone"}) == "plain"
    assert json.loads(files["rules"].read_text())["else"] == "plain"
    assert files["javascript"].read_text().startswith("// choose(row, draw)")
    assert json.loads(files["json-logic"].read_text())["if"][-1] == "plain"
    assert json.loads(files["flags"].read_text())["policy"]["defaultValue"] == "plain"
    named = ("--flags", "-", "--flag-system", "flagd", "--flag", "email")
    assert json.loads(run("apply", proof, *named)[1])["flags"]["email"]["defaultVariant"] == "plain"
    assert "is not known here" in run("apply", proof, "--flags", "-", "--flag-system", "other")[2]
    for name, path in files.items():
        assert run("apply", proof, f"--{name}", "-")[:2] == (0, path.read_text())
    assert run("apply", proof, people, "--json", "--sql", files["sql"])[0] == 0


@pytest.mark.thorough
def test_exports_of_a_mixture(run, save):
    proof = save(MIXTURE)
    code, out, err = run("apply", proof, "--sql", "-")
    assert (code, out) == (2, "")
    assert "--draw" in err
    code, out, _ = run("apply", proof, "--sql", "-", "--draw", "u")
    assert code == 0
    assert "WHEN (u) < 0.25 THEN CASE" in out
    assert "def choose(row, draw=None)" in run("apply", proof, "--python", "-")[1]
    for name in ("--json-logic", "--flags"):
        assert "--draw NAME" in run("apply", proof, name, "-")[2]
        assert '"u"' in run("apply", proof, name, "-", "--draw", "u")[1]
    assert [one["below"] for one in json.loads(run("apply", proof, "--rules", "-")[1])["mixture"]] == [0.25, 1.0]


@pytest.mark.thorough
def test_names_that_a_screen_cannot_show(run, save, tmp_path):
    policy = TreePolicy(TreeSplit(Is("device\x1b[2J", "a\\"), 0, 1), 2)
    code, out, err = run("apply", save(policy), "--sql", "-")
    assert (code, out) == (2, "")
    assert "write it to a file instead" in err
    code, _, err = run("apply", save(policy), "--sql", tmp_path / "policy.sql")
    assert code == 0
    assert "note: the SQL holds a backslash" in err
    for name in ("--python", "--rules"):
        code, out, _ = run("apply", save(policy), name, "-")
        assert code == 0
        assert out.replace("\n", "").isprintable()


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age\n20\n", "column 'device', which the policy uses, is missing"),
        ("Age,device\n20,phone\n", "did you mean 'Age'?"),
        (
            "age,device\n20,phone\n\nold,phone\n",
            "column 'age' holds 'old', but must be a number in row 2 below the names",
        ),
        ("age,device\n2026-01-01,phone\n", "column 'age' holds '2026-01-01', but must be a number in row 1"),
        ("age,device\ninf,phone\n", "column 'age' holds no finite number in row 1"),
        ("age,device,age\n20,phone,1\n", "there are two columns 'age'"),
        ("age,device,name\n20,phone,J\xf6rg\n", "not a readable CSV file"),
        ("age,device\n", "has no rows"),
        ("age,device\n20\n", "is not a readable CSV file"),
        ('age,device,note\n20,phone,"x\n30,phone,y\n', "a quote is not closed"),
        ('age,device\n20,"pho\nne"\n', "column 'device' has a line break within 'pho ne'"),
    ],
)
def test_a_bad_table_is_one_line(run, save, tmp_path, text, words):
    (tmp_path / "people.csv").write_text(text, encoding="latin-1")
    code, out, err = run("apply", save(TREE), tmp_path / "people.csv", "--out", tmp_path / "out.csv")
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.thorough
def test_bad_options_are_one_line(run, save, people, tmp_path):
    proof = save(TREE)
    (tmp_path / "types.parquet").write_bytes(b"")
    wrong = pa.table({"age": [datetime.date(2026, 1, 1)], "device": [1.5]})
    pq.write_table(wrong, tmp_path / "types.parquet")
    for arguments, words in (
        ([], "nothing to do; give a table"),
        (["--out", tmp_path / "out.csv"], "give it after the certificate"),
        ([people, "--out", tmp_path / "out.xlsx"], "must end in .csv, .tsv or .parquet"),
        ([people, "--out", tmp_path / "none" / "out.csv"], "does not exist"),
        ([people, "--out", people], "would be overwritten"),
        ([people, "--column", ""], "must be a name"),
        ([people, "--column", "\udcff"], "must be a name"),
        ([people, "--seed", -1], "--seed must be 0 or more"),
        ([people, "--sql", "-"], "can be printed; name files for the others"),
        (["--rules", "-", "--sql", "-"], "can be printed; name files for the others"),
        (["--rules", tmp_path / "x", "--sql", tmp_path / "x"], "the same file name; name another"),
        ([tmp_path / "none.csv"], "no file at"),
        ([tmp_path / "types.parquet"], "column 'age' must hold numbers, got date32[day]"),
    ):
        code, out, err = run("apply", proof, *arguments)
        assert (code, out) == (2, ""), arguments
        assert words in err
        assert err.count("\n") == 1
    assert people.read_text() == PEOPLE
    assert run("apply", tmp_path / "none.json", people)[0] == 2


def test_names_that_do_not_fit_the_policy(run, save, people, monkeypatch):
    call_actions(monkeypatch, "plain")
    code, _, err = run("apply", save(TREE), people)
    assert code == 2
    assert "the policy has 2 actions, and actions were given 1 name; give" in err


def test_what_is_not_proven_is_said(run, tmp_path, people):
    short = pb.certify(log(), stumps(), epsilon=0.01, delta=0.1).certificate
    pb.save_certificate(tmp_path / "proof.json", replace(short, policy=TREE), stumps())
    code, _, err = run("apply", tmp_path / "proof.json", people)
    assert code == 0
    assert err.startswith("note: the certificate proves")


@pytest.mark.thorough
def test_compressed_tables_and_marks_before_them_are_read(run, save, people, tmp_path):
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + PEOPLE.encode()))
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + PEOPLE.replace("\n0", "\r\n0").encode())
    for name in ("people.csv", "people.csv.gz", "marked.csv"):
        assert run("apply", save(TREE), tmp_path / name, "--out", tmp_path / f"{name[:6]}.out.csv")[0] == 0
    assert (tmp_path / "people.out.csv").read_bytes() == (tmp_path / "marked.out.csv").read_bytes()


def test_what_cannot_be_written_leaves_no_half_of_a_table(run, save, people, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pacbandits.logs.customers._lines", fail)
    code, _, err = run("apply", save(TREE), people, "--out", tmp_path / "out.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "No space left on device" in err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.slow
def test_a_million_rows(run, save, tmp_path):
    rows = "".join(f"{i:07d},{18 + i % 60},{('phone', 'desktop')[i % 2]}\n" for i in range(1_000_000))
    (tmp_path / "many.csv").write_text("id,age,device\n" + rows)
    assert run("apply", save(MIXTURE), tmp_path / "many.csv", "--out", tmp_path / "out.csv")[0] == 0
    with (tmp_path / "out.csv").open() as file:
        assert sum(1 for _ in file) == 1_000_001
