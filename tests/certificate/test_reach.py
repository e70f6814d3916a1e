"""What is proven does not depend on what was asked for: where that is out of reach, other experts reach further."""

from __future__ import annotations

import pytest

import pacbandits as pb
from tests.certificate.test_leaders import TREES

ASKED = (0.3, 0.02)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("spec", "samples"),
    [(TREES, 1_500), ("random:policies=60,contexts=10,seed=4", 400), ("two-of-many:actions=6,policies=40", 900)],
)
def test_the_same_is_proven_whatever_was_asked_for(spec, samples):
    problem = pb.load_problem(spec)
    log = pb.run(problem, algorithm="uniform:growth=1", epsilon=0.02, delta=0.05, rng=2, max_samples=samples).log
    made = [pb.certify(log, problem.policies, epsilon=epsilon, delta=0.05).certificate for epsilon in ASKED]
    reached = [one.certified_epsilon for one in made]
    assert min(reached) < 0.5
    assert max(reached) <= 1.1 * min(reached)
    assert [one.certified for one in made] == [
        epsilon >= one.certified_epsilon for epsilon, one in zip(ASKED, made, strict=True)
    ]
    for one in made:
        assert pb.verify(one, log, problem.policies).good
