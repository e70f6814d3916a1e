"""Whether the data can be trusted, what happened, and what the answer rests on."""

from __future__ import annotations

from collections.abc import Iterable

from pacbandits.errors import count_of, one_line
from pacbandits.service.dashboard.markup import Html, Inside, join, part, scrolled, tag
from pacbandits.service.dashboard.reading import Given
from pacbandits.service.dashboard.words import doubts, lasting, moment, percent, sentence, show

FIRST_EVENTS = 8  # shown at once; the others on demand
_SECONDS_A_DAY = 86_400
EVERYBODY = "all"  # what a guardrail's test over all actions is of
# What checks are called, and what they say where nothing is wrong.
CHECKS = {
    "sample ratio": ("the split", "Actions come up as often as they should."),
    "drift": ("drift", "People, and what they earn, look the same over time."),
}
SEAL = (
    "Each entry of the record holds the fingerprint of all before it. Who notes this one down can check later, with "
    "pacbandits verify on the export, that nothing before it was changed or left out."
)


def health_part(status: Given) -> Html:
    """Rewards that are missing or late, the split, drift, and the guardrail."""
    health = status.part("health")
    rows = [*_reward_rows(status), *(_check_row(one) for one in health.parts("checks"))]
    if not health:
        rows.append(_row("", "checks", "The split and drift are checked from the first look on.", ""))
    listed = tag("ul", rows, class_="checks")
    seen = status.time("updated")
    as_of = f"Counts of rewards are of now, all else is as of the last look, {moment(seen)}."
    note = None if seen is None else tag("p", as_of, class_="dim")
    return part("health", "Health of the data", listed, _guardrail(health.part("guardrail")), note)


def _reward_rows(status: Given) -> Iterable[Html]:
    rewards, health, late = status.part("rewards"), status.part("health"), status.part("late")
    held = rewards.count("in") + rewards.count("awaited") + rewards.count("missed")
    share = rewards.count("awaited") / held if held else None
    counts = "counted at their worst until they come" if late.text("rule") == "worst case" else _window(late)
    words = f"{count_of(rewards.count('awaited'), 'reward')} not in yet, {counts}."
    yield _row("", "awaited", words, percent(share))
    if late.text("rule") != "worst case":
        missed = f"{count_of(rewards.count('missed'), 'reward')} did not come in time and count as "
        missed += f"{show(late.number('missing'))}; {rewards.count('late'):,} came later and do not count."
        yield _row("", "missing or late", missed, percent(rewards.count("missed") / held if held else None))
    least = health.number("least_propensity")
    if least is not None:
        words = "The least chance that anybody had of any action shown. Very small ones make proofs slow."
        yield _row("", "least chance", words, percent(least))


def _window(late: Given) -> str:
    seconds = late.number("window_seconds")
    if seconds is None:
        return "which count when they come"
    return f"which have {lasting(seconds / _SECONDS_A_DAY)} to come, and count as {show(late.number('missing'))} after"


def _check_row(check: Given) -> Html:
    alarm, evidence, needed = check.flag("alarm"), check.number("evidence"), check.number("needed")
    weighed = "" if evidence is None or needed is None else f"evidence {show(evidence)}, alarm at {show(needed)}"
    said = sentence(check.text("words")) or ("An alarm." if alarm else "Nothing to be seen.")
    title, well = CHECKS.get(check.text("name"), (one_line(check.text("name")), said))
    return _row("alarm" if alarm else "fine", title, said if alarm else well, "", more=weighed, title=said)


def _row(kind: str, name: str, words: str, figure: str, *, more: str = "", title: str | None = None) -> Html:
    mark: Inside = {"alarm": "alarm", "fine": "fine"}.get(kind, figure)
    return tag(
        "li",
        tag("span", name, class_="name"),
        tag("span", mark, class_=f"mark {kind}".strip()),
        tag("span", words, tag("span", f" ({more})", class_="dim") if more else None, class_="words", title=title),
    )


def _guardrail(guard: Given) -> Html:
    """The outcome that must not exceed its limit, by action and over all."""
    if not guard:
        return tag("p", "No guardrail was asked for.", class_="dim")
    name, most = one_line(guard.text("name"), most=60), show(guard.number("most"))
    title = tag("h3", f"Guardrail: {name} at most {most}")
    tests = guard.parts("tests")
    if not tests:
        return join(title, tag("p", "Nothing has been reported for it yet.", class_="empty"))
    figures = (tag("th", word, scope="col", class_="n") for word in ("people", "mean", "evidence", "alarm at"))
    head = (tag("th", "of", scope="col"), tag("th", "result", scope="col"), *figures)
    rows = (
        tag(
            "tr",
            tag("th", "everybody" if one.text("of") == EVERYBODY else one_line(one.text("of")), scope="row"),
            tag("td", "alarm" if one.flag("alarm") else "fine", class_="alarm" if one.flag("alarm") else "fine"),
            tag("td", f"{one.count('seen') or one.count('rows'):,}", class_="n"),
            (tag("td", show(one.number(key)), class_="n") for key in ("mean", "evidence", "needed")),
        )
        for one in tests
    )
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows))
    return join(title, scrolled(table, f"Guardrail {name}"))


def record_part(status: Given) -> Html:
    """What happened, newest first, and the seal over all of it."""
    events = list(reversed(status.parts("events")))
    first, rest = events[:FIRST_EVENTS], events[FIRST_EVENTS:]
    older: Html | None = None
    if rest:
        older = tag("details", tag("summary", f"{count_of(len(rest), 'older event')}"), _events(rest), id="older")
    nothing = tag("p", "Nothing has happened yet.", class_="empty")
    return part("record", "The record", _events(first) if first else nothing, older, _seal(status.part("seal")))


def _events(events: Iterable[Given]) -> Html:
    items = (
        tag(
            "li",
            tag("time", moment(one.time("at")), datetime=one.text("at"), class_="dim"),
            tag("span", sentence(one.text("words") or one.text("kind")), class_="words"),
        )
        for one in events
    )
    return tag("ol", items, class_="events", reversed=True)


def _seal(seal: Given) -> Html:
    head = seal.text("head")
    title = tag("h3", "The seal")
    if not head:
        return join(title, tag("p", "The record has not been sealed yet.", class_="empty"))
    copy = tag("button", "Copy", type="button", data_copy=head, class_="quiet scripted", id="copy")
    entries = count_of(seal.count("entries"), "entry", "entries")
    protocol = seal.text("protocol")
    return join(
        title,
        tag("p", tag("code", head), " ", copy, class_="seal"),
        tag("p", f"Over {entries}. {SEAL}", class_="dim"),
        tag("p", "Protocol: ", tag("code", protocol), class_="dim") if protocol else None,
    )


def rests_part(status: Given) -> Html:
    """What was agreed on beforehand, and what the proof takes for granted."""
    late, claim = status.part("late"), status.part("claim")
    ends = status.numbers("reward_range")
    agreed = [
        ("goal", f"within {show(status.number('epsilon'))} of the best rule"),
        ("confidence", _sure(status.number("delta"))),
        ("rules compared", one_line(status.text("policies"))),
        ("actions", ", ".join(one_line(name, most=60) for name in status.texts("actions"))),
        ("standard action", one_line(status.text("standard"), most=60)),
        ("what is known of people", ", ".join(one_line(name, most=60) for name in status.texts("features"))),
        ("rewards", f"from {show(ends[0])} to {show(ends[1])}" if len(ends) == 2 else ""),
        ("rewards not in", "count at their worst" if late.text("rule") == "worst case" else _window(late)),
        ("people who come back", _visits(status.text("visits"))),
        ("held out", percent(status.number("holdout"))),
        ("algorithm", one_line(status.text("algorithm"))),
    ]
    rows = (tag("div", tag("dt", name), tag("dd", words)) for name, words in agreed if words)
    taken = tag("ul", (tag("li", one_line(words)) for words in claim.texts("assumptions")), class_="plain")
    listed = tag("dl", rows, class_="agreed")
    promise, assumed = sentence(claim.text("describe")).rstrip("."), claim.texts("assumptions")
    promise = f"The data speak against an assumption. If all held: {promise}" if promise and doubts(status) else promise
    return part(
        "rests",
        "What it rests on",
        tag("p", f"{promise}.") if promise else tag("p", "Nothing is proven yet.", class_="empty"),
        tag("details", tag("summary", "What it assumes"), taken, id="assumed") if assumed else None,
        tag("details", tag("summary", "What was agreed on at the start"), listed, id="agreed"),
    )


def _sure(delta: float | None) -> str:
    return "" if delta is None else f"{100 * (1 - delta):g} %"


def _visits(kind: str) -> str:
    return {"sticky": "see the same again", "each": "are drawn anew at each visit; first visits count"}.get(kind, kind)
