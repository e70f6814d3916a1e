"""`pacbandits experiment …`: experiments that last, from the shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbandits.cli.shared import app, check_output, print_json, say, show, status
from pacbandits.errors import InputError, one_line, plain

if TYPE_CHECKING:
    from pacbandits.experiment.experiment import Experiment

DEFAULT_DATABASE = "pacbandits.db"
experiments = typer.Typer(
    name="experiment",
    help="Experiments on live traffic that last for weeks: create one, see where it stands, pause, stop, export.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.add_typer(experiments)

Name = Annotated[str, typer.Argument(help="The experiment, by its name.")]
DatabaseAt = Annotated[
    str,
    typer.Option(
        "--database",
        metavar="FILE|URL",
        help="Where experiments are kept: a file of SQLite, or [cyan]postgresql://user@host/name[/].",
    ),
]
Reason = Annotated[str, typer.Option(help="Why: the record keeps it, and everybody who looks sees it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


@experiments.command()
def create(
    protocol: Annotated[Path, typer.Argument(help="A TOML file with all that is fixed; docs/experiments.md tells it.")],
    database: DatabaseAt = DEFAULT_DATABASE,
    as_json: AsJson = False,
) -> None:
    """Create an experiment from a file that says all that is fixed: contexts, actions, policies, ε, δ, rules.

    Nothing of that can be changed later: its digest stands first in the record. What is printed can be published now.

    [dim]Examples:
    pacbandits experiment create checkout.toml
    pacbandits experiment create checkout.toml --database postgresql://shop@db/experiments[/]
    """
    from pacbandits.experiment.experiment import Experiment
    from pacbandits.experiment.toml_files import read_protocol_with_remarks
    from pacbandits.report.experiments import facts_document

    with status() as tell:
        tell("reading")
        made, remarks = read_protocol_with_remarks(protocol)
        tell("designing the first round")
        with Experiment.create(database, made) as experiment:
            seal, figures = experiment.seal(), experiment.status().to_json()
    for words in remarks:
        say(f"{protocol}: {one_line(words)}", err=True)
    if as_json:
        print_json({"protocol": made.published(), "digest": made.digest, "seal": seal.head, "status": figures})
        return
    rows = [
        ("created", f"{made.name}, in {plain(database)}"),
        ("actions", ", ".join(map(plain, made.actions)) + f"; the standard one is {plain(made.standard)}"),
        ("features", ", ".join(map(plain, made.contexts.names))),
        ("asked", f"a policy of {made.words} within {made.epsilon:g} of the best, δ = {made.delta:g}"),
        ("rewards", f"from {made.reward_range[0]:g} to {made.reward_range[1]:g}; {made.late.describe()}"),
        ("first round", f"{figures['round']['planned']:,} people"),
        ("protocol", made.digest),
        ("seal", seal.head),
    ]
    show(facts_document(rows))


@experiments.command("list")
def list_all(database: DatabaseAt = DEFAULT_DATABASE, as_json: AsJson = False) -> None:
    """List the experiments of a database, and where each stands.

    [dim]Example:
    pacbandits experiment list --database checkout.db[/]
    """
    from pacbandits.experiment.experiment import Experiment, list_experiments
    from pacbandits.report.experiments import experiments_document

    found = [Experiment.open(database, name).status().to_json() for name in list_experiments(database)]
    if as_json:
        print_json(found)
    elif found:
        show(experiments_document(found))
    else:
        say(f"there is no experiment in {plain(database)}; pacbandits experiment create makes one")


@experiments.command("status")
def show_status(name: Name, database: DatabaseAt = DEFAULT_DATABASE, as_json: AsJson = False) -> None:
    """Where an experiment stands: what is proven, how far it is, what each action earned, whether all is well.

    What is proven is of the last look; a service looks by itself, [cyan]pacbandits experiment advance[/] at once.

    [dim]Example:
    pacbandits experiment status checkout[/]
    """
    from pacbandits.report.experiments import status_document

    with _open(database, name) as experiment:
        figures = experiment.status().to_json()
    if as_json:
        print_json(figures)
    else:
        show(status_document(figures))


@experiments.command()
def advance(name: Name, database: DatabaseAt = DEFAULT_DATABASE, as_json: AsJson = False) -> None:
    """Do what is due, and look at the data now: for experiments that no service runs, from a nightly job say.

    [dim]Example:
    pacbandits experiment advance checkout[/]
    """
    from pacbandits.report.experiments import status_document

    with status() as tell, _open(database, name) as experiment:
        tell("looking at the data")
        while experiment.advance():
            tell("designing")
        experiment.advance(at_once=True)
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
        typer.Option(help="Write what is proven here, too, for [cyan]pacbandits verify[/]; a .json file."),
    ] = None,
    contexts: Annotated[
        Path | None,
        typer.Option(help="Write the contexts that the class was made from here, too, to make it again; Parquet."),
    ] = None,
    look: Annotated[
        int | None,
        typer.Option(help="As of which look at the data: by default that which proved most, 0 for all there is now."),
    ] = None,
    database: DatabaseAt = DEFAULT_DATABASE,
) -> None:
    """Write the whole record as one Parquet file, which certify and verify read, with the chain that seals it.

    [dim]Examples:
    pacbandits experiment export checkout record.parquet --certificate proof.json
    pacbandits verify proof.json record.parquet[/]
    """
    for target, ending in ((path, ".parquet"), (certificate, ".json"), (contexts, ".parquet")):
        check_output(target)
        if target is not None and target.suffix.lower() != ending:
            raise InputError(f"'{target}' must end in {ending}; name it {target.with_suffix(ending)}")
    with status() as tell, _open(database, name) as experiment:
        tell("writing the record")
        experiment.export(path, look=look)
        if contexts is not None:
            experiment.protocol.contexts.write(contexts)
        proven = None if certificate is None else _write_certificate(experiment, certificate)
    say(f"the record is in {path}" + ("" if contexts is None else f", the contexts are in {contexts}"))
    if certificate is not None:
        said = f"what is proven is in {certificate}; check it: pacbandits verify {certificate} {path}"
        left = " (there is a file of that name, from before)" if certificate.exists() else ""
        say(said if proven else f"nothing is proven yet, so that there is nothing to write to {certificate}{left}")


def _write_certificate(experiment: Experiment, path: Path) -> bool:
    """Write the certificate of an experiment with its class; whether there is one."""
    from pacbandits.certificate import Certificate
    from pacbandits.proofs import save_certificate

    found = experiment.result().certificate
    if found is None:
        return False
    policies = experiment.protocol.trial(tuple(experiment.status().to_json()["withdrawn"]))[1]
    save_certificate(path, Certificate.from_json(found, policies), policies)
    return True


@experiments.command()
def pause(name: Name, reason: Reason, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Take in nobody new until it is resumed. Those who came before still get what they got; rewards still come in.

    [dim]Example:
    pacbandits experiment pause checkout --reason "the payment page is down"[/]
    """
    with _open(database, name) as experiment:
        experiment.pause(reason)
    say(f"{name} is paused; pacbandits experiment resume {name} goes on")


@experiments.command()
def resume(name: Name, reason: Reason, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Go on after a pause, also one by the guardrail: then say why that is no reason any more.

    [dim]Example:
    pacbandits experiment resume checkout --reason "the payment page is back"[/]
    """
    with _open(database, name) as experiment:
        experiment.resume(reason)
        state = experiment.status().state
    say(f"{name} is {state} again")


@experiments.command()
def stop(name: Name, reason: Reason, database: DatabaseAt = DEFAULT_DATABASE) -> None:
    """Take in nobody new, for good. What is proven stays proven, and rewards that are still out may come, and count.

    [dim]Example:
    pacbandits experiment stop checkout --reason "the campaign is over"[/]
    """
    with _open(database, name) as experiment:
        experiment.stop(reason)
    say(f"{name} is stopped; pacbandits experiment status {name} tells what is proven")


@experiments.command()
def withdraw(
    name: Name,
    action: Annotated[str, typer.Argument(help="The action that nobody is to get any more, by its name.")],
    reason: Reason,
    database: DatabaseAt = DEFAULT_DATABASE,
) -> None:
    """Never give an action again, from this moment on: it does harm, or is sold out.

    The claim is then of policies that do without it, and costs a little more, as what was withdrawn depends on what
    was seen: how much is printed.

    [dim]Example:
    pacbandits experiment withdraw checkout discount --reason "margins"[/]
    """
    from math import log

    with _open(database, name) as experiment:
        before = experiment.protocol.trial(tuple(experiment.status().to_json().get("withdrawn", ())))[0].delta
        experiment.withdraw(action, reason)
        gone = tuple(experiment.status().to_json().get("withdrawn", ()))
        after = experiment.protocol.trial(gone)[0].delta
        delta = experiment.protocol.delta
    more = log(before / after) / log(1.0 / before)
    say(
        f"nobody gets {plain(action)} any more. What is proven from now on is of policies without "
        f"{', '.join(map(plain, gone))}"
        f", except with probability {after:.2g} (all that may ever be claimed together: {delta:g}); that takes about "
        f"{100 * more:.0f} % more evidence than before, of policies that are fewer"
    )


def _open(database: str, name: str) -> Experiment:
    from pacbandits.experiment.experiment import Experiment

    return Experiment.open(database, name)
