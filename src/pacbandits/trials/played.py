"""Check that a log can have come from a plan: its contexts and its propensities."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.errors import InputError, plain
from pacbandits.records import Contexts, Log, Sampler
from pacbandits.records.missing import unlike

MAX_PROPENSITY_ROUNDING = 1e-9  # between logged propensities and the planned ones
ROWS_COMPARED_AT_A_TIME = 2**18


def check_like(known: Contexts, seen: Contexts) -> None:
    """Raise unless contexts that were seen have the features of those known before, and contexts of one id agree."""
    if (known.names, known.categories) != (seen.names, seen.categories):
        differ = [name for name in (*known.names, *seen.names) if (name in known.names) != (name in seen.names)]
        what = f"'{plain(differ[0])}' is in one of them alone" if differ else "their order, kinds or labels differ"
        raise InputError(
            f"the contexts of the log have other features than those that the algorithm started with: {what}; log "
            "the same ones, with the same labels"
        )
    if (known.phi is None) != (seen.phi is None):
        raise InputError(
            f"the contexts of the log {'lack' if seen.phi is None else 'have'} phi, unlike those that the algorithm "
            "started with"
        )
    if seen.ids is None:
        return
    _, first, which = np.unique(seen.ids, return_index=True, return_inverse=True)
    _check_alike(seen, seen, mine=first[which], theirs=np.arange(len(seen)))
    if known.ids is not None:
        ids, own = np.unique(known.ids, return_index=True)
        spot = np.minimum(np.searchsorted(ids, seen.ids[first]), len(ids) - 1)
        shared = ids[spot] == seen.ids[first]
        _check_alike(known, seen, mine=own[spot[shared]], theirs=first[shared])


def _check_alike(one: Contexts, log: Contexts, *, mine: IntArray, theirs: IntArray) -> None:
    """Raise unless rows (m,) of the one and of the log, which have the same ids, are the same contexts."""
    apart = unlike(one.features[mine], log.features[theirs])
    if one.phi is not None and log.phi is not None:
        # Rows of one table are the same where their numbers are; else the tables are compared.
        rows, others = one.phi.rows[mine], log.phi.rows[theirs]
        new = np.flatnonzero((rows != others) | (one.phi.table is not log.phi.table))
        if one.phi.table.shape[1:] != log.phi.table.shape[1:]:
            apart[:] = True
        elif len(new):
            apart[new] |= (one.phi.table[rows[new]] != log.phi.table[others[new]]).any(axis=(1, 2))
    if apart.any():
        row = int(theirs[int(np.argmax(apart))])
        assert log.ids is not None
        raise InputError(
            f"row {row} of the log has context id {log.ids[row]}, but other features than the context of that id has "
            "elsewhere; give contexts that differ ids that differ"
        )


def check_propensities(sampler: Sampler, log: Log, *, round_number: int) -> None:
    """Raise unless every row has the propensities of the plan, and an action that it may play.

    The sampler is asked once for each context.
    """
    first, which = log.contexts.distinct()
    asked = log.contexts.take(first)
    planned = floats(
        sampler.propensities(asked), name="propensities of the plan", shape=(len(asked), sampler.n_actions)
    )
    for start in range(0, len(log), ROWS_COMPARED_AT_A_TIME):
        rows = slice(start, start + ROWS_COMPARED_AT_A_TIME)
        wanted: FloatArray = planned[which[rows]]
        off = np.abs(log.propensities[rows] - wanted)
        # Of a played action that the plan never plays, even the smallest probability is too much.
        never = np.flatnonzero(wanted[np.arange(len(wanted)), log.actions[rows]] <= 0)
        off[never, log.actions[rows][never]] = np.inf
        if off.max() > MAX_PROPENSITY_ROUNDING:
            row, action = (int(i) for i in np.unravel_index(off.argmax(), off.shape))
            raise InputError(
                f"row {start + row} of the log has propensity {log.propensities[start + row, action]:.6g} for action "
                f"{action}, but the plan of round {round_number} has {wanted[row, action]:.6g}; play each round with "
                "its own plan"
            )
