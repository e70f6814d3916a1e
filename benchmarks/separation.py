"""The paper's separation, seen: from runs of `pacbandits bench separation --out FOLDER`.

python -m benchmarks.separation FOLDER        prints the tables, writes docs/figures/separation-….png

Nothing is played here: tables and pictures come from the rows of the folder alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.measuring import print_table
from pacbandits.benchmark.results import read_rows
from pacbandits.benchmark.separation import separations
from pacbandits.report.benchmark.separation import draw_separation, growth_table, samples_table
from pacbandits.report.figures import save_figure

FIGURES = Path(__file__).parent.parent / "docs" / "figures"


def main(folder: str) -> None:
    for one in separations(read_rows(folder)):
        for table in (samples_table(one), growth_table(one)):
            print_table(table.title, table.head, table.rows)
            print(f"\n{table.note}")
        kind = "coins" if one.family.coins else "gaussian"
        save_figure(draw_separation(one), FIGURES / f"separation-{kind}.png")


if __name__ == "__main__":
    main(sys.argv[1])
