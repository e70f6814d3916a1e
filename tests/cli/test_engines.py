"""Who computes, as the command line says it: what does not go together is refused before anything is read."""

from __future__ import annotations

import pytest

from pacbandits.cli.log_options import open_engine, open_players
from pacbandits.compiled import cores
from pacbandits.engines import Local
from pacbandits.errors import InputError, spelling_options
from tests.cli.cases import SMALL

PLAN = ("plan", "nowhere.csv", "--actions", 2, "--baseline", 0.3, "--epsilon", 0.1)


@pytest.mark.first(2)
@pytest.mark.parametrize("asked", [PLAN, ("run", "nowhere", "--repeat", 2)])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--engine", "dusk"), "there is no engine 'dusk'; did you mean 'dask'? (known: dask, threads)"),
        (("--engine", "cuda"), "simulations run with --engine threads or dask, not cuda"),
        (("--scheduler", "tcp://head:8786"), "--scheduler is the address of a Dask cluster; add --engine dask"),
        (("--engine", "dask", "--workers", 0), "--workers must be 1 or more, got 0"),
    ],
)
def test_options_that_do_not_go_together(run, asked, options, words):
    code, out, err = run(*asked, *options)
    assert (code, out, err) == (2, "", f"pacbandits: {words}\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--engine", "dask"), "add their number: --repeat 20"),
        (("--workers", 2), "--workers needs --engine dask"),
    ],
)
def test_one_run_needs_no_workers(run, options, words):
    code, _, err = run("run", SMALL, *options)
    assert code == 2
    assert words in err


def test_the_cores_of_this_machine():
    with open_engine("stream", workers=3) as engine:
        assert engine == Local("stream")
        assert cores() == 3
    with open_engine("threads") as engine:
        assert engine == Local("threads")
    with open_players(None, scheduler=None, workers=2) as players:
        assert players is None


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("stram", {}, "there is no engine 'stram'; did you mean 'stream'?"),
        ("cuda", {"workers": 2}, "--engine cuda uses one GPU; leave it out"),
        ("stream", {"scheduler": "tcp://head:8786"}, "add --engine dask"),
    ],
)
def test_engines_that_cannot_be_opened(name, options, words):
    with spelling_options(), pytest.raises(InputError, match=words.replace("?", r"\?")), open_engine(name, **options):
        pass
