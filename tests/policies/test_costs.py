"""What searches will take is said beforehand, and refused where memory will not do."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.cli.console import say_cost
from pacbandits.compiled import cores
from pacbandits.machine import free_memory_bytes
from pacbandits.policies.base import (
    PolicyClass,
    SearchCost,
    Searches,
    check_memory,
    count_rows,
    expect_cost,
    foretell,
    spell_bytes,
    spell_seconds,
)
from pacbandits.policies.trees.bins import Bins, NumberBins
from pacbandits.progress import count_aloud, heard_by
from tests.policies.cases import CASES
from tests.public.things import certificate, log, people, problem, stumps

SEARCHES = Searches(argmaxes=20, frontiers=6)


def trees_over(features, *, bins=32, actions=64, depth=2):
    """A class of any size without contexts to learn it from."""
    cuts = tuple(float(cut) for cut in range(bins - 1))
    kind = pb.Trees if depth <= 2 else pb.DeepTrees
    return kind(Bins(tuple(NumberBins(f"x{j}", cuts) for j in range(features))), n_actions=actions, depth=depth)


class Demanding(PolicyClass):
    """A class of two actions that is said to take what no machine has; it must not be asked."""

    n_actions, exact, log_size = 2, True, 10.0
    size_words, lighter = "demanding policies", "take others"

    def __init__(self, seconds=60.0, memory_bytes=1e18):
        self.cost = SearchCost(seconds, memory_bytes)

    def argmax(self, contexts, scores):
        raise AssertionError

    def argmax_cost(self, n_rows):
        return self.cost


@pytest.mark.first(12)
@pytest.mark.parametrize("name", CASES)
def test_classes_say_what_their_searches_take_and_more_rows_take_no_less(name):
    policies = CASES[name]().policies
    assert (policies.argmax_cost(100) is not None) is (name != "learned")  # of an estimator nobody knows
    if policies.argmax_cost(100) is None:
        assert expect_cost(policies, 100, SEARCHES) is None
        check_memory(policies, 10**12, free_bytes=1)
        return
    assert (policies.frontier_cost(100) is not None) is policies.has_frontier
    asked = [policies.argmax_cost, *([policies.frontier_cost] if policies.has_frontier else [])]
    for cost in asked:
        few, many = cost(100), cost(100_000)
        assert 0 < few.seconds <= many.seconds
        assert 0 < few.memory_bytes <= many.memory_bytes
    assert policies.size_words.isprintable()
    check_memory(policies, 1, free_bytes=10**9)
    with pytest.raises(pb.InputError, match=re.escape(policies.size_words)) as caught:
        check_memory(policies, 10**12, free_bytes=10**6)
    assert policies.lighter in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_trees_take_more_with_every_size(depth):
    base = trees_over(20, bins=16, actions=8, depth=depth).argmax_cost(5_000)
    for larger in ({"features": 60}, {"bins": 64}, {"actions": 40}):
        sizes = {"features": 20, "bins": 16, "actions": 8} | larger
        more = trees_over(**sizes, depth=depth).argmax_cost(5_000)
        assert more.seconds > base.seconds
        assert more.memory_bytes > base.memory_bytes


def test_long_searches_are_foretold_and_short_ones_not():
    words = foretell(trees_over(200), 20_000, SEARCHES)
    start = "depth-2 trees over 200 features × 32 bins × 64 actions on 20,000 rows: about "
    assert re.fullmatch(re.escape(start) + r"\S+ \S+ and \S+ .B for each of some 26 searches, \d+ \w+ in all", words)
    assert foretell(trees_over(5, actions=3), 20_000, SEARCHES) == ""
    assert foretell(pb.Finite(np.zeros((3, 4)), n_actions=2), 10**9, SEARCHES) == ""  # no oracle is asked
    assert "about 2 hours and" in foretell(Demanding(7200.0, 4e9), 50, Searches(1, 0))
    few = foretell(Demanding(60.0, 4e9), 9, Searches(1, 2))
    assert "and 4.0 GB for each of some 5 searches, 5 minutes in all" in few


def test_the_line_goes_to_standard_error_before_anything_starts(capsys):
    say_cost(Demanding(20.0, 4e9), people(), of="certificate")
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.startswith("demanding policies on 12 rows: about 20 s and 4.0 GB for each of some ")
    say_cost(stumps(), people(), of="run")
    assert capsys.readouterr().err == ""


@pytest.mark.thorough
def test_a_command_says_what_it_will_take(command):
    """With ε = 1 hardly a search is made, but nobody can know that beforehand."""
    chosen = ("--policies", "trees:depth=5,bins=16", "--epsilon", "1")
    code, _, err = command("run", "trees:actions=8,features=8,contexts=300", *chosen)
    assert code == 0
    words = r"^depth-5 trees over 8 features × 16 bins × 8 actions on 300 rows: about .* searches, .* in all$"
    assert re.search(words, err, re.MULTILINE)


@pytest.mark.parametrize(
    "computation",
    [
        lambda policies: pb.certify(log(), policies, epsilon=0.3, delta=0.1).certificate,
        lambda policies: pb.certify_asymptotically(log(), policies, epsilon=0.3, delta=0.1, rng=0),
        lambda policies: pb.verify(certificate(), log(), policies),
        lambda policies: pb.measure(problem(), policies, epsilon=0.3, delta=0.1),
        lambda policies: pb.run(problem(), policies, epsilon=0.3, delta=0.1, rng=0),
        lambda policies: pb.Coda(0.3, 0.1).start(policies, people()),
    ],
    ids=["certify", "certify_asymptotically", "verify", "measure", "run", "start"],
)
def test_what_memory_cannot_hold_is_refused_before_a_search(computation):
    words = r"would take about 1,000,000,000 GB of memory, and .* are free; take others"
    with pytest.raises(pb.InputError, match=words):
        computation(Demanding())


def test_rows_of_one_id_are_searched_once():
    assert count_rows(people().take([0, 0, 5, 5, 5])) == 2
    assert count_rows(pb.Contexts.of(np.zeros((7, 1)))) == 7


def test_times_and_amounts_in_words():
    words = ["0.03 s", "7 s", "89 s", "3 minutes", "2 hours", "3 days"]
    assert [spell_seconds(seconds) for seconds in (0.03, 7.4, 89, 200, 7000, 3e5)] == words
    assert [spell_bytes(amount) for amount in (10, 3.2e8, 4.04e9, 2.5e11)] == ["1 MB", "320 MB", "4.0 GB", "250 GB"]


MACHINE = {"proc/meminfo": "MemTotal:  8000 kB\nMemAvailable:    6000 kB\n"}


@pytest.mark.parametrize(
    ("contents", "free"),
    [
        ({}, 6000 * 1024),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 6000 * 1024),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/memory.max": "5000000\n",
                "sys/fs/cgroup/a/memory.current": "3000000\n",
                "sys/fs/cgroup/a/memory.stat": "anon 7\ninactive_file 1000000\n",
            },
            3_000_000,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,memory:/job\n0::/\n",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4000000\n",
                "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "5000000\n",
            },
            0,
        ),
        ({"proc/self/cgroup": "nonsense\n0::/../..\n", "sys/fs/cgroup/memory.max": "a lot"}, 6000 * 1024),
    ],
    ids=["no groups", "no limit", "nested groups", "version 1, used up", "nonsense"],
)
def test_free_memory_is_what_the_narrowest_bound_leaves(tmp_path, contents, free):
    for name, text in (MACHINE | contents).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert free_memory_bytes(tmp_path) == free


def test_a_search_is_overheard_and_finds_the_same():
    rng = np.random.default_rng(0)
    contexts = pb.Contexts.of(rng.normal(size=(60, 5)))
    first, second = rng.normal(size=(60, 3)), rng.normal(size=(60, 3))
    policies = pb.Trees.learn(contexts, n_actions=3, bins=4)
    heard: list[str] = []
    with heard_by(heard.append, every_seconds=0.0):
        best = policies.argmax(contexts, first)
        policies.frontier(contexts, first, second)
        pb.DeepTrees.learn(contexts, n_actions=3, bins=4).argmax(contexts, first)
    assert {"adding up, feature 1 of 5", "feature 5 of 5", "below feature 2 of 5, feature 5 of 5"} <= set(heard)
    after = len(heard)
    assert best.describe() == policies.argmax(contexts, first).describe()
    assert len(heard) == after


def test_words_come_now_and_then():
    heard: list[str] = []
    with heard_by(heard.append, every_seconds=60.0):
        one_more = count_aloud("piece", 3)
    for _ in range(3):
        one_more()
    assert heard == []


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_estimates_are_of_the_right_order(depth):
    """By the clock of the processor; benchmarks/estimates.py compares more closely."""
    rng = np.random.default_rng(0)
    contexts, scores = pb.Contexts.of(rng.normal(size=(4_000, 20))), rng.normal(size=(4_000, 6))
    policies = (pb.Trees if depth == 2 else pb.DeepTrees).learn(contexts, n_actions=6, bins=16, depth=depth)
    policies.argmax(contexts, scores)
    start = time.process_time()
    policies.argmax(contexts, scores)
    took = (time.process_time() - start) / cores()
    assert took / 5 < policies.argmax_cost(4_000).seconds < 5 * took
