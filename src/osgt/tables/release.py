"""Release: the noisy table and what it promises."""

import datetime
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from osgt.files import Target, written_together
from osgt.mechanism import Mechanism
from osgt.privacy import Charge
from osgt.tables.about import About, ReportTexts
from osgt.tables.aggregates.kinds import Asking
from osgt.tables.answers import apart
from osgt.tables.bounding import UNIT, bounded_sums, fresh_salt
from osgt.tables.cards import release_card, release_line
from osgt.tables.engines.engine import Engine
from osgt.tables.errors import NothingReleasedError
from osgt.tables.groups import Groups
from osgt.tables.interchange import Interchange
from osgt.tables.keys import KEY
from osgt.tables.left_out import LeftOut
from osgt.tables.left_out_measures import LeftOutMeasures
from osgt.tables.levels import SUMMED_OVER
from osgt.tables.measures import Measure, Values
from osgt.tables.output import SUFFIXES, check_writable, used_files
from osgt.tables.plain_rows import plain_rows
from osgt.tables.plan import Plan
from osgt.tables.plots import plot_release
from osgt.tables.published import Published, with_descriptions
from osgt.tables.query import Query
from osgt.tables.reading import EngineQuery, check_query, compiled, fetched
from osgt.tables.reconciled import Reconciled
from osgt.tables.report import page
from osgt.tables.settling import settle
from osgt.tables.statement import Made, Statement
from osgt.tables.total_rows import ChosenGroups, joined, with_others, with_totals
from osgt.tables.totals import UnitsAt

if TYPE_CHECKING:
    from osgt.tables.dataset import Dataset

#: Characters of a title in the ledger.
_LONGEST_TITLE = 500


class Charged(Protocol):
    """What a ledger has to know of a plan."""

    @property
    def charge(self) -> Charge:
        """What is taken out of the budget."""

    @property
    def epsilon(self) -> float:
        """The ε that was asked for."""

    @property
    def delta(self) -> float:
        """The δ that was asked for."""


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


def finished(query: Query, plan: Plan, answer: "Measured", reservation: Any = None, *, nonnegative: bool) -> Release:
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


@dataclass(frozen=True)
class Exact:
    """The keys of all groups, the exact numbers of each measure and those of what is left out. Nobody may see them."""

    keys: pa.Table
    numbers: Mapping[Measure, NDArray[np.int64]]
    left_out: Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Measured:
    """The keys of the groups that are shown, what was measured of them with noise, and what was left out."""

    keys: pa.Table
    noisy: Mapping[Measure, NDArray[np.int64]]
    left_out: LeftOut | None


def prepared(query: Query, plan: Plan, salt: int | None = None, order: str | None = None) -> EngineQuery:
    """The query for the engine: all that can be refused is refused here. No row is read.

    A release has a fresh salt and its rows in random order; an audit plays it again with those that are given.
    """
    salt = fresh_salt() if salt is None else salt
    ready = compiled(exact_sums(query, summed(plan), salt, order, plan.left_out))
    check_query(ready)
    return ready


def measured(query: Query, plan: Plan, ready: EngineQuery) -> Measured:
    """What the engine gives back, with noise. Any error here may depend on the data."""
    return with_noise(query, plan, exact_numbers(query, plan, ready))


def exact_numbers(query: Query, plan: Plan, ready: EngineQuery) -> Exact:
    """What the engine gives back."""
    answer, left_out = fetched(ready), {}
    if plan.left_out is not None:
        answer, told = apart(answer)
        left_out = plan.left_out.exact(told)
    keys, found = _exact(query, summed(plan), answer)
    return Exact(keys, {measure: measure.exact(found) for measure in plan.parts}, left_out)


def with_noise(query: Query, plan: Plan, exact: Exact) -> Measured:
    """The groups that are shown, and all numbers with noise."""
    chosen, noisy = noisy_numbers(plan, exact.numbers)
    keys = shown_keys(query, exact.keys.take(pa.array(np.flatnonzero(chosen))))
    return Measured(keys, noisy, None if plan.left_out is None else _left_out(query, plan, exact.left_out))


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


def _left_out(query: Query, plan: Plan, exact: Mapping[str, NDArray[np.int64]]) -> LeftOut:
    """What the bounds left out, with its noise."""
    assert plan.left_out is not None
    laws = {name: law for name, (law, _) in plan.noise.beside.items()}
    noisy = {}
    for name, numbers in exact.items():
        law, part = plan.noise.beside[name]
        noisy[name] = np.asarray(Mechanism.of(law, part.shift, part.coordinates).release(numbers))
    return LeftOut.of(plan.left_out, noisy, laws, query.dataset.privacy_unit, plan.confidence)


def summed(plan: Plan) -> list[Measure]:
    """What the engine sums: the measures, or what they are made of."""
    return list(dict.fromkeys(each for measure in plan.parts for each in measure.summed))


def shown_keys(query: Query, keys: pa.Table) -> pa.Table:
    """The keys of groups in the types of their columns; public keys are as they were given."""
    if query.groups.public is not None or not query.groups.by:
        return keys
    types = [query.dataset.table.schema()[name] for name in query.groups.by]
    shown = query.dataset.engine.shown
    columns = [shown(column.combine_chunks(), dtype) for column, dtype in zip(keys.columns, types, strict=True)]
    return pa.table(columns, names=list(query.groups.by))


def exact_sums(
    query: Query,
    measures: list[Measure],
    salt: int,
    order: str | None = None,
    left_out: LeftOutMeasures | None = None,
) -> ir.Table:
    """The exact, bounded sums of each group, and what is left out: a query for the engine."""
    looked_at = [Values(column) for column in (() if left_out is None else left_out.columns)]
    rows, keys, values = prepared_rows(query, [*measures, *looked_at], order, numbered=False)
    counted = {measure.by for measure in measures if isinstance(measure, UnitsAt) and measure.by}
    return bounded_sums(
        rows,
        keys,
        values,
        measures,
        max_groups=query.groups.max_groups,
        max_rows=query.groups.rows,
        salt=salt,
        order=None if order is None else "order",
        levels={by: name for by, name in level_columns(query.groups).items() if by in counted},
        told=left_out,
    )


def level_columns(groups: Groups) -> dict[tuple[str, ...], str]:
    """The column of the prepared rows that has the group of each level; the table as a whole needs none."""
    return {level.by: f"level_{i}" for i, level in enumerate(groups.levels) if level.by}


def prepared_rows(
    query: Asking, measures: list[Measure], order: str | None = None, *, numbered: bool = True
) -> tuple[ir.Table, list[str], dict[Any, str]]:
    """The rows with the columns that are needed, under names of our own; rows with other than public keys are gone.

    Rows that are units of their own get a number as their unit, if they are to be `numbered`.
    """
    table, by = query.dataset.rows(), query.groups.by
    names = list(dict.fromkeys(column for measure in measures for column in measure.columns))
    sources: dict[Any, ir.Value] = {name: table[name] for name in names}
    sources |= {each: value for each in measures if (value := each.derived(table)) is not None}
    values = {source: f"value_{i}" for i, source in enumerate(sources)}
    keys = [f"key_{i}" for i in range(len(by))]
    engine = query.dataset.engine
    unit = query.dataset.unit
    # A table has at least one column.
    without = unit.each_row and not numbered
    columns = {"each_row": ibis.literal(True)} if without else {UNIT: unit.value(engine, table)}
    columns |= {key: engine.carried(table[name]) for key, name in zip(keys, by, strict=True)}
    columns |= {value: sources[source] for source, value in values.items()}
    if order is not None:
        columns["order"] = table[order]
    rows = table.select(**columns)
    if query.groups.public is None:
        return rows, keys, values
    types = [table[name].type() for name in by]
    counted = {measure.by for measure in measures if isinstance(measure, UnitsAt)}
    names_of = level_columns(query.groups)
    places = {names_of[level.by]: level.places for level in query.groups.levels if level.by and level.by in counted}
    return _with_public_keys(engine, rows, keys, types, query.groups, places), [KEY], values


def _with_public_keys(
    engine: Engine,
    rows: ir.Table,
    keys: list[str],
    types: list[dt.DataType],
    groups: Groups,
    places: Mapping[str, Any],
) -> ir.Table:
    """The rows whose keys are public: numbers in place of keys, those of their groups and of these in some levels."""
    public = groups.public
    assert public is not None
    renamed = public.rename_columns([f"public_{i}" for i in range(len(keys))])
    for name, numbers in {KEY: np.arange(public.num_rows), **places}.items():
        renamed = renamed.append_column(name, pa.array(numbers, pa.int32()))
    numbered = engine.small_table(rows.get_backend(), renamed)
    theirs = {f"public_{i}": engine.carried(numbered[f"public_{i}"].cast(types[i])) for i in range(len(keys))}
    if groups.each_row:
        # Two keys that are one to the engine, as a UUID in large and in small letters: a row is in the first alone.
        numbered = numbered.select(KEY, **theirs)
        numbered = numbered.group_by(list(theirs)).agg(**{KEY: numbered[KEY].min()})
        theirs = {name: numbered[name] for name in theirs}
    # An equality can be looked up in a hash table on every engine; one that takes null for equal cannot.
    same = [
        rows[key].identical_to(theirs[f"public_{i}"])
        if public.column(i).null_count
        else rows[key] == theirs[f"public_{i}"]
        for i, key in enumerate(keys)
    ]
    joined = rows.inner_join(numbered, same)
    return joined.select([KEY, *places, *(name for name in rows.columns if name not in keys)])


def reserved(data: "Dataset", plan: Charged, title: str, query: Mapping[str, Any]) -> Any:
    """What is charged to the ledger of the data set; None if it has none."""
    if data.ledger is None:
        return None
    return data.ledger.reserve(
        data.dataset,
        plan.charge,
        query=json.dumps(query, sort_keys=True, default=str),
        title=title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1] + "…",
        unit=data.privacy_unit,
        neighbours=data.neighbours,
        table=data.identity,
        epsilon=plan.epsilon,
        delta=plan.delta,
    )


def check_charge(data: "Dataset", plan: Charged) -> None:
    """Raise what `reserved` would raise now, if the ledger of the data set would refuse the charge."""
    if data.ledger is not None:
        data.ledger.check(
            data.dataset, plan.charge, unit=data.privacy_unit, neighbours=data.neighbours, table=data.identity
        )


def title_of(query: Asking) -> str:
    """What is published, in a few words: "count, mean(delay) by month"."""
    by = f" by {', '.join(query.groups.by)}" if query.groups.by else ""
    return ", ".join(aggregate.title for aggregate in query.aggregates) + by


def _exact(query: Query, measures: list[Measure], sums: pa.Table) -> tuple[pa.Table, dict[Measure, NDArray[np.int64]]]:
    """The keys of the groups, and for each measure its exact numbers, one row for each group."""
    exact = {}
    for i, measure in enumerate(measures):
        exact[measure] = np.stack([_integers(sums[f"sum_{i}_{j}"]) for j in range(measure.numbers)], axis=1)
    groups = query.groups
    if groups.public is not None:
        at = _integers(sums[KEY])
        for measure, numbers in exact.items():
            every = np.zeros((groups.public.num_rows, numbers.shape[1]), dtype=np.int64)
            every[at] = numbers
            exact[measure] = every
        return groups.public, exact
    keys = pa.table([sums[f"key_{i}"] for i in range(len(groups.by))], names=list(groups.by))
    if not groups.by:
        keys = pa.table({"": np.zeros(1)}).select([])
    return keys, exact


def noisy_numbers(
    plan: Plan, exact: Mapping[Measure, NDArray[np.int64]]
) -> tuple[NDArray[np.bool_], dict[Measure, NDArray[np.int64]]]:
    """Which groups are shown, and the measures of these with noise."""
    mechanisms = {m: Mechanism.of(plan.laws[m], plan.parts[m].shift, plan.parts[m].coordinates) for m in exact}
    noisy: dict[Measure, NDArray[np.int64]] = {}
    shown = np.ones(next(len(numbers) for measure, numbers in exact.items() if not measure.for_table), dtype=bool)
    if plan.selector is not None:
        counts = mechanisms[plan.selector].release(exact[plan.selector])
        shown = counts[:, 0] >= plan.threshold
        noisy[plan.selector] = counts[shown]
    for measure, numbers in exact.items():
        if measure not in noisy:
            noisy[measure] = mechanisms[measure].release(numbers if measure.for_table else numbers[shown])
    return shown, noisy


def _integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64)


def _sorted(table: pa.Table, query: Query) -> pa.Table:
    """By key: the engine's order may tell about the data. Public keys stay in the order given."""
    if query.groups.public is not None or not query.groups.by:
        return table
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in query.groups.by])
    return table.take(order)
