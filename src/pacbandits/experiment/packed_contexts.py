"""The known contexts of an experiment as bytes in its database."""

from __future__ import annotations

import io
import json

import numpy as np

from pacbandits.errors import InputError
from pacbandits.records import Contexts


def pack_contexts(contexts: Contexts) -> bytes:
    """Contexts as bytes; a sentence for those of a kind that people do not come with."""
    if contexts.ids is not None or contexts.phi is not None:
        what = "ids" if contexts.ids is not None else "features of actions (phi)"
        raise InputError(f"the contexts of an experiment are features of people; these have {what}: leave them out")
    about = json.dumps([list(contexts.names), [None if c is None else list(c) for c in contexts.categories]])
    file = io.BytesIO()
    np.savez_compressed(
        file,
        features=contexts.features,
        weights=contexts.weights,
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
            ids=None,
            weights=stored["weights"],
        )
