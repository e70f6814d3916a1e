"""Anyone's log: what `certify` claims of it holds, and `verify` accepts that and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given

import pacbandits as pb
from pacbandits.certificate import Bets, Evidence, Ledger, in_blocks, make_certificate, worth_leading
from pacbandits.certificate.certificate import ORDERED, ROUNDS
from pacbandits.certificate.certify import EXPERT_STAKES
from pacbandits.certificate.choosing import lead_log
from pacbandits.certificate.claim import rounded_down, rounded_up
from pacbandits.certificate.conventions import block_ends, rearrange, settling_round, sizes_beforehand
from pacbandits.certificate.leaders import NOBODY
from pacbandits.certificate.ledger import plan_moves
from pacbandits.records import Design
from pacbandits.records.log import digest_log
from pacbandits.rewards import CellMeans, PerAction, predict_by_round
from pacbandits.verifier import recompute
from tests.certificate import plain
from tests.certificate.boundary import (
    RARE,
    Game,
    Pair,
    after_rows,
    chase,
    evidence_of_growth,
    most,
    play,
    rare,
    restless,
    separate,
    stop_where_it_hurts,
)
from tests.certificate.test_validity import make_problem
from tests.examples import examples
from tests.instances import seeds

CONTEXTS = 40


def lure():
    """Two policies that never agree, the second better by 0.22; forty contexts, so that cells have few rows."""
    return make_problem(np.tile([0.5, 0.72], (CONTEXTS, 1)), table=[[0] * CONTEXTS, [1] * CONTEXTS])


def shuffled(log, seed):
    """The same interactions, one a row, in random order."""
    single = log.take(np.repeat(np.arange(len(log)), log.repeats))
    single = replace(single, repeats=np.ones(len(single), dtype=np.int64))
    return single.take(np.random.default_rng(seed).permutation(len(single)))


def uniform_log(problem, *, samples, seed):
    uniform = Design((), np.empty(0), problem.best_policy())
    return problem.interact(uniform, samples=samples, rng=np.random.default_rng(seed))


def wrongly_certified(problem, log, *, epsilon, delta, ordered=False):
    """Whether the policy that is worse by more than ε could be certified, if that were the one to be looked at."""
    blocks = in_blocks(log) if ordered else log
    ledger = Ledger.of(blocks, predict_by_round(blocks, CellMeans()))
    bets = Bets(EXPERT_STAKES, (1.0,) * ledger.n_rounds)
    evidence = Evidence(blocks, ledger, problem.policies, bets, epsilon, delta, model=CellMeans().to_json())
    made, _ = make_certificate(evidence, problem.policies.policy(0))
    return made.certified


def luck():
    """Every map of forty contexts to two actions, the second better by a little: those that look best are lucky."""
    return make_problem(np.tile([0.45, 0.55], (CONTEXTS, 1)))


@pytest.mark.thorough
@pytest.mark.parametrize("ordered", [False, True])
def test_a_log_of_one_round_gives_no_wrong_certificate(ordered):
    problem, runs, delta = luck(), 10, 1e-3
    assert worth_leading(problem.policies)
    best, wrong, far = problem.value(problem.best_policy()), 0, 0
    for seed in range(runs):
        log = shuffled(uniform_log(problem, samples=600, seed=seed), seed)
        made = pb.certify(log, problem.policies, epsilon=0.02, delta=delta, ordered=ordered).certificate
        gap = best - problem.value(made.policy)
        wrong += gap > made.certified_epsilon
        far += gap > 0.01
    assert wrong <= most(runs, delta)
    assert far > runs / 2  # or nothing would be tested


@pytest.mark.thorough
@pytest.mark.parametrize("settles", [False, True])
def test_who_leads_has_no_luck_left_on_the_rows_that_are_led(settles):
    """The wealth of an expert against the best policy, over what the leaders of certify lack of it, has mean 1."""
    problem, runs, stake = luck(), 120, 0.1
    best, wealth = problem.best_policy(), []
    for seed in range(runs):
        log = shuffled(uniform_log(problem, samples=700, seed=seed), seed)
        log = rearrange(log, ordered=True, shuffle=settles)
        predictions, settled = predict_by_round(log, CellMeans()), settling_round(log, 0) if settles else None
        sizes = sizes_beforehand(log, in_order=True, shuffled=settles)
        leaders = lead_log(log, predictions, problem.policies, sizes=sizes, spared=0, single=False, settled=settled)
        ledger = Ledger.of(log, predictions)
        units = np.full(ledger.n_rounds, stake)
        moves, weights = plan_moves(leaders, units=units, counts=ledger.round_sizes)
        against = ledger.against(leaders.policies, np.array(leaders.counted), moves)
        assert len(leaders.policies) > 1
        scores = ledger.log_wealth(against, bets=units, share=0.9, epsilon=0.0)
        gaps = np.array([problem.value(best) - problem.value(one) for one in leaders.policies])
        missing = gaps[list(leaders.turns[1:])] * (1 + moves[1:].sum(axis=1)) - moves[1:] @ gaps
        assert stake * missing @ ledger.round_sizes[1:] == pytest.approx(weights @ gaps)
        sure = -ledger.round_sizes[1:] @ np.log1p(-stake * missing)
        wealth.append(scores[np.arange(len(scores)), best(ledger.contexts)].sum() + sure)
    assert (np.array(wealth) >= np.log(5)).sum() <= most(runs, 0.2)
    assert evidence_of_growth(np.array(wealth)) < -np.log(RARE)
    assert np.exp(wealth).mean() > 0.7  # or nothing would be tested


@pytest.mark.first(1)
@pytest.mark.parametrize("single", [False, True])
def test_leaders_are_of_earlier_rounds_alone(single):
    """Whatever is earned from a round on, those who led until then are the same, and so are planned sizes."""
    problem = luck()
    log = in_blocks(shuffled(uniform_log(problem, samples=2200, seed=0), 0))

    def led(one):
        sizes = sizes_beforehand(one, in_order=True)
        return lead_log(one, predict_by_round(one, CellMeans()), problem.policies, sizes=sizes, spared=0, single=single)

    made = led(log)
    assert len(made.policies) > 2
    for number in range(1, len(made.turns)):
        other = led(replace(log, rewards=np.where(log.rounds >= number, 1 - log.rewards, log.rewards)))
        assert other.sizes == made.sizes
        for mine, theirs in zip(made.turns[: number + 1], other.turns[: number + 1], strict=True):
            assert (mine == NOBODY) == (theirs == NOBODY)
            if mine != NOBODY:
                assert made.policies[mine].to_json() == other.policies[theirs].to_json()
    flipped = led(replace(log, rewards=1 - log.rewards))
    assert flipped.policies[0].to_json() != made.policies[0].to_json()


@pytest.mark.slow
def test_sorted_rows_that_claim_an_order_would_give_wrong_certificates():
    """So the order is an assumption, and one that matters."""
    problem, wrong = lure(), 0
    for seed in range(10):
        log = shuffled(uniform_log(problem, samples=16_000, seed=seed), seed)
        log = log.take(np.lexsort([-log.rewards, -log.actions]))
        wrong += wrongly_certified(problem, log, epsilon=0.2, delta=0.05, ordered=True)
    assert wrong > most(10, 0.05)


UNEVEN = Pair.of([[0.2, 0.2, 0.8], [0.5, 0.5, 0.5]], rival=[2, 2], reference=[0, 1])
LOGGING = {"chase": chase, "stop": stop_where_it_hurts, "rare": rare(2, 0.001), "restless": restless}


@pytest.mark.thorough
@pytest.mark.parametrize("name", LOGGING)
def test_what_is_certified_holds_whoever_collected_the_log(name):
    problem = make_problem(UNEVEN.means, table=[[0, 0], [0, 1], [1, 1], [2, 2]])
    game, runs, delta, wrong = Game(UNEVEN, LOGGING[name], ends=after_rows(40)), 10, 1e-6, 0
    best = problem.value(problem.best_policy())
    for log in separate(play(game, runs=runs, rows=240, seed=11), contexts=2):
        made = pb.certify(log, problem.policies, epsilon=0.25, delta=delta).certificate
        wrong += best - problem.value(made.policy) > made.certified_epsilon
    assert wrong <= most(runs, delta)


@pytest.mark.thorough
def test_only_a_log_in_order_is_learnt_from_as_it_goes_and_its_certificate_says_so():
    problem = pb.load_problem("trees:contexts=80,features=3,bins=4,actions=3,competitive=2")
    counted = uniform_log(problem, samples=3000, seed=0)
    plain = pb.certify(counted, problem.policies, epsilon=0.1, delta=0.1).certificate
    assert not plain.ordered
    assert ORDERED not in plain.assumptions
    with pytest.raises(pb.InputError, match="counts repeated interactions"):
        pb.certify(counted, problem.policies, epsilon=0.3, delta=0.1, ordered=True)
    log = shuffled(counted, 0)
    learnt = pb.certify(log, problem.policies, epsilon=0.1, delta=0.1, ordered=True).certificate
    assert ORDERED in learnt.assumptions
    assert learnt.certified_epsilon < plain.certified_epsilon  # the order is worth something
    assert pb.verify(plain, counted, problem.policies).good
    assert pb.verify(learnt, log, problem.policies).good
    assert not pb.verify(replace(learnt, ordered=False), log, problem.policies).good
    assert not pb.verify(learnt, log.take(np.arange(len(log))[::-1]), problem.policies).good


@pytest.mark.thorough
def test_the_model_of_a_block_sees_earlier_rows_alone():
    """Later rewards, and later contexts, change nothing of a block's predictions, nor how features are cut."""
    problem = pb.load_problem("trees:contexts=80,features=3,bins=4,actions=3,competitive=2")
    log = shuffled(uniform_log(problem, samples=640, seed=1), 1)
    early = np.arange(len(log)) < 320
    other = replace(log, rewards=np.where(early, log.rewards, 1 - log.rewards))
    made = [pb.certify(one, problem.policies, epsilon=0.3, delta=0.1, ordered=True).certificate for one in (log, other)]
    assert made[0].model == made[1].model
    later = replace(log, rounds=np.where(early, 0, 1))
    later = replace(later, contexts=replace(log.contexts, ids=None))
    moved = replace(later, contexts=replace(later.contexts, features=log.contexts.features + ~early[:, None]))
    cuts = [
        pb.certify(one, problem.policies, epsilon=0.3, delta=0.1).certificate.model["models"][0]
        for one in (later, moved)
    ]
    assert cuts[0] == cuts[1]


def test_a_run_that_ends_in_its_first_round_can_be_verified():
    problem = make_problem(np.tile([0.0, 1.0], (3, 1)), table=[[0, 0, 0], [1, 1, 1]])
    done = pb.run(problem, algorithm="uniform", epsilon=0.5, delta=0.2, rng=0)
    assert done.rounds == 1
    assert done.certificate.certified
    assert pb.verify(done.certificate, done.log, problem.policies).good


@pytest.fixture(scope="module")
def proven():
    problem = pb.load_problem("trees:contexts=80,features=3,bins=4,actions=3,competitive=2")
    done = pb.run(problem, epsilon=0.15, delta=0.1, rng=0)
    assert pb.verify(done.certificate, done.log, problem.policies).good
    return problem.policies, done.certificate, done.log


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("value", lambda c: c.value + 1, "least log-wealth"),
        ("threshold", lambda c: c.threshold - 1, "the threshold"),
        ("epsilon", lambda c: c.epsilon / 3, "nothing is certified"),
        ("certified_epsilon", lambda c: c.certified_epsilon / 2, "do not certify"),
        ("delta", lambda c: c.delta / 10, "the threshold"),
        ("samples", lambda c: c.samples + 1, "interactions"),
        ("log_size", lambda c: c.log_size - 1, "log size"),
        ("experts", lambda c: (99,), "do not exist"),
        ("exact", lambda c: not c.exact, "exact"),
        ("ordered", lambda c: True, "the log has rounds"),
        ("digest", lambda c: "0" * 64, "digest"),
        ("bets", lambda c: replace(c.bets, multipliers=tuple(m / 2 for m in c.bets.multipliers)), "log-wealth"),
        ("bets", lambda c: replace(c.bets, scales=c.bets.scales[:-1]), "bets were made for"),
        ("bets", lambda c: replace(c.bets, share=0.02), "log-wealth"),
        ("model", lambda c: CellMeans().to_json(), "log-wealth"),
        ("share", lambda c: 1.5, "weight of one of two experts"),
    ],
)
def test_a_certificate_that_was_altered_is_refused(proven, name, change, words):
    policies, made, log = proven
    verdict = pb.verify(replace(made, **{name: change(made)}), log, policies)
    assert not verdict.good
    assert any(words in fault for fault in verdict.faults), verdict.faults


@dataclass(frozen=True)
class Extreme:
    """A model that predicts anything, the ends of [0, 1] among it, for contexts with ids up to 12."""

    seed: int
    n_actions: int

    def fit(self, log):
        return self

    def predict(self, contexts):
        table = plain.draw_predictions(np.random.default_rng(self.seed), (13, self.n_actions))
        return table[contexts.ids]

    def to_json(self):
        return {"kind": "extreme"}


@pytest.mark.thorough
@examples(80)
@given(seeds)
def test_verify_computes_the_same_where_caps_bind(seed):
    """Rare actions, sure predictions, large stakes and small: whatever is made is found again."""
    log, _ = plain.draw_log(seed)
    rng = np.random.default_rng(seed)
    policies = pb.Finite(rng.integers(log.n_actions, size=(4, 13)), n_actions=log.n_actions)
    model = Extreme(seed, log.n_actions)
    ledger = Ledger.of(log, predict_by_round(log, model))
    bets = Bets(tuple(10 ** rng.uniform(-3, 0.5, size=2)), tuple(rng.uniform(0.1, 1, size=ledger.n_rounds)))
    evidence = Evidence(log, ledger, policies, bets, 0.1, 0.2, model=model.to_json())
    made, _ = make_certificate(evidence, policies.policy(0))
    assert recompute(made, log, policies, model=model).faults == ()


@pytest.mark.thorough
def test_another_policy_is_refused(proven):
    policies, made, log = proven
    other = policies.argmax(log.contexts, -np.ones((len(log), 3)) * np.array([0, 1, 1]))
    verdict = pb.verify(replace(made, policy=other), log, policies)
    assert not verdict.good
    stranger = pb.Finite([[0, 1] * 40], n_actions=3).policy(0)
    verdict = pb.verify(replace(made, policy=stranger), log, policies)
    assert "not one of the class" in verdict.faults[0]


@pytest.mark.parametrize("part", ["rewards", "actions", "propensities", "rounds", "contexts"])
def test_another_log_is_refused(proven, part):
    policies, made, log = proven
    row = np.arange(len(log)) == 0
    changes = {
        "rewards": np.where(row, 1 - log.rewards, log.rewards),
        "actions": np.where(row, (log.actions + 1) % 3, log.actions),
        "propensities": np.where(row[:, None], 1 / 3 + np.array([1e-9, 0, -1e-9]), log.propensities),
        "rounds": np.where(row, log.rounds + 1, log.rounds),
        "contexts": replace(log.contexts, features=log.contexts.features + 1e-9 * row[:, None]),
    }
    verdict = pb.verify(made, replace(log, **{part: changes[part]}), policies)
    assert "digest differs" in verdict.faults[0]


@pytest.mark.parametrize("name", ["claim", "words", "assumptions", "score"])
def test_words_that_were_altered_are_refused(proven, name):
    _, made, _ = proven
    with pytest.raises(pb.InputError, match=f"the '{name}' of the certificate does not follow"):
        pb.Certificate.from_json(made.to_json() | {name: "all is well"})


class Weighted:
    """The weighted mean."""

    def fit(self, features, rewards, sample_weight=None):
        self.mean = np.average(rewards, weights=sample_weight)
        return self

    def predict(self, features):
        return np.full(len(features), self.mean)


class Unweighted(Weighted):
    def fit(self, features, rewards):
        return super().fit(features, rewards)


def test_a_given_model_counts_repeated_rows():
    problem = pb.load_problem("trees:contexts=80,features=3,bins=4,actions=3,competitive=2")
    counted = uniform_log(problem, samples=3000, seed=0)
    single = shuffled(counted, 0)
    want = PerAction(Unweighted()).fit(single).predict(single.contexts)[0]
    for model in (Weighted(), Unweighted()):
        assert PerAction(model).fit(counted).predict(counted.contexts)[0] == pytest.approx(want)
    many = replace(counted, repeats=counted.repeats * 10**8)
    assert PerAction(Weighted()).fit(many).predict(counted.contexts)[0] == pytest.approx(want)
    with pytest.raises(pb.InputError, match="Unweighted takes no sample_weight"):
        PerAction(Unweighted()).fit(many)


@pytest.mark.first(11)
@pytest.mark.parametrize("name", ["threshold", "log_size", "value", "epsilon", "delta", "certified_epsilon"])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_proves_nothing(proven, name, number):
    policies, made, log = proven
    assert not pb.verify(replace(made, **{name: number}), log, policies).good
    with pytest.raises(pb.InputError, match=r"which proves nothing|cannot be read"):
        pb.Certificate.from_json(made.to_json() | {name: number})


def test_a_model_that_predicts_what_is_no_number_proves_nothing(proven):
    policies, made, log = proven
    model = CellMeans(float("nan"))
    log = replace(log, contexts=replace(log.contexts, ids=np.arange(len(log))))
    bad = replace(made, model=model.to_json(), digest=digest_log(log))
    assert not pb.verify(bad, log, policies, model=model).good
    with pytest.raises(pb.InputError, match="'strength' of the reward model must be finite"):
        pb.verify(bad, log, policies)


def test_another_model_than_the_one_described_is_refused(proven):
    policies, made, log = proven
    verdict = pb.verify(made, log, policies, model=CellMeans())
    assert "not the one that the certificate describes" in verdict.faults[0]


@pytest.mark.thorough
def test_a_policy_that_only_acts_like_one_of_the_class_is_refused():
    """On the contexts of the log a deeper tree may act like a shallow one, and elsewhere as it likes."""
    problem = pb.load_problem("trees:contexts=80,features=3,bins=4,actions=3,competitive=2")
    done = pb.run(problem, algorithm="uniform:answer=single", epsilon=0.3, delta=0.1, rng=0)
    told = done.certificate.policy.to_json()
    deeper = {"feature": problem.population.names[0], "at_most": 1e9, "then": told["root"], "else": {"action": 0}}
    forged = pb.policy_from_json(told | {"root": deeper})
    assert np.array_equal(forged(done.log.contexts), done.certificate.policy(done.log.contexts))
    verdict = pb.verify(replace(done.certificate, policy=forged), done.log, problem.policies)
    assert "not one of the class" in verdict.faults[0]


def test_ids_that_do_not_name_contexts_are_refused():
    problem = pb.load_problem("trees:contexts=80,features=3,bins=4,actions=3,competitive=2")
    log = uniform_log(problem, samples=300, seed=0)
    people = replace(log, contexts=replace(log.contexts, ids=log.contexts.ids % 7))
    with pytest.raises(pb.InputError, match="but different features; ids must name contexts"):
        pb.certify(people, problem.policies, epsilon=0.3, delta=0.1)


def test_the_order_of_rounds_is_an_assumption_where_there_are_rounds(proven):
    _, made, log = proven
    assert len(np.unique(log.rounds)) > 1
    assert ROUNDS in made.assumptions
    problem = lure()
    assert (
        ROUNDS
        not in pb.certify(
            uniform_log(problem, samples=50, seed=0), problem.policies, epsilon=0.3, delta=0.1
        ).certificate.assumptions
    )


def test_blocks_do_not_depend_on_where_a_log_ends():
    problem = lure()
    log = shuffled(uniform_log(problem, samples=3000, seed=0), 0)
    whole = in_blocks(log).rounds
    ends = block_ends(3000)
    assert ends[0] == 256
    assert ends[-2] < 3000 <= ends[-1]
    assert np.array_equal(np.unique(whole, return_counts=True)[1], np.diff([0, *ends[:-1], 3000]))
    for n in (1, 255, 256, 257, 1000):
        assert np.array_equal(in_blocks(log.take(np.arange(n))).rounds, whole[:n])


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0123401, 0.0124), (0.05, 0.05), (0.1, 0.1), (0.9999, 1.0), (0.25, 0.25)]
)
def test_a_claim_is_never_rounded_down(value, shown):
    assert rounded_up(value) == pytest.approx(shown, rel=1e-9)
    assert rounded_down(-value) == pytest.approx(-shown, rel=1e-9)


def test_rounding_is_to_the_side_that_is_asked_for_at_any_size_and_sign():
    rng = np.random.default_rng(0)
    for value in (*rng.normal(size=200), *10.0 ** rng.uniform(-8, 8, 200), 0.0):
        low, high = rounded_down(value), rounded_up(value)
        assert low - 1e-9 * abs(value) <= value <= high + 1e-9 * abs(value)
        assert high - low <= 0.0101 * abs(value)
        assert rounded_up(value, digits=5) <= high + 1e-9 * abs(value)
