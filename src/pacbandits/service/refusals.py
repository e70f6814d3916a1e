"""What the service does not do: a status and a sentence, and which of them an error of the experiment is."""

from __future__ import annotations

from typing import Any, cast

from pydantic import ValidationError

from pacbandits.errors import InputError, one_line
from pacbandits.experiment.refusals import (
    AlreadyThere,
    Contradiction,
    NotCollecting,
    UnknownAssignment,
    UnknownExperiment,
)

MAX_SENTENCE_CHARACTERS = 500
UNSEEN_DATABASE = "the database does not answer; nothing was stored as far as is known, ask again"


class Refusal(Exception):
    """An answer that is an error.

    status: of HTTP.
    sentence: what is wrong and what to do about it.
    headers: that go with it.
    """

    def __init__(self, status: int, sentence: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, one_line(sentence, most=MAX_SENTENCE_CHARACTERS)
        self.headers = headers or {}


def refusal_of(error: InputError) -> Refusal:
    """What an error of an experiment is called over HTTP."""
    if isinstance(error, UnknownAssignment | UnknownExperiment):
        return Refusal(404, str(error))
    if isinstance(error, AlreadyThere | Contradiction | NotCollecting):
        return Refusal(409, str(error))
    return Refusal(422, str(error))


def sentence_of(error: ValidationError) -> str:
    """The first thing that is wrong with a body, where it stands, and how much else is wrong."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    if first["type"] == "json_invalid":
        return "the body is not JSON: " + first["msg"].removeprefix("Invalid JSON: ")
    place = _place(cast(tuple[Any, ...], first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{place} means nothing here{more}"
    if first["type"] == "missing":
        return f"{place} is missing{more}"
    return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}{more}"


# The names of the kinds that a value of a context may be: no part of where it stands.
_KINDS = frozenset({"str", "int", "float", "bool", "none", "constrained-str", "constrained-int"})


def _place(location: tuple[Any, ...]) -> str:
    """Where in a body: 'assignments[3].context.age'."""
    words = ""
    for step in location:
        if isinstance(step, int):
            words += f"[{step}]"
        elif step not in _KINDS:
            words += f".{step}" if words else str(step)
    return f"'{one_line(words, most=100)}'" if words else "the body"
