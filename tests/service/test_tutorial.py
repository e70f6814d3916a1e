"""The tutorial's steps with a service: its commands are run, and answer what the page shows."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol_files import read_protocol

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "production.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def matches(shown, said):
    """Whether the words of a page, in which … stands for anything, are what came out."""
    pattern = ".*?".join(re.escape(part) for part in shown.strip().split("…"))
    return re.fullmatch(pattern.replace("\\ ", r"\s*"), said.strip(), re.DOTALL) is not None


@pytest.mark.thorough
def test_commands_of_the_tutorial_answer_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks, names = FENCE.findall(PAGE.read_text(encoding="utf-8")), {}
    for _, block in [one for one in blocks if one[0] == "python"][:2]:
        exec(block, names)
    Experiment.create("pacbandits.db", read_protocol("checkout.toml")).close()
    program = tmp_path / "pacbandits"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pacbandits "$@"\n')
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    values = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PACBANDITS_ADMIN_KEY": "a" * 32}
    server, ran = None, 0
    try:
        for (language, block), (after, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
            if language != "bash":
                continue
            assert after == "", block
            commands = block.replace("8000", port)
            if "pacbandits serve" in commands:
                words = commands.splitlines()[-1].split()[1:]
                server = subprocess.Popen([program, *words], env=values, stdout=subprocess.PIPE, text=True)
                said = server.stdout.readline()
            else:
                shell = subprocess.run(["bash", "-c", commands], env=values, capture_output=True, text=True, check=True)
                said = shell.stdout.replace("}{", "}\n{")
                told = json.loads(said.splitlines()[0])
                values |= {"KEY": told["key"]} if "key" in told else {}
                values |= {"ID": told["id"]} if "unit" in told else {}
            assert matches(shown.replace("8000", port), said), (shown, said)
            ran += 1
    finally:
        if server is not None:
            server.terminate()
            server.wait(timeout=30)
            server.stdout.close()
    assert ran == 5


def test_what_is_not_shown_is_seen():
    assert matches('{"id":"0-…","n":…}', '{"id":"0-ab","n":3}\n')
    assert not matches('{"id":"0-…","n":1}', '{"id":"0-ab","n":3}')
