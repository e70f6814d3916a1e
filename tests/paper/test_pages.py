"""The pages on the paper: every piece of it has a row, and every witness that a row names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pacbandits.algorithms import ALGORITHMS

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
# The labels of the paper's source, of all that is an algorithm, theorem, corollary, lemma, definition or assumption.
NAMES = {
    "alg": "elimination naive FW evaluation_oracle full_algorithm gd c_csc",
    "thm": (
        "lower_bound upper_informal inefficient-low-regret trivial-class-lower linear_agnostic linear_lower_bound "
        "realizable_upper contextual_rage computational_efficiency sample_complexity FW_gap"
    ),
    "cor": "trivial_upper disagree_coeff",
    "lem": (
        "rage_correctness 1.8 diff_emp_true_gap C_44 csc restricted_csc csc_2 emp_process history_1 history_2 EE "
        "good_events control_of_UCB emp_gaps est_design_2 n_l SP recursive saddle_point PP gd_conv "
        "stationary_point_convergence clip_lambda G_11 concave f_Lipschitz gamma_Lipschitz local_strongly_convex "
        "local_strong_convex_eps primal_convex strong_duality B_3 gg E_9"
    ),
    "def": "csc hard_instance linear_policy_class realizable",
    "asm": "offline_data",
}
LABELS = [f"{kind}:{name}" for kind, names in NAMES.items() for name in names.split()]
# Whom it names, by a word of theirs.
SYSTEMS = (
    "RAGE",
    "ILOVETOCONBANDITS",
    "AdaCB",
    "EXP4",
    "epoch-greedy",
    "LinUCB",
    "Thompson sampling",
    "Zanette",
    "Catoni",
)


def rows_of(page: str) -> list[list[str]]:
    """The cells of every row of the tables of a page, without the heads."""
    lines = [line for line in (DOCS / page).read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row[0] not in ("#", "in the paper")]


def names_of_tests() -> set[str]:
    """The name of every test."""
    names: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        names.update(re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))
    return names


def missing(row: list[str], *, known: set[str]) -> list[str]:
    """The tests that a row names and that do not exist; `test_row_1_…` stands for those that begin so."""
    named = re.findall(r"`(test_\w+?_?…?)`", " ".join(row))
    begun = [name for name in named if name.endswith("…") and not any(one.startswith(name[:-1]) for one in known)]
    return begun + [name for name in named if not name.endswith("…") and name not in known]


@pytest.mark.parametrize("label", LABELS)
def test_every_piece_of_the_paper_has_a_row(label):
    assert sum(f"`{label}`" in row[0] for row in rows_of("paper.md")) == 1


def test_rows_on_the_paper_are_whole():
    """Five cells, each with what it is and where; no label that the paper lacks; corrections that exist."""
    numbers = {row[0] for row in rows_of("corrections.md")}
    rows = rows_of("paper.md")
    assert all(len(row) == 5 and row[1] and row[2] for row in rows)
    named = {name for row in rows for name in re.findall(r"`((?:alg|thm|cor|lem|def|asm):[^`]+)`", row[0])}
    assert named == set(LABELS)
    assert all(set(re.findall(r"\d+", row[4])) <= numbers for row in rows)
    for system in SYSTEMS:
        assert any(system in row[0] for row in rows), system


def claimed_absent(row: list[str], *, known: set[str]) -> set[str]:
    """The registered names of a row that says it is not here: in its first cell, or after those words."""
    said = re.search(r"[Nn]ot (?:here|yet|implemented)\b.*", row[2])
    if said is None:
        return set()
    text = f"{row[0]} {said[0]}".lower()
    return {name for name in known if re.search(rf"\b{name.replace('-', '[- ]?')}\b", text)}


def test_no_row_says_that_something_registered_is_not_here():
    """A row of the systems that says "not here", "not yet" or "not implemented" names no algorithm that can be run."""
    known = set(ALGORITHMS)
    for row in rows_of("paper.md"):
        assert not claimed_absent(row, known=known), row[0]
    stale = ["SquareCB (2020)", "regret by regression", "not here: regret", "", ""]
    assert claimed_absent(stale, known=known) == {"squarecb"}
    assert claimed_absent(["LinUCB (Li et al. 2010)", "optimism", "not yet", "", ""], known=known) == {"lin-ucb"}


def test_witnesses_exist():
    known = names_of_tests()
    for page in ("paper.md", "corrections.md"):
        for row in rows_of(page):
            assert not missing(row, known=known), row[0]
    assert missing(["`test_row_1_…`", "`test_row_99_…`", "`test_of_nothing`"], known=known) == [
        "test_row_99_…",
        "test_of_nothing",
    ]


def test_corrections_are_seen_or_read():
    """A row that is "seen" names its witness, one that is "read" none; numbers rise by one; every witness has a row."""
    rows = rows_of("corrections.md")
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        if row[1] != "(unused)":
            assert (row[4], bool(row[5])) in (("seen", True), ("read", False)), row[0]
    numbered = {int(n) for name in names_of_tests() for n in re.findall(r"^test_rows?_(\d+)_", name)}
    assert numbered <= {int(row[0]) for row in rows if f"test_row_{row[0]}_" in row[5]}
