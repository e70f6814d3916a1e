"""Linear policies against every parameter of small grids, tried one by one."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbandits.certificate import verify
from pacbandits.errors import InputError
from pacbandits.policies import EnumeratedClass, Linear, LinearPolicy, class_from_json, class_to_json, policy_from_json
from pacbandits.policies.features import Crossed, FeatureMap, Given
from pacbandits.policies.linear import grid as linear_grid
from pacbandits.policies.linear import oracle
from pacbandits.policies.linear.acting import act, act_all, rows_of
from pacbandits.policies.linear.arrangement import Turns
from pacbandits.policies.linear.grid import count_directions, directions
from pacbandits.policies.linear.oracle import ListedLinear, SearchedLinear, SolvedLinear, SweptLinear
from pacbandits.policies.linear.search import Ground
from pacbandits.policies.registry import load_policies
from pacbandits.problems import load_problem
from pacbandits.records import Contexts
from pacbandits.simulation import run


def grid(dimension: int, levels: int) -> np.ndarray:
    return np.array(list(itertools.product(range(-levels, levels + 1), repeat=dimension)))


def with_phi(phi: np.ndarray) -> Contexts:
    return Contexts.of(np.empty((len(phi), 0)), phi=phi)


def draw_people(rng: np.random.Generator, n: int, numbers: int, labels: int = 0) -> Contexts:
    """Contexts of a few standard normal features, and one category if `labels`."""
    columns = [rng.normal(size=n) for _ in range(numbers)]
    categories: list[tuple[str, ...] | None] = [None] * numbers
    if labels:
        columns.append(rng.integers(0, labels, n).astype(float))
        categories.append(tuple("abcdef"[:labels]))
    return Contexts.of(np.column_stack(columns), categories=categories)


def brute_values(phi: np.ndarray, parameters: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The value of every parameter; scores of actions that agree to 9 digits are ties, and go to the first."""
    actions = np.array([np.round(phi @ theta, 9).argmax(axis=1) for theta in parameters])
    return scores[np.arange(len(scores)), actions].sum(axis=1)


def value(policy: LinearPolicy, contexts: Contexts, scores: np.ndarray) -> float:
    return float(scores[np.arange(len(scores)), policy(contexts)].sum())


# The grid


@pytest.mark.parametrize(("dimension", "levels"), [(1, 1), (1, 7), (2, 1), (2, 6), (3, 4), (4, 2), (6, 1)])
def test_directions_are_counted_once(dimension: int, levels: int) -> None:
    everything = grid(dimension, levels)
    divisors = np.gcd.reduce(everything, axis=1)
    wanted = {tuple(theta // max(g, 1)) for theta, g in zip(everything, divisors, strict=True)}
    listed = directions(dimension, levels)
    assert {tuple(theta) for theta in listed} == wanted
    assert len(listed) == len(wanted) == count_directions(dimension, levels)


def test_log_size_is_that_of_the_directions() -> None:
    contexts = draw_people(np.random.default_rng(0), 5, 9)
    policies = Linear.learn(contexts, n_actions=11, levels=3)
    assert policies.map.dimension == 100
    assert policies.log_size == pytest.approx(100 * math.log(7), rel=1e-9)
    assert Linear.learn(contexts, n_actions=2, levels=1).log_size <= 10 * math.log(3)


# What policies do


def plain_actions(phi: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Added up one coordinate after the other, in Python's arithmetic."""
    out = []
    for row in phi.tolist():
        sums = []
        for features in row:
            total = 0.0
            for x, t in zip(features, theta.tolist(), strict=True):
                total += x * t
            sums.append(total)
        out.append(sums.index(max(sums)))
    return np.array(out)


@given(st.integers(0, 2**32), st.sampled_from(["blocks", "shared", "given"]))
@settings(max_examples=60)
def test_all_kernels_add_up_in_the_same_order(seed: int, kind: str) -> None:
    """Also where ties are decided by the last bit: features are multiples of 0.1 here, which no double is."""
    rng = np.random.default_rng(seed)
    n, n_actions = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    tenths = rng.integers(-3, 4, (n, 2)) / 10
    contexts = Contexts.of(tenths, phi=rng.integers(-3, 4, (n, n_actions, 3)) / 10)
    features: FeatureMap = Given(n_actions, 3)
    if kind == "blocks":
        features = Crossed.blocks(contexts, n_actions=n_actions, relative=True)
    if kind == "shared":
        features = Crossed.shared(contexts, rng.integers(-3, 4, (n_actions, 2)) / 10)
    rows, phi = rows_of(features, contexts), features(contexts)
    parameters = rng.integers(-3, 4, (6, features.dimension))
    wanted = np.array([plain_actions(phi, theta) for theta in parameters])
    np.testing.assert_array_equal(rows.spread_out(act_all(rows, parameters)), wanted)
    for theta, actions in zip(parameters, wanted, strict=True):
        np.testing.assert_array_equal(rows.spread_out(act(rows, theta)), actions)


def test_rows_that_are_alike_are_kept_once() -> None:
    labels = Contexts.of(np.arange(50)[:, None] % 3, categories=[("a", "b", "c")])
    assert len(rows_of(Crossed.blocks(labels, n_actions=2), labels)) == 3
    some = with_phi(np.random.default_rng(0).normal(size=(4, 2, 3))).take([3, 1, 1, 3, 3])
    rows = rows_of(Given(2, 3), some)
    assert len(rows) == 2
    policy = LinearPolicy(Given(2, 3), (1, -1, 2))
    np.testing.assert_array_equal(policy(some), policy(with_phi(Given(2, 3)(some))))


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


# Two coefficients


@st.composite
def flat_problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """φ (n, A, 2) with ties, copies and points in line, scores, and levels."""
    n, n_actions = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    phi = rng.integers(-3, 4, (n, n_actions, 2)).astype(float)
    kind = draw(st.sampled_from(["whole", "tenths", "near", "real", "line"]))
    if kind == "tenths":
        phi /= 10
    if kind == "near":
        phi += rng.integers(-1, 2, phi.shape) * 1e-16 * np.abs(phi)
        phi[:, :, 0] = phi[:, :1, 0] * (1 + rng.integers(-1, 2, phi[:, :, 0].shape) * 2.0**-52)
    if kind == "real":
        phi = rng.normal(size=phi.shape)
    if kind == "line":
        phi = phi[:, :1] + rng.integers(-2, 3, (n, n_actions, 1)) * phi[:, :1, ::-1]
    scores = (
        rng.integers(-2, 3, (n, n_actions)).astype(float) if draw(st.booleans()) else rng.normal(size=phi.shape[:2])
    )
    return phi, scores, draw(st.integers(1, 9))


@settings(max_examples=200)
@given(flat_problems())
def test_turning_once_around_sees_every_direction_as_it_acts(problem: tuple[np.ndarray, np.ndarray, int]) -> None:
    phi, scores, levels = problem
    contexts = with_phi(phi)
    listed = directions(2, levels)
    found = Turns.of(rows_of(Given(phi.shape[1], 2), contexts), listed).values(scores)
    actions = np.array([plain_actions(phi, theta) for theta in listed])
    wanted = scores[np.arange(len(phi)), actions].sum(axis=1)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    policies = Linear.of(Given(phi.shape[1], 2), levels=levels)
    assert value(policies.argmax(contexts, scores), contexts, scores) == pytest.approx(wanted.max(), abs=1e-11)


def test_many_levels_of_two_coefficients() -> None:
    """Too many to list, but not to turn through; against all of them with whole numbers, which are exact."""
    rng = np.random.default_rng(0)
    phi, scores = rng.integers(-9, 10, (40, 3, 2)).astype(float), rng.normal(size=(40, 3))
    policies = Linear.of(Given(3, 2), levels=60)
    assert type(policies) is SweptLinear
    assert policies.exact
    assert not isinstance(policies, EnumeratedClass)
    contexts = with_phi(phi)
    best = policies.argmax(contexts, scores)
    wanted = max(scores[np.arange(40), (phi @ theta).argmax(axis=1)].sum() for theta in directions(2, 60))
    assert value(best, contexts, scores) == pytest.approx(wanted)
    front = policies.frontier(contexts, scores, -scores)
    assert front.first[0] == pytest.approx(wanted)
    assert policies.shortfall(contexts, scores).bound == pytest.approx(wanted)


def test_one_coefficient() -> None:
    rng = np.random.default_rng(0)
    phi, scores = rng.normal(size=(30, 3, 1)), rng.normal(size=(30, 3))
    policies = Linear.of(Given(3, 1), levels=500)
    assert isinstance(policies, ListedLinear)
    assert len(policies) == 3
    got = value(policies.argmax(with_phi(phi), scores), with_phi(phi), scores)
    assert got == pytest.approx(brute_values(phi, np.array([[-1], [0], [1]]), scores).max())


# Listed and swept


def test_listed_policies_are_all_there_is() -> None:
    rng = np.random.default_rng(3)
    contexts = draw_people(rng, 30, 1, labels=2)
    policies = Linear.learn(contexts, n_actions=2, levels=3)
    assert isinstance(policies, EnumeratedClass)
    assert isinstance(policies, ListedLinear)
    table = policies.actions(contexts)
    assert table.shape == (len(policies), 30)
    for index in (0, 57, len(policies) - 1):
        np.testing.assert_array_equal(policies.policy(index)(contexts), table[index])
        assert policies.has(policies.policy(index))
    for seed in range(10):
        scores = np.random.default_rng(seed).normal(size=(30, 2))
        wanted = brute_values(policies.map(contexts), grid(3, 3), scores).max()
        assert value(policies.argmax(contexts, scores), contexts, scores) == pytest.approx(wanted)
        np.testing.assert_allclose(policies.values(contexts, scores)[0].max(), wanted)


def test_swept_policies_are_all_looked_at() -> None:
    rng = np.random.default_rng(4)
    contexts = draw_people(rng, 25, 1)
    listed = Linear.learn(contexts, n_actions=3, levels=2)
    assert isinstance(listed, ListedLinear)
    swept = SweptLinear(listed.map, levels=2)
    assert not isinstance(swept, EnumeratedClass)
    for seed in range(5):
        scores = np.random.default_rng(seed).normal(size=(25, 3))
        (whole,) = listed.values(contexts, scores)
        rows = rows_of(listed.map, contexts)
        (parts,) = linear_grid.values_of(rows, listed.parameters, rows.add_up(scores), entries_at_a_time=1000)
        np.testing.assert_array_equal(parts, whole)
        assert swept.argmax(contexts, scores).parameter == listed.argmax(contexts, scores).parameter
        for one, other in zip(*(c.frontier(contexts, scores, -scores).first for c in (swept, listed)), strict=True):
            assert one == pytest.approx(other)


def test_how_oracles_are_chosen() -> None:
    contexts = draw_people(np.random.default_rng(0), 10, 3)
    kinds = {
        "auto": [ListedLinear, SweptLinear, SearchedLinear],
        "search": [SearchedLinear] * 3,
        "milp": [SolvedLinear] * 3,
    }
    for name, wanted in kinds.items():
        made = [Linear.learn(contexts, n_actions=2, levels=levels, oracle=name) for levels in (2, 6, 9)]
        assert [type(one) for one in made] == wanted
        assert [one.exact for one in made] == [kind not in (SearchedLinear, SolvedLinear) for kind in wanted]
    assert type(Linear.learn(contexts, n_actions=2, levels=9, oracle="list")) is SweptLinear
    few = Contexts.of(contexts.features, ids=np.arange(10))
    assert type(Linear.learn(few, n_actions=2, levels=9)) is SweptLinear
    many = draw_people(np.random.default_rng(0), 20_000, 3)
    assert type(Linear.learn(many, n_actions=2, levels=6)) is SearchedLinear
    with pytest.raises(InputError, match="too many to list"):
        Linear.learn(contexts, n_actions=5, levels=9, oracle="list")
    wide = Contexts.of(np.random.default_rng(0).normal(size=(5, 400)))
    with pytest.raises(InputError, match=r"about 10\^\d{3} policies are too many to list"):
        Linear.learn(wide, n_actions=3, oracle="list", levels=8)


def test_features_too_large_to_be_squared_are_refused():
    with pytest.raises(InputError, match="'x0' has values beyond"):
        Linear.learn(Contexts.of([[1e200], [2e200]], names=["x0"]), n_actions=2)


# The integer program


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 3), st.booleans())
def test_the_integer_program_finds_the_best(seed: int, n: int, n_actions: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    phi = rng.integers(-2, 3, (n, n_actions, 3)).astype(float) if whole else rng.normal(size=(n, n_actions, 3))
    scores = np.round(rng.normal(size=(n, n_actions)), 1)
    contexts = with_phi(phi)
    policies = Linear.of(Given(n_actions, 3), levels=2, oracle="milp")
    wanted = brute_values(phi, grid(3, 2), scores).max()
    assert value(policies.argmax(contexts, scores), contexts, scores) == pytest.approx(wanted, abs=1e-9)
    assert policies.upper_bound(contexts, scores) == pytest.approx(wanted, abs=1e-9)


def test_the_integer_program_says_when_it_is_too_large() -> None:
    rng = np.random.default_rng(0)
    contexts = draw_people(rng, 3000, 3)
    scores = rng.normal(size=(3000, 3))
    policies = Linear.learn(contexts, n_actions=3, oracle="milp")
    with pytest.raises(InputError, match="3,000 rows are too many for an exact search; use oracle=search"):
        policies.argmax(contexts, scores)
    hasty = SolvedLinear(policies.map, levels=policies.levels, seconds=1e-3)
    with pytest.raises(InputError, match="60 rows are too many for an exact search in 0 s"):
        hasty.argmax(contexts.take(np.arange(60)), scores[:60])


def test_shortfalls() -> None:
    rng = np.random.default_rng(0)
    contexts, scores = draw_people(rng, 9, 9), rng.normal(size=(9, 2))
    policies = Linear.learn(contexts, n_actions=2, levels=2)
    assert not policies.exact
    report = policies.shortfall(contexts, scores)  # by the integer program: 9.7 million parameters
    assert report.exact
    assert report.baseline <= report.found <= report.bound + 1e-12
    assert report.share == pytest.approx((report.found - report.baseline) / (report.bound - report.baseline))
    listed = Linear.learn(contexts, n_actions=2, levels=1).shortfall(contexts, scores)
    assert listed.exact
    assert listed.share == pytest.approx(1.0)
    many, wide = draw_people(rng, 3000, 9), rng.normal(size=(3000, 2))
    rough = policies.shortfall(many, wide)
    assert not rough.exact
    assert rough.bound == pytest.approx(wide.max(axis=1).sum())


# The search


def small_searches() -> list[tuple[Contexts, np.ndarray, int]]:
    rng = np.random.default_rng(7)
    out = []
    for _ in range(20):
        for numbers, labels, n_actions, levels in ((1, 0, 3, 3), (2, 0, 2, 4), (1, 3, 2, 2)):
            contexts = draw_people(rng, 60, numbers, labels)
            out.append((contexts, rng.normal(size=(60, n_actions)), levels))
    return out


def test_the_search_finds_nearly_always_the_best() -> None:
    hits = 0
    problems = small_searches()
    for contexts, scores, levels in problems:
        n_actions = scores.shape[1]
        exact = Linear.learn(contexts, n_actions=n_actions, levels=levels)
        assert exact.exact
        rough = Linear.learn(contexts, n_actions=n_actions, levels=levels, oracle="search")
        best = value(exact.argmax(contexts, scores), contexts, scores)
        found = value(rough.argmax(contexts, scores), contexts, scores)
        assert found <= best + 1e-9
        hits += found >= best - 1e-9
    assert hits >= 0.95 * len(problems)


@pytest.mark.parametrize("kind", ["blocks", "given"])
def test_the_search_recovers_planted_policies(kind: str) -> None:
    recovered = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        contexts = draw_people(rng, 400, 3) if kind == "blocks" else with_phi(rng.normal(size=(400, 4, 8)))
        policies = Linear.learn(contexts, n_actions=4, levels=2, oracle="search")
        theta = rng.integers(-2, 3, policies.map.dimension)
        planted = LinearPolicy(policies.map, tuple(theta.tolist()))(contexts)
        scores = np.zeros((400, 4))
        scores[np.arange(400), planted] = rng.random(400)
        found = policies.argmax(contexts, scores)
        assert value(found, contexts, scores) >= 0.98 * scores.sum()
        recovered += (found(contexts) == planted).all()
    assert recovered >= 7


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_the_search_is_never_worse_than_one_action(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_actions = int(rng.integers(1, 6))
    contexts = draw_people(rng, int(rng.integers(1, 40)), int(rng.integers(1, 4)), int(rng.choice([0, 2, 4])))
    policies = Linear.learn(contexts, n_actions=n_actions, levels=int(rng.integers(1, 4)), oracle="search")
    scores = rng.normal(size=(len(contexts), n_actions)) + 3 * rng.normal(size=n_actions)
    assert value(policies.argmax(contexts, scores), contexts, scores) >= scores.sum(axis=0).max() - 1e-9


@pytest.mark.parametrize("levels", [1, 20])
@pytest.mark.parametrize("kind", ["relative", "blocks", "last without", "shared", "given"])
def test_constant_policies_are_known_before_any_search(levels: int, kind: str) -> None:
    """Each action that some direction of its own features singles out can be taken always."""
    contexts = draw_people(np.random.default_rng(0), 50, 2)
    table = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.1], [-1.0, -1.0, 0.0], [0.0, 0.1, 1.0]])
    maps: dict[str, FeatureMap] = {
        "relative": Crossed.blocks(contexts, n_actions=4, relative=True),
        "blocks": Crossed.blocks(contexts, n_actions=4),
        "last without": Crossed.shared(contexts, np.eye(4)[:, :3]),
        "shared": Crossed.shared(contexts, table),
        "given": Given(4, 3),
    }
    features = maps[kind]
    if kind == "given":
        noise = 0.01 * np.random.default_rng(1).normal(size=(50, 4, 3))
        contexts = with_phi(table + noise)
    ground = Ground.of(rows_of(features, contexts), levels=levels)
    always = {int(row[0]) for row in ground.actions if (row == row[0]).all()}
    assert always == {0, 1, 2, 3}
    np.testing.assert_array_equal(ground.actions, [act(ground.rows, theta) for theta in ground.pool])
    assert np.abs(ground.pool).max() <= levels


def test_the_search_ignores_what_is_added_to_a_row() -> None:
    rng = np.random.default_rng(0)
    contexts = draw_people(rng, 200, 4)
    policies = Linear.learn(contexts, n_actions=4, oracle="search")
    scores = rng.integers(-5, 6, (200, 4)).astype(float)
    shifted = scores + rng.integers(-50, 50, (200, 1))
    assert policies.argmax(contexts, scores).parameter == policies.argmax(contexts, shifted).parameter
    assert policies.argmax(contexts, scores * 2.0**-700).parameter == policies.argmax(contexts, scores).parameter


def test_equal_scores_give_equal_policies() -> None:
    """Whatever was asked before."""
    rng = np.random.default_rng(0)
    contexts = draw_people(rng, 5000, 3)
    scores, other = rng.normal(size=(2, 5000, 3))
    once = Linear.learn(contexts, n_actions=3, oracle="search")
    first = once.argmax(contexts, scores)
    once.argmax(contexts, other)
    again = Linear.learn(contexts, n_actions=3, oracle="search").argmax(contexts.take(np.arange(5000)), scores)
    assert once.argmax(contexts, scores).parameter == first.parameter == again.parameter


def test_many_rows_are_sampled_and_then_polished() -> None:
    rng = np.random.default_rng(0)
    contexts = draw_people(rng, 9000, 3)
    policies = Linear.learn(contexts, n_actions=3, levels=2, oracle="search")
    theta = rng.integers(-2, 3, policies.map.dimension)
    planted = LinearPolicy(policies.map, tuple(theta.tolist()))(contexts)
    scores = rng.normal(size=(9000, 3)) * 0.1
    scores[np.arange(9000), planted] += 1.0
    found = policies.argmax(contexts, scores)
    assert value(found, contexts, scores) >= scores[np.arange(9000), planted].sum() * 0.99


def test_scores_that_tell_nothing() -> None:
    contexts = draw_people(np.random.default_rng(0), 20, 2)
    for name in ("auto", "search", "milp"):
        policies = Linear.learn(contexts, n_actions=3, levels=1, oracle=name)
        assert not any(policies.argmax(contexts, np.full((20, 3), 0.7)).parameter)


# The class as a whole


def test_json() -> None:
    contexts = draw_people(np.random.default_rng(0), 20, 2, labels=3)
    for policies in (
        Linear.learn(contexts, n_actions=3, levels=2, oracle="search"),
        Linear.of(Crossed.shared(contexts, [[0.1, 0.2], [0.3, -0.4]]), oracle="milp"),
        Linear.of(Given(3, 2), levels=5),
    ):
        back = class_from_json(json.loads(json.dumps(class_to_json(policies))))
        assert isinstance(back, Linear)
        assert type(back) is type(policies)
        assert (back.levels, back.log_size, back.exact) == (policies.levels, policies.log_size, policies.exact)
        assert back.map.to_json() == policies.map.to_json()
        policy = LinearPolicy(policies.map, (1,) * policies.map.dimension)
        read = policy_from_json(json.loads(json.dumps(policy.to_json())))
        assert isinstance(read, LinearPolicy)
        assert read.parameter == policy.parameter
        assert read.map is policies.map  # so that what is known of contexts is known once
        assert back.has(read)


def test_what_belongs_to_a_class() -> None:
    contexts = draw_people(np.random.default_rng(0), 20, 2)
    policies = Linear.learn(contexts, n_actions=2, levels=3)
    assert policies.has(LinearPolicy(policies.map, (3, -1, 0)))
    assert policies.has(LinearPolicy(policies.map, (6, -2, 0)))
    assert not policies.has(LinearPolicy(policies.map, (4, -1, 0)))
    assert not policies.has(LinearPolicy(Given(2, 3), (1, 1, 1)))
    other = Linear.learn(contexts.take([0, 1, 2]), n_actions=2, levels=3)
    assert not policies.has(LinearPolicy(other.map, (1, 0, 0)))


@pytest.mark.parametrize("parameter", ["12", (1,), (1, 2, 3), (1.5, 2), (True, 1), 7, None])
def test_wrong_parameters_are_refused(parameter: object) -> None:
    with pytest.raises(InputError, match="parameter"):
        LinearPolicy(Given(3, 2), parameter)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError):
        policy_from_json({"kind": "linear", "map": Given(3, 2).to_json(), "parameter": parameter})


def test_wrong_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"make linear policies by Linear\.of\(map\) or Linear\.learn"):
        Linear(Given(3, 2))  # pyright: ignore[reportAbstractUsage]
    contexts = draw_people(np.random.default_rng(0), 20, 2)
    for levels in (0, -1, 1001):
        with pytest.raises(InputError, match="levels must be between 1 and 1000"):
            Linear.learn(contexts, n_actions=2, levels=levels)
    with pytest.raises(InputError, match="whole number"):
        Linear.learn(contexts, n_actions=2, levels=1.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="unknown oracle 'serch'; did you mean 'search'"):
        Linear.learn(contexts, n_actions=2, oracle="serch")
    with pytest.raises(InputError, match="n_actions must be 1 or more"):
        Linear.learn(contexts, n_actions=0)
    with pytest.raises(InputError, match="nothing depends on the action"):
        Linear.of(Crossed.shared(contexts, np.zeros((3, 2))))
    with pytest.raises(InputError, match="zero everywhere"):
        Linear.learn(with_phi(np.zeros((3, 2, 2))), n_actions=2)
    policies = Linear.of(Given(3, 2))
    with pytest.raises(InputError, match="no features of actions"):
        policies.argmax(contexts, np.zeros((20, 3)))
    with pytest.raises(InputError, match="4 features, but 2 are needed"):
        policies.argmax(with_phi(np.ones((2, 3, 4))), np.zeros((2, 3)))
    for name in ("auto", "search"):
        with pytest.raises(InputError, match="finite"):
            Linear.learn(contexts, n_actions=2, oracle=name).argmax(contexts, np.full((20, 2), np.nan))


def test_specs() -> None:
    contexts = draw_people(np.random.default_rng(0), 20, 2)
    made = load_policies("linear", contexts, n_actions=3)
    assert isinstance(made, Linear)
    assert made.levels == oracle.default_levels(6) == 2
    assert type(load_policies("linear:levels=4", contexts, n_actions=3)) is SearchedLinear
    assert isinstance(load_policies("linear:oracle=milp", contexts, n_actions=3), SolvedLinear)
    given_phi = load_policies("linear", with_phi(np.ones((3, 2, 2))), n_actions=2)
    assert isinstance(given_phi, Linear)
    assert isinstance(given_phi.map, Given)
    with pytest.raises(InputError, match="need features or phi, but the contexts have neither"):
        load_policies("linear", Contexts.finite(3), n_actions=2)
    with pytest.raises(InputError, match="oracle must be auto or list or milp or search"):
        load_policies("linear:oracle=best", contexts, n_actions=3)


def test_a_trial_ends_with_a_certificate_that_holds() -> None:
    problem = load_problem("linear:dimension=3,actions=3,contexts=50")
    policies = Linear.learn(problem.population, n_actions=3, levels=2)
    done = run(problem, policies, epsilon=0.2, delta=0.1, rng=0)
    assert done.stopped == "done"
    assert done.correct
    assert done.certificate is not None
    assert done.log is not None
    assert verify(done.certificate, done.log, policies).good
    back = class_from_json(json.loads(json.dumps(class_to_json(policies))))
    assert verify(done.certificate, done.log, back).good


def test_a_trial_with_a_searched_class_says_what_it_assumes() -> None:
    problem = load_problem("trees:features=3,actions=3,contexts=60")
    policies = Linear.learn(problem.population, n_actions=3, levels=1, oracle="search")
    done = run(problem, policies, algorithm="uniform", epsilon=0.3, delta=0.1, rng=0)
    assert done.certificate is not None
    assert done.log is not None
    assert verify(done.certificate, done.log, policies).good
    assert "not exact" in done.guarantee
