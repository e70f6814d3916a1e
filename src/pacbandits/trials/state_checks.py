"""Check that the parts of a state agree: its rounds, log, designs, names and certificate.

They always agree in a state that a trial returned. Otherwise the state was assembled by hand, or forged with a valid
digest; it is refused by an InputError that names the part. Rules that a trial of the user's own may break, by its
`explore` or other steps, are checked for the built-in trials alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from pacbandits.arrays import IntArray, as_read
from pacbandits.certificate import Bets, Certificate, Leaders, worth_leading
from pacbandits.certificate.certificate import MIN_BET_FACTOR, leaders_to_json
from pacbandits.certificate.leaders import LOTTERY_MOVING, NOBODY, SINGLE_MOVING
from pacbandits.confidence import best_threshold, certificate_threshold, start_part
from pacbandits.errors import InputError, count_of, plain
from pacbandits.policies.registry import digest_class
from pacbandits.records import Design, Log, Policy, Sampler, parts_of
from pacbandits.records.log import digest_log
from pacbandits.schema import number, text
from pacbandits.trials.coda import NoisyDesign
from pacbandits.trials.trial import Trial, TrialState

MAX_FIGURE_ROUNDING = 1e-9  # relative, of logarithms on two machines
MAX_REPLAY_ROUNDING = 1e-6  # of recomputed propensities
MAX_REPLAYED_ROWS = 2000  # per sampler
MAX_LOG_SAMPLES = 2**53
MAX_DESCRIPTION_CHARACTERS = 2**20  # of a policy

_OWN_FIGURES = ("round", "samples", "total", "price", "certified_epsilon", "wealth", "needed", "policy")


def check_rounds(algorithm: Trial, state: TrialState, *, built_in: bool) -> None:
    """Raise unless the rounds, their history and the scales of their bets match the log."""
    log = state.log
    if log is None:
        _check(state.round_number == 0 and state.samples == 0, "it has played rounds, but there is no log of them")
        _check(not state.history and not state.scales, "it has figures of rounds, but none was played")
        return
    if log.repeats.sum(dtype=np.float64) > MAX_LOG_SAMPLES:
        raise InputError(f"its log has more than {MAX_LOG_SAMPLES:.3g} interactions")
    sizes = _round_sizes(log)
    _check(
        len(sizes) == state.round_number,
        f"its round_number is {state.round_number}, but its log has {count_of(len(sizes), 'round')}",
    )
    _check(state.samples == log.samples, f"its samples are {state.samples}, but its log has {log.samples}")
    for name, given in (("history", state.history), ("scales", state.scales)):
        _check(
            len(given) == len(sizes),
            f"its {name} tells of {count_of(len(given), 'round')}, but there were {len(sizes)}",
        )
    _check(log.n_actions == state.policies.n_actions, "its log has another number of actions than its policy class")
    _check(log.least is None, "its log does not tell every propensity, as that of a trial does")
    for entry, (figures, size, total) in enumerate(zip(state.history, sizes, accumulate(sizes), strict=True)):
        told, own = tuple(figures.get(name) for name in ("round", "samples", "total")), (entry + 1, size, total)
        _check(
            told == own,
            f"entry {entry} of its history tells of (round, samples, total) = {plain(told)}, but its log has {own}",
        )
    for entry, scale in enumerate(state.scales):
        _check(MIN_BET_FACTOR < scale < math.inf, f"entry {entry} of its scales must be positive, got {scale:.6g}")
    if built_in:
        _check_sizes(algorithm, state, sizes)
        _check_figures(algorithm, state)


def check_state(algorithm: Trial, state: TrialState, *, built_in: bool) -> None:
    """Raise unless designs, leaders and certificate fit the rounds, which must have been checked."""
    for name, part in (("certificate", state.certificate), ("leader", state.leader), ("current", state.current)):
        _check((part is None) == (state.log is None), f"it has a log without a {name}, or a {name} without a log")
    _check_members(state, built_in=built_in)
    _check_played(state, built_in=built_in)
    _check_leaders(algorithm, state)
    if state.certificate is None or state.log is None:
        _check(not built_in or state.finished == (algorithm.epsilon >= 1), "it is finished, but nothing was played")
        _check(state.missing == 0, "it misses something before its first round")
        return
    _check_certificate(algorithm, state, state.certificate, state.log)
    if built_in:
        _check_answer(state, state.certificate)


def check_replay(state: TrialState) -> None:
    """Raise unless every sampler gives the logged propensities, on up to `MAX_REPLAYED_ROWS` rows of each."""
    log = state.log
    if log is None:
        return
    ends = [rows_of(log, samples) for samples in accumulate(samples for _, samples in state.played)]
    for entry, ((sampler, _), start, end) in enumerate(zip(state.played, [0, *ends], ends, strict=False)):
        rows = np.unique(np.linspace(start, end - 1, min(end - start, MAX_REPLAYED_ROWS)).astype(np.int64))
        planned = sampler.propensities(log.contexts.take(rows))
        off = float(np.abs(planned - log.propensities[rows]).max())
        _check(
            off <= MAX_REPLAY_ROUNDING,
            f"entry {entry} of its played gives propensities that differ by {off:.2g} from those of its log (other "
            "versions of the numerical libraries can be the cause)",
        )


def rows_of(log: Log, samples: int) -> int:
    """Return the number of rows that hold the log's first `samples` interactions."""
    return int(np.searchsorted(np.cumsum(log.repeats), samples, side="right"))


def _check(fits: bool, words: str) -> None:
    if not fits:
        raise InputError(words)


def _round_sizes(log: Log) -> list[int]:
    """Return the interactions of each round; raise unless rounds are numbered 0, 1, … in the order of the rows."""
    steps: IntArray = np.diff(log.rounds, prepend=0)
    _check(log.rounds[0] == 0 and bool(((steps == 0) | (steps == 1)).all()), "the rounds of its log are out of order")
    starts = np.flatnonzero(np.diff(log.rounds, prepend=-1))
    return [int(size) for size in np.add.reduceat(log.repeats, starts)]


def _check_sizes(algorithm: Trial, state: TrialState, sizes: Sequence[int]) -> None:
    """Raise unless the rounds have the sizes that built-in trials plan."""
    first = algorithm.first_round_size(state.policies.n_actions)
    _check(sizes[0] == first, f"its first round has {sizes[0]} interactions, but the trial asks for {first}")
    for played, (size, before) in enumerate(zip(sizes[1:], accumulate(sizes), strict=False), 2):
        least, most = algorithm.round_size_limits(before)
        _check(
            max(1, int(least)) <= size <= max(1.0, most),
            f"round {played} has {size} interactions, but after {before} the trial asks for {least:.0f} to {most:.0f}",
        )


def _check_figures(algorithm: Trial, state: TrialState) -> None:
    """Raise unless the history has the figures of built-in trials, and these agree."""
    for entry, (figures, scale) in enumerate(zip(state.history, state.scales, strict=True)):
        where = f"entry {entry} of its history"
        _check(set(figures) == set(_OWN_FIGURES), f"{where} must hold {', '.join(_OWN_FIGURES)}, and nothing else")
        price, wealth, needed, reach = (
            number(figures[name], name=f"the {name} in {where}")
            for name in ("price", "wealth", "needed", "certified_epsilon")
        )
        text(figures["policy"], name=f"the policy in {where}", most=MAX_DESCRIPTION_CHARACTERS)
        _check(price > 0, f"the price in {where} is {price:.6g}")
        if algorithm.epsilon > 0:
            _check(scale == 1.0 / (price * algorithm.epsilon), f"{where} and the scale of its bets differ")
        last = entry == len(state.history) - 1
        best = algorithm.epsilon == 0 and last and wealth >= needed
        _check(0 <= reach <= max(1.0, algorithm.epsilon), f"the certified_epsilon in {where} is {reach:.6g}")
        _check(reach > 0 or best, f"the certified_epsilon in {where} is {reach:.6g}")
        over = wealth >= needed and not (algorithm.single and algorithm.epsilon > 0)
        _check(last or not over, f"{where} says that the trial was over, but it went on")


def _check_members(state: TrialState, *, built_in: bool) -> None:
    """Raise unless policies belong to the class, and designs have its actions."""
    policies = state.policies
    closed = policies if policies.checks_membership else None
    designs = [design_of(sampler) for sampler, _ in state.played]
    pools = [("pool", state.pool), ("current", () if state.current is None else state.current.pool)]
    led = () if state.leaders is None else state.leaders.policies
    answers = [*parts_of(state.policy), *([] if state.leader is None else [state.leader]), *led]
    for name, some in (*pools, *(("played", design.support) for design in designs)):
        _check(len({id(one) for one in some}) == len(some), f"its {name} holds a policy twice")
    explored = {id(one): one for _, some in pools for one in some}
    for design in designs:
        explored |= {id(one): one for one in (design.reference, *design.support)}
    for one in (*answers, *explored.values()) if built_in else answers:
        _check(closed is None or closed.has(one), "it holds a policy that is not of its class")
    for one in (*answers, *explored.values()):
        _check(one.n_actions == policies.n_actions, "it holds a policy of another number of actions")


def design_of(sampler: Sampler) -> Design:
    """Return the design that a sampler is, or weights; raise InputError for one that files cannot describe."""
    design = sampler.design if isinstance(sampler, NoisyDesign) else sampler
    if not isinstance(design, Design):
        raise InputError(
            f"a state that was played by a {type(sampler).__name__} cannot be saved, as files describe nothing but "
            "designs (pacbandits.Design)"
        )
    return design


def _check_played(state: TrialState, *, built_in: bool) -> None:
    """Raise unless samplers account for all samples, change between rounds only, and the last is the current one."""
    current, totals = state.current, [int(figures["total"]) for figures in state.history]
    ends = list(accumulate(samples for _, samples in state.played))
    whole = ends[-1] if ends else 0
    _check(whole == state.samples, f"its played sums to {whole} interactions, but there were {state.samples}")
    _check(set(ends) <= set(totals), "its played changes samplers within a round")
    if current is None:
        _check(not state.pool, "it has a pool before its first round")
        return
    _check(
        current.since in (0, *totals[:-1]), f"its current was chosen after {current.since} interactions, within a round"
    )
    _check(current.price > 0 and math.isfinite(current.price), f"the price of its current is {current.price}")
    _check(not current.pool or _alike(current.pool, state.pool), "its pool is another than that of its current")
    if built_in:
        since, price = (ends[-2] if len(ends) > 1 else 0), state.history[-1]["price"]
        _check(current.since == since, f"its current was chosen after {current.since} interactions, not {since}")
        _check(current.price == price, "the price of its current is another than in its history")
        _check(current.oracle_calls == 0, "its current counts oracle calls that were counted before")
        listed = state.policies.lists_policies
        _check(not (listed and state.pool), "it has a pool, but its class is a list")


def _check_leaders(algorithm: Trial, state: TrialState) -> None:
    """Raise unless every round but the first had a leader, with planned sizes equal to those played."""
    leaders = state.leaders
    led = algorithm.epsilon > 0 and worth_leading(state.policies)
    _check((leaders is not None) == led, "it has leaders, or has none, against its class")
    if leaders is None:
        return
    moving = SINGLE_MOVING if algorithm.single else LOTTERY_MOVING
    _check(leaders.moving == moving, f"its leaders move {leaders.moving:.6g} of a stake, but the trial {moving:g}")
    played = tuple(int(figures["samples"]) for figures in state.history)
    _check(leaders.sizes == played, "the sizes of its leaders are not those of its rounds")
    first, *others = (*leaders.turns, NOBODY)[: max(1, len(leaders.turns))]
    _check(first == NOBODY and NOBODY not in others, "nobody leads in the first round, and somebody in every other")
    new = [turn for place, turn in enumerate(others) if turn not in others[:place]]
    known = list(range(len(leaders.policies)))
    _check(new == known, "its leaders are not numbered in the order in which they first led")
    _check(len({id(one) for one in leaders.policies}) == len(known), "it has a leader twice")


def _check_certificate(algorithm: Trial, state: TrialState, certificate: Certificate, log: Log) -> None:
    """Raise unless the certificate is of the first rounds of this log, and of this class, model and these bets."""
    policies, rounds = state.policies, len(certificate.bets.scales)
    _check(1 <= rounds <= state.round_number, f"its certificate tells of {rounds} rounds, of {state.round_number}")
    part = log if rounds == state.round_number else log.only(log.rounds < rounds)
    leaders = state.leaders
    led, counts = None, np.array([figures["samples"] for figures in state.history[:rounds]], dtype=np.float64)
    if leaders is not None:
        led = replace(leaders, turns=leaders.turns[:rounds], sizes=leaders.sizes[:rounds])
        led = replace(led, policies=leaders.policies[: max(led.turns) + 1])
        start = 0 if certificate.leaders is None else certificate.leaders.start
        _check(start in led.starts(counts), f"its certificate starts in round {start + 1}, where none may")
        led = replace(led, start=start)
    told = (
        ("epsilon", certificate.epsilon, algorithm.epsilon),
        ("delta", certificate.delta, algorithm.delta),
        ("samples", certificate.samples, part.samples),
        ("rows", certificate.rows, len(part)),
        ("digest", certificate.digest, digest_log(part)),
        ("scales", certificate.bets.scales, state.scales[:rounds]),
        ("model", as_read(certificate.model), as_read(state.model.to_json())),
        ("exact", certificate.exact, policies.exact),
        ("ordered", certificate.ordered, False),
        ("by_rule", certificate.by_rule, False),
        ("learning", certificate.learning, None),
        ("class_digest", certificate.class_digest, digest_class(policies)),
        ("leaders", _leaders_json(certificate.leaders), _leaders_json(led)),
        ("policy", as_read(certificate.policy.to_json()), as_read(state.policy.to_json())),
    )
    for name, given, own in told:
        _check(given == own, f"the {name} of its certificate is not that of the state")
    threshold = certificate_threshold if algorithm.epsilon > 0 else best_threshold
    needed = threshold(log_size=policies.log_size, delta=algorithm.delta)
    if led is not None:
        needed = certificate_threshold(delta=led.part(counts) * algorithm.delta)
    for name, given, own in (
        ("log_size", certificate.log_size, policies.log_size),
        ("threshold", certificate.threshold, needed),
    ):
        close = math.isclose(given, own, rel_tol=MAX_FIGURE_ROUNDING, abs_tol=MAX_FIGURE_ROUNDING)
        _check(close, f"the {name} of its certificate is {given:.6g}, but its class has {own:.6g}")
    bets, experts = Bets(algorithm.multipliers(state), state.scales[:rounds]), certificate.experts
    _check(certificate.bets == bets, "the bets of its certificate are not those of the state")
    among = all(0 <= k < len(bets) for k in experts) and 1 <= len(set(experts)) == len(experts)
    few = len(experts) <= 2 or policies.lists_policies
    _check(among and few, "the experts of its certificate must be one or two of those who bet, or all on a list")
    share = certificate.share
    _check(share is None or (0 <= share <= 1 and len(experts) == 2), "the expert_share of its certificate is of no two")
    _check(set(part.assumed) <= set(certificate.remarks), "its certificate leaves out what its log assumes")


def _leaders_json(leaders: Leaders | None) -> object:
    return None if leaders is None else as_read(leaders_to_json(leaders))


def _check_answer(state: TrialState, certificate: Certificate) -> None:
    """Raise unless the answer of a built-in trial is its certificate's."""
    reach, last = certificate.certified_epsilon, state.history[-1]
    less = certificate.certified and reach > certificate.epsilon > 0
    _check(not less, "its certificate claims less than it has proven")
    told, own = (last["certified_epsilon"], last["policy"]), (reach, state.policy.describe())
    _check(told == own, "the last entry of its history is not what its certificate says")
    reaches = [float(figures["certified_epsilon"]) for figures in state.history]
    proven = len(certificate.bets.scales) - 1
    _check(
        all(later <= earlier for earlier, later in pairwise(reaches)) and reaches[proven] == reach,
        "the certified_epsilon in its history is not the best so far",
    )
    _check(proven == 0 or reaches[proven - 1] >= reach, "its certificate is not the first that proved as much")
    figures = state.history[proven]
    told, own = (figures["wealth"], figures["needed"]), (certificate.value, certificate.threshold)
    _check(told == own, f"entry {proven} of its history is not what its certificate says")
    wealth, needed = float(last["wealth"]), float(last["needed"])
    _check(state.missing == max(needed - wealth, 0.0), "what it misses is not what its history says")
    over = proven == state.round_number - 1 and certificate.certified
    _check(state.finished == over, "it is finished, or is not, against what its certificate says")
    for entry, figures in enumerate(state.history):
        needed, possible = float(figures["needed"]), _thresholds(state, certificate, entry)
        close = any(math.isclose(needed, one, rel_tol=MAX_FIGURE_ROUNDING) for one in possible)
        told = " or ".join(f"{one:.6g}" for one in possible)
        _check(close, f"entry {entry} of its history needs {needed:.6g}, but a certificate {told}")


def _thresholds(state: TrialState, certificate: Certificate, entry: int) -> list[float]:
    """Return the possible thresholds of a certificate after the round of this entry, by where its leaders start."""
    if state.leaders is None or not state.leaders.single:
        return [certificate.threshold]
    counts = np.array([figures["samples"] for figures in state.history], dtype=np.float64)
    begun = sum(start <= entry for start in state.leaders.starts(counts))
    return [certificate_threshold(delta=start_part(number) * certificate.delta) for number in range(begun)]


def _alike(some: Sequence[Policy], others: Sequence[Policy]) -> bool:
    return [id(one) for one in some] == [id(one) for one in others]
