"""`pacbandits certify` and `pacbandits verify`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pacbandits.certificate import Certificate, certify, verify
from pacbandits.cli.shared import PARTIAL, app, print_json, status
from pacbandits.errors import InputError, check_delta
from pacbandits.policies import class_from_json, class_to_json
from pacbandits.policies.base import PolicyClass
from pacbandits.problems.classes import load_policies_for
from pacbandits.records import Contexts, Log
from pacbandits.report import certificate_table

LEARNT = "the policy class may count as fixed, though it was learnt from the contexts of the log"


@app.command("certify")
def certify_log(
    log: Annotated[
        Path,
        typer.Argument(
            help="A log in Parquet: columns [cyan]action[/], [cyan]reward[/], [cyan]propensities[/] (a list for each "
            "row), optionally [cyan]round[/], [cyan]repeats[/], [cyan]context_id[/]; the other columns are features."
        ),
    ],
    policies: Annotated[
        str, typer.Option(help="The policy class to search: [cyan]trees:depth=2,bins=32[/] or [cyan]trivial[/].")
    ] = "trees:depth=2",
    epsilon: Annotated[float, typer.Option(help="How far from the best policy is good enough, above 0.")] = 0.05,
    delta: Annotated[float, typer.Option(help="The probability of being wrong, between 0 and 1.")] = 0.05,
    contexts: Annotated[
        Path | None,
        typer.Option(
            help="Contexts from before the experiment, in Parquet, to learn the policy class from. Without them it is "
            "learnt from the log's own contexts, and the certificate says so."
        ),
    ] = None,
    ordered: Annotated[
        bool,
        typer.Option(
            "--ordered",
            help="The rows stand in the order in which they occurred. A log without rounds can then be learnt from as "
            "it goes, which proves more; the certificate says that it relies on the order.",
        ),
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option(help="Write the certificate here, for [cyan]pacbandits verify[/].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Say which policy a log favours, and within what distance of the best it provably is. Code 3 when that exceeds ε.

    [dim]Example:
    pacbandits certify log.parquet --policies trees:depth=2 --epsilon 0.05 --delta 0.05[/]
    """
    check_delta(delta)
    read = Log.read(log)
    before = read.contexts if contexts is None else Contexts.read(contexts)
    chosen = load_policies_for(policies, before, n_actions=read.n_actions)
    with status() as tell:
        tell(f"certifying {read.samples:,} interactions")
        made = certify(read, chosen, epsilon=epsilon, delta=delta, ordered=ordered)
    if contexts is None:
        made = replace(made, remarks=(*made.remarks, LEARNT))
    if certificate is not None:
        write_certificate(certificate, made, chosen)
    if as_json:
        print_json(made.to_json())
    else:
        Console().print(certificate_table(made))
    if not made.certified:
        raise typer.Exit(PARTIAL)


@app.command("verify")
def verify_certificate(
    certificate: Annotated[Path, typer.Argument(help="A certificate that run or certify has written.")],
    log: Annotated[Path, typer.Argument(help="The log it was made from, in Parquet.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a sentence.")] = False,
) -> None:
    """Recheck a certificate against its log, independently of the code that made it. Code 3 when it does not hold.

    [dim]Example:
    pacbandits verify proof.json log.parquet[/]
    """
    made, policies = read_certificate(certificate)
    with status() as tell:
        tell("computing every score anew")
        verdict = verify(made, Log.read(log), policies)
    if as_json:
        print_json({"good": verdict.good, "faults": list(verdict.faults), "value": verdict.value})
    elif verdict.good:
        print(f"good: {made.describe()}\nassuming that " + ";\n  that ".join(made.assumptions))
    else:
        print("not good:\n  " + "\n  ".join(verdict.faults))
    if not verdict.good:
        raise typer.Exit(PARTIAL)


def write_certificate(path: Path, certificate: Certificate, policies: PolicyClass) -> None:
    """A certificate and the class it speaks of, as one JSON file."""
    text = json.dumps(certificate.to_json() | {"class": class_to_json(policies)}, ensure_ascii=False, indent=1)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def read_certificate(path: Path) -> tuple[Certificate, PolicyClass]:
    """What `write_certificate` wrote."""
    try:
        given: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path} is not JSON") from None
    made = Certificate.from_json(given)
    return made, class_from_json(given.get("class"))
