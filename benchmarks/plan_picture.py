"""The picture of a plan in the documentation: the shop of its first example, with the default class and a budget.

python -m benchmarks.plan_picture        writes docs/figures/plan.png

People come from the Python block with which docs/planning.md makes its file.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURE = ROOT / "docs" / "figures" / "plan.png"
TRIALS = 19
SHOP = "--actions 6 --baseline 0.2 --epsilon 0.05 --effect 0.15 --share 0.4 --traffic 2000/week --budget 10000"


def main() -> None:
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    found = re.search(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile(found[1], "docs/planning.md", "exec"), {})
        command = f"plan customers.csv {SHOP} --minutes 30 --trials {TRIALS} --figure {FIGURE}"
        subprocess.run([sys.executable, "-m", "pacbandits.cli", *command.split()], check=True)


if __name__ == "__main__":
    main()
