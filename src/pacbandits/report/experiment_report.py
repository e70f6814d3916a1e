"""The document that `experiment` prints: the state of an experiment, with the figures of its dashboard page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pacbandits.certificate.claim import rounded_down, rounded_outward, rounded_up
from pacbandits.errors import one_line
from pacbandits.experiment.protocol import spell_duration
from pacbandits.report.document import Block, Code, Document, Section, Table, Text
from pacbandits.report.numbers import about, show_number
from pacbandits.report.result_report import alarm_notes

Json = dict[str, Any]
EVENTS_SHOWN = 6  # the last ones
SHARES = {"0.5": "half", "0.8": "four of five", "0.95": "19 of 20"}  # of cases


def status_document(figures: Json) -> Document:
    """Return the figures of `Status.to_json` as tables and sentences."""
    blocks: list[Block] = [*alarm_notes(figures["alarms"]), Text(_head(figures), "strong")]
    blocks.append(Table((), tuple(_facts(figures))))
    if figures["claim"] is not None:
        certified = figures["claim"]["certified"] or figures["state"] == "certified"
        title = "the certified policy" if certified else "the best policy so far"
        title = "the policy in question" if figures["alarms"] else title
        blocks.append(Section(title, (Code(_words(figures)),)))
    if figures["arms"]:
        blocks.append(_arms(figures["arms"]))
    if figures["leaves"]:
        blocks.append(_leaves(figures["leaves"], figures["actions"]))
    if (health := figures["health"]) is not None:
        blocks.append(Section("health", tuple(map(Text, _health(health)))))
    blocks += _metrics(figures)
    if (held := figures["holdout_compared"]) is not None:
        blocks.append(Text(f"{_holdout(held, figures['standard'])}\n"))
    events = tuple((one["at"], one["words"]) for one in figures["events"][-EVENTS_SHOWN:])
    seal = figures["seal"]
    note = "note it down: it proves later that nothing before it was altered"
    blocks.append(Table((), events, title="last events"))
    blocks.append(Text(f"seal {seal['head']} after {seal['entries']:,} records; {note}", "dim"))
    return Document("", tuple(blocks))


def experiments_document(rows: Sequence[Json]) -> Document:
    """Return all experiments of a database, from the figures of each."""
    head = ("experiment", "state", "assigned", "rewards in", "asked", "proven")
    cells = tuple(
        (
            one["name"],
            one["state"],
            f"{one['assigned']:,}",
            f"{one['rewards']['in']:,}",
            f"gain {one['gain'] or 0:g}" if one.get("stop") == "gain" else f"ε {one['epsilon']:g}",
            "alarm" if one["alarms"] else _proven(one),
        )
        for one in rows
    )
    return Document("", (Table(head, cells),))


def _proven(one: Json) -> str:
    """Return the proven gain or ε of an experiment, whichever it stops by."""
    claim: Json = one["claim"] or {}
    if one.get("stop") == "gain":
        gain = claim.get("proven_gain")
        return show_number(None) if gain is None else f"gain {rounded_down(gain):g}"
    return f"ε {rounded_up(claim['certified_epsilon']):g}" if claim else show_number(None)


def asked_words(f: Json) -> str:
    """Return the goal of an experiment, from its figures: a gain over the control, or a distance ε from the best."""
    policies, sure = one_line(f["policies"]), f"δ = {f['delta']:g}"
    if f.get("stop") != "gain":
        return f"a policy of {policies} within {f['epsilon']:g} of the best, {sure}"
    least = f"at least {f['gain']:g}" if f["gain"] else "any size"
    return f"a proven gain of {least} over {one_line(f['standard'])}, by a policy of {policies}, {sure}"


def webhooks_document(rows: Sequence[Json]) -> Document:
    """Return the webhooks of an experiment with the state of their deliveries."""
    from pacbandits.experiment.webhooks import EVENTS

    head = ("webhook", "url", "format", "events", "delivered", "waiting", "given up", "last attempt")
    cells = tuple(
        (
            one["id"],
            one_line(one["url"]),
            one["format"],
            "all" if set(one["events"]) == set(EVENTS) else ", ".join(one["events"]),
            *(f"{one[state]:,}" for state in ("delivered", "waiting", "given_up")),
            "none" if one["last"] is None else _attempt(one["last"]),
        )
        for one in rows
    )
    return Document("", (Table(head, cells),))


def _attempt(last: Json) -> str:
    return f"{last['at']} {last['event']}: {one_line(last['answer'] or 'delivered')}"


def facts_document(rows: Iterable[tuple[str, str]]) -> Document:
    """Return a table of names and values."""
    return Document("", (Table((), tuple(rows)),))


def _head(f: Json) -> str:
    why = f": {one_line(f['reason'])}" if f["reason"] else ""
    return f"experiment {one_line(f['name'])} is {f['state']}{why}"


def _facts(f: Json) -> Iterable[tuple[str, str]]:
    """Yield the facts of the status table, a name and a value each."""
    claim, now, rewards, to_go = f["claim"], f["round"], f["rewards"], f["to_go"]
    yield "asked", asked_words(f)
    said = "nothing yet" if claim is None else one_line(claim["describe"])
    yield ("in doubt", f"if the assumptions held: {said}") if f["alarms"] else ("proven", said)
    planned = "" if now["planned"] is None else f" of {now['planned']:,}"
    doing = ", the next is being designed" if now["designing"] else ""
    yield "round", f"{now['number']} ({now['kind']}), {now['assigned']:,}{planned} people{doing}"
    held = f", {f['holdout_assigned']:,} of them held out" if f["holdout_assigned"] else ""
    begun = f", {f['pilot']:,} of them of the pilot" if f.get("pilot") else ""
    yield "people", f"{f['assigned']:,}{begun}{held}"
    more = "".join(f", {rewards[name]:,} {words}" for name, words in _REWARDS if rewards[name])
    yield "rewards", f"{rewards['in']:,} in{more}; {_late(f['late'])}"
    if to_go is not None:
        yield from _to_go(to_go)
    if f["value"] is not None and not (f["alarms"] and "alarms" not in f["value"]):  # written before alarms existed
        yield "value", one_line(f["value"]["words"])
    if (hooks := f.get("webhooks")) and hooks["count"]:
        left = "".join(f", {hooks[name]:,} {name.replace('_', ' ')}" for name in ("waiting", "given_up") if hooks[name])
        yield "webhooks", f"{hooks['count']}; {hooks['delivered']:,} events delivered{left}"
    if f.get("withdrawn"):
        yield "withdrawn", ", ".join(map(one_line, f["withdrawn"]))


_REWARDS = (("awaited", "pending"), ("missed", "that did not come in time"), ("late", "that came too late to count"))


def _late(rule: Json) -> str:
    if rule["rule"] == "worst case":
        return "a pending reward counts at its worst"
    return f"what does not come within {spell_duration(rule['window_seconds'])} counts as {rule['missing']:g}"


def _to_go(to_go: Json) -> Iterable[tuple[str, str]]:
    """Yield the forecast of the remaining people, a plain trial's sample size, and the plan's."""
    if to_go["samples"] is not None:
        days = "" if to_go["days"] is None else f", {to_go['days']:.2g} days as people came of late"
        yield "to go", f"about {about(to_go['samples'])} people{days}" if to_go["samples"] else "nothing"
    if to_go["plain_trial"] is not None:
        yield "a plain trial", f"would take about {about(to_go['plain_trial'])} people in all"
    if (plan := to_go["plan"]) is not None:
        told = [f"{about(count)} in {SHARES[of]}" for of, count in plan["people"].items() if count is not None]
        yield "the plan", f"people: {', '.join(told)} of cases" if told else "not done by as many as were allowed"


def _words(f: Json) -> str:
    return "\n".join(f"  {line}" for line in str(f["claim"]["words"]).splitlines())


def _arms(arms: Sequence[Json]) -> Table:
    rows = tuple(
        (
            arm["action"] + (" (withdrawn)" if arm["withdrawn"] else ""),
            f"{arm['assigned']:,}",
            f"{arm['share']:.0%}",
            show_number(arm["mean"], digits=3),
            f"{arm['rewards_in']:,}",
        )
        for arm in arms
    )
    return Table(("action", "people", "share", "mean reward", "rewards in"), rows)


def _leaves(leaves: Sequence[Json], actions: Sequence[str]) -> Table:
    rows = tuple(
        (
            leaf["where"],
            f"{leaf['share']:.0%}",
            leaf["action"],
            *(f"{leaf['shares'][name]:.0%}" if leaf["shares"] else "—" for name in actions),
        )
        for leaf in leaves
    )
    return Table(("people where", "share", "policy", *(f"got {name}" for name in actions)), rows)


def _health(health: Json) -> Iterable[str]:
    if (awaited := health["awaited_share"]) is not None:
        yield f"  {awaited:.1%} of rewards are pending; the minimum probability of an action was " + show_number(
            health["least_propensity"], digits=3
        )
    for check in health["checks"]:
        yield f"  {'ALARM: ' if check['alarm'] else ''}{one_line(check['words'])}"
    if (guardrail := health["guardrail"]) is not None:
        for test in guardrail["tests"]:
            mean = "nothing is in" if test["mean"] is None else f"{test['mean']:.2%} of {test['seen']:,}"
            name = f"{'ALARM: ' if test['alarm'] else ''}{one_line(guardrail['name'])}, {one_line(test['of'])}"
            yield f"  {name}: {mean} (at most {guardrail['most']:.2%})"


def _metrics(f: Json) -> Iterable[Block]:
    """Yield the metrics under each action, and the guardrails on them; nothing if there are none."""
    if metrics := f.get("metrics"):
        rows = tuple(
            (one["action"], *(_metric(metric["actions"][place]) for metric in metrics))
            for place, one in enumerate(metrics[0]["actions"])
        )
        note = "as if everybody got the action, weighted by propensities; intervals are approximate (95 %)"
        yield Table(("metrics", *(metric["name"] for metric in metrics)), rows, note=note)
    if rails := f.get("guardrails"):
        listed = ", ".join(f"'{one_line(rail)}'" for rail in rails)
        yield Text(
            f"guardrails: {listed}; certify proves them on the exported log (--control {one_line(f['standard'])})"
        )


def _metric(one: Json) -> str:
    return "—" if one["mean"] is None else f"{one['mean']:.3g} ({_ends(one)})"


def _holdout(held: Json, standard: str) -> str:
    parts = [
        f"{words} {show_number(one['mean'], digits=3)} ({_ends(one)}, {one['rows']:,} people)"
        for words, one in ((f"held out, always {one_line(standard)}:", held["holdout"]), ("drawn:", held["experiment"]))
    ]
    return f"mean rewards, {'; '.join(parts)}"


def _ends(one: Json) -> str:
    if one["low"] is None:
        return "empty interval"
    low, high = rounded_outward(one["low"], one["high"])
    return f"{low:.3g} to {high:.3g}"
