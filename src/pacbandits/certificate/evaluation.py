"""How good a policy is by a log, in intervals: `pacbandits.certificate.values` says why they hold."""

from __future__ import annotations

import math

from pacbandits.certificate.bets import Bets
from pacbandits.certificate.bounding import slack_of
from pacbandits.certificate.certificate import ORDERED, ROUNDS, SHUFFLED, UNITS_SHUFFLED, Certificate, basic_assumptions
from pacbandits.certificate.conventions import EXPERT_STAKES
from pacbandits.certificate.moving import plan_moves
from pacbandits.certificate.summed.front import as_engine_reads, is_large
from pacbandits.certificate.summed.laying import survey, survey_certified
from pacbandits.certificate.survey import LogInMemory, LogSurvey
from pacbandits.certificate.watching import look
from pacbandits.certificate.worth import Confidence, Decided, Worth, compose_worth, rows_words
from pacbandits.checks import flag, instance
from pacbandits.confidence import check_delta, union_threshold
from pacbandits.engines import Engine, Local, LogSource, Source
from pacbandits.engines.registry import STREAM, THREADS, using_engine
from pacbandits.errors import InputError
from pacbandits.records import Chosen, Log, check_log
from pacbandits.records.lottery import check_chosen
from pacbandits.rewards import RewardModel, check_model, first_model, model_from_json


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
    """Bound the value and the gains of a policy that was not chosen by this log.

    log: what was seen and done; or files of it that are open, which may be larger than memory.
    policy: any, or a mixture of some. ordered, shuffle, model, engine: as for `certify`.
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


def evaluate_policy(rows: LogSurvey, policy: Chosen, *, delta: float = 0.05, model: RewardModel | None = None) -> Worth:
    """Do the work of `evaluate` for a log that was read once."""
    facts, wrong = rows.facts, check_delta(delta)
    if policy.n_actions != facts.n_actions:
        raise InputError(f"the policy is for {policy.n_actions} actions, and the log has {facts.n_actions}")
    used = first_model(rows.early) if model is None else check_model(model)
    bets = Bets(EXPERT_STAKES, (1.0,) * len(rows.counts))
    needed = union_threshold(log_size=0.0, experts=len(bets), delta=wrong / 2.0)
    weighing = rows.weigh(Decided.always(policy, bets.units > 0), bets, used, needed=needed)
    units, (low, high) = facts.units is not None, facts.reward_range
    order = (ROUNDS,) if rows.has_rounds else (ORDERED,) if rows.in_order else ()
    if rows.shuffled:
        order = (UNITS_SHUFFLED if units else SHUFFLED,)
    basis = basic_assumptions(units=units, shuffled=rows.shuffled, in_order=rows.has_rounds or rows.in_order)
    sure = Confidence(
        wrong,
        shuffled=rows.shuffled,
        assumptions=(*basis, f"rewards lie in [{low:g}, {high:g}]", *order, *facts.assumed),
        checks=look(rows.watched),
        measured_by=f"all {facts.samples:,} rows",
    )
    return compose_worth(weighing, facts, sure, experts=len(bets))


def measure_worth(
    certificate: Certificate, log: Log, *, delta: float | None = None, model: RewardModel | None = None
) -> Worth | None:
    """How good the policy of a certificate is, from the log it was made from; None where that cannot be told.

    log: as it was read. delta: with what probability each interval may be wrong, by default that of the certificate.
    """
    c = instance(certificate, Certificate, name="certificate")
    check_log(log)
    if c.summed:
        rows = survey_certified(c, LogSource(c.of(log)), engine=Local(THREADS))
    else:
        rows = LogInMemory.certified(c, log)
    return measure_policy(rows, c, delta=delta, model=model)


def measure_policy(
    rows: LogSurvey, certificate: Certificate, *, delta: float | None = None, model: RewardModel | None = None
) -> Worth | None:
    """Do the work of `measure_worth` for the rows of a certificate, arranged as it says."""
    c, counts = certificate, rows.counts
    part, log_size, slack, bet_on = 1.0, 0.0, 0.0, certificate.bets.units > 0
    if c.leaders is None:
        if not math.isfinite(c.log_size):
            return None
        decided, log_size = Decided.always(c.policy, bet_on), c.log_size
    else:
        moves, ends = plan_moves(c.leaders, units=c.bets.units, counts=counts)
        if not ends.any():
            return None
        decided = Decided.led(c.leaders, moves, bet_on)
        part, slack = c.leaders.part(counts), slack_of(c.policy, c.leaders.policies, ends / ends.sum())
    used = model_from_json(c.model) if model is None else check_model(model)
    wrong = c.delta if delta is None else check_delta(delta)
    needed = union_threshold(log_size=log_size, experts=len(c.bets), delta=part * wrong / 2.0)
    weighing = rows.weigh(decided, c.bets, used, needed=needed)
    by_round = rows.rows_by_round
    sure = Confidence(
        wrong,
        log_size,
        slack,
        part,
        shuffled=c.shuffled,
        assumptions=c.assumptions,
        checks=c.checks,
        measured_by=rows_words(by_round[decided.counted].sum(), by_round.sum(), led=c.leaders is not None),
    )
    return compose_worth(weighing, rows.facts, sure, experts=len(c.bets))
