"""Certify a log: survey → learn → lead → bet → make → worth, for rows in memory and in files.

A log needs propensities; any algorithm may have collected it. `certify_rows` is the only flow. It reads rows through a
`LogSurvey`, which has two implementations: floats for a log in memory, whole-number sums over the blocks of a source
for large logs and engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.certificate.alarms import look, look_along_file, look_by_content
from pacbandits.certificate.certificate import CONTROL, MODEL_GIVEN, ONE_ACTION, RULE, Certificate, Improvement
from pacbandits.certificate.claim import check_asked, check_compared, check_distance_or_best, rounded_up
from pacbandits.certificate.conventions import (
    EXPERT_STAKES,
    FIRST_EPSILON,
    MAX_TRIED_DISTANCES,
    Bets,
    delta_part,
    worth_leading,
)
from pacbandits.certificate.gains import improve_on, measure_metrics
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.learning import LearntClass, check_taught, learn_arranged
from pacbandits.certificate.making import Evidence, make_certificate
from pacbandits.certificate.summed.arrangement import ByContent
from pacbandits.certificate.summed.cost import card_bytes, check_engine_fits, foresee_work, foretell_engine
from pacbandits.certificate.summed.limits import LIMITS, RowLimits
from pacbandits.certificate.summed.survey import (
    Surveyed,
    as_engine_reads,
    is_large,
    learn_policies,
    survey,
    survey_certified,
    survey_for,
)
from pacbandits.certificate.survey import LogInMemory, LogSurvey
from pacbandits.certificate.worth import Worth, evaluate_policy, measure_policy
from pacbandits.checks import flag, instance
from pacbandits.confidence import LEADERS_PART, check_asked_delta, recommended_part
from pacbandits.engines import Engine, Local, LogSource, Source
from pacbandits.engines.registry import STREAM, THREADS, using_engine
from pacbandits.errors import InputError, as_called, count_of, nearest, plain
from pacbandits.policies import Restrictions
from pacbandits.policies.base import PolicyClass, Searches, count_rows, foretell
from pacbandits.policies.constraints import without_feature
from pacbandits.policies.summation import can_be_summed
from pacbandits.progress import Progress, silent
from pacbandits.records import Chosen, Contexts, Log, Policy, check_log
from pacbandits.records.metrics import Guardrail, check_denominators
from pacbandits.records.policy import call, check_chosen
from pacbandits.rewards import RewardModel, check_model, first_model, lighter

DEFAULT_CLASS = "trees:depth=2"
DEFAULT_DELTA = 0.05
CERTIFICATE_SEARCHES = Searches(argmaxes=20, frontiers=6)  # as counted on logs of trees; up to twice as many


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of `certify`.

    restrict: a function that returns the restrictions for a log. control: the name of the action that is today's
    practice. improve: whether to prove the gain over it, and to recommend by that. block: the feature of the blocks of
    a trial, which reward models may use and trees that are given by name may not. guardrails: limits to how
    much worse than control the policy may be in metrics of the log.
    """

    policies: PolicyClass | LearntClass | str = DEFAULT_CLASS
    restrictions: Restrictions | None = None
    restrict: Callable[[Log], Restrictions] | None = None
    epsilon: float | None = None
    delta: float = DEFAULT_DELTA
    contexts: Contexts | None = None
    model: RewardModel | None = None
    ordered: bool = False
    shuffle: bool = False
    single: bool = False
    control: str | None = None
    improve: bool = True
    block: str | None = None
    guardrails: tuple[Guardrail, ...] = ()

    @property
    def asks_gain(self) -> bool:
        """Whether a gain over control is asked for; else the distance from the best alone, or the best itself."""
        return self.improve and self.control is not None and self.epsilon != 0

    def __post_init__(self) -> None:
        if self.guardrails and self.control is None:
            raise InputError(
                f"guardrail '{plain(self.guardrails[0].spelt)}' compares with control; say which action that is "
                "(--control NAME)"
            )

    def check(self, log: Log, *, whole: bool = True) -> PolicyClass | LearntClass | str:
        """Return the class with its restrictions; raise InputError if the log does not fit the request.

        whole: whether these are all rows of the log.
        """
        if self.contexts is not None and not isinstance(self.policies, str):
            raise InputError("contexts are for a class that is given by its name; leave them out")
        check_compared(log, fixed=whole)
        check_asked_delta(self.delta)
        if self.epsilon is not None:
            check_distance_or_best(log, self.epsilon)
        if self.control is not None:
            action_number(self.control, log, of="--control")
        for rail in self.guardrails:
            rail.check(log.metrics)
        if whole:
            check_denominators(log.metrics, log.metric_values)
        restrictions, policies = self.restrictions if self.restrict is None else self.restrict(log), self.policies
        if restrictions is not None:
            if not isinstance(policies, str):
                raise InputError(
                    "restrictions are for a class that is given by its name; give learn_class the whole spec"
                )
            policies = instance(restrictions, Restrictions, name="restrictions").for_log(policies, log)
        if self.block in log.contexts.names and isinstance(policies, str):
            policies = without_feature(policies, str(self.block))
        return policies


def action_number(name: str | None, log: Log, *, of: str) -> int | None:
    """Return the number of the action with this name; of: the option that names it, for messages."""
    if name is None:
        return None
    known = log.action_names or tuple(str(action) for action in range(log.n_actions))
    if name not in known:
        raise InputError(f"{of} names '{plain(name)}', which is no action{nearest(name, known)}")
    return known.index(name)


NO_ORDER = "the rows have no order in which a policy is chosen before the rows that prove its gain"
ORDER_REMEDY = (
    "say that they stand in the order of time (--time COLUMN, --ordered) or that any order is valid (--shuffle)"
)
ROUNDS_REMEDY = "use a log with more rounds: late rewards and repeated interactions have no other order"
SINGLE, SINGLE_REMEDY = "--single proves no gain of rows in their own order", "leave it out"
FEW = "no policy is chosen by rewards that are known before a later round"
FEW_REMEDY = "use a log with more rows or more rounds"


@dataclass(frozen=True, eq=False)
class Question:
    """What a log was asked, and whether its certificate proves it; exit codes, JSON and sentences follow from this.

    certificate: the certificate that was made.
    control: the number of the action over which a gain was asked for; None if the distance from the best was, alone.
    obstacle: the reason why the certificate has no bounds on gains, and the remedy, if a gain was asked for.
    epsilon: the distance that was asked for; None for the smallest.
    """

    certificate: Certificate
    control: int | None = None
    obstacle: tuple[str, str] | None = None
    epsilon: float | None = None

    @classmethod
    def of(cls, certificate: Certificate, read: LogSurvey, request: Request) -> Question:
        """Return the question of a request, and whether the certificate of these rows can answer it."""
        if not request.asks_gain:
            return cls(certificate, epsilon=request.epsilon)
        control = action_number(request.control, read.watched, of="--control")
        if certificate.improvement is not None:
            return cls(certificate, control, epsilon=request.epsilon)
        obstacle = FEW, FEW_REMEDY
        if not (read.has_rounds or read.in_order):
            stuck = read.watched.known is not None or read.watched.repeats.max() > 1
            obstacle = NO_ORDER, ROUNDS_REMEDY if stuck else ORDER_REMEDY
        elif request.single and not read.shuffled:
            obstacle = SINGLE, SINGLE_REMEDY
        return cls(certificate, control, obstacle, request.epsilon)

    @property
    def gain(self) -> float | None:
        """The proven gain over control, in the units of rewards; None if none is proven."""
        improvement = self.certificate.improvement
        found = None if improvement is None else improvement.recommended
        return None if found is None else found.low

    @property
    def proven(self) -> bool:
        """Whether all that was asked for is proven: the gain and its guardrails, or the distance; both if ε was."""
        if self.control is None:
            return self.certificate.certified
        improvement = self.certificate.improvement
        harmless = improvement is not None and not improvement.open_guardrails
        return self.gain is not None and harmless and (self.epsilon is None or self.certificate.certified)

    def alarms(self, worth: Worth | None) -> tuple[str, ...]:
        """Return the contradictions between log and assumptions: a failed check, or an empty interval of the value."""
        return self.certificate.alarms or (() if worth is None else worth.alarms)

    def answered(self, worth: Worth | None) -> bool:
        """Return whether what was asked for is proven, and nothing in the log contradicts an assumption."""
        return self.proven and not self.alarms(worth)

    def describe_distance(self) -> str:
        """Return a sentence, after a space, on a requested ε that is not proven; else nothing."""
        if self.certificate.certified or not self.epsilon:
            return ""
        return as_called(f" The distance that was asked for (--epsilon {self.epsilon:g}) is not proven yet.")

    def describe_obstacle(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return a sentence on why no gain is proven, with the remedies, if there is such a reason; names (A,)."""
        if self.obstacle is None or self.control is None:
            return ()
        why, remedy, alone = map(as_called, (*self.obstacle, "--best-only asks for the distance from the best alone"))
        control = call(self.control, names)
        return (f"The certificate proves no gain over {control}, as {why}. To prove one, {remedy}; {alone}.",)


@dataclass(frozen=True, eq=False)
class CertifiedLog:
    """A certified log.

    certificate: the claim with its proof.
    question: what was asked, and whether it is proven.
    policies: the policy class.
    survey: the rows that the certificate was made from.
    model: the reward model, if one was given.
    evidence: for this certificate and for others of the same rows.
    """

    certificate: Certificate
    question: Question
    policies: PolicyClass
    survey: LogSurvey
    model: RewardModel | None = None
    evidence: Evidence | None = None

    def measure(self) -> Worth | None:
        """Return bounds on the value, gains and metrics of the certified policy; None if the log gives none."""
        worth = measure_policy(self.survey, self.certificate, model=self.model)
        return None if worth is None else replace(worth, metrics=measure_metrics(self.survey, self.certificate))

    def certify_candidate(self, name: str) -> Certificate | None:
        """Return the certificate that a candidate, or "control", would have; None if no gains are proven.

        Its distance from the best holds together with those of the others: each has its own part of δ.
        """
        gains, evidence = self.certificate.improvement, self.evidence
        if gains is None or evidence is None:
            return None
        if name == gains.chosen:
            return self.certificate
        leaders = gains.leaders_of(name)
        part = LEADERS_PART * recommended_part(control=name == CONTROL, candidates=len(gains.candidates))
        own = replace(evidence, leaders=leaders, part=part, improvement=None)
        return least_distance(own, lambda _: leaders.policies[-1], FIRST_EPSILON * self.certificate.unit, narrow=True)

    def rounds_of_sample(self, n_rows: int) -> IntArray | None:
        """Return the round of every k-th row, so many in all; None if it follows from the log in memory."""
        arrangement = self.survey.arrangement if isinstance(self.survey, Surveyed) else None
        if not isinstance(arrangement, ByContent):
            return None
        return arrangement.rounds[:: -(-self.survey.rows // n_rows)].astype(np.int64)

    def sample(self) -> Log:
        """Return the rows from which shares and means are reported: all, or every k-th with a count of k."""
        rows = self.survey.watched
        step = -(-self.survey.rows // len(rows))
        if step == 1:
            return rows
        words = f"how many rows a leaf or an action has is told by one row of {step:,}"
        return replace(rows, repeats=np.full(len(rows), step, dtype=np.int64), remarks=(*rows.remarks, words))


def certify(
    log: Log | Source,
    policies: PolicyClass | LearntClass | str = DEFAULT_CLASS,
    *,
    epsilon: float | None = None,
    delta: float = DEFAULT_DELTA,
    contexts: Contexts | None = None,
    restrictions: Restrictions | None = None,
    model: RewardModel | None = None,
    ordered: bool = False,
    shuffle: bool = False,
    single: bool = False,
    engine: Engine | str | None = None,
    limits: RowLimits = LIMITS,
) -> Certificate:
    """Certify the policy that a log favours. (`pacbandits.certify` also reads files and data frames.)

    log: a log with propensities; or a source that reads its rows from files, which may be larger than memory.
    policies: the class to search, fixed before the log was seen, or the result of `learn_class`; or the name of a
        class.
    epsilon: the distance from the best to prove, in units of rewards, 0 for the best itself; if omitted, the smallest
        that the log proves.
    delta: the probability of being wrong.
    contexts: contexts from before the experiment, to learn a class from that is given by its name.
    restrictions: budgets and excluded actions, for a class that is given by its name.
    model: the reward model, if not the default for these contexts.
    ordered: whether the rows stand in the order in which they occurred.
    shuffle: whether neither propensities nor the end of the log depended on earlier rows, so that any order will do.
    single: certify a single policy, not a mixture.
    engine: where sums over rows are computed: `threads`, `stream`, `dask`, `cuda`, or an engine; all give the same
        answer.
    limits: the numbers of rows that models, leaders and checks are computed from, if sums are by an engine.

    The reward model of a round is fitted on the earlier ones. A log of a single round is cut into blocks, the first 256
    rows, then two fifths of what was before, and so on, if its rows are known to stand in the order in which they
    occurred (`ordered`), or any order will do: then they are shuffled first. A log with a fixed split, the same
    propensities in all rows, is shuffled by default. Any other log of a single round is certified without a model.

    For a large class and a log with rounds or blocks, the best policy so far leads in each of them, and the certified
    policy is a mixture of these leaders, in the end often one; `single` enforces one, and shuffled rows always give
    one.

    If rewards are late (`Log.known`), pending ones count at their worst; a certificate may then be about the first
    rounds alone, whose rewards are known.

    Logs of more than 262,144 rows, and those for which an engine is named, are certified by sums of whole numbers over
    rows: `pacbandits.certificate.summed` says which rows each part is learnt from. That needs trees of depth 2 at the
    most, or a class over contexts with ids.

    The assumptions are tested for drift and for a sample-ratio mismatch; the certificate's `checks` record the results.
    A class that is given by its name is learnt as by `learn_class`, which also returns it: `verify` needs it.
    """
    request = Request(
        policies=policies,
        restrictions=restrictions,
        epsilon=epsilon,
        delta=delta,
        contexts=contexts,
        model=model,
        ordered=flag(ordered, name="ordered"),
        shuffle=flag(shuffle, name="shuffle"),
        single=flag(single, name="single"),
    )
    if engine is None and not isinstance(log, Source):
        return certify_rows(check_log(log), request).certificate
    source = log if isinstance(log, Source) else LogSource(check_log(log))
    with using_engine(STREAM if engine is None else engine) as who:
        return certify_rows(source, request, engine=who, limits=limits).certificate


def certify_rows(
    rows: Log | Source,
    request: Request,
    *,
    engine: Engine | None = None,
    limits: RowLimits = LIMITS,
    tell: Progress = silent,
    warn: Progress = silent,
) -> CertifiedLog:
    """Certify the policy that rows favour, and return it with the rows by which its value is measured.

    rows: a log in memory; or a source, whose rows an engine adds up. limits: as for `certify`. tell: called with a few
    words on progress. warn: called with a sentence before a step that takes long.
    """
    if isinstance(rows, Log):
        read, learnt = _survey_log(rows, request, tell=tell)
        if words := foretell(learnt.policies, count_rows(rows.contexts), CERTIFICATE_SEARCHES):
            warn(words)
        tell(f"certifying {count_of(rows.samples, 'interaction')}")
    else:
        assert engine is not None
        read, learnt = _survey_source(rows, request, engine=engine, limits=limits, warn=warn)
    made = certify_survey(read, learnt, request)
    if request.guardrails and made.certificate.improvement is None:
        why = "it limits a policy by its gain over control, and none was asked for; ask for one, or leave it out"
        if request.epsilon == 0:
            why = "--epsilon 0 asks for the best policy itself, and no gain; leave it out"
        if made.question.obstacle is not None:
            why = "; ".join(made.question.obstacle)
        raise InputError(f"guardrail '{plain(request.guardrails[0].spelt)}' cannot be tested: {why}")
    return made


def _survey_log(log: Log, request: Request, *, tell: Progress) -> tuple[LogSurvey, LearntClass]:
    """Read a log in memory and learn the class; by sums if the log is large and the class can be searched by them."""
    policies = request.check(log)
    if isinstance(policies, str):
        tell("learning the policy class")
    ordered, shuffle = request.ordered, request.shuffle
    if is_large(log) and request.epsilon != 0:
        source, who = LogSource(log), Local(THREADS)
        summed = survey_for(source, policies, engine=who, contexts=request.contexts, ordered=ordered, shuffle=shuffle)
        learnt = learn_policies(summed, policies, request.contexts)
        if can_be_summed(learnt.policies):
            return summed, learnt
    read = LogInMemory.arranged(log, ordered=ordered, shuffle=shuffle)
    if isinstance(policies, str):
        learnt = learn_arranged(policies, read.early, request.contexts)
    else:
        learnt = policies if isinstance(policies, LearntClass) else LearntClass(policies, None)
        check_taught(learnt, lambda spec: learn_arranged(spec, read.early, None))
    return read.set_apart(learnt.learning), learnt


def _survey_source(
    source: Source, request: Request, *, engine: Engine, limits: RowLimits, warn: Progress
) -> tuple[Surveyed, LearntClass]:
    """Read the rows of a source once and learn the class; raise InputError if the engine has too little memory."""
    policies, contexts = request.check(next(iter(source.blocks(0, 1))), whole=False), request.contexts
    work = foresee_work(source, policies, contexts=contexts, ordered=request.ordered)
    if work is not None:
        check_engine_fits(work, engine=engine.name, card_bytes=card_bytes(engine))
        if words := foretell_engine(work, engine=engine.name):
            warn(words)
    read = survey_for(
        as_engine_reads(source, engine.name),
        policies,
        engine=engine,
        contexts=contexts,
        ordered=request.ordered,
        shuffle=request.shuffle,
        limits=limits,
    )
    check_compared(read.watched, fixed=read.facts.fixed_split)
    return read, learn_policies(read, policies, contexts)


def certify_survey(read: LogSurvey, learnt: LearntClass, request: Request) -> CertifiedLog:
    """Certify rows that were read once, for a learnt class: choose leaders, bet, and make the certificate."""
    policies, facts, model = learnt.policies, read.facts, request.model
    unit = facts.reward_range[1] - facts.reward_range[0]
    first = FIRST_EPSILON * unit if request.epsilon is None else request.epsilon
    asked, delta = check_asked(facts, policies, epsilon=first, delta=request.delta)
    used = first_model(read.early) if model is None else check_model(model)
    control = action_number(request.control, read.watched, of="--control") if request.asks_gain else None
    laid = read.lay_out(learnt, model=used, single=request.single, led=asked > 0, always=control is not None)
    leaders, part = laid.leaders, delta_part(policies, led=laid.leaders is not None)
    improvement = None
    if control is not None and leaders is not None and not leaders.restarts:
        improvement = prove_gain(read, learnt, leaders, control, request, delta=delta, model=used)
        if improvement is not None:
            leaders = improvement.leaders
            kept = improvement.recommended is None
            part = LEADERS_PART * recommended_part(control=kept, candidates=len(improvement.candidates))
    if improvement is None and not worth_leading(policies):  # leaders of small classes are for gains alone
        leaders, part = None, delta_part(policies, led=False)
    evidence = Evidence(
        facts,
        laid.ledger,
        policies,
        Bets(EXPERT_STAKES, (1.0,) * laid.ledger.n_rounds, spared=learnt.spared),
        asked / unit,
        delta,
        model=used.to_json(),
        leaders=leaders,
        part=part,
        ordered=read.in_order,
        shuffled=read.shuffled,
        by_rule=True,
        learning=learnt.learning,
        digest=read.digest,
        limits=read.limits,
        improvement=improvement,
    )

    made = replace(least_distance(evidence, laid.favourite, asked, narrow=request.epsilon is None), rows=read.rows)
    if made.any_file_order:
        along_file = look_along_file(read.watched)
        made = replace(made, checks=look_by_content(read.early), along_file=along_file)
    else:
        made = replace(made, checks=look(read.watched, shuffled=read.shuffled))
    made = made if model is None else made.with_remarks(MODEL_GIVEN)
    whole = CertifiedLog(made, Question.of(made, read, request), policies, read, model, evidence)
    part = read.first_rounds(learnt, epsilon=evidence.epsilon)
    if part is None:
        return whole
    found = (whole, certify_survey(part, learnt, request))
    with_gains = [one for one in found if one.certificate.improvement is not None]
    return min(with_gains or found, key=lambda one: one.certificate.certified_epsilon)


def least_distance(
    evidence: Evidence, favourite: Callable[[float], Policy], asked: float, *, narrow: bool
) -> Certificate:
    """Return the certificate at the distance that was asked for; narrow: at the smallest that is proven, if smaller.

    asked: in the units of rewards. favourite: by ε, for rewards in [0, 1].
    """
    unit = evidence.log.reward_range[1] - evidence.log.reward_range[0]

    def make(distance: float) -> Certificate:
        tried = replace(evidence, epsilon=distance / unit)
        return replace(make_certificate(tried, favourite(tried.epsilon))[0], epsilon=distance)

    made = make(asked)
    for _ in range(MAX_TRIED_DISTANCES if narrow else 0):
        found = rounded_up(made.certified_epsilon)
        if found >= unit or (made.certified and found >= made.epsilon):
            break
        made = make(found)
    return made


def prove_gain(
    read: LogSurvey,
    learnt: LearntClass,
    leaders: Leaders,
    control: int,
    request: Request,
    *,
    delta: float,
    model: RewardModel,
) -> Improvement | None:
    """Bound the gains of the rule that leads, and of one action for everybody if the class allows that."""
    candidates, limited = {RULE: leaders}, learnt.learning is not None and learnt.learning.restricted
    if learnt.policies.budget == math.inf and not (limited or learnt.policies.withdrawn or learnt.policies.excludes):
        candidates[ONE_ACTION] = read.lead_single_actions(learnt, model=model, single=request.single)
    rails, spared = request.guardrails, learnt.spared
    return improve_on(read, control, candidates, delta=delta, spared=spared, model=model, guardrails=rails)


def improve_by_rounds(
    read: LogSurvey, learnt: LearntClass, request: Request, *, model: RewardModel
) -> Improvement | None:
    """Return the gains that `certify_survey` proves of these rows, and nothing else; None if no candidate has led.

    Of a log with rounds they hold at all analyses together, so that a trial may stop by them: the first rounds of a
    longer log have the same leaders, predictions and stakes, and so the same wealth.
    """
    control = action_number(request.control, read.watched, of="--control")
    leaders = read.lay_out(learnt, model=model, single=request.single, led=True, always=True).leaders
    if control is None or leaders is None:
        return None
    return prove_gain(read, learnt, leaders, control, request, delta=request.delta, model=model)


def foresee_gain(log: Log, request: Request) -> Improvement | None:
    """Return the gains that `certify_rows` would prove of a log, and nothing else; None if it has too few rows.

    The reward model lacks its slow part, which moves bounds by a few hundredths of their distance: this is for plans.
    """
    read, learnt = _survey_log(log, request, tell=silent)
    return improve_by_rounds(read, learnt, request, model=lighter(first_model(read.early)))


def evaluate(
    log: Log | Source,
    policy: Chosen,
    *,
    delta: float = 0.05,
    ordered: bool = False,
    shuffle: bool = False,
    model: RewardModel | None = None,
    engine: Engine | str | None = None,
) -> Worth:
    """Return bounds on the value and the gains of a policy that was not chosen by this log.

    log: a log; or a source that reads its rows from files, which may be larger than memory.
    policy: any policy or mixture policy. ordered, shuffle, model, engine: as for `certify`.
    """
    check_chosen(policy)
    in_order, any_order = flag(ordered, name="ordered"), flag(shuffle, name="shuffle")
    if engine is None and isinstance(log, Log) and not is_large(log):
        read = LogInMemory.arranged(check_log(log), ordered=in_order, shuffle=any_order)
        return evaluate_policy(read, policy, delta=delta, model=model)
    source = log if isinstance(log, Source) else LogSource(check_log(log))
    usual = THREADS if isinstance(log, Log) else STREAM
    with using_engine(usual if engine is None else engine) as who:
        rows = as_engine_reads(source, who.name)
        surveyed = survey(rows, engine=who, spec=None, ordered=in_order, shuffle=any_order, digested=False)
        return evaluate_policy(surveyed, policy, delta=delta, model=model)


def measure_worth(
    certificate: Certificate, log: Log, *, delta: float | None = None, model: RewardModel | None = None
) -> Worth | None:
    """Return bounds on the value and gains of a certificate's policy; None if the log gives none.

    log: the certificate's log, as it was read. delta: the probability that each interval is wrong (default: the
        certificate's).
    """
    c = instance(certificate, Certificate, name="certificate")
    check_log(log)
    if c.summed:
        rows = survey_certified(c, LogSource(c.of(log)), engine=Local(THREADS))
    else:
        rows = LogInMemory.certified(c, log)
    return measure_policy(rows, c, delta=delta, model=model)
