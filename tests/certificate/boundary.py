"""Many runs at once on the boundary of what a certificate denies: π* leads q by exactly the ε that is asked for.

There the wealth of an expert against (π*, q) is a nonnegative martingale that starts at 1, whoever chooses
propensities, predictions and rounds by what came before; so it ever reaches 1/α with probability α at most, and but for
its last jump with no less. That is as sharp as a test of validity can be: whatever makes wealth grow by itself shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import binom

from pacbandits.certificate import Bets, Ledger
from pacbandits.records import Contexts, Log
from tests.certificate import plain

RARE = 1e-6  # how seldom a test of something true may fail, over the choice of its seed


@dataclass(frozen=True, eq=False)
class Pair:
    """A truth and two policies on it.

    means (C, A): of rewards that are 0 or 1.
    weights (C,): of contexts.
    rival (C,): what π* plays.
    reference (C,): what q plays.
    """

    means: np.ndarray
    weights: np.ndarray
    rival: np.ndarray
    reference: np.ndarray

    @classmethod
    def of(cls, means, *, weights=None, rival, reference):
        means = np.array(means, dtype=float)
        shares = np.full(len(means), 1 / len(means)) if weights is None else np.array(weights, dtype=float)
        return cls(means, shares, np.array(rival), np.array(reference))

    @property
    def lead(self) -> float:
        """V(π*) − V(q)."""
        rows = np.arange(len(self.means))
        return float(self.weights @ (self.means[rows, self.rival] - self.means[rows, self.reference]))


@dataclass(frozen=True, eq=False)
class Past:
    """What happened in each of R runs so far.

    totals, counts (R, C, A): rewards, and how often an action was played.
    rewards (R,): of the last row.
    """

    totals: np.ndarray
    counts: np.ndarray
    rewards: np.ndarray

    @property
    def guesses(self) -> np.ndarray:
        """Means (R, C, A) of what was earned, pulled to one half."""
        return (self.totals + 0.5) / (self.counts + 1)


Table = Callable[[Past, np.random.Generator], np.ndarray]


def even(past, rng):
    """Every action alike."""
    return np.full(past.totals.shape, 1 / past.totals.shape[2])


def rare(action, share):
    """One action with this probability, the others alike."""

    def table(past, rng):
        shape = past.totals.shape
        out = np.full(shape, (1 - share) / (shape[2] - 1))
        out[..., action] = share
        return out

    return table


def chase(past, rng):
    """Play seldom whatever earned most so far, so that what is known of it hangs on few rows."""
    shape = past.totals.shape
    out = np.full(shape, 0.98 / (shape[2] - 1))
    np.put_along_axis(out, past.guesses.argmax(axis=2)[..., None], 0.02, axis=2)
    return out


def stop_where_it_hurts(past, rng):
    """Play the last action until it first fails in a context, then hardly ever again: failures stand."""
    failed = past.counts[..., -1] > past.totals[..., -1]
    last = np.where(failed, 0.02, 0.9)[..., None]
    others = past.totals.shape[2] - 1
    return np.concatenate([np.repeat((1 - last) / others, others, axis=2), last], axis=2)


def by_context(past, rng):
    """q's action is rare in one context and common in the next."""
    out = even(past, rng)
    share = np.where(np.arange(out.shape[1]) % 2, 0.9, 0.1)
    out[..., 0] = share
    out[..., 1:] = ((1 - share) / (out.shape[2] - 1))[:, None]
    return out


def restless(past, rng):
    """Propensities that jump about, some of them 0."""
    out = rng.dirichlet(np.full(past.totals.shape[2], 0.3), size=past.totals.shape[:2])
    out = np.where(out < 1e-3, 0, out)
    return out / out.sum(axis=2, keepdims=True)


def learn(past, rng):
    """What was earned so far."""
    return past.guesses


def contrary(past, rng):
    """The opposite of what was earned."""
    return 1 - past.guesses


def sure_of_itself(past, rng):
    """What was earned, as if it were certain."""
    return np.round(past.guesses)


def after_a_reward(past):
    """The round is over with a reward."""
    return past.rewards == 1


def after_a_failure(past):
    """The round is over with a failure."""
    return past.rewards == 0


def after_rows(count):
    """The round is over after so many rows."""

    def over(past):
        return past.counts.sum(axis=(1, 2)) % count == 0

    return over


@dataclass(frozen=True, eq=False)
class Game:
    """How rows come about.

    pair: whom it is about.
    logging: propensities (R, C, A) of the next row, given the past.
    predict: predictions (R, C, A) for it.
    ends: whether the round is over (R,), given the past with its last row.
    scales: of the bets in the rounds, over and over.
    multipliers: of the experts.
    least: what every propensity is at least, if the log tells the played ones alone.
    lead: which of the policies in `table` (L, C) leads in the next round of each run (R,), given the past.
    """

    pair: Pair
    logging: Table = even
    predict: Table = learn
    ends: Callable[[Past], np.ndarray] = field(default=lambda past: np.zeros(len(past.rewards), dtype=bool))
    scales: tuple[float, ...] = (0.3,)
    multipliers: tuple[float, ...] = (1.0,)
    least: float | None = None
    table: np.ndarray | None = None
    lead: Callable[[Past, np.random.Generator], np.ndarray] | None = None


@dataclass(frozen=True, eq=False)
class Played:
    """The rows of R runs, run after run.

    log: without ids, so that each row is a context of its own.
    contexts (R·n,): which one it was.
    predictions (R·n, A): for the row.
    runs: R.
    leaders (R·n,): who led when the row was played; 0 where nobody is asked to.
    """

    log: Log
    contexts: np.ndarray
    predictions: np.ndarray
    runs: int
    leaders: np.ndarray


def play(game: Game, *, runs: int, rows: int, seed: int) -> Played:
    """So many rows of so many runs, each row by what came before it in its run."""
    pair, rng, every = game.pair, np.random.default_rng(seed), np.arange(runs)
    shape = (runs, *pair.means.shape)
    past = Past(np.zeros(shape), np.zeros(shape), np.zeros(runs))
    contexts = rng.choice(len(pair.weights), p=pair.weights, size=(runs, rows))
    actions, rounds = (np.zeros((runs, rows), dtype=int) for _ in range(2))
    rewards = np.zeros((runs, rows))
    propensities, predictions = (np.zeros((runs, rows, shape[2])) for _ in range(2))
    number, leader, fresh = np.zeros(runs, dtype=int), np.zeros(runs, dtype=int), np.ones(runs, dtype=bool)
    leaders = np.zeros((runs, rows), dtype=int)
    for i in range(rows):
        here = contexts[:, i]
        if game.lead is not None:
            leader = np.where(fresh, game.lead(past, rng), leader)
        leaders[:, i] = leader
        propensities[:, i] = game.logging(past, rng)[every, here]
        predictions[:, i] = game.predict(past, rng)[every, here]
        edges = np.cumsum(propensities[:, i], axis=1)
        drawn = rng.random((runs, 1)) * edges[:, -1:]
        action = (drawn >= edges).sum(axis=1)
        reward = (rng.random(runs) < pair.means[here, action]).astype(float)
        actions[:, i], rewards[:, i], rounds[:, i] = action, reward, number
        past.totals[every, here, action] += reward
        past.counts[every, here, action] += 1
        past = Past(past.totals, past.counts, reward)
        fresh = game.ends(past)
        number = number + fresh
    whole = runs * rows
    columns = {"actions": actions.reshape(whole), "rewards": rewards.reshape(whole), "rounds": rounds.reshape(whole)}
    p, seen = propensities.reshape(whole, -1), contexts.reshape(whole)
    features = Contexts.of(seen[:, None].astype(float))
    if game.least is None:
        log = Log.of(features, propensities=p, **columns)
    else:
        played = p[np.arange(whole), columns["actions"]]
        log = Log.of_played(features, played=played, least=np.full_like(p, game.least), **columns)
    return Played(log, seen, predictions.reshape(whole, -1), runs, leaders.reshape(whole))


def separate(played: Played, *, contexts: int) -> list[Log]:
    """The log of each run by itself, its contexts known by their ids."""
    known, rows = Contexts.finite(contexts), len(played.log) // played.runs
    parts = [np.arange(run * rows, (run + 1) * rows) for run in range(played.runs)]
    return [replace(played.log.take(part), contexts=known.take(played.contexts[part])) for part in parts]


def wealth_of(game: Game, played: Played) -> np.ndarray:
    """The log-wealth (K, R, n) of each expert in each run, after each row, at ε = the lead."""
    ledger = Ledger.of(played.log, played.predictions)
    bets = Bets(game.multipliers, tuple(game.scales[i % len(game.scales)] for i in range(ledger.n_rounds)))
    rows, rival = np.arange(len(played.log)), game.pair.rival[played.contexts]
    out = []
    for expert in range(len(bets)):
        factors = plain.wealth_against(
            ledger,
            game.pair.reference[played.contexts],
            bets=bets.stakes(expert),
            share=bets.share,
            epsilon=game.pair.lead,
        )
        out.append(np.cumsum(factors[rows, rival].reshape(played.runs, -1), axis=1))
    return np.array(out)


def most(runs: int, rate: float) -> float:
    """How many of so many runs may fail where each does with this probability at most."""
    return float(binom.ppf(1 - RARE, runs, rate))


def fewest(runs: int, rate: float) -> float:
    """How many of so many runs fail at least where each does with this probability at least."""
    return float(binom.ppf(RARE, runs, rate))


def evidence_of_growth(log_wealth: np.ndarray) -> float:
    """How strongly the runs (R,) speak against a mean wealth of 1 or less, in nats: an e-value, whatever the tails.

    Stake a share on every run in turn: `Π_r (1 + η(W_r − 1))` has mean 1 at most, and so has its average over η.
    """
    shares = np.array([0.02, 0.05, 0.1, 0.2])
    grown = np.log1p(shares[:, None] * np.expm1(log_wealth)).sum(axis=1)
    return float(np.logaddexp.reduce(grown) - np.log(len(shares)))
