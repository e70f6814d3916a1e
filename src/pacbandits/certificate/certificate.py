"""The certificate: "except with probability δ, this policy is within ε of the best", and all that it rests on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np

from pacbandits.certificate.bets import Bets, Naming
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.search import Least, least_of_all, least_of_one, least_of_two, least_wealth
from pacbandits.confidence import certificate_threshold, head_start
from pacbandits.errors import FloatArray, InputError, check_delta, check_epsilon
from pacbandits.oracles.remembering import remembering
from pacbandits.policies import policy_from_json
from pacbandits.policies.base import EnumeratedClass, FrontierClass, PolicyClass
from pacbandits.records import Log, Policy

KIND = "pacbandits certificate"
FIXED = "the policy class was fixed before the log was seen"
ASSUMPTIONS = (
    "contexts are independent draws from one distribution",
    "the logged propensities are those with which actions were drawn",
    "rewards lie in [0, 1]",
    "predictions and bets were fixed before the round they were used in",
    FIXED,
)
LEARNT = "the policy class may count as fixed, though it was learnt from the contexts of the log"
ROUNDS = "rounds are numbered in the order in which they occurred, and no row chose its round by its outcome"
ORDERED = "the rows of the log stand in the order in which they occurred"
NAMED = "the policy was named, as number {number}, before {kind} {round} of {rounds} of the log"
INEXACT = "the argmax oracle, which is not exact, found the least refuted policy"
_LEAST_EPSILON = 1e-3  # the least that is certified, if not asked for
_STEPS = 9  # halvings of the logarithms from there to 1: the grid of certified epsilons
_GUESSES = 5  # of the certified epsilon, before bisection


@dataclass(frozen=True, eq=False)
class Certificate:
    """What was certified, from what, and how to check it again.

    policy: q. certified: whether every policy is refuted at ε. value: the least log-wealth found, to be compared with
    threshold. certified_epsilon: the smallest ε at which the same data refute every policy, 1 if none below does; it
    bounds V* − V(q) at all times together. experts, share: which of the bets were used (see `search.Least`). model: the
    reward model in JSON. digest: of the log. exact: whether the oracle is. ordered: whether a log of one round was cut
    into blocks, in the order of its rows. reserved: whether half of δ is for policies named in advance. remarks: what
    else was assumed, in words.
    """

    policy: Policy
    epsilon: float
    delta: float
    certified: bool
    certified_epsilon: float
    value: float
    threshold: float
    log_size: float
    samples: int
    rows: int
    bets: Bets
    experts: tuple[int, ...]
    share: float | None
    model: dict[str, Any]
    digest: str
    exact: bool
    ordered: bool = False
    reserved: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Everything the claim rests on."""
        rounds = len(self.bets.scales) > 1 and not self.ordered
        naming, kind = self.bets.naming, "block" if self.ordered else "round"
        named = ""
        if naming is not None:
            named = NAMED.format(number=naming.number, kind=kind, round=naming.round + 1, rounds=len(self.bets.scales))
        asked = ((ROUNDS, rounds), (ORDERED, self.ordered), (named, naming is not None), (INEXACT, not self.exact))
        said = (*ASSUMPTIONS, *(words for words, needed in asked if needed), *self.remarks)
        return tuple(words for words in said if words != FIXED or LEARNT not in said)

    def to_json(self) -> dict[str, Any]:
        """Everything, as what JSON knows."""
        return {
            "kind": KIND,
            "claim": self.describe(),
            "certified": self.certified,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "certified_epsilon": self.certified_epsilon,
            "value": self.value,
            "threshold": self.threshold,
            "log_size": self.log_size,
            "samples": self.samples,
            "rows": self.rows,
            "score": "capped doubly robust difference, log(1 + bet (epsilon - score))",
            "multipliers": list(self.bets.multipliers),
            "scales": list(self.bets.scales),
            "cap_share": self.bets.share,
            "experts": list(self.experts),
            "expert_share": self.share,
            "naming": None if self.bets.naming is None else asdict(self.bets.naming),
            "reserved": self.reserved,
            "model": self.model,
            "digest": self.digest,
            "exact": self.exact,
            "ordered": self.ordered,
            "remarks": list(self.remarks),
            "assumptions": list(self.assumptions),
            "policy": self.policy.to_json(),
            "words": self.policy.describe(),
        }

    @classmethod
    def from_json(cls, value: object) -> Certificate:
        """The certificate that `to_json` wrote."""
        if not isinstance(value, dict) or cast(dict[str, Any], value).get("kind") != KIND:
            raise InputError("this is not a pacbandits certificate")
        given = cast(dict[str, Any], value)
        with reading(given):
            made = cls(
                policy=policy_from_json(given["policy"]),
                epsilon=float(given["epsilon"]),
                delta=float(given["delta"]),
                certified=bool(given["certified"]),
                certified_epsilon=float(given["certified_epsilon"]),
                value=float(given["value"]),
                threshold=float(given["threshold"]),
                log_size=float(given["log_size"]),
                samples=int(given["samples"]),
                rows=int(given["rows"]),
                bets=Bets(
                    tuple(given["multipliers"]),
                    tuple(given["scales"]),
                    float(given["cap_share"]),
                    _naming_of(given.get("naming")),
                ),
                experts=tuple(int(k) for k in given["experts"]),
                share=None if given["expert_share"] is None else float(given["expert_share"]),
                model=dict(given["model"]),
                digest=str(given["digest"]),
                exact=bool(given["exact"]),
                ordered=bool(given["ordered"]),
                reserved=_flag(given.get("reserved", False)),
                remarks=tuple(str(words) for words in given["remarks"]),
            )
        check_follows(given, made.to_json(), names=("claim", "words", "score", "assumptions"))
        return made

    def describe(self) -> str:
        """The claim in a sentence."""
        if self.certified:
            return (
                f"except with probability {self.delta:g} the policy is within {self.epsilon:g} of the best of its class"
            )
        if self.certified_epsilon < 1:
            return (
                f"not certified at {self.epsilon:g}; except with probability {self.delta:g} the policy is "
                f"within {rounded_up(self.certified_epsilon):.3g} of the best of its class"
            )
        return f"not certified at {self.epsilon:g}, nor at any smaller distance than 1"


@contextmanager
def reading(given: dict[str, Any]) -> Generator[None]:
    """What may be wrong with a certificate's JSON, as one sentence."""
    for name, number in given.items():
        if isinstance(number, float) and not math.isfinite(number):
            raise InputError(f"the '{name}' of the certificate is {number}, which proves nothing")
    try:
        yield
    except KeyError as missing:
        raise InputError(f"the certificate lacks {missing}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the certificate cannot be read: {error}") from None


def check_follows(given: dict[str, Any], made: dict[str, Any], *, names: Iterable[str]) -> None:
    """Raise unless these words of a certificate are what its figures say."""
    for name in names:
        if given.get(name) != made[name]:
            raise InputError(
                f"the '{name}' of the certificate does not follow from its figures; it was altered, or made by another "
                "version"
            )


def _naming_of(given: dict[str, Any] | None) -> Naming | None:
    if given is None:
        return None
    if any(type(given[name]) is not int for name in ("round", "number")):
        raise ValueError(f"a naming has a whole round and a whole number, not {given}")
    return Naming(given["round"], given["number"])


def _flag(given: object) -> bool:
    if not isinstance(given, bool):
        raise ValueError(f"'reserved' must be true or false, not {given}")
    return given


def rounded_up(value: float) -> float:
    """To three digits, and not below."""
    if value <= 0:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.ceil(value / unit * (1.0 - 1e-12)) * unit


def make_certificate(
    log: Log,
    ledger: Ledger,
    policies: PolicyClass,
    *,
    reference: Policy,
    epsilon: float,
    delta: float,
    bets: Bets,
    model: dict[str, Any],
    ordered: bool = False,
    reserved: bool = False,
    least: Least | None = None,
) -> tuple[Certificate, int]:
    """What the data say of `reference`, and how many oracle calls it took to know.

    ordered: whether the log's rounds are blocks of a log that had none. reserved: whether half of δ is for policies
    named in advance, as the reference is if its bets have a naming. least: what `find_least` found, if it was asked.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    if bets.naming is not None and not reserved:
        raise InputError("a policy that was named in advance needs a half of delta kept for it: reserved=True")
    threshold = certificate_threshold(log_size=policies.log_size, experts=len(bets), delta=delta, reserved=reserved)
    own = reference(ledger.contexts)
    asked = remembering(policies, ledger.contexts)
    if least is None:
        least = find_least(ledger, asked, reference=own, bets=bets, epsilon=epsilon, needed=threshold)
    smallest, calls = _certified_epsilon(
        ledger, asked, least, reference=own, bets=bets, epsilon=epsilon, threshold=threshold
    )
    certificate = Certificate(
        policy=reference,
        epsilon=epsilon,
        delta=delta,
        certified=least.value >= threshold,
        certified_epsilon=min(smallest, epsilon) if least.value >= threshold else smallest,
        value=least.value,
        threshold=threshold,
        log_size=policies.log_size,
        samples=ledger.samples,
        rows=len(log),
        bets=bets,
        experts=least.experts,
        share=least.share,
        model=model,
        digest=digest(log),
        exact=policies.exact,
        ordered=ordered,
        reserved=reserved,
        remarks=log.assumed,
    )
    return certificate, least.oracle_calls + calls


def find_least(
    ledger: Ledger,
    policies: PolicyClass,
    *,
    reference: Any,
    bets: Bets,
    epsilon: float,
    needed: float,
    experts: Sequence[int] | None = None,
) -> Least:
    """What is left of the least refuted policy, by the best of all experts or of these; reference (m,): q's actions."""
    asked = range(bets.experts) if experts is None else experts
    scores = [
        wealth(ledger, bets, expert, reference=reference, epsilon=epsilon, log_size=policies.log_size)
        for expert in asked
    ]
    least = least_wealth(policies, ledger.contexts, scores, needed=needed)
    return replace(least, experts=tuple(asked[k] for k in least.experts))


def wealth(
    ledger: Ledger, bets: Bets, expert: int, *, reference: Any, epsilon: float, log_size: float = 0.0
) -> FloatArray:
    """The log-wealth scores (m, A) of one expert, a head start shared out among the contexts.

    log_size: of the class; it matters to the experts of a policy that was named.
    """
    scores = ledger.log_wealth(reference=reference, bets=bets.stakes(expert), caps=bets.caps(expert), epsilon=epsilon)
    if bets.naming is not None and bets.late(expert):
        scores += head_start(log_size=log_size, number=bets.naming.number) / len(ledger.contexts)
    return scores


def slope_of(ledger: Ledger, bets: Bets, experts: Iterable[int]) -> float:
    """About how fast log-wealth rises with ε: by all stakes together, the mean of these experts."""
    return float(np.mean([(ledger.repeats * bets.stakes(k)[ledger.rounds]).sum() for k in experts]))


def digest(log: Log) -> str:
    """SHA-256 of everything in a log that a certificate rests on."""
    sha = hashlib.sha256()
    parts: Sequence[Any] = (
        log.contexts.features,
        np.empty(0) if log.contexts.ids is None else log.contexts.ids,
        log.actions,
        log.rewards,
        log.propensities,
        log.rounds,
        log.repeats,
        *(() if log.least is None else (log.least,)),
        *(() if log.contexts.phi is None else log.contexts.phi.blocks()),
    )
    sha.update(repr((log.contexts.names, log.contexts.categories)).encode())
    for part in parts:
        sha.update(str(part.shape).encode())
        sha.update(np.ascontiguousarray(part).data)
    return sha.hexdigest()


def _certified_epsilon(
    ledger: Ledger,
    policies: PolicyClass,
    least: Least,
    *,
    reference: Any,
    bets: Bets,
    epsilon: float,
    threshold: float,
) -> tuple[float, int]:
    """The smallest ε on a grid at which the same experts refute every policy, to about 1 % above; and oracle calls.

    Wealth rises with ε, almost along a line: at first it is guessed where that crosses the threshold.
    """

    def value(epsilon: float) -> float:
        used = [
            wealth(ledger, bets, expert, reference=reference, epsilon=epsilon, log_size=policies.log_size)
            for expert in least.experts
        ]
        if isinstance(policies, EnumeratedClass):
            return least_of_all(policies, ledger.contexts, used)
        if len(used) == 1:
            return least_of_one(policies, ledger.contexts, used[0])
        if least.share is None and isinstance(policies, FrontierClass):
            return least_of_two(policies, ledger.contexts, used[0], used[1])
        share = 0.5 if least.share is None else least.share
        return least_of_one(policies, ledger.contexts, share * used[0] + (1.0 - share) * used[1])

    refuted = least.value >= threshold
    if not refuted and epsilon >= 1:
        return 1.0, 0
    grid = np.exp(np.log(_LEAST_EPSILON) * (1.0 - np.arange(2**_STEPS + 1) / 2**_STEPS))
    low, high = 0, len(grid) - 1
    if refuted:
        high = min(max(int(np.searchsorted(grid, epsilon, side="left")), 1), high)
    else:
        low = max(int(np.searchsorted(grid, epsilon, side="right")) - 1, 0)
    slope = slope_of(ledger, bets, least.experts)
    last, asked = (epsilon, least.value), 0
    while high - low > 1:
        middle = (low + high) // 2
        if asked < _GUESSES and slope > 0:
            crossing = last[0] + (threshold - last[1]) / slope
            middle = min(max(int(np.searchsorted(grid, crossing)), low + 1), high - 1)
        now = float(grid[middle]), value(float(grid[middle]))
        low, high = (low, middle) if now[1] >= threshold else (middle, high)
        slope = (now[1] - last[1]) / (now[0] - last[0]) if now[0] != last[0] else 0.0
        last, asked = now, asked + 1
    return float(grid[high]), 0 if isinstance(policies, EnumeratedClass) else asked
