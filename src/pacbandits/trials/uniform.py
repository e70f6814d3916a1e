"""The plain randomised trial, with the same certificate as `coda`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pacbandits.progress import Progress
from pacbandits.trials.exploration import design_task, explore_uniformly, still_recent
from pacbandits.trials.protocol import Profile, Setting
from pacbandits.trials.trial import DEFAULT_GROWTH, Exploration, Growth, Pilot, Trial, TrialState, fit


@dataclass(frozen=True)
class Uniform(Trial):
    """The plain randomised trial with the same certificate: every action equally likely, all the time."""

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
    def made_for(cls, setting: Setting, *, pilot: Pilot = 0, growth: Growth = DEFAULT_GROWTH) -> Uniform:
        """The trial for this setting."""
        return cls(setting.epsilon, setting.delta, **cls.options_for(setting, pilot=pilot, growth=growth))

    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """Uniform exploration; only the scale of the bets is found anew."""
        if (recent := still_recent(state)) is not None:
            return recent
        task = design_task(state, fit(state), epsilon=self.epsilon, floor=0.0)
        return explore_uniformly(state, task)
