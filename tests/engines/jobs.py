"""Jobs for processes of this machine, which import this module."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from pacbandits.compiled import cores
from pacbandits.errors import InputError


def do(shared, job):
    """What a job says: a number is added to what is shared."""
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "refuse":
        raise InputError("not this one; say --epsilon 2")
    if job == "print":
        print("words", flush=True)
    if job == "pid":
        return os.getpid()
    if job == "threads":
        return cores(), os.environ["OPENBLAS_NUM_THREADS"]
    if isinstance(job, tuple):  # a file that tells who sleeps, and for how long
        Path(job[0]).write_text(str(os.getpid()))
        time.sleep(job[1])
        Path(job[0]).unlink()
    return shared + job if isinstance(job, int) else job
