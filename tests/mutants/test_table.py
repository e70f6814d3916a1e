"""The table of mutants fits the code: each change can be made, in one place, and its tests exist."""

from __future__ import annotations

from tests.mutants.copies import fault
from tests.mutants.table import MUTANTS


def test_every_change_can_be_made_and_has_its_tests():
    assert [f"{mutant.words}: {why}" for mutant in MUTANTS if (why := fault(mutant))] == []
    assert len({mutant.words for mutant in MUTANTS}) == len(MUTANTS)
