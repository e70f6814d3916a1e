"""Real randomised trials: what a t-test, a policy tree on half of the rows, and a certificate say of them.

python -m benchmarks.gallery --data FOLDER                  all whose file is there
python -m benchmarks.gallery --data FOLDER colon star       these
python -m benchmarks.gallery actg175                        this one needs no file

It prints Markdown: a table for each trial. `docs/gallery.md` says where to get the files; none comes with the project,
and a file is refused if its SHA-256 digest is another. Seconds each; the letters to voters take some minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.csv

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.analysis import read_data
from pacbandits.arrays import FloatArray
from pacbandits.certificate.claim import rounded_down
from pacbandits.problems.past_logs import PAST_LOGS, load_log
from pacbandits.records import Log, Policy
from pacbandits.records.log import number_units
from pacbandits.records.policy import describe_chosen
from pacbandits.report.numbers import show_gain
from pacbandits.report.result_report import ladder
from pacbandits.rewards import Additive
from pacbandits.rewards.base import coins, fit_halves, half_of

NORMAL = 1.96


class Trial(NamedTuple):
    """A trial and how it is read.

    file: its name, or that of a log that comes with a package. control: today's practice. reading: as for `certify`.
    """

    file: str
    control: str
    reading: dict[str, Any]


def _hillstrom(reward: str, **more: Any) -> Trial:
    others = [name for name in ("visit", "conversion", "spend") if name != reward]
    reading = {"action": "segment", "reward": reward, "split": "uniform", "without": others, **more}
    return Trial("hillstrom.csv.gz", "No E-Mail", reading)


LETTERS = {"Control": 5 / 9, "Civic Duty": 1 / 9, "Hawthorne": 1 / 9, "Self": 1 / 9, "Neighbors": 1 / 9}
CLASSES = {"regular": 0.3465, "regular+aide": 0.3531, "small": 0.3004}
TRIALS = {
    "actg175": Trial("actg175", "zidovudine", {}),
    "colon": Trial("colon.csv", "Obs", {"action": "rx", "reward": "free3", "split": "uniform"}),
    "star": Trial("star.csv", "regular", {"action": "stark", "reward": "percentile", "split": CLASSES}),
    "visit": _hillstrom("visit"),
    "conversion": _hillstrom("conversion"),
    "spend": _hillstrom("spend", reward_range=(0.0, 500.0)),
    "gotv": Trial(
        "gotv.csv.gz", "Control", {"action": "treatment", "reward": "voted", "unit": "hh_id", "split": LETTERS}
    ),
}
DIGESTS = {
    "colon.csv": "3b62159afdaad41bd9dcffe9a65751c43573f928821971c4210fd40996c80fce",
    "star.csv": "33bde866e0f09f6eefc89ff9c8b3aecd9b20c2c32ccffd16d70fc4c99a969fcf",
    "hillstrom.csv.gz": "e9f9d78c3fdedbb4f62de8ec069bf46ad1a28d7edd003717688cdb5f716e8edd",
    "gotv.csv.gz": "46a738ec68bba4a6de88766a733e674c177b72632fbfb73e5625a3a3bcff5088",
}


def read_trial(trial: Trial, folder: Path | None) -> Log:
    """Return the log of a trial; exit with a sentence if its file is missing or another."""
    if trial.file in PAST_LOGS:
        return load_log(trial.file)
    path = Path() if folder is None else folder / trial.file
    if not path.is_file():
        sys.exit(f"there is no {trial.file}; docs/gallery.md says where to get it, and --data names its folder")
    if hashlib.sha256(path.read_bytes()).hexdigest() != DIGESTS[trial.file]:
        sys.exit(f"{path} is not the file that the gallery was made from; its SHA-256 digest differs")
    return read_data(pyarrow.csv.read_csv(path), trial.reading)


def with_error(scores: FloatArray, log: Log) -> tuple[float, float]:
    """Return the mean of scores (n,) of rows and its standard error, by units if the log has them."""
    unit = np.arange(len(log)) if log.units is None else number_units(log.units)
    off = np.bincount(unit, weights=scores - scores.mean())
    return float(scores.mean()), math.sqrt(float((off**2).sum())) / len(scores)


def t_test(log: Log, action: int, control: int) -> tuple[float, float]:
    """Return the difference in means between two actions with its standard error."""
    gain, variance = 0.0, 0.0
    for arm, sign in ((action, 1.0), (control, -1.0)):
        part = log.only(log.actions == arm)
        mean, error = with_error(part.rewards, part)
        gain, variance = gain + sign * mean, variance + error**2
    return gain, math.sqrt(variance)


def half_sample_tree(log: Log, control: int) -> tuple[Policy, float, float]:
    """Return the best tree of one half by doubly robust scores, and its gain by the other half, with standard error.

    Each row of the first half is predicted by a model that was fitted without it; the second half by the first's.
    """
    chosen = half_of(log)
    first, second = log.only(chosen), log.only(~chosen)
    heads = coins(len(first))
    one, other, whole = fit_halves(Additive.learn(first.contexts), first, heads)
    predictions = np.where(heads[:, None], other.predict(first.contexts), one.predict(first.contexts))
    trees = pb.Trees.learn(first.contexts, n_actions=log.n_actions, depth=2, bins=16)
    policy = trees.argmax(first.contexts, doubly_robust(first, predictions))
    scores, rows = doubly_robust(second, whole.predict(second.contexts)), np.arange(len(second))
    return policy, *with_error(scores[rows, policy(second.contexts)] - scores[:, control], second)


def doubly_robust(log: Log, predictions: FloatArray) -> FloatArray:
    """Return doubly robust scores (n, A) of all actions."""
    rows, scores = np.arange(len(log)), predictions.copy()
    scores[rows, log.actions] += (log.rewards - predictions[rows, log.actions]) / log.played_propensities
    return scores


def show_trial(name: str, log: Log, trial: Trial) -> None:
    """Print what the three analyses say."""
    names = log.action_names or ()
    control, (low, high) = names.index(trial.control), log.reward_range
    unit, percent = high - low, log.reward_range == (0.0, 1.0)

    def show(value: float) -> str:
        return show_gain(value, percent=percent, sign=True)

    def row(method: str, what: str, gain: float, error: float) -> list[str]:
        ends = (show(unit * (gain + side * NORMAL * error)) for side in (-1, 1))
        return [method, what, show(unit * gain), " to ".join(ends), ""]

    rows = [
        row("t-test", f"{arm} for everyone", *t_test(log, action, control))
        for action, arm in enumerate(names)
        if action != control
    ]
    tree, gain, error = half_sample_tree(log, control)
    rows.append(row("half-sample tree", "a rule by person", gain, error))
    made = pb.certify(log, control=trial.control).certificate
    found = made.improvement
    assert found is not None
    for one in ladder(found):
        root = getattr(one.policy, "root", None)
        what = f"{names[root]} for everyone" if isinstance(root, int) else "a rule by person"
        mark = "recommended" if one.policy.to_json() == found.policy.to_json() else ""
        bound = f"proven: at least {show(rounded_down(one.low))}"
        rows.append(["certificate", f"{one.name}: {what}", show(one.estimate), bound, mark])
    if found.recommended is None:
        rows.append(["certificate", f"control: {trial.control} for everyone", "0", "", "recommended"])
    head = ["analysis", f"compared with {trial.control}", "estimated gain", "95 % interval", ""]
    print_table(f"{name}: {made.counted} rows" if made.units is None else f"{name}: {made.counted}", head, rows)
    print(f"\nThe half-sample tree:\n\n```text\n{describe_chosen(tree, names)}\n```")
    print(f"\nThe certified policy, within {show_gain(made.certified_epsilon, percent=percent)} of the best:\n")
    print(f"```text\n{made.words}\n```")
    for alarm in made.alarms:
        print(f"\nAlarm: {alarm}.")


def main() -> None:
    """Print the trials that were asked for."""
    parser = argparse.ArgumentParser(description="What three analyses say of real randomised trials.")
    parser.add_argument("trials", nargs="*", help=f"some of {', '.join(TRIALS)} (default: all)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the folder with the files")
    asked = parser.parse_args()
    for name in asked.trials or TRIALS:
        if name not in TRIALS:
            sys.exit(f"there is no trial '{name}'; choose from {', '.join(TRIALS)}")
        show_trial(name, read_trial(TRIALS[name], asked.data), TRIALS[name])


if __name__ == "__main__":
    main()
