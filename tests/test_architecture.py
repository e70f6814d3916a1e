"""The architecture page: its list of layers is that of the contracts, and its tables name every top-level module."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_layers_of_the_page_are_those_of_the_contracts():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    listed = re.search(r"^## What may import what$.*?^```$\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert listed[1].splitlines() == layers


def test_the_tables_of_the_page_name_every_folder_and_module():
    rooms = PAGE[PAGE.index("## The rooms") : PAGE.index("## What may import what")]
    named = {
        name
        for line in rooms.splitlines()
        if line.startswith("|")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    home = ROOT / "src" / "pacbandits"
    folders = {f"{path.parent.name}/" for path in home.glob("*/__init__.py")}
    modules = {path.name for path in home.glob("*.py")} - {"__init__.py"}
    assert named == folders | modules
