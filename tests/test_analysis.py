"""The Python front: from a data frame to an answer, a report, a picture, a file and a policy that names actions."""

from __future__ import annotations

import inspect
import json
from contextlib import closing

import matplotlib.figure
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import pacbandits as pb
from pacbandits.logs.data_set import open_set
from pacbandits.logs.readers import log_of
from pacbandits.logs.reading_options import Reading, ReadingOptions
from pacbandits.rewards.additive import Additive

COLUMNS = {"action": "variant", "reward": "bought", "split": "uniform"}
ASKED = {**COLUMNS, "epsilon": 0.4}


def shop(rows=1200, seed=1):
    """An A/B test in which discounts suit the young."""
    rng = np.random.default_rng(seed)
    age, device = rng.integers(18, 80, rows), rng.integers(0, 2, rows)
    variant = rng.integers(0, 2, rows)
    rate = np.where((variant == 1) == (age < 45), 0.8, 0.2)
    return pa.table(
        {
            "age": age,
            "device": pa.array(np.array(["phone", "laptop"])[device]),
            "variant": pa.array(np.array(["plain", "discount"])[variant]),
            "bought": (rng.random(rows) < rate).astype(np.int64),
        }
    )


@pytest.fixture(scope="module")
def frame():
    return shop()


@pytest.fixture(scope="module")
def result(frame):
    return pb.certify(frame, "trees:depth=1", **ASKED, control="plain")


@pytest.mark.parametrize("function", [pb.certify, pb.evaluate])
def test_help_shows_every_keyword(function):
    taken = inspect.signature(function).parameters
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    assert set(Reading.__annotations__) <= set(taken)


def test_certify_explains_every_keyword():
    words = inspect.getdoc(pb.certify)
    for name in inspect.signature(pb.certify).parameters:
        assert f"{name}:" in words or f"{name}," in words or f", {name}" in words, name


def test_a_result_answers_in_the_names_of_the_data(result):
    assert result.certified
    assert result.epsilon <= 0.4
    assert result.alarms == ()
    first = result.answer.splitlines()[0]
    assert first.startswith("Recommendation: use the rule below. With 95 % confidence it raises the mean bought by at")
    assert "over plain (estimate" in first
    assert "plain" in result.answer
    assert "bought" in result.answer
    assert repr(result).endswith(result.answer)
    assert result._repr_html_().startswith('<div class="pacbandits">\n<style>\n')
    assert "<h1>Which action for whom, for the largest mean bought?</h1>" in result._repr_html_()
    json.dumps(result.to_json())


def test_its_policy_takes_a_frame_and_gives_names(result):
    people = pa.table({"age": [20, 70], "device": ["phone", "phone"]})
    assert list(result.policy(people)) == ["discount", "plain"]


def test_what_is_saved_is_what_the_command_rechecks(result, frame, tmp_path, command):
    result.save(tmp_path / "proof.json")
    pa.csv.write_csv(frame, tmp_path / "test.csv")
    code, out, _ = command("verify", tmp_path / "proof.json", tmp_path / "test.csv")
    assert (code, out.split(":")[0]) == (0, "good")
    loaded = pb.load_certificate(tmp_path / "proof.json")
    assert pb.verify(loaded, result.log).good
    result.report(tmp_path / "report.html")
    assert "discount" in (tmp_path / "report.html").read_text()
    with pytest.raises(pb.InputError, match=r"must end in \.html"):
        result.report(tmp_path / "report.pdf")


def test_a_picture_is_a_figure_with_all_intervals(result):
    figure = result.figure()
    assert isinstance(figure, matplotlib.figure.Figure)
    labels = [text.get_text() for axis in figure.axes for text in axis.get_yticklabels()]
    assert labels == ["the rule", "always discount", "always plain", "over always discount", "over always plain"]
    assert figure._repr_png_().startswith(b"\x89PNG")  # by which a notebook shows it


def test_verify_needs_no_class(result):
    assert result.verify().good
    assert pb.verify(result, result.log).good
    assert pb.verify(result.certificate, result.log).good  # learnt again from the first rows
    fixed = pb.Trees.learn(result.log.contexts, n_actions=2, depth=1)
    other = pb.certify(result.log, fixed, epsilon=0.9).certificate
    with pytest.raises(pb.InputError, match="pass the class as policies"):
        pb.verify(other, result.log)
    with pytest.raises(pb.InputError, match="a certificate is needed, not a int"):
        pb.verify(3, result.log)


def test_a_run_has_its_class_with_it(tmp_path):
    done = pb.run("two-of-many:actions=4,policies=20", epsilon=0.3, delta=0.1, rng=1)
    assert pb.verify(done, done.log).good
    pb.save_certificate(tmp_path / "proof.json", done)
    assert pb.verify(pb.load_certificate(tmp_path / "proof.json"), done.log).good
    nothing = pb.run(
        "two-of-many:actions=4,policies=20", algorithm="squarecb", epsilon=0.3, delta=0.1, max_samples=50, rng=1
    )
    with pytest.raises(pb.InputError, match="made no certificate"):
        pb.verify(nothing, done.log)


def test_a_class_from_contexts_is_learnt_again_from_these(frame):
    log = pb.certify(frame, "trees:depth=1", **ASKED).log
    before = log.contexts.take(np.arange(100))
    made = pb.certify(log, "trees:depth=1", epsilon=0.4, contexts=before).certificate
    with pytest.raises(pb.InputError, match="pass them as contexts"):
        pb.verify(made, log)
    assert pb.verify(made, log, contexts=before).good


def test_saving_needs_no_class_either(result, tmp_path):
    pb.save_certificate(tmp_path / "proof.json", result)
    assert pb.load_certificate(tmp_path / "proof.json").certificate.to_json() == result.certificate.to_json()
    with pytest.raises(pb.InputError, match="by itself has no policy class"):
        pb.save_certificate(tmp_path / "other.json", result.certificate)
    assert not (tmp_path / "other.json").exists()


def test_a_frame_a_file_and_the_command_give_the_same(result, frame, tmp_path, command):
    pa.csv.write_csv(frame, tmp_path / "test.csv")
    by_file = pb.certify(tmp_path / "test.csv", "trees:depth=1", control="plain", **ASKED)
    flags = ("--action", "variant", "--reward", "bought", "--split", "uniform", "--control", "plain", "--epsilon", 0.4)
    _, out, _ = command("certify", tmp_path / "test.csv", "--policies", "trees:depth=1", *flags, "--json")
    assert by_file.certificate.to_json() == result.certificate.to_json()
    assert json.loads(out) == json.loads(json.dumps(by_file.to_json()))


def test_rows_that_are_streamed_have_all_that_others_have(frame, tmp_path):
    for part in (0, 1):
        pa.parquet.write_table(frame.slice(600 * part, 600), tmp_path / f"{part}.parquet")
    told = []
    found = pb.certify(str(tmp_path / "*.parquet"), "trees:depth=1", **ASKED, progress=told.append)
    assert found.worth is not None
    assert "certified" not in found.answer
    assert told
    with pytest.raises(pb.InputError, match="was streamed from files"):
        found.verify()
    found.save(tmp_path / "proof.json")
    loaded = pb.load_certificate(tmp_path / "proof.json")
    assert pb.verify(loaded, loaded.files([tmp_path / "*.parquet"])).good


@pytest.mark.thorough
def test_evaluate_reads_frames_and_takes_names(result, frame):
    always = pb.evaluate(frame, "plain", **COLUMNS)
    rule = frame.append_column("ours", pa.array(["plain"] * len(frame)))
    # The same rows in the same order, with the column, by which they are ordered too, as a feature that says nothing.
    by_column, by_name = (pb.evaluate(rule, one, **COLUMNS) for one in ("column:ours", "plain"))
    assert by_column.value == by_name.value
    assert pb.evaluate(frame, result.policy, **COLUMNS).value.estimate > always.value.estimate
    assert pb.evaluate(frame, result, **COLUMNS).to_json() == result.worth.to_json()
    fresh = pb.evaluate(shop(seed=2), result, **COLUMNS)
    # An option is heeded for the policy of a result as for any other.
    asked = {**COLUMNS, "ordered": True}
    by_result, by_policy = (pb.evaluate(shop(seed=2), one, **asked) for one in (result, result.certificate.policy))
    assert by_result.to_json() == by_policy.to_json()
    known = log_of(shop(seed=2), **COLUMNS).contexts
    asked = {**COLUMNS, "model": Additive.learn(known)}
    by_result, by_policy = (pb.evaluate(shop(seed=2), one, **asked) for one in (result, result.certificate.policy))
    assert by_result.to_json() == by_policy.to_json() != fresh.to_json()
    assert fresh.value.low < 0.8 < fresh.value.high + 0.1
    with pytest.raises(pb.InputError, match="policy names 'plane', which is no action; did you mean 'plain'"):
        pb.evaluate(frame, "plane", **COLUMNS)


def test_on_its_own_files_a_policy_is_measured_as_one_that_they_have_chosen(frame, tmp_path):
    for part in (0, 1):
        pa.parquet.write_table(frame.slice(600 * part, 600), tmp_path / f"{part}.parquet")
    files = str(tmp_path / "*.parquet")
    made = pb.certify(files, "trees:depth=1", **ASKED)
    assert made.certificate.summed
    assert pb.evaluate(files, made, **COLUMNS).to_json() == made.worth.to_json()
    assert pb.evaluate(tmp_path / "0.parquet", made, engine="stream", **COLUMNS).samples == 600


def test_a_misspelt_control_is_refused(frame):
    with pytest.raises(pb.InputError, match="control names 'plane', which is no action; did you mean 'plain'"):
        pb.certify(frame, **ASKED, control="plane")


def test_a_frame_parses_dates_as_a_file_does(tmp_path):
    rng = np.random.default_rng(3)
    days = np.array([f"2026-{month:02d}-{day:02d}" for month in range(1, 7) for day in range(1, 29)])
    frame = shop(600).append_column("signed_up", pa.array(rng.choice(days, 600)))
    pa.csv.write_csv(frame, tmp_path / "test.csv")
    by_frame = pb.certify(frame, "trees:depth=1", **ASKED)
    by_file = pb.certify(tmp_path / "test.csv", "trees:depth=1", **ASKED)
    assert by_frame.log.dates == by_file.log.dates == ("signed_up",)
    assert by_frame.certificate.to_json() == by_file.certificate.to_json()


def test_notes_stand_before_the_answer_of_a_report(tmp_path):
    rng = np.random.default_rng(4)
    notes = [f"note {number}" for number in rng.permutation(300)] * 2
    found = pb.certify(shop(600).append_column("note", pa.array(notes)), "trees:depth=1", **ASKED)
    assert any("without" in words for words in found.log.notices)
    for name in ("report.html", "report.md"):
        found.report(tmp_path / name)
        page = (tmp_path / name).read_text()
        assert page.index("Note: ") < page.index("Recommendation: ")


def with_useless(frame):
    return frame.append_column("study", pa.array([1.0] * len(frame))).append_column("years", frame["age"])


def test_useless_columns_are_dropped_and_the_certificate_says_which(tmp_path):
    frame = shop(rows=300)
    result = pb.certify(with_useless(frame), "trees:depth=1", **COLUMNS)
    told = [words for words in result.log.notices if "left out" in words]
    assert len(told) == 2
    assert "'study' was left out, as it has one value in all rows" in told[0]
    assert "'years' was left out, as it equals 'age' in all rows; --features +years (in" in told[1]
    assert result.reading["dropped"] == ["study", "years"]
    assert result.log.contexts.names == ("age", "device")
    result.save(tmp_path / "proof.json")
    pa.csv.write_csv(with_useless(frame), tmp_path / "log.csv")
    proof = pb.load_certificate(tmp_path / "proof.json")
    assert pb.verify(proof, proof.log(tmp_path / "log.csv")).good


@pytest.mark.thorough
@pytest.mark.parametrize("files", [False, True])
def test_what_was_dropped_need_not_be_there(frame, files, tmp_path):
    """Verifying, evaluating and applying read the log without the columns, whether or not it has them."""
    wide, path = with_useless(frame), tmp_path / "log.parquet"
    pa.parquet.write_table(wide, path)
    result = pb.certify([path] if files else wide, "trees:depth=1", **ASKED, engine="stream" if files else None)
    assert result.reading["dropped"] == ["study", "years"]
    assert "'years' was left out" in result.log.notices[1]
    result.save(tmp_path / "proof.json")
    proof = pb.load_certificate(tmp_path / "proof.json")
    if files:
        for how in (proof.reading, COLUMNS):
            with closing(open_set([path], ReadingOptions(**how))) as log:
                assert pb.verify(proof, log).good
                assert pb.evaluate(log, proof).value == result.worth.value
    else:
        assert result.certificate.digest == pb.certify(frame, "trees:depth=1", **ASKED).certificate.digest
        assert result.verify(log_of(wide, **COLUMNS)).good
        for policy in (result, proof):
            assert pb.verify(policy, log_of(wide, **COLUMNS)).good
            for log in (wide, frame, log_of(wide, **COLUMNS)):
                columns = {} if isinstance(log, pb.Log) else COLUMNS
                assert pb.evaluate(log, policy, **columns).value == result.worth.value
    assert list(proof.policy(pa.table({"age": [20, 70]}))) == ["discount", "plain"]


@pytest.mark.thorough
def test_useless_columns_that_are_named_stay(frame):
    wide = with_useless(frame)
    for asked in ({"keep": ["study", "years"]}, {"features": ["age", "study", "years"]}):
        kept = pb.certify(wide, "trees:depth=1", **ASKED, **asked)
        assert "dropped" not in kept.reading
        assert {"study", "years"} <= set(kept.log.contexts.names)
    never = pb.Restrictions(never=["discount: study <= 1"], control="plain")
    barred = pb.certify(wide, "trees:depth=1", **ASKED, restrictions=never)
    assert barred.reading["dropped"] == ["years"]
    assert set(barred.policy(wide)) == {"plain"}
    people = pb.Contexts.of(np.column_stack([np.arange(20.0, 60), np.zeros(40)]), names=["age", "study"])
    own = wide.select(["age", "study", "variant", "bought"])
    assert pb.certify(own, "trees:depth=1", **ASKED, contexts=people).log.contexts.names == ("age", "study")
