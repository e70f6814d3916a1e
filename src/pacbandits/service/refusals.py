"""What the service does not do: a status and a sentence, and which of them an error of the experiment is."""

from __future__ import annotations

from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from pacbandits.errors import MAX_ERROR_CHARACTERS, InputError, count_of, one_line, plain, spell_arguments
from pacbandits.experiment.refusals import (
    AlreadyThere,
    Contradiction,
    NotCollecting,
    UnknownAssignment,
    UnknownExperiment,
)

UNSEEN_DATABASE = "the database does not answer; nothing was stored as far as is known, ask again"


class Refusal(Exception):
    """An answer that is an error.

    status: of HTTP.
    sentence: what is wrong and what to do about it.
    headers: that go with it.
    """

    def __init__(self, status: int, sentence: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, one_line(sentence, most=MAX_ERROR_CHARACTERS)
        self.headers = headers or {}


def refusal_of(error: Exception) -> Refusal | None:
    """What an error is called over HTTP; None for one that nobody foresaw."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, InputError):
        status = 422
        if isinstance(error, UnknownAssignment | UnknownExperiment):
            status = 404
        elif isinstance(error, AlreadyThere | Contradiction | NotCollecting):
            status = 409
        return Refusal(status, spell_arguments(str(error)))  # no options here, though a command serves
    if isinstance(error, SQLAlchemyError):
        return Refusal(503, UNSEEN_DATABASE, headers={"Retry-After": "1"})
    return None


# What pydantic calls the kinds that a value of a context may be: no part of where it stands.
_KINDS = frozenset({"str", "int", "float", "bool", "none", "constrained-str", "constrained-int"})
_KEY = "[key]"


def sentence_of(error: ValidationError) -> str:
    """The first thing that is wrong with a body, where it stands, and how much else is wrong."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    first = faults[0]
    if first["type"] == "json_invalid":
        return "the body is not JSON: " + first["msg"].removeprefix("Invalid JSON: ")
    others = len({_place(fault["loc"]) for fault in faults}) - 1
    more = f" (and {count_of(others, 'other place')} are wrong)" if others else ""
    place = f"'{plain(_place(first['loc']))}'" if first["loc"] else "the body"
    if first["type"] == "extra_forbidden":
        return f"{place} means nothing here{more}"
    if first["type"] == "missing":
        return f"{place} is missing{more}"
    if first["type"] == "string_pattern_mismatch":
        return f"{place} holds a character that cannot be seen{more}"
    if first["type"] == "value_error":  # what the experiment says of it
        return f"{place}: {first['msg'].removeprefix('Value error, ')}{more}"
    if len(faults) > 1 and faults[1]["loc"][:-1] == first["loc"][:-1] and first["loc"][-1] in _KINDS:
        return f"{place} must be text, a finite number, true, false or null{more}"
    return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}{more}"


def _place(location: tuple[int | str, ...]) -> str:
    """Where in a body: assignments[3].context.age."""
    words = ""
    for step in location[:-1] if location and location[-1] in (*_KINDS, _KEY) else location:
        if isinstance(step, int):
            words += f"[{step}]"
        else:
            words += f".{step}" if words else step
    return words
