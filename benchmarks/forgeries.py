"""Forged edits of certificates, protocols and exports: what `verify` refuses, and which printed line covers the rest.

Every scalar of a file is changed and every field dropped, one at a time, and then random pairs. The forger knows the
format: words, thresholds and recommendations are made to follow from the altered figures, the hash chain of an export
is made anew, and its certificate is made one of the altered log. An edit that passes must be one of

    same      the printed claim is the genuine one to the last word
    weaker    a larger ε or δ, a smaller gain, or a further assumption, of a policy that acts alike
    proven    another ε or δ, which the log proves, too: verify computes that again
    on trust  a printed line, which the genuine file lacks, says on whose word the claim rests

Each edit has a seed of its own, so that a sweep may be run in pieces, at any time and in any order:

python -m benchmarks.forgeries                         all of it, half an hour
python -m benchmarks.forgeries DIR 0/6 [part …]        the first of six pieces, into a file in DIR
python -m benchmarks.forgeries DIR                     the tables of all pieces in DIR
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.arrays import plain_number
from pacbandits.certificate import Certificate
from pacbandits.cli.verify import as_read, audit_export
from pacbandits.compiled import using_cores
from pacbandits.errors import InputError
from pacbandits.experiment.audit import NOBODY_NOTED, audit, read_record
from pacbandits.policies.registry import describe_class, detail_class
from pacbandits.proofs import Proof, load_certificate, save_certificate, verify
from pacbandits.records import Contexts, Log, Mixture, parts_of
from pacbandits.records.log import digest_log
from pacbandits.rewards.combined import Stacked
from pacbandits.verifier import Verdict
from pacbandits.verifier.trust import sort_rest

REFUSED, SAME, WEAKER, PROVEN, TRUSTED, LIE = "refused", "same", "weaker", "proven", "on trust", "LIE"
OUTCOMES = (REFUSED, SAME, WEAKER, PROVEN, TRUSTED, LIE)
DERIVED = ("claim", "certified", "words", "score", "assumptions", "alarms")
ROUNDING = 1e-6  # of what verify accepts as the same number
Place = tuple[str | int, ...]


# Verification is of each file anew, but for reward models: one that was fitted to the same rows is kept.


class Fits:
    """The reward models that were fitted, each once."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, str], Any] = {}
        self.plain = Stacked.fit

    def fit(self, model: Stacked, log: Log) -> Any:
        """Replace `Stacked.fit`."""
        key = json.dumps(model.to_json(), default=plain_number), digest_log(log)
        if key not in self.made:
            self.made[key] = self.plain(model, log)
        return self.made[key]


@contextmanager
def fitted_once() -> Iterator[None]:
    """Keep fitted reward models, and use one core."""
    known = Fits()
    with patch.object(Stacked, "fit", lambda model, log: known.fit(model, log)), using_cores(1):
        yield


# Genuine certificates of several kinds, from files of a few hundred rows.


def write_people(path: Path, *, rows: int = 640, seed: int = 0, visits: int = 1) -> Path:
    """Write a test of two arms whose better arm depends on age, with complaints, schools, users and rounds."""
    rng = np.random.default_rng(seed)
    age, income, children = rng.integers(20, 60, rows), rng.integers(50, size=rows), rng.integers(4, size=rows)
    place, arm = rng.integers(3, size=rows), rng.integers(2, size=rows)
    better = (age > 40) == (arm == 1)
    columns = {
        "age": age,
        "income": income,
        "children": children,
        "place": np.array(["x", "y", "z"])[place],
        "arm": np.array(["a", "b"])[arm],
        "earned": (rng.random(rows) < np.where(better, 0.9, 0.15)).astype(int),
        "complaint": (rng.random(rows) < 0.1 + 0.05 * arm).astype(int),
        "school": np.array([f"s{number}" for number in rng.integers(8, size=rows)]),
        "user": np.array([f"u{number}" for number in rng.integers(rows // visits, size=rows)]),
        "stage": np.arange(rows) // 100,
    }
    pyarrow.csv.write_csv(pa.table(columns), path)
    return path


READ = {"action": "arm", "reward": "earned", "split": {"a": 0.5, "b": 0.5}}
LEFT = ("complaint", "school", "user", "stage")
COUNTED = {name: value for name, value in READ.items() if name != "split"}
GUARDED = {"metrics": ("complaint",), "guardrails": ("complaint <= control + 0.3",)}


def but(*used: str) -> tuple[str, ...]:
    """The columns that are neither features nor used."""
    return tuple(name for name in LEFT if name not in used)


KINDS: dict[str, dict[str, Any]] = {
    "shuffled by content": READ | {"policies": "trees:depth=2", "epsilon": 0.3, "without": LEFT},
    "ordered": READ | {"policies": "trees:depth=2", "epsilon": 0.3, "without": LEFT, "ordered": True},
    "gain and guardrail": READ | GUARDED | {"policies": "trees:depth=1", "control": "a", "without": but("complaint")},
    "units": READ | {"policies": "trees:depth=1", "unit": "user", "without": but("user")},
    "blocks": COUNTED | {"policies": "trees:depth=1", "block": "school", "without": but("school")},
    "sums": READ
    | GUARDED
    | {"policies": "trees:depth=1", "control": "a", "without": but("complaint"), "engine": "threads"},
    "small class": READ | {"policies": "trees:depth=0", "epsilon": 0.3, "delta": 0.1, "without": LEFT},
}


@dataclass(frozen=True, eq=False)
class Genuine:
    """A certificate's file that is good, and all that it is verified with.

    whole: its JSON.
    path: of its log.
    proof, log: the same, as read.
    printed: what verify prints of it.
    head: of the hash chain, if the log is an export.
    """

    whole: dict[str, Any]
    path: Path
    proof: Proof
    log: Log
    printed: Printed
    head: str | None = None


@dataclass(frozen=True)
class Printed:
    """What `verify` prints of a good certificate: the claim with its policy and class, and three lists."""

    claim: str
    policy: str
    policies: tuple[str, ...]
    reading: str
    trusted: tuple[str, ...]
    not_checkable: tuple[str, ...]
    checked: tuple[str, ...]
    alarms: tuple[str, ...]

    @classmethod
    def of(cls, proof: Proof, log: Log, verdict: Verdict, left: Sequence[str]) -> Printed:
        """left: the assumptions that are left."""
        made = proof.certificate
        rest = sort_rest(made, verdict.trusted, left, verdict.checked)
        about = (describe_class(proof.policies), *detail_class(proof.policies, log.contexts))
        reading = as_read(proof.reading) if proof.reading else ""
        return cls(made.describe(), made.words, about, reading, *rest, verdict.checked, verdict.alarms)


def make(name: str, folder: Path) -> Genuine:
    """Certify a log of this kind, and verify the certificate."""
    path = write_people(folder / f"{name}.csv", **({"rows": 1200, "visits": 2} if name == "units" else {}))
    found = pb.certify(str(path), **{"delta": 0.05} | KINDS[name])
    proof = folder / f"{name}.json"
    found.save(proof)
    whole = json.loads(proof.read_text(encoding="utf-8"))
    read = load_certificate(proof)
    log = read.log(path)
    verdict, left = verified(read, log, path, None)
    assert verdict.good, verdict.faults
    return Genuine(whole, path, read, log, Printed.of(read, log, verdict, left))


def make_trial(folder: Path) -> Genuine:
    """Run an experiment whose rule is proven better than others by far; return its certificate, with its export."""
    from tests.experiment.live import Played  # needs the service's packages

    played = Played(folder / "trial.db", {"epsilon": 0.3, "holdout": 0.1, "policies": "trees:depth=1"})
    for _ in range(6):
        played.day(200, mean=lambda action, context: 0.95 if (action == "discount") == (context["age"] < 40) else 0.05)
        played.advance()
    played.experiment.stop("it is over")
    path, proof, running = folder / "trial.parquet", folder / "trial.json", played.experiment
    running.export(path, reveal_seed=True)
    result = running.result()
    policies = running.protocol.trial()[1]
    made = Certificate.from_json(result.certificate, policies)
    save_certificate(proof, made, policies, record={"records": result.records, "look": result.look})
    read, head = load_certificate(proof), running.seal().head
    log = read.log(path)
    verdict, left = verified(read, log, path, head)
    assert verdict.good, verdict.faults
    assert made.certified_epsilon < made.unit / 2
    whole = json.loads(proof.read_text(encoding="utf-8"))
    return Genuine(whole, path, read, log, Printed.of(read, log, verdict, left), head)


def verified(proof: Proof, log: Log, path: Path, head: str | None) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on a certificate as `pacbandits verify` has it, and the assumptions that are left."""
    verdict, assumed = verify(proof.certificate, log, proof.policies), proof.certificate.assumptions
    if head is None:
        return verdict, assumed
    found = audit_export(path, proof, log, head=head, contexts=None)
    assert found is not None
    return found.joined(verdict), found.left_to_assume(assumed)


# Edits of scalars.


DROPPED = "(dropped)"
# Fields that a file need not have, with what a forger would write there.
OPTIONAL: dict[Place, Any] = {
    ("by_content",): True,
    ("leaders", "cross_validated"): True,
    ("leaders", "settled"): 1,
    ("units",): 300,
    ("summed",): True,
    ("plan",): "0" * 64,
    ("record",): {"records": 100, "look": 1},
}


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the place of every scalar within a value, and of every field that can be dropped."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*place, key))
            yield (*place, key, DROPPED)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*place, number))
    else:
        yield place


def at(value: Any, place: Place) -> Any:
    """Return the value at a place."""
    for step in place:
        value = value[step]
    return value


def other(value: Any, rng: np.random.Generator) -> Any:
    """Return another scalar of the same kind, such as a forger would choose."""
    if isinstance(value, bool):
        return not value
    if value is None:
        return (0, 1, 0.5, "a", True)[int(rng.integers(5))]
    if isinstance(value, int):
        return (value + 1, value - 1, 0, 1, 2 * value + 1, -1)[int(rng.integers(6))]
    if isinstance(value, float):
        factors = (0.5, 0.9, 0.99, 0.9999, 1.0001, 1.01, 1.1, 2.0, 10.0, 0.0, -1.0)
        return value * factors[int(rng.integers(len(factors)))] + (1e-3 if value == 0 else 0.0)
    return (value + "x", value[:-1], value.swapcase(), "a", value[::-1])[int(rng.integers(5))]


def changed(whole: Any, chosen: Sequence[Place], rng: np.random.Generator) -> Any:
    """Return a copy in which the scalars at some places are others."""
    out = copy.deepcopy(whole)
    for place in sorted(chosen, key=lambda one: (one[-1] == DROPPED, -len(one))):  # what is dropped goes last
        if place[-1] == DROPPED:
            at(out, place[:-2]).pop(place[-2], None)
            continue
        if place in OPTIONAL and place[-1] not in at(whole, place[:-1]):
            at(out, place[:-1])[place[-1]] = OPTIONAL[place]
            continue
        before = at(whole, place)
        after = next(new for _ in range(99) if json.dumps(new := other(before, rng)) != json.dumps(before))
        at(out, place[:-1])[place[-1]] = after
    return out


def kind_of_place(place: Place) -> str:
    """Return the name of a field, without the numbers of items."""
    return ".".join("[]" if isinstance(step, int) else step for step in place).replace(".[]", "[]")


# Certificates: all that follows from altered figures is made to follow.


def mended(altered: dict[str, Any], delta: float) -> dict[str, Any]:
    """Return a forged certificate whose words, threshold and recommendation follow; delta: the genuine one."""
    out = copy.deepcopy(altered)
    improvement = out.get("improvement")
    if improvement is not None:
        for rail in (one for each in improvement["candidates"] for one in each.get("guardrails", [])):
            up, limit = "<=" in rail["guardrail"], rail["limit"]
            kept = rail["high"] <= limit if up else rail["low"] >= limit
            violated = rail["low"] > limit if up else rail["high"] < limit
            rail["state"] = "kept" if kept else "violated" if violated else "not proven yet"
        allowed = [
            each
            for each in improvement["candidates"]
            if all(one["state"] != "violated" for one in each.get("guardrails", []))
        ]
        best = max(allowed, key=lambda each: each["low"], default=None)
        if best is not None and best["low"] > 0:
            improvement["recommended"], out["policy"] = best["name"], best["policy"]
    with patch("pacbandits.certificate.certificate.check_follows", lambda *_, **__: None):
        made = Certificate.from_json(out)
    if out["delta"] != delta and out["threshold"] is not None and 0 < out["delta"] < 1:
        out["threshold"] += float(np.log(delta / out["delta"]))
        made = Certificate.from_json({**out, **{name: made.to_json()[name] for name in DERIVED}} | _words(out))
    words = json.loads(json.dumps(made.to_json(), default=plain_number))
    return out | {name: words[name] for name in DERIVED}


def _words(out: dict[str, Any]) -> dict[str, Any]:
    with patch("pacbandits.certificate.certificate.check_follows", lambda *_, **__: None):
        made = Certificate.from_json(out)
    return {name: made.to_json()[name] for name in DERIVED}


def judge(genuine: Genuine, altered: dict[str, Any], path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the outcome of a forged certificate, and the printed lines that the genuine one lacks."""
    forged = altered
    try:
        for attempt in range(2):
            try:
                forged = mended(forged, genuine.whole["delta"] if attempt == 0 else forged["delta"])
            except (TypeError, KeyError, AttributeError, ValueError):
                if attempt:
                    return REFUSED, ()
            path.write_text(json.dumps(forged), encoding="utf-8")
            proof = load_certificate(path)
            same = proof.reading == genuine.proof.reading and proof.policy.columns == genuine.proof.policy.columns
            log = genuine.log if same else proof.log(genuine.path)
            verdict, left = verified(proof, log, genuine.path, genuine.head)
            if verdict.good:
                return compare(genuine, proof, Printed.of(proof, log, verdict, left))
            if verdict.value is None:
                return REFUSED, ()
            forged = forged | {"value": verdict.value}
    except InputError:
        pass
    return REFUSED, ()


def compare(genuine: Genuine, proof: Proof, printed: Printed) -> tuple[str, tuple[str, ...]]:
    """Return how what is printed of a forged certificate compares with what is printed of the genuine one."""
    before, old, new = genuine.printed, genuine.proof.certificate, proof.certificate
    if printed == before:
        return SAME, ()
    assert isinstance(old, Certificate)
    assert isinstance(new, Certificate)
    lines = tuple(
        words
        for words in (*printed.trusted, *printed.not_checkable, *printed.alarms)
        if words not in (*before.trusted, *before.not_checkable)
    )
    kept = set(before.not_checkable) <= {*printed.not_checkable, *printed.trusted}
    kept &= {words for words in before.trusted if "learnt from" not in words} <= set(printed.trusted)
    alike = _alike(genuine.log.contexts, old, new) and printed.policies == before.policies
    distances = [min(one.certified_epsilon, one.epsilon if one.certified else one.unit) for one in (old, new)]
    gains = [() if one.improvement is None else [each.low for each in one.improvement.candidates] for one in (old, new)]
    less = distances[1] >= distances[0] * (1 - ROUNDING) and new.delta >= old.delta * (1 - ROUNDING)
    less &= len(gains[1]) <= len(gains[0])
    less &= all(now <= was + ROUNDING for was, now in zip(*gains, strict=False))
    if alike and kept and less and printed.reading == before.reading:
        return WEAKER, lines
    if lines:
        return TRUSTED, lines
    if alike and kept and printed.reading == before.reading:
        return PROVEN, ("the claim itself, with its ε and δ",)
    return LIE, (f"{printed} instead of {before}",)


def _alike(contexts: Contexts, old: Certificate, new: Certificate) -> bool:
    """Return whether two certified policies play alike on all contexts of the log."""
    tables = []
    for policy in (old.policy, new.policy):
        weights = policy.weights if isinstance(policy, Mixture) else (1.0,)
        played = [np.eye(policy.n_actions)[one(contexts)] for one in parts_of(policy)]
        tables.append(np.tensordot(weights, played, axes=1))
    return tables[0].shape == tables[1].shape and bool(np.allclose(tables[0], tables[1], atol=ROUNDING))


# Exports: their protocol, entries, metadata and records, with a hash chain made anew.


def make_export(folder: Path) -> dict[str, Any]:
    """Run a small experiment with a holdout, late rewards and a withdrawal; return its export and certificate."""
    from tests.experiment.test_fuzzed_records import parts_of as parts_of_export  # needs the service's packages
    from tests.experiment.test_fuzzed_records import play_genuine

    _, made, policies = play_genuine(folder)
    path = folder / "x.parquet"
    columns, about, entries, metadata, key = parts_of_export(path)
    record, log = read_record(path), Log.read(path)
    head = record.entries[-1][4]
    good = audit(record, made, log=log, head=head).joined(verify(made, log, policies))
    assert good.good, good.faults
    bodies = [[*entry[:3], json.loads(entry[3]), entry[4]] for entry in entries]
    return {
        "made": made,
        "policies": policies,
        "columns": columns,
        "about": about,
        "entries": bodies,
        "metadata": metadata,
        "key": key,
        "head": head,
        "claimed": record.claimed,
        "printed": {*good.checked, *good.trusted},
    }


def column_places(columns: dict[str, Any]) -> list[Place]:
    """Return a place for every scalar of the columns of records."""
    sizes = {name: len(column.flatten() if _listed(column) else column) for name, column in columns.items()}
    return [(name, number) for name, size in sizes.items() if name != "record_entries" for number in range(size)]


def _listed(column: Any) -> bool:
    return pa.types.is_fixed_size_list(column.type)


def with_value(column: Any, number: int, rng: np.random.Generator) -> Any:
    """Return a column in which one scalar is another."""
    values = (column.flatten() if _listed(column) else column).to_pylist()
    kind = column.type.value_type if _listed(column) else column.type
    before = values[number]
    missing = before is None or before != before
    values[number] = 1 if missing else next(new for _ in range(99) if (new := other(before, rng)) != before)
    try:
        flat = pa.array(values, type=kind)
    except (pa.ArrowInvalid, OverflowError):
        values[number] = 0 if before else 1
        flat = pa.array(values, type=kind)
    return pa.FixedSizeListArray.from_arrays(flat, column.type.list_size) if _listed(column) else flat


def judge_export(
    genuine: dict[str, Any], part: str, path: Path, chosen: Sequence[Place], rng: np.random.Generator
) -> tuple[str, tuple[str, ...]]:
    """Return the outcome of an export in which some scalars of a part are others, and the lines that cover it.

    Its certificate is the genuine one, or one whose digest and figures are those of the altered log.
    """
    from tests.experiment.test_fuzzed_records import write

    from pacbandits.experiment.chain import BEGINNING, linked
    from pacbandits.experiment.exported_record import links_of

    columns, about = dict(genuine["columns"]), copy.deepcopy(genuine["about"])
    entries = copy.deepcopy(genuine["entries"])
    if part == "records":
        for name, number in chosen:
            columns[str(name)] = with_value(columns[str(name)], int(number), rng)
    elif part == "metadata":
        about = changed(about, chosen, rng)
    else:
        entries = changed(entries, chosen, rng)
    try:
        texts = [[*one[:3], json.dumps(one[3], sort_keys=True, separators=(",", ":")), one[4]] for one in entries]
        write(path, dict(columns), copy.deepcopy(about), texts, genuine["metadata"], genuine["key"])
        record, head, heads = read_record(path), BEGINNING, {}
        for link in links_of(record):
            heads[link.number] = head = linked(head, link.kind, link.record)
        texts = [[*one[:4], heads[one[0]].hex()] for one in texts]
        write(path, dict(columns), copy.deepcopy(about), texts, genuine["metadata"], genuine["key"])
        log, record = Log.read(path), read_record(path)
        made = genuine["made"]
        verdict = verify(made, log, genuine["policies"])
        if not verdict.good:
            own = made.of(log)
            figures = {"digest": digest_log(own), "rows": len(own), "samples": own.samples, "remarks": log.remarks}
            made = replace(made, **figures, reward_range=log.reward_range, action_names=log.action_names)
            verdict = verify(made, log, genuine["policies"])
            made = made if verdict.value is None else replace(made, value=verdict.value)
            verdict = verify(made, log, genuine["policies"])
        found, noted = (audit(record, made, log=log, head=one).joined(verdict) for one in (None, genuine["head"]))
    except InputError:
        return REFUSED, ()
    if not found.good:
        return REFUSED, ()
    if record.claimed != genuine["claimed"]:  # the certificate names the number of records that it is of
        return REFUSED, ()
    if noted.good:  # nothing that the chain seals was altered, nor the log
        new = tuple(words for words in noted.trusted if words not in genuine["printed"])
        same = {*noted.checked, *noted.trusted} <= genuine["printed"] and made is genuine["made"]
        return (SAME, ()) if same else (TRUSTED, new) if new else (LIE, noted.checked)
    return (TRUSTED, (NOBODY_NOTED,)) if NOBODY_NOTED in found.trusted else (LIE, ())


# The sweep.


Judge = Callable[[Sequence[Place], np.random.Generator], tuple[str, tuple[str, ...]]]
PAIRS = 400  # of each part
EXPORTED = ("protocol", "entries", "metadata", "records")
PARTS = (*KINDS, "trial", *(f"export: {one}" for one in EXPORTED))


@dataclass
class Sweep:
    """The outcomes of edits: counts, the lines that cover each field that may be edited alone, and lies."""

    counts: Counter[str]
    lines: Counter[tuple[str, str, str]]
    lies: list[str]

    @classmethod
    def empty(cls) -> Sweep:
        return cls(Counter(), Counter(), [])

    def add(self, chosen: Sequence[Place], outcome: str, lines: tuple[str, ...]) -> None:
        self.counts[outcome] += 1
        if outcome == LIE:
            self.lies.append(f"{chosen}: {lines}")
        if outcome not in (REFUSED, LIE) and len(chosen) == 1:
            self.lines[kind_of_place(chosen[0]), outcome, lines[0] if lines else ""] += 1

    def joined(self, other: Sweep) -> Sweep:
        return Sweep(self.counts + other.counts, self.lines + other.lines, self.lies + other.lies)

    def to_json(self) -> dict[str, Any]:
        return {"counts": self.counts, "lines": [[*key, count] for key, count in self.lines.items()], "lies": self.lies}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Sweep:
        lines = Counter({(field, outcome, words): count for field, outcome, words, count in given["lines"]})
        return cls(Counter(given["counts"]), lines, given["lies"])


def sweep(every: Sequence[Place], judge: Judge, *, seed: int, pairs: int, piece: tuple[int, int] = (0, 1)) -> Sweep:
    """Change each scalar by itself, then pairs of which one is no deeper than most; of these the k-th of n pieces."""
    out, top = Sweep.empty(), [place for place in every if len(place) <= 2] or list(every)
    for number in range(piece[0], len(every) + pairs, piece[1]):
        rng = np.random.default_rng([seed, number])
        if number < len(every):
            chosen = (every[number],)
        else:
            chosen = tuple({top[int(rng.integers(len(top)))]: 0, every[int(rng.integers(len(every)))]: 0})
        out.add(chosen, *judge(chosen, rng))
    return out


def sweep_part(part: str, folder: Path, *, piece: tuple[int, int] = (0, 1), pairs: int = PAIRS) -> Sweep:
    """Forge a certificate of a kind, that of a trial, or the protocol, entries, metadata or records of an export."""
    seed = PARTS.index(part)
    with fitted_once():
        if part.startswith("export: "):
            name, own = part.removeprefix("export: "), make_export(folder)
            judged = partial(judge_export, own, name, folder / "forged.parquet")
            return sweep(export_places(own, name), judged, seed=seed, pairs=pairs, piece=piece)
        genuine = make_trial(folder) if part == "trial" else make(part, folder)
        every = [place for place in places(genuine.whole) if not _follows(place, genuine.whole)]
        every += [place for place in OPTIONAL if _is_absent(place, genuine.whole)]
        return sweep(every, partial(_judged, genuine, folder), seed=seed, pairs=pairs, piece=piece)


def _is_absent(place: Place, whole: dict[str, Any]) -> bool:
    inside = whole if len(place) == 1 else whole[str(place[0])]
    return inside is not None and place[-1] not in inside


def _follows(place: Place, whole: dict[str, Any]) -> bool:
    """Return whether a forger makes the value at a place follow from others, so that to edit it changes nothing."""
    of_gains = "improvement" in whole and (place[0] == "policy" or {"state", "recommended"} & set(place))
    return place[0] in DERIVED or of_gains


def _judged(
    genuine: Genuine, folder: Path, chosen: Sequence[Place], rng: np.random.Generator
) -> tuple[str, tuple[str, ...]]:
    return judge(genuine, changed(genuine.whole, chosen, rng), folder / "forged.json")


def export_places(genuine: dict[str, Any], part: str) -> list[Place]:
    """Return every place of a part of an export."""
    inside = [place for place in places(genuine["entries"]) if place[1] != 4]  # heads, which are made anew
    if part in ("protocol", "entries"):
        return [place for place in inside if (place[0] == 0) == (part == "protocol")]
    if part == "metadata":  # without its record a file is no export: its certificate's assumptions then stay on trust
        return [place for place in places(genuine["about"]) if place != ("record", DROPPED)]
    return column_places(genuine["columns"])


def run_piece(folder: Path, piece: str, parts: Sequence[str]) -> None:
    """Sweep a piece of some parts, each into a file in a folder."""
    number, count = map(int, piece.split("/"))
    for part in parts or PARTS:
        began = time.process_time()
        with tempfile.TemporaryDirectory() as place:
            found = sweep_part(part, Path(place), piece=(number, count))
        seconds = time.process_time() - began
        told = {"part": part, "seconds": seconds, **found.to_json()}
        (folder / f"{part.replace(' ', '-')}-{number}-of-{count}.json").write_text(json.dumps(told), encoding="utf-8")
        print(f"{part}: {dict(found.counts)}, {seconds:.0f} s", file=sys.stderr, flush=True)


def report(folder: Path) -> None:
    """Print the tables of all pieces in a folder."""
    found, seconds = {part: Sweep.empty() for part in PARTS}, 0.0
    for path in folder.glob("*.json"):
        one = json.loads(path.read_text(encoding="utf-8"))
        found[one["part"]] = found[one["part"]].joined(Sweep.from_json(one))
        seconds += one["seconds"]
    whole = Sweep.empty()
    for one in found.values():
        whole = whole.joined(one)
    rows = [
        [name, f"{one.counts.total():,}", *(f"{one.counts[outcome]:,}" for outcome in OUTCOMES)]
        for name, one in (found | {"all": whole}).items()
    ]
    print_table(f"forged edits, {seconds:.0f} CPU-seconds", ["file", "edits", *OUTCOMES], rows)
    listed = [[*key, str(count)] for key, count in sorted(whole.lines.items())]
    print_table("single edits that pass", ["field", "outcome", "line", "edits"], listed)
    for name, one in found.items():
        for words in one.lies:
            print(f"\n{name}: {words}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        given = Path(sys.argv[1])
        given.mkdir(parents=True, exist_ok=True)
        if len(sys.argv) > 2:
            run_piece(given, sys.argv[2], sys.argv[3:])
        else:
            report(given)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            run_piece(Path(temporary), "0/1", ())
            report(Path(temporary))
