"""The package as a stranger meets it: a quick import, names that lead somewhere, old names that say the new ones."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pacbandits as pb

SOURCE = Path(pb.__file__).parent
RENAMED = {
    "LinearCertificate": pb.RealizableCertificate,
    "LinearComplexity": pb.RealizableComplexity,
    "Lottery": pb.Mixture,
    "measure_linear": pb.measure_realizable,
    "verify_linear": pb.verify_realizable,
}
MAX_FILE_LINES, MAX_BODY_LINES = 700, 80


def imported_by(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter has imported after this code."""
    told = "; import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code + told], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_every_public_name_leads_somewhere():
    for name in pb.__all__:
        assert getattr(pb, name) is not None
    assert set(pb.__all__) <= set(dir(pb))
    with pytest.raises(AttributeError, match="module 'pacbandits' has no attribute 'codas'"):
        pb.codas  # noqa: B018


@pytest.mark.parametrize("name", RENAMED)
def test_an_old_name_answers_with_the_new_one(name):
    new = RENAMED[name]
    with pytest.warns(DeprecationWarning, match=f"pacbandits.{name} is now pacbandits.{new.__name__}"):
        assert getattr(pb, name) is new


def test_what_a_problem_called_its_linear_rewards():
    problem = pb.load_problem("linear:dimension=2,actions=2,contexts=4")
    with pytest.warns(DeprecationWarning, match=r"Problem\.linear is now Problem\.realizable"):
        assert problem.linear is problem.realizable


def test_imports_wait_until_they_are_needed():
    heavy = {"numpy", "scipy", "numba", "pyarrow", "matplotlib"}
    assert not imported_by("import pacbandits") & heavy
    assert not imported_by("import pacbandits.cli") & heavy
    assert "numpy" in imported_by("import pacbandits; pacbandits.Contexts")


@pytest.mark.thorough
def test_help_lists_no_algorithm(command):
    """What there is, the registry says: `pacbandits algorithms`."""
    code, out, _ = command("run", "--help")
    assert code == 0
    options = " ".join(out[out.index("─ Options") :].replace("│", " ").split())
    assert "--epsilon" in options
    assert "pacbandits algorithms" in options
    for name in ("rage-free", "coda-paper", "linear-rage", "uniform"):
        assert name not in options


@pytest.mark.thorough
def test_files_and_functions_stay_short_enough_to_read():
    """A body counts without its signature and docstring, which are a manual."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= MAX_FILE_LINES, path
        if path.parent.name == "cli":  # where help stands in the signature
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                assert lines <= MAX_BODY_LINES, f"{path}: {node.name} has {lines} lines"


def test_no_page_has_half_a_merge():
    root = Path(__file__).parent.parent
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not any(line.startswith(("<<<<<<< ", ">>>>>>> ")) for line in text.splitlines()), page.name
