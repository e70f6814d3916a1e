"""Feature maps by their kind, and the one that fits contexts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.policies.features.crossed import Crossed
from pacbandits.policies.features.given import Given
from pacbandits.policies.features.maps import FeatureMap
from pacbandits.records import Contexts

# What a file may describe.
MAPS: dict[str, Callable[[dict[str, Any]], FeatureMap]] = {
    Crossed.kind: Crossed.from_json,
    Given.kind: Given.from_json,
}


def map_for(contexts: Contexts, *, n_actions: int, relative: bool) -> FeatureMap:
    """The feature map that fits contexts: φ where they carry it, else a block for each action."""
    if contexts.phi is not None:
        return Given.learn(contexts, n_actions=n_actions)
    if contexts.n_features == 0:
        raise InputError("linear scores need features, but the contexts have neither features nor phi")
    return Crossed.blocks(contexts, n_actions=n_actions, relative=relative)


def map_from_json(value: object) -> FeatureMap:
    """The feature map that `to_json` described, or a sentence."""
    given = Fields.read(value, of="feature map")
    return MAPS[given.one_of("kind", MAPS)](dict(given.given))
