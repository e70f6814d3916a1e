"""Certificates as files, and the one door through which any of them is rechecked. A new kind is a line here.

A file holds the certificate, the policy class it speaks of and how its log was read. Nothing in it is run: a policy
class of the user's own is named there, and must be handed in again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pacbandits.arrays import plain_number
from pacbandits.certificate import AsymptoticCertificate, Certificate, Claim, Verdict
from pacbandits.certificate.verify import verify as verify_betting
from pacbandits.checks import instance, path_of
from pacbandits.errors import InputError, nearest, plain
from pacbandits.logs import read_log
from pacbandits.policies import class_from_json, class_to_json
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.costs import check_memory
from pacbandits.realizable.certificate import RealizableCertificate
from pacbandits.realizable.verify import verify_realizable
from pacbandits.records import Contexts, Log, Policy, check_log
from pacbandits.rewards import RewardModel

Json = dict[str, Any]
Recheck = Callable[[Any, Log, PolicyClass, Contexts | None, RewardModel | None], Verdict]


NO_PROOF = "this is an approximate certificate, and no proof that could be rechecked"


@dataclass(frozen=True)
class Kind:
    """A kind of certificate, and how it is rechecked: None for one that proves nothing."""

    claim: type[Claim]
    recheck: Recheck | None


def _betting(c: Certificate, log: Log, policies: PolicyClass, _: Contexts | None, model: RewardModel | None) -> Verdict:
    return verify_betting(c, log, policies, model=model)


def _realizable(
    c: RealizableCertificate, log: Log, policies: PolicyClass, contexts: Contexts | None, _: RewardModel | None
) -> Verdict:
    if contexts is None:
        raise InputError("a certificate of linear rewards speaks of contexts beyond its log; pass them as contexts=…")
    return verify_realizable(c, log, contexts, policies)


KINDS: dict[str, Kind] = {
    kind.claim.kind: kind
    for kind in (
        Kind(Certificate, _betting),
        Kind(RealizableCertificate, _realizable),
        Kind(AsymptoticCertificate, None),
    )
}


@dataclass(frozen=True, eq=False)
class Proof:
    """What a file of a certificate holds.

    certificate: what is claimed.
    policies: the class it speaks of.
    reading: how its log was read, by the names that `read_log` has for that.
    path: of the file.
    """

    certificate: Claim
    policies: PolicyClass
    reading: Json
    path: Path

    @property
    def policy(self) -> Policy:
        """The policy of which it is claimed."""
        return self.certificate.policy

    def contexts(self, path: str | Path | None = None) -> Contexts | None:
        """The contexts that the certificate speaks of, from a file or the one beside it; None where its log has all."""
        if not self.certificate.speaks_of_contexts:
            if path is not None:
                raise InputError(f"{self.path} needs no contexts but those of its log; leave out the contexts")
            return None
        beside = contexts_beside(self.path) if path is None else Path(path)
        if not beside.is_file():
            raise InputError(f"{self.path} speaks of contexts, and there is no file {beside}; name it with --contexts")
        return Contexts.read(beside)

    def log(self, path: str | Path, *, reading: Mapping[str, Any] | None = None) -> Log:
        """The log in a file, read as it was to certify it, unless the reading says otherwise."""
        how = {**self.reading, **(reading or {})}
        if not how and not self.certificate.unit_rewards and Path(path).suffix == ".parquet":
            return Log.read(path)
        return read_log(path, **how)[0]


def verify(
    certificate: Claim,
    log: Log,
    policies: PolicyClass,
    *,
    contexts: Contexts | None = None,
    model: RewardModel | None = None,
) -> Verdict:
    """Recheck a certificate of any kind against its log, independently of the code that made it.

    certificate: what is claimed.
    log: the log it was made from.
    policies: the class it speaks of.
    contexts: those that a certificate of linear rewards speaks of.
    model: the reward model, for certificates whose own cannot be made from its description.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("two-of-many:actions=6,policies=40")
    >>> done = pb.run(problem, epsilon=0.1, delta=0.05, rng=1)
    >>> pb.verify(done.certificate, done.log, problem.policies).good
    True

    Raises:
        InputError: When the certificate proves nothing, as an approximate one, or lacks its contexts.
    """
    if not isinstance(cast(object, certificate), Claim):
        raise InputError(f"a certificate is needed, not a {type(certificate).__name__}; a run has one as .certificate")
    kind = KINDS.get(certificate.kind)
    if kind is None or not isinstance(certificate, kind.claim):
        raise InputError(f"there is no recheck for a {plain(certificate.kind)}{nearest(certificate.kind, KINDS)}")
    if kind.recheck is None:
        raise InputError(NO_PROOF)
    check_memory(check_class(policies), len(check_log(log)))
    return kind.recheck(certificate, log, policies, contexts, model)


def check_is_proof(certificate: Claim) -> None:
    """Raise unless it can be rechecked, before anything else is read."""
    kind = KINDS.get(certificate.kind)
    if kind is not None and kind.recheck is None:
        raise InputError(NO_PROOF)


def save_certificate(
    path: str | Path,
    certificate: Claim,
    policies: PolicyClass,
    *,
    reading: Mapping[str, Any] | None = None,
    contexts: Contexts | None = None,
) -> None:
    """Write a certificate, the class it speaks of and how its log was read, as one JSON file.

    path: of the file.
    certificate: what is claimed.
    policies: the class it speaks of.
    reading: how its log was read, by the names that `read_log` has for that.
    contexts: those that a certificate of linear rewards speaks of, written beside it.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("two-of-many:actions=6,policies=40")
    >>> done = pb.run(problem, epsilon=0.2, delta=0.05, rng=1)
    >>> pb.save_certificate("proof.json", done.certificate, problem.policies)
    >>> done.log.write("log.parquet")  # `pacbandits verify proof.json log.parquet` rechecks it

    Raises:
        InputError: When the class has no form in JSON, or the file cannot be written.
    """
    path = path_of(path)
    check_class(policies)
    whole = instance(certificate, Claim, name="certificate").to_json() | {
        "class": class_to_json(policies),
        "reading": dict(reading or {}),
    }
    try:
        text = json.dumps(whole, ensure_ascii=False, indent=1, default=plain_number)
    except TypeError as error:
        raise InputError(f"the certificate or its class has no form in JSON: {error}") from None
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    if certificate.speaks_of_contexts and contexts is not None:
        contexts.write(contexts_beside(path))


def load_certificate(path: str | Path, policies: PolicyClass | None = None) -> Proof:
    """What `save_certificate` wrote: the certificate, its class, and how to read its log.

    path: of the file.
    policies: the class, if it is one of the user's own.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("two-of-many:actions=6,policies=40")
    >>> done = pb.run(problem, epsilon=0.2, delta=0.05, rng=1)
    >>> pb.save_certificate("proof.json", done.certificate, problem.policies)
    >>> proof = pb.load_certificate("proof.json")
    >>> pb.verify(proof.certificate, done.log, proof.policies).good
    True

    Raises:
        InputError: When there is no such file, it is no certificate, or it was altered.
    """
    path = path_of(path)
    if policies is not None:
        check_class(policies)
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON") from None
    given = cast(Json, value) if isinstance(value, dict) else {}
    kind = KINDS.get(str(given.get("kind")))
    if kind is None:
        raise InputError(f"{path} is not a pacbandits certificate")
    certificate = kind.claim.from_json(given, policies)
    chosen = class_from_json(given.get("class"), policies)
    return Proof(certificate, chosen, _stored_reading(given.get("reading", {})), path)


def contexts_beside(path: Path) -> Path:
    """Where the contexts of a certificate of linear rewards are written."""
    return path.with_name(f"{path.name}.contexts.parquet")


def _stored_reading(value: object) -> Json:
    """How a certificate says that its log was read."""
    try:
        given = dict(cast(Json, value))
        span = given.pop("reward_range", None)
        wholes = {name: int(given.pop(name)) for name in ("n_actions", "position") if name in given}
        least = {name: float(given.pop(name)) for name in ("least_propensity",) if name in given}
        spans = {} if span is None else {"reward_range": (float(span[0]), float(span[1]))}
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        raise InputError("the certificate does not say how its log was read; it was altered") from None
    if given:
        raise InputError(f"the certificate says '{next(iter(given))}' of how its log was read, which means nothing")
    return wholes | least | spans
