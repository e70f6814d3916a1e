"""Folders of states in use: interrupted, shared with others, taken over from another trial or from an older version."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from tests.trials.disks import FailingDisk
from tests.trials.saving_cases import FINITE, TRIVIAL, beginning, led, names, same, sealed

from pacbandits import load_state, save_state
from pacbandits.errors import InputError
from pacbandits.simulation import run
from pacbandits.trials.state_folder import StateFolder

BUSY = "is in use: another process or thread runs, saves or loads a trial there; wait until it has ended"
RUN = {"algorithm": "coda:pilot=50", "epsilon": 0.3, "delta": 0.1, "rng": 1}


@pytest.mark.first(1)
@pytest.mark.parametrize("step", [0, 1, 2, 4, 5, 6, 9, 10])
def test_an_interruption_before_the_last_rename_leaves_the_old_state(step, tmp_path):
    algorithm, states = beginning(TRIVIAL)
    save_state(tmp_path, algorithm, states[3])
    with pytest.raises(KeyboardInterrupt):
        save_state(StateFolder(tmp_path, FailingDisk(step, KeyboardInterrupt())), algorithm, states[4])
    same(load_state(tmp_path)[1], states[3])
    assert names(tmp_path).count("contexts.parquet") == 1
    assert not list(tmp_path.glob(".*"))


def test_a_new_trial_takes_the_place_of_an_old_one(tmp_path):
    """Of all its files, and not before the last is written."""
    one, (other, states) = led(), beginning(FINITE)
    save_state(tmp_path, *one)
    with pytest.raises(InputError, match="No space left"):  # for the last file
        save_state(StateFolder(tmp_path, FailingDisk(11, OSError(28, "No space left"))), other, states[2])
    same(load_state(tmp_path)[1], one[1])
    save_state(tmp_path, other, states[2])
    same(load_state(tmp_path)[1], states[2])
    assert names(tmp_path) == ["contexts.parquet", "log.parquet", "state.json", "state.lock"]


def test_a_folder_of_another_format_is_refused(tmp_path):
    algorithm, states = beginning(TRIVIAL)
    save_state(tmp_path, algorithm, states[3])
    given = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / "state.json").write_text(sealed(given | {"format": 3}))
    with pytest.raises(InputError, match=r"has format 3, and this version reads format \d+, as trials prove otherwise"):
        load_state(tmp_path)


@pytest.mark.thorough
def test_nobody_else_can_use_the_folder_of_a_run(tmp_path):
    algorithm, states = beginning(FINITE)
    impatient, refused = StateFolder(tmp_path, patience_seconds=0), []

    def watch(_):
        for use in (
            lambda: load_state(impatient),
            lambda: save_state(impatient, algorithm, states[1]),
            lambda: run(FINITE, state=impatient, **RUN),
        ):
            with pytest.raises(InputError, match=f"^{tmp_path} {BUSY}"):
                use()
            refused.append(use)

    done = run(FINITE, state=tmp_path, watch=watch, **RUN)
    assert len(refused) >= 3 * done.rounds > 3
    assert load_state(impatient)[1].samples == done.samples
    assert run(FINITE, state=impatient, **RUN).samples == done.samples


@pytest.mark.thorough
def test_the_command_refuses_a_folder_that_is_in_use(command, tmp_path):
    hold = "import sys; from pacbandits.trials.state_folder import held_alone; from pathlib import Path\n"
    hold += "with held_alone(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    arguments = [sys.executable, "-c", hold, tmp_path / "state.lock"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        code, out, err = command("run", FINITE, "--epsilon", 0.3, "--state", tmp_path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{tmp_path} {BUSY}" in err
        other.kill()
    code, _, err = command("run", FINITE, "--epsilon", 0.3, "--state", tmp_path)
    assert (code, err) == (0, "")


def test_looking_for_a_state_leaves_nothing_behind(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match=r"holds no saved state: there is no state\.json in it"):
            load_state(folder)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ['{"pos": 625}', '{"pos": -1}', '{"key": [1]}', '{"pos": true}', '{"extra": 1}'])
def test_random_numbers_that_stood_nowhere_are_refused(text, tmp_path):
    """numpy would read beyond the end of its table, and take what lies there."""

    def draw():
        return np.random.Generator(np.random.MT19937(5))

    options = RUN | {"max_samples": 1}
    run(FINITE, state=tmp_path, **(options | {"rng": draw()}))
    path = tmp_path / "state.json"
    given = json.loads(path.read_text())
    given["notes"]["random"]["state"] |= json.loads(text)
    path.write_text(sealed(given))
    with pytest.raises(InputError, match=r"holds another run: the .*state of its random numbers must"):
        run(FINITE, state=tmp_path, **(options | {"rng": draw()}))
