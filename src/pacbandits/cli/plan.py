"""`pacbandits plan`: its options, the files that it reads and writes, and its output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbandits.cli.console import AsJson, app, as_effect, as_rate, check_output, print_json, say, show, status
from pacbandits.cli.log_options import (
    PLAYERS,
    ActionColumn,
    Features,
    Player,
    PropensityColumn,
    RewardColumn,
    RewardRange,
    Scheduler,
    Split,
    Without,
    Workers,
    check_engine,
    open_log,
    open_players,
    open_sources,
    read_contexts,
    reading_options,
)
from pacbandits.errors import InputError, nearest, option_of, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from pacbandits.engines.dask import DaskEngine
    from pacbandits.planning import Affordable, GainPlan, Limits, PlayedTrial, StudyPlan
    from pacbandits.records import Contexts, Log
    from pacbandits.report.plan_report import ByEffect

# `pacbandits plan`.


@app.command("plan")
def plan_trial(
    people: Annotated[
        str,
        typer.Argument(
            help="Past contexts, in Parquet or CSV: one row per person, one column per feature. Or the log of a "
            "pilot, with [cyan]--action[/] and [cyan]--reward[/]. Or the URL of such a table or file, as of certify."
        ),
    ],
    actions: Annotated[int | None, typer.Option(help="Number of actions.")] = None,
    policies: Annotated[
        str | None,
        typer.Option(help="Policy class you would deploy (default: [cyan]trees:depth=2[/])."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Tolerance ε: the largest acceptable distance from the best policy, in reward units; 0.02 is 2 "
            "percentage points of a conversion rate. If omitted, the smallest ε that [cyan]--budget[/] affords.",
        ),
    ] = None,
    baseline: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Baseline mean reward, without any treatment; 0.05 is a conversion rate of 5 %.",
        ),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(help="Standard deviation of rewards that are not 0 or 1."),
    ] = None,
    reward_range: RewardRange = None,
    effect: Annotated[
        str | None,
        typer.Option(
            parser=as_effect,
            metavar="RATE",
            help="Effect size of a better action: [cyan]+20%[/] of the baseline, or [cyan]0.01[/] ([cyan]1%[/], one "
            "percentage point) in reward units (default: 20 % of the baseline).",
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Share of people for whom another action is better, in the scenario 'segments' (default: 0.3).",
        ),
    ] = None,
    variation: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Variation of the baseline between people, as a share of it, for every action alike (default: 0.3).",
        ),
    ] = None,
    scenarios: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with the scenarios: [cyan]actions = 6[/], [cyan]baseline = 0.05[/], …, and for each a "
            "[cyan]\\[\\[scenario]][/] with [cyan]kind[/], [cyan]effect[/], [cyan]share[/], [cyan]matter[/], "
            "[cyan]weight[/] and [cyan]name[/]. Command-line options take precedence."
        ),
    ] = None,
    traffic: Annotated[
        str | None,
        typer.Option(help="Number of users per period, e.g. [cyan]4000/week[/]; the plan then also reports durations."),
    ] = None,
    batched: Annotated[
        bool, typer.Option("--batched", help="The design changes only between traffic periods.")
    ] = False,
    delay: Annotated[int | None, typer.Option(help="Delay of rewards, in traffic periods (default: 0).")] = None,
    budget: Annotated[int | None, typer.Option(help="Largest sample size you can afford.")] = None,
    by: Annotated[
        float | None,
        typer.Option(
            help="Number of traffic periods available; the plan reports the probability of finishing in time."
        ),
    ] = None,
    control: Annotated[
        str | None, typer.Option(help="The action in use now, by number from 0 or, with a pilot, by name.")
    ] = None,
    improve_on: Annotated[
        str | None,
        typer.Option(
            metavar="ACTION",
            help="Plan to prove a gain over this action, by number or name, instead of a distance ε from the best: the "
            "rows until [cyan]certify --control[/] proves a gain of the assumed [cyan]--effect[/] (of everybody, or "
            "of a [cyan]--share[/] of people). The word [cyan]control[/] means [cyan]--control[/].",
        ),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Probability with which [cyan]--improve-on[/] is to prove a gain (default: 80 %).",
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(parser=as_rate, metavar="RATE", help="Error probability δ (default: 0.05).")
    ] = None,
    action: ActionColumn = None,
    reward: RewardColumn = None,
    split: Split = None,
    propensity: PropensityColumn = None,
    features: Features = None,
    without: Without = None,
    count_pilot: Annotated[
        bool,
        typer.Option(
            "--count-pilot",
            help="The pilot's rows will count as the first of the trial ([cyan]run --pilot[/]): plan the people to "
            "come. Needs [cyan]--split[/] or logged propensities. The policy class must be built from other contexts.",
        ),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Print only the answer from theory, in seconds, and simulate nothing.")
    ] = False,
    minutes: Annotated[
        float, typer.Option(help="Time limit of the simulation; it ends earlier once quantiles are known to 10 %.")
    ] = 10.0,
    trials: Annotated[int, typer.Option(help="Largest number of simulated trials per scenario.")] = 200,
    keep: Annotated[
        Path | None, typer.Option(help="Store simulated trials in this folder, and continue with those it contains.")
    ] = None,
    engine: Player = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; the same seed gives the same plan.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the plan to this .json file; [cyan]pacbandits run[/] starts a trial from it."),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the plan (.png, .pdf or .svg).")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report (.html or .md).")] = None,
    as_json: AsJson = False,
) -> None:
    """Plan a trial: estimate its sample size, its duration and its result before it starts.

    You give past contexts, the number of actions, the baseline reward and the
    effect size that matters. The plan assumes several scenarios (no effect;
    one action is best for all; the best action differs by segment; a few of
    many actions matter) and answers twice: at once from theory, then by
    simulating adaptive and plain randomised trials.

    With [cyan]--improve-on[/] the plan is for a proof that something is better than
    what you do now: how many rows that takes, and how many an ordinary A/B
    test of the same power takes. It simulates the analysis of
    [cyan]pacbandits certify --control[/] itself.

    [dim]Examples:
    pacbandits plan customers.parquet --actions 6 --baseline 5% --epsilon 0.5% --traffic 4000/week
    pacbandits plan customers.csv --actions 3 --baseline 0.3 --budget 3000 --quick
    pacbandits plan customers.csv --actions 2 --baseline 5% --effect +20% --improve-on control --traffic 4000/week
    pacbandits plan pilot.csv --action arm --reward cured --epsilon 0.05 --budget 3000
    pacbandits plan pilot.csv --action arm --reward cured --split uniform --epsilon 0.05 --count-pilot
    pacbandits plan customers.parquet --actions 6 --baseline 5% --epsilon 0.5% --engine dask
    pacbandits plan customers.parquet --scenarios scenarios.toml --report plan.html --out plan.json[/]
    """
    from pacbandits.checks import positive, whole_number
    from pacbandits.planning import Limits, plan
    from pacbandits.planning.plan_files import answer_to_json
    from pacbandits.planning.study_plan import refine
    from pacbandits.progress import heard_by
    from pacbandits.report.plan_report import plan_summary

    check_engine(engine, scheduler=scheduler, workers=workers, known=PLAYERS)
    files = Files(figure, report, out)
    files.check()
    given = told(
        scenarios,
        n_actions=actions,
        policies=policies,
        epsilon=epsilon,
        baseline=baseline,
        spread=spread,
        reward_range=reward_range,
        effect=effect,
        share=share,
        variation=variation,
        traffic=traffic,
        batched=batched or None,
        delay=delay,
        budget=budget,
        delta=delta,
        power=power,
        seed=seed,
        count_pilot=count_pilot or None,
    )
    reading = reading_options(
        columns=features, left_out=without, action=action, reward=reward, split=split, propensity=propensity
    )
    pilot = action is not None or reward is not None
    of_a_log = [name for name in reading if name not in ("keep", "features", "without")]
    if of_a_log and not pilot:
        raise InputError(f"{option_of(of_a_log[0])} is for the log of a pilot; add --action and --reward")
    limits = Limits(
        trials=whole_number(trials, name="--trials", least=1),
        minutes=positive(minutes, name="--minutes"),
        processes=workers,
    )
    with status() as tell:
        tell("reading")
        with heard_by(tell), open_sources([people]) as local:
            path = local.paths[0]
            name = local.shown(path)
            if pilot:
                ends = given.pop("reward_range", None)
                reading |= {} if ends is None else {"reward_range": ends}
                source = open_log(path, reading) if count_pilot else open_pilot(path, reading, name=name)
            else:
                source = read_contexts(path, name=name, **reading)
        if control is not None:
            given["control"] = control_of(control, source)
        if improve_on is not None:
            given["improve_on"] = improved_action(improve_on, source, control=given.get("control"))
        if by is not None and "traffic" not in given:
            raise InputError("--by needs the traffic; add --traffic 4000/week")
        if "power" in given and "improve_on" not in given:
            raise InputError("--power is for a plan to prove a gain; add --improve-on control, or leave it out")
        told_of: dict[str, Any] = {
            "source": name,
            "deadline": None if by is None else positive(by, name="--by"),
        }
        gain = None
        if "improve_on" in given:
            if keep is not None:
                raise InputError("--keep stores simulated trials, and --improve-on simulates none; leave it out")
            on: int = given.pop("improve_on")
            gain = replace(plan(source, improve_on=on, **given, simulated=False), **told_of)
            if not quick:
                with open_players(engine, scheduler=scheduler, workers=workers) as players:
                    gain = refine_shown(gain, limits=limits, engine=players, tell=tell, quiet=as_json)
            tell("writing")
            write_gain(gain, files)
    if gain is not None:
        show_gain(gain, as_json=as_json)
        return
    with status() as tell:
        made = replace(plan(source, improve_on=None, **given, simulated=False, progress=tell), **told_of)
        if not quick:
            if not as_json:
                say_quick(made)
            with open_players(engine, scheduler=scheduler, workers=workers) as players:
                made = refine(
                    made,
                    limits=limits,
                    folder=keep,
                    engine=players,
                    progress=tell,
                    watch=lambda done: tell(so_far(done)),
                )
        afforded = None if made.budget is None else made.affordable(progress=tell)
        by_effect = made.by_effect(progress=tell)
        tell("writing")
        write(made, afforded, by_effect, files)
    if as_json:
        more: dict[str, Any] = {} if afforded is None else {"affordable": afforded.to_json()}
        more["by_effect"] = [
            {"effect": effect} | {one: taken.to_json() for one, taken in found.items()}
            for effect, found in by_effect.items()
        ]
        print_json(answer_to_json(made) | more | {"supposed": dict(made.supposed.describe())})
    else:
        show(plan_summary(made, afforded, by_effect))


# The input and output files of `pacbandits plan`.


@dataclass(frozen=True)
class Files:
    """The files to write, if any.

    figure, report, out: the figure, the report, and the plan itself.
    """

    figure: Path | None
    report: Path | None
    out: Path | None

    def check(self) -> None:
        """Raise, before anything is computed, if one cannot be written."""
        from pacbandits.report.figures import check_figure_path
        from pacbandits.report.result_report import check_report

        for path in (self.figure, self.report, self.out):
            check_output(path)
        if self.figure is not None:
            check_figure_path(self.figure)
        check_report(self.report)
        if self.out is not None and self.out.suffix.lower() != ".json":
            raise InputError(f"a plan is written as JSON; name it {self.out.with_suffix('.json')}")


def told(scenarios: Path | None, **options: Any) -> dict[str, Any]:
    """Return the assumptions, by their names in `plan`: from the options, else from a file of scenarios."""
    from pacbandits.planning import Traffic
    from pacbandits.planning.plan_files import read_scenarios

    given = {} if scenarios is None else read_scenarios(scenarios)
    given |= {name: value for name, value in options.items() if value is not None}
    batched, delay, traffic = given.pop("batched", False), given.pop("delay", 0), given.pop("traffic", None)
    if traffic is None and (batched or delay):
        raise InputError(f"{'--delay' if delay else '--batched'} needs the traffic; add --traffic 4000/week")
    if traffic is not None:
        given["traffic"] = Traffic.read(traffic, batched=batched, delay=delay)
    return given


def open_pilot(path: Path, reading: dict[str, Any], *, name: str) -> Log:
    """Return the log of a pilot; without propensities, the actions' shares are used, as a plan proves nothing.

    name: of the file in messages.
    """
    import numpy as np

    try:
        return open_log(path, reading)
    except InputError as error:
        if "propensity" in reading or "split" in reading or "'propensity'" not in str(error):
            raise
    log = open_log(path, reading | {"split": "uniform"})
    shares = np.bincount(log.actions, weights=log.repeats, minlength=log.n_actions) / log.repeats.sum()
    say(f"{name}: assumed to be randomised with the shares of actions that it has; if not, pass --split", err=True)
    return replace(log, propensities=np.tile(shares, (len(log), 1)))


def control_of(words: str, source: Contexts | Log, *, option: str = "--control") -> int:
    """Return the index of the control, given by its number or, with a pilot, its name."""
    from pacbandits.records import Log

    names = source.action_names if isinstance(source, Log) else None
    if names is not None and words in names:
        return names.index(words)
    if words.isdigit():
        return int(words)
    known = nearest(words, names) if names else "; give its number, from 0"
    raise InputError(f"{option} '{plain(words)}' is not an action{known}")


def improved_action(words: str, source: Contexts | Log, *, control: int | None) -> int:
    """Return the index of the action over which a gain is planned: by its number or name, or `control` for --control.

    Without a pilot actions have no names and no order, and the control is action 0 unless --control says otherwise.
    """
    from pacbandits.records import Log

    names = (source.action_names or ()) if isinstance(source, Log) else ()
    if words == "control" and words not in names:
        if control is None and isinstance(source, Log):
            known = ", ".join(plain(name) for name in names) or f"0 to {source.n_actions - 1}"
            raise InputError(f"--improve-on control needs the control; say which action it is with --control ({known})")
        return control or 0
    found = control_of(words, source, option="--improve-on")
    if control not in (None, found):
        raise InputError(
            f"--improve-on '{plain(words)}' and --control name two actions, and are one; leave one of them out"
        )
    return found


def refine_shown(
    quick: GainPlan, *, limits: Limits, engine: DaskEngine | None, tell: Callable[[str], None], quiet: bool
) -> GainPlan:
    """Return the plan with simulated tests; print the quick answer before, unless quiet."""
    from pacbandits.planning.gain_plan import MAX_SIMULATED_ROWS, refine_gain_plan
    from pacbandits.report.numbers import about

    if not quiet and quick.rows <= MAX_SIMULATED_ROWS:
        say(
            f"quick answer: about {about(quick.rows)} rows; simulating tests now (Ctrl-C stops and keeps the results "
            "so far)",
            err=True,
        )

    def watch(made: GainPlan) -> None:
        known = f"; about {about(made.rows)} rows" if made.simulated else ""
        tell(f"simulating, {len(made.tests)} tests so far{known}")

    return refine_gain_plan(quick, limits=limits, engine=engine, progress=tell, watch=watch)


def write_gain(plan: GainPlan, files: Files) -> None:
    """Write the requested files of a plan to prove a gain."""
    from pacbandits.planning import save_plan
    from pacbandits.report.figures import save_figure
    from pacbandits.report.plan_report import gain_document, gain_figure
    from pacbandits.report.result_report import write_document

    if files.figure is not None:
        save_figure(gain_figure(plan), files.figure)
    if files.report is not None:
        write_document(gain_document(plan, drawn=files.report.suffix.lower() != ".md"), files.report)
    if files.out is not None:
        save_plan(files.out, plan)


def show_gain(plan: GainPlan, *, as_json: bool) -> None:
    """Print a plan to prove a gain."""
    from pacbandits.planning.plan_files import gain_answer_to_json
    from pacbandits.report.plan_report import gain_summary

    if not as_json:
        show(gain_summary(plan))
        return
    by_effect = [
        {"effect": effect, "rows": rows, "ordinary_test_rows": ordinary}
        for effect, (rows, ordinary) in plan.by_effect().items()
    ]
    print_json(gain_answer_to_json(plan) | {"by_effect": by_effect, "supposed": dict(plan.supposed.describe())})


def so_far(done: tuple[PlayedTrial, ...]) -> str:
    """Return the result of the simulation so far, in a line."""
    from pacbandits.planning.assumptions import RIVALS
    from pacbandits.planning.simulated_trials import quantile, stopping_times
    from pacbandits.report.plan_report import people

    parts: list[str] = []
    for one in RIVALS:
        times = stopping_times(done, one)
        if times:
            parts.append(f"{one} {people(quantile(times, [1.0] * len(times), 0.5))}")
    return f"simulating, {len(done)} trials so far; median number of users: {', '.join(parts)}"


def say_quick(quick: StudyPlan) -> None:
    """Print the quick answer, while the simulation goes on."""
    from pacbandits.planning.sample_sizes import ANALYSES
    from pacbandits.report.plan_report import people

    coda, even, log = (quick.quantiles(one).median for one in ANALYSES)
    say(
        f"quick answer (median number of users): {people(coda)} in an adaptive trial, {people(even)} in a plain "
        f"trial, {people(log)} in a finished log; simulating trials now (Ctrl-C stops and keeps the results so "
        "far)",
        err=True,
    )


def write(plan: StudyPlan, afforded: Affordable | None, by_effect: ByEffect, files: Files) -> None:
    """Write the requested files."""
    from pacbandits.planning import save_plan
    from pacbandits.report.plan_report import draw_plan, write_plan_report

    if files.figure is not None:
        draw_plan(plan, path=files.figure)
    if files.report is not None:
        write_plan_report(plan, files.report, afforded=afforded, by_effect=by_effect)
    if files.out is not None:
        save_plan(files.out, plan)
