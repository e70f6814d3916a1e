"""The examples for operators: they bind to the loopback, name metrics that exist, and their steps run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from string import Template

import httpx
import pytest

from pacbandits.service.event_log import Meters
from tests.service.cases import ADMIN, protocol
from tests.service.postgres import postgres
from tests.service.servers import Server

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]


def load(name):
    return list(yaml.safe_load_all((ROOT / name).read_text(encoding="utf-8")))


def test_ports_of_the_compose_file_are_open_to_this_machine_alone():
    (compose,) = load("compose.yaml")
    ports = [port for one in compose["services"].values() for port in one.get("ports", ())]
    assert ports
    assert all(port.startswith("${PACBANDITS_BIND:-127.0.0.1}:") for port in ports)


def test_alerts_name_metrics_that_exist():
    (alerts,) = load("deploy/alerts.yaml")
    meters = Meters()
    meters.answer("/experiments/{name}/assignments", 200, 0.1)
    there = set(re.findall(r"^(pacbandits_\w+)", meters.text().decode(), re.MULTILINE))
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert set(re.findall(r"pacbandits_\w+", rule["expr"])) <= there, rule["alert"]


def test_manifests_ask_for_what_the_server_answers():
    deployment, service, budget = load("deploy/kubernetes.yaml")
    assert [one["kind"] for one in (deployment, service, budget)] == ["Deployment", "Service", "PodDisruptionBudget"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {one["name"] for one in container["env"]} == {"PACBANDITS_ADMIN_KEY", "PACBANDITS_DATABASE"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    (command,) = re.findall(r"^CMD \[(.*)\]$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert container["args"] == [word.strip(' "') for word in command.split(",")]


@pytest.mark.thorough
def test_two_servers_as_the_compose_file_starts_them():
    """Its database URL with a real PostgreSQL, the image's command and health check."""
    (compose,) = load("compose.yaml")
    url = compose["services"]["server-1"]["environment"]["PACBANDITS_DATABASE"]
    assert Template(re.sub(r":\?[^}]*", "", url)).substitute(POSTGRES_PASSWORD="p").startswith("postgresql://")
    check = re.search(r'"-c", "(.*)"\]', (ROOT / "Dockerfile").read_text())[1]
    with postgres() as database, Server(database, "--no-worker") as one, Server(database, "--no-worker") as two:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        httpx.post(f"{one.address}/experiments", json=protocol(), headers=headers, timeout=60)
        assert httpx.get(f"{two.address}/experiments", headers=headers).json() == {"experiments": ["checkout"]}
        for server in (one, two):
            subprocess.run([sys.executable, "-c", check.replace("http://127.0.0.1:8000", server.address)], check=True)


def instructions(name="Dockerfile"):
    """The instructions of the image, each as its word and its text."""
    text = re.sub(r"\\\n\s*", "", (ROOT / name).read_text(encoding="utf-8"))
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, rest in lines]


@pytest.mark.slow
def test_the_steps_of_the_image_in_an_empty_root(tmp_path):
    """Each instruction in order, in a folder for each stage; what the image is based on is this Python.

    Dependencies are those of this Python, users and volumes are left out, and ports are free ones.
    """
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    stages, root, place, environment, command = {}, tmp_path, tmp_path, {}, []
    for word, rest in instructions():
        if word == "FROM":
            root = place = tmp_path / (rest.partition(" AS ")[2] or "image")
            root.mkdir()
            stages[root.name] = root
        elif word == "WORKDIR":
            place = root / rest.strip("/")
            place.mkdir(parents=True)
        elif word == "COPY":
            *sources, target = rest.split()
            base = ROOT
            if sources[0].startswith("--from="):
                base = stages[sources.pop(0).removeprefix("--from=")]
            to = root / target.strip("/") if target.startswith("/") else place / target
            for source in (base / one.strip("/") for one in sources):
                if source.is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(source, to, dirs_exist_ok=True, ignore=ignored)
                else:
                    shutil.copy(source, to)
        elif word == "RUN" and rest.startswith("pip install "):
            options = ["--no-deps" if one == "--no-cache-dir" else one for one in shlex.split(rest)[2:]]
            options = [one.replace("--prefix=", f"--prefix={root}") for one in options]
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--ignore-installed", *options]
            subprocess.run(pip, cwd=place, env=clean, check=True)
        elif word == "RUN":
            made = re.findall(r"mkdir (\S+)", rest)
            assert made == ["/data"]
            assert "useradd" in rest
            (root / "data").mkdir()
        elif word == "ENV":
            pairs = (one.split("=", 1) for one in shlex.split(rest))
            environment |= {name: value.replace("/data", str(root / "data")) for name, value in pairs}
        elif word in ("ENTRYPOINT", "CMD"):
            command += json.loads(rest)
        elif word == "HEALTHCHECK":
            check = json.loads(rest.partition("CMD ")[2])
        else:
            assert (word, rest) in {("USER", "pacbandits"), ("VOLUME", "/data"), ("EXPOSE", "8000")}
    local = root / "usr/local"
    (library,) = local.glob("lib/python*/site-packages")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment |= clean | environment | {"PYTHONPATH": str(library), "PACBANDITS_ADMIN_KEY": ADMIN}
    asked = [sys.executable, "-c", "import pacbandits; print(pacbandits.__file__)"]
    found = subprocess.run(asked, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(root)
    program, *words = [one.replace("8000", port) for one in command]
    server = subprocess.Popen([local / "bin" / program, *words], cwd=root, env=environment)
    try:
        asked = [sys.executable, *(one.replace("8000", port) for one in check[1:])]
        until = time.monotonic() + 90
        while subprocess.run(asked, stderr=subprocess.DEVNULL, check=False).returncode:
            assert server.poll() is None
            assert time.monotonic() < until
            time.sleep(0.5)
        assert (root / "data/pacbandits.db").exists()
    finally:
        server.terminate()
        server.wait(timeout=30)
