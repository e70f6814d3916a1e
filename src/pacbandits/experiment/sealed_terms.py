"""What the entries of an exported record say: the protocol, the rounds, and what was withdrawn."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.checks import texts
from pacbandits.errors import InputError
from pacbandits.experiment.exported import Record
from pacbandits.experiment.protocol import digest_published
from pacbandits.experiment.rounds import ROUND, Round, round_from_json
from pacbandits.experiment.rules import LateRule
from pacbandits.fields import Fields
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import class_from_json
from pacbandits.records import Contexts


@dataclass(frozen=True, eq=False)
class Terms:
    """What the entries of a record say.

    protocol: as it was published.
    digest: of it.
    policies: the class.
    rounds: all of them.
    withdrawn: the numbers of actions that were.
    """

    protocol: Fields
    digest: str
    policies: PolicyClass
    rounds: tuple[Round, ...]
    withdrawn: tuple[int, ...]

    @classmethod
    def of(cls, record: Record) -> Terms:
        """What they say, if they can be read."""
        numbers = [number for number, *_ in record.entries]
        created = [number for number, _, kind, _, _ in record.entries if kind == "created"]
        if numbers != sorted(numbers) or created != [0] or record.entries[0][0] != 0:
            raise InputError("its first record must be the creation of an experiment, and there must be no other")
        first = Fields.read(json.loads(record.entries[0][3]), of="first entry")
        protocol, digest = first.json_object("protocol"), first.text("digest")
        if digest_published(protocol) != digest:
            raise InputError("the protocol is not the one whose digest was written down")
        given = Fields.read(protocol, of="protocol")
        policies = class_from_json(given.fields("policies", of="class of the protocol")["class"])
        rounds: list[Round] = []
        names, gone = list(given.texts("actions")), list[int]()
        for sequence, at, kind, body, _ in record.entries:
            if kind == ROUND:
                rounds.append(round_from_json(json.loads(body), rounds, policies, opened=at, sequence=sequence))
            elif kind == "withdrawn":
                gone.append(names.index(Fields.read(json.loads(body), of="withdrawal").one_of("action", names)))
        return cls(given, digest, policies, tuple(rounds), tuple(sorted(gone)))

    @property
    def standard(self) -> int:
        """The number of the standard action."""
        return self.protocol.texts("actions").index(self.protocol.text("standard"))

    @property
    def late(self) -> LateRule:
        """What a reward means that is not in."""
        return LateRule.from_json(self.protocol["late"])

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the largest that a reward can be."""
        low, high = self.protocol.numbers("reward_range", shortest=2, longest=2)
        return low, high


def contexts_of(record: Record, terms: Terms, rows: IntArray) -> Contexts:
    """The contexts of some rows, coded as the protocol has them."""
    about = terms.protocol.fields("contexts", of="contexts of the protocol")
    names, d = about.texts("names"), len(about.texts("names"))
    listed = about.items("categories")
    categories = tuple(None if one is None else texts(one, name="labels of a category") for one in listed)
    features = record.features[rows]
    ids = features[:, d].astype(np.int64) if features.shape[1] > d else None
    return Contexts(features[:, :d], names, categories, ids, np.full(len(rows), 1.0 / len(rows)))
