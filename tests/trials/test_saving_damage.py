"""Folders that were damaged, interrupted or mixed up are refused in a line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.certificate.test_search import ArgmaxOnly
from tests.trials.saving_cases import (
    FINITE,
    TRIVIAL,
    direct,
    same,
    table,
)

from pacbandits import load_state, save_state
from pacbandits.errors import InputError
from pacbandits.trials.coda import Coda


def altered(path):
    """One character of the figures changed."""
    text = path.read_text()
    assert text.count('"since": ') == 1
    path.write_text(text.replace('"since": ', '"since": 1'))


DAMAGES = {
    "no folder": (lambda folder: [path.unlink() for path in folder.iterdir()], "holds no saved state: there is no"),
    "no log": (lambda folder: table(folder, "log").unlink(), r"cannot be resumed: no file at .*log-\w+\.parquet"),
    "no contexts": (lambda folder: table(folder, "contexts").unlink(), "cannot be resumed: no file at"),
    "no state": (lambda folder: (folder / "state.json").unlink(), r"there is no state\.json in it"),
    "half a state": (
        lambda folder: (folder / "state.json").write_bytes((folder / "state.json").read_bytes()[:-100]),
        r"cannot be resumed: \S*state\.json is not JSON; restore it from a copy, or begin anew in another folder",
    ),
    "half a log": (
        lambda folder: table(folder, "log").write_bytes(table(folder, "log").read_bytes()[:-100]),
        "cannot be resumed: .* is not a readable Parquet file",
    ),
    "an altered state": (lambda folder: altered(folder / "state.json"), r"state\.json was altered or damaged"),
    "binary": (lambda folder: (folder / "state.json").write_bytes(b"\xff\xfe\x00"), "is not JSON"),
    "a list": (lambda folder: (folder / "state.json").write_text("[1]"), "is not a saved state of this package"),
    "another JSON": (lambda folder: (folder / "state.json").write_text("{}"), "is not a saved state of this package"),
    "the future": (
        lambda folder: (folder / "state.json").write_text('{"kind": "pacbandits state", "format": 99}'),
        "has format 99, and this version reads format 5, as trials prove otherwise now; finish it with the version",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused_in_one_line(damage, tmp_path):
    algorithm, _, states, _ = direct("coda", FINITE)
    save_state(tmp_path, algorithm, states[4])
    spoil, words = DAMAGES[damage]
    spoil(tmp_path)
    with pytest.raises(InputError, match=words) as caught:
        load_state(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["log", "contexts"])
def test_tables_of_another_run_are_refused(kind, tmp_path):
    algorithm, _, states, _ = direct("coda", FINITE)
    save_state(tmp_path / "one", algorithm, states[3])
    other, _, others, _ = direct("coda", TRIVIAL)
    save_state(tmp_path / "two", other, others[-1])
    older = tmp_path / "older.parquet"
    (states[2].log if kind == "log" else states[3].contexts.take([0, 1])).write(older)
    for source in (table(tmp_path / "two", kind), older):
        table(tmp_path / "one", kind).write_bytes(source.read_bytes())
        words = rf"cannot be resumed: {kind}-\w+\.parquet (has \d+ rows|is not what state\.json)"
        with pytest.raises(InputError, match=words):
            load_state(tmp_path / "one")
    save_state(tmp_path / "one", algorithm, states[3])
    changed = replace(states[3].log, rewards=1.0 - states[3].log.rewards)
    changed.write(table(tmp_path / "one", "log"))
    with pytest.raises(InputError, match=r"log-\w+\.parquet is not what state\.json was written with"):
        load_state(tmp_path / "one")
    save_state(tmp_path / "one", algorithm, states[3])  # puts the table right, though there was one of its name
    same(load_state(tmp_path / "one")[1], states[3])


def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path):
    algorithm, problem, states, _ = direct("coda", FINITE)
    folder = tmp_path / "state"

    class Mine(Coda):
        pass

    class Coin:
        n_actions = 10

        def propensities(self, contexts):
            return np.full((len(contexts), 10), 0.1)

    oracle = algorithm.start(ArgmaxOnly(problem.policies), problem.population)
    odd = replace(states[1], played=((Coin(), 100),), current=replace(states[1].current, sampler=Coin()))
    alone = replace(odd, current=replace(odd.current, sampler=odd.played[0][0]))
    crowd = replace(states[1], log=replace(states[1].log, repeats=np.full(len(states[1].log), 2**53)))
    for one, state, words in (
        (Mine(0.1, 0.1), states[0], "the state of Mine cannot be kept while it is called 'coda'"),
        (algorithm, oracle, "the policy class ArgmaxOnly has no description in JSON"),
        (algorithm, odd, "not one that absorb returned"),
        (algorithm, alone, "played by a Coin cannot be saved"),
        (algorithm, crowd, r"cannot be saved; at most 2\^53"),
    ):
        with pytest.raises(InputError, match=words):
            save_state(folder, one, state)
        assert not folder.exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write to .*file"):
        save_state(tmp_path / "file", algorithm, states[0])
