"""Build the wheel, install it into an empty environment, use it outside the checkout: a part of `make test-all`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
# Modules; templates and assets of reports and dashboard; kernels of the GPU; the marker of types.
ENDINGS = {".py", ".html", ".css", ".js", ".svg", ".cu", ".typed"}
HEADER = "age,variant,converted\n"
CUSTOMERS = "import pyarrow\ncustomers = pyarrow.table({'age': [20, 60]})\n"


def missing_from(wheel: Path) -> list[str]:
    """The files of the package that the wheel lacks; AssertionError if the package itself lacks a kind of file."""
    files = [path.relative_to(ROOT / "src") for path in (ROOT / "src/pacbandits").rglob("*") if path.suffix in ENDINGS]
    assert {path.suffix for path in files} == ENDINGS
    with ZipFile(wheel) as packed:
        return sorted({path.as_posix() for path in files} - set(packed.namelist()))


def table(rows: int = 3000) -> str:
    """A test of two variants as CSV, in which the better one depends on age."""
    ages = [18 + i * 7 % 50 for i in range(rows)]
    chances = [7 if (age > 43) == (i % 2 == 1) else 2 for i, age in enumerate(ages)]
    rewards = [int(i * 13 % 10 < chance) for i, chance in enumerate(chances)]
    return HEADER + "".join(f"{age},{'ab'[i % 2]},{rewards[i]}\n" for i, age in enumerate(ages))


def main() -> None:
    """Raise CalledProcessError or AssertionError where the wheel is not what it should be."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}

        def call(*command: str | Path) -> str:
            done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            return done.stdout

        call(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", ROOT)
        (wheel,) = folder.glob("pacbandits-*.whl")
        assert not (missing := missing_from(wheel)), f"the wheel lacks {', '.join(missing)}"
        call(sys.executable, "-m", "venv", "empty")
        python, command = folder / "empty/bin/python", folder / "empty/bin/pacbandits"
        call(python, *PIP, wheel)
        home = call(python, "-c", "import pacbandits; print(pacbandits.__file__)").strip()
        assert Path(home).is_relative_to(folder.resolve()) or Path(home).is_relative_to(folder), home
        print(call(command, "--version").strip())
        (folder / "test.csv").write_text(table(), encoding="utf-8")
        reading = ("test.csv", "--action", "variant", "--reward", "converted", "--split", "uniform")
        print(call(command, "certify", *reading, "--certificate", "proof.json", "--report", "report.html"))
        print(call(command, "verify", "proof.json", "test.csv"))
        print(call(command, "apply", "proof.json", "test.csv", "--out", "actions.csv"))
        assert "<html" in (folder / "report.html").read_text(encoding="utf-8")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL):
            print(call(python, "-c", CUSTOMERS + block))
    print("the wheel works in an empty environment")


if __name__ == "__main__":
    main()
