"""The closed-form design against an independent convex solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits import allocation
from pacbandits.allocation import allocate
from tests.examples import examples

MASSES = st.lists(st.sampled_from([0.0, 1e-3, 0.1, 0.5, 1.0, 2.0, 30.0]), min_size=1, max_size=8)


def check(mass: np.ndarray, propensities: np.ndarray, value: float, floor: float) -> None:
    assert propensities.sum() == pytest.approx(1, rel=0, abs=1e-12)
    assert propensities.min() >= floor
    played = mass > 0
    assert (propensities[played] > 0).all()
    assert value == pytest.approx((mass[played] / propensities[played]).sum(), rel=1e-12)


@pytest.mark.thorough
@examples(60)
@given(MASSES, st.sampled_from([0.0, 0.05, 0.5, 0.9, 1.0]))
def test_agrees_with_a_convex_solver(masses: list[float], share: float) -> None:
    mass = np.array(masses)
    floor = share / len(mass)
    propensities, value = allocate(mass[None, :], floor=floor)
    check(mass, propensities[0], value[0], floor)
    asked = mass > 0
    if not asked.any():
        assert value[0] == 0
        return
    p = cp.Variable(len(mass))
    cost = cp.sum(cp.multiply(mass[asked] / mass.max(), cp.inv_pos(p[asked])))
    problem = cp.Problem(cp.Minimize(cost), [cp.sum(p) == 1, p >= floor])
    problem.solve(solver=cp.CLARABEL)
    assert value[0] / mass.max() == pytest.approx(problem.value, rel=1e-5)


@examples(200)
@given(st.integers(1, 30), st.floats(0, 1), st.integers(0, 2**32 - 1), st.floats(-100, 100))
def test_meets_the_optimality_conditions(n_actions: int, share: float, seed: int, exponent: float) -> None:
    """Above the floor `x/p²` is one constant; at the floor it is no larger: by convexity the optimum."""
    rng = np.random.default_rng(seed)
    mass = 10.0**exponent * 10.0 ** rng.uniform(-6, 0, size=n_actions) * rng.integers(0, 2, size=n_actions)
    floor = share / n_actions
    propensities, value = allocate(mass[None, :], floor=floor)
    if not mass.any():
        assert np.allclose(propensities, 1 / n_actions)
        assert value[0] == 0
        return
    check(mass, propensities[0], value[0], floor)
    above = propensities[0] > floor * (1 + 1e-9)
    slope = np.divide(mass, propensities[0] ** 2, out=np.zeros(n_actions), where=mass > 0)
    if above.any():
        assert slope[above] == pytest.approx(slope[above].max(), rel=1e-6)
        assert (slope[~above] <= slope[above].max() * (1 + 1e-6)).all()


def test_without_a_floor_it_is_the_square_root() -> None:
    mass = np.array([[1.0, 4.0, 0.0], [0.0, 0.0, 0.0], [9.0, 9.0, 9.0]])
    propensities, value = allocate(mass)
    assert np.allclose(propensities, [[1 / 3, 2 / 3, 0], [1 / 3] * 3, [1 / 3] * 3])
    assert np.allclose(value, [9, 0, 81])


def test_a_floor_of_one_over_the_actions_is_uniform() -> None:
    propensities, value = allocate(np.array([[1.0, 100.0, 0.0]]), floor=1 / 3)
    assert np.allclose(propensities, 1 / 3)
    assert value[0] == pytest.approx(303)


def test_rows_do_not_depend_on_how_the_work_is_cut() -> None:
    mass = np.random.default_rng(0).exponential(size=(1001, 7))
    together = allocate(mass, floor=0.05)
    apart = [allocate(row[None, :], floor=0.05) for row in mass]
    assert np.array_equal(together[0], np.concatenate([p for p, _ in apart]))
    assert np.array_equal(together[1], np.concatenate([v for _, v in apart]))


def test_plain_python_and_machine_code_agree_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new server allocates its first rows before the machine code is loaded."""
    rng = np.random.default_rng(5)
    for floor in (0.0, 0.01, 0.2):
        mass = rng.exponential(size=(40, 5)) * (rng.random((40, 5)) < 0.8)
        compiled = allocate(np.vstack([mass, np.ones((allocation.MAX_PLAIN_ROWS, 5))]), floor=floor)
        with monkeypatch.context() as patched:
            patched.setattr(allocation, "plain_if_few", lambda function, _: function.py_func)
            plain = allocate(mass, floor=floor)
        for one, other in zip(plain, compiled, strict=True):
            assert np.array_equal(one, other[:40])


def test_few_rows_wake_no_other_thread(monkeypatch):
    """A server allocates for a handful of people at a time, hundreds of times a second."""
    mass = np.random.default_rng(0).random((allocation.MAX_PLAIN_ROWS + 1, 3))
    propensities, value = allocate(mass)  # with machine code, on all cores
    monkeypatch.delattr(allocation, "over_cores")
    few = allocate(mass[:7])
    np.testing.assert_array_equal(few[0], propensities[:7])
    np.testing.assert_array_equal(few[1], value[:7])
