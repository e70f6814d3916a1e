"""What files and tables hold is shown harmlessly: nothing colours, moves or hides what stands beside it."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pacbandits.cli.console import Visible, make_console
from pacbandits.proofs import save_certificate
from pacbandits.report.numbers import show_in_figure
from tests.fuzz.genuine import Genuine, genuine
from tests.fuzz.mutations import CODES


@pytest.fixture
def verify(run, tmp_path):
    """Write a certificate and its log, and run `verify` on them."""

    def call(own: Genuine, *options: str):
        proof, log = tmp_path / "proof.json", tmp_path / "log.parquet"
        save_certificate(proof, own.certificate, own.policies)
        own.log.write(log)
        return run("verify", proof, log, *options)

    return call


def harmless(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def test_a_remark_cannot_clear_the_screen_or_begin_a_line(verify):
    own = genuine("trees")
    remarked = replace(own, certificate=own.certificate.with_remarks(CODES))
    code, out, err = verify(remarked)
    assert code in (0, 3), out
    assert harmless(out)
    assert harmless(err)
    assert [line.strip() for line in out.splitlines() if "good: all is well" in line] == [
        "• ?[2J?[1;1Hgood: all is well ?gnorw??31m? [red]x[/red] [/]"
    ]
    assert sum(line.startswith("good:") for line in out.splitlines()) == 1


def test_a_remark_of_the_log_is_harmless_in_a_fault(verify):
    own = genuine("trees")
    code, out, _ = verify(replace(own, log=replace(own.log, remarks=(*own.log.remarks, CODES))))
    assert code == 3
    assert harmless(out)
    assert out.startswith("not good:\n")
    assert not any(line.startswith("good") for line in out.splitlines())


def test_json_is_harmless_and_faithful(verify):
    own = genuine("trees")
    names = replace(own.log.contexts, names=(CODES, "place\u202e"))
    code, out, _ = verify(replace(own, log=replace(own.log, contexts=names)), "--json")
    assert code == 3  # another log
    assert harmless(out)
    assert "digest differs" in json.loads(out)["faults"][0]


@pytest.mark.thorough
def test_names_of_columns_and_labels_are_harmless(run, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "log.csv"
    lines = ["\x1b[2J[red]age[/red],\u202eplace [/],action,reward,propensity"]
    labels = ("x", "\x9b31m")
    for age, place, action in rng.integers([4, 2, 2], size=(900, 3)):
        lines.append(f"{age},{labels[place]},{action},{int(action == place)},0.5")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for options in ((), ("--json",), ("--asymptotic", "--draws", "20")):
        code, out, err = run("certify", path, "--policies", "trees:depth=1", "--epsilon", "0.3", *options)
        assert code in (0, 3), out
        assert harmless(out)
        assert harmless(err)
        assert "is x" in out


def test_paths_are_harmless(run, tmp_path):
    code, out, err = run("verify", tmp_path / "\x1b[2J\u202e.json", tmp_path / "log.parquet")
    assert (code, out) == (2, "")
    assert harmless(err)
    assert "?[2J?.json" in err


def test_words_are_no_markup():
    table = Table(box=None, show_header=False)
    table.add_row("[red]x[/red] [/] :warning:", CODES.replace("\n", " "))
    for console in (make_console(), make_console(stderr=True)):
        file = io.StringIO()
        console.file, console.width = file, 200
        console.print(Visible(table))
        assert "[red]x[/red] [/] :warning:" in file.getvalue()
        assert harmless(file.getvalue())


def test_our_own_colours_remain():
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system="standard").print(Visible(Text("x", style="red")))
    assert "\x1b[" in file.getvalue()


def test_dollars_are_no_formula_in_a_figure():
    assert show_in_figure("$x_$\x1b") == r"\$x_\$?"
