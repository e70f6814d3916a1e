"""Analyse a log: certify its best policy, and report the proof in the names and units of the data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar, cast

from pacbandits.certificate import Certificate, Claim, LearntClass, Worth, measure_worth
from pacbandits.certificate import evaluate as evaluate_log
from pacbandits.certificate.certificate import CONTROL
from pacbandits.certificate.certify import (
    DEFAULT_CLASS,
    DEFAULT_DELTA,
    CertifiedLog,
    Request,
    action_number,
    certify_rows,
)
from pacbandits.certificate.summed.survey import as_engine_reads, survey_certified
from pacbandits.certificate.worth import measure_policy
from pacbandits.checks import flag, path_of
from pacbandits.engines import Engine, LogSource, Source
from pacbandits.engines.registry import STREAM, using_engine
from pacbandits.errors import InputError, nearest, option_of, plain
from pacbandits.exports import DeployedPolicy
from pacbandits.logs import read_log
from pacbandits.logs.blocks import read_split
from pacbandits.logs.data_set import FileSet, dropped_words, open_set, useless_columns
from pacbandits.logs.log_table import drop_features
from pacbandits.logs.readers import DataFrame, as_remote, copy_dataset, is_dataset, local_copies, log_of
from pacbandits.logs.reading_options import Reading, ReadingOptions, Split
from pacbandits.logs.table_files import MIN_STREAMED_ROWS, expand, is_streamed
from pacbandits.policies import Restrictions
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.decisions import COLUMN, ColumnPolicy
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.problems.past_logs import PAST_LOGS, load_log
from pacbandits.progress import Progress, heard_by, listener
from pacbandits.proofs import Proof, save_certificate, verify
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.records.metrics import (
    AnyMetric,
    Guardrail,
    MetricSpec,
    read_guardrails,
    read_metrics,
    with_guarded,
)
from pacbandits.report.figures import draw_result
from pacbandits.report.html import render_notebook
from pacbandits.report.result_report import result_document, write_report
from pacbandits.report.summary import Summary, summarise
from pacbandits.rewards import RewardModel
from pacbandits.schema import Json
from pacbandits.trials.forecast import Outlook, look_ahead
from pacbandits.verifier import Verdict

Files = str | Path | Sequence[str | Path]
Data = Log | DataFrame | Files | FileSet
Rows = TypeVar("Rows", Log, FileSet)
# The stages after a certificate, as progress tells them.
MEASURING, LOOKING_AHEAD = "computing values and gains", "estimating how many more interactions are needed"


class Measured(NamedTuple):
    """The figures that are computed after a certificate.

    worth: value and gains of the policy, with intervals; None if the log gives none.
    target: the next ε to prove; None if the policy is proven to be the best.
    outlook: the predicted number of interactions that this would take.
    """

    worth: Worth | None
    target: float | None
    outlook: Outlook | None


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The analysis of a log: what `certify` returns.

    found: the certified log, with what its value is measured by.
    log: the log; for files that were streamed, a sample of their rows.
    reading: how the log was read, by the keywords of `certify`.
    source: the name of the log.
    control: the number of the control action, if one was named.
    streamed: value, gains and outlook, if they were computed while the files were open.
    """

    found: CertifiedLog
    log: Log
    reading: Json
    source: str
    control: int | None = None
    streamed: Measured | None = None

    @property
    def certificate(self) -> Certificate:
        """The claim with its assumptions; `certificate.to_json()` is what `pacbandits verify` rechecks."""
        return self.found.certificate

    @property
    def policies(self) -> PolicyClass:
        """The policy class that the claim is about."""
        return self.found.policies

    @cached_property
    def measured(self) -> Measured:
        """Value, gains and outlook; computed on first access."""
        return _look_ahead(self.found, self.log, self.worth) if self.streamed is None else self.streamed

    @cached_property
    def worth(self) -> Worth | None:
        """Value of the policy and gains over each single action, with intervals; None if the log gives none.

        Computed on first access.
        """
        return self.found.measure() if self.streamed is None else self.streamed.worth

    @property
    def certified(self) -> bool:
        """Whether the requested ε is proven."""
        return self.certificate.certified

    @property
    def gain(self) -> float | None:
        """The proven gain of the policy over control, in the units of rewards; None if no gain is proven."""
        return self.found.question.gain

    @property
    def proven(self) -> bool:
        """Whether what was asked for is proven, without an alarm: a gain with its guardrails, a requested ε.

        With improve_on=False, or ε = 0, which asks for the best itself, the distance from the best is asked for alone.
        """
        return self.found.question.answered(self.worth)

    @property
    def epsilon(self) -> float:
        """The smallest ε that is proven, in the units of rewards."""
        return self.certificate.certified_epsilon

    @cached_property
    def distances(self) -> dict[str, float]:
        """The proven ε of each candidate and of "control", all of which hold together; computed on first access.

        In the units of rewards; empty if no control was named. By sums over rows, it has the recommended one alone.
        """
        gains = self.certificate.improvement
        if gains is None:
            return {}
        names = (CONTROL, *(one.name for one in gains.candidates))
        if self.certificate.summed:  # the others would take as many passes again, each
            names = (gains.chosen,)
        made = {name: self.found.certify_candidate(name) for name in names}
        return {name: one.certified_epsilon for name, one in made.items() if one is not None}

    @property
    def alarms(self) -> tuple[str, ...]:
        """The evidence in the log against the assumptions: drift, or counts that do not fit the split."""
        return self.found.question.alarms(self.worth)

    @property
    def answer(self) -> str:
        """The answer in plain sentences, a line each."""
        return "\n".join(self.summary().answer())

    @property
    def policy(self) -> DeployedPolicy:
        """The recommended policy: `policy(frame)` returns the name of an action for each row."""
        return DeployedPolicy(self.certificate.policy, self.certificate.action_names, self.certificate.dates)

    def summary(self, *, proof: str | None = None, distances: bool = False) -> Summary:
        """Return the content of a report.

        proof: the name of the certificate's file, if there is one. distances: whether to have the proven ε of each
        candidate, which takes as long as the proof for each.
        """
        return summarise(
            self.certificate,
            self.log,
            worth=self.worth,
            source=self.source,
            outcome=ReadingOptions.from_json(self.reading).outcome,
            ahead=self.measured.outlook,
            target=self.measured.target,
            policies=self.policies,
            control=self.control,
            question=self.found.question,
            proof=proof,
            rounds=self.found.rounds_of_sample(len(self.log)),
            distances=self.distances if distances else None,
        )

    def report(self, path: str | Path) -> None:
        """Write a report for colleagues: one file, in HTML or Markdown (.md)."""
        write_report(self.summary(distances=True), path_of(path))

    def figure(self) -> Any:
        """Draw the mean outcome of the policy and of each single action with intervals, as a matplotlib figure."""
        return draw_result(self.summary())

    def save(self, path: str | Path, *, plan: str | None = None) -> None:
        """Write the certificate as a JSON file, for `pacbandits verify`, `apply` and `load_certificate`.

        plan: the digest of the plan that fixed the question, if there was one.
        """
        save_certificate(path, self.certificate, self.policies, reading=self.reading, plan=plan)

    def verify(self, log: Log | Source | None = None) -> Verdict:
        """Recheck the certificate against its log, independently of the code that made it.

        log: the log, if it was streamed from files; open them by `load_certificate(path).files(…)`.
        """
        if log is None and self.streamed is not None:
            raise InputError("the log was streamed from files; verify the saved certificate: pacbandits verify")
        return verify(self, self.log if log is None else log)

    def to_json(self) -> Json:
        """Serialise certificate, answer, values and groups to JSON-compatible values."""
        summary = self.summary()
        told = {"alarms": list(summary.alarms)} | self.certificate.to_json() | summary.to_json()
        return told | {"notices": list(self.log.notices)}

    def __repr__(self) -> str:
        return f"Result of {self.source}:\n{self.answer}"

    def _repr_html_(self) -> str:
        return render_notebook(result_document(self.summary()))


def certify(
    log: Data,
    policies: PolicyClass | LearntClass | str = DEFAULT_CLASS,
    *,
    action: str | None = None,
    reward: str | None = None,
    split: Split | None = None,
    propensity: str | None = None,
    reward_range: tuple[float, float] | None = None,
    clip: bool = False,
    control: str | None = None,
    improve_on: str | bool | None = None,
    time: str | None = None,
    time_format: str | None = None,
    age: Sequence[str] = (),
    unit: str | None = None,
    block: str | None = None,
    order: str | None = None,
    features: Sequence[str] | None = None,
    without: Sequence[str] = (),
    keep: Sequence[str] = (),
    n_actions: int | None = None,
    least_propensity: float | None = None,
    position: int | None = None,
    metrics: Sequence[MetricSpec] = (),
    guardrails: Sequence[str | Guardrail] = (),
    epsilon: float | None = None,
    delta: float = DEFAULT_DELTA,
    contexts: Contexts | None = None,
    restrictions: Restrictions | None = None,
    model: RewardModel | None = None,
    ordered: bool = False,
    shuffle: bool = False,
    single: bool = False,
    engine: Engine | str | None = None,
    progress: Progress | None = None,
) -> Result:
    """Find the best policy of a class by the log of an experiment, and prove how good it is.

    log: a data frame (pandas, polars, DuckDB, Arrow), a `Log`, or files by name or pattern; large files are streamed.
        Also the URL of a table, `duckdb:///shop.db?table=test` or `postgresql://user@host/shop?table=test`, and of
        files in an object store, `s3://bucket/logs/*.parquet` (`gs://`, `abfs://`).
    policies: the class to search: a name such as "trees:depth=2", or a class that was fixed before the log was seen.

    Columns of a data frame or file; those that nothing names are features:
    action, reward: the columns of actions and of rewards (default: "action" and "reward").
    split: the probabilities, if they were the same for everybody: "uniform", or {"a": 0.4, "b": 0.6}; or those of each
        block, {"north": {"a": 0.4, "b": 0.6}, …} or a CSV file with the columns block, action and probability.
    propensity: else the column with the probability of the action that was taken (default: "propensity").
    reward_range: the smallest and the largest possible reward, if not 0 and 1.
    clip: clip rewards to reward_range; the claim is then about the clipped reward.
    control: the name of the action that is today's practice.
    improve_on: the action over which a gain is to be proven (default: control, if one is named); False for none.
    time: the column by which rows are sorted; the certificate then relies on that order.
    time_format: how times in text are written, such as "%d/%m/%Y %H:%M", where that is ambiguous.
    age: columns of dates, such as ["signup"], each of which becomes the number of days before that time.
    unit: the column that identifies users who may return; evidence then counts users, not rows.
    block: the column of the blocks, such as schools, within which actions were drawn: with the probabilities of the
        split; without a split, so many of each action in each block as the data count. It is a feature of the reward
        model, and of policies only if it is one of `keep` or `features`.
    order: "none" if the order of the rows means nothing; changes along it are then not looked for.
    features, without: the columns to use as features; columns to leave out.
    keep: columns that stay features though they look like identifiers, outcomes or times.
    n_actions: the number of actions, if it is larger than the largest in the log and one more.
    least_propensity: for logs with the played action's propensity alone, the minimum propensity of every action.
    position: the position to take of an Open Bandit feedback with several.
    metrics: columns of outcomes beside the reward, with their ranges if not 0 to 1: ["returned", ("minutes", 0, 600)];
        a ratio of two columns has the range of each, ("revenue/orders", 0, 500, 0, 20).
    guardrails: how much worse than control the policy may be in a metric: ["returned <= control + 0.01"]. A column
        that is not among the metrics becomes one.

    The claim:
    epsilon: the distance from the best policy to prove, in units of rewards, 0 for the best itself; if omitted, the
        smallest that the log proves.
    delta: the probability of being wrong.
    contexts: contexts from before the experiment, to learn a class from that is given by its name.
    restrictions: budgets and excluded actions, for a class that is given by its name.
    model: the reward model, if not the default for these contexts.
    ordered: rows stand in the order in which they occurred.
    shuffle: neither propensities nor the end of the log depended on earlier rows, so that any order will do; a log
        with the same propensities in all rows is shuffled anyway.
    single: certify a single policy, not a mixture.
    engine: where sums over rows are computed: "threads", "stream", "dask", "cuda", or an engine.
    progress: a function that is called with a few words on what is being done.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("two-of-many:actions=6,policies=40")
    >>> log = pb.run(problem, algorithm="uniform", epsilon=0.2, delta=0.05, rng=1).log
    >>> result = pb.certify(log, problem.policies, epsilon=0.3)
    >>> result.certified, result.verify().good
    (True, True)
    >>> result.certificate.describe()
    'except with probability 0.05 the policy is within 0.3 of the best of its class'

    Raises:
        InputError: If a column or a value is missing or impossible; the message names it and the remedy.
    """
    reading = _reading(locals())
    request = Request(
        policies=policies,
        restrictions=restrictions,
        epsilon=epsilon,
        delta=delta,
        contexts=contexts,
        model=model,
        ordered=flag(ordered, name="ordered") or time is not None,
        shuffle=flag(shuffle, name="shuffle"),
        single=flag(single, name="single"),
        block=withheld_block(reading),
        **improved_on(control, improve_on),
        guardrails=read_guardrails(guardrails),
    )
    return analyse(log, reading, request, engine=engine, progress=progress)


def _reading(given: Mapping[str, Any]) -> Json:
    """Check the arguments of a function that say how data are read; return those that were given."""
    asked: Any = {name: given[name] for name in Reading.__annotations__}
    return ReadingOptions(**asked | {"split": read_split(asked["split"])}).to_json()


def withheld_block(reading: Json) -> str | None:
    """Return the column of blocks, if policies may not go by it."""
    block: str | None = reading.get("block")
    return None if block in (*reading.get("keep", ()), *reading.get("features", ())) else block


def with_guarded_metrics(reading: Json, guardrails: Sequence[Guardrail]) -> Json:
    """Return how data are read if the columns of guardrails are metrics, too."""
    return _with_metrics(reading, with_guarded(reading.get("metrics", ()), guardrails)) if guardrails else reading


def _with_metrics(reading: Json, metrics: Sequence[AnyMetric]) -> Json:
    asked: Json = {**reading, "metrics": metrics}
    return ReadingOptions(**asked).to_json()


def improved_on(control: str | None, improve_on: str | bool | None) -> dict[str, Any]:
    """Return the fields of a `Request` for the action over which a gain is to be proven; False for none."""
    if isinstance(improve_on, str):
        if control not in (None, improve_on):
            raise InputError(
                f"improve_on names '{plain(improve_on)}' and control '{plain(control)}', which are one action; leave "
                "one out"
            )
        return {"control": improve_on, "improve": True}
    if improve_on and control is None:
        raise InputError("improve_on needs an action, as in improve_on='none'")
    return {"control": control, "improve": improve_on is not False}


def analyse(
    data: Data,
    reading: Json,
    request: Request,
    *,
    engine: Engine | str | None = None,
    progress: Progress | None = None,
    notice: Progress | None = None,
) -> Result:
    """Do the work of `certify`.

    reading: the columns, by its keywords. notice: called with a sentence before something that takes long.
    """
    tell, warn = listener(progress), listener(notice)
    if not isinstance(data, Log | FileSet):
        reading = with_guarded_metrics(reading, request.guardrails)
    if isinstance(data, FileSet) and reading:
        raise InputError(f"{next(iter(reading))} is for files that are yet to be read; leave it out")
    named = are_files(data)
    if named and any(map(as_remote, _names(data))):
        with heard_by(tell), local_copies(_names(data)) as local:
            how = local.reading(reading, ordered=request.ordered)
            made = analyse(local.paths, how, request, engine=engine, progress=progress, notice=notice)
            return replace(made, source=local.name)
    if is_dataset(data) and cast(Any, data).count_rows() >= MIN_STREAMED_ROWS:
        with heard_by(tell), closing(copy_dataset(data)) as local:
            made = analyse(local.paths, reading, request, engine=engine, progress=progress, notice=notice)
            return replace(made, source=name_of(data))
    in_files = isinstance(data, FileSet) or (
        named and is_streamed(_paths(data), reading, engine=engine, epsilon=request.epsilon)
    )
    name = name_of(data)
    if not in_files and (named or engine is None):
        log = read_data(cast("Log | DataFrame | Files", data), reading)
        if not isinstance(data, Log):
            log, reading = without_useless(log, reading, request, data)
        found = certify_rows(log, request, tell=tell, warn=warn)
        return Result(found, log, reading, name, action_number(request.control, log, of="--control"))
    with ExitStack() as stack:
        who = stack.enter_context(using_engine(STREAM if engine is None else engine))
        stack.enter_context(heard_by(tell))
        if in_files:
            tell("opening the files")
            source = data if isinstance(data, FileSet) else open_files(cast(Files, data), reading)
            if source is not data:
                stack.callback(source.close)
                source, reading = without_useless(source, reading, request, data)
        else:
            log = read_data(cast("Log | DataFrame", data), reading)
            if not isinstance(data, Log):
                log, reading = without_useless(log, reading, request, data)
            source = LogSource(log)
        found = certify_rows(source, request, engine=who, warn=warn)
        rows = found.sample()
        rows = replace(rows, notices=source.form.notices) if isinstance(source, FileSet) else rows
        tell(MEASURING)
        worth = found.measure()
        tell(LOOKING_AHEAD)
        measured = _look_ahead(found, rows, worth)
    return Result(found, rows, reading, name, action_number(request.control, rows, of="--control"), measured)


def without_useless(log: Rows, reading: Json, request: Request, data: object) -> tuple[Rows, Json]:
    """Return a log without constant feature columns and copies of others, and how it was read, which lists these.

    Columns that an option names stay; so do all if the class was learnt before, from contexts that have them.
    """
    past = are_files(data) and str(_paths(data)[0]) in PAST_LOGS  # read without options
    if past or not isinstance(request.policies, str) or request.contexts is not None:
        return log, reading
    form = log if isinstance(log, Log) else log.form
    limits = request.restrictions if request.restrict is None else request.restrict(form)
    words = " ".join((request.policies.partition(":")[2], *(() if limits is None else limits.never)))
    asked = {reading.get("block", ""), *reading.get("features", ()), *reading.get("keep", ())}
    asked |= {name for name in form.contexts.names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words)}
    found = useless_columns(log, but=asked)
    if not found:
        return log, reading
    noticed = replace(form, notices=(*form.notices, *dropped_words(found)))
    reading = {**reading, "dropped": list(found)}
    if isinstance(log, Log):
        return drop_features(noticed, found), reading
    return replace(log, recipe=replace(log.recipe, form=noticed)).without_features(found), reading


def _look_ahead(found: CertifiedLog, log: Log, worth: Worth | None) -> Measured:
    """Predict the cost of the next ε by these rows, unless the policy is proven to be the best; worth: as measured."""
    made = found.certificate
    if made.epsilon == 0 and made.certified:
        return Measured(worth, None, None)
    return Measured(worth, *look_ahead(made, log, found.policies))


def read_data(data: Log | DataFrame | Files, reading: Json) -> Log:
    """Return the log itself, or read it from a data frame or a file."""
    if isinstance(data, Log):
        if reading:
            raise InputError(f"{next(iter(reading))} is for a data frame, and this is a log already; leave it out")
        return data
    if not are_files(data):
        return log_of(data, **reading)
    path = _paths(data)[0]
    if str(path) in PAST_LOGS and not path.exists():
        if reading:
            given = option_of(next(iter(reading)))
            raise InputError(f"{path} is a log that needs no options to be read; leave out {given}")
        return load_log(str(path))
    log = read_log(path, **reading)[0]
    check_kept(log, reading, path)
    return log


def check_kept(log: Log, reading: Json, path: Path) -> None:
    """Raise InputError if a column that is to be kept as a feature does not exist."""
    known = (*log.contexts.names, *log.dates)
    for name in reading.get("keep", ()):
        if name not in known:
            raise InputError(f"--features +{plain(name)} adds no column of {path}{nearest(name, known)}")


def are_files(given: object) -> TypeGuard[Files]:
    """Return whether these are names or patterns of files."""
    if isinstance(given, str | Path):
        return True
    listed = cast(Sequence[object], given) if isinstance(given, list | tuple) else ()
    return len(listed) > 0 and all(isinstance(one, str | Path) for one in listed)


def open_files(files: Files, reading: Json) -> FileSet:
    """Open files, to be read as by `read_log`."""
    return open_set(expand(_names(files)), ReadingOptions(**reading))


def _paths(files: Files) -> list[Path]:
    return [Path(one) for one in _names(files)]


def _names(files: Files) -> list[str | Path]:
    return [files] if isinstance(files, str | Path) else list(files)


def name_of(data: Data) -> str:
    """Return the name of the data for a report."""
    if not are_files(data):
        return "the files" if isinstance(data, FileSet) else "the log" if isinstance(data, Log) else "the data frame"
    paths = _paths(data)
    return paths[0].name if len(paths) == 1 else f"{len(paths):,} files"


def evaluate(
    log: Data,
    policy: Chosen | DeployedPolicy | Result | Proof | str,
    *,
    action: str | None = None,
    reward: str | None = None,
    split: Split | None = None,
    propensity: str | None = None,
    reward_range: tuple[float, float] | None = None,
    clip: bool = False,
    time: str | None = None,
    time_format: str | None = None,
    age: Sequence[str] = (),
    unit: str | None = None,
    block: str | None = None,
    order: str | None = None,
    features: Sequence[str] | None = None,
    without: Sequence[str] = (),
    keep: Sequence[str] = (),
    n_actions: int | None = None,
    least_propensity: float | None = None,
    position: int | None = None,
    metrics: Sequence[MetricSpec] = (),
    delta: float = DEFAULT_DELTA,
    ordered: bool = False,
    shuffle: bool = False,
    model: RewardModel | None = None,
    engine: Engine | str | None = None,
) -> Worth | None:
    """Bound the value of a policy and its gains over each single action, by the log of an experiment.

    log, and the columns from action to metrics: as for `certify`. delta, ordered, shuffle, model, engine, too.
    policy: the policy; or the name of an action, for "everybody gets it"; or "column:NAME", for the rule that a column
        of the data holds; or what `certify` returned or `load_certificate` read. On the log that a certificate was
        made from, the intervals allow for the policy's having been chosen by it; any other policy must not have been
        chosen by looking at this log. The result is None if a certificate's own log gives no bound.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("two-of-many:actions=6,policies=40")
    >>> log = pb.run(problem, algorithm="uniform", epsilon=0.2, delta=0.05, rng=1).log
    >>> worth = pb.evaluate(log, problem.policies.policy(0))
    >>> bool(worth.value.low < worth.value.estimate < worth.value.high)
    True
    """
    given = dict(locals())
    if are_files(log) and any(map(as_remote, _names(log))):
        with local_copies(_names(given.pop("log"))) as local:
            how = local.reading(given, ordered=ordered)
            return evaluate(local.paths, **{name: value for name, value in how.items() if name != "source"})
    told = _metrics_of(policy) if isinstance(policy, Result | Proof) else ()
    if told and not isinstance(log, Log | FileSet):
        metrics = read_metrics((*told, *read_metrics(metrics)))
    reading = _reading(locals())
    dropped: Sequence[str] = policy.reading.get("dropped", ()) if isinstance(policy, Result | Proof) else ()
    if dropped and not isinstance(log, Log | FileSet):
        reading["dropped"] = dropped
    in_order = flag(ordered, name="ordered") or time is not None
    with ExitStack() as stack:
        if isinstance(log, FileSet):
            read = log.without_features(dropped)
        elif are_files(log) and is_streamed(_paths(log), reading, engine=engine, epsilon=None):
            read = open_files(log, reading)
            stack.callback(read.close)
        else:
            read = drop_features(read_data(log, reading), dropped)
        if isinstance(policy, Result | Proof):
            claim = policy.certificate
            sums: Json = {"model": model, "engine": engine}
            worth, own = measure_claim(
                claim, read, metrics=told, delta=delta, ordered=in_order, shuffle=shuffle, **sums
            )
            if not own and len(read_metrics(metrics)) > len(told) and isinstance(read, Log):
                again = read_data(cast("DataFrame | Files", log), _with_metrics(reading, told))
                check_were_no_features(claim, again, told)
            return worth
        chosen = _chosen(policy, read if isinstance(read, Log) else read.head)
        return evaluate_log(read, chosen, delta=delta, ordered=in_order, shuffle=shuffle, model=model, engine=engine)


def _metrics_of(policy: Result | Proof) -> tuple[AnyMetric, ...]:
    """Return the metrics of the log that a certificate was made from."""
    return policy.log.metrics if isinstance(policy, Result) else read_metrics(policy.reading.get("metrics", ()))


def _chosen(policy: object, log: Log) -> Chosen:
    """Return the policy that was named or passed."""
    names = log.action_names or tuple(str(number) for number in range(log.n_actions))
    if isinstance(policy, DeployedPolicy):
        check_actions(policy.action_names, log.action_names)
        return policy.chosen
    if not isinstance(policy, str):
        return cast(Chosen, policy)
    if policy.startswith(COLUMN):
        return ColumnPolicy(policy.removeprefix(COLUMN), names)
    number = action_number(policy, log, of="policy")
    assert number is not None
    return TreePolicy(number, log.n_actions)


def measure_claim(
    claim: Claim,
    log: Log | FileSet,
    *,
    metrics: Sequence[MetricSpec] = (),
    delta: float,
    ordered: bool,
    shuffle: bool = False,
    model: RewardModel | None = None,
    engine: Engine | str | None = None,
) -> tuple[Worth | None, bool]:
    """Return the value and gains of a certificate's policy by a log, and whether that is the certificate's own log.

    metrics: those of the certificate's own log; this one may have more or none.
    shuffle, model, engine: as for `evaluate`; the certificate's own log is measured as it was certified.
    """
    check_actions(claim.action_names, log.action_names)
    if isinstance(log, Log):
        if isinstance(claim, Certificate) and len(log) >= claim.rows:
            for own in _as_claimed(log, metrics):
                if claim.is_of(own):
                    return measure_worth(claim, own, delta=delta), True
        worth = evaluate_log(
            log, claim.policy, delta=delta, ordered=ordered, shuffle=shuffle, model=model, engine=engine
        )
        return worth, False
    with using_engine(STREAM if engine is None else engine) as who:
        source = as_engine_reads(log, who.name)
        if isinstance(claim, Certificate) and claim.summed and log.n_rows == claim.rows:
            for own in _as_claimed(log, metrics):
                read = survey_certified(claim, as_engine_reads(own, who.name), engine=who)
                if read.digest == claim.digest:
                    return measure_policy(read, claim, delta=delta), True
        worth = evaluate_log(
            source, claim.policy, delta=delta, ordered=ordered, shuffle=shuffle, model=model, engine=who
        )
        return worth, False


def check_were_no_features(claim: Claim, before: Log | FileSet, metrics: Sequence[MetricSpec]) -> None:
    """Raise InputError if the certificate was made from a log that was only not recognised for its new metrics.

    before: the log without these; metrics: those of the certificate. A metric that was a feature before changes the
    contexts, and the policy would be taken for one that was not chosen by this log.
    """
    if measure_claim(claim, before, metrics=metrics, delta=DEFAULT_DELTA, ordered=False)[1]:
        raise InputError(
            "the certificate was made from this log with a metric of --metric as a feature; leave that metric out, or "
            "certify the log again with it"
        )


def _as_claimed(log: Rows, metrics: Sequence[MetricSpec]) -> list[Rows]:
    """Return the log with all its metrics, with those of a certificate if it has them, and with none."""
    sets = dict.fromkeys((log.metrics, read_metrics(metrics), ()))
    return [log.only_metrics(some) for some in sets if set(some) <= set(log.metrics)]


def check_actions(mine: tuple[str, ...] | None, theirs: tuple[str, ...] | None) -> None:
    """Raise InputError if a policy and a log have different names for their actions."""
    if mine is not None and theirs is not None and mine != theirs:
        mine_said, theirs_said = (", ".join(plain(name) for name in names) for names in (mine, theirs))
        raise InputError(
            f"the policy decides between {mine_said}, and the log has {theirs_said}; take a log of the same actions"
        )
