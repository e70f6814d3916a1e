"""`pacbandits experiment drive`: simulated traffic for a running experiment, for tutorials and load tests."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pacbandits.cli.console import as_rate, print_json, show, status
from pacbandits.cli.experiment import DEFAULT_DATABASE, AsJson, DatabaseAt, Name, experiments
from pacbandits.errors import InputError, nearest, one_line, plain

if TYPE_CHECKING:
    from pacbandits.cli.simulated_traffic import Driven
    from pacbandits.experiment.assignment_records import Assignment, Recorded
    from pacbandits.experiment.experiment import Experiment
    from pacbandits.experiment.protocol import ExperimentProtocol
    from pacbandits.problems import Problem
    from pacbandits.service.client import Client, RemoteExperiment


DEFAULT_BASELINE, DEFAULT_EFFECT = 0.3, 0.15
KEY_VARIABLE = "PACBANDITS_KEY"


@experiments.command()
def drive(
    name: Name,
    problem: Annotated[
        str,
        typer.Option(
            help="The true rewards: [cyan]segments:effect=0.1,baseline=0.3[/] (the best action differs by segment), "
            "[cyan]winner[/], [cyan]few[/] or [cyan]none[/], for the experiment's own contexts; or a built-in problem "
            "with the same features."
        ),
    ] = "segments",
    url: Annotated[
        str | None,
        typer.Option(
            help="URL of the service, as [cyan]pacbandits serve[/] prints it. If omitted, the database is used "
            "directly."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(envvar=KEY_VARIABLE, help="An API key with the scopes assign and read.", show_envvar=True),
    ] = None,
    protocol: Annotated[
        Path | None,
        typer.Option(help="The file that the experiment was created from, if its database is not reachable."),
    ] = None,
    people: Annotated[int, typer.Option(help="Number of visitors.")] = 1000,
    rate: Annotated[
        float, typer.Option(help="Mean number of visitors per second; 0: as fast as they are answered.")
    ] = 50.0,
    delay: Annotated[float, typer.Option(help="Mean delay of a reward, in seconds.")] = 1.0,
    lost: Annotated[
        float, typer.Option(parser=as_rate, metavar="RATE", help="Share of rewards that are never reported.")
    ] = 0.0,
    repeated: Annotated[
        float, typer.Option(parser=as_rate, metavar="RATE", help="Share of rewards that are reported twice.")
    ] = 0.02,
    returning: Annotated[
        float, typer.Option(parser=as_rate, metavar="RATE", help="Share of visitors who return.")
    ] = 0.1,
    guardrail: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Rate of the guardrail outcome (default: half its limit).",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of concurrent requests.")] = 8,
    seed: Annotated[int, typer.Option(help="Random seed of the visitors and of the true rewards.")] = 0,
    database: DatabaseAt = DEFAULT_DATABASE,
    as_json: AsJson = False,
) -> None:
    """Send simulated visitors to a rehearsal: they get actions, return, and report rewards late or never.

    The true rewards are known to this command alone, so that it can check the
    final result. An experiment that is not marked as a rehearsal is refused:
    simulated visitors would count as real ones, for good.

    [dim]Examples:
    pacbandits experiment create checkout.toml --rehearsal
    pacbandits experiment drive checkout-rehearsal --problem winner:effect=0.2 --rate 0 --people 2000
    pacbandits experiment drive checkout-rehearsal --url http://127.0.0.1:8000 --key pb_… --people 3000 --delay 5[/]
    """
    from pacbandits.cli.simulated_traffic import Behaviour, Driver
    from pacbandits.experiment.context_encoding import Encoder
    from pacbandits.records.metrics import metric_columns

    asked = Behaviour(people, rate, delay, lost, repeated, returning, guardrail, seed, workers if url else 1)
    with ExitStack() as closing, status() as tell:
        tell("getting ready")
        target, fixed, advance = _target(name, url, key, protocol, database)
        closing.callback(target.close)
        _check_rehearsal(name, target)
        truth = truth_of(problem, fixed, seed=seed)
        if asked.guardrail is None and fixed.guardrail is not None:
            asked = replace(asked, guardrail=fixed.guardrail.most / 2)
        if fixed.guardrail is None and asked.guardrail is not None:
            raise InputError(f"the experiment '{plain(name)}' has no guardrail; leave out --guardrail")
        encoder = Encoder.of(
            truth.population if fixed.contexts.ids is not None else replace(truth.population, ids=None),
            dates=fixed.date_columns,
        )
        known, metrics = (target, truth, encoder, fixed.actions), metric_columns(fixed.metrics)
        driver = Driver(*known, reward_range=fixed.reward_range, behaviour=asked, metrics=metrics)
        done = driver.run(tell, between=advance)
        tell("waiting for the last analysis")
        if advance is not None:
            advance(at_once=True)
        figures = target.status()
    judged = judge(figures, fixed, truth)
    if as_json:
        print_json(done.to_json() | {"status": figures, "truth": judged})
    else:
        from pacbandits.report.experiment_report import facts_document

        show(facts_document(_rows(done, figures, judged)))


@dataclass(frozen=True, eq=False)
class _Local:
    """An experiment in this process."""

    experiment: Experiment

    def assign(self, context: Mapping[str, Any], unit: str) -> Assignment:
        return self.experiment.assign(context, unit=unit)

    def record(
        self, assignment: str, reward: float, guardrail: float | None, metrics: Mapping[str, float] | None
    ) -> Recorded:
        return self.experiment.record(assignment, reward=reward, guardrail=guardrail, metrics=metrics)

    def status(self) -> dict[str, Any]:
        return self.experiment.status().to_json() | {"result": self.experiment.result().to_json()}

    def close(self) -> None:
        self.experiment.close()


@dataclass(frozen=True, eq=False)
class _Remote:
    """An experiment of a service."""

    client: Client
    experiment: RemoteExperiment

    def assign(self, context: Mapping[str, Any], unit: str) -> Assignment:
        return self.experiment.assign(context, unit)

    def record(
        self, assignment: str, reward: float, guardrail: float | None, metrics: Mapping[str, float] | None
    ) -> Recorded:
        return self.experiment.record(assignment, reward, guardrail=guardrail, metrics=metrics)

    def status(self) -> dict[str, Any]:
        return self.experiment.status() | {"result": self.experiment.result()}

    def close(self) -> None:
        self.client.close()


def _target(
    name: str, url: str | None, key: str | None, protocol: Path | None, database: str
) -> tuple[_Local | _Remote, ExperimentProtocol, Any]:
    """Return the target, the experiment's protocol, and the function that advances it if no service does."""
    from pacbandits.experiment.experiment import Experiment
    from pacbandits.experiment.protocol_files import read_protocol

    if url is None:
        experiment = Experiment.open(database, name)
        return _Local(experiment), experiment.protocol, experiment.advance
    if key is None:
        raise InputError(
            f"the service needs a key that may assign and read '{plain(name)}'; pass --key, or set {KEY_VARIABLE}"
        )
    if protocol is None and "://" not in database and not Path(database).exists():
        raise InputError(
            f"the contexts of '{plain(name)}' are unknown: there is no database {plain(database)}; pass "
            "--protocol checkout.toml, the file it was created from"
        )
    fixed = read_protocol(protocol) if protocol is not None else Experiment.open(database, name).protocol
    from pacbandits.service.client import Client

    client = Client(url, key)
    return _Remote(client, client.experiment(name)), fixed, None


def _check_rehearsal(name: str, target: _Local | _Remote) -> None:
    """Raise InputError unless the experiment is a rehearsal: simulated visitors would count as real ones, for good."""
    if not target.status().get("rehearsal"):
        raise InputError(
            f"'{plain(name)}' is not a rehearsal: simulated visitors would count as real ones, for good; create one by "
            "pacbandits experiment create FILE --rehearsal, and drive that"
        )


def truth_of(spec: str, fixed: ExperimentProtocol, *, seed: int) -> Problem:
    """Return the true problem: a scenario on the experiment's contexts, or a built-in one with the same features."""
    import numpy as np

    from pacbandits.options import parse_spec
    from pacbandits.problems import list_problems, load_problem
    from pacbandits.problems.scenarios import KINDS, Outcome, Scenario, ScenarioKind

    name, given = parse_spec(spec)
    if name not in KINDS:
        known = (*KINDS, *(one.name for one in list_problems()))
        if name not in known and not spec.endswith(".npz"):
            raise InputError(f"unknown problem '{plain(name)}'{nearest(name, known)}; a problem file ends in .npz")
        found = load_problem(spec)
        same = (found.population.names, found.population.categories) == (
            fixed.contexts.names,
            fixed.contexts.categories,
        )
        if not same or found.n_actions != fixed.n_actions:
            raise InputError(
                f"problem '{plain(name)}' has other features, labels or actions than the experiment; take one of "
                f"{', '.join(KINDS)}, which have the experiment's own contexts"
            )
        return found
    options = {option: _number(value, option) for option, value in given.items()}
    takes = ("effect", "share", "matter", "baseline", "variation", "spread")
    for option in options:
        if option not in takes:
            raise InputError(f"scenario '{name}' has no option '{plain(option)}'{nearest(option, takes)}")
    low, high = fixed.reward_range
    about = {option: options.pop(option) for option in ("variation", "spread") if option in options}
    outcome = Outcome(options.pop("baseline", low + DEFAULT_BASELINE * (high - low)), low=low, high=high, **about)
    effect = options.pop("effect", 0.0 if name == "none" else DEFAULT_EFFECT * (high - low))
    more: dict[str, Any] = {"matter": int(options.pop("matter"))} if "matter" in options else {}
    scenario = Scenario(cast(ScenarioKind, name), effect=effect, **options, **more)
    contexts = fixed.contexts
    people = replace(contexts, ids=np.arange(len(contexts))) if contexts.ids is None else contexts
    return scenario.draw(people, fixed.policy_class, outcome=outcome, rng=np.random.default_rng([seed, 1]))


def _number(words: str, option: str) -> float:
    try:
        return float(words)
    except ValueError:
        raise InputError(f"{option} must be a number, got '{plain(words)}'") from None


def judge(figures: Mapping[str, Any], fixed: ExperimentProtocol, truth: Problem) -> dict[str, Any]:
    """Return the true value of the answer and its distance from the best, in the units of rewards."""
    from pacbandits.policies.registry import chosen_from_json

    low, high = fixed.reward_range
    best = truth.value(
        fixed.policy_class.argmax(truth.population, truth.population.weights[:, None] * truth.mean_rewards)
    )
    out: dict[str, Any] = {"best": low + (high - low) * best}
    policy = figures["result"].get("policy")
    if policy is not None:
        value = truth.value(chosen_from_json(policy, fixed.policy_class))
        out |= {"policy": low + (high - low) * value, "distance": (high - low) * (best - value)}
    return out


def _rows(done: Driven, figures: Mapping[str, Any], judged: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the result: a name and a text each."""
    told = done.to_json()
    calls = len(done.assigning) + len(done.recording)
    rows = [("took", f"{done.seconds:.1f} s, {calls / max(done.seconds, 1e-9):,.0f} calls a second")]
    rows += [(what, f"{count:,}") for what, count in sorted(done.counts.items())]
    for what, field in (("assigning", "assign_milliseconds"), ("reporting", "record_milliseconds")):
        if (times := told[field]) is not None:
            rows.append((what, ", ".join(f"{name} {value:.3g} ms" for name, value in times.items())))
    rows += [("refused with", f"{one_line(words)} ({count:,} times)") for words, count in done.errors.most_common(5)]
    claim = figures["claim"]
    rows.append(("state", f"{figures['state']}" + (f": {one_line(figures['reason'])}" if figures["reason"] else "")))
    rows.append(("proven", "nothing yet" if claim is None else one_line(claim["describe"])))
    if "distance" in judged:
        truly = f"{judged['distance']:.3g} below the best, {judged['best']:.3g}"
        rows.append(("in truth", f"the policy earns {judged['policy']:.3g}, {truly}"))
    return rows
