"""Metrics of an experiment: sealed in its protocol, reported with rewards, exported, and guarded by a certificate."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pacbandits as pb
from pacbandits.certificate import Certificate
from pacbandits.errors import InputError
from pacbandits.experiment.analyses import metrics_by_action
from pacbandits.experiment.assignment_records import AssignmentRequest, Report
from pacbandits.experiment.audit import _wrong_metrics, audit, read_record
from pacbandits.experiment.database import Contradiction
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.exported_record import SealedTerms
from pacbandits.experiment.protocol import MISSING_METRICS, ExperimentProtocol, GuardrailRule, LateRule
from pacbandits.experiment.stored_rows import NEVER
from pacbandits.records import Metric, Ratio
from pacbandits.records.metrics import read_guardrail
from tests.experiment.cases import people, protocol
from tests.experiment.live import Played

YOUNG = {"age": 25, "country": "DE"}
METRICS = ["returned", ("minutes", -60, 600), "minutes/orders -60 600 0 9"]
RAIL = "returned <= control + 0.4"
MEASURED = {"metrics": METRICS, "guardrails": [RAIL], "control": "standard"}
TOLD = {"returned": 0, "minutes": 120, "orders": 2}


@pytest.fixture
def played(tmp_path):
    return Played(tmp_path / "e.db", MEASURED)


def records(experiment):
    return experiment.seal().records


# The protocol.


def test_metrics_and_guardrails_are_sealed_and_read_again():
    made = protocol(**MEASURED)
    assert made.metrics == (
        Metric("returned"),
        Metric("minutes", -60, 600),
        Ratio(Metric("minutes", -60, 600), Metric("orders", 0, 9)),
    )
    assert made.guardrails == (read_guardrail(RAIL),)
    again = ExperimentProtocol.from_json(made.to_json(), contexts=made.contexts)
    assert (again.metrics, again.guardrails, again.digest) == (made.metrics, made.guardrails, made.digest)
    others = (protocol(), protocol(metrics=METRICS), protocol(metrics=METRICS[:2], guardrails=[RAIL]))
    assert len({made.digest, *(one.digest for one in others)}) == 4


def test_without_metrics_a_protocol_is_what_it_was():
    assert {"metrics", "guardrails", "control"} & set(protocol().to_json()) == set()
    assert protocol(control="discount").digest == protocol(standard="discount").digest
    assert protocol(control="standard", standard="standard").digest == protocol().digest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"control": "discout"}, "control is 'discout', which is no action.*'discount'"),
        ({"control": "discount", "standard": "standard"}, "leave one of them out"),
        ({"metrics": METRICS, "guardrails": ["retruned <= control"]}, "not among the metrics.*'returned'"),
        ({"guardrails": [RAIL]}, "list it in metrics"),
        ({"metrics": METRICS, "guardrails": ["returned < 3"]}, "cannot be read"),
        ({"metrics": METRICS, "guardrails": ["returned <= control + 2"]}, "as large as the whole range"),
        ({"metrics": ["age"]}, "'age' has a name of a feature"),
        ({"metrics": ["reward"]}, "'reward' has a name of a feature or of another column"),
        ({"metrics": ["x\ny"]}, "not one short line"),
        ({"metrics": [("minutes", 600, 0)]}, "the smaller first"),
        ({"metrics": [7]}, "a metric is a column and its range"),
        ({"metrics": 7}, "metrics must be a list"),
        ({"metrics": [f"m{i}" for i in range(21)]}, "at most 20"),
    ],
)
def test_what_cannot_be_sealed_is_told(options, said):
    with pytest.raises(InputError, match=said):
        protocol(**options)


def test_a_feature_with_the_name_of_the_column_of_metrics_is_refused():
    contexts = pb.Contexts.of([[1.0], [2.0], [3.0]], names=["metric_values"])
    assert protocol(contexts=contexts).metrics == ()
    with pytest.raises(InputError, match="'metric_values' has the name of a column"):
        protocol(contexts=contexts, metrics=["returned"])


# Reports.


def test_a_reward_comes_with_its_metrics_once_and_again_without_harm(played):
    given = played.experiment.assign(YOUNG, unit="u")
    before = records(played.experiment)
    assert played.experiment.record(given.id, reward=1, metrics=TOLD).outcome == "recorded"
    assert records(played.experiment) == before + 1 + len(TOLD)
    again = Experiment.open(played.path, "checkout")  # as after a crash
    assert again.record(given.id, reward=1, metrics=dict(reversed(TOLD.items()))).outcome == "repeated"
    with pytest.raises(Contradiction, match=r"metric 'minutes' .* 120 before, and now as 121"):
        again.record(given.id, reward=1, metrics=TOLD | {"minutes": 121})
    assert records(again) == before + 1 + len(TOLD)
    again.close()


def test_what_cannot_be_a_report_is_told_and_nothing_is_stored(played):
    one, other = played.experiment.assign([YOUNG, YOUNG], units=["u", "v"])
    before = records(played.experiment)
    for bad, said in (
        (Report(other.id, 1.0), "metric 'returned' is missing"),
        (Report(other.id, 1.0, metrics={"returned": 0, "minutes": 1}), "metric 'orders' is missing"),
        (Report(other.id, 1.0, metrics=TOLD | {"orders": None}), "metric 'orders' is missing"),
        (Report(other.id, 1.0, metrics=TOLD | {"ordres": 1}), "'ordres' is no metric .*'orders'"),
        (Report(other.id, 1.0, metrics=TOLD | {"minutes": 601}), "metric 'minutes' of 601 is outside .* -60 to 600"),
        (Report(other.id, 1.0, metrics=TOLD | {"minutes": float("nan")}), "'minutes'"),
        (Report(other.id, 1.0, metrics=TOLD | {"minutes": "7"}), "'minutes'"),
        (Report(other.id, None, metrics=TOLD), "without its reward"),
        (Report(other.id, 1.0, metrics=[1]), "numbers by name"),
    ):
        with pytest.raises(InputError, match=said):
            played.experiment.record_many([Report(one.id, 1.0, metrics=TOLD), bad])
        assert records(played.experiment) == before


def test_an_experiment_without_metrics_takes_none(tmp_path):
    played = Played(tmp_path / "e.db")
    given = played.experiment.assign(YOUNG, unit="u")
    with pytest.raises(InputError, match="'returned' is no metric of the experiment; it has none"):
        played.experiment.record(given.id, reward=1, metrics={"returned": 0})
    assert played.experiment.record(given.id, reward=1, metrics={}).outcome == "recorded"


def test_metrics_of_a_missing_reward_are_0_or_nearest_to_it(tmp_path):
    """And those of a late one: it counts as missing."""
    late = LateRule("window", window_seconds=3600)
    options = {"late": late, "metrics": ["returned", "rating 1 5", "loss -9 -2"], "guardrail": GuardrailRule("c", 0.5)}
    played = Played(tmp_path / "e.db", options)
    came, over, never = played.experiment.assign([YOUNG] * 3, units=["u", "v", "w"])
    told = {"returned": 1, "rating": 4, "loss": -5}
    played.experiment.record_many([Report(came.id, 1.0, 1.0, told)])
    played.now += timedelta(hours=2)
    assert played.experiment.record(over.id, reward=1, guardrail=0, metrics=told).outcome == "late"
    assert played.experiment.record(over.id, reward=1, metrics=told).outcome == "late"
    assert never.id
    played.experiment.export(tmp_path / "e.parquet", look=0)
    record = read_record(tmp_path / "e.parquet")
    assert audit(record).faults == ()
    assert MISSING_METRICS in record.log.remarks
    nothing = [0.0, 0.0, 1.0]
    assert record.log.metric_values.tolist() == [pytest.approx([1, 0.75, 4 / 7]), nothing, nothing]
    assert record.outcomes["metric_1"].late.tolist() == [0, 1, 0]
    assert record.outcomes["guardrail"].late.tolist() == [0, 0, 0]


# Exports.


def play(played, count=240, *, harm=0.1):
    """People come, and most of their rewards, with metrics; a discount earns more."""
    rng = played.rng
    contexts = [{"age": int(rng.integers(18, 80)), "country": "DE"} for _ in range(count)]
    given = played.experiment.assign_many([AssignmentRequest(None, one) for one in contexts])
    played.experiment.record_many(
        [
            Report(
                one.id,
                float(rng.random() < (0.95 if one.action == "discount" else 0.1)),
                metrics={
                    "returned": float(rng.random() < harm),
                    "minutes": float(rng.integers(-60, 600)),
                    "orders": float(rng.integers(0, 9)),
                },
            )
            for one in given
            if rng.random() < 0.98
        ]
    )
    played.now += timedelta(days=1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """An experiment that has not come far, and its export."""
    folder = tmp_path_factory.mktemp("metrics")
    played = Played(folder / "e.db", MEASURED | {"epsilon": 0.05, "algorithm": "uniform", "round_hours": 12})
    for _ in range(3):
        play(played)
        played.experiment.advance(at_once=True)
    played.experiment.export(folder / "e.parquet", look=0)
    return played, folder / "e.parquet"


def changed(path, target, alter):
    """A copy of a file with other columns."""
    table = pq.read_table(path)
    columns = {name: table[name] for name in table.column_names}
    alter(columns)
    pq.write_table(pa.table(columns).replace_schema_metadata(table.schema.metadata), target)
    return target


def test_an_export_has_the_metrics_and_its_chain_holds(exported):
    played, path = exported
    record = read_record(path)
    found = audit(record)
    assert (found.faults, found.head) == ((), played.experiment.seal().head)
    assert any("metrics were reported with the rewards" in words for words in found.checked)
    assert record.log.metrics == played.experiment.protocol.metrics
    assert np.isnan(record.log.metric_values).all(axis=1).tolist() == record.log.awaited.tolist()
    assert record.log.awaited.any()


def test_metrics_that_were_altered_are_found_out(exported, tmp_path):
    _, path = exported

    def reported(columns):
        values = columns["record_metric_0"].to_numpy().copy()
        row = int(np.flatnonzero(~np.isnan(values))[0])
        values[row] = 1 - values[row]
        columns["record_metric_0"] = pa.array(values)

    def shown(columns):
        values = np.array(columns["metric_values"].to_pylist())
        row = int(np.flatnonzero(~np.isnan(values[:, 0]))[0])
        values[row, 0] = 1 - values[row, 0]
        columns["metric_values"] = pa.array(values.tolist())

    for alter, said in ((reported, "the chain is broken"), (shown, "a metric is not what was reported")):
        (fault,) = audit(read_record(changed(path, tmp_path / "x.parquet", alter))).faults
        assert fault.startswith(said)


def test_metrics_without_their_rewards_or_of_another_protocol_are_found_out(exported):
    """Though their chain would hold: as whoever keeps the database could have made it."""
    record = read_record(exported[1])
    terms = SealedTerms.of(record)
    assert _wrong_metrics(record, terms) == []
    own = record.outcomes["metric_1"]
    for name in ("sequence", "at", "late"):
        other = replace(own, **{name: getattr(own, name) + (own.sequence < NEVER)})
        wrong = replace(record, outcomes=record.outcomes | {"metric_1": other})
        assert _wrong_metrics(wrong, terms) == ["metric 'minutes' was reported at another time than the reward"]
    fewer = replace(record, log=record.log.only_metrics(record.log.metrics[:1]))
    assert _wrong_metrics(fewer, terms) == ["the log has other metrics than the protocol"]


def test_an_export_is_certified_with_a_guardrail_and_verified(exported, command, tmp_path):
    """From the experiment to a certificate whose control and guardrail were sealed before the first row."""
    played, path = exported
    proof, known = tmp_path / "proof.json", tmp_path / "people.parquet"
    people().write(known)
    asked = ["--policies", "trees:depth=1", "--contexts", known, "--control", "standard", "--metric", "returned"]
    code, out, err = command("certify", path, *asked, "--guardrail", RAIL, "--certificate", proof)
    assert code == 0, err
    assert "use discount for everyone" in out
    assert f"Guardrail: {RAIL} is kept, as is proven" in out
    code, out, err = command("verify", proof, path, "--head", played.experiment.seal().head)
    assert code == 0, err
    words = " ".join(out.split())
    assert "control and guardrails are those of the protocol, which was sealed before the first row" in words
    assert "named before the log was seen" not in words


@pytest.mark.thorough
def test_a_guardrail_that_was_not_sealed_is_taken_on_trust(exported, command, tmp_path):
    proof, known = tmp_path / "proof.json", tmp_path / "people.parquet"
    people().write(known)
    asked = ["--policies", "trees:depth=1", "--contexts", known, "--control", "standard"]
    other = "returned <= control + 0.5"  # not the protocol's, so that it may have been chosen afterwards
    assert command("certify", exported[1], *asked, "--guardrail", other, "--certificate", proof)[0] == 0
    words = " ".join(command("verify", proof, exported[1])[1].split())
    assert "which was sealed before" not in words
    assert "named before the log was seen" in words


@pytest.mark.thorough
def test_the_certificate_of_an_experiment_with_metrics_verifies_on_its_export(tmp_path):
    played = Played(tmp_path / "e.db", MEASURED | {"late": LateRule("window", window_seconds=86400 / 2)})
    for _ in range(12):
        play(played)
        status = played.advance()
        if status["state"] == "certified":
            break
    play(played)
    result = played.experiment.result()
    assert result.certified
    played.experiment.export(tmp_path / "e.parquet")
    assert audit(read_record(tmp_path / "e.parquet"), Certificate.from_json(result.certificate)).faults == ()
    assert status["guardrails"] == [RAIL]
    first, *_ = status["metrics"]
    assert (first["name"], [one["action"] for one in first["actions"]]) == ("returned", status["actions"])
    assert all(0 <= one["low"] <= one["mean"] <= one["high"] < 0.3 for one in first["actions"][:2])


# Interim analyses.


def test_metrics_by_action_are_of_everybody_though_designs_differ():
    """The young, who return less, get one action more often; weights by propensities undo that."""
    rng, n = np.random.default_rng(0), 4000
    young = rng.random(n) < 0.5
    p = np.where(young, 0.9, 0.2)
    actions = (rng.random(n) < p).astype(int)
    returned, orders = (rng.random(n) < np.where(young, 0.1, 0.5)).astype(float), rng.integers(0, 3, n)
    log = pb.Log.of(
        pb.Contexts.of(young[:, None].astype(float), names=["young"]),
        actions=actions,
        rewards=returned,
        propensities=np.column_stack([1 - p, p]),
        metrics=["returned", "orders 0 2", "returned/orders 0 1 0 2"],
        metric_values=np.column_stack([returned, orders / 2]),
    )
    whole, per = (metrics_by_action(log, ("a", "b", "never"))[place]["actions"] for place in (0, 2))
    assert abs(returned[actions == 1].mean() - 0.3) > 0.1
    for one, truth in zip((*whole[:2], *per[:2]), (0.3, 0.3, 0.3, 0.3), strict=True):
        assert one["low"] < truth < one["high"]
        assert one["high"] - one["low"] < 0.2
    assert whole[2] == {"action": "never", "mean": None, "low": None, "high": None}
    assert metrics_by_action(log.only_metrics(()), ("a", "b")) == ()
