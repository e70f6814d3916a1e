"""The registry of algorithms by name. A new algorithm takes its own file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacbandits.checks import instance
from pacbandits.errors import InputError, nearest, plain
from pacbandits.options import Option, check_options, declared_options, parse_spec, read_options
from pacbandits.paper.coda import CodaPaper
from pacbandits.paper.coda_common import CodaCommon
from pacbandits.paper.coda_oracle import CodaOracle
from pacbandits.paper.rage import Rage
from pacbandits.paper.rage_features import RageFeatures, RageFreeFeatures
from pacbandits.paper.rage_free import RageFree
from pacbandits.realizable.algorithm import LinearRage
from pacbandits.rivals.adacb import AdaCb
from pacbandits.rivals.epoch_greedy import EpochGreedy
from pacbandits.rivals.epsilon_greedy import EpsilonGreedy
from pacbandits.rivals.exp4 import Exp4
from pacbandits.rivals.explore_then_commit import ExploreThenCommit
from pacbandits.rivals.iltcb import Iltcb
from pacbandits.rivals.lin_ts import LinTs
from pacbandits.rivals.lin_ucb import LinUcb
from pacbandits.rivals.per_context import PerContext
from pacbandits.rivals.planner_sampler import PlannerSampler
from pacbandits.rivals.plas import Plas
from pacbandits.rivals.policy_elimination import PolicyElimination
from pacbandits.rivals.policy_sets import PolicySets
from pacbandits.rivals.proportional_response import ProportionalResponse
from pacbandits.rivals.randomized_ucb import RandomizedUcb
from pacbandits.rivals.squarecb import SquareCb
from pacbandits.rivals.track_and_stop import TrackAndStop
from pacbandits.rivals.vowpal import Vowpal
from pacbandits.trials.coda import Coda, Uniform
from pacbandits.trials.protocol import Algorithm, Profile, Registered, Setting

_ALL: tuple[type[Registered[Any]], ...] = (
    Coda,
    Uniform,
    LinearRage,
    Rage,
    RageFree,
    CodaPaper,
    CodaOracle,
    CodaCommon,
    RageFeatures,
    RageFreeFeatures,
    PlannerSampler,
    PerContext,
    EpochGreedy,
    Exp4,
    ExploreThenCommit,
    EpsilonGreedy,
    LinUcb,
    LinTs,
    PolicyElimination,
    RandomizedUcb,
    Iltcb,
    AdaCb,
    SquareCb,
    PolicySets,
    TrackAndStop,
    Plas,
    ProportionalResponse,
    Vowpal,
)
ALGORITHMS: dict[str, type[Registered[Any]]] = {algorithm.name: algorithm for algorithm in _ALL}


def make_algorithm(spec: str, setting: Setting, options: Mapping[str, object] | None = None) -> Algorithm[Any]:
    """Return the algorithm of a spec `name:key=value,…` for a setting; options: more options, as typed values."""
    instance(setting, Setting, name="setting")
    name, given = find_algorithm(spec)
    if options is not None:
        instance(options, Mapping, name="options")
    known, more = options_of(name), options or {}
    if twice := sorted(given.keys() & more.keys()):
        raise InputError(f"option '{twice[0]}' of {name} is given twice")
    chosen: dict[str, Any] = read_options(given, known, of=name) | check_options(more, known, of=name)
    return ALGORITHMS[name].made_for(setting, **chosen)


def find_algorithm(spec: str) -> tuple[str, dict[str, str]]:
    """Return the name and the options of a spec; raise InputError if no algorithm has that name."""
    name, given = parse_spec(spec, of="algorithm")
    if name not in ALGORITHMS:
        raise InputError(
            f"unknown algorithm '{plain(name)}'{nearest(name, ALGORITHMS)}; one of your own runs from Python: "
            "pacbandits.run(problem, algorithm=…)"
        )
    return name, given


def profile_of(spec: str) -> Profile:
    """Return the profile of the algorithm that a spec names."""
    return ALGORITHMS[find_algorithm(spec)[0]].profile


def options_of(name: str) -> tuple[Option, ...]:
    """Return the options that an algorithm declares."""
    return declared_options(ALGORITHMS[name].made_for)


def list_profiles() -> tuple[Profile, ...]:
    """Return the profiles of all algorithms."""
    return tuple(algorithm.profile for algorithm in ALGORITHMS.values())
