"""JavaScript, JSON Logic and conditions of flags act as the policy does: in the real Node."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from datetime import timedelta

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.policies import TablePolicy, TreePolicy
from pacbandits.policies.trees.tree_policy import AtMost, Is, TreeSplit
from tests.exports.cases import (
    ACTIONS,
    N_ACTIONS,
    by_python,
    calm_contexts,
    contexts_for,
    cuts,
    linear,
    mixture,
    rows_of,
    table,
    tree,
)
from tests.exports.test_dates import NAMES, TREE, moments
from tests.exports.test_missing import TREE as WITH_MISSING

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
NAN = "\0NaN"
# Follows the exports: the function as it is; JSON Logic and GrowthBook's conditions with the operators that are used,
# as json-logic-js and GrowthBook's SDK define them, in JavaScript's own comparisons.
FOLLOWER = r"""
const lines = require("fs").readFileSync(0, "utf8").split("\n").filter(Boolean);
const truthy = (x) => (Array.isArray(x) ? x.length > 0 : Boolean(x));
function logic(rule, data) {
  if (rule === null || typeof rule !== "object" || Array.isArray(rule)) return rule;
  const [op] = Object.keys(rule), given = rule[op];
  const at = (name) => name.split(".").reduce((d, k) => (d === null || d === undefined ? null : d[k]), data) ?? null;
  if (op === "var") return at(given);
  if (op === "missing") return given.filter((name) => at(name) === null || at(name) === "");
  if (op === "if") {
    for (let i = 0; i < given.length - 1; i += 2) if (truthy(logic(given[i], data))) return logic(given[i + 1], data);
    return given.length % 2 ? logic(given[given.length - 1], data) : null;
  }
  if (op === "and" || op === "or") {
    let last = null;
    for (const one of given) if (truthy((last = logic(one, data))) === (op === "or")) return last;
    return last;
  }
  const [a, b] = given.map((one) => logic(one, data));
  if (op === "!") return !truthy(a);
  if (op === "===") return a === b;
  if (op === "<=") return a <= b;
  if (op === "<") return a < b;
  if (op === "in") return b.indexOf(a) !== -1;
  throw new Error("no operator " + op);
}
function meets(condition, data) {
  return Object.entries(condition).every(([name, wanted]) => {
    if (name === "$and") return wanted.every((one) => meets(one, data));
    if (name === "$or") return wanted.some((one) => meets(one, data));
    const value = name.split(".").reduce((d, k) => (d && typeof d === "object" && k in d ? d[k] : null), data);
    return Object.entries(wanted).every(([op, than]) => {
      if (op === "$type") return (value === null ? "null" : typeof value) === than;
      if (op === "$exists") return than ? value != null : value == null;
      if (op === "$lte") return value <= than;
      if (op === "$lt") return value < than;
      if (op === "$gte") return value >= than;
      if (op === "$eq") return value === than;
      if (op === "$in") return than.includes(value);
      throw new Error("no operator " + op);
    });
  });
}
function flag({ defaultValue, rules }, data) {
  const found = rules.find((one) => meets(one.condition, data));
  return found ? found.force : defaultValue;
}
for (const line of lines) {
  const task = JSON.parse(line, (key, value) => (value === "\0NaN" ? NaN : value));
  const choose = task.source ? new Function(task.source + "; return choose;")() : null;
  const out = task.rows.map((row, i) => {
    try {
      const draw = task.draws ? task.draws[i] : undefined;
      const data = draw === undefined ? row : { ...row, u: draw };
      return choose ? choose(row, draw) : "logic" in task ? logic(task.logic, data) : flag(task.flag.policy, data);
    } catch (error) {
      return { error: error.message };
    }
  });
  console.log(JSON.stringify(out));
}
"""


def by_node(*tasks):
    """What each task gives for its rows: {"source" or "logic" or "flag": …, "rows": […], "draws": […]}."""
    lines = "\n".join(json.dumps(task) for task in tasks)
    done = subprocess.run(["node", "-e", FOLLOWER], input=lines, capture_output=True, encoding="utf-8", check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def tasks_of(policy, contexts, *, draws=None, names=ACTIONS, rules=True):
    """The exports of a policy as tasks, and what each should give."""
    own = policy(contexts) if draws is None else policy.play(contexts, draws=draws)
    beside = {"rows": rows_of(contexts)} | ({} if draws is None else {"draws": list(map(float, draws))})
    drawn = None if draws is None else "u"
    tasks = [{"source": pb.to_javascript(policy, actions=names)} | beside]
    if rules:
        tasks.append({"logic": pb.to_json_logic(policy, actions=names, draw=drawn)} | beside)
        tasks.append({"flag": pb.to_flags(policy, actions=names, draw=drawn)} | beside)
    return tasks, [[names[action] for action in own] if names else own.tolist()] * len(tasks)


def check(cases):
    tasks, wanted = zip(*cases, strict=True)
    assert by_node(*(task for some in tasks for task in some)) == [one for some in wanted for one in some]


def cases_of(seed, n):
    """A tree, a table, a linear policy and two mixtures on n contexts each, with hostile names and values."""
    rng = np.random.default_rng(seed)
    made, mixed, calm = tree(seed, depth=1 + seed % 6), mixture(seed), calm_contexts(n=n, seed=seed)
    contexts = contexts_for(cuts(made.root), n=n, seed=seed)
    known = pb.Contexts.of(calm.features, names=calm.names, categories=calm.categories, ids=contexts.ids)
    near = np.clip(np.nextafter(np.array(mixed.bounds), rng.integers(2)), 0, np.nextafter(1, 0))
    draws = np.where(rng.random(n) < 0.3, rng.choice(near, size=n), rng.random(n))
    return [
        tasks_of(made, contexts),
        tasks_of(table(seed), contexts, names=None),
        tasks_of(linear(seed, shared=seed % 2 == 1), calm, rules=False),
        tasks_of(mixed, known, draws=draws, rules=False),
        tasks_of(pb.Mixture(mixed.policies[:2], (0.25, 0.75)), known, draws=draws),
    ]


def test_node_acts_as_the_policy_does():
    check(cases_of(3, 60))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_node_acts_as_the_policy_does_on_thousands(seed):
    check(cases_of(seed, 2_000))


@pytest.mark.slow
def test_a_million_contexts():
    for seed in range(20):
        check(cases_of(seed, 10_000))  # five policies each


def test_missing_and_unknown_values_are_decided_as_in_python():
    """Null, NaN, empty text and numbers in text; a label that the test never had."""
    ages, baskets, places = (None, math.nan, "", 30.0, 31.0, "29"), (None, 0.5, 0.6, "-1e-3"), (None, "a", "nowhere")
    rows = [{"age": a, "basket": b, "place": p} for a in ages for b in baskets for p in places]
    sent = [{name: NAN if value != value else value for name, value in row.items()} for row in rows]
    plain = [row for row in rows if not isinstance(row["age"], str) and row["age"] == row["age"]]
    plain = [row for row in plain if not isinstance(row["basket"], str)]  # rule engines take numbers as numbers
    absent = [{name: value for name, value in row.items() if value is not None} for row in plain]
    logic, flags = pb.to_json_logic(WITH_MISSING), pb.to_flags(WITH_MISSING)
    found = by_node(
        {"source": pb.to_javascript(WITH_MISSING), "rows": sent},
        *({"logic": logic, "rows": some} for some in (plain, absent)),
        *({"flag": flags, "rows": some} for some in (plain, absent)),
    )
    source = pb.to_python(WITH_MISSING)
    assert found == [by_python(source, some) for some in (rows, plain, plain, plain, plain)]


def test_dates_are_read_as_in_python():
    given = [one for one in moments(150, seed=1) if one is not None]
    written = [one.isoformat(sep=" ") for one in given] + [one.isoformat() + "Z" for one in given[:40]]
    written += [f"{(one + timedelta(hours=2)).isoformat()}+02:00" for one in given[:40]]
    written += ["2022-01-08", "2022-01-05T13:30", "2022-01-05 13:30:00.0000009", "0099-12-31 23:59:59,5", "2024-02-29"]
    rows = [{"at": one} for one in (*written, None)]
    clock = TreePolicy(TreeSplit(AtMost("at hour", 13.5), 0, 1), 2)
    times = [{"at": one} for one in ("13:30", "13:30:00.000001", "00:00:00", None)]
    wrong = [{"at": one} for one in ("2023-02-29", "soon", "2022-01-05 24:00", "2022-13-01", 17, "13:30")]
    source = pb.to_javascript(TREE, actions=NAMES, dates=["at"])
    found = by_node(
        {"source": source, "rows": rows},
        {"source": pb.to_javascript(clock, dates=["at"]), "rows": times},
        {"source": source, "rows": wrong},
    )
    assert found[0] == by_python(pb.to_python(TREE, actions=NAMES, dates=["at"]), rows)
    assert found[1] == by_python(pb.to_python(clock, dates=["at"]), times) == [0, 1, 0, 1]
    assert found[2] == [{"error": 'no date in "at"'}] * len(wrong)


def test_names_that_are_hostile_to_javascript():
    proto = TreePolicy(TreeSplit(Is("__proto__", "</script><!--"), 0, TreeSplit(AtMost("constructor", 1.0), 1, 2)), 3)
    rows = ['{"__proto__": "</script><!--", "constructor": 5}', '{"__proto__": "x", "constructor": 1}', "{}"]
    source = pb.to_javascript(proto, actions=["a", "\u2028", "`${x}`"])
    assert "</script" not in source
    task = json.dumps({"source": source, "rows": []}).replace('"rows": []', f'"rows": [{", ".join(rows)}]')
    done = subprocess.run(["node", "-e", FOLLOWER], input=task, capture_output=True, encoding="utf-8", check=True)
    assert json.loads(done.stdout) == ["a", "\u2028", {"error": 'the row lacks "__proto__"'}]


def test_what_javascript_refuses():
    known, draw = TablePolicy(np.array([1, 0]), 2), pb.Mixture((TreePolicy(0, 2), TreePolicy(1, 2)), (0.5, 0.5))
    small = TreePolicy(TreeSplit(AtMost("age", 3.0), 0, 1), 2)
    words = "the draw must be in [0, 1), got "
    found = by_node(
        {"source": pb.to_javascript(known), "rows": [{"context_id": 1}, {"context_id": 2}]},
        {"source": pb.to_javascript(draw), "rows": [{}] * 3, "draws": [-0.1, 1, NAN]},
        {"source": pb.to_javascript(small), "rows": [{"age": one} for one in ("x", "0x1", " 2 ", True, "-inf", [1])]},
        {"logic": pb.to_json_logic(draw, draw="u"), "rows": [{}] * 4, "draws": [-0.1, 1, None, 0.7]},
        {"flag": pb.to_flags(draw, draw="u"), "rows": [{}] * 4, "draws": [-0.1, 1, None, 0.7]},
    )
    assert found[0] == [0, {"error": "no action is known for this row"}]
    assert found[1] == [{"error": f"{words}{one}"} for one in ("-0.1", "1", "NaN")]
    bad = {"error": 'no number in "age"'}
    assert found[2] == [bad, bad, 0, 0, 0, bad]
    assert found[3] == found[4] == [None, None, None, 1]


def test_flagd_has_variants_and_json_logic():
    policy = TreePolicy(TreeSplit(AtMost("age", 31.5), 0, 1), 2)
    made = pb.to_flags(policy, actions=["plain", "discount"], name="email", system="flagd")["flags"]["email"]
    assert made["variants"] == {"plain": "plain", "discount": "discount"}
    assert (made["state"], made["defaultVariant"]) == ("ENABLED", "discount")
    assert made["targeting"] == pb.to_json_logic(policy, actions=["plain", "discount"])
    assert "targeting" not in pb.to_flags(TreePolicy(1, 2), system="flagd")["flags"]["policy"]
    with pytest.raises(pb.InputError, match="flagd gives its default where no rule has an action"):
        pb.to_flags(TablePolicy(np.array([1, 0]), 2), system="flagd")


@pytest.mark.parametrize("export", [pb.to_json_logic, pb.to_flags])
def test_what_rule_engines_cannot_hold_is_one_sentence(export):
    for name in ("a.b", "", "$or"):
        with pytest.raises(pb.InputError, match="rule engines read as a path or an operator; rename the column"):
            export(TreePolicy(TreeSplit(AtMost(name, 1.0), 0, 1), 2))
    with pytest.raises(pb.InputError, match="no list of rules"):
        export(linear(0))
    mixed = pb.Mixture((tree(0), TreePolicy(2, N_ACTIONS)), (0.5, 0.5))
    for draw, words in ((None, "name its draw"), ("age", "is a feature of the policy or no plain name")):
        with pytest.raises(pb.InputError, match=words):
            export(
                pb.Mixture((TreePolicy(TreeSplit(AtMost("age", 1.0), 0, 1), 2), TreePolicy(0, 2)), (0.5, 0.5)),
                draw=draw,
            )
    assert export(mixed, draw="u")
