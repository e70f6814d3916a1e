"""No expert grows rich by itself: wealth against the truth, on the boundary, after every row, whoever kept the log.

Each test looks at many runs of one expert at ε = the true lead of π* over q, where wealth is a martingale, by two
measures: how often it ever doubles, or grows fivefold, which happens with probability 1/2 and 1/5 at most; and its
mean at the moment when it first doubles, or at the end, which is 1. `tests/mutants` has what these tests are to notice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from pacbandits.certificate import Bets, Ledger, in_blocks
from pacbandits.certificate.certify import EXPERT_STAKES
from pacbandits.compiled import using_cores
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts, Log
from pacbandits.rewards import CellMeans, predict_by_round
from pacbandits.trials.coda import Coda, NoisyDesign
from pacbandits.trials.trial import multipliers_of
from tests.certificate import plain
from tests.certificate.boundary import (
    RARE,
    Game,
    Pair,
    after_a_failure,
    after_a_reward,
    by_context,
    chase,
    contrary,
    even,
    evidence_of_growth,
    most,
    play,
    rare,
    restless,
    stop_where_it_hurts,
    sure_of_itself,
    wealth_of,
)

RUNS, MANY_RUNS, ROWS = 1500, 20_000, 160
LEVELS = (0.5, 0.2)


@pytest.fixture(autouse=True)
def _one_core():
    with using_cores(1):
        yield


def stopped(paths):
    """Log-wealth (R,) at the first moment when it has doubled, or at the last."""
    doubled = paths >= np.log(2)
    first = np.where(doubled.any(axis=1), doubled.argmax(axis=1), paths.shape[1] - 1)
    return paths[np.arange(len(paths)), first]


def check(paths, *, levels=LEVELS):
    """Raise if log-wealth (R, moments) is more than a martingale's that starts at 1."""
    assert np.isfinite(paths).all()
    for level in levels:
        reached = (paths.max(axis=1) >= -np.log(level)).sum()
        assert reached <= most(len(paths), level), f"{reached} of {len(paths)} reached {1 / level:g}"
    at_doubling = stopped(paths)
    assert evidence_of_growth(at_doubling) < -np.log(RARE), f"a mean of {np.exp(at_doubling).mean():.3f}"


UNEVEN = Pair.of([[0.35, 0.35, 0.65], [0.5, 0.5, 0.5]], rival=[2, 2], reference=[0, 1])
PLAIN = Pair.of([[0.3, 0.6], [0.6, 0.4]], rival=[1, 0], reference=[0, 0])
MIXED = Pair.of([[0.1, 0.9], [0.6, 0.5]], weights=[0.4, 0.6], rival=[1, 1], reference=[0, 0])
RARE_CONTEXT = Pair.of([[0.5, 0.5], [0.05, 0.95]], weights=[0.9, 0.1], rival=[0, 1], reference=[0, 0])
NEAR_SURE = Pair.of([[0.999, 0.9], [0.9, 0.999]], rival=[0, 1], reference=[1, 0])
SURE_REFERENCE = Pair.of([[0.999, 0.999], [0.2, 0.8]], weights=[0.8, 0.2], rival=[1, 1], reference=[0, 0])
WAVERING = (0.45, 0.05, 0.2)  # stakes that change with every round
GAMES = {
    "even": Game(UNEVEN),
    "chase": Game(UNEVEN, chase),
    "stop-where-it-hurts": Game(UNEVEN, stop_where_it_hurts),
    "rare-rival": Game(UNEVEN, rare(2, 0.01)),
    "rare-reference": Game(PLAIN, rare(0, 0.01)),
    "rare-reference-that-is-sure-to-earn": Game(SURE_REFERENCE, rare(0, 0.01), sure_of_itself),
    "by-context": Game(MIXED, by_context),
    "rare-context": Game(RARE_CONTEXT, scales=(0.45,)),
    "near-sure-rewards": Game(NEAR_SURE, scales=(0.45,)),
    "near-sure-rewards-chased": Game(NEAR_SURE, chase, sure_of_itself),
    "contrary-predictions": Game(UNEVEN, even, contrary),
    "certain-predictions": Game(PLAIN, chase, sure_of_itself),
    "rounds-that-end-with-a-reward": Game(PLAIN, chase, ends=after_a_reward, scales=WAVERING),
    "rounds-that-end-with-a-failure": Game(PLAIN, even, ends=after_a_failure, scales=WAVERING),
    "played-propensities": Game(UNEVEN, chase, least=0.02),
    "played-propensities-nothing-declared": Game(PLAIN, stop_where_it_hurts, least=0.0),
    "some-actions-never": Game(UNEVEN, restless),
}
# Where some actions are never played wealth is only bounded by a martingale.
LOSING = ("some-actions-never",)


def paths_of(name, *, runs):
    game = replace(GAMES[name], multipliers=(1.0, 0.3))
    return wealth_of(game, play(game, runs=runs, rows=ROWS, seed=7))


@pytest.mark.first(1)
@pytest.mark.parametrize("name", GAMES)
def test_no_expert_grows_rich_whoever_keeps_the_log(name):
    for paths in paths_of(name, runs=RUNS):
        check(paths)
        # Nor does one grow poor, or nothing would be tested.
        assert np.exp(stopped(paths)).mean() > (0.5 if name in LOSING else 0.85)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_no_expert_grows_rich_in_many_runs(name):
    for paths in paths_of(name, runs=MANY_RUNS):
        check(paths)


class Spiteful:
    """A reward model that knows by heart what it has seen, and predicts so that q would look good on that.

    The score of a row falls with the prediction of π's action if that was played, and else with its opposite; for q the
    other way round. Of rows that it has not seen it knows nothing, and its spite is in vain.
    """

    def fit(self, log):
        return SpitefulMemory(dict(zip(log.contexts.ids.tolist(), log.actions.tolist(), strict=True)))

    def to_json(self):
        return {"kind": "spiteful"}


@dataclass(frozen=True)
class SpitefulMemory:
    """What was played in each context the last time; of two actions, π's is the second."""

    played: dict[int, int]

    def predict(self, contexts):
        last = [self.played.get(i, 0.5) for i in contexts.ids.tolist()]
        return np.repeat(np.array(last, dtype=float)[:, None], 2, axis=1)


KNOWN = 1500  # contexts of a run, more than rows


def stacked_blocks(*, runs, rows, seed):
    """A log without rounds, cut into blocks, so many times over: contexts have ids of their own in every run."""
    rng = np.random.default_rng(seed)
    run, here = np.repeat(np.arange(runs), rows), rng.integers(KNOWN, size=runs * rows)
    actions = rng.integers(2, size=len(run))
    rewards = (rng.random(len(run)) < np.where(actions == 1, 0.6, 0.4)).astype(float)
    ids = run * KNOWN + here
    log = Log.of(
        Contexts.of(ids[:, None].astype(float), ids=ids),
        actions=actions,
        rewards=rewards,
        propensities=np.full((len(run), 2), 0.5),
    )
    return replace(log, rounds=np.tile(in_blocks(log.take(np.arange(rows))).rounds, runs))


@pytest.mark.first(1)
@pytest.mark.parametrize("model", [CellMeans(strength=1.0), Spiteful()], ids=["cells", "spiteful"])
def test_no_expert_of_certify_grows_rich_by_models_of_earlier_blocks(model):
    """The model of each block as `certify` fits it, by the blocks before."""
    runs, rows = 300, 700
    log = stacked_blocks(runs=runs, rows=rows, seed=3)
    ledger = Ledger.of(replace(log, contexts=replace(log.contexts, ids=None)), predict_by_round(log, model))
    assert ledger.n_rounds > 2
    bets = Bets(EXPERT_STAKES, (1.0,) * ledger.n_rounds)
    for expert in range(0, 6, 2):
        factors = plain.wealth_against(
            ledger, np.zeros(len(log), dtype=int), bets=bets.stakes(expert), share=bets.share, epsilon=0.2
        )
        check(np.cumsum(factors[:, 1].reshape(runs, rows), axis=1))


LEAD = 0.3


def crossroads():
    """Six actions of which two matter, so that a design of one's own is worth it; q is worse by LEAD."""
    means = np.full((2, 6), 0.5)
    means[0, 0], means[0, 5] = 0.5 - LEAD, 0.5 + LEAD
    policies = Finite([[0, 0], [0, 5], [5, 0], [5, 5]], n_actions=6)
    return Problem("crossroads", "", Contexts.finite(2), means, Bernoulli(), policies)


def trial_paths(problem, *, seed, rounds):
    """The log-wealth (K, rows) of a trial's experts for its last policy against its first, row by row, rows of a round
    in random order; and whether it played a design of its own."""
    rng = np.random.default_rng(seed)
    trial = Coda(LEAD, 1e-200, pilot=24, growth=0.6)  # with so small a δ it is never done
    state = trial.start(problem.policies, problem.population)
    for _ in range(rounds):
        plan = trial.design(state)
        state = trial.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
    log = state.log
    rows = rng.permutation(np.repeat(np.arange(len(log)), log.repeats))
    rows = rows[np.argsort(log.rounds[rows], kind="stable")]
    single = replace(log.take(rows), repeats=np.ones(len(rows), dtype=int))
    ledger = Ledger.of(
        replace(single, contexts=replace(single.contexts, ids=None)), np.ascontiguousarray(state.predictions[rows])
    )
    bets = Bets(multipliers_of(state), state.scales)
    rival, reference = (problem.policies.policy(i)(single.contexts) for i in (3, 0))
    paths = [
        plain.wealth_against(ledger, reference, bets=bets.stakes(k), share=bets.share, epsilon=LEAD)
        for k in range(len(bets))
    ]
    every = np.arange(len(rows))
    own = any(isinstance(sampler, NoisyDesign) for sampler, _ in state.played)
    return np.cumsum([scores[every, rival] for scores in paths], axis=1), own


def check_trials(*, runs, rounds):
    problem = crossroads()
    found = [trial_paths(problem, seed=i, rounds=rounds) for i in range(runs)]
    assert sum(own for _, own in found) > 0.8 * runs  # or nothing would be tested
    length = max(paths.shape[1] for paths, _ in found)
    for expert in range(len(found[0][0])):
        paths = [np.pad(paths[expert], (0, length - paths.shape[1]), mode="edge") for paths, _ in found]
        check(np.array(paths))


@pytest.mark.slow
def test_no_expert_of_a_trial_grows_rich_by_its_own_designs():
    check_trials(runs=150, rounds=5)


@pytest.mark.slow
def test_no_expert_of_a_trial_grows_rich_in_many_runs():
    check_trials(runs=800, rounds=8)
