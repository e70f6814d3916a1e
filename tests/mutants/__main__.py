"""Make each change of the table in a copy of the code, and see whether its test notices: a part of `make test-all`.

    python -m tests.mutants              all of them, on all cores
    python -m tests.mutants verify caps  those with one of these words in what they say, their file or their tests

Exit code 1 when a change goes unnoticed, cannot be made, or keeps its tests from running.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from pacbandits.compiled import cores
from tests.mutants.copies import CRASHED, PYTEST_FAILED, PYTEST_PASSED, Copy, fault, has_kernels
from tests.mutants.table import MUTANTS, Mutant


def main(words: list[str]) -> int:
    """Try those that have one of these words, or all; the exit code."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in " ".join(mutant) for word in words)]
    bad = [f"{mutant.words}: {why}" for mutant in chosen if (why := fault(mutant))]
    if bad:
        print("\n".join(["the table does not fit the code:", *bad]))
        return 1
    with TemporaryDirectory() as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()  # those that nobody works in
        for number in range(cores()):
            copies.put(Copy(Path(folder) / str(number)))
        tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests.split()))
        with ThreadPoolExecutor(cores()) as pool:
            parts = [tests[number :: cores()] for number in range(min(cores(), len(tests)))]
            for code, last in pool.map(lambda some: _unchanged(copies, some), parts):
                if code != PYTEST_PASSED:
                    print(f"the tests fail before anything is changed:\n{last}")
                    return 1
            noticed = list(pool.map(lambda numbered: _noticed(copies, *numbered), enumerate(chosen, 1)))
    for number, (mutant, seen) in enumerate(zip(chosen, noticed, strict=True), 1):
        if not seen:
            print(f"missed: {number} {mutant.file}: {mutant.words}")
    print(f"{sum(noticed)} of {len(chosen)} noticed")
    return 0 if all(noticed) else 1


def _unchanged(copies: SimpleQueue[Copy], tests: list[str]) -> tuple[int, str]:
    """The exit code and the last words of the tests of a copy that is as it was."""
    copy = copies.get()
    try:
        return copy.run(tests, fresh=False)
    finally:
        copies.put(copy)


def _noticed(copies: SimpleQueue[Copy], number: int, mutant: Mutant) -> bool:
    """Whether every test of a mutant fails, each by itself; said in a line."""
    began, copy = time.perf_counter(), copies.get()
    try:
        with copy.changed(mutant):
            outcomes = {test: copy.run([test], fresh=has_kernels(mutant)) for test in mutant.tests.split()}
    finally:
        copies.put(copy)
    seconds = time.perf_counter() - began
    missed = {test: (code, last) for test, (code, last) in outcomes.items() if code not in (PYTEST_FAILED, *CRASHED)}
    said = "NOTICED" if not missed else "MISSED"
    print(f"{number:3d} {said:8s}{seconds:6.1f} s  {mutant.file}: {mutant.words}", flush=True)
    for test, (code, last) in missed.items():
        print(f"      {test}: " + ("passes" if code == PYTEST_PASSED else f"did not run ({code}): {last}"), flush=True)
    return not missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
