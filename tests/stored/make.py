"""Make the frozen files of each format, in folders such as certificate_2/x86_64: python -m tests.stored.make.

They are read, verified and compared on every machine, by all later versions. A file that was released never changes: a
format with another number gets a folder of its own. `python -m tests.stored.make database` makes those of databases/
for a new step of the schema.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import pacbandits as pb
from pacbandits.benchmark import results
from pacbandits.certificate import Certificate, claim
from pacbandits.cli import certify as analysis_plans
from pacbandits.experiment import exported_record, protocol, webhooks
from pacbandits.planning import plan_files, simulated_trials
from pacbandits.records import parquet
from pacbandits.records.log import digest_log
from pacbandits.trials import saved_state

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


def store_certificates(folder: Path) -> None:
    """Write a log, its certificate by sums and facts; and a certificate of each kind beside its log."""
    from tests.fuzz.genuine import by_age, genuine
    from tests.fuzz.genuine import people as customers
    from tests.fuzz.genuine import play as experiment

    log = people()
    log.write(folder / "in_any_order.parquet")
    pb.save_certificate(folder / "in_any_order.json", by_sums(log), pb.Trivial(8, 3))
    written = {"machine": platform.machine(), **facts()}
    (folder / "facts.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    for name in ("trees", "crossed", "realizable list", "asymptotic"):
        one, path = genuine(name), folder / f"{name.replace(' ', '_')}.json"
        pb.save_certificate(path, one.certificate, one.policies, contexts=one.contexts)
        one.log.write(path.with_suffix(".parquet"))
    log = experiment(customers(600), by_age, rounds=1)
    log.write(folder / "gain.parquet")
    pb.certify(log, "trees:depth=1", delta=0.1, control="0").save(folder / "gain.json")
    store_trials(folder)
    store_guardrails(folder)
    store_taught(folder)


def store_trials(folder: Path) -> None:
    """Write the log and certificate of a trial with a pilot, and of one that stopped by a gain."""
    from tests.trials.test_pilot_rows import finished
    from tests.trials.test_stopping_by_gain import BY_PERSON, played

    stopped, done = played("uniform", BY_PERSON)
    for name, run, policies in (("pilot", finished(), None), ("stopped_by_gain", done, stopped.policies)):
        assert run.log is not None
        run.log.write(folder / f"{name}.parquet")
        pb.save_certificate(folder / f"{name}.json", run.certificate, policies or pb.Trivial(4, 3))


def store_guardrails(folder: Path) -> None:
    """Write a log with a metric, and its certificates with a guardrail: in memory, and by sums over rows."""
    people, arms = np.arange(1200), np.arange(1200) % 2
    earned = (people * 7 % 10 < np.where(arms == 1, 7, 3)).astype(float)
    harmed = (people * 3 % 10 < 2).astype(float)
    log = pb.Log.of(
        pb.Contexts.of((people * 13 % 50).reshape(-1, 1), names=["age"]),
        actions=arms,
        rewards=earned,
        propensities=np.full((len(people), 2), 0.5),
        action_names=["today", "new"],
        metrics=["harm 0 1"],
        metric_values=harmed.reshape(-1, 1),
    )
    asked: dict[str, Any] = {"control": "today", "guardrails": ["harm <= control + 0.3"]}
    for name, engine in (("guardrail", {}), ("guardrail_by_sums", {"engine": "threads"})):
        log.write(folder / f"{name}.parquet")
        pb.certify(log, "trees:depth=1", **asked, **engine).save(folder / f"{name}.json")


def store_taught(folder: Path) -> None:
    """Write certificates of a log without an order, of which some rows taught the class: in memory, and by sums.

    first_rows_taught*, of x86_64, are the same from before these rows were chosen by their contents.
    """
    who = np.arange(900)
    age = who * 37 % 60
    chance = np.where(age > 30, 0.7, 0.4)
    arms = (who * 61 % 100 < 100 * chance).astype(int)
    earned = (who * 7 % 10 < np.where(arms == (age > 30), 9, 1)).astype(float)
    log = pb.Log.of(
        pb.Contexts.of(age.reshape(-1, 1), names=["age"]),
        actions=arms,
        rewards=earned,
        propensities=np.column_stack([1 - chance, chance]),
    )
    for name, engine in (("chosen_rows_taught", {}), ("chosen_rows_taught_by_sums", {"engine": "threads"})):
        log.write(folder / f"{name}.parquet")
        pb.certify(log, "trees:depth=1", delta=0.1, **engine).save(folder / f"{name}.json")


def store_record(folder: Path) -> None:
    """Write the export of an experiment, its certificate, and a head noted down while it ran."""
    from tests.experiment.live import Played  # needs the service's packages

    with TemporaryDirectory() as place:
        played = Played(Path(place) / "e.db", {"epsilon": 0.25, "policies": "trees:depth=1"})
        played.day(100)
        (folder / "head.txt").write_text(f"{played.experiment.seal().head}\n", encoding="utf-8")
        for _ in range(20):
            played.day(200)
            if played.advance()["state"] == "certified":
                break
        result = played.experiment.result()
        assert result.certified
        played.experiment.export(folder / "export.parquet")
        sealed = played.experiment.protocol.policy_class
        played.experiment.close()
    pb.save_certificate(folder / "certificate.json", Certificate.from_json(result.certificate), sealed)
    store_modelled_record(folder)


def store_modelled_record(folder: Path) -> None:
    """Write the export of an experiment whose second design has a reward model, and its certificate.

    by_noise.parquet, of x86_64, is the same from before models were stored: its designs have one number per action.
    """
    from tests.experiment.live import Played

    with TemporaryDirectory() as place:
        played = Played(Path(place) / "e.db", {"epsilon": 0.17, "policies": "trees:depth=2"})
        for _ in range(40):
            played.day(150)
            if played.advance()["state"] == "certified":
                break
        result = played.experiment.result()
        assert result.certified
        played.experiment.export(folder / "by_model.parquet")
        sealed = played.experiment.protocol.policy_class
        played.experiment.close()
    pb.save_certificate(folder / "by_model.json", Certificate.from_json(result.certificate), sealed)
    store_piloted_record(folder)


def store_piloted_record(folder: Path) -> None:
    """Write the export of an experiment with a pilot, and its certificate."""
    from tests.experiment.live import Played
    from tests.experiment.test_pilots import RANGE, pilot_log

    with TemporaryDirectory() as place:
        options = {"pilot": pilot_log(), "reward_range": RANGE, "policies": "trees:depth=1"}
        played = Played(Path(place) / "e.db", options)
        played.day(60)
        played.advance()
        played.experiment.stop("enough")
        result = played.experiment.result()
        played.experiment.export(folder / "pilot.parquet")
        sealed = played.experiment.protocol.policy_class
        played.experiment.close()
    pb.save_certificate(folder / "pilot.json", Certificate.from_json(result.certificate), sealed)


def store_state(folder: Path) -> None:
    """Write the state of a trial that has ended."""
    problem = pb.load_problem("trivial:contexts=4,actions=3,gap=0.3")
    pb.run(problem, epsilon=0.3, delta=0.1, rng=1, state=folder / "trial.state")


def store_plan(folder: Path) -> None:
    """Write a plan of two scenarios."""
    from tests.planning.cases import by_hand
    from tests.planning.test_files import QUICK, TRIALS

    pb.save_plan(folder / "plan.json", by_hand(QUICK, TRIALS))


def store_gain_plan(folder: Path) -> None:
    """Write a plan to prove a gain, with simulated tests by hand."""
    from tests.planning.test_gain_plan import quick, with_tests

    pb.save_plan(folder / "plan.json", with_tests(quick(traffic="400/week"), [900.0, 1000.0, 1100.0]))


def store_analysis_plan(folder: Path) -> None:
    """Write the plan of an analysis."""
    from tests.cli.test_analysis_plans import ASKED

    command = [sys.executable, "-m", "pacbandits", "certify", "--write-plan", folder / "plan.json", *ASKED]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def webhook_body() -> str:
    """The body of a request that says that an experiment is certified."""
    details = {"analysis": 12, "claim": "within 0.1 of the best", "digest": "0" * 64}
    hook = webhooks.Webhook("https://example.org/hook", ("certified",), secret="env:HOOK_SECRET")
    told: dict[str, Any] = {"at": 1_767_398_400_000_000, "words": "certified", "details": details, "rehearsal": False}
    return webhooks.body_of(hook, "8f14e45fceea167a5a36dedd4bea2543", "checkout", "certified", **told)


def store_webhook(folder: Path) -> None:
    """Write the body of a request to a webhook."""
    (folder / "body.json").write_text(webhook_body() + "\n", encoding="utf-8")


def store_benchmark(folder: Path) -> None:
    """Write a folder of results of three runs."""
    from tests.benchmark.cases import TINY
    from tests.benchmark.test_results import ROWS

    made = results.Results(folder / "results")
    with made.held():
        made.describe(results.Description().with_suite(TINY))
        made.add(ROWS)
        made.compact()
    (folder / "results" / "bench.lock").unlink()


# What a folder is called, the number that the present version writes, and how its files are made.
FORMATS: dict[str, tuple[int, Callable[[Path], None]]] = {
    "certificate": (claim.FORMAT, store_certificates),
    "record": (exported_record.FORMAT, store_record),
    "state": (saved_state.FORMAT, store_state),
    "plan": (plan_files.FORMAT, store_plan),
    "gain_plan": (plan_files.GAIN_FORMAT, store_gain_plan),
    "analysis_plan": (analysis_plans.ANALYSIS_FORMAT, store_analysis_plan),
    "webhook": (webhooks.BODY_FORMAT, store_webhook),
    "benchmark": (results.FORMAT, store_benchmark),
}
# Formats whose frozen files are in the folders of others, or that the present version alone reads.
WITHIN = {
    "experiment": protocol.FORMAT,  # in records
    "table": parquet.FORMAT,  # logs of certificates
    "trial folder": simulated_trials.FOLDER_FORMAT,
}


def main() -> None:
    """Write the files that the folders of this kind of machine lack; those that are there never change."""
    for name, (number, store) in FORMATS.items():
        folder = FOLDER / f"{name}_{number}" / platform.machine()
        with TemporaryDirectory() as made:
            store(Path(made))
            for path in sorted(Path(made).rglob("*")):
                target = folder / path.relative_to(made)
                if path.is_file() and not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, target)
                    sys.stdout.write(f"written: {target}\n")


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
        with played.experiment.database.writing("checkout") as (connection, standing):
            hook = webhooks.Webhook("https://example.org/hook", ("drift",), secret="env:HOOK_SECRET")
            webhooks.add_webhooks(connection, "checkout", [hook], at=standing.seen_until)
            told: dict[str, Any] = {"cause": "", "at": standing.seen_until, "details": {}, "rehearsal": False}
            webhooks.queue(connection, "checkout", "drift", words="signs of drift", **told)
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
        main()
