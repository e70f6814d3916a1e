"""`pacbandits certify`, and the options that restrict its policies: budgets, excluded actions, smallest leaves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pacbandits.cli.console import (
    PARTIAL,
    SINGLE_HELP,
    AsJson,
    app,
    as_rate,
    check_output,
    print_json,
    say,
    say_cost,
    say_notices,
    show,
    status,
)
from pacbandits.cli.log_options import (
    ActionColumn,
    Actions,
    Ages,
    Block,
    Clip,
    Connection,
    Engine,
    Features,
    LeastPropensity,
    Metrics,
    Order,
    Position,
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
    open_sources,
    read_contexts,
    reading_options,
    restrictions_for,
)
from pacbandits.errors import InputError, count_of, option_of, plain

if TYPE_CHECKING:
    from pacbandits.analysis import Request
    from pacbandits.records import Contexts

DEFAULT_POLICIES, DEFAULT_DELTA = "trees:depth=2", 0.05


# Options for deployable policies: budgets, excluded actions, smallest leaves.


SmallestLeaf = Annotated[
    float | None,
    typer.Option(
        parser=as_rate,
        metavar="SHARE",
        help="Minimum share of the known contexts in every leaf of a tree.",
    ),
]
ActionCosts = Annotated[
    str | None,
    typer.Option(
        "--cost", metavar="A=1,B=2.5", help="Cost of each action, by name, for --max-cost; actions not named cost 0."
    ),
]
MaxCost = Annotated[float | None, typer.Option(help="Maximum mean cost of a policy over the known contexts.")]
MaxShare = Annotated[
    str | None,
    typer.Option(metavar="A=0.3", help="Maximum share of the known contexts that get an action."),
]
MaxTreated = Annotated[
    float | None,
    typer.Option(
        parser=as_rate,
        metavar="SHARE",
        help="Maximum share of the known contexts that get an action other than --control.",
    ),
]
Never = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORDS",
        help="Exclude an action for some contexts, [cyan]email: age <= 25[/] or [cyan]email: country = DE[/]; "
        "--control is used there. May be repeated.",
    ),
]
Control = Annotated[
    str | None,
    typer.Option(
        metavar="ACTION",
        help="The action that means no treatment. The gain over it is reported, and it is used where another action "
        "is excluded.",
    ),
]

Guardrails = Annotated[
    list[str] | None,
    typer.Option(
        "--guardrail",
        metavar="WORDS",
        help="How much worse than --control the policy may be in a metric: [cyan]'returned <= control + 0.01'[/], "
        "[cyan]'minutes >= control - 2'[/] or [cyan]'minutes >= control * 0.98'[/]. May be repeated.",
    ),
]


ImproveOn = Annotated[
    str | None,
    typer.Option(
        metavar="ACTION",
        help="Prove that the policy is better than this action, and by how much at least (default: --control).",
    ),
]
BestOnly = Annotated[
    bool,
    typer.Option("--best-only", help="Prove only how close to the best the policy is, not its gain over --control."),
]


# A plan of the analysis, written before the log is seen, fixes the question that a certificate answers.


ANALYSIS_PLAN, ANALYSIS_FORMAT = "analysis plan", 1  # the format of the file (docs/stability.md)
# The options of `certify` that are the question, and their values if a plan does not name them.
_TEXTS = (
    *("action", "reward", "split", "propensity", "control", "improve_on", "time", "time_format", "unit", "block"),
    *("order", "features", "without", "policies", "contexts", "cost", "max_share"),
)
_FLAGS = ("clip", "best_only", "ordered", "shuffle", "single", "asymptotic")
_LISTS = ("metric", "guardrail", "never", "age")
_NUMBERS = (
    *("epsilon", "delta", "smallest_leaf", "max_cost", "max_treated", "least_propensity"),
    *("actions", "position", "draws", "seed"),
)
QUESTION: dict[str, Any] = {
    **dict.fromkeys((*_TEXTS, *_NUMBERS, *_LISTS, "reward_range")),
    **dict.fromkeys(_FLAGS, False),
    "policies": DEFAULT_POLICIES,
    "delta": DEFAULT_DELTA,
}


@dataclass(frozen=True)
class AnalysisPlan:
    """The question of an analysis, fixed in a file.

    path: of the file.
    digest: the SHA-256 of its bytes.
    options: the value of every option of `QUESTION`.
    contexts_digest: of the contexts from before the experiment, if it names any.
    """

    path: Path
    digest: str
    options: dict[str, Any]
    contexts_digest: str | None

    def check_not_contradicted(self, context: typer.Context) -> None:
        """Raise if an option of the command line has another value than the plan."""
        for name, planned in self.options.items():
            source, given = context.get_parameter_source(name), _settled(context.params[name])
            if name == "contexts" or source is None or source.name != "COMMANDLINE" or given == planned:
                continue
            said = "does not name it" if planned in (None, False) else f"has {_spelt(planned)}"
            option = option_of(name)
            raise InputError(
                f"{f'{option} {_spelt(given)}'.strip()} contradicts the plan: {_file(self.path)} {said}; leave "
                f"{option} out, or certify without --plan"
            )

    def check_contexts(self, contexts: Contexts | None) -> None:
        """Raise unless the contexts from before the experiment are those of the plan."""
        from pacbandits.records.log import digest_contexts

        found = None if contexts is None else digest_contexts(contexts)
        if self.contexts_digest is not None and found != self.contexts_digest:
            raise InputError(
                f"the contexts of --contexts have another digest than those of the plan {_file(self.path)}, "
                f"{self.contexts_digest}; give the planned ones, or certify without --plan"
            )


def _file(path: Path) -> str:
    """Return a path for messages."""
    return plain(path, most=200)


def _settled(value: Any) -> Any:
    """Return the value of an option as a plan has it."""
    if isinstance(value, tuple | list):
        return [_settled(one) for one in cast("list[Any]", value)] or None
    return str(value) if isinstance(value, Path) else value


def _spelt(value: Any) -> str:
    many = cast("list[Any]", value) if isinstance(value, list) else [value]
    return plain(" ".join("" if one is True else str(one) for one in many))


def read_analysis_plan(path: Path) -> AnalysisPlan | None:
    """Read a plan of an analysis; None if the file is the plan of a trial, which fixes no question."""
    from pacbandits.schema import Fields, read_format, read_json

    value = Fields.read(read_json(path), of="plan")
    if not str(value.given.get("format")).startswith(f"pacbandits {ANALYSIS_PLAN} "):
        return None
    read_format(value.given, ANALYSIS_PLAN, latest=ANALYSIS_FORMAT)
    value.check_known(("format", "contexts_digest", *QUESTION))
    options = {name: _planned(value.given.get(name), name, path) for name in QUESTION}
    digest = value.text("contexts_digest") if value.given.get("contexts_digest") is not None else None
    if (options["contexts"] is None) != (digest is None):
        raise InputError(f"the plan {_file(path)} needs 'contexts' and 'contexts_digest'; --write-plan writes both")
    return AnalysisPlan(path, hashlib.sha256(path.read_bytes()).hexdigest(), options, digest)


def _planned(value: Any, name: str, path: Path) -> Any:
    """Return the value of an option in a plan; its default if there is none."""
    if value is None:
        return QUESTION[name]
    numbers = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _NUMBERS and (numbers or isinstance(value, str)):
        return as_rate(value)
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    if name in _LISTS and listed and all(isinstance(one, str) for one in listed):
        return listed
    if name == "reward_range" and len(listed) == 2 and all(isinstance(one, int | float) for one in listed):
        return [float(one) for one in listed]
    if (name in _TEXTS and isinstance(value, str)) or (name in _FLAGS and isinstance(value, bool)):
        return value
    kinds = {"a text": _TEXTS, "true or false": _FLAGS, "a number": _NUMBERS, "a list of texts": _LISTS}
    wanted = next((words for words, names in kinds.items() if name in names), "a list of two numbers")
    raise InputError(f"'{name}' of the plan {_file(path)} must be {wanted}, got {plain(json.dumps(value))}")


def take_plan(context: typer.Context, path: Path | None) -> Path | None:
    """Let the options that the command line does not give have the values of a plan."""
    if path is None or context.resilient_parsing:
        return path
    try:
        plan = read_analysis_plan(path)
    except InputError as error:
        raise typer.BadParameter(str(error)) from None
    if plan is not None:
        named = {name: value for name, value in plan.options.items() if value is not None and value is not False}
        context.default_map = {**(context.default_map or {}), **named}
    return path


def write_analysis_plan(
    path: Path, options: Mapping[str, Any], contexts: Contexts | None, *, as_json: bool = False
) -> None:
    """Write the question that these options ask to a file, and say its digest."""
    from pacbandits.records.log import digest_contexts
    from pacbandits.schema import format_text, json_text

    fixed: dict[str, Any] = {"format": format_text(ANALYSIS_PLAN, ANALYSIS_FORMAT)} | {
        name: _settled(options[name]) for name in QUESTION
    }
    if contexts is not None:
        fixed["contexts_digest"] = digest_contexts(contexts)
    try:
        path.write_text(json_text(fixed, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if as_json:
        print_json({"plan": str(path), "digest": digest})
        return
    say(f"{path} has the digest {digest}; publish it before the log is seen, and certify with --plan {path}")


def question_of(options: Mapping[str, Any]) -> tuple[dict[str, Any], Request]:
    """Return how a log is read, and what is asked of it, by the options of `certify`."""
    from pacbandits.analysis import Request, improved_on, withheld_block
    from pacbandits.records.metrics import read_guardrails

    same = ("action", "reward", "propensity", "split", "reward_range", "clip", "time", "time_format", "unit", "block")
    reading = reading_options(
        **{name: options[name] for name in (*same, "order", "least_propensity", "position")},
        columns=options["features"],
        left_out=options["without"],
        n_actions=options["actions"],
        age=options["age"] or (),
        metrics=options["metric"] or (),
    )
    if options["contexts"] is not None and options["age"]:
        raise InputError("--age counts days to the time of each row, and --contexts has no such time; leave one out")
    improved = improved_on(options["control"], False if options["best_only"] else options["improve_on"])
    limits = ("smallest_leaf", "cost", "max_cost", "max_share", "max_treated", "never")
    request = Request(
        policies=options["policies"],
        restrict=partial(restrictions_for, **{name: options[name] for name in limits}, control=improved["control"]),
        epsilon=options["epsilon"],
        delta=options["delta"],
        contexts=None if options["contexts"] is None else read_contexts(Path(options["contexts"])),
        ordered=options["ordered"] or options["time"] is not None,
        shuffle=options["shuffle"],
        single=options["single"],
        block=withheld_block(reading),
        **improved,
        guardrails=read_guardrails(options["guardrail"] or ()),
    )
    return reading, request


# `pacbandits certify`.


DEFAULT_EPSILON = 0.05  # of --asymptotic


@app.command("certify")
def certify_log(
    context: typer.Context,
    log: Annotated[
        list[str] | None,
        typer.Argument(
            show_default=False,
            help="The data of the test, in CSV or Parquet; several files are read one after the other and may be "
            "larger than memory. Default column names: [cyan]action[/], [cyan]reward[/], and [cyan]propensity[/] (of "
            "the logged action) or [cyan]propensities[/] (lists) or [cyan]propensity_0[/], [cyan]propensity_1[/], … "
            "(of all actions), optionally [cyan]round[/], [cyan]repeats[/], [cyan]context_id[/]; all other columns "
            "are features. Also read: Vowpal Wabbit dsjson lines, Open Bandit feedback (.npz), and [cyan]actg175[/], "
            "a past clinical trial. Or a URL: of a table, [cyan]duckdb:///shop.db?table=test[/] or "
            "[cyan]postgresql://user@host/shop?table=test[/]; of files, [cyan]s3://bucket/logs/*.parquet[/] "
            "([cyan]gs://[/], [cyan]abfs://[/]).",
        ),
    ] = None,
    sql: Sql = None,
    connection: Connection = None,
    action: ActionColumn = None,
    reward: RewardColumn = None,
    split: Split = None,
    propensity: PropensityColumn = None,
    reward_range: RewardRange = None,
    clip: Clip = False,
    control: Control = None,
    metric: Metrics = None,
    guardrail: Guardrails = None,
    improve_on: ImproveOn = None,
    best_only: BestOnly = False,
    time: Time = None,
    time_format: TimeFormat = None,
    age: Ages = None,
    unit: Unit = None,
    block: Block = None,
    order: Order = None,
    features: Features = None,
    without: Without = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Tolerance ε: the largest acceptable distance from the best policy, in reward units; 0 asks for the "
            "best policy itself. If omitted, certify the smallest ε the log supports.",
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(parser=as_rate, metavar="RATE", help="Error probability δ, between 0 and 1.")
    ] = DEFAULT_DELTA,
    policies: Annotated[
        str,
        typer.Option(
            help="Policy class to search, [cyan]name:key=value,…[/]; [cyan]pacbandits policies[/] lists them."
        ),
    ] = DEFAULT_POLICIES,
    contexts: Annotated[
        Path | None,
        typer.Option(
            help="Contexts from before the experiment, in Parquet or CSV, from which to build the policy class. If "
            "omitted, it is built from the log's first rounds, or its first 256 rows (987 with limits on shares or "
            "costs), and these rows are not used as evidence."
        ),
    ] = None,
    smallest_leaf: SmallestLeaf = None,
    cost: ActionCosts = None,
    max_cost: MaxCost = None,
    max_share: MaxShare = None,
    max_treated: MaxTreated = None,
    never: Never = None,
    actions: Actions = None,
    least_propensity: LeastPropensity = None,
    position: Position = None,
    ordered: Annotated[
        bool,
        typer.Option(
            "--ordered",
            help="The rows are in chronological order. A log without rounds can then be analysed sequentially, which "
            "certifies a smaller ε; the certificate records this assumption.",
        ),
    ] = False,
    shuffle: Annotated[
        bool,
        typer.Option(
            "--shuffle",
            help="Propensities never depended on earlier rows, nor did the end of the log, so the rows may be "
            "shuffled. Not needed if all rows have the same propensities: those logs are shuffled anyway.",
        ),
    ] = False,
    single: Annotated[
        bool,
        typer.Option("--single", help=f"{SINGLE_HELP} A log that is shuffled always gives a single policy."),
    ] = False,
    asymptotic: Annotated[
        bool,
        typer.Option(
            "--asymptotic",
            help="Make an approximate certificate instead of a proof: a normal approximation for a sample size fixed "
            "in advance. It needs fewer samples and must not be used to decide when to stop.",
        ),
    ] = False,
    draws: Annotated[
        int | None, typer.Option(help="Bootstrap draws of --asymptotic, at least 1/δ (default: 500).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the bootstrap of --asymptotic (default: 0).")] = None,
    engine: Engine = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Write the certificate to this file, for [cyan]pacbandits verify[/].")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write a report to this file, in HTML or Markdown ([cyan].md[/])."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            is_eager=True,
            callback=take_plan,
            help="A plan: of this analysis, from [cyan]--write-plan[/], which fixes all options that are part of the "
            "question; or of the trial, from [cyan]pacbandits plan --out[/], to compare the result with.",
        ),
    ] = None,
    write_plan: Annotated[
        Path | None,
        typer.Option(
            help="Write the question that these options ask to this file, and stop: no log is needed. Publish its "
            "digest before the log is seen, and certify with [cyan]--plan[/]."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the best policy in the data of an A/B test and prove what it gains.

    The table has one row per person or visit: features, the arm shown, and
    the outcome. Name these columns ([cyan]--action[/], [cyan]--reward[/]) and how
    people were assigned ([cyan]--split[/]).

    With [cyan]--control[/] the first answer is how much the recommended policy
    gains over it at least. Candidates are a rule of the class and one action
    for everyone; if no gain is proven, the recommendation is to keep the control.

    The result is a proof, not an approximation: except with probability
    [cyan]--delta[/], no policy of the class is better by more than the printed
    ε. [cyan]--epsilon[/] asks for a certain ε; if the log does not support it,
    the command estimates how many more rows are needed.

    Exit code 3 if no gain over [cyan]--control[/] is proven, if a guardrail of
    the recommended policy is not proven, if the requested ε
    is not certified, or if the data contradict an assumption (an alarm: counts that do not fit the split,
    drift, or an empty interval). Alarms are printed first; resolve them first.

    [dim]Examples:
    pacbandits certify test.csv --action variant --reward revenue --reward-range 0 500 --split uniform
    pacbandits certify test.csv --action variant --reward converted --propensity p --time shown_at --epsilon 0.01
    pacbandits certify visits.csv --action variant --reward bought --split uniform --unit user_id
    pacbandits certify pupils.csv --action class --reward score --reward-range 0 100 --block school
    pacbandits certify log.parquet --policies trees:depth=2 --epsilon 0.05 --delta 0.05
    pacbandits certify clicks.csv --least-propensity 0.02 --reward-range 0 10 --ordered
    pacbandits certify test.csv --max-treated 0.3 --control none --never "email: age <= 25" --contexts customers.csv
    pacbandits certify logs/2026-*/*.parquet --policies trees:depth=2 --epsilon 0.01
    pacbandits certify s.parquet --engine dask --scheduler tcp://head:8786
    pacbandits certify "duckdb:///shop.db?table=test" --action variant --reward bought --split uniform
    pacbandits certify --sql "select * from test where country = 'DE'" --connection postgresql://ann@db.example.org/shop
    pacbandits certify decisions.dsjson --action _tag
    pacbandits certify feedback.npz --position 0
    pacbandits certify --write-plan plan.json --action variant --reward bought --split uniform --control none
    pacbandits certify test.csv --plan plan.json --certificate proof.json[/]
    """
    from pacbandits.analysis import LOOKING_AHEAD, MEASURING, analyse
    from pacbandits.confidence import check_asked_delta
    from pacbandits.logs.table_files import is_streamed
    from pacbandits.planning.plan_files import load_any_plan
    from pacbandits.progress import heard_by
    from pacbandits.report import certificate_document
    from pacbandits.report.plan_report import happened
    from pacbandits.report.result_report import check_report, happened_document, write_report

    check_asked_delta(delta)
    _check_bootstrap(asymptotic, draws=draws, seed=seed)
    check_engine(engine, scheduler=scheduler, workers=workers)
    if asymptotic and report is not None:
        raise InputError("--report needs a proof, and --asymptotic makes none; leave one of them out")
    if asymptotic and engine is not None:
        raise InputError("--asymptotic needs all rows in memory; leave out --engine")
    if asymptotic and guardrail:
        raise InputError("--guardrail needs a proof, and --asymptotic makes none; leave one of them out")
    if asymptotic and control is not None and not best_only:
        raise InputError(
            f"a gain over --control {plain(control)} needs a proof, and --asymptotic makes none; leave one of them "
            "out, or add --best-only to ask for the distance from the best alone"
        )
    check_output(certificate)
    check_output(report)
    check_report(report)
    fixed = None if plan is None else read_analysis_plan(plan)
    planned = None if plan is None or fixed is not None else load_any_plan(plan)
    if fixed is not None:
        fixed.check_not_contradicted(context)
    _check_contexts(contexts, [Path(one) for one in log or []])
    reading, request = question_of(context.params)
    if fixed is not None:
        fixed.check_contexts(request.contexts)
    if write_plan is not None:
        check_output(write_plan)
        write_analysis_plan(write_plan, context.params, request.contexts, as_json=as_json)
        return
    if not log and sql is None:
        raise InputError("the log is missing: pacbandits certify LOG …; only --write-plan needs none")
    digest = None if fixed is None else fixed.digest
    if asymptotic:
        with open_sources(log, sql, connection) as local:
            certify_approximately(
                local.paths,
                local.reading(reading, ordered=request.ordered),
                request,
                draws=draws,
                seed=seed,
                certificate=certificate,
                digest=digest,
                as_json=as_json,
            )
        return
    with status() as tell:
        with ExitStack() as stack:
            stack.enter_context(heard_by(tell))
            local, who = stack.enter_context(open_sources(log, sql, connection)), None
            reading = local.reading(reading, ordered=request.ordered)
            if is_streamed(local.paths, reading, engine=engine, epsilon=epsilon):
                who = stack.enter_context(open_engine(engine or "stream", scheduler=scheduler, workers=workers))
            result = analyse(local.paths, reading, request, engine=who, progress=tell, notice=partial(say, err=True))
            result = result if local.name is None else replace(result, source=local.name)
        tell(MEASURING)
        _ = result.worth
        tell(LOOKING_AHEAD)
        _ = result.measured
        named = None if certificate is None else certificate.name
        summary = result.summary(proof=named, distances=report is not None)
    made = result.certificate
    if planned is not None:
        summary = replace(summary, happened=happened(planned, result.found.question, result.log))
    try:
        if as_json:
            print_json(result.to_json() | summary.to_json() | ({} if digest is None else {"plan": digest}))
        else:
            say_notices(result.log)
            if not summary.alarms:  # with an alarm, the table begins with it
                say("\n".join(summary.answer()) + "\n")
            show(certificate_document(made, summary))
            if summary.happened:
                show(happened_document(summary.happened))
            if fixed is not None:
                say(f"the question is that of the plan {fixed.path}, digest {fixed.digest}")
    finally:  # after the answer, which a file that cannot be written must not cost; and if nobody reads it to its end
        if report is not None:
            write_report(summary, report)
        if certificate is not None:
            result.save(certificate, plan=digest)
    if not summary.answered:
        raise typer.Exit(PARTIAL)


def certify_approximately(
    log: list[Path],
    reading: dict[str, Any],
    request: Request,
    *,
    draws: int | None,
    seed: int | None,
    certificate: Path | None,
    digest: str | None,
    as_json: bool,
) -> None:
    """Make a certificate by a normal approximation, and print it."""
    from pacbandits.analysis import read_data, without_useless
    from pacbandits.certificate import certify_asymptotically, learn_class
    from pacbandits.certificate.asymptotic import BOOTSTRAP_DRAWS
    from pacbandits.progress import prefixed
    from pacbandits.proofs import save_certificate
    from pacbandits.report import asymptotic_document

    if len(log) > 1:
        raise InputError(f"--asymptotic takes one file, got {len(log)}; join them")
    order: dict[str, Any] = {"ordered": request.ordered, "shuffle": request.shuffle}
    with status() as tell:
        read, reading = without_useless(read_data(log, reading), reading, request, log)
        spec = request.check(read)
        assert isinstance(spec, str)
        learnt = learn_class(spec, read, contexts=request.contexts, **order)
        say_cost(learnt.policies, read.contexts, of="bootstrap")
        many = count_of(read.samples, "interaction")
        tell(f"predicting rewards of {many}")
        made = certify_asymptotically(
            read,
            learnt,
            epsilon=DEFAULT_EPSILON if request.epsilon is None else request.epsilon,
            delta=request.delta,
            rng=0 if seed is None else seed,
            draws=BOOTSTRAP_DRAWS if draws is None else draws,
            progress=prefixed(tell, f"bootstrap of {many}"),
            **order,
        )
    if certificate is not None:
        save_certificate(certificate, made, learnt.policies, reading=reading, plan=digest)
    if as_json:
        print_json(made.to_json() | {"notices": list(read.notices)})
    else:
        say_notices(read)
        show(asymptotic_document(made))
    if not made.certified or made.alarms:
        raise typer.Exit(PARTIAL)


def _check_contexts(contexts: Path | None, log: list[Path]) -> None:
    """Raise if the contexts from before the experiment are the log itself."""
    if contexts is not None and contexts.exists() and any(one.exists() and contexts.samefile(one) for one in log):
        raise InputError(
            "--contexts is the log itself, but must be from before the experiment; leave it out, and the first "
            "rows of the log are used"
        )


def _check_bootstrap(asymptotic: bool, *, draws: int | None, seed: int | None) -> None:
    """Raise if options of the bootstrap are given without --asymptotic."""
    for name, given in (("--draws", draws), ("--seed", seed)):
        if given is not None and not asymptotic:
            raise InputError(f"{name} {given} is an option of --asymptotic; add that, or leave {name} out")
    if seed is not None and seed < 0:
        raise InputError(f"--seed must be 0 or more, got {seed}")
