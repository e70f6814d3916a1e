"""`pacbandits plan`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from pacbandits.cli.engines import PLAYERS, Player, Scheduler, Workers, check_engine, open_players
from pacbandits.cli.reading import (
    ActionColumn,
    Features,
    PropensityColumn,
    RewardColumn,
    RewardRange,
    Split,
    Without,
    read_contexts,
    reading_options,
)
from pacbandits.cli.shared import app, as_effect, as_rate, print_json, show, status
from pacbandits.errors import InputError, option_of


@app.command("plan")
def plan_trial(
    people: Annotated[
        Path,
        typer.Argument(
            help="Contexts of people as they come, from the past, in Parquet or CSV: one row a person, one column a "
            "feature. Or the log of a pilot, with [cyan]--action[/] and [cyan]--reward[/]."
        ),
    ],
    actions: Annotated[int | None, typer.Option(help="How many actions there are to choose from.")] = None,
    policies: Annotated[
        str | None,
        typer.Option(help="The class of policies you would deploy, [cyan]trees:depth=2[/] if you do not say."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="How far from the best policy is good enough, in the units of rewards: 0.02 is 2 percentage points of "
            "a conversion rate. Without it: what [cyan]--budget[/] affords.",
        ),
    ] = None,
    baseline: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="The mean reward when nothing special is done: 0.05 is a conversion rate of 5 %.",
        ),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(help="The standard deviation of rewards, where they are not all or nothing."),
    ] = None,
    reward_range: RewardRange = None,
    effect: Annotated[
        str | None,
        typer.Option(
            parser=as_effect,
            metavar="RATE",
            help="By how much a better action is better: [cyan]+20%[/] of the baseline, or [cyan]0.01[/] ([cyan]1%[/], "
            "a percentage point) in the units of rewards. 20 % of the baseline if you do not say.",
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="For which share of people another action is better, in the scenario 'segments' (0.3).",
        ),
    ] = None,
    variation: Annotated[
        float | None,
        typer.Option(
            parser=as_rate, metavar="RATE", help="By which share of the baseline people differ, whatever is done (0.3)."
        ),
    ] = None,
    scenarios: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with all that is supposed: [cyan]actions = 6[/], [cyan]baseline = 0.05[/], …, and a "
            "[cyan]\\[\\[scenario]][/] with [cyan]kind[/], [cyan]effect[/], [cyan]share[/], [cyan]matter[/], "
            "[cyan]weight[/] and [cyan]name[/] for each. What options say goes first."
        ),
    ] = None,
    traffic: Annotated[
        str | None, typer.Option(help="How many people come by: [cyan]4000/week[/]; answers are in weeks then, too.")
    ] = None,
    batched: Annotated[
        bool, typer.Option("--batched", help="The design may only change from one period of the traffic to the next.")
    ] = False,
    delay: Annotated[
        int | None, typer.Option(help="After how many periods of the traffic a reward is known (0).")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="How many people you can afford.")] = None,
    by: Annotated[
        float | None,
        typer.Option(help="How many periods of the traffic you have: how likely is it to be done by then?"),
    ] = None,
    control: Annotated[
        str | None, typer.Option(help="The action in use now, by its number from 0 or, of a pilot, its name.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(parser=as_rate, metavar="RATE", help="The probability of being wrong (0.05).")
    ] = None,
    action: ActionColumn = None,
    reward: RewardColumn = None,
    split: Split = None,
    propensity: PropensityColumn = None,
    features: Features = None,
    without: Without = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the answer that takes seconds; without it trials are simulated.")
    ] = False,
    minutes: Annotated[float, typer.Option(help="Simulate for so long, or until quantiles are known to 10 %.")] = 10.0,
    trials: Annotated[int, typer.Option(help="Simulate at most so many trials of each scenario.")] = 200,
    keep: Annotated[
        Path | None, typer.Option(help="Keep simulated trials in this folder, and go on with those that it holds.")
    ] = None,
    engine: Player = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random numbers; the same seed gives the same plan.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the plan here (.json): [cyan]pacbandits run[/] starts a trial from it."),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the plan: .png, .pdf or .svg.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report for colleagues: .html or .md.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """What will the trial cost, before it starts? How many people, how many weeks, and what comes of it.

    You say what people look like, how many actions there are, what they earn now and which difference matters. The plan
    supposes what actions may do (nothing; one is best for all; another is best for some; a few of many matter), and
    answers twice: at once by theory, then by simulating real trials, also of a plain randomised one.

    [dim]Examples:
    pacbandits plan customers.parquet --actions 6 --baseline 5% --epsilon 0.5% --traffic 4000/week
    pacbandits plan customers.csv --actions 3 --baseline 0.3 --budget 3000 --quick
    pacbandits plan pilot.csv --action arm --reward cured --epsilon 0.05 --budget 3000
    pacbandits plan customers.parquet --actions 6 --baseline 5% --epsilon 0.5% --engine dask
    pacbandits plan customers.parquet --scenarios scenarios.toml --report plan.html --out plan.json[/]
    """
    from pacbandits.checks import positive, whole_number
    from pacbandits.cli.planned import Files, control_of, open_pilot, say_quick, so_far, told, write
    from pacbandits.planning import Limits, plan
    from pacbandits.planning.files import answer_to_json
    from pacbandits.planning.making import refine
    from pacbandits.report.plan_page import plan_summary

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
        seed=seed,
    )
    reading = reading_options(
        columns=features, left_out=without, action=action, reward=reward, split=split, propensity=propensity
    )
    pilot = action is not None or reward is not None
    of_a_log = [name for name in reading if name not in ("keep", "features", "without")]
    if of_a_log and not pilot:
        raise InputError(f"{option_of(of_a_log[0])} is for the log of a pilot; say also --action and --reward")
    limits = Limits(
        trials=whole_number(trials, name="--trials", least=1),
        minutes=positive(minutes, name="--minutes"),
        processes=workers,
    )
    with status() as tell:
        tell("reading")
        if pilot:
            ends = given.pop("reward_range", None)
            source = open_pilot(people, reading | ({} if ends is None else {"reward_range": ends}))
        else:
            source = read_contexts(people, **reading)
        if control is not None:
            given["control"] = control_of(control, source)
        if by is not None and "traffic" not in given:
            raise InputError("--by needs to know who comes when: --traffic 4000/week")
        made = plan(source, **given, simulated=False, progress=tell)
        made = replace(made, source=str(people), deadline=None if by is None else positive(by, name="--by"))
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
