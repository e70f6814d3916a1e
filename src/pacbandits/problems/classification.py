"""Classification data sets as bandits: the action is a label, and the reward says whether it is right.

The data come with scikit-learn; nothing is downloaded. docs/data.md says where they are from.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from pacbandits.arrays import FloatArray, floats, integers
from pacbandits.options import About
from pacbandits.policies.trees import Trees
from pacbandits.problems.base import Problem
from pacbandits.problems.built_in import SCIKIT_LEARN, built_in
from pacbandits.problems.noise import Bernoulli
from pacbandits.records import Contexts

COMPONENT_DECIMALS = 6  # further digits differ between machines

FlipRate = Annotated[float, About("probability that a reward is flipped", least=0, most=0.49)]
BinCount = Annotated[int, About("bins a feature is cut into, for the trees", least=2, most=256)]


@built_in("digits", description="1797 handwritten digits; the action is the digit (needs scikit-learn)")
def digits(
    *,
    components: Annotated[int, About("principal components to keep; 0 keeps the pixels", least=0, most=61)] = 10,
    flip: FlipRate = 0.0,
    bins: BinCount = 16,
) -> Problem:
    """Images of 8 × 8 pixels; three pixels that are blank in all images are left out."""
    things = "handwritten digits; the action is the digit"
    return _problem("digits", things, components=components, flip=flip, bins=bins)


@built_in("wine", description="178 wines; the action is the cultivar (needs scikit-learn)")
def wine(
    *,
    components: Annotated[int, About("principal components to keep; 0 keeps the features", least=0, most=13)] = 0,
    flip: FlipRate = 0.0,
    bins: BinCount = 32,
) -> Problem:
    """Chemical analyses of wines from three cultivars."""
    things = "wines; actions 0, 1, 2 are the cultivars"
    return _problem("wine", things, components=components, flip=flip, bins=bins, scaled=True)


@built_in("iris", description="150 irises; the action is the species (needs scikit-learn)")
def iris(
    *,
    components: Annotated[int, About("principal components to keep; 0 keeps the features", least=0, most=4)] = 0,
    flip: FlipRate = 0.0,
    bins: BinCount = 32,
) -> Problem:
    """Lengths and widths of the sepals and petals of three species."""
    things = "irises; action 0 is setosa, 1 versicolor, 2 virginica"
    return _problem("iris", things, components=components, flip=flip, bins=bins)


@built_in("breast-cancer", description="569 breast tumours; the action is the diagnosis (needs scikit-learn)")
def breast_cancer(
    *,
    components: Annotated[int, About("principal components to keep; 0 keeps the features", least=0, most=30)] = 0,
    flip: FlipRate = 0.0,
    bins: BinCount = 32,
) -> Problem:
    """Cell nuclei of tumours that were found malignant or benign."""
    things = "breast tumours; action 0 is malignant, 1 benign"
    return _problem("breast-cancer", things, components=components, flip=flip, bins=bins, scaled=True)


def _problem(name: str, things: str, *, components: int, flip: float, bins: int, scaled: bool = False) -> Problem:
    """Return the problem of a data set: `r(c, a) = 1 − flip` for the label of c, and `flip` for the others.

    things: what the contexts and the actions are. scaled: whether features have different units, so that they are
    standardised before principal components are taken.
    """
    bunch = getattr(SCIKIT_LEARN.load("datasets", problem=name), f"load_{name.replace('-', '_')}")()
    features = floats(bunch.data, name="features", shape=(None, None))
    names = [str(feature) for feature in bunch.feature_names]
    label = integers(bunch.target, name="labels", shape=(len(features),))
    right = np.eye(int(label.max()) + 1)[label]
    varies = np.ptp(features, axis=0) > 0
    features, names = features[:, varies], [names[j] for j in np.flatnonzero(varies)]
    if components:
        features = principal_components(features / features.std(axis=0) if scaled else features, count=components)
        names = [f"pc{j + 1}" for j in range(components)]
    population = Contexts.of(features, names=names, ids=np.arange(len(features)))
    n, n_actions = right.shape
    noise = f", flipped with probability {flip:g}" if flip else ""
    return Problem(
        name=name,
        description=f"{n} {things}; reward 1 when it is right, else 0{noise}; decision trees of depth 2.",
        population=population,
        mean_rewards=flip + (1 - 2 * flip) * right,
        noise=Bernoulli(),
        policies=Trees.learn(population, n_actions=n_actions, depth=2, bins=bins),
    )


def principal_components(features: FloatArray, *, count: int) -> FloatArray:
    """Return the first principal components (n, count) of features (n, d), each with mean 0 and variance 1.

    The sign of each is such that its largest loading is positive.
    """
    scores, _, loadings = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    largest = np.abs(loadings[:count]).argmax(axis=1)
    signs = np.sign(loadings[np.arange(count), largest])
    return np.round(math.sqrt(len(features)) * signs * scores[:, :count], COMPONENT_DECIMALS)
