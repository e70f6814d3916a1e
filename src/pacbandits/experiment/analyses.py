"""Interim analyses: certificate, remaining sample size, segments, and the guardrail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats
from pacbandits.certificate import Certificate, Interval, Ledger, Worth, evaluate, measure_worth
from pacbandits.certificate.alarms import AssumptionCheck, look
from pacbandits.certificate.claim import rounded_outward
from pacbandits.checks import instance
from pacbandits.design import Shifted, price_propensities
from pacbandits.errors import InputError, plain
from pacbandits.experiment.database import spell
from pacbandits.experiment.protocol import ExperimentProtocol, GuardrailRule
from pacbandits.experiment.rounds import played_rounds
from pacbandits.planning.assumptions import Forecast
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.trees.tree_policy import AtMost, Is, Node, Test, TreePolicy
from pacbandits.records import Contexts, Log, Policy, likeliest
from pacbandits.records.column_types import say_number
from pacbandits.records.metrics import Metric, metric_columns
from pacbandits.rewards import model_from_json
from pacbandits.schema import Json
from pacbandits.trials.coda import Findings, gap_task
from pacbandits.trials.forecast import MAX_ROWS_LOOKED_AT, look_ahead
from pacbandits.trials.late_rewards import PlayedRound, catch_up, leaders_again
from pacbandits.trials.trial import Trial, TrialState

if TYPE_CHECKING:
    from pacbandits.experiment.store import Snapshot


# The remaining sample size and duration, and the sample size of a plain trial.


MIN_TRAFFIC_SECONDS, MIN_TRAFFIC_ROWS = 60.0, 10  # needed to estimate the traffic
TRAFFIC_SECONDS = 7 * 86_400.0  # the traffic is that of the last week, as days of the week differ
LEAST_PROPENSITY = 1e-9  # replaces 0, so that prices are finite


@dataclass(frozen=True)
class ToGo:
    """An estimate, within a factor of about 2, of the data still needed to certify the ε of the protocol.

    samples: additional sample size; None if the data do not suffice to estimate it.
    days: the days this takes at the recent traffic; None if unknown.
    plain_trial: total sample size of a plain randomised trial; None if unknown.
    plan: the forecast of the plan, if there was one.
    """

    samples: int | None
    days: float | None
    plain_trial: int | None
    plan: Forecast | None

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        plan = None if self.plan is None else self.plan.to_json()
        return {"samples": self.samples, "days": self.days, "plain_trial": self.plain_trial, "plan": plan}


def look_forward(
    certificate: Certificate | None,
    log: Log | None,
    policies: PolicyClass,
    *,
    a_day: float | None,
    plan: Forecast | None,
) -> ToGo | None:
    """Estimate the data still needed, from a log; None if there is neither a certificate nor a plan.

    a_day: users per day. The sample size of a plain trial is that of this one times the ratio of their prices, where
    the price is the largest V/d² over policies: of uniform exploration, and of all that was played.
    """
    seen = None if log is None else log.rows_in()
    if certificate is None or seen is None:
        foretold = None if plan is None or plan.plain_trial is None else round(plan.plain_trial)
        return None if plan is None else ToGo(None, None, foretold, plan)
    more = 0.0 if certificate.certified else float(look_ahead(certificate, seen, policies)[1].same)
    if not math.isfinite(more):
        return ToGo(None, None, None, plan)
    times = _plain_price(certificate, seen, policies)
    whole = (certificate.independent + more) * times
    return ToGo(
        round(more),
        None if a_day is None else more / a_day,
        round(whole) if math.isfinite(whole) else None,
        plan,
    )


def people_a_day(at: IntArray, *, now: int) -> float | None:
    """Return the recent number of users per day; None if there are too few data.

    at (n,): times of assignment in microseconds, in order.
    """
    if len(at) < MIN_TRAFFIC_ROWS:
        return None
    since = max(int(at[0]), now - round(TRAFFIC_SECONDS * 1e6))
    seconds = (now - since) / 1e6
    count = int(len(at) - np.searchsorted(at, since))
    if seconds < MIN_TRAFFIC_SECONDS or count == 0:
        return None
    return count / seconds * 86_400.0


def _plain_price(certificate: Certificate, seen: Log, policies: PolicyClass) -> float:
    """Return the price of uniform exploration divided by that of the propensities played."""
    rows = np.linspace(0, len(seen) - 1, MAX_ROWS_LOOKED_AT).astype(np.int64)
    part = seen if len(seen) <= MAX_ROWS_LOOKED_AT else seen.take(rows)
    fitted = model_from_json(certificate.model).fit(part)
    ledger = Ledger.of(part, fitted.predict(part.contexts))
    played, epsilon, n = ledger.mean_propensities, certificate.unit_epsilon, policies.n_actions
    findings = Findings(ledger, None, played, likeliest(certificate.policy), fitted, n / (2.0 * epsilon**2))
    task = gap_task(findings, policies, epsilon=epsilon, floor=0.0, standard_errors=0.0)
    task = replace(task, scale=Shifted(epsilon, 1.0))
    gone = policies.withdrawn
    even: FloatArray = np.ones(played.shape)
    even[:, list(gone)] = 0.0
    even /= even.sum(axis=1, keepdims=True)
    plain, same = (price_propensities(task, np.maximum(p, LEAST_PROPENSITY)).upper for p in (even, played))
    return float(plain / same) if same > 0 else math.inf


# The segments of a policy: their conditions in words, their sizes, and the actions they were given.


EVERYBODY = "everybody"
MAX_LEAVES = 256  # reported


@dataclass(frozen=True)
class SegmentAnalysis:
    """A segment: the people to whom a policy gives the same action for the same reason.

    where: the condition of the segment, in words.
    share: its share of all people.
    action: the action that the policy takes.
    shares: share of the segment's people who got each action, by name; empty if the segment is.
    """

    where: str
    share: float
    action: str
    shares: dict[str, float]

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {"where": self.where, "share": self.share, "action": self.action, "shares": self.shares}


def leaves_of(policy: Policy, log: Log, actions: tuple[str, ...]) -> tuple[SegmentAnalysis, ...]:
    """Return the segments of a policy: the leaves of a tree from the left; else one for each action it takes.

    log: contexts and actions played. actions (A,): names.
    """
    contexts, played = log.contexts, log.actions
    if isinstance(policy, TreePolicy):
        parts = _tree_parts(policy.root, contexts, np.ones(len(contexts), dtype=np.bool_), ())
    else:
        given = policy(contexts)
        taken: list[int] = np.unique(given).tolist()
        parts = [(f"where it says {plain(actions[a])}", given == a, a) for a in taken]
    return tuple(_leaf(where, inside, action, played, actions) for where, inside, action in parts[:MAX_LEAVES])


def _leaf(where: str, inside: BoolArray, action: int, played: IntArray, actions: tuple[str, ...]) -> SegmentAnalysis:
    counts = np.bincount(played[inside], minlength=len(actions))
    total = int(counts.sum())
    shares = {name: float(count / total) for name, count in zip(actions, counts, strict=True)} if total else {}
    return SegmentAnalysis(where, float(inside.mean()), actions[action], shares)


def _tree_parts(
    node: Node, contexts: Contexts, here: BoolArray, answers: tuple[tuple[Test, bool], ...]
) -> list[tuple[str, BoolArray, int]]:
    """Return words, membership (n,) and action of each leaf below a node; answers: to the tests above it."""
    if isinstance(node, int):
        words = [test.describe() if held else _denied(test) for test, held in answers if _tells(test, held, answers)]
        return [(" and ".join(dict.fromkeys(words)) or EVERYBODY, here, node)]
    passed = node.test(contexts)
    then = _tree_parts(node.then, contexts, here & passed, (*answers, (node.test, True)))
    return then + _tree_parts(node.otherwise, contexts, here & ~passed, (*answers, (node.test, False)))


def _tells(test: Test, held: bool, answers: tuple[tuple[Test, bool], ...]) -> bool:
    """Return whether an answer is not implied by the others: of two bounds on one side, only the tighter is not."""
    if not isinstance(test, AtMost):
        return not (isinstance(test, Is) and not held and _is_known(test.feature, answers))
    others = [
        one.threshold
        for one, same in answers
        if isinstance(one, AtMost) and (one.feature, one.missing, same) == (test.feature, test.missing, held)
    ]
    return test.threshold == (min(others) if held else max(others))


def _is_known(feature: str, answers: tuple[tuple[Test, bool], ...]) -> bool:
    """Return whether the answers determine the label of a feature."""
    return any(isinstance(test, Is) and test.feature == feature and held for test, held in answers)


def _denied(test: Test) -> str:
    """Return the negation of a test in words."""
    if isinstance(test, AtMost):
        said = say_number(test.feature, test.threshold, digits=6 if abs(test.threshold) < 1e5 else 15)
        return f"{said.name} {'is missing or ' if test.missing is False else ''}{said.above}"
    if isinstance(test, Is):
        return f"{plain(test.feature)} is not {plain(test.label)}"
    return f"{plain(test.feature)} is not missing"


# The guardrail: anytime-valid tests of whether an outcome's mean exceeds its limit.
#
# Let X_1, X_2, … in [0, 1] be the guardrail outcomes of first visits in the order of assignment, of all or of those
# with one action. The null hypothesis is that E[X_i | rows before i] ≤ m for all i, with the `most` m > 0 of the rule;
# where propensities depend on contexts, it is about the people who were given the action. For any p > m,
#
#     W_n(p) = Π_{i ≤ n} (p/m)^{X_i} ((1 − p)/(1 − m))^{1 − X_i} = (p/m)^S ((1 − p)/(1 − m))^{n − S},     S = Σ X_i
#
# is then a nonnegative supermartingale: the logarithm of 1 + λ(X − m) with λ = (p − m)/(m(1 − m)) is concave in X, so
# not below its chord between X = 0 and 1, which is the logarithm of the factor above; and E[1 + λ(X − m)] ≤ 1. It
# depends on n and S alone, and so does a mixture over several p, which starts at 1. By Ville's inequality it ever
# exceeds 1/α with probability at most α.
#
# **Pending values count as 0.** W_n increases in every X_i, so its observed value is at any time at most its value with
# all outcomes known, which is the supermartingale. So late, lost and selectively reported values raise no false alarm,
# whatever delays depend on. For the same reason the largest W_n over the ends of rounds may be taken: the last rows,
# whose outcomes are pending, cannot hide evidence from earlier ones.
#
# The level is divided evenly between A + 1 tests: of all rows, and of each action.


# Values of (p − m)/(1 − m): a fraction s of the optimal one gives about 2s − s² of the optimal growth, so on a grid
# with factor 2 one of the neighbours gives 8/9 or more.
ALTERNATIVES = 2.0 ** -np.arange(1, 13)
OF_ALL = "all"


@dataclass(frozen=True)
class GuardrailTest:
    """A test of whether the guardrail outcome exceeds its limit, over all rows or for one action.

    of: "all", or the name of an action.
    rows: number of rows.
    seen: number of rows whose outcome is known.
    mean: mean of the known outcomes; None if there are none.
    evidence: the largest logarithm of the mixture of W over the ends of rounds, at least 0.
    needed: evidence that raises an alarm.
    """

    of: str
    rows: int
    seen: int
    mean: float | None
    evidence: float
    needed: float

    @property
    def alarm(self) -> bool:
        """Return whether the limit is exceeded, except with the probability of a false alarm."""
        return self.evidence >= self.needed

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return asdict(self) | {"alarm": self.alarm}


@dataclass(frozen=True)
class GuardrailLook:
    """The guardrail's tests at one interim analysis.

    rule: the guardrail.
    tests (A + 1,): of all rows, and of each action.
    """

    rule: GuardrailRule
    tests: tuple[GuardrailTest, ...]

    @property
    def alarms(self) -> tuple[GuardrailTest, ...]:
        """Return the tests that raise an alarm."""
        return tuple(one for one in self.tests if one.alarm)

    def words(self) -> str:
        """Return the reason to pause, as a sentence; empty if there is no alarm."""
        if not self.alarms:
            return ""
        found = [
            f"{'over all' if one.of == OF_ALL else f'with {plain(one.of)}'} ({show_share(one.mean)} of {one.seen:,})"
            for one in self.alarms
        ]
        return (
            f"{plain(self.rule.name)} exceeds {show_share(self.rule.most)} {', '.join(found)}; chance alone says so in "
            f"at most {show_share(self.rule.false_alarms)} of experiments"
        )

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {
            "name": self.rule.name,
            "most": self.rule.most,
            "false_alarms": self.rule.false_alarms,
            "tests": [one.to_json() for one in self.tests],
        }


def look_at_guardrail(
    rule: GuardrailRule, actions: tuple[str, ...], *, rows: ArrayLike, seen: ArrayLike, totals: ArrayLike
) -> GuardrailLook:
    """Test the guardrail over all rows and for each action, from counts by round.

    actions (A,): their names.
    rows (K, A): rows of each round with each action, in the order of rounds; the last round may be open.
    seen (K, A): how many of them have a known outcome.
    totals (K, A): sums of these outcomes.

    >>> rule = GuardrailRule("complaint", most=0.02)
    >>> found = look_at_guardrail(rule, ("a", "b"), rows=[[500, 500]], seen=[[400, 380]], totals=[[6, 45]])
    >>> [(one.of, one.alarm) for one in found.tests]
    [('all', True), ('a', False), ('b', True)]

    Raises:
        InputError: If there are more outcomes than rows, or outcomes outside [0, 1].
    """
    instance(rule, GuardrailRule, name="rule", remedy='say GuardrailRule("complaint", 0.02)')
    counts = floats(rows, name="rows", shape=(None, len(actions)))
    known = floats(seen, name="seen", shape=counts.shape)
    sums = floats(totals, name="totals", shape=counts.shape)
    if (known > counts).any() or (sums > known + 1e-9 * (1.0 + known)).any() or min(sums.min(initial=0), 0) < 0:
        raise InputError("of a guardrail no more can be in than there are rows, and each outcome is from 0 to 1")
    needed = math.log(len(actions) + 1) - math.log(rule.false_alarms)

    def test(of: str, n: FloatArray, inside: FloatArray, total: FloatArray) -> GuardrailTest:
        evidence = float(log_evidence(np.cumsum(n), np.cumsum(total), most=rule.most).max(initial=0.0))
        mean = float(total.sum() / inside.sum()) if inside.sum() else None
        return GuardrailTest(of, int(n.sum()), int(inside.sum()), mean, evidence, needed)

    each = [test(name, counts[:, a], known[:, a], sums[:, a]) for a, name in enumerate(actions)]
    return GuardrailLook(rule, (test(OF_ALL, counts.sum(axis=1), known.sum(axis=1), sums.sum(axis=1)), *each))


def guardrail_of(snapshot: Snapshot) -> GuardrailLook | None:
    """Test the guardrail on first visits outside the holdout; None if there is no guardrail, or no row.

    The visits of one person are not independent of each other, so that the null hypothesis says nothing of later ones.
    """
    protocol, rows = snapshot.stored.protocol, snapshot.rows
    if protocol.guardrail is None or not len(rows):
        return None
    shape, drawn = (len(snapshot.rounds), protocol.n_actions), ~rows.holdout & (rows.visits == 0) & snapshot.own
    cells = np.ravel_multi_index((rows.rounds[drawn], rows.actions[drawn]), shape)
    values = np.where(rows.guardrail_sequence < snapshot.sequence, rows.guardrail, np.nan)[drawn]
    came = ~np.isnan(values)
    counts = [
        np.bincount(cells, weights=weights, minlength=shape[0] * shape[1]).reshape(shape)
        for weights in (None, came, np.where(came, values, 0.0))
    ]
    return look_at_guardrail(protocol.guardrail, protocol.actions, rows=counts[0], seen=counts[1], totals=counts[2])


def log_evidence(rows: FloatArray, totals: FloatArray, *, most: float) -> FloatArray:
    """Return the logarithm of the mixture of W (k,) after `rows` (k,) rows whose outcomes sum to totals (k,)."""
    p = most + (1.0 - most) * ALTERNATIVES
    gains = totals[:, None] * np.log(p / most) + (rows - totals)[:, None] * np.log((1.0 - p) / (1.0 - most))
    top = gains.max(axis=1, initial=-np.inf)
    return top + np.log(np.exp(gains - top[:, None]).mean(axis=1))


def show_share(share: float | None) -> str:
    """Format a share in percent."""
    return "none" if share is None else f"{100 * share:.3g} %"


# An interim analysis: claim, estimates and checks. The process that advances the experiment makes and stores it.
#
# Claims hold at all analyses together, however many there are; estimates are marked as such.


@dataclass(frozen=True, eq=False)
class Found:
    """The state of the trial at a snapshot.

    snapshot: the data.
    trial: the trial, with the part of δ for the set of withdrawn actions.
    policies: the class without those actions.
    state: state of the trial; None before the first row.
    withdrawn: names of the withdrawn actions.
    """

    snapshot: Snapshot
    trial: Trial
    policies: PolicyClass
    state: TrialState | None
    withdrawn: tuple[str, ...] = ()


def find_out(snapshot: Snapshot, withdrawn: tuple[str, ...]) -> Found:
    """Run the trial, without the withdrawn actions, on the data of a snapshot."""
    protocol = snapshot.stored.protocol
    trial, policies = protocol.trial(withdrawn)
    log = snapshot.log()
    if log is None:
        return Found(snapshot, trial, policies, None, withdrawn)
    # Deployed rounds are included though none of their rows counts: rounds are indexed by number.
    rounds: Sequence[PlayedRound] = played_rounds(snapshot.rounds, log)
    start = replace(trial.start(policies, protocol.contexts), pilot=protocol.counted_pilot)
    if withdrawn:
        rounds = leaders_again(trial, policies, protocol.contexts, rounds, log)
    state = catch_up(trial, start, rounds, log, guardrails=protocol.guardrails)
    return Found(snapshot, trial, policies, state, withdrawn)


@dataclass(frozen=True)
class Look:
    """The results of one interim analysis, each part as `Status` shows it.

    number: of the analysis, from 1; 0 before it is stored.
    snapshot_at: when the data were read, in microseconds.
    samples: number of rows analysed.
    claim: the claim, in words and figures; None before there is one.
    to_go: the data still needed; None if nothing is known about that.
    value: mean rewards of the policy and of the standard action, and their difference; None before there is a claim.
    arms: raw results of each action.
    leaves: the policy's segments, with the actions they were given.
    policy: the policy of the claim; None before there is one.
    health: pending rewards, minimum propensity, checks of the assumptions, the guardrail.
    holdout_compared: mean rewards of the holdout and of the trial; None without a holdout.
    metrics: each metric under each action, with ordinary intervals, which are approximate.
    certificate: the certificate, with the checks; not part of the JSON.
    """

    number: int = 0
    snapshot_at: int = 0
    samples: int = 0
    claim: Json | None = None
    to_go: Json | None = None
    value: Json | None = None
    arms: tuple[Json, ...] = ()
    leaves: tuple[Json, ...] = ()
    policy: Json | None = None
    health: Json | None = None
    holdout_compared: Json | None = None
    metrics: tuple[Json, ...] = ()
    certificate: Certificate | None = field(default=None, compare=False)

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        out = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "certificate"}
        return out | {name: list(getattr(self, name)) for name in ("arms", "leaves", "metrics")}


def look_at(found: Found, *, at: int) -> Look:
    """Return the interim analysis of a snapshot.

    found: the state of the trial there. at: the current time in microseconds.
    """
    snapshot, state, protocol = found.snapshot, found.state, found.snapshot.stored.protocol
    log = None if state is None else state.log
    table = snapshot.table() if len(snapshot.rows) else None
    drawn = None if table is None or not snapshot.counted.any() else table.only(snapshot.counted)
    checks = () if log is None else look(log)
    # With the class's spec in the certificate, a verifier can rebuild the class from the contexts.
    learning = None if found.withdrawn else protocol.learning
    certificate = None if state is None else state.certificate
    if certificate is not None:  # one by the rule of `certify` names its class as one that was given
        certificate = replace(certificate, checks=checks, learning=None if certificate.by_rule else learning)
    worth = None
    if certificate is not None and log is not None and not log.awaited.all():
        worth = measure_worth(certificate, log)
    policy = None if certificate is None else certificate.policy
    a_day = people_a_day(snapshot.rows.at[snapshot.counted & snapshot.own], now=at)
    if found.trial.improve_on is None:
        to_go = look_forward(certificate, log, found.policies, a_day=a_day, plan=protocol.plan)
    else:
        to_go = _gain_to_go(found, a_day=a_day)
    leaves = () if policy is None or drawn is None else leaves_of(likeliest(policy), drawn, protocol.actions)
    return Look(
        snapshot_at=snapshot.at,
        samples=0 if log is None else log.samples,
        claim=None if certificate is None else _claim(found, certificate, at=at),
        to_go=None if to_go is None else to_go.to_json(),
        value=None if worth is None else _value(protocol, worth),
        arms=_arms(protocol, drawn, log, withdrawn=found.withdrawn),
        leaves=tuple(one.to_json() for one in leaves),
        policy=None if policy is None else policy.to_json(),
        health=_health(snapshot, drawn, checks),
        holdout_compared=_compare_holdout(protocol, snapshot, table, log),
        metrics=() if log is None else metrics_by_action(log, protocol.actions),
        certificate=certificate,
    )


def _gain_to_go(found: Found, *, a_day: float | None) -> ToGo | None:
    """Estimate the data still needed to prove a gain; None before there are bounds."""
    if found.state is None or found.state.improvement is None:
        return None
    more = 0.0 if found.state.finished else found.trial.missing_for_gain(found.state)
    if not math.isfinite(more):
        return ToGo(None, None, None, None)
    return ToGo(round(more), None if a_day is None else more / a_day, None, None)


def _claim(found: Found, certificate: Certificate, *, at: int) -> Json:
    """Return the claim as JSON; certified: whether what the protocol stops by is proven."""
    done, improvement = certificate.certified, certificate.improvement
    if found.trial.improve_on is not None:
        done = found.state is not None and found.state.finished
    best = None if improvement is None else improvement.recommended
    return {
        "certified": done,
        **({} if improvement is None else {"proven_gain": None if best is None else best.low}),
        "certified_epsilon": certificate.certified_epsilon,
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "samples": certificate.samples,
        "describe": certificate.describe(),
        "promise": certificate.promise(),
        "assumptions": list(certificate.assumptions),
        "alarms": list(certificate.alarms),
        "words": certificate.words,
        "at": spell(at),
        "round": len(found.snapshot.rounds) - 1,
    }


def _value(protocol: ExperimentProtocol, worth: Worth) -> Json:
    """Return the values of the policy and the standard action, and their difference, with anytime-valid intervals."""
    number, name = protocol.standard_action, plain(protocol.standard)
    own, other, lift = worth.value, worth.singles[number], worth.over_each[number]
    sure = f"Each interval is right at all times together, except with probability {worth.delta:g}"
    doubt = "No interval can be relied on, as the data speak against an assumption (see the alarm)"
    words = (
        f"the policy earns {_spelt(own)} on average and '{name}' {_spelt(other)}: {_spelt(lift, sign='+')} more. "
        f"{doubt if worth.alarms else sure}"
    )
    return {
        "alarms": list(worth.alarms),
        "policy": own.to_json(),
        "standard": other.to_json(),
        "lift": lift.to_json(),
        "confidence": 1.0 - worth.delta,
        "words": words,
    }


def _spelt(interval: Interval, *, sign: str = "") -> str:
    if interval.empty:
        return f"{interval.estimate:{sign}.3g} (empty interval)"
    low, high = rounded_outward(interval.low, interval.high)
    return f"{interval.estimate:{sign}.3g} ({low:{sign}.3g} to {high:{sign}.3g})"


def _arms(
    protocol: ExperimentProtocol, drawn: Log | None, log: Log | None, *, withdrawn: tuple[str, ...]
) -> tuple[Json, ...]:
    """Return the raw results of each action, neither weighted nor modelled.

    drawn: all rows that count. log: the analysed ones among them, which give the means: of later rows, the good rewards
    may be known and the others pending.
    """
    low, high = protocol.reward_range
    out: list[Json] = []
    for number, name in enumerate(protocol.actions):
        rows = 0 if drawn is None else int((drawn.actions == number).sum())
        known = 0 if drawn is None else int(((drawn.actions == number) & ~drawn.awaited).sum())
        seen = np.empty(0) if log is None else log.rewards[(log.actions == number) & ~log.awaited]
        out.append(
            {
                "action": name,
                "assigned": rows,
                "share": 0.0 if drawn is None else rows / len(drawn),
                "mean": float(low + (high - low) * seen.mean()) if len(seen) else None,
                "rewards_in": known,
                "withdrawn": name in withdrawn,
            }
        )
    return tuple(out)


NORMAL_QUANTILE = 1.96  # of ordinary 95 % intervals


def metrics_by_action(log: Log, actions: Sequence[str]) -> tuple[Json, ...]:
    """Return each metric of a log as it would be if everybody got an action, with ordinary 95 % intervals.

    Rows are weighted by 1/p of the action that was played, as designs give it to some people more often than to others.
    An interval is the estimate ± 1.96 standard errors (of a ratio of means, by the delta method): an approximation,
    which is for one look at one number.
    """
    values, columns, out = log.metric_values, metric_columns(log.metrics), list[Json]()
    if values is None:
        return ()
    units = {one: one.low + (one.high - one.low) * values[:, place] for place, one in enumerate(columns)}
    weights = np.where(log.awaited, 0.0, log.repeats / log.played_propensities)
    for metric in log.metrics:
        above = np.nan_to_num(units[metric.columns[0]])
        below = np.ones(len(log)) if isinstance(metric, Metric) else np.nan_to_num(units[metric.denominator])
        each: list[Json] = []
        for number, name in enumerate(actions):
            own = np.where(log.actions == number, weights, 0.0)
            total, found = float(own @ below), Json(action=name, mean=None, low=None, high=None)
            if total > 0 and np.count_nonzero(own) > 1:  # one row has no standard error
                mean = float(own @ above) / total
                off = NORMAL_QUANTILE * float(np.linalg.norm(own * (above - mean * below))) / total
                found |= {"mean": mean, "low": mean - off, "high": mean + off}
            each.append(found)
        out.append({"name": metric.name, "actions": each})
    return tuple(out)


def _health(snapshot: Snapshot, drawn: Log | None, checks: tuple[AssumptionCheck, ...]) -> Json:
    """Return shares of pending and missing rewards, the minimum propensity, and the checks, as JSON."""
    found, rows = guardrail_of(snapshot), snapshot.rows
    came = rows.reward_sequence < snapshot.sequence
    return {
        "awaited_share": None if drawn is None else float(drawn.awaited.mean()),
        "missed_share": None if not len(rows) else float((snapshot.in_ & ~came).mean()),
        "late_share": None,
        "least_propensity": None if drawn is None else float(drawn.propensities[drawn.propensities > 0].min()),
        "checks": [
            {
                "name": one.kind,
                "alarm": one.alarm,
                "words": one.describe(),
                "evidence": one.log_evidence,
                "needed": one.needed,
            }
            for one in checks
        ],
        "guardrail": None if found is None else found.to_json(),
    }


def _compare_holdout(
    protocol: ExperimentProtocol, snapshot: Snapshot, table: Log | None, log: Log | None
) -> Json | None:
    """Return the mean rewards of the holdout and of the trial, at first visits.

    table: all rows. log: the analysed rows of the trial; of the holdout, those among the same first rows are used.
    """
    held = np.flatnonzero((snapshot.rows.holdout & (snapshot.rows.visits == 0))[: snapshot.mature])
    if table is None or log is None or not len(held):
        return None
    parts = {"holdout": table.take(held), "experiment": log}
    return {name: mean_reward(part, delta=protocol.delta) for name, part in parts.items()}


def mean_reward(log: Log, *, delta: float) -> Json:
    """Return the mean reward of rows, whatever their actions, with anytime-valid bounds, in the units of rewards.

    It is the value of a policy with one action that was played with probability 1. Pending rewards count as the
    smallest possible for the lower bound and as the largest for the upper one.
    """
    n = len(log)
    alone = Log(
        contexts=Contexts.of(np.zeros((n, 1)), names=["everybody"]),
        actions=np.zeros(n, dtype=np.int64),
        rewards=log.rewards,
        propensities=np.ones((n, 1)),
        rounds=log.rounds,
        repeats=log.repeats,
        reward_range=log.reward_range,
        known=log.known,
    )
    low, high = log.reward_range
    known = log.rewards[~log.awaited]
    worth = evaluate(alone, TreePolicy(0, 1), delta=delta).value
    return {
        "rows": n,
        "rewards_in": len(known),
        "mean": float(low + (high - low) * known.mean()) if len(known) else None,
        "low": None if worth.empty else worth.low,
        "high": None if worth.empty else worth.high,
    }
