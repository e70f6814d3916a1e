"""Runs whose state is saved in a folder after every round, and that resume from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pacbandits.errors import InputError, plain
from pacbandits.fields import Json
from pacbandits.policies import class_from_json, class_to_json
from pacbandits.policies.base import PolicyClass
from pacbandits.problems import Problem
from pacbandits.records.digest import digest
from pacbandits.simulation.randomness import random_state, set_random_state
from pacbandits.trials.folders import StateFolder
from pacbandits.trials.packing import pack_state
from pacbandits.trials.protocol import Algorithm, State
from pacbandits.trials.stored import describe_algorithm, is_built_in
from pacbandits.trials.trial import Trial, TrialState
from pacbandits.trials.unpacking import read_notes, read_state


@dataclass(frozen=True, eq=False)
class Kept:
    """A run whose state is kept in a folder, which must be held from before `resume` until after the last `keep`.

    folder: where it is kept.
    algorithm, policies: of the run.
    asked: what a run that goes on there must have been asked, too.
    rng: of everything that is drawn.
    """

    folder: StateFolder
    algorithm: Trial
    policies: PolicyClass
    asked: dict[str, Any]
    rng: np.random.Generator

    @classmethod
    def checked(
        cls,
        folder: StateFolder,
        algorithm: Algorithm[Any],
        problem: Problem,
        policies: PolicyClass,
        rng: np.random.Generator,
        *,
        asked: Mapping[str, Any],
    ) -> Kept:
        """The same, or a sentence where a state cannot be kept; before anything is played.

        asked: beside the problem and the algorithm, by the names that a sentence has for it.
        """
        if not isinstance(algorithm, Trial):
            raise InputError(
                f"the state of {algorithm.name} cannot be kept, only that of a trial: coda, uniform, or your own that "
                "extends Trial"
            )
        class_to_json(policies)
        describe_algorithm(algorithm)
        before = {
            "problem": problem.name,
            "problem's digest": _contents(problem)[:12],
            "algorithm": algorithm.name,
            **asked,
        }
        return cls(folder, algorithm, policies, before, rng)

    def keep(self, state: State) -> None:
        """Write the state and that of the random numbers."""
        assert isinstance(state, TrialState)
        notes = {"asked": self.asked, "random": random_state(self.rng)}
        packed = pack_state(self.algorithm, state, notes=notes)
        self.folder.replace(packed.state, packed.tables)

    def resume(self) -> State | None:
        """The state that the folder holds, if any, with the random numbers set to where they were."""
        if not self.folder.holds_state():
            if tables := [name for name in self.folder.tables() if name.startswith("log")]:
                raise InputError(f"{self.folder} holds a {tables[0]} but no saved state; take another folder")
            return None
        self._check_asked()
        own = None if is_built_in(self.algorithm) else self.algorithm
        saved = read_state(self.folder, model=self.algorithm.model, policies=self.policies, algorithm=own)
        self._check_options(saved.algorithm)
        try:
            set_random_state(self.rng, saved.notes.get("random"))
        except InputError as error:
            raise self._other(str(error)) from None
        return saved.state

    def _check_asked(self) -> None:
        """Raise unless the folder's run was asked the same, of the same class."""
        notes, described = read_notes(self.folder)
        before: object = notes.get("asked")
        if not isinstance(before, dict) or cast(Json, before).keys() != self.asked.keys():
            raise InputError(f"{self.folder} holds a state that no run has left there; take another folder")
        for name, new in self.asked.items():
            old = cast(Json, before)[name]
            if old != new:
                raise self._other(f"its {name} was {plain(old)}, and is {plain(new)} now")
        try:
            class_from_json(described, self.policies)
        except InputError:
            raise self._other("its policy class was another") from None

    def _check_options(self, saved: Trial) -> None:
        """Raise unless the folder's algorithm had the same options."""
        before, now = describe_algorithm(saved), describe_algorithm(self.algorithm)
        for name in now:
            if before.get(name) != now[name]:
                raise self._other(f"its {name} was {plain(before.get(name))}, and is {plain(now[name])} now")

    def _other(self, difference: str) -> InputError:
        return InputError(
            f"{self.folder} holds another run: {difference}; take another folder, or the same options as before"
        )


def _contents(problem: Problem) -> str:
    """SHA-256 of what rewards come of, as files of one name may differ."""
    tables = (problem.population.features, problem.population.weights, problem.mean_rewards, problem.noise_variance)
    return digest([type(problem.noise).__name__, *(np.ascontiguousarray(table).tobytes() for table in tables)])
