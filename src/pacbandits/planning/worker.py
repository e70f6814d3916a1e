"""A process that plays trials of a plan: told on standard input which, it says on standard output what came of each.

It is started by `pool`, which hands over what is supposed before the first line; nobody else should.
"""

from __future__ import annotations

import json
import pickle
import struct
import sys
from typing import BinaryIO, cast

from pacbandits.compiled import using_cores
from pacbandits.errors import InputError
from pacbandits.planning.assumptions import Assumptions
from pacbandits.planning.playing import Played, Question, play

LENGTH = struct.Struct("<Q")


def play_one(supposed: Assumptions, asked: Question, scenario: int, number: int, algorithm: str) -> Played:
    """One trial of a plan; the same whoever plays it."""
    problem = supposed.problem(scenario, number)
    return play(problem, algorithm, asked, scenario=scenario, number=number, seed=supposed.seed)


def play_job(told: tuple[Assumptions, Question], job: tuple[int, int, str]) -> Played:
    """The same, for a worker of a cluster."""
    return play_one(*told, *job)


def serve(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Play what is asked for, until nothing more is."""
    (length,) = LENGTH.unpack(incoming.read(LENGTH.size))
    # From the process that started this one, through a pipe that no other can write to.
    supposed, asked = cast(tuple[Assumptions, Question], pickle.loads(incoming.read(length)))
    for line in incoming:
        scenario, number, algorithm = line.decode().split()
        try:
            with using_cores(1):
                said = play_one(supposed, asked, int(scenario), int(number), algorithm).to_json()
        except InputError as error:
            said = {"error": str(error)}
        outgoing.write(json.dumps(said).encode() + b"\n")
        outgoing.flush()


def main() -> None:
    """Serve whoever started this process."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
