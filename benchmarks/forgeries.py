"""Forged edits of certificates, protocols and exports: what `verify` refuses, and which printed line covers the rest.

Every scalar of a file is changed and every field dropped, one at a time, and then random pairs. The forger knows the
format: words, thresholds and recommendations are made to follow from the altered figures, and the hash chain of an
export is made anew. An edit that passes must be one of

    same      the printed claim is the genuine one to the last word
    weaker    a larger ε or δ, a smaller gain, or a further assumption, of a policy that acts alike
    proven    another ε or δ, which the log proves, too: verify computes that again
    on trust  a printed line, which the genuine file lacks, says on whose word the claim rests

python -m benchmarks.forgeries [edits [kind …]]
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
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
from pacbandits.cli.verify import as_read
from pacbandits.compiled import using_cores
from pacbandits.errors import InputError
from pacbandits.experiment.audit import NOBODY_NOTED, audit, read_record
from pacbandits.policies.registry import describe_class, detail_class
from pacbandits.proofs import Proof, load_certificate, verify
from pacbandits.records import Contexts, Log, Lottery, parts_of
from pacbandits.records.log import digest_log
from pacbandits.verifier import Verdict
from pacbandits.verifier.trust import sort_rest
from pacbandits.verifier.verify import MemoryRows

REFUSED, SAME, WEAKER, PROVEN, TRUSTED, LIE = "refused", "same", "weaker", "proven", "on trust", "LIE"
OUTCOMES = (REFUSED, SAME, WEAKER, PROVEN, TRUSTED, LIE)
DERIVED = ("claim", "certified", "words", "score", "assumptions", "alarms")
ROUNDING = 1e-6  # of what verify accepts as the same number
Place = tuple[str | int, ...]


# Verification is of each file anew, but for predictions: those of the same model, of the same rows, are kept.


class Predictions:
    """The rows of logs with the predictions of reward models, each made once."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, str], Any] = {}
        self.plain = MemoryRows.with_model

    def with_model(self, rows: MemoryRows, model: Any) -> Any:
        """Replace `MemoryRows.with_model`."""
        key = json.dumps(model.to_json(), default=plain_number), digest_log(rows.early)
        if key not in self.made:
            self.made[key] = self.plain(rows, model).predictions
        return replace(rows, predictions=self.made[key])


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
    "sums": READ | {"policies": "trees:depth=2", "without": LEFT, "engine": "threads"},
    "small class": READ | {"policies": "trees:depth=0", "epsilon": 0.3, "delta": 0.1, "without": LEFT},
}


@dataclass(frozen=True, eq=False)
class Genuine:
    """A certificate's file that is good, and all that it is verified with.

    whole: its JSON.
    path: of its log.
    proof, log: the same, as read.
    printed: what verify prints of it.
    """

    whole: dict[str, Any]
    path: Path
    proof: Proof
    log: Log
    printed: Printed


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
    def of(cls, proof: Proof, log: Log, verdict: Verdict) -> Printed:
        made = proof.certificate
        rest = sort_rest(made, verdict.trusted, made.assumptions, verdict.checked)
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
    verdict = verify(read.certificate, log, read.policies)
    assert verdict.good, verdict.faults
    return Genuine(whole, path, read, log, Printed.of(read, log, verdict))


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
            verdict = verify(proof.certificate, log, proof.policies)
            if verdict.good:
                return compare(genuine, proof, Printed.of(proof, log, verdict))
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
        weights = policy.weights if isinstance(policy, Lottery) else (1.0,)
        played = [np.eye(policy.n_actions)[one(contexts)] for one in parts_of(policy)]
        tables.append(np.tensordot(weights, played, axes=1))
    return tables[0].shape == tables[1].shape and bool(np.allclose(tables[0], tables[1], atol=ROUNDING))


# Exports: their protocol, entries, metadata and records, with a hash chain made anew.


def make_export(folder: Path) -> dict[str, Any]:
    """Run a small experiment with a holdout, late rewards and a withdrawal; return its export and certificate."""
    from tests.experiment.test_fuzzed_records import parts_of as parts_of_export  # needs the service's packages
    from tests.experiment.test_fuzzed_records import play_genuine

    _, made, policies = play_genuine(folder)
    columns, about, entries, metadata, key = parts_of_export(folder / "x.parquet")
    head = read_record(folder / "x.parquet").entries[-1][4]
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
    """Return the outcome of an export in which some scalars of a part are others, and the lines that cover it."""
    from tests.experiment.test_fuzzed_records import write

    from pacbandits.experiment.audit import links_of
    from pacbandits.experiment.chain import BEGINNING, linked

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
        verdict = verify(genuine["made"], log, genuine["policies"])
        found = audit(record, genuine["made"], log=log).joined(verdict)
        noted = audit(record, genuine["made"], log=log, head=genuine["head"]).joined(verdict)
    except InputError:
        return REFUSED, ()
    if not found.good:
        return REFUSED, ()
    if noted.good:  # nothing that the chain seals was altered, nor the log
        return SAME, ()
    return (TRUSTED, (NOBODY_NOTED,)) if NOBODY_NOTED in found.trusted else (LIE, ())


# The sweep.


Judge = Callable[[Sequence[Place], np.random.Generator], tuple[str, tuple[str, ...]]]


@dataclass
class Sweep:
    """The outcomes of edits: counts, the lines that cover each field, and lies."""

    counts: Counter[str]
    lines: dict[str, Counter[tuple[str, str]]]
    lies: list[str]

    @classmethod
    def empty(cls) -> Sweep:
        return cls(Counter(), defaultdict(Counter), [])

    def add(self, chosen: Sequence[Place], outcome: str, lines: tuple[str, ...]) -> None:
        self.counts[outcome] += 1
        if outcome == LIE:
            self.lies.append(f"{chosen}: {lines}")
        if outcome not in (REFUSED, LIE) and len(chosen) == 1:
            self.lines[kind_of_place(chosen[0])][outcome, lines[0] if lines else ""] += 1


def sweep(every: Sequence[Place], judge: Judge, *, edits: int, seed: int) -> Sweep:
    """Change each scalar by itself (evenly chosen ones, if they are more than two thirds of the edits), then pairs."""
    rng, out = np.random.default_rng(seed), Sweep.empty()
    step = max(1, -(-3 * len(every) // (2 * edits)))
    for place in every[seed % step :: step]:
        out.add((place,), *judge((place,), rng))
    top = [place for place in every if len(place) <= 2] or list(every)
    for _ in range(edits - out.counts.total()):
        first = top[int(rng.integers(len(top)))]
        second = every[int(rng.integers(len(every)))]
        if first != second:
            out.add((first, second), *judge((first, second), rng))
    return out


def sweep_certificate(name: str, folder: Path, *, edits: int) -> Sweep:
    """Forge a certificate of this kind."""
    known = Predictions()
    with patch.object(MemoryRows, "with_model", lambda rows, model: known.with_model(rows, model)), using_cores(1):
        genuine = make(name, folder)
        every = [place for place in places(genuine.whole) if not _follows(place, genuine.whole)]
        every += [place for place in OPTIONAL if place[0] != "leaders" or genuine.whole["leaders"] is not None]
        return sweep(every, partial(_judged, genuine, folder), edits=edits, seed=list(KINDS).index(name))


def _follows(place: Place, whole: dict[str, Any]) -> bool:
    """Return whether a forger makes the value at a place follow from others, so that to edit it changes nothing."""
    of_gains = "improvement" in whole and (place[0] == "policy" or {"state", "recommended"} & set(place))
    return place[0] in DERIVED or of_gains


def _judged(
    genuine: Genuine, folder: Path, chosen: Sequence[Place], rng: np.random.Generator
) -> tuple[str, tuple[str, ...]]:
    return judge(genuine, changed(genuine.whole, chosen, rng), folder / "forged.json")


def sweep_export(folder: Path, *, edits: int) -> dict[str, Sweep]:
    """Forge the protocol, the other entries, the metadata and the records of an export."""
    genuine = make_export(folder)
    inside = [place for place in places(genuine["entries"]) if place[1] != 4]  # heads, which are made anew
    parts = {
        "protocol": [place for place in inside if place[0] == 0],
        "entries": [place for place in inside if place[0] != 0],
        # Without its record a file is no export: its certificate's assumptions then stay on trust.
        "metadata": [place for place in places(genuine["about"]) if place != ("record", DROPPED)],
        "records": column_places(genuine["columns"]),
    }
    found: dict[str, Sweep] = {}
    for part, every in parts.items():
        judged = partial(judge_export, genuine, part, folder / "forged.parquet")
        found[part] = sweep(every, judged, edits=edits, seed=len(part))
        print(f"export: {part}: {dict(found[part].counts)}", file=sys.stderr, flush=True)
    return found


def main(edits: int, names: Sequence[str] = ()) -> None:
    """Print the tables of so many edits, in equal parts of each kind of file; names: of these kinds alone."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        share = -(-edits // (len(KINDS) + 4))
        wanted = names or (*KINDS, "export")
        found: dict[str, Sweep] = {}
        for name in (one for one in KINDS if one in wanted):
            found[name] = sweep_certificate(name, folder, edits=share)
            print(f"{name}: {dict(found[name].counts)}", file=sys.stderr, flush=True)
        if "export" in wanted:
            found |= {f"export: {part}": one for part, one in sweep_export(folder, edits=share).items()}
    rows = [
        [name, f"{one.counts.total():,}", *(f"{one.counts[outcome]:,}" for outcome in OUTCOMES)]
        for name, one in found.items()
    ]
    whole = sum((one.counts for one in found.values()), Counter[str]())
    rows.append(["all", f"{whole.total():,}", *(f"{whole[outcome]:,}" for outcome in OUTCOMES)])
    print_table(f"forged edits, {time.process_time() - began:.0f} CPU-seconds", ["file", "edits", *OUTCOMES], rows)
    fields: dict[tuple[str, str, str], int] = Counter()
    for one in found.values():
        for field, lines in one.lines.items():
            for (outcome, words), count in lines.items():
                fields[field, outcome, words] += count
    listed = [[field, outcome, words, str(count)] for (field, outcome, words), count in sorted(fields.items())]
    print_table("single edits that pass", ["field", "outcome", "line", "edits"], listed)
    for name, one in found.items():
        for words in one.lies:
            print(f"\n{name}: {words}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, sys.argv[2:])
