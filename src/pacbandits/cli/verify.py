"""`pacbandits verify`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pacbandits.cli.console import PARTIAL, app, print_json, show, status
from pacbandits.cli.log_options import (
    Actions,
    Clip,
    Connection,
    Engine,
    LeastPropensity,
    Position,
    RewardRange,
    Scheduler,
    Sql,
    Workers,
    check_engine,
    open_engine,
    open_log,
    open_proof,
    open_sources,
    read_contexts,
    reading_options,
)
from pacbandits.errors import InputError, count_of, option_of, plain

if TYPE_CHECKING:
    from pacbandits.certificate import Certificate, Claim
    from pacbandits.certificate.certify import Request
    from pacbandits.cli.certify import AnalysisPlan
    from pacbandits.engines import base
    from pacbandits.experiment.audit import Audit
    from pacbandits.logs.data_set import FileSet
    from pacbandits.proofs import Proof
    from pacbandits.records import Contexts, Log
    from pacbandits.verifier import Verdict


@app.command("verify")
def verify_certificate(
    certificate: Annotated[Path, typer.Argument(help="A certificate written by run or certify.")],
    log: Annotated[
        list[str] | None,
        typer.Argument(
            show_default=False, help="The log it was made from; or its several files, in order; or a URL, as certify."
        ),
    ] = None,
    sql: Sql = None,
    connection: Connection = None,
    actions: Actions = None,
    least_propensity: LeastPropensity = None,
    reward_range: RewardRange = None,
    clip: Clip = False,
    position: Position = None,
    policies: Annotated[
        str | None,
        typer.Option(
            help="The policy class you expect, [cyan]name:key=value,…[/], built from --contexts or else from the "
            "first rows of the log. A certificate for another class is rejected."
        ),
    ] = None,
    contexts: Annotated[
        Path | None,
        typer.Option(
            help="The contexts from before the experiment that the policy class was built from, to rebuild it. For a "
            "certificate for linear rewards: its contexts, if they are not in the file that [cyan]run[/] wrote beside "
            "the certificate."
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help="A head of the event log's hash chain, noted down while the experiment ran: earlier entries must be "
            "unchanged since then. For the export of an experiment."
        ),
    ] = None,
    timestamp: Annotated[
        Path | None,
        typer.Option(
            help="An RFC 3161 time-stamp of the head, from [cyan]experiment head --timestamp-service[/]: tells by when "
            "what was fixed. Without [cyan]--head[/]: of the head that it stamps."
        ),
    ] = None,
    timestamp_ca: Annotated[
        Path | None,
        typer.Option(
            "--timestamp-ca",
            help="Certificates (PEM) of the authority that vouches for the time-stamping service. The signature is "
            "checked by the program openssl.",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="The plan that fixed the question before the log was seen, from [cyan]certify --write-plan[/]: the "
            "certificate must name its digest, and answer its question."
        ),
    ] = None,
    engine: Engine = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a sentence.")] = False,
) -> None:
    """Check a certificate against the log it was made from. Every figure is computed again, by a verifier that shares
    policy searches and reward models with the code that made it, and none of the proof's arithmetic.

    Exit code 3 if the certificate does not hold, or if the data contradict
    its assumptions: counts that do not fit the split, or drift.

    The export of an experiment contains its event log, which is checked
    too. That designs, stakes and leaders were stored before their rounds is
    then no longer an assumption, for all rounds before a head that somebody
    noted down ([cyan]--head[/]).

    The table is read as it was to certify it, unless options say otherwise.
    The output after "good" is part of the claim: the policy class with all
    features its policies use, the facts that were derived again, and the
    assumptions that cannot be checked.

    [dim]Examples:
    pacbandits verify proof.json log.parquet
    pacbandits verify proof.json log.parquet --policies trees:depth=2 --contexts before.parquet
    pacbandits verify proof.json logs/2026-*/*.parquet
    pacbandits verify proof.json log.parquet --plan plan.json
    pacbandits verify proof.json export.parquet --head 5f2ab1…
    pacbandits verify proof.json export.parquet --timestamp checkout-150.tsr --timestamp-ca service.pem[/]
    """
    from pacbandits.logs.table_files import is_streamed
    from pacbandits.policies.registry import describe_class, detail_class
    from pacbandits.progress import heard_by
    from pacbandits.proofs import check_expected, check_is_proof
    from pacbandits.proofs import verify as recheck
    from pacbandits.report.result_report import verdict_document
    from pacbandits.verifier.trust import sort_rest

    reading = reading_options(
        n_actions=actions, least_propensity=least_propensity, reward_range=reward_range, clip=clip, position=position
    )
    check_engine(engine, scheduler=scheduler, workers=workers)
    if timestamp_ca is not None and timestamp is None:
        raise InputError("--timestamp-ca checks a time-stamp; add --timestamp FILE")
    proof = open_proof(certificate, Path(log[0]) if log else None)
    made = proof.certificate
    check_is_proof(made)
    known = proof.contexts(contexts, read=read_contexts)
    with status() as tell, heard_by(tell), open_sources(log, sql, connection) as local:
        paths = local.paths
        if is_streamed(paths, {**proof.reading, **reading}, engine=engine, epsilon=made.epsilon) and is_summed(made):
            with open_engine(engine or "stream", scheduler=scheduler, workers=workers) as who:
                read, verdict = verify_files(
                    proof, paths, reading, engine=who, known=known, expected=policies, plan=plan
                )
        else:
            _check_one(paths, engine)
            read = open_log(paths[0], reading, proof=proof)
            tell("computing every score again")
            verdict = recheck(made, read, proof.policies, contexts=known)
            if policies is not None:
                verdict = check_expected(verdict, proof, read, policies, contexts=known)
            verdict = check_plan(verdict, proof, read, plan)
        record = audit_export(
            paths[0], proof, read, head=head, timestamp=timestamp, authorities=timestamp_ca, contexts=known
        )
    if record is not None:
        verdict = record.joined(verdict)
    left = made.assumptions if record is None else record.left_to_assume(made.assumptions)
    about = describe_class(proof.policies)
    details = detail_class(proof.policies, read.contexts) if verdict.good else ()
    if as_json:
        words = {"class": about, "policy": made.words, "claim": made.describe()}
        found = {"good": verdict.good, "certified": made.certified, "faults": list(verdict.faults)}
        rest = sort_rest(made, verdict.trusted, left, verdict.checked)
        derived = {"alarms": list(verdict.alarms), "checked": list(verdict.checked)}
        derived |= {name: list(words) if verdict.good else [] for name, words in rest._asdict().items()}
        if record is not None:
            derived |= {"head": record.head, "records": record.records, "noted": record.noted}
        shown = {"class_digest": made.class_digest, "class_details": list(details), "reading": dict(proof.reading)}
        print_json({"alarms": derived["alarms"]} | found | {"value": verdict.value} | words | derived | shown)
    else:
        reading_words = as_read(proof.reading) if proof.reading else ""
        show(verdict_document(made, verdict, reading=reading_words, policies=about, details=details, assumptions=left))
    if not verdict.good or verdict.alarms:
        raise typer.Exit(PARTIAL)


def check_plan(
    verdict: Verdict, proof: Proof, rows: Log | FileSet, path: Path | None, *, engine: base.Engine | str = "stream"
) -> Verdict:
    """Return the verdict with a check that a certificate answers the question of a plan, if one is given.

    engine: reads the rows of files.
    """
    from pacbandits.certificate import Certificate
    from pacbandits.cli.certify import read_analysis_plan
    from pacbandits.verifier.trust import CERTIFIED, PLANNED

    if path is None:
        left = f"it answers the question of a plan with the digest {plain(proof.plan)} (--plan PLAN checks that)"
        return verdict if proof.plan is None else replace(verdict, trusted=(*verdict.trusted, left))
    plan = read_analysis_plan(path)
    if plan is None:
        raise InputError(
            f"{plain(path)} is not a plan of an analysis, which certify --write-plan writes; name that one"
        )
    if proof.plan != plan.digest:
        named = "names no plan" if proof.plan is None else f"names a plan with the digest {plain(proof.plan)}"
        faults = [f"the certificate {named}, and {plain(path)} has {plan.digest}"]
    elif not isinstance(proof.certificate, Certificate):
        faults = ["the certificate was not made by certify, and answers no question of a plan"]
    else:
        faults = list(wrong_question(proof, proof.certificate, rows, plan, engine=engine))
    trusted = (
        f"{PLANNED} {plan.digest}, which was published before the log was seen: {CERTIFIED} could have written it "
        "afterwards"
    )
    dropped = [plain(name) for name in proof.reading.get("dropped", ())]
    useless = (
        f"the columns {', '.join(dropped)} have one value in all rows or are copies of others: {CERTIFIED} could have "
        "dropped what a policy might use"
    )
    told = (*verdict.trusted, trusted, *((useless,) if dropped else ()))
    return replace(verdict, faults=(*verdict.faults, *faults), trusted=told)


def wrong_question(
    proof: Proof, c: Certificate, rows: Log | FileSet, plan: AnalysisPlan, *, engine: base.Engine | str
) -> Iterator[str]:
    """Yield in what a certificate answers another question than that of a plan."""
    from pacbandits.analysis import with_guarded_metrics
    from pacbandits.certificate.certificate import MODEL_GIVEN
    from pacbandits.certificate.conventions import has_fixed_split
    from pacbandits.cli.certify import question_of
    from pacbandits.policies.registry import learns
    from pacbandits.proofs import check_expected
    from pacbandits.records import Log
    from pacbandits.records.policy import call
    from pacbandits.verifier import Verdict

    reading = proof.reading
    planned, asked = question_of({**plan.options, "contexts": None})
    planned = with_guarded_metrics(planned, asked.guardrails)
    if MODEL_GIVEN in c.remarks or not c.by_rule:
        yield "the certificate was not made by certify with its own reward model, as a plan asks for"
    for name in dict.fromkeys((*planned, *reading)):
        if name == "source" or (name == "order" and "source" in reading):
            continue  # where the rows are is no part of the question; a table of a database has no order
        if name != "dropped" and planned.get(name) != reading.get(name):  # told of by `check_plan`
            had = " and ".join(
                "nothing" if one is None else plain(one) for one in (planned.get(name), reading.get(name))
            )
            yield f"the plan and the certificate differ in {option_of(name)}: {had}"
    exact = c.epsilon == 0  # the best itself is asked for by name alone, by another proof
    if c.delta != asked.delta or (exact if asked.epsilon is None else c.epsilon != asked.epsilon):
        wanted = "no epsilon" if asked.epsilon is None else f"epsilon {asked.epsilon:g}"
        yield (
            f"the plan asks for delta {asked.delta:g} and {wanted}; the certificate has {c.delta:g} and {c.epsilon:g}"
        )
    in_memory = isinstance(rows, Log)
    spec, learning = str(asked.check(rows if in_memory else rows.head, whole=False)), c.learning
    if learning is None and learns(spec):
        yield f"the plan asks for the policy class {plain(spec)}, and the certificate does not say how its was learnt"
    elif learning is None:
        yield from check_expected(Verdict((), None), proof, rows, spec, engine=engine).faults
    if learning is not None and learning.spec != spec:
        yield f"the plan asks for the policy class {plain(spec)}, and the certificate is of {plain(learning.spec)}"
    if learning is not None and (learning.digest if learning.spared == 0 else None) != plan.contexts_digest:
        yield "the policy class was learnt from other contexts than the plan says"
    by_time, settled = c.ordered and not c.shuffled, c.leaders is not None and c.leaders.settled is not None
    fixed_split = has_fixed_split(rows) if in_memory else rows.fixed_split and rows.max_repeats == 1
    may_shuffle = asked.shuffle or fixed_split
    otherwise = (by_time and not asked.ordered) or (c.shuffled and (asked.ordered or not may_shuffle))
    in_none = not (c.by_rounds or c.ordered or c.shuffled)
    if otherwise or (in_none and (asked.ordered or may_shuffle)):
        yield "the certificate orders rows otherwise than the plan says (--ordered, --time, --shuffle)"
    if c.leaders is not None and not settled and c.leaders.restarts != asked.single:
        yield f"the plan {'asks' if asked.single else 'does not ask'} for a single policy (--single)"
    control, found = asked.control if asked.asks_gain else None, c.improvement
    proven = None if found is None else call(found.control, c.action_names)
    # No gain is proven of a single policy by rounds, of the best itself, of rows without an order, nor of few rows.
    none = (asked.single and not c.shuffled) or not (c.ordered or c.by_rounds)
    if found is None and control is not None and not none:
        none = _proves_no_gain(proof, c, rows if in_memory else rows.head, asked)
    if proven != control and not (found is None and none):
        had = ("no gain" if one is None else f"a gain over {plain(one)}" for one in (control, proven))
        yield "the plan asks for {}, and the certificate proves {}".format(*had)
    if (() if found is None else found.guardrails) != asked.guardrails:
        yield "the guardrails of the certificate are not those of the plan"


def _proves_no_gain(proof: Proof, c: Certificate, log: Log, asked: Request) -> bool:
    """Return whether `certify` would not prove a gain of a certificate's rows, as no policy has led."""
    from pacbandits.certificate.certify import foresee_gain
    from pacbandits.certificate.learning import LearntClass
    from pacbandits.logs.log_table import drop_features

    if len(log) < c.rows:  # the first rows of large files: there a policy has led
        return False
    rows, learnt = drop_features(c.of(log), proof.reading.get("dropped", ())), LearntClass(proof.policies, c.learning)
    return foresee_gain(rows, replace(asked, policies=learnt, restrict=None, block=None)) is None


def is_summed(made: Claim) -> bool:
    """Return whether a certificate was made by sums over rows, and can be rechecked so."""
    from pacbandits.certificate import Certificate

    return isinstance(made, Certificate) and made.summed


def _check_one(log: list[Path], engine: str | None) -> None:
    """Raise if a certificate of rows in memory is to be rechecked on several files or with an engine."""
    if len(log) > 1 or engine is not None:
        what = f"--engine {engine}" if len(log) == 1 else f"{len(log)} files"
        raise InputError(
            f"this certificate was made from one table in memory, and is verified the same way; leave out {what}, "
            "or certify again with an engine"
        )


def verify_files(
    proof: Proof,
    paths: list[Path],
    reading: dict[str, Any],
    *,
    engine: base.Engine,
    known: Contexts | None,
    expected: str | None,
    plan: Path | None,
) -> tuple[Log, Verdict]:
    """Return the first rows of the files, and the verdict on a certificate by sums over all rows."""
    from pacbandits.certificate.summed.survey import as_engine_reads
    from pacbandits.proofs import check_expected
    from pacbandits.proofs import verify as recheck

    files = proof.files(paths, reading=reading)
    try:
        source = as_engine_reads(files, engine.name)
        verdict = recheck(proof.certificate, source, proof.policies, contexts=known, engine=engine)
        if expected is not None:
            verdict = check_expected(verdict, proof, source, expected, contexts=known, engine=engine)
        return files.head, check_plan(verdict, proof, files, plan, engine=engine)
    finally:
        files.close()


def audit_export(
    log: Path,
    proof: Proof,
    read: Log,
    *,
    head: str | None,
    contexts: Contexts | None,
    timestamp: Path | None = None,
    authorities: Path | None = None,
) -> Audit | None:
    """Return the audit of the event log in an exported file; None if it has none.

    read: the log that the certificate was verified on. contexts: those that the class was built from, if given.
    timestamp: a file with a time-stamp of the head. authorities: certificates that its signature is checked by.
    """
    from pacbandits.records.parquet import has_sealed_record

    if not has_sealed_record(log):
        if head is not None or timestamp is not None:
            name = "--timestamp" if head is None else "--head"
            raise InputError(f"{log} has no sealed event log in which to look for {name}; export the experiment again")
        return None
    from pacbandits.certificate import Certificate
    from pacbandits.experiment.audit import audit, read_record
    from pacbandits.experiment.chain import TimeStamp

    stamp = None if timestamp is None else TimeStamp.read(timestamp)
    found, made = read_record(log), proof.certificate
    if proof.record is not None and proof.record["records"] != found.claimed:
        raise InputError(
            f"the certificate is of the first {proof.record['records']:,} records, and the log in {log} of the first "
            f"{found.claimed:,}; export it again with --analysis {proof.record['look']}"
        )
    own = made if isinstance(made, Certificate) else None
    return audit(found, own, head=head, stamp=stamp, authorities=authorities, contexts=contexts, log=read)


def as_read(reading: Mapping[str, Any]) -> str:
    """Return the options with which the certificate's file was read, in words."""
    from pacbandits.records.metrics import read_metrics

    words: list[str] = []
    for name, value in reading.items():
        if name == "source":
            continue
        if isinstance(value, dict):
            words.append(f"{option_of(name)} (of {count_of(len(cast(dict[str, object], value)), 'block')})")
            continue
        given = cast(list[object], value) if isinstance(value, list) else [value]
        if name == "metrics":
            words += [f"{option_of(name)} '{plain(one.spelt)}'" for one in read_metrics(given)]
            continue
        if name == "age":
            words += [f"{option_of(name)} {plain(column)}" for column in given]
            continue
        if name == "dropped":
            flag, listed = "without the useless", ", ".join(map(str, given))
        elif name == "keep":
            flag, listed = option_of("features"), ",".join(f"+{column}" for column in given)
        else:
            between = "," if name in ("features", "without") else " "
            flag, listed = (
                option_of(name),
                between.join(f"{one:g}" if isinstance(one, float) else str(one) for one in given),
            )
        words.append(flag if value is True else f"{flag} {plain(listed)}")
    said = (f"read from {plain(reading['source'], most=300)}",) if "source" in reading else ()
    return ", ".join((*said, *(("read with " + " ".join(words),) if words else ())))
