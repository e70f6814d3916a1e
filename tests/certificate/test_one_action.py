"""A log with one action compares nothing, and is refused whichever way it comes."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pacbandits as pb

N = 300
REFUSED = "every row of the log has the same action, .*nothing was compared"
ALONE = {
    "one name": ({"action": ["a"] * N}, {"split": "uniform"}),
    "one number": ({"action": np.full(N, 7)}, {"split": "uniform"}),
    "always 0": ({"action": np.zeros(N, dtype=int), "propensity": np.ones(N)}, {}),
    "always 1": ({"action": np.ones(N, dtype=int), "propensity": np.ones(N)}, {}),
    "propensities of 1 and 0": ({"action": np.zeros(N, dtype=int), "propensities": [[1.0, 0.0]] * N}, {}),
}


def table(columns):
    rng = np.random.default_rng(0)
    return pa.table({"age": rng.integers(20, 60, N), "reward": rng.integers(0, 2, N), **columns})


@pytest.mark.parametrize("kind", ALONE)
def test_a_log_with_one_action_is_refused(kind):
    columns, reading = ALONE[kind]
    with pytest.raises(pb.InputError, match=REFUSED):
        pb.certify(table(columns), **reading)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["one name", "always 1"])
def test_so_it_is_by_all_other_ways(kind, tmp_path):
    columns, reading = ALONE[kind]
    path = tmp_path / "log.parquet"
    pq.write_table(table(columns), path)
    with pytest.raises(pb.InputError, match=REFUSED):
        pb.certify([path], **reading)
    log, _ = pb.read_log(path, **reading)
    with pytest.raises(pb.InputError, match=REFUSED):
        pb.certify(log, engine="threads")
    with pytest.raises(pb.InputError, match=REFUSED):
        pb.certify_asymptotically(log, pb.learn_class("trees:depth=1", log), epsilon=0.1, delta=0.05, rng=0)


@pytest.mark.thorough
def test_actions_that_could_be_played_and_never_were_are_compared():
    """Of 300 rows none has an action that is played once in a thousand: little is proven then."""
    columns = {"action": np.zeros(N, dtype=int), "propensities": [[0.999, 0.001]] * N}
    assert pb.certify(table(columns), "trees:depth=1").epsilon <= 1
