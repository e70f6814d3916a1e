"""The policy of a proof acts on data frames as `pacbandits apply` does, and on contexts as it always did."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pacbandits as pb
from pacbandits.exports.deployed_policy import DeployedPolicy
from pacbandits.policies.trees.tree_policy import AtMost, Is, TreePolicy, TreeSplit

TREE = TreePolicy(TreeSplit(AtMost("age", 30.0), 0, TreeSplit(Is("device", "phone"), 1, 2)), 3)
NAMES = ("mail", "call", "visit")
FRAME = pd.DataFrame(
    {"age": [20.0, 35.0, 35.0, np.nan], "device": ["phone", "phone", "desktop", "phone"], "x": [{}] * 4}
)


def test_a_data_frame_gives_names():
    policy = DeployedPolicy(TREE, NAMES)
    given = policy(FRAME)
    assert isinstance(given, np.ndarray)
    assert given.tolist() == ["mail", "call", "visit", "call"]
    assert policy(pa.table({"device": ["phone"], "age": [1]})).tolist() == ["mail"]
    assert policy(FRAME.astype({"device": "category"})).tolist() == given.tolist()
    assert DeployedPolicy(TREE)(FRAME).tolist() == [0, 1, 2, 1]
    assert policy.propensities(FRAME).tolist() == np.eye(3)[[0, 1, 2, 1]].tolist()


def test_contexts_give_numbers():
    people = pb.Contexts.of([[20.0, 0], [35.0, 1]], names=["age", "device"], categories=[None, ("phone", "x")])
    policy = DeployedPolicy(TREE, NAMES)
    assert policy(people).tolist() == TREE(people).tolist() == [0, 2]
    assert policy.n_actions == 3
    assert policy.to_json() == TREE.to_json()
    assert "mail" in policy.describe()


def test_a_mixture_draws_by_a_seed():
    ages = np.random.default_rng(0).integers(18, 60, size=300).astype(float)
    parts = (TreePolicy(TreeSplit(AtMost("age", 30.0), 0, 1), 2), TreePolicy(TreeSplit(AtMost("age", 40.0), 1, 0), 2))
    mixture = pb.Mixture(parts, (0.3, 0.7))
    policy, frame = DeployedPolicy(mixture, ("mail", "call")), pd.DataFrame({"age": ages})
    drawn = policy(frame, seed=7)
    assert drawn.tolist() == policy(frame, seed=7).tolist() != policy(frame).tolist()
    contexts = pb.Contexts.of(ages[:, None], names=["age"])
    wanted = mixture.play(contexts, draws=np.random.default_rng(7).random(300))
    assert drawn.tolist() == [("mail", "call")[action] for action in wanted]
    assert policy(contexts, seed=7).tolist() == wanted.tolist()
    assert np.array_equal(policy.propensities(frame), mixture.propensities(contexts))


def test_the_example_of_the_front_works(tmp_path, command):
    """Certified from a data frame, saved, loaded, and asked with a data frame; `apply` says the same."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(18, 60, size=400), "variant": rng.choice(["mail", "call"], size=400)})
    frame["paid"] = (frame["variant"] == "mail") == (frame["age"] <= 35)
    said = {"action": "variant", "reward": "paid", "split": "uniform"}
    log_class = pb.Trees.learn(pb.Contexts.of(frame[["age"]].to_numpy(float), names=["age"]), n_actions=2, depth=1)
    certificate = pb.certify(frame, log_class, epsilon=0.5, **said).certificate
    pb.save_certificate(tmp_path / "proof.json", certificate, log_class)
    policy = pb.load_certificate(tmp_path / "proof.json").policy
    frame.to_csv(tmp_path / "customers.csv", index=False)
    out = tmp_path / "actions.csv"
    assert command("apply", str(tmp_path / "proof.json"), str(tmp_path / "customers.csv"), "--out", str(out))[0] == 0
    with out.open(newline="") as file:
        assert policy(frame).tolist() == [row["action"] for row in csv.DictReader(file)]
    assert set(policy(frame)) == {"mail", "call"}


def test_what_cannot_be_acted_on_is_one_sentence():
    policy = DeployedPolicy(TREE, NAMES)
    for frame, words in (
        (pd.DataFrame({"age": [1.0], "devise": ["a"]}), "column 'device', .*is missing; did you mean 'devise'"),
        (pd.DataFrame({"age": ["old"], "device": ["a"]}), "'age' must hold numbers"),
        (pd.DataFrame({"age": [1.0], "device": [2.0]}), "'device' must hold labels"),
        (pd.DataFrame({"age": [], "device": []}), "there are no rows"),
        ([1, 2], "a list is neither"),
    ):
        with pytest.raises(pb.InputError, match=words):
            policy(frame)
    with pytest.raises(pb.InputError, match="seed"):
        policy(FRAME, seed=-1)
