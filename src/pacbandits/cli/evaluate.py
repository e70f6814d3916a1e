"""`pacbandits evaluate`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from pacbandits.cli.console import PARTIAL, AsJson, app, as_rate, print_json, say, say_notices, show, status
from pacbandits.cli.log_options import (
    ActionColumn,
    Block,
    Clip,
    Connection,
    Engine,
    Metrics,
    Order,
    PropensityColumn,
    RewardColumn,
    RewardRange,
    Scheduler,
    Split,
    Sql,
    Time,
    TimeFormat,
    Unit,
    Without,
    Workers,
    check_engine,
    open_engine,
    open_log,
    open_proof,
    open_sources,
    reading_options,
)
from pacbandits.errors import InputError, close_to, plain

if TYPE_CHECKING:
    from pacbandits.proofs import Proof


@app.command("evaluate")
def evaluate_policy(
    policy: Annotated[
        str,
        typer.Argument(
            help="A certificate written by run or certify; or [cyan]always:ACTION[/], the same action for everybody; "
            "or [cyan]column:NAME[/], a column of the log with the action that your own policy would choose."
        ),
    ],
    log: Annotated[
        list[str] | None,
        typer.Argument(
            show_default=False,
            help="The log of an experiment, the certificate's own or another; or its several files; or a URL, as "
            "certify.",
        ),
    ] = None,
    sql: Sql = None,
    connection: Connection = None,
    control: Annotated[
        str | None, typer.Option(help="Action to compare with, by name (default: the best single action).")
    ] = None,
    delta: Annotated[
        float, typer.Option(parser=as_rate, metavar="RATE", help="Error probability of each interval.")
    ] = 0.05,
    action: ActionColumn = None,
    reward: RewardColumn = None,
    propensity: PropensityColumn = None,
    split: Split = None,
    reward_range: RewardRange = None,
    clip: Clip = False,
    time: Time = None,
    time_format: TimeFormat = None,
    unit: Unit = None,
    block: Block = None,
    order: Order = None,
    without: Without = None,
    metric: Metrics = None,
    engine: Engine = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the mean outcome of a policy, and its lift over one arm for everyone, from the data of an A/B test.

    Each estimate has a confidence interval that holds at every sample size.
    The policy comes from a certificate, is the same action for everybody
    ([cyan]always:ACTION[/]), or comes from a column of the table with the
    action that a policy of your own would choose ([cyan]column:NAME[/]).

    On the table that a certificate was made from, the intervals account for
    the selection of the policy on the same data. Any other policy must not
    have been chosen with this table.

    Exit code 3 if the data contradict an assumption (counts that do not fit
    the split, drift, or an empty interval); the alarm is printed first.

    [dim]Examples:
    pacbandits evaluate proof.json test.csv --control email_a
    pacbandits evaluate always:email_a test.csv --action variant --reward converted --split uniform
    pacbandits evaluate column:our_rule test.csv --action variant --reward converted --split uniform[/]
    """
    from pacbandits.analysis import action_number, check_were_no_features, measure_claim
    from pacbandits.certificate import Certificate, evaluate
    from pacbandits.confidence import check_asked_delta
    from pacbandits.logs.reading_options import ReadingOptions
    from pacbandits.logs.table_files import is_streamed
    from pacbandits.policies.decisions import ALWAYS, COLUMN, ColumnPolicy
    from pacbandits.policies.trees.tree_policy import TreePolicy
    from pacbandits.progress import heard_by
    from pacbandits.report import worth_document

    check_asked_delta(delta)
    given = reading_options(
        action=action,
        reward=reward,
        propensity=propensity,
        split=split,
        reward_range=reward_range,
        clip=clip,
        time=time,
        time_format=time_format,
        unit=unit,
        block=block,
        order=order,
        left_out=without,
        metrics=metric or (),
    )
    check_engine(engine, scheduler=scheduler, workers=workers)
    ordered = time is not None
    with status() as tell, heard_by(tell), open_sources(log, sql, connection) as local:
        paths = local.paths
        streamed = is_streamed(paths, given, engine=engine, epsilon=None)
        if policy.startswith((COLUMN, ALWAYS)):
            _check_one(paths, engine)
            given = local.reading(given)
            read = open_log(paths[0], given)
            names = read.action_names or tuple(str(number) for number in range(read.n_actions))
            tell("computing values and gains")
            if policy.startswith(ALWAYS):
                name = policy.removeprefix(ALWAYS)
                number = action_number(name, read, of=f"the policy '{plain(policy)}'")
                theirs, words = TreePolicy(cast("int", number), read.n_actions), f"always {plain(name)}"
            else:
                theirs = ColumnPolicy(policy.removeprefix(COLUMN), names)
                words = theirs.describe()
            worth, own = evaluate(read, theirs, delta=delta, ordered=ordered), False
            proven = None
        else:
            _check_policy(policy)
            proof = open_proof(Path(policy), paths[0])
            given = local.reading(given, also=proof.reading)
            before = {name: value for name, value in given.items() if name != "metrics"}
            if streamed:
                with open_engine(engine or "stream", scheduler=scheduler, workers=workers) as who:
                    told = proof.reading.get("metrics", ())
                    with closing(proof.files(paths, reading=given)) as files:
                        read = files.head
                        worth, own = measure_claim(
                            proof.certificate, files, metrics=told, delta=delta, ordered=False, engine=who
                        )
                    if metric and not own:
                        with closing(proof.files(paths, reading=before)) as files:
                            check_were_no_features(proof.certificate, files, told)
            else:
                proof = _with_present_metrics(proof, paths[0], local.shown(paths[0]))
                read = open_log(paths[0], given, proof=proof)
                tell("computing values and gains")
                told = proof.reading.get("metrics", ())
                worth, own = measure_claim(proof.certificate, read, metrics=told, delta=delta, ordered=ordered)
                if metric and not own:
                    check_were_no_features(proof.certificate, open_log(paths[0], before, proof=proof), told)
            words, given = proof.certificate.words, {**proof.reading, **given}
            claim = proof.certificate
            doubtful = claim.alarms or worth is None or worth.delta != claim.delta
            proven = claim.improvement if own and isinstance(claim, Certificate) and not doubtful else None
    if worth is None:
        raise InputError(
            "the value of this policy cannot be estimated from the log it was chosen with; use another log"
        )
    names = read.action_names or tuple(f"action {number}" for number in range(read.n_actions))
    compared = action_number(control, read, of="--control")
    outcome = ReadingOptions.from_json(given).outcome
    if as_json:
        told = {"actions": list(names), "own_log": own, "policy": words, "assumed": list(worth.assumptions)}
        print_json(worth.to_json() | told)
    else:
        say_notices(read)
        about = worth_document(worth, names, words, own=own, control=compared, log=read, outcome=outcome, proven=proven)
        show(about)
    if worth.alarms:
        raise typer.Exit(PARTIAL)


def _with_present_metrics(proof: Proof, log: Path, name: str) -> Proof:
    """Return the certificate without metrics whose columns another log lacks, and say so on standard error.

    name: of the log in messages.
    """
    from pacbandits.logs.readers import LOG_FORMATS
    from pacbandits.records.metrics import read_metrics
    from pacbandits.records.parquet import read_table, suffix

    listed = read_metrics(proof.reading.get("metrics", ()))
    tables = [ending for form in LOG_FORMATS.values() if form.columns for ending in form.endings]
    if not listed or not log.is_file() or suffix(log) not in tables:
        return proof
    table = read_table(log)
    if "metrics" in table.about:
        return proof
    here = [metric for metric in listed if all(column.name in table.columns for column in metric.columns)]
    for metric in listed:
        if metric not in here:
            what = plain(metric.name)
            say(f"note: {name} lacks a column of '{what}', a metric of the certificate, which is left out", err=True)
    rest = {name: value for name, value in proof.reading.items() if name != "metrics"}
    return replace(proof, reading=rest | ({"metrics": [metric.to_json() for metric in here]} if here else {}))


def _check_one(log: list[Path], engine: str | None) -> None:
    """Raise if a policy without a certificate is to be evaluated on several files, or with an engine."""
    if len(log) > 1 or engine is not None:
        raise InputError("always:ACTION and column:NAME need one file in memory; name one file, and leave out --engine")


def _check_policy(policy: str) -> None:
    """Raise if there is no such certificate; name the forms that a policy may have."""
    from pacbandits.policies.decisions import ALWAYS, COLUMN

    if Path(policy).exists():
        return
    kind, colon, name = policy.partition(":")
    meant = [one for one in (COLUMN, ALWAYS) if close_to(kind, [one.removesuffix(":")])]
    if meant and (colon or f"{policy}:" in meant):
        example = f"{meant[0]}{plain(name or ('NAME' if meant[0] == COLUMN else 'ACTION'))}"
        what = "a column of the log" if meant[0] == COLUMN else "one action for everybody"
        raise InputError(f"there is no file '{plain(policy)}'; for {what}, write {example}")
    raise InputError(
        f"there is no file '{plain(policy)}'; a policy is the file of a certificate, {ALWAYS}ACTION for the same "
        f"action for everybody, or {COLUMN}NAME for a column of the log"
    )
