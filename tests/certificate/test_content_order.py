"""Rows are shuffled by their contents: no arrangement of files chooses which rows teach and which bet."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import pacbandits as pb
from pacbandits.certificate import conventions
from pacbandits.certificate.certify import certify
from pacbandits.certificate.content_order import (
    hashed_words,
    order_by_content,
    order_items,
    row_digests,
    sorted_by_content,
)
from pacbandits.certificate.conventions import FIRST_BLOCK_ROWS, planned_ends, shuffled_by_number
from pacbandits.certificate.summed.arrangement import in_content_order
from pacbandits.engines import ROWS_PER_BLOCK, Local, LogSource
from pacbandits.engines.local import digest_by_content
from pacbandits.records.contexts import Phi
from pacbandits.records.log import digest_log
from pacbandits.verifier.content_order import digests_of, log_by_content, place_by_digest
from pacbandits.verifier.order import order_rows_by_content
from tests.certificate.summed.cases import Scattered

STAGES = pb.Trees.learn(pb.Contexts.of([[0.0], [1.0], [2.0], [3.0]], names=["stage"]), n_actions=2, depth=1)


def coarse(n=700, seed=0, **columns):
    """A log of few distinct rows, as of clicks by four stages."""
    rng = np.random.default_rng(seed)
    stage, actions = rng.integers(0, 4, n), rng.integers(0, 2, n)
    rewards = (rng.random(n) < 0.3 + 0.3 * (actions == (stage > 1))).astype(float)
    people = pb.Contexts.of(stage[:, None], names=["stage"])
    return pb.Log.of(people, actions=actions, rewards=rewards, propensities=np.full((n, 2), 0.5), **columns)


def rich(n=400, seed=0, **columns):
    """Features of all kinds, with equal rows, both signs of zero and missing numbers."""
    rng = np.random.default_rng(seed)
    numbers = np.where(rng.random(n) < 0.1, np.nan, rng.integers(-2, 3, n) * 0.5)
    numbers = np.where((numbers == 0) & (rng.random(n) < 0.5), -0.0, numbers)
    features = np.column_stack([rng.integers(0, 3, n), numbers, rng.integers(0, 2, n)])
    labels = [("x", "yß", "z"), None, ("u", "v")]
    people = pb.Contexts.of(features, names=["kind", "age", "äge"], categories=labels)
    actions = rng.integers(0, 2, n)
    rewards = (rng.random(n) < 0.4).astype(float)
    return pb.Log.of(people, actions=actions, rewards=rewards, propensities=np.full((n, 2), 0.5), **columns)


def with_phi(n=300):
    log, rng = coarse(n), np.random.default_rng(1)
    phi = Phi(rng.integers(0, 2, (6, 2, 3)) * 1.0, rng.integers(0, 6, n))
    return replace(log, contexts=replace(log.contexts, phi=phi, ids=rng.integers(0, 9, n)))


def least(n=300):
    log = coarse(n)
    return pb.Log.of_played(
        log.contexts,
        actions=log.actions,
        played=np.where(log.rewards > 0, 0.5, 0.6),
        least=np.full((n, 2), 0.25),
        rewards=log.rewards,
    )


KINDS = {
    "few rows": coarse,
    "features of all kinds": rich,
    "people": lambda: coarse(units=np.random.default_rng(4).integers(0, 400, 700)),
    "people, one visit each": lambda: coarse(units=np.arange(700)),
    "features of actions": with_phi,
    "least propensities": least,
    "a single row": lambda: coarse(1),
}


@pytest.mark.parametrize("width", [1, 7, 15, 16, 17, 32, 33])
def test_words_are_hashed_as_by_the_standard_library(width):
    words = np.random.default_rng(width).integers(0, 2**64, (20, width), dtype=np.uint64)
    for size in (8, 16):
        theirs = [hashlib.blake2b(row.tobytes(), digest_size=size).digest() for row in words]
        assert [row.tobytes()[:size] for row in hashed_words(words, size)] == theirs


@pytest.mark.parametrize("kind", KINDS)
def test_no_permutation_of_rows_changes_their_order_and_verify_derives_the_same(kind):
    log, rng = KINDS[kind](), np.random.default_rng(9)
    found = digest_log(sorted_by_content(log))
    assert digest_log(log_by_content(log)) == found
    for order in (rng.permutation(len(log)), np.arange(len(log))[::-1], np.argsort(log.rewards)):
        assert digest_log(sorted_by_content(log.take(order))) == found
        assert digest_log(log_by_content(log.take(order))) == found
    if log.units is not None:  # whatever numbers people have; and their visits follow each other
        other = replace(log, units=rng.permutation(1000)[log.units])
        assert digest_log(sorted_by_content(other)) == found
        units = sorted_by_content(log).units
        assert (np.diff(units) != 0).sum() + 1 == len(np.unique(units))


def test_columns_in_another_order_and_labels_in_another_are_the_same_rows():
    log = rich()
    turned = log.contexts.features[:, ::-1].copy()
    turned[:, 2] = 2 - turned[:, 2]
    people = pb.Contexts.of(turned, names=["äge", "age", "kind"], categories=[("u", "v"), None, ("z", "yß", "x")])
    again = replace(log, contexts=people)
    assert np.array_equal(row_digests(again), row_digests(log))
    assert np.array_equal(digests_of(again), row_digests(log))


def test_each_part_of_a_row_is_part_of_its_digest():
    log = with_phi()
    first = row_digests(log)
    others = {
        "features": replace(log.contexts, features=log.contexts.features + 1),
        "ids": replace(log.contexts, ids=log.contexts.ids + 1),
        "phi": replace(log.contexts, phi=Phi(log.contexts.phi.table + 1, log.contexts.phi.rows)),
    }
    changed = [replace(log, contexts=contexts) for contexts in others.values()]
    changed += [replace(log, actions=1 - log.actions), replace(log, rewards=0.5 * log.rewards + 0.1)]
    changed += [replace(log, propensities=np.full((len(log), 2), (0.4, 0.6)))]
    for other in changed:
        assert (row_digests(other) != first).all()
        assert np.array_equal(digests_of(other), row_digests(other))
    other = replace(least(), least=0.5 * least().least, propensities=0.5 * least().propensities)
    assert (row_digests(other) != row_digests(least())).all()


def test_the_key_depends_on_every_row():
    """With another row, or one more or less, all others are shuffled anew: no row can be aimed at a place."""
    digests = row_digests(rich(300)) + np.arange(300, dtype=np.uint64)[:, None]  # all different
    other = digests.copy()
    other[17] += np.uint64(1)
    for order_of in (order_items, place_by_digest):
        ranks = [np.argsort(order_of(each))[: 300 - 1 - 17] for each in (digests[::-1], other[::-1], digests[:0:-1])]
        for again in ranks[1:]:
            assert abs(np.corrcoef(ranks[0], again)[0, 1]) < 0.25


def test_equal_rows_are_spread_and_do_not_clump():
    """A row that occurs often has a place for each of its copies; or rows with equal rewards would stand together."""
    for order in (sorted_by_content, log_by_content):
        rewards = order(coarse(2000, 3)).rewards
        share = rewards.mean()
        changes = (np.diff(rewards) != 0).mean()
        assert changes == pytest.approx(2 * share * (1 - share), abs=0.06)
        assert rewards[:FIRST_BLOCK_ROWS].mean() == pytest.approx(share, abs=0.12)


@pytest.mark.thorough
def test_the_order_is_as_good_as_random():
    """Over many logs, the share of rewards among the first rows varies as by a random shuffle."""
    scores = []
    for seed in range(400):
        rewards = sorted_by_content(coarse(400, seed)).rewards
        first, share = rewards[:100], rewards.mean()
        scores.append((first.mean() - share) / np.sqrt(share * (1 - share) / 100 * 300 / 399))
    assert abs(np.mean(scores)) < 4 / np.sqrt(400)
    assert np.var(scores) == pytest.approx(1.0, abs=0.3)


def test_any_permutation_of_a_log_gives_the_same_certificate():
    for log in (coarse(), KINDS["people"]()):
        made = certify(log, STAGES)
        assert made.by_content
        assert pb.verify(made, log, STAGES).good
        for order in (np.random.default_rng(2).permutation(len(log)), np.lexsort([log.actions, -log.rewards])):
            mixed = log.take(order)
            assert certify(mixed, STAGES).to_json() == made.to_json()
            assert pb.verify(made, mixed, STAGES).good


def test_any_permutation_gives_the_same_certificate_by_sums():
    log = coarse(700)
    made = certify(log, STAGES, engine="threads")
    assert pb.verify(made, log, STAGES).good
    mixed = log.take(np.lexsort([log.actions, -log.rewards]))
    again = certify(LogSource(mixed), STAGES, engine=Scattered(3))
    assert again.to_json() == made.to_json()
    assert pb.verify(made, mixed, STAGES).good
    assert made.is_of(mixed)
    other = replace(mixed, rewards=np.r_[1.0 - mixed.rewards[:1], mixed.rewards[1:]])
    assert not pb.verify(made, other, STAGES).good
    assert not made.is_of(other)


def test_the_digest_by_content_depends_on_every_row_and_name():
    log = rich(60)
    words = row_digests(log)
    told = {digest_by_content(log, words)}
    for row in range(60):
        changed = words.copy()
        changed[row, row % 2] ^= np.uint64(1)
        told.add(digest_by_content(log, changed))
    names = ("other", *log.contexts.names[1:])
    told.add(digest_by_content(replace(log, contexts=replace(log.contexts, names=names)), words))
    assert len(told) == 62


def test_a_change_along_the_file_is_a_remark_that_no_certificate_records():
    log = coarse(700)
    mixed = log.take(np.lexsort([log.actions, -log.rewards]))
    assert certify(log, STAGES).along_file.found is False
    made = certify(mixed, STAGES)
    assert made.along_file.remark
    assert made.told[0].describe().startswith("rows differ along the file")
    verdict = pb.verify(certify(log, STAGES), mixed, STAGES)
    assert verdict.good
    assert any(line.startswith("rows differ along the file") for line in verdict.checked)


def test_a_mismatch_is_an_alarm_in_any_order():
    rng, log = np.random.default_rng(3), coarse(900)
    kept = log.take(np.flatnonzero((log.actions == 0) | (rng.random(900) < 0.3)))
    made = certify(kept, STAGES)
    assert made.alarms
    mixed = kept.take(rng.permutation(len(kept)))
    assert certify(mixed, STAGES).to_json() == made.to_json()
    hidden = replace(made, checks=certify(log, STAGES).checks)
    for rows in (kept, mixed):
        assert pb.verify(made, rows, STAGES).good
        assert "does not tell of signs" in " ".join(pb.verify(hidden, rows, STAGES).faults)


def test_a_round_of_each_row_is_that_in_memory():
    log = rich(900)
    found = in_content_order(LogSource(log), early=200, engine=Local("threads"))
    order = order_by_content(log)
    ends = planned_ends(900)
    assert np.array_equal(found.rounds[order], np.searchsorted(ends, np.arange(900), side="right"))
    places = found.places_of(0, log)
    assert np.array_equal(places[order[:200]], np.arange(200))
    assert (places[order[200:]] == -1).all()


@dataclass(frozen=True)
class Workers(Scattered):
    """An engine whose workers share no memory with this process."""

    def each(self, task, shared, jobs):
        for job in reversed(list(jobs)):
            yield pickle.loads(pickle.dumps(task(pickle.loads(pickle.dumps(shared)), job)))


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """Rows that only their source can read."""

    log: pb.Log
    n_rows: int

    def blocks(self, first, last):
        return LogSource(self.log).blocks(first, last)

    def stripes(self, *, most_blocks):
        return LogSource(self.log).stripes(most_blocks=1)


def test_workers_of_a_cluster_find_the_same_order():
    log = rich(ROWS_PER_BLOCK + 100)  # two blocks
    source = Elsewhere(log, len(log))
    mine, theirs = (in_content_order(source, early=50, engine=engine) for engine in (Workers(1), Local("stream")))
    assert np.array_equal(mine.rounds, theirs.rounds)
    assert np.array_equal(mine.first, theirs.first)
    again = order_rows_by_content(LogSource(log.take(np.arange(300))), early=50, engine=Workers(2))
    assert sorted(log.rewards[again.rows]) == sorted(log.rewards[order_by_content(log.take(np.arange(300)))[:50]])


def table_of(log):
    labels = log.contexts.categories
    columns = {}
    for j, name in enumerate(log.contexts.names):
        values = log.contexts.features[:, j]
        columns[name] = values if labels[j] is None else np.array(labels[j])[values.astype(int)]
    nothing = {name: np.isnan(values) if values.dtype.kind == "f" else None for name, values in columns.items()}
    arrays = {name: pa.array(values, mask=nothing[name]) for name, values in columns.items()}
    arrays["arm"] = pa.array(np.array(["control", "new"])[log.actions])
    arrays["click"] = pa.array(log.rewards)
    return pa.table(arrays)


def test_any_split_into_files_of_any_format_gives_the_same_order(tmp_path):
    table = table_of(rich(500))
    mixed = table.take(np.random.default_rng(0).permutation(500))
    pa.csv.write_csv(table, tmp_path / "whole.csv")
    pq.write_table(mixed.select(table.column_names[::-1]), tmp_path / "turned.parquet")
    for number, (start, stop) in enumerate([(0, 7), (7, 300), (300, 500)]):
        pq.write_table(mixed.slice(start, stop - start), tmp_path / f"part-{number}.parquet")
    how = {"action": "arm", "reward": "click", "split": "uniform"}
    whole, parts = (
        pb.certify(str(tmp_path / files), "trees:depth=1", engine="stream", **how).certificate
        for files in ("whole.csv", "part-*.parquet")
    )
    assert whole.by_content
    assert parts.to_json() == whole.to_json()
    one, other = (pb.read_log(tmp_path / name, **how)[0] for name in ("whole.csv", "turned.parquet"))
    assert np.array_equal(np.sort(row_digests(one), axis=0), np.sort(row_digests(other), axis=0))
    assert np.array_equal(sorted_by_content(one).rewards, sorted_by_content(other).rewards)


def favoured(log, action):
    """An arrangement of true rows in which those that speak against an action only teach, by the shuffle of numbers."""
    sign = np.where(log.actions == action, 1.0, -1.0)
    against = np.argsort(sign * (log.rewards - 0.5), kind="stable")
    against[FIRST_BLOCK_ROWS:] = np.sort(against[FIRST_BLOCK_ROWS:])  # all others as they came
    places = shuffled_by_number(replace(log, rewards=np.arange(len(log)) / len(log))).rewards
    order = np.empty(len(log), dtype=np.int64)
    order[np.rint(places * len(log)).astype(int)] = against
    return log.take(order)


def worse_by_a_tenth(seed, n=1000):
    """The first action earns 0.45 and the second 0.55, whatever the context."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 2, n)
    rewards = (rng.random(n) < 0.45 + 0.1 * actions).astype(float)
    people = pb.Contexts.of(rng.random((n, 2)))
    return pb.Log.of(people, actions=actions, rewards=rewards, propensities=np.full((n, 2), 0.5))


def always_the_first(ledger, policies, **_):
    """The policy that a liar wants to be certified, instead of the favourite of the log."""
    return policies.argmax(ledger.contexts, np.tile([1.0, 0.0], (len(ledger.contexts), 1)))


@pytest.mark.parametrize("seeds", [(0,), pytest.param(range(1, 12), marks=pytest.mark.thorough)])
def test_whoever_arranges_the_file_cannot_choose_what_is_certified(seeds, monkeypatch):
    """Rows that speak against a bad policy are put where they only teach: by row numbers that succeeds each time."""
    monkeypatch.setattr("pacbandits.certificate.survey.find_favourite", always_the_first)
    for seed in seeds:
        log = worse_by_a_tenth(seed)
        honest, chosen = certify(log, "trees:depth=1"), certify(favoured(log, 0), "trees:depth=1")
        assert honest.policy.describe() == "always action 0"
        assert honest.certified_epsilon > 0.1
        assert chosen.to_json() == honest.to_json()
        with monkeypatch.context() as before:
            before.setattr(conventions, "sorted_by_content", shuffled_by_number)
            assert certify(favoured(log, 0), "trees:depth=1").certified_epsilon < 0.1  # a lie, or nothing is tested


@pytest.mark.parametrize("engine", [None, "threads"])
def test_verify_derives_the_order_again_and_refuses_any_other(engine, monkeypatch):
    log = coarse(900, 5)
    done = pb.certify(log, "trees:depth=1", engine=engine)
    made, policies = done.certificate, done.policies
    found = pb.verify(made, log, policies)
    assert found.good
    assert "rows count in the order of their contents, whatever their order in the file" in found.checked
    assert not any("order of the rows" in words for words in found.trusted)
    assert not pb.verify(replace(made, by_content=False), log, policies).good
    rows = np.arange(len(log))
    monkeypatch.setattr(conventions, "sorted_by_content", lambda given: given)
    monkeypatch.setattr("pacbandits.certificate.summed.arrangement.order_items", lambda digests: rows)
    forged = pb.certify(log, "trees:depth=1", engine=engine)
    assert not pb.verify(forged.certificate, log, forged.policies).good


def test_an_order_by_content_is_of_a_shuffle():
    made = certify(coarse(), STAGES).to_json()
    assert made["by_content"] is True
    with pytest.raises(pb.InputError, match="says no shuffle"):
        pb.Certificate.from_json({**made, "shuffled": False})
    ordered = certify(coarse(), STAGES, ordered=True).to_json()
    assert "by_content" not in ordered
