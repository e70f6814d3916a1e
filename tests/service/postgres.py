"""A PostgreSQL of the tests' own, from the system's packages, in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

HOW_TO_GET_IT = "PostgreSQL is missing; apt-get install postgresql brings it"


def binaries():
    """The folder of its programs, the newest; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("initdb")
    return Path(elsewhere).parent if elsewhere else None


@contextmanager
def postgres():
    """The URL of a database that is gone afterwards; skips where PostgreSQL is missing."""
    programs = binaries()
    if programs is None:
        pytest.skip(HOW_TO_GET_IT)
    as_user = []
    if os.geteuid() == 0:  # it does not run as root
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip(HOW_TO_GET_IT)
        as_user = ["runuser", "-u", "postgres", "--"]
    with tempfile.TemporaryDirectory(prefix="pacbandits-postgres-") as folder:
        if as_user:
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        data = f"{folder}/data"

        def run(program, *arguments):
            command = [*as_user, str(programs / program), *arguments]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)

        run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options = f"-c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -p {port}"
        run("pg_ctl", "-D", data, "-w", "-o", options, "-l", f"{folder}/log", "start")
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
