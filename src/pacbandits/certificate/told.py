"""What a certificate tells of the log it was made from."""

from __future__ import annotations

from typing import Protocol

from pacbandits.arrays import IntArray


class ToldOfLog(Protocol):
    """What a certificate tells of the log it was made from: a `Log`, or what stands for one in files."""

    def __len__(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def n_units(self) -> int: ...
    @property
    def assumed(self) -> tuple[str, ...]: ...
    @property
    def action_names(self) -> tuple[str, ...] | None: ...
    @property
    def reward_range(self) -> tuple[float, float]: ...
    @property
    def dates(self) -> tuple[str, ...]: ...
    @property
    def units(self) -> IntArray | None: ...
