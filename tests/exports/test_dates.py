"""Policies that ask about dates: the same actions from the policy, from Python and from SQLite, of the same column."""

from __future__ import annotations

import csv
from datetime import date, datetime, time, timedelta
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pacbandits as pb
from pacbandits.exports.deployed_policy import DeployedPolicy
from pacbandits.policies.trees.tree_policy import AtMost, Is, IsMissing, TreePolicy, TreeSplit
from tests.exports.cases import by_python, by_rules, by_sqlite

DAY, HOUR, WEEKDAY = "at days since 1970-01-01", "at hour", "at weekday"
NAMES = ("a", "b", "c", "d", "e")
ROOT = TreeSplit(
    Is(WEEKDAY, "Wed"),
    TreeSplit(AtMost(HOUR, 13.5), 0, 1),
    TreeSplit(
        AtMost(DAY, 19000.0), TreeSplit(AtMost(HOUR, 47160 / 3600, missing=True), 2, 3), TreeSplit(IsMissing(DAY), 4, 0)
    ),
)
TREE = TreePolicy(ROOT, 5)
POLICY = DeployedPolicy(TREE, NAMES, ("at",))


def moments(n, seed):
    """Dates from 1900 to 2150, many at and beside what the tree asks about; every tenth is missing."""
    rng = np.random.default_rng(seed)
    clocks = [timedelta(hours=13, minutes=30), timedelta(seconds=47160), timedelta(0), timedelta(hours=24)]
    beside = [clock + timedelta(milliseconds=step) for clock in clocks for step in (-1, 0, 1)]
    out = []
    for _ in range(n):
        day = datetime(1900, 1, 1) + timedelta(days=int(rng.integers(91_000)))
        if rng.random() < 0.3:
            day = datetime(2022, 1, 8) + timedelta(days=int(rng.integers(-3, 4)))
        clock = timedelta(milliseconds=int(rng.integers(86_400_000)))
        clock = beside[rng.integers(len(beside))] if rng.random() < 0.6 else clock
        out.append(None if rng.random() < 0.1 else day + clock)
    return out


@pytest.mark.thorough
def test_the_same_actions_everywhere():
    given = moments(4_000, seed=0)
    wanted = POLICY(pa.table({"at": pa.array(given, pa.timestamp("ms"))})).tolist()
    assert set(wanted) == set(NAMES)
    by_hand = [hand(moment) for moment in given]
    assert wanted == by_hand
    written = [None if one is None else one.isoformat(sep=" ") for one in given]
    assert POLICY(pd.DataFrame({"at": written})).tolist() == wanted  # as pandas reads a CSV
    assert POLICY(pd.DataFrame({"at": pd.to_datetime(pd.Series(given))})).tolist() == wanted
    source = pb.to_python(TREE, actions=NAMES, dates=["at"])
    for values in (given, written, pd.Series(given).astype("datetime64[ms]").tolist()):
        assert by_python(source, [{"at": one, "other": 1} for one in values]) == wanted
    sql = pb.to_sql(TREE, actions=NAMES, dates=["at"], dialect="sqlite")
    assert by_sqlite(sql, [{"at": one} for one in written]) == wanted


def hand(moment):
    """What the tree says, in Python by hand."""
    if moment is not None and moment.weekday() == 2:
        return "a" if moment.time() <= time(13, 30) else "b"
    if moment is None:
        return "e"
    if moment.date() <= date(1970, 1, 1) + timedelta(days=19000):
        return "c" if moment.time() <= time(13, 6) else "d"
    return "a"


def test_the_column_is_read_as_a_log_is(tmp_path):
    """The features that a log's reader makes are those that a policy is asked with, of every form of a date."""
    forms = {
        "date": ["2024-01-31", "2024-02-01", "1969-12-31", "2023-05-06"],
        "minute": ["2024-01-31 13:30", "2024-02-01T00:00", "1969-12-31 23:59", "2023-05-06 12:00"],
        "zone": [
            "2024-01-31T23:30:00+02:00",
            "2024-02-01T00:00:00-05:30",
            "1969-12-31T23:59:59Z",
            "2023-05-06T12:00:00Z",
        ],
        "nano": [
            "2024-01-31 13:30:00.123456",
            "2024-02-01 00:00:00.5",
            "1969-12-31 23:59:59.999",
            "2023-05-06 12:00:00.25",
        ],
    }
    for form, values in forms.items():
        path = tmp_path / f"{form}.csv"
        rows = "".join(f"{one},{i % 2},1,0.5\n" for i, one in enumerate(values))
        path.write_text(f"at,action,reward,propensity\n{rows}")
        log, _ = pb.read_log(path)
        assert log.dates == ("at",)
        for name in log.contexts.names:
            column = log.contexts.column_of(name, categorical=name == WEEKDAY)
            levels = np.unique(log.contexts.features[:, column])
            tests = (
                [Is(name, label) for label in log.contexts.categories[column]]
                if name == WEEKDAY
                else [AtMost(name, cut) for one, other in pairwise(levels) for cut in (float(one), (one + other) / 2)]
            )
            for test in tests:
                tree = TreePolicy(TreeSplit(test, 0, 1), 2)
                own = tree(log.contexts).tolist()
                assert by_python(pb.to_python(tree, dates=["at"]), [{"at": one} for one in values]) == own, (form, test)
                assert DeployedPolicy(tree, None, ("at",))(pa.table({"at": values})).tolist() == own
                if form != "nano":
                    sql = pb.to_sql(tree, dates=["at"], dialect="sqlite")
                    assert by_sqlite(sql, [{"at": one} for one in values]) == own


def test_a_time_of_day_has_an_hour():
    tree = TreePolicy(TreeSplit(AtMost(HOUR, 13.5), 0, 1), 2)
    times = ["13:30:00", "13:30:01", "00:00:00", None]
    assert DeployedPolicy(tree, None, ("at",))(pa.table({"at": times})).tolist() == [0, 1, 0, 1]
    assert by_python(pb.to_python(tree, dates=["at"]), [{"at": one} for one in times]) == [0, 1, 0, 1]
    assert by_python(pb.to_python(tree, dates=["at"]), [{"at": time(13, 30)}, {"at": date(2024, 1, 1)}]) == [0, 0]
    assert by_sqlite(pb.to_sql(tree, dates=["at"], dialect="sqlite"), [{"at": one} for one in times]) == [0, 1, 0, 1]
    with pytest.raises(pb.InputError, match=r"'at' holds times of day .* uses its (week)?day"):
        POLICY(pa.table({"at": times}))


def test_sql_without_a_dialect_says_how_columns_are_made():
    """The comments can stand where the expression does, and what they say can be copied."""
    sql = pb.to_sql(TREE, actions=NAMES, dates=["at"])
    assert '-- "at weekday" is the weekday of "at": Mon, Tue, Wed, Thu, Fri, Sat, Sun\n--   in sqlite: substr(' in sql
    given = moments(300, seed=1)
    written = [{"at": None if one is None else one.isoformat(sep=" ")} for one in given]
    lines = [line.partition(": ")[2] for line in sql.splitlines() if line.startswith("--   in sqlite: ")]
    names = [line.split('"')[1] for line in sql.splitlines() if line.startswith('-- "')]
    made = {name: by_sqlite(line, written) for name, line in zip(names, lines, strict=True)}
    assert set(made) == {DAY, HOUR, WEEKDAY}
    rows = [dict(zip(made, values, strict=True)) for values in zip(*made.values(), strict=True)]
    wanted = [hand(one) for one in given]
    assert by_sqlite(sql, rows) == wanted
    rules = pb.to_rules(TREE, actions=NAMES, dates=["at"])
    assert rules["made"][HOUR] == {"of": "at", "part": "hour"}
    assert POLICY(pa.table({name: [row[name] for row in rows] for name in made})).tolist() == wanted  # made beforehand
    with pytest.raises(pb.InputError, match="the dialect 'oracle' is not known here"):
        pb.to_sql(TREE, dialect="oracle")


def test_names_that_are_hostile():
    name = 'a"b\n-- c'
    tree = TreePolicy(TreeSplit(Is(f"{name} weekday", "Wed"), 0, 1), 2)
    rows = [{name: "2024-01-31"}, {name: "2024-02-01"}]
    assert by_sqlite(pb.to_sql(tree, dates=[name], dialect="sqlite"), rows) == [0, 1]
    assert by_python(pb.to_python(tree, dates=[name]), rows) == [0, 1]
    made = [{f"{name} weekday": "Wed"}, {f"{name} weekday": "Thu"}]
    assert by_sqlite(pb.to_sql(tree, dates=[name]), made) == [0, 1]


def test_what_is_no_date_is_one_sentence():
    for values, words in (
        (["2024-01-31", "31.01.2024"], "'at' holds '31.01.2024' in row 2 .*; write it as 2024-01-31"),
        ([1.5, 2.0], "'at' must hold dates, got double; write it as"),
    ):
        with pytest.raises(pb.InputError, match=words):
            POLICY(pa.table({"at": values}))
    with pytest.raises(pb.InputError, match="column 'at', which the policy uses, is missing; did you mean 'att'"):
        POLICY(pa.table({"att": ["2024-01-31"]}))
    with pytest.raises(ValueError, match=r"31\.01\.2024"):
        by_python(pb.to_python(TREE, dates=["at"]), [{"at": "31.01.2024"}])


@pytest.mark.thorough
def test_from_a_log_to_actions(tmp_path, command):
    """Certified by weekday, then applied, loaded and written out: with the column that tables have."""
    rng = np.random.default_rng(3)
    days = [datetime(2024, 1, 1) + timedelta(hours=int(hour)) for hour in rng.integers(24 * 90, size=700)]
    shown = rng.choice(["mail", "call"], size=len(days))
    weekend = np.array([one.weekday() == 5 for one in days])
    paid = (rng.random(len(days)) < np.where((shown == "call") == weekend, 0.95, 0.05)).astype(int)
    rows = [*zip(days, shown, paid, strict=True)]
    test = tmp_path / "test.csv"
    test.write_text("at,variant,paid\n" + "".join(f"{at},{variant},{y}\n" for at, variant, y in rows))
    proof, out = tmp_path / "proof.json", tmp_path / "out.csv"
    said = ["--action", "variant", "--reward", "paid", "--split", "uniform"]
    options = [*said, "--policies", "trees:depth=1", "--single"]
    code, _, err = command("certify", str(test), *options, "--certificate", str(proof))
    assert code == 0, err
    table = tmp_path / "customers.csv"
    table.write_text("who,at\n" + "".join(f"{i},{at}\n" for i, at in enumerate(days)))
    assert command("apply", str(proof), str(table), "--out", str(out))[0] == 0
    with out.open(newline="") as file:
        applied = [row["action"] for row in csv.DictReader(file)]
    assert applied == ["call" if one.weekday() == 5 else "mail" for one in days]
    loaded = pb.load_certificate(proof)
    assert loaded.policy(pd.read_csv(table)).tolist() == applied
    assert loaded.policy(pd.read_csv(table, parse_dates=["at"])).tolist() == applied
    made = tmp_path / "policy"
    assert command("apply", str(proof), "--python", f"{made}.py", "--sql", f"{made}.sql", "--dialect", "sqlite")[0] == 0
    given = [{"at": str(one)} for one in days]
    assert by_python((tmp_path / "policy.py").read_text(), given) == applied
    assert by_sqlite((tmp_path / "policy.sql").read_text(), given) == applied
    code, _, err = command("verify", str(proof), str(test))
    assert code == 0, err
    test.write_text("at,variant,paid\n" + "".join(f"{at},{variant},{y}\n" for at, variant, y in sorted(rows)))
    assert command("evaluate", str(proof), str(test))[0] == 0  # another log, whose rows stand in the order of the date
    names = {"rules": loaded.policy.chosen, "actions": loaded.policy.action_names, "dates": loaded.policy.dates}
    assert names["dates"] == ("at",)
    rules = pb.to_rules(names["rules"], actions=names["actions"], dates=names["dates"])
    assert by_rules(rules, [{WEEKDAY: f"{one:%a}"} for one in days]) == applied


AGE = "signup (days before seen)"


def test_an_age_is_the_same_everywhere():
    """The days from one date to another by the calendar, negative where it is later, unknown where one is missing."""
    policy = TreePolicy(TreeSplit(AtMost(AGE, 90.5), TreeSplit(AtMost(AGE, -0.5), 2, 0), 1), 3)
    deployed = DeployedPolicy(policy, ("new", "old", "later"), ("signup", "seen"))
    assert "signup at most 90 days before seen" in deployed.describe()
    assert deployed.columns == (AGE, "signup", "seen")
    seen = datetime(2024, 3, 31, 0, 10)
    dates = [date(2023, 12, 31), date(2024, 1, 1), seen.date(), date(2024, 4, 1), None, date(2024, 1, 1)]
    times = [*([seen] * 5), None]
    wanted = ["old", "new", "new", "later", "old", "old"]
    table = pa.table({"signup": pa.array(dates), "seen": pa.array(times, pa.timestamp("s"))})
    assert deployed(table).tolist() == wanted
    german = [None if one is None else f"{one:%d.%m.%Y}" for one in dates]
    assert deployed(pa.table({"signup": german, "seen": table["seen"]})).tolist() == wanted
    rows = [{"signup": one, "seen": two} for one, two in zip(dates, times, strict=True)]
    text = [{name: None if one is None else str(one) for name, one in row.items()} for row in rows]
    names = {"actions": deployed.action_names, "dates": deployed.dates}
    for some in (rows, text):
        assert by_python(pb.to_python(policy, **names), some) == wanted
    assert by_sqlite(pb.to_sql(policy, dialect="sqlite", **names), text) == wanted
    assert pb.to_rules(policy, **names)["made"] == {AGE: {"of": "signup", "part": "age", "before": "seen"}}
    assert '-- "signup (days before seen)" is the number of days from "signup" to "seen"' in pb.to_sql(policy, **names)
    with pytest.raises(pb.InputError, match="column 'seen', the time of each decision, before which the policy counts"):
        deployed(pa.table({"signup": dates}))
    with pytest.raises(pb.InputError, match="holds 'soon', which is no date from which days can be counted"):
        deployed(pa.table({"signup": ["soon"], "seen": ["2024-01-01"]}))
    with pytest.raises(pb.InputError, match="no value shows which number is the day and which the month"):
        deployed(pa.table({"signup": ["01/02/2024"], "seen": ["2024-01-01"]}))
