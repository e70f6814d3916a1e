"""The SQL of databases that are not at hand, against what their manuals say of names, texts and dates."""

from __future__ import annotations

import pytest

import pacbandits as pb
from pacbandits.exports.sql import DIALECTS, STANDARD
from pacbandits.policies.trees.tree_policy import AtMost, Is, TreePolicy, TreeSplit

DAY, HOUR, WEEKDAY = "at days since 1970-01-01", "at hour", "at weekday"
MADE = {
    "duckdb": {
        WEEKDAY: """substr('MonTueWedThuFriSatSun', 3 * CAST(isodow(CAST("at" AS DATE)) AS INTEGER) - 2, 3)""",
        DAY: """date_diff('day', DATE '1970-01-01', CAST("at" AS DATE))""",
        HOUR: """CAST(date_diff('microsecond', date_trunc('day', CAST("at" AS TIMESTAMP)), CAST("at" AS TIMESTAMP)) """
        "AS DOUBLE) / 3600000000.0",
    },
    "bigquery": {
        WEEKDAY: "FORMAT_DATE('%a', CAST(`at` AS DATE))",
        DAY: "UNIX_DATE(CAST(`at` AS DATE))",
        HOUR: "CAST(DATETIME_DIFF(CAST(`at` AS DATETIME), DATETIME_TRUNC(CAST(`at` AS DATETIME), DAY), MICROSECOND) "
        "AS FLOAT64) / 3600000000.0",
    },
    "snowflake": {
        WEEKDAY: 'DAYNAME(CAST("at" AS DATE))',
        DAY: """DATEDIFF('day', DATE '1970-01-01', CAST("at" AS DATE))""",
        HOUR: """CAST(DATEDIFF('microsecond', CAST(CAST("at" AS DATE) AS TIMESTAMP_NTZ), """
        """CAST("at" AS TIMESTAMP_NTZ)) """
        "AS DOUBLE) / CAST(3600000000 AS DOUBLE)",
    },
    "mysql": {
        WEEKDAY: "SUBSTRING('MonTueWedThuFriSatSun', 3 * WEEKDAY(`at`) + 1, 3)",
        DAY: "DATEDIFF(`at`, '1970-01-01')",
        HOUR: "TIMESTAMPDIFF(MICROSECOND, CAST(`at` AS DATE), CAST(`at` AS DATETIME(6))) / 3600000000e0",
    },
}


@pytest.mark.parametrize("dialect", MADE)
def test_features_of_dates(dialect):
    for feature, made in MADE[dialect].items():
        test = Is(feature, "Wed") if feature == WEEKDAY else AtMost(feature, 13.5)
        sql = pb.to_sql(TreePolicy(TreeSplit(test, 0, 1), 2), dates=["at"], dialect=dialect)
        assert f"({made})" in sql
        assert "--" not in sql


TRICKY = 'it\'s a \\ `"x"`\n'
TEXTS = {
    "sqlite": "'it''s a \\ `\"x\"`\n'",
    "postgresql": "'it''s a \\ `\"x\"`\n'",
    "duckdb": "'it''s a \\ `\"x\"`\n'",
    "snowflake": "'it''s a \\\\ `\"x\"`\\n'",
    "mysql": "'it''s a \\\\ `\"x\"`\\n'",
    "bigquery": "'it\\'s a \\\\ `\"x\"`\\n'",
}
NAMES = {
    "sqlite": '"a`""b"',
    "postgresql": '"a`""b"',
    "duckdb": '"a`""b"',
    "snowflake": '"a`""b"',
    "mysql": '`a``"b`',
    "bigquery": '`a\\`"b`',
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_and_texts_are_quoted_as_the_database_reads_them(dialect):
    assert DIALECTS[dialect].literal(TRICKY) == TEXTS[dialect]
    assert DIALECTS[dialect].name('a`"b') == NAMES[dialect]
    sql = pb.to_sql(TreePolicy(TreeSplit(Is('a`"b', TRICKY), 0, 1), 2), actions=["plain", TRICKY], dialect=dialect)
    assert NAMES[dialect] in sql
    assert sql.count(TEXTS[dialect]) == 2


def test_texts_are_compared_to_the_letter_in_mysql():
    sql = pb.to_sql(TreePolicy(TreeSplit(Is("country", "DE"), 0, 1), 2), dialect="mysql")
    same = "CAST(CONVERT(`country` USING utf8mb4) AS BINARY) = CAST(CONVERT('DE' USING utf8mb4) AS BINARY)"
    assert f"WHEN {same} THEN 0" in sql


def test_scores_are_doubles_of_the_database():
    assert [DIALECTS[name].double for name in ("bigquery", "mysql", "postgresql")] == [
        "FLOAT64",
        "DOUBLE",
        "DOUBLE PRECISION",
    ]
    assert STANDARD.double == "DOUBLE PRECISION"
    with pytest.raises(pb.InputError, match="dialect 'oracle' is not known here"):
        pb.to_sql(TreePolicy(TreeSplit(AtMost("age", 3.0), 0, 1), 2), dialect="oracle")


def test_an_age_is_the_difference_of_two_days():
    policy = TreePolicy(TreeSplit(AtMost("at (days before seen)", 90.0), 0, 1), 2)
    for dialect, made in MADE.items():
        sql = pb.to_sql(policy, dates=["at", "seen"], dialect=dialect)
        column, seen = made[DAY], made[DAY].replace("at`", "seen`").replace('"at"', '"seen"')
        assert f"(({seen}) - ({column})) <= 90.0" in sql
