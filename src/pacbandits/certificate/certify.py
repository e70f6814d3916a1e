"""Certify anyone's log: nothing is needed of the algorithm that collected it but its propensities."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pacbandits.certificate.bets import Bets
from pacbandits.certificate.certificate import MODEL_GIVEN, Certificate
from pacbandits.certificate.choosing import end_that_pays, find_favourite, informed_ledger, lead_log
from pacbandits.certificate.claim import check_asked, check_compared, check_distance_or_best, rounded_up
from pacbandits.certificate.conventions import (
    EXPERT_STAKES,
    FIRST_EPSILON,
    MAX_TRIED_DISTANCES,
    arrange,
    delta_part,
    has_rounds,
    settling_round,
    sizes_beforehand,
    worth_leading,
)
from pacbandits.certificate.learning import LearntClass, has_order, learn_from_blocks
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.making import Evidence, make_certificate
from pacbandits.certificate.summed.certify import certify_source, certify_surveyed
from pacbandits.certificate.summed.front import as_engine_reads, is_large
from pacbandits.certificate.summed.laying import Surveyed, learn_policies, survey_for
from pacbandits.checks import flag, instance
from pacbandits.confidence import check_delta
from pacbandits.engines import Engine, Local, LogSource, Source
from pacbandits.engines.registry import STREAM, THREADS, using_engine
from pacbandits.errors import InputError
from pacbandits.policies import Restrictions
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.costs import Searches, check_memory
from pacbandits.policies.summing import can_be_summed
from pacbandits.records import Contexts, Log, check_log
from pacbandits.rewards import RewardModel, check_model, first_model, predict_by_round

DEFAULT_CLASS = "trees:depth=2"
DEFAULT_DELTA = 0.05
CERTIFICATE_SEARCHES = Searches(argmaxes=20, frontiers=6)  # as counted on logs of trees; up to twice as many


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
) -> Certificate:
    """Certify the policy that a log favours. (`pacbandits.certify` also reads files and data frames.)

    log: what was seen and done, with propensities; or files of it that are open, which may be larger than memory.
    policies: the class to search, fixed before the log was seen, or what `learn_class` made; or the name of a class.
    epsilon: how near to the best, in the units of rewards, 0 for the best; without it, as near as the log proves.
    delta: with what probability of being wrong.
    contexts: from before the experiment, to learn a class from that is given by its name.
    restrictions: what policies must keep to, of a class that is given by its name: budgets, barred actions.
    model: the reward model, if not one that suits the contexts.
    ordered: whether the rows stand in the order in which they occurred.
    shuffle: whether neither propensities nor the end of the log depended on earlier rows, so that any order will do.
    single: whether a lottery between policies will not do.
    engine: who adds up over rows: `threads`, `stream`, `dask`, `cuda`, or one that was made; all give the same answer.

    The reward model of a round is fitted on the earlier ones. A log of a single round is cut into blocks, the first 256
    rows, then two fifths of what was before, and so on, if its rows are known to stand in the order in which they
    occurred (`ordered`), or any order will do: then they are shuffled first. With a fixed split, the same propensities
    in all rows, that is done without being asked for. Any other log of a single round goes without a model.

    Of a large class with rounds or blocks the best policy so far leads in each of them, and what is certified is a
    lottery between these leaders, in the end often one; `single` insists on that, and of shuffled rows it is so anyway.

    Where rewards are late (`Log.known`), those not in count at their worst; a certificate may then be of the first
    rounds alone, whose rewards are in.

    Logs of more than 262,144 rows, and those for which an engine is named, are certified by sums of whole numbers over
    rows: `pacbandits.certificate.summed` says what is then learnt from which rows. That needs trees of depth 2 at the
    most, or a class over contexts with ids.

    What speaks against the assumptions, signs of drift or of a mismatch of the sample ratio, is looked for, and the
    certificate's `checks` tell what was found. A class that is given by its name is learnt as by `learn_class`, which
    also hands it out: `verify` needs it.
    """
    if contexts is not None and not isinstance(policies, str):
        raise InputError("contexts are for a class that is given by its name; leave them out")
    asked = _Asked(
        epsilon,
        delta,
        contexts,
        restrictions,
        model,
        ordered=flag(ordered, name="ordered"),
        shuffle=flag(shuffle, name="shuffle"),
        single=flag(single, name="single"),
    )
    if engine is None and not isinstance(log, Source):
        check_compared(check_log(log))
        return _certify_log(log, policies, asked)
    with using_engine(STREAM if engine is None else engine) as who:
        source = log if isinstance(log, Source) else LogSource(check_log(log))
        return _certify_source(source, policies, asked, engine=who)


class _Asked(NamedTuple):
    """What is asked of a log, by the names that `certify` has for it."""

    epsilon: float | None
    delta: float
    contexts: Contexts | None
    restrictions: Restrictions | None
    model: RewardModel | None
    ordered: bool
    shuffle: bool
    single: bool


def _certify_source(
    source: Source, policies: PolicyClass | LearntClass | str, asked: _Asked, *, engine: Engine
) -> Certificate:
    """What rows prove by sums over them."""
    told = next(iter(source.blocks(0, 1)))
    check_asked_early(told, asked.epsilon, asked.delta, whole=False)
    return certify_source(
        as_engine_reads(source, engine.name),
        restricted_class(policies, asked.restrictions, told),
        engine=engine,
        epsilon=asked.epsilon,
        delta=asked.delta,
        contexts=asked.contexts,
        model=asked.model,
        ordered=asked.ordered,
        shuffle=asked.shuffle,
        single=asked.single,
    )


def _certify_log(log: Log, policies: PolicyClass | LearntClass | str, asked: _Asked) -> Certificate:
    """What a log in memory proves: by sums where it is large, and the class is searched by them."""
    epsilon, delta, model = asked.epsilon, asked.delta, asked.model
    check_asked_early(log, epsilon, delta, whole=False)
    policies = restricted_class(policies, asked.restrictions, log)
    if is_large(log) and epsilon != 0 and (found := _by_sums(log, policies, asked)) is not None:
        who = Local(THREADS)
        return certify_surveyed(*found, engine=who, epsilon=epsilon, delta=delta, model=model, single=asked.single)
    blocks, shuffled = arrange(log, ordered=asked.ordered, shuffle=asked.shuffle)
    if isinstance(policies, str):
        policies = learn_from_blocks(policies, blocks, asked.contexts)
    learnt = policies if isinstance(policies, LearntClass) else LearntClass(policies, None)
    unit = log.reward_range[1] - log.reward_range[0]
    first = FIRST_EPSILON * unit if epsilon is None else epsilon
    distance, delta = check_asked(log, learnt.policies, epsilon=first, delta=delta)
    evidence, by = _lay_out(
        blocks,
        learnt,
        distance / unit,
        delta,
        model=first_model(blocks) if model is None else check_model(model),
        ordered=blocks is not log and not has_rounds(log),
        shuffled=shuffled,
        single=asked.single,
    )
    looked = _proven(evidence, by, log, asked=distance, nearest=epsilon is None).looked_at(log)
    looked = looked if model is None else looked.with_remarks(MODEL_GIVEN)
    if (part := _first_rounds(log, learnt, epsilon=distance / unit)) is None:
        return looked
    plain = asked._replace(contexts=None, restrictions=None, ordered=False, shuffle=False)
    return min(looked, _certify_log(part, learnt, plain), key=lambda one: one.certified_epsilon)


def _by_sums(log: Log, policies: PolicyClass | LearntClass | str, asked: _Asked) -> tuple[Surveyed, LearntClass] | None:
    """A large log read for the first time, and the class; None for a class that needs all rows at once."""
    who, known = Local(THREADS), asked.contexts
    surveyed = survey_for(
        LogSource(log), policies, engine=who, contexts=known, ordered=asked.ordered, shuffle=asked.shuffle
    )
    learnt = learn_policies(surveyed, policies, known)
    return (surveyed, learnt) if can_be_summed(learnt.policies) else None


def _proven(evidence: Evidence, by: Ledger | None, log: Log, *, asked: float, nearest: bool) -> Certificate:
    """What is proven at the distance asked for, or at the nearest that the evidence proves; by: as for `_made`."""
    unit = log.reward_range[1] - log.reward_range[0]
    certificate = replace(_made(evidence, by), epsilon=asked, rows=len(log))
    for _ in range(MAX_TRIED_DISTANCES if nearest else 0):
        found = rounded_up(certificate.certified_epsilon)
        if found >= unit or (certificate.certified and found >= certificate.epsilon):
            break
        certificate = replace(_made(replace(evidence, epsilon=found / unit), by), epsilon=found, rows=len(log))
    return certificate


def _first_rounds(log: Log, learnt: LearntClass, *, epsilon: float) -> Log | None:
    """The first rounds of a log, where these may prove more as rewards of later ones are out; ε: of those in [0, 1]."""
    end = end_that_pays(log, epsilon=epsilon)
    if end is None:
        return None
    part = log.only(log.rounds < end)
    spared = 0 if learnt.learning is None else learnt.learning.spared
    return part if len(np.unique(part.rounds)) > spared else None


def check_asked_early(log: Log, epsilon: float | None, delta: float, *, whole: bool = True) -> None:
    """Raise, before a class is learnt, where ε or δ cannot be asked for; whole: whether these are all rows."""
    check_compared(log, fixed=whole)
    check_delta(delta)
    if epsilon is not None:
        check_distance_or_best(log, epsilon)


def restricted_class(
    policies: PolicyClass | LearntClass | str, restrictions: Restrictions | None, log: Log
) -> PolicyClass | LearntClass | str:
    """What was given for the class, with restrictions as options of its name."""
    if restrictions is None:
        return policies
    if not isinstance(policies, str):
        raise InputError("restrictions are for a class that is given by its name; give learn_class the whole spec")
    return instance(restrictions, Restrictions, name="restrictions").for_log(policies, log)


def _lay_out(
    blocks: Log,
    learnt: LearntClass,
    epsilon: float,
    delta: float,
    *,
    model: RewardModel,
    ordered: bool,
    shuffled: bool,
    single: bool,
) -> tuple[Evidence, Ledger | None]:
    """What a log says, with predictions, stakes and leaders by the rule; and the rows that a favourite is found by.

    blocks: the log, cut into blocks if it has an order. epsilon: of rewards in [0, 1]. ordered: whether the log was
    cut. shuffled: whether its rows were shuffled before. single: whether a lottery will not do.
    """
    policies, learning = learnt.policies, learnt.learning
    predictions = predict_by_round(blocks, model)
    spared = 0 if learning is None else learning.spared
    cut = blocks if learning is None else learning.set_apart(blocks)
    ledger = Ledger.of(cut, predictions)
    check_memory(policies, len(ledger.contexts))
    leaders = None
    if epsilon > 0 and worth_leading(policies) and has_order(blocks):
        sizes = sizes_beforehand(blocks, in_order=ordered, shuffled=shuffled)
        settled = settling_round(blocks, spared) if shuffled else None
        leaders = lead_log(
            blocks, predictions, policies, sizes=sizes, spared=spared, single=single and not shuffled, settled=settled
        )
    evidence = Evidence(
        cut,
        ledger,
        policies,
        Bets(EXPERT_STAKES, (1.0,) * ledger.n_rounds, spared=spared),
        epsilon,
        delta,
        model=model.to_json(),
        leaders=leaders,
        part=delta_part(policies, led=leaders is not None),
        ordered=ordered,
        shuffled=shuffled,
        by_rule=True,
        learning=learning,
    )
    return evidence, informed_ledger(cut, ledger, predictions)


def _made(evidence: Evidence, by: Ledger | None) -> Certificate:
    """The certificate of the policy that the evidence favours; by: its rows whose rewards are in, if any is."""
    log, policies, contexts = evidence.log, evidence.policies, evidence.ledger.contexts
    complete = not isinstance(log, Log) or log.least is None
    if by is None:
        favourite = policies.argmax(contexts, np.zeros((len(contexts), policies.n_actions)))
    else:
        favourite = find_favourite(by, policies, epsilon=evidence.epsilon or None, all_propensities=complete)
    return make_certificate(evidence, favourite)[0]
