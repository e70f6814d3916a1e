"""Statements that are run thousands of times a second: written out once for each kind of database.

SQLAlchemy makes a statement anew each time that it is run, which takes longer than the database needs to answer it.
Here it writes it down once, and from then on the text goes straight to the driver. Columns are bytes, text and numbers,
which drivers take and give as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from pacbandits.experiment.extra import sqlalchemy as sa

Values = Mapping[str, Any]
_LISTED = "listed"  # the parameter that holds a list


class Statement:
    """A statement with parameters, by their names.

    clause: as SQLAlchemy has it. index: that SQLite must use, of the first table that is read.
    """

    def __init__(self, clause: Any, *, index: str | None = None) -> None:
        self._clause, self._index = clause, index
        self._written: dict[str, tuple[str, Any]] = {}

    def run(self, connection: Any, values: Values) -> Any:
        """Run it once; its result."""
        text, pick = self._for(connection)
        return connection.exec_driver_sql(text, pick(values))

    def run_many(self, connection: Any, rows: Sequence[Values]) -> None:
        """Run it for each of these, at least one."""
        text, pick = self._for(connection)
        connection.exec_driver_sql(text, [pick(row) for row in rows])

    def _for(self, connection: Any) -> tuple[str, Any]:
        name: str = connection.dialect.name
        found = self._written.get(name)
        if found is None:
            found = self._written[name] = self._write(connection.dialect)
        return found

    def _write(self, dialect: Any) -> tuple[str, Any]:
        made = self._clause.compile(dialect=dialect)
        text = str(made)
        if self._index is not None and dialect.name == "sqlite":
            text = text.replace("\nWHERE ", f" INDEXED BY {self._index}\nWHERE ", 1)
        if not made.positional:
            return text, dict
        names: tuple[str, ...] = tuple(made.positiontup)
        return text, itemgetter(*names) if len(names) > 1 else lambda values: (values[names[0]],)


class Lookup:
    """A query for the rows of an experiment whose column is one of many values.

    columns: that are asked for. key: the column, of text or whole numbers. experiment: the column of its name.
    index: that leads there. Without being told, SQLite may read all rows of the experiment, as it does not know how
        many these are.
    order: by which they come, if it matters.
    """

    def __init__(
        self, columns: Sequence[Any], *, key: Any, experiment: Any, index: str | None = None, order: Any = None
    ) -> None:
        # One parameter for the whole list: else there would be a statement for each of its lengths.
        of_json = sa.select(sa.column("value")).select_from(sa.func.json_each(sa.bindparam(_LISTED)))
        of_array = sa.any_(sa.bindparam(_LISTED, type_=sa.ARRAY(key.type)))
        asked = sa.select(*columns).where(experiment == sa.bindparam("experiment"))
        asked = asked if order is None else asked.order_by(order)
        self._sqlite = Statement(asked.where(key.in_(of_json)), index=index)
        self._other = Statement(asked.where(key == of_array))

    def run(self, connection: Any, experiment: str, values: Sequence[Any]) -> Any:
        """The rows; values: those that the key may have."""
        if connection.dialect.name == "sqlite":
            return self._sqlite.run(connection, {"experiment": experiment, _LISTED: json.dumps(values)})
        return self._other.run(connection, {"experiment": experiment, _LISTED: list(values)})
