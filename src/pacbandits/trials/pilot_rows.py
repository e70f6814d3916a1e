"""Rows of a pilot that count in a trial: they open its wealth, and teach its reward model, its leaders and its designs.

A pilot is a randomised log with the propensities of all actions, fixed as a whole before the trial begins. Its rows are
the first rows of the trial's log, and its rounds the first rounds.

Why the certificate stays valid. Let G_i hold all rows before row i, of the pilot and then of the trial, and whatever
the trial knew when row i was assigned. Given G_i, the context of row i is a draw from ν and its action a draw from the
propensities of the row: in the trial because it plays so; in the pilot because that was randomised too, and its people
come from the same population (an assumption that the certificate states, and that its test for drift can contradict).
Leader, stake and predictions of a round are functions of the rows before it: of a round of the pilot they are computed
later, from those rows alone. So they are in G_i, the wealth is a supermartingale from the pilot's first row on, and
Ville's inequality holds for all rows together. Nothing is tested twice, and no part of δ is spent on the pilot.

That needs rows of the pilot in an order in which each is a fresh draw, given those before it:

- A pilot with rounds keeps them: its propensities, and when it ended, may depend on earlier rounds.
- The rows of a pilot without rounds are independent draws in any order, if neither its propensities nor its end
  depended on its rewards, which the certificate states. They are sorted by their contents, so that nobody chooses their
  order, and cut into rounds as a trial would be: its first round, and then a share of the rows so far.

It breaks if the rewards of the pilot chose the policy class, the actions or the question; if one of several pilots was
taken because of its rewards; if rows were left out by their rewards; or if a stake depends on the contexts or the
propensities of rows to come: so the propensities of the pilot, by which stakes are set, are estimated from earlier
rounds, and those of its first round are taken to be even.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from pacbandits.arrays import FloatArray, spatial
from pacbandits.certificate.certificate import CountedPilot
from pacbandits.certificate.content_order import sorted_by_content
from pacbandits.certificate.conventions import has_rounds
from pacbandits.checks import instance
from pacbandits.errors import InputError, count_of, plain
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Design, Log, Policy, check_log, likeliest
from pacbandits.records.columns import comparable
from pacbandits.records.log import check_all_in, digest_log
from pacbandits.records.log_metadata import UNIT_RANGE
from pacbandits.records.metrics import AnyMetric, metric_columns
from pacbandits.records.policy import call
from pacbandits.trials.coda import design_task, explore_with, still_recent
from pacbandits.trials.protocol import check_like
from pacbandits.trials.trial import Exploration, Trial, TrialPlan, TrialState, nominal_variance

MAX_SEPARATE_ROWS = 10**7  # of a pilot without rounds, whose repeated interactions become rows of their own
MAX_STORED_ROWS = 10**6  # of a pilot in a database
MANY_ALIKE_SHARE = 0.9  # of distinct contexts: with fewer, people who are alike need not be the same
MAX_ROUNDING_STEPS = 20  # of numbers that are stored in other units; they settle after one or two
MAX_SCALE_ROUNDING = 1e-6  # of stakes, relative, between machines
LABEL_DISTANCE = 1e3  # between contexts with different labels, in standard deviations of a number


@dataclass(frozen=True, eq=False)
class ArrangedPilot:
    """The rows of a pilot in the order in which they count.

    log: its rows, in rounds from 0.
    record: what certificates record of it.
    """

    log: Log
    record: CountedPilot


@dataclass(frozen=True, eq=False)
class LoggedSampler:
    """The propensities with which a log was played: their mean in each of its contexts.

    A context that it lacks has those of the nearest one, by the features; of all rows, if there are none.

    contexts (m): the distinct contexts of the log.
    table (m, A): their mean propensities.
    overall (A,): the mean of all rows.
    """

    contexts: Contexts
    table: FloatArray
    overall: FloatArray

    @classmethod
    def of(cls, log: Log) -> LoggedSampler:
        """Return the sampler of a log."""
        first, which = log.contexts.distinct()
        sums = np.zeros((len(first), log.n_actions))
        np.add.at(sums, which, log.repeats[:, None] * log.propensities)
        counts = np.bincount(which, weights=log.repeats)
        return cls(log.contexts.take(first), sums / counts[:, None], sums.sum(axis=0) / counts.sum())

    @property
    def n_actions(self) -> int:
        return self.table.shape[1]

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        mine, out = self.contexts, np.tile(self.overall, (len(contexts), 1))
        if np.ptp(self.table, axis=0).max() == 0:
            return out
        if mine.n_features:
            out = self.table[self._tree.query(self._points(contexts.features))[1]]
        if mine.ids is not None and contexts.ids is not None:
            spot = np.minimum(np.searchsorted(mine.ids, contexts.ids), len(mine.ids) - 1)  # distinct ids are sorted
            same = mine.ids[spot] == contexts.ids
            out[same] = self.table[spot[same]]
        return out

    @cached_property
    def _tree(self) -> Any:
        return spatial.KDTree(self._points(self.contexts.features))

    @cached_property
    def _scales(self) -> FloatArray:
        """The units of distance (d,)."""
        present = np.where(np.isnan(self.contexts.features), 0.0, self.contexts.features)
        spread = present.std(axis=0)
        labelled = np.array([labels is not None for labels in self.contexts.categories])
        return np.where(labelled, 1.0 / LABEL_DISTANCE, np.where(spread > 0, spread, 1.0))

    def _points(self, features: FloatArray) -> FloatArray:
        return np.where(np.isnan(features), -LABEL_DISTANCE, features / self._scales)


def check_pilot(
    pilot: Log,
    policies: PolicyClass,
    contexts: Contexts,
    *,
    action_names: tuple[str, ...] | None = None,
    reward_range: tuple[float, float] = UNIT_RANGE,
    metrics: Sequence[AnyMetric] = (),
    dates: tuple[str, ...] = (),
) -> Log:
    """Return the rows of a pilot as rows of a trial; raise InputError, with the remedy, if they cannot count in it.

    policies, contexts, action_names, …: those of the trial. Actions, features and labels are put into its order.
    """
    pilot = _with_actions(check_log(pilot), action_names)
    named, span, n_actions, names = action_names, reward_range, policies.n_actions, pilot.action_names
    if names is not None and named is None and names == tuple(str(a) for a in range(len(names))):
        names = None
    if names != named:
        theirs, own = (_words(each, count) for each, count in ((names, pilot.n_actions), (named, n_actions)))
        raise InputError(f"the pilot has the actions {theirs}, and the trial {own}; give both the same")
    if pilot.n_actions != n_actions:
        raise InputError(
            f"the pilot has {count_of(pilot.n_actions, 'action')} and the trial {n_actions:,}; a pilot counts if it "
            "could play every action of the trial, and no other: log a propensity for each"
        )
    if pilot.least is not None:
        raise InputError(
            "the pilot has the propensity of the played action alone, and rows that count need that of every action; "
            "log them all (propensities), or state them if they were the same for everyone (--split a=0.5,b=0.5)"
        )
    check_all_in(pilot.rewards, by="a pilot that counts")
    low, high = pilot.reward_range
    if (outside := (pilot.rewards < 0) | (pilot.rewards > 1)).any():
        row = int(np.argmax(outside))
        raise InputError(
            f"row {row} of the pilot has a reward of {low + (high - low) * pilot.rewards[row]:.6g}, outside "
            f"{low:g} to {high:g}; rescale all rewards, of the pilot and of the trial"
        )
    if (low, high) != span:
        raise InputError(
            f"the rewards of the pilot lie in {low:g} to {high:g}, and those of the trial in {span[0]:g} to "
            f"{span[1]:g}; state the same range for both"
        )
    if (least := pilot.propensities.min(axis=1)).min() <= 0:
        row = int(least.argmin())
        action = plain(call(int(pilot.propensities[row].argmin()), named))
        raise InputError(
            f"row {row} of the pilot could not play {action}: its propensity is 0; rows count if every action "
            "was possible in all of them, so take the rounds in which it was, or a pilot of other people"
        )
    if pilot.units is not None and pilot.n_units < len(pilot):
        raise InputError(
            f"the {len(pilot):,} rows of the pilot are of {pilot.n_units:,} people, and a trial takes each row for "
            "another person; keep the first row of everybody"
        )
    if contexts.ids is not None and pilot.contexts.ids is None:
        raise InputError(
            "the contexts of the trial have ids, and the rows of the pilot have no column context_id; log it, as "
            "`run --log` does"
        )
    if contexts.ids is None and pilot.contexts.ids is not None:
        pilot = replace(pilot, contexts=replace(pilot.contexts, ids=None))
    pilot = replace(pilot, contexts=_with_labels(pilot.contexts, contexts))
    try:
        check_like(contexts, pilot.contexts)
    except InputError as error:
        raise InputError(f"the pilot cannot count: {error}") from None
    if missing := [metric.name for metric in metrics if metric not in pilot.metrics]:
        raise InputError(f"the pilot lacks the metric '{plain(missing[0])}'; log it there too, or leave out the pilot")
    return replace(pilot, known=None, units=None, action_names=named, dates=dates).only_metrics(metrics)


def _with_actions(log: Log, names: tuple[str, ...] | None) -> Log:
    """Return a log with its actions in the order of these names; as it is if it has others."""
    own = log.action_names
    if names is None or own is None or own == names or sorted(own) != sorted(names):
        return log
    order = np.array([own.index(name) for name in names])
    least = None if log.least is None else log.least[:, order]
    actions = np.argsort(order)[log.actions]
    return replace(log, actions=actions, propensities=log.propensities[:, order], least=least, action_names=names)


def _with_labels(contexts: Contexts, like: Contexts) -> Contexts:
    """Return contexts with the features and labels of others in their order; as they are if they have others."""
    if sorted(contexts.names) != sorted(like.names):
        return contexts
    places = [contexts.names.index(name) for name in like.names]
    features, own = contexts.features[:, places].copy(), [contexts.categories[place] for place in places]
    if [labels is None for labels in own] != [labels is None for labels in like.categories]:
        return contexts
    for j, (labels, mine) in enumerate(zip(like.categories, own, strict=True)):
        if labels is None or mine is None or labels == mine:
            continue
        there = ~np.isnan(features[:, j])
        codes = np.array([labels.index(label) if label in labels else -1 for label in mine])
        coded = codes[features[there, j].astype(np.int64)]
        if (coded < 0).any():
            strange = mine[int(features[there, j][int(np.argmax(coded < 0))])]
            raise InputError(
                f"the pilot has '{plain(strange)}' in the feature '{plain(like.names[j])}', and the contexts of the "
                "trial do not; take contexts that have all labels"
            )
        features[there, j] = coded
    return replace(contexts, features=features, names=like.names, categories=like.categories)


def _words(names: Sequence[str] | None, count: int) -> str:
    return f"0 to {count - 1}" if names is None else plain(", ".join(names))


def arrange_pilot(trial: Trial, pilot: Log) -> ArrangedPilot:
    """Return the checked rows of a pilot in the order in which they count: by its rounds, or by their contents."""
    if has_rounds(pilot):
        _, numbers = np.unique(pilot.rounds, return_inverse=True)
        order = np.argsort(numbers, kind="stable")
        log = replace(pilot.take(order), rounds=numbers[order].astype(np.int64))
        digest, by_content = digest_log(log), False
    else:
        if pilot.samples > MAX_SEPARATE_ROWS:
            raise InputError(
                f"a pilot of {pilot.samples:,} interactions is too large to be sorted; write its rounds (column "
                "round), in the order in which they were played"
            )
        rows = np.repeat(np.arange(len(pilot)), pilot.repeats)
        apart = replace(pilot.take(rows), repeats=np.ones(len(rows), dtype=np.int64))
        log = sorted_by_content(replace(apart, rounds=np.zeros(len(rows), dtype=np.int64)))
        digest, by_content = digest_log(log), True
        ends = [trial.first_round_size(pilot.n_actions)]
        while ends[-1] < len(log):
            ends.append(ends[-1] + max(1, int(trial.growth * ends[-1])))
        rounds = np.searchsorted(np.array(ends), np.arange(len(log)), side="right")
        log = replace(log, rounds=rounds.astype(np.int64))
    record = CountedPilot(len(log), log.samples, int(log.rounds[-1]) + 1, by_content, digest)
    # The log of the trial says it, too, so that a certificate without it is refused.
    return ArrangedPilot(replace(log, remarks=(*log.remarks, record.assumption)), record)


def arrange_stored(
    trial: Trial, pilot: Log | ArrangedPilot, policies: PolicyClass, contexts: Contexts, *, taught: bool, **told: Any
) -> ArrangedPilot:
    """Return the rows of a pilot in the order in which they count, one by one, as a database will return them.

    taught: whether the contexts taught the policy class, so that they must be of other people. told: as for
    `check_pilot`.
    """
    if isinstance(pilot, ArrangedPilot):  # of a protocol of which this is a changed copy
        log = pilot.log
        pilot = replace(log, rounds=np.zeros_like(log.rounds)) if pilot.record.by_content else log
    instance(pilot, Log, name="pilot", remedy="make one by Log.of or read_log")
    checked = check_pilot(pilot, policies, contexts, **told)
    if checked.samples > MAX_STORED_ROWS:
        raise InputError(
            f"a pilot of {checked.samples:,} rows is too large for an experiment, which stores each of them; at most "
            f"{MAX_STORED_ROWS:,} can count"
        )
    if taught and _are_of(checked.contexts, contexts):
        raise InputError(
            "the contexts that define the policy class are those of the pilot, whose rows are then no evidence: take "
            "the contexts of other people, or leave out the pilot"
        )
    rows = np.repeat(np.arange(len(checked)), checked.repeats)
    each = replace(checked.take(rows), repeats=np.ones(len(rows), dtype=np.int64), remarks=())
    values = each.metric_values
    if values is not None:
        columns = metric_columns(each.metrics)
        values = np.column_stack([as_stored(values[:, j], one.low, one.high) for j, one in enumerate(columns)])
    return arrange_pilot(
        trial, replace(each, rewards=as_stored(each.rewards, *each.reward_range), metric_values=values)
    )


def _are_of(some: Contexts, others: Contexts) -> bool:
    """Return whether contexts are probably the same people as others.

    They are if all are the same; or, where hardly two people are alike, if most of them are among the others.
    """
    mine, theirs = (np.unique(comparable(one.features), axis=0) for one in (some, others))
    if len(some) == len(others) and np.array_equal(mine, theirs):
        return True
    both = len(np.unique(np.concatenate([mine, theirs]), axis=0))
    shared = len(mine) + len(theirs) - both
    return len(mine) > MANY_ALIKE_SHARE * len(some) and shared > MANY_ALIKE_SHARE * min(len(mine), len(theirs))


def as_stored(values: FloatArray, low: float, high: float) -> FloatArray:
    """Return values in [0, 1] as they are after they were stored in units from low to high."""
    for _ in range(MAX_ROUNDING_STEPS):
        before, values = values, np.clip((low + (high - low) * values - low) / (high - low), 0.0, 1.0)
        if np.array_equal(before, values):
            break
    return values


def follow_bets(
    trial: Trial, start: TrialState, pilot: ArrangedPilot, scales: Sequence[float], leaders: Sequence[Policy | None]
) -> Literal["follow", "tied", "differ"]:
    """Return whether stakes and leaders of a pilot's rounds follow from the rows before each.

    "tied": they do, if ties between policies, up to rounding, are broken as these leaders say.
    """
    for told in (None, dict(enumerate(leaders))):
        made = add_pilot(trial, start, pilot, told=told)
        turns = (-1,) * pilot.record.rounds if made.leaders is None else made.leaders.turns
        led = [None if made.leaders is None or turn < 0 else made.leaders.policies[turn] for turn in turns]
        same = all(
            (one is None) == (other is None) and (one is None or other is None or one.to_json() == other.to_json())
            for one, other in zip(led, leaders, strict=True)
        )
        if same and np.allclose(made.scales, scales, rtol=MAX_SCALE_ROUNDING, atol=0):
            return "follow" if told is None else "tied"
    return "differ"


def add_pilot(
    trial: Trial, state: TrialState, pilot: ArrangedPilot, *, told: Mapping[int, Policy | None] | None = None
) -> TrialState:
    """Return the state of a trial that begins with the rounds of a pilot; state: the one that `start` returned.

    told: leaders by round, to be preferred where policies tie up to rounding; for verification.
    """
    if state.finished:
        return state
    state, last = replace(state, pilot=pilot.record), pilot.record.rounds - 1
    for number in range(last + 1):
        part = pilot.log.only(pilot.log.rounds == number)
        explored = _explore(trial, state)
        plan = TrialPlan(
            round_number=state.round_number + 1,
            epsilon=trial.epsilon,
            sampler=explored.sampler,
            samples=_planned(state, part, pilot.record),
            oracle_calls=explored.oracle_calls,
            details={"price": explored.price},
            exploration=replace(explored, oracle_calls=0),
            scale=trial.scale(state, explored),
        )
        seen = part if state.log is None else state.log.followed_by(part)
        played = ((LoggedSampler.of(seen), seen.samples),)
        if number < last:
            grown, ledger = trial.add_round(state, plan, part, played=played)
            leader = trial.choose_leader(grown, ledger, told=(told or {}).get(number + 1))
            state = grown.after(plan, part, policy=state.policy, finished=False, oracle_calls=1, leader=leader)
        else:
            state = trial.count_round(state, plan, part, played=played)
    assert state.current is not None
    # The trial chooses its own exploration next, and until then the price of the pilot's is the latest.
    even = Exploration(Design.uniform(likeliest(state.policy)), state.current.price, 0)
    return replace(state, current=even)


def _planned(state: TrialState, part: Log, pilot: CountedPilot) -> int:
    """Return the size of a pilot's next round as it was known before the round: the share of weight that moves uses it.

    Blocks of rows by contents are planned. Whoever closed rounds may have seen their rewards: they are taken to be
    planned as large as all rounds before together.
    """
    before = 0 if state.log is None else state.log.samples
    return part.samples if pilot.by_content else max(1, before)


def _explore(trial: Trial, state: TrialState) -> Exploration:
    """Return the exploration of a pilot's next round with its price, by the rounds before it alone."""
    if state.log is None:
        price = nominal_variance(state.policies.n_actions) / trial.accuracy(state) ** 2
        return Exploration(Design.uniform(likeliest(state.policy)), price, 0)
    sampler, recent = LoggedSampler.of(state.log), still_recent(state)
    if recent is not None or trial.improve_on is not None:
        assert state.current is not None
        return replace(state.current if recent is None else recent, sampler=sampler)
    task = design_task(state, state.fitted, epsilon=trial.accuracy(state), floor=0.0)
    return explore_with(state, task, sampler)
