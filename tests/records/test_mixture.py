"""Mixtures of policies: who is drawn, what is logged, and what they say of themselves."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.certificate.boundary import fewest, most

import pacbandits as pb
from pacbandits.certificate.claim import check_follows
from pacbandits.errors import InputError
from pacbandits.policies import chosen_from_json
from pacbandits.policies.finite import Finite
from pacbandits.records import Contexts, likeliest, parts_of

CLASS = Finite([[0, 0, 0, 0], [1, 1, 0, 0], [2, 1, 2, 0]], n_actions=3, names=["none", "half", "most"])
ONE, TWO, THREE = (CLASS.policy(i) for i in range(3))
MIXTURE = pb.Mixture((ONE, TWO, THREE), (0.125, 0.25, 0.625))
HERE = Contexts.finite(4)


def test_propensities_are_the_weights_of_those_who_agree():
    expected = [[0.125, 0.25, 0.625], [0.125, 0.875, 0], [0.375, 0, 0.625], [1, 0, 0]]
    assert np.array_equal(MIXTURE.propensities(HERE), expected)
    twice = MIXTURE.propensities(HERE.take(np.array([2, 2, 0])))
    assert np.array_equal(twice, np.array(expected)[[2, 2, 0]])
    assert MIXTURE.n_actions == 3


def test_policies_are_drawn_by_weight_and_anew_for_every_row():
    runs = 8000
    actions = MIXTURE.draw(HERE.take(np.zeros(runs, dtype=int)), np.random.default_rng(0))
    assert actions.dtype == np.int64
    for action, share in enumerate((0.125, 0.25, 0.625)):
        assert fewest(runs, share) <= (actions == action).sum() <= most(runs, share)
    changes = (actions[1:] != actions[:-1]).sum()
    assert changes > runs / 4  # not one policy for all rows
    assert not MIXTURE.draw(HERE.take(np.full(50, 3)), np.random.default_rng(1)).any()


def test_the_same_generator_draws_the_same():
    one, two = (MIXTURE.draw(HERE, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(one, two)


def test_a_draw_stands_for_the_same_policy_as_numpy_would_choose():
    """So that the same generator still draws what it drew when numpy chose."""
    rows = HERE.take(np.random.default_rng(0).integers(4, size=500))
    each = np.stack([policy(rows) for policy in MIXTURE.policies])
    chosen = np.random.default_rng(5).choice(3, size=500, p=MIXTURE.weights)
    assert np.array_equal(MIXTURE.draw(rows, np.random.default_rng(5)), each[chosen, np.arange(500)])
    assert MIXTURE.bounds == (0.125, 0.375, 1.0)
    draws = [0.0, np.nextafter(0.125, 0), 0.125, np.nextafter(1, 0)]
    assert MIXTURE.play(HERE.take([0, 0, 0, 0]), draws=draws).tolist() == [0, 0, 1, 2]
    awkward = pb.Mixture(MIXTURE.policies, (0.1, 0.2, 0.7))
    assert awkward.bounds[-1] == 1.0


def test_parts_and_the_likeliest():
    assert MIXTURE.likeliest is THREE
    assert likeliest(MIXTURE) is THREE
    assert likeliest(ONE) is ONE
    assert parts_of(MIXTURE) == (ONE, TWO, THREE)
    assert parts_of(ONE) == (ONE,)


def test_words_tell_the_likeliest_first_each_with_its_share():
    lines = MIXTURE.describe().splitlines()
    assert [line[:6] for line in lines] == ["62 %: ", "25 %: ", "12 %: "]
    assert [line[6:] for line in lines] == [policy.describe() for policy in (THREE, TWO, ONE)]
    rare = pb.Mixture((ONE, TWO), (0.999, 0.001))
    assert [line.split(":")[0] for line in rare.describe().splitlines()] == ["100 %", "0.1 %"]


def test_words_of_several_lines_stand_below_each_other():
    people = Contexts.of([[20], [30], [40], [50]], names=["age"])
    trees = pb.Trees.learn(people, n_actions=2, depth=1)
    old = trees.argmax(people, np.array([[0, 1], [0, 1], [1, 0], [1, 0]]))
    young = trees.argmax(people, np.array([[1, 0], [0, 1], [0, 1], [0, 1]]))
    words = pb.Mixture((old, young), (0.88, 0.12)).describe().splitlines()
    parts = len(old.describe().splitlines())
    assert words[0].startswith("88 %: ")
    assert words[parts].startswith("12 %: ")
    assert all(line.startswith(" " * 6) for line in (*words[1:parts], *words[parts + 1 :]))
    assert "\n".join(line[6:] for line in words[:parts]) == old.describe()


def test_json_there_and_back():
    told = json.loads(json.dumps(MIXTURE.to_json(), allow_nan=False))
    assert told["kind"] == "mixture"
    earlier = chosen_from_json({**told, "kind": "lottery"})  # as earlier versions wrote it
    assert earlier.to_json() == MIXTURE.to_json()
    back = chosen_from_json(told)
    assert isinstance(back, pb.Mixture)
    assert back.weights == MIXTURE.weights
    assert np.array_equal(back.propensities(HERE), MIXTURE.propensities(HERE))
    assert chosen_from_json(ONE.to_json()).to_json() == ONE.to_json()


def test_a_claim_in_the_words_of_earlier_versions_follows_from_the_same_figures():
    """A whole certificate in these words is verified by tests/certificate/test_leaders.py."""
    made = {"claim": "except with probability 0.1 the mixture policy is within 0.2 of the best of its class"}
    earlier = made["claim"].replace("mixture policy", "lottery")
    check_follows({"claim": earlier}, made, names=("claim",))
    for other in (earlier.replace("0.2", "0.1"), earlier.replace("lottery", "policy")):
        with pytest.raises(InputError, match="'claim' of the certificate does not follow"):
            check_follows({"claim": other}, made, names=("claim",))


@pytest.mark.parametrize(
    ("policies", "weights", "words"),
    [
        ((ONE,), (1.0,), "two policies or more"),
        ((), (), "two policies or more|must"),
        ((ONE, TWO), (0.5, 0.6), "positive and sum to 1; the least is 0.5, and they sum to 1.1"),
        ((ONE, TWO), (0.0, 1.0), "positive and sum to 1; the least is 0"),
        ((ONE, TWO), (-0.5, 1.5), "positive and sum to 1; the least is -0.5"),
        ((ONE, TWO), (0.5,), "weights of the mixture"),
        ((ONE, TWO), (0.5, float("nan")), "weights of the mixture must be finite|finite"),
        ((ONE, "two"), (0.5, 0.5), "a policy of the mixture"),
        ((ONE, Finite([[0, 0, 0, 0]], n_actions=2).policy(0)), (0.5, 0.5), "the same number of actions"),
        (ONE, (1.0,), "policies"),
    ],
)
def test_what_is_no_mixture_ends_in_a_sentence(policies, weights, words):
    with pytest.raises(InputError, match=words) as caught:
        pb.Mixture(policies, weights)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "change",
    [
        {"weights": [0.5, 0.5]},
        {"weights": None},
        {"weights": [0.5, 0.25, "x"]},
        {"policies": 3},
        {"policies": []},
        {"policies": [MIXTURE.to_json()] * 3},
        {"luck": 1},
    ],
)
def test_what_is_no_mixture_in_json_ends_in_a_sentence(change):
    with pytest.raises(InputError) as caught:
        chosen_from_json(MIXTURE.to_json() | change)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_contexts_and_generators_are_asked_for():
    with pytest.raises(InputError):
        MIXTURE.propensities([[0]])
    with pytest.raises(InputError):
        MIXTURE.draw(HERE, "dice")
