"""How badly a design serves policies, summed on a CUDA card: the same numbers as elsewhere, to the last bit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbandits.design.large.task import shares
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.serving import CardWeights, serve_rows
from pacbandits.engines.cuda.stretch import Parts, Stretch, Wanted
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.forest import Forest
from pacbandits.policies.trees.on_card import add_tree_sums, codes_on_card
from pacbandits.records import Log

if TYPE_CHECKING:
    from pacbandits.design.large.questions import DesignCostSums


def serve_on_card(
    question: DesignCostSums, stretch: Stretch, sums: tuple[Any, ...], *, bins: Bins, forest: Forest
) -> None:
    """Add to the sums of a question, on the card and in place, what the rows of a stretch come to."""
    cp = cupy()
    # Codes, and with them all that depends on no design, stay on the card from pass to pass.
    codes = codes_on_card(stretch, bins)
    wanted = [_reference(question)] + ([] if question.noise is None else [_noise(question)])
    found = stretch.get(*wanted)
    noise = cp.ones((1, question.n_actions)) if question.noise is None else found[1]["noise"]
    weights = CardWeights.send(forest.starts, forest.pairs, forest.table, forest.always)
    scores = serve_rows(
        codes,
        weights,
        reference=found[0]["reference"],
        noise=noise,
        floors=(question.floor, question.design.floor),
        scales=(math.ldexp(1.0, question.cost_bits), math.ldexp(1.0, question.value_bits)),
        total=sums[1],
    )
    add_tree_sums(stretch, bins, scores, sums[0], depth=sums[0].ndim - 1 if len(bins.features) else 0)


def _reference(question: DesignCostSums) -> Wanted:
    """What the reference does."""
    policy = question.design.reference

    def make(_: int, block: Log) -> Parts:
        return {"reference": np.asarray(policy(block.contexts), dtype=np.uint8)}

    return Wanted("reference", policy, make)


def _noise(question: DesignCostSums) -> Wanted:
    """The variances of rewards."""
    of = question.noise
    assert of is not None

    def make(_: int, block: Log) -> Parts:
        return {"noise": np.array(shares(of, block.contexts, n_actions=question.n_actions, name="noise variances"))}

    return Wanted("noise", of, make)
