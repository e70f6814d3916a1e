"""Optional packages: found when a problem is loaded, and missed in one line that says how to get them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pacbandits.errors import InputError


@dataclass(frozen=True)
class Extra:
    """An optional package.

    package: its name in the package index.
    module: the name it is imported by.
    install: what `pip install` is given for it.
    """

    package: str
    module: str
    install: str

    def load(self, submodule: str, *, problem: str) -> Any:
        """One of its modules, for the named problem."""
        try:
            return import_module(f"{self.module}.{submodule}")
        except ModuleNotFoundError:
            raise self._missing(problem) from None

    def file(self, path: str, *, problem: str) -> Path:
        """One of its files, found without importing it."""
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
# One file of it is read, and nothing imported: without what it depends on, which would hold pandas below 3.
LIFELINES = Extra(package="lifelines", module="lifelines", install="--no-deps 'lifelines>=0.30.3'")
