"""Tables of a benchmark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from pacbandits.algorithms import profile_of
from pacbandits.benchmark.claims import TOLERATED_RATIO, BenchmarkFindings, ClaimVerdict, mean_ratio
from pacbandits.benchmark.standings import (
    BASELINE,
    OURS,
    CaseStanding,
    IntervalEstimate,
    Line,
    Score,
    Stopped,
    Yardstick,
    is_ours,
    share_interval,
)
from pacbandits.certificate.conventions import MIN_NATS_WORTH_LEADING
from pacbandits.errors import InputError, one_line
from pacbandits.report.document import Side, Table
from pacbandits.report.numbers import show_bracket, show_count, show_number

# Formats of a benchmark's numbers.


NONE = "—"


def show_stopping(samples: IntervalEstimate, *, most: int) -> str:
    """Return a number of interactions and its interval: 338 (310–352), 900 (700–> 1,000), > 1,000."""
    middle = show_count(samples.value, most=most)
    if samples.low == 0.0 and not math.isfinite(samples.high):  # too few runs to say
        return middle
    if not math.isfinite(samples.low):
        return middle
    return f"{middle} ({samples.low:,.0f}–{show_count(samples.high, most=most)})"


def show_score(score: Score | None, yardstick: Yardstick, *, most: int, brief: bool = False) -> str:
    """Return the interactions of an algorithm by a yardstick; brief: without the interval."""
    if score is None or (yardstick == "certified" and score.certified is None):
        return NONE
    found = score.oracle.samples if yardstick == "oracle" or score.certified is None else score.certified.samples
    return show_count(found.value, most=most) if brief else show_stopping(found, most=most)


def show_ratio(ratio: IntervalEstimate) -> str:
    """Return a ratio and its interval, to two decimals."""
    if math.isnan(ratio.value):
        return NONE
    low, value, high = (f"{x:.2f}" if math.isfinite(x) else "∞" for x in (ratio.low, ratio.value, ratio.high))
    return f"{value} ({low}–{high})"


def show_bracket_ratio(bracket: tuple[float, float] | None) -> str:
    """Return a ratio that is known to lie in a bracket."""
    if bracket is None:
        return NONE
    low, high = (f"{x:.3g}" if math.isfinite(x) else "∞" for x in bracket)
    return low if low == high else f"{low} … {high}"


def show_errors(found: Stopped | None) -> str:
    """Return the number of wrong proofs, of how many runs, and the largest error rate consistent with it."""
    if found is None:
        return NONE
    return f"{found.wrong} of {found.runs} (≤ {show_clock(100 * found.error.high)} %)"


def show_lost(lost: IntervalEstimate) -> str:
    """Return the reward lost, and its interval."""
    if not math.isfinite(lost.value):
        return NONE
    ends = "" if not math.isfinite(lost.high) else f" ({_digits(lost.low)}–{_digits(lost.high)})"
    return _digits(lost.value) + ends


def show_clock(value: float) -> str:
    """Return seconds, microseconds or percent, to two digits."""
    if not math.isfinite(value):
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def knob_of(score: Score) -> str:
    """Return the options of an algorithm; `default` for its published ones."""
    if score.role == "default":
        return "default"
    _, _, options = score.spec.partition(":")
    return options or score.spec


def claim_words(verdict: ClaimVerdict) -> str:
    """Return our claim about a case."""
    return "first" if verdict.large else f"≤ {TOLERATED_RATIO:g}"


def verdict_words(verdict: ClaimVerdict) -> str:
    """Return the verdict on the claim: kept or broken, and whether beyond chance."""
    if verdict.kept is None:
        return "nobody is done"
    outcome = "kept" if verdict.kept else "broken"
    return outcome if verdict.beyond_chance else f"{outcome}, within chance"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


Cells = tuple[str, ...]


# Columns of text, which may wrap.
WORDY = ("problem", "policies", "classes", "why", "commands", "best other", "selected most often", "knob")
MIXED = " †"  # after the name of a case


def result_table(title: str, head: Cells, rows: tuple[Cells, ...], note: str = "") -> Table:
    """Return a table of results; columns of text wrap, and our own algorithm is highlighted."""
    sides: tuple[Side, ...] = tuple(
        "wrap" if name in WORDY else "right" if at else "left" for at, name in enumerate(head)
    )
    strong = frozenset(at for at, row in enumerate(rows) if row[0] == OURS)
    return Table(head, rows, title, note, sides=sides, strong=strong)


def main_table(findings: BenchmarkFindings, *, brief: bool = False) -> Table:
    """Return a row per case: ours, the best other, and our claim; brief: without most of the intervals."""
    return result_table(
        "Ours against the best of all others",
        ("case", "ρ ratio", "coda", "best other", "takes", "coda / other", "claim"),
        tuple(_main_cells(findings, one, brief=brief) for one in findings.standings),
        "Interactions until a policy within ε is proven, the median over seeds (90 % interval); where no certificates "
        "are made (◦), until 1 − δ of the seeds hold one. The best other has the best knob of its grid, chosen by the "
        "same runs; coda is played with its defaults alone. ρ ratio: uniform exploration's ρ over the optimum's. The "
        "claim: first where that is 2 or more, at most 1.1 times the best other elsewhere; “within chance” where the "
        f"interval of the ratio allows for both outcomes.{_mixed_words(findings)}",
    )


def _mixed_words(findings: BenchmarkFindings) -> str:
    mixed = sum(_may_be_mixed(findings, one) for one in findings.standings)
    return (
        f"{MIXED} In {mixed} of {len(findings.standings)} cases the class is large, and the policy that is certified "
        "may be a mixture of several, for coda and for all others; the table of single policies has what one costs."
        if mixed
        else ""
    )


def _may_be_mixed(findings: BenchmarkFindings, one: CaseStanding) -> bool:
    """Whether the certificates of a case may be of a mixture policy."""
    facts = findings.facts.get(one.case)
    return one.row.certified and facts is not None and facts.log_size >= MIN_NATS_WORTH_LEADING


def _main_cells(findings: BenchmarkFindings, one: CaseStanding, *, brief: bool) -> Cells:
    yardstick, most = one.yardstick, one.row.most
    ours, other = _of(one, OURS), one.best_other(yardstick)
    facts, verdict = findings.facts.get(one.case), findings.verdict(one.case)
    claimed = (NONE, NONE)
    if verdict is not None:
        claimed = (show_ratio(verdict.ratio), f"{claim_words(verdict)}: {verdict_words(verdict)}")
    return (
        one.case + ("" if yardstick == "certified" else " ◦") + (MIXED if _may_be_mixed(findings, one) else ""),
        NONE if facts is None else show_bracket_ratio(facts.uniform_over_best),
        show_score(ours, yardstick, most=most, brief=brief),
        NONE if other is None else other.spec,
        show_score(other, yardstick, most=most, brief=brief),
        *claimed,
    )


def chance_table(findings: BenchmarkFindings) -> Table:
    """Return the cases that coda wins and loses beyond chance, and the mean over cases."""
    found = [(one, one.held_out) for one in findings.verdicts if one.held_out is not None]
    rows: list[Cells] = [
        (
            one.case,
            f"{len(one.ours.seeds)}",
            f"{held_out.rivals}",
            held_out.selected,
            f"{one.ratio.value:.2f}",
            show_ratio(held_out.ratio),
            held_out.outcome,
        )
        for one, held_out in found
    ]
    known = [(one, held_out) for one, held_out in found if 0 < held_out.ratio.value < math.inf]
    if known:
        counts = [sum(held_out.outcome == name for _, held_out in found) for name in ("won", "level", "lost")]
        same = [math.log(one.ratio.value) for one, _ in known if 0 < one.ratio.value < math.inf]
        rows.append(
            (
                f"geometric mean of {len(known)}",
                "",
                "",
                "",
                f"{math.exp(sum(same) / len(same)):.2f}" if same else NONE,
                show_ratio(mean_ratio([held_out for _, held_out in known])),
                "{} won, {} level, {} lost".format(*counts),
            )
        )
    return result_table(
        "Cases won beyond chance",
        ("case", "seeds", "others", "selected most often", "by the same seeds", "by other seeds", "coda"),
        tuple(rows),
        "coda's median over that of the best other. By the same seeds: the best is the smallest of all medians, and "
        "the first of many is also the luckiest, which favours the others. By other seeds (95 % interval): the runs "
        "of each algorithm are split into two halves, one half selects the best other and its knob, the other half "
        "compares it with coda, and the halves change places; the interval is by a bootstrap of the runs of both. "
        "It favours coda a little, as half of the seeds may select one that is not the best. Won and lost: "
        "the whole interval is below or above 1. Others: algorithms with their knobs that have at least half as many "
        "runs as coda; those that were clearly behind after a few seeds have fewer.",
    )


def single_table(findings: BenchmarkFindings) -> Table:
    """Return the price of a single policy on the cases in which a mixture policy may be certified."""
    rows: list[Cells] = []
    for one in (one for one in findings.standings if _may_be_mixed(findings, one)):
        pairs = [(_of(one, name), _of(one, f"{name} single")) for name in (OURS, BASELINE)]
        cells: list[str] = []
        for either, single in pairs:
            cells += [show_score(score, "certified", most=one.row.most) for score in (either, single)]
        (ours, ours_single), (_, even_single) = pairs
        if ours_single is not None:
            ratios = ((ours_single, ours), (ours_single, even_single))
            rows.append((one.case, *cells, *(_over(a, b) for a, b in ratios)))
    return result_table(
        "A single policy, where a mixture may be certified",
        ("case", "coda", "coda, single", "uniform", "uniform, single", "single / mixture", "coda / uniform, single"),
        tuple(rows),
        "As above, on the cases whose class is large: there the default certifies a mixture of policies if that is "
        "proven sooner. Single: coda and uniform with answer=single, which certify one policy. In the other cases the "
        "certified policy is a single one anyway. The other algorithms are certified by default alone.",
    )


def _over(a: Score | None, b: Score | None) -> str:
    if a is None or b is None or not math.isfinite(a.by("certified")) or not math.isfinite(b.by("certified")):
        return NONE
    return f"{a.by('certified') / b.by('certified'):.2f}"


def ratio_table(findings: BenchmarkFindings, yardstick: Yardstick) -> Table:
    """Return all algorithms on all cases, as multiples of the fewest interactions on a case."""
    shown = [one for one in findings.standings if yardstick == "oracle" or one.row.certified]
    rows = [(entry, *(_multiple(findings, one, entry, yardstick) for one in shown)) for entry in findings.entries]
    least = ("the first takes", *(_least(one, yardstick) for one in shown))
    return result_table(
        f"All cases: {TITLES[yardstick]}, as multiples of the first",
        ("algorithm", *(one.case for one in shown)),
        (*rows, least),
        "Default, then the best knob where that differs. An algorithm that was clearly behind on a case after two or "
        "more seeds played no more of them there. “> 5” is: not within all that was played, five times what the "
        "first took; of those whose rounds are long (rage, rage-free, coda-paper, planner-sampler) the next one would "
        "have passed that, and was not begun. “no” is: it refuses the case.",
    )


def _multiple(findings: BenchmarkFindings, one: CaseStanding, entry: str, yardstick: Yardstick) -> str:
    line, least = one.line(entry, yardstick), _least_samples(one, yardstick)
    if line is None:
        name = entry.split()[0]  # further words distinguish variants of one algorithm
        refused = any(misfit.case == one.case and misfit.algorithm.split(":")[0] == name for misfit in findings.misfits)
        return "no" if refused else NONE
    if not math.isfinite(least):
        return NONE
    best = _times(line.best, yardstick, least=least, most=one.row.most)
    if line.default is None or line.default is line.best:
        return best
    default = _times(line.default, yardstick, least=least, most=one.row.most)
    return best if default == best else f"{default}, {best}"


def _times(score: Score, yardstick: Yardstick, *, least: float, most: int) -> str:
    samples = score.by(yardstick)
    times = (samples if math.isfinite(samples) else most) / least
    return ("" if math.isfinite(samples) else "> ") + (f"{times:.2f}" if times < 10 else f"{times:,.0f}")


def _least_samples(one: CaseStanding, yardstick: Yardstick) -> float:
    return min(score.by(yardstick) for score in one.played_enough)


def _least(one: CaseStanding, yardstick: Yardstick) -> str:
    return show_count(_least_samples(one, yardstick), most=one.row.most)


TITLES: dict[Yardstick, str] = {"certified": "certified stopping", "oracle": "oracle stopping"}


def stopping_table(one: CaseStanding) -> Table:
    """Return the interactions of each algorithm on a case, by every yardstick."""
    most = one.row.most
    proofs = any(score.own is not None for score in one.scores)
    knob = ("best knob",) if any(line.knobs > 1 for line in one.lines("oracle")) else ()
    certified = ("certified", *knob, "done", "wrong") if one.row.certified else ()
    head = ("algorithm", *certified, "oracle", *knob, "answer", *(("own proof", "its errors") if proofs else ()))
    rows: list[Cells] = []
    for line in one.lines(one.yardstick):
        cells: Cells = (line.entry,)
        if certified:
            stopped = line.best.certified
            done = NONE if stopped is None else f"{stopped.stopped} of {stopped.runs}"
            cells += (*_stopping_cells(line, "certified", most=most)[: 1 + len(knob)], done, show_errors(stopped))
        oracle = one.line(line.entry, "oracle")
        assert oracle is not None
        cells += (*_stopping_cells(oracle, "oracle", most=most)[: 1 + len(knob)], oracle.best.oracle.reading)
        rows.append(cells + (_proof_cells(line, most=most) if proofs else ()))
    return result_table(
        "When it is done",
        head,
        tuple(rows),
        f"Interactions, of at most {most:,}, with published options and with the best knob of those tried. Certified: "
        "the median until our certificate accepts, with an exact 90 % interval. Of the best knob, done: in how many "
        "runs it does; wrong: in how many of them the policy is not within ε (and the largest error rate that fits, "
        "95 %). Oracle: the least n at which 1 − δ of the seeds hold a policy within ε, with a bootstrap's 90 % "
        "interval. Answer: its own; or pooled, the best policy by the certificate's estimates from its log, if that is "
        "sooner. Own proof: as certified, of published options, by a proof of the algorithm's own.",
    )


def _stopping_cells(line: Line, yardstick: Yardstick, *, most: int) -> Cells:
    """Return the interactions of an algorithm with its published options, and with its best ones."""
    default = show_score(line.default, yardstick, most=most)
    if line.default is line.best:
        return default, "the default" if line.knobs > 1 else NONE
    return default, f"{knob_of(line.best)}: {show_score(line.best, yardstick, most=most)}"


def _proof_cells(line: Line, *, most: int) -> Cells:
    own = (line.default or line.best).own
    return NONE if own is None else show_stopping(own.samples, most=most), show_errors(own)


def cost_table(one: CaseStanding) -> Table:
    """Return the reward lost and the running times of each algorithm on a case, with its published options if run."""
    rows = [
        (
            line.entry,
            show_lost(score.cost.lost),
            show_clock(score.cost.decision_microseconds),
            show_clock(score.cost.microseconds_a_sample),
            show_clock(score.cost.seconds),
            show_clock(score.cost.seconds_certifying),
        )
        for line in one.lines(one.yardstick)
        for score in (line.default or line.best,)
    ]
    return result_table(
        "What it costs",
        ("algorithm", f"lost by {one.samples:,}", "µs a decision", "µs an interaction", "s a run", "s certifying"),
        tuple(rows),
        f"Published defaults. Lost: reward against the best policy in the first {one.samples:,} interactions, in "
        "expectation over actions and rewards, the mean over seeds (90 % interval); who is done earlier goes on with "
        "its answer. Times are medians: to say the probabilities of actions for one context; to choose and learn, by "
        "interaction and by run; and what our certificate took besides, where it is not the algorithm's own.",
    )


def facts_table(findings: BenchmarkFindings) -> Table:
    """Return the cases: their settings, and their theoretical quantities."""
    rows: list[Cells] = []
    for one in findings.standings:
        row, facts = one.row, findings.facts.get(one.case)
        asked = (one.case, row.problem, row.policies or "the problem's own", f"{row.epsilon:g}", f"{row.delta:g}")
        if facts is None:
            rows.append((*asked, *((NONE,) * 5)))
            continue
        rows.append(
            (
                *asked,
                f"{facts.n_contexts:,} × {facts.n_actions:,}",
                f"{facts.log_size:.3g}",
                _show_rho(facts.rho_lower, facts.rho_upper),
                _show_rho(facts.uniform_lower, facts.uniform_upper),
                NONE if facts.lower_bound is None else show_count(math.ceil(facts.lower_bound), most=row.most),
            )
        )
    return result_table(
        "The cases",
        ("case", "problem", "policies", "ε", "δ", "contexts × actions", "log|Π|", "ρ best", "ρ uniform", "lower bound"),
        tuple(rows),
        "ρ: the complexity of the case at ε, for the best design and for uniform exploration. Lower bound: no "
        "algorithm that stops by itself and is right with probability 1 − δ takes fewer on average; — where there is "
        "none." + _missing(findings),
    )


def _missing(findings: BenchmarkFindings) -> str:
    """Return the reasons for missing figures."""
    reasons = dict.fromkeys(one_line(one.words) for one in findings.facts.values() if one.words)
    return "".join(f" {reason.rstrip('.').capitalize()}." for reason in reasons)


def _show_rho(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return NONE
    # Brackets are narrow, and three digits are enough to compare.
    return show_number(high, digits=3) if high <= 1.02 * low else show_bracket(low, high)


# Tables of where other algorithms are better than ours, and of the proofs they make.


Pair = tuple[float, float]  # a figure of another algorithm, and ours


def better_table(findings: BenchmarkFindings) -> Table:
    """Return where each algorithm is better than ours: the number of shared cases, and the ratio."""
    rows: list[Cells] = []
    for entry in findings.entries:
        both = [(a, b, one) for one in findings.standings if (a := _of(one, entry)) and (b := _of(one, OURS))]
        if is_ours(entry) or not both:
            continue
        cells = (
            _compared((a.by("certified"), b.by("certified")) for a, b, one in both if one.row.certified),
            _compared((a.by("oracle"), b.by("oracle")) for a, b, _ in both),
            _compared((a.cost.lost.value, b.cost.lost.value) for a, b, _ in both),
            _compared((a.cost.decision_microseconds, b.cost.decision_microseconds) for a, b, _ in both),
            _compared((a.cost.microseconds_a_sample, b.cost.microseconds_a_sample) for a, b, _ in both),
        )
        rows.append((entry, *cells, _classes(both[0][0])))
    return result_table(
        "Where others are better than coda",
        (
            "algorithm",
            "sooner proven",
            "sooner right",
            "less reward lost",
            "faster decisions",
            "less time an interaction",
            "classes",
        ),
        tuple(rows),
        "Cases in which an algorithm with its published options has the smaller figure, of all cases that both played, "
        "and in brackets its figure over coda's in the middle case. Reward lost: up to the median at which uniform is "
        "certified, and who is done earlier goes on with its answer. Decisions: to say the probabilities of all "
        "actions for one context, which Vowpal Wabbit looks up in a table that it makes between rounds, and lin-ts "
        "finds by draws. Time an interaction: to choose and learn, over the interactions of a run. Classes: the "
        "policies that it can search; some explore without one, by a regression.",
    )


def proofs_table(findings: BenchmarkFindings) -> Table:
    """Return how often algorithms prove their answers themselves, how often they are wrong, and how long they take."""
    rows: list[Cells] = []
    for entry in findings.entries:
        scores = [score for one in findings.standings if (score := _of(one, entry)) is not None]
        found = [(score, score.own) for score in scores if score.own is not None]
        if not found:
            continue
        runs, proven, wrong = (
            sum(counts) for counts in zip(*((own.runs, own.stopped, own.wrong) for _, own in found), strict=True)
        )
        ratios = [own.samples.value / score.by("certified") for score, own in found if math.isfinite(own.samples.value)]
        known = [ratio for ratio in ratios if ratio > 0]  # our certificate accepts, too
        rows.append(
            (
                entry,
                f"{len(found)}",
                f"{proven} of {runs}",
                f"{wrong}",
                f"{show_clock(100 * share_interval(wrong, runs).high)} %",
                f"{median(known):.2f} ({len(known)} of {len(found)})" if known else NONE,
            )
        )
    return result_table(
        "Proofs of their own",
        ("algorithm", "cases", "proven", "wrong", "error rate at most", "own / our certificate"),
        tuple(rows),
        "Runs with published options that stopped by a proof of the algorithm's own within what may be played, and how "
        "many of these answers are not within ε; the largest error rate that fits all runs (95 %). Then what its proof "
        "takes over what our certificate takes on the same log, the middle of the cases in which half of the runs have "
        "both.",
    )


def _of(one: CaseStanding, entry: str) -> Score | None:
    line = one.line(entry, one.yardstick)
    return None if line is None else line.default or line.best


def _compared(pairs: Iterable[Pair]) -> str:
    """Return the number of cases in which theirs is smaller, and the median ratio to ours if there is one."""
    listed = list(pairs)
    if not listed:
        return NONE
    return f"{sum(a < b for a, b in listed)} of {len(listed)}{_middle(listed)}"


def _middle(pairs: Sequence[Pair]) -> str:
    ratios = sorted(_ratio(a, b) for a, b in pairs if not (math.isnan(a) or math.isnan(b)) and (a or b))
    middle = median(ratios) if ratios else math.inf
    return f" ({show_clock(middle)})" if math.isfinite(middle) else ""


def _ratio(a: float, b: float) -> float:
    if not math.isfinite(a):
        return math.inf if math.isfinite(b) else 1.0
    return a / b if b else math.inf


def _classes(score: Score) -> str:
    try:
        return one_line(profile_of(score.spec).classes)
    except InputError:
        return NONE
