"""Sentences that describe a status."""

from __future__ import annotations

import math
import re
from datetime import datetime
from urllib.parse import quote

from pacbandits.certificate.claim import rounded_down
from pacbandits.errors import count_of, one_line
from pacbandits.report.numbers import about, show_short
from pacbandits.service.dashboard.status import JsonView

STATES = {
    "collecting": "collecting",
    "designing": "collecting",
    "paused": "paused",
    "certified": "proven",
    "stopped": "stopped",
}
_EXCEPT = re.compile(r"except with probability (\d[\d.]*(?:e-\d+)?) ?")
_MIX = re.compile(r"[\d.]+ %: ")
DOUBTFUL = "In doubt: the data contradict an assumption, so there is no answer before the alarm is resolved."
AT_NEXT = "perhaps at the next analysis"
TOO_EARLY = "it is too early to say how long it will take"
MAX_NAME_CHARACTERS = 120  # of a name within a sentence
_HOURS_A_DAY = 24
_DAYS_A_WEEK = 7
_MAX_SHOWN_HOURS, _MAX_SHOWN_DAYS = 48, 21
_ENDLESS_DAYS = 3_650


def bound(value: float | None) -> str:
    """Format a proven distance, rounded up so that the text claims no more than the proof."""
    if value is None or value <= 0:
        return show_short(value)
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return show_short(math.ceil(value / step - 1e-9) * step)


def moment(time: datetime | None) -> str:
    """Format a time in UTC: 3 Mar 2026, 14:05 UTC."""
    return "—" if time is None else f"{time.day} {time:%b %Y, %H:%M} UTC"


def day(time: datetime | None) -> str:
    """Format a date: 3 Mar 2026."""
    return "—" if time is None else f"{time.day} {time:%b %Y}"


def lasting(days: float) -> str:
    """Format a duration: 5 hours, 12 days, 7 weeks."""
    hours = days * _HOURS_A_DAY
    if hours < 1:
        return "less than an hour"
    if hours < _MAX_SHOWN_HOURS:
        return count_of(round(hours), "hour")
    if days < _MAX_SHOWN_DAYS:
        return count_of(round(days), "day")
    return "more than ten years" if days > _ENDLESS_DAYS else count_of(round(days / _DAYS_A_WEEK), "week")


def confidence(status: JsonView) -> str:
    """Format the confidence of the claim, or of the goal before there is a claim: 95.5 %."""
    delta = status.part("claim").number("delta")
    delta = status.number("delta") if delta is None else delta
    return "—" if delta is None else as_confidence(1 - delta)


def as_confidence(share: float) -> str:
    """Format a confidence, rounded down: 95.5 %; a dash for what is none."""
    if not 0 <= share <= 1:
        return "—"
    return f"{math.floor(1e4 * share + 1e-6) / 100:g} %"


def in_confidence(words: str, *, doubtful: bool) -> str:
    """Return a claim's words with its error probability as a confidence, as all of the page; without it in doubt."""
    if doubtful:
        return _EXCEPT.sub("", words)
    return _EXCEPT.sub(lambda found: f"with {as_confidence(1 - float(found[1]))} confidence ", words)


def proven(status: JsonView) -> float | None:
    """Return the proven distance from the best rule; None unless it is below the width of the reward range."""
    found = status.part("claim").number("certified_epsilon")
    return found if found is not None and found < width(status) else None


def width(status: JsonView) -> float:
    """Return the width of the reward range: a distance that is not below it is trivial."""
    ends = status.numbers("reward_range")
    return ends[1] - ends[0] if len(ends) == 2 else math.inf


def is_proven(status: JsonView) -> bool:
    """Return whether the goal is proven."""
    return status.text("state") == "certified" or status.part("claim").flag("certified")


def state(status: JsonView) -> str:
    """Return the state in a word."""
    if status.text("state") == "certified" and doubts(status):
        return "doubtful"
    return STATES.get(status.text("state"), one_line(status.text("state")) or "unknown")


def urgency(status: JsonView | None) -> int:
    """Return the place of an experiment in the list: 0 with an alarm, then those that run, then the others."""
    if status is None or alarms(status):
        return 0
    return {"collecting": 1, "paused": 2, "certified": 3}.get(status.text("state"), 4)


def sentence(text: str) -> str:
    """Return a text on one line with an initial capital."""
    line = one_line(text)
    return line[:1].upper() + line[1:]


def alarms(status: JsonView) -> list[str]:
    """Return a sentence for each alarm: contradicted assumptions, and the guardrail."""
    found, guard = doubts(status), status.part("health").part("guardrail")
    harmed = [one.text("of") for one in guard.parts("tests") if one.flag("alarm")]
    if harmed:
        of = ", ".join(one_line(name, most=MAX_NAME_CHARACTERS) for name in harmed)
        name, most = one_line(guard.text("name"), most=MAX_NAME_CHARACTERS), show_short(guard.number("most"))
        found.append(f"The guardrail “{name}” is above {most}: {of}.")
    return found


def doubts(status: JsonView) -> list[str]:
    """Return a sentence for each assumption of the proof that the data contradict."""
    checks = [one for one in status.part("health").parts("checks") if one.flag("alarm")]
    found = status.texts("alarms") or [one.text("words") or one.text("name") for one in checks]
    return [sentence(words) for words in found]


def rule(status: JsonView, *, below: bool) -> str:
    """Return a name of the leading rule for a sentence; below: whether the rule is shown below it."""
    words = status.part("claim").text("words")
    if words.startswith("always ") and "\n" not in words:
        return f"“{one_line(words, most=MAX_NAME_CHARACTERS)}”"
    kind = "mixture of rules" if is_mix(status) else "rule"
    return f"the {kind} below" if below else f"its {kind}"


def is_mix(status: JsonView) -> bool:
    """Return whether the claim is about a mixture of rules: its words then begin with a rule's weight."""
    return _MIX.match(status.part("claim").text("words")) is not None


def time_to_go(status: JsonView) -> str | None:
    """Format the remaining time, "about 12 more days", or sample size; None if neither is known."""
    ahead = status.part("to_go")
    days, samples = ahead.number("days"), ahead.number("samples")
    if samples is not None and samples < 1:  # all that it takes is there, as far as that can be foreseen
        return AT_NEXT
    if days is not None:
        count, _, unit = lasting(days).partition(" ")
        return f"about {count} more {unit}" if count[0].isdigit() else lasting(days)
    return None if samples is None else f"about {about(samples)} more people"


def headline(status: JsonView, *, below: bool = True) -> str:
    """Return the result in a sentence; below: whether the rule is shown below it."""
    distance, where, named = proven(status), status.text("state"), rule(status, below=below)
    if doubts(status):
        return DOUBTFUL
    if by_gain(status):
        return _gain_headline(status, named)
    if distance is not None and is_proven(status):
        return f"Proven: {named} is within {bound(distance)} of the best rule."
    held = where in ("paused", "stopped")
    ahead = time_to_go(status)
    if distance is None:
        first = "Nothing is proven" if held else "Nothing is proven yet"
        return f"{first}." if held else f"{first}; {ahead or TOO_EARLY}."
    said = f"{'It' if held else 'So far it'} is proven that {named} is within {bound(distance)} of the best rule"
    return f"{said}." if held else f"{said}; {ahead or TOO_EARLY}."


def by_gain(status: JsonView) -> bool:
    """Return whether the experiment stops by a proven gain over its control."""
    return status.text("stop") == "gain"


def _gain_headline(status: JsonView, named: str) -> str:
    """Return the result of an experiment that stops by a gain."""
    control, found = (
        one_line(status.text("standard"), most=MAX_NAME_CHARACTERS),
        status.part("claim").number("proven_gain"),
    )
    if found is not None:
        words = "Proven" if is_proven(status) else "So far it is proven"
        said = f"{named} earns at least {rounded_down(found):g} more a person than “{control}”"
        return f"{words}: {said}." if is_proven(status) else f"{words} that {said}."
    held = status.text("state") in ("paused", "stopped")
    first = f"No gain over “{control}” is proven"
    return f"{first}." if held else f"{first} yet; {time_to_go(status) or TOO_EARLY}."


def explanation(status: JsonView) -> list[str]:
    """Return the sentences after the headline: pause or stop, the meaning of the result, and what happens next."""
    return [words for words in (_held(status), _meaning(status), _now(status)) if words]


def _held(status: JsonView) -> str:
    where, reason = status.text("state"), one_line(status.text("reason")).rstrip(".")
    if where == "paused":
        return f"Paused{f': {reason}' if reason else ''}. Nobody new is assigned until it is resumed."
    if where == "stopped":
        kept = "" if doubts(status) else "; what was proven stays proven"
        return f"Stopped{f': {reason}' if reason else ''}. Nobody is assigned any more{kept}."
    return ""


def _meaning(status: JsonView) -> str:
    distance, goal = proven(status), status.number("epsilon")
    if doubts(status):
        near = (
            "" if distance is None else f" If the assumptions held, it would be within {bound(distance)} of the best."
        )
        return f"No figure below holds with any confidence before the alarm is resolved.{near}"
    if distance is None and by_gain(status):
        return f"The goal is a proven gain over the control, with {confidence(status)} confidence."
    if distance is None:
        sure = confidence(status)
        return f"The goal is a rule proven to be within {show_short(goal)} of the best one, with {sure} confidence."
    this = "this mixture" if is_mix(status) else "this one"
    meaning = f"No rule of the kind compared earns over {bound(distance)} more a person than {this}, on average"
    target = "" if is_proven(status) or goal is None or by_gain(status) else f" The goal is {show_short(goal)}."
    return f"{meaning}. That is right with {confidence(status)} confidence, whenever you look.{target}"


def _now(status: JsonView) -> str:
    where, claim = status.text("state"), status.part("claim")
    if where == "certified":
        what = "what the mixture says" if is_mix(status) else "what this rule says"
        enough = "" if doubts(status) else "; nothing more needs to be collected"
        return f"Everybody who comes now is given {what}{enough}."
    if where in ("paused", "stopped"):
        return ""
    if not claim and not status.part("analysis"):
        arrived = count_of(status.part("rewards").count("in"), "reward")
        return f"The first analysis comes with the first rewards; {arrived} in."
    return ""


def counted(status: JsonView) -> str:
    """Say of when and of how many people the analysis is, and how many came since; empty before the first."""
    analysis = status.part("analysis")
    if not analysis:
        return ""
    rows = analysis.count("rows")
    since = status.count("assigned") - rows
    more = f"; {count_of(since, 'person has', 'people have')} come since" if since > 0 else ""
    return f"As of {moment(analysis.time('at'))}, with {count_of(rows, 'person', 'people')}{more}."


def next_step(status: JsonView) -> str:
    """Say what to do next."""
    where, name = status.text("state"), one_line(status.text("name"), most=MAX_NAME_CHARACTERS)
    if doubts(status):
        return "Find the cause of the alarm before you rely on any figure; pause it if people may be harmed."
    if is_proven(status):
        export = f"pacbandits experiment export {name} record.parquet --certificate proof.json"
        kept = "The service already plays the rule. " if where == "certified" else ""
        return f"{kept}To roll it out elsewhere, or to have it checked: {export}"
    if where == "paused":
        return f"Resume it when the reason is gone (pacbandits experiment resume {name} --reason …), or stop it."
    if where == "stopped":
        return "Export what is proven, or begin another experiment; rewards that still arrive may prove a little more."
    ahead = time_to_go(status)
    return f"Wait: {ahead}. Nothing needs to be done meanwhile." if ahead else "Wait: nothing needs to be done."


def next_links(status: JsonView) -> tuple[tuple[str, str], ...]:
    """Return the links of the next step: words and address, relative to the experiment's page."""
    where, name = status.text("state"), quote(status.text("name"), safe="")
    if doubts(status):
        return (("Health of the data", "#health"), ("Event log", "#record"))
    found: list[tuple[str, str]] = []
    if is_proven(status):
        found.append(("The rule", "#rule"))
    elif where in ("paused", "stopped"):
        found.append(("Event log", "#record"))
    else:
        found += [("How close it is", "#curve"), ("Sample size", "#people")]
    if status.flag("exportable") and status.part("claim") and (where == "stopped" or is_proven(status)):
        found += [
            ("Download the event log", f"../export/{name}"),
            ("Download the certificate", f"../certificate/{name}"),
        ]
    return tuple(found)


def news(status: JsonView) -> str:
    """Return the announcement for screen readers: alarms, state and result, but no running counts."""
    return " ".join((*alarms(status), f"{state(status).capitalize()}.", headline(status)))
