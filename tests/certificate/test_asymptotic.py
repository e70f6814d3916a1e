"""The approximate certificate: what it computes, how often it errs at a fixed sample size, that it says what it is."""

from __future__ import annotations

import io
import itertools
import json

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import binom

import pacbandits as pb
from pacbandits.certificate import AsymptoticCertificate, Certificate, Ledger
from pacbandits.certificate.asymptotic import (
    GAP_SLOPES,
    Scores,
    bootstrap,
    certified_distances,
    choose,
    name_rivals,
    order_statistic,
    share_of,
)
from pacbandits.compiled import using_cores
from pacbandits.policies import finite
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.records import Contexts, Design, Log
from pacbandits.report import asymptotic_document
from pacbandits.report.terminal import render_terminal
from tests.certificate.boundary import RARE
from tests.certificate.plain import draw_log
from tests.certificate.test_search import ArgmaxOnly
from tests.certificate.test_validity import EPSILON, PROBLEMS, make_problem

TREES = "trees:contexts=80,features=3,bins=4,actions=3,competitive=2"


@pytest.fixture(autouse=True)
def _one_core():
    """Problems this small are quicker without the pool; how work is cut changes no result."""
    with using_cores(1):
        yield


def uniform_log(problem, *, samples, seed):
    uniform = Design((), np.empty(0), problem.best_policy())
    return problem.interact(uniform, samples=samples, rng=np.random.default_rng(seed))


def plain_scores(log, predictions, reference):
    """X_i(x) for every row of a log and every action, by the definition; reference (n,)."""
    rows = np.arange(len(log))
    values = predictions.copy()
    played = log.propensities[rows, log.actions]
    values[rows, log.actions] += (log.rewards - predictions[rows, log.actions]) / played
    return values - values[rows, reference][:, None]


def by_context(log, table):
    """Rows of a table (n, A) added up over contexts, in the order of their ids."""
    return np.array([table[log.contexts.ids == i].sum(axis=0) for i in np.unique(log.contexts.ids)])


def crowd(*, policies=40, weight=0.15, epsilon=0.1, contexts=30):
    """One policy is ahead by 1.05 ε, on one context; the others differ by luck alone on the rest."""
    rng = np.random.default_rng(1)
    lead = 1.05 * epsilon / weight
    means = [[0.5 - lead / 2, 0.5 + lead / 2], *[[0.5, 0.5]] * contexts]
    table = np.hstack([np.zeros((policies, 1), dtype=int), rng.integers(2, size=(policies, contexts))])
    table[-1, 0] = 1
    return make_problem(means, weights=[weight] + [(1 - weight) / contexts] * contexts, table=table)


@pytest.mark.parametrize("seed", range(30))
def test_sums_gaps_and_squares_are_those_of_the_definition(seed):
    log, predictions = draw_log(seed, least=1e-2)
    scores, rng = Scores(Ledger.of(log, predictions)), np.random.default_rng(seed)
    own = rng.integers(log.n_actions, size=len(scores.contexts))
    rows = own[np.searchsorted(np.unique(log.contexts.ids), log.contexts.ids)]
    plain = plain_scores(log, predictions, rows)
    gaps, squares = scores.gaps(own)
    weights = log.repeats[:, None]
    np.testing.assert_allclose(gaps, -by_context(log, weights * plain) / log.samples, atol=1e-9)
    np.testing.assert_allclose(squares, by_context(log, weights * plain**2) / log.samples**2, atol=1e-9)
    given = rng.normal(size=len(log))
    order = np.argsort(log.contexts.ids, kind="stable")
    sums = scores.sums(given[order], reference=own)
    np.testing.assert_allclose(sums, by_context(log, given[:, None] * plain), atol=1e-9)


@pytest.mark.thorough
def test_gaps_are_unbiased():
    problem = PROBLEMS["trap"]()
    policies, runs = problem.policies, 400
    truth = problem.value(policies.policy(0)) - np.array([problem.value(policies.policy(i)) for i in range(4)])
    got = []
    for seed in range(runs):
        log = uniform_log(problem, samples=50, seed=seed)
        scores = Scores(Ledger.of(log, np.random.default_rng(seed).random(log.propensities.shape)))
        gaps, _ = scores.gaps(policies.policy(0)(scores.contexts))
        got.append(finite.sum_scores(np.ascontiguousarray(policies.actions(scores.contexts)), gaps))
    error = np.std(got, axis=0) / np.sqrt(runs)
    assert (np.abs(np.mean(got, axis=0) - truth) <= 5 * error + 1e-12).all()


@pytest.mark.thorough
def test_draws_have_mean_zero_and_the_covariance_of_the_estimates():
    """And a row that stands for k has the weight of k rows: the variance is that of the log written out."""
    problem = PROBLEMS["every-map"]()
    counted = uniform_log(problem, samples=60, seed=3)
    assert counted.repeats.max() > 1
    written = counted.take(np.repeat(np.arange(len(counted)), counted.repeats))
    written = Log.of(
        written.contexts, actions=written.actions, rewards=written.rewards, propensities=written.propensities
    )
    maps = np.array(list(itertools.product(range(3), repeat=2)))
    own = np.array([2, 0])
    plain = plain_scores(written, np.full(written.propensities.shape, 0.5), own[written.contexts.ids])
    per_policy = np.stack([plain[np.arange(len(written)), m[written.contexts.ids]] for m in maps], axis=1)
    wanted = np.cov(per_policy.T, bias=True) / len(written)
    for log in (counted, written):
        scores = Scores(Ledger.of(log, np.full(log.propensities.shape, 0.5)))
        gaps, _ = scores.gaps(own)
        rng = np.random.default_rng(0)
        drawn = [scores.draw(rng, reference=own, gaps=gaps) for _ in range(4000)]
        heights = np.array([[noise[[0, 1], m].sum() for m in maps] for noise in drawn])
        size = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
        assert (np.abs(np.cov(heights.T, bias=True) - wanted) <= 0.12 * size + 1e-12).all()
        assert (np.abs(heights.mean(axis=0)) <= 5 * np.sqrt(np.diag(wanted) / 4000) + 1e-12).all()


@pytest.mark.parametrize("kind", ["trivial", "trees"])
def test_suprema_through_the_oracle_are_those_of_the_list(kind):
    if kind == "trivial":
        problem = PROBLEMS["every-map"]()
        listed = Finite(list(itertools.product(range(3), repeat=2)), n_actions=3)
    else:
        problem = pb.load_problem("trees:contexts=12,features=2,bins=3,depth=1,actions=3,competitive=2")
        listed = every_stump(problem)
    policies, log = problem.policies, uniform_log(problem, samples=200, seed=1)
    scores = Scores(Ledger.of(log, np.full(log.propensities.shape, 0.5)))
    own = policies.argmax(scores.contexts, scores.ledger.values(np.ones(1)))(scores.contexts)
    gaps, _ = scores.gaps(own)
    options = {"reference": own, "draws": 25}
    every = np.ascontiguousarray(listed.actions(scores.contexts))
    got, _ = bootstrap(scores, policies, rivals=every, rng=np.random.default_rng(0), **options)
    same, heights = bootstrap(scores, listed, rivals=every, rng=np.random.default_rng(0), **options)
    np.testing.assert_allclose(got, same, atol=1e-12)
    ahead = finite.sum_scores(every, gaps)
    for k, slope in enumerate(GAP_SLOPES):
        np.testing.assert_allclose(got[:, k], (heights - slope * ahead).max(axis=1), atol=1e-12)


def every_stump(problem):
    """The class of a problem of trees of depth 1, as a list of all that its oracle finds for random scores."""
    rng, found = np.random.default_rng(0), set()
    n = len(problem.population)
    for _ in range(3000):
        best = problem.policies.argmax(problem.population, rng.normal(size=(n, 3)) + rng.normal(size=(1, 3)))
        found.add(tuple(best(problem.population).tolist()))
    return Finite(sorted(found), n_actions=3)


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["two-of-many", "crowd"])
def test_rivals_that_the_oracle_names_are_those_that_matter(name):
    problem = pb.load_problem("two-of-many:actions=6,policies=60") if name == "two-of-many" else crowd(policies=100)
    for seed in range(4):
        log = uniform_log(problem, samples=600, seed=seed)
        options = {"epsilon": 0.1, "delta": 0.1, "rng": seed, "draws": 60}
        everyone = pb.certify_asymptotically(log, problem.policies, **options)
        named = pb.certify_asymptotically(log, ArgmaxOnly(problem.policies), **options)
        assert everyone.complete
        assert not named.complete
        assert named.rivals < everyone.rivals
        assert any("that the oracle named" in words for words in named.assumptions)
        assert 0.95 * everyone.certified_epsilon <= named.certified_epsilon <= everyone.certified_epsilon + 1e-12


def test_the_best_policy_of_a_class_without_a_list_is_among_the_named():
    problem = pb.load_problem(TREES)
    log = uniform_log(problem, samples=500, seed=0)
    scores = Scores(Ledger.of(log, np.full(log.propensities.shape, 0.5)))
    own = problem.policies.argmax(scores.contexts, scores.ledger.values(np.ones(1)))(scores.contexts)
    rivals = name_rivals(scores, problem.policies, reference=own)
    assert (rivals == own).all(axis=1).any()
    assert len(np.unique(rivals, axis=0)) == len(rivals)


def test_the_quantile_is_conservative():
    values = np.arange(1.0, 20.0)[:, None]  # 19 draws
    assert order_statistic(values, delta=0.05) == 19
    assert order_statistic(values[:18], delta=0.05) == np.inf
    assert order_statistic(values, delta=0.5) == 10
    assert (
        order_statistic(np.random.default_rng(0).permutation(100.0 * np.arange(1.0, 100.0))[:, None], delta=0.1) == 9000
    )
    rng, above = np.random.default_rng(1), 0
    for _ in range(4000):
        draws = rng.normal(size=(26, 1))
        above += draws[25, 0] > order_statistic(draws[:25], delta=0.1)[0]
    assert above <= binom.ppf(1 - RARE, 4000, 0.1)


def test_the_certified_distance_is_what_the_draws_say():
    problem = crowd()
    log = uniform_log(problem, samples=300, seed=5)
    made = pb.certify_asymptotically(log, problem.policies, epsilon=0.1, delta=0.1, rng=7, draws=50)
    scores = Scores(Ledger.of(log, np.full(log.propensities.shape, 0.5)))
    own = made.policy(scores.contexts)
    gaps, _ = scores.gaps(own)
    every = problem.policies.actions(scores.contexts)
    suprema, heights = drawn = bootstrap(
        scores, problem.policies, reference=own, rivals=every, draws=50, rng=np.random.default_rng(7)
    )
    ahead = finite.sum_scores(every, gaps)
    found = []
    for k, slope in enumerate(GAP_SLOPES):
        worst = -np.inf
        for r in range(len(every)):
            quantile = np.sort(suprema[:, k] - heights[:, r])[45]  # ⌈51 · 0.9⌉ = 46th
            worst = max(worst, quantile / share_of(slope) - ahead[r])
        found.append(worst)
    assert certified_distances(drawn, ahead, delta=0.1) == pytest.approx(found)
    assert made.certified_epsilon == pytest.approx(min(found))
    assert made.slope == GAP_SLOPES[int(np.argmin(found))]


def test_the_same_seed_gives_the_same_certificate_and_progress_is_told():
    problem, told = PROBLEMS["ties"](), []
    log = uniform_log(problem, samples=80, seed=0)
    options = {"epsilon": 0.3, "delta": 0.2, "draws": 30}
    one = pb.certify_asymptotically(log, problem.policies, rng=4, progress=told.append, **options)
    two = pb.certify_asymptotically(log, problem.policies, rng=4, **options)
    three = pb.certify_asymptotically(log, problem.policies, rng=np.random.default_rng(5), **options)
    assert one.to_json() == two.to_json()
    assert one.seed == 4
    assert three.seed is None
    assert three.certified_epsilon != one.certified_epsilon
    assert told == [f"draw {i} of 30" for i in range(1, 31)]


def errors(problem, *, samples, epsilon, delta, runs, draws):
    """Claims further off than they say, and how many logs were certified at ε."""
    best, wrong, certified = problem.value(problem.best_policy()), 0, 0
    for seed in range(runs):
        log = uniform_log(problem, samples=samples, seed=seed)
        made = pb.certify_asymptotically(log, problem.policies, epsilon=epsilon, delta=delta, rng=seed, draws=draws)
        wrong += best - problem.value(made.policy) > made.certified_epsilon + 1e-12
        certified += made.certified
    return wrong, certified


CASES = {
    **{name: (make, size, EPSILON) for (name, make), size in zip(PROBLEMS.items(), (40, 60, 40, 40, 60), strict=True)},
    "crowd": (crowd, 350, 0.1),
    "loner": (lambda: crowd(weight=0.55), 350, 0.1),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["crowd", *list(CASES)[:2]])  # all of them over many runs
def test_errors_are_about_as_rare_as_delta_says(name):
    make, samples, epsilon = CASES[name]
    wrong, certified = errors(make(), samples=samples, epsilon=epsilon, delta=0.2, runs=60, draws=20)
    assert wrong <= binom.ppf(1 - RARE, 60, 0.2)
    assert certified > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_errors_are_about_as_rare_as_delta_says_over_many_runs(name):
    make, samples, epsilon = CASES[name]
    for delta in (0.2, 0.05):
        wrong, _ = errors(make(), samples=samples, epsilon=epsilon, delta=delta, runs=300, draws=100)
        assert wrong <= binom.ppf(0.999, 300, 1.2 * delta)  # an approximation is allowed a little


@pytest.mark.thorough
def test_rules_that_forget_something_err_too_often():
    """Or the tests above could not fail: believe the gaps in full and look at the certified policy alone."""
    problem, wrong = crowd(policies=400), 0
    policies, best = problem.policies, problem.value(problem.best_policy())
    for seed in range(60):
        log = uniform_log(problem, samples=250, seed=seed)
        scores = Scores(Ledger.of(log, np.full(log.propensities.shape, 0.5)))
        chosen = choose(scores, policies, epsilon=0.1)
        own, rng = chosen(scores.contexts), np.random.default_rng(seed)
        alone = own[None].astype(np.uint8)
        drawn = bootstrap(scores, policies, reference=own, rivals=alone, draws=40, rng=rng, slopes=(1.0,))
        distance = order_statistic(drawn.suprema - drawn.heights, delta=0.05)[0]
        wrong += best - problem.value(chosen) > max(distance, 0.0) + 1e-12
    assert wrong > binom.ppf(0.999, 60, 0.05)


def test_nothing_about_it_can_be_mistaken_for_a_proof():
    problem = pb.load_problem(TREES)
    log = uniform_log(problem, samples=800, seed=0)
    for epsilon, certified in ((0.4, True), (0.01, False)):
        made = pb.certify_asymptotically(log, problem.policies, epsilon=epsilon, delta=0.1, rng=0, draws=20)
        assert made.certified is certified
        given = json.loads(json.dumps(made.to_json()))
        assert given["kind"] == AsymptoticCertificate.kind
        assert given["approximate"] is True
        assert AsymptoticCertificate.from_json(given).to_json() == given
        with pytest.raises(pb.InputError, match="an approximate certificate, and no proof that could be rechecked"):
            pb.verify(made, log, problem.policies)
        assert given["claim"].startswith("approximately, and not as a proof")
        assert "approximation" in given["assumptions"][0]
        assert "fixed in advance" in given["assumptions"][1]
        with pytest.raises(pb.InputError, match="not a pacbandits certificate"):
            Certificate.from_json(given)
        console = Console(width=200, file=io.StringIO())
        console.print(render_terminal(asymptotic_document(made)))
        text = console.file.getvalue()
        assert text.startswith("an approximate certificate, which is not a proof")
        assert made.describe() in text
    proof = pb.certify(log, problem.policies, epsilon=0.4, delta=0.1).certificate.to_json()
    with pytest.raises(pb.InputError, match="not a pacbandits asymptotic certificate"):
        AsymptoticCertificate.from_json(proof)
    few = pb.certify_asymptotically(
        uniform_log(problem, samples=4, seed=0), problem.policies, epsilon=0.01, delta=0.1, rng=0, draws=20
    )
    assert any("was played only" in words for words in few.assumptions)


def test_it_asks_for_fewer_samples_than_a_proof():
    problem = pb.load_problem(TREES)
    log = uniform_log(problem, samples=900, seed=0)
    about = pb.certify_asymptotically(log, problem.policies, epsilon=0.15, delta=0.05, rng=0, draws=100)
    assert (
        about.certified_epsilon
        < pb.certify(log, problem.policies, epsilon=0.15, delta=0.05).certificate.certified_epsilon
    )


def test_ties_and_single_policies_are_no_trouble():
    alone = make_problem([[0.2, 0.8]], table=[[1]])
    made = pb.certify_asymptotically(
        uniform_log(alone, samples=50, seed=0), alone.policies, epsilon=0.1, delta=0.1, rng=0, draws=20
    )
    assert made.certified_epsilon == 0
    same = make_problem([[0.5, 0.5]], table=[[0], [0], [0]])
    made = pb.certify_asymptotically(
        uniform_log(same, samples=50, seed=0), same.policies, epsilon=0.1, delta=0.1, rng=0, draws=20
    )
    assert made.certified_epsilon == 0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"draws": 19}, "draws must be 1/delta = 20 or more, got 19"),
        ({"delta": 1.0}, "delta must lie strictly between 0 and 1"),
        ({"epsilon": 0.0}, "needs an epsilon above 0"),
        ({"policies": Trivial(2, 4)}, "the log has 3 actions, but the policies have 4"),
    ],
)
def test_bad_input_is_one_line(changed, words):
    problem = PROBLEMS["every-map"]()
    options = {"policies": problem.policies, "epsilon": 0.1, "delta": 0.05, "rng": 0} | changed
    with pytest.raises(pb.InputError, match=words) as error:
        pb.certify_asymptotically(uniform_log(problem, samples=20, seed=0), **options)
    assert "\n" not in str(error.value)


def test_an_action_that_could_not_be_drawn_is_refused():
    log = Log.of(
        Contexts.finite(2), actions=[0, 1], rewards=[0.0, 1.0], propensities=[[0.5, 0.5, 0.0], [0.2, 0.4, 0.4]]
    )
    with pytest.raises(pb.InputError, match="action 2 could not be drawn in row 0"):
        pb.certify_asymptotically(log, Trivial(2, 3), epsilon=0.1, delta=0.1, rng=0)


def test_a_log_that_knows_the_played_propensity_alone_gives_the_same_draws():
    problem = PROBLEMS["every-map"]()
    log = uniform_log(problem, samples=300, seed=0)
    alone = Log.of_played(
        log.contexts,
        actions=log.actions,
        rewards=log.rewards,
        played=log.played_propensities,
        least=np.zeros(log.propensities.shape),
        repeats=log.repeats,
    )
    options = {"epsilon": 0.3, "delta": 0.1, "rng": 0, "draws": 40}
    one, two = (pb.certify_asymptotically(each, problem.policies, **options) for each in (log, alone))
    assert one.certified_epsilon == pytest.approx(two.certified_epsilon)
