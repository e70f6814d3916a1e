"""Protocols in TOML files: every field, and a sentence for what is wrong."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pacbandits as pb
from pacbandits.errors import InputError
from pacbandits.experiment.protocol_files import read_protocol, read_protocol_with_remarks
from tests.experiment.cases import people, protocol
from tests.planning.cases import by_hand, estimated

SHORT = """
name = "checkout"
contexts = "contexts.parquet"
actions = ["standard", "discount", "free shipping"]
policies = "trees:depth=1"
epsilon = 0.2
seed = 17
"""
LONG = """
delta = 0.1
reward_range = [0, 2]
algorithm = "uniform"
visits = "each"
unknown_labels = "missing"
standard = "discount"
control = "discount"
metrics = ["returned", ["minutes", 0, 600], "revenue/orders 0 500 0 20"]
guardrails = ["returned <= control + 1 point", "minutes >= control * 0.98"]
holdout = 0.1
features = ["age", "country"]
[late]
rule = "window"
window = "36 hours"
missing = 0.5
[rounds]
hours = 24
[guardrail]
name = "complaint"
most = 0.02
false_alarms = 0.001
"""


@pytest.fixture
def folder(tmp_path):
    people().write(tmp_path / "contexts.parquet")
    return tmp_path


def write(folder, words):
    path = folder / "checkout.toml"
    path.write_text(words)
    return path


def test_a_short_file_is_a_protocol(folder):
    assert read_protocol(write(folder, SHORT)).digest == protocol().digest


def test_every_field_is_read(folder):
    made = read_protocol(write(folder, SHORT + LONG))
    assert (made.delta, made.reward_range, made.algorithm, made.visits) == (0.1, (0.0, 2.0), "uniform", "each")
    assert (made.standard, made.holdout, made.round_hours, made.unknown_labels) == ("discount", 0.1, 24, "missing")
    assert (made.late.rule, made.late.window_seconds, made.late.missing) == ("window", 36 * 3600, 0.5)
    assert made.guardrail is not None
    assert [one.spelt for one in made.metrics] == ["returned", "minutes 0 600", "revenue/orders 0 500 0 20"]
    assert [one.spelt for one in made.guardrails] == ["returned <= control + 1%", "minutes >= control * 0.98"]
    assert (made.guardrail.name, made.guardrail.most, made.guardrail.false_alarms) == ("complaint", 0.02, 0.001)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "'name' is missing"),
        (SHORT.replace("actions", "action"), "did you mean 'actions'"),
        (SHORT.replace("epsilon = 0.2", ""), "'epsilon' is missing"),
        (SHORT.replace("0.2", "true"), "'epsilon' must be a number"),
        (SHORT.replace("0.2", '"much"'), "'epsilon': 'much' is no number"),
        (SHORT.replace("0.2", '"20%"') + "reward_range = [0, 50]", "rewards lie between 0 and 50"),
        (SHORT.replace("contexts.parquet", "gone.parquet"), "gone.parquet"),
        (SHORT + 'features = ["agee"]', "agee"),
        (SHORT + "hours = 3", "belongs below .rounds."),
        (SHORT + 'plan = "plan.json"', "leave one out"),
        (SHORT + "late = 3", "write .late."),
        (SHORT + "[late]\nwindow = '7 days'", "'rule' of .late. is missing"),
        (SHORT + "[late]\nrule = 'window'\nwindow = 7", "'window' of .late. must be text"),
        (SHORT + "[late]\nrule = 'window'\nwindow = '7 dogs'", "no duration"),
        (SHORT + "[late]\nrul = 'window'", "did you mean 'rule'"),
        (SHORT + "[rounds]\nhours = 24\ndelta = 0.1", "above the first .table."),
        (SHORT + "[guardrail]\nname = 'x'", "'most' of .guardrail. is missing"),
        (SHORT + "metrics = 3", "'metrics' must be a list"),
        (SHORT + "metrics = [{name = 'x'}]", "a metric is a column and its range"),
        (SHORT + "metrics = ['returned']\nguardrails = ['retruned <= control']", "'returned'"),
        (SHORT + "guardrails = [3]", "a guardrail must be text"),
        (SHORT + "control = 'discout'", "control is 'discout', which is no action"),
        (SHORT + "x = [", "is not TOML"),
    ],
)
def test_what_is_wrong_is_told_with_the_file_and_the_field(folder, words, said):
    with pytest.raises(InputError, match=said) as error:
        read_protocol(write(folder, words))
    assert "checkout.toml" in str(error.value) or "gone.parquet" in str(error.value)


def test_a_file_that_is_none_is_told(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml"):
        read_protocol(tmp_path / "none.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        read_protocol(tmp_path / "x.toml")


def test_dates_and_identifiers_in_the_contexts_are_noticed(tmp_path):
    days = [datetime(2024, 1, 1 + i % 28, i % 24) for i in range(120)]
    table = {"user_id": [f"u{i}" for i in range(120)], "age": list(range(120)), "since": days}
    pq.write_table(pa.table(table), tmp_path / "contexts.parquet")
    made, remarks = read_protocol_with_remarks(write(tmp_path, SHORT))
    assert made.date_columns == ("since",)
    assert made.contexts.names == ("age", "since weekday", "since days since 1970-01-01", "since hour")
    (said,) = (words for words in remarks if "user_id" in words)
    assert "features = [" in said
    assert "--features" not in said  # an option of other commands
    assert protocol(contexts=made.contexts).date_columns == ("since",)


def test_the_people_of_a_built_in_problem_serve_to_try_things_out(tmp_path):
    words = 'name = "demo"\nproblem = "trees:actions=3,contexts=50,features=2"\nactions = ["a", "b", "c"]\n'
    made = read_protocol(write(tmp_path, words + 'policies = "trees:depth=1"\nepsilon = 0.2'))
    assert (len(made.contexts), made.contexts.ids) == (50, None)
    with pytest.raises(InputError, match="did you mean 'trees'"):
        read_protocol(write(tmp_path, words.replace("trees:", "tree:") + 'policies = "trees"\nepsilon = 0.2'))


def test_a_plan_says_what_it_says(tmp_path):
    plan = by_hand([estimated(0), estimated(1)], traffic="700/week", control=1)
    pb.save_plan(tmp_path / "plan.json", plan)
    words = 'name = "planned"\nplan = "plan.json"\nactions = ["a", "b"]\n'
    made = read_protocol(write(tmp_path, words))
    assert (made.epsilon, made.delta, made.standard, made.spec) == (0.25, 0.05, "b", "trees:depth=0")
    assert made.plan is not None
    assert made.plan.people[0] == pytest.approx(plan.samples["coda"].median)
    assert made.plan.days is not None
    assert made.plan.days[0] == pytest.approx(plan.samples["coda"].median / 100)
    assert made.plan.plain_trial == pytest.approx(plan.samples["uniform"].median)
    assert made.contexts.ids is None
    assert read_protocol(write(tmp_path, f'{words}control = "a"')).standard == "a"
    for more, said in (("epsilon = 0.1", "plan again"), ("features = ['age']", "another plan")):
        with pytest.raises(InputError, match=said):
            read_protocol(write(tmp_path, words + more))
    with pytest.raises(InputError, match="the plan has 2"):
        read_protocol(write(tmp_path, words.replace('"b"', '"b", "c"')))
