"""Query files: a whole release written down in TOML, so that it can be reviewed before and repeated after.

```toml
[data]
source = "flights.csv"
privacy_unit = "tailnum"
where = "origin = 'JFK' AND length <> 'far'"

[data.types]                # of a CSV file, whose columns are text otherwise
distance = "int64"

[data.derive]               # columns that are computed from each row
length = "cut(distance, 0, 'near', 1000, 'far', NULL)"

[groups]
by = ["dest", "month"]
max_groups = 8
max_rows_per_group = 3

[[aggregates]]
kind = "count"

[[aggregates]]
kind = "sum"
column = "distance"
bounds = [0, 5000]

[budget]
epsilon = 1
delta = 1e-8

[output]
out = "release.parquet"
report = "release.html"

[report]                    # what the page says beside the numbers
title = "Flights from New York"
publisher = "Office of Flights"

[report.labels]
dest = "Airport"

[report.units]
distance_sum = "miles"

[report.values.dest]
ATL = "Atlanta"
```

In place of [groups] and [[aggregates]] there may be several tables, which are released together:

```toml
[[table]]
name = "by_month"

[table.groups]
by = "month"
max_groups = 12
max_rows_per_group = 3

[[table.aggregates]]
kind = "count"
```
"""

import operator
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field, ValidationError, create_model

from osgt.noise.error import objective_of
from osgt.tables.about import ReportTexts
from osgt.tables.aggregates import AGGREGATES, Kind
from osgt.tables.aggregates.kinds import Arguments
from osgt.tables.dataset import Dataset
from osgt.tables.engines import engine_named
from osgt.tables.file_errors import in_words
from osgt.tables.file_types import FileTable, PlainNumber, Text, Texts, WholeNumber, Words, YesNo
from osgt.tables.groups import Neighbours
from osgt.tables.query import Query
from osgt.tables.types import UndeclaredTypeError

if TYPE_CHECKING:
    from osgt.tables.publication import Publication

_Made = TypeVar("_Made")

#: Keys of [data] that are no arguments of `Dataset`.
_APART = ("derive", "where", "ledger", "dataset")


class DataTable(FileTable):
    """Where the rows are, and whom they are about."""

    source: Text = Field(
        description="A Parquet, CSV or database file, a glob of files, the URL of a database, or a table of the engine."
    )
    privacy_unit: Texts = Field(
        description='The column that names who is protected, or a list of columns that do together; "row" where every '
        "row is a unit of its own."
    )
    table: Text | None = Field(default=None, description="The table of a database.")
    engine: Text | None = Field(
        default=None, description="What runs the query, if not the usual engine for such a source."
    )
    master: Text | None = Field(
        default=None, description='Where the engine runs, as "local[4]" or the URL of a cluster.'
    )
    types: Annotated[dict[str, str], Words("a table of columns and their types")] | None = Field(
        default=None,
        description="What columns of a CSV file hold: int64, float64, decimal(p, s), boolean, date, timestamp or "
        "string (all that are not declared).",
    )
    delimiter: Text | None = Field(default=None, description="What separates the fields of a CSV file, if not a comma.")
    neighbours: Neighbours | None = Field(
        default=None,
        description='What is compared: a table with one unit more or less ("add_remove", if nothing is said), or with '
        'one unit exchanged for another ("change_one").',
    )
    derive: Annotated[dict[str, str], Words("a table of names and expressions")] | None = Field(
        default=None,
        description="Columns that are computed from each row, by name: SQL, in which cut, recode, year, quarter, month "
        "and weekday mean the same on every engine.",
    )
    where: Texts | None = Field(
        default=None, description="Conditions in SQL, each on one row: only rows that meet all count."
    )
    ledger: Text | None = Field(default=None, description="The ledger to charge: a file or a database URL.")
    dataset: Text | None = Field(default=None, description="The name of the data set in the ledger.")


class GroupsTable(FileTable):
    """The groups that are published, and how much one unit may count for."""

    by: Texts | None = Field(default=None, description="The columns to group by; without any, all rows are one group.")
    max_groups: WholeNumber | None = Field(default=None, description="The most groups that one unit counts in.")
    max_rows_per_group: WholeNumber | None = Field(
        default=None,
        description="The most rows of one unit that count in a group. Queries that count units alone need none.",
    )
    public_keys: (
        Annotated[
            str | list[Any] | dict[str, str | list[Any]],
            Words("the path of a file, a list of keys, or a table with a list for each column"),
        ]
        | None
    ) = Field(
        default=None,
        description="The groups to show, whatever the data hold: a CSV or Parquet file, a list of keys, or a list for "
        'each column (all combinations); "all" for all labels of a derived column. If nothing is said, groups are '
        "shown that are large enough.",
    )
    totals: (
        Annotated[
            str | list[list[str] | str | dict[str, Any]],
            Words('"rollup", "cube", or a list of levels, each a list of columns or a table with by and weight'),
        ]
        | None
    ) = Field(
        default=None,
        description='Totals to publish as well: "rollup" (over the last key, the last two, …, all), "cube" (over every '
        'set of keys), or a list of levels, each the columns that remain: [["region"], []]. A level with a weight, for '
        'less noise there, is {by = ["region"], weight = 2}. If keys are not public: [[]], the total of all rows.',
    )


class BudgetTable(FileTable):
    """What the release may use of the privacy budget, in total."""

    epsilon: PlainNumber | None = Field(default=None, description="ε of the release, in total.")
    delta: PlainNumber | None = Field(default=None, description="δ of the release, in total.")


class OutputTable(FileTable):
    """What is written, and how it is shown."""

    out: Text | None = Field(
        default=None, description="The file for the table: .parquet, .csv (with its description beside it) or .xlsx."
    )
    report: Text | None = Field(default=None, description="The file for the page for people: .html.")
    confidence: PlainNumber = Field(
        default=0.95, description="How often a noise interval holds the value without noise."
    )
    objective: Text = Field(
        default="interval",
        description="What is made small: interval (the half-widths that are shown), variance, mean_abs, quantile:P (of "
        "the error) or max:N (the largest error of N).",
    )
    nonnegative: YesNo = Field(
        default=False,
        description="Show no negative counts: 0 in their place, which makes small groups too large on average; with "
        "totals, the other groups of the same total are lowered for it, so that totals stay.",
    )
    measure_left_out: YesNo = Field(
        default=True,
        description="Measure in the release what its bounds left out, and tell it, for 2 % of the variance.",
    )


_Names = Annotated[dict[str, str], Words("a table of names and texts")]
_Values = Annotated[dict[str, dict[str, str]], Words("a table for each key, of values and their labels")]


class ReportTable(FileTable):
    """What the page for people says beside the numbers."""

    title: Text | None = Field(default=None, description="The title; what is published by which keys, if left out.")
    subtitle: Text | None = Field(default=None, description="A line below the title.")
    publisher: Text | None = Field(default=None, description="Who publishes the table.")
    contact: Text | None = Field(
        default=None, description="Whom to ask; an address for mail or of a web page becomes a link."
    )
    period: Text | None = Field(default=None, description='The time that the data are about, as "2013".')
    source: Text | None = Field(default=None, description="Where the data come from, in words or as a web address.")
    licence: Text | None = Field(default=None, description="What may be done with the table.")
    labels: _Names | None = Field(
        default=None,
        description="What people call keys and columns of the release, by their names; the privacy unit too.",
    )
    units: _Names | None = Field(
        default=None, description='What keys and columns of the release are measured in, as "minutes".'
    )

    values: _Values | None = Field(
        default=None,
        description='What people call single values of a key, in a table for each key: `EWR = "Newark"` under '
        "`[report.values.origin]`. CSV and Parquet files keep the values themselves.",
    )

    def texts(self) -> ReportTexts:
        """The arguments of `Release.report`."""
        texts: ReportTexts = self.model_dump(exclude_unset=True)  # type: ignore[assignment]
        return texts


class OneOfSeveral(FileTable):
    """One of several tables that are released together, from one budget, with groups and aggregates of its own."""

    name: Text = Field(description="The name of the table, which becomes part of the names of files.")
    weight: PlainNumber = Field(
        default=1, description="A larger weight means less noise in this table, and more in the others."
    )
    where: Texts | None = Field(
        default=None, description="Conditions in SQL for this table, beside those of [data]: only rows that meet all."
    )
    groups: GroupsTable = Field(default=GroupsTable(), description="As [groups], under [table.groups].")
    aggregates: list[Arguments] = Field(default=[], description="As [[aggregates]], under [[table.aggregates]].")


class QueryFile(FileTable):
    """A release in TOML: the data, the groups, what is asked about them, the budget and the files to write."""

    data: DataTable
    groups: GroupsTable = GroupsTable()
    aggregates: list[Arguments] = Field(default=[], description="What is asked about each group; see the kinds below.")
    table: list[OneOfSeveral] = Field(default=[], description="Several tables in place of one.")
    budget: BudgetTable = BudgetTable()
    output: OutputTable = OutputTable()
    report: ReportTable = ReportTable()

    def asked(self, ledger: Any = None) -> "Query | Publication":
        """The query on its data, or all of them if there are several tables. Opens the source, but reads no rows."""
        return self._with_types(lambda: self._publication(ledger) if self.table else self._query(ledger))

    def query(self, ledger: Any = None) -> Query:
        """The query on its data. Opens the source, but reads no rows."""
        if self.table:
            raise ValueError("this is for one table: give a query file with [groups] and [[aggregates]], no [[table]]")
        return self._with_types(lambda: self._query(ledger))

    def plan_options(self) -> dict[str, Any]:
        """The arguments of `plan` and `release`, beside the budget."""
        output = self.output
        return {
            "confidence": output.confidence,
            "objective": objective_of(output.objective, "interval"),
            "measure_left_out": output.measure_left_out,
        }

    @staticmethod
    def _with_types(made: "Callable[[], _Made]") -> "_Made":
        try:
            return made()
        except UndeclaredTypeError as error:
            option = f"--type {error.column}:{error.example}"
            file = f'{error.column} = "{error.example}" in [data.types] of a query file'
            raise TypeError(error.message(f"{option}, or {file}")) from None

    def _dataset(self, ledger: Any) -> Dataset:
        data = {name: value for name, value in self.data.given().items() if name not in _APART}
        if ledger is not None:
            data |= {"ledger": ledger, "dataset": self.data.dataset}
        dataset = Dataset(data.pop("source"), data.pop("privacy_unit"), **data)
        return _filtered(dataset.derive(self.data.derive or {}), self.data.where)

    def _query(self, ledger: Any) -> Query:
        return _asked(self._dataset(ledger), self.groups, self.aggregates)

    def _publication(self, ledger: Any) -> "Publication":
        from osgt.tables.publication import Publication  # noqa: PLC0415 - few files have several tables

        if self.groups.given() or self.aggregates:
            raise ValueError(
                "groups and aggregates must be left out where there are several tables: each [[table]] has its own, "
                "under [table.groups] and [[table.aggregates]]"
            )
        names = [table.name for table in self.table]
        if len(set(names)) < len(names):
            raise ValueError(f"each [[table]] must have a name of its own, got {', '.join(names)}")
        dataset = self._dataset(ledger)
        queries = {}
        for table in self.table:
            with _named(table.name):
                queries[table.name] = _asked(_filtered(dataset, table.where), table.groups, table.aggregates)
        return Publication(queries).weighted({table.name: table.weight for table in self.table})

    def beside(self, folder: Path) -> "QueryFile":
        """The same with its relative paths taken from a folder."""
        data, output = self.data, self.output
        # A source may also be the name of a table that the engine knows.
        is_path = data.engine is None or engine_named(data.engine).is_path(data.source)
        return self.model_copy(
            update={
                "data": _beside(folder, data, ("source", "ledger") if is_path else ("ledger",)),
                "groups": _beside(folder, self.groups, ("public_keys",)),
                "table": [
                    table.model_copy(update={"groups": _beside(folder, table.groups, ("public_keys",))})
                    for table in self.table
                ],
                "output": _beside(folder, output, ("out", "report")),
            }
        )


def query_file_model() -> type[QueryFile]:
    """The model of a query file with all aggregates that there are."""
    return _model(tuple(AGGREGATES.values()))


@cache
def _model(kinds: tuple[Kind, ...]) -> type[QueryFile]:
    each: Any = Annotated[reduce(operator.or_, (kind.arguments for kind in kinds)), Field(discriminator="kind")]

    def with_kinds(model: type[FileTable], **more: Any) -> Any:
        described = model.model_fields["aggregates"].description
        aggregates: Any = (list[each], Field(default=[], description=described))
        return create_model(model.__name__, __base__=model, __doc__=model.__doc__, aggregates=aggregates, **more)

    several = QueryFile.model_fields["table"].description
    tables: Any = (list[with_kinds(OneOfSeveral)], Field(default=[], description=several))  # type: ignore[misc]
    made: type[QueryFile] = with_kinds(QueryFile, table=tables)
    return made


def query_file_of(plain: Mapping[str, Any]) -> QueryFile:
    """The query file that plain values describe, or a ValueError that names each key that is wrong."""
    model = query_file_model()
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        raise ValueError(in_words(error, model, plain)) from None


def read_query_file(path: str | Path) -> QueryFile:
    """The query file at a path. Relative paths in it are relative to its folder."""
    path = Path(path)
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FileNotFoundError(f"query: there is no file {str(path)!r}") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"query: {str(path)!r} is a folder; give the name of a file") from None
    except UnicodeDecodeError:
        raise ValueError(f"query: {str(path)!r} is not TOML: it is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        # The parser names a table by a tuple of Python.
        words = re.sub(r"\('([^)]*)',?\)", lambda names: "[" + names[1].replace("', '", ".") + "]", str(error))
        raise ValueError(f"query: {str(path)!r} is not TOML: {words}") from None
    except RecursionError:
        raise ValueError(f"query: {str(path)!r} has lists or tables too deep inside each other") from None
    try:
        return query_file_of(plain).beside(path.parent)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _beside(folder: Path, part: FileTable, names: tuple[str, ...]) -> FileTable:
    """The part with its paths taken from a folder; URLs and other values stay."""
    paths = {}
    for name in names:
        value = getattr(part, name)
        if isinstance(value, str) and "://" not in value and (name, value) != ("public_keys", "all"):
            paths[name] = os.path.normpath(folder / value)
    return part.model_copy(update=paths)


def _filtered(dataset: Dataset, conditions: str | list[str] | None) -> Dataset:
    for condition in _listed(conditions):
        dataset = dataset.where(condition)
    return dataset


def _asked(dataset: Dataset, groups: GroupsTable, aggregates: list[Arguments]) -> Query:
    """The query for groups and aggregates of a file."""
    given = groups.given()
    given.pop("by", None)
    query = dataset.group_by(*_listed(groups.by), **given)
    for aggregate in aggregates:
        arguments = aggregate.given()
        query = AGGREGATES[arguments.pop("kind")].method(query, **arguments)
    return query


@contextmanager
def _named(table: str) -> Iterator[None]:
    """Say in which table something is wrong."""
    try:
        yield
    except UndeclaredTypeError:
        raise
    except (ValueError, TypeError) as error:
        raise type(error)(f"table {table!r}: {error}") from None


def _listed(texts: str | list[str] | None) -> list[str]:
    return [texts] if isinstance(texts, str) else texts or []
