"""Metrics and guardrails at the command line and in Python: read, recorded, read again; or refused in a sentence."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import pacbandits as pb
from pacbandits.cli.verify import as_read

N = 700
HOW = ["--action", "variant", "--reward", "converted", "--split", "uniform", "--policies", "trees:depth=1"]
SAID = {"action": "variant", "reward": "converted", "split": "uniform"}
MEASURED = ["--control", "none", "--metric", "minutes 0 600", "--metric", "minutes/orders 0 600 0 9"]
RAIL = ["--guardrail", "returned <= control + 1 point"]


def table():
    rng = np.random.default_rng(0)
    variant = rng.choice(["mail", "none"], N)
    return pa.table(
        {
            "age": rng.integers(18, 90, N),
            "variant": variant,
            "converted": (rng.random(N) < np.where(variant == "mail", 0.8, 0.2)).astype(int),
            "returned": rng.integers(0, 2, N),
            "minutes": rng.integers(0, 600, N),
            "orders": rng.integers(0, 9, N),
        }
    )


@pytest.fixture
def test_csv(tmp_path):
    path, rows = tmp_path / "test.csv", table().to_pylist()
    path.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]) + "\n")
    return path


def test_metrics_are_recorded_and_verified(run, test_csv, tmp_path):
    proof = tmp_path / "proof.json"
    code, out, err = run("certify", test_csv, *HOW, *MEASURED, *RAIL, "--certificate", proof)
    assert code == 3, err  # too few rows for the guardrail
    assert "Guardrail: " in out
    rest = ["--control", "none", "--without", "returned,minutes,orders"]
    code, plain, _ = run("certify", test_csv, *HOW, *rest)
    assert (code, "Guardrail: " in plain) == (0, False)
    reading = json.loads(proof.read_text())["reading"]
    assert reading["metrics"] == [
        *(["minutes", 0, 600], ["minutes/orders", 0, 600, 0, 9], ["returned", 0, 1]),
    ]
    assert as_read(reading).endswith("--metric 'minutes 0 600' --metric 'minutes/orders 0 600 0 9' --metric 'returned'")
    code, out, err = run("verify", proof, test_csv)
    assert (code, err) == (0, "")
    lines = test_csv.read_text().splitlines()
    cells = lines[5].split(",")
    cells[3] = "1" if cells[3] == "0" else "0"  # returned
    test_csv.write_text("\n".join([*lines[:5], ",".join(cells), *lines[6:]]) + "\n")
    code, out, err = run("verify", proof, test_csv)
    assert code != 0


@pytest.mark.thorough
@pytest.mark.parametrize("engine", [[], pytest.param(["--engine", "stream"], marks=pytest.mark.thorough)])
def test_a_certificate_knows_its_log_with_more_metrics_or_fewer(run, test_csv, tmp_path, engine):
    """Or the intervals would not allow for the choice of the policy by this log."""
    proofs = {"some": ["--metric", "minutes 0 600"], "none": []}
    for name, metrics in proofs.items():
        proof = tmp_path / f"{name}.json"
        rest = ["--without", "returned,minutes,orders", *engine, "--certificate", proof]
        assert run("certify", test_csv, *HOW, *metrics, *rest)[0] == 0
        told = []
        for more in ([], ["--metric", "returned"]):
            code, out, err = run("evaluate", proof, test_csv, *engine, *more, "--json")
            assert code == 0, err
            told.append(json.loads(out))
        assert told[0] == told[1]
        assert told[0]["own_log"]


@pytest.mark.thorough
def test_a_metric_that_was_a_feature_is_refused_for_the_same_log(run, test_csv, tmp_path):
    proof = tmp_path / "proof.json"
    assert run("certify", test_csv, *HOW, "--certificate", proof)[0] == 0
    code, out, err = run("evaluate", proof, test_csv, "--metric", "orders 0 9")
    assert (code, out) == (2, "")
    assert "was made from this log with a metric of --metric as a feature; leave that metric out" in err
    result = pb.load_certificate(proof)
    with pytest.raises(pb.InputError, match="with a metric of metrics as a feature"):
        pb.evaluate(test_csv, result, **SAID, metrics=["orders 0 9"])


@pytest.mark.thorough
def test_another_log_may_lack_the_metrics(run, test_csv, tmp_path):
    proof, other = tmp_path / "proof.json", tmp_path / "other.csv"
    assert run("certify", test_csv, *HOW, *MEASURED, *RAIL, "--certificate", proof)[0] == 3
    rows = [line.split(",") for line in test_csv.read_text().splitlines()]
    other.write_text("\n".join(",".join((*row[:3], row[4])) for row in rows) + "\n")  # age, variant, converted, minutes
    code, out, err = run("evaluate", proof, other, "--json")
    assert (code, json.loads(out)["own_log"]) == (0, False)
    for name in ("minutes/orders", "returned"):
        assert f"note: {other} lacks a column of '{name}', a metric of the certificate, which is left out\n" in err
    assert err.count("note: ") == 2


@pytest.mark.parametrize(
    ("rail", "code", "words"),
    [
        ("returned <= control + 1 point", 3, "do not roll out yet: guardrail 'returned <= control + 1%' is not proven"),
        ("returned <= control + 50 points", 0, "roll out "),
    ],
)
def test_a_gain_is_rolled_out_once_its_guardrails_are_proven(run, test_csv, rail, code, words):
    how = [*HOW, "--control", "none", "--without", "minutes,orders", "--guardrail", rail, "--json"]
    told_code, out, _ = run("certify", test_csv, *how)
    told = json.loads(out)
    assert (told_code, told["proven"]) == (code, code == 0)
    assert told["improvement"]["recommended"] != "control"
    assert told["next_step"].startswith(f"Next: {words}")
    assert ("once 'returned <= control + 1%' is proven" in told["answer"][0]) == (code == 3)


def test_a_guardrail_is_named_where_no_gain_is_proven_either(run, test_csv):
    """With so small a δ, neither the gain of the better action is proven nor that it keeps the guardrail."""
    rest = ["--control", "none", "--without", "minutes,orders", *RAIL, "--delta", "1e-30", "--json"]
    code, out, _ = run("certify", test_csv, *HOW, *rest)
    told = json.loads(out)
    assert (code, told["improvement"]["recommended"]) == (3, "control")
    assert "returned <= control + 1% is neither proven nor refuted" in " ".join(told["answer"])


WRONG = [
    (["--guardrail", "clicks <= control + 0.01"], "there is no column 'clicks' for metric 'clicks'"),
    (["--guardrail", "minutes <= control + 5"], "this metric must lie in [0, 1]"),
    (["--guardrail", "converted <= control"], "column 'converted' is the reward, and cannot be a metric"),
    (["--guardrail", "returned < control"], "cannot be read; write it as 'returned <= control + 0.01'"),
    (["--guardrail", "returned <= control + 1"], "as large as the whole range of 'returned', 0 to 1"),
    (["--metric", "minutes 0 600", "--guardrail", "minutes >= control - 5%"], "give it in their units"),
    (["--metric", "minutes 0 600", "--metric", "minutes 0 60"], "column 'minutes' has two ranges"),
    (["--metric", "minutes 0 600", "--features", "age,minutes"], "column 'minutes' is a metric, which comes after"),
    (["--metric", "variant"], "column 'variant' is the action"),
    ([*RAIL, "--control", "nobody"], "--control names 'nobody', which is no action"),
    ([*RAIL, "--asymptotic"], "--guardrail needs a proof, and --asymptotic makes none"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_what_is_wrong_is_said_and_nothing_written(run, test_csv, tmp_path, options, words):
    proof, report = tmp_path / "proof.json", tmp_path / "report.html"
    control = [] if "--control" in options else ["--control", "none"]
    code, out, err = run("certify", test_csv, *HOW, *control, *options, "--certificate", proof, "--report", report)
    if "--asymptotic" in options:
        code, out, err = run("certify", test_csv, *HOW, *control, *options, "--certificate", proof)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err
    assert not proof.exists()
    assert not report.exists()


def test_a_guardrail_needs_control(run, test_csv):
    code, out, err = run("certify", test_csv, *HOW, *RAIL)
    assert (code, out) == (2, "")
    assert (
        "guardrail 'returned <= control + 1%' compares with control; say which action that is (--control NAME)" in err
    )
    with pytest.raises(pb.InputError, match=r'say which action that is \(control="NAME"\)'):
        pb.certify(table(), **SAID, guardrails=["returned <= control"])


@pytest.mark.thorough
def test_python_takes_them_too(tmp_path):
    more = {"policies": "trees:depth=1", "control": "none", "guardrails": ["returned <= control + 0.01"]}
    result = pb.certify(table(), **SAID, metrics=["orders 0 9", ("minutes", 0, 600)], **more)
    assert [metric.spelt for metric in result.log.metrics] == ["orders 0 9", "minutes 0 600", "returned"]
    assert result.reading["metrics"] == [["orders", 0, 9], ["minutes", 0, 600], ["returned", 0, 1]]
    assert result.verify().good
    result.save(tmp_path / "proof.json")
    own = pb.evaluate(table(), pb.load_certificate(tmp_path / "proof.json"), **SAID)
    assert own.value == result.worth.value == pb.evaluate(table(), result, **SAID).value
    again = pb.certify(result.log, **more)
    assert again.certificate.digest == result.certificate.digest
    with pytest.raises(pb.InputError, match="'clicks' is no metric of the log"):
        pb.certify(result.log, control="none", guardrails=["clicks <= control"])
    with pytest.raises(pb.InputError, match="metrics is for a data frame, and this is a log already"):
        pb.certify(result.log, metrics=["returned"])
