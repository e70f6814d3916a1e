"""Notebooks: what they show of results, progress below a cell."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import pacbandits as pb
from pacbandits.cli.console import make_console
from pacbandits.progress import count_aloud
from tests.experiment.cases import protocol
from tests.public.things import certificate, linear_run, log, problem


@pytest.fixture(scope="module")
def run():
    return pb.run(problem(), algorithm="uniform", epsilon=0.3, delta=0.1, rng=1)


def shown(result):
    html = result._repr_html_()
    assert html.startswith('<div class="pacbandits">')
    return html


def test_certificates_runs_and_complexities_are_documents(run):
    assert "<h1>Certificate</h1>" in shown(certificate())
    assert certificate().describe().replace("'", "&#39;") in shown(certificate())
    assert "<h1>uniform on ages</h1>" in shown(run)
    assert "<h1>Certificate</h1>" in shown(linear_run().certificate)
    assert "<h1>Complexity</h1>" in shown(pb.measure(problem(), problem().policies, epsilon=0.3, delta=0.1))


def test_a_loaded_certificate_is_the_same_document(tmp_path):
    pb.save_certificate(tmp_path / "proof.json", certificate(), problem().policies)
    assert shown(pb.load_certificate(tmp_path / "proof.json")) == shown(certificate())


def test_a_plan_is_a_document_and_a_figure():
    plan = pb.plan(log().contexts, epsilon=0.2, baseline=0.3, n_actions=2, policies="trees:depth=1", simulated=False)
    assert "<h1>What will the trial cost?</h1>" in shown(plan)
    assert plan.figure()._repr_png_().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_the_status_of_an_experiment_is_a_document(tmp_path):
    with pb.Experiment.create(tmp_path / "e.db", protocol()) as experiment:
        assert "experiment checkout is collecting" in shown(experiment.status())


def test_figures_leave_the_backend_of_a_notebook_alone(run, monkeypatch):
    import matplotlib

    chosen = matplotlib.rcParams["backend"]
    monkeypatch.setitem(matplotlib.rcParams, "backend", "svg")
    figure = run.figure(run)
    assert matplotlib.rcParams["backend"].lower() == "svg"
    assert figure.axes[0].get_title(loc="left") == "uniform takes as many samples as uniform"
    assert "matplotlib.pyplot" not in sys.modules or sys.modules["matplotlib.pyplot"].get_fignums() == []
    monkeypatch.setitem(matplotlib.rcParams, "backend", chosen)


def test_progress_is_one_line_below_the_cell(monkeypatch):
    said = []

    class Line:
        def update(self, data, *, raw):
            said.append((data["text/plain"], raw))

    shell, module = ModuleType("IPython"), ModuleType("IPython.display")
    shell.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = lambda data, *, raw, display_id: Line()
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    with pb.show_progress() as progress:
        progress("certifying\n\x1b[31m")
    assert said[0][0].startswith("certifying")
    assert said[0][0].isprintable()
    assert said[-1] == ("", True)


def test_progress_writes_nothing_where_nobody_watches(capfd):
    with pb.show_progress() as progress:
        progress("certifying")
        count_aloud("rows", 2)()
    assert capfd.readouterr() == ("", "")


def test_a_command_in_a_notebook_moves_no_cursor(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert make_console().is_terminal
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    assert not make_console().is_terminal
