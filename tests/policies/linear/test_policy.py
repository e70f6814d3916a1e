"""One linear policy: its parameter and its words."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies import LinearPolicy, policy_from_json
from pacbandits.policies.features import Crossed, Given
from pacbandits.records import Contexts


def test_parallel_parameters_are_one_policy() -> None:
    features = Given(3, 2)
    assert LinearPolicy(features, (4, -6)).parameter == (2, -3)
    assert LinearPolicy(features, (0, 0)).parameter == (0, 0)
    assert LinearPolicy(features, np.array([0, -5])).parameter == (0, -1)  # pyright: ignore[reportArgumentType]


def test_words() -> None:
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(50, 10, 40), rng.integers(0, 2, 40)])
    contexts = Contexts.of(features, names=["age", "region"], categories=[None, ("south", "north")])
    crossed = Crossed.blocks(contexts, n_actions=3, relative=True)
    text = LinearPolicy(crossed, (-1, 3, 0, -2, 0, 1)).describe().splitlines()
    assert text[1:4] == ["action 0: 0", "action 1: −1", "action 2: 3 − 2·age + 1·[region is north]"]
    assert text[4].startswith("features are standardised: age is (its value − ")
    assert "[region is …] is 1 or 0" in text[4]
    assert "region" not in LinearPolicy(crossed, (0, 1, 0, 2, 0, 0)).describe()
    assert LinearPolicy(crossed, (0,) * 6).describe() == "always action 0"
    assert LinearPolicy(Given(2, 3), (0, -2, 1)).describe() == "the action of largest −2·[φ1] + 1·[φ2]"
    shared = Crossed.shared(contexts, [[0.5, 1.0], [0.0, 2.0]])
    assert "2·[age × z1]" in LinearPolicy(shared, (0, 0, 1, 2, 0, 0)).describe()


def test_long_scores_are_cut() -> None:
    text = LinearPolicy(Given(2, 9), (1, 2, 3, 4, 5, 6, 7, 8, 9)).describe()
    assert text == "the action of largest 9·[φ8] + 8·[φ7] + 7·[φ6] + 6·[φ5] + 5·[φ4] + 4·[φ3] … and 3 more"


@pytest.mark.parametrize("parameter", ["12", (1,), (1, 2, 3), (1.5, 2), (True, 1), 7, None])
def test_wrong_parameters_are_refused(parameter: object) -> None:
    with pytest.raises(InputError, match="parameter"):
        LinearPolicy(Given(3, 2), parameter)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError):
        policy_from_json({"kind": "linear", "map": Given(3, 2).to_json(), "parameter": parameter})
