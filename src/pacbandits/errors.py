"""Errors that a user can act on, and text that is safe to display."""

from __future__ import annotations

import difflib
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar

MAX_ERROR_CHARACTERS = 500
MAX_NAME_CHARACTERS = 80
MAX_LINE_CHARACTERS = 1_000
REPLACEMENT = "?"  # for characters that cannot be displayed
ROW = "{row}"
_MAX_NAMES_LISTED, _MAX_LIST_CHARACTERS = 40, 150
_MAX_NAMES_COMPARED = 1_000
_MIN_LIKENESS = 0.6  # the lowest difflib similarity at which a name is suggested


# Messages write an argument as on the command line: `--name`, or `--name VALUE` where the value is one or two numbers,
# a word in capitals, `…`, a quotation, or pairs such as a=0.5,b=0.5.
_NUMBER = r"-?[0-9.]*[0-9]"
_VALUE = rf"{_NUMBER}(?: {_NUMBER})?|[A-Z]+\b|…|'[^']*'|\"[^\"]*\"|[\w.]+=[\w.]+(?:,[\w.]+=[\w.]+)*|uniform\b|none\b"
_ARGUMENT = re.compile(rf"--([a-z][a-z-]*[a-z])(?![\w=-])(?: ({_VALUE}))?")
_ARGUMENTS = rf"(?<![\w'\"-]){_ARGUMENT.pattern}(?: {_ARGUMENT.pattern})*"
_SPELLED = re.compile(rf"\b(?:pacbandits|pip) [a-z][^;,()]*|{_ARGUMENTS}")  # a command line is left as it is
_PYTHON_NAMES = {
    "actions": "n_actions",
    "best-only": "improve_on=False",
    "clip": "clip=True",
    "fresh": "fresh=True",
    "guardrail": "guardrails",
    "metric": "metrics",
}  # exceptions: the others only replace dashes by underscores
_for_command: ContextVar[bool] = ContextVar("for_command", default=False)


@contextmanager
def spelling_options() -> Generator[None]:
    """Within this context errors spell arguments as command-line options: `--max-cost 2`, not `max_cost=2`."""
    before = _for_command.set(True)
    try:
        yield
    finally:
        _for_command.reset(before)


def option_of(argument: str) -> str:
    """Return the command-line option for a Python argument."""
    named = {"n_actions": "actions", "metrics": "metric", "guardrails": "guardrail"}
    return f"--{named.get(argument, argument).replace('_', '-')}"


def spell_arguments(message: str) -> str:
    """Return the message with its command-line options spelled as Python arguments."""
    return _SPELLED.sub(_spell_run, message) if "--" in message else message


def as_called(message: str) -> str:
    """Return the message with its options as the caller spells them: those of Python, or see `spelling_options`."""
    return message if _for_command.get() else spell_arguments(message)


def _spell_run(found: re.Match[str]) -> str:
    if not found[0].startswith("--"):
        return found[0]
    spelled: list[str] = []
    arguments: list[tuple[str, str]] = _ARGUMENT.findall(found[0])
    for name, value in arguments:
        if " " in value and value[0] not in "'\"":
            value = f"({value.replace(' ', ', ')})"
        elif re.fullmatch(r"\w.*[=A-Za-z].*", value):
            value = f'"{value}"'
        spelled.append(_PYTHON_NAMES.get(name, name.replace("-", "_")) + (f"={value}" if value else ""))
    return ", ".join(spelled)


# The password of a URL, also if its slashes were joined as in a path; and the value of a setting named like one.
_URL_PASSWORD = re.compile(r"(?<![\w+])([a-z][\w+]*:/{1,3}[^\s/:@]*):[^\s/?#][^\s]*@")
_SETTING = re.compile(
    r"((?:password|passwd|pwd|secret|secret_key|token|session_token|account_key|access_key|sig)\s*(?:=>|:=|=)\s*)"
    r"(?:'[^']*'|[^\s&;,)'\"]+)",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """Return the text with `***` in place of the passwords of URLs and of settings such as `password=…`."""
    return _SETTING.sub(r"\1***", _URL_PASSWORD.sub(r"\1:***@", text)) if "@" in text or "=" in text else text


class InputError(ValueError):
    """The input is wrong; the message is one line that names the bad value and the remedy.

    A message stores arguments as the command line spells them, `--max-cost 2`. `str()` leaves them so within
    `spelling_options`; elsewhere (Python, HTTP) it spells them `max_cost=2`. No message shows a password.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(masked(message), most=MAX_ERROR_CHARACTERS, tail=MAX_ERROR_CHARACTERS // 3))

    def __str__(self) -> str:
        return as_called(str(self.args[0]))


class RowError(InputError):
    """An error in one row; `words` contains ROW in place of the row, so that file readers can name it their way."""

    def __init__(self, words: str, row: int) -> None:
        super().__init__(words.replace(ROW, f"row {row}"))
        self.words, self.row = words, row


def visible(text: str) -> str:
    """Return the text with every character that is not visible replaced, except spaces and line breaks.

    Replaced are characters that could move the cursor, colour, hide or reverse their neighbours: control characters,
    escapes, direction marks, zero-width characters, other line breaks, lone surrogates.
    """
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else REPLACEMENT for c in text)


def one_line(text: str, *, most: int = MAX_LINE_CHARACTERS, tail: int = 0) -> str:
    """Return the text on one visible line of at most `most` characters; `tail`: characters of its end to keep."""
    if len(text) > 4 * most:  # so that a long text costs little
        text = f"{text[: 3 * most]} … {text[-most:]}"
    line = visible(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - tail - 1]}…{line[len(line) - tail :]}"


def visible_lines(text: str) -> str:
    """Return the text with each of its lines visible and cut to MAX_LINE_CHARACTERS."""
    return "\n".join(visible(line)[:MAX_LINE_CHARACTERS] for line in text.split("\n"))


def plain(value: object, *, most: int = MAX_NAME_CHARACTERS) -> str:
    """Return the value as visible text on one line of at most `most` characters, for any value."""
    try:
        text = str(value)
    except (ValueError, RecursionError):  # thousands of digits, or deeply nested lists
        text = f"a {type(value).__name__}"
    return one_line(text, most=most)


def close_to(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name`, or None if none is close."""
    names = sorted(known)[:_MAX_NAMES_COMPARED]
    wanted = name[:MAX_NAME_CHARACTERS]
    folded = {one.casefold(): one for one in names}
    if wanted.casefold() in folded:
        return folded[wanted.casefold()]
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=_MIN_LIKENESS)
    return close[0] if close else None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` if a known name is close to `name`, followed by some of the known names."""
    names = sorted(known)
    close = close_to(name, names)
    hint = "" if close is None else f"; did you mean '{plain(close)}'?"
    some = [plain(one, most=40) for one in names[:_MAX_NAMES_LISTED]]
    while len(", ".join(some)) > _MAX_LIST_CHARACTERS:
        some.pop()
    more = f" and {len(names) - len(some):,} more" if len(names) > len(some) else ""
    return f"{hint} (known: {', '.join(some)}{more})"


def count_of(count: int, noun: str, many: str | None = None) -> str:
    """Return a count with its noun: 1 row, 2 rows, 2 batches; many: the plural, if it does not end in s or es."""
    several = many or (f"{noun}es" if noun.endswith("ch") else f"{noun}s")
    return f"{count:,} {noun if count == 1 else several}"
