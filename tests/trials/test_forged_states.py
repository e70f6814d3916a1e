"""A state that was sealed over nonsense is refused field by field, in a sentence that names the field."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.trials.saving_cases import FINITE, LED, beginning, led, same, sealed

from pacbandits import load_state, save_state
from pacbandits.arrays import as_read
from pacbandits.certificate import Certificate
from pacbandits.errors import InputError
from pacbandits.records.log import digest_log
from pacbandits.trials.saved_state import digest_table
from pacbandits.trials.state_folder import name_table


def at(*path, to):
    """A change of what stands at a path; `to` is the new value, or makes it from the old one."""

    def change(given):
        inner = given
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = to(inner[path[-1]]) if callable(to) else to

    return change


def without(*path):
    def change(given):
        inner = given
        for name in path[:-1]:
            inner = inner[name]
        del inner[path[-1]]

    return change


def more(value):
    return value + 1


def double(value):
    return 2 * value


def entry(name, number, to):
    return at("history", number, name, to=to)


def certified(**changes):
    """Another certificate, which fits together by itself."""
    return at("certificate", to=lambda old: as_read(replace(Certificate.from_json(old), **changes).to_json()))


CERTIFICATE = "of its certificate is not that of the state"
STATE = led()[1]
SAMPLES, ROUNDS, PROVEN = STATE.samples, STATE.round_number, len(STATE.certificate.bets.scales)
OTHER_BETS = replace(STATE.certificate.bets, share=0.8)
OTHER_LEADERS = replace(STATE.certificate.leaders, turns=(*STATE.certificate.leaders.turns[:-1], 0))
LIKELIEST = STATE.policy.likeliest


def even(lottery):
    """The same lottery with other weights, in JSON of a state."""
    return lottery | {"weights": [1 / len(lottery["weights"])] * len(lottery["weights"])}


# Of a state with a lottery between leaders, on a class of tables, whose last round has proven nothing more.
FORGERIES = {
    "no samples": (without("samples"), "the state lacks 'samples'"),
    "more samples": (at("samples", to=more), f"its samples are {SAMPLES + 1}, but its log has {SAMPLES}"),
    "samples and a bit": (at("samples", to=19.5), "'samples' of the state must be a whole number, got 19.5"),
    "samples in words": (at("samples", to="219"), "'samples' of the state must be a whole number, got the text '219'"),
    "another round number": (
        at("round_number", to=more),
        f"its round_number is {ROUNDS + 1}, but its log has {ROUNDS} r",
    ),
    "a true round number": (
        at("round_number", to=True),
        "'round_number' of the state must be a whole number, got true",
    ),
    "no oracle calls": (at("oracle_calls", to=-1), "'oracle_calls' of the state must be a whole number of 0 or more"),
    "finished": (at("finished", to=True), "it is finished, or is not, against what its certificate says"),
    "nearly finished": (at("finished", to=0), "'finished' of the state must be true or false, got 0"),
    "something unknown": (at("surprise", to=1), "the state says 'surprise', which means nothing here"),
    "one scale less": (
        at("scales", to=lambda old: old[1:]),
        f"its scales tells of {ROUNDS - 1} rounds, but there were {ROUNDS}",
    ),
    "a negative scale": (at("scales", 1, to=-1.0), "entry 1 of its scales must be positive, got -1"),
    "another scale": (at("scales", 1, to=double), "entry 1 of its history and the scale of its bets differ"),
    "history of another round": (entry("round", 1, to=7), r"entry 1 of its history tells of .* \(7, "),
    "history of other totals": (entry("total", 1, to=more), "entry 1 of its history tells of"),
    "half a sample in history": (
        entry("samples", 1, to=0.5),
        "'samples' of the entry 1 of the history must be a whole",
    ),
    "history without a price": (without("history", 1, "price"), "entry 1 of its history must hold round, samples"),
    "a price in words": (entry("price", 1, to="x"), "the price in entry 1 of its history must be a number"),
    "a true wealth": (entry("wealth", 1, to=True), "'wealth' of the entry 1 of the history must be a number, got true"),
    "done before": (entry("wealth", 1, to=1e6), "entry 1 of its history says that the trial was over, but it went on"),
    "another need": (entry("needed", 1, to=more), "entry 1 of its history needs .*, but a certificate"),
    "the best ε": (entry("certified_epsilon", 1, to=0.0), "the certified_epsilon in entry 1 of its history is 0"),
    "another last entry": (
        entry("certified_epsilon", -1, to=0.9),
        "the last entry of its history is not what its cert",
    ),
    "history of one round more": (
        at("history", to=lambda old: [*old, old[-1]]),
        f"its history tells of {ROUNDS + 1} rounds, but there were {ROUNDS}",
    ),
    "a policy beyond": (at("policy", to=10**6), "'policy' of the state must be a whole number between 0 and"),
    "another policy": (at("policy", to=2), "the policy of the certificate is another than that of the state"),
    "no leader": (at("leader", to=None), "it has a log without a leader, or a leader without a log"),
    "no policies": (at("policies", to=[]), "'policies' of the state must be a list with a length"),
    "a policy that is none": (at("policies", 0, to=3), "a policy in JSON must be an object"),
    "a policy of fewer contexts": (
        at("policies", 1, "actions", to=lambda old: old[1:]),
        "it holds a policy that is not of its class|the policy of the certificate is another",
    ),
    "a policy of other actions": (
        at("policies", 1, "n_actions", to=4),
        "it holds a policy of another number of actions|must have the same number of actions",
    ),
    "a lottery of others": (
        at("policy", "policies", to=lambda old: old[::-1]),
        "the policy of the certificate is another than that of the state",
    ),
    "a lottery by other weights": (at("policy", to=even), "the policy of the certificate is another than that of the"),
    "a lottery that sums to more": (
        at("policy", "weights", to=lambda old: [2 * one for one in old]),
        "the weights of a (lottery|mixture) must be positive and sum to 1",
    ),
    "a lottery of one": (
        at("policy", to=lambda old: {"policies": old["policies"][:1], "weights": [1.0]}),
        "two policies or more|must be a list",
    ),
    "a lottery and more": (at("policy", to=lambda old: old | {"luck": 1}), "'luck', which means nothing here|the form"),
    "the likeliest alone": (
        at("policy", to=lambda old: old["policies"][int(np.argmax(old["weights"]))]),
        "the policy of the certificate is another than that of the state",
    ),
    "no leaders": (at("leaders", to=None), "it has leaders, or has none, against its class"),
    "a leader of the first round": (at("leaders", "turns", 0, to=0), "nobody leads in the first round, and somebody"),
    "nobody in the last round": (at("leaders", "turns", -1, to=-1), "nobody leads in the first round, and somebody"),
    "a leader beyond": (at("leaders", "turns", -1, to=99), "leaders must lead in each round|must be a whole number"),
    "leaders out of order": (
        at("leaders", "turns", 1, to=1),
        "not numbered in the order in which they first led|leaders of its certificate",
    ),
    "a leader twice": (
        at("leaders", "policies", to=lambda old: [old[0], *old[:-1]]),
        "it has a leader twice|not in the form|of its certificate is not that of the state",
    ),
    "another turn": (
        at("leaders", "turns", PROVEN - 1, to=0),
        f"the leaders {CERTIFICATE}|not numbered in the order",
    ),
    "other sizes": (at("leaders", "sizes", 1, to=more), "the sizes of its leaders are not those of its rounds"),
    "one size less": (at("leaders", "sizes", to=lambda old: old[1:]), "leaders need a planned size"),
    "weight that does not move": (at("leaders", "moving", to=0.0), "its leaders move 0 of a stake, but the trial"),
    "leaders of a single policy": (at("algorithm", "single", to=True), "of a stake, but the trial"),
    "nothing missing": (at("missing", to=0.0), "what it misses is not what its history says"),
    "less than nothing missing": (at("missing", to=-1.0), "'missing' of the state must be"),
    "a better certificate before": (
        entry("certified_epsilon", PROVEN - 2, to=1e-3),
        "the certified_epsilon in its history is not the best so far",
    ),
    "a certificate of other leaders": (certified(leaders=OTHER_LEADERS), f"the leaders {CERTIFICATE}"),
    "a certificate of the likeliest": (certified(policy=LIKELIEST), "the policy of the certificate is another than"),
    "a certificate of more rounds": (
        certified(bets=replace(STATE.certificate.bets, scales=STATE.scales)),
        f"{CERTIFICATE}|tells of",
    ),
    "played more": (
        at("played", -1, "samples", to=more),
        f"its played sums to {SAMPLES + 1} interactions, but there were",
    ),
    "played nothing": (at("played", to=[]), "the state says how it plays, but has played nothing"),
    "played within a round": (
        lambda given: [
            at("played", i, "samples", to=lambda old, by=by: old + by)(given) for i, by in ((0, 1), (1, -1))
        ],
        "its played changes samplers within a round|which are not those that were played before",
    ),
    "a support beyond": (at("played", 0, "support", to=[10**6]), "'support' of the entry 0 of what was played"),
    "weights for nothing": (
        at("played", 0, "weights", to=[1.0]),
        "'weights' of the entry 0 of what was played must be a",
    ),
    "a great floor": (at("played", 0, "floor", to=0.9), "floor must lie between 0 and 1/3"),
    "another design": (
        lambda given: [at("played", 0, "support", to=[2])(given), at("played", 0, "weights", to=[1.0])(given)],
        "entry 0 of its played gives propensities that differ by .* from those of its log",
    ),
    "current of another price": (
        at("current", "price", to=double),
        "the price of its current is another than in its h",
    ),
    "current of no price": (at("current", "price", to=-1.0), "price must be positive and finite, got -1"),
    "current since later": (at("current", "since", to=more), "its current was chosen after .*, within a round"),
    "current since earlier": (at("current", "since", to=0), "its current was chosen after 0 interactions, not"),
    "current twice counted": (at("current", "oracle_calls", to=3), "its current counts oracle calls that were counted"),
    "no current": (at("current", to=None), "it has a log without a current"),
    "another pool": (at("current", "pool", to=[0]), "its pool is another than that of its current"),
    "a pool with one twice": (at("pool", to=[0, 0]), "its pool holds a policy twice"),
    "no certificate": (at("certificate", to=None), "it has a log without a certificate"),
    "a certificate of another log": (at("certificate", "digest", to="0" * 64), f"the digest {CERTIFICATE}"),
    "a certificate of more samples": (at("certificate", "samples", to=more), f"the samples {CERTIFICATE}"),
    "a certificate of more rows": (at("certificate", "rows", to=more), f"the rows {CERTIFICATE}"),
    "a certificate of other stakes": (at("certificate", "scales", 0, to=double), f"the scales {CERTIFICATE}"),
    "a certificate that contradicts itself": (
        at("certificate", "epsilon", to=0.24),
        "does not follow from its figures",
    ),
    "a certificate with another ε": (certified(epsilon=0.24), f"the epsilon {CERTIFICATE}"),
    "a certificate of another δ": (certified(delta=0.2), f"the delta {CERTIFICATE}"),
    "a cheap certificate": (certified(threshold=-1.0), "the threshold of its certificate is -1, but its class has"),
    "a certificate of more wealth": (certified(value=0.01), "entry .* of its history is not what its certificate says"),
    "a modest certificate": (
        certified(value=1e3, certified_epsilon=0.2),
        "the last entry of its history is not what its certificate says",
    ),
    "a certificate that proves more than it says": (
        lambda given: [certified(value=1e3, certified_epsilon=0.5)(given), at("finished", to=True)(given)],
        "its certificate claims less than it has proven",
    ),
    "a certificate with other caps": (
        certified(bets=OTHER_BETS),
        "the bets of its certificate are not those of the state",
    ),
    "a certificate by a rule": (certified(by_rule=True), f"the by_rule {CERTIFICATE}"),
    "a certificate of another class": (certified(class_digest="0" * 64), f"the class_digest {CERTIFICATE}"),
    "a certificate of strangers": (certified(experts=(99,)), "the experts of its certificate must be one or two"),
    "a certificate of many": (certified(experts=(0, 1, 2)), "the experts of its certificate must be one or two"),
    "a certificate shared by one": (
        certified(experts=(0,), share=0.5),
        "the expert_share of its certificate is of no two",
    ),
    "a certificate of a small class": (
        at("certificate", "log_size", to=1.0),
        "the log_size of its certificate is 1, but",
    ),
    "a certificate of another model": (at("certificate", "model", "strength", to=more), f"the model {CERTIFICATE}"),
    "another ε": (at("algorithm", "epsilon", to=0.3), "entry 0 of its history and the scale of its bets differ"),
    "another δ": (at("algorithm", "delta", to=0.2), f"the delta {CERTIFICATE}"),
    "another pilot": (
        at("algorithm", "pilot", to=90),
        "its first round has 100 interactions, but the trial asks for 90",
    ),
    "another growth": (
        at("algorithm", "growth", to=0.1),
        r"round 2 has \d+ interactions, but after 100 the trial asks for",
    ),
    "an unknown option": (at("algorithm", "haste", to=1.0), "the options of the algorithm are not those of coda"),
    "a true floor": (at("algorithm", "floor", to=True), "'floor' of the algorithm must be a number, got true"),
    "an unknown algorithm": (at("algorithm", "name", to="codas"), "made by 'codas', an algorithm of your own"),
    "another class": (at("class", "n_contexts", to=17), "it holds a policy that is not of its class"),
    "fewer actions": (at("class", "n_actions", to=2), "its log has another number of actions than its policy class"),
    "a log of fewer rows": (
        at("log", "rows", to=lambda old: old - 1),
        r"has \d+ rows, and state.json was written with",
    ),
    "a log with predictions": (at("log", "predictions", to="0" * 64), "says 'predictions', which means nothing here"),
    "no log": (at("log", to=None), "it has played rounds, but there is no log of them"),
    "notes in a list": (at("notes", to=[]), "'notes' of the state must be an object"),
    "contexts without a digest": (at("contexts", to=3), "'contexts' of the state must be text, got 3"),
}


def forged(folder, change):
    """Write a state.json with that change, and a seal that fits."""
    path = folder / "state.json"
    before = path.read_text()
    given = json.loads(before)
    change(given)
    path.write_text(sealed(given))
    assert path.read_text() != before


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    save_state(folder, *led())
    return folder, (folder / "state.json").read_text()


def test_what_is_sealed_honestly_is_accepted(kept):
    folder, honest = kept
    (folder / "state.json").write_text(sealed(json.loads(honest)))
    assert (folder / "state.json").read_text() == honest
    same(load_state(folder)[1], led()[1])


@pytest.mark.first(3)
@pytest.mark.parametrize("name", FORGERIES)
def test_a_sealed_forgery_is_refused(name, kept):
    folder, honest = kept
    change, words = FORGERIES[name]
    (folder / "state.json").write_text(honest)
    forged(folder, change)
    with pytest.raises(InputError, match=words) as caught:
        load_state(folder)
    assert len(str(caught.value)) < 500


# Of a state on a listed class, whose designs weigh actions by reward models.
LISTED = {
    "another weight": (
        at("played", 1, "weights", 0, to=double),
        "entry 1 of its played gives propensities that differ",
    ),
    "no model": (at("played", 1, "rows", to=None), "entry 1 of its played gives propensities that differ"),
    "a model of other rows": (at("played", 1, "rows", to=more), "'rows' of the entry 1 of what was played are"),
    "another smoothing": (at("played", 1, "smoothing", to=0.1), "entry 1 of its played gives propensities that differ"),
    "a negative weight": (
        at("played", 1, "weights", 0, to=-1.0),
        "entry 0 of the 'weights' of the entry 1 of what was",
    ),
    "a support twice": (
        at("played", 1, "support", 1, to=lambda _: 0),
        "holds a policy twice|not in the form|differ by",
    ),
    "a pool": (
        lambda given: [at("pool", to=[0])(given), at("current", "pool", to=[0])(given)],
        "it has a pool, but its class is a list",
    ),
    "leaders": (
        at("leaders", to={"policies": [], "turns": [], "sizes": [], "moving": 0.5}),
        "it has leaders, or has none, against its class",
    ),
    "a policy of no row": (
        at("policies", 1, "actions", to=lambda old: [3] * len(old)),
        "a policy that is not of its class",
    ),
    "a row taken away": (at("class", "table", to=lambda old: old[:-1]), "not of its class|log_size of its certificate"),
}


@pytest.mark.first(5)
@pytest.mark.parametrize("name", LISTED)
def test_a_sealed_forgery_on_a_list_is_refused(name, tmp_path):
    algorithm, states = beginning(FINITE)
    save_state(tmp_path, algorithm, states[3])
    change, words = LISTED[name]
    forged(tmp_path, change)
    with pytest.raises(InputError, match=words):
        load_state(tmp_path)


def uneven(log):
    propensities = log.propensities.copy()
    propensities[-1] = np.eye(log.n_actions)[log.actions[-1]]
    return propensities


LOGS = {
    "backwards": (lambda log: {"rounds": log.rounds[::-1]}, "the rounds of its log are out of order"),
    "a round left out": (
        lambda log: {"rounds": log.rounds + (log.rounds > 1)},
        "the rounds of its log are out of order",
    ),
    "not from 0": (lambda log: {"rounds": log.rounds + 1}, "the rounds of its log are out of order"),
    "in one round": (lambda log: {"rounds": 0 * log.rounds}, f"its round_number is {ROUNDS}, but its log has 1 round"),
    "repeated": (lambda log: {"repeats": 2 * log.repeats}, f"its samples are {SAMPLES}, but its log has {2 * SAMPLES}"),
    "beyond counting": (
        lambda log: {"repeats": 0 * log.repeats + 2**52},
        r"its log has more than 9\.01e\+15 interactions",
    ),
    "half told": (lambda log: {"least": log.propensities}, "its log does not tell every propensity"),
    "remarked upon": (lambda log: {"remarks": ("it rained",)}, "its certificate leaves out what its log assumes"),
    "played otherwise": (lambda log: {"propensities": uneven(log)}, "gives propensities that differ by"),
}


@pytest.mark.first(3)
@pytest.mark.parametrize("name", LOGS)
def test_a_forged_log_is_refused(name, tmp_path):
    algorithm, state = led()
    save_state(tmp_path, algorithm, state)
    change, words = LOGS[name]
    log = replace(state.log, **change(state.log))
    log.write(tmp_path / name_table("log", digest_table(log)))

    def digested(given):
        part = log.only(log.rounds < PROVEN)
        given["log"]["digest"], given["certificate"]["digest"] = digest_table(log), digest_log(part)

    forged(tmp_path, digested)
    with pytest.raises(InputError, match=words):
        load_state(tmp_path)


STARTS = {
    "finished": (at("finished", to=True), "it is finished, but nothing was played"),
    "a history": (at("history", to=[{"round": 1, "samples": 1, "total": 1}]), "it has figures of rounds, but none was"),
    "a scale": (at("scales", to=[1.0]), "it has figures of rounds, but none was played"),
    "a pool": (at("pool", to=[0]), "it has a pool before its first round"),
    "a leader": (at("leader", to=0), "it has a log without a leader, or a leader without a log"),
    "no leaders": (at("leaders", to=None), "it has leaders, or has none, against its class"),
    "something missing": (at("missing", to=1.0), "it misses something before its first round"),
    "a sampler": (at("played", to=[{}]), "'played' of the state must be a list with a length"),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_forged_start_is_refused(name, tmp_path):
    algorithm, states = beginning(LED, rounds=4)
    save_state(tmp_path, algorithm, states[0])
    change, words = STARTS[name]
    forged(tmp_path, change)
    with pytest.raises(InputError, match=words):
        load_state(tmp_path)


def test_a_state_that_does_not_fit_together_is_not_saved(tmp_path):
    """As it could not be loaded."""
    algorithm, state = led()
    for changes, words in (
        ({"samples": 3}, f"its samples are 3, but its log has {SAMPLES}"),
        ({"scales": state.scales[1:]}, f"its scales tells of {ROUNDS - 1} rounds, but there were {ROUNDS}"),
        ({"history": (*state.history[:-1], {"round": 4})}, f"entry {ROUNDS - 1} of its history tells of"),
        ({"leader": None}, "it has a log without a leader"),
        ({"leaders": None}, "it has leaders, or has none, against its class"),
        ({"missing": 0.0}, "what it misses is not what its history says"),
        ({"finished": True}, "it is finished, or is not, against what its certificate says"),
    ):
        with pytest.raises(InputError, match=f"the state is not one that absorb returned: {words}"):
            save_state(tmp_path / "state", algorithm, replace(state, **changes))
    for notes in ({"x": float("nan")}, {"x": object()}, {"x": "\ud800"}):
        with pytest.raises(InputError, match="cannot be saved, as something in it has no form in JSON"):
            save_state(tmp_path / "state", algorithm, state, notes=notes)
    assert not (tmp_path / "state").exists()
