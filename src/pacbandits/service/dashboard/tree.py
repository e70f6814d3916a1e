"""The leading rule as a picture: questions and what follows, as nested lists that the style draws as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pacbandits.errors import InputError, count_of, one_line, visible_lines
from pacbandits.policies import TreePolicy, chosen_from_json
from pacbandits.policies.trees.tree import Branch, Node, leaves
from pacbandits.records import Lottery, Policy
from pacbandits.records.mixture import describe_chosen
from pacbandits.records.naming import call
from pacbandits.service.dashboard.markup import Html, join, tag
from pacbandits.service.dashboard.reading import Given
from pacbandits.service.dashboard.words import percent

MAX_DRAWN_LEAVES, MAX_DRAWN_DEPTH = 8, 3  # beside one another; a larger tree is a list that is indented
N_COLOURS = 8
NO_RULE = "There is no leading rule yet: the first look at the data chooses one."


def draw_rule(status: Given) -> Html:
    """The leading rule, as a tree where it is one, else in words; a mix of rules as its likeliest and the others.

    The claim may be of an earlier look, and another rule lead now: then both are shown.
    """
    said = status.part("claim").text("words")
    words = tag("pre", visible_lines(said)) if said else None
    parts = _parts(status)
    if not parts:
        empty = "The rule cannot be drawn here." if status.part("policy") else NO_RULE
        return words or tag("p", empty, class_="empty")
    drawn = _drawn(parts, status)
    if words is None or _same(said, status):
        more = None if words is None else tag("details", tag("summary", _in_words(parts)), words, id="in-words")
        return join(drawn, more)
    return join(tag("h3", "What the claim is of"), words, tag("h3", "What leads by now"), drawn)


def _in_words(parts: Sequence[tuple[float, TreePolicy]]) -> str:
    return "The rule in words" if len(parts) == 1 else "All rules of the mix in words"


def _parts(status: Given) -> list[tuple[float, TreePolicy]]:
    """The trees of the leading rule with the chance of each, the likeliest first; none where it is something else."""
    try:
        chosen = chosen_from_json(dict(status.part("policy").value))
    except InputError:  # a class of somebody's own, that this page cannot read
        return []
    some: list[tuple[float, Policy]] = []
    if isinstance(chosen, Lottery):
        some += sorted(zip(chosen.weights, chosen.policies, strict=True), key=lambda one: -one[0])
    else:
        some.append((1.0, chosen))
    trees = [(weight, policy) for weight, policy in some if isinstance(policy, TreePolicy)]
    named = all(max(leaves(policy.root)) < len(status.texts("actions")) for _, policy in trees)
    return trees if named and len(trees) == len(some) else []


def _same(words: str, status: Given) -> bool:
    """Whether the words are those of the leading rule."""
    return words == describe_chosen(chosen_from_json(dict(status.part("policy").value)), status.texts("actions"))


def _drawn(parts: Sequence[tuple[float, TreePolicy]], status: Given) -> Html:
    (first, likeliest), *others = parts
    groups = [one.number("share") for one in status.parts("leaves")]
    tree = _tree(likeliest.root, status, groups, wide=True)
    if not others:
        return tree
    note = (
        f"A mix of {len(parts)} rules: for each person one of them is drawn by chance, and its word is taken. This one "
        f"is drawn for {percent(first)} of people."
    )
    rest = (
        join(tag("p", f"For {percent(weight)} of people", class_="dim"), _tree(policy.root, status, [], wide=False))
        for weight, policy in others
    )
    title = tag("summary", f"The {count_of(len(others), 'other rule')} of the mix".replace("The 1 other", "The other"))
    return join(tag("p", note, class_="dim"), tree, tag("details", title, rest, id="mix"))


def _tree(root: Node, status: Given, groups: Sequence[float | None], *, wide: bool) -> Html:
    """A tree; groups: the shares of people at its leaves, if they are known; wide: whether it may be drawn across."""
    ends = leaves(root)
    shares = groups if len(groups) == len(ends) else [None] * len(ends)
    fits = wide and len(ends) <= MAX_DRAWN_LEAVES and _depth(root) <= MAX_DRAWN_DEPTH
    return tag("div", _node(root, status.texts("actions"), iter(shares)), class_=f"tree {'wide' if fits else 'long'}")


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
