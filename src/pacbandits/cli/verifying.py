"""`pacbandits verify`."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer

from pacbandits.cli.reading import Actions, LeastPropensity, Position, RewardRange, reading_options
from pacbandits.cli.shared import PARTIAL, app, print_json, say, status
from pacbandits.errors import one_line


@app.command("verify")
def verify_certificate(
    certificate: Annotated[Path, typer.Argument(help="A certificate that run or certify has written.")],
    log: Annotated[Path, typer.Argument(help="The log it was made from.")],
    actions: Actions = None,
    least_propensity: LeastPropensity = None,
    reward_range: RewardRange = None,
    position: Position = None,
    contexts: Annotated[
        Path | None,
        typer.Option(
            help="For a certificate of linear rewards: the contexts it speaks of, if they are not in the file that "
            "[cyan]run[/] wrote beside it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a sentence.")] = False,
) -> None:
    """Recheck a certificate against its log, independently of the code that made it. Code 3 when it does not hold.

    The log is read as it was to certify it, unless the options here say otherwise.

    [dim]Example:
    pacbandits verify proof.json log.parquet[/]
    """
    from pacbandits.policies.registry import describe_class
    from pacbandits.proofs import check_is_proof, load_certificate
    from pacbandits.proofs import verify as recheck

    proof = load_certificate(certificate)
    made = proof.certificate
    check_is_proof(made)
    read = proof.log(log, reading=reading_options(actions, least_propensity, reward_range, position))
    population = proof.contexts(contexts)
    with status() as tell:
        tell("computing every score anew")
        verdict = recheck(made, read, proof.policies, contexts=population)
    about = describe_class(proof.policies)
    if as_json:
        words = {"class": about, "policy": made.policy.describe(), "claim": made.describe()}
        found = {"good": verdict.good, "certified": made.certified, "faults": list(verdict.faults)}
        print_json(found | {"value": verdict.value} | words)
    elif verdict.good:
        opening = "good" if made.certified else "genuine"
        say(f"{opening}: {made.describe()}\n\nthe class: {about}")
        say(f"the policy:\n{indent(made.policy.describe(), '  ')}\n")
        say("assuming that " + made.assuming(between=";\n  that "))
    else:
        say("not good:\n  " + "\n  ".join(one_line(fault) for fault in verdict.faults))
    if not verdict.good:
        raise typer.Exit(PARTIAL)
