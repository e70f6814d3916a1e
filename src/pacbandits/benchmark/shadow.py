"""The certificate of a trial that somebody else plays: what would be proven of a rival's log, had it been watched.

A trial of ours looks over the rival's shoulder. It bets on what the rival plays, whose propensities are known before
they are played, at stakes that suit them, with a reward model of the earlier rows: all that `coda` and `uniform` do for
themselves. So what the rival lacks, it lacks by what it explores. As with them, a look comes after a third of what
seems to be missing, between 1/25 and 3/10 of what was seen, at the next end of a round of the rival: so it is up to a
round late, which is 5 % of what was seen where nothing else is said, half of that on average, and more for who plays
longer rounds. A rival that plays all actions alike is certified when `uniform` is, but for that and chance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pacbandits.arrays import FloatArray
from pacbandits.policies.base import PolicyClass
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Log, RewardBounds, Sampler
from pacbandits.trials.exploration import REDESIGN_GROWTH_FACTOR, design_task, explore_with
from pacbandits.trials.trial import Exploration, Trial, TrialPlan, TrialState, merge

# Of uniform exploration, what stakes are made for where a rival plays an action more rarely: none would suit a policy
# on actions that are never played, which nothing can prove.
PRICED_FLOOR_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class _Floored:
    """A sampler and a little of everything, by which stakes are found.

    sampler: the one that is played.
    """

    sampler: Sampler

    @property
    def n_actions(self) -> int:
        return self.sampler.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """p(a|c) as (n, A)."""
        played = self.sampler.propensities(contexts)
        return (1.0 - PRICED_FLOOR_SHARE) * played + PRICED_FLOOR_SHARE / self.n_actions


@dataclass(frozen=True)
class Watched(Trial):
    """A trial whose rounds somebody else plays.

    sampler: what is played next.
    """

    name = "watched"

    sampler: Sampler | None = field(default=None, kw_only=True)

    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """What is played; its price is found anew once the data have grown by half."""
        assert self.sampler is not None
        current = state.current
        if current is not None and current.since > 0 and state.samples < REDESIGN_GROWTH_FACTOR * current.since:
            return replace(current, sampler=self.sampler)
        task = design_task(state, state.fitted, epsilon=self.accuracy(state), floor=0.0)
        return replace(explore_with(state, task, _Floored(self.sampler)), sampler=self.sampler)


@dataclass(frozen=True, eq=False)
class Shadow:
    """What is proven so far of what somebody else plays.

    trial: that watches.
    state: after the last look.
    plan: of the rounds since then: their stake, fixed before the first of them, and how many rows to wait for.
    waiting: what was played since then.
    """

    trial: Watched
    state: TrialState
    plan: TrialPlan | None = None
    waiting: tuple[tuple[Sampler, Log], ...] = ()

    @classmethod
    def started(
        cls, policies: PolicyClass, contexts: Contexts, *, epsilon: float, delta: float, rewards: RewardBounds
    ) -> Shadow:
        """Nothing seen."""
        trial = Watched(epsilon, delta, rewards=rewards)
        return cls(trial, trial.start(policies, contexts))

    def before(self, sampler: Sampler) -> Shadow:
        """Fix the stake of the rows that a sampler is about to draw, unless it was fixed for rows still waiting."""
        if self.state.finished or self.plan is not None:
            return self
        return replace(self, plan=replace(self.trial, sampler=sampler).design(self.state))

    def after(self, sampler: Sampler, log: Log) -> Shadow:
        """Add the rows that were drawn; certify all rows once as many have come as the plan waits for."""
        if self.state.finished:
            return self
        assert self.plan is not None
        waiting = (*self.waiting, (sampler, log))
        if sum(one.samples for _, one in waiting) < self.plan.samples:
            return replace(self, waiting=waiting)
        log, played = waiting[0][1], self.state.played
        for _, later in waiting[1:]:
            log = log.followed_by(later)
        for sampler, one in waiting:
            played = merge(played, sampler, one.samples)
        grown, latest, leader, calls = self.trial.learn(self.state, self.plan, log, played=played)
        state = grown.after(
            self.plan,
            log,
            policy=latest.policy,
            finished=latest.certified,
            oracle_calls=calls,
            leader=leader,
            missing=max(latest.threshold - latest.value, 0.0),
            certificate=latest,
        )
        return replace(self, state=state, plan=None, waiting=())
