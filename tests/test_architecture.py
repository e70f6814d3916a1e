"""The architecture page: its layers are those of the contracts, and its tables name every package and real places."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text below a heading, up to the next."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_where_to_add_what_names_real_places():
    """Every file and folder there exists, and every name stands in a file of its row."""
    home, seen = ROOT / "src" / "pacbandits", 0
    for line in section("Where to add what").splitlines():
        if not line.startswith("| ") or line.startswith("| to add"):
            continue
        named = re.findall(r"`([^`]+)`", line.split("|")[2])
        places = [home / name for name in named if "/" in name or name.endswith(".py")]
        assert places, line
        assert all(place.exists() for place in places), line
        text = "".join(place.read_text(encoding="utf-8") for place in places if place.is_file())
        names = [name for name in named if "/" not in name and not name.endswith(".py")]
        assert all(re.search(rf"\b{name}\b", text) for name in names), line
        seen += 1
    assert seen > 10


def test_the_layers_of_the_page_are_those_of_the_contracts():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    listed = re.search(r"^## What may import what$.*?^```$\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert listed[1].splitlines() == layers


def test_the_tables_of_the_page_name_every_folder_and_module():
    packages = section("Packages")
    named = {
        name
        for line in packages.splitlines()
        if line.startswith("|")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    home = ROOT / "src" / "pacbandits"
    folders = {f"{path.parent.name}/" for path in home.glob("*/__init__.py")}
    modules = {path.name for path in home.glob("*.py")} - {"__init__.py"}
    assert named == folders | modules
