"""The files that names, folders and patterns stand for, in order."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from pacbandits.errors import InputError, plain
from pacbandits.records import parquet

ENDINGS = (".parquet", ".pq", ".parq", *parquet.DELIMITERS)


def expand(patterns: Sequence[str | Path]) -> list[Path]:
    """The files that each pattern stands for: a file, a folder of tables, or a pattern such as `logs/2026-*/*.parquet`.

    Within a folder or pattern they are in the order of their names, in which part-9 comes before part-10.
    """
    out: list[Path] = []
    for pattern in patterns:
        out += _expand(str(pattern))
    seen: set[Path] = set()
    for path in out:
        real = path.resolve()
        if real in seen:
            raise InputError(f"{path} is named twice; a row counts once: name each file once")
        seen.add(real)
    if not out:
        raise InputError("no files are named; name one, a folder, or a pattern such as 'logs/*.parquet'")
    return out


def _expand(pattern: str) -> list[Path]:
    path = Path(pattern)
    try:
        folder, there = path.is_dir(), path.exists()
    except (OSError, ValueError):
        return [path]  # whoever opens it will say why it cannot be
    if folder:
        found = [one for one in path.iterdir() if _is_table(one)]
        if not found:
            raise InputError(f"the folder {path} has no tables in it ({', '.join(ENDINGS)}); name files, or a pattern")
        return sorted(found, key=_natural)
    if there or not glob.has_magic(pattern):
        return [path]
    found = [Path(one) for one in glob.glob(pattern, recursive=True)]  # noqa: PTH207, for patterns from the root on
    found = [one for one in found if one.is_file()]
    if not found:
        raise InputError(f"no file matches '{plain(pattern)}'; correct the pattern")
    return sorted(found, key=_natural)


def _is_table(path: Path) -> bool:
    return path.is_file() and not path.name.startswith((".", "_")) and parquet.suffix(path) in ENDINGS


def _natural(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    """What files are sorted by: numbers within names count as such."""
    pieces = re.split(r"([0-9]+)", str(path))
    return [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in pieces], str(path)
