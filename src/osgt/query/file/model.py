"""Query files: a whole release written down in TOML, so that it can be reviewed before and repeated after.

```toml
[data]
source = "flights.csv"
privacy_unit = "tailnum"
units = 4000                # about how many there are
where = "origin = 'JFK' AND length <> 'far'"

[data.types]                # of a CSV file, whose columns are text otherwise
distance = "int64"

[data.derive]               # columns that are computed from each row
length = "cut(distance, 0, 'near', 1000, 'far', NULL)"

[groups]
by = ["dest", "month"]
max_rows = 24               # chosen privately if left out, as is max_total below

[[aggregates]]
kind = "count"

[[aggregates]]
kind = "sum"
column = "distance"
max_total = 50000

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
max_rows = 24

[[table.aggregates]]
kind = "count"
```
"""

import operator
import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, create_model

from osgt.data.engines import engine_named
from osgt.data.unit import Neighbours
from osgt.noise.error import objective_of
from osgt.query.about import ReportTexts
from osgt.query.aggregates import AGGREGATES, Kind
from osgt.query.aggregates.kinds import Arguments
from osgt.query.file.errors import in_words
from osgt.query.file.types import FileTable, Panel, PlainNumber, Text, Texts, WholeNumber, Words, YesNo
from osgt.support.errors import ArgumentError, about


class DataTable(FileTable):
    """Where the rows are, and whom they are about."""

    panel: ClassVar[str] = "Data"

    source: Text = Field(
        description="A Parquet, CSV or database file, a glob of files, the URL of a database, or a table of the engine."
    )
    privacy_unit: Texts = Field(
        description="The column that names the person (or other unit) to protect.\n"
        'A list of columns that do together, or "row" where every row is a unit of its own.'
    )
    units: WholeNumber | None = Field(
        default=None,
        description="About how many of them there are, if that is public: it says how much of ε the private choice of "
        "limits takes. Counted with noise first, for a part of ε, if limits are to be chosen and this is left out.",
    )
    table: Text | None = Field(default=None, description="The table of a database.")
    engine: Text | None = Field(
        default=None, description="The engine that runs the query, if not the usual one for such a source."
    )
    master: Text | None = Field(
        default=None, description="Where the engine runs: local[4], for example, or the URL of a cluster."
    )
    types: Annotated[dict[str, str], Words("a table of columns and their types")] | None = Field(
        default=None,
        description="The types of columns of a CSV file: int64, float64, decimal(p, s), boolean, date, timestamp or "
        "string (all that are not declared).",
    )
    delimiter: Text | None = Field(
        default=None, description="The separator of the fields of a CSV file, if it is not a comma."
    )
    quote: Text | None = Field(
        default=None,
        description="The quote around fields of a CSV file with delimiters or line ends in them, if it is not a double "
        'quote; "none" if there is none, as in .tsv files if nothing is said.',
    )
    encoding: Text | None = Field(
        default=None, description="The encoding of a CSV file, if it is not UTF-8, as latin-1, cp1252 or utf-16."
    )
    decimal: Text | None = Field(
        default=None, description="The decimal sign in the numbers of a CSV file, if it is not a point: a comma."
    )
    date_format: Text | None = Field(
        default=None,
        description="How dates are written in a CSV file, if not as 2024-12-31: %d.%m.%Y for 31.12.2024.",
    )
    neighbours: Neighbours | None = Field(
        default=None,
        description="What is compared: a table with one unit more or less (add_remove, if nothing is said), or with "
        "one unit exchanged for another (change_one).",
    )
    derive: Annotated[dict[str, str], Words("a table of names and expressions")] | None = Field(
        default=None,
        description="New columns that are computed from each row in SQL, in which cut, recode, year, quarter, month "
        "and weekday mean the same on every engine.",
    )
    where: Texts | None = Field(
        default=None, description="Conditions in SQL, each on one row: only rows that meet all count."
    )
    ledger: Annotated[Text | None, Panel("Budget")] = Field(
        default=None, description="The ledger to charge: a file or a database URL."
    )
    dataset: Annotated[Text | None, Panel("Budget")] = Field(
        default=None, description="The name of the data set in the ledger."
    )


class GroupsTable(FileTable):
    """The groups that are published, and how much one unit may count for."""

    panel: ClassVar[str] = "Groups and limits"

    by: Texts | None = Field(default=None, description="The columns to group by; without any, all rows are one group.")
    max_rows: WholeNumber | None = Field(
        default=None,
        description="The most rows that one unit counts as, in all groups together: of one with more, each row counts "
        "less. Chosen privately if left out and needed.",
    )
    max_groups: WholeNumber | None = Field(
        default=None,
        description="The most groups in which one unit is counted. Counts of units take all public groups if left out, "
        "and need it where groups are chosen by their size.",
    )
    max_rows_per_group: WholeNumber | None = Field(
        default=None,
        description="In place of max_rows: the most rows that one unit counts as in each of max_groups groups.",
    )
    max_length: WholeNumber | None = Field(
        default=None,
        description="In place of max_rows, for tables of many groups: the most rows that one unit counts as if all are "
        "in one group, and √g times as many if they are spread evenly over g groups.",
    )
    public_keys: (
        Annotated[
            str | list[Any] | dict[str, str | list[Any]],
            Words("the path of a file, a list of keys, or a table with a list for each column"),
        ]
        | None
    ) = Field(
        default=None,
        description='The groups to publish, whatever the data hold: a CSV or Parquet file that lists them, or "all" '
        "for all labels of a derived column. If nothing is said, groups are published that are large enough.\n"
        "Also a list of keys, or a list for each column (all combinations).",
    )
    totals: (
        Annotated[
            str | list[list[str] | str | dict[str, Any]],
            Words('"rollup", "cube", or a list of levels, each a list of columns or a table with by and weight'),
        ]
        | None
    ) = Field(
        default=None,
        description="Totals to publish as well: rollup (over the last key, the last two, …, all), cube (over every set "
        "of keys), or levels, each the columns that remain.\n"
        'Levels are lists: [["region"], []]. One with a weight, for less noise there, is {by = ["region"], weight = '
        "2}. If keys are not public: [[]], the total of all rows.",
    )


class BudgetTable(FileTable):
    """What the release may use of the privacy budget, in total."""

    panel: ClassVar[str] = "Budget"

    epsilon: PlainNumber | None = Field(default=None, description="ε of the release, in total.")
    delta: PlainNumber | None = Field(
        default=None,
        description="δ of the release, in total: far below 1 divided by the number of people, as in 1e-8.",
    )


class OutputTable(FileTable):
    """What is written, and how it is shown."""

    panel: ClassVar[str] = "Output"

    out: Text | None = Field(
        default=None, description="The file for the table: .parquet, .csv (with its description beside it) or .xlsx."
    )
    report: Text | None = Field(default=None, description="The file for the report, a page for people: .html.")
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
        description="Publish 0 instead of negative counts, and lower the others alike, so that sums and totals stay.",
    )
    intervals: Literal["truth", "noise"] = Field(
        default="truth",
        description="What intervals allow for: noise and what the limits cut off (truth), or the noise alone (noise).",
    )
    measure_left_out: YesNo = Field(
        default=True,
        description="Measure in the release how much its limits left out, and say so, for a small part of ε.",
    )


_Names = Annotated[dict[str, str], Words("a table of names and texts")]
_Values = Annotated[dict[str, dict[str, str]], Words("a table for each key, of values and their labels")]


class ReportTable(FileTable):
    """What the page for people says beside the numbers."""

    title: Annotated[Text | None, Panel("Output")] = Field(
        default=None, description="The title of the report; what is published by which keys, if left out."
    )
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

    def plan_options(self) -> dict[str, Any]:
        """The arguments of `plan` and `release`, beside the budget."""
        output = self.output
        return {
            "confidence": output.confidence,
            "objective": objective_of(output.objective, "interval"),
            "measure_left_out": output.measure_left_out,
        }

    def with_parts(self, parts: Mapping[str, Mapping[str, Any]], aggregates: list[dict[str, Any]]) -> "QueryFile":
        """Make a copy with other values of some keys, by part, and with other aggregates if there are any."""
        values: dict[str, Any] = {part: getattr(self, part) for part in self.model_fields_set}
        values |= {part: getattr(self, part).model_copy(update=keys) for part, keys in parts.items()}
        return query_file_of(values | ({"aggregates": aggregates} if aggregates else {}))

    def beside(self, folder: Path) -> "QueryFile":
        """Make a copy whose relative paths are taken from a folder."""
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
        raise about("query", FileNotFoundError(f"query: there is no file {str(path)!r}")) from None
    except IsADirectoryError:
        words = f"query: {str(path)!r} is a folder; give the name of a file"
        raise about("query", IsADirectoryError(words)) from None
    except UnicodeDecodeError:
        raise ArgumentError(f"query: {str(path)!r} is not TOML: it is not text in UTF-8", argument="query") from None
    except tomllib.TOMLDecodeError as error:
        # The parser names a table by a tuple of Python.
        words = re.sub(r"\('([^)]*)',?\)", lambda names: "[" + names[1].replace("', '", ".") + "]", str(error))
        raise ArgumentError(f"query: {str(path)!r} is not TOML: {words}", argument="query") from None
    except RecursionError:
        raise ArgumentError(
            f"query: {str(path)!r} has lists or tables too deep inside each other", argument="query"
        ) from None
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
