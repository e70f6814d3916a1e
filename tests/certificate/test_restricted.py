"""Certificates of policies that one may deploy: within a budget, never where barred, no leaf too small."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.learning import rows_that_bet
from pacbandits.certificate.learning_record import MIN_SHARE_LEARNING_INTERACTIONS
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.proofs import check_expected
from pacbandits.records import parts_of

ACTIONS = ("none", "email", "call")
ROWS = 2_400
KEPT = {
    "trees:depth=1,bins=8,costs=0/1/3,budget=0.3": "cost at most 0.3 on average over the 987 contexts that were known",
    "trees:depth=2,bins=8,costs=0/1/3,budget=0.3": "cost at most 0.3 on average over the 987 contexts that were known",
    "trees:depth=1,bins=8,leaf=0.3": "hold a share of 0.3 or more of the 987 known contexts in every leaf",
    "trees:depth=1,bins=8,never=1:age>45;2:place=a,fallback=0": "take no action where it is excluded",
    "trees:depth=2,bins=6,leaf=0.1,costs=0/1/3,budget=0.5,never=2:age<=42,fallback=0": "and hold a share of 0.1",
}


@cache
def made_log(*, rows: int = ROWS, adaptive: bool = False) -> pb.Log:
    """Email is best above 40, a call above 55; both cost something. adaptive: whether propensities change once."""
    rng = np.random.default_rng(5)
    age, place = rng.normal(40, 10, rows), rng.integers(2, size=rows)
    contexts = pb.Contexts.of(np.column_stack([age, place]), names=["age", "place"], categories=[None, ("a", "b")])
    actions = rng.integers(3, size=rows)
    means = np.column_stack([np.full(rows, 0.4), np.where(age > 40, 0.7, 0.2), np.where(age > 55, 0.9, 0.1)])
    rewards = (rng.random(rows) < means[np.arange(rows), actions]).astype(float)
    propensities = np.full((rows, 3), 1 / 3)
    if adaptive:
        propensities[-1] = (0.25, 0.25, 0.5)
    made = pb.Log.of(contexts, actions=actions, rewards=rewards, propensities=propensities)
    return replace(made, action_names=ACTIONS)


@pytest.mark.thorough
@pytest.mark.parametrize("spec", KEPT)
def test_what_is_certified_keeps_to_it_and_can_be_verified(spec: str, tmp_path) -> None:
    log = made_log()
    learnt = pb.learn_class(spec, log)
    made = pb.certify(log, learnt, epsilon=0.3, delta=0.1).certificate
    assert made.certified
    assert KEPT[spec] in made.describe()
    assert learnt.policies.checks_membership
    assert all(learnt.policies.has(one) for one in parts_of(made.policy))
    pb.save_certificate(tmp_path / "proof.json", made, learnt.policies)
    proof = pb.load_certificate(tmp_path / "proof.json")
    verdict = pb.verify(proof.certificate, log, proof.policies)
    assert verdict.good
    rows = 987 if "leaf" in spec or "budget" in spec else 256
    assert f"is what {spec} learns from the first {rows} rows" in verdict.checked[0]
    assert check_expected(verdict, proof, log, spec).good
    assert not check_expected(verdict, proof, log, "trees:depth=1,bins=8").good


@pytest.mark.thorough
def test_a_policy_beyond_the_budget_is_refused() -> None:
    log, spec = made_log(), next(iter(KEPT))
    learnt = pb.learn_class(spec, log)
    made = pb.certify(log, learnt, epsilon=0.3, delta=0.1).certificate
    assert made.leaders is None
    dear = replace(made, policy=TreePolicy(1, 3))
    assert pb.verify(dear, log, learnt.policies).faults == ("the certified policy is not one of the class",)


@pytest.mark.thorough
def test_a_budget_cannot_be_raised_afterwards(tmp_path) -> None:
    log, spec = made_log(), next(iter(KEPT))
    learnt = pb.learn_class(spec, log)
    made = pb.certify(log, learnt, epsilon=0.3, delta=0.1).certificate
    richer = pb.learn_class(spec.replace("budget=0.3", "budget=0.6"), log)
    assert "its digest differs" in pb.verify(made, log, richer.policies).faults[0]
    forged = replace(made, learning=richer.learning)
    assert "is not what trees:depth=1,bins=8,costs=0/1/3,budget=0.6 learns" in " ".join(
        pb.verify(forged, log, learnt.policies).faults
    )
    pb.save_certificate(tmp_path / "proof.json", made, learnt.policies)
    written = json.loads((tmp_path / "proof.json").read_text())
    written["learning"]["spec"] = spec.replace("budget=0.3", "budget=0.6")
    (tmp_path / "proof.json").write_text(json.dumps(written))
    with pytest.raises(pb.InputError, match="the 'claim' of the certificate does not follow"):
        pb.load_certificate(tmp_path / "proof.json")


@pytest.mark.thorough
def test_of_a_log_without_order_the_first_rows_by_content_teach_and_do_not_bet() -> None:
    log, spec = made_log(adaptive=True), next(iter(KEPT))
    learnt = pb.learn_class(spec, log)
    assert learnt.learning is not None
    assert learnt.learning.contexts == MIN_SHARE_LEARNING_INTERACTIONS
    made = pb.certify(log, learnt, epsilon=0.5, delta=0.1).certificate
    assert pb.verify(made, log, learnt.policies).good
    assert pb.measure_worth(made, log) is not None
    bets = rows_that_bet(learnt.learning.arrange(log), learnt.learning)
    assert bets.tolist() == list(range(MIN_SHARE_LEARNING_INTERACTIONS, len(log)))
    assert not any(made.bets.stakes(expert)[0] for expert in range(len(made.bets)))
    other = log.take(np.argsort(log.contexts.features[:, 0]))
    assert pb.certify(other, spec, epsilon=0.5, delta=0.1).certificate.to_json() == made.to_json()


def test_the_class_does_not_depend_on_where_the_log_ends() -> None:
    log, spec = made_log(), next(iter(KEPT))
    short, long = (pb.learn_class(spec, one, ordered=True) for one in (log.take(np.arange(2_000)), log))
    assert short.learning == long.learning
    with pytest.raises(pb.InputError, match="learnt from the first 900 interactions, which then prove nothing"):
        pb.learn_class(spec, log.take(np.arange(900)), ordered=True)


def test_restrictions_are_options_of_the_spec() -> None:
    log = made_log(rows=1_500)
    kept = pb.Restrictions(cost={"email": 1, "call": 3}, max_cost=0.3)
    made = pb.certify(log, "trees:depth=1,bins=8", restrictions=kept, epsilon=0.3, delta=0.1).certificate
    assert made.learning == pb.learn_class(next(iter(KEPT)), log).learning
    with pytest.raises(pb.InputError, match="restrictions are for a class that is given by its name"):
        pb.certify(log, pb.learn_class("trees:depth=1", log), restrictions=kept)


@pytest.mark.thorough
def test_a_short_log_settles_after_the_rows_that_taught() -> None:
    log = made_log(rows=1_400)
    learnt = pb.learn_class("trees:depth=2,bins=8,leaf=0.05", log)
    made = pb.certify(log, learnt, epsilon=0.5, delta=0.1).certificate
    assert made.leaders is not None
    assert made.leaders.settled == made.bets.spared
    assert pb.verify(made, log, learnt.policies).good


SPELT = (
    (pb.Restrictions(), "trees:depth=1"),
    (pb.Restrictions(smallest_leaf=0.05), "trees:depth=1,leaf=0.05"),
    (pb.Restrictions(cost={"call": 2.5}, max_cost=0.5), "trees:depth=1,costs=0/0/2.5,budget=0.5"),
    (pb.Restrictions(max_treated=0.3, control="none"), "trees:depth=1,costs=0/1/1,budget=0.3"),
    (
        pb.Restrictions(never=["email: age <= 25", "call: place = a"], control="none"),
        "trees:depth=1,never=1:age<=25;2:place=a,fallback=0",
    ),
)


@pytest.mark.parametrize(("kept", "spec"), SPELT)
def test_how_restrictions_are_spelt(kept: pb.Restrictions, spec: str) -> None:
    assert kept.added_to("trees:depth=1", ACTIONS) == spec


BAD = (
    ({"max_cost": 0.3}, "and max_cost; add cost"),
    ({"cost": {"call": 1}}, "and max_cost; add max_cost"),
    (
        {"cost": {"call": 1}, "max_cost": 0.3, "max_treated": 0.3, "control": "none"},
        "cannot be combined; leave one of them out",
    ),
    ({"max_treated": 0.3}, "max_treated needs the action that is used instead"),
    ({"never": ["call: age <= 25"]}, "never needs the action that is used instead"),
    ({"never": ["phone: age <= 25"], "control": "none"}, "names no action"),
    ({"never": ["call: age < 25"], "control": "none"}, "'age < 25' has no condition; write"),
    ({"cost": {"phone": 1}, "max_cost": 1}, "cost names 'phone', which is no"),
    ({"max_treated": 0.3, "control": "nothing"}, "control names 'nothing', which is no"),
)


@pytest.mark.parametrize(("given", "words"), BAD)
def test_bad_restrictions(given: dict, words: str) -> None:
    with pytest.raises(pb.InputError, match=words):
        pb.Restrictions(**given).added_to("trees", ACTIONS)


def test_only_trees_can_be_restricted() -> None:
    with pytest.raises(pb.InputError, match="restrictions are for trees, and 'linear' is another class"):
        pb.Restrictions(smallest_leaf=0.1).added_to("linear", ACTIONS)


@pytest.mark.slow
def test_a_run_finds_the_best_that_one_can_afford() -> None:
    problem = pb.load_problem("trees:actions=3,features=3,contexts=200,bins=5,seed=1")
    people, means = problem.population, problem.mean_rewards
    policies = pb.load_policies("trees:depth=2,bins=5,costs=0/1/1,budget=0.3", people, n_actions=3)
    assert policies.budget == 0.3
    worth = people.weights[:, None] * means
    best, free = (one.argmax(people, worth) for one in (policies, problem.policies))

    def value(policy: pb.Policy) -> float:
        return float(worth[np.arange(len(people)), policy(people)].sum())

    assert policies.mean_cost(free, people) > 0.3
    done = pb.run(problem, policies, epsilon=0.3, delta=0.1, rng=1)
    assert done.certificate is not None
    assert done.log is not None
    assert done.certificate.certified
    assert policies.mean_cost(done.policy, people) <= 0.3 + 1e-8
    assert all(value(one) >= value(best) - 0.3 for one in parts_of(done.policy))
    assert pb.verify(done.certificate, done.log, policies).good


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory):
    """A table of the log, as one would have it."""
    path, log = tmp_path_factory.mktemp("table") / "test.csv", made_log(rows=1_900)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "place", "variant", "converted"])
        rows.writerows(
            [f"{age:.6g}", "ab"[int(place)], ACTIONS[action], int(reward)]
            for (age, place), action, reward in zip(log.contexts.features, log.actions, log.rewards, strict=True)
        )
    return path


READ = ("--action", "variant", "--reward", "converted", "--split", "uniform", "--policies", "trees:depth=1,bins=8")


@pytest.mark.thorough
def test_the_command_takes_restrictions_and_tells_what_the_policy_costs(command, table, tmp_path) -> None:
    asked = ("--max-treated", "0.3", "--control", "none", "--never", "call: age <= 42", "--epsilon", "0.9")
    proof = tmp_path / "proof.json"
    code, out, _ = command("certify", table, *READ, *asked, "--best-only", "--certificate", proof, "--json")
    assert code == 0
    told = json.loads(out)
    assert told["learning"]["spec"] == "trees:depth=1,bins=8,costs=1/1/0,budget=0.3,never=0:age<=42,fallback=2"
    assert told["price"]["budget"] == 0.3
    assert told["price"]["limited"] == ["call", "email"]
    assert "of the trees that treat at most 30 % of the 987 contexts that were known" in told["claim"]
    people = pb.read_log(table, action="variant", reward="converted", split="uniform")[0].contexts
    treated = pb.load_certificate(proof).certificate.policy(people) != sorted(ACTIONS).index("none")
    assert told["price"]["cost"] == pytest.approx(treated.mean())
    assert 0 < treated.mean() < 0.3 + 0.05  # of other people than those whom the limit was set by
    code, out, _ = command("verify", proof, table)
    assert code == 0
    out = " ".join(out.split())
    assert "that treat at most 30 % of 987 known contexts" in out
    assert "never action 0 where age ≤ 42" in out
    assert "action 0 or 1 for at most 30 %" in out


WRONG = (
    (
        ("--max-cost", "1", "--max-treated", "0.3"),
        "--max-cost and --max-treated cannot be combined; leave all but one out",
    ),
    (("--max-share", "email"), "such as email=0.3 or email=30%; got 'email'"),
    (("--max-share", "email=0.1,call=0.2"), "--max-share must be one action"),
    (("--cost", "email=1", "--max-cost", "-1"), "the cheapest costs 0"),
)


@pytest.mark.first(2)
@pytest.mark.parametrize(("given", "words"), WRONG)
def test_the_command_says_what_is_wrong(command, table, given: tuple[str, ...], words: str) -> None:
    code, _, err = command("certify", table, *READ, *given)
    assert code == 2
    assert words in err
