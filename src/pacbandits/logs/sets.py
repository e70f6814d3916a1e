"""Data sets of several files, read block by block: a log that may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.engines.base import ROWS_PER_BLOCK
from pacbandits.errors import InputError, count_of
from pacbandits.logs.converting import Folder, convert
from pacbandits.logs.parts import Parts, SetCells, in_blocks, list_parts
from pacbandits.logs.reading import ReadingOptions
from pacbandits.logs.recipe import Recipe
from pacbandits.logs.surveying import Survey, survey
from pacbandits.progress import Progress, heard_by, listener
from pacbandits.records import parquet
from pacbandits.records.files import naming
from pacbandits.records.log import Log


@dataclass(frozen=True, eq=False)
class FileSet:
    """A log made of the rows of several files, in order; a `Source` of blocks for engines.

    parts: the files.
    recipe: how rows become a log.
    seen: what holds of all rows.
    block_rows: how many rows a block has.
    folder: the temporary Parquet files that text was converted to; None for Parquet.
    """

    parts: Parts
    recipe: Recipe
    seen: Survey
    block_rows: int = ROWS_PER_BLOCK
    folder: Folder | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the temporary folder, which only the process that opened the data set may remove."""
        return {name: value for name, value in self.__dict__.items() if name != "head"} | {"folder": None}

    def close(self) -> None:
        """Remove the temporary files; the data set cannot be read any more."""
        if self.folder is not None:
            self.folder.close()

    @property
    def n_rows(self) -> int:
        return self.parts.n_rows

    def __len__(self) -> int:
        return self.n_rows

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        """The blocks from number `first` up to and without `last`."""
        start, stop = first * self.block_rows, min(last * self.block_rows, self.n_rows)
        own = self.recipe.own
        called = {"action": own.action, "reward": own.reward, "propensity": own.played or "propensity"}
        pieces = self.parts.read_rows(start, stop, self.recipe.columns, most=self.block_rows)
        for columns in in_blocks(pieces, rows=self.block_rows):
            places = np.arange(start, start + len(columns[own.action]))
            start += len(places)
            yield self.recipe.make(columns, SetCells(self.parts.line, called, places, self.parts))

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        """All blocks in runs of at most so many, or as many as a row group has; most begin where one does."""
        last = -(-self.n_rows // self.block_rows)
        starts = (start // self.block_rows for start in self.parts.group_starts() if start < self.n_rows)
        cuts = sorted({*starts, last})
        out: list[range] = []
        first = 0
        for before, cut in pairwise(cuts):
            if cut - first > most_blocks and before > first:
                out.append(range(first, before))
                first = before
        out.append(range(first, last))
        return [stripe for stripe in out if len(stripe)]

    @cached_property
    def head(self) -> Log:
        """The first block."""
        return next(self.blocks(0, 1))

    @property
    def form(self) -> Log:
        """A log of one row with the names, categories and remarks of all."""
        return self.recipe.form

    @property
    def n_actions(self) -> int:
        return self.form.n_actions

    @property
    def action_names(self) -> tuple[str, ...] | None:
        return self.form.action_names

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.form.reward_range

    @property
    def dates(self) -> tuple[str, ...]:
        return self.form.dates

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.form.remarks

    @property
    def assumed(self) -> tuple[str, ...]:
        """The remarks, and what was declared of propensities that the files do not tell."""
        return self.seen.assumed

    @property
    def fixed_split(self) -> bool:
        """Whether the propensities of all actions are the same in all rows."""
        return self.seen.fixed_split

    @property
    def has_rounds(self) -> bool:
        """Whether there is more than one round."""
        return len(self.seen.round_counts) > 1

    @property
    def round_counts(self) -> dict[int, int]:
        """How many interactions each round has."""
        return dict(self.seen.round_counts)

    @property
    def rounds_rise(self) -> bool:
        """Whether rows stand in the order of their rounds."""
        return self.seen.rounds_rise

    @property
    def samples(self) -> int:
        """How many interactions there were, repeats included."""
        return self.seen.samples

    @property
    def max_repeats(self) -> int:
        """How often a row occurred at most."""
        return self.seen.max_repeats


def open_set(
    paths: Sequence[str | Path],
    options: ReadingOptions | None = None,
    *,
    progress: Progress | None = None,
    block_rows: int = ROWS_PER_BLOCK,
) -> FileSet:
    """Open files as one log, in the order given; all rows are read once to survey them.

    options: what the files do not tell. progress: called with the number of rows surveyed.
    """
    asked = ReadingOptions() if options is None else options
    if asked.position is not None:
        raise InputError("tables have no positions; leave out --position")
    files = [Path(path) for path in paths]
    if not files:
        raise InputError("a data set needs at least one file; name it")
    with nullcontext() if progress is None else heard_by(listener(progress)):
        parts, folder = _parts(files, asked)
        try:
            with naming(Path(_all_names(files))):
                seen = survey(parts, asked)
        except BaseException:
            if folder is not None:
                folder.close()
            raise
        recipe = Recipe.of(parts, seen, asked)
        seen = replace(seen, witnesses=recipe.form, spelt={})  # which is little, and can be sent elsewhere
        return FileSet(parts, recipe, seen, block_rows, folder)


def _all_names(files: Sequence[Path]) -> str:
    """What to call all files."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {count_of(len(files) - 1, 'more file')}, as one table"


def _parts(paths: list[Path], options: ReadingOptions) -> tuple[Parts, Folder | None]:
    """The files as one table, and the temporary folder if they were converted from text."""
    names = [str(path) for path in paths]
    text = [parquet.suffix(path) in parquet.DELIMITERS for path in paths]
    if not any(text):
        return list_parts(paths, names=names), None
    if not all(text):
        one, other = names[text.index(True)], names[text.index(False)]
        raise InputError(f"{one} is text and {other} is not; the files of a data set must be of one kind")
    made = convert(paths, action=options.action or "action")
    parts = list_parts(made.paths, names=names)
    return replace(parts, remarks=made.remarks, text=paths[0] if len(paths) == 1 else None), made.folder
