"""The known contexts of an experiment as bytes in its database."""

from __future__ import annotations

import io
import json

import numpy as np

from pacbandits.errors import InputError
from pacbandits.records import Contexts


def pack_contexts(contexts: Contexts) -> bytes:
    """Contexts as bytes; a sentence for those that people cannot come with."""
    if contexts.phi is not None:
        raise InputError("the contexts of an experiment cannot have features of actions (phi); leave that column out")
    about = json.dumps([list(contexts.names), [None if c is None else list(c) for c in contexts.categories]])
    file = io.BytesIO()
    np.savez_compressed(
        file,
        features=contexts.features,
        weights=contexts.weights,
        ids=np.zeros(0, dtype=np.int64) if contexts.ids is None else contexts.ids,
        about=np.frombuffer(about.encode(), dtype=np.uint8),
    )
    return file.getvalue()


def unpack_contexts(packed: bytes) -> Contexts:
    """What `pack_contexts` packed."""
    with np.load(io.BytesIO(packed), allow_pickle=False) as stored:
        names, categories = json.loads(stored["about"].tobytes())
        return Contexts(
            features=stored["features"],
            names=tuple(names),
            categories=tuple(None if one is None else tuple(one) for one in categories),
            ids=stored["ids"] if len(stored["ids"]) else None,
            weights=stored["weights"],
        )
