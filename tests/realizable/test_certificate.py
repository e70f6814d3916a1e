"""The certificate for linear rewards: computed as defined, rechecked, and refused when anything was altered."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies.features import Crossed, Given, map_for
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.policies.linear.policy import GreedyPolicy
from pacbandits.realizable.certificate import STAKE_MULTIPLIERS, RealizableCertificate
from pacbandits.realizable.certify import Terms, choose_form, make_realizable_certificate
from pacbandits.realizable.features import Span
from pacbandits.realizable.moments import Moments, Population
from pacbandits.realizable.verify import verify_realizable
from pacbandits.records import Contexts, Log

N, A, D = 12, 3, 3
EPSILON, DELTA = 0.3, 0.1


def make(seed: int = 0, *, change: np.ndarray | None = None, rounds: int = 3, samples: int = 600):
    """Contexts, a log of some rounds of uniform play, and the true parameter; `change` (d, k) mixes the features."""
    rng = np.random.default_rng(seed)
    phi = rng.uniform(-1, 1, size=(N, A, D))
    parameter = rng.uniform(-0.15, 0.15, size=D)
    contexts = Contexts.finite(N, phi=phi if change is None else phi @ change)
    who, what = rng.integers(N, size=samples), rng.integers(A, size=samples)
    rewards = (rng.random(samples) < 0.5 + phi[who, what] @ parameter).astype(float) - 0.5
    log = Log.of(
        contexts.take(who),
        actions=what,
        rewards=rewards,
        propensities=np.full((samples, A), 1 / A),
        rounds=np.sort(rng.integers(rounds, size=samples)),
    )
    return contexts, log, parameter


def certify(
    contexts: Contexts, log: Log, policies, form, *, noise: float = 0.25, delta: float = DELTA
) -> RealizableCertificate:
    features = map_for(contexts, n_actions=A, relative=False)
    population = Population.of(policies, contexts, features)
    moments = Moments.of(log, features, population.span)
    prior = None if form == "list" else 0.3 * moments.information[0] * 2
    if population.points is None:
        best = GreedyPolicy(features, population.span.parameter(moments.estimate()))
    else:
        best = policies.policy(int(np.argmax(population.points @ moments.estimate())))
    terms = Terms(EPSILON, delta, noise, form, prior)
    return make_realizable_certificate(log, moments, population, policies, reference=best, terms=terms)


def listed() -> Finite:
    return Finite(np.random.default_rng(5).integers(A, size=(40, N)), n_actions=A)


def test_the_list_form_is_what_its_definition_says():
    contexts, log, _ = make()
    policies = listed()
    made = certify(contexts, log, policies, "list")
    assert contexts.phi is not None
    phi, rows = contexts.phi.array, np.arange(N)
    needed = np.log(len(policies)) + np.log(len(STAKE_MULTIPLIERS)) - np.log(DELTA)
    worst = 0.0
    for actions in policies.table:
        x = (phi[rows, actions] - phi[rows, made.policy(contexts)]).mean(axis=0)
        if not x.any():
            continue
        wins = np.zeros(len(STAKE_MULTIPLIERS))  # log-wealth is this plus slope · ε
        slopes = np.zeros(len(STAKE_MULTIPLIERS))
        for number in range(3):
            own = log.rounds == number
            played = phi[np.asarray(log.contexts.ids)[own], log.actions[own]]
            information = played.T @ played
            estimate = np.linalg.solve(information, played.T @ log.rewards[own])
            variance = x @ np.linalg.solve(information, x)
            stakes = np.array(STAKE_MULTIPLIERS) * EPSILON / 0.25 / variance
            wins += -stakes * (x @ estimate) - stakes**2 * 0.25 * variance / 2
            slopes += stakes
        worst = max(worst, float(((needed - wins) / slopes).min()))
    assert made.certified_epsilon == pytest.approx(worst, rel=1e-9)
    assert made.exact
    assert "its class" in made.describe()


def test_the_ellipsoid_is_what_its_definition_says():
    contexts, log, _ = make()
    policies = listed()
    made = certify(contexts, log, policies, "ellipsoid")
    assert contexts.phi is not None
    assert made.prior is not None
    phi, rows, own = contexts.phi.array, np.arange(N), log.rounds >= 1
    played = phi[np.asarray(log.contexts.ids)[own], log.actions[own]]
    information = played.T @ played
    estimate = np.linalg.solve(information, played.T @ log.rewards[own])
    both = information + made.prior
    bound = 2 * 0.25 * np.log(np.sqrt(np.linalg.det(both) / np.linalg.det(made.prior)) / DELTA)
    worst = 0.0
    for actions in policies.table:
        x = (phi[rows, actions] - phi[rows, made.policy(contexts)]).mean(axis=0)
        u = np.linalg.solve(information, x)
        worst = max(worst, float(x @ estimate + np.sqrt(bound * (u @ both @ u))))
    assert made.certified_epsilon == pytest.approx(worst, rel=1e-9)


@pytest.mark.parametrize("form", ["list", "ellipsoid"])
def test_collinear_features_and_other_units_change_nothing(form: str):
    plain = certify(*make()[:2], listed(), form)
    rng = np.random.default_rng(9)
    mixed = rng.standard_normal((D, D + 2)) * np.array([1e-3, 1.0, 50.0, 1.0, 1e4])
    other = certify(*make(change=mixed)[:2], listed(), form)
    assert other.certified_epsilon == pytest.approx(plain.certified_epsilon, rel=1e-6)
    assert other.policy.describe() == plain.policy.describe()
    contexts, log, _ = make(change=mixed)
    assert verify_realizable(other, log, contexts, listed()).good


def test_over_all_policies_the_claim_covers_every_one():
    contexts, log, _ = make()
    made = certify(contexts, log, Trivial(N, A), "ellipsoid")
    few = certify(contexts, log, listed(), "ellipsoid")
    assert isinstance(made.policy, GreedyPolicy)
    assert made.proven_epsilon >= made.certified_epsilon > 0
    assert made.certified_epsilon < 1
    assert few.certified_epsilon < 1
    assert "all policies" in made.describe()


@pytest.mark.parametrize("form", ["list", "ellipsoid", "all"])
def test_json_and_verify(form: str):
    contexts, log, _ = make()
    policies = Trivial(N, A) if form == "all" else listed()
    made = certify(contexts, log, policies, "list" if form == "list" else "ellipsoid")
    back = RealizableCertificate.from_json(json.loads(json.dumps(made.to_json())))
    assert back.to_json() == made.to_json()
    verdict = verify_realizable(back, log, contexts, policies)
    assert verdict.good, verdict.faults
    assert verdict.value == pytest.approx(made.certified_epsilon / (1.01 if form == "all" else 1.0), rel=1e-6)


def test_what_was_altered_is_refused():
    contexts, log, _ = make()
    policies = listed()
    made = certify(contexts, log, policies, "list")

    def faults(certificate=made, log=log, contexts=contexts, policies=policies) -> str:
        return " ".join(verify_realizable(certificate, log, contexts, policies).faults)

    assert faults() == ""
    assert "digest differs" in faults(log=replace(log, rewards=log.rewards * 0.999))
    assert "contexts are not those" in faults(contexts=Contexts.finite(N, phi=2 * np.ones((N, A, D))))
    assert "not 0.01" in faults(replace(made, certified_epsilon=0.01, proven_epsilon=0.01))
    assert "not one of the class" in faults(replace(made, policy=Finite([[0] * N], n_actions=A).policy(0)))
    assert "log size" in faults(replace(made, log_size=0.0))
    worse = next(
        policies.policy(i) for i in range(len(policies)) if policies.policy(i).describe() != made.policy.describe()
    )
    assert "of the best, not" in faults(replace(made, policy=worse))
    assert "no confidence statement" in faults(replace(made, delta=1.5))
    assert "disagree on whether it is a list" in faults(policies=Trivial(N, A))
    round_ = certify(contexts, log, policies, "ellipsoid")
    assert faults(round_) == ""
    assert "first round" in faults(replace(round_, skipped=0))
    assert round_.prior is not None
    assert "of the best, not" in faults(replace(round_, prior=-round_.prior))
    for name, value in (("delta", float("nan")), ("claim", "all is well"), ("certified", True), ("form", "circle")):
        with pytest.raises(InputError):
            RealizableCertificate.from_json(made.to_json() | {name: value, "epsilon": 1e-6})


@pytest.mark.parametrize("form", ["list", "ellipsoid", "all"])
def test_noise_that_the_rewards_refute_is_a_fault(form: str):
    contexts, log, _ = make()
    policies = Trivial(N, A) if form == "all" else listed()
    made = certify(contexts, log, policies, "list" if form == "list" else "ellipsoid")
    for noise in (0.0, 1e-9, 0.1):
        words = f"the rewards refute noise of {noise:g}, or that they are linear"
        assert words in " ".join(verify_realizable(replace(made, noise=noise), log, contexts, policies).faults)
        with pytest.raises(InputError, match=f"more than noise of {noise:g} allows .* give a larger proxy"):
            certify(contexts, log, policies, made.form, noise=noise)


def test_rewards_without_noise_refute_nothing():
    contexts, log, parameter = make()
    assert log.contexts.phi is not None
    means = log.contexts.phi.array[np.arange(len(log)), log.actions] @ parameter
    exact = replace(log, rewards=0.5 * means)
    made = certify(contexts, exact, listed(), "list", noise=0.0)
    assert verify_realizable(made, exact, contexts, listed()).good
    off = replace(log, rewards=0.5 * means + 1e-3 * np.sin(np.arange(len(log))))
    with pytest.raises(InputError, match="more than noise of 0 allows"):
        certify(contexts, off, listed(), "list", noise=0.0)


def test_realizability_is_the_first_thing_it_says():
    made = certify(*make()[:2], listed(), "list")
    assert "linear in the given features" in made.assumptions[0]
    assert "if rewards are linear" in made.describe()
    assert made.to_json()["assumptions"] == list(made.assumptions)


def test_a_design_that_never_sees_a_direction_certifies_nothing():
    contexts, log, _ = make()
    only = log.only((np.asarray(log.contexts.ids) == 0) & (log.actions == 0))
    for form in ("list", "ellipsoid"):
        made = certify(contexts, only, listed(), form)
        assert made.certified_epsilon == 1
        assert not made.certified
        assert "not certified" in made.describe()


def test_bad_features_are_refused_in_words():
    with pytest.raises(InputError, match="zero everywhere"):
        Span.of(np.zeros((4, 2, 3)), np.full(4, 0.25))
    with pytest.raises(InputError, match="zero everywhere"):
        Given.learn(Contexts.finite(4, phi=np.zeros((4, 2, 3))), n_actions=2)
    with pytest.raises(InputError, match="neither features nor phi"):
        map_for(Contexts.finite(4), n_actions=2, relative=False)
    log = make()[1]
    flat = np.zeros((N, A, D))
    flat[:, :, 0] = np.random.default_rng(0).standard_normal((N, A))
    span = Span.of(flat, np.full(N, 1 / N))
    assert span.rank == 1
    with pytest.raises(InputError, match="outside the span"):
        Moments.of(log, Given(A, D), span)


def test_the_cheaper_form_is_chosen():
    assert choose_form(listed(), dimension=20, delta=0.05)[0] == "list"
    assert choose_form(Trivial(5, 2), dimension=2, delta=0.05)[0] == "ellipsoid"
    many = Finite(np.arange(3000)[:, None] % 2, n_actions=2)
    assert choose_form(many, dimension=1, delta=0.05)[0] == "ellipsoid"


@pytest.mark.slow
def test_either_form_holds_as_often_as_it_says():
    """V* − V(q) exceeds the certified ε with probability at most δ; here hardly ever, as both are conservative."""
    wrong = {"list": 0, "ellipsoid": 0, "all": 0}
    for seed in range(150):
        contexts, log, parameter = make(seed, samples=200)
        assert contexts.phi is not None
        values = contexts.phi.array @ parameter
        for form in wrong:
            policies = Trivial(N, A) if form == "all" else listed()
            made = certify(contexts, log, policies, "list" if form == "list" else "ellipsoid")
            mine = values[np.arange(N), made.policy(contexts)].mean()
            best = policies.argmax(contexts, values / N)(contexts)
            wrong[form] += values[np.arange(N), best].mean() - mine > made.certified_epsilon
    assert max(wrong.values()) <= 0.1 * 150


def test_numbers_too_large_prove_nothing():
    contexts, log, _ = make()
    policies = listed()
    lists, rounds = certify(contexts, log, policies, "list"), certify(contexts, log, policies, "ellipsoid")
    assert rounds.prior is not None
    best = {"certified_epsilon": 0.0, "proven_epsilon": 0.0, "epsilon": 1e-3}
    lopsided = rounds.prior.copy()
    lopsided[0, -1] *= 40.0
    for forged, words in (
        (replace(lists, stake=1e308, noise=1e308, **best), "cannot be computed with"),
        (replace(lists, stake=1e-300, **best), "needs the list, its stake"),
        (replace(rounds, noise=1e308, **best), "cannot be computed with"),
        (replace(rounds, prior=1.7e308 * np.eye(D), **best), "symmetric matrix of moderate size"),
        (replace(rounds, prior=lopsided, **best), "symmetric matrix of moderate size"),
        (replace(rounds, prior=np.eye(D + 1), **best), "symmetric matrix of moderate size"),
        (replace(lists, skipped=1, **best), "all rounds"),
        (replace(rounds, skipped=2), "one first round"),
        (replace(rounds, parameter=rounds.parameter + 1.0), "not that of least squares"),
        (replace(rounds, parameter=np.ones(1)), "does not fit"),
        (replace(rounds, features=Given(A, D + 1)), "not those of the contexts"),
    ):
        assert words in " ".join(verify_realizable(forged, log, contexts, policies).faults), words


def test_another_map_of_features_is_refused():
    contexts, log, _ = make()
    made = certify(contexts, log, listed(), "list")
    constant = Crossed((), np.ones((A, 1)))
    forged = replace(made, features=constant, parameter=np.zeros(1))
    assert "not those of the contexts" in " ".join(verify_realizable(forged, log, contexts, listed()).faults)


def test_a_log_with_other_features_for_the_same_ids_is_refused():
    contexts, log, _ = make()
    assert contexts.phi is not None
    other = Contexts.finite(N, phi=2.0 * contexts.phi.array)
    made = certify(other, replace(log, contexts=other.take(np.asarray(log.contexts.ids))), listed(), "list")
    mixed = replace(made, digest=certify(other, log, listed(), "list").digest)
    assert "other features for the same context ids" in " ".join(verify_realizable(mixed, log, other, listed()).faults)


@pytest.mark.parametrize("offset", [1e10, 2.0**31])
def test_features_too_nearly_collinear_are_refused(offset: float):
    rng = np.random.default_rng(0)
    phi = np.stack([np.ones((N, A)), rng.standard_normal((N, A)) + offset], axis=2)
    with pytest.raises(InputError, match="nearly collinear"):
        Span.of(phi, np.full(N, 1 / N))


def test_small_units_are_no_reason_to_drop_a_feature():
    rng = np.random.default_rng(0)
    phi = np.stack([np.full((N, A), 1e10), rng.standard_normal((N, A))], axis=2)
    assert Span.of(phi, np.full(N, 1 / N)).rank == 2
