"""`make mutants`: make each change of the table in a copy of the code, and see whether its test notices.

    python -m tests.mutants              all of them: about a quarter of an hour
    python -m tests.mutants verify caps  those with one of these words in what they say, their file or their tests

Exit code 1 when a change goes unnoticed, cannot be made, or keeps its tests from running.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.copies import PYTEST_FAILED, PYTEST_PASSED, Copy, fault, has_kernels
from tests.mutants.table import MUTANTS, Mutant


def main(words: list[str]) -> int:
    """Try those that have one of these words, or all; the exit code."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in " ".join(mutant) for word in words)]
    bad = [f"{mutant.words}: {why}" for mutant in chosen if (why := fault(mutant))]
    if bad:
        print("\n".join(["the table does not fit the code:", *bad]))
        return 1
    with TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        tests = dict.fromkeys(test for mutant in chosen for test in mutant.tests.split())
        code, last = copy.run(list(tests), fresh=False)
        if code != PYTEST_PASSED:
            print(f"the tests fail before anything is changed:\n{last}")
            return 1
        survivors = [mutant for number, mutant in enumerate(chosen, 1) if not _noticed(copy, mutant, number)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    return 1 if survivors else 0


def _noticed(copy: Copy, mutant: Mutant, number: int) -> bool:
    """Whether every test of a mutant fails, each by itself; said in a line."""
    began = time.perf_counter()
    with copy.changed(mutant):
        outcomes = {test: copy.run([test], fresh=has_kernels(mutant)) for test in mutant.tests.split()}
    seconds = time.perf_counter() - began
    missed = {test: (code, last) for test, (code, last) in outcomes.items() if code != PYTEST_FAILED}
    said = "NOTICED" if not missed else "MISSED"
    print(f"{number:3d} {said:8s}{seconds:6.1f} s  {mutant.file}: {mutant.words}", flush=True)
    for test, (code, last) in missed.items():
        print(f"      {test}: " + ("passes" if code == PYTEST_PASSED else f"did not run ({code}): {last}"), flush=True)
    return not missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
