"""Every rival, one table: from runs of `pacbandits bench full --out FOLDER`.

python -m benchmarks.rivals FOLDER        prints the tables of all cases together

Nothing is played here: tables come from the rows of the folder alone, and `pacbandits report FOLDER` has all of them,
with figures and case by case.
"""

from __future__ import annotations

import sys

from benchmarks.measuring import print_table
from pacbandits.benchmark.findings import read_findings
from pacbandits.report.benchmark.page import overview


def main(folder: str) -> None:
    for table in overview(read_findings(folder)):
        print_table(table.title, table.head, table.rows)
        print(f"\n{table.note}")


if __name__ == "__main__":
    main(sys.argv[1])
