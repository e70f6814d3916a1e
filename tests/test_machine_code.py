"""Where machine code is kept when neither the install nor the user's folder can be written, and who is trusted."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pacbandits
from pacbandits.compiled import private_folder

SOURCE = Path(pacbandits.__file__).parent
RUN = ("-m", "pacbandits", "run", "hard:m=4,noise=bernoulli", "--algorithm", "rage", "--epsilon", "0.5", "--json")
pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="on Windows the user's folder can be written")

# Kernels that will be put where nothing can be written.
KERNELS = """
from pacbandits.compiled import kernel
def doubled(x):
    return 2 * x
kept = kernel(doubled)
"""
# Whether the machine code of one is kept and was there before; then whether it is after the call.
CALL = """
from kernels import kept
from pacbandits.compiled import compiled_before, keeps_code
print(keeps_code(), compiled_before(), end=" ")
assert kept(21) == 42
print(compiled_before())
"""
# As another user might have left the private folder, to have us run what he puts there.
OPENED = """
import os, tempfile
from pathlib import Path
from kernels import doubled, kept
from pacbandits.compiled import keeps_code, kernel, private_folder
print(keeps_code(), kept.stats.cache_path)
private_folder().chmod(0o777)
print(keeps_code(), kernel(doubled).stats.cache_path, keeps_code())
"""


def lock(folder: Path) -> None:
    """Make it impossible to keep machine code beside the source, for whoever tries: root may write where none may."""
    for place in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        (place / "__pycache__").touch()


@pytest.fixture
def nowhere(tmp_path):
    """Variables of an environment whose user has no folder, and whose temporary folder is like the usual one."""
    temporary, home = tmp_path / "temporary", tmp_path / "home"
    temporary.mkdir()
    temporary.chmod(0o1777)
    home.touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    return kept | {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}


def ran(environment, *arguments, **settings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300, **settings
    )


@pytest.fixture
def kernels(nowhere, tmp_path):
    """The same environment, with kernels to import that lie where nothing can be written."""
    place = tmp_path / "install"
    place.mkdir()
    (place / "kernels.py").write_text(KERNELS)
    lock(place)
    return nowhere | {"PYTHONPATH": os.pathsep.join([str(place), str(SOURCE.parent)])}


@pytest.mark.thorough
def test_machine_code_goes_to_a_private_folder_or_nowhere(kernels):
    done = ran(kernels, "-c", OPENED)
    (made,) = Path(kernels["TMPDIR"]).iterdir()
    (code,) = made.iterdir()
    assert (done.stdout, done.stderr) == (f"True {code}\nTrue None False\n", "")


@pytest.mark.slow
def test_machine_code_in_a_private_folder_is_found_again(kernels, tmp_path):
    assert ran(kernels, "-c", CALL).stdout == "True False True\n"
    assert ran(kernels, "-c", CALL).stdout == "True True True\n"
    (made,) = Path(kernels["TMPDIR"]).iterdir()
    made.chmod(0o777)
    assert ran(kernels, "-c", CALL).stdout == "False False False\n"
    chosen = kernels | {"NUMBA_CACHE_DIR": str(tmp_path / "chosen")}
    assert ran(chosen, "-c", CALL).stdout == "True False True\n"
    assert any((tmp_path / "chosen").rglob("*.nbi"))


# A kernel that takes a record, whose machine code names the record's class.
TYPED = """
from typing import NamedTuple
from pacbandits.compiled import kernel
class NAME(NamedTuple):
    x: float
def doubled(record):
    return 2 * record.x
kept = kernel(doubled)
assert kept(NAME(21.0)) == 42
print(sum(kept.stats.cache_hits.values()))
"""


@pytest.mark.thorough
def test_machine_code_that_an_older_version_left_is_compiled_again(tmp_path):
    """Its class is gone, so that it cannot be unpickled; a damaged file is no different."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "code"), "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(name):
        (tmp_path / "typed.py").write_text(TYPED.replace("NAME", name))
        os.utime(tmp_path / "typed.py", (0, 0))  # the same file as far as numba can see
        done = subprocess.run(
            [sys.executable, "-c", "import typed"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert [run("Older"), run("Older"), run("Newer"), run("Newer")] == [0, 1, 0, 1]
    for path in (tmp_path / "code").rglob("*.nbc"):
        path.write_bytes(b"damaged")
    assert [run("Newer"), run("Newer")] == [0, 1]


@pytest.mark.slow
def test_a_user_without_a_home_gets_no_folder_named_after_it(kernels, tmp_path):
    """numba would make, and trust, a folder `~` in the current one."""
    del kernels["HOME"]
    unknown = "import pwd\ndef nobody(_): raise KeyError\npwd.getpwuid = nobody\n"
    done = ran(kernels, "-c", unknown + CALL, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("True False True\n", "")
    assert not (tmp_path / "~").exists()


def test_a_private_folder_is_made_once_and_for_its_owner_alone(tmp_path):
    tmp_path.chmod(0o1777)
    made = private_folder(tmp_path)
    assert made is not None
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert private_folder(tmp_path) == made


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755, 0o701])
def test_a_folder_that_others_can_enter_is_not_private(tmp_path, mode):
    made = private_folder(tmp_path)
    made.chmod(mode)
    assert private_folder(tmp_path) is None


def test_a_link_or_a_file_is_not_a_private_folder(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    made = private_folder(tmp_path)
    made.rmdir()
    for plant in (lambda: made.symlink_to(mine), lambda: made.symlink_to(tmp_path / "none"), made.touch):
        plant()
        assert private_folder(tmp_path) is None
        made.unlink()
    assert private_folder(tmp_path) == made


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_private(tmp_path):
    os.chown(private_folder(tmp_path), 65534, 65534)
    assert private_folder(tmp_path) is None


def test_where_others_can_exchange_folders_none_is_private(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    assert private_folder(tmp_path) is None
    assert private_folder(tmp_path / "none") is None
    here = tmp_path / "here"
    here.mkdir(mode=0o700)
    assert private_folder(here) is not None
    monkeypatch.chdir(here)  # it may hold what came with somebody's files
    assert private_folder(here) is None


@pytest.fixture
def install(tmp_path):
    """A copy of the package that cannot be written to."""
    place = tmp_path / "install"
    shutil.copytree(SOURCE, place / "pacbandits", ignore=shutil.ignore_patterns("__pycache__"))
    lock(place)
    return place


@pytest.mark.slow
def test_commands_run_where_nothing_can_be_written(nowhere, install, tmp_path):
    """The whole package in a folder that cannot be written to, with and without a temporary folder."""
    nowhere["PYTHONPATH"] = str(install)
    once, always = "first run: compiling, once", "compiling, at every run"
    first = ran(nowhere, *RUN)
    assert (first.returncode, once in first.stderr) == (0, True)
    again = ran(nowhere, *RUN)
    assert (again.returncode, again.stderr) == (0, "")
    (made,) = Path(nowhere["TMPDIR"]).iterdir()
    made.chmod(0o755)
    anew = ran(nowhere, *RUN)
    assert (anew.returncode, always in anew.stderr, "NUMBA_CACHE_DIR" in anew.stderr) == (0, True, True)
    chosen = nowhere | {"NUMBA_CACHE_DIR": str(tmp_path / "chosen")}
    assert once in ran(chosen, *RUN).stderr


@pytest.mark.slow
def test_every_module_can_be_imported_where_nothing_can_be_written(nowhere, install):
    names = [".".join(path.relative_to(install).with_suffix("").parts) for path in install.rglob("*.py")]
    modules = [name for name in names if not name.endswith(("__init__", "__main__"))]
    done = ran(nowhere | {"PYTHONPATH": str(install)}, "-c", "import " + ", ".join(modules))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_package_runs_from_an_archive(nowhere, tmp_path):
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in SOURCE.rglob("*.py"):
            packed.write(path, path.relative_to(SOURCE.parent))
    nowhere["PYTHONPATH"] = str(archive)
    done = ran(
        nowhere, "-m", "pacbandits", "run", "hard:m=4,noise=bernoulli", "--algorithm", "rage", "--epsilon", "0.5"
    )
    assert done.returncode == 0
    assert "compiling, at every run" in done.stderr
