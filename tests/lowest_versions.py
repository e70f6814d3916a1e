"""Run the tests with the lowest version of every dependency that pyproject.toml permits: `make test-lowest`.

What is declared as `>=` is installed as `==`, in an environment of its own, on the lowest Python that the project
permits where this machine has it. Arguments go to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENT = ROOT / ".venv-lowest"
EXTRA = "test"
# Old packages call what newer ones, on which they rest in turn, will take away: no concern of this project.
QUIET = ("-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning")


def lowest(requirement: str) -> str:
    """The requirement `name[extras]>=version,…; marker` as `name==version`.

    Raises ValueError for one that names no lowest version.
    """
    bare = requirement.partition(";")[0].replace(" ", "")
    found = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\w.]+)(?:,[<>!=].*)?", bare)
    if found is None:
        raise ValueError(f"'{requirement}' must be declared as name>=version")
    return f"{found[1]}=={found[2]}"


def declared(project: dict) -> list[str]:
    """What the project needs to run and to be tested."""
    return [*project["dependencies"], *needed_by(EXTRA, project["optional-dependencies"])]


def needed_by(extra: str, optional: dict[str, list[str]]) -> list[str]:
    """The requirements of an extra, and of those of our own that it is made of: `pacbandits[service,…]`."""
    out: list[str] = []
    for requirement in optional[extra]:
        own = re.fullmatch(r"pacbandits\[([\w,]+)\]", requirement)
        out.extend(
            [requirement] if own is None else [one for part in own[1].split(",") for one in needed_by(part, optional)]
        )
    return out


def interpreter(project: dict) -> str:
    """The lowest Python that is permitted, if it is here; else the one that runs this."""
    name = "python" + project["requires-python"].removeprefix(">=")
    return shutil.which(name) or sys.executable


def main(arguments: list[str]) -> int:
    """Make the environment anew, install, test; pytest's exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    subprocess.run([interpreter(project), "-m", "venv", "--clear", ENVIRONMENT], check=True)
    pins = sorted({lowest(requirement) for requirement in declared(project)})
    constraints = ENVIRONMENT / "constraints.txt"
    constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
    python = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "python"
    print(f"installing {', '.join(pins)}", flush=True)
    quietly = ("--quiet", "--disable-pip-version-check")
    subprocess.run(
        [python, "-m", "pip", "install", *quietly, "--constraint", constraints, "--editable", f"{ROOT}[{EXTRA}]"],
        check=True,
    )
    # Machine code of another version of numba would overwrite what the ordinary tests keep beside the source. And a
    # compiler that forgets to write is found out where the C library fills fresh memory with nonsense.
    kept = {**os.environ, "NUMBA_CACHE_DIR": str(ENVIRONMENT / "machine-code"), "MALLOC_PERTURB_": "69"}
    chosen = arguments or ["-n", "auto", "--dist", "worksteal", "-m", "not slow"]
    return subprocess.run([python, "-m", "pytest", *QUIET, *chosen], cwd=ROOT, env=kept).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
