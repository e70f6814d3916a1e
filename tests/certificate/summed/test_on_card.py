"""Certificates on a CUDA card against the processor; what needs no card is checked everywhere."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pacbandits.certificate.certify import Request, certify_survey
from pacbandits.certificate.conventions import EXPERT_STAKES
from pacbandits.certificate.intervals import GROUP_ROWS
from pacbandits.certificate.ledger import LedgerRows, add_gaps
from pacbandits.certificate.summed import ledger as certificate_on_card
from pacbandits.certificate.summed import ledger as questions
from pacbandits.certificate.summed.arrangement import in_rows, in_shuffled_rows
from pacbandits.certificate.summed.ledger import (
    GapSums,
    PartSums,
    ScoreSetting,
    WealthSums,
    make_setting,
    predicts_on_card,
)
from pacbandits.certificate.summed.survey import EarlyPlaces, gather, learn_policies, survey_for
from pacbandits.certificate.summed.worth import BoundSums, ScoreSums
from pacbandits.certificate.worth import Decided, evaluate_policy
from pacbandits.engines import ROWS_PER_BLOCK, Local, LogSource
from pacbandits.engines.cuda import CudaEngine, Stretch, available
from pacbandits.engines.cuda import aggregations as predictions_module
from pacbandits.engines.cuda import aggregations as scores_module
from pacbandits.engines.cuda import aggregations as trees_module
from pacbandits.engines.cuda import aggregations as worth_module
from pacbandits.engines.cuda import engine as stretch_module
from pacbandits.engines.cuda.aggregations import LEAF, REGIONS, SUM, StepModels, tile_rows
from pacbandits.engines.cuda.card import Card, why_not
from pacbandits.engines.cuda.engine import cut_stretches
from pacbandits.policies.finite import Trivial
from pacbandits.policies.summation import summing
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.classes import Trees
from pacbandits.policies.trees.on_card import small_tree, wanted_codes
from pacbandits.policies.trees.tree_policy import AtMost, TreePolicy, TreeSplit
from pacbandits.records import Contexts, Log
from pacbandits.rewards import Additive, Neighbours, Regions, RewardModel, Stacked, default_model, lighter, no_idea
from pacbandits.rewards.base import codes_of, learn_cuts
from pacbandits.rewards.on_card import cuts_of, step_models
from pacbandits.verifier import verify_rows
from tests.engines.compiled_kernels import compiled_function, needs_compiler

needs_card = pytest.mark.skipif(not available(), reason=f"no card: {why_not()}")
CPU = Local("threads")


def drawn_log(n: int, *, actions: int = 4, seed: int = 0, ids: int = 0, split: str = "even", repeats: int = 1) -> Log:
    """Rows with numbers, some of which are missing, and a category; or with ids alone. repeats: of a row, at most."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    x[:, 1] = np.where(rng.random(n) < 0.1, np.nan, x[:, 1])
    x[:, 2] = rng.integers(0, 4, n)
    best = np.where(x[:, 0] > 0, np.where(x[:, 3] > 0.3, 1, 0), np.where(x[:, 2] == 1, 2, 3)) % actions
    contexts = Contexts.of(x, categories=(None, None, ("p", "q", "r", "s"), None, None))
    if ids:
        numbers = rng.integers(0, ids, n)
        contexts, best = Contexts.of(np.empty((n, 0)), ids=numbers), numbers % actions
    propensities = np.full((n, actions), 1 / actions)
    if split == "uneven":
        propensities = 0.7 * rng.dirichlet(np.ones(actions), size=n) + 0.3 / actions
    played = (propensities.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=actions - 1)
    rewards = (rng.random(n) < np.where(played == best, 0.7, 0.3)).astype(float)
    often = None if repeats == 1 else rng.integers(1, repeats + 1, n)
    return Log.of(contexts, actions=played, rewards=rewards, propensities=propensities, repeats=often)


def set_up(log: Log, *, early: int, shuffled: bool = True, model: RewardModel | None = None) -> ScoreSetting:
    """Rows with so many early ones, and the models of all rounds."""
    n = len(log)
    arrangement = in_shuffled_rows(n, early=early) if shuffled else in_rows(n, early=early)
    source = LogSource(log)
    head = next(iter(source.blocks(0, 1)))
    (rows,) = gather(source, (EarlyPlaces(arrangement),), engine=CPU, head=head, what="reading")
    used = default_model(rows.contexts) if model is None else model
    return make_setting(rows, used, arrangement, learns=True)


# What needs no card.


def follow(models: StepModels, codes: Any, rounds: Any) -> Any:
    """What the kernel in predictions.cu makes of these tables, model by model."""
    actions, which = models.means.shape[1], models.model_of[rounds]
    tables, out = models.tables.reshape(-1, actions), np.full((len(codes), actions), 0.5)
    for number in np.unique(which[which >= 0]):
        mine = np.flatnonzero(which == number)
        model, means, heard = models.models[number], models.means[number], models.played[number]
        guess = np.tile(means, (len(mine), 1))
        for part in models.parts[model["first"] : model["last"]]:
            at = part["table"] // actions
            if part["kind"] == REGIONS:
                value = tables[at + leaves_of_nodes(models.nodes, part["root"], codes[mine])]
            else:
                assert part["kind"] == SUM
                value = tables[at]
                for start, steps in zip(models.starts, codes[mine].T, strict=True):
                    value = value + tables[at + 1 + start + steps]
            off = value.clip(models.low, models.high) - means
            guess += part["own"] * off
            total = np.cumsum(off[:, heard], axis=1)[:, -1:]  # one after the other
            guess[:, heard] += part["shared"] * (total / model["count"])
        out[mine] = guess.clip(model["low"], model["high"])
    return out


def leaves_of_nodes(nodes: Any, root: int, codes: Any) -> Any:
    """The leaf (n,) that each row comes to."""
    at, rows = np.full(len(codes), root), np.arange(len(codes))
    while (nodes["feature"][at] != LEAF).any():
        node = nodes[at]
        step = codes[rows, node["feature"]]
        yes = np.where(node["label"] == 1, step == node["value"], step <= node["value"])
        at = np.where(node["feature"] == LEAF, at, np.where(yes, node["yes"], node["no"]))
    return nodes["yes"][at]


def light_models(log: Log) -> Sequence[RewardModel]:
    contexts = log.contexts
    return Regions.learn(contexts), Additive.learn(contexts), lighter(default_model(contexts))


def test_tables_of_models_predict_as_the_models_do() -> None:
    log = drawn_log(3000, actions=9)
    log = log.only(log.actions != 5)  # of which nothing is heard
    seen, contexts = log.take(np.arange(2000)), log.contexts.take(np.arange(1800, len(log)))
    fits = [no_idea(9), *(model.fit(seen) for model in light_models(log)), Neighbours().fit(seen)]
    cuts = learn_cuts(log.contexts)
    assert [cuts_of(fitted) for fitted in fits] == [set(), {cuts}, {cuts}, {cuts}, None]
    models = step_models(fits, np.arange(5), cuts, n_actions=9)
    codes = codes_of(cuts, contexts)
    assert len(models.nodes) > 8
    for number, fitted in enumerate(fits[:-1]):
        found = follow(models, codes, np.full(len(contexts), number))
        assert (found == fitted.predict(contexts)).all()
    assert (follow(models, codes[:5], np.full(5, 4)) == 0.5).all()


@pytest.mark.thorough
def test_the_card_predicts_what_steps_tell_and_early_rows() -> None:
    log = drawn_log(60_000)
    setting = set_up(log, early=40_000)
    slow = [cuts_of(fitted) is None for fitted in setting.fits]
    assert any(slow)  # neighbours, of rows that are all early
    assert not slow[-1]
    assert predicts_on_card(setting)
    assert not predicts_on_card(pickle.loads(pickle.dumps(setting)))  # without early rows
    assert not predicts_on_card(set_up(log, early=2000))  # whose neighbours are asked about all others
    other = Stacked((Regions.learn(log.contexts), Additive.learn(log.contexts.take(np.arange(50)))))
    assert not predicts_on_card(set_up(log, early=2000, model=other))  # cut in two ways


def test_questions_that_a_card_cannot_answer_say_so() -> None:
    log = drawn_log(3000)
    setting = set_up(log, early=2000)
    trees = Trees.learn(log.contexts, n_actions=4)
    reference = TreePolicy(0, 4)
    assert GapSums(setting, summing(trees), reference, 3).can_use_card()
    assert PartSums(setting, trees, reference, 3, 4).can_use_card()
    many = Trees.learn(log.contexts, n_actions=190)
    assert not GapSums(setting, summing(many), reference, 3).can_use_card()
    assert not ScoreSums(
        setting, Decided((reference,), np.ones((1, 1)), np.ones(1, dtype=bool)), 190, 28
    ).can_use_card()


def test_tiles_fit_into_shared_memory() -> None:
    for actions in range(1, 190):
        rows = tile_rows(actions, group=GROUP_ROWS)
        assert rows >= GROUP_ROWS
        assert rows % GROUP_ROWS == 0
        assert rows * (3 * 8 * actions + 5 * 8 + 2 * 4) <= 48 * 1024


class Standing(np.ndarray):
    """An array that stands in for one on a card."""

    def set(self, given: Any) -> None:
        self[...] = given

    def get(self) -> Any:
        return np.asarray(self)


class StandIn:
    """NumPy in the place of CuPy: what goes on around kernels can be followed without a card."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any = float) -> Any:
        return np.empty(shape, dtype=dtype).view(Standing)

    def asnumpy(self, given: Any) -> Any:
        return np.asarray(given)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let NumPy and the processor's kernels do what a card does."""
    for module in (certificate_on_card, stretch_module):
        monkeypatch.setattr(module, "cupy", StandIn)
    monkeypatch.setattr(Card, "has_room", lambda self: True)
    monkeypatch.setattr(
        certificate_on_card, "predict_on_card", lambda card, models, codes, rounds: follow(models, codes, rounds)
    )
    monkeypatch.setattr(
        certificate_on_card,
        "actions_on_card",
        lambda codes, bins, roots: np.array([by_tree(small_tree(root, bins), codes) for root in roots], dtype=np.uint8),
    )

    def add(stretch: Stretch, bins: Bins, scores: Any, sums: Any, *, depth: int, at: int = 0) -> None:
        codes, width = stretch.get(wanted_codes(bins))[0]["codes"], scores.shape[1]
        sums[..., at : at + width] += pairs_of(codes[:, : len(bins.features)], scores, bins.layout.starts)

    monkeypatch.setattr(certificate_on_card, "add_tree_sums", add)


def by_tree(tree: Any, codes: Any) -> Any:
    right = ~tree.lefts[0, codes[:, tree.features[0]]]
    below = np.where(right, *(~tree.lefts[s, codes[:, tree.features[s]]] for s in (2, 1)))
    return np.array(tree.leaves)[2 * right + below]


def pairs_of(codes: Any, scores: Any, starts: Any) -> Any:
    out = np.zeros((int(starts[-1]), int(starts[-1]), scores.shape[1]), dtype=np.int64)
    for j in range(codes.shape[1]):
        for k in range(j, codes.shape[1]):
            np.add.at(out, (codes[:, j] + starts[j], codes[:, k] + starts[k]), scores)
    return out


def in_short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every block be a stretch."""
    for name in ("LEAST_BLOCKS", "MOST_BLOCKS", "BLOCKS_PER_STRIPE"):
        monkeypatch.setattr(stretch_module, name, 1)


@pytest.mark.thorough
def test_stretches_add_up_to_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, rounds, early predictions and codes of three stretches come to what the processor makes of all rows."""
    stand_in(monkeypatch)
    log = drawn_log(2 * ROWS_PER_BLOCK + 999)
    setting = set_up(log, early=30_000)
    assert predicts_on_card(setting)
    trees = Trees.learn(log.contexts.take(np.arange(500)), n_actions=4, bins=3)
    how, reference = summing(trees), some_trees(trees, log)[0]
    question = GapSums(setting, how, reference, setting.n_rounds - 1)
    (want,) = CPU.ask(LogSource(log), question, what="adding")
    card = Card()
    in_short_stretches(monkeypatch)
    stretches = cut_stretches(LogSource(log), card, n_actions=4)
    assert [one.n_rows for one in stretches] == [ROWS_PER_BLOCK, ROWS_PER_BLOCK, 999]
    monkeypatch.setattr(questions, "gaps_on_card", gaps_of_processor)
    for _ in range(2):  # the second time nothing is read
        sums = tuple(np.zeros_like(one) for one in question.begin())
        for one in stretches:
            question.add_on_card(one, sums)
        assert (how.finish(sums[0]) == how.finish(want)).all()
        assert np.abs(want).max() > 1000 * len(log)
        monkeypatch.setattr(LogSource, "blocks", None)


def worth_questions(setting: ScoreSetting, actions: int) -> tuple[ScoreSums, BoundSums]:
    """Scores and bounds of a policy that is moved between three trees."""
    rounds, rng = setting.n_rounds, np.random.default_rng(3)
    root = TreeSplit(AtMost("x0", 0.1), TreeSplit(AtMost("x3", 0.2), TreeSplit(AtMost("x4", 0.0), 1, 2), 0), 1)
    policies = (
        TreePolicy(root, actions),
        TreePolicy(2, actions),
        TreePolicy(TreeSplit(AtMost("x3", 0.0), 3, 2), actions),
    )
    shares = np.where(rng.random((rounds, 3)) < 0.7, rng.normal(size=(rounds, 3)), 0.0) * 0.5
    decided = Decided(policies, shares, rng.random(rounds) < 0.8)
    stakes = np.outer([*EXPERT_STAKES, 1.5, 0.2], np.ones(rounds))
    centres = rng.normal(size=(2 * actions + 1, rounds)).clip(-0.5, 0.5)
    return ScoreSums(setting, decided, actions, 28), BoundSums(setting, decided, actions, centres, stakes, 1.0, 28)


def kernels_by_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let NumPy and the kernels of a card, compiled for the processor, do what a card does."""
    stand_in(monkeypatch)
    monkeypatch.setattr(certificate_on_card, "predict_on_card", predictions_module.predict_on_card)
    for module in (predictions_module, scores_module, trees_module, worth_module):
        monkeypatch.setattr(module, "cupy", StandIn)
        monkeypatch.setattr(module, "function", compiled_function)
    for module in (trees_module, worth_module):
        monkeypatch.setattr(module, "multiprocessors", lambda: 2)


def by_stretches(log: Log, question: Any) -> Any:
    """The sums of a question by `add_on_card`."""
    sums, card = tuple(np.zeros_like(one) for one in question.begin()), Card()
    for one in cut_stretches(LogSource(log), card, n_actions=log.n_actions):
        question.add_on_card(one, sums)
    return sums


@pytest.mark.thorough
@needs_compiler
@pytest.mark.parametrize(
    ("actions", "split", "repeats", "ordered"), [(4, "uneven", 1, True), (4, "even", 3, False), (9, "uneven", 1, False)]
)
def test_the_kernels_of_worth_make_the_numbers_of_the_processor(
    monkeypatch: pytest.MonkeyPatch, actions: int, split: str, repeats: int, ordered: bool
) -> None:
    """Predictions, scores and bounds to the last bit, of two stretches, by the sources that a card is given."""
    kernels_by_the_processor(monkeypatch)
    in_short_stretches(monkeypatch)
    log = drawn_log(ROWS_PER_BLOCK + 5003, actions=actions, split=split, repeats=repeats)
    setting = set_up(log, early=40_000, shuffled=not ordered)
    assert predicts_on_card(setting) == (repeats == 1)
    for question in worth_questions(setting, actions):
        want = CPU.ask(LogSource(log), question, what="adding")
        same(by_stretches(log, question), want)
        assert np.abs(want[0]).max() > 2**28
    assert (want[2] > 0).any()  # who have no room
    assert (want[2] == 0).any()


@pytest.mark.thorough
@needs_compiler
def test_the_kernels_of_certificates_make_the_numbers_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels_by_the_processor(monkeypatch)
    log = drawn_log(20_011, split="uneven", repeats=3)
    setting = set_up(log, early=5000)
    trees = Trees.learn(log.contexts, n_actions=4, depth=1, bins=9)
    leaders, rounds, rng = some_trees(trees, log), setting.n_rounds, np.random.default_rng(2)
    turns, moves = rng.integers(-1, 3, rounds), rng.random((rounds, 3)) * 0.1
    stakes = np.array([[0.1] * rounds, [0.02] * rounds])
    made: list[Any] = []
    monkeypatch.setattr(questions, "add_sums", lambda stretch, how, scores, sums, at=0: made.append(scores))
    wealth = WealthSums(setting, summing(trees), leaders, turns, moves, stakes, 0.9, 0.05, 36)
    found = by_stretches(log, wealth)
    wanted: list[Any] = []
    monkeypatch.setattr(type(wealth.summing), "add", lambda how, contexts, scores, sums: wanted.append(scores))
    want = CPU.ask(LogSource(log), wealth, what="adding")
    np.testing.assert_array_equal(np.concatenate(made, axis=1), np.concatenate(wanted))
    assert found[1] == want[1]


def gaps_of_processor(rows: Any, reference: Any, *, before: int, bits: Any, most: Any) -> Any:
    """What the kernel of gaps makes, by the processor's."""
    n = len(rows)
    given = LedgerRows(
        starts=np.arange(n + 1),
        actions=rows.actions.astype(np.int64),
        rewards=rows.rewards,
        repeats=rows.repeats,
        rounds=rows.rounds,
        played=rows.played,
        propensities=rows.predictions,
        predictions=rows.predictions,
    )
    given = LedgerRows(*(np.array(one) for one in given))
    gaps, squares = np.zeros(rows.predictions.shape), np.zeros(rows.predictions.shape)
    mixture = np.repeat(np.array(rows.played)[:, None], rows.predictions.shape[1], axis=1)
    add_gaps(given, mixture, np.array(reference, dtype=np.int64), gaps, squares, 0, n)
    both = [np.rint(np.ldexp(np.clip(x, -m, m), b)) for x, m, b in zip((gaps, squares), most, bits, strict=True)]
    return (np.concatenate(both, axis=1) * (rows.rounds < before)[:, None]).astype(np.int64)


# What needs one.


def both(log: Log, question: Any) -> tuple[Any, Any]:
    """The sums of a question by a card and by the processor."""
    engine = CudaEngine()
    assert engine.fallback == ""
    assert question.can_use_card()
    engine.local = None  # pyright: ignore
    found = engine.ask(LogSource(log), question, what="adding")
    engine.close()
    return found, CPU.ask(LogSource(log), question, what="adding")


def some_trees(trees: Trees, log: Log) -> tuple[TreePolicy, ...]:
    rng = np.random.default_rng(1)
    part = log.contexts.take(np.arange(500))
    found = [trees.argmax(part, rng.normal(size=(500, log.n_actions))) for _ in range(2)]
    return (*found, TreePolicy(1, log.n_actions))


def same(found: Any, want: Any) -> None:
    """Demand that whole numbers are the same, all of them."""
    assert len(found) == len(want)
    for mine, theirs in zip(found, want, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@needs_card
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("split", ["even", "uneven"])
@pytest.mark.parametrize("early", [30_000, 2000])
def test_sums_of_trees_are_those_of_the_processor(depth: int, split: str, early: int) -> None:
    log = drawn_log(70_000, split=split)
    setting = set_up(log, early=early)
    trees = Trees.learn(log.contexts, n_actions=4, depth=depth, bins=9)
    leaders, rounds = some_trees(trees, log), setting.n_rounds
    rng = np.random.default_rng(2)
    turns, moves = rng.integers(-1, 3, rounds), rng.random((rounds, 3)) * 0.1
    stakes = np.array([[0.1] * rounds, [0.02] * rounds])
    found, want = both(log, WealthSums(setting, summing(trees), leaders, turns, moves, stakes, 0.9, 0.05, 36))
    same(*((summing(trees).finish(one[0]), one[1]) for one in (found, want)))
    found, want = both(log, GapSums(setting, summing(trees), leaders[0], rounds - 2))
    same(*((summing(trees).finish(one[0]),) for one in (found, want)))
    same(*both(log, PartSums(setting, trees, leaders[0], rounds - 2, 64)))


@needs_card
def test_sums_by_ids_are_those_of_the_processor() -> None:
    log = drawn_log(70_000, ids=7)
    setting = set_up(log, early=2000)
    policies = Trivial(n_contexts=7, n_actions=4)
    leaders = tuple(policies.policy_of((np.arange(7) + k) % 4) for k in range(2))
    rounds = setting.n_rounds
    turns, moves, stakes = np.arange(rounds) % 2, np.zeros((rounds, 2)), np.full((3, rounds), 0.05)
    same(*both(log, WealthSums(setting, summing(policies), leaders, turns, moves, stakes, 0.9, 0.05, 36)))
    same(*both(log, GapSums(setting, summing(policies), leaders[0], rounds)))


@needs_card
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize(("actions", "early", "split"), [(4, 30_000, "even"), (4, 2000, "uneven"), (30, 2000, "even")])
def test_scores_and_bounds_of_worth_are_those_of_the_processor(
    actions: int, early: int, split: str, repeats: int
) -> None:
    log = drawn_log(70_000, actions=actions, split=split, repeats=repeats)
    setting = set_up(log, early=early, shuffled=False)
    scores, bounds = worth_questions(setting, actions)
    same(*both(log, scores))
    found, want = both(log, bounds)
    same(found, want)
    assert (want[2] > 0).any()  # who have no room
    assert (want[2] == 0).any()


@needs_card
def test_certificates_of_a_card_are_verified_by_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    in_short_stretches(monkeypatch)
    log = drawn_log(300_000)
    source, engine = LogSource(log), CudaEngine()
    surveyed = survey_for(source, "trees:depth=2", engine=CPU, contexts=None, ordered=False, shuffle=False)
    learnt = learn_policies(surveyed, "trees:depth=2", None)
    by_card, by_processor = (replace(surveyed, engine=one) for one in (engine, CPU))
    asked = Request(epsilon=0.05, delta=0.05)
    found, want = (certify_survey(one, learnt, asked).certificate for one in (by_card, by_processor))
    assert verify_rows(found, source, learnt.policies, engine=CPU)[0].good
    assert found.policy == want.policy
    assert found.value == want.value
    assert found.certified_epsilon == want.certified_epsilon
    worth, same_worth = (evaluate_policy(one, TreePolicy(1, 4)) for one in (by_card, by_processor))
    engine.close()
    assert worth == same_worth
