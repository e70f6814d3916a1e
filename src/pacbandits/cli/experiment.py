"""`pacbandits experiment …`: persistent experiments, from the shell."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbandits.cli.console import AsJson, app, check_output, print_json, say, show, status
from pacbandits.errors import InputError, masked, one_line, plain

if TYPE_CHECKING:
    from pacbandits.experiment.experiment import Experiment
    from pacbandits.experiment.protocol import ExperimentProtocol


DEFAULT_DATABASE = "pacbandits.db"
SHELL = "the command line"  # who steered, in the event log
REHEARSAL = "-rehearsal"  # what --rehearsal adds to the name
experiments = typer.Typer(
    name="experiment",
    help="Experiments on live traffic: create one, show its state, pause, stop, export.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.add_typer(experiments)
webhooks = typer.Typer(
    name="webhooks",
    help="Webhooks of an experiment, which are told when it is certified, paused by its guardrail, or in doubt.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
experiments.add_typer(webhooks)

Name = Annotated[str, typer.Argument(help="Name of the experiment.")]
DatabaseAt = Annotated[
    str,
    typer.Option(
        "--database",
        metavar="FILE|URL",
        help="Database with the experiments: an SQLite file, or [cyan]postgresql://user@host/name[/].",
        envvar="PACBANDITS_DATABASE",
        show_envvar=True,
    ),
]
Reason = Annotated[str, typer.Option(help="The reason, stored in the event log and visible to everyone.")]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Open the SQLite file, such as a backup, without changing or upgrading it.")
]


EXCLUDED = (
    "excluded actions (never=…) bind the certified policy alone; while the experiment explores, everybody may get every"
    " action: leave people out of the experiment for whom that would do harm"
)


@experiments.command()
def create(
    protocol: Annotated[Path, typer.Argument(help="A TOML file with the fixed settings; see docs/experiments.md.")],
    rehearsal: Annotated[
        bool,
        typer.Option(
            "--rehearsal",
            help="Create a rehearsal instead, named NAME-rehearsal: an experiment of its own, for simulated visitors.",
        ),
    ] = False,
    database: DatabaseAt = DEFAULT_DATABASE,
    as_json: AsJson = False,
) -> None:
    """Create an experiment from a file with its fixed settings: contexts, actions, policies, ε, δ, stopping rules.

    These settings cannot be changed later: their digest is the first entry of
    the event log. The output can be published now.

    The rows of a randomised pilot, [cyan]pilot = "pilot.csv"[/] in the file, count as
    the first of the experiment, which then needs fewer people.

    [dim]Examples:
    pacbandits experiment create checkout.toml
    pacbandits experiment create checkout.toml --rehearsal
    pacbandits experiment create checkout.toml --database postgresql://shop@db/experiments[/]
    """
    from pacbandits.experiment.experiment import Experiment
    from pacbandits.experiment.protocol_files import read_protocol_webhooks, read_protocol_with_remarks
    from pacbandits.report.experiment_report import asked_words, facts_document

    with status() as tell:
        tell("reading")
        made, remarks = read_protocol_with_remarks(protocol)
        hooks = read_protocol_webhooks(protocol)
        if rehearsal:
            made = replace(made, name=f"{made.name}{REHEARSAL}", rehearsal=True)
        tell("designing the first round")
        with Experiment.create(database, made, webhooks=hooks) as experiment:
            seal, figures = experiment.seal(), experiment.status().to_json()
    for words in (*remarks, *((EXCLUDED,) if made.trial()[1].excludes else ())):
        say(f"{protocol}: {one_line(words)}", err=True)
    if as_json:
        print_json({"protocol": made.published(), "digest": made.digest, "seal": seal.head, "status": figures})
        return
    rows = [
        ("created", f"{made.name}, in {plain(database)}" + ("; a rehearsal" if made.rehearsal else "")),
        ("actions", ", ".join(map(plain, made.actions)) + f"; the standard one is {plain(made.standard)}"),
        ("features", ", ".join(map(plain, made.contexts.names))),
        ("asked", asked_words(figures)),
        ("rewards", f"from {made.reward_range[0]:g} to {made.reward_range[1]:g}; {made.late.describe()}"),
        ("first round", f"{figures['round']['planned']:,} people"),
        *(("webhook", f"{one.shown}: {', '.join(one.events)}") for one in hooks),
        ("protocol", made.digest),
        ("seal", seal.head),
    ]
    show(facts_document(rows))


@experiments.command("list")
def list_all(database: DatabaseAt = DEFAULT_DATABASE, read_only: ReadOnly = False, as_json: AsJson = False) -> None:
    """List the experiments of a database with their state.

    [dim]Example:
    pacbandits experiment list --database checkout.db[/]
    """
    from pacbandits.experiment.database import Database
    from pacbandits.experiment.experiment import Experiment
    from pacbandits.report.experiment_report import experiments_document

    base = Database(database, read_only=read_only)
    found = [Experiment.open(base, name).status().to_json() for name in base.names()]
    if as_json:
        print_json(found)
    elif found:
        show(experiments_document(found))
    else:
        say(f"there is no experiment in {plain(database)}; pacbandits experiment create makes one")


@experiments.command("status")
def show_status(
    name: Name, database: DatabaseAt = DEFAULT_DATABASE, read_only: ReadOnly = False, as_json: AsJson = False
) -> None:
    """Show the state of an experiment: certified result, progress, outcome of each action, alarms.

    The result is that of the last interim analysis. A service runs them by
    itself; [cyan]pacbandits experiment advance[/] runs one now.

    [dim]Example:
    pacbandits experiment status checkout[/]
    """
    from pacbandits.report.experiment_report import status_document

    with _open(database, name, read_only=read_only) as experiment:
        figures = experiment.status().to_json()
    if as_json:
        print_json(figures)
    else:
        show(status_document(figures))


@experiments.command()
def advance(name: Name, database: DatabaseAt = DEFAULT_DATABASE, as_json: AsJson = False) -> None:
    """Do the pending work and run an interim analysis now, e.g. from a nightly job if no service is running.

    Webhooks are told of what comes of it.

    [dim]Example:
    pacbandits experiment advance checkout[/]
    """
    from pacbandits.experiment.webhooks import AT_ONCE, deliver_due
    from pacbandits.report.experiment_report import status_document

    with status() as tell, _open(database, name) as experiment:
        try:
            tell("analysing the data")
            while experiment.advance():
                tell("designing")
            experiment.advance(at_once=True)
        finally:  # a failed analysis is an event, too
            while deliver_due(experiment.database, experiment=name) == AT_ONCE:
                tell("delivering webhooks")
        figures = experiment.status().to_json()
    if as_json:
        print_json(figures)
    else:
        show(status_document(figures))


@experiments.command()
def export(
    name: Name,
    path: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    certificate: Annotated[
        Path | None,
        typer.Option(help="Also write the certificate to this .json file, for [cyan]pacbandits verify[/]."),
    ] = None,
    contexts: Annotated[
        Path | None,
        typer.Option(help="Also write the contexts that the policy class was built from, to rebuild it (Parquet)."),
    ] = None,
    look: Annotated[
        int | None,
        typer.Option(
            "--analysis",
            "--look",
            help="Number of the interim analysis whose data are the log in the file (default: the one that certified "
            "most); 0 uses all data available now.",
        ),
    ] = None,
    reveal_seed: Annotated[
        bool,
        typer.Option(
            "--reveal-seed",
            help="Disclose the seed, so that verify recomputes every draw; readers of the file can then predict later "
            "ones. A stopped experiment always discloses it.",
        ),
    ] = False,
    database: DatabaseAt = DEFAULT_DATABASE,
    read_only: ReadOnly = False,
) -> None:
    """Export the whole event log with its hash chain as one Parquet file, which certify and verify read.

    The log in it is that of one interim analysis; the certificate names the
    records that it is of. Every head noted down so far can be checked.

    [dim]Examples:
    pacbandits experiment export checkout record.parquet --certificate proof.json
    pacbandits verify proof.json record.parquet[/]
    """
    for target, ending in ((path, ".parquet"), (certificate, ".json"), (contexts, ".parquet")):
        check_output(target)
        if target is not None and target.suffix.lower() != ending:
            raise InputError(f"'{target}' must end in {ending}; name it {target.with_suffix(ending)}")
    with status() as tell, _open(database, name, read_only=read_only) as experiment:
        tell("writing the export")
        best = experiment.result().look
        if certificate is not None and look not in (None, best):
            raise InputError(
                f"the certificate is of interim analysis {best}, and --analysis {look} exports the data of another; "
                "leave out --analysis or --certificate"
            )
        experiment.export(path, look=look, reveal_seed=reveal_seed)
        if contexts is not None:
            experiment.protocol.contexts.write(contexts)
        proven = None if certificate is None else _write_certificate(experiment, certificate)
    say(f"the export is in {path}" + ("" if contexts is None else f", the contexts are in {contexts}"))
    if experiment.protocol.guardrails:
        say(f"its guardrails are proven by: {_certify_command(experiment.protocol, path, contexts)}")
    if certificate is not None:
        said = f"the certificate is in {certificate}; check it: pacbandits verify {certificate} {path}"
        left = " (a file of that name exists from before)" if certificate.exists() else ""
        say(said if proven else f"nothing is proven yet, so {certificate} was not written{left}")


def _certify_command(protocol: ExperimentProtocol, path: Path, contexts: Path | None) -> str:
    """Return the command that proves the guardrails of a protocol on its exported log."""
    words = ["pacbandits", "certify", str(path), "--policies", protocol.spec or "CLASS"]
    words += [] if contexts is None else ["--contexts", str(contexts)]
    words += ["--control", str(protocol.standard)]
    return shlex.join(words + [word for rail in protocol.guardrails for word in ("--guardrail", rail.spelt)])


def _write_certificate(experiment: Experiment, path: Path) -> bool:
    """Write the certificate of an experiment with its class; return whether there is one."""
    from pacbandits.certificate import Certificate
    from pacbandits.proofs import save_certificate

    result = experiment.result()
    found = result.certificate
    if found is None:
        return False
    policies = experiment.protocol.trial(tuple(experiment.status().to_json()["withdrawn"]))[1]
    part = {"records": result.records, "look": result.look}
    save_certificate(path, Certificate.from_json(found, policies), policies, record=part)
    return True


@experiments.command()
def head(
    name: Name,
    publish: Annotated[
        Path | None,
        typer.Option(help="Also append the line to this file, to be mailed, committed or time-stamped."),
    ] = None,
    timestamp_service: Annotated[
        str | None,
        typer.Option(
            help="Address of a time-stamping service (RFC 3161), to which the head is sent, nothing else. Its answer "
            "is written beside the published file, or into this folder; [cyan]verify --timestamp[/] reads it."
        ),
    ] = None,
    database: DatabaseAt = DEFAULT_DATABASE,
    as_json: AsJson = False,
) -> None:
    """Print the head of the event log's hash chain as a line to publish: it fixes every entry up to now.

    Put it where others see it and you cannot change it: a mail, a signed
    commit, a time-stamping service. [cyan]pacbandits verify --head[/] accepts the
    line and says what was fixed by then.

    [dim]Examples:
    pacbandits experiment head checkout
    pacbandits experiment head checkout --publish heads.txt
    pacbandits experiment head checkout --timestamp-service https://tsa.example.org[/]
    """
    check_output(publish)
    with _open(database, name) as experiment:
        seal = experiment.seal()
    stamped = None
    if timestamp_service is not None:
        stamped = Path("." if publish is None else publish.parent, f"{seal.experiment}-{seal.records}.tsr")
        _stamp(seal.head, timestamp_service, stamped)
    if publish is not None:
        try:
            with publish.open("a", encoding="utf-8") as file:
                file.write(seal.published() + "\n")
        except OSError as error:
            raise InputError(f"cannot write {publish}: {error.strerror}") from None
    if as_json:
        told = {"head": seal.head, "records": seal.records, "protocol": seal.protocol, "line": seal.published()}
        print_json(told if stamped is None else told | {"timestamp": str(stamped)})
    else:
        say(seal.published())
        if stamped is not None:
            say(f"its time-stamp is in {stamped}; check it: pacbandits verify CERTIFICATE EXPORT --timestamp {stamped}")


def _stamp(head: str, service: str, path: Path) -> None:
    """Write a service's time-stamp of a head; keep one of the same head that is there, as it is the earlier one."""
    from pacbandits.experiment.chain import TimeStamp, request_stamp

    check_output(path)
    if path.exists():
        if TimeStamp.read(path).digest != head:
            raise InputError(f"{path} is the time-stamp of another head; move it away")
        return
    found = request_stamp(head, service)
    try:
        path.write_bytes(found.whole)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


@experiments.command()
def pause(name: Name, reason: Reason, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Stop enrolling new users until the experiment is resumed. Enrolled users keep their action; rewards still count.

    [dim]Example:
    pacbandits experiment pause checkout --reason "the payment page is down"[/]
    """
    with _open(database, name) as experiment:
        experiment.pause(reason, by=SHELL)
    usual = os.environ.get("PACBANDITS_DATABASE", DEFAULT_DATABASE)
    there = "" if database == usual else f" --database {shlex.quote(plain(masked(database)))}"
    say(f"{name} is paused; to continue: pacbandits experiment resume {name} --reason …{there}")


@experiments.command()
def resume(name: Name, reason: Reason, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Resume a paused experiment. After a pause by the guardrail, give a reason why it may continue.

    [dim]Example:
    pacbandits experiment resume checkout --reason "the payment page is back"[/]
    """
    with _open(database, name) as experiment:
        experiment.resume(reason, by=SHELL)
        state = experiment.status().state
    say(f"{name} is {state} again")


@experiments.command()
def stop(name: Name, reason: Reason, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Stop enrolling new users for good. Certified results remain valid; pending rewards may still arrive and count.

    [dim]Example:
    pacbandits experiment stop checkout --reason "the campaign is over"[/]
    """
    with _open(database, name) as experiment:
        experiment.stop(reason, by=SHELL)
    say(f"{name} is stopped; pacbandits experiment status {name} shows what is proven")


@experiments.command()
def withdraw(
    name: Name,
    action: Annotated[str, typer.Argument(help="Name of the action to withdraw.")],
    reason: Reason,
    database: DatabaseAt = DEFAULT_DATABASE,
) -> None:
    """Withdraw an action for good: nobody gets it from now on, e.g. because it does harm or is sold out.

    The claim then covers the policies without this action. It becomes
    slightly weaker, because the choice of the action depends on the data; the
    command prints by how much.

    [dim]Example:
    pacbandits experiment withdraw checkout discount --reason "margins"[/]
    """
    from math import log

    with _open(database, name) as experiment:
        before = experiment.protocol.trial(tuple(experiment.status().to_json().get("withdrawn", ())))[0].delta
        experiment.withdraw(action, reason, by=SHELL)
        gone = tuple(experiment.status().to_json().get("withdrawn", ()))
        after = experiment.protocol.trial(gone)[0].delta
        delta = experiment.protocol.delta
    more = log(before / after) / log(1.0 / before)
    say(
        f"{plain(action)} is withdrawn. Claims from now on cover policies without {', '.join(map(plain, gone))}, "
        f"except with probability {after:.2g} (all claims together: {delta:g}); they need about {100 * more:.0f} "
        "% more evidence than before, of fewer policies"
    )


@experiments.command()
def delete(
    name: Name,
    confirm: Annotated[str, typer.Option(help="The name again, as what is deleted cannot be brought back.")],
    database: DatabaseAt = DEFAULT_DATABASE,
) -> None:
    """Delete an experiment with all its records and keys, for good. Its name cannot be used again.

    Backups and exports keep what they have.

    [dim]Example:
    pacbandits experiment delete checkout --confirm checkout[/]
    """
    from pacbandits.experiment.experiment import delete_experiment

    if confirm != name:
        raise InputError(f"--confirm says '{plain(confirm)}', not '{plain(name)}'; nothing is deleted")
    delete_experiment(database, name)
    say(f"{name} is deleted; backups and exports keep what they have")


@experiments.command("forget-units")
def forget_units(name: Name, reason: Reason, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Delete the key by which units of a stopped experiment are hashed: nobody can then tell whose a row is.

    The event log, its hash chain and the certificate stay valid. Features stay
    as they are. Restart servers, which know the key until then.

    [dim]Example:
    pacbandits experiment forget-units checkout --reason "retention period over"[/]
    """
    with _open(database, name) as experiment:
        experiment.forget_units(reason, by=SHELL)
    say(f"the units of {name} are forgotten; restart servers that have it open")


@experiments.command("note-restore")
def note_restore(name: Name, reason: Reason, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Note in the event log that the database was restored from a backup. Running servers then read it anew.

    Rewards of assignments that were lost are refused in any case.

    [dim]Example:
    pacbandits experiment note-restore checkout --reason "disk failure; backup of 3 May"[/]
    """
    with _open(database, name) as experiment:
        experiment.note_restore(reason)
    say(f"the event log of {name} says that it was restored")


WebhookId = Annotated[str, typer.Argument(metavar="ID", help="Its id, as `webhooks list` shows it.")]


@webhooks.command("list")
def list_webhooks(
    name: Name, database: DatabaseAt = DEFAULT_DATABASE, read_only: ReadOnly = False, as_json: AsJson = False
) -> None:
    """List the webhooks of an experiment, and how their deliveries ended. Of URLs, only the host is shown.

    [dim]Example:
    pacbandits experiment webhooks list checkout[/]
    """
    from pacbandits.experiment import webhooks as hooks
    from pacbandits.report.experiment_report import webhooks_document

    with _open(database, name, read_only=read_only) as experiment, experiment.database.reading() as connection:
        found = hooks.list_webhooks(connection, name)
    if as_json:
        print_json(found)
    elif found:
        show(webhooks_document(found))
    else:
        say(f"{name} has no webhook; pacbandits experiment webhooks add makes one")


@webhooks.command("add")
def add_webhook(
    name: Name,
    url: Annotated[
        str,
        typer.Argument(help="An http(s) URL; or [cyan]env:NAME[/] or [cyan]file:PATH[/], where the worker finds it."),
    ],
    secret: Annotated[
        str,
        typer.Option(
            metavar="env:NAME|file:PATH", help="Where the worker process finds the key of signatures; it is not stored."
        ),
    ] = "",
    event: Annotated[
        list[str] | None,
        typer.Option(
            help="An event: certified, paused_by_guardrail, sample_ratio_mismatch, drift or analysis_failed. "
            "Give it several times for several; all by default."
        ),
    ] = None,
    slack: Annotated[
        bool, typer.Option("--slack", help='Send {"text": …}, as Slack expects it; needs no secret.')
    ] = False,
    database: DatabaseAt = DEFAULT_DATABASE,
) -> None:
    """Add a webhook to an experiment. This does not change its protocol.

    [dim]Examples:
    pacbandits experiment webhooks add checkout https://example.org/hook --secret env:HOOK_SECRET
    pacbandits experiment webhooks add checkout env:SLACK_URL --slack --event certified --event drift[/]
    """
    from pacbandits.experiment import webhooks as hooks

    here = Path.cwd()
    made = hooks.Webhook(
        hooks.absolute(url, folder=here),
        tuple(event) if event else hooks.EVENTS,
        hooks.absolute(secret, folder=here),
        "slack" if slack else "json",
    )
    with _open(database, name) as experiment, experiment.database.writing(name) as (connection, _):
        ids = hooks.add_webhooks(connection, name, [made], at=experiment.database.now(connection))
    say(f"{name} has a webhook {ids[0]}; to try it: pacbandits experiment webhooks test {name} {ids[0]}")


@webhooks.command("remove")
def remove_webhook(name: Name, id: WebhookId, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Remove a webhook, and what it was not told of yet.

    [dim]Example:
    pacbandits experiment webhooks remove checkout 5f0c2a91[/]
    """
    from pacbandits.experiment import webhooks as hooks

    with _open(database, name) as experiment, experiment.database.writing(name) as (connection, _):
        hooks.remove_webhooks(connection, name, id)
    say(f"the webhook {plain(id)} of {name} is removed")


@webhooks.command("test")
def try_webhook(
    name: Name,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Its id; all of the experiment by default.")] = None,
    database: DatabaseAt = DEFAULT_DATABASE,
) -> None:
    """Send an event of the kind "test" now, once, from this process, and say how that ended.

    Environment variables and files are those of this process; the worker
    process must have them, too.

    [dim]Example:
    pacbandits experiment webhooks test checkout[/]
    """
    from pacbandits.experiment import webhooks as hooks

    with _open(database, name) as experiment:
        with experiment.database.reading() as connection:
            found = hooks.webhooks_of(connection, name) if id is None else [hooks.find_webhook(connection, name, id)]
        if not found:
            raise InputError(f"'{plain(name)}' has no webhook; pacbandits experiment webhooks add makes one")
        failed = 0
        for one in found:
            words = hooks.send_test(one, name, at=experiment.database.clock(), rehearsal=experiment.protocol.rehearsal)
            failed += bool(words)
            say(f"{one.id} {one.shown}: {words or 'delivered'}")
    if failed:
        raise typer.Exit(1)


@webhooks.command("retry")
def retry_webhooks(name: Name, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Deliver what waits or was given up, at once; by the worker process.

    [dim]Example:
    pacbandits experiment webhooks retry checkout[/]
    """
    from pacbandits.experiment import webhooks as hooks

    with _open(database, name) as experiment:
        count = hooks.try_again(experiment.database, name)
    say(f"{count:,} deliveries of {name} are due now")


def _open(database: str, name: str, *, read_only: bool = False) -> Experiment:
    from pacbandits.experiment.database import Database
    from pacbandits.experiment.experiment import Experiment

    return Experiment.open(Database(database, read_only=read_only), name)
