"""Rows by hand, whose yardsticks are known."""

from __future__ import annotations

from pacbandits.benchmark.cases import Row


def made(seed=0, **changed):
    """A run that is looked at after 10, 20 and 40 interactions, is good from 20 on and certified at 40."""
    usual = {
        "suite": "by hand",
        "case": "first",
        "problem": "trivial:contexts=4,actions=3,gap=0.3",
        "policies": "",
        "epsilon": 0.1,
        "delta": 0.1,
        "most": 100,
        "growth": 1.0,
        "certified": True,
        "entry": "coda",
        "algorithm": "coda",
        "role": "default",
        "seed": seed,
        "version": "0.0",
        "samples": 40,
        "rounds": 3,
        "oracle_calls": 3,
        "points": (10, 20, 40),
        "gaps": (0.3, 0.05, 0.0),
        "leader_gaps": (0.3, 0.05, 0.0),
        "regrets": (3.0, 5.0, 7.0),
        "certified_at": 40,
        "certified_gap": 0.0,
        "own_at": None,
        "own_gap": None,
        "stopped": "certified",
        "seconds": 0.5,
        "seconds_certifying": 0.25,
        "decision_microseconds": 30.0,
    }
    return Row(**(usual | changed))


def unproven(seed=0, **changed):
    """The same, that no proof ever ends."""
    return made(seed, **({"certified_at": None, "certified_gap": None, "stopped": "most"} | changed))


def seeds(count, make=made, **changed):
    """So many runs that differ in their seeds alone."""
    return [make(seed, **changed) for seed in range(count)]
