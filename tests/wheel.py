"""Build the wheel, install it into an empty environment, use it outside the checkout: a part of `make test-all`.

`python tests/wheel.py dist` is `make release`: it builds wheel and sdist into dist/, and checks both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
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


# Run by the environment's Python: the blocks of a page in order, with commands of that environment.
TUTORIAL = """
import re, subprocess, sys
from pathlib import Path
names = {}
page = Path(sys.argv[1]).read_text(encoding="utf-8")
for language, block in re.findall(r"^```(\\w+)\\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
    if language == "python":
        exec(block, names)
    for line in block.splitlines() if language == "sh" else ():
        print("$", line, flush=True)
        program, *arguments = line.split()
        code = subprocess.run([Path(sys.executable).with_name(program), *arguments]).returncode
        assert code in (0, 3), f"{line} ended with code {code}"  # 3: the log does not prove what was asked
"""


def version_faults(root: Path = ROOT) -> list[str]:
    """Where the version of the package is not the one that its files name."""
    (version,) = re.findall(r'__version__ = "(.+)"', (root / "src/pacbandits/version.py").read_text(encoding="utf-8"))
    citation = dict(re.findall(r"^(\S+): (.+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    cited, released = citation["version"], citation["date-released"]
    heading = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0]
    faults = [] if cited == version else [f"CITATION.cff names version {cited}, and the package is {version}"]
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading):
        faults.append(f"the topmost heading of CHANGELOG.md is '{heading}', and should be '{version} (year-month-day)'")
    elif f"({released})" not in heading:
        faults.append(f"CITATION.cff has the date {released}, and CHANGELOG.md '{heading}'")
    return faults


def call_in(folder: Path) -> Callable[..., str]:
    """Return a function that runs a command in a folder, apart from this environment, and returns its output."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def call(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    return call


def install(package: Path, folder: Path, call: Callable[..., str]) -> Path:
    """Install a package into an empty environment, outside the checkout; return its folder of programs."""
    call(sys.executable, "-m", "venv", "--clear", "empty")
    programs = folder / "empty" / ("Scripts" if os.name == "nt" else "bin")
    call(programs / "python", *PIP, package)
    home = call(programs / "python", "-c", "import pacbandits; print(pacbandits.__file__)").strip()
    assert Path(home).is_relative_to(folder.resolve()) or Path(home).is_relative_to(folder), home
    print(call(programs / "pacbandits", "--version").strip())
    return programs


def check_wheel() -> None:
    """Raise CalledProcessError or AssertionError where the wheel is not what it should be."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        call = call_in(folder)
        call(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", ROOT)
        (wheel,) = folder.glob("pacbandits-*.whl")
        assert not (missing := missing_from(wheel)), f"the wheel lacks {', '.join(missing)}"
        programs = install(wheel, folder, call)
        python, command = programs / "python", programs / "pacbandits"
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


def release(target: Path) -> None:
    """Build wheel and sdist into a folder, check them, and run the first tutorial with each in an empty environment.

    It runs to the end where names of the version do not agree, so that it can be tried before a release; the end is a
    SystemExit then.
    """
    if altered := call_in(ROOT)("git", "status", "--porcelain").strip():
        sys.exit(f"commit these changes first, so that the release is what the history has:\n{altered}")
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("pacbandits-*"):
        old.unlink()
    with TemporaryDirectory() as name:
        folder = Path(name)
        call = call_in(folder)
        call(sys.executable, "-m", "venv", "tools")
        tools = folder / "tools" / ("Scripts" if os.name == "nt" else "bin") / "python"
        call(tools, *PIP, "build", "twine")
        call(tools, "-m", "build", "--outdir", target, ROOT)  # the wheel is built from the sdist
        packages = sorted(target.glob("pacbandits-*"))
        assert [path.suffix for path in packages] == [".whl", ".gz"], packages
        assert not (missing := missing_from(packages[0])), f"the wheel lacks {', '.join(missing)}"
        print(call(tools, "-m", "twine", "check", "--strict", *packages))
        for package in packages:
            programs = install(package, folder, call)
            for proof, log in frozen_certificates():
                assert call(programs / "pacbandits", "verify", proof, log).startswith("good"), proof
            print(call(programs / "python", "-c", TUTORIAL, ROOT / "docs/tutorials/csv.md"))
            print(f"the tutorial runs with {package.name} in an empty environment\n")
    if faults := version_faults():
        sys.exit("not yet to be released: " + "; ".join(faults))
    print(f"ready: {', '.join(str(path) for path in packages)}")


def frozen_certificates() -> list[tuple[Path, Path]]:
    """A certificate of each released format and its log."""
    found = (sorted(folder.glob("x86_64/by_content.json")) for folder in (ROOT / "tests/stored").glob("certificate_*"))
    logs = {proof: (proof.with_suffix(".parquet"), proof.with_name("log.parquet")) for some in found for proof in some}
    return [(proof, next(log for log in beside if log.exists())) for proof, beside in logs.items()]


if __name__ == "__main__":
    release(Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else check_wheel()
