"""Compile kernels before they are needed; machine code is kept on disk, where other processes find it.

python tests/warm_up.py demo    what `make demo` needs, in two processes
python tests/warm_up.py tests   what most tests need, in two processes
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np

import pacbandits as pb
from pacbandits.certificate.alarms import look
from pacbandits.rewards import default_model

TREES = "trees:actions=4,features=3,contexts=200,bins=5"
RUNS = (  # `coda` last, as its designs are compiled beside
    ("two-of-many:actions=4,policies=12", "rage", 0.4),
    ("two-of-many:actions=4,policies=12", "rage-free:scale=0.001", 0.4),
    ("two-of-many:actions=4,policies=12", "coda-paper:scale=0.001", 0.4),
    ("trivial:contexts=3,actions=3", "coda", 0.3),
    ("linear:dimension=3,actions=4,contexts=30", "linear-rage", 0.2),
    (TREES, "coda", 0.3),
)


def designs() -> None:
    """Compile what designs over trees take, which `coda` needs from its second round on."""
    problem = pb.load_problem(TREES)
    costs = np.random.default_rng(0).random(problem.mean_rewards.shape)
    problem.policies.frontier(problem.population, problem.mean_rewards, costs)
    pb.measure(problem, problem.policies, epsilon=0.2, delta=0.1)


def trial() -> None:
    """Compile what a trial over trees takes besides designs, up to its certificate and who checks it.

    What takes no designs comes first: by the time that the trial needs them, the other process has them.
    """
    problem = pb.load_problem(TREES)
    even = pb.Design.uniform(problem.policies.argmax(problem.population, problem.mean_rewards))
    log = problem.interact(even, samples=600, rng=np.random.default_rng(0))
    log = replace(log, rounds=np.arange(len(log)) * 4 // len(log))
    default_model(log.contexts).fit(log).predict(log.contexts)
    look(log)
    _run(TREES, "uniform", 0.3)


def _run(spec: str, algorithm: str, epsilon: float) -> pb.Log | None:
    """Run and verify; the log, where one is kept."""
    problem = pb.load_problem(spec)
    done = pb.run(problem, algorithm=algorithm, epsilon=epsilon, delta=0.2, rng=0, max_samples=10**7)
    if done.certificate is not None and done.log is not None:
        pb.verify(done.certificate, done.log, problem.policies, contexts=done.contexts)
    return done.log


def runs() -> None:
    """Run a little of everything."""
    trial()
    made = _run(TREES, "uniform", 0.3)
    assert made is not None
    log = made.take(np.arange(min(600, len(made))))
    problem = pb.load_problem(TREES)
    certificate = pb.certify(
        replace(log, repeats=np.ones_like(log.repeats), rounds=np.zeros_like(log.rounds))
    ).certificate
    pb.outlook(certificate, log, problem.policies)
    for spec in ("linear", "trees:depth=3", "trees:bins=5,leaf=0.1,costs=0/1/1/1,budget=0.3"):
        policies = pb.load_policies(spec, problem.population, n_actions=problem.n_actions)
        policies.argmax(problem.population, problem.mean_rewards)
    pb.evaluate(log, problem.policies.argmax(problem.population, problem.mean_rewards))
    for run in RUNS:
        _run(*run)


def collect() -> None:
    """Let the sources of all that tests import be compiled, once, and not by each of their processes."""
    command = ["-m", "pytest", "--assert=plain", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=False)  # errors are told later


PARTS = {"designs": designs, "trial": trial, "runs": runs, "collect": collect}


def main(what: str) -> int:
    """Compile one part, or all that something needs; the exit code."""
    if what == "demo":
        both = [subprocess.Popen([sys.executable, __file__, part]) for part in ("designs", "trial")]
        return max(process.wait() for process in both)
    for part in ("designs", "runs", "collect") if what == "tests" else (what,):
        PARTS[part]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
