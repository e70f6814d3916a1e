"""People who come to servers that may die at any moment, and what they were told: none of it may be lost."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from urllib.parse import urlsplit

from pacbandits.certificate import Certificate
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.experiment import Experiment
from pacbandits.records import Log
from pacbandits.verifier import recompute as verify
from tests.service.cases import ADMIN, COUNTRIES

UNITS = 4_000  # so many different people, that some come again
PAUSE_SECONDS = 0.01  # before one asks again where nobody answers


class Visitors:
    """Threads that ask and report, each over a connection of its own, whatever happens to it.

    addresses: of the servers; a server that was started anew puts its own there.
    """

    def __init__(self, addresses, *, threads=6, name="checkout"):
        self.addresses, self._path = addresses, f"/experiments/{name}"
        self.assigned, self.rewarded, self.heads, self.faults = {}, {}, [], []
        self._lock, self._over = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._keep_coming, args=(number,)) for number in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert self.faults == []

    def _keep_coming(self, number):
        draw = random.Random(number)
        connection, asked = None, 0
        while not self._over.is_set():
            try:
                if connection is None:
                    where = urlsplit(self.addresses[(number + asked) % len(self.addresses)])
                    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=20)
                asked += 1
                self._visit(connection, draw)
            except (OSError, http.client.HTTPException):
                connection.close()
                connection = None
                time.sleep(PAUSE_SECONDS)
        if connection is not None:
            connection.close()

    def _visit(self, connection, draw):
        number = draw.randrange(UNITS)
        unit, context = f"u-{number}", {"age": 18 + number % 60, "country": COUNTRIES[number % 3]}
        made = self._post(connection, "assignments", {"unit": unit, "context": context})
        if made is None:
            return
        with self._lock:
            before = self.assigned.setdefault(unit, (made["id"], made["action"], context))
            self.heads.append(made["seal"])
            if before[:2] != (made["id"], made["action"]):
                self.faults.append(f"{unit} has two actions: {before} and {made}")
        reward = float(number % 7 < 2 + 4 * (made["action"] == "discount"))
        told = {"reward": reward, "metrics": {"returned": float(number % 2)}}
        if self._post(connection, "rewards", {"assignment": made["id"], **told}) is not None:
            with self._lock:
                self.rewarded[made["id"]] = told

    def _post(self, connection, word, body):
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        connection.request("POST", f"{self._path}/{word}", json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status == 503:  # it ends, or its database is away: nothing was promised
            return None
        if answer.status != 200:
            self.faults.append(f"{word}: {answer.status} {said[:200]}")
            return None
        return json.loads(said)


def check_nothing_lost(database, visitors, folder, *, name="checkout"):
    """Whatever was answered is in the record, the record fits together, and the certificate is of it."""
    experiment = Experiment.open(database, name)
    try:
        for unit, (id, action, context) in visitors.assigned.items():
            again = experiment.assign(context, unit=unit)
            assert (again.id, again.action, again.new) == (id, action, False), unit
        for id, told in visitors.rewarded.items():
            assert experiment.record(id, **told).outcome == "repeated", id
        for _ in range(3):  # look at all that came; where that was enough, the next one deploys
            experiment.advance(at_once=True)
        experiment.export(folder / "now.parquet", look=0)
        record = read_record(folder / "now.parquet")
        whole = audit(record)
        assert whole.faults == ()
        assert whole.head == experiment.seal().head
        marks = [bytes(mark) for mark in record.marks]
        assert len(marks) == len(set(marks)) >= len(visitors.assigned)  # nobody has two actions
        for head in (visitors.heads[0], visitors.heads[len(visitors.heads) // 2], visitors.heads[-1]):
            assert audit(record, head=head).faults == ()  # what was noted down on the way is in the chain
        result = experiment.result()
        if result.certificate is not None:
            certificate = Certificate.from_json(result.certificate)
            experiment.export(folder / "export.parquet")
            assert audit(read_record(folder / "export.parquet"), certificate).faults == ()
            log = Log.read(folder / "export.parquet")
            assert verify(certificate, log, experiment.protocol.policy_class).good
        return result
    finally:
        experiment.close()
