"""Open Bandit's feedback is read as it is, or refused in a line."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits import InputError, from_open_bandit, read_log
from pacbandits.logs.raw_log import UNIFORM_REMARK
from tests.logs.cases import refused


def feedback(n=6, *, positions=None, full=True):
    """What Open Bandit Pipeline calls `bandit_feedback`, by hand."""
    rng = np.random.default_rng(0)
    slots = 1 if positions is None else max(positions) + 1
    pi_b = rng.dirichlet(np.ones(3), size=(n, slots)).transpose(0, 2, 1)
    action = rng.integers(3, size=n)
    place = np.zeros(n, dtype=int) if positions is None else np.array(positions)
    return {
        "n_rounds": n,
        "n_actions": 3,
        "context": rng.normal(size=(n, 2)),
        "action_context": np.eye(3, dtype=int),
        "action": action,
        "position": None if positions is None else place,
        "reward": rng.integers(2, size=n),
        "expected_reward": rng.random((n, 3)),
        **({"pi_b": pi_b} if full else {}),
        "pscore": pi_b[np.arange(n), action, place],
    }


def test_open_bandit_feedback():
    given = feedback()
    log = from_open_bandit(given)
    assert np.array_equal(log.propensities, given["pi_b"][:, :, 0])
    assert np.array_equal(log.contexts.features, given["context"])
    assert np.array_equal(log.rewards, given["reward"])
    assert np.array_equal(log.actions, given["action"])
    assert log.least is None
    assert log.assumed == ()


def test_open_bandit_feedback_with_the_played_propensity():
    given = feedback(full=False)
    log = from_open_bandit(given, least_propensity=0)
    assert np.array_equal(log.played_propensities, given["pscore"])
    assert log.n_actions == 3
    with pytest.raises(InputError, match="minimum propensity of every action"):
        from_open_bandit(given)
    uniform = from_open_bandit(given | {"pscore": np.full(6, 1 / 3)})
    assert np.array_equal(uniform.propensities, np.full((6, 3), 1 / 3))
    assert uniform.assumed == (UNIFORM_REMARK,)


def test_positions_of_open_bandit_feedback():
    given = feedback(positions=[0, 1, 2, 0, 1, 1])
    with pytest.raises(InputError, match=r"has positions 0, 1, 2; choose one \(position=0\)"):
        from_open_bandit(given)
    log = from_open_bandit(given, position=1)
    assert np.array_equal(log.propensities, given["pi_b"][[1, 4, 5], :, 1])
    assert np.array_equal(log.contexts.features, given["context"][[1, 4, 5]])
    with pytest.raises(InputError, match="no row has position 3; there are 0, 1, 2"):
        from_open_bandit(given, position=3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pscore": None, "pi_b": None}, "the feedback lacks 'pscore'"),
        ({"reward": None, "context": None}, "the feedback lacks 'reward', 'context'"),
        ({"context": np.zeros(6)}, r"'context' must have shape \(6, any\)"),
        ({"reward": np.full(6, 2)}, r"the reward of row 0 \(counted from 0\) is 2"),
        ({"pscore": np.full(6, 0.999)}, "alone, but .* among those of all actions"),
        ({"pi_b": np.full((6, 4, 1), 0.25)}, "'pi_b' must have shape"),
        ({"pi_b": np.full((6, 3, 2), 1 / 3)}, "has 2 positions, but the feedback does not say which"),
        (
            {"n_actions": 2, "pi_b": None, "action": [2] * 6},
            "was played, which n_actions=2 excludes",
        ),
        ({"action": 3}, "'action' must be a list"),
    ],
)
def test_each_fault_of_feedback_is_one_line(changes, words):
    with pytest.raises(InputError, match=words) as caught:
        from_open_bandit(feedback() | changes, least_propensity=None if changes.get("pi_b", 1) is not None else 0)
    assert "\n" not in str(caught.value)


def test_feedback_in_a_file(tmp_path):
    given = feedback()
    np.savez(tmp_path / "feedback.npz", **given)  # position is None, and written as an object that is never unpickled
    log, _ = read_log(tmp_path / "feedback.npz")
    assert np.array_equal(log.propensities, given["pi_b"][:, :, 0])
    np.savez(tmp_path / "feedback.npz", action=given["action"], reward=given["reward"])
    refused("the feedback lacks 'context', 'pscore'", tmp_path / "feedback.npz")
