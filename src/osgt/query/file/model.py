"""Query files: a whole release written down in TOML, so that it can be reviewed before and repeated after.

```toml
[data]
source = "flights.csv"
privacy_unit = "tailnum"
noun = ["aircraft", "aircraft"]
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

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, create_model

from osgt.data import CODE_LISTS
from osgt.data.engines import engine_named
from osgt.data.unit import Neighbours
from osgt.query.file import FileTable, Panel, PlainNumber, Text, Texts, WholeNumber, Words, YesNo
from osgt.query.file.aggregates import Arguments

if TYPE_CHECKING:
    from osgt.query.about import ReportTexts


class DataTable(FileTable):
    """Where the rows are, and whom they are about."""

    panel: ClassVar[str] = "Data"

    #: Either a data file, or source and unit.
    model_config = ConfigDict(
        json_schema_extra=lambda schema: schema.update(
            oneOf=[{"required": ["file"]}, {"required": schema.pop("required")}]
        )
    )

    file: Text | None = Field(
        default=None,
        exclude=True,  # a file that is written out says everything itself
        description="A data file (TOML) that says everything about the data, in place of source and privacy_unit.\n"
        "Other keys take the place of what it says there; conditions in where are added to its own.",
    )
    source: Text = Field(
        description="A Parquet, CSV, Excel, SPSS, Stata, SAS or database file, a glob of files, the URL of a database, "
        "or a table of the engine."
    )
    privacy_unit: Texts = Field(
        description="The column that names the person (or other unit) to protect.\n"
        'A list of columns that do together, or "row" where every row is a unit of its own.'
    )
    noun: Texts | None = Field(
        default=None,
        description='What one of them is called, as in "patient"; without it, the name of the column without "_id" and '
        'the like.\nA list of the singular and the plural where the plural is irregular: `["aircraft", "aircraft"]`.',
    )
    units: WholeNumber | None = Field(
        default=None,
        description="About how many of them there are, if that is public: it says how much of ε the private choice of "
        "limits takes. Counted with noise first, for a part of ε, if limits are to be chosen and this is left out.",
    )
    table: Text | None = Field(default=None, description="The table of a database, or the sheet of a spreadsheet.")
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
    rows: Text | None = Field(
        default=None,
        description="The table whose rows count, among `tables`: it is joined to the one with the privacy unit, whose "
        "own rows count if nothing is said.",
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


class JoinedTable(
    create_model(  # type: ignore[misc]
        "_Form",
        __base__=FileTable,
        **{
            name: (DataTable.model_fields[name].annotation, DataTable.model_fields[name])
            for name in ("table", "types", "delimiter", "quote", "encoding", "decimal", "date_format")
        },
    )
):
    """A table without the privacy unit: each of its rows belongs to one row of another table."""

    joins: Text = Field(
        description='The table that its rows belong to, and the columns that both have: `"patients on patient_id"`.\n'
        "That of [data] by the name of its file or table, or another one of [tables]; several columns between commas."
    )
    source: Text | None = Field(
        default=None, description="A file, if that of [data] is one; otherwise table is one of the same database."
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
        "for all public values of the columns, which is usual where these are known. If they are not, or with "
        '"none", groups are published that are large enough.\n'
        "Also a list of keys, or for each column a list or a text with commas (all combinations).",
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
        "2}. If keys are not public: [[]], the total of all rows.\n"
        'Public totals, with which all numbers agree at no budget: `{by = ["region"], known = "regions.csv"}`, '
        "a CSV or Parquet file with the keys and a column of numbers; known may also be a table with a number for each "
        'key, or a number for {by = []}. They are of the count; where there are several, column = "count" says which.',
    )

    per: (
        Annotated[
            str | int | float | dict[str, Any],
            Words("the path of a file, a table with a number for each key, or a number"),
        ]
        | None
    ) = Field(
        default=None,
        description="Public numbers to divide counts and sums by, such as populations: rates are further columns.\n"
        "A CSV or Parquet file with the keys and a column of numbers, or a table with a number for each key.",
    )
    per_how_many: WholeNumber | None = Field(
        default=None, description="What rates are per, as 1000; 100000 if it is left out."
    )

    def beside(self, folder: Path) -> Self:
        """Make a copy whose relative paths are taken from a folder."""
        groups = _beside(folder, self, ("public_keys", "per"))
        if not isinstance(self.totals, list):
            return groups
        return groups.model_copy(update={"totals": [_level_beside(folder, level) for level in self.totals]})


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
        default=None,
        description="The file for the table: .parquet, .csv (with its description beside it) or .xlsx, which holds "
        "several tables too.",
    )
    report: Text | None = Field(default=None, description="The file for the report, a page for people: .html.")
    confidence: PlainNumber = Field(
        default=0.95, description="How often a noise interval holds the value without noise."
    )
    objective: Text = Field(
        default="interval",
        description="Optimise for: interval (the half-widths that are shown), variance, mean_abs, quantile:P (of "
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
    marks: Annotated[bool | list[PlainNumber], Words("true or false, or two numbers, as in [0.166, 0.333]")] = Field(
        default=False,
        description="Put a quality mark beside each number, by the standard deviation of its noise over the number: "
        "good up to 16.6 %, use with caution up to 33.3 %, too uncertain above.\n"
        "Two ascending shares are other thresholds: `[0.1, 0.25]`.",
    )
    corrects: Annotated[WholeNumber | None, Panel("Budget")] = Field(
        default=None,
        description="The entry in the ledger of the release that this one corrects. It stays charged: statement and "
        "ledger name both.",
    )
    measure_left_out: YesNo = Field(
        default=True,
        description="Measure in the release how much its limits left out, and say so, for a small part of ε.",
    )


_Names = Annotated[dict[str, str], Words("a table of names and texts")]
_Values = Annotated[dict[str, dict[str, str]], Words("a table for each key, of values and their labels")]


class TextsTable(FileTable):
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

    def texts(self) -> "ReportTexts":
        """The arguments of `Release.report`."""
        texts: ReportTexts = self.model_dump(exclude_unset=True)  # type: ignore[assignment]
        return texts


class ReportTable(TextsTable):
    """What the page for people says beside the numbers."""

    labels: _Names | None = Field(
        default=None, description="What people call keys and columns of the release, by their names."
    )
    units: _Names | None = Field(
        default=None, description='What keys and columns of the release are measured in, as "minutes".'
    )

    values: _Values | None = Field(
        default=None,
        description='What people call single values of a key, in a table for each key: `EWR = "Newark"` under '
        "`[report.values.origin]`. CSV and Parquet files keep the values themselves.",
    )


class OneOfSeveral(FileTable):
    """One of several tables that are released together, from one budget, with groups and aggregates of its own."""

    name: Text = Field(description="The name of the table, which becomes part of the names of files.")
    weight: PlainNumber = Field(
        default=1, description="A larger weight means less noise in this table, and more in the others."
    )
    where: Texts | None = Field(
        default=None, description="Conditions in SQL for this table, beside those of [data]: only rows that meet all."
    )
    groups: GroupsTable = Field(default_factory=GroupsTable, description="As [groups], under [table.groups].")
    aggregates: list[Arguments] = Field(default=[], description="As [[aggregates]], under [[table.aggregates]].")


class ColumnTable(FileTable):
    """What is publicly known of a column. Nothing of it is ever taken from the data."""

    type: Text | None = Field(
        default=None,
        description="The type of a column of text, as in [data.types]: int64, float64, decimal(p, s), boolean, date, "
        "timestamp or string.",
    )
    values: (
        Annotated[
            str | list[Any] | dict[str, str],
            Words("a list, a table of codes and labels, the path of a CSV file or the name of a list"),
        ]
        | None
    ) = Field(
        default=None,
        description="The values that it can have: the public keys of tables by this column. A CSV file has a first "
        f"line `code` or `code,label`. Lists with a name are {', '.join(CODE_LISTS)}.",
    )
    range: Annotated[list[PlainNumber], Words("two numbers, as in [0, 100]")] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="The least and the largest plausible value: bounds of means and variances are chosen within it, "
        "and quantiles and histograms reach from one to the other.",
    )
    label: Text | None = Field(default=None, description="What people call the column.")
    unit: Text | None = Field(default=None, description='What it is measured in, as "CHF".')


class DataFile(FileTable):
    """What is known about the data, in TOML: where they are and whom they are about, columns, budget, publisher."""

    #: What messages call it.
    named: ClassVar[str] = "the data file"

    data: DataTable
    tables: dict[str, JoinedTable] = Field(
        default={}, description="Tables whose rows belong to those of [data], under [tables.NAME]."
    )
    columns: dict[str, ColumnTable] = Field(
        default={}, description="What is publicly known of columns, under [columns.NAME]."
    )
    budget: BudgetTable = Field(default_factory=BudgetTable)
    report: TextsTable = Field(default_factory=TextsTable)

    def beside(self, folder: Path) -> Self:
        """Make a copy whose relative paths are taken from a folder."""
        data = self.data
        # A source may also be the name of a table that the engine knows.
        is_path = data.engine is None or engine_named(data.engine).is_path(data.source)
        return self.model_copy(
            update={
                "data": _beside(folder, data, ("file", "source", "ledger") if is_path else ("file", "ledger")),
                "tables": {name: _beside(folder, table, ("source",)) for name, table in self.tables.items()},
                "columns": {name: _beside(folder, column, ("values",)) for name, column in self.columns.items()},
            }
        )


#: `from` is a word of Python, and so no name in a class.
_FROM: dict[str, Any] = {
    "from": (Text | None, Field(default=None, description='The first period: "2027-01", "2027-Q1" or "2027".'))
}
_From = create_model("_From", __base__=FileTable, **_FROM)


class SeriesTable(_From):  # type: ignore[misc, valid-type]
    """A table that is published again for each period, by `osgt publish`: one plan, one charge."""

    until: Text | None = Field(default=None, description="The last period, written like the first.")
    period: Literal["day", "week", "month", "quarter", "year"] = Field(
        default="month", description="How long a period is."
    )
    column: Text | None = Field(
        default=None, description="The column with the date or time that puts a row in a period."
    )
    max_periods: WholeNumber = Field(
        default=1,
        description="The most periods in which one unit counts, the first ones in which it has rows; so many "
        "instalments are charged.",
    )
    remember: YesNo = Field(
        default=True,
        description="Remember by salted hashes who was counted, so that rows that come late or change let nobody in "
        "again.",
    )
    totals: Annotated[
        list[Literal["week", "month", "quarter", "year"]], Words('a list of lengths, as in ["quarter", "year"]')
    ] = Field(
        default=[],
        description="Longer periods to publish as well, once all their instalments are out: the sums of what was "
        "published. They cost no budget, and may be asked for later.",
    )
    store: Text | None = Field(
        default=None,
        description="The private folder for what is remembered and for instalments that are being made; beside the "
        "ledger if it is a file and nothing is said.",
    )


class QueryFile(DataFile):
    """A release in TOML: the data, the groups, what is asked about them, the budget and the files to write."""

    named: ClassVar[str] = "the query file"

    groups: GroupsTable = Field(default_factory=GroupsTable)
    aggregates: list[Arguments] = Field(default=[], description="What is asked about each group; see the kinds below.")
    table: list[OneOfSeveral] = Field(default=[], description="Several tables in place of one.")
    output: OutputTable = Field(default_factory=OutputTable)
    series: SeriesTable = Field(default_factory=SeriesTable)
    report: ReportTable = Field(default_factory=ReportTable)

    def plan_options(self) -> dict[str, Any]:
        """The arguments of `plan` and `release`, beside the budget."""
        from osgt.noise.error import objective_of  # noqa: PLC0415 - numpy takes a while

        output = self.output
        return {
            "confidence": output.confidence,
            "objective": objective_of(output.objective, "interval"),
            "measure_left_out": output.measure_left_out,
        }

    def beside(self, folder: Path) -> Self:
        """Make a copy whose relative paths are taken from a folder."""
        return (
            super()
            .beside(folder)
            .model_copy(
                update={
                    "groups": self.groups.beside(folder),
                    "table": [table.model_copy(update={"groups": table.groups.beside(folder)}) for table in self.table],
                    "output": _beside(folder, self.output, ("out", "report")),
                    "series": _beside(folder, self.series, ("store",)),
                }
            )
        )


#: Words that are no paths, by key.
_WORDS = {"public_keys": ("all", "none"), "values": CODE_LISTS}


T = TypeVar("T", bound=FileTable)


def _level_beside(folder: Path, level: Any) -> Any:
    """A level of totals; the path of a file that has public ones is taken from a folder."""
    if not isinstance(level, dict) or not isinstance(level.get("known"), str):
        return level
    return {**level, "known": os.path.normpath(folder / level["known"])}


def _beside(folder: Path, part: T, names: tuple[str, ...]) -> T:
    """The part with its paths taken from a folder; URLs and other values stay."""
    paths = {}
    for name in names:
        value = getattr(part, name)
        if isinstance(value, str) and "://" not in value and value not in _WORDS.get(name, ()):
            paths[name] = os.path.normpath(folder / value)
    return part.model_copy(update=paths)
