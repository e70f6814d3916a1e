"""The same seeds give the same samples and the same certificates as they did before the code was moved into its wings.

`pinned_runs.json` was written by the version before that (0.1.0); the runs of `coda` and `uniform` were written anew
when leaders took the place of names, and designs, their prices and reward models changed, those of `coda` also when
explorations came to be compared by draws, those of `rage-free` and `coda-paper` on the hard problem when rounds came to
end with one policy left, and those of `coda-oracle` when it came.
Samples, rounds, policies, words and claims are the same to the letter. Figures are the same to what an algorithm
promises: processors and packages differ in the last digit of a sum, and the last digit of a gap moves a propensity of
a design, which is solved to a tolerance, by up to 1e-5. What is computed of such a log moves by a few times that (by
2.6e-5 on iris, between x86-64 and aarch64). Where no design is solved, only the last digits may differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pacbandits as pb
from pacbandits.problems import load_policies_for

WRITTEN: dict[str, Any] = json.loads((Path(__file__).parent / "pinned_runs.json").read_text(encoding="utf-8"))
PINNED: list[dict[str, Any]] = WRITTEN["runs"]
DIGITS, DIGITS_OF_DESIGNS = 1e-8, 1e-5
MORE_OF_A_LOG = 10  # times, as what is certified anew of a log has its propensities for a given
WITHOUT_DESIGNS = ("uniform",)
SEED = 7


def name(pinned: dict[str, Any]) -> str:
    return f"{pinned['options']['algorithm']} on {pinned['problem']}"


def check_figures(found: dict[str, Any], pinned: dict[str, Any], *, digits: float) -> None:
    """Every pinned figure is found: numbers up to a relative difference of `digits`, all else exactly."""
    for key, value in pinned.items():
        if isinstance(value, float) or (isinstance(value, list) and any(isinstance(x, float) for x in value)):
            assert found[key] == pytest.approx(value, rel=digits, abs=1e-12), key
        else:
            assert found[key] == value, key


@pytest.mark.first(9)
@pytest.mark.parametrize("pinned", PINNED, ids=name)
def test_as_before(pinned):
    options = dict(pinned["options"])
    digits = DIGITS if options["algorithm"] in WITHOUT_DESIGNS else DIGITS_OF_DESIGNS
    problem = pb.load_problem(pinned["problem"])
    spec = options.pop("policies", None)
    policies = problem.policies if spec is None else load_policies_for(spec, problem)
    done = pb.run(problem, policies, rng=SEED, **options)
    assert (done.samples, done.rounds, done.policy.describe()) == (pinned["samples"], pinned["rounds"], pinned["words"])
    if pinned["certificate"] is None:
        assert done.certificate is None
    else:
        check_figures(done.certificate.to_json(), pinned["certificate"], digits=digits)
    if pinned["certified_from_its_log"] is not None:
        again = pb.certify(done.log, policies, epsilon=options["epsilon"], delta=0.05).certificate
        more = MORE_OF_A_LOG if digits == DIGITS_OF_DESIGNS else 1
        check_figures(again.to_json(), pinned["certified_from_its_log"], digits=more * digits)


def test_every_algorithm_is_pinned():
    """A handful from before the move, of each algorithm that there was."""
    assert {pinned["options"]["algorithm"] for pinned in PINNED} == {
        "coda",
        "uniform",
        "rage",
        "rage-free",
        "coda-paper",
        "coda-oracle",
        "coda-common-gamma",
        "linear-rage",
    }
