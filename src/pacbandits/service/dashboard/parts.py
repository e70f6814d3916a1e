"""What an experiment's page is made of, each part with something to say before there is anything to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pacbandits.errors import count_of, one_line
from pacbandits.service.dashboard.curve import draw_curve, draw_people
from pacbandits.service.dashboard.health import health_part, record_part, rests_part
from pacbandits.service.dashboard.markup import Html, join, part, scrolled, tag
from pacbandits.service.dashboard.reading import Given, Span
from pacbandits.service.dashboard.tree import colour_of, draw_rule, swatch
from pacbandits.service.dashboard.words import (
    about,
    alarms,
    bound,
    day,
    doubts,
    explanation,
    headline,
    is_mix,
    is_proven,
    lasting,
    percent,
    proven,
    show,
    state,
    within,
)

_SECONDS_A_DAY = 86_400
MAX_SHOWN_ACTIONS = 12  # of a group, in words


def experiment_parts(status: Given) -> list[Html]:
    """All parts of the page after its title."""
    return [
        answer_part(status),
        part("curve", "How close to the best rule", draw_curve(status)),
        part("people", "How many people it takes", draw_people(status)),
        part("rule", "The leading rule", draw_rule(status)),
        part("value", "What it is worth", _value(status)),
        health_part(status),
        part("shown", "Who is shown what", tag("div", _groups(status)), tag("div", _arms(status))),
        record_part(status),
        rests_part(status),
    ]


def answer_part(status: Given) -> Html:
    """The answer first: a sentence, what it means, what is wrong, and the figures of the day."""
    return tag(
        "section",
        tag("h2", "The answer", id="answer-title", class_="unseen"),
        (tag("p", tag("strong", "Alarm: "), words, class_="alarm") for words in alarms(status)),
        tag("p", headline(status), class_="headline"),
        (tag("p", words) for words in explanation(status)),
        tag("dl", _figures(status), class_="figures"),
        id="answer",
        aria_labelledby="answer-title",
        class_=f"answer {'doubtful' if doubts(status) else state(status)}",
    )


def _figures(status: Given) -> Iterable[Html]:
    distance, goal, rewards = proven(status), status.number("epsilon"), status.part("rewards")
    doubtful = bool(doubts(status))
    near = "—" if distance is None or doubtful else bound(distance)
    yield _figure(
        "Distance" if doubtful else "Proven within",
        near,
        "in doubt: see the alarm" if doubtful else f"goal {show(goal)}",
    )
    holdout = status.count("holdout_assigned")
    extra = f"and {holdout:,} held out" if holdout else "assigned so far"
    yield _figure("People", f"{status.count('assigned'):,}", extra)
    yield _figure("Rewards in", f"{rewards.count('in'):,}", f"{rewards.count('awaited'):,} awaited")
    begun, now = status.time("created"), status.time("now")
    if begun is not None and now is not None:
        yield _figure("Running for", lasting((now - begun).total_seconds() / _SECONDS_A_DAY), f"since {day(begun)}")
    if doubtful:
        yield _figure("To go", "—", "resolve the alarm first")
    elif is_proven(status):
        yield _figure("To go", "nothing", "the goal is reached")
    else:
        ahead = status.part("to_go")
        days, samples = ahead.number("days"), ahead.number("samples")
        people = "" if samples is None else f"≈ {about(samples)} people"
        figure = people if days is None else f"≈ {lasting(days)}".replace("≈ less", "less").replace("≈ more", "more")
        yield _figure("To go", figure or "—", people if days is not None else "")


def _figure(name: str, value: str, more: str) -> Html:
    return tag("div", tag("dt", name), tag("dd", value), tag("dd", more, class_="dim") if more else None)


def _value(status: Given) -> Html:
    """The rule's mean reward beside the standard's, and what it gains."""
    value = status.part("value")
    standard = one_line(status.text("standard"), most=60)
    rule = "the mix of rules" if is_mix(status) else "the rule"
    means = [(rule, value.span("policy")), (f"always {standard}", value.span("standard"))]
    shown = [(label, span) for label, span in means if span is not None]
    lift = value.span("lift")
    if not shown and lift is None:
        return tag("p", "What the rule earns is estimated at the first look at the data.", class_="empty")
    sure = value.number("confidence")
    note = "" if sure is None else f"Each interval is right with {100 * sure:g} % confidence, whenever you look."
    note = "No interval here can be relied on before the alarm is resolved." if doubts(status) else note
    note += "" if lift is None else " The dotted line is no gain."
    return join(
        _spans("Mean reward a person", shown, zero=False) if shown else None,
        _spans("Gain over the standard", [(rule, lift)], zero=True) if lift is not None else None,
        tag("p", note.strip(), class_="dim") if note else None,
        _holdout(status),
    )


def _holdout(status: Given) -> Html | None:
    """Those held out beside those who were not, where there are any."""
    compared = status.part("holdout_compared")
    rows: list[tuple[str, Span]] = []
    for key, label in (("experiment", "in the experiment"), ("holdout", "held out")):
        one = compared.part(key)
        span = Given({"": {**one.value, "estimate": one.number("mean")}}).span("")
        if span is not None:
            rows.append((f"{label} ({one.count('rows'):,})", span))
    return _spans("Against those held out", rows, zero=False) if rows else None


def _spans(title: str, rows: Sequence[tuple[str, Span]], *, zero: bool) -> Html:
    """Intervals beside one another on one scale; zero: whether to mark where nothing is gained."""
    ends = [end for _, span in rows for end in ((span.estimate,) if span.empty else span)] + ([0.0] if zero else [])
    low, wide = min(ends), (max(ends) - min(ends)) or 1.0

    def at(value: float) -> str:
        return f"{2 + 96 * (value - low) / wide:.2f}%"

    items = (
        tag(
            "li",
            tag("span", label, class_="name"),
            tag("span", within(span, sign=zero), class_="figure"),
            tag(
                "svg",
                tag("line", x1=at(0.0), x2=at(0.0), y1="0", y2="18", class_="zero") if zero else None,
                None if span.empty else tag("line", x1=at(span.low), x2=at(span.high), y1="9", y2="9", class_="span"),
                tag("circle", cx=at(span.estimate), cy="9", r="4.5", class_="estimate"),
                width="100%",
                height="18",
                aria_hidden="true",
                class_="bar",
            ),
        )
        for label, span in rows
    )
    return join(tag("h3", title), tag("ul", items, class_="bars"))


def _groups(status: Given) -> Html:
    """What is shown to each group of people that the rule tells apart: a bar with its words."""
    groups, actions = status.parts("leaves"), status.texts("actions")
    if not groups:
        return tag("p", "The rule tells no groups of people apart yet.", class_="empty")
    items: list[Html] = []
    for one in groups:
        shares = [(i, name, one.part("shares").number(name) or 0.0) for i, name in enumerate(actions)]
        gets = one.text("action")
        items.append(
            tag(
                "li",
                tag("span", one_line(one.text("where")) or "everybody", class_="name"),
                tag("span", f"{percent(one.number('share'))} of people", class_="figure dim"),
                tag("svg", _stack(shares), width="100%", height="12", aria_hidden="true", class_="bar"),
                tag("span", _in_words(shares, gets), class_="words"),
            )
        )
    note = "How people of each group were spread over the actions so far. The rule’s own choice is in bold."
    return join(tag("p", note, class_="dim"), tag("ul", items, class_="bars groups"))


def _stack(shares: Sequence[tuple[int, str, float]]) -> Iterable[Html]:
    """Pieces of one bar, with a gap between."""
    x, whole = 0.0, sum(share for _, _, share in shares) or 1.0
    for action, _, share in shares:
        wide = 100 * share / whole
        if wide > 0:
            yield tag(
                "rect", x=f"{x:.2f}%", y="0", width=f"{wide:.2f}%", height="12", class_=f"piece {colour_of(action)}"
            )
        x += wide


def _in_words(shares: Sequence[tuple[int, str, float]], gets: str) -> Iterable[Html]:
    """The pieces in their order, the largest of them where there are many."""
    least = sorted((share for _, _, share in shares), reverse=True)[:MAX_SHOWN_ACTIONS][-1:]
    large = [one for one in shares if one[2] > 0 and [one[2]] >= least][:MAX_SHOWN_ACTIONS]
    for action, name, share in large:
        shown = one_line(name, most=60)
        named = tag("strong", shown) if name == gets else tag("span", shown)
        yield tag("span", swatch(action), named, tag("span", percent(share), class_="whole"), class_="key")
    others = sum(share > 0 for _, _, share in shares) - len(large)
    if others:
        yield tag("span", f"and {count_of(others, 'other')}", class_="key")


def _arms(status: Given) -> Html:
    """Each action as it was tried."""
    arms, actions, gone_by_now = status.parts("arms"), status.texts("actions"), status.texts("withdrawn")
    if not arms:
        return tag("p", "No action has been tried yet.", class_="empty")
    head = (
        tag("th", name, scope="col", class_=side)
        for name, side in (("action", None), ("people", "n"), ("share", "n"), ("mean", "n"), ("rewards in", "n"))
    )
    rows: list[Html] = []
    for i, one in enumerate(arms):
        name = one.text("action")
        number = actions.index(name) if name in actions else i
        gone = tag("span", " withdrawn", class_="warn") if one.flag("withdrawn") or name in gone_by_now else None
        figures = (
            f"{one.count('assigned'):,}",
            percent(one.number("share")),
            show(one.number("mean")),
            f"{one.count('rewards_in'):,}",
        )
        first = tag("th", swatch(number), one_line(name), gone, scope="row")
        rows.append(tag("tr", first, (tag("td", figure, class_="n") for figure in figures)))
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows))
    note = "As it was seen: nothing is weighted or modelled."
    return join(
        tag("h3", "Each action so far"),
        scrolled(table, "Each action so far"),
        tag("p", note, class_="dim"),
    )
