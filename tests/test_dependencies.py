"""What is imported is declared, with a lowest version that `make test-all` can install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from tests.environments import lowest, needed_by

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGE_OF = {
    "griffe": "griffelib",
    "openfeature": "openfeature-sdk",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",  # which says itself of which version
    "sklearn": "scikit-learn",
}
OPTIONAL = PROJECT["optional-dependencies"]
EVERY = sorted({*PROJECT["dependencies"], *chain.from_iterable(needed_by(extra, OPTIONAL) for extra in OPTIONAL)})
IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?$)", re.MULTILINE)


def imported(folder: str) -> set[str]:
    """The packages that the code of a folder imports, here or there, other than Python's own and ours."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")]
    found = {first or second for text in texts for first, second in IMPORT.findall(text)}
    beside = {path.stem for path in (ROOT / folder).iterdir()} | {"pacbandits", "benchmarks", "tests"}
    return {PACKAGE_OF.get(name, name) for name in found - set(sys.stdlib_module_names) - beside}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=,]", requirement)[0] for requirement in requirements}


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("src/pacbandits", ["learn", "service", "openfeature", "scale"]),
        ("benchmarks", ["test"]),
        ("docs/tools", ["docs", "test"]),
    ],
)
def test_what_is_imported_is_declared(folder, extras):
    declared = (names(needed_by(extra, OPTIONAL)) for extra in extras)
    assert imported(folder) <= names(PROJECT["dependencies"]).union(*declared)


def test_no_extra_holds_pandas_back():
    """lifelines wants pandas below 3, and one file of it is all that is read: nobody is made to install the rest."""
    for extra in OPTIONAL.keys() - {"test"}:
        assert "lifelines" not in names(needed_by(extra, OPTIONAL)), extra


def test_what_is_declared_is_imported():
    assert names(PROJECT["dependencies"]) <= imported("src/pacbandits")


@pytest.mark.parametrize("requirement", EVERY)
def test_every_dependency_has_a_lowest_version(requirement):
    assert re.fullmatch(r"[\w-]+==[\d.]+", lowest(requirement))


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("numpy>=1.26", "numpy==1.26"),
        ("a-b[c,d] >= 2.0, <3", "a-b==2.0"),
        ("u>=0.2; sys_platform != 'win32'", "u==0.2"),
        ("x>=1!=1.5", None),
        ("x", None),
        ("x<2", None),
    ],
)
def test_the_lowest_version_of_a_requirement(requirement, version):
    if version is None:
        with pytest.raises(ValueError, match=f"'{requirement}' must be declared as name>=version"):
            lowest(requirement)
    else:
        assert lowest(requirement) == version


BLOCKED = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sqlalchemy", "fastapi", "starlette", "pydantic", "uvicorn", "prometheus_client"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
import pacbandits.service.client, pacbandits.service.openfeature
"""


def test_clients_need_nothing_of_the_server():
    """`pip install 'pacbandits[openfeature]'` brings neither a database nor a web server."""
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
def test_every_benchmark_and_tool_can_be_imported():
    modules = [f"benchmarks.{path.stem}" for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__main__"]
    done = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(modules)}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
