"""The summary of a result for readers without statistics: the recommendation, its value, and its confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf, isfinite
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, IntArray
from pacbandits.certificate import Certificate
from pacbandits.certificate.alarms import by_gravity
from pacbandits.certificate.certificate import KEPT, VIOLATED, Candidate, GuardedMetric, Improvement
from pacbandits.certificate.certify import Question
from pacbandits.certificate.claim import rounded_down, rounded_up
from pacbandits.certificate.intervals import rows_held_out
from pacbandits.certificate.worth import Interval, Worth, constant_action
from pacbandits.errors import as_called, count_of, one_line, plain
from pacbandits.logs.raw_log import CLIPPED
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.trees.tree_policy import Node, TreePolicy, TreeSplit
from pacbandits.records import Log, Mixture, likeliest
from pacbandits.records.column_types import tells_of_return
from pacbandits.records.log_metadata import UNIT_RANGE
from pacbandits.records.policy import call
from pacbandits.report.document import ALARM
from pacbandits.report.numbers import about, mean_digits, show_ends, show_gain, show_mean
from pacbandits.report.result_facts import (
    Arm,
    GroupResult,
    Mark,
    Price,
    Scale,
    tried_arms,
)
from pacbandits.trials.forecast import Outlook

MIN_EFFECTIVE_SHARE = 0.05  # effective sample size over rows, below which a policy overlaps too little with the log
RESOLVE = (
    "Resolve that first: until then this log supports no recommendation, and none of its figures holds with any "
    "confidence."
)
MIN_MEANS_OF_ROOM = 5.0  # ε is compared with the mean if the largest possible gain exceeds this many means
MANY_SPENT = 0.1  # of the rows, from which on it is said that they taught the class
MIN_PLAYS = 100  # of an action, below which a warning is shown


@dataclass(frozen=True, eq=False)
class Summary:
    """The content of a report.

    source: where the log came from.
    outcome: the name of a reward.
    certificate: the certificate.
    question: what was asked, and whether it is proven.
    worth: the policy's value; None if it cannot be estimated.
    actions (A,): their names.
    leaves: of the policy, if it is a tree; of a mixture policy, those of its likeliest tree.
    marks: the results of checks.
    ahead: the number of further rows needed; None if nothing is missing.
    target: the distance that those would prove.
    price: the policy's cost, if it has a budget.
    arms (A,): every action as it was tried.
    control: the action that the policy is compared with, if one was named.
    proof: the name of the certificate's file, if there is one.
    happened: what was planned and what happened: a name and two texts each.
    leaves_of: the rows that the leaves are estimated from, in words.
    notices: notes on the log, to be read before the answer.
    distances: the proven ε of each candidate and of "control", if they are known.
    """

    source: str
    outcome: str
    certificate: Certificate
    question: Question
    worth: Worth | None
    actions: tuple[str, ...]
    leaves: tuple[GroupResult, ...]
    marks: tuple[Mark, ...]
    ahead: Outlook | None = None
    target: float | None = None
    price: Price | None = None
    arms: tuple[Arm, ...] = ()
    control: int | None = None
    proof: str | None = None
    happened: tuple[tuple[str, str, str], ...] = ()
    leaves_of: str = ""
    notices: tuple[str, ...] = ()
    distances: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def percent(self) -> bool:
        """Whether rewards are rates, shown in percent."""
        return self.certificate.reward_range == UNIT_RANGE

    @property
    def whenever(self) -> str:
        """The words for any-time validity; empty if the certificate allows one analysis (shuffled rows or blocks)."""
        return ", however often one looks," if self.certificate.any_time else ""

    @property
    def noun(self) -> str:
        """The unit of evidence: rows or people."""
        return "rows" if self.certificate.units is None else "people"

    def show(self, value: float) -> str:
        """Return a mean reward in its units."""
        return show_mean(value, percent=self.percent)

    def show_difference(self, value: float, *, sign: bool = False) -> str:
        """Return a difference between mean rewards in its units."""
        return show_gain(value, percent=self.percent, sign=sign)

    @property
    def proven(self) -> str:
        """The distance that the certificate proves, in its units; rounded up, as a smaller one is not proven."""
        return self.show_difference(rounded_up(self.certificate.certified_epsilon))

    def to_json(self) -> dict[str, Any]:
        """Serialise what the summary adds to a certificate to JSON-compatible values."""
        ahead = None if self.ahead is None else {"epsilon": self.target, **self.ahead.to_json()}
        return {
            "alarms": list(self.alarms),
            "proven": self.answered,
            "answer": list(self.answer()),
            "scale": None if self.scale is None else self.scale.to_json(),
            "worth": None if self.worth is None else self.worth.to_json(),
            "outlook": ahead,
            "groups": [asdict(leaf) for leaf in self.leaves],
            "groups_of": self.leaves_of,
            "groups_mean": self.leaves_mean,
            "price": None if self.price is None else asdict(self.price),
            "arms": [asdict(arm) for arm in self.arms],
            "control": None if self.control is None else self.actions[self.control],
            "next_step": self.next_step(),
            "planned": [list(row) for row in self.happened],
        }

    @property
    def alarms(self) -> tuple[str, ...]:
        """Contradictions between the log and the assumptions, in words: a failed check, or an empty interval."""
        return self.question.alarms(self.worth)

    @property
    def answered(self) -> bool:
        """Whether what was asked for is proven, and nothing in the log contradicts an assumption."""
        return self.question.answered(self.worth)

    @property
    def scale(self) -> Scale | None:
        """The quantities to compare the certified ε with; None if no value is known."""
        return None if self.worth is None else Scale.of(self.certificate, self.worth)

    def answer(self) -> tuple[str, ...]:
        """Return the answer in sentences: the recommendation, its value and its confidence; alarms come first."""
        if self.alarms:
            return (*(f"{ALARM}{one_line(words)}." for words in self.alarms), *self.findings())
        step = self.next_step()
        return (*self.findings(), step) if step else self.findings()

    def findings(self) -> tuple[str, ...]:
        """Return the answer without its alarms and without what to do next."""
        if self.alarms:
            return RESOLVE, self._as_it_stands()
        sure = self._how_sure(100 * (1 - self.certificate.delta)) + self.question.describe_distance()
        lacking = self.question.describe_obstacle(self.actions)
        return *lacking, self._what(), *self.guardrail_answers(), self._how_good(), sure

    def _as_it_stands(self) -> str:
        """Return what the rows suggest if the alarm is ignored."""
        constant, kept = self.single_action, self.gain is not None and self.gain.recommended is None
        rule = "the rule below" if constant is None else f"always {constant}"
        points = f"point to {rule}"
        if self.gain is not None and kept:
            barred = self._harmful(self.gain) is not None
            points = f"would keep {constant}, by a guardrail" if barred else f"would prove no gain over {constant}"
        if self.worth is None:
            return f"Taken as they stand, its rows {points}."
        value, best = self.worth.value.estimate, max(one.estimate for one in self.worth.singles)
        if constant is None:
            other = f", that of always {self.best_single} at {self.show(best)}"
        else:
            other = (
                ""
                if self._higher is None
                else f"; always {self.best_single} has the highest estimate, {self.show(best)}"
            )
        means = f"; the mean {self.outcome} of {rule} is" if kept else f", with a mean {self.outcome}"
        return (
            f"Taken as they stand, its rows {points}{means} estimated at {self.show(value)}{other}; these estimates "
            "may be wrong."
        )

    def _what(self) -> str:
        """Return the recommendation, in the words of what was proven."""
        if self.gain is not None:
            return f"{self._what_is_better(self.gain)}{self._spent_on_learning()}"
        alone = "" if self.question.obstacle is None else " by the distance from the best alone"
        if self._proves_nothing or not self.certificate.certified:
            return f"{self._what_is_unproven(alone)}{self._spent_on_learning()}"
        if isinstance(self.certificate.policy, Mixture):
            count = len(self.certificate.policy.policies)
            return (
                f"Recommendation{alone}: a mixture of {count} similar rules, one of which is drawn for each person; "
                "the most likely one is shown below."
            )
        if self.single_action is not None:
            given = self.single_action
            return f"Recommendation{alone}: use {given} for everyone. No rule for different people looked better."
        kept = ", the best that keeps the restrictions" if self.restricted else ""
        sure = self.worth is None or self.worth.over_best.low > 0 or self.restricted
        doubt = "" if sure else f" That it is better than {self.best_single} for everyone is not proven."
        return f"Recommendation{alone}: use the rule below{kept}.{doubt}"

    @property
    def _proves_nothing(self) -> bool:
        """Whether no distance from the best is proven that is smaller than the range of rewards."""
        return self.certificate.certified_epsilon >= self.certificate.unit

    def _what_is_unproven(self, alone: str) -> str:
        """Return the policy that looks best, of a certificate that does not prove what was asked; alone: by what."""
        words = (
            f"No recommendation{alone} is proven yet"
            if self._proves_nothing
            else "What was asked for is not proven yet"
        )
        if self.single_action is None:
            return f"{words}: {self.policy_words} is the best so far."
        if self.worth is None or self._higher is not None:
            return f"{words}: {self.policy_words} is the best by the rows that chose it."
        return (
            f"{words}: {self.single_action} has the highest estimate, and no rule for different people looked better."
        )

    def _spent_on_learning(self) -> str:
        """Return how many rows taught the policy class, after a space, if nothing is proven and many did."""
        learning, c = self.certificate.learning, self.certificate
        nothing = self._proves_nothing if self.gain is None else self.gain.recommended is None
        if not nothing or learning is None or learning.spared == 0 or learning.contexts < MANY_SPENT * c.samples:
            return ""
        remedy = as_called("with contexts from before the test (--contexts FILE) all rows would count")
        return f" Of the {c.samples:,} rows {learning.contexts:,} were spent on learning the policy class; {remedy}."

    @property
    def gain(self) -> Improvement | None:
        """The proven gains over control; None if no control was named."""
        return self.certificate.improvement

    @property
    def policy_words(self) -> str:
        """The recommended policy in a few words."""
        if isinstance(self.certificate.policy, Mixture):
            return "the mixture of rules below"
        return "the rule below" if self.single_action is None else f"{self.single_action} for everyone"

    def candidate_words(self, candidate: Candidate) -> str:
        """A candidate in a few words."""
        root = candidate.policy.root if isinstance(candidate.policy, TreePolicy) else None
        return f"{call(root, self.actions)} for everyone" if isinstance(root, int) else "a rule by person"

    def _what_is_better(self, gain: Improvement) -> str:
        control, found, percent = call(gain.control, self.actions), gain.recommended, 100 * (1 - self.certificate.delta)
        if found is not None:
            rails = " and ".join(f"'{plain(one.guardrail.spelt)}'" for one in gain.open_guardrails)
            once = f", once {rails} {_is_or_are(gain.open_guardrails)} proven" if rails else ""
            return (
                f"Recommendation: use {self.policy_words}{once}. With {percent:g} % confidence it raises the mean "
                f"{self.outcome} by at least {self.show_least(found.low, sign=False)} over "
                f"{control}{self._ordinarily()}."
            )
        if (harmful := self._harmful(gain)) is not None:
            return (
                f"Recommendation: keep {control}. With {percent:g} % confidence {self.candidate_words(harmful)} raises "
                f"the mean {self.outcome} by at least {self.show_least(harmful.low, sign=False)}, but it violates a "
                "guardrail."
            )
        best = _most_promising(gain)
        if best.estimate <= 0:
            return f"Recommendation: keep {control}. No gain over it is proven, and no candidate is estimated to gain."
        return (
            f"Recommendation: keep {control} for now. No gain over it is proven: {self.candidate_words(best)} is "
            f"estimated to bring {self.show_difference(best.estimate, sign=True)}, with {percent:g} % confidence at "
            f"least {self.show_least(best.low)}."
        )

    def _harmful(self, gain: Improvement) -> Candidate | None:
        """Return the candidate with a proven gain that is not recommended because of a guardrail, if there is one."""
        barred = [one for one in gain.candidates if one.low > 0 and not one.allowed]
        return max(barred, key=lambda one: one.low) if barred and gain.recommended is None else None

    def _ordinarily(self) -> str:
        """Return the estimate of the gain and the ordinary interval, in parentheses."""
        if self.worth is None or self.gain is None:
            return ""
        over = self.worth.over_each[self.gain.control]
        words = f"estimate {self.show_difference(over.estimate, sign=True)}"
        if over.error is not None:
            words += f"; the ordinary interval, an approximation, is {self.ordinary(over)}"
        return f" ({words})"

    def ordinary(self, interval: Interval, *, value: bool = False) -> str:
        """Return the ordinary interval of a gain, or of a value, in words; a dash if it is unknown."""
        usual = interval.approximate(self.certificate.delta)
        if usual is None:
            return "—"
        return " to ".join(self.show(end) if value else self.show_difference(end, sign=True) for end in usual)

    def show_least(self, value: float, *, sign: bool = True) -> str:
        """Return a proven difference, rounded down."""
        return self.show_difference(rounded_down(value), sign=sign)

    def guardrail_answers(self) -> tuple[str, ...]:
        """Return the state of each guardrail for the recommended policy, and where one stands in a candidate's way.

        It does if a candidate violates it, or if none is recommended and a promising one is not proven to keep it.
        """
        if self.gain is None or not self.gain.guardrails:
            return ()
        found = self.gain.recommended
        said = [] if found is None else [f"Guardrail: {_guarded_words(one)}." for one in found.guarded]
        said += (
            f"Guardrail of {self.candidate_words(one)}: {_guarded_words(each)}."
            for one in self.gain.candidates
            for each in one.guarded
            if each.state == VIOLATED or (found is None and one.estimate > 0 and each.state != KEPT)
        )
        return tuple(dict.fromkeys(said))

    def next_step(self) -> str:
        """Return what to do next: roll out, run longer and how long, or stop."""
        gain = self.gain
        if self.alarms:
            return RESOLVE
        if gain is None:
            return ""
        control = call(gain.control, self.actions)
        if gain.open_guardrails:
            return self._next_of_guardrails(gain.open_guardrails)
        if gain.recommended is not None:
            return f"Next: roll out {self.policy_words}, and keep a small holdout on {control} to watch the gain."
        if self._harmful(gain) is not None:
            return "Next: find a variant without the harm, or decide that the gain is worth it and widen the guardrail."
        best = _most_promising(gain)
        if best.estimate <= 0:
            return f"Next: stop, or test something else; {control} stays."
        if not best.allowed:
            return "Next: find a variant without the harm, or stop; more rows would not lift the violated guardrail."
        more = about(self._more_rows(best.estimate - best.low, best.estimate))
        return (
            f"Next: run longer if the estimated gain is worth it. If it is right, about {more} more {self.noun} would "
            f"prove that {self.candidate_words(best)} is better than {control}."
        )

    def _next_of_guardrails(self, unproven: tuple[GuardedMetric, ...]) -> str:
        """Return what to do if the recommended policy is not proven to keep these guardrails."""
        names = " and ".join(f"'{plain(one.guardrail.spelt)}'" for one in unproven)
        words = f"{'guardrail' if len(unproven) == 1 else 'guardrails'} {names} {_is_or_are(unproven)} not proven"
        rooms = [one.room for one in unproven]
        if any(room <= 0 for room in rooms):
            remedy = (
                "By the estimate the limit is not kept, so that more rows would hardly prove it: find a variant "
                "without the harm, or decide that the gain is worth it and widen the guardrail."
            )
        elif not all(isfinite(one.slack) for one in unproven):
            remedy = f"Run longer: more {self.noun} are needed to bound it."
        else:
            more = max(self._more_rows(one.slack, room) for one, room in zip(unproven, rooms, strict=True))
            right, them = ("its estimate is", "it") if len(unproven) == 1 else ("their estimates are", "them")
            remedy = f"Run longer: if {right} right, about {about(more)} more {self.noun} would prove {them}."
        return f"Next: do not roll out yet: {words}. {remedy}{self._harmless()}"

    def _harmless(self) -> str:
        """Return, after a space, the other candidate whose gain and guardrails are all proven, if there is one."""
        candidates = () if self.gain is None else self.gain.candidates
        kept = (one for one in candidates if one.low > 0 and all(rail.state == KEPT for rail in one.guarded))
        found = max(kept, key=lambda one: one.low, default=None)
        if found is None:
            return ""
        option = as_called(f"apply --candidate '{found.name}'")
        return (
            f" Of {self.candidate_words(found)} all is proven, guardrails and the gain (at least "
            f"{self.show_least(found.low)}); {option} has it."
        )

    def _more_rows(self, slack: float, room: float) -> float:
        """Return how many more rows shrink a bound's distance from its estimate, slack, to the room that there is."""
        return max(self.certificate.independent * ((slack / room) ** 2 - 1.0), 1.0)

    @property
    def single_action(self) -> str | None:
        """The name of the action that the policy assigns to everybody; None if it assigns different ones."""
        policy = self.certificate.policy
        root = policy.root if isinstance(policy, TreePolicy) else None
        return call(root, self.actions) if isinstance(root, int) else None

    @property
    def restricted(self) -> bool:
        """Whether policies are restricted, so that a single action for everybody may not be allowed."""
        learning = self.certificate.learning
        return learning is not None and bool(learning.restricted)

    @property
    def leaves_mean(self) -> float | None:
        """The mean reward of the rule by its leaves; None if there are no leaves or one has no estimate."""
        means = [leaf.share * leaf.estimates[self.actions.index(leaf.action)] for leaf in self.leaves]
        return float(sum(means)) if means and not np.isnan(means).any() else None

    @property
    def best_single(self) -> str:
        """The single action with the largest estimate."""
        assert self.worth is not None
        return call(int(np.argmax([one.estimate for one in self.worth.singles])), self.actions)

    @property
    def sole(self) -> int | None:
        """The number of the action that the policy assigns to everybody; None if it assigns different ones."""
        return constant_action(self.certificate.policy)

    @property
    def _higher(self) -> int | None:
        """The single action with a larger estimate than the policy, if that is another one for everybody."""
        if self.worth is None or self.sole is None:
            return None
        singles = [one.estimate for one in self.worth.singles]
        best = int(np.argmax(singles))
        return best if best != self.sole and singles[best] > self.worth.value.estimate else None

    def _why_not(self, action: int) -> str:
        """Return why a single action with a larger estimate is not recommended."""
        own = (
            [] if self.gain is None else [one for one in self.gain.candidates if constant_action(one.policy) == action]
        )
        if own and not any(one.allowed for one in own):
            return "it violates a guardrail"
        if self.gain is not None and self.gain.recommended is None:
            return f"no gain over {call(self.gain.control, self.actions)} is proven"
        within = " within the restrictions" if self.restricted else ""
        return f"the rows that chose the policy pointed to {self.single_action}{within}"

    def _how_good(self) -> str:
        if self.worth is None:
            return "How much it earns cannot be told from this log."
        value, lead = self.worth.value, self.worth.over_best
        best = self.show(max(one.estimate for one in self.worth.singles))
        low, high = show_ends(value.low, value.high, show=self.show, digits=mean_digits(percent=self.percent))
        words = f"With it the mean {self.outcome} is about {self.show(value.estimate)} (between {low} and {high})"
        if self.sole is None:
            words += f"; always {self.best_single}, the best single action, comes to about {best}"
        elif (higher := self._higher) is not None:
            words += f"; always {self.best_single} has the highest estimate, {best}, but {self._why_not(higher)}"
        over_control = ""
        if self.gain is not None:
            return f"{words}."
        if self.control is not None and self.control != self.sole:
            over = self.worth.over_each[self.control]
            low, high = show_ends(over.low, over.high, show=partial(self.show_difference, sign=True))
            gain = self.show_difference(over.estimate, sign=True)
            name = call(self.control, self.actions)
            apart = "" if self.question.obstacle is None else ", an interval by itself and no part of the certificate"
            over_control = f"; over the control, {name}, it gains {gain} (between {low} and {high}{apart})"
        if self.sole is not None:
            return f"{words}{over_control}."
        if lead.low > 0:
            least = self.show_difference(rounded_down(lead.low))
            return f"{words}, and deciding by person gains at least {least}{over_control}."
        return f"{words}; that deciding by person gains anything is not proven yet{over_control}."

    def _how_sure(self, percent: float) -> str:
        c = self.certificate
        kept = " that keeps the restrictions" if self.restricted else ""
        sure = f"With {percent:g} % confidence{self.whenever}"
        if c.epsilon == 0 and c.certified:
            unseen = f" by more than {self.proven}, or acts very differently"
            words = " at all" if c.certified_epsilon == 0 else unseen
            return f"{sure} it is the best rule of this kind: none{kept} is better{words}."
        if c.certified_epsilon >= c.unit:
            return "The data do not yet rule out that another rule of this kind is much better."
        near, scale = self.proven, self.scale
        if scale is None:
            return f"{sure} no rule of this kind{kept} is better by more than {near}."
        likely = self.show_difference(scale.likely)
        if scale.says_nothing:
            return (
                f"This log proves nothing useful about which rule of this kind is best: it only rules out that one is "
                f"better by more than {near}, and by the estimate none could be better by more than {likely}. More "
                f"{self.noun} are needed."
            )
        return f"{sure} no rule of this kind{kept} is better by more than {near}{self._compared(scale)}."

    def _compared(self, scale: Scale) -> str:
        """Return what to compare ε with, after a semicolon: the mean, if rewards are rare, and the estimated gain."""
        said: list[str] = []
        mean = 0.0 if self.worth is None else self.worth.value.estimate - self.certificate.reward_range[0]
        if 0.0 < mean * MIN_MEANS_OF_ROOM < scale.likely:
            share = 100 * self.certificate.certified_epsilon / mean
            said.append(f"that is {share:.2g} % of its mean {self.outcome}")
        if self.sole is None and scale.in_sight > 0:
            said.append(f"the estimated gain over always {self.best_single} is {self.show_difference(scale.in_sight)}")
        return f"; {', and '.join(said)}" if said else ""


def _is_or_are(things: Sized) -> str:
    return "is" if len(things) == 1 else "are"


def _most_promising(gain: Improvement) -> Candidate:
    """Return the candidate of largest estimated gain, of those that violate no guardrail if one of them gains."""
    return max(gain.candidates, key=lambda one: (one.estimate > 0, one.allowed, one.estimate))


def _guarded_words(one: GuardedMetric) -> str:
    """Return a guardrail and its state, with the bound that shows it."""
    rail, difference = one.guardrail, "difference from control" if not one.guardrail.relative else "difference"
    upper = rail.side == "<="
    end = one.high if upper == (one.state != VIOLATED) else one.low
    side, end = ("at most", rounded_up(end)) if end == one.high else ("at least", rounded_down(end))
    state = {KEPT: "kept, as is proven", VIOLATED: "violated, as is proven"}.get(
        one.state, "neither proven nor refuted"
    )
    bound = f"{difference} {side} {end:+.3g}" if isfinite(end) else f"no bound on the {difference} yet"
    estimate = f"estimate {one.estimate:+.3g}" if isfinite(one.estimate) else "no estimate"
    return f"{plain(rail.spelt)} is {state} ({bound}, {estimate}, limit {one.limit:+.3g})"


def summarise(
    certificate: Certificate,
    log: Log,
    *,
    worth: Worth | None,
    source: str,
    outcome: str = "reward",
    ahead: Outlook | None = None,
    target: float | None = None,
    policies: PolicyClass | None = None,
    control: int | None = None,
    question: Question | None = None,
    proof: str | None = None,
    rounds: IntArray | None = None,
    distances: Mapping[str, float] | None = None,
) -> Summary:
    """Return the summary of a certificate and its log, for a report.

    worth: of `measure_worth`. source, outcome: the names of the log and of a reward. ahead, target: how many more rows
    would prove which distance. policies: the class, for the policy's cost if it has a budget. control: the number of
    the action that the policy is compared with. question: what was asked (default: the distance from the best). proof:
    the name of the certificate's file. rounds (n,): of the rows of the log, if it is a sample of files. distances: the
    proven ε of candidates, by their names.
    """
    names = log.action_names or tuple(f"action {action}" for action in range(log.n_actions))
    policy = likeliest(certificate.policy)
    held_out = rows_held_out(certificate, log, rounds=rounds)
    leaves = _leaves(policy, log if held_out is None else held_out, names) if isinstance(policy, TreePolicy) else ()
    if held_out is None:
        of = f"all {log.samples:,} rows, also those that chose the rule, so that these means may flatter it"
    else:
        of = f"the {held_out.samples:,} of {log.samples:,} rows that had no part in choosing the rule"
    price = None
    if policies is not None and policies.budget < inf:
        price = _price(certificate, log, policies, names)
    marks = (
        *_checked(certificate),
        *_came_back(certificate, log),
        _overlap(certificate, log, names),
        *(() if price is None else (price.mark(),)),
        *_remarked(certificate, log),
    )
    return Summary(
        plain(source),
        plain(outcome),
        certificate,
        Question(certificate, epsilon=certificate.epsilon) if question is None else question,
        worth,
        names,
        leaves,
        marks,
        ahead,
        target,
        price,
        arms=tried_arms(log, names),
        control=control,
        proof=None if proof is None else plain(proof),
        notices=log.notices,
        leaves_of=of,
        distances={} if distances is None else distances,
    )


def _price(certificate: Certificate, log: Log, policies: PolicyClass, names: tuple[str, ...]) -> Price:
    """Return the policy's cost over all rows of the log; names (A,): of the actions."""
    rows = replace(log.contexts, weights=log.weights / log.weights.sum())
    limited = tuple(call(int(action), names) for action in np.flatnonzero(policies.costs))
    shares = 0 < len(limited) < len(names) and bool((policies.costs[policies.costs != 0] == 1.0).all())
    return Price(policies.mean_cost(certificate.policy, rows), policies.budget, limited if shares else ())


def _leaves(policy: TreePolicy, log: Log, names: tuple[str, ...]) -> tuple[GroupResult, ...]:
    """Return the leaves of a tree from left to right, with estimates from the log."""
    found: list[GroupResult] = []
    low, unit = log.reward_range[0], log.reward_range[1] - log.reward_range[0]

    def walk(node: Node, conditions: tuple[str, ...], there: BoolArray) -> None:
        if isinstance(node, TreeSplit):
            passed, words = node.test(log.contexts), node.test.describe()
            walk(node.then, (*conditions, words), there & passed)
            walk(node.otherwise, (*conditions, f"not ({words})"), there & ~passed)
            return
        estimates: list[float] = []
        for action in range(log.n_actions):
            mine = there & (log.actions == action) & ~log.awaited
            weights = log.weights[mine] / log.played_propensities[mine]
            mean = float(weights @ log.rewards[mine] / weights.sum()) if mine.any() else np.nan
            estimates.append(low + unit * mean)
        rows = int(log.repeats[there].sum())
        found.append(GroupResult(conditions, call(node, names), rows, rows / log.samples, tuple(estimates)))

    walk(policy.root, (), np.ones(len(log), dtype=np.bool_))
    return tuple(found)


def _checked(certificate: Certificate) -> list[Mark]:
    """Return the results of the checks for drift and for a sample-ratio mismatch."""
    titles = {"drift": "Did anything change on the way?", "sample ratio": "Do the counts fit the split?"}
    return [
        Mark(
            "red" if check.alarm else "green" if check.looked and not check.found else "yellow",
            titles[check.kind],
            one_line(check.describe()),
        )
        for check in by_gravity(certificate.told)
    ]


def _overlap(certificate: Certificate, log: Log, names: tuple[str, ...]) -> Mark:
    """Return whether the log took the policy's actions, and each action, often enough."""
    title = "Was everything tried often enough?"
    counts = np.bincount(log.actions, weights=log.repeats, minlength=log.n_actions)
    rarest = int(counts.argmin())
    if counts[rarest] < MIN_PLAYS:
        return Mark("yellow", title, f"{call(rarest, names)} was tried only {count_of(int(counts[rarest]), 'time')}")
    mine = log.actions == likeliest(certificate.policy)(log.contexts)
    weights = log.weights[mine] / log.played_propensities[mine]
    effective = float(weights.sum() ** 2 / (weights**2).sum()) if mine.any() else 0.0
    words = f"what the policy would do was done in {int(log.repeats[mine].sum()):,} of {count_of(log.samples, 'row')}"
    return Mark("green" if effective >= MIN_EFFECTIVE_SHARE * log.samples else "yellow", title, words)


def _came_back(certificate: Certificate, log: Log) -> list[Mark]:
    """Return whether units repeat, as far as the log shows, and what that means for the evidence."""
    title, c = "Are there returning users?", certificate
    if c.units is None:
        return [Mark("yellow", title, one_line(words)) for words in log.assumed if tells_of_return(words)]
    if len(log) == c.units:
        return [Mark("green", title, f"no: each of {c.units:,} rows is of another person")]
    return [Mark("green", title, f"yes, and that is accounted for: {c.counted}, not visits")]


def _remarked(certificate: Certificate, log: Log) -> list[Mark]:
    """Return the assumptions about the file and about the data left out of it."""
    said = [one_line(words) for words in dict.fromkeys((*log.assumed, *certificate.remarks))]
    titles = ["Another reward" if words.startswith(CLIPPED) else "Taken as given" for words in said]
    return [
        Mark("yellow", title, words) for title, words in zip(titles, said, strict=True) if not tells_of_return(words)
    ]
