"""Forgeries by someone who knows the format: figures are altered, and every word follows from them."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np

from pacbandits.certificate import Certificate, Claim, Leaders
from pacbandits.records import Mixture

# What is claimed, and what it is claimed from.
FIGURES = {
    *("epsilon", "delta", "certified_epsilon", "proven_epsilon", "samples", "rows", "digest", "contexts_digest"),
    *("value", "threshold", "log_size", "noise", "stake", "skipped", "listed", "exact", "ordered", "slack"),
    *("experts", "remarks", "share", "form", "prior", "parameter", "leaders", "policy"),
}


def forge_figures(certificate: Claim, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """The JSON of a certificate with one or two other figures, and which, in words."""
    while True:
        names = [field.name for field in fields(certificate) if field.name in FIGURES]
        chosen = rng.choice(names, size=int(rng.integers(1, 3)), replace=False)
        changes = {str(name): _other(getattr(certificate, name), rng) for name in chosen}
        try:
            forged = replace(certificate, **changes)
            if isinstance(forged, Certificate) and "threshold" not in changes and rng.random() < 0.7:
                forged = replace(forged, threshold=_threshold(forged))
            return str({name: str(value)[:60] for name, value in changes.items()}), forged.to_json()
        except (ValueError, TypeError, AttributeError, ArithmeticError):
            continue  # nobody could write that


def _other(value: Any, rng: np.random.Generator) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return [0, 1, value + 1, value - 1, 2 * value][int(rng.integers(5))]
    if isinstance(value, float):
        factors = (0.0, 1e-9, 0.1, 0.5, 0.9, 0.98, 1.02, 1.5, 10.0, 1e9, -1.0)
        return value * factors[int(rng.integers(len(factors)))]
    if isinstance(value, str):
        return ["", value[::-1], "list", "ellipsoid"][int(rng.integers(4))]
    if isinstance(value, tuple):
        return [(), value[:1], value[::-1], (*value, *value), (0,), (1, 0)][int(rng.integers(6))]
    if isinstance(value, Leaders):
        return _other_leaders(value, rng)
    if isinstance(value, Mixture):
        weights = tuple(rng.dirichlet(np.ones(len(value.weights))))
        return [value.likeliest, replace(value, weights=weights), replace(value, weights=value.weights[::-1])][
            int(rng.integers(3))
        ]
    if isinstance(value, np.ndarray):
        return value * [0.0, 0.5, 0.99, 1.01, 1e6, -1.0][int(rng.integers(6))]
    return [None, 0.0, 0.5, 1.0][int(rng.integers(4))]


def _other_leaders(leaders: Leaders, rng: np.random.Generator) -> Leaders | None:
    """Others in other rounds, of other sizes, or weight that moves otherwise; or none."""
    turns, sizes = list(leaders.turns), list(leaders.sizes)
    changed = int(rng.integers(len(turns)))
    turns[changed] = int(rng.integers(-1, len(leaders.policies)))
    sizes[changed] *= int(rng.integers(2, 9))
    others = (
        replace(leaders, turns=tuple(turns)),
        replace(leaders, sizes=tuple(sizes)),
        replace(leaders, moving=float(rng.choice([0.0, 0.1, 0.9, 1.0]))),
        replace(leaders, policies=leaders.policies[::-1]),
        None,
    )
    return others[int(rng.integers(len(others)))]


def _threshold(certificate: Certificate) -> float:
    """log(|Π|/δ), or without |Π| where there are leaders."""
    return (certificate.log_size if certificate.leaders is None else 0.0) - math.log(certificate.delta)
