"""Dataset: a table and whom it is about."""

import glob
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from copy import copy
from typing import TYPE_CHECKING, Any, NoReturn, Self

from osgt import render
from osgt.api.joined import columns_by_table, steps_to
from osgt.data.columns import KnownColumn, declared_types, known_column
from osgt.data.engines.source import Options
from osgt.data.rows import PrivateRows
from osgt.data.sql import Table
from osgt.data.types import ColumnType
from osgt.data.unit import Neighbours
from osgt.query.aggregates import OfAllRows, method_names
from osgt.query.from_sql import read_select
from osgt.query.groups import LARGEST_LIMIT, Groups
from osgt.query.keys import check_among, public_table, read_keys
from osgt.query.levels import known_files, levels_of
from osgt.query.public_numbers import Rates
from osgt.support.errors import ASKING, ArgumentError, ArgumentTypeError, Familiar, guided
from osgt.support.numeric import count
from osgt.support.text import names_in_words

if TYPE_CHECKING:
    from osgt.api.query import Query
    from osgt.query.file.model import DataFile
    from osgt.render.derived import Description

#: The most groups that are shown because all values are public, and nobody has asked for them one by one.
_MOST_GROUPS = 100_000

#: The bins that the quartiles of a description are read from.
DESCRIBED_BINS = 64


class Dataset(Familiar, PrivateRows, OfAllRows):
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
    noun
        What one of them is called, for all sentences: "patient"; singular and plural where the plural is irregular, as
        in ("aircraft", "aircraft"). If left out, the column's name without "_id" and the like.
    units
        About how many units there are, if that is public: it says how much of a budget the choice of limits takes.
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
    delimiter, quote
        What separates the fields of a CSV file, if not a comma (or a tab in a .tsv file); and what stands around fields
        with delimiters or line ends in them, if not `"` (nothing in a .tsv file): a character, or "none".
    encoding
        The encoding of a CSV file, if not UTF-8: "latin-1", "cp1252", "utf-16", … What is no text in it is read as �.
    columns
        What is publicly known of columns, by name: a dict with some of `type` (as in `types`), `values` (those that it
        can have: a list, a dict of codes and labels, the path of a CSV file with the columns code and label, or
        "iso-countries", "months" or "weekdays"), `range` (the least and the largest plausible value), `label` and
        `unit` (for reports). Values become public keys, ranges the bounds within which limits are chosen.
    decimal, date_format
        How declared types are written in a CSV file: "," for numbers with a decimal comma, and where day, month and
        year stand, as in "%d.%m.%Y" for 31.12.2024.

    Examples
    --------
    >>> import pyarrow as pa
    >>> visits = pa.table({"patient": ["a", "a", "b"], "ward": ["x", "y", "x"]})
    >>> query = Dataset(visits, privacy_unit="patient").group_by("ward", max_rows=2).count()
    >>> query.plan(epsilon=1, delta=1e-6).threshold
    36
    """

    _called, _advice = "a data set", ASKING
    _for_users = "from_file where derive join group_by sql privacy_unit units ledger dataset close"

    @guided
    def __init__(
        self,
        source: Any,
        privacy_unit: str | Sequence[str],
        *,
        noun: str | Sequence[str] | None = None,
        units: int | None = None,
        ledger: Any = None,
        dataset: str | None = None,
        table: str | None = None,
        neighbours: Neighbours = "add_remove",
        engine: str | None = None,
        master: str | None = None,
        types: Mapping[str, str] | None = None,
        columns: Mapping[str, Mapping[str, Any]] | None = None,
        delimiter: str | None = None,
        quote: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        date_format: str | None = None,
    ) -> None:
        if (ledger is None) != (dataset is None):
            raise ValueError("ledger and dataset (the name of the data set there) must be given together")
        if ledger is not None and not isinstance(ledger, str | os.PathLike) and not hasattr(ledger, "reserve"):
            raise ArgumentTypeError(
                f"ledger must be a Ledger or its path, as in ledger='budget.db', got {ledger!r}", argument="ledger"
            )
        types = declared_types(columns, types) if columns else types
        options = Options(table, engine, master, types, delimiter, quote, encoding, decimal, date_format)
        super().__init__(source, privacy_unit, neighbours, options, noun)
        self.known = self.check_columns(columns or {})
        self.units = None if units is None else count("units", units)
        self._opened_ledger = _opened(ledger) if isinstance(ledger, str | os.PathLike) else None
        self.ledger, self.dataset = self._opened_ledger or ledger, dataset

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, rows: str | None = None) -> Self:
        """The data set that a data file describes (TOML, as `osgt start` writes it).

        The file says where the data are, whom they are about and what is publicly known of columns. Its budget is that
        of plans and releases for which none is given, and its texts stand in reports. `rows` is the table whose rows
        are asked about, where the file has several under `[tables.NAME]`.

        Examples
        --------
        >>> Dataset.from_file("no-such-file.toml")
        Traceback (most recent call last):
            ...
        FileNotFoundError: file: there is no file 'no-such-file.toml'; `osgt start` writes a data file
        """
        from osgt.query.file.reading import read_data_file  # noqa: PLC0415 - pydantic takes a while

        file = read_data_file(path)
        if rows is not None:
            file = file.model_copy(update={"data": file.data.model_copy(update={"rows": rows})})
        data = cls.of(file, file.data.ledger)
        data.budget, data.report_texts = file.budget.given(), file.report.texts()
        data.files = (*data.files, glob.escape(os.fspath(path)))
        return data

    @classmethod
    def of(cls, file: "DataFile", ledger: Any = None) -> Self:
        """The data set of a data file or query file, charged to a ledger if one is given."""
        apart = ("derive", "where", "ledger", "dataset", "rows")
        named = {name: value for name, value in file.data.given().items() if name not in apart}
        if ledger is not None:
            named |= {"ledger": ledger, "dataset": file.data.dataset}
        derived, columns = file.data.derive or {}, file.given().get("columns", {})
        stored = {name: column for name, column in columns.items() if name not in derived}
        data = (cls._joined_rows(file, named, stored) if file.tables else cls(**named, columns=stored)).derive(derived)
        data.known = {**data.known, **data.check_columns({name: columns[name] for name in columns if name in derived})}
        for condition in [file.data.where] if isinstance(file.data.where, str) else file.data.where or []:
            data = data.where(condition)
        return data

    @classmethod
    def _joined_rows(cls, file: "DataFile", named: Mapping[str, Any], columns: Mapping[str, Any]) -> Self:
        """The rows that a file with several tables asks about: joined, step by step, from those of the unit."""
        steps = steps_to(file)
        with closing(
            cls(**{key: value for key, value in named.items() if key not in ("ledger", "dataset", "types")})
        ) as first:
            names = columns_by_table(file, first, steps)
        data = cls(**named, columns={name: known for name, known in columns.items() if name in names[0]})
        for step, own in zip(steps, names[1:], strict=True):
            types = {name: columns[name]["type"] for name in own & columns.keys() if "type" in columns[name]}
            with step.named():
                data = data.join(**step.form, on=step.on, types={**(step.given.types or {}), **types} or None)
            new = {name: columns[name] for name in columns if name in own and name not in data.known}
            data.known = {**data.known, **data.check_columns(new)}
        data.called = file.data.rows
        return data

    def check_columns(self, columns: Mapping[str, Any]) -> dict[str, KnownColumn]:
        """Check what is said of columns."""
        known = {}
        for name, given in columns.items():
            known[name] = known_column(name, given, self.type_of("columns", name))
            if name in self.derived and given.get("type") is not None:
                raise ArgumentError(
                    f"columns: {name}: the type of a derived column follows from how it is computed; leave it out",
                    argument="columns",
                )
        lists = [glob.escape(column.file) for column in known.values() if column.file is not None]
        self.files = (*self.files, *lists)
        return known

    def close(self) -> None:
        """Close what this object has opened: the connection to files and database URLs, the ledger of a path."""
        super().close()
        if self._opened_ledger is not None:
            self._opened_ledger.close()

    def on(self, table: Table) -> Self:
        """Copy the data set onto another table with the stored columns, and derive columns anew. It has no ledger."""
        other = super().on(table)
        other.ledger, other.dataset = None, None
        return other

    def _advice_on(self, name: str) -> str | None:
        table = vars(self).get("table")
        if table is None or name not in table.columns:
            return None
        return f"write the name of a column in quotes, as in data.group_by({name!r})"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *method_names()})

    def __getitem__(self, name: object) -> Any:
        raise TypeError(
            "rows are private, and columns are not taken out: write their names in quotes, as in "
            'data.where("cost > 3").group_by("department").mean("cost")'
        )

    def __len__(self) -> NoReturn:
        raise TypeError("the number of rows is private: count them with noise, as in data.count().release(epsilon=1)")

    def __bool__(self) -> bool:
        return True

    @guided
    def group_by(
        self,
        *columns: str | Sequence[str],
        max_rows: int | None = None,
        max_groups: int | None = None,
        max_rows_per_group: int | None = None,
        max_length: int | None = None,
        public_keys: Any = None,
        totals: Any = None,
        per: Any = None,
        per_how_many: int | None = None,
    ) -> "Query":
        """Groups by the values of columns, one after the other or in a list; with none, all rows are one group.

        `data.count()`, `data.sum(…)` and so on are short for `data.group_by().count()`.

        Parameters
        ----------
        max_rows
            The most rows that one unit counts as: of one with more, each row counts less. Counts of rows, sums, means
            and so on need this limit or the two below.
        max_groups
            The most groups that one unit counts in. Counts of units take all public groups if it is not given; where
            groups are chosen by their size, they need it. With `max_rows_per_group`, it is for rows too.
        max_rows_per_group
            The most rows that one unit counts as in each of `max_groups` groups, in place of `max_rows`.
        max_length
            The most rows that one unit counts as if all are in one group, and √g times as many if they are spread
            evenly over g groups: for tables of many groups, with Gaussian noise (docs: dominance). In place of
            `max_rows`.
        public_keys
            Groups that are public: all of them are shown, and no others. A list (of tuples, with several columns), a
            dict with a list for each column (all combinations), a frame, or the path of a CSV or Parquet file. In place
            of a list: a range, a set (which is sorted), a NumPy array, a Series or an Index; of what is categorical in
            pandas, its categories; in a dict also a text with commas, `{"month": "1,2,3"}`, which is read in the type
            of the column. "all" for a column stands for all its public values, which `Dataset(columns=…)` or the way it
            is derived says (and in place of everything, if all columns have them). If not given, that is taken if all
            columns have public values; else, or with "none", only groups with enough units are shown, for a part of δ.
        totals
            Totals to publish as well: "rollup" (over the last key, the last two, …, all of them), "cube" (over every
            set of keys), or a list of levels, each the columns that remain, as in `[("region",), ()]`; a level may have
            a weight: `{"by": ["region"], "weight": 2}`. Numbers are those of the same rows and add up exactly. Totals
            that are public are given as a dict: `{(): 8_700_000}`, `{"canton": {"ZH": 1_550_000, …}}`, or for a level a
            frame or a file with its keys and a column of numbers. All numbers agree with them, at no budget. They are
            about the count; where there are several, say which: `{"by": "canton", "known": …, "column": "count"}`.
        per
            Public numbers to divide counts and sums by, such as populations: rates and their intervals stand in columns
            `…_rate`, at no budget. A dict from keys to numbers, a frame, or the path of a CSV or Parquet file with the
            keys and a column of numbers; without columns to group by, a number.
        per_how_many
            What rates are per, as 1_000; 100,000 if it is not given.
        """
        from osgt.api.query import Query  # noqa: PLC0415 - plans and releases take a while to load

        names = _names(columns)
        self._check_keys(names)
        limits = self._check_limits(
            names,
            {
                "max_rows": max_rows,
                "max_groups": max_groups,
                "max_rows_per_group": max_rows_per_group,
                "max_length": max_length,
            },
        )
        public = None
        if public_keys is None and names and self._public_groups(names) is not None:
            public_keys = "all"
        if isinstance(public_keys, str) and public_keys == "none":
            public_keys = None
        if public_keys is not None:
            if not names:
                raise ArgumentError(
                    "public_keys must be left out where there are no columns to group by", argument="public_keys"
                )
            public_keys = self._every(public_keys, names)
            public = public_table(public_keys, names, self.table.columns)
            check_among(public, {name: self.known_column(name).values for name in names})
        levels = () if totals is None else levels_of(totals, names, public, self.table.columns)
        divides = per is not None or per_how_many is not None
        rates = Rates.of(per, per_how_many, names, public, self.table.columns) if divides else None
        read = self._with_files([public_keys, per, *(() if totals is None else known_files(totals))])
        return Query(
            read, Groups(names, public, levels, self.unit.each_row, **limits, noun=self.unit.noun, rates=rates)
        )

    def _with_files(self, given: Sequence[Any]) -> Self:
        """Copy the data set, with the files among what is given as ones that are read."""
        files = [glob.escape(os.fspath(each)) for each in given if isinstance(each, str | os.PathLike)]
        read = copy(self)
        read.files = (*self.files, *files)
        return read if files else self

    def sql(
        self,
        text: str,
        *,
        bounds: Mapping[str, Sequence[float]] | None = None,
        max_rows: int | None = None,
        max_groups: int | None = None,
        max_rows_per_group: int | None = None,
        max_length: int | None = None,
        public_keys: Any = None,
    ) -> "Query":
        """The query that a SELECT with aggregates stands for, written in SQL of the engine. Nothing is read.

        `COUNT`, `SUM`, `AVG`, `VARIANCE`, `MEDIAN` and quantiles are answered, with `WHERE`, `GROUP BY`, `ROLLUP`,
        `CUBE` and `GROUPING SETS`; `AVG` of a condition is a share (docs: Ask in SQL). FROM names the file, the table
        or the data set in its ledger.

        Parameters
        ----------
        bounds
            The least and the largest value that counts, by column or by the name after AS. Quantiles need them; others
            are chosen privately if they are not given.
        max_rows, max_groups, max_rows_per_group, max_length, public_keys
            As for `group_by`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> visits = pa.table({"patient": ["a", "a", "b"], "ward": ["x", "y", "x"], "days": [3, 5, 2]})
        >>> data = Dataset(visits, privacy_unit="patient")
        >>> query = data.sql("SELECT ward, COUNT(*), AVG(days) AS stay FROM visits WHERE days < 90 GROUP BY ward")
        >>> [column.name for column in query.plan(epsilon=1, delta=1e-6).columns]
        ['count', 'stay']
        """
        asked = read_select(text, self, bounds or {})
        data = self.derive(asked.derive)
        data.known = {**self.known, **{name: self.known_column(column) for name, column in asked.renamed.items()}}
        query = (data if asked.where is None else data.where(asked.where)).group_by(
            asked.by,
            max_rows=max_rows,
            max_groups=max_groups,
            max_rows_per_group=max_rows_per_group,
            max_length=max_length,
            public_keys=public_keys,
            totals=asked.totals or None,
        )
        for aggregate in asked.aggregates:
            arguments = dict(aggregate)
            query = getattr(query, arguments.pop("kind"))(**arguments)
        return query

    @guided
    def describe(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        columns: Sequence[str] | None = None,
        max_rows: int | None = None,
        bins: int = DESCRIBED_BINS,
    ) -> "Description":
        """The number of values, of missing ones, and the quartiles of columns, on one page: private, for one budget.

        All of it is one release with one joint calibration. Every column has its values counted; columns of numbers
        have quartiles, for which their plausible range must be known. `result.release` is the release: it has the
        statement, and `write` publishes it.

        Parameters
        ----------
        epsilon, delta
            The budget in total; that of the data file, if it is not given.
        columns
            Some columns; all but those that name the unit, if they are not given.
        max_rows
            As for `group_by`; chosen privately if it is not given.
        bins
            The bins that quartiles are read from: more are finer, and take more time.
        """
        from osgt.api.post_processing import describe_columns  # noqa: PLC0415 - releases take a while to load

        query = self.group_by(max_rows=max_rows)
        for aggregate in self.description(columns, bins):
            arguments = dict(aggregate)
            query = getattr(query, arguments.pop("kind"))(**arguments)
        return describe_columns(query.release(epsilon, delta))

    def description(self, columns: Sequence[str] | None = None, bins: int = DESCRIBED_BINS) -> list[dict[str, Any]]:
        """List the aggregates of a description, in plain values as in a query file."""
        names = [name for name in self.table.columns if name not in self.unit.columns] if columns is None else columns
        if not names or isinstance(names, str):
            raise ArgumentError(f"columns must be a list of columns to describe, got {names!r}", argument="columns")
        types = {name: self.type_of("columns", name) for name in names}
        numbers = [name for name, dtype in types.items() if dtype.is_number]
        without = [name for name in numbers if self.known_column(name).range is None]
        if without:
            raise ArgumentError(
                f"columns: quartiles need the least and the largest plausible value, which "
                f"{names_in_words(without)} {'has' if len(without) == 1 else 'have'} not: write them as range, in "
                "Dataset(columns=…) or under [columns.NAME] of a data file; or name the columns to describe",
                argument="columns",
            )
        counts = [{"kind": "count_values", "column": name} for name in types]
        quartiles = [
            {"kind": "quantile", "column": name, "levels": [0.25, 0.5, 0.75], "bins": bins} for name in numbers
        ]
        return [{"kind": "count"}, *counts, *quartiles]

    def _check_keys(self, columns: tuple[str, ...]) -> None:
        """Raise unless columns can be grouped by."""
        for column in columns:
            self.engine.check_key_type("group_by", column, self.type_of("group_by", column))
        if self.unit.columns and set(self.unit.columns) <= set(columns):
            raise ArgumentError(
                f"group_by: {self.privacy_unit!r} is the privacy unit: a group would be one unit, which a release "
                "never shows",
                argument="group_by",
            )
        if len(set(columns)) < len(columns):
            raise ArgumentError(f"group_by: each column once, got {', '.join(columns)}", argument="group_by")

    def _check_limits(self, columns: tuple[str, ...], given: dict[str, int | None]) -> dict[str, Any]:
        """The limits of groups and of rows; None where one is not given."""
        for name, limit in given.items():
            if limit is None:
                continue
            if self.unit.each_row and limit != 1:
                raise ArgumentError(
                    f"{name} must be left out where every row is a unit: it is 1, got {limit!r}", argument=name
                )
            if not columns and name == "max_groups" and limit != 1:
                raise ArgumentError(
                    f"max_groups must be left out where there are no groups, got {limit!r}", argument=name
                )
            if count(name, limit) > LARGEST_LIMIT:
                raise ArgumentError(f"{name} must be at most {LARGEST_LIMIT:,}, got {limit:,}", argument=name)
        of_rows = [name for name, limit in given.items() if limit is not None and name != "max_groups"]
        if len(of_rows) > 1:
            raise ArgumentError(
                f"{of_rows[0]} and {of_rows[1]} both limit the rows of a unit: leave one of them out",
                argument=of_rows[1],
            )
        return self._complete_limits(columns, given, given[of_rows[0]] if of_rows else None)

    def _complete_limits(
        self, columns: tuple[str, ...], given: dict[str, int | None], max_rows: int | None
    ) -> dict[str, int | None]:
        """The limits with those that follow from others, which alone limit rows by `max_rows`."""
        if self.unit.each_row:
            return dict.fromkeys(given)
        if columns and given["max_rows_per_group"] is not None and given["max_groups"] is None:
            raise ArgumentError(
                "max_groups must be given with max_rows_per_group; or leave both out, or give max_rows",
                argument="max_groups",
            )
        if not columns:  # one group: rows in it are rows in all
            return {**dict.fromkeys(given), "max_rows": max_rows, "max_groups": 1}
        return given

    def _every(self, public_keys: Any, columns: tuple[str, ...]) -> Any:
        """Public keys with lists in place of texts: all public values of a column for "all", keys between commas."""
        if isinstance(public_keys, str) and public_keys == "all":
            public_keys = dict.fromkeys(columns, "all")
        if not isinstance(public_keys, Mapping):
            return public_keys
        types = self.table.columns
        return {
            name: self._listed_keys(name, keys, types[name]) if isinstance(keys, str) and name in types else keys
            for name, keys in public_keys.items()
        }

    def _listed_keys(self, name: str, keys: str, dtype: ColumnType) -> list[Any]:
        """The keys of a column that a text stands for."""
        if keys != "all":
            return read_keys(keys, name, dtype)
        every = self.known_column(name).values
        if every is None:
            raise ArgumentError(
                f'public_keys: "all" is for columns with public values: those that columns lists, or that cut, recode, '
                f"quarter, month or weekday derives; list the keys of {name!r}",
                argument="public_keys",
            )
        return list(every)

    def _public_groups(self, columns: tuple[str, ...]) -> int | None:
        """The number of groups with all public values; None if a column has none, or they are not listed."""
        values = [self.known_column(name).values for name in columns]
        groups = math.prod(len(own) for own in values if own is not None)
        if any(own is None for own in values):
            return None
        if groups > _MOST_GROUPS:
            raise ArgumentError(
                f"public_keys must be given: the public values of {names_in_words(columns)} make {groups:,} groups. "
                'List those that you want, or give "none" to show the groups that are large enough',
                argument="public_keys",
            )
        return groups

    def __repr__(self) -> str:
        return render.line(self)

    def __str__(self) -> str:
        """Where the data are, whom they are about, and the columns. No data."""
        return render.card(self).text()

    def _repr_html_(self) -> str:
        return render.card(self).html()


def _names(columns: Sequence[str | Sequence[str]]) -> tuple[str, ...]:
    """The columns, those in lists among them."""
    listed = ([each] if isinstance(each, str) or not isinstance(each, Sequence) else each for each in columns)
    return tuple(name for names in listed for name in names)


def _opened(location: str | os.PathLike[str]) -> Any:
    from osgt.ledger import Ledger  # noqa: PLC0415 - takes a while, and few data sets have one

    return Ledger(location)
