"""Run the tests in an environment of its own: `make test-all` does so with lowest versions and on the newest Python.

    python tests/environments.py lowest      the lowest version of every dependency that pyproject.toml permits
    python tests/environments.py newest      the newest Python on this machine, if it is newer than this one

For the lowest versions, what is declared as `>=` is installed as `==`, on the lowest Python that the project permits
where this machine has it. Further arguments go to pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOWEST, NEWEST = ROOT / ".venv-lowest", ROOT / ".venv-newest"
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


def pythons() -> dict[tuple[int, int], str]:
    """The interpreters on this machine by their version; those of pyenv too, whether or not they are switched on."""
    found: dict[tuple[int, int], str] = {}
    places = [*os.environ.get("PATH", "").split(os.pathsep), *map(str, Path.home().glob(".pyenv/versions/3.*/bin"))]
    for path in (path for place in places if place for path in Path(place).glob("python3.*")):
        named = re.fullmatch(r"python3\.(\d+)", path.name)
        if named and (version := (3, int(named[1]))) not in found and _starts(path):
            found[version] = str(path)
    return found


def _starts(python: Path) -> bool:
    """Whether an interpreter can make an environment; the stand-ins of a version manager may not start."""
    try:
        return subprocess.run([python, "-c", "import ensurepip"], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def newest_python() -> str:
    """The newest interpreter that is newer than this one; nothing if there is none."""
    newer = {version: path for version, path in pythons().items() if version > sys.version_info[:2]}
    return newer[max(newer)] if newer else ""


def lowest_python(project: dict) -> str:
    """The lowest Python that is permitted, if it is here; else the one that runs this."""
    version = tuple(int(number) for number in project["requires-python"].removeprefix(">=").split("."))
    return sys.executable if sys.version_info[:2] == version else pythons().get(version, sys.executable)


def test_in(environment: Path, python: str, pins: list[str], arguments: list[str]) -> int:
    """Make the environment anew, install, test; pytest's exit code."""
    subprocess.run([python, "-m", "venv", "--clear", environment], check=True)
    constraints = environment / "constraints.txt"
    constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
    own = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    print(f"installing with {python}: {', '.join(pins) or 'the newest versions'}", flush=True)
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = ["--constraint", constraints, "--editable", f"{ROOT}[{EXTRA}]"]
    subprocess.run([*pip, "uv"], check=False)
    by_uv = [own, "-m", "uv", "pip", "install", "--quiet", "--python", own, *wanted]
    if subprocess.run(by_uv, check=False).returncode:  # pip may have another index
        subprocess.run([*pip, *wanted], check=True)
    # Machine code of another version of numba would overwrite what the ordinary tests keep beside the source. And a
    # compiler that forgets to write is found out where the C library fills fresh memory with nonsense.
    kept = {**os.environ, "NUMBA_CACHE_DIR": str(environment / "machine-code"), "MALLOC_PERTURB_": "69"}
    chosen = arguments or ["-n", "auto", "--dist", "worksteal", "-m", "not slow and not thorough"]
    subprocess.run([own, "tests/warm_up.py", "tests"], cwd=ROOT, env=kept, check=False)
    return subprocess.run([own, "-m", "pytest", *QUIET, *chosen], cwd=ROOT, env=kept).returncode


def main(which: str, arguments: list[str]) -> int:
    """Test with the lowest versions or on the newest Python; the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if which == "lowest":
        pins = sorted({lowest(requirement) for requirement in declared(project)})
        return test_in(LOWEST, lowest_python(project), pins, arguments)
    if which == "newest" and (python := newest_python()):
        return test_in(NEWEST, python, [], arguments)
    print(f"nothing to test: '{which}' should be lowest or newest, and newest needs a newer Python than this one")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]))
