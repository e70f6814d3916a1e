"""`pacbandits report`: a page from a folder, and a sentence for a folder that is none."""

from __future__ import annotations

import json

import pytest

from pacbandits.benchmark.results import Description, Results
from tests.benchmark.hand_made import seeds


@pytest.fixture
def results(tmp_path):
    """A folder of results with rows made by hand."""
    folder = Results.at(tmp_path / "results")
    with folder.held():
        folder.describe(Description())
        folder.add([*seeds(5), *seeds(5, entry="uniform", algorithm="uniform", certified_at=60)])
        folder.compact()
    return folder.path


@pytest.mark.thorough
def test_a_page_beside_the_results_and_the_main_table_on_the_screen(run, results):
    code, out, err = run("report", results)
    assert (code, err) == (0, "")
    assert "coda / other" in out
    assert "0.67" in out
    assert (results / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "report.html" in out


@pytest.mark.thorough
def test_files_go_where_they_are_asked_for(run, results, tmp_path):
    code, _, _ = run("report", results, "--out", tmp_path / "a.html", "--markdown", tmp_path / "b.md")
    assert code == 0
    assert "<table>" in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert (tmp_path / "b.md").read_text(encoding="utf-8").startswith("# ")
    assert not (results / "report.html").exists()


def test_all_figures_as_json(run, results):
    code, out, _ = run("report", results, "--json")
    got = json.loads(out)
    assert code == 0
    assert got["runs"] == 10
    assert [score["certified"]["samples"]["value"] for score in got["cases"][0]["scores"]] == [40, 60]
    assert got["claims"][0]["kept"] is True
    assert not (results / "report.html").exists()


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no folder nowhere"),
        (["."], "holds no results of a benchmark"),
        (["results", "--out", "page.pdf"], "--out must end in .html"),
        (["results", "--markdown", "tables.txt"], "--markdown must end in .md"),
        (["results", "--out", "no/such/page.html"], "does not exist; make it first"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, results, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("report", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_folder_without_runs_yet_and_one_that_is_damaged(run, tmp_path):
    folder = Results.at(tmp_path / "new")
    with folder.held():
        folder.describe(Description())
    code, _, err = run("report", folder.path)
    assert code == 2
    assert "holds no runs yet" in err
    (folder.path / "runs.parquet").write_bytes(b"not a table")
    code, _, err = run("report", folder.path)
    assert code == 2
    assert err.count("\n") == 1
