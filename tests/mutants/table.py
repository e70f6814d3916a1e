"""What a proof cannot do without, left out on purpose, one at a time; and the test that notices.

A line is a change that a tired author could make and a reader overlook: a union forgotten, a half of δ spent twice, a
model that has seen what it predicts. `make mutants` makes each in a copy of the code and runs its test, which must
fail. A new step of a proof deserves a line here; texts are kept as short as they can be found by.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A change to one line of the code.

    words: what is wrong with it.
    file: in src/pacbandits.
    text: what stands there now, exactly once.
    instead: what stands there then.
    tests: those that must fail, as pytest names them, below tests/; several apart by blanks.
    """

    words: str
    file: str
    text: str
    instead: str
    tests: str


VILLE = "certificate/test_ville.py::test_no_expert"
GAME = f"{VILLE}_grows_rich_whoever_keeps_the_log"
BY_HAND = "certificate/test_ledger.py::test_wealth_of_any_log_is_that_by_hand"
UNION = "certificate/test_validity.py::test_references_and_experts_together_err_no_more_often_than_delta_says"
THRESHOLD = "certificate/test_certificate.py::test_the_threshold_is_a_union_over_references"
LEADERS = "certificate/test_leaders.py::test_"
LED = "certificate/test_led_ville.py::test_no_expert_grows_rich_whoever_leads"
STARTS = "certificate/test_starts.py::test_"
SHARED_STARTS = "certificate/test_led_ville.py::test_all_starts_of_a_single_policy_share_what_there_is"
MADE = f"{LEADERS}a_certificate_is_its_definition_and_verify_finds_the_same"
PARTS = f"{LEADERS}certify_has_two_proofs_that_share_delta"
FORGERY = f"{LEADERS}verify_refuses_every_forgery"
ALTERED = "certificate/test_certify.py::test_a_certificate_that_was_altered_is_refused"
CAPS = "certificate/test_certify.py::test_verify_computes_the_same_where_caps_bind"
DIGEST = "certificate/test_certificate.py::test_the_digest_is_of_everything"
REALIZABLE = "realizable/test_certificate.py::"
SIZES = "test_confidence.py::test_sample_sizes_give_the_widths_that_the_proofs_need"
BOUNDS = "complexity/test_bounds.py::test_"
UNITS = "certificate/test_units.py::test_"
WAITING = "certificate/test_late.py::test_"
BEST = "certificate/test_best.py::test_"
SUMMED_LEADING = "certificate/summed/test_leading.py::test_"
SUMMED_ROWS = "certificate/summed/test_arrangement.py::test_"
SUMMED_PAST = f"{SUMMED_LEADING}leaders_and_models_are_of_earlier_rounds_alone"
SUMMED_TEACHING = f"{SUMMED_ROWS}rows_that_teach_a_class_do_not_bet"

THRESHOLDS = (
    Mutant("log K is dropped", "certificate/search.py", "axis=0).min()) - math.log(count)", "axis=0).min())", UNION),
    Mutant("log|Π| is dropped", "confidence.py", "return log_size - math.log(delta)", "return -math.log(delta)", UNION),
    Mutant(
        "δ is spent twice", "confidence.py", "log_size - math.log(delta)", "log_size - math.log(2.0 * delta)", THRESHOLD
    ),
    Mutant(
        "the best itself pays for no names",
        "confidence.py",
        "certificate_threshold(log_size=log_size, delta=(1.0 - UNSEEN_PART) * delta)",
        "certificate_threshold(log_size=0.0, delta=(1.0 - UNSEEN_PART) * delta)",
        f"{BEST}ties_are_taken_for_the_best_no_more_often_than_delta_says",
    ),
    Mutant(
        "what is unseen costs nothing of δ",
        "confidence.py",
        "delta=(1.0 - UNSEEN_PART) * delta)",
        "delta=delta)",
        f"{BEST}the_parts_of_delta_are_one_whole",
    ),
    Mutant(
        "who acts nearly alike is no rival",
        "policies/rivals.py",
        "!= self._reference).any(axis=1)",
        "!= self._reference).mean(axis=1) > 0.1",
        f"{BEST}who_is_nearly_the_best_is_not_taken_for_it",
    ),
    Mutant(
        "the first rival that is found is the best",
        "policies/rivals.py",
        "if bounds[kind] <= most:",
        "if best is not None:",
        "policies/test_rivals.py::test_the_best_rival_is_that_of_a_list",
    ),
    Mutant(
        "every log has seen all",
        "certificate/unseen.py",
        "np.array_equal(np.unique(log.contexts.ids), np.arange(policies.n_contexts))",
        "len(log.contexts.ids) > 0",
        f"{BEST}what_was_not_seen_is_told",
    ),
    Mutant(
        "verify believes that a log has seen all",
        "certificate/rivals_again.py",
        "set(range(policies.n_contexts)) <= ids",
        "len(ids) > 0",
        f"{BEST}verify_refuses_a_best_that_is_none",
    ),
    Mutant("either proof of certify has all of δ", "confidence.py", "= 0.8, 0.2", "= 1.0, 1.0", PARTS),
    Mutant(
        "the entropy of two experts is counted twice",
        "certificate/search.py",
        "+ entropy(share) - math.log(count)",
        "+ 2.0 * entropy(share) - math.log(count)",
        "certificate/test_search.py::test_a_combination_and_its_entropy_are_never_above_the_sum",
    ),
    Mutant(
        "what was found is of as few experts as were named",
        "certificate/search.py",
        "return Least(value, experts, share, calls, count=len(beside), sums=sums)",
        "return Least(value, experts, share, calls, count=len(experts), sums=sums)",
        "certificate/test_search.py::test_tree_classes",
    ),
    Mutant(
        "a certificate that misses its threshold counts",
        "certificate/certificate.py",
        "bool(self.value >= self.threshold)",
        "bool(self.value >= self.threshold - 1.0)",
        "certificate/test_certificate.py::test_the_certified_epsilon_is_the_smallest_to_two_percent",
    ),
    Mutant(
        "a smaller ε is certified than was refuted",
        "certificate/making.py",
        "return float(grid[high]), more",
        "return float(grid[low]), more",
        "certificate/test_certificate.py::test_the_certified_epsilon_is_the_smallest_to_two_percent",
    ),
    Mutant(
        "the most refuted policy is looked at",
        "certificate/search.py",
        "np.logaddexp.reduce(wealths, axis=0).min()",
        "np.logaddexp.reduce(wealths, axis=0).max()",
        "certificate/test_search.py",
    ),
    Mutant(
        "the argmax finds the policy refuted most",
        "certificate/search.py",
        "score, policies.argmax(contexts, -score))]])",
        "score, policies.argmax(contexts, score))]])",
        "certificate/test_search.py",
    ),
    Mutant(
        "of two experts the better one for each policy is averaged away",
        "certificate/search.py",
        "np.array([-frontier.first, -frontier.second])",
        "np.array([-frontier.first, -frontier.first])",
        "certificate/test_search.py",
    ),
    Mutant(
        "every log is shuffled",
        "certificate/conventions.py",
        "return bool(known and (np.ptp(log.propensities, axis=0) == 0.0).all())",
        "return bool(known)",
        "certificate/test_arranging.py::test_a_fixed_split_is_shuffled_and_nothing_else_unless_it_is_said",
    ),
    Mutant(
        "a log of a fixed split is in order as it stands",
        "certificate/conventions.py",
        "in_blocks(shuffled(log), planned_ends(log.n_units))",
        "in_blocks(log, planned_ends(log.n_units))",
        "certificate/test_arranging.py::test_sorted_rows_of_a_fixed_split_give_no_wrong_certificates",
    ),
    Mutant(
        "a leader that stays was chosen by later rows too",
        "certificate/choosing.py",
        "late = settled is not None and i > settled",
        "late = settled is not None and i > settled + 1",
        "certificate/test_arranging.py::test_shuffled_rows_certify_one_policy_that_later_rows_have_not_chosen",
    ),
    Mutant(
        "weight that has to move to who stays is moved twice",
        "certificate/moving.py",
        "weights / planned[t:].sum()",
        "2.0 * weights / planned[t:].sum()",
        "certificate/test_arranging.py::test_shuffled_rows_certify_one_policy_that_later_rows_have_not_chosen",
    ),
    Mutant(
        "leaders settle in any log",
        "certificate/bookkeeping.py",
        "not (c.shuffled and c.by_rule)",
        "False",
        "certificate/test_arranging.py::test_a_leader_that_settles_otherwise_is_no_proof",
    ),
    Mutant(
        "every visit counts as another person",
        "records/units.py",
        "return 1.0 / visits[which]",
        "return np.ones(len(units))",
        f"{UNITS}no_expert_grows_rich_by_people_who_come_back {UNITS}intervals_of_values_cover[12]",
    ),
    Mutant(
        "later visits count too where rows stand in order",
        "certificate/conventions.py",
        "cut = first_visits(log) if ends is None else log",
        "cut = log",
        f"{UNITS}in_order_only_first_visits_count",
    ),
    Mutant(
        "a shuffle tears the visits of a person apart",
        "certificate/conventions.py",
        "else number_units(log.units)\n    return log.take",
        "else np.arange(len(log))\n    return log.take",
        f"{UNITS}units_are_shuffled_and_none_is_left_out",
    ),
    Mutant(
        "who taught the class bets at the next visit",
        "certificate/learning.py",
        "else number_units(log.units)",
        "else np.arange(len(log))",
        f"{UNITS}whoever_taught_the_class_does_not_bet",
    ),
    Mutant(
        "verify counts visits",
        "certificate/verify.py",
        "1.0 / visits[unit]",
        "1.0",
        f"{UNITS}a_certificate_is_verified_and_none_of_its_units_can_be_changed",
    ),
    Mutant(
        "intervals of values pay for no experts",
        "certificate/worth.py",
        "needed = union_threshold(log_size=size, experts=experts, delta=one_side)",
        "needed = union_threshold(log_size=size, experts=1, delta=one_side)",
        "certificate/test_values.py::test_each_side_pays_for_its_experts_and_half_of_delta",
    ),
    Mutant(
        "intervals of values have no cap",
        "certificate/bounding.py",
        "room * known[i, a] / abs(u)",
        "1e300",
        "certificate/test_values.py::test_no_row_can_ruin_an_expert",
    ),
    Mutant(
        "the centre of a round sees the round",
        "certificate/values.py",
        "before, seen = np.cumsum(sums) - sums, np.cumsum(counts) - counts",
        "before, seen = np.cumsum(sums), np.cumsum(counts)",
        "certificate/test_values.py::test_centres_are_of_earlier_rounds",
    ),
    Mutant(
        "the least claim is rounded down",
        "certificate/claim.py",
        "{math.ceil(value / unit",
        "{math.floor(value / unit",
        "certificate/test_certify.py::test_a_claim_is_never_rounded_down",
    ),
)

SCORES = (
    Mutant(
        "what rounding takes from 1 is divided by a propensity",
        "certificate/rows.py",
        "(room - (1.0 - r)) / rows.played[i]",
        "(r - high[x]) / rows.played[i]",
        "certificate/test_ledger.py::test_no_row_can_ruin_an_expert",
    ),
    Mutant("X has the wrong sign", "certificate/rows.py", "(gained - (high[x]", "(gained + (high[x]", f"{GAME}[even]"),
    Mutant(
        "no cap on q's side",
        "certificate/rows.py",
        "low = min(room_above(1.0 - f[i, q], bet / max(p[i, q], 1e-12)), p[i, q] * cap)",
        "low = room_above(1.0 - f[i, q], bet / max(p[i, q], 1e-12))",
        f"certificate/test_ledger.py::test_no_row_can_ruin_an_expert {GAME}[rare-reference-that-is-sure-to-earn]",
    ),
    Mutant(
        "no cap on π's side",
        "certificate/rows.py",
        "room = min(room_above(f[i, x], bet / max(p[i, x], 1e-12)), p[i, x] * cap)",
        "room = room_above(f[i, x], bet / max(p[i, x], 1e-12))",
        "certificate/test_ledger.py::test_no_row_can_ruin_an_expert",
    ),
    Mutant(
        "the score is capped where the control variate should be",
        "certificate/rows.py",
        "(gained - (high[x] - base))",
        "(gained - min(high[x] - base, 1.0))",
        f"{GAME}[even]",
    ),
    Mutant(
        "the bet sees the context",
        "certificate/rows.py",
        "float(bets[t]), against.turns[t]",
        "float(bets[t]) * (1.0 - p[i, against.actions[against.turns[t], c]]), against.turns[t]",
        f"{GAME}[by-context]",
    ),
    Mutant(
        "the bet sees the action",
        "certificate/rows.py",
        "float(bets[t]), against.turns[t]",
        "float(bets[t]) * (1.0 if rows.actions[i] == 0 else 0.5), against.turns[t]",
        f"{GAME}[even]",
    ),
    Mutant(
        "rows on which π agrees with q count twice",
        "certificate/rows.py",
        "high[q] = base",
        "high[q] = base - epsilon",
        f"{GAME}[rare-context]",
    ),
    Mutant(
        "rows on which π agrees with q do not count",
        "certificate/rows.py",
        "high[q] = base",
        "high[q] = base + epsilon",
        f"{GAME}[rare-context]",
    ),
    Mutant(
        "wealth without a logarithm",
        "certificate/rows.py",
        "math.log1p(bet * (gained - (high[x] - base)))",
        "bet * (gained - (high[x] - base))",
        f"{GAME}[even]",
    ),
    Mutant(
        "rewards are divided by what propensities were at least",
        "certificate/rows.py",
        "(room - (1.0 - r)) / rows.played[i]",
        "(room - (1.0 - r)) / p[i, x]",
        f"{GAME}[played-propensities]",
    ),
    Mutant(
        "the control variate knows the propensity that was played",
        "certificate/ledger.py",
        "ascontiguousarray(log.bounds[order])",
        "ascontiguousarray(log.propensities[order])",
        f"{GAME}[played-propensities]",
    ),
    Mutant(
        "the baseline of q is left out",
        "certificate/rows.py",
        "base = low + ((r - low) / rows.played[i] if a == q else 0.0)",
        "base = (r - low) / rows.played[i] if a == q else 0.0",
        f"{GAME}[even]",
    ),
    Mutant(
        "repeats do not count",
        "certificate/rows.py",
        "rows.repeats[i] * math.log1p(bet",
        "math.log1p(bet",
        BY_HAND,
    ),
    Mutant(
        "stakes that could ruin an expert are let through",
        "certificate/ledger.py",
        "(boldest < 1.0)",
        "(bets < 1.0)",
        "certificate/test_ledger.py::test_what_a_ledger_refuses",
    ),
    Mutant(
        "a cap too high for its stake",
        "certificate/rows.py",
        "share / (bet * (1.0 + moved)) - 1.0",
        "share / (bet * (1.0 + moved))",
        "certificate/test_ledger.py::test_no_row_can_ruin_an_expert",
    ),
    Mutant(
        "the cap ignores weight that moves",
        "certificate/rows.py",
        "share / (bet * (1.0 + moved)) - 1.0",
        "share / bet - 1.0",
        f"{LEADERS}no_row_that_moves_weight_can_ruin_an_expert {LEADERS}the_kernel_is_its_definition",
    ),
    Mutant(
        "weight moves for nothing",
        "certificate/rows.py",
        "gained -= against.moves[t, j] * (high[against.actions[j, c]] - base)",
        "gained -= 0.0",
        f"{LED}[from-best-to-worst] {LEADERS}the_kernel_is_its_definition",
    ),
    Mutant(
        "the kernel reads beyond the leaders",
        "certificate/ledger.py",
        "(against.turns < leaders)",
        "(against.turns <= leaders)",
        "certificate/test_ledger.py::test_leaders_must_be_those_of_the_rounds",
    ),
    Mutant(
        "propensities that sum to less than 1 are let through",
        "records/log.py",
        "if self.least is None and off.max() > PROPENSITY_SUM_ROUNDING:",
        "if False:",
        "records/test_log.py::test_refuses_what_cannot_have_happened",
    ),
    Mutant(
        "an action may have been played less often than was declared",
        "records/least.py",
        "if below.max() > 0:",
        "if False:",
        "certificate/test_played_only.py::test_a_declaration_that_the_log_refutes_is_refused",
    ),
    Mutant(
        "rewards outside [0, 1] are let through",
        "certificate/ledger.py",
        "if ((log.rewards < 0) | (log.rewards > 1)).any():",
        "if ((log.rewards < 0) | (log.rewards > 2)).any():",
        "certificate/test_ledger.py::test_what_a_ledger_refuses",
    ),
)

PAST = (
    Mutant(
        "the model sees its own round",
        "rewards/prediction.py",
        "now, before = log.rounds == number, log.known_by(int(number))",
        "now, before = log.rounds == number, log.known_by(int(number) + 1)",
        f"{VILLE}_of_certify_grows_rich_by_models_of_earlier_blocks",
    ),
    Mutant(
        "the model of a trial sees its own round",
        "trials/trial.py",
        "new = predict_once(state.fitted,",
        "new = predict_once(replace(state, log=seen, round_number=plan.round_number).fitted,",
        "trials/test_trials.py::test_a_round_is_predicted_bet_on_and_led_without_it",
    ),
    Mutant(
        "leaders see their own block",
        "certificate/choosing.py",
        "log.known_by(int(np.unique(log.rounds)[number]))",
        "log.known_by(int(np.unique(log.rounds)[number]) + 1)",
        "certificate/test_certify.py::test_leaders_are_of_earlier_rounds_alone "
        "certificate/test_certify.py::test_who_leads_has_no_luck_left_on_the_rows_that_are_led",
    ),
    Mutant(
        "the leader of a trial sees its own round",
        "trials/trial.py",
        "        leader = self.choose_leader(seen, ledger)\n",
        "        leader = self.choose_leader(seen, ledger)\n        if state.leaders is not None:\n"
        "            led = state.leaders.followed_by(leader, state.contexts, size=plan.samples)\n"
        "            seen = replace(seen, leaders=led)\n",
        f"trials/test_trials.py::test_a_round_is_predicted_bet_on_and_led_without_it "
        f"{LEADERS}each_round_is_led_by_who_was_best_before_it",
    ),
    Mutant(
        "weights are what was planned, not what was played",
        "certificate/moving.py",
        "earned = units[t] * counts[t]",
        "earned = planned",
        f"{LEADERS}more_rows_than_planned_take_more_than_there_was "
        f"{LEADERS}weights_add_up_to_all_stakes_and_are_their_definition",
    ),
    Mutant(
        "what moves is fixed after the round",
        "certificate/moving.py",
        "planned = units[t] * size",
        "planned = units[t] * counts[t]",
        f"{LEADERS}what_a_round_moves_is_fixed_before_it",
    ),
    Mutant(
        "weight is taken from who led last",
        "certificate/moving.py",
        "key=lambda one: last[one])",
        "key=lambda one: -last[one])",
        f"{LEADERS}weight_moves_from_who_has_not_led_for_longest",
    ),
    Mutant(
        "weights that are dropped cost nothing",
        "certificate/moving.py",
        "slack = slack if slack > MAX_WEIGHT_ROUNDING else 0.0",
        "slack = 0.0",
        f"{LEADERS}who_has_less_than_nothing_costs_what_the_others_have_too_much "
        f"{LEADERS}one_policy_costs_the_weight_of_the_others",
    ),
    Mutant(
        "ε is not reduced by the slack",
        "certificate/making.py",
        "distance = asked.epsilon - slack * claimable",
        "distance = asked.epsilon",
        MADE,
    ),
    Mutant(
        "the smallest ε is without the slack",
        "certificate/making.py",
        "epsilon=tried - slack)",
        "epsilon=tried)",
        MADE,
    ),
    Mutant(
        "what a lottery lacks is taken for a number known beforehand",
        "certificate/making.py",
        "inside = epsilon if self.leaders is None else 0.0",
        "inside = epsilon",
        MADE,
    ),
    Mutant(
        "rounds that nobody led count",
        "certificate/making.py",
        "(against.turns != NOBODY)",
        "(against.turns >= NOBODY)",
        MADE,
    ),
    Mutant(
        "the size that is planned for a round is its own",
        "certificate/conventions.py",
        "np.cumsum([0, *counts[:-1]])",
        "np.cumsum(counts)",
        f"{LEADERS}planned_sizes_follow_from_what_came_before",
    ),
    Mutant(
        "every start has all of δ",
        "certificate/leaders.py",
        "return start_part(starts.index(self.start)) if self.restarts else 1.0",
        "return 1.0",
        f"{STARTS}a_late_start_is_verified",
    ),
    Mutant(
        "starts share more than δ",
        "confidence.py",
        "return (1.0 - FIRST_START_PART) * LATER_START_PART * (1.0 - LATER_START_PART) ** (number - 1)",
        "return LATER_START_PART * (1.0 - LATER_START_PART) ** (number - 1)",
        f"{STARTS}all_starts_that_there_can_be_share_delta {SHARED_STARTS}",
    ),
    Mutant(
        "rows before the start bet too",
        "certificate/moving.py",
        "np.array(leaders.counted, dtype=np.int64), moves",
        "np.array(leaders.turns, dtype=np.int64), moves",
        f"{STARTS}a_late_start_is_verified",
    ),
    Mutant(
        "verify takes any start",
        "certificate/bookkeeping.py",
        "elif c.leaders is not None and not part_of_start(c.leaders, counts) > 0:",
        "elif False:",
        f"{STARTS}verify_finds_forged_starts",
    ),
    Mutant(
        "verify asks no price for a start",
        "certificate/bookkeeping.py",
        "        part *= part_of_start(certificate.leaders, counts)",
        "        pass",
        f"{STARTS}a_late_start_is_verified",
    ),
    Mutant(
        "a state may tell of any start",
        "trials/coherence.py",
        "_check(start in led.starts(counts), ",
        "_check(True, ",
        f"{STARTS}a_state_with_a_forged_start_is_refused",
    ),
    Mutant(
        "small classes have leaders",
        "certificate/conventions.py",
        "policies.log_size >= MIN_NATS_WORTH_LEADING",
        "True",
        f"{LEADERS}small_classes_do_without_leaders",
    ),
    Mutant(
        "a worse certificate replaces a better one",
        "trials/trial.py",
        "if state.certificate is not None and state.certificate.certified_epsilon < latest.certified_epsilon:",
        "if False:",
        f"{LEADERS}what_is_proven_stays_proven {LEADERS}a_worse_certificate_never_replaces_a_better_one",
    ),
    Mutant(
        "blocks are cut where the log ends",
        "certificate/conventions.py",
        "np.searchsorted(stops, numbers",
        "np.searchsorted(stops, numbers + len(log) // 8",
        "certificate/test_certify.py::test_blocks_do_not_depend_on_where_a_log_ends",
    ),
    Mutant(
        "the first block is one row longer",
        "certificate/conventions.py",
        "np.searchsorted(stops, numbers",
        "np.searchsorted(stops, numbers - 1",
        "certificate/test_certify.py::test_blocks_do_not_depend_on_where_a_log_ends",
    ),
    Mutant(
        "counted rows are cut into blocks",
        "certificate/conventions.py",
        "if log.repeats.max() > 1:",
        "if False:",
        "certificate/test_certify.py::test_only_a_log_in_order_is_learnt_from_as_it_goes_and_its_certificate_says_so",
    ),
    Mutant(
        "a trial takes propensities that are not those of its plan",
        "trials/played.py",
        "if off.max() > MAX_PROPENSITY_ROUNDING:",
        "if False:",
        "algorithms/test_conformance.py::test_a_log_that_is_not_of_the_plan_is_refused",
    ),
)

SIZES_OF_CLASSES = (
    Mutant(
        "a list counts itself as one",
        "policies/finite.py",
        "return math.log(len(self))",
        "return 0.0",
        "policies/test_exact_classes.py::test_interface",
    ),
    Mutant(
        "every map, each context counted with one action fewer",
        "policies/trivial.py",
        "return self.n_contexts * math.log(self.n_actions)",
        "return self.n_contexts * math.log(self.n_actions - 1)",
        "policies/test_exact_classes.py::test_interface",
    ),
    Mutant(
        "trees are counted without their leaves",
        "policies/trees/binned.py",
        "math.log(splits) + 2**self.depth * actions",
        "math.log(splits) + actions",
        "policies/trees/test_oracle.py::test_log_size_counts_splits",
    ),
    Mutant(
        "trees are counted by their root alone",
        "policies/trees/binned.py",
        "(2**self.depth - 1) * math.log(splits)",
        "math.log(splits)",
        "policies/trees/test_oracle.py::test_log_size_counts_splits",
    ),
    Mutant(
        "a policy beyond the budget belongs to the class",
        "policies/trees/affordable.py",
        "return self.policies.has(policy) and self._keeps(policy)",
        "return self.policies.has(policy)",
        "policies/trees/test_affordable.py::test_a_policy_beyond_the_budget_is_not_of_the_class",
    ),
    Mutant(
        "the best tree within a budget is looked for in one direction",
        "policies/trees/within.py",
        "while partner > middle and second[i] + second[partner - 1] >= least:",
        "if partner > middle and second[i] + second[partner - 1] >= least:",
        "policies/trees/test_affordable.py::test_argmax_is_the_best_of_those_that_one_can_afford",
    ),
    Mutant(
        "one side of a root may be too small",
        "policies/trees/leaves.py",
        "= total_left >= least and total_right >= least",
        "= total_left >= least",
        "policies/trees/test_leaves.py::test_argmax_and_frontier_are_those_of_all_trees_with_such_leaves",
    ),
    Mutant(
        "a barred action is scored as if it were taken",
        "policies/trees/barred.py",
        "out[there, bar.action] = out[there, self.fallback]",
        "out[there, bar.action] = out[there, bar.action]",
        "policies/trees/test_barred.py::test_argmax_and_frontier_are_those_of_all_trees_that_keep_to_it",
    ),
)

RECHECK = (
    Mutant(
        "verify does not look at the threshold",
        "certificate/bookkeeping.py",
        "elif not near(c.threshold, needed_wealth(c, policies, counts)):",
        "elif False:",
        f"{ALTERED}",
    ),
    Mutant(
        "verify has all of δ for either proof of certify",
        "certificate/bookkeeping.py",
        "part = delta_part(policies, led=led) if certificate.by_rule else 1.0",
        "part = 1.0",
        PARTS,
    ),
    Mutant(
        "verify forgets log K",
        "certificate/verify.py",
        "begun = float(np.log(len(self.certificate.bets)))",
        "begun = 0.0",
        CAPS,
    ),
    Mutant(
        "verify ignores weight that moves",
        "certificate/bookkeeping.py",
        "taken[other] = min(weight / unit, left) / size",
        "taken[other] = 0.0",
        MADE,
    ),
    Mutant(
        "verify ignores what it costs to move weight",
        "certificate/rescoring.py",
        "scores = scores + share * own[",
        "scores = scores + 0.0 * own[",
        MADE,
    ),
    Mutant(
        "verify ignores the weights of a lottery",
        "certificate/bookkeeping.py",
        " or not np.allclose(weights, owed, rtol=0, atol=1e-9)",
        "",
        FORGERY,
    ),
    Mutant(
        "verify ignores who is drawn by a lottery",
        "certificate/bookkeeping.py",
        "same_policy(one, c.leaders.policies[j])",
        "True",
        f"{LEADERS}verify_takes_no_other_policies_in_a_lottery",
    ),
    Mutant(
        "verify ignores the slack",
        "certificate/bookkeeping.py",
        "if not abs(slack - c.slack) <= 1e-9:",
        "if False:",
        FORGERY,
    ),
    Mutant(
        "verify lets a trial do without leaders",
        "certificate/bookkeeping.py",
        "if c.epsilon > 0 and c.leaders is None and worth_leading(policies) and not c.by_rule:",
        "if False:",
        FORGERY,
    ),
    Mutant(
        "verify counts an expert twice",
        "certificate/bookkeeping.py",
        "if len(set(c.experts)) < len(c.experts):",
        "if False:",
        FORGERY,
    ),
    Mutant(
        "the rule takes any leader",
        "certificate/rule.py",
        "mine.policies[own] is told.policies[given]",
        "True",
        "certificate/test_rule.py::test_an_antedated_leader_is_found_out "
        "certificate/test_rule.py::test_leaders_that_saw_their_own_block_are_found_out",
    ),
    Mutant(
        "the rule is silent on ties",
        "certificate/rule.py",
        "tied.append(",
        "str(",
        "certificate/test_rule.py::test_a_tie_is_taken_on_trust_and_said",
    ),
    Mutant(
        "verify does not look at the digest",
        "certificate/bookkeeping.py",
        "if digest != c.digest:",
        "if False:",
        "certificate/test_certify.py::test_another_log_is_refused",
    ),
    Mutant(
        "verify takes a policy that is not of the class",
        "certificate/verify.py",
        "if not all(belongs(policy, log.contexts, policies) for policy in parts_of(certificate.policy)):",
        "if False:",
        "certificate/test_certify.py::test_another_policy_is_refused",
    ),
    Mutant(
        "verify takes a policy that acts like one of the class on the log",
        "certificate/membership.py",
        "return policies.has(policy)",
        "pass",
        "certificate/test_certify.py::test_a_policy_that_only_acts_like_one_of_the_class_is_refused",
    ),
    Mutant(
        "verify does not compute the value anew",
        "certificate/bookkeeping.py",
        "if not abs(off) <= WEALTH_ROUNDING * max(1.0, abs(value)):",
        "if False:",
        ALTERED,
    ),
    Mutant(
        "verify does not ask whether the value suffices",
        "certificate/bookkeeping.py",
        "if c.certified and not value >= needed:",
        "if False:",
        ALTERED,
    ),
    Mutant(
        "verify does not look at the smallest ε",
        "certificate/bookkeeping.py",
        "if not least(c.unit_certified_epsilon - c.slack) >= needed - WEALTH_ROUNDING:",
        "if False:",
        ALTERED,
    ),
    Mutant(
        "verify takes an oracle's word that it is exact",
        "certificate/bookkeeping.py",
        "if policies.exact is not c.exact:",
        "if False:",
        ALTERED,
    ),
    Mutant(
        "verify takes the certificate's word for the size of the class",
        "certificate/bookkeeping.py",
        "if not near(c.log_size, policies.log_size):",
        "if False:",
        ALTERED,
    ),
    Mutant(
        "verify lets remarks be dropped",
        "certificate/bookkeeping.py",
        "for w in log.assumed if w not in c.remarks)",
        "for w in () if w not in c.remarks)",
        "certificate/test_played_only.py::test_remarks_of_a_log_reach_its_certificates",
    ),
    Mutant(
        "verify has no cap on q's side",
        "certificate/rescoring.py",
        "np.minimum(_room_above(1.0 - rows.predictions, stake), p * cap)",
        "_room_above(1.0 - rows.predictions, stake)",
        CAPS,
    ),
    Mutant(
        "verify has no cap on π's side",
        "certificate/rescoring.py",
        "np.minimum(_room_above(rows.predictions, stake), p * cap)",
        "_room_above(rows.predictions, stake)",
        CAPS,
    ),
    Mutant(
        "verify counts a row once however often it occurred",
        "certificate/verify.py",
        "weights[part, None] * self._growth",
        "self._growth",
        CAPS,
    ),
    Mutant(
        "verify takes another reward model",
        "certificate/verify.py",
        "if made.to_json() != certificate.model:",
        "if False:",
        "certificate/test_certify.py::test_another_model_than_the_one_described_is_refused",
    ),
    Mutant(
        "verify weighs two experts by any number",
        "certificate/bookkeeping.py",
        "if c.share is not None and not (0 <= c.share <= 1 and len(c.experts) == 2):",
        "if False:",
        ALTERED,
    ),
    Mutant(
        "a certificate may say what its figures do not",
        "certificate/claim.py",
        "if one != other or isinstance(one, bool) != isinstance(other, bool):",
        "if False:",
        "certificate/test_certify.py::test_words_that_were_altered_are_refused",
    ),
    *(
        Mutant(f"the digest is not of {column}", "records/digest.py", text, instead, tests)
        for column, text, instead, tests in (
            ("actions", "(log.actions, log.rewards", "(log.rewards", DIGEST),
            ("rewards", "log.rewards, log.propensities", "log.propensities", DIGEST),
            ("propensities", "log.propensities, log.rounds", "log.rounds", DIGEST),
            ("rounds", "log.rounds, log.repeats", "log.repeats", DIGEST),
            ("repeats", "log.repeats, *least", "*least", DIGEST),
            ("ids", "contexts.features, ids", "contexts.features", DIGEST),
            ("features", "contexts.categories)), contexts.features", "contexts.categories))", DIGEST),
            (
                "names",
                "repr((contexts.names, contexts.categories))",
                "repr(contexts.categories)",
                "certificate/test_certificate.py::test_the_digest_is_of_what_features_mean",
            ),
            (
                "what propensities were at least",
                "() if log.least is None else (log.least,)",
                "()",
                "certificate/test_played_only.py::test_the_certificate_says_what_was_declared_and_verify_looks",
            ),
            (
                "phi",
                "columns, _phi(log.contexts))",
                "columns)",
                "records/test_phi.py::test_the_digest_of_a_log_sees_phi",
            ),
            (
                "shapes",
                "sha.update(str(part.shape).encode())",
                "pass",
                "certificate/test_certificate.py::test_the_digest_tells_shapes_apart",
            ),
        )
    ),
)

PAPER = (
    Mutant(
        "one policy instead of pairs",
        "confidence.py",
        "- math.log(delta) + 2.0 * log_size",
        "- math.log(delta) + log_size",
        "paper/test_corrections.py::test_row_6_the_split_of_delta",
    ),
    Mutant(
        "one side instead of both",
        "confidence.py",
        "math.pi**2 * round_number**2 / 3.0",
        "math.pi**2 * round_number**2 / 6.0",
        "paper/test_corrections.py::test_row_6_the_split_of_delta",
    ),
    Mutant(
        "rounds share δ by 1/l",
        "confidence.py",
        "math.pi**2 * round_number**2 / 3.0",
        "math.pi**2 * round_number / 3.0",
        "paper/test_corrections.py::test_row_6_the_split_of_delta",
    ),
    Mutant(
        "Catoni's radius with n − L",
        "confidence.py",
        "(samples - 2.0 * confidence)",
        "(samples - confidence)",
        "test_confidence.py::test_the_scale_and_the_radius_satisfy_catonis_condition",
    ),
    Mutant(
        "Catoni's radius without its 2",
        "confidence.py",
        "np.sqrt(2.0 * variance * confidence /",
        "np.sqrt(variance * confidence /",
        "test_confidence.py::test_the_scale_and_the_radius_satisfy_catonis_condition",
    ),
    Mutant(
        "Catoni's radius below n = 4L",
        "confidence.py",
        "if samples < 4.0 * confidence:",
        "if samples <= 2.0 * confidence:",
        "test_confidence.py::test_too_few_samples_have_no_radius",
    ),
    Mutant(
        "half the regularised radius",
        "confidence.py",
        "radius = 2.0 * (gamma * variance",
        "radius = 1.0 * (gamma * variance",
        "test_confidence.py::test_the_best_gamma_is_best",
    ),
    Mutant(
        "the regularised radius without its bias",
        "confidence.py",
        "(gamma * variance + confidence / (gamma * samples))",
        "(confidence / (gamma * samples))",
        "test_confidence.py::test_the_best_gamma_is_best",
    ),
    Mutant(
        "half of elimination's samples", "confidence.py", "ELIMINATION_FACTOR = 4.0", "ELIMINATION_FACTOR = 2.0", SIZES
    ),
    Mutant("half of rage-free's samples", "confidence.py", "FREE_FACTOR = 1568.0", "FREE_FACTOR = 784.0", SIZES),
    Mutant(
        "half of CODA's width",
        "confidence.py",
        "CODA_WIDTH_WEIGHT = 8.0",
        "CODA_WIDTH_WEIGHT = 4.0",
        "test_confidence.py::test_the_induction_of_the_lemmas_closes",
    ),
    Mutant(
        "CODA believes its gaps twice as much",
        "confidence.py",
        "CODA_SLOPE = 1.0 / 8.0",
        "CODA_SLOPE = 1.0 / 4.0",
        "test_confidence.py::test_the_induction_of_the_lemmas_closes",
    ),
    Mutant(
        "one γ for all is twice too small",
        "confidence.py",
        "2.0 * CODA_WIDTH_WEIGHT * confidence / (samples * epsilon)",
        "CODA_WIDTH_WEIGHT * confidence / (samples * epsilon)",
        SIZES,
    ),
    Mutant(
        "samples are rounded down",
        "confidence.py",
        "return max(1, math.ceil(n))",
        "return max(1, math.floor(n))",
        SIZES,
    ),
    Mutant(
        "a round too few",
        "confidence.py",
        "math.ceil(-math.log2(epsilon) - 1e-12)",
        "math.floor(-math.log2(epsilon))",
        "test_confidence.py::test_rounds_needed",
    ),
    Mutant(
        "Lemma history_1 with 8 for 16",
        "paper/offline_contexts.py",
        "spread + 16 * g.n_actions",
        "spread + 8 * g.n_actions",
        "paper/test_offline_contexts.py::test_both_lemmas_at_numbers_of_ones_own",
    ),
    Mutant(
        "Lemma history_2 with 4 for 8",
        "paper/offline_contexts.py",
        "spread + 8 * g.n_actions",
        "spread + 4 * g.n_actions",
        "paper/test_offline_contexts.py::test_both_lemmas_at_numbers_of_ones_own",
    ),
    Mutant(
        "the entropy of the history bound without log|Π|",
        "paper/offline_contexts.py",
        "math.log(3 * math.e / g.support) + g.log_size",
        "math.log(3 * math.e / g.support) + 1.0",
        "paper/test_offline_contexts.py::test_both_lemmas_at_numbers_of_ones_own",
    ),
    Mutant(
        "the history bound for one side",
        "paper/offline_contexts.py",
        "(1 + g.smoothing) * math.sqrt((math.log(2) + confidence) / 2)",
        "(1 + g.smoothing) * math.sqrt(confidence / 2)",
        "paper/test_offline_contexts.py::test_both_lemmas_at_numbers_of_ones_own",
    ),
    Mutant(
        "coda-paper takes its solver's word",
        "paper/coda.py",
        "Shifted(4.0 / 3.0 * epsilon, CODA_SLOPE)",
        "Shifted(40.0 * epsilon, CODA_SLOPE)",
        "paper/test_algorithms.py::test_a_solver_is_not_taken_at_its_word",
    ),
    Mutant(
        "coda-paper's guard is half as wide",
        "paper/coda.py",
        "Shifted(4.0 / 3.0 * epsilon, CODA_SLOPE)",
        "Shifted(8.0 / 3.0 * epsilon, CODA_SLOPE)",
        "paper/test_algorithms.py::test_a_solver_is_not_taken_at_its_word",
    ),
    Mutant(
        "coda-paper chooses without its width",
        "paper/coda.py",
        "int((gaps + widths).argmin())",
        "int(gaps.argmin())",
        "paper/test_definitions.py::test_the_width_decides_in_coda",
    ),
    Mutant(
        "coda-paper's design promises its lower end",
        "paper/coda.py",
        "solution.design, ratio=solution.upper",
        "solution.design, ratio=solution.lower",
        "paper/test_algorithms.py::test_sizes_are_by_the_safe_end_of_the_design",
    ),
    Mutant(
        "coda-oracle leaves the radius out of its gaps",
        "paper/coda_oracle.py",
        "+ 2.0 * gamma * costs",
        "+ 0.0 * gamma * costs",
        "paper/test_coda_oracle.py::test_the_width_is_in_the_gaps",
    ),
    Mutant(
        "coda-oracle ends rounds too soon",
        "confidence.py",
        "CODA_ORACLE_BEST_GAP = 1.0",
        "CODA_ORACLE_BEST_GAP = 0.5",
        "test_confidence.py::test_the_induction_through_oracles_closes",
    ),
    Mutant(
        "rage-free ends rounds too soon",
        "confidence.py",
        "RAGE_FREE_BEST_GAP = math.sqrt(2.0) / 7.0",
        "RAGE_FREE_BEST_GAP = math.sqrt(2.0) / 14.0",
        "test_confidence.py::test_no_best_policy_has_a_larger_gap_than_the_rule_allows",
    ),
    Mutant(
        "coda-paper ends rounds too soon",
        "confidence.py",
        "CODA_BEST_GAP = 11.0 / 12.0",
        "CODA_BEST_GAP = 9.0 / 12.0",
        "test_confidence.py::test_no_best_policy_has_a_larger_gap_than_the_rule_allows",
    ),
    Mutant(
        "through oracles no union over policies",
        "confidence.py",
        "log_size=log_size / 2.0)",
        "log_size=0.0)",
        "test_confidence.py::test_the_sizes_through_oracles_in_a_run",
    ),
    Mutant(
        "a rough argmax says that one policy is alone",
        "paper/coda_oracle.py",
        "    if not policies.exact:\n        return False\n",
        "",
        "paper/test_coda_oracle.py::test_an_argmax_that_may_miss_never_says_that_one_is_alone",
    ),
    Mutant(
        "the rule that ends rounds looks at gaps below its limit alone",
        "paper/listed.py",
        "table[gaps <= most]",
        "table[gaps < most]",
        "paper/test_coda_oracle.py::test_standing_alone_by_exclusion_and_by_the_list",
    ),
    Mutant(
        "coda-oracle's design promises its lower end",
        "paper/coda_oracle.py",
        "design, ratio = solution.design, max(solution.upper, solution.lower)",
        "design, ratio = solution.design, solution.lower",
        "paper/test_algorithms.py::test_sizes_are_by_the_safe_end_of_the_design",
    ),
    Mutant(
        "rage's design promises its lower end",
        "paper/rage.py",
        "            solution.upper,\n            epsilon",
        "            solution.lower,\n            epsilon",
        "paper/test_algorithms.py::test_sizes_are_by_the_safe_end_of_the_design",
    ),
    Mutant(
        "rage-free's design promises its lower end",
        "paper/rage_free.py",
        "            solution.upper,\n            factor",
        "            solution.lower,\n            factor",
        "paper/test_algorithms.py::test_sizes_are_by_the_safe_end_of_the_design",
    ),
    Mutant(
        "a round long enough for Catoni's radius counts as too short",
        "confidence.py",
        "return samples >= 4.0 * scale * confidence",
        "return samples >= 8.0 * scale * confidence",
        "paper/test_given_features.py::test_a_round_too_short_for_catoni_may_take_every_gap_for_nothing",
    ),
    Mutant(
        "RAGE for given features pays for the lower end of its design",
        "paper/given_features.py",
        "return FeatureDesign(sampler, solved.lower, value(table))",
        "return FeatureDesign(sampler, solved.lower, solved.lower)",
        "paper/test_given_features.py::test_sizes_are_by_what_the_design_attains",
    ),
    Mutant(
        "contexts without names are priced by a table that is not played",
        "paper/given_features.py",
        "return FeatureDesign(sampler, solved.lower, value(table))",
        "return FeatureDesign(sampler, solved.lower, value(solved.propensities))",
        "paper/test_given_features.py::test_contexts_without_names_are_played_and_priced_by_gain",
    ),
    Mutant(
        "the noise of a fixed design is bounded with half of log(1/δ)",
        "confidence.py",
        "2.0 * math.sqrt(rank * confidence) + 2.0 * confidence)",
        "2.0 * math.sqrt(rank * confidence) + confidence)",
        "rivals/test_planner_sampler.py::test_the_bound_on_the_noise_holds_and_is_not_idle",
    ),
    Mutant(
        "the sampler stops by one action's uncertainty, not by differences",
        "rivals/planner_sampler.py",
        "apart = squares[:, :, None] + squares[:, None, :] - 2.0 * own @ own.transpose(0, 2, 1)",
        "apart = np.maximum(squares[:, :, None], squares[:, None, :])",
        "rivals/test_planner_sampler.py::test_uncertainty_is_its_definition",
    ),
    Mutant(
        "rage-features stops when survivors are 2ε-good",
        "paper/rage_features.py",
        "beaten[best] + plan.epsilon <= self.epsilon",
        "beaten[best] <= self.epsilon",
        "paper/test_given_features.py::test_elimination_ends_with_one_policy_or_a_small_lead",
    ),
    Mutant(
        "rage-free-features stops when one policy looks best",
        "paper/rage_free_features.py",
        "gaps <= RAGE_FREE_BEST_GAP * plan.epsilon",
        "gaps <= 0.5 * RAGE_FREE_BEST_GAP * plan.epsilon",
        "paper/test_given_features.py::test_without_elimination_it_ends_when_no_other_can_be_the_best",
    ),
    Mutant(
        "rage stops when survivors are 2ε-good",
        "paper/rage.py",
        "beaten[best] + plan.epsilon <= self.epsilon",
        "beaten[best] <= self.epsilon",
        "paper/test_algorithm_corrections.py::test_row_26_survivors_of_the_last_printed_round_are_only_twice_as_good",
    ),
    Mutant(
        "rage drops what is led by half of ε_l",
        "paper/rage.py",
        "stays = beaten <= max(plan.epsilon, beaten[best])",
        "stays = beaten <= max(plan.epsilon / 2, beaten[best])",
        "paper/test_definitions.py::test_elimination",
    ),
    Mutant(
        "the regularised estimate is of the other sign",
        "paper/estimators/importance.py",
        "total -= rows.repeats",
        "total += rows.repeats",
        "paper/estimators/test_importance.py::test_gaps_are_the_definition",
    ),
    Mutant(
        "ψ without its square",
        "paper/estimators/catoni.py",
        "x = alpha * (values[i] - theta)\n            far = abs(x)\n            more = far + 0.5 * far * far",
        "x = alpha * (values[i] - theta)\n            far = abs(x)\n            more = far",
        "paper/estimators/test_catoni.py::test_it_is_the_root_of_its_equation",
    ),
)

COMPLEXITY = (
    Mutant(
        "the trivial upper bound without its rounds",
        "complexity/bounds.py",
        "(n_contexts * math.log(n_actions) - math.log(delta)) * rounds)",
        "(n_contexts * math.log(n_actions) - math.log(delta)))",
        f"{BOUNDS}the_upper_bounds_are_their_formulas",
    ),
    Mutant(
        "the trivial upper bound without log|A|",
        "complexity/bounds.py",
        "n_contexts * math.log(n_actions) - math.log(delta)",
        "n_contexts - math.log(delta)",
        f"{BOUNDS}the_upper_bounds_are_their_formulas",
    ),
    Mutant(
        "the upper bound without the rounds in its logarithm",
        "complexity/bounds.py",
        "log_size + math.log(rounds) - math.log(delta)",
        "log_size - math.log(delta)",
        f"{BOUNDS}the_upper_bounds_are_their_formulas",
    ),
    Mutant(
        "the minimax bound without its rounds",
        "complexity/bounds.py",
        "(log_size - math.log(delta)) * rounds / epsilon**2",
        "(log_size - math.log(delta)) / epsilon**2",
        f"{BOUNDS}the_upper_bounds_are_their_formulas",
    ),
    Mutant(
        "the lower bound is as printed",
        "complexity/bounds.py",
        "_times(2.0 * rho_sigma, least_divergence(delta))\n\n\ndef coin",
        "_times(rho_sigma, least_divergence(delta))\n\n\ndef coin",
        "complexity/test_measure.py::test_lower_bound_needs_a_single_right_answer",
    ),
    Mutant(
        "the paper's lower bounds whatever the noise",
        "complexity/measure.py",
        "return self.epsilon == 0 and has_unit_noise(self.truth)",
        "return self.epsilon == 0",
        "complexity/test_coin_flips.py::test_printed_bounds_are_shown_for_the_papers_noise_alone",
    ),
    Mutant(
        "coin flips seen from the least telling action",
        "complexity/coin_flips.py",
        'np.einsum("k,kna->na", shares, kept).max(axis=1)',
        'np.einsum("k,kna->na", shares, kept).min(axis=1)',
        "complexity/test_coin_flips.py::test_no_design_tells_the_answers_apart_sooner",
    ),
    Mutant(
        "a divergence that is too large",
        "complexity/bounds.py",
        "-math.log(2.4) - math.log(delta)",
        "-math.log(delta)",
        "paper/test_theorems.py::test_confidence_is_below_the_binary_divergence",
    ),
    Mutant(
        "the trivial sum counts the best action's gap as 0",
        "complexity/bounds.py",
        "ordered[:, 0] = ordered[:, 1]",
        "pass",
        "paper/test_corrections.py::test_row_16_sums_and_minima_leave_out_the_best_action",
    ),
)

DESIGN = (
    Mutant(
        "a design promises its lower end",
        "design/solve.py",
        "        solved.lower,\n        solved.upper,",
        "        solved.lower,\n        solved.lower,",
        "design/test_enumerated.py::test_the_design_attains_the_upper_end",
    ),
    Mutant(
        "the upper end is a mean over policies",
        "design/enumerated.py",
        "self.upper = float(pull.max())",
        "self.upper = float(pull @ weights)",
        "design/test_enumerated.py::test_the_design_attains_the_upper_end",
    ),
    Mutant(
        "the lower end is that of another design",
        "design/enumerated.py",
        "self.lower = max(self.lower, value * (1.0 - SUM_ROUNDING))",
        "self.lower = max(self.lower, value * 1.01)",
        "design/test_enumerated.py::test_bracket_holds_the_convex_optimum",
    ),
    Mutant(
        "pruned weights keep the old promise",
        "design/sifting.py",
        "return Weighting(weights, solved.lower, upper, solved.evaluations)",
        "return Weighting(weights, solved.lower, solved.upper, solved.evaluations)",
        "design/test_sifting.py::test_a_pruned_solution_promises_what_it_keeps",
    ),
    Mutant(
        "the upper end of a sifted table is that of the few",
        "design/sifting.py",
        "upper = float(pull.max()) * (1.0 + SUM_ROUNDING)\n            best",
        "upper = solved.upper\n            best",
        "design/test_sifting.py::test_sifting_many_policies_agrees_with_solving_all",
    ),
    Mutant(
        "the price of a hull without its envelope",
        "design/pricing.py",
        "return Price(upper * (1.0 + _PRICE_ROUNDING), lambda: ranked",
        "return Price(attained, lambda: ranked",
        "design/test_columns.py::test_both_pricings_bound_the_worst_ratio",
    ),
    Mutant(
        "the floor of a pool is free",
        "design/pool.py",
        "replace(self.objective, floor=floor), 1.0 - share",
        "replace(self.objective, floor=floor), 1.0",
        "complexity/test_rho.py::test_brackets_from_either_oracle_hold_the_enumerated_value",
    ),
    Mutant(
        "q's own noise costs nothing",
        "design/objective.py",
        "out[a] = weight * (at_a + at_q)",
        "out[a] = weight * at_a",
        "design/test_enumerated.py::test_bracket_holds_the_convex_optimum",
    ),
)

LINEAR = (
    Mutant(
        "the ellipsoid with R² for 2R²",
        "confidence.py",
        "return 2.0 * noise * (grown / 2.0",
        "return noise * (grown / 2.0",
        "test_confidence.py::test_the_self_normalised_bound_is_exceeded_about_as_often_as_delta_says",
    ),
    Mutant(
        "the ellipsoid without its determinant",
        "confidence.py",
        "(grown / 2.0 - math.log(delta))",
        "(-math.log(delta))",
        "test_confidence.py::test_the_self_normalised_bound_is_exceeded_about_as_often_as_delta_says",
    ),
    Mutant(
        "the list form for one expert",
        "realizable/making.py",
        "experts=len(STAKE_MULTIPLIERS), delta=terms.delta)",
        "experts=1, delta=terms.delta)",
        f"{REALIZABLE}test_the_list_form_is_what_its_definition_says",
    ),
    Mutant(
        "the list form without its variance",
        "realizable/making.py",
        "stakes * noise / 2.0 + threshold",
        "threshold",
        f"{REALIZABLE}test_the_list_form_is_what_its_definition_says",
    ),
    Mutant(
        "the round that chose the prior counts",
        "realizable/certificate.py",
        'return 1 if form == "ellipsoid" else 0',
        "return 0",
        f"{REALIZABLE}test_the_ellipsoid_is_what_its_definition_says",
    ),
    Mutant(
        "the ellipsoid without the prior's share",
        "realizable/making.py",
        "bound * (inverse + inverse @ terms.prior @ inverse)",
        "bound * inverse",
        f"{REALIZABLE}test_the_ellipsoid_is_what_its_definition_says",
    ),
    Mutant(
        "a search counts for a proof",
        "realizable/making.py",
        "found.value, found.proven), found.proven",
        "found.value, found.proven), found.value",
        f"{REALIZABLE}test_over_all_policies_the_claim_covers_every_one",
    ),
    Mutant(
        "the recheck of linear rewards lets the prior's round count",
        "realizable/verify.py",
        "elif c.skipped != 1:",
        "elif False:",
        f"{REALIZABLE}test_what_was_altered_is_refused",
    ),
    Mutant(
        "the recheck of linear rewards does not look at the contexts",
        "realizable/verify.py",
        "if digest_contexts(contexts) != c.contexts_digest:",
        "if False:",
        f"{REALIZABLE}test_what_was_altered_is_refused",
    ),
    Mutant(
        "the recheck of linear rewards does not look at the log",
        "realizable/verify.py",
        "if digest_log(log) != c.digest:",
        "if False:",
        f"{REALIZABLE}test_what_was_altered_is_refused",
    ),
    Mutant(
        "the recheck of the ellipsoid has R² for 2R²",
        "realizable/verify.py",
        "bound = c.noise * (max(grown, 0.0) - 2.0 * np.log(c.delta))",
        "bound = 0.5 * c.noise * (max(grown, 0.0) - 2.0 * np.log(c.delta))",
        f"{REALIZABLE}test_json_and_verify",
    ),
)

PLANNING = (
    Mutant(
        "bets lose no more to rare rewards than variances tell",
        "trials/exploration.py",
        "return np.maximum(2.0 * cost / k, variances(means))",
        "return variances(means)",
        "trials/test_rare_rewards.py::test_skewed_variances_are_what_the_best_control_variate_leaves[50.0-0.03]",
    ),
    Mutant(
        "coda takes a design of a large class at its word",
        "trials/coda.py",
        "price=believed_price(designed.price, even=even.price)",
        "price=designed.price",
        "trials/test_exploration.py::test_what_is_believed_of_a_design_is_nearer_to_the_truth_than_what_it_claims",
    ),
    Mutant(
        "a design that rare rewards make costly is played as it is",
        "trials/coda.py",
        "return min((designed, *mixed), key=lambda one: one.price)",
        "return max((designed, *mixed), key=lambda one: one.price)",
        "trials/test_rare_rewards.py::test_a_design_that_rare_rewards_make_costly_is_played_more_evenly_if_that_is_cheaper[outcome0]",
    ),
    Mutant(
        "rewards are known before they come",
        "planning/playing.py",
        "while awaited and awaited[0][0] + traffic.delay <= now:",
        "while awaited and awaited[0][0] <= now:",
        "planning/test_playing.py::test_a_trial_lasts_for_whole_periods_and_waits_for_its_rewards[3]",
    ),
    Mutant(
        "quantiles of few trials are too narrow",
        "planning/quantiles.py",
        "at = np.cumsum(w) * m / (m + 1)",
        "at = np.cumsum(w) - w / 2",
        "planning/test_quantiles.py::test_a_fresh_draw_falls_between_two_quantiles_as_often_as_they_say[9]",
    ),
    Mutant(
        "a pilot's estimates are taken for the truth",
        "problems/pilots.py",
        "kept = beyond / (beyond + errors**2)",
        "kept = np.ones_like(errors)",
        "problems/test_pilots.py::test_without_effects_what_is_drawn_is_small_and_shrinks_with_rows",
    ),
)

LATE = (
    Mutant(
        "the model of late rewards knows what came after its round began",
        "rewards/prediction.py",
        "seen = np.flatnonzero(log.rounds == number), log.known_by(int(number))",
        "seen = np.flatnonzero(log.rounds == number), log.known_by(int(number) + 1)",
        "trials/test_late.py::test_predictions_are_of_what_was_known_before_the_round",
    ),
    Mutant(
        "a reward that is not in counts as the best for the leader",
        "certificate/rows.py",
        "r = 0.0 if a == q else 1.0",
        "r = 1.0 if a == q else 0.0",
        f"{WAITING}the_worst_reward_is_the_worst_for_every_policy_at_once",
    ),
    Mutant(
        "a reward that is not in counts as nothing for everybody",
        "certificate/rows.py",
        "r = 0.0 if a == q else 1.0",
        "r = 0.0",
        f"{WAITING}the_worst_reward_is_the_worst_for_every_policy_at_once",
    ),
    Mutant(
        "what became known later counts as known",
        "records/log.py",
        "return (since >= 0) & (since <= round_number)",
        "return since >= 0",
        "trials/test_late.py::test_predictions_are_of_what_was_known_before_the_round "
        f"{WAITING}leaders_know_what_was_known {WAITING}the_centre_of_a_round_is_of_what_was_known_before_it",
    ),
    Mutant(
        "a trial leaves out what is not in",
        "trials/late.py",
        "    _check_earlier(trial, state)\n",
        "    _check_earlier(trial, state)\n    log = log.rows_in() or log\n",
        "certificate/test_late_ville.py::"
        "test_trials_err_no_more_often_than_delta_says_and_would_if_they_left_out_what_is_not_in",
    ),
    Mutant(
        "leaders of another class know what came after their round began",
        "trials/late.py",
        "rows = np.flatnonzero(log.known_by(number))",
        "rows = np.flatnonzero(log.known_by(number + 1))",
        "trials/test_late.py::test_leaders_chosen_again_are_those_that_led",
    ),
    Mutant(
        "verify takes what is not in for the best",
        "certificate/rescoring.py",
        "np.where(rows.actions == rows.reference, 0.0, 1.0)",
        "np.where(rows.actions == rows.reference, 1.0, 0.0)",
        f"{WAITING}certificates_say_what_is_not_in_and_verify_finds_the_same",
    ),
    Mutant(
        "a value counts what is not in at its best",
        "certificate/bounding.py",
        "reward = 0.0 if u > 0 else 1.0",
        "reward = 1.0 if u > 0 else 0.0",
        f"{WAITING}intervals_are_as_wide_as_what_is_not_in_may_make_them",
    ),
    Mutant(
        "the centre of a round knows what came later",
        "certificate/values.py",
        "mine * log.known_by(int(number))",
        "mine * log.known_by(int(number) + 1)",
        f"{WAITING}the_centre_of_a_round_is_of_what_was_known_before_it",
    ),
    Mutant(
        "drift is looked for among what happens to be in",
        "certificate/watching/drift.py",
        "before = log.rounds < out.min()",
        "before = ~log.awaited",
        f"{WAITING}drift_is_looked_for_where_all_rewards_are_in",
    ),
    Mutant(
        "late rewards are shuffled as if they had been in",
        "certificate/conventions.py",
        "known = log.least is None and log.known is None and",
        "known = log.least is None and",
        f"{WAITING}a_log_of_a_single_round_has_no_order_in_which_rewards_were_known",
    ),
    Mutant(
        "when rewards were known is no part of the digest",
        "records/digest.py",
        '("known", log.known)',
        "()",
        "records/test_late.py::test_the_digest_is_of_it",
    ),
    Mutant(
        "every set of withdrawn actions has what one of its size has",
        "confidence.py",
        "* 0.5**withdrawn / math.comb(n_actions, withdrawn)",
        "* 0.5**withdrawn",
        "test_confidence.py::test_all_sets_of_withdrawn_actions_share_what_there_is",
    ),
    Mutant(
        "a class without an action still has it",
        "policies/without.py",
        "left = tuple(action for action in range(n_actions) if action not in gone)",
        "left = tuple(action for action in range(n_actions))",
        "policies/test_without.py::test_a_list_loses_those_that_take_a_withdrawn_action",
    ),
)

EXPERIMENTS = (
    Mutant(
        "a trial of an experiment has all of δ, whatever may be withdrawn",
        "experiment/protocol.py",
        "self.delta * withdrawal_part(self.n_actions, len(gone))",
        "self.delta",
        "experiment/test_protocol.py::test_the_class_is_that_of_the_contexts_and_the_trial_has_its_part_of_delta",
    ),
    Mutant(
        "every test of a guardrail has the whole level",
        "experiment/guardrail.py",
        "math.log(len(actions) + 1) - math.log(rule.false_alarms)",
        "-math.log(rule.false_alarms)",
        "experiment/test_guardrail.py::test_the_action_that_does_harm_is_named_and_good_ones_are_not",
    ),
    Mutant(
        "a guardrail counts those alone who reported",
        "experiment/guardrail.py",
        "log_evidence(np.cumsum(n), ",
        "log_evidence(np.cumsum(inside), ",
        "experiment/test_guardrail.py::test_values_that_come_late_by_what_they_are_raise_no_more_false_alarms",
    ),
)

RIVALS = (
    Mutant(
        "every context has all of δ",
        "confidence.py",
        "return math.log(n_contexts) + math.log(n_actions) - math.log(delta)",
        "return math.log(n_actions) - math.log(delta)",
        "rivals/test_per_context.py::test_every_context_and_action_has_its_part_of_delta",
    ),
    Mutant(
        "the mean of an arm has a radius for one time alone",
        "confidence.py",
        "(confidence + np.log1p(plays / confidence) / 2.0)",
        "confidence",
        "rivals/test_per_context.py::test_the_radius_holds_at_all_times_and_a_narrower_one_does_not",
    ),
    Mutant(
        "a context is decided by the upper end of its leader",
        "rivals/per_context.py",
        "best_others <= bounds.lower[",
        "best_others <= bounds.upper[",
        "rivals/test_per_context.py::test_errors_are_as_rare_as_delta_says_and_a_narrower_radius_errs",
    ),
)

SUMS = (
    Mutant(
        "by sums: wealth is rounded to the nearest",
        "certificate/summed/questions.py",
        "np.floor(np.ldexp(wealth, bits))",
        "np.rint(np.ldexp(wealth, bits))",
        f"{SUMMED_LEADING}wealth_of_every_row_is_rounded_down",
    ),
    Mutant(
        "by sums: wealth is rounded up",
        "certificate/summed/questions.py",
        "np.floor(np.ldexp(wealth, bits))",
        "np.ceil(np.ldexp(wealth, bits))",
        f"{SUMMED_LEADING}wealth_of_every_row_is_rounded_down",
    ),
    Mutant(
        "by sums: rows that taught the class bet",
        "certificate/summed/certify.py",
        "laid.ledger.n_rounds, spared=spared)",
        "laid.ledger.n_rounds)",
        f"{SUMMED_LEADING}a_union_bets_by_the_rows_that_are_not_spared",
    ),
    Mutant(
        "by sums: a class is learnt from the first round that bets",
        "certificate/learning.py",
        "np.flatnonzero(log.rounds < spared)",
        "np.flatnonzero(log.rounds <= spared)",
        SUMMED_TEACHING,
    ),
    Mutant(
        "by sums: a model has seen the rows of its own round",
        "certificate/summed/setting.py",
        "before = early.rounds < number",
        "before = early.rounds <= number",
        SUMMED_PAST,
    ),
    Mutant(
        "by sums: a late leader is chosen by the rows that it leads",
        "certificate/summed/questions.py",
        "np.flatnonzero(rows.rounds < before)",
        "np.flatnonzero(rows.rounds <= before)",
        f"{SUMMED_LEADING}gaps_are_those_of_the_rows_before {SUMMED_PAST}",
    ),
    Mutant(
        "by sums: rows that stand first are early whatever their round",
        "certificate/summed/facts.py",
        "facts.rows > early and not facts.rounds_rise",
        "facts.rows < early and not facts.rounds_rise",
        f"{SUMMED_ROWS}what_comes_later_has_no_say_in_which_rows_are_early {SUMMED_TEACHING}",
    ),
    Mutant(
        "by sums: shuffled rows are in other blocks than in memory",
        "certificate/summed/arrangement.py",
        '_scrambled(start, len(block)), side="right")',
        '_scrambled(start, len(block)), side="left")',
        f"{SUMMED_ROWS}shuffled_rows_count_as_in_memory",
    ),
    Mutant(
        "by sums: rows without an order count once however often they occurred",
        "certificate/summed/arrangement.py",
        "np.array([float(samples)])",
        "np.array([float(n_rows)])",
        "certificate/summed/test_worth.py::test_a_policy_is_worth_what_it_is_in_memory",
    ),
    Mutant(
        "by sums: intervals of values have no cap",
        "certificate/bounding.py",
        "room * rows.propensities[i, a] / abs(u)",
        "1e300",
        "certificate/summed/test_worth.py::test_a_policy_is_worth_what_it_is_in_memory",
    ),
    Mutant(
        "by sums: an interval is centred by its own round",
        "certificate/summed/worth.py",
        "np.cumsum(found, axis=1) - found",
        "np.cumsum(found, axis=1)",
        "certificate/summed/test_worth.py::test_centres_are_of_earlier_rounds",
    ),
    Mutant(
        "by sums: whoever verifies takes sums that may have wrapped",
        "certificate/summed/verify.py",
        "        check_room(sums)\n",
        "",
        "certificate/summed/test_verify.py::test_sums_that_may_have_wrapped_are_no_proof",
    ),
    Mutant(
        "by sums: whoever verifies does not look for the leaders again",
        "certificate/summed/verify.py",
        "if mine is None or leaders_to_json(mine) != ",
        "if False and leaders_to_json(mine) != ",
        "certificate/summed/test_verify.py::test_leaders_that_the_rows_do_not_favour_are_noticed",
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *THRESHOLDS,
    *SCORES,
    *PAST,
    *LATE,
    *SIZES_OF_CLASSES,
    *RECHECK,
    *PAPER,
    *COMPLEXITY,
    *DESIGN,
    *LINEAR,
    *PLANNING,
    *EXPERIMENTS,
    *RIVALS,
    *SUMS,
)
