"""Make the files in this folder's x86_64/ and aarch64/, on a machine of that kind: python -m tests.stored.make.

They are read, verified and compared on every machine. Files of a kind of machine are made anew on that kind alone.
`python -m tests.stored.make database` makes those of databases/ for a new step of the schema; older ones never change.
"""

from __future__ import annotations

import json
import platform
import re
import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import pacbandits as pb
from pacbandits.certificate import Certificate
from pacbandits.records.log import digest_log

PROBLEM = "trivial:contexts=8,actions=3,gap=0.3"
PEOPLE = 4000
FOLDER = Path(__file__).parent


def people(count: int = PEOPLE) -> pb.Log:
    """A log of an even split over three arms, in which each of eight contexts has its best arm."""
    rng = np.random.default_rng(11)
    ids, arms, coins = rng.integers(0, 8, count), rng.integers(0, 3, count), rng.integers(0, 10, count)
    contexts = pb.Contexts.of(np.empty((count, 0)), ids=ids)
    rewards = (coins < np.where(arms == ids % 3, 7, 3)).astype(float)
    return pb.Log.of(contexts, actions=arms, rewards=rewards, propensities=np.full((count, 3), 1 / 3))


def by_sums(log: pb.Log) -> Certificate:
    """The certificate of a log by whole-number sums."""
    return pb.certify(log, pb.Trivial(8, 3), epsilon=0.1, engine="threads").certificate


def play() -> tuple[str, int, str]:
    """The same seed gives the same run: the digest of its log, its samples, and the words of its policy."""
    problem = pb.load_problem(PROBLEM)
    done = pb.run(problem, algorithm="uniform", epsilon=0.2, delta=0.05, rng=7)
    assert done.log is not None
    return digest_log(done.log), done.samples, done.policy.describe()


def facts() -> dict[str, Any]:
    """What must be the same on every machine."""
    digest, samples, words = play()
    return {"digest of the log": digest_log(people()), "run": {"digest": digest, "samples": samples, "words": words}}


def main(folder: Path) -> None:
    """Write a log, its certificates, a sealed record with its certificate and a head noted down, and facts."""
    from tests.experiment.live import Played  # needs the service's packages

    folder.mkdir(exist_ok=True)
    log = people()
    log.write(folder / "log.parquet")
    policies = pb.Trivial(8, 3)
    # certificate.json and by_sums.json are of the version that shuffled the numbers of rows, and never made again.
    pb.save_certificate(folder / "by_content.json", by_sums(log), policies)
    with TemporaryDirectory() as place:
        played = Played(Path(place) / "e.db", {"epsilon": 0.25, "policies": "trees:depth=1"})
        played.day(100)
        noted = played.experiment.seal().head
        for _ in range(20):
            played.day(200)
            if played.advance()["state"] == "certified":
                break
        result = played.experiment.result()
        assert result.certified
        played.experiment.export(folder / "export.parquet")
        sealed = played.experiment.protocol.policy_class
        played.experiment.close()
    pb.save_certificate(folder / "export.json", Certificate.from_json(result.certificate), sealed)
    written = {"machine": platform.machine(), "noted head": noted, **facts()}
    (folder / "facts.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def store_database(folder: Path) -> str:
    """Write a small SQLite database of the present schema and PostgreSQL's tables, as SQL; the head of its chain."""
    from pacbandits.experiment.migrations import SCHEMA, STEPS, statements_of
    from tests.experiment.live import Played

    def tidy(words: str) -> str:
        return re.sub(r" +\n", "\n", words.replace(", \n", ",\n").replace("\t", "    "))

    with TemporaryDirectory() as place:
        late = pb.LateRule("window", window_seconds=3 * 86_400, missing=0.0)
        played = Played(Path(place) / "e.db", {"late": late, "holdout": 0.1})
        played.day(40)
        played.advance()
        played.day(20, told=0.5)
        played.advance()
        played.experiment.withdraw("free shipping", "out of stock")
        played.day(10)
        head = played.experiment.seal().head
        played.experiment.close()
        connection = sqlite3.connect(Path(place) / "e.db")
        dump = tidy("\n".join(connection.iterdump()) + "\n")
        connection.close()
    (folder / f"schema_{len(STEPS)}.sqlite.sql").write_text(dump, encoding="utf-8")
    lines = statements_of([SCHEMA, *STEPS], dialect="postgresql")
    lines.append(f"INSERT INTO pacbandits_schema VALUES (1, {len(STEPS)})")
    (folder / f"schema_{len(STEPS)}.postgresql.sql").write_text(tidy(";\n".join(lines) + ";\n"), encoding="utf-8")
    return head


if __name__ == "__main__":
    if sys.argv[1:] == ["database"]:
        sys.stdout.write(
            f"note the head in tests/experiment/test_migrations.py: {store_database(FOLDER / 'databases')}\n"
        )
    else:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / platform.machine())
