"""The content of an experiment's page, as sections of a document; each has a text to show before there are data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pacbandits.certificate.claim import rounded_down
from pacbandits.errors import InputError, count_of, one_line
from pacbandits.policies import TreePolicy, chosen_from_json
from pacbandits.policies.trees.tree_policy import leaves
from pacbandits.records import Mixture, Policy
from pacbandits.records.policy import describe_chosen
from pacbandits.report.document import (
    Bar,
    Bars,
    Block,
    Cell,
    Check,
    Checks,
    Code,
    Columns,
    Curve,
    Fold,
    IntervalLine,
    Intervals,
    Items,
    Note,
    Number,
    Numbers,
    Point,
    Section,
    Share,
    Side,
    Stack,
    Stacks,
    Table,
    Text,
    Tree,
)
from pacbandits.report.numbers import about, percent, show_interval, show_short, show_signed
from pacbandits.report.result_report import tree_block
from pacbandits.service.dashboard.sentences import (
    AT_NEXT,
    DOUBTFUL,
    alarms,
    as_confidence,
    bound,
    by_gain,
    counted,
    day,
    doubts,
    explanation,
    goal_words,
    headline,
    in_confidence,
    is_mix,
    is_proven,
    lasting,
    moment,
    next_links,
    next_step,
    proven,
    sentence,
    width,
)
from pacbandits.service.dashboard.status import JsonView, ValueEstimate

FIRST_EVENTS = 8  # shown at first; older events are folded
MAX_TABLE_ROWS = 50
MAX_DRAWN_POINTS = 240
MAX_NAME_CHARACTERS = 60
MIN_DRAWN, MAX_DRAWN = 1e-9, 1e9  # distances that can be drawn
MAX_AHEAD = 4.0  # maximum extension of the curve to the expected end, relative to the people so far
EVERYBODY = "all"  # the name of a guardrail's test over all actions
_SECONDS_A_DAY = 86_400
# Titles of the checks, and their texts without an alarm.
CHECKS = {
    "sample ratio": ("sample ratio", "Actions come up as often as they should."),
    "drift": ("drift", "People, and what they earn, look the same over time."),
}
METRICS_NOTE = "As if everybody got the action: rows are weighted by propensities. Intervals are approximate (95 %)."
PROVEN_BY = "They are sealed with the protocol; pacbandits certify proves them on the exported log."
SEAL = (
    "Each entry of the event log holds the digest of all before it. If you note this one down, pacbandits verify can "
    "check later, on the export, that nothing before it was changed or left out."
)


def experiment_sections(status: JsonView) -> tuple[Section, ...]:
    """Return the sections of the page after its title."""
    return (
        Section("The answer", tuple(_answer(status)), id="answer", hidden=True),
        Section("How close to the best rule", tuple(curve_blocks(status)), id="curve"),
        Section("Sample size", tuple(_people(status)), id="people"),
        Section("The leading rule", tuple(_rule(status)), id="rule"),
        Section("Estimated value", tuple(_value(status)), id="value"),
        Section("Health of the data", tuple(_health(status)), id="health"),
        Section("Assignment by segment", (Columns((tuple(_groups(status)), (_arms(status),))),), id="shown"),
        Section("Event log", tuple(_events(status)), id="record"),
        Section("Assumptions", tuple(_assumptions(status)), id="rests"),
    )


def _name(text: str) -> str:
    return one_line(text, most=MAX_NAME_CHARACTERS)


def _answer(status: JsonView) -> Iterable[Block]:
    """Yield alarms, the result in a sentence, its meaning, and the key figures."""
    yield from (Note("alarm", words) for words in alarms(status))
    if status.flag("rehearsal"):
        yield Note("warning", "A rehearsal: people and rewards may be simulated, and nothing here is about real ones.")
    yield Text(headline(status), "headline")
    yield from map(Text, explanation(status))
    yield Text(f"Next: {next_step(status)}", links=next_links(status))
    yield Numbers(tuple(_numbers(status)))
    if when := counted(status):
        yield Text(f"{when} Numbers of people and rewards above are current; all else is of that analysis.", "dim")


def _numbers(status: JsonView) -> Iterable[Number]:
    distance, rewards, doubtful = proven(status), status.part("rewards"), bool(doubts(status))
    if doubtful:
        yield Number("Distance", "—", "in doubt: see the alarm")
    else:
        near, goal = "—" if distance is None else bound(distance), f"goal {goal_words(status)}"
        if by_gain(status):
            gain = status.part("claim").number("proven_gain")
            yield Number("Proven gain", "—" if gain is None else f"{rounded_down(gain):g}", goal)
        yield Number("Proven within", near, "of the best rule" if by_gain(status) else goal)
    holdout = status.count("holdout_assigned")
    extra = f"and {holdout:,} held out" if holdout else "assigned so far"
    if (pilot := status.count("pilot")) > 0:
        extra = f"{pilot:,} of them of the pilot"
    yield Number("People", f"{status.count('assigned'):,}", extra)
    yield Number("Rewards in", f"{rewards.count('in'):,}", f"{rewards.count('awaited'):,} pending")
    begun, now = status.time("created"), status.time("now")
    if begun is not None and now is not None:
        yield Number("Running for", lasting((now - begun).total_seconds() / _SECONDS_A_DAY), f"since {day(begun)}")
    if doubtful:
        yield Number("To go", "—", "resolve the alarm first")
    elif is_proven(status):
        yield Number("To go", "nothing", "the goal is reached")
    else:
        days, samples = (status.part("to_go").number(key) for key in ("days", "samples"))
        if samples is not None and samples < 1:
            yield Number("To go", "—", AT_NEXT)
            return
        people = "" if samples is None else f"≈ {about(samples)} people"
        time = people if days is None else f"≈ {lasting(days)}".replace("≈ less", "less").replace("≈ more", "more")
        yield Number("To go", time or "—", people if days is not None else "")


def curve_blocks(status: JsonView) -> Iterable[Block]:
    """Yield the certified distance over people and the same as a table, or a sentence where nothing is proven yet."""
    goal, seen = status.number("epsilon"), status.parts("curve")
    every = [one for one in seen if _says_something(one, width(status))]
    step = -(-len(every) // MAX_DRAWN_POINTS) or 1
    kept = every[(len(every) - 1) % step :: step]  # includes the last one
    if not kept or goal is None or not _drawable(goal):
        analyses = count_of(len(seen), "analysis", "analyses")
        nothing = f"{analyses} so far, and nothing is proven yet: the curve begins when something is."
        yield Text(nothing if seen else "The curve begins with the first analysis.", "dim")
        return
    points = tuple(_point(one) for one in kept)
    more, last = status.part("to_go").number("samples"), points[-1].samples
    ended = status.text("state") in ("certified", "stopped")
    expected = None if ended or not more or more > MAX_AHEAD * last else last + more
    words = f"The certified distance from the best rule: {bound(points[0].best)} after {points[0].samples:,} people"
    if len(points) > 1:
        words += f", {bound(points[-1].best)} after {last:,}"
    words += ". It stops by a gain, not by this distance." if by_gain(status) else f". The goal is {show_short(goal)}."
    if doubts(status):
        yield Note("warning", DOUBTFUL)
    yield Curve(points, None if by_gain(status) else goal, expected, f"{DOUBTFUL} {words}" if doubts(status) else words)
    cut = f", the last {MAX_TABLE_ROWS} of {len(kept):,}" if len(kept) > MAX_TABLE_ROWS else ""
    rows = tuple(
        (
            f"{one.count('samples'):,}",
            bound(one.number("certified_epsilon")),
            bound(one.number("best")),
            moment(one.time("at")),
        )
        for one in reversed(kept[-MAX_TABLE_ROWS:])
    )
    table = Table(("people", "distance", "best so far", "time"), rows, sides=("right", "right", "right", "left"))
    yield Fold(f"The same in figures{cut}", (table,), id="looks")


def _drawable(distance: float | None) -> bool:
    return distance is not None and MIN_DRAWN < distance < MAX_DRAWN


def _says_something(analysis: JsonView, width: float) -> bool:
    """Return whether the best distance up to an analysis is below the width of the reward range, and can be drawn."""
    best = analysis.number("best")
    return best is not None and _drawable(best) and best < width and analysis.count("samples") > 0


def _point(one: JsonView) -> Point:
    found, samples = one.number("certified_epsilon"), one.count("samples")
    words = f"after {samples:,} people: {bound(found)}"
    return Point(samples, one.number("best") or 1.0, found if _drawable(found) else None, words)


def expected_people(status: JsonView) -> float | None:
    """Return the estimated total sample size of the proof; the actual one if it is done; None if unknown."""
    claim, more = status.part("claim"), status.part("to_go").number("samples")
    if claim.flag("certified"):
        return claim.count("samples") or None
    return None if more is None else _analysed(status) + more


def _analysed(status: JsonView) -> int:
    """Return the sample size of the last analysis: rewards of later people are mostly pending."""
    return max([status.part("claim").count("samples"), *(one.count("samples") for one in status.parts("curve")[-1:])])


def _people(status: JsonView) -> Iterable[Block]:
    """Yield the sample size so far and in all, compared with the plan and a plain trial."""
    so_far, whole, ahead = _analysed(status), expected_people(status), status.part("to_go")
    done, bars = status.part("claim").flag("certified"), list[Bar]()
    if so_far and not done:
        bars.append(Bar("counted so far", f"{so_far:,}", so_far, "done"))
    if whole and done:
        bars.append(Bar("it took", f"{whole:,.0f}", whole, "done"))
    elif whole:
        bars.append(Bar("expected in all", f"≈ {about(whole)}", whole, "guess"))
    planned, plain = ahead.part("plan").part("people"), ahead.number("plain_trial")
    for share, words in (("0.5", "plan: half of trials"), ("0.8", "plan: 4 of 5"), ("0.95", "plan: 19 of 20")):
        if people := planned.number(share):
            bars.append(Bar(words, f"≈ {about(people)}", people, "planned"))
    if plain:
        bars.append(Bar("a plain trial", f"≈ {about(plain)}", plain, "plain"))
    if not bars:
        yield Text("People count from the first analysis on.", "dim")
        return
    yield Bars(tuple(bars))
    if proven(status) is None and whole is None:
        yield Text("The sample size can be estimated after a few analyses.", "dim")
    elif whole is not None and plain is not None:
        would = f"need about {plain / whole:.1f} times as many" if plain > 1.05 * whole else "be done about as soon"
        yield Text(f"A plain trial, which shows all actions equally often, would {would}.", "dim")


def _rule(status: JsonView) -> Iterable[Block]:
    """Yield the leading rule as a tree if it is one, else in words; a mixture as its most likely rule and the others.

    The claim may be from an earlier analysis, and another rule may lead now: then both are shown.
    """
    said, parts = status.part("claim").text("words"), _trees(status)
    if not parts:
        known = "The rule cannot be drawn here." if status.part("policy") else "There is no leading rule yet."
        yield Code(said) if said else Text(known, "dim")
        return
    policy = chosen_from_json(dict(status.part("policy").value))
    if said and said != describe_chosen(policy, status.texts("actions")):
        yield Section("The certified rule", (Code(said),))
        yield Section("The rule that leads now", tuple(_drawn(parts, status)))
        return
    yield from _drawn(parts, status)
    if said:
        title = "The rule in words" if len(parts) == 1 else "All rules of the mixture in words"
        yield Fold(title, (Code(said),), id="in-words")


def _trees(status: JsonView) -> list[tuple[float, TreePolicy]]:
    """Return the trees of the leading rule with their weights, the most likely first; none if it is something else."""
    try:
        chosen = chosen_from_json(dict(status.part("policy").value))
    except InputError:  # a user-defined class, which this page cannot parse
        return []
    some: list[tuple[float, Policy]] = []
    if isinstance(chosen, Mixture):
        some += sorted(zip(chosen.weights, chosen.policies, strict=True), key=lambda one: -one[0])
    else:
        some.append((1.0, chosen))
    trees = [(weight, policy) for weight, policy in some if isinstance(policy, TreePolicy)]
    named = all(max(leaves(policy.root)) < len(status.texts("actions")) for _, policy in trees)
    return trees if named and len(trees) == len(some) else []


def _drawn(parts: Sequence[tuple[float, TreePolicy]], status: JsonView) -> Iterable[Block]:
    (first, likeliest), *others = parts
    actions, groups = status.texts("actions"), [one.number("share") for one in status.parts("leaves")]
    shares = groups if len(groups) == len(leaves(likeliest.root)) else []
    if others:
        drawn = f"one of them is drawn at random for each person. This one is drawn for {percent(first)} of people."
        yield Text(f"A mixture of {len(parts)} rules: {drawn}", "dim")
    yield tree_block(likeliest.root, actions, shares)
    if others:
        rest: list[Text | Tree] = []
        for weight, policy in others:
            rest += [Text(f"For {percent(weight)} of people", "dim"), tree_block(policy.root, actions, [], wide=False)]
        title = "The other rule" if len(others) == 1 else f"The {len(others)} other rules"
        yield Fold(f"{title} of the mixture", tuple(rest), id="mix")


def _value(status: JsonView) -> Iterable[Block]:
    """Yield the mean rewards of the rule and the standard action, their difference, and the holdout's."""
    value, rule = status.part("value"), "the mixture of rules" if is_mix(status) else "the rule"
    means = ((rule, value.span("policy")), (f"always {_name(status.text('standard'))}", value.span("standard")))
    shown = [(label, span) for label, span in means if span is not None]
    lift, sure = value.span("lift"), value.number("confidence")
    if not shown and lift is None:
        yield Text("The value of the rule is estimated at the first analysis.", "dim")
        return
    if shown:
        yield _intervals("Mean reward per person", shown)
    if lift is not None:
        yield _intervals("Gain over the standard", [(rule, lift)], gain=True)
    note = "" if sure is None else f"Each interval is right with {as_confidence(sure)} confidence, whenever you look."
    note = "No interval here can be relied on before the alarm is resolved." if doubts(status) else note
    note += "" if lift is None else " The dotted line is no gain."
    if note:
        yield Text(note.strip(), "dim")
    held: list[tuple[str, ValueEstimate]] = []
    for key, label in (("experiment", "in the experiment"), ("holdout", "held out")):
        one = status.part("holdout_compared").part(key)
        span = JsonView({"": {**one.value, "estimate": one.number("mean")}}).span("")
        if span is not None:
            held.append((f"{label} ({one.count('rows'):,})", span))
    if held:
        yield _intervals("Compared with the holdout", held)


def _intervals(title: str, rows: Sequence[tuple[str, ValueEstimate]], *, gain: bool = False) -> Intervals:
    """Return intervals on one scale; gain: whether they are differences."""
    drawn: list[IntervalLine] = []
    for label, span in rows:
        low, high = (None, None) if span.empty else (span.low, span.high)
        words = show_interval(low, span.estimate, high, show=show_signed if gain else show_short)
        drawn.append(IntervalLine(label, words, span.estimate, low, high))
    return Intervals(tuple(drawn), title, zero=gain, axis=True)


def _health(status: JsonView) -> Iterable[Block]:
    """Yield pending and missing rewards, the sample ratio, drift, and the guardrail."""
    health, seen = status.part("health"), status.time("updated")
    checks = [*_reward_checks(status), *map(_check, health.parts("checks"))]
    if not health:
        checks.append(Check("", "checks", "Sample ratio and drift are checked from the first analysis on."))
    yield Checks(tuple(checks))
    yield _guardrail(health.part("guardrail"))
    yield from _metrics(status)
    if seen is not None:
        yield Text(f"Counts of rewards are current, all else is as of the last analysis, {moment(seen)}.", "dim")


def _reward_checks(status: JsonView) -> Iterable[Check]:
    rewards, late = status.part("rewards"), status.part("late")
    pending, missed = rewards.count("awaited"), rewards.count("missed")
    held = rewards.count("in") + pending + missed
    worst = late.text("rule") == "worst case"
    counts = "counted at their worst until they arrive" if worst else _window(late)
    share = percent(pending / held if held else None)
    yield Check("", "pending", f"{count_of(pending, 'reward')} pending, {counts}.", share)
    if not worst:
        words = f"{count_of(missed, 'reward')} did not arrive in time and count as {show_short(late.number('missing'))}"
        words += f"; {rewards.count('late'):,} arrived later and do not count."
        yield Check("", "missing or late", words, percent(missed / held if held else None))
    least = status.part("health").number("least_propensity")
    if least is not None:
        words = "The smallest probability of any action that was shown. Very small ones make proofs slow."
        yield Check("", "minimum propensity", words, percent(least))


def _window(late: JsonView) -> str:
    seconds = late.number("window_seconds")
    if seconds is None:
        return "which count when they arrive"
    after = f"count as {show_short(late.number('missing'))} after that"
    return f"which have {lasting(seconds / _SECONDS_A_DAY)} to arrive, and {after}"


def _check(check: JsonView) -> Check:
    alarm, evidence, needed = check.flag("alarm"), check.number("evidence"), check.number("needed")
    known = evidence is not None and needed is not None
    weighed = f"evidence {show_short(evidence)}, alarm at {show_short(needed)}" if known else ""
    said = sentence(check.text("words")) or ("An alarm." if alarm else "Nothing was found.")
    title, well = CHECKS.get(check.text("name"), (one_line(check.text("name")), said))
    return Check("alarm" if alarm else "good", title, said if alarm else well, remark=weighed)


def _guardrail(guard: JsonView) -> Block:
    """Return the outcome that must not exceed its limit, by action and over all."""
    if not guard:
        return Text("There is no guardrail.", "dim")
    title = f"Guardrail: {_name(guard.text('name'))} at most {show_short(guard.number('most'))}"
    tests = guard.parts("tests")
    if not tests:
        return Section(title, (Text("Nothing has been reported for it yet.", "dim"),))
    rows = tuple(
        (
            "everybody" if one.text("of") == EVERYBODY else one_line(one.text("of")),
            Cell("alarm", "alarm") if one.flag("alarm") else Cell("good", "good"),
            f"{one.count('seen') or one.count('rows'):,}",
            *(show_short(one.number(key)) for key in ("mean", "evidence", "needed")),
        )
        for one in tests
    )
    return Table(("of", "result", "people", "mean", "evidence", "alarm at"), rows, title, sides=("left", "left"))


def _metrics(status: JsonView) -> Iterable[Block]:
    """Yield the metrics under each action, and the guardrails on them; nothing if there are none."""
    rails, metrics = status.texts("guardrails"), status.parts("metrics")
    if metrics:
        cells = [
            [
                "—"
                if (mean := one.number("mean")) is None
                else show_interval(one.number("low"), mean, one.number("high"), show=show_short)
                for one in metric.parts("actions")
            ]
            for metric in metrics
        ]
        names = [_name(one.text("action")) for one in metrics[0].parts("actions")]
        rows = tuple((name, *row) for name, *row in zip(names, *cells, strict=False))
        yield Table(("action", *(_name(one.text("name")) for one in metrics)), rows, "Metrics by action", METRICS_NOTE)
    if rails:
        words = "; ".join(map(_name, rails))
        yield Text(f"Guardrails on metrics: {words}; control is {_name(status.text('standard'))}. {PROVEN_BY}", "dim")


def _groups(status: JsonView) -> Iterable[Block]:
    """Yield the shares of the actions in each of the rule's segments."""
    groups, actions = status.parts("leaves"), status.texts("actions")
    if not groups:
        yield Text("The rule distinguishes no segments yet.", "dim")
        return
    yield Text("How each segment was spread over the actions so far. The rule’s own choice is in bold.", "dim")
    yield Stacks(
        tuple(
            Stack(
                one_line(one.text("where")) or "everybody",
                f"{percent(one.number('share'))} of people",
                tuple(
                    Share(_name(name), one.part("shares").number(name) or 0.0, i, name == one.text("action"))
                    for i, name in enumerate(actions)
                ),
            )
            for one in groups
        )
    )


def _arms(status: JsonView) -> Block:
    """Return a table of the raw results of each action."""
    arms, actions, withdrawn = status.parts("arms"), status.texts("actions"), status.texts("withdrawn")
    if not arms:
        return Text("No action has been tried yet.", "dim")
    rows: list[tuple[str | Cell, ...]] = []
    for i, one in enumerate(arms):
        name = one.text("action")
        gone = "withdrawn" if one.flag("withdrawn") or name in withdrawn else ""
        first = Cell(one_line(name), colour=actions.index(name) if name in actions else i, remark=gone)
        share, mean = percent(one.number("share")), show_short(one.number("mean"))
        rows.append((first, f"{one.count('assigned'):,}", share, mean, f"{one.count('rewards_in'):,}"))
    head = ("action", "people", "share", "mean", "rewards in")
    note = f"As logged, neither weighted nor modelled. {counted(status)}".strip()
    return Table(head, tuple(rows), "Results by action", note)


def _events(status: JsonView) -> Iterable[Block]:
    """Yield the event log, newest first, and its seal."""
    wrong = bool(doubts(status))
    rows = tuple(
        (
            Cell(moment(one.time("at")), "dim"),
            sentence(in_confidence(one.text("words") or one.text("kind"), doubtful=wrong)),
        )
        for one in reversed(status.parts("events"))
    )
    first, rest = rows[:FIRST_EVENTS], rows[FIRST_EVENTS:]
    head = ("time", "event")
    sides: tuple[Side, ...] = ("left", "wrap")
    yield Table(head, first, sides=sides) if first else Text("Nothing has happened yet.", "dim")
    if rest:
        older = count_of(len(rest), "older event")
        yield Fold(older, (Table(head, rest, sides=sides),), id="older")
    seal = status.part("seal")
    if not seal.text("head"):
        yield Section("Seal", (Text("The event log has not been sealed yet.", "dim"),))
        return
    entries, protocol = count_of(seal.count("entries"), "entry", "entries"), seal.text("protocol")
    about_it = [Text(f"Over {entries}. {SEAL}", "dim"), *([Text(f"Protocol: {protocol}", "dim")] if protocol else [])]
    yield Section("Seal", (Code(seal.text("head"), copied=True), *about_it))


def _assumptions(status: JsonView) -> Iterable[Block]:
    """Yield the claim, its assumptions, and the settings fixed at the start."""
    late, claim, ends, delta = (
        status.part("late"),
        status.part("claim"),
        status.numbers("reward_range"),
        status.number("delta"),
    )
    visits = {"sticky": "see the same again", "each": "are drawn anew at each visit; first visits count"}
    worst = late.text("rule") == "worst case"
    fixed = (
        ("goal", goal_words(status) if by_gain(status) else f"within {goal_words(status)} of the best rule"),
        ("confidence", "" if delta is None else f"{as_confidence(1 - delta)}, of all claims together"),
        ("rules compared", one_line(status.text("policies"))),
        ("actions", ", ".join(map(_name, status.texts("actions")))),
        ("standard action", _name(status.text("standard"))),
        ("features", ", ".join(map(_name, status.texts("features")))),
        ("rewards", f"from {show_short(ends[0])} to {show_short(ends[1])}" if len(ends) == 2 else ""),
        ("pending rewards", "count at their worst" if worst else _window(late)),
        ("returning users", visits.get(status.text("visits"), status.text("visits"))),
        ("holdout", percent(status.number("holdout"))),
        ("algorithm", one_line(status.text("algorithm"))),
    )
    promise = sentence(in_confidence(claim.text("describe"), doubtful=bool(doubts(status)))).rstrip(".")
    if promise and doubts(status):
        promise = f"The data contradict an assumption. If all held: {promise}"
    yield Text(f"{promise}.") if promise else Text("Nothing is proven yet.", "dim")
    if assumed := claim.texts("assumptions"):
        yield Fold("All assumptions", (Items(tuple(map(one_line, assumed))),), id="assumed")
    facts = Table((), tuple((name, words) for name, words in fixed if words))
    yield Fold("Fixed at the start", (facts,), id="agreed")
