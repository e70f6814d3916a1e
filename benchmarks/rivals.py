"""Every rival, one table: from runs of `pacbandits bench full --out FOLDER`.

python -m benchmarks.rivals FOLDER        prints the tables of all cases together

Nothing is played here: tables come from the rows of the folder alone, and `pacbandits report FOLDER` has all of them,
with figures and case by case. Tables with a column for each case are printed in parts that fit a page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.measuring import print_table
from pacbandits.benchmark.claims import read_findings
from pacbandits.report.benchmark.report import overview
from pacbandits.report.document import Table

MOST_COLUMNS = 10


def parts(table: Table) -> Iterator[Table]:
    """A table in parts of about as many columns, each with the first one."""
    columns = len(table.head) - 1
    count = -(-columns // (MOST_COLUMNS - 1))
    ends = [1 + round(columns * k / count) for k in range(count + 1)]
    for low, high in pairwise(ends):
        rows = tuple((row[0], *row[low:high]) for row in table.rows)
        yield Table((table.head[0], *table.head[low:high]), rows, table.title, table.note)


def main(folder: str) -> None:
    for table in overview(read_findings(folder)):
        by_case = table.title.startswith("All cases")
        for one in parts(table) if by_case else (table,):
            print_table(one.title, one.head, one.rows)
        print(f"\n{table.note}")


if __name__ == "__main__":
    main(sys.argv[1])
