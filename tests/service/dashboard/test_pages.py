"""Pages as they are written: what they say, that nothing of anybody's becomes markup, and that they always stand."""

from __future__ import annotations

import io
import math
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from rich.console import Console

from pacbandits.experiment.webhooks import EVENTS
from pacbandits.report.experiment_report import experiments_document, status_document, webhooks_document
from pacbandits.report.html import render_blocks
from pacbandits.report.numbers import percent
from pacbandits.report.terminal import render_terminal
from pacbandits.service.dashboard.content import curve_blocks, experiment_sections
from pacbandits.service.dashboard.pages import asset, experiment_page, list_page, sign_in_page
from pacbandits.service.dashboard.sentences import bound, headline, lasting, news, time_to_go
from pacbandits.service.dashboard.status import JsonView
from tests.service.dashboard import statuses
from tests.service.dashboard.statuses import HOSTILE, all_of_them

STATUSES = all_of_them()
VOID = {"br", "input", "link", "meta"}
ROOT = "/dashboard"
OURS = {"html", "head", "meta", "title", "link", "script", "body", "a", "header", "div", "button", "form", "main", "p"}
OURS |= {
    "span",
    "noscript",
    "section",
    "h1",
    "h2",
    "h3",
    "dl",
    "dt",
    "dd",
    "figure",
    "figcaption",
    "svg",
    "line",
    "text",
}
OURS |= {"path", "circle", "rect", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "ul", "ol", "li"}
OURS |= {"strong", "pre", "code", "time", "footer", "label", "input"}


class Reader(HTMLParser):
    """What a page is made of; fails where an element is not closed in order."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.texts, self._open = [], [], []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        assert len(dict(attributes)) == len(attributes)
        if name not in VOID:
            self._open.append(name)

    def handle_endtag(self, name):
        assert self._open.pop() == name

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, name):
        return [attributes for found, attributes in self.elements if found == name]


def curve_of(status):
    return render_blocks(tuple(curve_blocks(JsonView(status))))


def page_of(status):
    return experiment_page(ROOT, status["name"], JsonView(status))


@pytest.mark.first(6)
@pytest.mark.parametrize("name", STATUSES, ids=lambda name: name[:14])
def test_a_page_is_sound(name):
    check_sound(page_of(STATUSES[name]))


def test_the_list_and_the_sign_in_are_sound():
    given = [(name, JsonView(status)) for name, status in STATUSES.items()]
    for page in (
        list_page(ROOT, given),
        list_page(ROOT, []),
        list_page(ROOT, [("gone", None)]),
        sign_in_page(ROOT),
        sign_in_page(ROOT, wrong=HOSTILE, target=HOSTILE),
    ):
        check_sound(page)


def check_sound(page):
    """Closed in order, no markup but ours, nothing inline, nothing from elsewhere, names once, headings in order."""
    read = Reader(page)
    assert {name for name, _ in read.elements} <= OURS
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for name, attributes in read.elements:
        assert not any(key.startswith("on") or key == "style" for key in attributes)
        for key in ("src", "href", "action", "data-source"):
            assert re.match(r"/dashboard|#", attributes.get(key, "#")), attributes
        if name == "script":
            assert attributes["src"].startswith(ROOT)
        if name == "svg" and attributes.get("class") != "lines":
            assert attributes.get("aria-hidden") == "true" or (attributes["role"] == "img" and attributes["aria-label"])
        for key in ("aria-labelledby", "aria-describedby"):
            assert key not in attributes or attributes[key] in ids
    levels = [int(name[1]) for name, _ in read.elements if name in ("h1", "h2", "h3")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert [len(read.all(name)) for name in ("main", "header", "footer")] == [1, 1, 1]


def test_metrics_are_shown_by_action_and_guardrails_on_them_named():
    words = Reader(page_of(statuses.collecting())).words
    assert "Metrics by action action returned standard 0.021 (0.017 to 0.025) discount 0.024" in words
    assert "Guardrails on metrics: returned <= control + 0.01; control is standard." in words
    without = statuses.collecting() | {"metrics": None, "guardrails": []}
    assert "etrics" not in Reader(page_of(without)).words


def test_text_is_only_ever_text():
    page = page_of(statuses.hostile())
    assert "<img" not in page
    assert page.count("<script") == 2  # ours
    assert page.count("&lt;script&gt;alert") > 40  # each text of the status is shown as what it is


def test_assets_load_nothing_from_elsewhere():
    for name in ("style.css", "theme.js", "live.js", "icon.svg"):
        text = asset(name).decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"//\w+\.|@import|url\(|https?:|eval\(|innerHTML", text), name


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (statuses.created(), "Nothing is proven yet; it is too early to say how long it will take."),
        (
            statuses.collecting(),
            "So far it is proven that the rule below is within 0.0365 of the best rule; about 12 more days.",
        ),
        (statuses.certified(), "Proven: the rule below is within 0.0198 of the best rule."),
        (statuses.paused(), "It is proven that the rule below is within 0.072 of the best rule."),
        (statuses.withdrawn(), "It is proven that “always free shipping” is within 0.0921 of the best rule."),
        (
            statuses.alarmed(),
            "In doubt: the data contradict an assumption, so there is no answer before the alarm is resolved.",
        ),
    ],
    ids=lambda value: value["state"] if isinstance(value, dict) else "",
)
def test_the_answer_comes_first_in_a_sentence(status, said):
    assert headline(JsonView(status)) == said
    words = Reader(page_of(status)).words
    assert words.index(said) < words.index("How close to the best rule")


def test_a_distance_that_the_range_of_rewards_gives_away_is_nothing():
    status = statuses.collecting()
    status["claim"]["certified_epsilon"] = 1.0
    assert headline(JsonView(status)) == "Nothing is proven yet; about 12 more days."
    status["reward_range"] = [0, 50]
    assert "within 1 of" in headline(JsonView(status))


def test_what_is_proven_is_rounded_up():
    """So that no page claims more than the certificate does."""
    assert [bound(one) for one in (0.04371, 0.0437, 0.04, 1.0, 0.9991, 12.3401, 1234.1, None, 0.0)] == [
        "0.0438", "0.0437", "0.04", "1", "1", "12.4", "1,240", "—", "0",
    ]  # fmt: skip


def test_lengths_of_time_and_shares_read_as_people_say_them():
    assert [lasting(days) for days in (0.01, 0.05, 1.5, 3.2, 90, 9e9)] == [
        "less than an hour", "1 hour", "36 hours", "3 days", "13 weeks", "more than ten years",
    ]  # fmt: skip
    assert [percent(share) for share in (None, 0, 0.0002, 0.004, 0.05, 0.123, 1)] == [
        "—", "0 %", "under 0.1 %", "0.4 %", "5 %", "12 %", "100 %",
    ]  # fmt: skip
    assert time_to_go(JsonView({"to_go": {"days": 0.01}})) == "less than an hour"
    assert time_to_go(JsonView({"to_go": {"samples": 8123}})) == "about 8,100 more people"


def test_what_is_wrong_is_said_at_the_top_and_to_listeners():
    for status, said in (
        (statuses.paused(), "The guardrail “complaint” is above 0.02: free shipping."),
        (statuses.alarmed(), "Actions were not drawn as often as they should be"),
    ):
        words = Reader(page_of(status)).words
        assert words.index(f"ALARM: {said}") < words.index("How close to the best rule")
        assert said in news(JsonView(status))
    paused = Reader(page_of(statuses.paused())).words
    assert "Paused: the guardrail complaint is above 0.02 for free shipping. Nobody new is assigned" in paused
    stopped = Reader(page_of(statuses.withdrawn())).words
    assert "Stopped: sold out. Nobody is assigned any more" in stopped
    assert "discount withdrawn" in stopped
    assert "count at their worst" in stopped


def test_under_an_alarm_nothing_is_said_to_be_proven():
    """Of an experiment that has ended, and whose data speak against an assumption."""
    status = statuses.certified()
    status["health"], status["events"] = statuses.health(status["assigned"], alarm=True), []
    status["value"]["lift"] = {"low": None, "estimate": 0.029, "high": None}
    words = Reader(page_of(status)).words
    assert words.index("ALARM: Actions were not drawn") < words.index("In doubt: ") < words.index("How close to")
    assert "+0.029 (empty interval: the assumptions contradict the data)" in words
    assert "Each interval is right" not in words
    assert "proven" not in words.casefold()
    assert "% confidence" not in words
    assert 'class="state alarm">doubtful<' in page_of(status)
    assert news(JsonView(status)).startswith("Actions were not drawn")
    assert "ALARM: Actions were not drawn" in Reader(list_page("", [("newsletter", JsonView(status))])).words


def test_listeners_are_told_of_news_but_of_no_running_counts():
    assert news(JsonView(statuses.collecting(more=1))) == news(JsonView(statuses.collecting(more=900)))
    assert news(JsonView(statuses.collecting(looks=18))) != news(JsonView(statuses.collecting(looks=19)))


def test_the_page_holds_what_the_status_says():
    words = Reader(page_of(statuses.collecting())).words
    for said in (
        "15,048 and 782 held out",
        "12,791 903 pending",
        "17 days since 29 Oct 2026",
        "≈ 12 days ≈ 8,400 people",
        "a plain trial ≈ 41,000",
        "plan: 4 of 5 ≈ 24,000",
        "would need about 1.7 times as many",
        "country is DE? yes age ≤ 34? yes discount 22\xa0% of people no free shipping",
        "0.134 (0.118 to 0.151)",
        "+0.029 (+0.008 to +0.051)",
        "in the experiment (15,048) 0.114 (0.107 to 0.121)",
        "standard 11\xa0% discount 74\xa0% free shipping 15\xa0%",
        "903 rewards pending, which have 7 days to arrive, and count as 0 after that.",
        "1,354 rewards did not arrive in time and count as 0; 41 arrived later and do not count.",
        "minimum propensity 2.1\xa0%",
        "evidence 0.8, alarm at 6.9",
        "29 older events",
        statuses.fingerprint("18"),
        "Over 37 entries",
        "of the best of its class. All assumptions people who come are like",
    ):
        assert " ".join(said.replace("\xa0", " ").split()) in words.replace("\xa0", " "), said


def test_everything_has_something_to_say_before_there_is_anything():
    words = Reader(page_of(statuses.created())).words
    for said in (
        "The curve begins with the first analysis",
        "People count from the first analysis on.",
        "There is no leading rule yet",
        "The value of the rule is estimated at the first analysis",
        "The rule distinguishes no segments yet.",
        "No action has been tried yet.",
        "There is no guardrail.",
        "The first analysis comes with the first rewards; 0 rewards in.",
    ):
        assert said in words
    check_sound(page_of({"name": "bare"}))
    assert "Nothing has happened yet." in Reader(page_of({"name": "bare"})).words


ODD = (None, "?", -1, True, 1e308, math.nan, [None, {}], {"a": {}})


@pytest.mark.first(1)
@pytest.mark.parametrize("odd", [*ODD[::3], *(pytest.param(one, marks=pytest.mark.slow) for one in ODD)], ids=str)
def test_no_status_breaks_a_page(odd):
    """Each field missing, empty, or something else entirely."""
    status = statuses.paused(looks=2)
    for key in status:
        render_blocks(experiment_sections(JsonView({**status, key: odd})))
    for key in statuses.FILLED:
        render_blocks(experiment_sections(JsonView({**status, key: dict.fromkeys(status[key], odd)})))


def test_a_rule_that_is_no_tree_is_told_in_words():
    status = statuses.collecting()
    status["policy"] = {"kind": "something of one's own", "x": 1}
    assert f"<pre>{statuses.WORDS}</pre>" in page_of(status)
    status["policy"] = {**statuses.TREE, "n_actions": 9, "root": {"action": 8}}  # more actions than there are names
    assert "<pre>" in page_of(status)
    status["claim"] = None
    assert "The rule cannot be drawn here." in page_of(status)


def test_a_mix_of_rules_is_drawn_likeliest_first():
    status = statuses.mixed()
    assert headline(JsonView(status)).startswith("So far it is proven that the mixture of rules below is within")
    words = Reader(page_of(status)).words.replace("\xa0", " ")
    assert "A mixture of 2 rules: one of them is drawn at random for each person" in words
    assert words.index("is drawn for 70 % of people. country is DE?") < words.index("For 30 % of people discount")
    assert "The rule that leads now" not in words


def test_what_is_proven_and_what_leads_are_told_apart():
    """The best look may be an earlier one, of another rule."""
    status = statuses.collecting()
    status["claim"]["words"] = "always discount"
    words = Reader(page_of(status)).words
    assert "So far it is proven that “always discount” is within" in words
    assert "The certified rule always discount The rule that leads now country is DE?" in words
    same = Reader(page_of(statuses.collecting())).words
    assert "The rule that leads now" not in same


def test_looks_that_prove_nothing_are_no_part_of_the_curve():
    status = statuses.collecting()
    status["curve"][:0] = [{"samples": 2, "certified_epsilon": 1.0, "best": 1.0, "at": statuses.at(0), "round": 1}] * 9
    assert len([one for one in Reader(curve_of(status)).all("circle") if "%" in one["cx"]]) == 18
    status["curve"] = status["curve"][:9]
    assert "9 analyses so far, and nothing is proven yet" in curve_of(status)


def numbers(text):
    return [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", text)]


def test_the_curve_falls_from_look_to_look_towards_the_goal():
    status = statuses.collecting()
    read = Reader(curve_of(status))
    best, ahead = (one["d"] for one in read.all("path"))
    heights = [float(one) for one in re.findall(r"[V ](\d+\.\d)", best)]
    across = [float(one) for one in re.findall(r"[MH](\d+\.\d)", best)]
    assert len(heights) == len(across) == len(status["curve"])
    assert heights == sorted(heights)  # downwards on the page
    assert across == sorted(across)
    goal = next(one for one in read.all("line") if one.get("class") == "goal" and one["x2"] == "100%")
    assert numbers(ahead)[3] == pytest.approx(10 * float(goal["y1"].rstrip("%")), abs=0.2)
    assert heights[-1] < 10 * float(goal["y1"].rstrip("%"))
    dots = [one for one in read.all("circle") if one["cx"].endswith("%")]
    assert len(dots) == len(status["curve"])
    # Halving is a step of one height wherever it happens: heights are differences of logarithms.
    drops = [math.log(status["curve"][0]["best"] / one["best"]) for one in status["curve"]]
    steps = [height - heights[0] for height in heights]
    assert steps[5] / drops[5] == pytest.approx(steps[-1] / drops[-1], rel=1e-3)
    for one in status["curve"]:
        assert f"{one['samples']:,}" in read.words


def by_a_gain(gain):
    status = statuses.certified() | {"stop": "gain", "gain": gain, "standard": "old page", "alarms": []}
    status["claim"] |= {"proven_gain": 0.0924}
    return status


def test_the_goal_of_an_experiment_that_stops_by_a_gain_is_the_gain():
    for gain, goal in ((0.05, "a gain of 0.05 over “old page”"), (None, "any gain over “old page”")):
        status = by_a_gain(gain)
        words = Reader(page_of(status)).words
        assert "Proven gain 0.0924" in words
        assert words.count(f"goal {goal}") == 2  # at the top, and among what was fixed at the start
        assert f"goal {goal}" in Reader(list_page(ROOT, [("a", JsonView(status))])).words
        assert f"goal {status['epsilon']:g}" not in words
        assert 'class="goal"' not in curve_of(status)
    assert 'class="goal"' in curve_of(statuses.certified())


def test_the_terminal_says_of_a_gain_what_is_asked():
    for gain, asked, listed in ((0.05, "at least 0.05", "gain 0.05"), (None, "any size", "gain 0")):
        status = by_a_gain(gain)
        console = Console(file=io.StringIO(), width=200)
        console.print(render_terminal(status_document(status)))
        console.print(render_terminal(experiments_document([status, status | {"stop": "epsilon"}])))
        said = console.file.getvalue()
        assert f"a proven gain of {asked} over old page" in said
        assert re.search(rf"newsletter .* {listed} +gain 0\.0924\n", said)
        assert re.search(r"newsletter .* ε 0\.02 +ε 0\.0198\n", said)


def test_the_terminal_calls_a_policy_certified_once_it_is():
    done = by_a_gain(None)
    before = done | {"state": "collecting", "claim": done["claim"] | {"certified": False}}
    for status, certified in ((before, False), (done, True)):
        console = Console(file=io.StringIO(), width=200)
        console.print(render_terminal(status_document(status)))
        said = console.file.getvalue()
        assert ("\nthe certified policy\n" in said, "\nthe best policy so far\n" in said) == (certified, not certified)


def test_a_webhook_of_all_events_is_listed_so():
    one = {"id": "a", "url": "https://x", "format": "json", "delivered": 0, "waiting": 0, "given_up": 0, "last": None}
    (table,) = webhooks_document([one | {"events": list(EVENTS)}, one | {"events": ["drift"]}]).blocks
    assert [row[3] for row in table.rows] == ["all", "drift"]


def test_thousands_of_looks_are_thinned_but_for_the_last():
    status = statuses.collecting(looks=3_000)
    read = Reader(curve_of(status))
    assert 100 < len(read.all("circle")) < 300
    assert f"after {status['curve'][-1]['samples']:,} people" in read.words


def test_the_pieces_of_a_bar_fill_it():
    (shown,) = (one for one in experiment_sections(JsonView(statuses.collecting())) if one.id == "shown")
    pieces = [one for one in Reader(render_blocks((shown,))).all("rect") if "piece" in one["class"]]
    assert len(pieces) == 12
    for group in range(4):
        widths = [float(one["width"].rstrip("%")) for one in pieces[3 * group : 3 * group + 3]]
        starts = [float(one["x"].rstrip("%")) for one in pieces[3 * group : 3 * group + 3]]
        assert sum(widths) == pytest.approx(100, abs=0.05)
        assert starts[2] == pytest.approx(widths[0] + widths[1], abs=0.05)


def test_the_terminal_tells_of_alarms_first_too():
    alarm = "signs of a sample-ratio mismatch: a was played 900 times where 500.0 were expected"
    status = statuses.certified() | {"alarms": [alarm]}
    status["value"] |= {"alarms": [alarm], "words": "No interval can be relied on"}
    console = Console(file=io.StringIO(), width=200)
    console.print(render_terminal(status_document(status)))
    said = console.file.getvalue()
    assert said.startswith(f"ALARM: {alarm}")
    assert "proven" not in said.split("last events")[0]
    console = Console(file=io.StringIO(), width=200)
    console.print(render_terminal(experiments_document([status])))
    assert re.search(r"newsletter .* 0\.02 +alarm\b", console.file.getvalue())


def test_a_page_says_of_when_and_of_whom_its_tables_are():
    status = statuses.collecting()
    status["analysis"] = {"number": 3, "at": "2026-03-03T14:05:00Z", "rows": 103}
    status["assigned"] = 3_905
    words = Reader(page_of(status)).words.replace(" ,", ",")  # after an element
    said = "As of 3 Mar 2026, 14:05 UTC, with 103 people; 3,802 people have come since."
    assert words.count(said) == 2  # below the figures, and beside the table of actions


def test_nothing_to_go_is_not_said_where_nothing_is_proven():
    status = statuses.collecting()
    status["claim"], status["to_go"] = None, {"samples": 0, "days": 0.0}
    words = Reader(page_of(status)).words
    assert "Nothing is proven yet; perhaps at the next analysis." in words
    assert "≈ 0" not in words
    assert "less than an hour" not in words


def test_confidence_is_said_in_one_way():
    status = statuses.certified()
    status["claim"] |= {
        "delta": 0.045,
        "describe": "except with probability 0.045 the policy is within 0.02 of the best",
    }
    status["value"]["confidence"] = 0.955
    words = Reader(page_of(status)).words
    assert "With 95.5 % confidence the policy is within 0.02 of the best." in words
    assert "That is right with 95.5 % confidence" in words
    assert "confidence 95 %, of all claims together" in words
    assert "except with probability" not in words


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("collecting", "Next: Wait: about"),
        ("paused", "Next: Resume it when the reason is gone"),
        ("stopped", "Next: Export what is proven"),
    ],
)
def test_a_page_says_what_to_do_next(state, said):
    assert said in Reader(page_of(statuses.collecting() | {"state": state})).words


def test_a_proven_rule_is_to_be_rolled_out_and_a_rehearsal_says_that_it_is_one():
    words = Reader(page_of(statuses.certified())).words
    assert "Next: The service already plays the rule. To roll it out elsewhere" in words
    assert "rehearsal" not in words
    assert "A rehearsal: people" in Reader(page_of(statuses.certified() | {"rehearsal": True})).words


@pytest.mark.parametrize(
    ("status", "links"),
    [
        (statuses.collecting(), ["#curve", "#people"]),
        (statuses.collecting() | {"state": "paused"}, ["#record"]),
        (statuses.collecting() | {"state": "stopped"}, ["#record", "../export/checkout", "../certificate/checkout"]),
        (statuses.certified() | {"name": "a b"}, ["#rule", "../export/a%20b", "../certificate/a%20b"]),
        (statuses.certified() | {"name": HOSTILE, "alarms": ["drift"]}, ["#health", "#record"]),
    ],
)
def test_the_next_step_has_links(status, links):
    read = Reader(page_of(status | {"exportable": True}))
    named = [about["href"] for name, about in read.elements if name == "a" and about.get("class") == "link"]
    assert named == links
    assert {link[1:] for link in links if link.startswith("#")} <= {about.get("id") for _, about in read.elements}
    assert "Download" not in page_of(status)  # an application without these routes


def test_intervals_have_an_axis_in_the_units_of_rewards():
    status = statuses.certified()
    status["value"] |= {"policy": {"low": 118.0, "estimate": 134.0, "high": 151.0}, "standard": None, "lift": None}
    status["holdout_compared"] = None
    axis = page_of(status).partition('class="axis"')[2].partition("</svg>")[0]
    assert re.findall(">([^<]+)</text>", axis) == ["120", "130", "140", "150"]


def test_every_time_can_be_shown_in_the_zone_of_the_reader():
    status = statuses.collecting()
    status["analysis"] = {"number": 3, "at": "2026-03-03T14:05:00Z", "rows": 103}
    status["events"] = [{"at": "2026-03-05T14:05:59+00:00", "kind": "x", "words": "until 1 Dec 2026, 09:30 UTC <b>"}]
    page = page_of(status)
    assert '<time datetime="2026-03-05T14:05Z">5 Mar 2026, 14:05 UTC</time>' in page
    assert 'ntil <time datetime="2026-12-01T09:30Z">1 Dec 2026, 09:30 UTC</time> &lt;b&gt;' in page
    assert not re.search(r"\d\d:\d\d UTC", re.sub(r"<time[^>]*>[^<]*</time>", "", page))


def test_a_time_in_an_attribute_stays_text():
    status = statuses.collecting() | {"actions": ['1 Dec 2026, 09:30 UTC" onload=x', "b", "c"]}
    page = page_of(status | {"name": "5 Mar 2026, 14:05 UTC"})
    check_sound(page)
    assert not re.search(r'="[^"<>]*<time', page)
