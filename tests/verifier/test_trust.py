"""The lists at the end of a verdict: nothing is lost, each word has who could have broken it, and choices are named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import pacbandits as pb
from pacbandits.certificate.certificate import ORDERED, SHUFFLED
from pacbandits.certificate.claim import ALIKE, APART, BEFORE, FIXED
from pacbandits.verifier.rule import CLASS_GIVEN
from pacbandits.verifier.trust import sort_rest

TREES = "trees:depth=1"


def made(**options):
    rng = np.random.default_rng(0)
    contexts = pb.Contexts.of(rng.integers(0, 4, (600, 2)), names=["a", "b"])
    actions = rng.integers(0, 2, 600)
    log = pb.Log(
        contexts, actions, (rng.random(600) < 0.3 + 0.4 * actions).astype(float), np.full((600, 2), 0.5),
        np.zeros(600, dtype=np.int64), np.ones(600, dtype=np.int64),
    )  # fmt: skip
    return pb.certify(log, TREES, **options).certificate


def test_every_assumption_is_in_one_of_the_lists_once():
    certificate = made()
    rest = sort_rest(certificate, ("a line of the verdict",), certificate.assumptions)
    assert rest.trusted[0] == "a line of the verdict"
    lines = [*rest.trusted, *rest.not_checkable]
    for words in certificate.assumptions:
        assert sum(one == words or one.startswith(f"{words}: ") for one in lines) == 1
    assert {ALIKE, APART} <= set(rest.not_checkable)
    assert any(one.startswith(f"{BEFORE}: whoever collected the log could") for one in rest.trusted)
    own = certificate.learning.assumption
    assert f"{own}: whoever certified it could have chosen the class by the log" in rest.trusted
    listed = sort_rest(replace(certificate, learning=None), (), (FIXED, FIXED))
    assert sum(FIXED in one for one in listed.trusted) == 1
    told = ("the policy class is what trees learns from the contexts that it says it was learnt from", CLASS_GIVEN)
    for words, one in zip(told, sort_rest(certificate, told, ()).trusted, strict=False):
        assert one.startswith(f"{words}: whoever certified it could have ")


def test_the_way_of_proving_is_named_as_a_choice():
    shuffled, ordered = made(), made(ordered=True)
    assert (SHUFFLED in shuffled.assumptions, ORDERED in ordered.assumptions) == (True, True)
    in_none = replace(ordered, ordered=False, bets=replace(ordered.bets, scales=(1.0,), spared=0))
    for certificate, words in (
        (shuffled, "rows shuffled"),
        (ordered, "rows in order"),
        (in_none, "rows without an order"),
    ):
        last = sort_rest(certificate, (), certificate.assumptions).trusted[-1]
        assert f"how to prove it ({words}) was chosen before the log was seen" in last
        assert "--ordered, --shuffle, --single" in last
    fixed = replace(ordered, by_rule=False)
    assert not any("how to prove it" in one for one in sort_rest(fixed, (), ()).trusted)
