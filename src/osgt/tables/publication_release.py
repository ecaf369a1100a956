"""The release of several tables: charged once, read block by block, written all or none."""

import datetime
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Unpack

from osgt.files import Target, written_together
from osgt.tables.about import About, ReportTexts
from osgt.tables.cards import publication_card
from osgt.tables.charging import check_charge, reserved, title_of
from osgt.tables.errors import NothingReleasedError
from osgt.tables.left_out import LeftOut
from osgt.tables.measuring import measured, prepared
from osgt.tables.output import SUFFIXES, check_writable, out_key, used_files
from osgt.tables.publication import Publication, check_name
from osgt.tables.publication_plan import PublicationPlan
from osgt.tables.publication_report import page
from osgt.tables.publication_statement import PublicationStatement, publication_statement
from osgt.tables.published import Published, with_descriptions
from osgt.tables.query import Query
from osgt.tables.release import Release, table_of
from osgt.tables.settling import settle
from osgt.tables.statement import Made

#: What stands for the name of a table in the name of a file.
TABLE = "{table}"


@dataclass
class SharedReservation:
    """One reservation in the ledger for several tables: the first that is out settles it for all."""

    reservation: Any
    is_settled: bool = False

    @property
    def sequence(self) -> Any:
        """The number of the entry."""
        return self.reservation.sequence

    def settle(self, digest: str, **places: Any) -> None:
        """Tell the ledger, once."""
        if not self.is_settled:
            self.reservation.settle(digest, **places)
            self.is_settled = True


@dataclass(eq=False)
class PublicationRelease:
    """Tables that can be published, made from one budget. `release["by_city"]` is one of them, `tables` has all.

    Each is a `Release` with `to_pandas`, `to_csv` and so on. They have one statement, in whose words all of them stand,
    and one entry in the ledger, which is settled when the first file is written.
    """

    tables: Mapping[str, Release]
    plan: PublicationPlan
    query: Publication
    statement: PublicationStatement
    reservation: Any = None

    def __getitem__(self, name: str) -> Release:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __repr__(self) -> str:
        budget = f"epsilon={self.plan.epsilon:.15g}, delta={self.plan.delta:.15g}"
        return f"PublicationRelease({', '.join(self.tables)}; {budget})"

    def _repr_html_(self) -> str:
        return publication_card(self).html()

    @property
    def left_out(self) -> dict[str, LeftOut | None]:
        """What the bounds of each table left out, if that was measured."""
        return {name: release.left_out for name, release in self.tables.items()}

    @property
    def left_out_warnings(self) -> list[str]:
        """Where more than 5 % was left out, and what would help."""
        told = {name: [] if each is None else each.warnings for name, each in self.left_out.items()}
        return [f"Table {name}: {text}" for name, texts in told.items() for text in texts]

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
        targets = publication_targets(self.query, out, report, overwrite=overwrite)
        about = self.query.about(texts)
        with written_together(targets) as places:
            self.fill(targets, places, about)
        if targets:
            self.settle(*(target.path for target in targets.values()))

    def report(self, path: str | Path, *, overwrite: bool = False, **texts: Unpack[ReportTexts]) -> None:
        """Write one page of HTML with all tables; arguments as for `Release.report`."""
        self.write(report=path, overwrite=overwrite, **texts)

    def fill(self, targets: Mapping[str, Target], places: Mapping[str, Path], about: About) -> None:
        """Write into the places that `written_together` has made for the targets of `publication_targets`."""
        if "report" in places:
            places["report"].write_text(page(self, about, self._beside(targets)), encoding="utf-8")
        for name, table in self.tables.items():
            if (key := out_key(name)) in places:
                check_writable(table.query, targets[key].path)
                Published(table.statement, about, table.table).write(key, targets, places)

    def _beside(self, targets: Mapping[str, Target]) -> dict[str, str]:
        """For each table the name of its file, if it is written into the folder of the report."""
        folder = Path(os.path.abspath(targets["report"].path)).parent
        files = {name: targets[out_key(name)].path for name in self.tables if out_key(name) in targets}
        return {name: Path(file).name for name, file in files.items() if Path(os.path.abspath(file)).parent == folder}

    def settle(self, *files: str | Path, place: str | None = None) -> None:
        """Tell the ledger that the tables are out, and where; see `Release.settle`."""
        settle(self, files, place)


def publication_targets(
    publication: Publication,
    out: str | Path | None,
    report: str | Path | None,
    *,
    overwrite: bool,
) -> dict[str, Target]:
    """The files of tables and report; those that queries read are never replaced."""
    used = tuple(dict.fromkeys(file for query in publication.tables.values() for file in used_files(query)))
    found = {}
    if out is not None:
        for name, path in table_files(list(publication.tables), out).items():
            found[out_key(name)] = Target(path, SUFFIXES["out"], overwrite, used, "out")
    if report is not None:
        found["report"] = Target(report, SUFFIXES["report"], overwrite, used, "report")
    return with_descriptions(found)


def table_files(names: list[str], out: str | Path) -> dict[str, Path]:
    """The file of each table: the pattern with its name in it, or a Parquet file in a folder."""
    for name in names:
        check_name(name)
    pattern = os.fspath(out)
    if Path(pattern).suffix.lower() not in SUFFIXES["out"]:
        pattern = os.path.join(pattern, f"{TABLE}.parquet")
    if TABLE not in pattern:
        raise ValueError(
            f"out must have {TABLE} where the name of a table goes, as in '{Path(pattern).stem}-{TABLE}"
            f"{Path(pattern).suffix}', or be a folder; got {pattern!r}"
        )
    return {name: Path(pattern.replace(TABLE, name)) for name in names}


def check_publication(publication: Publication, plan: PublicationPlan) -> None:
    """Refuse all that a release of this plan would refuse now. No row is read and nothing is charged."""
    for block, one in zip(publication.blocks, plan.blocks, strict=True):
        prepared(block.query, one)
    check_charge(publication.dataset, plan)


def make_publication(publication: Publication, plan: PublicationPlan, *, nonnegative: bool) -> PublicationRelease:
    """Charge once, read, add noise: in this order. If a step fails the charge stands, and no table is released."""
    steps = list(zip(publication.blocks, plan.blocks, strict=True))
    ready = [prepared(block.query, one) for block, one in steps]
    title = "; ".join(f"{name}: {title_of(query)}" for name, query in publication.tables.items())
    reservation = reserved(publication.dataset, plan, title, publication.to_dict())
    if reservation is not None:
        reservation.reading()
        reservation = SharedReservation(reservation)
    try:
        answers = [measured(block.query, one, each) for (block, one), each in zip(steps, ready, strict=True)]
        tables, left_out = {}, {}
        for name, query in publication.tables.items():
            answer = answers[plan.block_of[name]]
            tables[name] = table_of(query, plan[name], answer, nonnegative=nonnegative)
            left_out[name] = None if answer.left_out is None else answer.left_out.of_columns(_bounded(query))
        made = Made(
            nonnegative=nonnegative,
            date=datetime.datetime.now(datetime.UTC),
            version=version("osgt"),
            reservation=None if reservation is None else str(reservation.sequence),
        )
        rows = {name: table.num_rows for name, table in tables.items()}
        statement = publication_statement(publication, plan, made, left_out=left_out, groups=rows)
    except Exception as error:
        raise NothingReleasedError(charged=reservation is not None) from error
    releases = {
        name: Release(table, plan[name], publication[name], statement.of_table(name), left_out[name], reservation)
        for name, table in tables.items()
    }
    return PublicationRelease(releases, plan, publication, statement, reservation)


def _bounded(query: Query) -> set[str]:
    return {limits.column for aggregate in query.aggregates for limits in aggregate.limits}
