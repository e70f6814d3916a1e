"""What people are shown: words that act as their policy does, ratios, and a picture that says what the history says."""

from __future__ import annotations

import io
import math
import re
import struct

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from pacbandits.certificate.certify import certify
from pacbandits.certificate.worth import Interval
from pacbandits.complexity import measure
from pacbandits.errors import InputError
from pacbandits.problems import load_problem
from pacbandits.records import Contexts
from pacbandits.report import (
    Comparison,
    certificate_document,
    certified_steps,
    check_figure_path,
    comparison_document,
    draw_certified,
    run_document,
)
from pacbandits.report.numbers import show_gain, show_interval, show_name, show_short, show_signed
from pacbandits.report.result_facts import interval_words, metric_words
from pacbandits.report.run_report import times_words
from pacbandits.report.terminal import render_terminal
from pacbandits.simulation import run
from tests.policies.trees.cases import TREE

SPEC = "two-of-many:actions=8,policies=40,contexts=20"
TREES = "trees:contexts=80,features=3,bins=4,actions=3,competitive=2"


def words(document, width=120):
    console = Console(width=width, file=io.StringIO())
    console.print(render_terminal(document))
    return console.file.getvalue()


@pytest.fixture(scope="module")
def problem():
    return load_problem(SPEC)


@pytest.fixture(scope="module")
def compared(problem):
    one, two = (run(problem, algorithm=name, epsilon=0.1, delta=0.05, rng=0) for name in ("coda", "uniform"))
    return Comparison(one, two, measure(problem, problem.policies, epsilon=0.1, delta=0.05))


@pytest.fixture
def figure(monkeypatch):
    """The figures that were saved, to be looked at."""
    kept = []
    save = Figure.savefig

    def keep(figure, *arguments, **options):
        kept.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return kept


def act_by_words(text, context):
    """Read a tree's words aloud and do what they say: (line, indentation) by (line, indentation)."""
    lines = text.splitlines()
    place, depth = 0, 0
    if match := re.fullmatch(r"always action (\d+)", text):
        return int(match[1])
    while True:
        head, action = re.fullmatch(r"\s*(.*?):(?: action (\d+))?", lines[place]).groups()
        assert len(lines[place]) - len(lines[place].lstrip()) == 4 * depth
        if head == "else" or holds(head.removeprefix("if "), context):
            if action is not None:
                return int(action)
            place, depth = place + 1, depth + 1
        else:
            other = " " * 4 * depth + "else:"
            place = next(i for i in range(place + 1, len(lines)) if lines[i].startswith(other))


def holds(test, context):
    if " ≤ " in test:
        name, threshold = test.split(" ≤ ")
        return context[name] <= float(threshold)
    name, label = test.split(" is ")
    return context[name] == label


def test_a_tree_acts_as_its_words_say():
    regions = ("north", "south", "east")
    ages = np.arange(20.0, 60.0, 2.5)
    rows = np.array([(age, code) for age in ages for code in range(3)])
    contexts = Contexts.of(rows, names=["age", "region"], categories=[None, regions])
    for row, action in zip(rows, TREE(contexts), strict=True):
        assert act_by_words(TREE.describe(), {"age": row[0], "region": regions[int(row[1])]}) == action


@pytest.mark.thorough
def test_the_policy_of_a_run_and_of_a_certificate_acts_as_the_table_says():
    problem = load_problem(TREES)
    done = run(problem, epsilon=0.3, delta=0.05, rng=0, answer="single")
    assert done.log is not None
    certificate = certify(done.log, problem.policies, epsilon=0.3, delta=0.05, single=True)
    population = problem.population
    for policy, table in ((done.policy, run_document(done)), (certificate.policy, certificate_document(certificate))):
        text = words(table).split("policy\n")[1].split("\n\n")[0]
        shown = "\n".join(line.rstrip()[2:] for line in text.splitlines())
        assert "\n" in shown
        for row, action in zip(population.features, policy(population), strict=True):
            context = {
                name: value if labels is None else labels[int(value)]
                for name, labels, value in zip(population.names, population.categories, row, strict=True)
            }
            assert act_by_words(shown, context) == action


@pytest.mark.thorough
def test_steps_are_what_the_history_says(compared):
    for one in compared.runs:
        samples, certified = certified_steps(one)
        assert samples == [figures["total"] for figures in one.history]
        assert samples[-1] == one.samples
        assert certified == [min(figures["certified_epsilon"], 1.0) for figures in one.history]
        assert certified[-1] == one.certificate.certified_epsilon <= 0.1
    paper = run(load_problem("hard:m=6,noise=bernoulli"), algorithm="rage", epsilon=0.3, delta=0.1, rng=0)
    assert certified_steps(paper) == ([], [])


@pytest.mark.thorough
def test_the_picture_shows_the_steps_their_ends_and_the_yardsticks(compared, figure, tmp_path):
    path = tmp_path / "trial.png"
    draw_certified(compared, path=path)
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    assert width == 1200
    assert 500 < height < 900
    axis = figure[0].axes[0]
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines]
    for one in compared.runs:
        samples, certified = certified_steps(one)
        assert (samples, certified) in drawn
        assert ([one.samples], [certified[-1]]) in drawn
    verticals = {x[0] for x, y in drawn if y == [0, 1]}
    assert verticals == {compared.measured.confidence_price, compared.measured.union_price}
    text = "\n".join(label.get_text() for label in axis.texts)
    for one in compared.runs:
        assert f"{one.algorithm}\n{one.samples:,} samples" in text
    assert "asked: ε = 0.1" in text
    assert axis.get_title(loc="left").startswith("coda takes ")
    low, high = axis.get_xlim()
    assert all(low < x < high for x in (*verticals, *(one.samples for one in compared.runs)))


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_other_formats_and_one_run_alone(compared, tmp_path, suffix):
    path = tmp_path / f"trial.{suffix}"
    draw_certified(Comparison(compared.run), path=path)
    assert path.stat().st_size > 1000


@pytest.mark.thorough
def test_a_picture_of_runs_that_stopped_early_or_never_began(problem, figure, tmp_path):
    few, none = (run(problem, epsilon=0.1, delta=0.05, rng=0, max_samples=most) for most in (1000, 1))
    assert few.rounds >= 1
    draw_certified(Comparison(few, none), path=tmp_path / "few.png")
    assert [text.get_text() for text in figure[0].axes[0].texts if "stopped early" in text.get_text()]
    draw_certified(Comparison(none), path=tmp_path / "none.png")
    assert "nothing was certified" in figure[1].axes[0].texts[0].get_text()


def test_a_picture_goes_where_pictures_go(tmp_path):
    with pytest.raises(InputError, match=r"must end in \.png, \.pdf, \.svg"):
        check_figure_path(tmp_path / "trial.bmp")


@pytest.mark.thorough
@pytest.mark.parametrize("width", [80, 120])
def test_both_runs_fit_side_by_side(compared, width):
    text = words(comparison_document(compared), width)
    assert max(len(line) for line in text.splitlines()) <= width
    for one in compared.runs:
        assert f"{one.samples:,}" in text
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    assert times_words(compared) in lines["samples"]
    assert lines["right"].split() == ["right", "yes", "yes"]
    assert f"{math.ceil(compared.measured.union_price):,}" in lines["price with a union bound"]
    assert "a yardstick, not a bound" in lines["price of confidence alone"]


@pytest.mark.thorough
def test_ratios_in_words(compared, problem):
    assert compared.times_fewer == compared.against.samples / compared.run.samples > 1.05
    assert times_words(compared).endswith("times fewer")
    turned = Comparison(compared.against, compared.run)
    assert times_words(turned) == times_words(compared).replace("fewer", "more")
    assert times_words(Comparison(compared.run, compared.run)) == "as many"
    few = run(problem, epsilon=0.1, delta=0.05, rng=0, max_samples=1000)
    early = Comparison(compared.run, few)
    assert early.times_fewer is None
    assert times_words(early) == ""
    assert "coda stopped early (budget)" in words(comparison_document(early))


def test_what_was_not_measured_says_why(compared):
    bare = Comparison(compared.run, compared.against, unmeasured="it takes too long")
    assert "no yardsticks: it takes too long" in words(comparison_document(bare))
    value = bare.to_json()["yardsticks"]
    assert value["union_price"] is None
    assert value["notes"]["union_price"] == "it takes too long"
    assert "coda's include compiling" in words(
        comparison_document(Comparison(compared.run, compared.against, compiled=True))
    )


def test_names_can_be_broken_between_options():
    assert show_name("trees:actions=8,depth=2") == "trees:actions=8, depth=2"
    assert show_name("folder/a,b.npz") == "folder/a,b.npz"


def test_one_point_is_not_many():
    assert [show_gain(value, percent=True, sign=True) for value in (0.01, -0.01, 0.02)] == [
        "+1 point",
        "-1 point",
        "+2 points",
    ]


@pytest.mark.parametrize(
    ("show", "unit"),
    [
        (lambda one: interval_words(one, percent=False, difference=False), 1.0),
        (lambda one: interval_words(one, percent=True, difference=False), 100.0),
        (lambda one: interval_words(one, percent=False, difference=True), 1.0),
        (lambda one: interval_words(one, percent=True, difference=True), 100.0),
        (metric_words, 1.0),
        (lambda one: metric_words(one, difference=True), 1.0),
        (lambda one: show_interval(one.low, one.estimate, one.high, show=show_short), 1.0),
        (lambda one: show_interval(one.low, one.estimate, one.high, show=show_signed), 1.0),
    ],
)
def test_shown_intervals_cover_what_is_known(show, unit):
    rng = np.random.default_rng(0)
    for low, estimate, high in np.sort(rng.normal(size=(300, 3)) * 10.0 ** rng.uniform(-6, 3, (300, 1)), axis=1):
        words = show(Interval(low, estimate, high)).replace("−", "-").replace(",", "")
        _, least, most = (float(word) for word in re.findall(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", words))
        assert unit * low * (1 + 0.011 * np.sign(-low)) <= least <= unit * low
        assert unit * high <= most <= unit * high * (1 + 0.011 * np.sign(high))
