"""Scenarios: each truth that is drawn has the effects, the shares and the noise that its scenario states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.errors import InputError
from pacbandits.policies.finite import Trivial
from pacbandits.problems.noise import Bernoulli, Beta
from pacbandits.problems.scenarios import Outcome, Scenario, segment
from pacbandits.records import Contexts

KINDS = ("none", "winner", "segments", "few")


def people_of(kind, n, rng):
    """Contexts of one kind: numbers, labels, numbers of which some are missing, both, or nothing."""
    numbers, labels = rng.normal(size=(n, 2)), rng.integers(4, size=(n, 1)).astype(float)
    names = [["red", "green", "blue", "grey"]]
    if kind == "numbers":
        made = Contexts.of(numbers)
    elif kind == "labels":
        made = Contexts.of(labels, names=["colour"], categories=names)
    elif kind == "missing":
        made = Contexts.of(np.where(rng.random((n, 2)) < 0.2, np.nan, numbers))
    elif kind == "both":
        made = Contexts.of(np.hstack([numbers, labels]), names=["a", "b", "colour"], categories=[None, None, *names])
    else:
        made = Contexts.finite(n)
    return Contexts.of(made.features, names=made.names, categories=made.categories, ids=np.arange(n))


OUTCOMES = st.builds(
    lambda low, width, mean, spread, variation: Outcome(
        low + width * mean, spread and spread * width * (mean * (1 - mean)) ** 0.5, low, low + width, variation
    ),
    low=st.sampled_from([0.0, -3.0, 5.0]),
    width=st.sampled_from([1.0, 200.0]),
    mean=st.floats(0.02, 0.6),
    spread=st.sampled_from([None, 0.1, 0.9]),
    variation=st.sampled_from([0.0, 0.3, 0.9]),
)


@given(
    kind=st.sampled_from(KINDS),
    features=st.sampled_from(["numbers", "labels", "missing", "both", "nothing"]),
    n=st.integers(1, 60),
    n_actions=st.integers(2, 9),
    outcome=OUTCOMES,
    part=st.floats(0.01, 0.99),
    matter=st.integers(1, 8),
    seed=st.integers(0, 2**32),
)
def test_each_truth_has_the_effects_that_its_scenario_states(kind, features, n, n_actions, outcome, part, matter, seed):
    rng = np.random.default_rng(seed)
    contexts, policies = people_of(features, n, rng), Trivial(n, n_actions=n_actions)
    effect = part * (outcome.high - outcome.baseline - outcome.variation * outcome.room)
    scenario = Scenario(kind, effect=effect, matter=min(matter, n_actions - 1))
    problem = scenario.draw(contexts, policies, outcome=outcome, rng=rng)
    means = outcome.low + outcome.unit * problem.mean_rewards  # in their own units, and never cut off
    base, tolerance = means.min(axis=1, keepdims=True), 1e-9 * outcome.unit
    gains = means - base
    if n_actions > scenario.matter + 1 or kind != "few":  # somebody does nothing for anybody
        assert contexts.weights @ base[:, 0] == pytest.approx(outcome.baseline, abs=tolerance)
        assert np.abs(base - outcome.baseline).max() <= outcome.variation * outcome.room + tolerance
    alike = np.isclose(gains, 0, atol=tolerance)
    better = np.isclose(gains, effect, atol=tolerance)
    if kind == "none":
        assert alike.all()
    elif kind == "winner":
        assert better[:, gains[0].argmax()].all()
        assert (alike.sum(axis=1) == n_actions - 1).all()
    elif kind == "segments":
        assert (better.sum(axis=1) == 1).all()
        assert (alike.sum(axis=1) == n_actions - 1).all()
        assert better.any(axis=0).sum() <= 2
    elif n_actions > scenario.matter:
        half = np.isclose(gains, effect / 2, atol=tolerance)
        assert (better.sum(axis=1) == 1).all()
        assert (half.sum(axis=1) == scenario.matter - 1).all()
        assert (~alike).any(axis=0).sum() == scenario.matter
    assert problem.name == kind
    assert problem.population is contexts


@pytest.mark.first(1)
@pytest.mark.parametrize("features", ["numbers", "labels", "missing", "both", "nothing"])
def test_segments_hold_about_their_share_of_the_people(features):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        contexts, share = people_of(features, 2_000, rng), rng.choice([0.25, 0.5, 0.75])
        inside = segment(contexts, share, rng)
        assert abs(contexts.weights @ inside - share) < 0.06
        if contexts.n_features:  # one feature tells who is inside
            told = [
                len(set(map(tuple, np.column_stack([np.nan_to_num(x, nan=-99), inside])))) for x in contexts.features.T
            ]
            assert any(many == len(np.unique(x)) for many, x in zip(told, contexts.features.T, strict=True))


def test_a_share_counts_by_weight_and_within_others():
    weights = np.r_[np.full(50, 1.8), np.full(50, 0.2)]
    contexts = Contexts.of(np.arange(100.0)[:, None], weights=weights / weights.sum())
    within = np.arange(100) < 50
    for seed in range(8):
        rng = np.random.default_rng(seed)
        assert contexts.weights @ segment(contexts, 0.3, rng) == pytest.approx(0.3, abs=0.02)
        half = segment(contexts, 0.5, rng, within=within)
        assert (half & within).sum() == pytest.approx(25, abs=1)
        assert segment(contexts, 0.5, rng, within=np.zeros(100, dtype=bool)).shape == (100,)  # nobody is left


def test_who_wins_and_who_differs_is_drawn_anew_and_the_same_for_the_same_seed():
    contexts, outcome = people_of("numbers", 50, np.random.default_rng(0)), Outcome(0.3)
    scenario, policies = Scenario("segments", effect=0.2), Trivial(50, n_actions=4)

    def drawn(seed):
        return scenario.draw(contexts, policies, outcome=outcome, rng=np.random.default_rng(seed)).mean_rewards

    np.testing.assert_array_equal(drawn(3), drawn(3))
    assert len({drawn(seed).tobytes() for seed in range(10)}) == 10
    assert len({int(drawn(seed).mean(axis=0).argmax()) for seed in range(30)}) == 4


def test_the_spread_of_rewards_is_the_one_stated():
    assert isinstance(Outcome(0.2).noise, Bernoulli)
    outcome = Outcome(40.0, 15.0, 0.0, 200.0)
    assert isinstance(outcome.noise, Beta)
    variance = outcome.noise.variances(np.array([[0.2]]))
    assert 200 * np.sqrt(variance[0, 0]) == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Outcome(1.5), r"baseline must lie between 0 and 1.* got 1\.5; state another reward_range"),
        (lambda: Outcome(0.0), "baseline must lie between"),
        (lambda: Outcome(5.0, None, 9.0, 1.0), "reward_range must be increasing, got 9 to 1"),
        (lambda: Outcome(0.1, 0.3), r"spread must be below 0\.3.* got 0\.3; leave it out"),
        (lambda: Outcome(0.1, -0.3), "spread must be above 0"),
        (lambda: Outcome(0.1, variation=1.0), "variation"),
        (lambda: Outcome(float("nan")), "baseline"),
        (lambda: Scenario("winer", effect=0.1), "no scenario 'winer'; did you mean 'winner'"),
        (lambda: Scenario("winner"), "the effect of scenario 'winner' must be above 0"),
        (lambda: Scenario("winner", effect=-0.1), "the effect of scenario 'winner'"),
        (lambda: Scenario("segments", effect=0.1, share=1.0), "share must be"),
        (lambda: Scenario("few", effect=0.1, matter=0), "matter must be"),
        (lambda: Scenario("none", weight=0.0), "weight must be"),
    ],
)
def test_what_cannot_be_supposed_is_refused_in_a_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_effects_beyond_the_range_are_refused_and_those_within_it_are_not():
    with pytest.raises(InputError, match=r"0\.9 and an effect of 0\.2 lead beyond 1, the largest reward"):
        Scenario("winner", effect=0.2).check(Outcome(0.9), n_actions=3)
    with pytest.raises(InputError, match="lead beyond 10"):
        Scenario("winner", effect=8.0, name="big").check(Outcome(0.0, None, -10.0, 10.0), n_actions=3)
    Scenario("winner", effect=0.06).check(Outcome(0.9), n_actions=3)  # people differ by 0.03 there, and not by 0.27
    Scenario("winner", effect=7.0).check(Outcome(0.0, None, -10.0, 10.0), n_actions=3)
    with pytest.raises(InputError, match="scenario 'few': 3 of 3 actions are not a few"):
        Scenario("few", effect=0.1, matter=3).check(Outcome(0.3), n_actions=3)


def test_scenarios_describe_themselves_with_the_figures_that_count():
    assert Scenario("none").describe() == "every action alike"
    assert "better by 0.1 for everybody" in Scenario("winner", effect=0.1).describe()
    assert "25 % of the people" in Scenario("segments", effect=0.1, share=0.25).describe()
    assert "3 of the actions are better by 0.1" in Scenario("few", effect=0.1, matter=3).describe()
