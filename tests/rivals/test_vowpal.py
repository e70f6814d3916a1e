"""Vowpal Wabbit is asked and taught as its own interface would, goes on where it stopped, and learns."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest

from pacbandits.algorithms import list_profiles, make_algorithm
from pacbandits.errors import InputError
from pacbandits.policies import policy_from_json
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.problems import Bernoulli, Problem, load_problem
from pacbandits.records import Contexts
from pacbandits.rivals.vowpal import EXPLORATIONS, Session, Vowpal
from pacbandits.rivals.vowpal_lines import Lines
from pacbandits.simulation import run
from pacbandits.trials.protocol import Setting

vowpalwabbit = pytest.importorskip("vowpalwabbit", reason="pip install 'pacbandits[peers]'")

BEST = [2, 0, 1, 2, 1]


def easy(*, features=False):
    """Five contexts in which another action earns 0.9 and the others 0.2; its class has a policy that is right."""
    means = np.full((5, 3), 0.2)
    means[np.arange(5), BEST] = 0.9
    columns = np.column_stack([np.arange(5) % 2, np.arange(5)]) if features else np.empty((5, 0))
    categories = [("even", "odd"), None] if features else None
    contexts = Contexts.of(columns, categories=categories, ids=np.arange(5))
    table = [[0] * 5, [1] * 5, [2] * 5, BEST, [2, 0, 1, 1, 1], [0, 0, 1, 2, 1]]
    return Problem("easy", "One good action.", contexts, means, Bernoulli(), Finite(table, n_actions=3))


def made(problem, **options):
    return make_algorithm("vowpal", Setting(problem.policies, 0.05, 0.1, problem.reward_bounds), options)


def rounds(algorithm, problem, *, seed=0):
    """The states, plans and logs of a run."""
    rng, states, plans, logs = np.random.default_rng(seed), [], [], []
    states.append(algorithm.start(problem.policies, problem.population))
    while (plan := algorithm.design(states[-1])) is not None:
        logs.append(problem.interact(plan.sampler, samples=plan.samples, rng=rng))
        states.append(algorithm.absorb(states[-1], plan, logs[-1]))
        plans.append(plan)
    return states, plans, logs


def by_hand(algorithm, problem, logs):
    """What Vowpal Wabbit's own interface says when it is taught the same rows in the same order."""
    lines = Lines.of(problem.population, n_actions=problem.n_actions)
    arguments = algorithm.arguments(weights=lines.width(problem.population))
    workspace = vowpalwabbit.Workspace(arg_list=["--quiet", *arguments])
    texts = [f"|a a{action}" for action in range(problem.n_actions)]
    for number, log in enumerate(logs, start=1):
        rows = np.lexsort((log.played_propensities, log.rewards, log.actions, log.contexts.ids))
        rng = np.random.default_rng([algorithm.seed, number])
        for row in rng.permutation(np.repeat(rows, log.repeats[rows])):
            action, reward, probability = log.actions[row], log.rewards[row], log.played_propensities[row]
            played = [f"{action}:{-reward:.9g}:{probability:.9g} |a a{action}"]
            workspace.learn([f"shared |c c{log.contexts.ids[row]}", *texts[:action], *played, *texts[action + 1 :]])
    said = [workspace.predict([f"shared |c c{context}", *texts]) for context in range(len(problem.population))]
    workspace.finish()
    return np.array(said)


@pytest.mark.first(2)
@pytest.mark.parametrize("explore", EXPLORATIONS)
def test_propensities_are_what_vowpal_wabbit_says_after_learning_one_by_one(explore):
    problem = easy()
    algorithm = made(problem, explore=explore, first=100, budget=200, growth=1.0)
    states, _, logs = rounds(algorithm, problem)
    for upto in (0, len(logs)):
        played = states[upto].memory.propensities(problem.population)
        assert np.abs(played.sum(axis=1) - 1).max() < 1e-15
        said = by_hand(algorithm, problem, logs[:upto])
        said /= said.sum(axis=1, keepdims=True)  # of regcbopt each of several equals has a 1
        assert np.abs(played - said).max() < 1e-6
        assert np.array_equal(played == 0, said == 0)


def test_what_its_options_say_reaches_vowpal_wabbit():
    problem = easy()
    told = {
        ("cover", "psi"): "--cover 3 --psi 0.25",
        ("cover-nu", "psi"): "--cover 3 --psi 0.25 --nounif",
        ("squarecb", "gamma_scale"): "--squarecb --gamma_scale 0.25 --gamma_exponent 0.5",
        ("squarecb", "gamma_exponent"): "--squarecb --gamma_scale 10.0 --gamma_exponent 0.25",
        ("regcb", "mellowness"): "--regcb --mellowness 0.25",
        ("regcbopt", "mellowness"): "--regcbopt --mellowness 0.25",
        ("epsilon", "share"): "--epsilon 0.25",
        ("epsilon", "rate"): "--learning_rate 0.25",
    }
    for (explore, knob), words in told.items():
        algorithm = made(problem, explore=explore, cover=3, **{knob: 0.25})
        assert words in " ".join(algorithm.arguments(weights=24))


def test_a_table_of_weights_is_large_enough_for_every_policy_of_cover():
    problem = easy()
    sizes = {}
    for explore in ("squarecb", "cover"):
        arguments = made(problem, explore=explore, cover=16).arguments(weights=4_000)
        sizes[explore] = int(arguments[arguments.index("-b") + 1])
    assert sizes == {"squarecb": 18, "cover": 23}


@pytest.mark.thorough
def test_first_explores_all_actions_alike_for_so_many_and_then_is_greedy():
    problem = easy()
    states, plans, _ = rounds(made(problem, explore="first", first=100, budget=600, growth=0.2), problem)
    shares = [plan.sampler.propensities(problem.population) for plan in plans]
    for state, share in zip(states, shares, strict=False):
        assert np.allclose(share, 1 / 3) if state.samples < 100 else set(np.unique(share)) <= {0.0, 1.0}
    assert shares[-1].argmax(axis=1).tolist() == BEST


def test_epsilon_plays_the_best_and_every_action_with_its_share():
    problem = easy()
    states, _, _ = rounds(made(problem, explore="epsilon", share=0.3, budget=600, growth=0.5), problem)
    share = states[-1].memory.propensities(problem.population)
    assert share.argmax(axis=1).tolist() == BEST
    assert share == pytest.approx(np.where(np.eye(3)[BEST] > 0, 0.8, 0.1))


@pytest.mark.first(1)
@pytest.mark.parametrize("explore", EXPLORATIONS)
def test_a_state_that_was_put_away_goes_on_as_if_it_had_not_been(explore):
    problem = easy()
    algorithm = made(problem, explore=explore, first=50, budget=300, growth=0.5)
    states, plans, logs = rounds(algorithm, problem)
    at = 3
    kept = pickle.loads(pickle.dumps(states[at].memory))
    for state, plan, log in zip(states[at:], plans[at:], logs[at:], strict=False):
        kept = algorithm.remember(replace(state, memory=kept), plan, log, state.seen.with_log(log))
    assert kept.model == states[-1].memory.model
    assert np.array_equal(kept.table, states[-1].memory.table)


def test_the_order_of_rows_in_a_log_does_not_matter_and_the_seed_does():
    problem = easy()
    algorithm = made(problem, explore="squarecb", budget=300, growth=1.0)
    states, plans, logs = rounds(algorithm, problem)
    shuffled = logs[-1].take(np.random.default_rng(1).permutation(len(logs[-1])))
    assert algorithm.absorb(states[-2], plans[-1], shuffled).memory.model == states[-1].memory.model
    other = replace(algorithm, seed=1).absorb(states[-2], plans[-1], logs[-1])
    assert other.memory.model != states[-1].memory.model


def test_weights_are_read_where_vowpal_wabbit_keeps_them():
    """Its own sums of weights: what the last policy asked for makes of each line, and of squarecb there is but one."""
    for spec in ("linear:dimension=3,actions=4,contexts=6,policies=5,seed=1", "mixed", "ids"):
        problem = easy(features=spec == "mixed") if "=" not in spec else load_problem(spec)
        states, _, _ = rounds(made(problem, explore="squarecb", budget=300, growth=1.0), problem)
        learnt = states[-1].memory
        costs = learnt.costs(problem.population)
        with Session(learnt.lines, model=learnt.model) as session:
            for row, lines in enumerate(learnt.lines.written(problem.population)):
                examples = session._workspace.parse(lines)
                session._workspace.predict(examples)
                said = [one.get_partial_prediction() for one in examples[1:]]
                session._workspace.finish_example(examples)
                assert costs[row] == pytest.approx(said, abs=1e-6)
        assert np.ptp(costs) > 0.1


def test_of_cover_the_policy_that_regresses_costs_is_read():
    problem = easy()
    states, _, _ = rounds(made(problem, budget=2_000, growth=0.5), problem)
    costs = states[-1].memory.costs(problem.population)
    assert np.abs(costs[np.arange(5), BEST] + 0.9).max() < 0.25
    assert np.argmin(costs, axis=1).tolist() == BEST


# Of 0.9 at the best; cover keeps policies that differ, and regcbopt plays one action for all of a round.
@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("explore", "least"),
    [
        ("cover", 0.7),
        ("cover-nu", 0.75),
        ("squarecb", 0.85),
        ("regcb", 0.85),
        ("regcbopt", 0.55),
        ("first", 0.89),
        ("epsilon", 0.85),
    ],
)
def test_it_finds_the_best_policy_and_plays_it_ever_more(explore, least):
    problem = easy()
    algorithm = made(problem, explore=explore, first=300, budget=3_000, growth=0.5)
    states, plans, _ = rounds(algorithm, problem)
    assert states[-1].policy(problem.population).tolist() == BEST
    values = (plan.sampler.propensities(problem.population) * problem.mean_rewards for plan in plans)
    earned = [float(problem.population.weights @ one.sum(axis=1)) for one in values]
    assert earned[0] < 0.6
    assert np.mean(earned[-3:]) > least


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", ["ids", "features", "phi"])
def test_the_greedy_answer_takes_the_action_of_least_cost_and_can_be_written_down(kind):
    problem = easy(features=kind == "features")
    if kind == "phi":
        problem = load_problem("linear:dimension=3,actions=4,contexts=6,policies=5,seed=1")
    states, _, _ = rounds(made(problem, answer="greedy", budget=500, growth=0.5), problem)
    policy, costs = states[-1].policy, states[-1].memory.costs(problem.population)
    assert policy(problem.population).tolist() == costs.argmin(axis=1).tolist()
    again = policy_from_json(policy.to_json())
    assert again(problem.population).tolist() == policy(problem.population).tolist()
    assert len(set(costs.argmin(axis=1).tolist())) > 1


def test_a_greedy_answer_better_than_the_class_has_no_gap():
    problem = easy()
    few = replace(problem, policies=Finite([[0] * 5, [1] * 5], n_actions=3))
    done = run(
        few,
        algorithm="vowpal",
        answer="greedy",
        explore="regcb",
        budget=500,
        epsilon=0.05,
        delta=0.1,
        rng=0,
        growth=0.5,
    )
    assert problem.value(done.policy) > 0.85
    assert done.value_gap == 0


@pytest.mark.thorough
def test_corrected_costs_answer_right_where_a_line_cannot():
    """Rewards that are not linear in the one feature there is: the middle contexts want another action."""
    means = np.array([[0.8, 0.4], [0.2, 0.4], [0.2, 0.4], [0.8, 0.4]])
    contexts = Contexts.of(np.arange(4.0)[:, None], ids=np.arange(4))
    problem = Problem("bent", "No line.", contexts, means, Bernoulli(), Trivial(4, 2))
    found = {}
    for answer in ("class", "robust"):
        states, _, _ = rounds(
            made(problem, explore="first", first=4_000, answer=answer, budget=4_000, growth=1.0), problem
        )
        found[answer] = states[-1].policy(contexts).tolist()
    assert found["robust"] == [0, 1, 1, 0]
    assert found["class"] != [0, 1, 1, 0]


def test_a_context_that_was_not_known_is_asked_for_when_it_comes():
    problem = easy()
    known = problem.population.take(np.arange(4))
    algorithm = made(problem, explore="squarecb", budget=200, growth=1.0)
    state = algorithm.start(problem.policies, known)
    rng = np.random.default_rng(0)
    while (plan := algorithm.design(state)) is not None:
        state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
    share = state.memory.propensities(problem.population)
    assert np.array_equal(share[:4], state.memory.table)
    assert share[4].argmax() == BEST[4]


def test_contexts_without_ids_are_known_by_their_features():
    problem = easy(features=True)
    blank = replace(problem.population, ids=None)
    classless = Finite([[0] * 5, [1] * 5], n_actions=3)
    learnt = made(problem).first_memory(classless, blank)
    assert learnt.known is None
    assert learnt.propensities(blank).shape == (5, 3)
    assert np.array_equal(learnt.propensities(blank), learnt.propensities(blank))


def test_regressions_that_squarecb_and_regcb_do_not_take_are_refused():
    for explore in ("squarecb", "regcb", "regcbopt"):
        with pytest.raises(InputError, match=f"{explore} regresses costs by mtr alone, not by dr; leave out cb_type"):
            made(easy(), explore=explore, cb_type="dr")
    with pytest.raises(InputError, match=r"explore must be cover or cover-nu or .*, got 'luck'"):
        Vowpal(0.1, 0.1, explore="luck")


def test_without_the_package_it_is_listed_and_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "vowpalwabbit", None)
    assert "vowpal" in [profile.name for profile in list_profiles()]
    with pytest.raises(InputError) as caught:
        made(easy())
    assert str(caught.value) == "vowpal needs Vowpal Wabbit; pip install 'pacbandits[peers]'"


@pytest.mark.thorough
def test_it_says_nothing_of_its_own(capfd):
    for explore in EXPLORATIONS:
        rounds(made(easy(), explore=explore, budget=50, growth=1.0), easy())
    assert capfd.readouterr() == ("", "")
