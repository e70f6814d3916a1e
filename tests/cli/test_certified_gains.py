"""Gains over control at the command line."""

from __future__ import annotations

import numpy as np


def test_a_log_without_an_order_says_that_no_gain_can_be_proven(run, tmp_path):
    """Propensities that vary, no rounds, no time: the exit code is that of an unproven gain, with the remedy."""
    rng = np.random.default_rng(1)
    chance = rng.choice([0.3, 0.7], 600)
    new = rng.random(600) < chance
    rewards = rng.random(600) < np.where(new, 0.8, 0.2)
    rows = [
        f"{x:.3f},{'new' if a else 'old'},{int(r)},{p if a else 1 - p:.1f}"
        for x, a, r, p in zip(rng.random(600), new, rewards, chance, strict=True)
    ]
    path = tmp_path / "test.csv"
    path.write_text("\n".join(["x,action,reward,propensity", *rows]) + "\n", encoding="utf-8")
    code, _, err = run("certify", path, "--control", "old")
    assert code == 3
    assert "--shuffle" in err
    code, out, err = run("certify", path, "--control", "old", "--shuffle")
    assert (code, err) == (0, "")
    assert "over old" in out
