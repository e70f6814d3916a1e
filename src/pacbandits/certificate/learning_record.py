"""The record of how a policy class was learnt, which a certificate carries and `verify` reads.

`pacbandits.certificate.learning` learns classes, and says why the first rows of a log may teach one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np

from pacbandits.certificate.content_order import sorted_by_content
from pacbandits.certificate.conventions import FIRST_BLOCK_ROWS, has_rounds
from pacbandits.errors import InputError, count_of, plain
from pacbandits.policies.registry import describe_restrictions, goes_by_shares
from pacbandits.records import Log
from pacbandits.records.log import number_units

MIN_LEARNING_INTERACTIONS = FIRST_BLOCK_ROWS
# For classes restricted by shares or mean costs, which are then known to 1.6 points or better: the rows of five blocks
# (`block_ends`). Not a share of the log: its end may depend on its content, and the class must not.
MIN_SHARE_LEARNING_INTERACTIONS = 987
MAX_SPEC_CHARACTERS = 2_000
DIGEST_LETTERS_SHOWN = 12
NO_SAMPLE = (
    "the log counts repeated interactions, so its first rows are no sample from which a policy class could be learnt; "
    "give contexts from before the experiment (--contexts …)"
)


@dataclass(frozen=True)
class Learning:
    """A record of how a policy class was learnt that was given by its name.

    spec: the name, with its options.
    contexts: the number of contexts it was learnt from.
    digest: of these.
    spared: the number of first rounds, or blocks, of the log that have these contexts, and that do not bet; 0 for
        contexts that are not from the log.
    in_order: whether the log's beginning is known to have come first; true for contexts that are not from the log.
    by_content: whether the rows were chosen by a digest of their contents, as the log has no order. A file records it
        if it is true; in certificates of earlier versions the first rows of such a file taught.
    """

    spec: str
    contexts: int
    digest: str
    spared: int
    in_order: bool
    by_content: bool = False

    @property
    def best(self) -> str:
        """The comparator of the certified policy, in words."""
        return f"the best of the {self.restricted}" if self.restricted else "the best of its class"

    @property
    def restricted(self) -> str:
        """The policies in words, if they are restricted; else ""."""
        return describe_restrictions(self.spec, contexts=self.contexts)

    @property
    def assumption(self) -> str:
        """The assumption on how the class was learnt, in words."""
        if self.spared == 0:
            short = self.digest[:DIGEST_LETTERS_SHOWN]
            many = count_of(self.contexts, "context")
            learnt = f"the policy class ({self.spec}) was learnt from {many} (digest {short}…)"
            return f"{learnt} that were fixed before the log was seen"
        asked = f"the policy class ({self.spec}) was asked for before the log was seen; the contexts of"
        taught = f"{count_of(self.contexts, 'row')} taught it, and those rows prove nothing"
        if self.by_content:
            return f"{asked} {taught}; they were chosen by a digest of their contents, whatever their order in the file"
        words = f"{asked} its first {taught}"
        return (
            words
            if self.in_order
            else f"{words}; they stand first for no reason that lies in them: the log is not sorted by what it holds"
        )

    def arrange(self, log: Log) -> Log:
        """Return the log with the rows that taught first: in the order of contents, if they were chosen by these."""
        return sorted_by_content(log) if self.by_content and not has_rounds(log) else log

    def set_apart(self, log: Log) -> Log:
        """Return the log with the rows that taught as a round of its own, if it has none and they are from it.

        log: as `arrange` returns it.
        """
        return set_apart(log, fewest_to_teach(self.spec)) if self.spared else log

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "by_content" or value}

    @classmethod
    def from_json(cls, value: object) -> Learning:
        """Return the record that `to_json` wrote."""
        wanted = {"spec": str, "contexts": int, "digest": str, "spared": int, "in_order": bool}
        given = cast(dict[str, Any], value if isinstance(value, dict) else {})
        wanted |= {"by_content": bool} if "by_content" in given else {}
        if given.keys() != wanted.keys() or any(type(given[name]) is not kind for name, kind in wanted.items()):
            raise InputError(f"how a class was learnt takes {', '.join(wanted)}, not {plain(given)}")
        made = cls(**given)
        if made.contexts < 1 or made.spared < 0 or plain(made.spec, most=MAX_SPEC_CHARACTERS) != made.spec:
            raise InputError(f"no class was learnt like this: {plain(given)}")
        if made.by_content and (made.in_order or made.spared != 1):
            raise InputError(
                f"rows are chosen by their contents to teach a class if the log has no order: {plain(given)}"
            )
        return made


def fewest_to_teach(spec: str) -> int:
    """Return the smallest number of interactions, or units, that must teach the class of a spec."""
    try:
        many = goes_by_shares(spec)
    except InputError:  # the file was altered
        many = False
    return MIN_SHARE_LEARNING_INTERACTIONS if many else MIN_LEARNING_INTERACTIONS


def set_apart(log: Log, fewest: int = MIN_LEARNING_INTERACTIONS) -> Log:
    """Return the log with its first rows, which taught, as a round of its own, if it has none.

    Only stakes depend on these rounds. All rows of a teaching unit are set apart: its later rows are not independent of
    its first contexts.
    """
    if has_rounds(log):
        return log
    numbers = np.arange(len(log)) if log.units is None else number_units(log.units)
    known = None if log.known is None else np.where(log.known >= 0, log.known + 1, log.known)
    return replace(log, rounds=(numbers >= fewest).astype(np.int64), known=known)
