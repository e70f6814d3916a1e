"""The plain randomised trial, with the same certificate as `coda`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pacbandits.progress import Progress
from pacbandits.trials.exploration import design_task, explore_uniformly, still_recent
from pacbandits.trials.protocol import Profile, Setting
from pacbandits.trials.trial import DEFAULT_GROWTH, Exploration, Growth, Pilot, Trial, TrialState, Wanted


@dataclass(frozen=True)
class Uniform(Trial):
    """The plain randomised trial with the same certificate: every action equally likely, all the time.

    epsilon, delta: how near to the best, 0 for the best itself, and with what probability of being wrong.
    rewards: must be known to lie in [0, 1].
    model: the reward model; by default one that fits the contexts.
    pilot: the size of the first round, by default 50 an action, or 200.
    growth: the largest round, as a share of what was seen.
    single: whether a lottery between policies will not do.

    >>> import pacbandits as pb
    >>> done = pb.run("trivial:contexts=2,actions=2", algorithm=pb.Uniform(epsilon=0.2, delta=0.05), rng=1)
    >>> done.certificate.certified
    True
    """

    name: ClassVar[str] = "uniform"
    profile: ClassVar[Profile] = Profile(
        name="uniform",
        source="the plain randomised trial with the same certificate",
        classes="any",
        assumes="rewards in [0, 1]",
        guarantees="(ε, δ)-PAC at any stopping time, with a certificate that `verify` rechecks",
        samples="until the certificate holds",
        certifies=True,
        keeps_state=True,
    )

    @classmethod
    def made_for(
        cls, setting: Setting, *, pilot: Pilot = 0, growth: Growth = DEFAULT_GROWTH, answer: Wanted = "lottery"
    ) -> Uniform:
        """The trial for this setting."""
        return cls(
            setting.epsilon,
            setting.delta,
            rewards=setting.rewards,
            pilot=pilot or None,
            growth=growth,
            single=answer == "single",
        )

    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """Uniform exploration; only the scale of the bets is found anew."""
        if (recent := still_recent(state)) is not None:
            return recent
        task = design_task(state, state.fitted, epsilon=self.accuracy(state), floor=0.0)
        return explore_uniformly(state, task)
