"""`pacbandits certify` and `pacbandits verify`."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp
from math import log as logarithm
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from pacbandits.algorithms import outlook
from pacbandits.certificate import (
    AsymptoticCertificate,
    Certificate,
    LinearCertificate,
    Verdict,
    certify,
    certify_asymptotically,
    verify,
    verify_linear,
)
from pacbandits.certificate.asymptotic import DRAWS, is_asymptotic
from pacbandits.certificate.certificate import LEARNT
from pacbandits.certificate.linear import is_linear
from pacbandits.cli.shared import PARTIAL, app, check_output, print_json, status
from pacbandits.errors import InputError, check_delta, plain
from pacbandits.policies import DeepTrees, Trees, class_from_json, class_to_json
from pacbandits.policies.base import PolicyClass
from pacbandits.problems.classes import load_policies_for
from pacbandits.records import Contexts, Log, read_log
from pacbandits.report import asymptotic_table, certificate_table

Actions = Annotated[
    int | None,
    typer.Option("--actions", help="How many actions there are, if not the largest in the log and one more."),
]
LeastPropensity = Annotated[
    float | None,
    typer.Option(
        help="For logs with the propensity of the played action alone: what every action's was at least, always. 0 if "
        "you do not know; the larger, the more can be proven."
    ),
]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="The least and the largest that a reward can be, if not 0 and 1."),
]
Position = Annotated[int | None, typer.Option(help="Which position of an Open Bandit feedback with several.")]


@app.command("certify")
def certify_log(
    log: Annotated[
        Path,
        typer.Argument(
            help="Parquet or CSV with columns [cyan]action[/], [cyan]reward[/], and [cyan]propensity[/] (of the played "
            "action) or [cyan]propensities[/] (lists) or [cyan]propensity_0[/], [cyan]propensity_1[/], … (of all), "
            "optionally [cyan]round[/], [cyan]repeats[/], [cyan]context_id[/]; the other columns are features. Or "
            "Vowpal Wabbit's dsjson lines, or Open Bandit's feedback in .npz."
        ),
    ],
    policies: Annotated[
        str,
        typer.Option(
            help="The policy class to search: [cyan]trees:depth=2,bins=32[/], [cyan]linear:levels=2[/] or "
            "[cyan]trivial[/]."
        ),
    ] = "trees:depth=2",
    epsilon: Annotated[float, typer.Option(help="How far from the best policy is good enough, above 0.")] = 0.05,
    delta: Annotated[float, typer.Option(help="The probability of being wrong, between 0 and 1.")] = 0.05,
    contexts: Annotated[
        Path | None,
        typer.Option(
            help="Contexts from before the experiment, in Parquet or CSV, to learn the policy class from. Without them "
            "it is learnt from the log's own contexts, and the certificate says so."
        ),
    ] = None,
    actions: Actions = None,
    least_propensity: LeastPropensity = None,
    reward_range: RewardRange = None,
    position: Position = None,
    ordered: Annotated[
        bool,
        typer.Option(
            "--ordered",
            help="The rows stand in the order in which they occurred. A log without rounds can then be learnt from as "
            "it goes, which proves more; the certificate says that it relies on the order.",
        ),
    ] = False,
    asymptotic: Annotated[
        bool,
        typer.Option(
            "--asymptotic",
            help="Make an approximate certificate, which is no proof: a normal approximation, for a number of samples "
            "fixed in advance. It asks for fewer of them, and must not be used to decide when to stop.",
        ),
    ] = False,
    draws: Annotated[
        int | None, typer.Option(help=f"Draws of the bootstrap of --asymptotic, 1/δ or more ({DRAWS} if not given).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the bootstrap of --asymptotic (0 if not given).")] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Write the certificate here, for [cyan]pacbandits verify[/].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Say which policy a log favours, and within what distance of the best it provably is. Code 3 when that exceeds ε.

    When the log does not prove ε, about how many more interactions would: with propensities as they were, and with the
    best design for what the log has shown.

    [dim]Examples:
    pacbandits certify log.parquet --policies trees:depth=2 --epsilon 0.05 --delta 0.05
    pacbandits certify clicks.csv --least-propensity 0.02 --reward-range 0 10 --ordered
    pacbandits certify decisions.dsjson --reward-range -1 0
    pacbandits certify feedback.npz --position 0[/]
    """
    check_delta(delta)
    _check_bootstrap(asymptotic, draws=draws, seed=seed)
    check_output(certificate)
    reading = _reading(actions, least_propensity, reward_range, position)
    read, _ = read_log(log, **reading)
    before = read.contexts if contexts is None else Contexts.read(contexts)
    chosen = load_policies_for(policies, before, n_actions=read.n_actions)
    if contexts is not None:
        _check_features(chosen, read.contexts, given=contexts)
    with status() as tell:
        tell(f"{'predicting rewards of' if asymptotic else 'certifying'} {read.samples:,} interactions")
        if asymptotic:
            made = certify_asymptotically(
                read,
                chosen,
                epsilon=epsilon,
                delta=delta,
                rng=0 if seed is None else seed,
                draws=DRAWS if draws is None else draws,
                ordered=ordered,
                progress=lambda done, of: tell(f"bootstrap of {read.samples:,} interactions: draw {done:,} of {of:,}"),
            )
        else:
            made = certify(read, chosen, epsilon=epsilon, delta=delta, ordered=ordered)
        ahead = None
        if isinstance(made, Certificate) and not made.certified:
            tell("estimating how many more interactions would do")
            ahead = outlook(made, read, chosen)
    if contexts is None:
        made = replace(made, remarks=(*made.remarks, LEARNT))
    if certificate is not None:
        write_certificate(certificate, made, chosen, reading=reading)
    if as_json:
        print_json(made.to_json() | {"outlook": None if ahead is None else ahead.to_json()})
    elif isinstance(made, AsymptoticCertificate):
        Console().print(asymptotic_table(made))
    else:
        Console().print(certificate_table(made, ahead))
    if not made.certified:
        raise typer.Exit(PARTIAL)


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
    made, policies, reading = read_certificate(certificate)
    how = reading | _reading(actions, least_propensity, reward_range, position)
    # Linear rewards need not lie in [0, 1], only their means.
    linear = isinstance(made, LinearCertificate) and not how and log.suffix == ".parquet"
    read = Log.read(log) if linear else read_log(log, **how)[0]
    population = _contexts_for(made, certificate, contexts)
    with status() as tell:
        tell("computing every score anew")
        verdict = _verdict(made, read, policies, population)
    about = _describe_class(policies)
    if as_json:
        words = {"class": about, "policy": made.policy.describe(), "claim": made.describe()}
        found = {"good": verdict.good, "certified": made.certified, "faults": list(verdict.faults)}
        print_json(found | {"value": verdict.value} | words)
    elif verdict.good:
        opening = "good" if made.certified else "genuine"
        print(f"{opening}: {made.describe()}\n\nthe class: {about}")
        print(f"the policy:\n{indent(made.policy.describe(), '  ')}\n")
        print("assuming that " + ";\n  that ".join(made.assumptions))
    else:
        print("not good:\n  " + "\n  ".join(verdict.faults))
    if not verdict.good:
        raise typer.Exit(PARTIAL)


def contexts_beside(certificate: Path) -> Path:
    """Where the contexts of a certificate of linear rewards are written."""
    return certificate.with_name(f"{certificate.name}.contexts.parquet")


def _contexts_for(made: Certificate | LinearCertificate, certificate: Path, given: Path | None) -> Contexts | None:
    """The contexts that a certificate of linear rewards speaks of; others speak of those in their logs."""
    if isinstance(made, Certificate):
        if given is not None:
            raise InputError(f"{certificate} needs no contexts but those of its log; leave out --contexts")
        return None
    path = contexts_beside(certificate) if given is None else given
    if not path.is_file():
        raise InputError(f"{certificate} speaks of contexts, and there is no file {path}; name it with --contexts")
    return Contexts.read(path)


def _verdict(
    made: Certificate | LinearCertificate, log: Log, policies: PolicyClass, population: Contexts | None
) -> Verdict:
    if isinstance(made, Certificate):
        return verify(made, log, policies)
    assert population is not None
    return verify_linear(made, log, population, policies)


def _describe_class(policies: PolicyClass) -> str:
    """The kind and size of a class, which a certificate names and its reader must accept."""
    kind = str(class_to_json(policies)["kind"])
    depth = f" of depth {policies.depth}" if isinstance(policies, Trees | DeepTrees) else ""
    digits = policies.log_size / logarithm(10.0)
    size = f"{exp(policies.log_size):,.0f}" if digits < 7 else f"about 10^{digits:.1f}"
    return f"{kind}{depth}, {size} policies on {policies.n_actions} actions"


def _check_features(policies: PolicyClass, contexts: Contexts, *, given: Path) -> None:
    """Raise unless a log's contexts have all the features that trees learnt from the given file ask about."""
    asked = [feature.name for feature in policies.bins.features] if isinstance(policies, Trees | DeepTrees) else []
    lacking = [f"'{plain(name)}'" for name in asked if name not in contexts.names]
    if lacking:
        what = f"feature {lacking[0]}" if len(lacking) == 1 else f"features {', '.join(lacking)}"
        raise InputError(
            f"the log lacks the {what} of {given}; a file of contexts must hold features of the log and nothing else"
        )


def _check_bootstrap(asymptotic: bool, *, draws: int | None, seed: int | None) -> None:
    """Raise unless the options of the bootstrap come with it."""
    for name, given in (("--draws", draws), ("--seed", seed)):
        if given is not None and not asymptotic:
            raise InputError(f"{name} {given} is an option of --asymptotic; add that, or leave {name} out")
    if seed is not None and seed < 0:
        raise InputError(f"--seed must be 0 or more, got {seed}")


def write_certificate(
    path: Path,
    certificate: Certificate | AsymptoticCertificate | LinearCertificate,
    policies: PolicyClass,
    *,
    reading: dict[str, Any] | None = None,
    contexts: Contexts | None = None,
) -> None:
    """A certificate, the class it speaks of and how its log was read, as one JSON file.

    contexts: those that a certificate of linear rewards speaks of, written beside it.
    """
    whole = certificate.to_json() | {"class": class_to_json(policies), "reading": reading or {}}
    text = json.dumps(whole, ensure_ascii=False, indent=1)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    if isinstance(certificate, LinearCertificate) and contexts is not None:
        contexts.write(contexts_beside(path))


def read_certificate(path: Path) -> tuple[Certificate | LinearCertificate, PolicyClass, dict[str, Any]]:
    """What `write_certificate` wrote."""
    try:
        given: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON") from None
    if is_asymptotic(given):
        raise InputError(f"{path} is an approximate certificate, and no proof that could be rechecked")
    made = LinearCertificate.from_json(given) if is_linear(given) else Certificate.from_json(given)
    return made, class_from_json(given.get("class")), _stored_reading(given.get("reading", {}))


def _reading(
    actions: int | None,
    least_propensity: float | None,
    reward_range: tuple[float, float] | None,
    position: int | None,
) -> dict[str, Any]:
    """The options that were given, by the names that `read_log` has for them."""
    if actions is not None and actions < 1:
        raise InputError(f"actions must be 1 or more, got {actions}")
    options = {
        "n_actions": actions,
        "least_propensity": least_propensity,
        "reward_range": reward_range,
        "position": position,
    }
    return {name: value for name, value in options.items() if value is not None}


def _stored_reading(value: object) -> dict[str, Any]:
    """How a certificate says that its log was read."""
    try:
        given = dict(cast(dict[str, Any], value))
        span = given.pop("reward_range", None)
        wholes = {name: int(given.pop(name)) for name in ("n_actions", "position") if name in given}
        least = {name: float(given.pop(name)) for name in ("least_propensity",) if name in given}
        spans = {} if span is None else {"reward_range": (float(span[0]), float(span[1]))}
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        raise InputError("the certificate does not say how its log was read; it was altered") from None
    if given:
        raise InputError(f"the certificate says '{next(iter(given))}' of how its log was read, which means nothing")
    return wholes | least | spans
