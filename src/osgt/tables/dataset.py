"""Dataset: a table and whom it is about."""

import glob
import os
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from osgt.near_names import unknown
from osgt.privacy.arguments import count
from osgt.tables.aggregates import OfAllRows
from osgt.tables.bounds.open_query import OpenQuery
from osgt.tables.cards import dataset_card, dataset_line
from osgt.tables.conditions.condition import checked_condition, filtered
from osgt.tables.conditions.expression import Expression
from osgt.tables.derived import computed, with_column
from osgt.tables.engines import engine_on
from osgt.tables.engines.source import Options
from osgt.tables.groups import NEIGHBOURS, Groups, Neighbours
from osgt.tables.identity import identity
from osgt.tables.keys import check_key_type, public_table
from osgt.tables.levels import levels_of
from osgt.tables.query import Query
from osgt.tables.sources import files_of, origin, source_of
from osgt.tables.types import UndeclaredTypeError
from osgt.tables.unit import PrivacyUnit


class Dataset(OfAllRows):
    """A table, and the column that says whom a row is about: the privacy unit.

    Parameters
    ----------
    source
        A path or glob of Parquet or CSV files; a pandas, polars or pyarrow frame; a DuckDB file or connection; an Ibis
        table; a Spark DataFrame or session; a PostgreSQL URL. Databases take `table` as well.
    privacy_unit
        The column that names the person, household, vehicle, … that is protected, or a list of columns that name it
        together. Rows in which one of them is missing are ignored. Text is told apart byte by byte, whatever the
        collation of the column: "Ann" and "ann" are two. "row" where every row is a unit of its own, as in a survey:
        `max_groups` and `max_rows_per_group` are 1 then.
    ledger, dataset
        The ledger that every release is charged to, or its path, and the name of the data set there.
    neighbours
        "add_remove" (the default): one unit and all its rows more or less must hardly change a release.
        "change_one": one unit exchanged for another, which takes about twice as much noise.
    engine, master
        The engine by name, if the source alone does not say it: files are read by "duckdb" unless this is "spark" or
        another engine that is installed; and where Spark runs.
    types
        What columns of CSV files hold: int64, float64, decimal(p, s), boolean, date, timestamp or string. Those that
        are not declared are text; types are never guessed from data, where one value could change them. A field that
        does not fit its type is missing. Also for columns of text and of Python objects in pandas and polars frames.
    delimiter
        What separates the fields of a CSV file, if not a comma (or a tab in a .tsv file).

    Examples
    --------
    >>> import pyarrow as pa
    >>> visits = pa.table({"patient": ["a", "a", "b"], "ward": ["x", "y", "x"]})
    >>> query = Dataset(visits, privacy_unit="patient").group_by("ward", max_groups=2, max_rows_per_group=1).count()
    >>> query.plan(epsilon=1, delta=1e-6).threshold
    30
    """

    def __init__(
        self,
        source: Any,
        privacy_unit: str | Sequence[str],
        *,
        ledger: Any = None,
        dataset: str | None = None,
        table: str | None = None,
        neighbours: Neighbours = "add_remove",
        engine: str | None = None,
        master: str | None = None,
        types: Mapping[str, str] | None = None,
        delimiter: str | None = None,
    ) -> None:
        if neighbours not in NEIGHBOURS:
            raise ValueError(f"neighbours must be one of {list(NEIGHBOURS)}, got {neighbours!r}")
        if (ledger is None) != (dataset is None):
            raise ValueError("ledger and dataset (the name of the data set there) must be given together")
        if ledger is not None and not isinstance(ledger, str | os.PathLike) and not hasattr(ledger, "reserve"):
            raise TypeError(f"ledger must be a Ledger or its path, as in ledger='budget.db', got {ledger!r}")
        self._source = source_of(source, Options(table, engine, master, types, delimiter))
        self.table = self._source.table
        self.engine = engine_on(self.table.get_backend())
        self.unit = PrivacyUnit.of(privacy_unit, self.table.columns)
        self.neighbours: Neighbours = neighbours
        self._opened_ledger = _opened(ledger) if isinstance(ledger, str | os.PathLike) else None
        self.ledger, self.dataset = self._opened_ledger or ledger, dataset
        self.filters: tuple[Expression, ...] = ()
        self.derived: dict[str, Expression] = {}
        self.origin = origin(source, table)
        self.identity = identity(source, table, self.table.schema(), self.origin)
        self.files = files_of(source, self.table)
        self._opened = isinstance(source, str | os.PathLike)
        for column in self.unit.columns:
            check_key_type(self.engine, "privacy_unit", column, self.type_of("privacy_unit", column))
            if column in self._source.mixed:
                # Of a person who is named by a number among texts, all rows would be ignored.
                raise TypeError(
                    f"privacy_unit: column {column!r} has mixed types, of which text alone would count; declare what "
                    f'they mean: types={{"{column}": "string"}} in Dataset(…)'
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
    def declared_texts(self) -> tuple[ir.Table | None, dict[str, str]]:
        """The declared types, and a table of what they were read from (`Source.texts`)."""
        return self._source.texts, self._source.types

    def close(self) -> None:
        """Close what this object has opened: the connection to files and database URLs, the ledger of a path."""
        if self._opened:
            self.engine.close(self.table.get_backend())
        if self._opened_ledger is not None:
            self._opened_ledger.close()

    def is_of_same_rows(self, other: "Dataset") -> bool:
        """Whether both were made from one `Dataset(…)`, and so are about the same people in the same table."""
        return self._source is other._source

    def type_of(self, argument: str, column: object) -> dt.DataType:
        """The type of a column, or an error that names the argument and the columns there are."""
        schema = self.table.schema()
        if not isinstance(column, str):
            raise TypeError(f"{argument} must be the name of a column, got {column!r}")
        if column not in schema:
            self._check_delimiter()
            raise ValueError(f"{argument}: {unknown('column', column, schema.names)}")
        reason = self.engine.unusable(self.table, column)
        if reason is not None:
            raise TypeError(f"{argument}: column {column!r} {reason}")
        return schema[column]

    def _check_delimiter(self) -> None:
        """Raise if the only column looks like several."""
        names = self.table.columns
        between = [each for each in ";\t|" if each in names[0]] if self._source.declarable and len(names) == 1 else []
        if between:
            raise ValueError(
                f"delimiter must be given: the only column is {names[0]!r}, which looks like several with "
                f"{between[0]!r} between them"
            )

    def number_type_of(self, column: object) -> dt.DataType:
        """The type of a column that is to be added up."""
        dtype = self.type_of("column", column)
        if dtype.is_string() and self._source.declarable and column not in self._source.types:
            raise UndeclaredTypeError("column", str(column), "float64")
        return dtype

    def where(self, condition: Any) -> "Dataset":
        """The rows for which a condition holds: SQL of the engine as after WHERE, or an Ibis expression.

        A condition looks at one row alone and is true or false for it. What compares with other rows (subqueries,
        aggregates, windows) would let one person's data decide about another's rows, and is refused; so is every
        function that is not known to see its arguments alone. A value that the engine cannot compute for a row, such as
        CAST('abc' AS INTEGER) or 1 / 0, counts as missing.

        Examples
        --------
        >>> import pyarrow as pa
        >>> visits = pa.table({"patient": ["a", "b"], "ward": ["x", "it's"], "days": [3, 12]})
        >>> data = Dataset(visits, privacy_unit="patient").where("ward = 'it''s' AND days BETWEEN 1 AND 30")
        >>> data.where("days > (SELECT avg(days) FROM visits)")
        Traceback (most recent call last):
            ...
        ValueError: where: did not expect 'SELECT' at character 9; it looks at one row alone and has no queries, ...
        """
        fewer = copy(self)
        fewer.filters = (*self.filters, checked_condition(self.table, condition))
        return fewer

    def derive(self, columns: Mapping[str, Any] | None = None, /, **named: Any) -> "Dataset":
        """Columns that are computed from each row, for `where`, `group_by` and aggregates.

        A column is made by `cut`, `recode`, `year`, `quarter`, `month` or `weekday`, by SQL of the engine (`"fare -
        tip"`, `"CASE WHEN … END"`), in which these functions may be used, or by an Ibis expression. It may use the
        columns before it. The rules of `where` apply: it looks at one row alone, and a value that the engine cannot
        compute is missing. Names that are no names of Python are given in a dict.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from osgt import cut
        >>> people = pa.table({"id": [1, 2, 3], "age": [8, 34, 71], "wage": [0, 50, 20], "tax": [0, 9, 2]})
        >>> data = Dataset(people, privacy_unit="id").derive(band=cut("age", [0, 18, 65, 120]), net="wage - tax")
        >>> query = data.group_by("band", max_groups=1, max_rows_per_group=1, public_keys="all").sum("net", (0, 99))
        >>> query.release(epsilon=1, delta=0).to_arrow()["band"].to_pylist()
        ['0–17', '18–64', '65–120']
        """
        more = copy(self)
        more.derived = dict(self.derived)
        for name, given in {**(columns or {}), **named}.items():
            more.table, more.derived[name] = with_column(more.table, name, given)
        return more

    @property
    def stored(self) -> ir.Table:
        """The table without the derived columns."""
        return self._source.table

    def on(self, table: ir.Table) -> "Dataset":
        """The same on another table with the stored columns: what is derived is computed anew. It has no ledger."""
        other = copy(self)
        other.table, other.ledger, other.dataset = table, None, None
        for name, found in self.derived.items():
            other.table = computed(other.table, name, found)
        return other

    def group_by(
        self,
        *columns: str | Sequence[str],
        max_groups: int | None = None,
        max_rows_per_group: int | None = None,
        public_keys: Any = None,
        totals: Any = None,
    ) -> Query:
        """Groups by the values of columns, one after the other or in a list; with none, all rows are one group.

        `data.count()`, `data.sum(…)` and so on are short for `data.group_by().count()`.

        Parameters
        ----------
        max_groups
            The most groups that one unit may count in. What is left out has to be given, or recommended by
            `suggest_bounds`, before anything can be released.
        max_rows_per_group
            The most rows of one unit that may count in a group. Only queries that count units alone can do without.
        public_keys
            Groups that are public: all of them are shown, and no others. A list (of tuples, with several columns), a
            dict with a list for each column (all combinations), a frame, or the path of a CSV or Parquet file. In place
            of a list: a range, a set (which is sorted), a NumPy array, a Series or an Index; of what is categorical in
            pandas, its categories. "all" for a derived column stands for all labels or values that it can have (and in
            place of everything, if all columns are such). If not given, only groups with enough units are shown, for a
            part of δ.
        totals
            Totals to publish as well: "rollup" (over the last key, the last two, …, all of them), "cube" (over every
            set of keys), or a list of levels, each the columns that remain, as in `[("region",), ()]`; a level may have
            a weight: `{"by": ["region"], "weight": 2}`. Numbers are those of the same rows and add up exactly.
        """
        return self._grouped(_names(columns), max_groups, max_rows_per_group, public_keys, totals)

    def _grouped(
        self,
        columns: tuple[str, ...],
        max_groups: int | None,
        max_rows_per_group: int | None,
        public_keys: Any,
        totals: Any = None,
    ) -> Query:
        for column in columns:
            check_key_type(self.engine, "group_by", column, self.type_of("group_by", column))
        if self.unit.columns and set(self.unit.columns) <= set(columns):
            raise ValueError(
                f"group_by: {self.privacy_unit!r} is the privacy unit: a group would be one unit, which a release "
                "never shows"
            )
        if len(set(columns)) < len(columns):
            raise ValueError(f"group_by: each column once, got {', '.join(columns)}")
        if self.unit.each_row:
            for name, given in (("max_groups", max_groups), ("max_rows_per_group", max_rows_per_group)):
                if given not in (None, 1):
                    raise ValueError(f"{name} must be left out where every row is a unit: it is 1, got {given!r}")
            max_groups = max_rows_per_group = 1
        if not columns:
            if max_groups not in (None, 1):
                raise ValueError(f"max_groups must be left out where there are no groups, got {max_groups!r}")
            if public_keys is not None:
                raise ValueError("public_keys must be left out where there are no columns to group by")
            max_groups = 1
        limit = None if max_groups is None else count("max_groups", max_groups)
        rows = None if max_rows_per_group is None else count("max_rows_per_group", max_rows_per_group)
        read, public = self, None
        if public_keys is not None:
            public_keys = self._every(public_keys, columns)
            public = public_table(public_keys, columns, self.engine.key_schema(self.table))
        if isinstance(public_keys, str | os.PathLike):
            read = copy(self)
            read.files = (*self.files, glob.escape(os.fspath(public_keys)))
        levels = levels_of(totals, columns, public)
        query = Query(read, Groups(columns, limit or 1, rows, public, self.unit.each_row, levels))
        if limit is None:
            # Not to be released before it has a limit, but a suggestion can be made for it.
            return OpenQuery.of(query, max_groups=None, max_rows=rows)  # type: ignore[return-value]
        return query

    def _every(self, public_keys: Any, columns: tuple[str, ...]) -> Any:
        """Public keys with all values of derived columns in place of "all"."""
        if isinstance(public_keys, str) and public_keys == "all":
            public_keys = dict.fromkeys(columns, "all")
        if not isinstance(public_keys, Mapping):
            return public_keys
        found = dict(public_keys)
        for name, values in public_keys.items():
            if isinstance(values, str) and values == "all":
                every = self.derived[name].values if name in self.derived else None
                if every is None:
                    raise ValueError(
                        f'public_keys: "all" is for columns that cut, recode, quarter, month or weekday derives; list '
                        f"the keys of {name!r}"
                    )
                found[name] = list(every)
        return found

    def rows(self) -> ir.Table:
        """The rows that the conditions leave, as an Ibis table."""
        with self.engine.turn(self.table.get_backend()):
            return filtered(self.table, self.filters)

    def __repr__(self) -> str:
        return dataset_line(self)

    def _repr_html_(self) -> str:
        return dataset_card(self).html()

    def to_dict(self) -> dict[str, Any]:
        """What the data are, in plain values."""
        return {
            "source": self.origin,
            "engine": self.engine.name,
            "privacy_unit": self.unit.plain,
            "neighbours": self.neighbours,
            "types": dict(self._source.types),
            "derive": {name: expression.text for name, expression in self.derived.items()},
            "where": [condition.text for condition in self.filters],
        }


def _names(columns: Sequence[str | Sequence[str]]) -> tuple[str, ...]:
    """The columns, those in lists among them."""
    listed = ([each] if isinstance(each, str) or not isinstance(each, Sequence) else each for each in columns)
    return tuple(name for names in listed for name in names)


def _opened(location: str | os.PathLike[str]) -> Any:
    from osgt.ledger import Ledger  # noqa: PLC0415 - it builds on this layer

    return Ledger(location)
