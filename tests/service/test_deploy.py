"""The examples for operators: they bind to the loopback, name metrics that exist, and their steps run."""

from __future__ import annotations

import re
import subprocess
import sys
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
