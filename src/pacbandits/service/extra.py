"""Optional dependencies of the service, and the error that says how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from pacbandits.errors import InputError

SERVER_MODULES = ("sqlalchemy", "fastapi", "uvicorn", "prometheus_client")


def check_installed(modules: tuple[str, ...], *, what: str, extra: str) -> None:
    """Raise InputError unless all modules can be imported."""
    for module in modules:
        if find_spec(module) is None:
            raise InputError(f"{what} needs {module}; pip install 'pacbandits[{extra}]'")
