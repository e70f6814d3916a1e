"""Trials that randomise within blocks: propensities that were declared for each block, or counted down in it.

**Counted blocks.** If a block has n_a rows of each action a, and every arrangement of them is equally likely, then in
any order that was drawn without regard to actions the next row of the block has action a with probability

    p(a) = (rows of a that remain)/(rows that remain),

given all contexts, the rewards of all actions, and the actions of all earlier rows. It is known before the row, so that
scores are unbiased given the past. Towards the end of a block some p(a) fall to 0. So rows are left out from the first
one on at which some p(a) is below a floor, which is decided by earlier rows alone.

With g the mean of the score X of a row given its context, the product of (1 + λ(ε − X))/(1 + λ(ε − g)) over the rows
that count is thus a martingale whatever these rows are, and Π(1 + λ(ε − g)) ≤ (1 + λ(ε − ḡ))ⁿ, ḡ the average of g over
them. So a proof holds for averages over the rows that count; and for the distribution that rows were drawn from if
those that count are draws from it, as certificates assume: blocks that lose more rows than others count less.

**The order** is a pseudo-random permutation of the sorted rows, whose key is a digest of all of them. It does not
depend on the order of the file, which may be sorted by action; and other data have another permutation. It is the order
of the log that is returned, and in which it is certified.

**Clusters.** If rows have units, a unit has one draw: units are counted, and all rows of one have its probability. They
are permuted as wholes, so that each is as likely to come early. (In the order of their first rows in a permutation of
all rows, units of many rows would come first, and those that teach and those that bet would differ.)
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import path_of
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.logs.raw_log import MIN_EXPECTED_PLAYS, read_share, shortest
from pacbandits.records.columns import CellNames, is_list, is_text, pa
from pacbandits.records.log import Log, number_units
from pacbandits.records.policy import call
from pacbandits.records.row_order import BY_BLOCK, COUNTED_ROWS, COUNTED_UNITS

FLOOR_SHARE = 0.25  # of an action's share of its block: rows are left out once its probability is below this
SPLIT_COLUMNS = ("block", "action", "probability")

BlockShares = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The block of each row.

    name: the column.
    labels (B,): the blocks, sorted.
    codes (n,): the number of each row's block.
    """

    name: str
    labels: tuple[str, ...]
    codes: IntArray

    @classmethod
    def of(cls, column: Any, name: str, cells: CellNames) -> Blocks:
        """Return the blocks that a column of text or numbers names; cells: names of its rows in messages."""
        if is_list(column.type):
            raise InputError(f"column '{plain(name)}' holds lists; a block must be text or a number")
        coded = column if is_text(column.type) else column.dictionary_encode()
        missing = coded.indices.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_floating(column.type):
            missing = missing | np.isnan(column.to_numpy(zero_copy_only=False))
        if missing.any():
            others = "" if (count := int(missing.sum())) == 1 else f", as do {count - 1:,} more"
            raise InputError(
                f"{cells.row(int(missing.argmax()))} has no value in column '{plain(name)}'{others}; every row belongs "
                "to a block: fill or drop those"
            )
        spelt: list[str] = [
            shortest(one) if isinstance(one, float) else str(one) for one in coded.dictionary.to_pylist()
        ]
        codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        there: list[int] = np.unique(codes).tolist()
        named = [spelt[code] for code in there]
        labels = sorted(set(named))
        place = {label: k for k, label in enumerate(labels)}
        places = np.array([place[label] for label in named], dtype=np.int64)
        return cls(name, tuple(labels), places[np.searchsorted(there, codes)])

    def take(self, rows: IntArray) -> Blocks:
        """Return the blocks of the given rows."""
        return replace(self, codes=self.codes[rows])

    def propensities(self, shares: Mapping[str, FloatArray], cells: CellNames) -> FloatArray:
        """Return the propensities (n, A) of each row's block; raise InputError if one was not declared."""
        for code, label in enumerate(self.labels):
            if label not in shares:
                row = cells.row(int((self.codes == code).argmax()))
                raise InputError(
                    f"the split has no probabilities for the block '{plain(label)}' of '{plain(self.name)}' ({row}); "
                    f"add them{nearest(label, shares)}"
                )
        out = np.array([shares[label] for label in self.labels])[self.codes]
        out.setflags(write=False)
        return out


def declared_shares(split: BlockShares, actions: tuple[str, ...]) -> dict[str, FloatArray]:
    """Return the propensities (A,) of each block, from those that were declared; an action not named has 0."""
    for block, shares in split.items():
        for name in shares:
            if name not in actions:
                raise InputError(
                    f"the split speaks of an action '{plain(name)}' (block '{plain(block)}') that the log does not"
                    f"{nearest(name, actions)}"
                )
    return {block: np.array([shares.get(name, 0.0) for name in actions]) for block, shares in split.items()}


def check_played_at_all(propensities: FloatArray, actions: IntArray, names: tuple[str, ...], column: str) -> None:
    """Raise InputError if no row has an action that many rows should have by their propensities (n, A)."""
    expected = propensities.sum(axis=0)
    unplayed: list[int] = np.setdiff1d(np.arange(len(names)), actions).tolist()
    for action in unplayed:
        if expected[action] >= MIN_EXPECTED_PLAYS:
            raise InputError(
                f"the split would give '{plain(names[action])}' to about {expected[action]:,.0f} rows, but no row has "
                f"it in {column}; correct the name, or leave it out of the split"
            )


def declared_words(name: str, split: BlockShares) -> str:
    """Return the assumption of declared probabilities, in words."""
    return f"{BY_BLOCK} ('{plain(name)}', {count_of(len(split), 'block')} declared)"


def read_split(given: Any) -> Any:
    """Return a split with the content of its file, if it names a CSV file; any other split as it is.

    The file has columns block, action and probability, and a line for each action of each block.
    """
    if not isinstance(given, str | Path) or not str(given).strip().lower().endswith(".csv"):
        return given
    path = path_of(given, name="split")
    found: dict[str, dict[str, float]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            names = [name.strip() for name in rows.fieldnames or ()]
            if sorted(names) != sorted(SPLIT_COLUMNS):
                raise InputError(f"{path} must have the columns {', '.join(SPLIT_COLUMNS)}, not {plain(names)}")
            rows.fieldnames = names
            for row in rows:
                block, action, share = ((row[name] or "").strip() for name in SPLIT_COLUMNS)
                own = found.setdefault(block, {})
                if action in own:
                    raise InputError(f"{path} has two lines for '{plain(action)}' in the block '{plain(block)}'")
                own[action] = 0.0 if share in ("0", "0.0") else read_share(share, f"{action}, block {block}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {plain(getattr(error, 'strerror', None) or error)}") from None
    if not found:
        raise InputError(f"{path} has no lines; write one for each action of each block")
    return found


def count_down(log: Log, blocks: Blocks, cells: CellNames) -> Log:
    """Return the rows that count, in the order drawn, with the propensities by counts; see the module docstring.

    log: with any propensities. If it has units, these are counted, as all rows of one have one draw. Raise InputError
    if a block has a single action.
    """
    order = drawn_order(log, blocks.codes)
    which = np.arange(len(log)) if log.units is None else number_units(log.units[order])
    first = np.unique(which, return_index=True)[1]
    codes, actions = blocks.codes[order], log.actions[order]
    if log.units is not None:
        _check_clusters(codes != codes[first][which], actions != actions[first][which], order, cells)
    counts = np.zeros((len(blocks.labels), log.n_actions), dtype=np.int64)
    np.add.at(counts, (codes[first], actions[first]), 1)
    _check_compared(log, blocks, counts)
    found, counted = _remaining(codes[first], actions[first], counts)
    propensities, kept = found[which], counted[which]
    lacking = int((counts == 0).any(axis=1).sum())
    what = COUNTED_ROWS if log.units is None else COUNTED_UNITS
    whole = "" if log.units is None else ", each unit as a whole"
    words = (
        f"{what} ({count_of(len(blocks.labels), 'block')}, '{plain(blocks.name)}'); rows were read in a random "
        f"order{whole}, {int((~kept).sum()):,} of {len(log):,}, the last of their blocks, were left out, and values "
        "are averages over the others"
    )
    words += f"; in {count_of(lacking, 'block')} not every action was given" if lacking else ""
    drawn = replace(log.take(order), propensities=propensities, remarks=(*log.remarks, words))
    return drawn.only(kept)


def _remaining(codes: IntArray, actions: IntArray, counts: IntArray) -> tuple[FloatArray, BoolArray]:
    """Return the propensities (n, A) by the counts that remain before each row, and which rows (n,) count.

    codes, actions (n,): of the rows in their order. counts (B, A): of each action in each block.
    """
    n, sizes = len(codes), counts.sum(axis=1)
    rows = np.argsort(codes, kind="stable")
    block = codes[rows]
    starts = np.searchsorted(block, np.arange(len(counts)))
    played: IntArray = np.equal(actions[rows][:, None], np.arange(len(counts[0]))).astype(np.int64)
    before: IntArray = np.cumsum(played, axis=0) - played
    left = counts[block] - (before - before[starts][block])
    found = left / (sizes[block] - (np.arange(n) - starts[block]))[:, None]
    low: IntArray = (found < FLOOR_SHARE * (counts / sizes[:, None])[block]).any(axis=1).astype(np.int64)
    ended = np.cumsum(low) - (np.cumsum(low) - low)[starts][block] > 0
    propensities, kept = np.empty(found.shape), np.empty(n, dtype=np.bool_)
    propensities[rows], kept[rows] = found, ~ended
    return propensities, kept


def drawn_order(log: Log, codes: IntArray) -> IntArray:
    """Return a pseudo-random order (n,) of rows that depends on their content alone; codes (n,): of their blocks.

    Rows, or units with all their rows, are sorted, and then permuted by random bits whose key is a digest of all rows.
    """
    contexts = log.contexts
    columns = [contexts.features[:, j] + 0.0 for j in range(contexts.n_features)]  # -0.0 is 0.0
    columns += [np.where(np.isnan(log.rewards), np.nan, log.rewards + 0.0), log.actions, codes]
    columns += [contexts.ids] if contexts.ids is not None else []
    columns += [contexts.phi.codes] if contexts.phi is not None else []
    columns += [] if log.metric_values is None else list(log.metric_values.T + 0.0)
    content = np.lexsort(columns)
    table = np.array([np.nan_to_num(column[content], nan=-1e300) for column in columns], dtype="<f8")
    digest = sha256(table.tobytes())
    if log.units is None:
        return content[_permutation(digest.digest(), len(content))]
    rank = np.empty(len(content), dtype=np.int64)  # the same for equal rows
    rank[content] = np.cumsum(np.r_[False, (table[:, 1:] != table[:, :-1]).any(axis=0)])
    units = number_units(log.units)
    rows = np.lexsort((rank, units))
    items = np.split(rows, np.flatnonzero(np.diff(units[rows])) + 1)
    items.sort(key=lambda own: rank[own].tolist())
    digest.update(np.array([len(own) for own in items], dtype="<i8").tobytes())
    digest.update(rank[np.concatenate(items)].astype("<i8").tobytes())
    drawn: list[int] = _permutation(digest.digest(), len(items)).tolist()
    return np.concatenate([items[place] for place in drawn])


def _permutation(key: bytes, count: int) -> IntArray:
    """Return a pseudo-random permutation of so many things."""
    bits = np.random.Philox(key=int.from_bytes(key[:16], "little")).random_raw(count)
    return np.argsort(bits, kind="stable")


def _check_compared(log: Log, blocks: Blocks, counts: IntArray) -> None:
    """Raise InputError if there are too many blocks, or one has a single action; counts (B, A): of rows, or units."""
    name, noun, total = plain(blocks.name), "row" if log.units is None else "unit", int(counts.sum())
    if len(blocks.labels) > total // 2:
        raise InputError(
            f"column '{name}' has {len(blocks.labels):,} values in {count_of(total, noun)}, and a block has two "
            f"{noun}s or more; name the column of the blocks (--block COLUMN)"
        )
    alone = np.flatnonzero((counts > 0).sum(axis=1) == 1)
    if len(alone):
        first = int(alone[0])
        rows, action = count_of(int(counts[first].sum()), noun), call(int(counts[first].argmax()), log.action_names)
        others = f", as do {count_of(len(alone) - 1, 'more block')}" if len(alone) > 1 else ""
        raise InputError(
            f"the block '{plain(blocks.labels[first])}' of '{name}' has a single action, {plain(action)} ({rows})"
            f"{others}, so that nothing is compared there; leave such blocks out, or leave out --block"
        )


def _check_clusters(moved: BoolArray, changed: BoolArray, order: IntArray, cells: CellNames) -> None:
    """Raise InputError if a unit has rows (n,) of another block, or of another action, than its first row."""
    for wrong, what in ((moved, "block"), (changed, "action")):
        if wrong.any():
            raise InputError(
                f"{cells.row(int(order[wrong.argmax()]))} has another {what} than other rows of its unit, and in "
                "counted blocks a unit has one draw; correct it, or leave out --unit"
            )


def check_countable(log: Log, *, time: str | None) -> None:
    """Raise InputError if the rows of a log cannot be counted down: its rounds or times are another design."""
    declare = "declare the probabilities of each block (--split blocks.csv)"
    if time is not None:
        raise InputError(f"rows of counted blocks are read in a random order; leave out --time, or {declare}")
    if log.known is not None or log.repeats.max() > 1 or (log.rounds != log.rounds[0]).any():
        raise InputError(f"blocks are counted in a log of single rows, without rounds or late rewards; {declare}")
