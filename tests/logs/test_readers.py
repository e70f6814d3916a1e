"""Anyone's log: formats told by the name of a file, options, and contexts beside a log."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits import InputError, Trees, read_log, verify
from pacbandits.certificate.certify import certify
from pacbandits.records import Contexts
from tests.logs.cases import CSV, refused, write


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "only the propensity of the logged action, and there are 3 actions"),
        (
            {"least_propensity": 0.4},
            "a minimum propensity of 0.4 is impossible with 3 actions; it must lie between 0 and 1/3",
        ),
        ({"least_propensity": -1}, "a minimum propensity of -1"),
        ({"least_propensity": float("nan")}, "least_propensity must be a number, got nan"),
        (
            {"least_propensity": 0.1, "n_actions": 2},
            "n_actions=2 excludes; give 3 or more",
        ),
        ({"least_propensity": 0.1, "position": 1}, "has no positions; leave out position"),
        ({"format": "xml"}, "unknown format 'xml'"),
        ({"format": "parquet"}, "is not a readable"),
    ],
)
def test_each_bad_option_is_one_line(tmp_path, options, words):
    name = "log.txt" if options.get("format") == "parquet" else "log.csv"
    refused(words, write(tmp_path / name, CSV), **options)


def test_files_that_are_not_logs(tmp_path):
    refused("no file at", tmp_path / "none.csv")
    refused("has an unknown file ending (known: .parquet", write(tmp_path / "log.txt", CSV))
    refused("not a readable .npz archive of arrays; write it with numpy.savez", write(tmp_path / "log.npz", CSV))
    refused("is not a readable CSV file", write(tmp_path / "log.csv.gz", CSV))
    (tmp_path / "bytes.csv").write_bytes(b"x,action,reward,propensity\n\xff\xfe,0,1,1\n")
    refused("column 'x' must be numbers or text", tmp_path / "bytes.csv")


def test_contexts_from_csv(tmp_path):
    contexts = Contexts.read(write(tmp_path / "before.csv", "age,place\n20,b\n30,a\n"))
    assert contexts.names == ("age", "place")
    assert contexts.categories == (None, ("a", "b"))


@pytest.mark.thorough
def test_trees_know_features_by_name_and_labels_by_their_words(tmp_path):
    """A class learnt from contexts with more labels, and columns in another order, reads a log's codes rightly."""
    before = Contexts.read(write(tmp_path / "b.csv", "place,age\na,1\nb,2\nc,3\n"))
    text = "age,place,action,reward,propensity,more\n"
    text += "".join(f"{i % 7},{'ca'[i % 2]},{i // 2 % 2},{int(i % 2 == i // 2 % 2)},0.5,{i}\n" for i in range(1000))
    log, _ = read_log(write(tmp_path / "log.csv", text))
    assert log.contexts.categories[1] == ("a", "c")
    policies = Trees.learn(before, n_actions=2, depth=1)
    made = certify(log, policies, epsilon=0.2, delta=0.1)
    assert made.certified
    acts = made.policy(log.contexts)
    assert np.array_equal(acts, log.contexts.features[:, 1] == 0)  # action 1 for "a", whatever its code
    assert verify(made, log, policies).good
    strange, _ = read_log(write(tmp_path / "s.csv", text.replace(",c,", ",z,")))
    assert (
        not certify(strange, policies, epsilon=0.2, delta=0.1)
        .policy(strange.contexts)[strange.contexts.features[:, 1] == 1]
        .any()
    )
    lacking, _ = read_log(write(tmp_path / "l.csv", text.replace("place", "palce", 1)))
    with pytest.raises(InputError, match="lack the feature 'place'; did you mean 'palce'"):
        certify(lacking, policies, epsilon=0.2, delta=0.1)
