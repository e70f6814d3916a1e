"""Every rival, one table: from runs of `pacbandits bench full --out FOLDER`.

python -m benchmarks.rivals FOLDER …      prints the tables of all cases together, from the runs of these folders
python -m benchmarks.rivals --into docs/benchmarks.md FOLDER …
                                          writes them into the page, in the place of the old ones
python -m benchmarks.rivals play FOLDER --jobs 16 --within 480 --entry '[!cuv]*'
                                          plays runs of the suite into a folder, without the command line's packages

Tables come from the rows of the folders alone; of a run that two folders hold, that of the first counts. `pacbandits
report FOLDER` has all tables of a folder, with figures and case by case. Tables with a column for each case are printed
in parts that fit a page.

`play` is `pacbandits bench full` for a machine with numpy, scipy, numba, pyarrow and scikit-learn alone. It stops after
`--within` seconds with what it has, the cheapest cases first, and goes on from there when it is called again. Vowpal
Wabbit's entries and the case actg175 need packages of their own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pacbandits.benchmark.suite_runs import SuiteProgress
    from pacbandits.report.document import Table

MOST_COLUMNS = 10
SECONDS_BETWEEN_LINES = 20.0


def parts(table: Table) -> Iterator[Table]:
    """A table in parts of about as many columns, each with the first one."""
    from pacbandits.report.document import Table

    columns = len(table.head) - 1
    count = -(-columns // (MOST_COLUMNS - 1))
    ends = [1 + round(columns * k / count) for k in range(count + 1)]
    for low, high in pairwise(ends):
        rows = tuple((row[0], *row[low:high]) for row in table.rows)
        yield Table((table.head[0], *table.head[low:high]), rows, table.title, table.note)


def main(*folders: str) -> None:
    from benchmarks.measuring import print_table
    from pacbandits.benchmark.claims import read_findings
    from pacbandits.report.benchmark.report import errors, overview, size_words

    findings = read_findings(*folders)
    wrong, made = errors(findings)
    print(f"{size_words(findings)}. Of {made:,} certificates that accepted, {wrong} had a policy that is not within ε.")
    for table in overview(findings):
        by_case = table.title.startswith("All cases")
        for one in parts(table) if by_case else (table,):
            print_table(one.title, one.head, one.rows)
        print(f"\n{table.note}")


def write(page: str, *folders: str) -> None:
    """Write what `main` prints into a page, at the marker that names this command."""
    from benchmarks.markers import fill, read_figures

    path, printed = Path(page).resolve(), StringIO()
    with redirect_stdout(printed):
        main(*folders)
    (figure,) = (one for one in read_figures(path) if one.command.startswith("python -m benchmarks.rivals"))
    path.write_text(fill(path.read_text(encoding="utf-8"), figure, printed.getvalue()), encoding="utf-8")


def play(arguments: Sequence[str]) -> None:
    """Play a part of a suite into a folder, and say how far it got."""
    from pacbandits.benchmark.results import Results
    from pacbandits.benchmark.suite_runs import run_suite
    from pacbandits.benchmark.suites import find_suite, select

    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals play")
    parser.add_argument("folder")
    parser.add_argument("--suite", default="full")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--within", type=float, default=None, help="seconds")
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--entry", "--algorithms", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=None)
    given = parser.parse_args(arguments)
    suite = select(find_suite(given.suite), cases=given.case, entries=given.entry, seeds=given.seeds)
    said = 0.0

    def watch(tally: SuiteProgress) -> None:
        nonlocal said
        if tally.seconds - said >= SECONDS_BETWEEN_LINES:
            said = tally.seconds
            print(f"{tally.seconds:,.0f} s: {tally.done:,} of {tally.wanted:,} runs", flush=True)

    typed = " ".join(("python -m benchmarks.rivals play FOLDER", *arguments[1:]))
    results = Results.at(given.folder)
    tally = run_suite(suite, results, jobs=given.jobs, command=typed, within=given.within, watch=watch)
    print(f"{tally.done:,} of {tally.wanted:,} runs, {tally.played:,} of them new, in {tally.seconds:,.0f} s")
    for one in tally.failures[:20]:
        print(f"failed: {one.algorithm} on {one.case}, seed {one.seed}: {one.words}")


if __name__ == "__main__":
    if sys.argv[1] == "play":
        play(sys.argv[2:])
    elif sys.argv[1] == "--into":
        write(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
