"""The README's Python must run as printed, and say what it says."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 1
    names = {}
    exec(blocks[0], names)
    assert names["done"].correct
    promised = re.search(r'# "(.*?) …"', blocks[0])
    assert names["done"].guarantee.startswith(promised[1])
    assert names["done"].guarantee in capsys.readouterr().out


def test_the_commands_of_the_examples_exist(command):
    """Every command in the README answers to --help and has the options that it is shown with."""
    lines = re.findall(r"^pacbandits (experiment \w+|\w+)(.*?)(?: {3,}#.*)?$", README, re.MULTILINE)
    assert {name for name, _ in lines} >= {"certify", "verify", "run", "experiment create", "serve"}
    for name, rest in lines:
        code, out, _ = command(*name.split(), "--help")
        assert code == 0
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in out


def test_the_two_commands_are_targets_of_make():
    makefile = Path(__file__).parent.parent.joinpath("Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", README, re.MULTILINE)) <= targets
    assert set(re.findall(r"`make ([a-z-]+)`", README)) <= targets
