"""Release: the noisy table and what it promises."""

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from osgt.files import Target, written_together
from osgt.tables.about import About, ReportTexts
from osgt.tables.cards import release_card, release_line
from osgt.tables.charging import check_charge, reserved, title_of
from osgt.tables.errors import NothingReleasedError
from osgt.tables.interchange import Interchange
from osgt.tables.left_out import LeftOut
from osgt.tables.levels import SUMMED_OVER
from osgt.tables.measuring import Measured, measured, prepared
from osgt.tables.output import SUFFIXES, check_writable, used_files
from osgt.tables.plain_rows import plain_rows
from osgt.tables.plan import Plan
from osgt.tables.plots import plot_release
from osgt.tables.published import Published, with_descriptions
from osgt.tables.query import Query
from osgt.tables.reconciled import Reconciled
from osgt.tables.report import page
from osgt.tables.settling import settle
from osgt.tables.statement import Made, Statement
from osgt.tables.total_rows import ChosenGroups, joined, with_others, with_totals


@dataclass(eq=False)
class Release(Interchange):
    """A table that can be published: for each group the noisy values and their noise intervals.

    Writing it to a file settles the reservation in the ledger, if there is one. A release that is never written, or
    whose process ends before, stays reserved there: nobody can know whether it was seen.
    """

    table: pa.Table
    plan: Plan
    query: Query
    statement: Statement
    left_out: LeftOut | None = None
    reservation: Any = None

    @property
    def tables(self) -> "dict[str, Release]":
        """All tables: this one, without a name."""
        return {"": self}

    @property
    def left_out_warnings(self) -> list[str]:
        """Where more than 5 % was left out, and what would help."""
        return [] if self.left_out is None else self.left_out.warnings

    def to_csv(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write the table as CSV for spreadsheets, and its description beside it, all of it or nothing.

        The description (`PATH-metadata.json`, CSV on the Web) has the columns, their types, labels and units, and the
        statement; `texts` are those of `report`. Text that a spreadsheet could take for a formula gets an apostrophe
        before it: see `osgt.tables.output`.
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

    def _write(self, targets: Mapping[str, Target], texts: ReportTexts | None = None) -> None:
        about, files = self.query.about(texts or {}), with_descriptions(targets)
        with written_together(files) as places:
            self.fill(files, places, about)
        if files:
            self.settle(*(target.path for target in files.values()))

    def fill(self, targets: Mapping[str, Target], places: Mapping[str, Path], about: About) -> None:
        """Write into the places that `written_together` has made for "out" and "report", and what is beside them."""
        if "report" in places:
            places["report"].write_text(page(self, about, _beside(targets)), encoding="utf-8")
        if "out" in places:
            check_writable(self.query, targets["out"].path)
            Published(self.statement, about, self.table).write("out", targets, places)

    def plot(self, column: str | None = None, axes: Any = None, **texts: Unpack[ReportTexts]) -> Any:
        """Draw a column (the first, if none is named) with its noise intervals. Returns the axes of Matplotlib.

        `texts` are those of `report`: title, labels, units and so on.
        """
        return plot_release(self, self.query.about(texts), column, axes)

    def __repr__(self) -> str:
        return release_line(self)

    def _repr_html_(self) -> str:
        return release_card(self).html()

    def rows(self, limit: int) -> list[dict[str, Any]]:
        """The first rows in plain values; dates as text, since Python knows no years beyond 9999."""
        return plain_rows(self.table.slice(0, limit))

    def settle(self, *files: str | Path, place: str | None = None) -> None:
        """Tell the ledger that the release is out, and where: files, or a place in words.

        Called by everything that writes a file. A release that is published in another way, or whose ledger was away,
        stays reserved in the ledger until this is called. Raises NotSettledError if the ledger cannot be told.
        """
        settle(self, files, place)

    def without_totals(self) -> "Release":
        """The same with the groups alone."""
        if SUMMED_OVER not in self.table.column_names or not self.query.groups.levels:
            return self
        groups = self.table.filter(pc.is_null(self.table[SUMMED_OVER])).drop_columns([SUMMED_OVER])
        return replace(self, table=groups)

    def __len__(self) -> int:
        return int(self.table.num_rows)


def _beside(targets: Mapping[str, Target]) -> str | None:
    """The name of the table's file if it is written into the folder of the report."""
    if "out" not in targets:
        return None
    out, report = (Path(os.path.abspath(targets[name].path)) for name in ("out", "report"))
    return out.name if out.parent == report.parent else None


def make_release(query: Query, plan: Plan, *, nonnegative: bool) -> Release:
    """Charge, read, add noise: in this order. If a step fails the charge stands, and nothing is released."""
    ready = prepared(query, plan)
    reservation = reserved(query.dataset, plan, title_of(query), query.to_dict())
    if reservation is not None:
        reservation.reading()
    try:
        return finished(query, plan, measured(query, plan, ready), reservation, nonnegative=nonnegative)
    except Exception as error:
        raise NothingReleasedError(charged=reservation is not None) from error


def check_release(query: Query, plan: Plan) -> None:
    """Refuse all that a release of this plan would refuse now. No row is read and nothing is charged."""
    prepared(query, plan)
    check_charge(query.dataset, plan)


def finished(query: Query, plan: Plan, answer: Measured, reservation: Any = None, *, nonnegative: bool) -> Release:
    """The release of what was measured."""
    table = table_of(query, plan, answer, nonnegative=nonnegative)
    made = Made(
        nonnegative=nonnegative,
        date=datetime.datetime.now(datetime.UTC),
        version=version("osgt"),
        reservation=None if reservation is None else str(reservation.sequence),
    )
    statement = Statement.of(query, plan, made, left_out=answer.left_out, groups=table.num_rows)
    return Release(table, plan, query, statement, answer.left_out, reservation)


def table_of(query: Query, plan: Plan, answer: Measured, *, nonnegative: bool) -> pa.Table:
    """The table that is published."""
    groups, levels = plan.groups, plan.levels
    if groups.levels and isinstance(levels, Reconciled):
        rows = levels.rows(answer.noisy, plan.confidence, nonnegative=nonnegative)
        return joined(*with_totals(groups, plan.aggregates, rows))
    answers = plan.noisy(answer.noisy, nonnegative=nonnegative)
    columns = {name: array for aggregate in plan.aggregates for name, array in aggregate.columns(answers).items()}
    table = _sorted(joined(answer.keys, columns), query)
    if groups.levels and isinstance(levels, ChosenGroups):
        return with_others(table, groups, levels.columns(plan.aggregates, answers, answer.noisy))
    return table


def _sorted(table: pa.Table, query: Query) -> pa.Table:
    """By key: the engine's order may tell about the data. Public keys stay in the order given."""
    if query.groups.public is not None or not query.groups.by:
        return table
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in query.groups.by])
    return table.take(order)
