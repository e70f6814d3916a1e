"""A value that is wrong ends in one line that names the argument and the value, in every public function and class."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pacbandits as pb
from tests.public.algorithm_calls import ALGORITHM_CALLS
from tests.public.class_calls import CLASS_CALLS
from tests.public.experiment_calls import EXPERIMENT_CALLS
from tests.public.planning_calls import PLANNING_CALLS, gain_made
from tests.public.record_calls import RECORD_CALLS

CALLS = {**ALGORITHM_CALLS, **CLASS_CALLS, **EXPERIMENT_CALLS, **PLANNING_CALLS, **RECORD_CALLS}
# What is handed out and never handed in, protocols, and what takes nothing.
RESULTS = {
    *("Answer", "AsymptoticCertificate", "Certificate", "Claim", "Complexity", "Learning", "LearntClass"),
    *("Affordable", "DeployedPolicy", "Interval", "LargeSolution", "Outlook", "Proof", "Quantiles", "Worth"),
    *("Assignment", "Audit", "Record", "Recorded", "Result", "Seal", "Status"),
    "ExperimentResult",
    *("RealizableCertificate", "RealizableComplexity", "Run", "Solution", "Verdict"),
}
PROTOCOLS = {"Algorithm", "Policy", "PolicyClass"}
EMPTY = {"Bernoulli", "InputError", "__version__", "show_progress"}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """A folder to work in, with a log; nothing that is refused may leave a file there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks.csv").write_text("age,action,reward,propensity\n20,0,1,0.5\n30,1,0,0.5\n40,1,1,0.5\n")


def prepare(name):
    """The call, after the one that writes what it reads."""
    if name in ("load_certificate", "load_plan", "load_state"):
        CALLS[name.replace("load", "save")]()()
    if name == "load_gain_plan":
        pb.save_plan("gain.json", gain_made())
    return CALLS[name]()


def refusal(call, argument, value):
    """What is wrong with how a call takes a wrong value; nothing if all is right."""
    try:
        call(**{argument: value})
    except pb.InputError as error:
        words = str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    else:
        return "taken"
    if not words.isprintable() or len(words) > 300:
        return f"not one line: {words}"
    return "" if re.search(call.called.get(argument, argument.split("_")[-1]), words) else f"names nothing: {words}"


def test_every_public_name_is_called_here():
    called = {name.split(".")[0].split(" ")[0] for name in CALLS}
    assert set(pb.__all__) - RESULTS - PROTOCOLS - EMPTY - called == set()


@pytest.mark.first(6)
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_value_is_refused_in_one_line(name, tmp_path):
    call = prepare(name)
    before = sorted(tmp_path.iterdir())
    found = [(argument, repr(value), refusal(call, argument, value)) for argument, value in call.wrong()]
    assert [one for one in found if one[2]] == []
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.first(6)
@pytest.mark.parametrize("name", CALLS)
def test_numbers_of_numpy_are_as_good_as_others(name):
    call = prepare(name)
    call(**call.of_numpy())
    if any(kind == "number" for kind in call.kinds.values()):
        call(**{key: np.float32(one) for key, one in call.of_numpy().items() if isinstance(one, np.float64)})
