"""Compile what most tests need, once, while the linters leave a core idle: `make test` starts this beside them.

Machine code is kept on disk, and so are the tests as pytest rewrites them: its workers find both there instead of each
making the same.
"""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from dataclasses import replace

import numpy as np

import pacbandits as pb

TREES = "trees:actions=4,features=3,contexts=200,bins=5"
RUNS = (
    (TREES, "coda", 0.3),
    ("two-of-many:actions=4,policies=12", "rage", 0.4),
    ("two-of-many:actions=4,policies=12", "rage-free:scale=0.001", 0.4),
    ("two-of-many:actions=4,policies=12", "coda-paper:scale=0.001", 0.4),
    ("trivial:contexts=3,actions=3", "coda", 0.3),
    ("linear:dimension=3,actions=4,contexts=30", "linear-rage", 0.2),
)


def main() -> None:
    """Run a little of everything."""
    for problem, algorithm, epsilon in RUNS:
        loaded = pb.load_problem(problem)
        done = pb.run(loaded, algorithm=algorithm, epsilon=epsilon, delta=0.2, rng=0, max_samples=10**7)
        if done.certificate is not None and done.log is not None:
            pb.verify(done.certificate, done.log, loaded.policies, contexts=done.contexts)
    problem = pb.load_problem(TREES)
    pb.measure(problem, problem.policies, epsilon=0.2, delta=0.1)
    done = pb.run(problem, algorithm="uniform", epsilon=0.3, delta=0.2, rng=0)
    assert done.log is not None
    log = done.log.take(np.arange(min(600, len(done.log))))
    made = pb.certify(replace(log, repeats=np.ones_like(log.repeats), rounds=np.zeros_like(log.rounds)))
    pb.outlook(made, log, problem.policies)
    for spec in ("linear", "trees:depth=3", "trees:bins=5,leaf=0.1,costs=0/1/1/1,budget=0.3"):
        policies = pb.load_policies(spec, problem.population, n_actions=problem.n_actions)
        policies.argmax(problem.population, problem.mean_rewards)
    pb.evaluate(log, problem.policies.argmax(problem.population, problem.mean_rewards))


def rewrite() -> None:
    """Let pytest rewrite the tests, which needs all that they import."""
    import pytest

    with redirect_stdout(io.StringIO()):  # what cannot be collected is told when the tests are run
        pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider"])


if __name__ == "__main__":
    rewrite() if sys.argv[1:] == ["--tests"] else main()
