"""Certificates that were altered: one edit of a genuine file ends in a sentence or a verdict, soon, and in no lie.

What may still be called good after an edit, as the recheck has proven what the file then claims:

    a claim that is no stronger   of the same log and contexts; the least distance that it speaks of and δ no smaller,
                                  but for the accuracy to which they are searched for; every remark that the log asks
                                  for; no less noise than the rewards can refute; no larger a part of δ
    of a policy that acts alike   on every context of the log, and of the population if there is one
    proven in whatever way        stakes, experts, leaders and reward model count as fixed in advance (it says so),
                                  and a log-wealth may be off by rounding
    over the class in the file    which is shown to the reader; the recheck looks through that one
"""

from __future__ import annotations

import json
import resource
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import forgeries

from pacbandits.arrays import plain_number
from pacbandits.certificate import Claim
from pacbandits.errors import InputError
from pacbandits.proofs import Proof, load_certificate, verify
from pacbandits.records import Chosen, Contexts, Mixture, parts_of
from pacbandits.verifier import Verdict
from tests.fuzz.bombs import BOMBS
from tests.fuzz.forgeries import forge_figures
from tests.fuzz.genuine import ALL_NAMES, NAMES, Genuine, genuine
from tests.fuzz.mutations import DAMAGE, at, mutate

MAX_SECONDS, MAX_BOMB_SECONDS = 5, 30
MAX_BYTES = 2**30
EDITS, MANY_EDITS = 25, 1_000
FORGERIES, MANY_FORGERIES = 7, 500


class TooLongError(Exception):
    """A case took too long."""


@contextmanager
def limited(seconds: float = MAX_SECONDS) -> Generator[None]:
    """So many seconds."""

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def limited_memory() -> Generator[None]:
    """So many bytes of memory more than there are."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MAX_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def recheck(path: Path, own: Genuine) -> tuple[Proof, Verdict]:
    """The file as it is read, and what comes of its recheck."""
    proof = load_certificate(path)
    return proof, verify(proof.certificate, own.log, proof.policies, contexts=own.contexts)


def judge(path: Path, own: Genuine, *, seconds: float = MAX_SECONDS) -> str:
    """What comes of a file: what is wrong with that, or nothing."""
    try:
        with limited(seconds):
            proof, verdict = recheck(path, own)
        if not verdict.good:
            return ""
    except InputError as error:
        words = str(error)
        return "" if words.isprintable() and len(words) <= 500 else f"a bad sentence: {words!r}"
    except TooLongError:
        return "it took too long"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "" if may_be_good(proof, own) else "it is called good"


SEARCHED_TO = 0.975
TRADED_FOR = 1.2  # at a larger distance the same data have more to show, and bear a smaller δ
# Of what is claimed; a tenth of δ is a tenth of a nat, and a few hundred rewards refute no noise that is half as large.
LEAST_SHARES = {"proven_epsilon": SEARCHED_TO, "delta": 0.85, "noise": 0.55}


def least_distance(certificate: Claim) -> float:
    """The least distance of the policy from the best that a certificate speaks of."""
    return min(certificate.certified_epsilon, certificate.epsilon if certificate.certified else 1.0)


# What a proof is made of, and no part of what is claimed. Signs of drift are looked for anew, and shown as found then.
MEANS = {
    *("bets", "experts", "share", "model", "value", "threshold", "log_size", "parameter", "prior", "stake", "seed"),
    *("checks", "leaders", "slack"),
}


def may_be_good(proof: Proof, own: Genuine) -> bool:
    """Whether the file claims what the genuine one does, or less; see above."""
    now, before = proof.certificate, own.certificate
    free = {name: getattr(now, name) for name in MEANS if hasattr(now, name)}
    same = own.made_at(now.delta) if own.made_at is not None and before.delta < now.delta < 1 else before
    if least_distance(now) > SEARCHED_TO * least_distance(same):
        free |= {"epsilon": now.epsilon, "certified_epsilon": now.certified_epsilon}
    for name, share in LEAST_SHARES.items():
        if getattr(now, name, 0.0) > share * getattr(before, name, np.inf):
            free[name] = getattr(now, name)
    if least_distance(now) > TRADED_FOR * least_distance(before):
        free["delta"] = now.delta
    if set(now.remarks) >= set(own.log.assumed):
        free["remarks"] = now.remarks
    for contexts in (own.log.contexts, own.contexts):
        if contexts is not None and not np.array_equal(played(now.policy, contexts), played(before.policy, contexts)):
            return False
    return replace(before, policy=now.policy, **free).to_json() == now.to_json()


def played(chosen: Chosen, contexts: Contexts) -> np.ndarray:
    """How likely each action is (n, A), to what rounding may change."""
    parts, weights = parts_of(chosen), chosen.weights if isinstance(chosen, Mixture) else (1.0,)
    each = [weight * np.eye(chosen.n_actions)[policy(contexts)] for policy, weight in zip(parts, weights, strict=True)]
    return np.sum(each, axis=0).round(9)


def edit(name: str, folder: Path, *, seed: int, count: int) -> list[str]:
    """What is wrong with what comes of so many edits, one at a time."""
    own = genuine(name)
    whole = json.loads(own.text(folder))
    rng = np.random.default_rng([seed, ALL_NAMES.index(name)])
    path, wrong = folder / "altered.json", []
    for number in range(count):
        words, altered = mutate(whole, rng)
        path.write_text(json.dumps(altered))
        started = time.perf_counter()
        found = judge(path, own)
        if time.perf_counter() - started > MAX_SECONDS:
            found = found or "it took too long"
        if found:
            wrong.append(f"edit {number} of {name}, {words}: {found}")
    return wrong


def forge(name: str, folder: Path, *, seed: int, count: int) -> list[str]:
    """The same for forgeries: one or two figures are others, and all words and the threshold follow from them."""
    own = genuine(name)
    whole = json.loads(own.text(folder))
    rng = np.random.default_rng([seed, ALL_NAMES.index(name), 1])
    path, wrong = folder / "forged.json", []
    for number in range(count):
        words, forged = forge_figures(own.certificate, rng)
        path.write_text(json.dumps(whole | forged, default=plain_number))
        if found := judge(path, own):
            wrong.append(f"forgery {number} of {name}, {words}: {found}")
    return wrong


@pytest.mark.first(3)
@pytest.mark.parametrize("name", NAMES)
def test_genuine_ones_are_good(name: str, tmp_path: Path) -> None:
    own = genuine(name)
    (tmp_path / "same.json").write_text(own.text(tmp_path))
    proof = load_certificate(tmp_path / "same.json")
    assert proof.certificate.to_json() == own.certificate.to_json()
    if name == "asymptotic":
        return
    verdict = verify(proof.certificate, own.log, proof.policies, contexts=own.contexts)
    assert verdict.good, verdict.faults


@pytest.mark.first(2)
@pytest.mark.parametrize("name", NAMES)
def test_an_edit_ends_in_a_sentence_or_a_verdict(name: str, tmp_path: Path) -> None:
    wrong = edit(name, tmp_path, seed=0, count=EDITS)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", ALL_NAMES)
def test_a_thousand_edits_end_in_a_sentence_or_a_verdict(name: str, seed: int, tmp_path: Path) -> None:
    genuine(name)
    with limited_memory():
        wrong = edit(name, tmp_path, seed=seed, count=MANY_EDITS)
    assert not wrong, "\n".join(wrong)


@pytest.mark.first(1)
@pytest.mark.parametrize("name", NAMES)
def test_a_forgery_that_fits_together_is_found(name: str, tmp_path: Path) -> None:
    wrong = forge(name, tmp_path, seed=0, count=FORGERIES)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_NAMES)
def test_many_forgeries_that_fit_together_are_found(name: str, tmp_path: Path) -> None:
    genuine(name)
    with limited_memory():
        wrong = forge(name, tmp_path, seed=1, count=MANY_FORGERIES)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_take_little_time_and_memory(bomb: str, tmp_path: Path) -> None:
    name, explode = BOMBS[bomb]
    own = genuine(name)
    whole = json.loads(own.text(tmp_path))
    explode(whole)
    path = tmp_path / "bomb.json"
    path.write_text(json.dumps(whole))
    recheck(tmp_path / "genuine.json", own)  # all that is compiled and loaded once
    del whole
    with limited_memory():
        assert judge(path, own, seconds=MAX_BOMB_SECONDS) == ""


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_end_in_a_sentence(damage: str, tmp_path: Path) -> None:
    own = genuine("trivial")
    path = tmp_path / "damaged.json"
    text = own.text(tmp_path)
    path.write_bytes(DAMAGE[damage](text))
    assert path.read_bytes() != text.encode()
    with pytest.raises(InputError) as error:
        load_certificate(path)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        ("trivial", ["policy", "n_actions"], 10**8, "actions; it was altered"),
        ("trivial", ["class", "n_actions"], 10**8, "more than the trivial class can hold"),
        ("trivial", ["samples"], 400.0003, "'samples' of the certificate must be a whole number, got 400.0003"),
        ("trivial", ["certified"], 1, "'certified' of the certificate does not follow"),
        ("trivial", ["exact"], 1, "'exact' of the certificate must be true or false, got 1"),
        ("trivial", ["remarks"], None, "'remarks' of the certificate must be a list, got null"),
        ("trivial", ["model"], {"kind": "either"}, "the reward model lacks 'first'"),
        ("given", ["class", "map", "dimension"], 10**8, "'dimension' of the feature map must be a whole"),
        ("given", ["policy", "map", "dimension"], 10**8, "'dimension' of the feature map must be a whole"),
        ("realizable list", ["noise"], 1e308, "noise must be 0 or between 1e-100 and 1e+100"),
        ("realizable list", ["noise"], 1e-300, "noise must be 0 or between 1e-100 and 1e+100"),
        ("asymptotic", ["complete"], "yes", "'complete' of the certificate must be true or false, got the text 'yes'"),
    ],
)
def test_what_was_once_let_through_ends_in_a_sentence(
    name: str, place: list[str], value: object, words: str, tmp_path: Path
) -> None:
    own = genuine(name)
    whole = json.loads(own.text(tmp_path))
    at(whole, tuple(place[:-1]))[place[-1]] = value
    (tmp_path / "altered.json").write_text(json.dumps(whole))
    with limited(), pytest.raises(InputError) as error:
        recheck(tmp_path / "altered.json", own)
    assert words in str(error.value)


def test_a_dropped_remark_of_the_log_is_a_fault(tmp_path: Path) -> None:
    own = genuine("trees")
    bare = replace(own.certificate, remarks=("the moon was full",))
    faults = verify(bare, own.log, own.policies).faults
    assert faults == ("the certificate does not say that it assumes: whoever came was asked",)


# Every scalar and field one by one, and pairs, by a forger who makes all words follow (`benchmarks/forgeries.py`).


@pytest.mark.thorough
@pytest.mark.parametrize("part", [one for one in forgeries.PARTS if one != "small class"])
def test_some_forged_scalars_are_refused_or_covered_by_a_printed_line(part: str, tmp_path: Path) -> None:
    found = forgeries.sweep_part(part, tmp_path, piece=(7, 80 if part == "export: records" else 20))
    assert found.lies == []
    assert found.counts[forgeries.REFUSED] >= 0.5 * found.counts.total() >= 8


@pytest.mark.slow
@pytest.mark.parametrize("part", forgeries.PARTS)
def test_a_quarter_of_all_forged_scalars_is_refused_or_covered_by_a_printed_line(part: str, tmp_path: Path) -> None:
    found = forgeries.sweep_part(part, tmp_path, piece=(3, 4))
    assert found.lies == []
    assert found.counts[forgeries.REFUSED] >= 0.5 * found.counts.total()


@pytest.mark.thorough
def test_the_choice_of_a_leaders_size_cannot_be_hidden(tmp_path: Path) -> None:
    """By cross-validation, and by pruning as earlier versions did, would be two attempts."""
    own = forgeries.make("shuffled by content", tmp_path)
    assert own.whole["leaders"]["cross_validated"] is True
    place = ("leaders", "cross_validated", forgeries.DROPPED)
    bare = forgeries.changed(own.whole, [place], np.random.default_rng(0))
    (tmp_path / "bare.json").write_text(json.dumps(bare))
    proof = load_certificate(tmp_path / "bare.json")
    (fault,) = verify(proof.certificate, own.log, proof.policies).faults
    assert "is chosen by cross-validation" in fault
