"""Vowpal Wabbit, the open-source contextual bandit learner, run live: its exploration, its regression, its code.

    before each round   p(·|c) = what `vw --cb_explore_adf …` predicts for each context
    after it            every row is learnt by itself, in random order: cost −r of the played action, at probability p

**Source.** The package `vowpalwabbit` (Langford, Li and Strehl, "Vowpal Wabbit", 2007 and since), in this process:
`pip install 'pacbandits[peers]'`. What explores, `explore`, is one of

    cover       Online Cover of Agarwal, Hsu, Kale, Langford, Li and Schapire 2014: a few policies and a floor of all
    cover-nu    the same without the floor (`--nounif`), as Bietti, Agarwal and Langford 2021 prefer it
    squarecb    Foster and Rakhlin 2020: inverse gaps of predicted costs
    regcb       Foster, Agarwal, Dudík, Luo and Schapire 2018: all actions that may still be best, all alike
    regcbopt    of these the one that may be best by most
    first       all actions alike for so many interactions, then the one of least predicted cost
    epsilon     the one of least predicted cost, and now and then any

The program updates after every interaction; here it plays a round by one model and learns the round afterwards, so that
propensities are known, and `first` explores up to the end of a round. Costs are −r, their range [−1, 0] as means lie in
[0, 1]. Contexts are written as `vowpal_lines` says. The table of weights is made so large that few of them meet in one
place: of `--cover`, 2^18 places would leave 2^14 for each policy.

**Tuning.** Each knob is Vowpal Wabbit's, with its default: `rate` is `--learning_rate`, `cb_type` how costs are
regressed (`mtr`, or `ips` and `dr`, which squarecb and regcb do not take), `cover` and `psi`, `gamma_scale` and
`gamma_exponent`, `mellowness`, `share` (`--epsilon`). `--cover` and `--first` have none: 4 policies, and 1,000
interactions, a tenth of the default budget, are choices made here.

**Answer.** Vowpal Wabbit learns costs, not a policy of the class. The answer is the policy of the class that is best by
these (`answer=class`), or by these corrected where a line does not fit, m + (r − m)/p (`answer=robust`); or the one
that takes the action of least cost everywhere, which need not be of the class (`answer=greedy`). Of the policies of
cover the first is read, which is the one that regresses costs.

**Guarantees.** None of the program; the papers bound regret, for a class of regressions that holds the truth or for one
of policies.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import ceil, log2
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import number, positive, settle, text, whole_number
from pacbandits.errors import InputError, plain
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Budgeted, Growth, Play, RivalState
from pacbandits.rivals.regression import best_by_model
from pacbandits.rivals.seen import Seen
from pacbandits.rivals.vowpal_lines import CROSSED, Costs, Lines, read_weights
from pacbandits.trials.protocol import Plan, Profile, Setting

Exploration = Literal["cover", "cover-nu", "squarecb", "regcb", "regcbopt", "first", "epsilon"]
Regression = Literal["mtr", "ips", "dr"]
AnswerFrom = Literal["class", "robust", "greedy"]

EXPLORATIONS = ("cover", "cover-nu", "squarecb", "regcb", "regcbopt", "first", "epsilon")
REGRESSIONS = ("mtr", "ips", "dr")
ANSWERS = ("class", "robust", "greedy")
_NEEDS_MTR = ("squarecb", "regcb", "regcbopt")
_PLACES_FOR_A_WEIGHT = 32
_LEAST_BITS, _MOST_BITS = 18, 24  # of the table of weights; 18 is Vowpal Wabbit's own

Explore = Annotated[Exploration, About("exploration algorithm")]
CbType = Annotated[Regression, About("regression of costs")]
AnswerName = Annotated[
    AnswerFrom, About("answer: the best of the class by learnt costs, by corrected costs, or its own choice of actions")
]
Cover = Annotated[int, About("number of policies of cover", least=1)]
Psi = Annotated[float, About("diversity of the policies of cover", above=0)]
GammaScale = Annotated[float, About("γ of squarecb is this times t to the exponent", above=0)]
GammaExponent = Annotated[float, About("the exponent of squarecb's γ", least=0)]
Mellowness = Annotated[float, About("width of the confidence sets of regcb", above=0)]
First = Annotated[int, About("number of interactions that `first` explores", least=1)]
Share = Annotated[float, About("the share of interactions in which `epsilon` plays any action", least=0, most=1)]
Rate = Annotated[float, About("the learning rate", above=0)]
Seed = Annotated[int, About("random seed of the order in which rows are learnt", least=0)]


@dataclass(frozen=True, eq=False)
class VowpalMemory:
    """The memory of Vowpal Wabbit between rounds.

    lines: how contexts are written for it.
    model: its bytes.
    known (n,): ids of the contexts for which it was asked already, rising; or None where contexts have none.
    table (n, A): with what probability it would play each action there.
    costs: what it expects them to cost.
    """

    lines: Lines
    model: bytes
    known: IntArray | None
    table: FloatArray
    costs: Costs

    @property
    def n_actions(self) -> int:
        return self.lines.n_actions

    @classmethod
    def by(cls, session: Session, lines: Lines, contexts: Contexts, seen: Contexts) -> VowpalMemory:
        """Return the memory of a session; contexts, seen: those to tabulate propensities and costs for."""
        known, table = None, np.empty((0, lines.n_actions))
        if contexts.ids is not None:
            known, first = np.unique(contexts.ids, return_index=True)
            table = session.propensities(contexts.take(first))
        return cls(lines, session.save(), known, table, session.costs(seen))

    def propensities(self, contexts: Contexts) -> FloatArray:
        """p(a|c) as (n, A), of a context that is not known by asking again."""
        if self.known is not None and contexts.ids is not None:
            where = np.minimum(np.searchsorted(self.known, contexts.ids), len(self.known) - 1)
            if (self.known[where] == contexts.ids).all():
                return self.table[where]
        with Session(self.lines, model=self.model) as session:
            return session.propensities(contexts)


@dataclass(frozen=True)
class Vowpal(Budgeted):
    """Vowpal Wabbit.

    explore: how it explores.
    answer: the best of the class by learnt costs, the same by corrected ones, or what it would play itself.
    cb_type: how costs are regressed.
    cover, psi: of cover, how many policies and how much they should differ.
    gamma_scale, gamma_exponent: of squarecb, γ = scale · t^exponent.
    mellowness: of regcb, how wide confidence sets are.
    first: for how many interactions `first` explores.
    share: of interactions in which `epsilon` explores.
    rate: the learning rate.
    seed: of the order in which rows are learnt.
    """

    name: ClassVar[str] = "vowpal"
    profile: ClassVar[Profile] = Profile(
        name="vowpal",
        source="Vowpal Wabbit, its own code: Online Cover, SquareCB, RegCB, explore-first or ε-greedy, by regression",
        classes="any; explores without one",
        assumes="costs that are about linear in the contexts, for each action",
        guarantees="nothing of the answer; little regret by the papers that it follows",
        samples="its budget",
        proves=False,
    )

    explore: Exploration = field(default="cover", kw_only=True)
    answer: AnswerFrom = field(default="class", kw_only=True)
    cb_type: Regression = field(default="mtr", kw_only=True)
    cover: int = field(default=4, kw_only=True)
    psi: float = field(default=1.0, kw_only=True)
    gamma_scale: float = field(default=10.0, kw_only=True)
    gamma_exponent: float = field(default=0.5, kw_only=True)
    mellowness: float = field(default=0.1, kw_only=True)
    first: int = field(default=1_000, kw_only=True)
    share: float = field(default=0.05, kw_only=True)
    rate: float = field(default=0.5, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, choices in (("explore", EXPLORATIONS), ("cb_type", REGRESSIONS), ("answer", ANSWERS)):
            if text(getattr(self, name), name=name) not in choices:
                raise InputError(f"{name} must be {' or '.join(choices)}, got '{plain(getattr(self, name))}'")
        for name in ("psi", "gamma_scale", "mellowness", "rate"):
            settle(self, **{name: positive(getattr(self, name), name=name)})
        for name, least in (("cover", 1), ("first", 1), ("seed", 0)):
            settle(self, **{name: whole_number(getattr(self, name), name=name, least=least)})
        settle(self, gamma_exponent=number(self.gamma_exponent, name="gamma_exponent", least=0.0))
        settle(self, share=number(self.share, name="share", least=0.0, most=1.0))
        if self.explore in _NEEDS_MTR and self.cb_type != "mtr":
            raise InputError(f"{self.explore} regresses costs by mtr alone, not by {self.cb_type}; leave out cb_type")

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        explore: Explore = "cover",
        answer: AnswerName = "class",
        cb_type: CbType = "mtr",
        cover: Cover = 4,
        psi: Psi = 1.0,
        gamma_scale: GammaScale = 10.0,
        gamma_exponent: GammaExponent = 0.5,
        mellowness: Mellowness = 0.1,
        first: First = 1_000,
        share: Share = 0.05,
        rate: Rate = 0.5,
        seed: Seed = 0,
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> Vowpal:
        """Return the algorithm for this setting."""
        check_installed()
        made = cls(**cls.common(setting), explore=explore, answer=answer, cb_type=cb_type, budget=budget, growth=growth)
        made = replace(made, cover=cover, psi=psi, gamma_scale=gamma_scale, gamma_exponent=gamma_exponent)
        return replace(made, mellowness=mellowness, first=first, share=share, rate=rate, seed=seed)

    def arguments(self, *, weights: int) -> tuple[str, ...]:
        """Return the arguments of Vowpal Wabbit; weights: the number of weights per policy."""
        exploring = {
            "cover": ("--cover", str(self.cover), "--psi", repr(self.psi)),
            "cover-nu": ("--cover", str(self.cover), "--psi", repr(self.psi), "--nounif"),
            "squarecb": (
                *("--squarecb", "--gamma_scale", repr(self.gamma_scale)),
                *("--gamma_exponent", repr(self.gamma_exponent)),
            ),
            "regcb": ("--regcb", "--mellowness", repr(self.mellowness)),
            "regcbopt": ("--regcbopt", "--mellowness", repr(self.mellowness)),
            "first": ("--first", str(self.first)),
            "epsilon": ("--epsilon", repr(self.share)),
        }
        # Doubly robust costs take a second regression; cover keeps two for each policy, in a table of a power of 2.
        copies = 4 * self.cover if self.explore.startswith("cover") else 2
        bits = min(max(ceil(log2(_PLACES_FOR_A_WEIGHT * weights * copies)), _LEAST_BITS), _MOST_BITS)
        return (
            *("--cb_explore_adf", "--cb_type", self.cb_type, "-q", CROSSED),
            *("--cb_min_cost", "-1", "--cb_max_cost", "0", "--learning_rate", repr(self.rate)),
            *("--random_seed", str(self.seed), "-b", str(bits)),
            *exploring[self.explore],
        )

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> VowpalMemory:
        """Return the memory of a new model."""
        lines = Lines.of(contexts, n_actions=policies.n_actions)
        known = contexts.tallied()
        with Session(lines, arguments=self.arguments(weights=lines.width(known))) as session:
            return VowpalMemory.by(session, lines, known, known)

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> VowpalMemory:
        """Return the memory after learning from the round."""
        before: VowpalMemory = state.memory
        with Session(before.lines, model=before.model) as session:
            session.learn(log, np.random.default_rng([self.seed, plan.round_number]))
            return VowpalMemory.by(session, before.lines, state.contexts.tallied(), seen.contexts)

    def play(self, state: RivalState) -> Play:
        """Return Vowpal Wabbit's own sampler."""
        return Play(state.memory)

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy of the class that is best by the learnt costs, corrected or not, or the greedy one."""
        costs: Costs = memory.costs
        if self.answer == "greedy":
            return costs.greedy(seen.contexts), 0
        if self.answer == "robust":
            return state.policies.argmax(seen.contexts, seen.doubly_robust(-costs(seen.contexts))), 1
        return best_by_model(state.policies, seen, -costs(seen.contexts))


# A model in this process: loaded from bytes, queried, updated, and saved to bytes again. Saved with its online state
# and loaded again it goes on to the last bit as if it had never stopped: bytes are all that a state needs to keep.


_ALWAYS = ("--quiet", "--preserve_performance_counters")
_FILE = "model"


def check_installed() -> Any:
    """Return Vowpal Wabbit's module; raise InputError if it is not installed."""
    try:
        return import_module("vowpalwabbit")
    except ImportError:
        raise InputError("vowpal needs Vowpal Wabbit; pip install 'pacbandits[peers]'") from None


class Session:
    """A model in use, as a context manager that releases it.

    What Vowpal Wabbit's `learn` and `predict` do with a list of lines is done here without wrapping every line into an
    object of Python first, which would take four times as long as to read the lines and to learn from them.
    """

    def __init__(self, lines: Lines, *, arguments: tuple[str, ...] = (), model: bytes | None = None) -> None:
        """A new model by its arguments, or one that was saved."""
        package = check_installed()
        self._lines = lines
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / _FILE
        if model is not None:
            self._path.write_bytes(model)
            arguments = ("-i", str(self._path))
        self._workspace = package.Workspace(arg_list=[*_ALWAYS, *arguments])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workspace.finish()
        self._folder.cleanup()

    def save(self) -> bytes:
        """Return the model as bytes, with all state that further learning depends on."""
        self._workspace.save(str(self._path))
        return self._path.read_bytes()

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return Vowpal Wabbit's probabilities (n, A), which sum to 1 in double precision."""
        first, which = contexts.distinct()
        out = np.array([self._ask(lines) for lines in self._lines.written(contexts.take(first))], dtype=np.float64)
        return (out / out.sum(axis=1, keepdims=True))[which]

    def learn(self, log: Log, rng: np.random.Generator) -> None:
        """Learn from the rows of a log one by one, in random order; a cost is the negative reward."""
        first, which = log.contexts.distinct()
        written = list(self._lines.written(log.contexts.take(first)))
        contexts: list[int] = which.tolist()
        actions: list[int] = log.actions.tolist()
        costs, probabilities = (-log.rewards).tolist(), log.played_propensities.tolist()
        # Sorted first, so that it does not matter in what order a log has its rows.
        rows = np.lexsort((log.played_propensities, log.rewards, log.actions, which))
        order: list[int] = rng.permutation(np.repeat(rows, log.repeats[rows])).tolist()
        for row in order:
            lines = written[contexts[row]].copy()
            played = 1 + actions[row]
            lines[played] = f"{actions[row]}:{costs[row]:.9g}:{probabilities[row]:.9g} {lines[played]}"
            self._teach(lines)

    def costs(self, contexts: Contexts) -> Costs:
        """Return the learnt costs, for contexts like these or, if known by ids alone, for these."""
        probes = self._workspace.parse(self._lines.probes(contexts))
        weights = read_weights(self._workspace, probes)
        self._workspace.finish_example(probes)
        return Costs(self._lines, weights, contexts.ids if self._lines.kind == "ids" else None)

    def _ask(self, lines: list[str]) -> list[float]:
        """Return the probabilities (A,) of a context."""
        examples = self._workspace._parse("\n".join(lines))
        self._workspace.predict_multi(examples)
        out: list[float] = examples[0].get_action_scores()
        self._workspace._finish_example_multi_ex(examples)
        return out

    def _teach(self, lines: list[str]) -> None:
        """Learn from one interaction."""
        examples = self._workspace._parse("\n".join(lines))
        self._workspace.learn_multi(examples)
        self._workspace._finish_example_multi_ex(examples)
