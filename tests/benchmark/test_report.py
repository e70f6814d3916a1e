"""The report: a page that needs nothing else, tables that say what rows say, and claims also where they are broken."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from benchmarks.rivals import write

from pacbandits.benchmark.cases import Case, Entry
from pacbandits.benchmark.claims import BenchmarkFindings, read_findings
from pacbandits.benchmark.results import BenchmarkSession, CaseFacts, Description, Failure, Misfit, Results, Selection
from pacbandits.benchmark.standings import IntervalEstimate, Stopped
from pacbandits.benchmark.suites import Suite
from pacbandits.report.benchmark.figures import case_figure
from pacbandits.report.benchmark.report import Chapter, answer, repeat_code, report_html, report_markdown
from pacbandits.report.benchmark.tables import (
    better_table,
    chance_table,
    cost_table,
    facts_table,
    main_table,
    proofs_table,
    ratio_table,
    result_table,
    show_bracket_ratio,
    show_errors,
    show_lost,
    show_ratio,
    show_stopping,
    single_table,
    stopping_table,
)
from pacbandits.report.document import Text
from pacbandits.report.figures import new_figure
from tests.benchmark.hand_made import made, seeds, unproven

NASTY = "<b>|second"
PROBLEM = "trivial:contexts=4,actions=3,gap=0.3"


def spread(entry, spec, at, *, role="default", **changed):
    """Ten runs that are certified one after the other."""
    return [made(s, entry=entry, algorithm=spec, role=role, certified_at=at + s, **changed) for s in range(10)]


def of_case(name, **changed):
    """A case on which uniform play is the second, a tuned rival the first or the third, and one never done."""
    return [
        *spread("coda", "coda", 40, case=name, **changed),
        *spread("uniform", "uniform", 60, case=name, **changed),
        *spread("epoch-greedy", "epoch-greedy", 80, case=name, **changed),
        *spread("epoch-greedy", "epoch-greedy:explore=0.5", 70, role="tuned", case=name, **changed),
        *seeds(
            10, unproven, entry="per-context", algorithm="per-context", case=name, own_at=50, own_gap=0.3, **changed
        ),
    ]


def theory(name, *, ratio, bound=15.0):
    return CaseFacts(
        name, PROBLEM, "", 0.1, 0.1, 4, 3, 81, 4.39, law="bernoulli", min_gap=0.3, rho_lower=10.0, rho_upper=10.0,
        uniform_lower=10.0 * ratio, uniform_upper=10.0 * ratio, lower_bound=bound,
    )  # fmt: skip


@pytest.fixture(scope="module")
def findings():
    blind = [
        replace(row, certified=False, leader_gaps=(), certified_at=None, certified_gap=None) for row in of_case("blind")
    ]
    session = BenchmarkSession(
        "pacbandits bench quick --out results", "2026-01-01T00:00:00", {"Python": "3.11", "cores": "2"}
    )
    return BenchmarkFindings.of(
        [*of_case("first"), *of_case(NASTY), *blind],
        facts=[theory("first", ratio=3.0), theory(NASTY, ratio=1.2, bound=None)],
        misfits=[Misfit("by hand", "first", "rage", "it does not <suit>")],
        failures=[Failure("by hand", "first", "uniform", 11, "ZeroDivisionError: division by zero")],
        description=Description().with_session(session),
    )


@pytest.fixture(scope="module")
def page(findings):
    return report_html(findings)


class Reader(HTMLParser):
    """Every tag that is opened is closed, in turn."""

    EMPTY = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.sources = [], []

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.thorough
def test_the_page_is_well_formed_and_needs_nothing_else(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert len(reader.sources) == 3
    assert all(source.startswith("data:image/svg+xml;base64,") for source in reader.sources)
    assert not re.search(r"https?://|<script|@import|url\(", page)


@pytest.mark.thorough
def test_the_same_results_give_the_same_page(findings):
    few = BenchmarkFindings.of([row for row in findings.rows if row.case == "first"])
    assert report_html(few) == report_html(few)


@pytest.mark.thorough
def test_the_page_has_all_entries_commands_and_environments_and_escapes_names(findings, page):
    text = report_markdown(findings)
    for words in (
        *("coda", "uniform", "epoch-greedy", "explore=0.5", "per-context"),
        *("pacbandits bench quick --out results", "cores", "ZeroDivisionError", "from pacbandits.benchmark.runs"),
    ):
        assert words in page
        assert words in text
    assert "<b>|second" not in page
    assert "&lt;b&gt;|second" in page
    assert "it does not &lt;suit&gt;" in page


@pytest.mark.thorough
def test_chapters_have_their_tables_and_figures():
    figure = new_figure(4, 3)
    table = result_table("By size", ("algorithm", "8"), (("coda", "12"),))
    few = BenchmarkFindings.of(seeds(2))
    told = {"chapters": [Chapter("All sizes <together>", (table,), ((figure, "n over m"),))]}
    page, text = report_html(few, **told), report_markdown(few, **told)
    assert "<h2>All sizes &lt;together&gt;</h2>" in page
    assert 'alt="n over m"' in page
    assert "| coda | 12 |" in text


@pytest.mark.thorough
def test_figures_have_the_lower_bound_and_every_algorithm(findings, page):
    source = Reader()
    source.feed(page)
    first = base64.b64decode(source.sources[0].split(",")[1]).decode()
    assert "lower bound of any proof: 15" in first  # text is drawn as shapes, with the words in a comment
    for entry in findings.entries:
        assert entry in first


def test_tables_in_markdown_have_as_many_cells_in_every_row(findings):
    lines = report_markdown(findings).split("\n")
    tables = 0
    for at, line in enumerate(lines):
        if re.fullmatch(r"\|( --- \|)+", line):
            tables += 1
            cells = len(re.findall(r"(?<!\\)\|", line))
            for row in (lines[at - 1], *lines[at + 1 : lines.index("", at)]):
                assert len(re.findall(r"(?<!\\)\|", row)) == cells
    assert tables == 7 + 2 * 3 + 4


def test_the_main_table_holds_ours_against_the_best_other(findings):
    first, second, blind = main_table(findings).rows
    assert first[:5] == ("first", "3", "44 (41–48)", "uniform", "64 (61–68)")
    assert first[5].startswith("0.69 (0.6")
    assert first[6] == "first: kept"
    assert second[1] == "1.2"
    assert second[6] == "≤ 1.1: kept"
    assert blind[0] == "blind ◦"
    assert blind[5:] == ("—", "—")
    assert main_table(findings, brief=True).rows[0][2] == "44"
    assert "mixture" not in main_table(findings).note


def test_cases_won_beyond_chance_are_counted(findings):
    lost = [*spread("coda", "coda", 80, case="third"), *spread("uniform", "uniform", 40, case="third")]
    table = chance_table(BenchmarkFindings.of([*findings.rows, *lost]))
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert [row[0] for row in table.rows] == ["first", NASTY, "third", "geometric mean of 3"]
    assert rows["first"]["seeds"] == "10"
    assert (rows["first"]["others"], rows["first"]["selected most often"]) == ("4", "uniform")
    assert (rows["first"]["coda"], rows["third"]["coda"]) == ("won", "lost")
    assert rows["first"]["by the same seeds"] == "0.69"
    assert rows["first"]["by other seeds"].startswith("0.69 (0.6")
    total = table.rows[-1]
    assert total[4] == f"{(0.6899 * 0.6899 * 1.8989) ** (1 / 3):.2f}"
    assert total[6] == "2 won, 0 level, 1 lost"
    assert chance_table(BenchmarkFindings.of(seeds(10))).rows == ()


def test_where_a_mixture_may_be_certified_a_single_policy_stands_beside(findings):
    rows = [*findings.rows, *spread("coda single", "coda:answer=single", 55, case="first")]
    rows += spread("uniform single", "uniform:answer=single", 75, case="first")
    large = replace(theory("first", ratio=3.0), log_size=12.0)
    found = BenchmarkFindings.of(rows, facts=[large, theory(NASTY, ratio=1.2)])
    table = main_table(found)
    assert [row[0] for row in table.rows] == ["first †", NASTY, "blind ◦"]
    assert "In 1 of 3 cases the class is large, and the policy that is certified may be a mixture" in table.note
    assert table.rows[0][3] == "uniform"  # coda with a single answer is no rival
    assert single_table(found).rows == (
        ("first", "44 (41–48)", "60 (56–63)", "64 (61–68)", "80 (76–83)", "1.34", "0.75"),
    )
    assert single_table(findings).rows == ()


def test_multiples_of_the_first_with_default_and_best_knob(findings):
    table = ratio_table(findings, "certified")
    rows = {row[0]: row[1] for row in table.rows}
    assert table.head == ("algorithm", "first", NASTY)
    assert rows["coda"] == "1.00"
    assert rows["uniform"] == "1.45"
    assert rows["epoch-greedy"] == "1.90, 1.67"
    assert rows["per-context"] == "> 2.25"
    assert rows["the first takes"] == "44"
    assert "blind" in ratio_table(findings, "oracle").head


def test_refused_cases_are_told_from_those_not_played():
    rows = [*of_case("a"), *[row for row in of_case("b") if row.entry in ("coda", "uniform")]]
    table = ratio_table(BenchmarkFindings.of(rows, misfits=[Misfit("s", "b", "per-context", "no")]), "oracle")
    cells = {row[0]: row[2] for row in table.rows}
    assert cells["per-context"] == "no"
    assert cells["epoch-greedy"] == "—"


def test_refusals_are_of_the_algorithm_whichever_way_it_is_played():
    lucb = [replace(row, entry="per-context lucb", algorithm="per-context:rule=lucb") for row in of_case("a")[:10]]
    misfits = [Misfit("s", "b", "per-context:rule=lucb", "no")]
    table = ratio_table(BenchmarkFindings.of([*of_case("a"), *lucb, *of_case("b")], misfits=misfits), "oracle")
    assert {row[0]: row[2] for row in table.rows}["per-context lucb"] == "no"


def test_when_it_is_done_by_every_yardstick(findings):
    table = stopping_table(findings.standings[0])
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert [row[0] for row in table.rows] == ["coda", "uniform", "epoch-greedy", "per-context"]
    assert table.head[2] == "best knob"
    assert table.rows[2][1:3] == ("84 (81–88)", "explore=0.5: 74 (71–78)")
    assert table.rows[0][2] == "—"
    assert rows["per-context"]["certified"] == "> 100"
    assert rows["per-context"]["done"] == "0 of 10"
    assert rows["per-context"]["own proof"] == "50 (50–50)"
    assert rows["per-context"]["its errors"] == "10 of 10 (≤ 100 %)"
    assert rows["coda"]["wrong"].startswith("0 of 10 (≤ 26 %)")
    assert "certified" not in stopping_table(findings.standings[2]).head


def test_costs_are_those_of_published_options(findings):
    table = cost_table(findings.standings[0])
    assert table.head[1] == "lost by 65"
    assert table.rows[0][:3] == ("coda", "7 (7–7)", "30")


def test_where_others_are_better_is_counted(findings):
    rows = [*of_case("a"), *of_case("b", decision_microseconds=10.0)]
    rows = [
        replace(r, decision_microseconds=20.0, regrets=(1.0, 2.0, 3.0)) if r.entry == "uniform" else r for r in rows
    ]
    table = better_table(BenchmarkFindings.of(rows))
    uniform = next(row for row in table.rows if row[0] == "uniform")
    assert uniform[1:6] == ("0 of 2 (1.4)", "0 of 2 (1)", "2 of 2 (0.43)", "1 of 2 (1.3)", "0 of 2 (1)")
    assert uniform[6] == "any"
    assert all(row[0] != "coda" for row in table.rows)


def test_who_never_gets_there_has_no_ratio():
    rows = [*of_case("a"), *of_case("b")]
    undone = next(row for row in better_table(BenchmarkFindings.of(rows)).rows if row[0] == "per-context")
    assert undone[1] == "0 of 2"


def test_proofs_of_their_own_are_counted_with_their_errors():
    """Ours and tuned knobs are not: those stop as if proven, whatever their knob has done to the proof."""
    knob = [replace(row, algorithm="per-context:growth=9", role="tuned") for row in of_case("a") if row.own_at]
    proven = [replace(row, certified_at=100, certified_gap=0.0, own_at=50 + row.seed) for row in of_case("b")[-10:]]
    late = [replace(row, own_at=None, own_gap=None) if row.seed else row for row in of_case("c")[-10:]]
    table = proofs_table(BenchmarkFindings.of([*of_case("a"), *knob, *of_case("b")[:-10], *proven, *late]))
    assert table.rows == (("per-context", "3", "21 of 30", "21", "83 %", "0.55 (1 of 3)"),)
    assert proofs_table(BenchmarkFindings.of(of_case("a")[:40])).rows == ()


def test_cases_without_facts_are_listed_too(findings):
    rows = facts_table(findings).rows
    assert rows[0][-3:] == ("10", "30", "15")
    assert rows[2][-1] == "—"


def test_broken_claims_are_told():
    rows = [*spread("coda", "coda", 80), *spread("uniform", "uniform", 40)]
    words = " ".join(answer(BenchmarkFindings.of(rows, facts=[theory("first", ratio=3.0)])))
    assert "in 0 of 1 case; not in first (uniform: 1.90 times as many)" in words
    assert "Of 20 certificates that accepted, 0 had" in words
    wrong = [replace(row, certified_gap=0.2) for row in rows]
    assert "20 had a policy" in " ".join(answer(BenchmarkFindings.of(wrong)))
    undone = [replace(row, certified_at=None, certified_gap=None) for row in rows]
    assert "Nobody is done" in " ".join(answer(BenchmarkFindings.of(undone)))
    assert "no case" in " ".join(answer(BenchmarkFindings.of(seeds(3))))


def test_a_run_can_be_repeated_from_the_page(findings):
    made_ones = {}
    code = repeat_code(findings).replace("print(play(Task(", "task = (Task(").removesuffix("))") + ")"
    exec(code, made_ones)  # it is our own
    task, row = made_ones["task"], findings.rows[0]
    assert task.key == (row.suite, row.case, row.algorithm, row.seed)
    assert (task.case.problem, task.case.epsilon, task.case.most) == (row.problem, row.epsilon, row.most)


def test_pictures_of_cases_without_certificates_or_runs(findings):
    for one, panels in ((findings.standings[0], 3), (findings.standings[2], 2)):
        figure = case_figure(one, rows=[row for row in findings.rows if row.case == one.case], facts=None)
        assert len(figure.axes) == panels
    refused = seeds(3, unproven, points=(), gaps=(), leader_gaps=(), regrets=(), samples=0, stopped="refused")
    empty = BenchmarkFindings.of(refused)
    figure = case_figure(empty.standings[0], rows=refused, facts=None)
    assert "> 100" in report_markdown(empty)


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (IntervalEstimate(1234.0, 1000.0, 2000.0), "1,234 (1,000–2,000)"),
        (IntervalEstimate(1234.0, 1000.0, math.inf), "1,234 (1,000–> 5,000)"),
        (IntervalEstimate(math.inf, 1000.0, math.inf), "> 5,000 (1,000–> 5,000)"),
        (IntervalEstimate(math.inf, math.inf, math.inf), "> 5,000"),
        (IntervalEstimate(1234.0, 0.0, math.inf), "1,234"),
    ],
)
def test_numbers_of_interactions_in_words(estimate, words):
    assert show_stopping(estimate, most=5_000) == words


def test_other_numbers_in_words():
    assert show_ratio(IntervalEstimate(0.5, 0.25, math.inf)) == "0.50 (0.25–∞)"
    assert show_ratio(IntervalEstimate(math.nan, 0.0, math.inf)) == "—"
    assert show_bracket_ratio((2.0, 2.0001)) == "2"
    assert show_bracket_ratio((2.0, 2.5)) == "2 … 2.5"
    assert show_bracket_ratio(None) == "—"
    assert show_errors(None) == "—"
    stopped = Stopped(IntervalEstimate(5.0, 4.0, 6.0), 20, 18, 1, IntervalEstimate(0.05, 0.002, 0.216), ())
    assert show_errors(stopped) == "1 of 20 (≤ 22 %)"
    assert show_lost(IntervalEstimate(12.345, -math.inf, math.inf)) == "12.3"
    assert show_lost(IntervalEstimate(1234.5, 1000.0, 1400.0)) == "1,234 (1,000–1,400)"


@pytest.mark.thorough
def test_a_report_of_an_unfinished_benchmark_says_so_first(tmp_path, command, monkeypatch):
    """Cases are counted where all of their runs are in, whatever the others look like so far."""
    monkeypatch.setattr("pacbandits.report.benchmark.report._figure", lambda findings, one: Text(""))  # takes seconds
    cases = [Case(name, PROBLEM, 0.1, 0.1, 100) for name in ("first", "second")]
    entries = [Entry("coda", "coda", "default"), Entry("uniform", "uniform", "default")]
    suite = Suite("by hand", "for tests", tuple(cases), tuple(entries), seeds=10)
    rows = [row for row in [*of_case("first"), *of_case("second")] if row.algorithm in ("coda", "uniform")]
    about = Description().with_suite(suite)
    whole, early = (BenchmarkFindings.of(some, description=about) for some in (rows, rows[:-7]))
    assert whole.lacking == {}
    assert whole.to_json()["unfinished"] is None
    assert "Unfinished" not in report_markdown(whole)
    said = "Unfinished: 33 of 40 runs are in; 1 of 2 cases are finished."
    assert report_markdown(early).splitlines()[2].startswith(said)
    assert early.to_json()["unfinished"] == {"runs": 33, "wanted": 40, "lacking": {"second": 7}}
    assert [one["finished"] for one in early.to_json()["claims"]] == [True, False]
    assert "in 1 of 1 finished case." in " ".join(answer(early))
    assert "in 2 of 2 cases." in " ".join(answer(whole))
    assert "unfinished: 7 runs not in" in report_markdown(early)
    folder = Results.at(tmp_path / "results")
    with folder.held():
        folder.describe(about)
        folder.add(rows[:-7])
    code, out, _ = command("report", folder.path, "--markdown", tmp_path / "tables.md")
    assert code == 0
    assert out.startswith(said)
    page = (folder.path / "report.html").read_text(encoding="utf-8")
    assert page.split("</h1>")[1].strip().startswith(f'<p class="warning">{said}')


def test_what_is_lacking_goes_by_what_commands_asked_for():
    """Two commands that each played another algorithm on another case leave nothing undone."""
    cases = [Case(name, PROBLEM, 0.1, 0.1, 100) for name in ("first", "second")]
    entries = [Entry("coda", "coda", "default"), Entry("uniform", "uniform", "default")]
    about = Description()
    for case, entry in zip(cases, entries, strict=True):
        part = Suite("by hand", "for tests", (case,), (entry,), seeds=10)
        about = about.with_suite(part).with_session(BenchmarkSession("bench", "2026", {}, asked=Selection.of(part)))
    about = Description.from_json(json.loads(json.dumps(about.to_json())))
    rows = [*spread("coda", "coda", 40, case="first"), *spread("uniform", "uniform", 60, case="second")]
    assert BenchmarkFindings.of(rows, description=about).lacking == {}
    assert BenchmarkFindings.of(rows[1:], description=about).lacking == {"first": 1}


def test_runs_of_an_algorithm_that_is_clearly_behind_are_not_lacking():
    entries = tuple(Entry(name, name) for name in ("coda", "plas", "rage"))
    suite = Suite("by hand", "for tests", (Case("first", PROBLEM, 0.1, 0.1, 100),), entries, seeds=10, screened=True)
    about = Description.from_json(json.loads(json.dumps(Description().with_suite(suite).to_json())))
    assert about.suites["by hand"].screened
    rows = [*spread("coda", "coda", 40), *spread("plas", "plas", 30)[:9], *spread("rage", "rage", 90)[:2]]
    assert BenchmarkFindings.of(rows, description=about).lacking == {"first": 1}
    patient = Description().with_suite(replace(suite, screened=False))
    assert BenchmarkFindings.of(rows, description=patient).lacking == {"first": 9}


@pytest.fixture
def two_folders(tmp_path):
    """Rivals in one folder, ours in another, with a run that both hold and a refusal of what the other played."""
    older = [*spread("coda", "coda", 90)[:1], *spread("uniform", "uniform", 60)]
    for name, rows, misfit in (
        ("newer", spread("coda", "coda", 40), "uniform"),
        ("older", older, "rage"),
    ):
        folder = Results.at(tmp_path / name)
        with folder.held():
            folder.describe(Description())
            folder.add(rows)
            folder.put_misfits([Misfit("by hand", "first", misfit, "no")])
            folder.put_facts([theory("first", ratio=3.0)])
    return tmp_path / "newer", tmp_path / "older"


def test_folders_are_read_together_and_the_first_counts(two_folders):
    found = read_findings(*two_folders)
    assert [(row.algorithm, row.certified_at) for row in found.rows[:2]] == [("coda", 40), ("coda", 41)]
    assert len(found.rows) == 20
    assert [one.algorithm for one in found.misfits] == ["rage"]  # uniform played in the other folder
    assert found.verdict("first").ratio.value == pytest.approx(44.5 / 64.5)
    assert read_findings(*reversed(two_folders)).rows[0].certified_at == 90


def test_tables_of_folders_are_written_into_a_page(two_folders, tmp_path):
    page = tmp_path / "page.md"
    before, after = (
        "# A page\n\n<!-- tables: python -m benchmarks.rivals FOLDER; dear: hours -->",
        "<!-- /table -->\n\nend\n",
    )
    page.write_text(f"{before}\n\nold\n\n{after}", encoding="utf-8")
    write(str(page), *map(str, two_folders))
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"{before}\n\n20 runs, 1 case, 2 algorithms; pacbandits ")
    assert text.endswith(after)
    assert "| first | 3 | 44 (41–48) | uniform | 64 (61–68) | 0.69" in text
    assert "\nold\n" not in text
