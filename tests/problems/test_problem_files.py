"""Problem files: what comes back, and the one line each kind of broken file gets."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.problems import Bernoulli, Gaussian, load_problem, save_problem

GOOD: dict[str, Any] = {
    "context_weights": np.array([0.25, 0.25, 0.5]),
    "mean_rewards": np.array([[0.0, 1.0], [0.5, 0.5], [0.25, 0.75]]),
    "policy_actions": np.array([[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1]]),
}


def write(path: Path, **changes: Any) -> Path:
    arrays = {name: array for name, array in (GOOD | changes).items() if array is not None}
    np.savez(path, **arrays)
    return path


def test_a_file_is_a_problem(tmp_path: Path) -> None:
    problem = load_problem(write(tmp_path / "mine.npz"))
    assert problem.name == "mine.npz"
    assert problem.description == "4 policies on 3 contexts and 2 actions, from a file."
    assert isinstance(problem.noise, Bernoulli)
    assert np.array_equal(problem.population.weights, GOOD["context_weights"])
    assert np.array_equal(problem.mean_rewards, GOOD["mean_rewards"])
    assert np.array_equal(problem.policies.table, GOOD["policy_actions"])


def test_a_stated_noise_frees_the_rewards(tmp_path: Path) -> None:
    variance = np.arange(6.0).reshape(3, 2)
    problem = load_problem(write(tmp_path / "a.npz", mean_rewards=GOOD["mean_rewards"] * 9, noise_variance=variance))
    assert isinstance(problem.noise, Gaussian)
    assert np.array_equal(problem.noise_variance, variance)
    assert problem.mean_rewards.max() == 9


def test_other_number_types_are_fine(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.npz",
        context_weights=GOOD["context_weights"].astype(np.float32),
        mean_rewards=np.array([[0, 1], [1, 0], [0, 0]]),
        policy_actions=GOOD["policy_actions"].astype(float),
    )
    assert load_problem(path).policies.policy(1).table.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "spec", ["hard:m=6", "random:skew=1,actions=300", "two-of-many", "linear", "hard:noise=bernoulli"]
)
def test_saving_and_loading_gives_the_same_problem(spec: str, tmp_path: Path) -> None:
    problem = load_problem(spec)
    path = tmp_path / "saved.npz"
    save_problem(problem, path)
    again = load_problem(path)
    assert np.allclose(again.population.weights, problem.population.weights, rtol=1e-12, atol=0)
    assert np.array_equal(again.mean_rewards, problem.mean_rewards)
    assert np.array_equal(again.policies.table, problem.policies.table)
    assert np.array_equal(again.noise_variance, problem.noise_variance)
    assert type(again.noise) is type(problem.noise)


def test_what_cannot_be_saved_is_refused_and_not_written(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"only a problem with a policy class that can be listed can be saved.*Trivial"
    ):
        save_problem(load_problem("trivial"), tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"ends in .npz"):
        save_problem(load_problem("hard"), tmp_path / "a.npy")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"cannot write .*No such file or directory"):
        save_problem(load_problem("hard"), tmp_path / "nowhere" / "a.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean_rewards": None}, r"'mean_rewards' is missing \(there are: context_weights, policy_actions\)"),
        ({"context_weights": None}, "'context_weights' is missing"),
        ({"policy_actions": None}, "'policy_actions' is missing"),
        (
            {"noise_varience": np.ones((3, 2))},
            "unknown array 'noise_varience'; did you mean 'noise_variance'",
        ),
        (
            {"mean_rewards": np.zeros((2, 2))},
            r"shape \(3, any\), got \(2, 2\) \(context_weights has shape \(3,\)\)",
        ),
        ({"mean_rewards": np.zeros(3)}, r"mean_rewards must have shape \(3, any\), got \(3,\)"),
        ({"mean_rewards": np.zeros((3, 0)), "policy_actions": None}, "'policy_actions' is missing"),
        ({"mean_rewards": np.zeros((3, 0))}, "n_actions must be 1 or more"),
        (
            {"policy_actions": np.zeros((4, 2), dtype=int)},
            r"policy_actions must have shape \(any, 3\), got \(4, 2\)",
        ),
        ({"policy_actions": np.zeros((0, 3), dtype=int)}, "at least one policy"),
        (
            {"noise_variance": np.ones((2, 2))},
            r"noise_variance has shape \(2, 2\), but mean_rewards has \(3, 2\)",
        ),
        ({"noise_variance": np.ones(3)}, "noise_variance must be one number or have shape"),
        ({"noise_variance": -np.ones((3, 2))}, "noise_variance must not be negative"),
        ({"noise_variance": np.full((3, 2), np.nan)}, "noise_variance must be finite"),
        (
            {"noise_variance": np.full((3, 2), 1e308)},
            r"noise_variance must be 0 or between 1e-100 and 1e\+100, got 1e\+308; rescale",
        ),
        (
            {"noise_variance": np.ones((3, 2)), "mean_rewards": np.full((3, 2), -1e200)},
            r"mean_rewards must lie within ±1e\+100, got 1e\+200",
        ),
        ({"action_features": np.full((3, 2, 1), 1e300)}, r"action_features with 1e\+300 as the largest cannot"),
        ({"action_features": np.full((3, 2, 1), 1e-300)}, "action_features with 1e-300 as the largest cannot"),
        ({"mean_rewards": np.full((3, 2), np.nan)}, "mean_rewards must be finite"),
        ({"mean_rewards": np.full((3, 2), 1.5)}, r"must lie in \[0, 1\].*give noise_variance"),
        ({"mean_rewards": np.array([["a", "b"]] * 3)}, "mean_rewards must be numbers, got dtype <U1"),
        ({"mean_rewards": np.ones((3, 2)) * 1j}, "mean_rewards must be numbers, got dtype complex128"),
        (
            {"context_weights": np.array([0.5, 0.7, -0.2])},
            "context_weights must not be negative, but entry 2 is -0.2",
        ),
        ({"context_weights": np.array([0.5, 0.5, 0.5])}, "context_weights must sum to 1, but sums to 1.5"),
        ({"context_weights": np.array([0.5, 0.5, np.inf])}, "context_weights must be finite"),
        ({"context_weights": np.zeros(0)}, "context_weights is empty"),
        ({"context_weights": np.ones((3, 1)) / 3}, r"context_weights must have shape \(any,\), got \(3, 1\)"),
        ({"policy_actions": np.full((4, 3), 2)}, "policy_actions must be between 0 and 1, got 2"),
        ({"policy_actions": np.full((4, 3), -1)}, "policy_actions must be between 0 and 1, got -1"),
        (
            {"policy_actions": np.full((4, 3), 0.5)},
            r"policy_actions must be integers, but entry \(0, 0\) is 0.5",
        ),
        (
            {"policy_actions": np.full((4, 3), np.inf)},
            r"policy_actions must be integers, but entry \(0, 0\) is inf",
        ),
        ({"policy_actions": np.full((4, 3), np.nan)}, "policy_actions must be integers"),
        ({"policy_actions": np.full((4, 3), True)}, "policy_actions must be integers, got bool"),
        (
            {"policy_actions": np.full((4, 3), None)},
            "'policy_actions' holds Python objects, which are never loaded",
        ),
    ],
)
def test_each_wrong_array_gets_one_line(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.npz", **changes)
    with pytest.raises(InputError, match=message) as caught:
        load_problem(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def _archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


_MEMBERS = {f"{name}.npy": _npy(array) for name, array in GOOD.items()}
_HUGE = _npy(np.zeros((3, 2))).replace(b"'shape': (3, 2), }" + b" " * 12, b"'shape': (3, 9999999999999), }")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a readable .npz archive"),
        (b"weights,rewards\n1,2\n", "not a readable .npz archive"),
        (pickle.dumps({"mean_rewards": 1}), "not a readable .npz archive"),
        (_archive(_MEMBERS)[:100], "not a readable .npz archive"),
        (_npy(np.zeros(3)), "a single array, not an .npz archive"),
        (_archive({}), r"'context_weights' is missing \(there are: none\)"),
        (_archive(_MEMBERS | {"mean_rewards.npy": b"text"}), "'mean_rewards' is damaged or not an array"),
        (
            _archive(_MEMBERS | {"mean_rewards.npy": _MEMBERS["mean_rewards.npy"][:-8]}),
            "'mean_rewards' is damaged",
        ),
        (_archive(_MEMBERS | {"mean_rewards.npy": _HUGE}), "'mean_rewards' (does not fit|is damaged)"),
        (
            _archive(_MEMBERS).replace(_npy(GOOD["mean_rewards"])[-16:], b"\1" * 16),
            "'mean_rewards' is damaged",
        ),
    ],
    ids=range(10),  # an archive has the time in it, and tests must have the same names on all workers
)
def test_each_broken_file_gets_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_problem(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file .*gone.npz"):
        load_problem(tmp_path / "gone.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InputError, match=r"folder.npz is not a file"):
        load_problem(tmp_path / "folder.npz")


class _Bomb:
    """What a malicious file holds: unpickling it would create a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


@pytest.mark.parametrize("member", ["mean_rewards", "policy_actions", "noise_variance"])
def test_nothing_in_a_file_is_ever_run(member: str, tmp_path: Path) -> None:
    target = tmp_path / "side-effect"
    bomb = np.empty(1, dtype=object)
    bomb[0] = _Bomb(target)
    pickle.loads(pickle.dumps(_Bomb(target)))
    assert target.exists(), "the bomb works when something unpickles it"
    target.unlink()
    path = write(tmp_path / "bomb.npz", **{member: bomb})
    with pytest.raises(InputError, match=f"'{member}' holds Python objects, which are never loaded"):
        load_problem(path)
    assert not target.exists()


def test_a_bare_pickle_is_never_run(tmp_path: Path) -> None:
    target = tmp_path / "side-effect"
    path = tmp_path / "bomb.npz"
    path.write_bytes(pickle.dumps(_Bomb(target)))
    with pytest.raises(InputError, match=r"not a readable .npz archive"):
        load_problem(path)
    assert not target.exists()


def test_features_of_actions_come_back_and_make_rewards_linear(tmp_path: Path) -> None:
    problem = load_problem("linear:dimension=3,actions=4,contexts=20,policies=10,seed=1")
    save_problem(problem, tmp_path / "linear.npz")
    back = load_problem(tmp_path / "linear.npz")
    assert back.population.phi is not None
    assert problem.population.phi is not None
    assert np.array_equal(back.population.phi.array, problem.population.phi.array)
    assert back.realizable is not None
    assert problem.realizable is not None
    assert np.allclose(back.realizable.parameter, problem.realizable.parameter)
    bent = load_problem("linear:dimension=3,actions=4,contexts=20,policies=10,misfit=0.5,seed=1")
    save_problem(bent, tmp_path / "bent.npz")
    again = load_problem(tmp_path / "bent.npz")
    assert again.realizable is None
    assert again.population.phi is not None


def test_features_of_actions_of_another_shape_are_refused(tmp_path: Path) -> None:
    arrays = {
        "context_weights": np.full(2, 0.5),
        "mean_rewards": np.full((2, 3), 0.5),
        "policy_actions": np.zeros((1, 2), dtype=int),
    }
    np.savez(tmp_path / "bad.npz", **arrays, action_features=np.ones((2, 4, 5)))
    with pytest.raises(InputError, match=r"action_features must have shape \(2, 3, any\), got \(2, 4, 5\)"):
        load_problem(tmp_path / "bad.npz")
