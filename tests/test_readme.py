"""The README's Python must run as printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from pacbandits import Contexts, load_state

BLOCKS = re.findall(r"```python\n(.*?)```", Path(__file__).parent.parent.joinpath("README.md").read_text(), re.DOTALL)


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 2))
    Contexts.of(features, names=["age", "income"]).write("customers.parquet")
    Path("clicks.csv").write_text("age,action,reward,propensity\n20,0,1,0.5\n30,1,0,0.3\n40,2,1,0.2\n")

    def next_customers(n):
        return Contexts.of(rng.normal(size=(n, 2)), names=["age", "income"])

    def play(contexts, chances):
        actions = np.array([rng.choice(4, p=row) for row in chances])
        return actions, rng.random(len(contexts)) < 0.2 + 0.2 * actions

    names = {
        "scores": (features @ rng.normal(size=(2, 4)) + rng.normal(size=4)) / 200,
        "next_customers": next_customers,
        "play": play,
    }
    assert len(BLOCKS) == 6
    for block in BLOCKS:
        exec(block, names)
    assert names["done"].correct
    assert names["done"].guarantee.startswith("except with probability 0.05 the policy is within 0.1")
    assert names["remarks"] == ("every action was always played with probability 0.02 or more",)
    assert names["state"].round_number >= 1
    assert load_state("trial")[1].samples == names["state"].samples
    solution = names["solution"]
    assert solution.converged
    assert solution.design.propensities(names["contexts"]).min() >= 0.01 - 1e-12
    assert "if " in capsys.readouterr().out
