"""The memory that this process can still use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def free_memory_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory in bytes that the machine and the process's control groups leave free, or None if unknown.

    root: the folder that contains proc and sys.
    """
    found = [*_of_the_machine(root), *_of_control_groups(root)]
    return max(0, min(found)) if found else None


def _of_the_machine(root: Path) -> Iterator[int]:
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable" and rest.split():
            yield from (1024 * amount for amount in _numbers(rest.split()[0]))
            return
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_control_groups(root: Path) -> Iterator[int]:
    """Yield the free memory of each control group, from the process's own to the outermost; version 2, then 1."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        kinds, _, own = rest.partition(":")
        if number == "0":
            yield from _left(root / "sys/fs/cgroup", own, limit="memory.max", used="memory.current")
        elif "memory" in kinds.split(","):
            place = root / "sys/fs/cgroup/memory"
            yield from _left(place, own, limit="memory.limit_in_bytes", used="memory.usage_in_bytes")


def _left(place: Path, own: str, *, limit: str, used: str) -> Iterator[int]:
    group = place / own.lstrip("/")
    while True:
        for most in _numbers(_read(group / limit)):
            # The inactive page cache is reclaimed on demand.
            idle = sum(_numbers(_entry(group / "memory.stat", "inactive_file")))
            yield most - max(sum(_numbers(_read(group / used))) - idle, 0)
        if group == place or place not in group.parents:
            return
        group = group.parent


def _entry(path: Path, name: str) -> str:
    """Return the value of a name in a file of names and values."""
    return next((line.split()[1] for line in _read(path).splitlines() if line.split()[:1] == [name]), "")


def _numbers(text: str) -> list[int]:
    """Return the number that the text is, if it is one: "max" means no limit."""
    return [int(text)] if text.strip().isdigit() else []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
