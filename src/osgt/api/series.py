"""A series: a table that is published again for each period, from one plan and one charge.

An instalment is about the rows of its period, of units for which that is among the first `max_periods` periods in which
they have rows (`osgt.data.parts`). So one unit is in at most `max_periods` instalments, and the charge is that of so
many (docs/series.md has the proof). The steps of an instalment, each durable before the next:

the ledger hands it out → units are counted and remembered → it is measured, and its files are made in a private folder
→ they are said to be made → the ledger is told of their hashes → they are copied to their places.

Before the ledger is told nobody has seen a number; after it they are never made again, also by somebody who has an
earlier copy of the folder.

The total of a longer period takes the same steps, but for the second: it is made of the numbers that its instalments
have published, which stay in the folder.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from osgt.api.charge import file_hash, statement_hash, title_of
from osgt.api.dataset import Dataset
from osgt.api.memory import Memory
from osgt.api.periods import all_longer_periods, longer_periods, periods_between
from osgt.api.publication import Publication
from osgt.api.publish import make_release
from osgt.api.query import Query
from osgt.api.query_file import build_query, files_used, presentation_of, release_targets
from osgt.api.release import AnyRelease, PublicationRelease, Release, checked_texts, fill
from osgt.data.engines.query import compile_query, fetch
from osgt.data.parts import Part, parts_of, units_of
from osgt.facts.statement import Made, NoisyTable, Total, statements_of_total
from osgt.ledger import Ledger
from osgt.ledger.custody import INSTALMENT
from osgt.plan.plan import AnyPlan, Plan
from osgt.plan.publication import PublicationPlan
from osgt.privacy import Charge
from osgt.privacy.filters.budget import Partition
from osgt.query.about import About
from osgt.query.aggregates.base import QuerySpec
from osgt.query.aggregates.marks import Marks
from osgt.query.file.model import QueryFile
from osgt.query.file.reading import read_query_file
from osgt.release.measuring import NothingReleasedError, with_rates
from osgt.release.numbers import Allowances, add_tables, additive
from osgt.render.published import Published, read_published, write_parquet
from osgt.support.errors import ArgumentError, OsgtError
from osgt.support.files import Target, written, written_together

#: The mark that stands for the period in the names of files.
PERIOD = "{period}"

#: Parts of a query file that decide what a series is; others say where things are, or how they are called.
_OWN = ("data", "groups", "aggregates", "table", "budget", "series")
_PLACES = {"source", "ledger", "dataset", "store", "noun", "units"}


class OtherNoiseError(OsgtError, ValueError):
    """The plan of a series is not the one that was charged."""


@dataclass(frozen=True)
class Instalment:
    """An instalment of a series as it is now, or a total: its files, and whether this run has published it."""

    period: str
    due: date
    status: str  # "published now", "published before", "not due", or "incomplete": a total lacks instalments
    files: tuple[Path, ...] = ()


@dataclass
class _Handed:
    """An instalment in place of a ledger: its charge was made with the series."""

    name: str
    sequence: str
    digest: str = ""

    def reserve(self, *_: Any, **__: Any) -> "_Handed":
        return self

    def check(self, *_: Any, **__: Any) -> None:
        pass

    def reading(self) -> None:
        pass

    def settle(self, digest: str, **_: Any) -> None:
        self.digest = digest


@dataclass(frozen=True)
class Series:
    """The series of a query file, with the ledger that it is charged to."""

    file: QueryFile
    ledger: Any
    periods: Mapping[str, tuple[date, date]]
    memory: Memory
    #: The instalments of each longer period whose total is published, and how long it is.
    totals: Mapping[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: QueryFile, ledger: Any) -> "Series":
        """The series of a query file, checked as far as that needs no data."""
        keys = file.series.given()
        for key in ("from", "until", "column"):
            if keys.get(key) is None:
                raise ArgumentError(f"{key} must be given in [series]", argument=key)
        if file.series.max_periods < 1:
            most = file.series.max_periods
            raise ArgumentError(f"max_periods must be at least 1, got {most}", argument="max_periods")
        if ledger is None or file.data.dataset is None:
            raise ArgumentError("ledger must be given for a series, which is charged once", argument="ledger")
        out = file.output
        for key, path in (("out", out.out), ("report", out.report)):
            if path is not None and PERIOD not in path:
                raise ArgumentError(
                    f"{key} must have {PERIOD} where the period goes, as in 'births-{PERIOD}.csv', got {path!r}",
                    argument=key,
                )
        if out.out is None and out.report is None:
            raise ArgumentError(
                f"out must be given: the files of a series, as in 'births-{PERIOD}.csv'", argument="out"
            )
        periods = periods_between(file.series.period, keys["from"], keys["until"])
        made = cls(file, ledger, periods, Memory(Path()), _totals(file, periods))
        return replace(made, memory=Memory(made._folder()))

    def _folder(self) -> Path:
        """The private folder of this series."""
        store = self.file.series.store
        if store is None:
            if "://" in self.ledger.name:
                raise ArgumentError(
                    "store must be given in [series], the private folder for who was counted: the ledger is on a "
                    "server",
                    argument="store",
                )
            store = f"{self.ledger.name}.series"
        return Path(store) / self.name

    @property
    def name(self) -> str:
        """The name of the series in the ledger: a hash of all that decides what it is."""
        plain = json.loads(json.dumps(self.file.given(), default=str))
        own = {part: plain[part] for part in _OWN if plain.get(part)}
        kept = {
            part: {key: value for key, value in keys.items() if key not in _PLACES} if isinstance(keys, dict) else keys
            for part, keys in own.items()
        }
        kept["series"].pop("totals", None)  # which change nothing of the instalments
        kept["plan"] = {name: str(value) for name, value in self.file.plan_options().items()}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def together(self) -> int:
        """The number of instalments by which neighbours can differ."""
        most, count = self.file.series.max_periods, len(self.periods)
        relation = self.file.data.neighbours or "add_remove"
        return Partition((("", ""),) * count, most, relation).together

    def publish(self, today: date, *, only: str | None = None) -> Iterator[Instalment]:
        """Publish the instalments that are due and not out, one after the other; `only` one of them."""
        if only is not None and only not in (known := [*self.periods, *self.totals]):
            raise ArgumentError(f"period must be one of {', '.join(known)}, got {only!r}", argument="period")
        with self.memory.held():
            entry = self._charge()
            for period, (_, end) in self.periods.items():
                if only not in (None, period):
                    continue
                if today < end:
                    yield Instalment(period, end, "not due")
                else:
                    yield self._publish(entry, period, end, partial(self._make, entry, period))
            for name, names in self.totals.items():
                if only in (None, name):
                    yield self._publish_total(entry, name, names, today)
            self._settle(entry)

    def _settle(self, entry: int) -> None:
        """Settle the charge of the series once all instalments are out."""
        dataset = self.file.data.dataset
        _, known, _ = self.ledger.instalments(dataset, self.name)
        if all(period in known and known[period].status == "published" for period in self.periods):
            self.ledger.settle(dataset, entry, output=f"{len(self.periods)} instalments, in the notes")

    def _charge(self) -> int:
        """Charge the series, unless it was charged before; the entry of the charge."""
        query = self._query(next(iter(self.periods)), self.ledger)
        try:
            plan = self._plan(query)
            for name, own in query.tables.items() if self.totals else ():
                _check_additive(own, plan.tables[name])
            charge = Charge.compose([plan.charge] * self.together)
            entry, known, before = self.ledger.instalments(self.file.data.dataset, self.name)
            if entry is not None:
                if before != charge:
                    raise OtherNoiseError(
                        f"the noise of this series is planned otherwise than when entry {entry} was charged: publish "
                        "its other instalments with the version of osgt that began it"
                    )
                self.memory.check(known)
            data = query.dataset
            names = [*self.periods, *all_longer_periods(self.file.series.period, self.periods)]
            # A charge from before is returned; whose table is read today is checked all the same.
            reservation = self.ledger.reserve(
                data.dataset,
                charge,
                query=json.dumps(query.to_dict(), sort_keys=True, default=str),
                title=f"{'; '.join(title_of(own) for own in query.tables.values())}, {len(self.periods)} instalments",
                unit=data.privacy_unit,
                neighbours=data.neighbours,
                table=data.identity,
                epsilon=plan.epsilon,
                delta=plan.delta,
                series={"name": self.name, "periods": names, "together": self.together},
            )
            reservation.reading()
            return int(reservation.sequence)
        finally:
            query.dataset.close()

    def _publish_total(self, entry: int, name: str, names: list[str], today: date) -> Instalment:
        """Publish the total of a longer period once all its instalments are out."""
        end = self.periods[names[-1]][1]
        _, known, _ = self.ledger.instalments(self.file.data.dataset, self.name)
        if today < end:
            return Instalment(name, end, "not due")
        if any(period not in known or known[period].status != "published" for period in names):
            return Instalment(name, end, "incomplete")
        return self._publish(entry, name, end, partial(self._add_up, entry, name, names))

    def _publish(self, entry: int, period: str, end: date, make: Callable[[], dict[str, Any]]) -> Instalment:
        """Publish an instalment, or go on with it where another run has stopped."""
        secret = self.memory.secret(period)
        status = self.ledger.hand_out(self.file.data.dataset, entry, period, secret)
        made = self.memory.read_made(period)
        if status == "published":
            if made is None:
                raise self.memory.forgotten(period, "is published, and its files are not known here")
            if not (self.memory.folder / period).exists():
                return Instalment(period, end, "published before")
        else:
            made = make() if made is None else made
            told = {
                "output": ", ".join(os.path.abspath(place) for place, _ in made["files"].values()),
                "statement_hash": made["statement_hash"],
                "output_hashes": [digest for _, digest in made["files"].values()],
                "mark": self.memory.mark(period),
            }
            self.ledger.record_published(self.file.data.dataset, entry, period, secret, told)
        for name, (place, digest) in made["files"].items():
            _copy(self.memory.folder / period / name, Path(place), digest, self._apart())
        shutil.rmtree(self.memory.folder / period, ignore_errors=True)
        return Instalment(period, end, "published now", tuple(Path(place) for place, _ in made["files"].values()))

    def _make(self, entry: int, period: str) -> dict[str, Any]:
        """Measure an instalment, and make its files in the private folder."""
        handed = _Handed(self.ledger.name, f"{entry}{INSTALMENT}{period}")
        file = self._named(period)
        targets = release_targets(file, lambda _, path, suffixes: Target(path, suffixes, apart=self._apart()))
        query = self._query(period, handed)
        try:
            plan = self._plan(query)
            query.check_release(plan)  # what is wrong is refused before a row is read
            counting = self._count(query.dataset, period)
            if counting is not None:
                query = self._query(period, handed, counting, query.dataset)
            release = make_release(query, plan, presentation_of(file))
            about = checked_texts(query.tables, {"period": period, **file.report.texts()})
            files = self._write(period, targets, release, about)
            for name, table in release.tables.items():
                with written(Target(self.memory.numbers(period, name), overwrite=True)) as place:
                    write_parquet(table.table, table.statement, about, place)
            release.settle(place=period)
            left_out = {name: table.left_out for name, table in release.tables.items()}
            allowances = {name: {} if told is None else told.allowances for name, told in left_out.items()}
            made = {"files": files, "statement_hash": handed.digest, "allowances": allowances}
            self.memory.finish(period, made)
            return made
        finally:
            query.dataset.close()

    def _write(
        self, period: str, targets: Mapping[str, Target], release: AnyRelease, about: About
    ) -> dict[str, tuple[str, str]]:
        """Write the files of an instalment in the private folder: for each its place and its hash."""
        folder = self.memory.begin(period)
        names = {key: Path(target.path).name for key, target in targets.items()}
        own = {key: replace(targets[key], path=folder / name, apart=()) for key, name in names.items()}
        with written_together(own) as places:
            fill(release, own, places, about)
        return {names[key]: (os.fspath(target.path), file_hash(own[key].path)) for key, target in targets.items()}

    def _add_up(self, entry: int, name: str, names: list[str]) -> dict[str, Any]:
        """Add up what the instalments of a longer period have published. No row is read."""
        file = self._named(name)
        file = file.model_copy(update={"output": file.output.model_copy(update={"report": None})})
        targets = release_targets(file, lambda _, path, suffixes: Target(path, suffixes, apart=self._apart()))
        handed = _Handed(self.ledger.name, f"{entry}{INSTALMENT}{name}")
        query = self._query(names[-1], handed)
        try:
            parts = {
                table: [read_published(self.memory.numbers(period, table)) for period in names]
                for table in query.tables
            }
            total = Total(name, names, self.file.series.period, handed.sequence)
            allowances = [(self.memory.read_made(period) or {})["allowances"] for period in names]
            release = _add_releases(query, self._plan(query), parts, allowances, total, str(entry))
            about = checked_texts(query.tables, {"period": name, **file.report.texts()})
            files = self._write(name, targets, release, about)
        finally:
            query.dataset.close()
        made = {"files": files, "statement_hash": statement_hash(release.statement.to_dict())}
        self.memory.finish(name, made)
        return made

    def _count(self, data: Any, period: str) -> Any:
        """Remember who counts in a period: a table of the engine with those that may."""
        if not self.file.series.remember:
            return None
        try:
            answer = fetch(compile_query(units_of(data.table, data.unit)))
        except Exception as error:  # it may quote the data
            raise NothingReleasedError(error, charged=True) from error
        [column] = answer.columns
        units = [unit if isinstance(unit, bytes) else str(unit).encode() for unit in column.to_pylist()]
        kind = data.table.columns[data.unit.columns[0]].kind
        allowed = self.memory.count(period, units, kind, self.file.series.max_periods)
        kept = answer.filter(pa.array(allowed, pa.bool_()))
        return data.engine.small_table(data.table.connection, kept.combine_chunks())

    def _plan(self, query: Query | Publication) -> AnyPlan:
        plan = query.plan(**self.file.budget.given(), **self.file.plan_options())
        if plan.choice is not None:
            # Whether it fails is seen, and after that it must not be tried again.
            named = " and ".join(draw.limit.words for draw in plan.choice.draws)
            raise ValueError(f"the limits of a series must be given, not chosen by each instalment: give {named}")
        return plan

    def _query(self, period: str, ledger: Any, counting: Any = None, opened: Any = None) -> Query | Publication:
        """The query about the rows of a period; of those who count in it, where that is known."""

        def restrict(data: Dataset) -> Dataset:
            return data.restricted_to(replace(self._part(data, period), counting=counting))

        return build_query(self.file, ledger, restrict, opened)

    def _part(self, data: Dataset, period: str) -> Part:
        """The part of the people who have rows in a period."""
        column = self.file.series.column
        kind = data.type_of("column", column).kind
        if kind not in ("date", "timestamp"):
            raise ArgumentError(f"column must be a date or a time, and {column!r} is {kind}", argument="column")
        kinds = [data.table.columns[name].kind for name in data.unit.columns]
        if self.file.series.remember and kinds not in (["text"], ["integer"]):
            raise ArgumentError(
                "remember must be false unless one column of text or whole numbers names the unit", argument="remember"
            )
        name = data.engine.quote(str(column))
        conditions = {
            each: f"{name} >= DATE '{start}' AND {name} < DATE '{end}'" for each, (start, end) in self.periods.items()
        }
        if len(conditions) == 1:
            raise ArgumentError("until must be after from: a series has two periods or more", argument="until")
        parts = parts_of(data.stored, conditions, self.file.series.max_periods)
        [part] = [part for part in parts if part.name == period]
        return replace(part, remembered=self.file.series.remember)

    def _named(self, period: str) -> QueryFile:
        """The query file with the files of an instalment."""
        out = self.file.output
        named = {
            key: None if path is None else path.replace(PERIOD, period)
            for key, path in (("out", out.out), ("report", out.report))
        }
        return self.file.model_copy(update={"output": out.model_copy(update=named)})

    def _apart(self) -> tuple[str, ...]:
        return (*files_used(self.file), os.fspath(self.memory.folder))


def _totals(file: QueryFile, periods: Mapping[str, tuple[date, date]]) -> dict[str, list[str]]:
    """The longer periods whose totals a query file asks for, each with the names of its periods."""
    length = file.series.period
    result: dict[str, list[str]] = {}
    for longer in file.series.totals:
        names = longer_periods(length, periods, longer)
        if not names:
            raise ArgumentError(
                f"totals: the periods of this series, each a {length}, make no whole {longer}", argument="totals"
            )
        result |= names
    if result and file.output.out is None:
        raise ArgumentError("out must be given where totals are: a report alone has none", argument="out")
    if result and file.output.nonnegative:
        raise ArgumentError(
            "nonnegative must be left out where totals are: sums of numbers that were raised to 0 are too large",
            argument="nonnegative",
        )
    return result


def _check_additive(query: QuerySpec, plan: Plan) -> None:
    """Raise unless a table has numbers that add up over time, in the same groups in each instalment."""
    if not query.groups.shows_all:
        raise ArgumentError(
            "totals of a series need public_keys: groups that are chosen by their size are not in each instalment",
            argument="totals",
        )
    if not additive(plan):
        raise ArgumentError(
            "totals must be left out where a table has neither counts nor sums: other numbers of several periods do "
            "not add up",
            argument="totals",
        )


def _add_releases(
    query: Query | Publication,
    plan: AnyPlan,
    parts: Mapping[str, list[Published]],
    allowances: list[Mapping[str, Allowances]],
    total: Total,
    entry: str,
) -> AnyRelease:
    """Add up the tables of the instalments of a longer period, with their statement."""
    last = {name: published[-1].statement for name, published in parts.items()}
    told = next(iter(last.values())).values
    marks = Marks(*told["marks"].values()) if "marks" in told else None
    version = told["software"].removeprefix("osgt ")
    date_made = datetime.fromisoformat(told["date"])
    made = Made(False, told["intervals"], marks, told.get("corrects"), date_made, version, entry)
    tables = {}
    for name, own in query.tables.items():
        own_plan = replace(plan.tables[name], aggregates=tuple(additive(plan.tables[name])))
        own_allowances = [one[name] for one in allowances] if told["intervals"] == "truth" else []
        added = add_tables([_table_of(one) for one in parts[name]], own_plan, marks, own_allowances)
        tables[name] = NoisyTable(with_rates(own, added), own_plan, own, None)
    whole, statements = statements_of_total(total, tables, plan, made, last)
    releases = {
        name: Release(table.table, table.plan, table.query, None, statements[name]) for name, table in tables.items()
    }
    if isinstance(plan, PublicationPlan):
        return PublicationRelease(releases, plan, query, whole)
    return releases[""]


def _table_of(instalment: Published) -> pa.Table:
    """The table of an instalment; none may be missing in a total."""
    if instalment.table is None:
        raise ValueError("the numbers of an instalment cannot be read: its total would be too small")
    return instalment.table


def publish(query: str | os.PathLike[str], *, period: str | None = None, today: date | None = None) -> list[Instalment]:
    """Publish what is due of a series, as `osgt publish`; see the docs on a table every month.

    Parameters
    ----------
    query
        The query file (TOML) of the series.
    period
        Only this instalment, or this total, if it is due: "2027-01" or "2027-Q1".
    today
        The day up to which periods are over, if it is not today.
    """
    file = read_query_file(Path(query))
    with ExitStack() as stack:
        ledger = None if file.data.ledger is None else stack.enter_context(Ledger(file.data.ledger))
        return [*Series.of(file, ledger).publish(today or date.today(), only=period)]


def _copy(source: Path, place: Path, digest: str, apart: tuple[str, ...]) -> None:
    """Put a file that is made in its place, unless it is there."""
    if place.is_file() and file_hash(place) == digest:
        return
    with written(Target(place, apart=apart, name="out", option="move it away: nothing")) as new:
        shutil.copyfile(source, new)
