"""The verifier reads records and constants of `pacbandits.certificate`, and imports none of its code that certifies."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pacbandits

HOME = Path(pacbandits.__file__).parent
# Modules of pacbandits.certificate that both sides may read: records, and constants that both agree on. By
# `content_order` the record says whose certificate it is; the verifier has an order of its own.
SHARED = {"certificate", "claim", "content_order", "conventions", "leaders", "learning_record", "summed.limits"}
CHECKS = {"certificate.alarms", "certificate.check", "certificate.drift"}  # the look for drift
CONTRACT = "The verifier imports nothing, directly or through others, that makes certificates"


def modules_of(folder: str) -> set[str]:
    """The modules of a package, by their names after pacbandits."""
    paths = (HOME / folder).rglob("*.py")
    return {".".join(path.relative_to(HOME).with_suffix("").parts) for path in paths if path.stem != "__init__"}


def imports_of(module: str) -> set[str]:
    """The modules of pacbandits that one imports, by their names after pacbandits."""
    path = HOME / Path(*module.split("."))
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    found = set[str]()
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found |= {name.removeprefix("pacbandits.") for name in names if name.startswith("pacbandits.")}
    return {one for one in found if (HOME / Path(*one.split("."))).is_dir() or is_module(one)}


def is_module(name: str) -> bool:
    return (HOME / Path(*name.split("."))).with_suffix(".py").is_file()


def reached_from(modules: set[str]) -> set[str]:
    """All that some modules import, directly or through others."""
    reached, left = set[str](), list(modules)
    while left:
        more = imports_of(left.pop()) - reached
        reached |= more
        left.extend(more)
    return reached


def made_by(module: str) -> bool:
    return module.startswith("certificate.") and module not in CHECKS


def test_the_verifier_reads_records_and_constants_alone():
    reached = reached_from(modules_of("verifier"))
    shared = {f"certificate.{name}" for name in SHARED}
    assert {one for one in reached if made_by(one) and is_module(one)} == shared
    assert not {one.split(".")[0] for one in reached} & {"design", "trials", "complexity", "realizable", "analysis"}


def test_the_verifier_takes_constants_and_no_order_of_rows_from_conventions():
    for module in modules_of("verifier"):
        text = (HOME / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module == "pacbandits.certificate.conventions":
                assert all(alias.name.isupper() for alias in node.names)
            assert not (isinstance(node, ast.ImportFrom) and node.module == "pacbandits.certificate.content_order")


def test_the_contract_names_all_that_certifies():
    project = tomllib.loads((HOME.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {one["name"]: one for one in project["tool"]["importlinter"]["contracts"]}
    named = {one.removeprefix("pacbandits.") for one in contracts[CONTRACT]["forbidden_modules"]}
    makers = {one for one in modules_of("certificate") if made_by(one)} - {f"certificate.{name}" for name in SHARED}
    assert makers <= named


def test_a_process_that_verifies_loads_no_code_that_certifies():
    words = "import sys, pacbandits.verifier; print(*(name for name in sys.modules if name.startswith('pacbandits.')))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("pacbandits.") for name in done.stdout.split()}
    assert {one for one in loaded if made_by(one) and is_module(one)} == {f"certificate.{name}" for name in SHARED}
    assert not {one.split(".")[0] for one in loaded} & {"design", "trials", "complexity", "realizable", "analysis"}
