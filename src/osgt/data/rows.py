"""The rows of a data set: their table, whom they are about, conditions and derived columns. No row is read here.

A source is whatever holds the rows, as a table of its engine; only names and types are looked at.
Which table is it? A name and a fingerprint of its columns, by which a ledger tells tables apart. No data.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from osgt.data.columns import KnownColumn
from osgt.data.derived import add_columns, check_column
from osgt.data.engines import engine_for, engine_named, engine_of_ibis
from osgt.data.engines.engine import Engine
from osgt.data.engines.query import first_line
from osgt.data.engines.source import Options, Source
from osgt.data.expressions.expression import Expression, check_condition, holds
from osgt.data.joins import join_many_to_one
from osgt.data.parts import Part, parts_of, rows_of_part
from osgt.data.sql import Table, Value
from osgt.data.text_files import DELIMITERS
from osgt.data.types import ColumnType, UndeclaredTypeError
from osgt.data.unit import NEIGHBOURS, Neighbours, PrivacyUnit
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.locations import is_spreadsheet, shown, suffix_of, without_secrets
from osgt.support.text import unknown


def source_of(source: Any, options: Options) -> Source:
    """The table that `source` stands for: an Ibis table, or what an engine opens (`Engine.takes`)."""
    named = None if options.engine is None else engine_named(options.engine)
    if isinstance(source, Table) or _is_of_ibis(source):
        engine = source.engine if isinstance(source, Table) else engine_of_ibis(source.get_backend().name)
        if named is not None and named.name != engine.name:
            raise ArgumentError(f"engine must be {engine.name} for this table, got {named.name!r}", argument="engine")
        result = Source(source if isinstance(source, Table) else engine.ibis_table(source))
    else:
        engine = engine_for(source) if named is None else named
        is_text = isinstance(source, str | os.PathLike)
        result = _open(engine, os.fspath(source), options) if is_text else engine.opened(source, options)
    _check_options(source, result, engine, options)
    return result


def _check_options(source: Any, result: Source, engine: Engine, options: Options) -> None:
    """Raise if an option makes no sense for the source."""
    if options.master is not None and not engine.has_master:
        raise ArgumentError(f"master must be left out for {engine.title}, which runs where it is", argument="master")
    if options.types and not result.declarable:
        raise ArgumentError(
            "types is for CSV files and for frames; this source has types of its own: cast them there", argument="types"
        )
    for name in ("delimiter", "quote", "encoding", "decimal", "date_format"):
        if getattr(options, name) is not None and not _is_text_file(source):
            raise ArgumentError(f"{name} is for CSV files", argument=name)


def _is_of_ibis(source: Any) -> bool:
    """Whether it is an Ibis table, told by where it comes from: Ibis need not be installed."""
    return type(source).__module__.startswith("ibis.expr.types") and hasattr(source, "get_backend")


def _is_text_file(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and suffix_of(os.fspath(source)) in DELIMITERS


def _open(engine: Engine, name: str, options: Options) -> Source:
    """Open the source that a path or a URL names. Errors of engines and drivers may quote it, and so a password."""
    message = ""
    try:
        return engine.opened(name, options)
    except (ValueError, TypeError, OSError, ImportError) as error:
        if without_secrets(str(error), name) == str(error):
            raise
        message = without_secrets(str(error), name)
    except Exception as error:  # each engine has errors of its own
        message = without_secrets(first_line(error), name)
    raise ValueError(f"source {shown(name)!r} cannot be read: {message}")


def origin(source: object, table: str | None = None) -> str:
    """A name for a source that gives no password away."""
    if isinstance(source, str | os.PathLike):
        text = shown(os.fspath(source))
    else:
        text = f"{type(source).__module__.partition('.')[0]} {type(source).__name__}"
    return text if table is None else f"{text}, table {table}"


def files_of(source: object, table: Table) -> tuple[str, ...]:
    """The files that are read, as paths or globs: none of them may be written to."""
    named = [os.fspath(source)] if isinstance(source, str | os.PathLike) else []
    return (*named, *table.engine.files(table.connection))


#: The names of kinds in fingerprints, where they have others: ledgers keep these.
_KINDS = {"text": "string", "float": "floating", "clock": "time", "interval": "other", "null": "other"}

#: Schemas that an engine looks into by itself.
_DEFAULT_SCHEMAS = ("public.", "main.", "default.")


def identity(
    source: object, table: str | None, columns: Mapping[str, ColumnType], types: Mapping[str, str], origin: str
) -> dict[str, Any]:
    """The table in plain values, as `Ledger.reserve` takes it: `types` are those that are declared for its texts."""
    kinds = {name: "text" if name in types else dtype.kind for name, dtype in columns.items()}
    return {"name": name_of(source, table), "schema": fingerprint(kinds), "source": origin, "types": dict(types)}


def name_of(source: object, table: str | None) -> str | None:
    """The table's name in its database, or the file's name without folder and ending; None for frames in memory."""
    if table is not None and not (isinstance(source, str | os.PathLike) and is_spreadsheet(source)):
        for prefix in _DEFAULT_SCHEMAS:
            table = table.removeprefix(prefix)
        return table
    if not isinstance(source, str | os.PathLike):
        return None
    path = Path(os.fspath(source))
    name = path.name.split(".")[0] or path.name
    if any(character in name for character in "*?["):
        return path.parent.name or name
    return name


def fingerprint(kinds: Mapping[str, str]) -> str:
    """A short hash over the names and kinds of the columns, in any order.

    Kinds, not types: an engine may say int32 where another says int64 for the same file.
    """
    named = sorted((name, _KINDS.get(kind, kind)) for name, kind in kinds.items())
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16]


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
    #: The part of the people to whom the rows are restricted; None: everybody.
    part: Part | None = None
    #: The name of the table among those of a data file.
    called: str | None = None
    #: What is publicly known of columns, by name.
    known: Mapping[str, KnownColumn] = {}
    #: The budget of releases for which none is given, and the texts of reports.
    budget: Mapping[str, float] = {}
    report_texts: Mapping[str, Any] = {}

    def __init__(
        self,
        source: Any,
        privacy_unit: str | Sequence[str],
        neighbours: Neighbours,
        options: Options,
        noun: str | Sequence[str] | None = None,
    ) -> None:
        if neighbours not in NEIGHBOURS:
            raise ArgumentError(
                f"neighbours must be one of {list(NEIGHBOURS)}, got {neighbours!r}", argument="neighbours"
            )
        self._source = source_of(source, options)
        self.table = self._source.table
        self.engine = self.table.engine
        self.unit = PrivacyUnit.of(privacy_unit, list(self.table.columns), noun)
        self.neighbours: Neighbours = neighbours
        #: The sources that the rows are joined of.
        self._joined: tuple[Source, ...] = ()
        self.filters: tuple[Expression, ...] = ()
        self.derived: dict[str, Expression] = {}
        self.origin = origin(source, options.table)
        self.identity = identity(source, options.table, self.table.columns, self._source.types, self.origin)
        self.files = files_of(source, self.table)
        self._opened = isinstance(source, str | os.PathLike)
        for column in self.unit.columns:
            self.engine.check_key_type("privacy_unit", column, self.type_of("privacy_unit", column))
            if column in self._source.mixed:
                # Of a person who is named by a number among texts, all rows would be ignored.
                raise ArgumentTypeError(
                    f"privacy_unit: column {column!r} has mixed types, of which text alone would count; declare what "
                    f'they mean: types={{"{column}": "string"}} in Dataset(…)',
                    argument="privacy_unit",
                )

    @property
    def privacy_unit(self) -> str:
        """The name of the privacy unit, for ledgers: "person_id", "household + person", "row"."""
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
        for source in (self._source, *self._joined):
            if source.files is not None:
                source.files.check()

    def close(self) -> None:
        """Close what this object has opened: the connection to files and database URLs."""
        if self._opened:
            self.engine.close(self.table.connection)
        if self._source.files is not None:
            self._source.files.close()

    def is_of_same_rows(self, other: "PrivateRows") -> bool:
        """Whether both were made from one `Dataset(…)`, and so are about the same people in the same table.

        Of a part of the people, both are.
        """
        return self._source is other._source and self.part == other.part

    def type_of(self, argument: str, column: object) -> ColumnType:
        """The type of a column, or an error that names the argument and the columns there are."""
        columns = self.table.columns
        if not isinstance(column, str):
            raise ArgumentTypeError(f"{argument} must be the name of a column, got {column!r}", argument=argument)
        if column not in columns:
            self._check_delimiter()
            dates = [name for name, dtype in columns.items() if dtype.kind in ("date", "timestamp")]
            is_part = dates and column in ("year", "quarter", "month", "weekday")
            hint = f'; derive it first, as {column} = "{column}({dates[0]})"' if is_part else ""
            raise ArgumentError(f"{argument}: {unknown('column', column, list(columns))}{hint}", argument=argument)
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

    def known_column(self, name: str) -> KnownColumn:
        """Gather what is publicly known of a column: what was said of it, and the values of a derived one."""
        column, expression = self.known.get(name, KnownColumn()), self.derived.get(name)
        if column.values is not None or expression is None or expression.values is None:
            return column
        labels = dict(zip(map(str, expression.values), expression.labels or (), strict=False))
        return replace(column, values=expression.values, labels=labels)

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
        if not isinstance(columns or {}, Mapping):
            raise ArgumentTypeError(
                'derive: give each column a name, as in data.derive(month="month(admitted)")', argument="derive"
            )
        more = copy(self)
        more.derived = dict(self.derived)
        for name, given in {**(columns or {}), **named}.items():
            more.derived[name] = check_column(more.table, more.derived, name, given)
            more.table = more._with_columns(more.stored)
        return more

    def _with_columns(self, table: Table) -> Table:
        """A stored table, restricted to the part, with the derived columns."""
        rows = table if self.part is None else rows_of_part(table, self.unit, self.part)
        return add_columns(rows, self.derived)

    def parts(self, parts: Mapping[str, str], *, max_parts: int = 1) -> dict[str, Self]:
        """The rows of disjoint parts of the people, by name, for releases that are charged as the largest of them.

        A row is in the first part whose condition holds. A unit counts in the first `max_parts` parts in which it has
        rows, by all its rows in the whole table; its rows in other parts are left out of every release. The budget must
        be opened with the same parts (`Ledger.open`).

        Parameters
        ----------
        parts
            Conditions on rows by the name of the part, as for `where`, in an order that decides. They use no derived
            columns, which could be others in another release.
        max_parts
            The most parts in which one unit counts.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from osgt import Dataset
        >>> visits = pa.table({"patient": ["a", "b", "b"], "region": ["north", "north", "south"]})
        >>> parts = {"north": "region = 'north'", "south": "region = 'south'"}
        >>> south = Dataset(visits, privacy_unit="patient").parts(parts)["south"]
        >>> print(south.group_by().count_units().release(epsilon=50, delta=0)["count_units"].tolist())
        [0]
        """
        if self.filters or self.part is not None:
            raise ValueError("parts comes before where: a unit's part follows from all of its rows")
        return {part.name: self.restricted_to(part) for part in parts_of(self.stored, parts, max_parts)}

    def restricted_to(self, part: Part) -> Self:
        """The rows of a part. How many units are in it is not known."""
        fewer = copy(self)
        fewer.part, fewer.units = part, None
        fewer.table = fewer._with_columns(fewer.stored)
        return fewer

    @property
    def part_name(self) -> str | None:
        """The name of the part to which the rows are restricted."""
        return None if self.part is None else self.part.name

    def join(
        self,
        source: Any = None,
        *,
        on: str | Sequence[str],
        table: str | None = None,
        types: Mapping[str, str] | None = None,
        delimiter: str | None = None,
        quote: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        date_format: str | None = None,
    ) -> Self:
        """The rows of another table, each with the columns of the row here that it belongs to: many to one.

        For a table without the person's column: start with the one that has it, and join others to it, one after the
        other. A row whose key stands in no row here, or in several, belongs to nobody and is ignored: nothing rests on
        keys being unique. If the other table has the privacy unit as well, that must be the same too.

        Parameters
        ----------
        source
            Files or a frame, if these data are; otherwise None, and `table` is a table of the same database.
        on
            The column, or columns, that both tables have.
        types, delimiter, quote, encoding, decimal, date_format
            As for `Dataset`, of the other table.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from osgt import Dataset
        >>> stays = pa.table({"stay": [1, 2, 3], "patient": ["a", "a", "b"], "ward": ["x", "y", "x"]})
        >>> bills = pa.table({"stay": [1, 1, 2, 3], "cost": [10, 20, 5, 8]})
        >>> data = Dataset(stays, privacy_unit="patient").join(bills, on="stay")
        >>> list(data.table.columns)
        ['stay', 'cost', 'patient', 'ward']
        """
        if self.unit.each_row or self.filters or self.derived or self.part is not None:
            raise ValueError(
                "join needs a column that names the privacy unit, and comes before derive, parts and where"
            )
        options = Options(table, None, None, types, delimiter, quote, encoding, decimal, date_format)
        if types and not (isinstance(source, str | os.PathLike) or hasattr(source, "columns")):
            raise ArgumentError("types is for CSV files and for frames", argument="types")
        keys = [on] if isinstance(on, str) else list(on)
        if not keys:
            raise ArgumentError("on must name the column that both tables have", argument="on")
        added = self.engine.beside(self.table.connection, source, options)
        if mixed := [name for name in keys if name in (self._source.mixed | added.mixed)]:
            raise ArgumentTypeError(f"on: column {mixed[0]!r} has mixed types; declare its type", argument="on")
        joined = join_many_to_one(added.table, self.stored, keys, self.unit.columns)
        other = copy(self)
        declared = {**self._source.types, **added.types}
        other._joined = (*self._joined, self._source, added)
        other._source = Source(
            joined,
            declared,
            added.declarable or self._source.declarable,
            added.mixed | self._source.mixed,
            examples={**self._source.examples, **added.examples},
        )
        other.table = joined
        other.origin = (
            f"{origin(source if source is not None else 'the same database', table)}, joined to {self.origin}"
        )
        other.identity = identity(source, table, joined.columns, declared, other.origin)
        other.files = (*self.files, *files_of(source, added.table))
        return other

    @property
    def stored(self) -> Table:
        """The table without the derived columns."""
        return self._source.table

    def on(self, table: Table) -> Self:
        """Copy the data set onto another table with the stored columns, and derive columns anew. It has no ledger."""
        other = copy(self)
        other.table = other._with_columns(table)
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
            **({} if self.part is None else self.part.to_dict()),
        }
