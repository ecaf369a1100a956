"""The rows of a data set: their table, whom they are about, conditions and derived columns. No row is read here."""

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from osgt.data.derived import add_columns, check_column
from osgt.data.engines.source import Options, Source
from osgt.data.expressions.expression import Expression, check_condition, holds
from osgt.data.sources import files_of, identity, origin, source_of
from osgt.data.sql import Table, Value
from osgt.data.types import ColumnType, UndeclaredTypeError
from osgt.data.unit import NEIGHBOURS, Neighbours, PrivacyUnit, check_key_type
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.text import unknown


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in plain values; dates as text, since Python knows no years beyond 9999."""
    for i, field in enumerate(table.schema):
        if pa.types.is_temporal(field.type):
            table = table.set_column(i, field.name, table[i].cast(pa.string()))
    result: list[dict[str, Any]] = table.to_pylist()
    return result


class PrivateRows:
    """The rows of a table, and the privacy unit that each is about."""

    #: The ledger that releases are charged to, and the name of the data set there.
    ledger: Any = None
    dataset: str | None = None
    #: About how many units there are, as far as that is public.
    units: int | None = None

    def __init__(
        self, source: Any, privacy_unit: str | Sequence[str], neighbours: Neighbours, options: Options
    ) -> None:
        if neighbours not in NEIGHBOURS:
            raise ArgumentError(
                f"neighbours must be one of {list(NEIGHBOURS)}, got {neighbours!r}", argument="neighbours"
            )
        self._source = source_of(source, options)
        self.table = self._source.table
        self.engine = self.table.engine
        self.unit = PrivacyUnit.of(privacy_unit, list(self.table.columns))
        self.neighbours: Neighbours = neighbours
        self.filters: tuple[Expression, ...] = ()
        self.derived: dict[str, Expression] = {}
        self.origin = origin(source, options.table)
        self.identity = identity(source, options.table, self.table.columns, self._source.types, self.origin)
        self.files = files_of(source, self.table)
        self._opened = isinstance(source, str | os.PathLike)
        for column in self.unit.columns:
            check_key_type(self.engine, "privacy_unit", column, self.type_of("privacy_unit", column))
            if column in self._source.mixed:
                # Of a person who is named by a number among texts, all rows would be ignored.
                raise ArgumentTypeError(
                    f"privacy_unit: column {column!r} has mixed types, of which text alone would count; declare what "
                    f'they mean: types={{"{column}": "string"}} in Dataset(…)',
                    argument="privacy_unit",
                )

    @property
    def privacy_unit(self) -> str:
        """The name of the privacy unit, for ledgers and sentences: "person", "household + person", "row"."""
        return self.unit.name

    @property
    def types_can_be_declared(self) -> bool:
        """Whether columns are text until their types are declared, as those of CSV files are."""
        return self._source.declarable

    @property
    def declared_types(self) -> dict[str, str]:
        """The declared types by column."""
        return self._source.types

    @property
    def texts(self) -> Table | None:
        """A table of what declared types were read from (`Source.texts`)."""
        return self._source.texts

    @property
    def source(self) -> Source:
        """The source of the rows: its table, and what is known about the types."""
        return self._source

    def check_files(self) -> None:
        """Raise if a CSV file has changed since it was opened, and so might hold what it did not."""
        if self._source.files is not None:
            self._source.files.check()

    def close(self) -> None:
        """Close what this object has opened: the connection to files and database URLs."""
        if self._opened:
            self.engine.close(self.table.connection)
        if self._source.files is not None:
            self._source.files.close()

    def is_of_same_rows(self, other: "PrivateRows") -> bool:
        """Whether both were made from one `Dataset(…)`, and so are about the same people in the same table."""
        return self._source is other._source

    def type_of(self, argument: str, column: object) -> ColumnType:
        """The type of a column, or an error that names the argument and the columns there are."""
        columns = self.table.columns
        if not isinstance(column, str):
            raise ArgumentTypeError(f"{argument} must be the name of a column, got {column!r}", argument=argument)
        if column not in columns:
            self._check_delimiter()
            raise ArgumentError(f"{argument}: {unknown('column', column, list(columns))}", argument=argument)
        reason = self.engine.unusable(columns[column])
        if reason is not None:
            raise ArgumentTypeError(f"{argument}: column {column!r} {reason}", argument=argument)
        return columns[column]

    def _check_delimiter(self) -> None:
        """Raise if the only column looks like several."""
        names = list(self.table.columns)
        between = [sign for sign in ";\t|" if sign in names[0]] if self._source.declarable and len(names) == 1 else []
        if between:
            raise ArgumentError(
                f"delimiter must be given: the only column is {names[0]!r}, which looks like several with "
                f"{between[0]!r} between them",
                argument="delimiter",
            )

    def number_type_of(self, column: object) -> ColumnType:
        """The type of a column that is to be added up."""
        dtype = self.type_of("column", column)
        if dtype.kind == "text" and self._source.declarable and column not in self._source.types:
            raise UndeclaredTypeError("column", str(column), "float64")
        return dtype

    def where(self, condition: Any) -> Self:
        """The rows for which a condition holds: SQL of the engine as after WHERE.

        A condition looks at one row alone and is true or false for it. What compares with other rows (subqueries,
        aggregates, windows) would let one person's data decide about another's rows, and is refused; so is every
        function that is not known to see its arguments alone. A value that the engine cannot compute for a row, such as
        CAST('abc' AS INTEGER) or 1 / 0, counts as missing.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from osgt import Dataset
        >>> visits = pa.table({"patient": ["a", "b"], "ward": ["x", "it's"], "days": [3, 12]})
        >>> data = Dataset(visits, privacy_unit="patient").where("ward = 'it''s' AND days BETWEEN 1 AND 30")
        >>> data.where("days > (SELECT avg(days) FROM visits)")
        Traceback (most recent call last):
            ...
        osgt.support.errors.ArgumentError: where: did not expect 'SELECT' at character 9; it looks at one row alone ...
        """
        fewer = copy(self)
        fewer.filters = (*self.filters, check_condition(self.table, condition))
        return fewer

    def derive(self, columns: Mapping[str, Any] | None = None, /, **named: Any) -> Self:
        """Columns that are computed from each row, for `where`, `group_by` and aggregates.

        A column is made by `cut`, `recode`, `year`, `quarter`, `month` or `weekday`, or by SQL of the engine (`"fare -
        tip"`, `"CASE WHEN … END"`), in which these functions may be used. It may use the columns before it. The rules
        of `where` apply: it looks at one row alone, and a value that the engine cannot compute is missing. Names that
        are no names of Python are given in a dict.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from osgt import Dataset, cut
        >>> people = pa.table({"id": [1, 2, 3], "age": [8, 34, 71], "wage": [0, 50, 20], "tax": [0, 9, 2]})
        >>> data = Dataset(people, privacy_unit="id").derive(band=cut("age", [0, 18, 65, 120]), net="wage - tax")
        >>> query = data.group_by("band", max_groups=1, max_rows_per_group=1, public_keys="all").sum("net", (0, 99))
        >>> query.release(epsilon=1, delta=0).to_arrow()["band"].to_pylist()
        ['0–17', '18–64', '65–120']
        """
        more = copy(self)
        more.derived = dict(self.derived)
        for name, given in {**(columns or {}), **named}.items():
            more.derived[name] = check_column(more.table, more.derived, name, given)
            more.table = add_columns(more.stored, more.derived)
        return more

    @property
    def stored(self) -> Table:
        """The table without the derived columns."""
        return self._source.table

    def on(self, table: Table) -> Self:
        """Copy the data set onto another table with the stored columns, and derive columns anew. It has no ledger."""
        other = copy(self)
        other.table = add_columns(table, self.derived)
        other._source = replace(self._source, table=table, texts=None)
        return other

    @property
    def conditions(self) -> list[Value]:
        """The conditions on the rows of the table."""
        return [holds(condition, self.table) for condition in self.filters]

    def rows(self) -> Table:
        """The rows that the conditions leave."""
        if not self.filters:
            return self.table
        comment = "The rows that meet the conditions."
        return self.table.select("chosen_rows", comment, {}, where=self.conditions, keeps_all=True)

    def to_dict(self) -> dict[str, Any]:
        """Describe the data in plain values."""
        return {
            "source": self.origin,
            "engine": self.engine.name,
            "privacy_unit": self.unit.plain,
            "neighbours": self.neighbours,
            "types": dict(self._source.types),
            "derive": {name: expression.text for name, expression in self.derived.items()},
            "where": [condition.text for condition in self.filters],
        }
