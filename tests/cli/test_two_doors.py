"""What is wrong is said in the words of who asked: flags in commands, arguments in Python; and how files are read."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import pacbandits as pb
from pacbandits.cli.log_options import reading_options
from pacbandits.cli.verify import as_read
from pacbandits.errors import spell_arguments, spelling_options
from pacbandits.logs.customers import CustomerFeatures, customers_of
from pacbandits.logs.readers import log_of

HEAD, ROWS = (
    "age,device,variant,converted,revenue",
    ("30,ios,A,0,1.5", "40,web,B,1,20", "50,ios,A,1,30", "60,web,B,0,2"),
)
ASKED = {"action": "variant", "reward": "converted", "split": "uniform"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("doors") / "test.csv"
    path.write_text("\n".join([HEAD, *ROWS * 10]) + "\n")
    return path


def flags(given):
    """The arguments of Python as options of the command line."""
    out = []
    for name, value in given.items():
        flag = "--actions" if name == "n_actions" else f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        many = value if isinstance(value, tuple) else (value,)
        if name == "never":
            out += [part for one in many for part in (flag, one)]
        elif name in ("features", "without"):
            out += [flag, ",".join(many)]
        elif isinstance(value, dict):
            out += [flag, ",".join(f"{key}={each}" for key, each in value.items())]
        else:
            out += [flag] if value is True else [flag, *many]
    return out


# What is asked for beside the columns, what both doors say of it, and what to do by either of them.
READING = [
    ({"action": "variants"}, "there is no column 'variants'", "did you mean 'variant'"),
    ({"action": None}, "is 'variant' the action?", "--action NAME", 'action="NAME"'),
    ({"split": None}, "'propensity' is missing", "--split uniform, or --split a=", 'split="uniform", or split="a='),
    ({"split": "A=0.5,B=0.6"}, "sum to 1.1", "they must sum to 1"),
    ({"split": "A=30,B=70"}, "the share of 'A' is '30'", "as in 0.5, 1/2 or 30%"),
    ({"split": "even"}, "the split 'even' is neither 'uniform' nor a share for each action", "as in A=1/2,B=1/2"),
    ({"split": "A=0.5,A=0.5"}, "two shares of 'A'", "leave one out"),
    ({"reward": "device"}, "'device' holds text such as 'ios'", "--reward NAME", 'reward="NAME"'),
    ({"reward": "revenue"}, "the revenue of line 2 is 1.5", "--reward-range 1 30", "reward_range=(1, 30)"),
    ({"reward": "revenue", "reward_range": (0, 10)}, "must lie in [0, 10]", "with --clip", "with clip=True"),
    ({"reward_range": (5, 2)}, "got 5 to 2", "the smaller first"),
    ({"clip": True}, "clipping needs", "--reward-range 0 500", "reward_range=(0, 500)"),
    ({"features": ("age", "converted")}, "'converted' is the reward, which comes after the action", "leave it out"),
    ({"features": ("age", "variant")}, "'variant' is the action", "leave it out"),
    ({"features": ("agee",)}, "there is no column 'agee'", "did you mean 'age'"),
    ({"n_actions": 1}, "action 1 (counted from 0) was played", "--actions 1 excludes", "n_actions=1 excludes"),
    ({"least_propensity": 0.1}, "the log contains propensities", "--split was given", "split was given"),
    ({"position": 1}, "no positions", "leave out --position", "leave out position"),
    ({"time": "age", "unit": "age"}, "'age' is used twice", "name it once"),
    (
        {"epsilon": 2, "policies": "trivial"},
        "no less than all that rewards can differ by",
        "--epsilon 0.01",
        "epsilon=0.01",
    ),
    ({"delta": 5}, "delta must lie strictly between 0 and 1", "got 5"),
    ({"delta": 0.95}, "delta must be at most 0.5, got 0.95", "for 95 % confidence use 0.05 (5%)"),
    ({"policies": "tree"}, "unknown policy class 'tree'", "did you mean 'trees'"),
    ({"policies": "const"}, "unknown policy class 'const' (known", "trees"),
    ({}, "and the log has 40", "(--contexts …)", "(contexts=…)"),
]
RESTRICTING = [
    ({"max_treated": 0.3}, "needs the action that is used instead", "--control NAME", 'control="NAME"'),
    ({"never": ("B: age <= 40",)}, "needs the action that is used instead", "--control NAME", 'control="NAME"'),
    ({"never": ("B",)}, "'B' has no condition", "--never 'B'", "never='B'"),
    ({"never": ("B: age < 40",), "control": "A"}, "has no condition", "--never 'age < 40'", "never='age < 40'"),
    (
        {"never": ("A: age <= 40",), "control": "A"},
        "'A' is used where other",
        "--control NAME",
        'control="NAME"',
    ),
    ({"never": ("C: age <= 40",), "control": "A"}, "names no action", "--never 'C", "never='C"),
    ({"never": ("B: device = iso",), "control": "A"}, "did you mean 'ios'", "--never 'B", "never='B"),
    ({"max_treated": 3, "control": "A"}, "must be at most 1, got 3", "--max-treated must", "max_treated must"),
    ({"max_treated": 0.3, "control": "C"}, "'C', which is no", "--control names", "control names"),
    ({"smallest_leaf": 3}, "must be from 0 to 1, got 3", "--smallest-leaf must", "smallest_leaf must"),
    ({"cost": {"B": 1}}, "a budget needs", "add --max-cost", "add max_cost"),
    ({"max_cost": 1}, "a budget needs", "add --cost", "add cost"),
    ({"cost": {"C": 1}, "max_cost": 1}, "names 'C', which is no", "--cost names", "cost names"),
]
ARGUMENT = re.compile(r"\b[a-z]+_[a-z_]+\b")


@pytest.mark.first(2)
@pytest.mark.parametrize(("given", "both", "at_the_command", "in_words_of_python"), [(*c, c[-1])[:4] for c in READING])
def test_both_doors_say_it_in_their_own_words(run, table, given, both, at_the_command, in_words_of_python):
    _check_doors(run, table, given, both, at_the_command, in_words_of_python)


@pytest.mark.first(2)
@pytest.mark.parametrize(("given", "both", "at_the_command", "in_words_of_python"), RESTRICTING)
def test_restrictions_too(run, table, given, both, at_the_command, in_words_of_python):
    _check_doors(run, table, given, both, at_the_command, in_words_of_python, restricts=True)


def _check_doors(run, table, given, both, at_the_command, in_words_of_python, *, restricts=False):
    code, out, err = run("certify", table, *flags((ASKED if restricts else ASKED | given) | given))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert both in err
    assert at_the_command in err
    assert not ARGUMENT.search(err.replace(str(table), "")), err
    ask = _restrict if restricts else _read
    with pytest.raises(pb.InputError) as caught:
        ask(table, given)
    assert both in str(caught.value)
    assert in_words_of_python in str(caught.value)
    assert "--" not in str(caught.value)


def _read(table, given):
    whole = ASKED | given
    about = {name: whole.pop(name) for name in ("epsilon", "delta", "policies") if name in whole}
    pb.certify(pb.read_log(table, **whole)[0], **about)


def _restrict(table, given):
    log, _ = pb.read_log(table, **ASKED)
    pb.certify(log, restrictions=pb.Restrictions(**given))


COMMANDS = [
    (("verify", "{table}", "p.json"), "the two are the wrong way round: the certificate comes first"),
    (("evaluate", "{table}", "p.json"), "the two are the wrong way round"),
    (("apply", "{table}", "{table}"), "is a table, not a certificate"),
    (("verify", "p.json", "p.json"), "is given twice; give the certificate first"),
    (("evaluate", "colum:age", "{table}"), "there is no file 'colum:age'; for a column of the log, write column:age"),
    (("evaluate", "column", "{table}"), "write column:NAME"),
    (("evaluate", "alwys:B", "{table}"), "for one action for everybody, write always:B"),
    (("evaluate", "B", "{table}"), "there is no file 'B'; a policy is the file of a certificate, always:ACTION for"),
    (("certify", "{table}", *flags(ASKED), "--contexts", "{table}"), "--contexts is the log itself"),
    (("certify", "{table}", *flags(ASKED), "--control", "C"), "--control names 'C', which is no"),
    (("certify", "{table}", *flags(ASKED), "--max-share", "C=0.1"), "--max-share names 'C', which is no"),
    (("certify", "{table}", *flags(ASKED), "--max-share", "B=3"), "the share of 'B' is '3'"),
    (("certify", "{table}", *flags(ASKED), "--features", "+agee"), "--features +agee adds no column"),
    (("certify", "{table}", *flags(ASKED), "--features", "+age,device"), "put + before all, or before none"),
    (("certify", "{table}", *flags(ASKED), "--actions", 0), "--actions must be 1 or more, got 0"),
    (("certify", "{table}", *flags(ASKED), "--asymptotic", "--draws", 3), "--contexts …"),
    (("certify", "actg175", "--split", "uniform"), "leave out --split"),
]


@pytest.mark.first(2)
@pytest.mark.parametrize(("parts", "words"), COMMANDS)
def test_what_commands_alone_can_be_asked(run, table, parts, words):
    code, out, err = run(*(str(part).format(table=table) for part in parts))
    assert (code, out) == (2, "")
    assert words in err
    assert not ARGUMENT.search(err.replace(str(table), "")), err


@pytest.mark.parametrize(
    ("message", "in_python"),
    [
        (
            "a=1 --split uniform, --reward-range -1 2.5 --clip, --max-cost 3 or --control NAME; 'x--unit'",
            'a=1 split="uniform", reward_range=(-1, 2.5), clip=True, max_cost=3 or control="NAME"; \'x--unit\'',
        ),
        ("say so (--actions 2), or --split a=0.4,b=0.6", 'say so (n_actions=2), or split="a=0.4,b=0.6"'),
        ("leave it out (--without 'a b'), or name a --case", "leave it out (without='a b'), or name a case"),
        ("start anew with --fresh, or --delay, in periods,", "start anew with fresh=True, or delay, in periods,"),
        (
            "play some: pacbandits bench quick --out runs --jobs 2",
            "play some: pacbandits bench quick --out runs --jobs 2",
        ),
        ("an argument is --new-name VALUE (--contexts …)", 'an argument is new_name="VALUE" (contexts=…)'),
    ],
)
def test_each_surface_spells_the_arguments_of_one_message(message, in_python):
    error = pb.InputError(message)
    assert str(error) == in_python == spell_arguments(message)
    with spelling_options():
        assert str(error) == message
    assert str(error) == in_python


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rewards": "converted"}, "read_log has no argument 'rewards'; did you mean reward=…?"),
        ({"Split": "uniform"}, "did you mean split=…?"),
        ({"qqq": 1}, "it takes action, age, block, clip, dropped, features"),
    ],
)
def test_arguments_that_there_are_not(table, wrong, words):
    with pytest.raises(pb.InputError) as caught:
        pb.read_log(table, **wrong)
    assert words in str(caught.value)
    with pytest.raises(pb.InputError, match="read_log has no argument 'feature'; did you mean features=…"):
        pb.read_log(table, feature="age")


def read(tmp_path, text, **options):
    path = tmp_path / "read.csv"
    path.write_text(text)
    return pb.read_log(path, **(ASKED | options))


@pytest.mark.parametrize(
    ("cells", "numbers", "words"),
    [
        (('"1,200.50"', '"3.5"'), (1200.5, 3.5), "written as in 1,234.5"),
        (('"1.200,50"', "7"), (1200.5, 7.0), "written as in 1.234,5"),
        (('"1,200"', '"1,234,567"'), (1200.0, 1234567.0), "written as in 1,234.5"),
        (("4%", "-5.5 %"), (0.04, -0.055), "written 4 % for 0.04"),
        (("$12", '"-$1,200.5"'), (12.0, -1200.5), "written as in 1,234.5, with $ left out"),
        (("1 200 €", '"7,5 €"'), (1200.0, 7.5), "written as in 1 234,5, with € left out"),
        (("'1’200'".strip("'"), "7"), (1200.0, 7.0), "written as in 1 234.5"),
    ],
)
def test_numbers_as_people_write_them(tmp_path, cells, numbers, words):
    rows = [f"{cells[i % 2]},{'AB'[i // 2 % 2]},1" for i in range(8)]
    log, said = read(tmp_path, "\n".join(["price,variant,converted", *rows]))
    assert log.contexts.features[:2, 0].tolist() == list(numbers)
    assert f"column 'price' holds numbers that are {words}" in said
    proof = pb.Contexts.read_with_remarks(tmp_path / "read.csv")
    assert proof[0].features[:2, 0].tolist() == list(numbers)


def test_customers_may_have_them_as_the_log_did():
    frame = pa.table({"price": pa.array(["1,200.50", "7", None])})
    contexts = customers_of(frame, CustomerFeatures(numbers=("price",))).contexts
    np.testing.assert_array_equal(contexts.features[:, 0], [1200.5, 7.0, np.nan])
    with pytest.raises(pb.InputError, match="column 'price' must hold numbers"):
        customers_of(pa.table({"price": ["1,200", "7,300"]}), CustomerFeatures(numbers=("price",)))


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (('"1,200"', '"2,300"'), "'1,200' (line 2) can be read in more than one way; write them with digits"),
        (("4%", "0.04"), "can be read in more than one way"),
        (("$4", "€4"), "can be read in more than one way"),
        (("1.5 kg", "2 kg", "3 kg"), "write numbers such as '1.5 kg' (line 2) without 'kg'"),
        (("1", "2", "3", "none"), "not all are numbers: line 5 holds 'none'; leave such cells empty"),
        (("ios", "ios ", "web"), "holds 'ios' and 'ios ' (line 3), which differ in blanks or capitals alone"),
    ],
)
def test_what_may_be_numbers_or_the_same_is_never_silently_labels(tmp_path, cells, words):
    rows = [f"{cells[i % len(cells)]},{'AB'[i % 2]},1" for i in range(12)]
    log, said = read(tmp_path, "\n".join(["price,variant,converted", *rows]))
    assert log.contexts.categories[0] is not None
    assert any(words in one for one in said), said


def test_categories_of_their_author_stay_as_they_are(tmp_path):
    frame = pa.table({"size": pa.array(["1,5", "2,5"] * 4).dictionary_encode(), "text": ["1", "2"] * 4})
    frame = frame.append_column("variant", [["A", "A", "B", "B"] * 2]).append_column("converted", [[1] * 8])
    assert all(labels is not None for labels in log_of(frame, **ASKED).contexts.categories)


@pytest.mark.parametrize("other", ["A ", "a", " A"])
def test_actions_that_hardly_differ_are_refused(tmp_path, other):
    rows = ["30,A,1", "31,B,0", f"32,{other},1"] * 3
    with pytest.raises(pb.InputError, match=r"column 'variant' holds '.*' \(line [24]\), which look like one action"):
        read(tmp_path, "\n".join(["age,variant,converted", *rows]))


def test_leading_zeros_are_part_of_an_action(tmp_path):
    log, _ = read(tmp_path, "age,variant,converted\n" + "30,001,1\n31,002,0\n" * 5)
    assert log.action_names == ("001", "002")
    with pytest.raises(pb.InputError, match=r"holds '001' and '1' \(line 3\), which look like one action"):
        read(tmp_path, "age,variant,converted\n" + "30,001,1\n31,1,0\n" * 5)
    log, _ = read(tmp_path, "age,variant,converted\n" + "30,1,1\n31,2,0\n" * 5)
    assert log.action_names == ("1", "2")


@pytest.mark.parametrize(("yes", "no"), [("yes", "no"), ("Y", "N"), ("TRUE", "FALSE"), ("t", "f")])
def test_yes_and_no_are_rewards(tmp_path, yes, no):
    log, said = read(tmp_path, "age,variant,converted\n" + f"30,A,{yes}\n31,B,{no}\n" * 5)
    assert log.rewards.tolist() == [1.0, 0.0] * 5
    assert yes in ("TRUE", "t") or any("column 'converted' counts" in one for one in said)


@pytest.mark.parametrize(
    ("split", "shares"),
    [
        ("A=1/3,B=2/3", (1 / 3, 2 / 3)),
        ("A=25%, B=75 %", (0.25, 0.75)),
        ("B=0.4;A=0.6", (0.6, 0.4)),
        ({"A": 0.1, "B": 0.9}, (0.1, 0.9)),
    ],
)
def test_shares_as_people_write_them(tmp_path, split, shares):
    log, _ = read(tmp_path, "age,variant,converted\n" + "30,A,1\n31,B,0\n" * 5, split=split)
    np.testing.assert_allclose(log.propensities[0], shares)


def test_names_with_commas_have_shares_too(tmp_path):
    text = "age,variant,converted\n" + '30,"A, B",1\n31,C=D,0\n' * 5
    log, _ = read(tmp_path, text, split="A, B=0.4,C=D=0.6")
    assert log.action_names == ("A, B", "C=D")
    np.testing.assert_allclose(log.propensities[0], (0.4, 0.6))


def test_row_numbers_of_pandas_are_left_out(tmp_path):
    rows = "\n".join(f"{i},{20 + i % 7},{'AB'[i % 2]},1" for i in range(20))
    for name in ("", "Unnamed: 0"):
        log, said = read(tmp_path, f"{name},age,variant,converted\n{rows}\n")
        assert log.contexts.names == ("age",)
        assert any("as it is the row numbers that pandas adds" in one for one in said)
    frame = pa.table({"__index_level_0__": [7, 7, 9, 9] * 2, "age": [1, 2, 3, 4] * 2})
    frame = frame.append_column("variant", [["A", "B"] * 4]).append_column("converted", [[1] * 8])
    assert log_of(frame, **ASKED).contexts.names == ("age",)


def test_how_a_table_was_read_is_told_as_options():
    reading = reading_options(columns="+age", left_out="a,b", n_actions=3, reward_range=(0, 2.5), clip=True, **ASKED)
    words = "--actions 3 --reward-range 0 2.5 --action variant --reward converted --split uniform --without a,b --clip"
    assert as_read(reading) == f"read with {words} --features +age"


def test_one_column_can_be_added(table):
    _, said = pb.read_log(table, **ASKED)
    assert any("'revenue' was left out" in one and "--features +revenue" in one for one in said)
    given = reading_options(columns="+revenue, +age", **ASKED)
    assert given == ASKED | {"keep": ["revenue", "age"]}
    log, said = pb.read_log(table, **given)
    assert log.contexts.names == ("age", "device", "revenue")
    assert not any("was left out" in one for one in said)
