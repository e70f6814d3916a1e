"""Who acts unlike a policy on a log, and what the log has not seen: for whoever verifies that it is the best.

Plainly, from the definitions in `pacbandits.confidence.best_threshold` and `unseen_share`, and without the code that
certifies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.confidence import UNSEEN_PART
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts


def least_refuted_rival(
    policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray], *, own: IntArray, share: float | None
) -> float:
    """The least `log Σ_k e^{S_k(π)}` of those who act unlike a policy on some row, or a bound; infinite if nobody does.

    scores: of each expert, for every row and action (n, A). own (n,): the policy's actions. share: of the first of two
    experts in their combination. A list is looked through; another class is asked, for the rows of each context, for
    the least where the policy's own action there is dearer than all the rest.
    """
    rows = np.arange(len(own))
    if policies.lists_policies:
        unlike = [one for one in np.asarray(policies.actions(contexts)) if not np.array_equal(one, own)]
        each = [np.logaddexp.reduce([float(s[rows, one].sum()) for s in scores]) for one in unlike]
        return float(min(each, default=np.inf))
    weight = 1.0 if share is None else share
    mixed = weight * scores[0] + (1.0 - weight) * scores[-1]
    spread = -sum(part * np.log(part) for part in (weight, 1.0 - weight) if part > 0)
    least, dear = np.inf, 2.0 * float(np.ptp(mixed, axis=1).sum()) + 1.0
    for here in _rows_alike(contexts):
        asked = -mixed
        asked[here, own[here]] -= dear
        found = np.asarray(policies.argmax(contexts, asked)(contexts))
        if (found != own).any():
            least = min(least, float(mixed[rows, found].sum()))
    return least + float(spread)


def faults_of_best(policies: PolicyClass, *, led: bool) -> list[str]:
    """What speaks against any claim that a policy is the best of this class; led: whether it was proven by leaders."""
    union = "that a policy is the best is proven by a union over its class"
    sized = policies.exact and np.isfinite(policies.log_size)
    return [
        *([f"{union}, and the certificate has leaders"] if led else []),
        *([] if sized else [f"{union}, which must have a size, and a search that is exact"]),
    ]


def unseen_again(contexts: Contexts, policies: PolicyClass, *, counted: float, delta: float) -> float:
    """What a policy that is best by a log may lack for what that has not seen: 1 − (0.1 δ/|Π|)^(1/n), or nothing.

    counted: n, interactions, or people. delta: what there is for the proof.
    """
    ids: set[int] = set() if contexts.ids is None else set(contexts.ids.tolist())
    if policies.n_contexts and set(range(policies.n_contexts)) <= ids:
        return 0.0
    return 1.0 - float(np.exp((np.log(UNSEEN_PART * delta) - policies.log_size) / counted))


def _rows_alike(contexts: Contexts) -> list[list[int]]:
    """Rows of the same context together, each with its id, features and φ."""
    found: dict[bytes, list[int]] = {}
    for row, features in enumerate(contexts.features):
        known = [features.tobytes()]
        if contexts.ids is not None:
            known.append(contexts.ids[row].tobytes())
        if contexts.phi is not None:
            known.append(contexts.phi.codes[row].tobytes())
        found.setdefault(b"".join(known), []).append(row)
    return list(found.values())
