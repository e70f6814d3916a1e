"""Certify a log of any size: whatever is proven is sums over its rows, made where these are.

Bounded parts of the log teach how features are cut, what rewards to expect and who leads at first; every row bets. What
follows differs from `pacbandits.certificate.certify` in no proof, only in what a large log is learnt from; and sums are
of whole numbers, so that it is the same to the last bit wherever they are made.
"""

from __future__ import annotations

from dataclasses import replace

from pacbandits.certificate.bets import Bets
from pacbandits.certificate.certificate import MODEL_GIVEN, Certificate
from pacbandits.certificate.choosing import favourite_scores, marked_down
from pacbandits.certificate.claim import check_compared, check_distance_or_best, rounded_up
from pacbandits.certificate.conventions import EXPERT_STAKES, FIRST_EPSILON, MAX_TRIED_DISTANCES, delta_part
from pacbandits.certificate.learning import LearntClass
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.making import make_certificate
from pacbandits.certificate.summed.cost import card_bytes, check_engine_fits, foresee_work
from pacbandits.certificate.summed.evidence import SummedEvidence
from pacbandits.certificate.summed.laying import LaidOut, Surveyed, lay_out, learn_policies, survey_for
from pacbandits.certificate.summed.limits import LIMITS, Limits
from pacbandits.certificate.watching import look
from pacbandits.confidence import check_delta
from pacbandits.engines import Engine, Source
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Policy
from pacbandits.rewards import RewardModel, check_model


def certify_source(
    source: Source,
    policies: PolicyClass | LearntClass | str,
    *,
    engine: Engine,
    epsilon: float | None = None,
    delta: float = 0.05,
    contexts: Contexts | None = None,
    model: RewardModel | None = None,
    ordered: bool = False,
    shuffle: bool = False,
    single: bool = False,
    limits: Limits = LIMITS,
) -> Certificate:
    """What the rows of a source prove of the policy they favour; see `pacbandits.certificate.certify`.

    engine: who adds up. limits: what is learnt from how many rows.
    """
    work = foresee_work(source, policies, contexts=contexts, ordered=ordered)
    if work is not None:
        check_engine_fits(work, engine=engine.name, card_bytes=card_bytes(engine))
    surveyed = survey_for(
        source, policies, engine=engine, contexts=contexts, ordered=ordered, shuffle=shuffle, limits=limits
    )
    learnt = learn_policies(surveyed, policies, contexts)
    return certify_surveyed(surveyed, learnt, engine=engine, epsilon=epsilon, delta=delta, model=model, single=single)


def certify_surveyed(
    surveyed: Surveyed,
    learnt: LearntClass,
    *,
    engine: Engine,
    epsilon: float | None,
    delta: float,
    model: RewardModel | None = None,
    single: bool = False,
) -> Certificate:
    """The same of rows that were read for the first time, and a class that was learnt."""
    facts = surveyed.facts
    check_compared(surveyed.watched, fixed=facts.fixed_split)
    unit = facts.reward_range[1] - facts.reward_range[0]
    asked = FIRST_EPSILON * unit if epsilon is None else check_distance_or_best(facts, epsilon)
    check_delta(delta)
    if facts.n_actions != learnt.policies.n_actions:
        raise InputError(f"the log has {facts.n_actions} actions, but the policies have {learnt.policies.n_actions}")
    if asked == 0:
        raise InputError("that a policy is the best itself (epsilon 0) is proven in memory; leave the engine out")
    given = None if model is None else check_model(model)
    laid = lay_out(surveyed, learnt, engine=engine, model=given, single=single)
    evidence = _evidence(surveyed, learnt, laid, epsilon=asked / unit, delta=delta)
    favourite = _favourite(surveyed, learnt.policies, laid, epsilon=evidence.epsilon)
    certificate = replace(make_certificate(evidence, favourite)[0], epsilon=asked)
    for _ in range(MAX_TRIED_DISTANCES if epsilon is None else 0):
        found = rounded_up(certificate.certified_epsilon)
        if found >= unit or (certificate.certified and found >= certificate.epsilon):
            break
        again = replace(evidence, epsilon=found / unit)
        certificate = replace(make_certificate(again, favourite)[0], epsilon=found)
    looked = replace(certificate, checks=look(surveyed.watched))
    return looked if given is None else looked.with_remarks(MODEL_GIVEN)


def _evidence(
    surveyed: Surveyed, learnt: LearntClass, laid: LaidOut, *, epsilon: float, delta: float
) -> SummedEvidence:
    """What the rows say, with stakes by the rule; epsilon: of rewards in [0, 1]."""
    learning = learnt.learning
    spared = 0 if learning is None else learning.spared
    return SummedEvidence(
        surveyed.facts,
        laid.ledger,
        learnt.policies,
        Bets(EXPERT_STAKES, (1.0,) * laid.ledger.n_rounds, spared=spared),
        epsilon,
        delta,
        model=laid.model.to_json(),
        leaders=laid.leaders,
        part=delta_part(learnt.policies, led=laid.leaders is not None),
        ordered=surveyed.in_order,
        shuffled=surveyed.shuffled,
        by_rule=True,
        learning=learning,
        named=surveyed.digest,
    )


def _favourite(surveyed: Surveyed, policies: PolicyClass, laid: LaidOut, *, epsilon: float) -> Policy:
    """The policy that all rows favour; with leaders one of them, as it plays no part."""
    if laid.leaders is not None and laid.leaders.policies:
        return laid.leaders.policies[-1]
    early, ledger = surveyed.early, laid.ledger
    rows = Ledger.of(early, laid.predictions)
    scores = favourite_scores(rows, policies, all_propensities=early.least is None)[0]
    first = policies.argmax(rows.contexts, scores)
    gaps, squares = ledger.gaps(first, before=ledger.n_rounds)
    return ledger.summing.policies.argmax(ledger.contexts, marked_down(gaps, squares, epsilon=epsilon))
