"""Disks that count their steps, and end the process, fail or take notes at one of them."""

from __future__ import annotations

import os
import signal

from pacbandits.trials.state_folder import Disk


class CountingDisk(Disk):
    """Calls `at_step` before every step, with what it is about to do; steps: how many there were."""

    def __init__(self):
        self.steps = 0

    def at_step(self, name, *what):
        """What a test does there."""

    def _step(self, name, *what):
        self.at_step(name, *what)
        self.steps += 1

    def make_folder(self, folder):
        self._step("make_folder", folder)
        super().make_folder(folder)

    def create(self, path):
        self._step("create", path)
        return super().create(path)

    def write(self, file, data):
        self._step("write", file, data)
        super().write(file, data)

    def flush(self, file):
        self._step("flush", file)
        super().flush(file)

    def close(self, file):
        self._step("close", file)
        super().close(file)

    def rename(self, old, new):
        self._step("rename", old, new)
        super().rename(old, new)

    def remove(self, path):
        self._step("remove", path)
        super().remove(path)

    def flush_folder(self, folder):
        self._step("flush_folder", folder)
        super().flush_folder(folder)


class KillingDisk(CountingDisk):
    """Kills its own process, as `kill -9` does, at the given step; a write is then half done."""

    def __init__(self, last):
        super().__init__()
        self.last = last

    def at_step(self, name, *what):
        if self.steps == self.last:
            if name == "write":
                file, data = what
                os.write(file, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)


class FailingDisk(CountingDisk):
    """Raises at the given step, once."""

    def __init__(self, last, error):
        super().__init__()
        self.last, self.error = last, error

    def at_step(self, name, *what):
        if self.steps == self.last:
            self.steps += 1
            raise self.error


class NotingDisk(CountingDisk):
    """Writes nothing down but what it was asked to do, after it has done it: (step, arguments), by names of files."""

    def __init__(self):
        super().__init__()
        self.done, self.open = [], {}

    def create(self, path):
        file = super().create(path)
        self.open[file] = path.name
        self.done.append(("create", path.name))
        return file

    def write(self, file, data):
        super().write(file, data)
        self.done.append(("write", self.open[file], data))

    def flush(self, file):
        super().flush(file)
        self.done.append(("flush", self.open[file]))

    def rename(self, old, new):
        super().rename(old, new)
        self.done.append(("rename", old.name, new.name))

    def remove(self, path):
        super().remove(path)
        self.done.append(("remove", path.name))

    def flush_folder(self, folder):
        super().flush_folder(folder)
        self.done.append(("flush_folder",))
