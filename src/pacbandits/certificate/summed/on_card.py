"""The questions of a certificate on a CUDA card: what they need of rows, and how their sums are made there.

What a card keeps of rows goes by what it is made from: the log itself, the rounds that an arrangement gives rows, bins
of a class, steps of reward models. Predictions are made there anew in every pass, from steps and a few tables; only
those of models that are not made of steps come from the processor, which knows them of early rows already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbandits.arrays import BoolArray
from pacbandits.certificate.summed.arrangement import Arrangement
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.logs import first_row, wanted_ids, wanted_log
from pacbandits.engines.cuda.predictions import StepModels, predict_on_card
from pacbandits.engines.cuda.scores import MOST_ACTIONS, CardRows
from pacbandits.engines.cuda.stretch import Parts, Stretch, Wanted
from pacbandits.engines.cuda.trees import add_by_id, add_by_part
from pacbandits.policies.summing import Summation, SummingIds, actions_on
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.on_card import actions_on_card, add_tree_sums, numbered, wanted_codes
from pacbandits.policies.trees.sums import SummingTrees
from pacbandits.policies.trees.tree import Node, TreePolicy, leaves
from pacbandits.records import Log, Policy
from pacbandits.rewards.on_card import cuts_of, step_models, wanted_steps

if TYPE_CHECKING:
    from pacbandits.certificate.summed.setting import Setting

MOST_PARTS = 256
MOST_POLICIES = 255  # whose actions lie on the card at once


def fits_on_card(n_actions: int, policies: Sequence[Policy]) -> bool:
    """Whether so many actions, and what these policies do, can be scored on a card."""
    return n_actions < MOST_ACTIONS and len(policies) <= MOST_POLICIES


def sums_on_card(summing: Summation) -> bool:
    """Whether a class adds up rows on a card."""
    return isinstance(summing, SummingTrees | SummingIds)


# What is wanted of rows.


def wanted_of_class(summing: Summation) -> list[Wanted]:
    """What a class needs of rows to add them up, and to know what its policies do."""
    if isinstance(summing, SummingTrees):
        return [wanted_codes(summing.trees.bins)]
    return [wanted_ids(below=len(summing.contexts))]


def rows_on_card(stretch: Stretch, setting: Setting, *more: Wanted) -> CardRows:
    """The rows of a stretch, with predictions; more: what else is read of them if they are read now."""
    models, arrangement = _models_of(stretch, setting), setting.arrangement
    predicted = _wanted_predictions(setting) if models is None else wanted_steps(_common_cuts(setting) or ())
    log, rounds, given, *_ = stretch.get(wanted_log(), _wanted_rounds(arrangement), predicted, *more)
    if models is None:
        predictions = given["predictions"]
    else:
        predictions = predict_on_card(stretch.card, models, given["steps"], rounds["rounds"])
        _put_early(stretch, setting, rounds["places"], predictions)
    return CardRows(**log, rounds=rounds["rounds"], predictions=predictions)


def _wanted_rounds(arrangement: Arrangement) -> Wanted:
    """The round of each row, and its place among the early ones."""

    def make(number: int, block: Log) -> Parts:
        start = first_row(number)
        rounds, places = arrangement.rounds_of(start, block), arrangement.places_of(start, block)
        return {"rounds": rounds.astype(np.int32), "places": places.astype(np.int32)}

    return Wanted("rounds", arrangement, make)


def _wanted_predictions(setting: Setting) -> Wanted:
    """Predictions that the processor makes."""
    return Wanted("predictions", setting, lambda number, block: {"predictions": setting.rows_of(number, block)[-1]})


# Predictions.


def _models_of(stretch: Stretch, setting: Setting) -> StepModels | None:
    """The models of a setting as the card takes them; None where the processor has to predict."""
    if not predicts_on_card(setting):
        return None
    assert setting.early is not None
    cuts, actions = _common_cuts(setting) or (), setting.early.n_actions
    return stretch.card.made(
        "setting", setting, lambda: step_models(setting.fits, setting.fit_of, cuts, n_actions=actions)
    )


def _common_cuts(setting: Setting) -> Any:
    """The steps of all models that are made of steps; None where these differ."""
    known = [found for fitted in setting.fits if (found := cuts_of(fitted)) is not None]
    all_cuts = set[Any]().union(*known)
    return None if len(all_cuts) > 1 else next(iter(all_cuts), ())


def predicts_on_card(setting: Setting) -> bool:
    """Whether models of steps, alike in these, predict all rows but early ones."""
    early = setting.early
    if early is None or _common_cuts(setting) is None:
        return False
    counts = setting.arrangement.counts
    seen = np.bincount(early.rounds, weights=early.weights, minlength=len(counts))
    return bool((_by_steps(setting) | (seen == counts)).all())


def _by_steps(setting: Setting) -> BoolArray:
    """Which rounds (rounds,) are predicted by a model of steps."""
    return np.array([cuts_of(fitted) is not None for fitted in setting.fits])[setting.fit_of]


def _put_early(stretch: Stretch, setting: Setting, places: Any, predictions: Any) -> None:
    """Put what the processor predicts of early rows into its place."""
    cp, early = cupy(), setting.early
    assert early is not None

    def find() -> tuple[Any, Any]:
        rows = cp.flatnonzero(places >= 0)
        return rows, places[rows]

    def predict() -> tuple[Any, Any]:
        """Which of the predictions (k, A) each early row (early,) has, −1 for none; and these."""
        mine = np.flatnonzero(~_by_steps(setting)[early.rounds])
        spot = np.full(len(early), -1)
        spot[mine] = np.arange(len(mine))
        made = np.zeros((0, early.n_actions))
        if mine.size:
            made = setting.predict(early.contexts.take(mine), early.rounds[mine], n_actions=early.n_actions)
        return cp.asarray(spot), cp.asarray(made)

    rows, where = stretch.made("early rows", setting.arrangement, find)
    spot, made = stretch.card.made("early", setting, predict)
    which = spot[where]
    mine = cp.flatnonzero(which >= 0)
    predictions[rows[mine]] = made[which[mine]]


# What policies do, and sums by a class.


def actions_of(stretch: Stretch, policies: Sequence[Policy], summing: Summation | None) -> Any:
    """What policies do (L, n), uint8 on the card: by bins or ids that are there, or else read once more."""
    if isinstance(summing, SummingIds):
        ids = stretch.get(*wanted_of_class(summing))[0]["ids"]
        table = np.array([actions_on(policy, summing.contexts) for policy in policies], dtype=np.uint8)
        return cupy().ascontiguousarray(cupy().asarray(table)[:, ids])
    found = by_bins(stretch, [policy.root if isinstance(policy, TreePolicy) else None for policy in policies], summing)
    return _read_actions(stretch, policies) if found is None else found


def by_bins(stretch: Stretch, roots: Sequence[Node | None], summing: Summation | None) -> Any | None:
    """What trees do (L, n) by bins of the class, or by those that are on the card; None where that cannot be told."""
    bins = summing.trees.bins if isinstance(summing, SummingTrees) else stretch.kept_owner("codes")
    known = [root for root in roots if root is not None]
    if not isinstance(bins, Bins) or len(known) < len(roots):
        return None
    return actions_on_card(stretch.get(wanted_codes(bins))[0]["codes"], bins, known)


class _These:
    """Policies, which are the same if they are the same objects: not all can be compared."""

    def __init__(self, policies: tuple[Policy, ...]) -> None:
        self.policies = policies

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _These) or len(self.policies) != len(other.policies):
            return False
        return all(mine is theirs for mine, theirs in zip(self.policies, other.policies, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(id(policy) for policy in self.policies))


def _read_actions(stretch: Stretch, policies: Sequence[Policy]) -> Any:
    def make(_: int, block: Log) -> Parts:
        done = [actions_on(policy, block.contexts).astype(np.uint8) for policy in policies]
        return {"done": np.stack(done, axis=1)}

    def turned(made: dict[str, Any]) -> dict[str, Any]:
        return {"done": cupy().ascontiguousarray(made["done"].T)}

    return stretch.get(Wanted("done", _These(tuple(policies)), make, turned))[0]["done"]


def add_sums(stretch: Stretch, summing: Summation, scores: Any, sums: Any, *, at: int = 0) -> None:
    """Add the scores (n, W), int64 on the card, to the sums of a class, from column `at` on."""
    if isinstance(summing, SummingTrees):
        add_tree_sums(stretch, summing.bins, scores, sums, depth=summing.depth, at=at)
    else:
        ids = stretch.get(*wanted_of_class(summing))[0]["ids"]
        add_by_id(ids, scores, sums, at=at)


def tree_and_parts(stretch: Stretch, tree: TreePolicy) -> tuple[Any, Any]:
    """What a tree does (n,), and the number of the leaf (n,) that each row comes to, uint8 on the card."""
    found = by_bins(stretch, [tree.root, numbered(tree.root)], None)
    if found is not None:
        return found[0], found[1]
    both = (tree, TreePolicy(root=numbered(tree.root), n_actions=len(leaves(tree.root))))
    done = _read_actions(stretch, both)
    return done[0], done[1]


def sum_by_round(rows: CardRows, scores: Any, n_rounds: int) -> Any:
    """The sums (rounds, W) of scores (n, W) on the card."""
    cp = cupy()
    out = cp.zeros((n_rounds, int(scores.shape[1])), dtype=cp.int64)
    if n_rounds <= MOST_PARTS:
        add_by_part(rows.rounds.astype(cp.uint8), scores, out)
    else:
        add_by_id(rows.rounds.astype(cp.int64), scores, out)
    return out


def zeros_on_card(*shape: int) -> Any:
    """Whole numbers on the card to add to."""
    return cupy().zeros(shape, dtype=np.int64)
