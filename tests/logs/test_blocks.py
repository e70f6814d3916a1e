"""Trials that randomise within blocks: probabilities declared for each block, or counted down in it."""

from __future__ import annotations

import json
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy.stats import binom

import pacbandits as pb
from pacbandits.analysis import is_streamed, withheld_block
from pacbandits.certificate.conventions import arrange
from pacbandits.logs import blocks
from pacbandits.logs.data_set import open_set
from pacbandits.logs.readers import log_of
from pacbandits.logs.reading_options import ReadingOptions
from pacbandits.records.row_order import BY_BLOCK, COUNTED_ROWS, COUNTED_UNITS, says
from pacbandits.verifier.order import order_log

HOW = {"action": "class", "reward": "passed", "block": "school"}
SPLIT = {"a": {"small": 0.25, "regular": 0.75}, "b": {"small": 0.5, "regular": 0.5}, "c": {"regular": 1.0}}


def pupils(*, schools=12, rows=(30, 60), shares=(0.3, 0.5), effect=0.2, seed=0):
    """A table of pupils, sorted by school and class, as public files are; and the mean outcome of each class."""
    rng = np.random.default_rng(seed)
    found, means = [], []
    for school in range(schools):
        n = int(rng.integers(*rows))
        small = max(1, round(n * float(rng.choice(shares))))
        classes = np.sort(rng.permutation(np.repeat(["small", "regular"], [small, n - small])))
        base = rng.uniform(0.2, 0.6)
        passed = rng.random(n) < base + effect * (classes == "small")
        found += [
            (f"s{school:02d}", float(x), a, int(r)) for x, a, r in zip(rng.random(n), classes, passed, strict=True)
        ]
        means += [(base, base + effect)] * n
    columns = dict(zip(("school", "age", "class", "passed"), map(list, zip(*found, strict=True)), strict=True))
    return pa.table(columns), np.mean(means, axis=0)


def written(path, table):
    pyarrow.csv.write_csv(table, path)
    return path


def test_scores_are_unbiased_given_the_past_over_all_arrangements_of_a_block():
    counts = np.array([[2, 3], [1, 2]])
    codes = np.array([0, 1, 0, 0, 1, 0, 1, 0])
    rewards = np.random.default_rng(1).random((8, 2))
    arrangements = set(permutations([0, 0, 1, 1, 1]))
    others = set(permutations([0, 1, 1]))
    sums, pasts = np.zeros((8, 2)), {}
    for one in sorted(arrangements):
        for other in sorted(others):
            actions = np.empty(8, dtype=np.int64)
            actions[codes == 0], actions[codes == 1] = one, other
            propensities, kept = blocks._remaining(codes, actions, counts)
            assert np.allclose(propensities.sum(axis=1), 1.0)
            assert (propensities[kept] >= blocks.FLOOR_SHARE * (counts / counts.sum(axis=1)[:, None]).min()).all()
            assert kept[0]
            for t in range(8):
                past = (t, tuple(actions[:t]))
                p, played = propensities[t], actions[t]
                pasts.setdefault(past, []).append((tuple(p), bool(kept[t]), int(played)))
                if kept[t]:
                    sums[t, played] += rewards[t, played] / p[played]
                    sums[t] -= rewards[t]
    assert np.abs(sums).max() < 1e-9
    for seen in pasts.values():  # what is known before a row: its propensities, and whether it counts
        assert len({(p, kept) for p, kept, _ in seen}) == 1
        assert np.allclose(np.bincount([a for _, _, a in seen], minlength=2) / len(seen), seen[0][0])


def test_the_order_depends_on_the_data_and_not_on_the_file_and_arms_stand_in_it_at_random():
    table, _ = pupils(schools=4, seed=3)
    log = read(table)
    turned = read(table.take(np.random.default_rng(0).permutation(len(table))))
    assert np.array_equal(log.contexts.features, turned.contexts.features)
    assert np.array_equal(log.propensities, turned.propensities)
    counts, trials = {}, 600
    contexts = pb.Contexts.of(np.zeros((4, 0)), ids=np.zeros(4, dtype=int))
    for seed in range(trials):  # sorted by arm, without features
        rewards, actions = np.random.default_rng(seed).random(4), np.array([0, 0, 1, 1])
        order = blocks.drawn_order(rows_of(contexts, rewards, actions), actions * 0)
        drawn = tuple(actions[order])
        counts[drawn] = counts.get(drawn, 0) + 1
    low, high = binom.ppf([1e-5, 1 - 1e-5], trials, 1 / 6)
    assert len(counts) == 6
    assert all(low <= count <= high for count in counts.values()), counts


def rows_of(contexts, rewards, actions):
    return SimpleNamespace(contexts=contexts, rewards=rewards, actions=actions, metric_values=None, units=None)


def read(table, **more):
    return log_of(table, **{**HOW, **more})


def test_bets_against_the_truth_of_counted_blocks_seldom_grow_rich():
    trials, delta, stake, rich = 300, 0.2, 0.07, np.zeros(2)
    none = pb.Contexts.of(np.zeros((240, 0)), ids=np.zeros(240, dtype=int))
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(15), 16)
        counts = np.array([[16 - k, k] for k in rng.integers(5, 9, 15)])
        actions = np.concatenate([np.repeat([0, 1], own) for own in counts])  # sorted by arm, as files are
        means = rng.uniform(0.2, 0.8, (15, 2))[codes]
        rewards = (rng.random(240) < means[np.arange(240), actions]).astype(float)
        order = blocks.drawn_order(rows_of(none, rewards, actions), codes)
        propensities, kept = blocks._remaining(codes[order], actions[order], counts)
        for action in (0, 1):
            scores = (actions[order] == action) * rewards[order] / propensities[:, action].clip(1e-9)
            factors = 1.0 + stake * (means[order, action] - scores)[kept]
            rich[action] += np.cumsum(np.log(factors)).max() >= -np.log(delta)
    assert (rich <= binom.ppf(1 - 1e-4, trials, delta)).all(), rich


@pytest.mark.thorough
def test_intervals_and_claims_of_counted_blocks_are_wrong_no_more_often_than_they_say():
    trials, delta, wrong, missed = 60, 0.2, 0, 0
    constants = pb.Trees.learn(pb.Contexts.of([[0.0], [1.0]], names=["age"]), n_actions=2, depth=0)
    for seed in range(trials):
        table, means = pupils(schools=25, rows=(12, 20), effect=0.15, seed=seed)
        log = read(table, without=["school"])
        worth = pb.evaluate(log, "small", delta=delta)
        missed += not worth.value.low <= means[1] <= worth.value.high
        made = pb.certify(log, constants, delta=delta).certificate
        small = log.action_names.index("small")
        lost = 0.0 if made.policy.to_json()["root"] == {"action": small} else 0.15
        wrong += made.certified_epsilon < lost - 1e-9
    most = binom.ppf(1 - 1e-4, trials, delta)
    assert (missed <= most, wrong <= most) == (True, True), (missed, wrong)


def test_counted_blocks_say_what_they_assume_and_what_was_left_out():
    table, _ = pupils(seed=2)
    log = read(table)
    (words,) = [one for one in log.remarks if one.startswith(COUNTED_ROWS)]
    left = len(table) - len(log)
    assert 0 < left < 0.2 * len(table)
    assert f"(12 blocks, 'school'); rows were read in a random order, {left:,} of {len(table):,}," in words
    made = pb.certify(log, "trees:depth=1", contexts=pb.Contexts.of(log.contexts.features[:, 1:], names=["age"]))
    assert words in made.certificate.assumptions
    assert not any("depended on earlier rows" in one for one in made.certificate.assumptions)
    assert (made.certificate.shuffled, made.certificate.any_time) == (True, False)
    assert made.certificate.checks[0].looked_at == "the rows of counted blocks were read in a random order"
    assert made.verify().good


def test_blocks_are_features_of_the_reward_model_and_of_policies_only_if_asked(command, tmp_path):
    path = written(tmp_path / "pupils.csv", pupils(schools=20, seed=5)[0])
    asked = ("certify", path, "--action", "class", "--reward", "passed", "--block", "school")
    depth = ("--policies", "trees:depth=1")
    code, out, _ = command(*asked, *depth, "--certificate", tmp_path / "proof.json", "--json")
    assert code == 0
    assert json.loads(out)["learning"]["spec"] == "trees:depth=1,without=school"
    assert "school" in pb.read_log(path, **HOW)[0].contexts.names
    assert "school" not in str(json.loads((tmp_path / "proof.json").read_text())["class"])
    code, out, _ = command("verify", tmp_path / "proof.json", path)
    assert (code, out[:5]) == (0, "good:"), out
    (tmp_path / "sorted.csv").write_text("".join(_sorted(path.read_text().splitlines(keepends=True))))
    assert command("verify", tmp_path / "proof.json", tmp_path / "sorted.csv")[0] == 0  # the same rows
    assert command("evaluate", tmp_path / "proof.json", path)[0] == 0
    told = pb.learn_class("trees:depth=1", pb.read_log(path, **HOW)[0])
    assert "school" in told.policies.feature_names
    assert (withheld_block({**HOW}), withheld_block({**HOW, "keep": ["school"]})) == ("school", None)
    code, _, err = command(*asked, "--policies", "linear")
    assert (code, "go by all features; leave the block out of them (--without 'school')" in err) == (2, True)


def _sorted(lines):
    return [lines[0], *sorted(lines[1:], key=lambda line: line.split(",")[1])]


def declared(*, rows=400, seed=0):
    """A table whose classes were drawn with the probabilities of their school."""
    rng = np.random.default_rng(seed)
    school = rng.choice(["a", "b"], rows)
    small = rng.random(rows) < np.where(school == "a", 0.25, 0.5)
    passed = (rng.random(rows) < 0.4 + 0.2 * small).astype(int)
    classes = np.where(small, "small", "regular")
    return pa.table({"school": school, "age": rng.random(rows), "class": classes, "passed": passed})


def test_declared_probabilities_are_those_of_the_block_and_rows_are_shuffled(tmp_path):
    table = declared()
    log = read(table, split=SPLIT)
    assert log.action_names == ("regular", "small")
    school = np.array(table["school"].to_pylist())
    assert np.array_equal(log.propensities[:, 1], np.where(school == "a", 0.25, 0.5))
    assert says(log.remarks, BY_BLOCK)
    (tmp_path / "split.csv").write_text(
        "block,action,probability\n" + "".join(f"{b},{a},{p}\n" for b, own in SPLIT.items() for a, p in own.items())
    )
    made = pb.certify(table, "trees:depth=0", **HOW, split=str(tmp_path / "split.csv"), contexts=None)
    assert (made.certificate.shuffled, made.reading["split"]) == (True, SPLIT)
    assert made.verify().good
    made.save(tmp_path / "proof.json")
    path = written(tmp_path / "pupils.csv", table)
    proof = pb.load_certificate(tmp_path / "proof.json")
    assert pb.verify(proof, proof.log(path)).good
    worth = pb.evaluate(table, "small", **HOW, split=SPLIT)
    assert worth.shuffled


def test_declared_blocks_are_streamed_and_counted_ones_are_not(tmp_path):
    path = written(tmp_path / "pupils.csv", declared())
    files = open_set([path], ReadingOptions(**HOW, split=SPLIT))
    try:
        whole = pb.read_log(path, **HOW, split=SPLIT)[0]
        assert np.array_equal(files.head.propensities, whole.propensities)
        assert np.array_equal(files.head.contexts.features, whole.contexts.features)
        assert (files.fixed_split, files.assumed) == (True, whole.assumed)
    finally:
        files.close()
    with pytest.raises(pb.InputError, match="blocks are counted with all rows at hand; name one file and leave out"):
        open_set([path], ReadingOptions(**HOW))
    with pytest.raises(pb.InputError, match="no probabilities for the block 'b' of 'school'"):
        open_set([path], ReadingOptions(**HOW, split={"a": SPLIT["a"]}))
    assert not is_streamed([path], dict(HOW), engine=None, epsilon=None)


@pytest.mark.thorough
def test_declared_blocks_of_numbers_are_certified_from_a_stream(tmp_path):
    table = declared(rows=3000)
    numbers = [7 if one == "a" else 8 for one in table["school"].to_pylist()]
    path = written(tmp_path / "pupils.csv", table.set_column(0, "school", pa.array(numbers)))
    split = {"7": SPLIT["a"], "8": SPLIT["b"]}
    made = pb.certify(path, "trees:depth=1", **HOW, split=split, engine="stream")
    assert (made.certificate.shuffled, made.certificate.learning.spec) == (True, "trees:depth=1,without=school")
    made.save(tmp_path / "proof.json")
    proof = pb.load_certificate(tmp_path / "proof.json")
    files = proof.files([path])
    try:
        assert pb.verify(proof, files).good
    finally:
        files.close()
    assert pb.verify(proof, proof.log(path)).good
    with pytest.raises(pb.InputError, match="no probabilities for the block '8'"):
        pb.certify(path, "trees:depth=1", **HOW, split={"7": SPLIT["a"]}, engine="stream")


def test_rows_of_counted_blocks_are_certified_in_the_order_in_which_they_were_counted():
    log = read(pupils(seed=2)[0])
    blocked, shuffled = arrange(log, ordered=False)
    assert shuffled
    assert np.array_equal(blocked.propensities, log.propensities)
    assert np.array_equal(order_log(log, ordered=True, shuffled=True).propensities, log.propensities)
    with pytest.raises(pb.InputError, match="rows of counted blocks are read in a random order; leave out ordered"):
        pb.certify(log, ordered=True)
    with pytest.raises(pb.InputError, match="the rows of blocks were counted, which needs all rows at once"):
        pb.certify(log, engine="threads")


def clusters(*, seed=0):
    """A table of 10 districts with 20 villages each, of 1 to 5 rows with one class."""
    rng = np.random.default_rng(seed)
    found = []
    for district in range(10):
        for village, small in enumerate(rng.permutation([True] * 8 + [False] * 12)):
            base = rng.uniform(0.2, 0.6)
            found += [
                (f"d{district}", f"d{district}v{village}", float(rng.random()), "small" if small else "regular", r)
                for r in (rng.random(rng.integers(1, 6)) < base + 0.2 * small).astype(int).tolist()
            ]
    found.sort(key=lambda row: row[3])
    names = ("school", "village", "age", "class", "passed")
    return pa.table(dict(zip(names, map(list, zip(*found, strict=True)), strict=True)))


def test_clusters_are_counted_and_not_their_rows():
    table = clusters()
    log = read(table, unit="village")
    assert any(one.startswith(COUNTED_UNITS) and "each unit as a whole" in one for one in log.remarks)
    starts = np.flatnonzero(np.diff(log.units, prepend=-1))
    assert len(starts) == log.n_units < 200  # each unit stands together, and counts as a whole
    assert (np.diff(log.propensities[:, 0])[np.diff(log.units) == 0] == 0).all()
    assert np.allclose(log.propensities[0], [0.6, 0.4])  # 12 and 8 of 20 villages
    assert np.array_equal(arrange(log, ordered=False)[0].propensities, log.propensities)
    made = pb.certify(log, pb.Trees.learn(pb.Contexts.of([[0.0], [1.0]], names=["age"]), n_actions=2, depth=0))
    assert made.certificate.units == log.n_units
    assert made.verify().good
    rows = table.to_pylist()
    first = rows.index(next(row for row in rows if sum(other["village"] == row["village"] for other in rows) > 1))
    for column, value in (("class", "small"), ("school", "d9")):
        other = [dict(row) for row in rows]
        other[first][column] = value
        what = "action" if column == "class" else "block"
        with pytest.raises(pb.InputError, match=f"has another {what} than other rows of its unit"):
            read(pa.Table.from_pylist(other), unit="village")


def test_clusters_of_many_rows_do_not_come_first():
    """Else the ones that teach and the ones that bet would differ, and a gain of 0.55 was proven where it is 0.28."""
    rng, n = np.random.default_rng(5), 400
    sizes, arms = np.where(rng.random(n) < 0.3, 12, 1), np.tile(["new", "usual"], n // 2)
    person = np.repeat(np.arange(n), sizes)
    table = pa.table(
        {
            "school": [f"s{one % 4 // 2}" for one in person],
            "person": person,
            "class": arms[person],
            "passed": rng.integers(0, 2, len(person)),
        }
    )
    log = read(table, unit="person")
    first = np.bincount(log.units)[log.units[np.flatnonzero(np.diff(log.units, prepend=-1))]]
    assert (first[: len(first) // 4] > 1).mean() == pytest.approx((sizes > 1).mean(), abs=0.16)
    mixed = read(table.take(rng.permutation(len(table))), unit="person")
    assert np.array_equal(mixed.rewards, log.rewards)
    assert np.array_equal(mixed.propensities, log.propensities)


@pytest.mark.slow
def test_gains_of_clusters_whose_effect_depends_on_their_size_are_true():
    """New helps the many small clusters and harms the large ones: 0.7 · 0.6 − 0.3 · 0.46 in all."""
    trials, delta, truth, wrong = 12, 0.2, 0.7 * 0.6 - 0.3 * 0.46, 0
    constants = pb.Trees.learn(pb.Contexts.of([[0.0], [1.0]], names=["age"]), n_actions=2, depth=0)
    for seed in range(trials):
        rng, n = np.random.default_rng(seed), 3000
        large, new = rng.random(n) < 0.3, np.arange(n) // 4 % 2 == 0
        means = np.where(large, np.where(new, 0.2, 0.66), np.where(new, 0.8, 0.2))
        person = np.repeat(np.arange(n), np.where(large, 8, 1))
        columns = {"school": [f"s{one % 4}" for one in person], "age": rng.random(len(person)), "person": person}
        columns["class"] = np.where(new, "new", "usual")[person]
        columns["passed"] = (rng.random(len(person)) < means[person]).astype(int)
        log = read(pa.table(columns), unit="person", without=["school"])
        made = pb.certify(log, constants, delta=delta, control="usual")
        value = pb.evaluate(log, "new", delta=delta).over_each[log.action_names.index("usual")]
        wrong += made.gain > truth or not value.low <= truth <= value.high
    assert wrong <= binom.ppf(1 - 1e-3, trials, 2 * delta)


def test_no_arrangement_of_a_file_chooses_which_values_of_a_metric_bet():
    """Rows that differ in a metric alone are different rows, whose places do not follow from their order in a file."""
    rng, n = np.random.default_rng(6), 300
    table = pa.table(
        {
            "school": np.repeat(["a", "b"], n // 2),
            "class": np.tile(["new", "usual"], n // 2),
            "passed": rng.integers(0, 2, n),
            "returned": rng.integers(0, 2, n),
        }
    )
    orders = np.arange(n), rng.permutation(n), np.argsort(table["returned"].to_numpy())
    logs = [read(table.take(order), metrics=["returned"]) for order in orders]
    assert all(np.array_equal(one.metric_values, logs[0].metric_values) for one in logs)


BAD = {
    "missing column": ({"block": "skool"}, "there is no column 'skool'; did you mean 'school'?"),
    "too many": ({"block": "age"}, r"column 'age' has .* values in .* rows, and a block has two rows or more"),
    "the action": ({"block": "class"}, "the column 'class' is used twice"),
    "with times": ({"time": "age"}, "read in a random order; leave out time"),
    "no column": ({"block": None, "split": SPLIT}, r"name the column of blocks \(block="),
    "a block lacks": (
        {"split": {"s00": {"small": 0.5, "regular": 0.5}}},
        "no probabilities for the block 's01' of 'school'",
    ),
    "not 1": ({"split": {"s00": {"small": 0.5, "regular": 0.4}}}, "the block 's00' sum to 0.9; they must sum to 1"),
    "half by block": ({"split": {"s00": {"small": 1.0}, "small": 0.5}}, "gives 'small' one number"),
    "other action": (
        {"split": {f"s0{k}": {"tiny": 0.5, "small": 0.5} for k in range(3)}},
        "would give 'tiny' to about .* rows, but no row has it in column 'class'",
    ),
    "negative": ({"split": {"s00": {"small": -1.0, "regular": 2.0}}}, "block 's00'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_blocks_are_refused_in_a_sentence(case):
    given, words = BAD[case]
    with pytest.raises(pb.InputError, match=words) as error:
        read(pupils(schools=3)[0], **given)
    assert "\n" not in str(error.value)


def test_a_block_with_one_action_is_named_and_nothing_is_written(command, tmp_path):
    table = pupils(schools=3)[0]
    alone = pa.table({"school": ["x"] * 4, "age": [0.5] * 4, "class": ["small"] * 4, "passed": [1] * 4})
    path = written(tmp_path / "pupils.csv", pa.concat_tables([table, alone]))
    asked = ("certify", path, "--action", "class", "--reward", "passed", "--block", "school")
    code, _, err = command(*asked, "--certificate", tmp_path / "proof.json")
    assert code == 2
    assert "the block 'x' of 'school' has a single action, small (4 rows), so that nothing is compared there" in err
    assert not (tmp_path / "proof.json").exists()
    missing = table.set_column(0, "school", pa.array([None, *table["school"].to_pylist()[1:]]))
    with pytest.raises(pb.InputError, match="has no value in column 'school'; every row belongs to a block"):
        read(missing)


def test_a_file_of_probabilities_is_read_or_refused(tmp_path):
    path = tmp_path / "split.csv"
    path.write_text("action,block,probability\nsmall,a,1/4\nregular,a,75%\nsmall,b,0\nregular,b,1\n")
    assert blocks.read_split(str(path)) == {"a": {"small": 0.25, "regular": 0.75}, "b": {"small": 0.0, "regular": 1.0}}
    for text, words in (
        ("block,arm,p\n", "must have the columns block, action, probability"),
        ("block,action,probability\n", "has no lines"),
        ("block,action,probability\na,small,2\n", "it must lie above 0 and up to 1"),
        ("block,action,probability\na,small,1\na,small,1\n", "two lines for 'small' in the block 'a'"),
    ):
        path.write_text(text)
        with pytest.raises(pb.InputError, match=words):
            blocks.read_split(str(path))
    with pytest.raises(pb.InputError, match="cannot read"):
        blocks.read_split(str(tmp_path / "none.csv"))
    assert blocks.read_split("a=0.5,b=0.5") == "a=0.5,b=0.5"
