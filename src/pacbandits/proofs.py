"""Certificate files, and the verification of every kind of certificate. To add a kind, add a line to `KINDS`.

A file holds the certificate, its policy class and how its log was read. Loading runs no code from it: a policy class of
the user's own is only named in the file, and must be passed again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from pacbandits.arrays import plain_number
from pacbandits.certificate import AsymptoticCertificate, Certificate, Claim
from pacbandits.certificate.alarms import (
    ORDER_IS_FREE,
    AssumptionCheck,
    alarm_words,
    look,
    look_along_file,
    look_by_content,
)
from pacbandits.certificate.check import DRIFT
from pacbandits.certificate.claim import check_format
from pacbandits.checks import path_of
from pacbandits.engines import Engine, Local, LogSource, Source
from pacbandits.engines.registry import STREAM, THREADS, using_engine
from pacbandits.errors import InputError, count_of, nearest, one_line, plain
from pacbandits.exports.deployed_policy import DeployedPolicy
from pacbandits.logs import read_log
from pacbandits.logs.data_set import FileSet, open_set
from pacbandits.logs.log_table import drop_features
from pacbandits.logs.readers import copy_remote, local_copies
from pacbandits.logs.reading_options import ReadingOptions
from pacbandits.logs.table_files import expand
from pacbandits.policies import class_from_json, class_to_json
from pacbandits.policies.base import PolicyClass, check_class, check_memory
from pacbandits.policies.registry import describe_class, learns, load_policies, same_class
from pacbandits.progress import Displayed
from pacbandits.realizable.certificate import RealizableCertificate
from pacbandits.realizable.verify import verify_realizable
from pacbandits.records import Chosen, Contexts, Log, check_log
from pacbandits.records.metrics import read_metrics
from pacbandits.rewards import RewardModel
from pacbandits.schema import MAX_JSON_BYTES, Fields, Json, json_text, parse_json, read_json
from pacbandits.verifier import RowsToTest, Verdict, learn_class_again, rows_to_test, verify_log, verify_rows

Recheck = Callable[[Any, Log, PolicyClass, Contexts | None, RewardModel | None], Verdict]


NO_PROOF = "this is an approximate certificate, and no proof that could be rechecked"


@dataclass(frozen=True)
class CertificateKind:
    """A kind of certificate with its recheck; None for one that proves nothing."""

    claim: type[Claim]
    recheck: Recheck | None


def _betting(
    c: Certificate, log: Log, policies: PolicyClass, contexts: Contexts | None, model: RewardModel | None
) -> Verdict:
    log = c.of(log)
    if not c.summed:
        return verify_log(c, log, policies, contexts=contexts, model=model)
    return verify_rows(c, LogSource(log), policies, engine=Local(THREADS), contexts=contexts, model=model)[0]


def _realizable(
    c: RealizableCertificate, log: Log, policies: PolicyClass, contexts: Contexts | None, _: RewardModel | None
) -> Verdict:
    if contexts is None:
        raise InputError("a certificate of linear rewards speaks of contexts beyond its log; pass them as contexts=…")
    return verify_realizable(c, log, contexts, policies)


KINDS: dict[str, CertificateKind] = {
    kind.claim.kind: kind
    for kind in (
        CertificateKind(Certificate, _betting),
        CertificateKind(RealizableCertificate, _realizable),
        CertificateKind(AsymptoticCertificate, None),
    )
}


@dataclass(frozen=True, eq=False)
class Proof(Displayed):
    """The content of a certificate file.

    certificate: the claim.
    policies: its policy class.
    reading: how its log was read, by the keywords of `read_log`.
    path: of the file.
    record: of an experiment's certificate, the number of first records of its event log that it is of, and the number
        of the analysis (`records`, `look`); None for any other.
    plan: the digest of the plan that fixed the question (`certify --plan`); None if there was none.
    """

    certificate: Claim
    policies: PolicyClass
    reading: Json
    path: Path
    record: Json | None = None
    plan: str | None = None

    @property
    def policy(self) -> DeployedPolicy:
        """The certified policy, for data frames: `policy(frame)` returns the names of actions."""
        return self.deployed(self.certificate.policy)

    def deployed(self, policy: Chosen) -> DeployedPolicy:
        """Return a policy for the actions and dates of the certificate."""
        return DeployedPolicy(policy, self.certificate.action_names, self.certificate.dates)

    def contexts(
        self, path: str | Path | None = None, *, read: Callable[[Path], Contexts] = Contexts.read
    ) -> Contexts | None:
        """Return the contexts that the certificate is about or its class was learnt from.

        path: of their file; if the certificate is about contexts, by default the file next to its own.
        read: the function that reads the file.
        """
        if not self.certificate.speaks_of_contexts:
            return None if path is None else read(Path(path))
        beside = contexts_beside(self.path) if path is None else Path(path)
        if not beside.is_file():
            raise InputError(f"{self.path} speaks of contexts, and there is no file {beside}; name it with --contexts")
        return read(beside)

    def log(self, path: str | Path, *, reading: Mapping[str, Any] | None = None) -> Log:
        """Read the log from a file or URL as it was read for the certificate, unless `reading` says otherwise."""
        how = self._how(reading)
        if not how and not self.certificate.unit_rewards and Path(path).suffix == ".parquet":
            with local_copies([path]) as local:
                return Log.read(local.paths[0])
        how["keep"] = self._kept(how)
        return read_log(path, **how)[0]

    def _kept(self, how: Json) -> tuple[str, ...]:
        """Return the columns that stay features even if they look like identifiers in another log."""
        taken = (how.get("time"), *how.get("age", ()))
        return (*how.get("keep", ()), *(name for name in self.policy.columns if name not in taken))

    def _how(self, reading: Mapping[str, Any] | None) -> Json:
        """Return how the log is read: as for the certificate, unless `reading` says otherwise; metrics are added."""
        how: Json = {**self.reading, **(reading or {})}
        how.pop("source", None)
        if "metrics" in how:
            both = (*read_metrics(self.reading.get("metrics", ())), *read_metrics(how["metrics"]))
            how["metrics"] = read_metrics(both)
        return how

    def files(self, paths: Sequence[str | Path], *, reading: Mapping[str, Any] | None = None) -> FileSet:
        """Open files, to be read as they were for the certificate, unless `reading` says otherwise."""
        how = self._how(reading)
        how["keep"] = self._kept(how)
        local = copy_remote(paths)
        return open_set(expand(local.paths), ReadingOptions(**how), kept=local.folder)


@runtime_checkable
class Certified(Protocol):
    """An object with a certificate and its class: a `Result`, a `Run`, or a `Proof` by `load_certificate`."""

    @property
    def certificate(self) -> Claim | None: ...
    @property
    def policies(self) -> PolicyClass | None: ...


def verify(
    certificate: Claim | Certified,
    log: Log | Source,
    policies: PolicyClass | None = None,
    *,
    contexts: Contexts | None = None,
    model: RewardModel | None = None,
    engine: Engine | str = STREAM,
) -> Verdict:
    """Recheck a certificate of any kind against its log, independently of the code that made it.

    certificate: the certificate; or the result of `certify` or `load_certificate`.
    log: the log it was made from; or its files, opened by `open_set`, if it was made by sums over rows.
    policies: the policy class. Not needed for a `Result` or a loaded certificate, nor for a class with a name that was
        learnt from the log or from the given contexts: it is learnt again.
    contexts: those that a certificate of linear rewards is about, or that a class was learnt from before the log.
    model: the reward model, if its description in the certificate does not suffice to make it.
    engine: where sums over the rows of files are computed.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("two-of-many:actions=6,policies=40")
    >>> done = pb.run(problem, epsilon=0.1, delta=0.05, rng=1)
    >>> pb.verify(done.certificate, done.log, problem.policies).good
    True

    Raises:
        InputError: If the certificate proves nothing, as an approximate one, or lacks its contexts.
    """
    log = _without_dropped(log, certificate)
    certificate, policies = _taken_apart(certificate, policies)
    kind = KINDS.get(certificate.kind)
    if kind is None or not isinstance(certificate, kind.claim):
        raise InputError(f"there is no recheck for a {plain(certificate.kind)}{nearest(certificate.kind, KINDS)}")
    if kind.recheck is None:
        raise InputError(NO_PROOF)
    policies = check_class(_class_of(certificate, log, contexts, engine) if policies is None else policies)
    if certificate.policy.n_actions != policies.n_actions:
        words = f"the certified policy is for {count_of(certificate.policy.n_actions, 'action')}, the class for"
        return Verdict((f"{words} {policies.n_actions:,}",), None)
    if not isinstance(log, Log):
        return _verify_files(certificate, log, policies, contexts, model, engine)
    check_memory(policies, len(check_log(log)))
    verdict = kind.recheck(certificate, log, policies, contexts, model)
    if verdict.good:
        claimed = certificate.of(log)
        tested = rows_to_test(certificate, claimed) if isinstance(certificate, Certificate) else RowsToTest(claimed)
        verdict = _with_a_look(verdict, certificate, tested)
    if verdict.good and len(log) > certificate.rows:
        more = (
            f"the log has gone on since, by {count_of(len(log) - certificate.rows, 'row')} that the claim does without"
        )
        if _stood_first(certificate, log):
            verdict = replace(verdict, checked=(*verdict.checked, more))
        else:
            words = f"{more}: it had been planned to end there, and nobody chose by rewards which rows stand first"
            verdict = replace(verdict, trusted=(*verdict.trusted, words))
    return replace(verdict, faults=tuple(one_line(fault) for fault in verdict.faults))


def _stood_first(claim: Claim, log: Log) -> bool:
    """Return whether the rows of a claim came before the later ones of the log, by what it assumes or by their rounds.

    Else whoever arranged the file chose which rows the claim is about: of a log without an order, of a shuffled one,
    which also allows one analysis only, and if the claim does without some rows of its rounds.
    """
    if isinstance(claim, Certificate) and claim.ordered and not claim.shuffled:
        return True
    last = int(claim.of(log).rounds.max())
    return int((log.rounds <= last).sum()) == claim.rows


def _without_dropped(log: Log | Source, certificate: object) -> Log | Source:
    """Return the log without the features that certifying dropped as useless, if what is verified tells of them."""
    reading: Json = getattr(certificate, "reading", {})
    dropped = ReadingOptions.from_json(reading).dropped
    if isinstance(log, FileSet):
        return log.without_features(dropped)
    return drop_features(log, dropped) if isinstance(log, Log) else log


def _class_of(claim: Claim, log: Log | Source, contexts: Contexts | None, engine: Engine | str) -> PolicyClass:
    """Learn the class of a certificate again by its name."""
    learning = claim.learning if isinstance(claim, Certificate) else None
    if learning is None:
        raise InputError("this certificate does not say how its class was made; pass the class as policies=…")
    if learning.spared == 0 and contexts is None:
        raise InputError("the class was learnt from contexts before the log; pass them as contexts=…, or policies=…")
    return _learn_named(learning.spec, claim, log, contexts, engine)


def _taken_apart(certificate: Claim | Certified, policies: PolicyClass | None) -> tuple[Claim, PolicyClass | None]:
    """Return the certificate and its class, if that was given or came with it."""
    given = cast(object, certificate)
    if isinstance(given, Claim):
        return given, policies
    if isinstance(given, Certified):
        if given.certificate is None:
            raise InputError("the run made no certificate; coda and uniform make one, or certify its log")
        return given.certificate, given.policies if policies is None else policies
    raise InputError(f"a certificate is needed, not a {type(given).__name__}; a run has one as .certificate")


def _learn_named(
    spec: str, certificate: Claim, log: Log | Source, contexts: Contexts | None, engine: Engine | str
) -> PolicyClass:
    """Learn the class of this name as the certificate's was: from the contexts, or else from the first rows."""
    if not isinstance(certificate, Certificate):
        if contexts is None:
            raise InputError("a certificate of linear rewards speaks of contexts; pass them as contexts=…")
        return load_policies(spec, contexts, n_actions=certificate.policy.n_actions)
    rows = certificate.of(log) if isinstance(log, Log) else log
    with using_engine(THREADS if isinstance(log, Log) else engine) as who:
        return learn_class_again(
            certificate,
            spec,
            LogSource(rows) if isinstance(rows, Log) and certificate.summed else rows,
            contexts,
            engine=who,
        )


def _verify_files(
    certificate: Claim,
    source: Source,
    policies: PolicyClass,
    contexts: Contexts | None,
    model: RewardModel | None,
    engine: Engine | str,
) -> Verdict:
    """Recheck a certificate by sums over the rows of files."""
    if not isinstance(certificate, Certificate) or not certificate.summed:
        raise InputError(
            "this certificate was made of rows in memory, and is rechecked with all of them there; read them by "
            "read_log, or verify without --engine"
        )
    with using_engine(engine) as who:
        verdict, tested = verify_rows(certificate, source, policies, engine=who, contexts=contexts, model=model)
    verdict = _with_a_look(verdict, certificate, tested)
    return replace(verdict, faults=tuple(one_line(fault) for fault in verdict.faults))


def _with_a_look(verdict: Verdict, certificate: Claim, rows: RowsToTest) -> Verdict:
    """Return the verdict with tests of the assumptions on the log; alarms that the certificate lacks are faults."""
    if not verdict.good:
        return verdict
    told = certificate.checks
    # Certificates made before remarks existed tell of an alarm, and it stays one.
    remarked = isinstance(certificate, Certificate) and certificate.shuffled and any(one.remark for one in told)
    # Certificates by content of earlier versions tell of changes along the file.
    free = rows.by_content is not None and not any(one.kind == DRIFT and one.looked_at != ORDER_IS_FREE for one in told)
    if free and rows.by_content is not None:
        found = look_by_content(rows.by_content)
        along = look_along_file(rows.along_file)
    else:
        found, along = look(rows.along_file, shuffled=remarked), None
    hidden = [one for one in found if one.alarm and one.kind not in {other.kind for other in told if other.alarm}]
    faults = [f"the certificate does not tell of {one.describe()}" for one in hidden]
    if told and not hidden and (len(told) != len(found) or not all(map(_same_find, told, found))):
        faults.append("what the certificate says of signs against its assumptions is not what its log shows")
    shown = found if along is None else (along, *(one for one in found if one.kind != DRIFT))
    quiet = tuple(one.describe() for one in shown if not one.alarm)
    return replace(verdict, faults=tuple(faults), checked=(*verdict.checked, *quiet), alarms=alarm_words(found))


def _same_find(told: AssumptionCheck, found: AssumptionCheck) -> bool:
    """Return whether two tests of a log agree, up to the rounding of another machine."""
    near = math.isclose(told.log_evidence, found.log_evidence, rel_tol=1e-6, abs_tol=1e-6)
    same = (told.kind, told.needed, told.alarm, told.remark) == (found.kind, found.needed, found.alarm, found.remark)
    return near and same


def check_expected(
    verdict: Verdict,
    proof: Proof,
    log: Log | Source,
    spec: str,
    *,
    contexts: Contexts | None = None,
    engine: Engine | str = STREAM,
) -> Verdict:
    """Return the verdict with a check that the class is the expected one: of this name, learnt from these contexts.

    contexts: from before the experiment; None for a class that is learnt from the first rows of the log. engine: as for
    `verify`.
    """
    expected = _learn_named(spec, proof.certificate, log, contexts, engine)
    where = "the first rows of the log" if contexts is None else "the contexts given"
    learning = proof.certificate.learning if isinstance(proof.certificate, Certificate) else None
    if not same_class(expected, proof.policies):
        about = describe_class(proof.policies)
        fault = f"the policy class is not {plain(spec)} for {where}, which was expected, but {about}"
    elif learning is None and contexts is None and learns(spec):
        fault = f"the certificate does not say that {plain(spec)} was learnt from {where}, and these rows bet in it"
    else:
        return replace(verdict, checked=(*verdict.checked, f"the class is {plain(spec)} for {where}, as expected"))
    return replace(verdict, faults=(*verdict.faults, fault))


def check_is_proof(certificate: Claim) -> None:
    """Raise InputError if the certificate cannot be rechecked, before anything else is read."""
    kind = KINDS.get(certificate.kind)
    if kind is not None and kind.recheck is None:
        raise InputError(NO_PROOF)


def save_certificate(
    path: str | Path,
    certificate: Claim | Certified,
    policies: PolicyClass | None = None,
    *,
    reading: Mapping[str, Any] | None = None,
    contexts: Contexts | None = None,
    record: Mapping[str, Any] | None = None,
    plan: str | None = None,
) -> None:
    """Write a certificate, its policy class and how its log was read, as one JSON file.

    path: of the file.
    certificate: the certificate; or a result or run that has one.
    policies: the policy class, unless it comes with the certificate.
    reading: how its log was read, by the keywords of `read_log`.
    contexts: those that a certificate of linear rewards is about, written to a file next to it.
    record: the part of an experiment's event log that the certificate is of (see `Proof`).
    plan: the digest of the plan that fixed the question.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("two-of-many:actions=6,policies=40")
    >>> done = pb.run(problem, epsilon=0.2, delta=0.05, rng=1)
    >>> pb.save_certificate("proof.json", done.certificate, problem.policies)
    >>> done.log.write("log.parquet")  # `pacbandits verify proof.json log.parquet` rechecks it

    Raises:
        InputError: If the class has no form in JSON, or the file cannot be written.
    """
    claim, policies = _taken_apart(certificate, policies)
    path = path_of(path)
    if policies is None:
        raise InputError("a certificate by itself has no policy class; pass the class as policies=…, or save a result")
    policies = check_class(policies)
    whole = claim.to_json() | {
        "class": class_to_json(policies),
        "reading": dict(reading or {}),
        **({} if record is None else {"record": _read_part({"record": record})}),
        **({} if plan is None else {"plan": plan}),
    }
    try:
        text = json_text(whole, indent=1, default=plain_number)
    except (TypeError, ValueError) as error:
        raise InputError(f"the certificate or its class has no form in JSON: {error}") from None
    parse_json(text, name="the certificate")  # write nothing that cannot be read again
    if len(text.encode()) >= MAX_JSON_BYTES:
        raise InputError(f"the certificate or its class is too large for a file of {MAX_JSON_BYTES:,} bytes")
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    if claim.speaks_of_contexts and contexts is not None:
        contexts.write(contexts_beside(path))


def load_certificate(path: str | Path, policies: PolicyClass | None = None) -> Proof:
    """Read a file that `save_certificate` wrote: the certificate, its class, and how to read its log.

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
        InputError: If there is no such file, it is no certificate, or it was altered.
    """
    path = path_of(path)
    if policies is not None:
        check_class(policies)
    value = read_json(path)
    given = cast(Json, value) if isinstance(value, dict) else {}
    called = str(given.get("kind"))
    kind = KINDS.get(called)
    if kind is None and re.fullmatch("pacbandits [a-z ]*certificate", called):
        raise InputError(f"{plain(path)} is a '{called}', which this version does not know; upgrade pacbandits")
    if kind is None:
        raise InputError(f"{plain(path)} is not a pacbandits certificate")
    check_format(given)
    reading = ReadingOptions.from_json(given.get("reading", {})).to_json()
    certificate = kind.claim.from_json(given, policies)
    chosen = class_from_json(given.get("class"), policies)
    actions = {chosen.n_actions, certificate.policy.n_actions, reading.get("n_actions", chosen.n_actions)}
    if len(actions) > 1:
        raise InputError(
            f"{plain(path)} speaks of {' and '.join(f'{count:,}' for count in sorted(actions))} actions; it was altered"
        )
    plan = Fields(given, "certificate").text("plan") if "plan" in given else None
    return Proof(certificate, chosen, reading, path, _read_part(given), plan)


def _read_part(given: Json) -> Json | None:
    """Return the part of an experiment's event log that a certificate is of; None if it names none."""
    if "record" not in given:
        return None
    part = Fields.read(given["record"], of="record of the certificate")
    part.check_known(("records", "look"))
    return {name: part.whole_number(name, least=1) for name in ("records", "look")}


def contexts_beside(path: Path) -> Path:
    """Return the path of the contexts file next to a certificate of linear rewards."""
    return path.with_name(f"{path.name}.contexts.parquet")
