"""Where the paper's reductions to oracle calls cannot be implemented as printed."""

from __future__ import annotations

import numpy as np

from pacbandits.paper.oracles.excluding import best_outside, best_outside_as_printed
from pacbandits.policies import Finite
from pacbandits.policies.counting import counting
from pacbandits.records import Contexts


def test_row_24_the_exclusion_algorithm_cycles_on_ties():
    """Two policies to be avoided, equal in value: the printed loop goes from each to the other, since both differ and
    are worth no more than the other. Ours finds the third, and so does the printed loop once the tie is broken."""
    contexts, policies = Contexts.finite(2), Finite([[0, 1], [1, 0], [0, 0]], n_actions=2)
    scores = np.array([[0.0, 1.0], [0.0, 1.0]])
    excluded = [policies.policy(0), policies.policy(1)]

    printed = best_outside_as_printed(policies, contexts, scores, excluded=excluded, max_steps=1000)
    assert printed.returned is None
    assert printed.visited == (0, 1) * 500 + (0,)

    wrapped = counting(policies)
    ours = best_outside(wrapped, contexts, scores, excluded=excluded)
    assert ours is not None
    assert ours.policy.describe() == policies.policy(2).describe()
    assert wrapped.calls <= 1 + 2 * 2

    broken = scores + np.array([[1e-9, 0.0], [0.0, 0.0]])
    assert best_outside_as_printed(policies, contexts, broken, excluded=excluded, max_steps=1000).visited == (0, 1, 2)
