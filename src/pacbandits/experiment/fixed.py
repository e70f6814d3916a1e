"""What of an experiment never changes, read once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pacbandits.checks import text
from pacbandits.experiment import tables
from pacbandits.experiment.database import Database, names_in, unknown
from pacbandits.experiment.encoding import Encoder
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.packed_contexts import unpack_contexts
from pacbandits.experiment.protocol import ExperimentProtocol


@dataclass(frozen=True, eq=False)
class Fixed:
    """What of an experiment never changes.

    name: of it.
    protocol: what was fixed when it was created.
    secret: keys ids and what stands for units.
    created: when, in microseconds.
    encoder: reads contexts as the protocol has them.
    """

    name: str
    protocol: ExperimentProtocol
    secret: bytes
    created: int
    encoder: Encoder

    def numbers(self, names: Iterable[str]) -> tuple[int, ...]:
        """The numbers of actions by their names."""
        return tuple(self.protocol.actions.index(name) for name in names)

    @property
    def width(self) -> int:
        """How many numbers a context is: its features, and its id where it has one."""
        return self.protocol.contexts.n_features + (self.protocol.contexts.ids is not None)

    @property
    def window(self) -> int | None:
        """How long a reward is waited for, in microseconds; None for the worst-case rule."""
        seconds = self.protocol.late.window_seconds
        return None if seconds is None else round(seconds * 1e6)


def read_fixed(database: Database, name: str) -> Fixed:
    """The fixed part of the experiment of that name."""
    text(name, name="name of the experiment")
    t = tables.experiments.c
    with database.reading() as connection:
        query = sa.select(t.protocol, t.contexts, t.secret, t.created).where(t.name == name)
        found = connection.execute(query).one_or_none()
        if found is None:
            raise unknown(name, names_in(connection))
    contexts = unpack_contexts(bytes(found.contexts))
    protocol = ExperimentProtocol.from_json(json.loads(found.protocol), contexts=contexts)
    return Fixed(name, protocol, bytes(found.secret), int(found.created), Encoder.for_protocol(protocol))
