"""The proven distance as it falls over people, down to the goal: a picture that is drawn at any width, and a table.

Places are shares of the width and height, so that the picture fits a phone and its text keeps its size. Distances are
drawn by their logarithms: what halves them is a step of one height, near the goal as far from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pacbandits.errors import count_of
from pacbandits.service.dashboard.markup import Html, Inside, join, scrolled, tag
from pacbandits.service.dashboard.reading import Given
from pacbandits.service.dashboard.words import DOUBTFUL, about, bound, doubts, moment, proven, show, width

MAX_TICKS = 4  # beside 0, so that they have room on a phone
MAX_TABLE_ROWS = 50
MAX_DRAWN_LOOKS = 240
LEAST_DRAWN = 1e-9  # a distance; the largest is one over it
_ROOM = 1.25  # above the largest and below the least distance
_LINE_UNITS = 1000  # of the width and the height, within paths
_MAX_AHEAD = 4.0  # by which what is ahead may stretch the picture, in what there is


@dataclass(frozen=True)
class _Scale:
    """Where things stand, as shares of the width and the height.

    people: how many the picture is wide.
    low, high: the distances at its foot and top.
    """

    people: float
    low: float
    high: float

    def across(self, samples: float) -> float:
        return min(samples / self.people, 1.0)

    def down(self, distance: float) -> float:
        share = math.log(self.high / distance) / math.log(self.high / self.low)
        return min(max(share, 0.0), 1.0)


def draw_curve(status: Given) -> Html:
    """The picture with its legend and table, or a sentence where nothing is proven yet."""
    goal = status.number("epsilon")
    looks = _thinned([one for one in status.parts("curve") if _says_something(one, width(status))])
    if not looks or goal is None or not _drawable(goal):
        seen = len(status.parts("curve"))
        nothing = (
            f"{count_of(seen, 'look')} at the data so far, and nothing is proven yet: the curve begins when it is."
        )
        return tag("p", nothing if seen else "The curve begins with the first look at the data.", class_="empty")
    ahead = _end_of(status, looks)
    scale = _scale_of(looks, goal, ahead)
    words = f"{DOUBTFUL} {_in_words(looks, goal)}" if doubts(status) else _in_words(looks, goal)
    plot = tag(
        "svg",
        _grid(scale),
        _goal_line(scale, goal),
        _lines(scale, looks, goal, ahead),
        _dots(scale, looks),
        class_="plot",
        width="100%",
        height="100%",
        role="img",
        aria_label=words,
    )
    figure = tag("figure", tag("div", plot, class_="curve"), _legend(ahead is not None), class_="drawing")
    doubt = tag("p", DOUBTFUL, class_="alarm") if doubts(status) else None
    return join(doubt, figure, _table(looks))


def _drawable(distance: float | None) -> bool:
    return distance is not None and LEAST_DRAWN < distance < 1 / LEAST_DRAWN


def _says_something(look: Given, width: float) -> bool:
    """Whether a look, or one before it, proved more than the range of rewards tells."""
    best = look.number("best")
    return best is not None and _drawable(best) and best < width and look.count("samples") > 0


def _thinned(looks: Sequence[Given]) -> Sequence[Given]:
    """Not more looks than a picture can show, the last among them."""
    every = -(-len(looks) // MAX_DRAWN_LOOKS) or 1
    return looks[(len(looks) - 1) % every :: every]


def _end_of(status: Given, looks: Sequence[Given]) -> float | None:
    """After how many people the goal is expected to be reached; None where that is not known or too far to draw."""
    more, last = status.part("to_go").number("samples"), looks[-1].count("samples")
    reached = status.text("state") in ("certified", "stopped")
    return None if reached or not more or more > _MAX_AHEAD * last else last + more


def _scale_of(looks: Sequence[Given], goal: float, ahead: float | None) -> _Scale:
    distances = [goal, *(one.number("best") or goal for one in looks)]
    distances += [
        min(found, distances[1]) for one in looks if _drawable(found := one.number("certified_epsilon")) and found
    ]
    people = max(ahead or 0.0, looks[-1].count("samples"))
    return _Scale(people=1.02 * people, low=min(distances) / _ROOM, high=max(distances) * _ROOM)


def _grid(scale: _Scale) -> Iterable[Html]:
    """Thin lines with figures at round distances, and figures at round numbers of people."""
    for distance in _round_distances(scale.low, scale.high):
        y = _share(scale.down(distance))
        yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_="grid")
        yield tag("text", show(distance), x="-8", y=y, dy="4", text_anchor="end")
    step = _round_step(scale.people / MAX_TICKS)
    for i in range(int(scale.people / step) + 1):
        x = scale.across(i * step)
        side = "end" if x > 0.95 else "middle"
        yield tag("text", f"{i * step:,.0f}", x=_share(x), y="100%", dy="20", text_anchor=side)


def _goal_line(scale: _Scale, goal: float) -> Iterable[Html]:
    y = _share(scale.down(goal))
    yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_="goal")
    yield tag("text", f"goal {show(goal)}", x="4", y=y, dy="-6", class_="goal-name")


def _lines(scale: _Scale, looks: Sequence[Given], goal: float, ahead: float | None) -> Html:
    """The best so far as steps, as it stays proven until the next look, and from there a guess."""
    path, height = "", 0.0
    for one in looks:
        x = _LINE_UNITS * scale.across(one.count("samples"))
        height = _LINE_UNITS * scale.down(one.number("best") or goal)
        path += f"H{x:.1f}V{height:.1f}" if path else f"M{x:.1f} {height:.1f}"
    parts = [tag("path", d=path, class_="best", vector_effect="non-scaling-stroke")]
    if ahead is not None:
        start = _LINE_UNITS * scale.across(looks[-1].count("samples"))
        end, foot = _LINE_UNITS * scale.across(ahead), _LINE_UNITS * scale.down(goal)
        guess = f"M{start:.1f} {height:.1f}L{end:.1f} {foot:.1f}"
        parts.append(tag("path", d=guess, class_="ahead", vector_effect="non-scaling-stroke"))
    box = f"0 0 {_LINE_UNITS} {_LINE_UNITS}"
    # `tag` writes names of attributes as they are given, and this one has a capital.
    return tag("svg", parts, viewBox=box, preserveAspectRatio="none", width="100%", height="100%", class_="lines")


def _dots(scale: _Scale, looks: Sequence[Given]) -> Iterable[Html]:
    for one in looks:
        distance = one.number("certified_epsilon")
        if distance is not None and _drawable(distance):
            x, y = _share(scale.across(one.count("samples"))), _share(scale.down(distance))
            yield tag("circle", tag("title", _look_words(one)), cx=x, cy=y, r="3", class_="look")


def _legend(ahead: bool) -> Html:
    parts: list[Inside] = [
        tag("span", _sample("best"), "best so far", class_="key"),
        tag("span", _sample("look"), "each look at the data", class_="key"),
        tag("span", _sample("goal"), "the goal", class_="key"),
        tag("span", _sample("ahead"), "what is expected", class_="key") if ahead else None,
    ]
    axes = "Upwards: how far from the best rule it could still be. To the right: people whose rewards count."
    return tag("figcaption", tag("span", parts, class_="keys"), tag("span", axes))


def _sample(kind: str) -> Html:
    inside = (
        tag("circle", cx="11", cy="5", r="3", class_="look")
        if kind == "look"
        else tag("line", x1="0", x2="22", y1="5", y2="5", class_=kind)
    )
    return tag("svg", inside, width="22", height="10", aria_hidden="true")


def _table(looks: Sequence[Given]) -> Html:
    head = tag("tr", (tag("th", name, scope="col") for name in ("people", "distance", "best so far", "when")))
    rows = (
        tag(
            "tr",
            tag("td", f"{one.count('samples'):,}", class_="n"),
            tag("td", bound(one.number("certified_epsilon")), class_="n"),
            tag("td", bound(one.number("best")), class_="n"),
            tag("td", moment(one.time("at"))),
        )
        for one in reversed(looks[-MAX_TABLE_ROWS:])
    )
    cut = f", the last {MAX_TABLE_ROWS} of {len(looks):,}" if len(looks) > MAX_TABLE_ROWS else ""
    table = tag("table", tag("thead", head), tag("tbody", rows))
    return tag("details", tag("summary", f"The same in figures{cut}"), scrolled(table, "Looks at the data"), id="looks")


def _look_words(one: Given) -> str:
    return f"after {one.count('samples'):,} people: {bound(one.number('certified_epsilon'))}"


def _in_words(looks: Sequence[Given], goal: float) -> str:
    first, last = looks[0], looks[-1]
    begun = f"{bound(first.number('best'))} after {first.count('samples'):,} people"
    if len(looks) == 1:
        return f"The certified distance from the best rule: {begun}. The goal is {show(goal)}."
    now = f"{bound(last.number('best'))} after {last.count('samples'):,}"
    return f"The certified distance from the best rule fell from {begun} to {now}. The goal is {show(goal)}."


def _round_distances(low: float, high: float) -> list[float]:
    """Figures 1, 2 and 5 times powers of ten between both ends; every other one where they would crowd."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    inside = [one for one in found if low <= one <= high]
    return inside if len(inside) <= 7 else [one for one in inside if f"{one:e}".startswith("1")]


def _round_step(least: float) -> float:
    """The round number, 1, 2 or 5 times a power of ten, that is no less than this, and at least 1."""
    power = 10.0 ** math.floor(math.log10(max(least, 1.0)))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least or digit == 10)


def _share(part: float) -> str:
    return f"{100 * part:.2f}%"


def draw_people(status: Given) -> Html:
    """How many people so far and in all, beside what the plan said and what a plain trial would need."""
    rows = _people_rows(status)
    if not rows:
        return tag("p", "People count from the first look at the data on.", class_="empty")
    most = max(count for _, count, _, _ in rows) or 1.0
    items = (
        tag(
            "li",
            tag("span", label, class_="name"),
            tag("span", words, class_="figure"),
            tag("svg", _bar(count / most, kind), width="100%", height="10", aria_hidden="true", class_="bar"),
        )
        for label, count, kind, words in rows
    )
    return join(tag("ul", items, class_="bars"), tag("p", _saving(status), class_="dim"))


def _bar(share: float, kind: str) -> Iterable[Html]:
    yield tag("rect", x="0", y="0", width="100%", height="10", rx="2", class_="track")
    yield tag("rect", x="0", y="0", width=_share(share), height="10", rx="2", class_=kind)


def expected(status: Given) -> float | None:
    """How many people the proof takes in all, by what is known now."""
    claim, more = status.part("claim"), status.part("to_go").number("samples")
    if claim.flag("certified"):
        return claim.count("samples") or None
    return None if more is None else _looked_at(status) + more


def _looked_at(status: Given) -> int:
    """Of how many people the last look made use: rewards of later ones are mostly not in."""
    return max([status.part("claim").count("samples"), *(one.count("samples") for one in status.parts("curve")[-1:])])


def _people_rows(status: Given) -> list[tuple[str, float, str, str]]:
    """Label, people, kind of bar, words."""
    so_far, whole, ahead = _looked_at(status), expected(status), status.part("to_go")
    rows: list[tuple[str, float, str, str]] = []
    if so_far and not status.part("claim").flag("certified"):
        rows.append(("counted so far", so_far, "done", f"{so_far:,}"))
    if whole:
        done = status.part("claim").flag("certified")
        rows.append(("it took" if done else "expected in all", whole, "done" if done else "guess", _near(whole, done)))
    planned = ahead.part("plan").part("people")
    for share, words in (("0.5", "plan: half of trials"), ("0.8", "plan: 4 of 5"), ("0.95", "plan: 19 of 20")):
        if people := planned.number(share):
            rows.append((words, people, "planned", f"≈ {about(people)}"))
    if plain := ahead.number("plain_trial"):
        rows.append(("a plain trial", plain, "plain", f"≈ {about(plain)}"))
    return rows


def _near(count: float, known: bool) -> str:
    return f"{count:,.0f}" if known else f"≈ {about(count)}"


def _saving(status: Given) -> str:
    """What the experiment spares against a plain trial, where both are known."""
    whole, plain = expected(status), status.part("to_go").number("plain_trial")
    if proven(status) is None and whole is None:
        return "How many it takes is known after a few looks at the data."
    if whole is None or plain is None:
        return ""
    if plain <= 1.05 * whole:
        return "A plain trial, which shows all actions equally often, would be done about as soon."
    return f"A plain trial, which shows all actions equally often, would need about {plain / whole:.1f} times as many."
