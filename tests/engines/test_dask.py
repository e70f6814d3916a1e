"""Sums and simulations by real Dask clusters on this machine: the same bits, whoever works and whoever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from pacbandits.engines import Local, LogSource
from pacbandits.engines import dask as crew
from pacbandits.engines.base import ROWS_PER_BLOCK
from pacbandits.engines.dask import DaskEngine
from pacbandits.errors import InputError
from pacbandits.planning import Limits
from pacbandits.planning.simulated_trials import simulate
from pacbandits.progress import heard_by
from pacbandits.simulation import repeat
from tests.engines.clusters import Deadly, Refused, Slow, Stored, Sums, look_up, made_log, store
from tests.planning.cases import question, supposed

SMALL = "two-of-many:actions=4,policies=10,contexts=5"


@pytest.fixture(scope="module")
def engine():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "2")
        patch.delenv("PYTHONHASHSEED", raising=False)
        with DaskEngine(workers=2) as made:
            yield made
        assert os.environ["OPENBLAS_NUM_THREADS"] == "2"
        assert "PYTHONHASHSEED" not in os.environ


@pytest.fixture(scope="module")
def log():
    return made_log()


@pytest.fixture(scope="module")
def wanted(log):
    return Local("threads").ask(LogSource(log), Sums(), what="adding")


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def timeless(run):
    return run.to_json() | {"seconds": 0}


@contextmanager
def killing(folder, victim):
    """Meanwhile, once two blocks have been begun, somebody dies; victim: is told the marks that they left."""

    def kill():
        while len(marks := sorted(Path(folder).iterdir())) < 2:
            time.sleep(0.01)
        os.kill(victim(marks), signal.SIGKILL)

    thread = Thread(target=kill)
    thread.start()
    yield
    thread.join()


@contextmanager
def process(*arguments, path=None, **options):
    """A process of a cluster, as its owner would start it."""
    paths = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[2])] if path is None else [str(path)]
    started = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stderr=subprocess.DEVNULL,
        **options,
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def scheduler(folder):
    """The scheduler of somebody else's cluster: its address."""
    told = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", told)
    with process("-m", "distributed.cli.dask_scheduler", *options):
        while not told.exists() or not told.read_text().endswith("}"):
            time.sleep(0.02)
        yield json.loads(told.read_text())["address"]


def worker(address, *, path=None):
    options = ("--nthreads", 1, "--no-nanny", "--no-dashboard")
    return process("-m", "distributed.cli.dask_worker", address, *options, path=path)


@pytest.mark.first(1)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("tasks_per_worker", [1, 3])
def test_rows_in_memory_give_the_same_bits(engine, log, wanted, workers, tasks_per_worker):
    with DaskEngine(scheduler=engine.scheduler, workers=workers, tasks_per_worker=tasks_per_worker) as made:
        assert same(made.ask(LogSource(log), Sums(), what="adding"), wanted)


@pytest.mark.thorough
def test_workers_may_add_up_among_themselves(engine, log, wanted, tmp_path, monkeypatch):
    monkeypatch.setattr("pacbandits.engines.dask.MANY_SLOTS", 1)
    monkeypatch.setattr("pacbandits.engines.dask.TASKS_ADDED_UP", 4)
    assert same(engine.ask(LogSource(log), Sums(), what="adding"), wanted)
    for _ in range(2):
        with pytest.raises(InputError, match="block 0 cannot be read"):
            engine.ask(LogSource(log), Refused(), what="adding")
    assert same(engine.ask(LogSource(log), Sums(), what="adding"), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_other_clusters_give_the_same_bits(log, wanted, workers, tmp_path):
    with DaskEngine(workers=workers) as made:
        assert same(made.ask(LogSource(log), Sums(), what="adding"), wanted)
        assert same(made.ask(store(log, tmp_path), Sums(), what="adding"), wanted)


@pytest.mark.thorough
def test_workers_have_one_thread_each(engine):
    """Also where this process has more, which is as it was when workers are gone."""
    assert set(engine.each(look_up, "OPENBLAS_NUM_THREADS", range(4))) == {"1"}
    assert set(engine.each(look_up, "MALLOC_TRIM_THRESHOLD_", range(4))) == {None}
    assert engine.dashboard.startswith("http://127.0.0.1:")


@pytest.mark.thorough
def test_rows_in_files_are_read_by_workers(engine, log, wanted, tmp_path):
    stored = store(log, tmp_path)
    assert same(engine.ask(stored, Sums(), what="adding"), wanted)
    assert same(Local("stream").ask(stored, Sums(), what="adding"), wanted)


@pytest.mark.thorough
def test_a_file_that_a_worker_does_not_see_is_named_and_the_worker_too(engine, tmp_path):
    with pytest.raises(InputError, match=rf"the worker tcp://\S+ does not see {tmp_path}/\d.npy: all workers must"):
        engine.ask(Stored(str(tmp_path), 2 * ROWS_PER_BLOCK), Sums(), what="adding")


@pytest.mark.thorough
def test_what_a_worker_refuses_is_said_here(engine, log):
    with pytest.raises(InputError, match=r'^block \d cannot be read; say reward="NAME"$'):
        engine.ask(LogSource(log), Refused(), what="adding")


@pytest.mark.thorough
def test_a_worker_that_is_killed_changes_nothing(engine, log, wanted, tmp_path):
    with killing(tmp_path, lambda marks: int(marks[0].name.split("-")[1])):
        found = engine.ask(LogSource(log), Slow(str(tmp_path), 0.2), what="adding")
    assert same(found, wanted)
    begun = [mark.name.split("-")[0] for mark in tmp_path.iterdir()]
    assert len(begun) > len(set(begun))  # some block was begun twice, and counts once


@pytest.mark.slow
def test_a_question_that_no_worker_survives_is_given_up(log):
    words = "workers died one after the other over the same task; is memory short"
    with DaskEngine(workers=1) as alone, pytest.raises(InputError, match=words):
        alone.ask(LogSource(log), Deadly(), what="adding")


@pytest.mark.thorough
def test_rows_are_counted_while_they_are_added(engine, log, tmp_path):
    heard = []
    with heard_by(heard.append, every_seconds=0.0):
        engine.ask(LogSource(log), Slow(str(tmp_path), 0.1), what="adding")
    counts = [int(words.split(": ")[1].split(" of")[0].replace(",", "")) for words in heard]
    assert counts == sorted(counts)
    assert counts[-1] == len(log)


@pytest.mark.thorough
def test_workers_play_the_trials_of_a_plan(engine):
    s = supposed()
    here = simulate(s, question(s), limits=Limits(trials=2, processes=1))
    there = simulate(s, question(s), limits=Limits(trials=2), engine=engine)
    assert [replace(one, seconds=0.0) for one in here] == [replace(one, seconds=0.0) for one in there]


@pytest.mark.thorough
def test_trials_end_when_time_is_up(engine):
    s = supposed()
    assert simulate(s, question(s), limits=Limits(minutes=1e-6), engine=engine) == ()


@pytest.mark.thorough
def test_workers_play_repeated_runs(engine):
    asked = {"runs": 3, "seed": 5, "algorithm": "uniform", "epsilon": 0.3, "delta": 0.1}
    stages = []
    there = repeat(SMALL, engine=engine, watch=stages.append, **asked)
    assert [timeless(one) for one in there] == [timeless(one) for one in repeat(SMALL, **asked)]
    assert [stage.run for stage in stages] == [0, 0, 1, 2]


@pytest.mark.thorough
def test_commands_play_on_a_cluster(engine, command):
    asked = ("run", SMALL, "--algorithm", "uniform", "--epsilon", 0.3, "--repeat", 2, "--json")
    code, out, _ = command(*asked, "--engine", "dask", "--scheduler", engine.scheduler)
    here = command(*asked)
    assert code == here[0] == 0
    assert [one | {"seconds": 0} for one in json.loads(out)] == [one | {"seconds": 0} for one in json.loads(here[1])]


@pytest.mark.thorough
def test_a_scheduler_that_is_killed_is_missed_in_a_sentence(log, tmp_path):
    words = (
        "import time\nfrom distributed import LocalCluster\n"
        "options = dict(n_workers=1, processes=False, protocol='tcp', dashboard_address=None)\n"
        "with LocalCluster(**options) as cluster:\n"
        "    print(cluster.scheduler_address, flush=True)\n    time.sleep(99)\n"
    )
    with process("-c", words, stdout=subprocess.PIPE) as head:
        address = head.stdout.readline().decode().strip()
        head.stdout.close()
        with DaskEngine(scheduler=address) as made:
            with killing(tmp_path, lambda _: head.pid), pytest.raises(InputError, match=r"is gone.*; start this again"):
                made.ask(LogSource(log), Slow(str(tmp_path), 0.2), what="adding")
            with pytest.raises(InputError, match=f"the Dask scheduler at {address} is gone"):
                made.ask(LogSource(log), Sums(), what="adding")


@pytest.mark.thorough
def test_workers_of_another_version_are_refused(engine, log, monkeypatch):
    monkeypatch.setattr(crew, "__version__", "9.9.9")
    with pytest.raises(InputError, match=r"the worker tcp://\S+ has pacbandits \S+, and 9\.9\.9 asks it: install"):
        DaskEngine(scheduler=engine.scheduler)
    monkeypatch.setattr(crew, "_VERSION", "__import__('pacbanditz')")
    with pytest.raises(InputError, match=r"the worker tcp://\S+ lacks pacbanditz; pip install 'pacbandits\[scale\]==9"):
        DaskEngine(scheduler=engine.scheduler)
    monkeypatch.setattr("pacbandits.engines.dask.__version__", "9.9.9")  # of a worker that came later
    with pytest.raises(InputError, match=r"the worker tcp://\S+ has pacbandits \S+, and 9\.9\.9 asks it: install"):
        engine.ask(LogSource(log), Sums(), what="adding")


@pytest.mark.slow
def test_workers_without_the_package_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(crew, "CONNECT_SECONDS", 30.0)
    old = tmp_path / "pacbandits"
    old.mkdir()
    (old / "__init__.py").touch()
    with scheduler(tmp_path) as address:
        with worker(address, path=tmp_path), pytest.raises(InputError, match=r"the worker tcp://\S+ lacks pacbandits"):
            DaskEngine(scheduler=address)
        (old / "version.py").write_text("__version__ = '0.0.9'\n")
        with worker(address, path=tmp_path), pytest.raises(InputError, match=r"has pacbandits 0\.0\.9, and .* asks it"):
            DaskEngine(scheduler=address)
        monkeypatch.setattr(crew, "CONNECT_SECONDS", 0.5)
        with pytest.raises(InputError, match=f"has no workers; start some: dask worker {address}"):
            DaskEngine(scheduler=address)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("tcp://127.0.0.1:9", "no Dask scheduler answers at tcp://127.0.0.1:9 within"),
        ("head", "'head' is not the address of a Dask scheduler"),
        ("foo://head:8786", "'foo://head:8786' is not the address of a Dask scheduler"),
        (8786, "scheduler"),
    ],
)
def test_an_address_where_nobody_answers(address, words, monkeypatch):
    monkeypatch.setattr(crew, "CONNECT_SECONDS", 0.3)
    with pytest.raises(InputError, match=words):
        DaskEngine(scheduler=address)


@pytest.mark.thorough
@pytest.mark.thorough
def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"need distributed; pip install 'pacbandits\[scale\]'"):
        DaskEngine()


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": 1.5}, {"tasks_per_worker": 0}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        DaskEngine(**wrong)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_no_process_is_left_behind():
    """Also after Ctrl-C, which a terminal sends to all processes at once."""
    words = (
        "import os, time\nfrom pacbandits.engines.dask import DaskEngine\n"
        "if __name__ == '__main__':\n"
        "    with DaskEngine(workers=2) as engine:\n"
        "        try:\n            print(*engine._cluster.client.run(os.getpid).values(), flush=True)\n"
        "            list(engine.each(max, 0, range(3)))\n            time.sleep(60)\n"
        "        except KeyboardInterrupt:\n            print('interrupted')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        assert started.stdout is not None
        pids = [int(word) for word in started.stdout.readline().split()]
        os.killpg(started.pid, signal.SIGINT)
        out, err = started.communicate(timeout=30)
    assert (out, err, started.returncode) == ("interrupted\n", "", 0)
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
