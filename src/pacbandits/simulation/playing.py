"""Playing rounds until an algorithm has its answer, or something else ends them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pacbandits.errors import InputError
from pacbandits.problems import Problem
from pacbandits.progress import Progress
from pacbandits.simulation.kept import Kept
from pacbandits.simulation.outcome import Stage, Stopped, Watch
from pacbandits.trials.protocol import Algorithm, Plan, State


@dataclass(frozen=True, eq=False)
class Play:
    """An algorithm at play.

    problem: that draws contexts and rewards.
    algorithm: that designs rounds and learns from them.
    rng: of everything that is drawn.
    max_samples: no round is begun that would exceed it.
    watch: is told what goes on.
    kept: where the state is kept after every round.
    """

    problem: Problem
    algorithm: Algorithm[Any]
    rng: np.random.Generator
    max_samples: int | None = None
    watch: Watch | None = None
    kept: Kept | None = None

    def rounds(self, state: State) -> tuple[State, Stopped, str]:
        """The last state from this one on, why no other follows, and that in words."""
        try:
            while True:
                self._tell(state, "designing")
                plan = self.algorithm.design(state, progress=self._while_designing(state))
                if plan is None:
                    return state, "done", ""
                refused = self._refusal(plan, state)
                if refused is not None:
                    return replace(state, oracle_calls=state.oracle_calls + plan.oracle_calls), *refused
                self._tell(state, f"playing {plan.samples:,}")
                log = self.problem.interact(
                    plan.sampler, samples=plan.samples, rng=self.rng, round_number=state.round_number
                )
                self._tell(state, f"learning from {plan.samples:,}")
                state = self.algorithm.absorb(state, plan, log)
                if self.kept is not None:
                    self.kept.keep(state)
        except KeyboardInterrupt:
            return state, "interrupted", f"interrupted in round {state.round_number + 1}"

    def _while_designing(self, state: State) -> Progress:
        return lambda text: self._tell(state, f"designing, {text}")

    def _tell(self, state: State, doing: str) -> None:
        """Say what goes on, to whoever watches."""
        if self.watch is None:
            return
        number = state.round_number + (0 if state.finished else 1)
        certified = None
        if state.certificate is not None:
            certified = min(state.certificate.certified_epsilon, 1.0)
        elif certifies(self.algorithm):
            certified = 1.0
        self.watch(
            Stage(
                doing,
                number,
                max(getattr(self.algorithm, "rounds", 0), number),
                state.samples,
                state.policy.describe(),
                certified_epsilon=certified,
            )
        )

    def _refusal(self, plan: Plan, state: State) -> tuple[Stopped, str] | None:
        """Why a round cannot be played, if it cannot."""
        left = None if self.max_samples is None else max(self.max_samples - state.samples, 0)
        if left is not None and plan.samples > left:
            asked = f"{plan.samples:,}" if plan.samples < 10**15 else f"{plan.samples:.3g}"
            return "budget", f"round {plan.round_number} asks for {asked} interactions, and {left:,} are left"
        try:
            self.problem.check_affordable(plan.samples)
        except InputError as error:
            return "memory", f"round {plan.round_number}: {error}"
        return None


def certifies(algorithm: Algorithm[Any]) -> bool:
    """Whether an algorithm says that its answers carry a certificate."""
    return bool(getattr(getattr(algorithm, "profile", None), "certifies", False))
