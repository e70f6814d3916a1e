"""Built-in problems: a decorator that gives a function declared, checked options and a name that spells them out.

    @built_in("doors", description="doors of which the first is best")
    def doors(*, doors: Annotated[int, About("how many", least=2)] = 3) -> Problem: ...

makes `doors(doors=5)`, a `Problem` called `doors:doors=5` that `run`, `measure` and `save_problem` take. All problems
of this package are declared so, and problems from outside can be: one file, no registration. Commands cannot load
those by name, as a spec never loads code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, ParamSpec

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import text
from pacbandits.errors import InputError
from pacbandits.options import About, Option, OptionValue, check_options, declared_options, read_options
from pacbandits.problems.base import Problem
from pacbandits.problems.noise import Bernoulli, Gaussian, Noise

Parameters = ParamSpec("Parameters")

MOST_ARRAY_ENTRIES = 10**8  # of any array of a built-in problem: the memory of an ordinary machine

Seed = Annotated[int, About("random seed", least=0)]
Skew = Annotated[float, About("unevenness of the context weights; 0 for equal weights", least=0, most=1000)]
NoiseKind = Annotated[Literal["bernoulli", "gaussian"], About("distribution of rewards around their mean")]
Variance = Annotated[float, About("variance of gaussian noise", least=0, when=("noise", "gaussian"))]


@dataclass(frozen=True, eq=False)
class BuiltIn(Generic[Parameters]):
    """A named problem: call it with options to get a `Problem`.

    name: its name in a spec.
    description: one line.
    options: its options.
    build: the function that makes the problem from its options.
    """

    name: str
    description: str
    options: tuple[Option, ...]
    build: Callable[Parameters, Problem]

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Problem:
        if args:
            raise TypeError(f"the options of '{self.name}' are given by name")
        return self._make(check_options(kwargs, self.options, of=f"problem '{self.name}'"))

    def from_text(self, given: Mapping[str, str]) -> Problem:
        """Return the problem for options as a spec spells them."""
        return self._make(read_options(given, self.options, of=f"problem '{self.name}'"))

    def _make(self, given: Mapping[str, OptionValue]) -> Problem:
        values = {option.name: given.get(option.name, option.default) for option in self.options}
        spelled: list[str] = []
        for option in self.options:
            when = option.about.when
            if when is None or values[when[0]] == when[1]:
                spelled.append(f"{option.name}={values[option.name]}")
            elif option.name in given:
                raise InputError(f"{option.name} has no effect here: it needs {when[0]}={when[1]}")
        build: Callable[..., Problem] = self.build
        return replace(build(**values), name=f"{self.name}:{','.join(spelled)}")


def built_in(name: str, *, description: str) -> Callable[[Callable[Parameters, Problem]], BuiltIn[Parameters]]:
    """Return a decorator that turns a function with declared options into a named problem."""
    text(name, name="name")
    text(description, name="description")

    def declare(function: Callable[Parameters, Problem]) -> BuiltIn[Parameters]:
        return BuiltIn(name=name, description=description, options=declared_options(function), build=function)

    return declare


def noise_model(kind: str, *, variance: float) -> Noise:
    """Return the noise for the options `noise` and `variance`."""
    return Gaussian(variance) if kind == "gaussian" else Bernoulli()


def context_weights(n: int, *, skew: float, rng: np.random.Generator) -> FloatArray:
    """Return weights (n,) of contexts: equal at skew 0, else Dirichlet(1/skew) with every weight kept positive."""
    if skew == 0:
        return np.full(n, 1.0 / n)
    return (1 - 1e-6) * rng.dirichlet(np.full(n, 1.0 / skew)) + 1e-6 / n


def check_entries(**sizes: int) -> None:
    """Raise when an array of these sizes would not fit into memory."""
    if np.prod(list(sizes.values()), dtype=np.float64) > MOST_ARRAY_ENTRIES:
        product = " × ".join(f"{name}={size}" for name, size in sizes.items())
        raise InputError(f"{product} is too large: the product may be at most {MOST_ARRAY_ENTRIES}")


# Tables of distinct random policies.


MOST_DRAWS = 50  # batches, each of `count` rows: enough to find all rows even if no others exist


def distinct_rows(draw: Callable[[int], IntArray], *, count: int, choices: int, besides: IntArray) -> IntArray:
    """Return `count` distinct rows (count, N), in order of appearance, from `draw(n)`, which makes n random ones.

    choices: the number of actions that `draw` chooses among in each context. besides (k, N): rows that come first.

    Raises:
        InputError: If there are not that many, or too many draws repeat.
    """
    n = besides.shape[1]
    rows = besides
    if math.log(count) <= n * math.log(choices) + 1e-9:
        for _ in range(MOST_DRAWS):
            rows = first_of_each(rows)
            if len(rows) >= count:
                return rows[:count]
            rows = np.concatenate([rows, draw(count)])
    raise InputError(
        f"there are not {count} distinct policies that choose among {choices} actions on {n} contexts; "
        "ask for fewer policies or more contexts"
    )


def first_of_each(rows: IntArray) -> IntArray:
    """Return the distinct rows, each where it first appeared."""
    return rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])]


# Optional packages, loaded when a problem needs them; if one is missing, the error says how to install it.


@dataclass(frozen=True)
class Extra:
    """An optional package.

    package: its name in the package index.
    module: the name it is imported by.
    install: the arguments of `pip install`.
    """

    package: str
    module: str
    install: str

    def load(self, submodule: str, *, problem: str) -> Any:
        """Return one of its modules, for the named problem; raise InputError if it is not installed."""
        try:
            return import_module(f"{self.module}.{submodule}")
        except ModuleNotFoundError:
            raise self._missing(problem) from None

    def file(self, path: str, *, problem: str) -> Path:
        """Return the path of one of its files, without importing it; raise InputError if it is missing."""
        spec = find_spec(self.module)
        if spec is None or spec.origin is None:
            raise self._missing(problem)
        found = Path(spec.origin).parent / path
        if not found.is_file():
            raise InputError(
                f"problem '{problem}' needs a version of {self.package} that holds {path}; "
                f"pip install --upgrade {self.install}"
            )
        return found

    def _missing(self, problem: str) -> InputError:
        return InputError(f"problem '{problem}' needs {self.package}; pip install {self.install}")


SCIKIT_LEARN = Extra(package="scikit-learn", module="sklearn", install="'pacbandits[learn]'")
# Only one of its files is read; --no-deps, as its dependencies would hold pandas below 3.
LIFELINES = Extra(package="lifelines", module="lifelines", install="--no-deps 'lifelines>=0.30.3'")
