"""What is exported acts as the policy does: in the real SQLite, in the real Python, by rules as they are written."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import pacbandits as pb
from pacbandits.exports.python import _body as python_body
from pacbandits.exports.sql import SqlColumns
from pacbandits.exports.sql import _decision as sql_decision
from pacbandits.policies import GreedyPolicy, LinearPolicy, TablePolicy, TreePolicy
from pacbandits.policies.decisions import DecisionRule, LabelIs, NumberAtMost, RuleList
from pacbandits.policies.trees.tree_policy import AtMost, Is, TreeSplit
from tests.exports.cases import (
    ACTIONS,
    N_ACTIONS,
    by_python,
    by_rules,
    by_sqlite,
    calm_contexts,
    contexts_for,
    cuts,
    linear,
    mixture,
    rows_of,
    table,
    tree,
)

ROWS = 1_000


def check_same(policy, contexts, *, draws=None, rules=True):
    """All exports of a policy against the policy itself."""
    own = policy(contexts) if draws is None else policy.play(contexts, draws=draws)
    rows, given = rows_of(contexts), None if draws is None else list(map(float, draws))
    for names in (None, ACTIONS):
        wanted = own.tolist() if names is None else [names[action] for action in own]
        sql = pb.to_sql(policy, actions=names, draw=None if draws is None else '"my draw"')
        assert by_sqlite(sql, rows, given) == wanted
        assert by_python(pb.to_python(policy, actions=names), rows, given) == wanted
        if rules:
            assert by_rules(pb.to_rules(policy, actions=names), rows, given) == wanted


@pytest.mark.first(6)
@pytest.mark.parametrize("seed", range(14))
def test_trees(seed):
    """Of several depths; at their thresholds, at the doubles beside them, and elsewhere; with hostile names."""
    policy = tree(seed, depth=seed % 7)
    check_same(policy, contexts_for(cuts(policy.root), n=ROWS, seed=seed))


@pytest.mark.parametrize("seed", range(2))
def test_tables(seed):
    check_same(table(seed), contexts_for([], n=ROWS, seed=seed))


@pytest.mark.first(1)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_linear_policies(seed, shared):
    """On contexts of few values, on which scores tie, and on any."""
    policy = linear(seed, shared=shared)
    check_same(policy, calm_contexts(n=ROWS, seed=seed + 1), rules=False)
    rng = np.random.default_rng(seed)
    some = calm_contexts(n=ROWS, seed=seed)
    moved = some.features + np.where(np.arange(some.n_features) < 5, rng.normal(size=some.features.shape), 0.0)
    check_same(policy, pb.Contexts.of(moved, names=some.names, categories=some.categories), rules=False)


def test_linear_policies_whose_coefficients_are_zero_take_the_first_action():
    made = pb.Crossed.blocks(calm_contexts(n=50, seed=0), n_actions=N_ACTIONS)
    check_same(LinearPolicy(made, (0,) * made.dimension), calm_contexts(n=20, seed=0), rules=False)
    one = pb.Crossed.blocks(calm_contexts(n=50, seed=0), n_actions=1)
    rows = rows_of(calm_contexts(n=20, seed=0))
    assert by_sqlite(pb.to_sql(LinearPolicy(one, (1,) * one.dimension)), rows) == [0] * 20


@pytest.mark.parametrize("seed", range(2))
def test_mixtures(seed):
    """Draws at the bounds, at the doubles beside them, and elsewhere stand for the same policy everywhere."""
    policy = mixture(seed)
    some = contexts_for(cuts(policy.policies[0].root), n=ROWS, seed=seed)
    calm = calm_contexts(n=ROWS, seed=seed)
    contexts = pb.Contexts.of(calm.features, names=calm.names, categories=calm.categories, ids=some.ids)
    bounds = np.array([0.0, *policy.bounds])
    near = np.clip(np.concatenate([bounds, np.nextafter(bounds, 0), np.nextafter(bounds, 1)]), 0, np.nextafter(1, 0))
    rng = np.random.default_rng(seed)
    draws = np.where(rng.random(ROWS) < 0.5, rng.choice(near, size=ROWS), rng.random(ROWS))
    check_same(policy, contexts, draws=draws, rules=False)
    ruled = pb.Mixture(policy.policies[:2], (0.25, 0.75))
    check_same(ruled, contexts, draws=draws)
    assert [one["probability"] for one in pb.to_rules(ruled)["mixture"]] == [0.25, 0.75]


def test_a_tree_as_deep_as_a_file_may_hold():
    node = 0
    for depth in range(32):
        test = AtMost("age", float(depth)) if depth % 2 else Is("device", "phone")
        node = TreeSplit(test, node, depth % N_ACTIONS) if depth % 3 else TreeSplit(test, depth % N_ACTIONS, node)
    check_same(TreePolicy(node, N_ACTIONS), contexts_for(map(float, range(32)), n=ROWS, seed=0))


def test_what_is_written_reads_well():
    policy = TreePolicy(TreeSplit(AtMost("age", 31.5), TreeSplit(Is("device", "phone"), 0, 1), 2), 3)
    assert pb.to_sql(policy, actions=["a", "b", "c"]).splitlines() == [
        "CASE",
        """  WHEN "age" <= 31.5 AND "device" = 'phone' THEN 'a'""",
        """  WHEN "age" <= 31.5 THEN 'b'""",
        "  ELSE 'c'",
        "END",
    ]
    assert pb.to_python(policy, actions=["a", "b", "c"], name="pick").splitlines()[-5:] == [
        *("    if number('age') <= 31.5 and row['device'] == 'phone':", "        return 'a'"),
        *("    if number('age') <= 31.5:", "        return 'b'", "    return 'c'"),
    ]
    assert pb.to_sql(TreePolicy(1, 2)) == "1"
    assert pb.to_rules(TreePolicy(1, 2)) == {"rules": [], "else": 1}


def test_numbers_in_text_and_missing_values():
    """Rows of csv.DictReader hold text; what is missing fails a test in SQL and in Python alike."""
    policy = TreePolicy(TreeSplit(AtMost("age", 31.5), 0, TreeSplit(Is("device", "phone"), 1, 2)), 3)
    source = pb.to_python(policy)
    assert by_python(source, [{"age": "31.5", "device": "x"}, {"age": "31.6", "device": "x"}]) == [0, 2]
    missing = [{"age": None, "device": "phone"}, {"age": None, "device": None}, {"age": 1.0, "device": None}]
    assert by_python(source, missing) == by_sqlite(pb.to_sql(policy), missing) == [1, 2, 0]
    assert by_rules(pb.to_rules(policy), missing) == [1, 2, 0]
    scores = linear(0)
    gone = [dict.fromkeys(row) for row in rows_of(calm_contexts(n=1, seed=0))]
    assert by_sqlite(pb.to_sql(scores), gone) == [None]
    with pytest.raises(TypeError):
        by_python(pb.to_python(scores), gone)
    with pytest.raises(ValueError, match="no number in"):
        by_python(pb.to_python(scores), [dict.fromkeys(gone[0], float("nan"))])


def test_conditions_that_take_what_is_missing():
    """The place for trees that send missing values where the test passes."""
    rules = (DecisionRule((NumberAtMost("age", 3.0, True), LabelIs("device", "phone", True)), 0),)
    decision = RuleList(rules, 1)
    rows = [{"age": a, "device": d} for a in (None, 2.0, 4.0) for d in (None, "phone", "x")]
    wanted = [0, 0, 1, 0, 0, 1, 1, 1, 1]
    assert by_sqlite(sql_decision(decision, ["0", "1"], "", SqlColumns()), rows) == wanted
    number = "    def number(name):\n        return float('nan') if row[name] is None else float(row[name])\n"
    assert by_python(f"def choose(row):\n{number}{python_body(decision, [0, 1], '    ')}", rows) == wanted


def test_contexts_that_a_table_does_not_know():
    policy = TablePolicy(np.array([1, 0, 1]), 2)
    rows = [{"context_id": 2}, {"context_id": 3}, {"context_id": None}]
    assert by_sqlite(pb.to_sql(policy), rows) == [1, None, None]
    assert by_rules(pb.to_rules(policy), rows[:2]) == [1, None]
    assert by_python(pb.to_python(policy), [{"context_id": "1"}]) == [0]
    with pytest.raises(LookupError, match="no action is known for 3"):
        by_python(pb.to_python(policy), rows)


def test_draws_that_are_none():
    policy = pb.Mixture((TreePolicy(0, 2), TreePolicy(1, 2)), (0.5, 0.5))
    sql = pb.to_sql(policy, draw='"my draw" / 10')
    assert by_sqlite(sql, [{"x": 1}] * 5, [-1.0, 0.0, 9.9, 10.0, None]) == [None, 0, 1, None, None]
    source = pb.to_python(policy)
    for draw in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"must be in \[0, 1\)"):
            by_python(source, [{}], [draw])
    assert set(by_python(source, [{}] * 100, [None] * 100)) == {0, 1}
    with pytest.raises(pb.InputError, match="must be told its draw"):
        pb.to_sql(policy)
    with pytest.raises(pb.InputError, match=r"calls RANDOM\(\), which is drawn anew"):
        pb.to_sql(policy, draw="abs(RANDOM() % 1000) / 1000.0")
    with pytest.raises(pb.InputError, match=r"draws must be in \[0, 1\), got 1"):
        policy.play(pb.Contexts.finite(2), draws=[0.5, 1.0])


def test_what_cannot_be_written_is_one_sentence():
    calm = calm_contexts(n=60, seed=0)
    blocks = pb.Crossed.blocks(calm, n_actions=N_ACTIONS)
    greedy = GreedyPolicy(blocks, np.ones(blocks.dimension))
    scores = np.random.default_rng(0).normal(size=(60, 2))
    learned = pb.Learned(DecisionTreeClassifier(), n_actions=2, reduction="classification").argmax(calm, scores)
    phi = LinearPolicy(pb.Given(3, 2), (1, 1))
    large = TablePolicy(np.zeros(1001, dtype=int), 2)
    for export in (pb.to_sql, pb.to_python, pb.to_rules):
        for policy, words in (
            (greedy, "kind 'greedy' cannot be written out"),
            (learned, "kind 'learned' cannot be written out"),
            (phi, "features that come with each context"),
            (large, "over 1,001 contexts is too large"),
        ):
            with pytest.raises(pb.InputError, match=words) as caught:
                export(policy)
            assert "apply" in str(caught.value)
    with pytest.raises(pb.InputError, match="no list of rules"):
        pb.to_rules(linear(0))
    wide = pb.Crossed.blocks(calm, n_actions=60)
    with pytest.raises(pb.InputError, match="terms in SQL, too many"):
        pb.to_sql(LinearPolicy(wide, (1,) * wide.dimension))
    for bad in ("a\0b", "\ud800"):
        with pytest.raises(pb.InputError, match="which SQL cannot hold"):
            pb.to_sql(TreePolicy(TreeSplit(Is("x", bad), 0, 1), 2))
    assert by_python(pb.to_python(TreePolicy(TreeSplit(Is("x", "a\0\ud800"), 0, 1), 2)), [{"x": "a\0\ud800"}]) == [0]


@pytest.mark.slow
@pytest.mark.parametrize("make", [tree, linear, mixture])
def test_a_million_contexts(make):
    for part in range(20):
        policy, n = make(part), 50_000
        calm = calm_contexts(n=n, seed=part)
        if make is linear:
            check_same(policy, calm, rules=False)
            continue
        contexts = contexts_for(cuts(policy.root if make is tree else policy.policies[0].root), n=n, seed=part)
        if make is tree:
            check_same(policy, contexts)
            continue
        known = pb.Contexts.of(calm.features, names=calm.names, categories=calm.categories, ids=contexts.ids)
        check_same(policy, known, draws=np.random.default_rng(part).random(n), rules=False)
