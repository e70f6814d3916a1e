"""What `pacbandits certify` finds: of a table in memory, or of files that are read bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pacbandits.cli.reading import open_log, read_contexts
from pacbandits.cli.restricting import restrict
from pacbandits.cli.shared import say, say_cost
from pacbandits.errors import InputError, count_of

if TYPE_CHECKING:
    from pacbandits.certificate import AsymptoticCertificate, Certificate, LearntClass, Worth
    from pacbandits.certificate.summed.laying import Surveyed
    from pacbandits.engines import Engine
    from pacbandits.progress import Progress
    from pacbandits.records import Contexts, Log
    from pacbandits.trials.forecast import Outlook

DEFAULT_EPSILON = 0.05  # of --asymptotic
MIN_STREAMED_ROWS = 2**19  # of Parquet
MIN_STREAMED_BYTES = 2**28  # of text


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked of a log.

    reading: how it is read, by the names that `read_log` has for that.
    spec: of the policy class.
    epsilon, delta, ordered, shuffle, single: as for `certify`.
    contexts: a file of contexts from before the experiment.
    restricting: what policies must keep to, by the names that `restrict` has for that.
    """

    reading: dict[str, Any]
    spec: str
    epsilon: float | None
    delta: float
    ordered: bool
    shuffle: bool
    single: bool
    contexts: Path | None
    restricting: dict[str, Any]

    def known(self) -> Contexts | None:
        """The contexts from before the experiment, if there are any."""
        return None if self.contexts is None else read_contexts(self.contexts)


class Found(NamedTuple):
    """What was found.

    certificate: what is claimed.
    learnt: the class.
    log: what words are made from: the log, or rows of it.
    worth: how good the policy is.
    target, ahead: which distance is next, and how many more interactions that would take.
    """

    certificate: Certificate | AsymptoticCertificate
    learnt: LearntClass
    log: Log
    worth: Worth | None = None
    target: float | None = None
    ahead: Outlook | None = None


def is_streamed(paths: Sequence[Path], reading: dict[str, Any], *, engine: str | None, epsilon: float | None) -> bool:
    """Whether files are read bit by bit: where an engine or several files are named, or they are large.

    Where rows have to be sorted by time, or are of people who come back, all of them are needed at once.
    """
    from pacbandits.records import parquet

    if engine is not None or len(paths) > 1 or _is_pattern(paths[0]):
        return True
    path = paths[0]
    if reading.keys() & {"time", "unit", "position"} or epsilon == 0 or not path.is_file():
        return False
    if parquet.suffix(path) in parquet.DELIMITERS:
        return path.stat().st_size >= MIN_STREAMED_BYTES
    return parquet.suffix(path) in (".parquet", ".pq", ".parq") and parquet.count_rows(path) >= MIN_STREAMED_ROWS


def _is_pattern(path: Path) -> bool:
    return path.is_dir() or (not path.exists() and any(letter in str(path) for letter in "*?["))


def certify_in_memory(
    paths: Sequence[Path],
    asked: Asked,
    *,
    tell: Progress,
    asymptotic: bool,
    draws: int | None,
    seed: int | None,
) -> Found:
    """What a table proves whose rows are all in memory."""
    from pacbandits.certificate import certify, certify_asymptotically, learn_class
    from pacbandits.certificate.asymptotic import BOOTSTRAP_DRAWS
    from pacbandits.certificate.certify import check_asked_early
    from pacbandits.certificate.values import measure_worth
    from pacbandits.progress import prefixed
    from pacbandits.trials.forecast import look_ahead

    if len(paths) > 1:
        raise InputError(f"--asymptotic takes one file, and here are {len(paths)}; join them")
    read = open_log(paths[0], asked.reading)
    check_asked_early(read, asked.epsilon, asked.delta)
    known = asked.known()
    spec = restrict(asked.spec, read, **asked.restricting)
    learnt = learn_class(spec, read, contexts=known, ordered=asked.ordered, shuffle=asked.shuffle)
    say_cost(learnt.policies, read.contexts, of="bootstrap" if asymptotic else "certificate")
    many = count_of(read.samples, "interaction")
    if asymptotic:
        tell(f"predicting rewards of {many}")
        made = certify_asymptotically(
            read,
            learnt,
            epsilon=DEFAULT_EPSILON if asked.epsilon is None else asked.epsilon,
            delta=asked.delta,
            rng=0 if seed is None else seed,
            draws=BOOTSTRAP_DRAWS if draws is None else draws,
            ordered=asked.ordered,
            shuffle=asked.shuffle,
            progress=prefixed(tell, f"bootstrap of {many}"),
        )
        return Found(made, learnt, read)
    tell(f"certifying {many}")
    proven = certify(
        read,
        learnt,
        epsilon=asked.epsilon,
        delta=asked.delta,
        ordered=asked.ordered,
        shuffle=asked.shuffle,
        single=asked.single,
    )
    tell("measuring how good the policy is")
    worth = measure_worth(proven, read)
    tell("estimating how many more interactions would do")
    best = proven.epsilon == 0 and proven.certified
    target, ahead = (None, None) if best else look_ahead(proven, read, learnt.policies)
    return Found(proven, learnt, read, worth, target, ahead)


def certify_files(paths: Sequence[Path], asked: Asked, *, engine: Engine, tell: Progress) -> Found:
    """What files prove whose rows are read bit by bit, or by others."""
    from pacbandits.certificate.certify import check_asked_early
    from pacbandits.certificate.summed.certify import certify_surveyed
    from pacbandits.certificate.summed.cost import card_bytes, check_engine_fits, foresee_work, foretell_engine
    from pacbandits.certificate.summed.front import as_engine_reads, open_files
    from pacbandits.certificate.summed.laying import learn_policies, survey_for
    from pacbandits.certificate.summed.worth import measure_surveyed
    from pacbandits.progress import heard_by
    from pacbandits.trials.forecast import look_ahead

    tell("looking at the files")
    with heard_by(tell):
        files = open_files([str(path) for path in paths], asked.reading)  # pyright: ignore[reportArgumentType]
        try:
            told = files.head
            check_asked_early(told, asked.epsilon, asked.delta, whole=False)
            spec, known = restrict(asked.spec, told, **asked.restricting), asked.known()
            work = foresee_work(files, spec, contexts=known, ordered=asked.ordered)
            if work is not None:
                check_engine_fits(work, engine=engine.name, card_bytes=card_bytes(engine))
                if words := foretell_engine(work, engine=engine.name):
                    say(words, err=True)
            source = as_engine_reads(files, engine.name)
            surveyed = survey_for(
                source, spec, engine=engine, contexts=known, ordered=asked.ordered, shuffle=asked.shuffle
            )
            learnt = learn_policies(surveyed, spec, known)
            made = certify_surveyed(
                surveyed, learnt, engine=engine, epsilon=asked.epsilon, delta=asked.delta, single=asked.single
            )
            worth = measure_surveyed(made, surveyed, engine=engine)
        finally:
            files.close()
        rows = replace(rows_for_words(surveyed), notices=files.form.notices)
        tell("estimating how many more interactions would do")
        target, ahead = look_ahead(made, rows, learnt.policies)
    return Found(made, learnt, rows, worth, target, ahead)


def rows_for_words(surveyed: Surveyed) -> Log:
    """Rows from which shares and means are told: all, or one of so many, which then stands for those around it."""
    rows, step = surveyed.watched, -(-surveyed.facts.rows // len(surveyed.watched))
    if step == 1:
        return rows
    words = f"how many rows a leaf or an action has is told by one row of {step:,}"
    return replace(rows, repeats=np.full(len(rows), step, dtype=np.int64), remarks=(*rows.remarks, words))
