"""The README's Python must run as printed, and say what it says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pacbandits as pb

README = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    rows = [(rng.integers(18, 80), rng.choice(["a", "b"]), rng.integers(2)) for _ in range(600)]
    Path("test.csv").write_text("\n".join(["age,variant,converted", *(f"{a},{v},{c}" for a, v, c in rows)]))
    front, block = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {"customers": pa.table({"age": [20, 60]})}
    exec(front, names)
    assert set(names["names"]) <= {"a", "b"}
    assert Path("report.html").exists()
    assert pb.load_certificate("proof.json").certificate.to_json() == names["result"].certificate.to_json()
    names = {}
    exec(block, names)
    assert names["done"].correct
    promised = re.search(r'# "(.*?) …"', block)
    assert names["done"].guarantee.startswith(promised[1])
    assert names["done"].guarantee in capsys.readouterr().out


@pytest.mark.thorough
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
