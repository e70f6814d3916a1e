"""What a verified claim still rests on: on somebody's word, with who could have cheated and how, or on the world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pacbandits.certificate.certificate import (
    ASSUMPTIONS,
    BETS_FIXED,
    INEXACT,
    LED,
    MODEL_GIVEN,
    ORDERED,
    ROUNDS,
    SHUFFLED,
    UNITS_ALIKE,
    UNITS_COME,
    UNITS_END,
    UNITS_FIRST,
    UNITS_SHUFFLED,
    UNITS_VALUE,
    Certificate,
)
from pacbandits.certificate.claim import ALIKE, APART, BEFORE, FIXED, Claim
from pacbandits.certificate.leaders import SINGLE_MOVING
from pacbandits.records.log import KNOWN_REMARK
from pacbandits.verifier.rule import CLASS_GIVEN, LEARNT_ELSEWHERE, TRIAL_TOLD

COLLECTED, CERTIFIED, RAN = "whoever collected the log", "whoever certified it", "whoever ran the trial"
# Who could have cheated, and how.
_CHEATS = {
    BEFORE: f"{COLLECTED} could have added to contexts what came after the action",
    ASSUMPTIONS[-1]: f"{COLLECTED} could have chosen actions by what they knew of people, and logged probabilities",
    FIXED: f"{CERTIFIED} could have chosen the class by the log",
    CLASS_GIVEN: f"{CERTIFIED} could have chosen the class by the log",
    MODEL_GIVEN: f"{CERTIFIED} could have fitted the model to the log",
    ROUNDS: f"{COLLECTED} could have moved rows between rounds by what they earned",
    KNOWN_REMARK: f"{COLLECTED} could have dated rewards back",
    ORDERED: f"{COLLECTED} could have arranged the rows",
    SHUFFLED: f"{COLLECTED} could have stopped when it suited",
    UNITS_SHUFFLED: f"{COLLECTED} could have stopped when it suited",
    UNITS_END: f"{COLLECTED} could have stopped when it suited",
    BETS_FIXED: f"{RAN} could have chosen them after the rewards were seen",
    LED: f"{RAN} could have chosen them after the rewards were seen",
    TRIAL_TOLD: f"{RAN} could have chosen them after the rewards were seen",
}
CHOSEN_PILOT = f"{RAN} could have chosen one of several pilots, or some of its rows, by what they earned"
NAMED = f"{CERTIFIED} could have called another class by that name (--contexts rebuilds it)"
NAMED_BEFORE = (
    f"control and guardrails, or that there are none, were named before the log was seen: {CERTIFIED} could have tried "
    "others"
)
PLANNED = "the question is that of the plan with the digest"
SEALED_NAMES = "control and guardrails are those of the protocol, which was sealed before the first row"  # by an audit
# What no log could show: how the world is, and what the claim is about.
_WORLD = (ALIKE, APART, INEXACT, UNITS_ALIKE, UNITS_COME, UNITS_VALUE, UNITS_FIRST)


class Rest(NamedTuple):
    """What a verified claim still rests on, in words.

    trusted: assumptions that somebody could have broken, with who and how.
    not_checkable: assumptions on the world, and what the claim is about.
    """

    trusted: tuple[str, ...]
    not_checkable: tuple[str, ...]


def sort_rest(claim: Claim, trusted: Sequence[str], assumptions: Sequence[str], checked: Sequence[str] = ()) -> Rest:
    """Return what a claim rests on, of the lines that a verdict trusts or checked and the assumptions that are left."""
    own = claim.learning.assumption if isinstance(claim, Certificate) and claim.learning is not None else None
    cheats = _CHEATS | {words: NAMED for words in trusted if words.endswith(LEARNT_ELSEWHERE)}
    cheats |= {} if own is None else {own: _CHEATS[FIXED]}
    if isinstance(claim, Certificate) and claim.pilot is not None:
        cheats[claim.pilot.assumption] = CHOSEN_PILOT
    lines = dict.fromkeys((*trusted, *(words for words in assumptions if words in cheats)))
    world = tuple(words for words in assumptions if words in _WORLD or words not in cheats)
    told = tuple(f"{words}: {cheats[words]}" if words in cheats else words for words in lines)
    planned = any(words.startswith(PLANNED) for words in trusted)
    choices = () if planned else _choices(claim, sealed=SEALED_NAMES in checked)
    return Rest((*told, *choices), world)


def _choices(claim: Claim, *, sealed: bool) -> tuple[str, ...]:
    """Return which of several proofs at full δ was chosen, in words; nothing where there was no choice.

    sealed: whether control and guardrails were.
    """
    if not isinstance(claim, Certificate) or not claim.by_rule or claim.epsilon == 0:
        return ()
    named = () if claim.improvement is None or sealed else (NAMED_BEFORE,)
    if claim.by_rounds and claim.leaders is None:
        return named
    single = claim.leaders is not None and claim.leaders.moving == SINGLE_MOVING
    order = "by rounds" if claim.by_rounds else "rows in order" if claim.ordered else "rows without an order"
    used = f"{'rows shuffled' if claim.shuffled else order}{', a single policy' if single else ''}"
    return (
        *named,
        f"how to prove it ({used}) was chosen before the log was seen: each way (--ordered, --shuffle, --single) has "
        f"all of δ, and {CERTIFIED} could have tried them all",
    )
