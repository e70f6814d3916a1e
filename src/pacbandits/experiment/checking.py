"""What a protocol is checked for: names, actions, contexts that can be asked for one by one, dates, the algorithm."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from pacbandits.algorithms import find_algorithm, list_profiles, profile_of
from pacbandits.checks import text, texts, whole_number
from pacbandits.errors import InputError, nearest, plain
from pacbandits.experiment.rules import check_label
from pacbandits.records import Contexts, check_contexts
from pacbandits.records.columns import ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN
from pacbandits.records.dates import WEEKDAYS, date_parts
from pacbandits.records.missing import missing_label

MAX_CONTEXTS = 20_000  # that designs are solved for; of more, so many are drawn: they tell who comes well enough
MAX_ACTIONS = 1_000
SEED_BITS = 128  # of one that is drawn: too many to be found by trying
NO_FEATURES = "the contexts have no features, so nobody could be treated differently; give some columns"
# Columns of the log that is exported.
LOG_COLUMNS = frozenset(
    {"action", "reward", "propensities", "propensity", "least_propensity", "round", "repeats", "unit", "known"}
    | {ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN}
)
MAX_NAME_CHARACTERS = 64  # of an experiment
NAME_PATTERN = rf"^[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_NAME_CHARACTERS - 1}}}$"
_DAY_ENDING = " days since 1970-01-01"


def check_experiment_name(name: object) -> str:
    """What an experiment may be called."""
    given = text(name, name="name of the experiment")
    if re.fullmatch(NAME_PATTERN, given) is None:
        raise InputError(
            f"'{plain(given)}' is no name for an experiment: it stands in addresses, so take up to "
            f"{MAX_NAME_CHARACTERS} letters, digits, dots, dashes and underlines, a letter or digit first"
        )
    return given


def check_people(contexts: object, *, unknown_labels: str) -> Contexts:
    """The contexts, as they will be asked for one by one."""
    given = check_contexts(contexts)
    if given.phi is not None:
        raise InputError(
            "the contexts carry features of actions (phi), which cannot be given with each assignment; leave that "
            "column out"
        )
    for name in given.names:
        check_label(name, name="a feature's name")
        if name in LOG_COLUMNS:
            raise InputError(f"the feature '{plain(name)}' has the name of a column of the log; rename it")
    if given.n_features == 0 and given.ids is None:
        raise InputError(NO_FEATURES)
    if unknown_labels == "missing":
        labels = tuple(None if one is None else _with_missing(one) for one in given.categories)
        given = replace(given, categories=labels)
    return given


def check_dates(dates: object, contexts: Contexts) -> tuple[str, ...]:
    """The columns of dates: those given, or those of which features bear the name."""
    names = contexts.names
    if dates is None:
        return tuple(
            name.removesuffix(_DAY_ENDING)
            for name in names
            if name.endswith(_DAY_ENDING) and f"{name.removesuffix(_DAY_ENDING)} weekday" in names
        )
    given = texts(dates, name="dates")
    for column in given:
        parts = date_parts(names, (column,))
        if not parts:
            raise InputError(f"no feature is made of the column of dates '{plain(column)}'; leave it out of dates")
        for feature, part in parts.items():
            labels = contexts.categories[names.index(feature)]
            weekday = labels is not None and labels[: len(WEEKDAYS)] == WEEKDAYS
            if weekday != (part.part == "weekday") or (labels is not None and not weekday):
                raise InputError(f"the feature '{plain(feature)}' is not what is made of dates; rename it")
    return given


def check_actions(actions: object) -> tuple[str, ...]:
    """What actions may be called: two or more, each with a name of its own."""
    given = tuple(check_label(name, name="an action's name") for name in texts(actions, name="actions"))
    if not 2 <= len(given) <= MAX_ACTIONS:
        raise InputError(f"an experiment has 2 to {MAX_ACTIONS:,} actions, got {len(given)}")
    if len(set(given)) < len(given):
        twice = next(name for i, name in enumerate(given) if name in given[:i])
        raise InputError(f"two actions are called '{plain(twice)}'; give each a name of its own")
    return given


def check_seed(seed: object) -> int:
    """The seed, or one that is drawn."""
    if seed is None:
        return secrets.randbits(SEED_BITS)
    return whole_number(seed, name="seed", least=0, most=2**SEED_BITS - 1)


def check_algorithm(spec: object) -> str:
    """An algorithm that proves something on the way, and whose state can be kept."""
    given = text(spec, name="algorithm")
    find_algorithm(given)
    profile = profile_of(given)
    if not (profile.certifies and profile.keeps_state):
        able = ", ".join(one.name for one in list_profiles() if one.certifies and one.keeps_state)
        raise InputError(f"{profile.name} cannot run an experiment, as it proves nothing on the way; these can: {able}")
    return given


def one_of(value: object, known: Collection[str], *, name: str) -> str:
    """One of a few words; else a sentence that names the nearest."""
    word = text(value, name=name)
    if word not in known:
        raise InputError(f"{name} is '{plain(word)}', which means nothing here{nearest(word, known)}")
    return word


def _with_missing(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Labels of which the last stands for a missing one."""
    return labels if tells_missing(labels) else (*labels, missing_label(labels))


def tells_missing(labels: tuple[str, ...]) -> bool:
    """Whether the last of some labels stands for a missing one."""
    return len(labels) > 1 and labels[-1] == missing_label(labels[:-1])


def sampled(contexts: Contexts) -> Contexts:
    """Up to so many of the contexts as designs are solved for, drawn by their weights."""
    if len(contexts) <= MAX_CONTEXTS:
        return contexts
    rng, some = np.random.default_rng(len(contexts)), min(MAX_CONTEXTS, int((contexts.weights > 0).sum()))
    return contexts.take(np.sort(rng.choice(len(contexts), some, replace=False, p=contexts.weights)))
