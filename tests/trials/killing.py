"""Processes that are killed again and again while they keep a state: `python killing.py FOLDER STRIDE`.

It plays a run that nothing disturbs, and then the same run in children of its own, each killed before another step of
its disk, of which it takes each STRIDE-th. Whoever goes on from there must come to the same result, to the last bit.
Prints a line for every kill that did no harm: its step, and what else went on.

    alone      the run is taken up again after the kill
    beside     a second process tries to play the same run all the while, and takes over
    both       the same, and the second is killed too, some steps later; then a third takes over
    another    no run, but a new trial that is saved in an old one's folder
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
from tests.trials.disks import CountingDisk, KillingDisk
from tests.trials.saving_cases import same

from pacbandits.compiled import using_cores
from pacbandits.errors import InputError
from pacbandits.problems import load_problem
from pacbandits.records.log import digest_log
from pacbandits.simulation import run
from pacbandits.trials.coda import Coda
from pacbandits.trials.saved_state import load_state, save_state
from pacbandits.trials.state_folder import Disk, StateFolder

SPEC = "two-of-many:actions=4,policies=10,contexts=4"
OTHER = "trivial:contexts=3,actions=3,gap=0.3"
STEPS_TO_THE_SECOND_KILL = 7


class RememberingDisk(CountingDisk):
    """Keeps what state.json was at each step."""

    def __init__(self):
        super().__init__()
        self.saved, self.last, self.written = [], None, b""

    def write(self, file, data):
        super().write(file, data)
        self.written = data

    def rename(self, old, new):
        super().rename(old, new)
        if new.name == "state.json":
            self.last = self.written

    def at_step(self, name, *what):
        self.saved.append(self.last)


def play(folder, disk=None):
    """The run, as far as it can be told from what it returns."""
    state = StateFolder(folder, disk or Disk())
    done = run(PROBLEM, algorithm="coda:pilot=60", epsilon=0.15, delta=0.1, rng=3, state=state)
    told = {name: value for name, value in done.to_json().items() if name != "seconds"}
    return json.dumps([told, digest_log(done.log)])


def play_stubbornly(folder, disk=None):
    """The run, as soon as nobody else plays there."""
    while True:
        try:
            return play(folder, disk)
        except InputError as error:
            if "is in use" not in str(error):
                raise


def in_child(task, *arguments):
    """The number of a child that does this."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            task(*arguments)
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    return child


def ended(child):
    """How a child ended: 0, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_old_or_new(folder, step, saved):
    """That state.json is what an undisturbed run had before that step or after it, with all that belongs to it."""
    path = folder / "state.json"
    found = path.read_bytes() if path.exists() else None
    assert found in saved[step : step + 2], "another state than the old and the new one"
    if found is not None:
        load_state(folder)


def kill_runs(base, mode, steps, saved, expected):
    for step in steps:
        folder = base / f"{mode}-{step}"
        first = in_child(play_stubbornly, folder, KillingDisk(step))
        if mode == "alone":
            assert ended(first) == -signal.SIGKILL
            check_old_or_new(folder, step, saved)
        else:
            last = step + STEPS_TO_THE_SECOND_KILL if mode == "both" else -1
            second = in_child(play_stubbornly, folder, KillingDisk(last))
            assert {ended(first), ended(second)} <= {0, -signal.SIGKILL}
        assert play(folder) == expected, "another result"
        assert not list(folder.glob(".*")), "temporary files are left"
        print(mode, step, flush=True)
        shutil.rmtree(folder)


def kill_saves(base, stride):
    """A new trial in an old one's folder."""
    trial = Coda(0.2, 0.1, pilot=40)
    states = {}
    for spec in (SPEC, OTHER):
        problem = load_problem(spec)
        state = trial.start(problem.policies, problem.population)
        plan = trial.design(state)
        log = problem.interact(plan.sampler, samples=plan.samples, rng=RNG)
        states[spec] = trial.absorb(state, plan, log)
    counted = CountingDisk()
    save_state(base / "count", trial, states[SPEC])
    save_state(StateFolder(base / "count", counted), trial, states[OTHER])
    for step in range(0, counted.steps, stride):
        folder = base / f"another-{step}"
        save_state(folder, trial, states[SPEC])
        child = in_child(save_state, StateFolder(folder, KillingDisk(step)), trial, states[OTHER])
        assert ended(child) == -signal.SIGKILL
        found = load_state(folder)[1]
        same(found, states[SPEC] if found.policies.n_actions == 4 else states[OTHER])
        save_state(folder, trial, states[OTHER])
        same(load_state(folder)[1], states[OTHER])
        assert len(list(folder.iterdir())) == 4, "files are left over"
        print("another", step, flush=True)


def main():
    base, stride = Path(sys.argv[1]), int(sys.argv[2])
    disk = RememberingDisk()
    expected = play(base / "undisturbed", disk)
    saved = [*disk.saved, disk.last]
    assert disk.steps > 100
    for shift, mode in enumerate(("alone", "beside", "both")):
        kill_runs(base, mode, range(shift % stride, disk.steps, stride), saved, expected)
    kill_saves(base, max(stride // 4, 1))


if __name__ == "__main__":
    PROBLEM, RNG = load_problem(SPEC), np.random.default_rng(0)
    with using_cores(1):  # a process with threads had better not be forked
        main()
