"""The leading rule as a picture: questions and what follows, as nested lists that the style draws as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pacbandits.errors import InputError, one_line, visible_lines
from pacbandits.policies import TreePolicy, chosen_from_json
from pacbandits.policies.trees.tree import Branch, Node, leaves
from pacbandits.records import Lottery, likeliest
from pacbandits.records.naming import call
from pacbandits.service.dashboard.markup import Html, join, tag
from pacbandits.service.dashboard.reading import Given
from pacbandits.service.dashboard.words import percent

MAX_DRAWN_LEAVES, MAX_DRAWN_DEPTH = 8, 3  # beside one another; a larger tree is a list that is indented
N_COLOURS = 8
NO_RULE = "There is no leading rule yet: the first look at the data chooses one."


def draw_rule(status: Given) -> Html:
    """The leading rule, as a tree where it is one, else in words."""
    words = visible_lines(status.part("claim").text("words"))
    said = tag("pre", words) if words else None
    given = status.part("policy")
    if not given:
        return said or tag("p", NO_RULE, class_="empty")
    try:
        chosen = chosen_from_json(dict(given.value))
    except InputError:  # a class of somebody's own, that this page cannot read
        return said or tag("p", "The rule cannot be drawn here.", class_="empty")
    policy = likeliest(chosen)
    if not isinstance(policy, TreePolicy) or max(leaves(policy.root)) >= len(status.texts("actions")):
        return said or tag("p", "The rule cannot be drawn here.", class_="empty")
    note = None
    if isinstance(chosen, Lottery):
        note = tag("p", "The likeliest of several rules that it draws from; all of them are below.", class_="dim")
    more = None if said is None else tag("details", tag("summary", "The rule in words"), said, id="in-words")
    return join(note, _tree(policy.root, status), more)


def _tree(root: Node, status: Given) -> Html:
    ends, groups = leaves(root), status.parts("leaves")
    shares = [one.number("share") for one in groups] if len(groups) == len(ends) else [None] * len(ends)
    size = "wide" if len(ends) <= MAX_DRAWN_LEAVES and _depth(root) <= MAX_DRAWN_DEPTH else "long"
    return tag("div", _node(root, status.texts("actions"), iter(shares)), class_=f"tree {size}")


def _node(node: Node, actions: Sequence[str], shares: Iterator[float | None]) -> Html:
    """A question with both of its answers, or an action; shares: of people at the leaves, left to right."""
    if not isinstance(node, Branch):
        share = next(shares)
        people = None if share is None else tag("span", f"{percent(share)} of people", class_="dim")
        return tag("div", swatch(node), tag("strong", call(node, actions)), people, class_="leaf")
    answers = (
        tag("li", tag("span", word, class_="edge"), _node(child, actions, shares))
        for word, child in (("yes", node.then), ("no", node.otherwise))
    )
    asked = tag("div", f"{one_line(node.test.describe())}?", class_="ask")
    return join(asked, tag("ul", answers, class_="answers"))


def _depth(node: Node) -> int:
    return 1 + max(_depth(node.then), _depth(node.otherwise)) if isinstance(node, Branch) else 0


def swatch(action: int) -> Html:
    """A little square in an action's colour."""
    square = tag("rect", width="10", height="10", rx="2", class_=colour_of(action))
    return tag("svg", square, width="10", height="10", aria_hidden="true", class_="swatch")


def colour_of(action: int) -> str:
    """The style's name for the colour of an action."""
    return f"a{action % N_COLOURS}"
