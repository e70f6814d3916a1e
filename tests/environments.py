"""Run the tests in another environment: lowest versions, the newest Python, another machine.

    python tests/environments.py lowest      the lowest version of every dependency that pyproject.toml permits
    python tests/environments.py newest      the newest Python on this machine, if it is newer than this one
    python tests/environments.py machine     five cores, and only what every processor of this kind can do

For the lowest versions, what is declared as `>=` is installed as `==`, on the lowest Python that the project permits
where this machine has it. With fewer instructions numpy, OpenBLAS and numba add up in another order, so that the last
digits of sums differ, as they do between machines. This runs in the environment of `make test`. Further arguments go
to pytest.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
USUAL, LOWEST, NEWEST = ROOT / ".venv", ROOT / ".venv-lowest", ROOT / ".venv-newest"
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


def older_processor(python: Path) -> dict[str, str]:
    """Variables by which numpy, OpenBLAS and numba use only what every processor of this kind can do."""
    code = "import numpy; print(*numpy.show_config(mode='dicts')['SIMD Extensions'].get('found', []))"
    beyond = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    core = "ARMV8" if platform.machine() in ("aarch64", "arm64") else "Prescott"
    numba = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    return {"NPY_DISABLE_CPU_FEATURES": beyond, "OPENBLAS_CORETYPE": core, **numba}


def python_of(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin") / "python"


def test_in(environment: Path, python: str, pins: list[str], arguments: list[str]) -> int:
    """Make the environment anew, install, test; pytest's exit code."""
    subprocess.run([python, "-m", "venv", "--clear", environment], check=True)
    constraints = environment / "constraints.txt"
    constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
    own = python_of(environment)
    print(f"installing with {python}: {', '.join(pins) or 'the newest versions'}", flush=True)
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = ["--constraint", constraints, "--editable", f"{ROOT}[{EXTRA}]"]
    subprocess.run([*pip, "uv"], check=False)
    by_uv = [own, "-m", "uv", "pip", "install", "--quiet", "--python", own, *wanted]
    if subprocess.run(by_uv, check=False).returncode:  # pip may have another index
        subprocess.run([*pip, *wanted], check=True)
    # Machine code of another version of numba would overwrite what the ordinary tests keep beside the source. And a
    # compiler that forgets to write is found out where the C library fills fresh memory with nonsense.
    return run_tests(own, {"NUMBA_CACHE_DIR": str(environment / "machine-code"), "MALLOC_PERTURB_": "69"}, arguments)


def run_tests(python: Path, variables: dict[str, str], arguments: list[str]) -> int:
    """Compile, then run the tests of `make test`, or those that the arguments choose; pytest's exit code."""
    environment = os.environ | variables
    chosen = arguments or ["-n", "auto", "--dist", "worksteal", "-m", "not slow and not thorough"]
    subprocess.run([python, "tests/warm_up.py", "tests"], cwd=ROOT, env=environment, check=False)
    return subprocess.run([python, "-m", "pytest", *QUIET, *chosen], cwd=ROOT, env=environment).returncode


def main(which: str, arguments: list[str]) -> int:
    """Run the tests with lowest versions, the newest Python or another machine; the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if which == "lowest":
        pins = sorted({lowest(requirement) for requirement in declared(project)})
        return test_in(LOWEST, lowest_python(project), pins, arguments)
    if which == "newest" and (python := newest_python()):
        failed = test_in(NEWEST, python, [], arguments)
        own = python_of(NEWEST)  # newer Pythons get newer packages, whose types may differ
        return subprocess.run([own, "-m", "pyright", "--pythonpath", own], cwd=ROOT).returncode or failed
    if which == "machine":
        variables = older_processor(python_of(USUAL)) | {"NUMBA_CACHE_DIR": str(USUAL / "machine-code-older")}
        variables["PACBANDITS_CORES"] = "5"  # more than machines of tests have, or fewer
        print(" ".join(f"{name}={value!r}" for name, value in variables.items()), flush=True)
        return run_tests(python_of(USUAL), variables, arguments)
    print(f"'{which}' should be lowest, newest or machine, and newest needs a newer Python than this one")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]))
