"""RAGE on the paper's hard instance: samples that grow like m log m, where low regret forces m².

python -m benchmarks.rage_on_hard        prints a table, writes docs/figures/rage-on-hard.png

Rewards are Gaussian of variance 1 about means 0 and 1, so E[r²] ≤ 2 is what RAGE is told. The best policy leads all
others by 2·gap/m; ε = gap/m, so that nothing but the best policy will do.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import print_table
from pacbandits.complexity.lower_bounds import low_regret_bound, lower_bound
from pacbandits.confidence import round_confidence
from pacbandits.problems import load_problem
from pacbandits.simulation import repeat

SIZES = (8, 16, 32, 64, 128, 256, 512)
GAP, DELTA, RUNS = 1.0, 0.1, 5
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "rage-on-hard.png"
BEST, UNIFORM, GREY = "#1b6ca8", "#d1732e", "#8a8a8a"


def samples(m: int) -> tuple[list[int], int, int]:
    """τ of each run, how many were right, and the rounds of the longest."""
    problem = load_problem(f"hard:m={m},gap={GAP:g}")
    runs = repeat(problem, runs=RUNS, seed=0, algorithm="rage", epsilon=GAP / m, delta=DELTA)
    return [run.samples for run in runs], sum(run.correct for run in runs), max(run.rounds for run in runs)


def any_bound(m: int) -> float:
    """What every algorithm needs: `2 V/(Δ + ε)² log(1/2.4δ)`, with V = 2/m · 4, Δ = 2·gap/m and ε = gap/m."""
    return lower_bound(8.0 / m / (3.0 * GAP / m) ** 2, delta=DELTA)


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """The slope of log y against log x by least squares."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def crossing(constant: float) -> float:
    """The m at which c·m log m meets the low-regret bound."""
    low, high = 10.0, 1e12
    for _ in range(200):
        middle = math.sqrt(low * high)
        if low_regret_bound(round(middle), gap=GAP, delta=DELTA) < constant * middle * math.log(middle):
            low = middle
        else:
            high = middle
    return high


def draw(sizes: np.ndarray, medians: np.ndarray, constant: float) -> None:
    """τ, the fitted line and the lower bounds, all logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    meet = crossing(constant)
    wide = np.unique(np.geomspace(sizes[0], 10 * meet, 300).round()).astype(np.int64)
    line = constant * wide * np.log(wide)
    inside = wide <= sizes[-1]
    figure: Any
    axis: Any
    figure, axis = plt.subplots(figsize=(7.2, 4.8), layout="constrained")
    axis.plot(sizes, medians, "o", color=BEST, ms=6, zorder=3, label=f"RAGE, median of {RUNS} runs")
    axis.plot(wide[inside], line[inside], color=BEST, lw=1.6, label=f"{constant:.0f} · m log m, fitted")
    axis.plot(wide[~inside], line[~inside], color=BEST, lw=1.6, ls=":", label="the same, extrapolated")
    low_regret = [low_regret_bound(int(m), gap=GAP, delta=DELTA) for m in wide]
    axis.plot(wide, low_regret, color=UNIFORM, lw=1.6, label="lower bound, low-regret algorithms (~ m²/log m)")
    axis.plot(wide, [any_bound(int(m)) for m in wide], color=GREY, lw=1.6, label="lower bound, all algorithms (~ m)")
    height = constant * meet * math.log(meet)
    axis.plot([meet], [height], "o", mfc="white", mec="#555555", ms=7, zorder=3)
    power = math.floor(math.log10(meet))
    axis.annotate(
        f"beyond m ≈ ${meet / 10**power:.0f} \\cdot 10^{power}$ \nno low-regret algorithm\ncan keep up",
        (meet, height),
        xytext=(-10, 22),
        textcoords="offset points",
        ha="right",
        fontsize=9,
        color="#555555",
    )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(top=1e14)
    axis.set_xlabel("m (number of contexts, and of policies)")
    axis.set_ylabel("samples until the answer, τ (interactions)")
    axis.set_title(
        f"The hard instance, gap {GAP:g}, ε = gap/m, δ = {DELTA:g}, Gaussian noise of variance 1", fontsize=10
    )
    axis.grid(True, which="major", color="#dddddd", lw=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.legend(frameon=False, fontsize=9, loc="upper left")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=140)
    plt.close(figure)


def main() -> None:
    taus: list[list[int]] = []
    rows = []
    for m in SIZES:
        tau, right, rounds = samples(m)
        taus.append(tau)
        median = float(np.median(tau))
        confidence = round_confidence(DELTA, round_number=rounds, log_size=math.log(m))
        rows.append(
            [
                f"{m}",
                f"{median:,.0f}",
                f"{min(tau):,} … {max(tau):,}",
                f"{right} of {RUNS}",
                f"{rounds}",
                f"{median / (m * math.log(m)):.0f}",
                f"{median / (m * confidence):.1f}",
                f"{low_regret_bound(m, gap=GAP, delta=DELTA):,.0f}",
                f"{any_bound(m):,.0f}",
            ]
        )
    sizes = np.array(SIZES, dtype=np.float64)
    medians = np.array([np.median(tau) for tau in taus])
    growth = sizes * np.log(sizes)
    constant = float(np.exp(np.mean(np.log(medians / growth))))
    print_table(
        f"RAGE on `hard:m=…,gap={GAP:g}` at ε = gap/m, δ = {DELTA:g}",
        [
            "m",
            "median τ",
            "range",
            "right",
            "rounds",
            "τ/(m log m)",
            "τ/(m log(1/δ_l))",
            "low-regret bound",
            "any algorithm",
        ],
        rows,
    )
    confidences = [
        round_confidence(DELTA, round_number=max(1, round(math.log2(m))), log_size=math.log(m)) for m in SIZES
    ]
    print(f"\nSlope of log τ against log(m log m): {slope(growth, medians):.3f}")
    print(f"Slope of log τ against log(m log(1/δ_l)): {slope(sizes * np.array(confidences), medians):.3f}")
    print(f"Slope of log τ against log m: {slope(sizes, medians):.3f}")
    print(f"Fitted {constant:.0f} · m log m meets the low-regret bound at m ≈ {crossing(constant):.2g}")
    draw(sizes, medians, constant)


if __name__ == "__main__":
    main()
