"""Release: noisy tables, what they promise, and the files that they are written to."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Unpack

from osgt.api.charge import SharedReservation, settle
from osgt.data.rows import PrivateRows
from osgt.facts.statement import Released, ReleasedTable, Statement
from osgt.limits.left_out import LeftOut
from osgt.plan.publication import PublicationPlan
from osgt.query.about import About, ReportTexts
from osgt.query.aggregates.base import QuerySpec
from osgt.render.published import (
    SUFFIXES,
    Interchange,
    Published,
    check_writable,
    out_key,
    used_files,
    with_descriptions,
)
from osgt.render.report import page
from osgt.render.table_cards import plot_release, release_card, release_line
from osgt.support.errors import ArgumentError
from osgt.support.files import Target, written_together

#: The mark that stands for the name of a table in the name of a file.
TABLE = "{table}"

#: Names of tables are part of the names of files.
_NAME = re.compile(r"\w[\w-]{0,99}")


@dataclass(eq=False)
class Release(ReleasedTable, Interchange):
    """A table that can be published: for each group the noisy values and their noise intervals.

    Writing it to a file settles the reservation in the ledger, if there is one. A release that is never written, or
    whose process ends before, stays reserved there: nobody can know whether it was seen.
    """

    reservation: SharedReservation | None = None

    def to_csv(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write the table as CSV for spreadsheets, and its description beside it, all of it or nothing.

        The description (`PATH-metadata.json`, CSV on the Web) has the columns, their types, labels and units, and the
        statement; `texts` are those of `report`. Text that a spreadsheet could take for a formula gets an apostrophe
        before it: see `osgt.render.csvw`.
        """
        self._write({"out": Target(path, (".csv",), overwrite, used_files(self.query))}, texts)

    def to_excel(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write the table as an Excel file, with the statement and the columns explained on a sheet of notes.

        All of it or nothing; text stays text whatever it begins with. `texts` are those of `report`.
        """
        self._write({"out": Target(path, (".xlsx",), overwrite, used_files(self.query))}, texts)

    def to_parquet(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write the table as Parquet, with the statement in its metadata, all of it or nothing.

        `texts` are those of `report`, and are kept there too.
        """
        self._write({"out": Target(path, (".parquet",), overwrite, used_files(self.query))}, texts)

    def report(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write one page of HTML for people: in short what it says, pictures, the table, and all the rest in folds.

        Parameters
        ----------
        title, subtitle, publisher, contact, period, source, licence
            What stands above; an address of a web page or for mail becomes a link.
        labels, units
            What people call keys and columns, and what they are measured in, by their names in the table:
            `labels={"dest": "Airport", "count": "Flights"}, units={"delay_mean": "minutes"}`. The privacy unit can
            have a label too.
        values
            What people call single values of a key: `values={"origin": {"EWR": "Newark", "LGA": "La Guardia"}}`.
            Shown wherever people read; CSV and Parquet files keep the values themselves.
        """
        self._write({"report": Target(path, SUFFIXES["report"], overwrite, used_files(self.query))}, texts)

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

    def plot(self, column: str | None = None, axes: Any = None, **texts: Unpack[ReportTexts]) -> Any:
        """Draw a column (the first, if none is named) with its noise intervals. Returns the axes of Matplotlib.

        `texts` are those of `report`: title, labels, units and so on.
        """
        return plot_release(self, checked_texts({"": self.query}, texts), column, axes)

    def __repr__(self) -> str:
        return release_line(self)

    def __str__(self) -> str:
        """The first rows with their intervals, and the promise."""
        return release_card(self).text()

    def _repr_html_(self) -> str:
        return release_card(self).html()

    def settle(self, *files: str | Path, place: str | None = None) -> None:
        """Tell the ledger that the release is out, and where: files, or a place in words.

        Called by everything that writes a file. A release that is published in another way, or whose ledger was away,
        stays reserved in the ledger until this is called. Raises NotSettledError if the ledger cannot be told.
        """
        settle(self, files, place)


@dataclass(eq=False)
class PublicationRelease:
    """Tables that can be published, made from one budget. `release["by_city"]` is one of them, `tables` has all.

    Each is a `Release` with `to_pandas`, `to_csv` and so on. They have one statement, in whose words all of them stand,
    and one entry in the ledger, which is settled when the first file is written.
    """

    tables: Mapping[str, Release]
    plan: PublicationPlan
    #: The publication that was released.
    query: Any
    statement: Statement
    reservation: SharedReservation | None = None

    def __getitem__(self, name: str) -> Release:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __repr__(self) -> str:
        return release_line(self)

    def __str__(self) -> str:
        """The first rows with their intervals, and the promise."""
        return release_card(self).text()

    def _repr_html_(self) -> str:
        return release_card(self).html()

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
        return [f"Table {name}: {text}" for name, each in self.tables.items() for text in each.data_warnings]

    @property
    def warnings(self) -> list[str]:
        """The warnings to read before the tables are relied on; empty as a rule."""
        return [*self.plan.warnings, *self.data_warnings]

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
            The files of the tables, with {table} for the name of each: "tables/{table}.csv" or "{table}.parquet". Or a
            folder, for Parquet files with the names of the tables.
        report
            One page of HTML with all tables. Title, labels and so on are those of `Release.report`; tables can have
            labels too.
        """
        queries = [table.query for table in self.tables.values()]
        used = tuple(dict.fromkeys(file for query in queries for file in used_files(query)))
        targets = {}
        if out is not None:
            for name, path in table_files(list(self.tables), out).items():
                targets[out_key(name)] = Target(path, SUFFIXES["out"], overwrite, used, "out")
        if report is not None:
            targets["report"] = Target(report, SUFFIXES["report"], overwrite, used, "report")
        write(self, with_descriptions(targets), texts)

    def report(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write one page of HTML with all tables; arguments as for `Release.report`."""
        self.write(report=path, overwrite=overwrite, **texts)

    def settle(self, *files: str | Path, place: str | None = None) -> None:
        """Tell the ledger that the tables are out, and where; see `Release.settle`."""
        settle(self, files, place)


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
    for name, table in release.tables.items():
        if (key := out_key(name)) in places:
            check_writable(table.query, targets[key].path)
            Published(table.statement, about, table.table).write(key, targets, places)


def _in_folder_of_report(release: AnyRelease, targets: Mapping[str, Target]) -> dict[str, str]:
    """Name the file of each table that is written into the folder of the report."""
    folder = Path(os.path.abspath(targets["report"].path)).parent
    files = {name: targets[out_key(name)].path for name in release.tables if out_key(name) in targets}
    return {name: Path(file).name for name, file in files.items() if Path(os.path.abspath(file)).parent == folder}


def table_files(names: list[str], out: str | Path) -> dict[str, Path]:
    """The file of each table: the pattern with its name in it, or a Parquet file in a folder."""
    for name in names:
        check_table_name(name)
    pattern = os.fspath(out)
    if Path(pattern).suffix.lower() not in SUFFIXES["out"]:
        pattern = os.path.join(pattern, f"{TABLE}.parquet")
    if TABLE not in pattern:
        raise ArgumentError(
            f"out must have {TABLE} where the name of a table goes, as in '{Path(pattern).stem}-{TABLE}"
            f"{Path(pattern).suffix}', or be a folder; got {pattern!r}",
            argument="out",
        )
    return {name: Path(pattern.replace(TABLE, name)) for name in names}


def check_table_name(name: object) -> None:
    """Raise unless a table may have this name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            "the name of a table must be letters, digits, _ and - (it becomes part of the names of files), got "
            f"{name!r}"
        )
