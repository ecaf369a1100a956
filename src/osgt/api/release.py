"""Release: noisy tables, what they promise, and the files that they are written to."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from osgt.api.charge import SharedReservation, settle
from osgt.api.post_processing import PostProcessing
from osgt.data.rows import PrivateRows
from osgt.facts.statement import Released, Statement
from osgt.limits.left_out import LeftOut
from osgt.plan.publication import PublicationPlan
from osgt.query.about import About, ReportTexts
from osgt.query.aggregates.base import QuerySpec
from osgt.render.cross import pivoted
from osgt.render.pictures import plot_release
from osgt.render.published import (
    SUFFIXES,
    Interchange,
    Published,
    check_sheet,
    check_writable,
    out_key,
    used_files,
    with_descriptions,
    write_workbook,
)
from osgt.render.report import page
from osgt.render.table_cards import release_card, release_line
from osgt.support.errors import RELEASED, SEVERAL, ArgumentError, Familiar, guided
from osgt.support.files import Target, written_together
from osgt.support.text import unknown

#: The mark that stands for the name of a table in the name of a file.
TABLE = "{table}"

#: Names of tables are part of the names of files.
_NAME = re.compile(r"\w[\w-]{0,99}")


class Releasable(Familiar):
    """The views of a release of one table or of several, and the end of its reservation."""

    reservation: SharedReservation | None

    def __repr__(self: "AnyRelease") -> str:
        return release_line(self)

    def __str__(self: "AnyRelease") -> str:
        """The tables with their intervals, as wide as the terminal, and the promise."""
        return release_card(self, shutil.get_terminal_size().columns).text()

    def _repr_html_(self: "AnyRelease") -> str:
        return release_card(self).html()

    def settle(self: "AnyRelease", *files: str | Path, place: str | None = None) -> None:
        """Tell the ledger that the release is out, and where: files, or a place in words.

        Called by everything that writes a file. A release that is published in another way, or whose ledger was away,
        stays reserved in the ledger until this is called. Raises NotSettledError if the ledger cannot be told.
        """
        settle(self, files, place)


@dataclass(eq=False, repr=False)
class Release(Releasable, PostProcessing, Interchange):
    """A table that can be published: for each group the noisy values and their noise intervals.

    Writing it to a file settles the reservation in the ledger, if there is one. A release that is never written, or
    whose process ends before, stays reserved there: nobody can know whether it was seen.
    """

    _called, _advice = "a release", RELEASED
    _for_users = (
        "to_pandas to_arrow to_polars to_csv to_excel to_parquet report write plot estimates difference ratio plan "
        "query statement left_out warnings without_totals sql settle"
    )

    reservation: SharedReservation | None = None

    def _advice_on(self, name: str) -> str | None:
        table = vars(self).get("table")
        return f"it is a column: release[{name!r}]" if table is not None and name in table.column_names else None

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column of the table as a NumPy array, in the order of the rows: release["count"]."""
        if name not in self.table.column_names:
            raise KeyError(unknown("column", str(name), self.table.column_names))
        return np.asarray(self.table[name].to_numpy(zero_copy_only=False))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, each as a dict."""
        return iter(self.rows(len(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.table.column_names

    @guided
    def to_pandas(self, *, wide: str | None = None) -> Any:
        """The table as a pandas frame.

        Parameters
        ----------
        wide
            A key whose values become columns, for each number: `release.to_pandas(wide="month")["count"]` has a column
            for each month, and a row for each value of the other key. Totals are called "Total".
        """
        return self.table.to_pandas() if wide is None else pivoted(self.table, self.query.groups.by, wide)

    @guided
    def to_csv(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write the table as CSV for spreadsheets, and its description beside it, all of it or nothing.

        The description (`PATH-metadata.json`, CSV on the Web) has the columns, their types, labels and units, and the
        statement; `texts` are those of `report`. Text that a spreadsheet could take for a formula gets an apostrophe
        before it: see `osgt.render.csvw`.
        """
        self._write({"out": Target(path, (".csv",), overwrite, used_files(self.query))}, texts)

    @guided
    def to_excel(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write the table as an Excel file, with the statement and the columns explained on a sheet of notes.

        All of it or nothing; text stays text whatever it begins with. `texts` are those of `report`.
        """
        self._write({"out": Target(path, (".xlsx",), overwrite, used_files(self.query))}, texts)

    @guided
    def to_parquet(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write the table as Parquet, with the statement in its metadata, all of it or nothing.

        `texts` are those of `report`, and are kept there too.
        """
        self._write({"out": Target(path, (".parquet",), overwrite, used_files(self.query))}, texts)

    @guided
    def report(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write one page of HTML for people: in short what it says, pictures, the table, and all the rest in folds.

        Parameters
        ----------
        title, subtitle, publisher, contact, period, source, licence
            What stands above; an address of a web page or for mail becomes a link.
        labels, units
            What people call keys and columns, and what they are measured in, by their names in the table:
            `labels={"dest": "Airport", "count": "Flights"}, units={"delay_mean": "minutes"}`.
        values
            What people call single values of a key: `values={"origin": {"EWR": "Newark", "LGA": "La Guardia"}}`.
            Shown wherever people read; CSV and Parquet files keep the values themselves.
        """
        self._write({"report": Target(path, SUFFIXES["report"], overwrite, used_files(self.query))}, texts)

    @guided
    def write(
        self,
        *,
        out: str | Path | None = None,
        report: str | Path | None = None,
        overwrite: bool = False,
        **texts: Unpack[ReportTexts],
    ) -> None:
        """Write the table (.parquet, .csv or .xlsx) and the report; neither takes its place before both are complete.

        Title, labels and so on are those of `report`.
        """
        paths = {name: path for name, path in (("out", out), ("report", report)) if path is not None}
        used = used_files(self.query)
        self._write({name: Target(path, SUFFIXES[name], overwrite, used, name) for name, path in paths.items()}, texts)

    def _write(self, targets: Mapping[str, Target], texts: ReportTexts) -> None:
        write(self, with_descriptions(targets), texts)

    @guided
    def plot(self, column: str | None = None, axes: Any = None, **texts: Unpack[ReportTexts]) -> Any:
        """Draw a column (the first, if none is named) with its noise intervals. Returns the axes of Matplotlib.

        `texts` are those of `report`: title, labels, units and so on.
        """
        return plot_release(self, checked_texts({"": self.query}, texts), column, axes)


@dataclass(eq=False, repr=False)
class PublicationRelease(Releasable):
    """Tables that can be published, made from one budget. `release["by_city"]` is one of them, `tables` has all.

    Each is a `Release` with `to_pandas`, `to_csv` and so on. They have one statement, in whose words all of them stand,
    and one entry in the ledger, which is settled when the first file is written.
    """

    _called, _advice = "a release of several tables", SEVERAL
    _for_users = "tables write report to_excel settle plan query statement left_out warnings"

    tables: Mapping[str, Release]
    plan: PublicationPlan
    #: The publication that was released.
    query: Any
    statement: Statement
    reservation: SharedReservation | None = None

    def _advice_on(self, name: str) -> str | None:
        return f"it is a table: release[{name!r}]" if name in vars(self).get("tables", ()) else None

    def __getitem__(self, name: str) -> Release:
        return table_named(self.tables, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def dataset(self) -> PrivateRows:
        """The rows that all tables are made of, which are private."""
        return next(iter(self.tables.values())).dataset

    @property
    def left_out(self) -> dict[str, LeftOut | None]:
        """The shares that the bounds of each table left out, if they were measured."""
        return {name: release.left_out for name, release in self.tables.items()}

    @property
    def data_warnings(self) -> list[str]:
        """The warnings where much was left out or does not fit its type, and where most groups are mostly noise."""
        return [f"Table {name}: {text}" for name, table in self.tables.items() for text in table.data_warnings]

    @property
    def warnings(self) -> list[str]:
        """The warnings to read before the tables are relied on; empty as a rule."""
        return [*self.plan.warnings, *self.data_warnings]

    @guided
    def write(
        self,
        out: str | Path | None = None,
        *,
        report: str | Path | None = None,
        overwrite: bool = False,
        **texts: Unpack[ReportTexts],
    ) -> None:
        """Write all tables and the report; none of the files takes its place before all are complete.

        Parameters
        ----------
        out
            An Excel file with a sheet for each table: "tables.xlsx". Or the files of the tables, with {table} for the
            name of each: "tables/{table}.csv" or "{table}.parquet". Or a folder, for Parquet files with the names of
            the tables.
        report
            One page of HTML with all tables. Title, labels and so on are those of `Release.report`; tables can have
            labels too.
        """
        queries = [table.query for table in self.tables.values()]
        used = tuple(dict.fromkeys(file for query in queries for file in used_files(query)))
        targets = {}
        for key, path in {} if out is None else out_files(list(self.tables), out).items():
            targets[key] = Target(path, SUFFIXES["out"], overwrite, used, "out")
        if report is not None:
            targets["report"] = Target(report, SUFFIXES["report"], overwrite, used, "report")
        write(self, with_descriptions(targets), texts)

    def to_excel(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write one Excel file with a sheet for each table and one with notes; arguments as for `Release.report`."""
        if Path(path).suffix.lower() != ".xlsx":
            raise ArgumentError(f"path must end in .xlsx, got {os.fspath(path)!r}", argument="path")
        self.write(path, overwrite=overwrite, **texts)

    def report(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write one page of HTML with all tables; arguments as for `Release.report`."""
        self.write(report=path, overwrite=overwrite, **texts)


Table = TypeVar("Table")


def table_named(tables: Mapping[str, Table], name: object) -> Table:
    """The table of a name; a KeyError that tells which there are."""
    if name not in tables:
        raise KeyError(unknown("table", str(name), [*tables], having="there are"))
    return tables[str(name)]


class AnyRelease(Released, Protocol):
    """A release of one table or of several that can act: `Release` or `PublicationRelease`."""

    reservation: SharedReservation | None

    @property
    def tables(self) -> Mapping[str, Release]:
        """The tables by their names; a table alone has none."""

    @property
    def data_warnings(self) -> list[str]:
        """The warnings that depend on the data, as far as these may be published."""

    def settle(self, *files: str | Path, place: str | None = None) -> None:
        """Tell the ledger that the tables are out, and where."""


def write(release: AnyRelease, targets: Mapping[str, Target], texts: ReportTexts) -> None:
    """Write a release into its files, all of them or none, and tell the ledger."""
    about = checked_texts({name: table.query for name, table in release.tables.items()}, texts)
    with written_together(targets) as places:
        fill(release, targets, places, about)
    if targets:
        release.settle(*(target.path for target in targets.values()))


def checked_texts(queries: Mapping[str, QuerySpec], texts: ReportTexts) -> About:
    """The texts of a report on tables: labels and units must be of what they publish; tables may have labels too."""
    return About.of(queries.values(), texts, titles=[name for name in queries if name])


def fill(release: AnyRelease, targets: Mapping[str, Target], places: Mapping[str, Path], about: About) -> None:
    """Write into the places that `written_together` has made for tables and report, and what is beside them."""
    if "report" in places:
        text = page(release, about, _in_folder_of_report(release, targets))
        places["report"].write_text(text, encoding="utf-8")
    if "" not in release.tables and "out" in places:
        for table in release.tables.values():
            check_writable(table.query, targets["out"].path)
            check_sheet(len(table))
        tables = {name: (table.table, table.statement) for name, table in release.tables.items()}
        write_workbook(tables, release.statement, about, places["out"])
        return
    for name, table in release.tables.items():
        if (key := out_key(name)) in places:
            check_writable(table.query, targets[key].path)
            Published(table.statement, about, table.table).write(key, targets, places)


def _in_folder_of_report(release: AnyRelease, targets: Mapping[str, Target]) -> dict[str, str]:
    """Name the file of each table that is written into the folder of the report."""
    folder = Path(os.path.abspath(targets["report"].path)).parent
    files = {name: targets.get(out_key(name), targets.get("out")) for name in release.tables}
    paths = {name: Path(os.path.abspath(file.path)) for name, file in files.items() if file is not None}
    return {name: path.name for name, path in paths.items() if path.parent == folder}


def out_files(names: list[str], out: str | Path) -> dict[str, Path]:
    """The files of tables by their keys: one for each, with its name in the pattern or in a folder, or one for all.

    The only table has no name, and several may stand in one Excel file.
    """
    for name in names:
        check_table_name(name)
    pattern = os.fspath(out)
    if not names or (TABLE not in pattern and Path(pattern).suffix.lower() == ".xlsx"):
        return {"out": Path(pattern)}
    if Path(pattern).suffix.lower() not in SUFFIXES["out"]:
        pattern = os.path.join(pattern, f"{TABLE}.parquet")
    if TABLE not in pattern:
        raise ArgumentError(
            f"out must have {TABLE} where the name of a table goes, as in '{Path(pattern).stem}-{TABLE}"
            f"{Path(pattern).suffix}', or be a folder or an Excel file; got {pattern!r}",
            argument="out",
        )
    return {out_key(name): Path(pattern.replace(TABLE, name)) for name in names}


def check_table_name(name: object) -> None:
    """Raise unless a table may have this name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            "the name of a table must be letters, digits, _ and - (it becomes part of the names of files), got "
            f"{name!r}"
        )
