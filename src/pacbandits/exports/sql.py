"""Export of a policy as a standard SQL expression."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pacbandits.checks import text
from pacbandits.errors import InputError, nearest, plain, visible
from pacbandits.exports.rules import Action, decision_of, made_of_dates, written_actions
from pacbandits.policies.decisions import (
    Condition,
    IdAmong,
    Indicator,
    LabelIs,
    LargestScore,
    NumberAtMost,
    NumberMissing,
    RuleList,
    Standardised,
    Term,
)
from pacbandits.records import Chosen, Mixture, check_chosen
from pacbandits.records.column_types import WEEKDAYS, DatePart, Part
from pacbandits.records.contexts import ID_COLUMN

# SQL dialects: quoting of names and texts, and features made of dates, according to each database's manual.
#
# SQLite stores dates as text in ISO form, to the millisecond; its functions convert offsets to UTC, as reading a table
# does. PostgreSQL has columns of type DATE, TIMESTAMP or TIME; a TIMESTAMP WITH TIME ZONE uses the time zone of the
# session. The others take DATE and a type with a time of day: TIMESTAMP in DuckDB, DATETIME or TIMESTAMP in BigQuery
# (in UTC) and MySQL (in the time zone of the session), TIMESTAMP_NTZ in Snowflake.


_POSTGRES_DAYS = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(WEEKDAYS, start=1))
_ALL_DAYS = "".join(WEEKDAYS)


@dataclass(frozen=True)
class Dialect:
    """The SQL dialect of a database.

    parts: the expression of each part of a date; {} is the column. Hours are an integer number of the smallest unit
        divided by that of an hour: exactly the double that a policy compares with.
    mark: the quotation mark of column names.
    backslash: whether a backslash begins an escape in texts.
    twice: whether a mark within a name, or a quote within a text, is doubled rather than escaped by a backslash.
    double: the type of a number in double precision.
    same: the expression that is true if {} is exactly the text {}.
    """

    parts: Mapping[Part, str]
    mark: str = '"'
    backslash: bool = False
    twice: bool = True
    double: str = "DOUBLE PRECISION"
    same: str = "{} = {}"

    def name(self, column: str) -> str:
        """Return a quoted column name."""
        return self._between(self.mark, column, backslash=not self.twice)

    def literal(self, words: str) -> str:
        """Return a quoted text."""
        return self._between("'", words, backslash=self.backslash)

    def _between(self, mark: str, words: str, *, backslash: bool) -> str:
        """Return words between two marks; backslash: whether a backslash begins an escape there."""
        shown = checked(words)
        if backslash:
            shown = shown.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        return mark + shown.replace(mark, 2 * mark if self.twice else f"\\{mark}") + mark

    def equals(self, column: str, words: str) -> str:
        """Return the expression that is true if a column expression equals a text."""
        return self.same.format(column, self.literal(words))


STANDARD = Dialect({})
DIALECTS: dict[str, Dialect] = {
    "sqlite": Dialect(
        {
            "weekday": f"substr('{WEEKDAYS[-1]}{''.join(WEEKDAYS[:-1])}', 1 + 3 * strftime('%w', {{}}), 3)",
            "day": "CAST(julianday(date({})) - 2440587.5 AS INTEGER)",
            "hour": "(strftime('%H', {}) * 3600000 + strftime('%M', {}) * 60000"
            " + CAST(round(strftime('%f', {}) * 1000) AS INTEGER)) / 3600000.0",
        }
    ),
    "postgresql": Dialect(
        {
            "weekday": f"CASE EXTRACT(ISODOW FROM {{}}) {_POSTGRES_DAYS} END",
            "day": "CAST({} AS DATE) - DATE '1970-01-01'",
            "hour": "CAST(round(EXTRACT(EPOCH FROM CAST({} AS TIME)) * 1000000) AS DOUBLE PRECISION) / 3600000000.0",
        }
    ),
    "duckdb": Dialect(
        {
            "weekday": f"substr('{_ALL_DAYS}', 3 * CAST(isodow(CAST({{}} AS DATE)) AS INTEGER) - 2, 3)",
            "day": "date_diff('day', DATE '1970-01-01', CAST({} AS DATE))",
            "hour": "CAST(date_diff('microsecond', date_trunc('day', CAST({} AS TIMESTAMP)), CAST({} AS TIMESTAMP))"
            " AS DOUBLE) / 3600000000.0",
        },
        double="DOUBLE",
    ),
    "bigquery": Dialect(
        {
            "weekday": "FORMAT_DATE('%a', CAST({} AS DATE))",
            "day": "UNIX_DATE(CAST({} AS DATE))",
            "hour": "CAST(DATETIME_DIFF(CAST({} AS DATETIME), DATETIME_TRUNC(CAST({} AS DATETIME), DAY), MICROSECOND)"
            " AS FLOAT64) / 3600000000.0",
        },
        mark="`",
        backslash=True,
        twice=False,
        double="FLOAT64",
    ),
    "snowflake": Dialect(
        {
            "weekday": "DAYNAME(CAST({} AS DATE))",
            "day": "DATEDIFF('day', DATE '1970-01-01', CAST({} AS DATE))",
            "hour": "CAST(DATEDIFF('microsecond', CAST(CAST({} AS DATE) AS TIMESTAMP_NTZ), CAST({} AS TIMESTAMP_NTZ))"
            " AS DOUBLE) / CAST(3600000000 AS DOUBLE)",
        },
        backslash=True,
    ),
    # MySQL compares texts without regard to case and trailing blanks; bytes are compared exactly.
    "mysql": Dialect(
        {
            "weekday": f"SUBSTRING('{_ALL_DAYS}', 3 * WEEKDAY({{}}) + 1, 3)",
            "day": "DATEDIFF({}, '1970-01-01')",
            "hour": "TIMESTAMPDIFF(MICROSECOND, CAST({} AS DATE), CAST({} AS DATETIME(6))) / 3600000000e0",
        },
        mark="`",
        backslash=True,
        double="DOUBLE",
        same="CAST(CONVERT({} USING utf8mb4) AS BINARY) = CAST(CONVERT({} USING utf8mb4) AS BINARY)",
    ),
}
_EXPLAINED = ("sqlite", "postgresql")  # in comments, without a dialect
_MEANINGS: dict[Part, str] = {
    "weekday": f"the weekday of {{}}: {', '.join(WEEKDAYS)}",
    "day": "the day of {}, counted from 1970-01-01, which is 0",
    "hour": "the hour of {}: 13.5 is half past one",
    "age": "the number of days from {}",
}


def dialect_of(name: str | None) -> Dialect:
    """Return the dialect of this name; standard SQL for None."""
    if name is None:
        return STANDARD
    if text(name, name="dialect") not in DIALECTS:
        raise InputError(f"the dialect '{plain(name)}' is not known here{nearest(name, DIALECTS)}")
    return DIALECTS[name]


def dates_in(made: Mapping[str, DatePart], dialect: Dialect) -> dict[str, str]:
    """Return the expression of each feature that is made of a date column."""
    return {name: f"({_expression(part, dialect)})" for name, part in made.items()}


def _expression(part: DatePart, dialect: Dialect) -> str:
    if part.part == "age":
        column, time = (dialect.parts["day"].replace("{}", dialect.name(name)) for name in part.columns)
        return f"({time}) - ({column})"
    return dialect.parts[part.part].replace("{}", dialect.name(part.column))


def date_comment(feature: str, part: DatePart) -> str:
    """Return comment lines that explain how a feature is made of a date column."""
    exact = [STANDARD.name(name) for name in part.columns]
    shown = [visible(name).replace("\n", " ") for name in exact]
    lines = [f"{visible(STANDARD.name(feature))} is {_MEANINGS[part.part].replace('{}', ' to '.join(shown))}"]
    if shown == exact:  # a name that cannot be shown exactly must not be copied
        lines += [f"  in {dialect}: {_expression(part, DIALECTS[dialect])}" for dialect in _EXPLAINED]
    return "".join(f"-- {' '.join(line.splitlines())}\n" for line in lines)


def checked(words: str) -> str:
    """Return words that SQL can represent; raise InputError for others."""
    try:
        words.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"'{plain(words)}' holds half a character, which SQL cannot hold; rename it") from None
    if "\0" in words:
        raise InputError(f"'{plain(words)}' holds a NUL character, which SQL cannot hold; rename it")
    return words


MOST_SQL_TERMS = 20_000  # of scores, in all comparisons together
MOST_SCORE_TERMS = 500  # in one score: databases take expressions about 1,000 deep
_INDENT = "  "
_DRAWN_ANEW = re.compile(r"\b(rand|random|newid|gen_random_uuid|uuid|randomblob)\s*\(", re.IGNORECASE)


def to_sql(
    policy: Chosen,
    *,
    actions: Sequence[str] | None = None,
    draw: str | None = None,
    dates: Sequence[str] = (),
    dialect: str | None = None,
) -> str:
    """Return a policy as a standard SQL expression for the action of a row.

    Columns have the names of the features, in double quotes or those of the dialect; labels and names of actions are in
    single quotes. Numbers are written so that they are read as the doubles that the policy compares with. If a column
    is NULL, a tree's test on it fails, unless the test accepts missing values; linear scores give NULL, and so does an
    unknown context id.

    policy: a tree, a table of up to 1,000 contexts, a linear policy, or a mixture of these.
    actions: the names of the actions, in the order of their numbers; by default the numbers.
    draw: for a mixture policy, a column or an expression with one draw from [0, 1) a row. It occurs several times in
        the result and must have the same value each time: a column, or a hash of one, but not a call of random().
    dates: the columns of dates and times that features were made of, as named in a certificate.
    dialect: `sqlite`, `postgresql`, `duckdb`, `bigquery`, `snowflake` or `mysql`, each with its own quotes and date
        functions. By default the expression is standard SQL, expects columns for the features made of dates, and
        explains in comments before it how to make them.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20.0], [40.0]], names=["age"])
    >>> policy = pb.Trees.learn(people, n_actions=2, depth=1).argmax(people, [[1.0, 0.0], [0.0, 1.0]])
    >>> print(pb.to_sql(policy, actions=["plain", "discount"]))
    CASE
      WHEN "age" <= 30.0 THEN 'plain'
      ELSE 'discount'
    END

    Raises:
        InputError: If the policy has no exact form in SQL, or a mixture policy has no draw.
    """
    check_chosen(policy)
    own = dialect_of(dialect)
    names = tuple(_literal(name, own) for name in written_actions(policy, actions))
    if draw is not None:
        text(draw, name="draw")
    made = made_of_dates(policy, dates)
    columns = SqlColumns({} if dialect is None else dates_in(made, own), own)
    comments = "" if dialect is not None else "".join(date_comment(name, part) for name, part in made.items())
    if not isinstance(policy, Mixture):
        return comments + _decision(decision_of(policy), names, "", columns)
    return comments + _mixture(policy, names, _checked_draw(draw), columns)


class SqlColumns(dict[str, str]):
    """The SQL expression of each feature: the one made of a date, or else the quoted column name.

    made: expressions of features made of dates.
    dialect: the SQL dialect.
    """

    def __init__(self, made: Mapping[str, str] | None = None, dialect: Dialect = STANDARD) -> None:
        super().__init__(made or {})
        self.dialect = dialect

    def __missing__(self, feature: str) -> str:
        return self.dialect.name(feature)


def _mixture(mixture: Mixture, names: Sequence[str], draw: str, columns: SqlColumns) -> str:
    """Return the expression of a mixture policy; a draw that is NULL or outside [0, 1) gives NULL."""
    out = ["CASE", f"{_INDENT}WHEN {draw} < 0.0 THEN NULL"]
    for policy, bound in zip(mixture.policies, mixture.bounds, strict=True):
        out.append(f"{_INDENT}WHEN {draw} < {bound!r} THEN {_decision(decision_of(policy), names, _INDENT, columns)}")
    return "\n".join([*out, "END"])


def _checked_draw(draw: str | None) -> str:
    remedy = "a column, or an expression of one, with a draw from [0, 1) in each row"
    if draw is None or not draw.strip():
        raise InputError(f"the policy is a mixture, and SQL must be told its draw: {remedy} (--draw …)")
    found = _DRAWN_ANEW.search(draw)
    if found is not None:
        raise InputError(
            f"the draw '{plain(draw)}' calls {found[1]}(), which is drawn anew wherever it stands; write the draw into "
            "a column first, and name that"
        )
    return f"({checked(draw)})"


def _decision(decision: RuleList | LargestScore, names: Sequence[str], indent: str, columns: SqlColumns) -> str:
    """Return the expression of a decision; `indent` precedes all its lines but the first."""
    if isinstance(decision, LargestScore):
        return _largest(decision, names, indent, columns)
    otherwise = "NULL" if decision.otherwise is None else names[decision.otherwise]
    if not decision.rules:
        return otherwise
    whens = [(" AND ".join(_condition(one, columns) for one in r.conditions), names[r.action]) for r in decision.rules]
    return _case(whens, otherwise, indent)


def _case(whens: Sequence[tuple[str, str]], otherwise: str, indent: str) -> str:
    inner = f"\n{indent}{_INDENT}"
    lines = "".join(f"{inner}WHEN {condition} THEN {value}" for condition, value in whens)
    return f"CASE{lines}{inner}ELSE {otherwise}\n{indent}END"


def _condition(condition: Condition, columns: SqlColumns) -> str:
    match condition:
        case NumberAtMost():
            said = f"{columns[condition.feature]} <= {float(condition.most)!r}"
        case NumberMissing():
            return f"{columns[condition.feature]} IS NULL"
        case LabelIs():
            said = columns.dialect.equals(columns[condition.feature], condition.label)
        case IdAmong():
            return f"{columns.dialect.name(ID_COLUMN)} IN ({', '.join(map(str, condition.ids))})"
    return f"({said} OR {columns[condition.feature]} IS NULL)" if condition.or_missing else said


def _largest(decision: LargestScore, names: Sequence[str], indent: str, columns: SqlColumns) -> str:
    """Return the expression of the first action whose score no later one exceeds (earlier ones were exceeded)."""
    lengths = [1 + len(terms) for terms in decision.scores]
    written = (len(lengths) - 1) * sum(lengths)
    if written > MOST_SQL_TERMS or max(lengths) > MOST_SCORE_TERMS:
        raise InputError(
            f"the scores of this linear policy would take {written:,} terms in SQL, too many for a database; use "
            "`pacbandits apply`, or its form in Python"
        )
    scores = [_sum(terms, columns) for terms in decision.scores]
    whens: list[tuple[str, str]] = []
    used = dict.fromkeys(t.column.feature for one in decision.scores for t in one if isinstance(t.column, Standardised))
    if used:
        whens.append((" OR ".join(f"{columns[feature]} IS NULL" for feature in used), "NULL"))
    for action, score in enumerate(scores[:-1]):
        above = " AND ".join(f"{score} >= {other}" for other in scores[action + 1 :])
        whens.append((above, names[action]))
    return _case(whens, names[-1], indent) if whens else names[-1]


def _sum(terms: Sequence[Term], columns: SqlColumns) -> str:
    """Return the sum of terms, added one after the other in double precision."""
    zero = f"CAST(0.0 AS {columns.dialect.double})"
    return f"({' + '.join([zero, *(_term(term, columns) for term in terms)])})"


def _term(term: Term, columns: SqlColumns) -> str:
    match term.column:
        case None:
            return f"({term.constant!r})"
        case Indicator(feature, label):
            return f"CASE WHEN {columns.dialect.equals(columns[feature], label)} THEN {term.constant!r} ELSE 0.0 END"
        case Standardised(feature, centre, spread):
            column = f"(CAST({columns[feature]} AS {columns.dialect.double}) - ({centre!r})) / {spread!r}"
            return f"{column} * {' * '.join(f'({one!r})' for one in term.factors)}"


def _literal(value: Action, dialect: Dialect) -> str:
    """Return a quoted text, or a number."""
    return str(value) if isinstance(value, int) else dialect.literal(value)
