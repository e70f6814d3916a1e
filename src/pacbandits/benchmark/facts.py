"""Measure a case: ρ of the best design and of uniform exploration, and sample-complexity bounds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from pacbandits.benchmark.cases import Case
from pacbandits.complexity import Complexity
from pacbandits.complexity.measure import TooLongError, measure_in_time
from pacbandits.errors import InputError
from pacbandits.fields import Fields, Json
from pacbandits.problems import Problem

PATIENCE_SECONDS = 300.0  # for the measurement of one case
_INFINITE = "Infinity"  # as JSON says it


@dataclass(frozen=True)
class CaseFacts:
    """A case in numbers. What cannot be had is None, and `words` says why.

    case: the name of the case.
    problem, policies, epsilon, delta: of the case.
    n_contexts, n_actions: how many there are.
    n_policies: |Π|, of a class that can be listed.
    log_size: log|Π|, or an upper bound on it.
    law: of rewards about their means: Gaussian, Bernoulli or other.
    min_gap: the least gap of a policy that is not the best.
    rho_lower, rho_upper: a bracket on ρ, the complexity of the case for the best design, at ε.
    uniform_lower, uniform_upper: a bracket on what uniform exploration has in its place.
    sigma_lower, sigma_upper, sigma_uniform_lower, sigma_uniform_upper: the same with actions weighted by their noise.
    lower_bound: no algorithm takes fewer samples; None where that is no theorem.
    union_price, union_price_uniform: samples by a union bound over the class, of the best design and of the uniform.
    minimax_bound: samples that suffice for any problem of this size, with constant 1.
    seconds: that the measurement took.
    words: why numbers are missing; empty if they are not.
    """

    case: str
    problem: str
    policies: str
    epsilon: float
    delta: float
    n_contexts: int
    n_actions: int
    n_policies: int | None
    log_size: float
    law: str | None = None
    min_gap: float | None = None
    rho_lower: float | None = None
    rho_upper: float | None = None
    uniform_lower: float | None = None
    uniform_upper: float | None = None
    sigma_lower: float | None = None
    sigma_upper: float | None = None
    sigma_uniform_lower: float | None = None
    sigma_uniform_upper: float | None = None
    lower_bound: float | None = None
    union_price: float | None = None
    union_price_uniform: float | None = None
    minimax_bound: float | None = None
    seconds: float = 0.0
    words: str = ""

    @property
    def uniform_over_best(self) -> tuple[float, float] | None:
        """A bracket on uniform's ρ over the optimum's; None where they are not known."""
        return _ratio(self.uniform_lower, self.uniform_upper, self.rho_lower, self.rho_upper)

    @property
    def sigma_uniform_over_best(self) -> tuple[float, float] | None:
        """The same of ρ_σ, whose actions are weighted by their noise."""
        return _ratio(self.sigma_uniform_lower, self.sigma_uniform_upper, self.sigma_lower, self.sigma_upper)

    def is_of(self, case: Case) -> bool:
        """Whether these are facts of that very case, and not of another by its name."""
        asked = (case.name, case.problem, case.policies, case.epsilon, case.delta)
        return asked == (self.case, self.problem, self.policies, self.epsilon, self.delta)

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values; the ratios are for those who read it elsewhere."""
        own = {name: _plain(value) for name, value in asdict(self).items()}
        ratios = {"uniform_over_best": self.uniform_over_best, "sigma_uniform_over_best": self.sigma_uniform_over_best}
        return own | {name: None if pair is None else [_plain(x) for x in pair] for name, pair in ratios.items()}

    @classmethod
    def from_json(cls, value: object) -> CaseFacts:
        """Read what `to_json` wrote."""
        given = Fields.read(value, of="facts of a case")
        known = [field.name for field in fields(cls)]
        given.check_known([*known, "uniform_over_best", "sigma_uniform_over_best"])
        made: dict[str, Any] = {name: given.text(name) for name in ("case", "problem", "policies", "words")}
        made |= {name: given.whole_number(name, least=1) for name in ("n_contexts", "n_actions")}
        made |= {name: given.number(name, least=0) for name in ("epsilon", "delta", "log_size", "seconds")}
        made["n_policies"] = None if given["n_policies"] is None else given.whole_number("n_policies")
        made["law"] = None if given["law"] is None else given.text("law")
        rest = [name for name in known if name not in made]
        made |= {name: math.inf if given[name] == _INFINITE else given.number_or_null(name) for name in rest}
        return cls(**made)


def find_facts(case: Case, *, patience_seconds: float = PATIENCE_SECONDS) -> CaseFacts:
    """The facts of a case; sizes alone where a measurement takes longer than one can wait, or is not possible."""
    problem, epsilon, delta = case.load(), case.epsilon, case.delta
    try:
        found = measure_in_time(patience_seconds, problem, problem.policies, epsilon=epsilon, delta=delta)
    except TooLongError:
        return _sizes(case, problem, words=f"to measure it takes more than {patience_seconds:,.0f} s")
    except InputError as error:
        return _sizes(case, problem, words=str(error))
    return _measured(case, problem, found)


def _sizes(case: Case, problem: Problem, *, words: str = "", **numbers: Any) -> CaseFacts:
    policies = problem.policies
    return CaseFacts(
        case.name,
        case.problem,
        case.policies,
        case.epsilon,
        case.delta,
        n_contexts=len(problem.population),
        n_actions=policies.n_actions,
        n_policies=numbers.pop("n_policies", None),
        log_size=policies.log_size,
        words=words,
        **numbers,
    )


def _measured(case: Case, problem: Problem, found: Complexity) -> CaseFacts:
    notes = [found.notes[name] for name in ("lower_bound",) if found.lower_bound is None and name in found.notes]
    return _sizes(
        case,
        problem,
        words=" ".join(notes),
        n_policies=found.n_policies,
        law=found.law.value,
        min_gap=found.min_gap,
        rho_lower=found.rho.lower,
        rho_upper=found.rho.upper,
        uniform_lower=found.rho.uniform_lower,
        uniform_upper=found.rho.uniform,
        sigma_lower=found.rho_sigma.lower,
        sigma_upper=found.rho_sigma.upper,
        sigma_uniform_lower=found.rho_sigma.uniform_lower,
        sigma_uniform_upper=found.rho_sigma.uniform,
        lower_bound=found.lower_bound,
        union_price=found.union_price,
        union_price_uniform=found.union_price_uniform,
        minimax_bound=found.minimax_bound,
        seconds=found.seconds,
    )


def _ratio(
    low: float | None, high: float | None, least: float | None, most: float | None
) -> tuple[float, float] | None:
    """The ends of [low, high] / [least, most]."""
    if low is None or high is None or least is None or most is None or not 0 < least <= most < math.inf:
        return None
    return low / most, high / least


def _plain(value: Any) -> Any:
    return _INFINITE if value == math.inf else value
