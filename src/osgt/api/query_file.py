"""The query that a query file describes, on its data, and its release. Opens the source, but reads no rows."""

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from osgt.api.dataset import Dataset
from osgt.api.publication import Publication
from osgt.api.publish import Observer, Outcome, close_data, publish
from osgt.api.query import Query
from osgt.api.release import checked_texts, out_files
from osgt.data.types import UndeclaredTypeError
from osgt.plan.plan import AnyPlan
from osgt.query.about import About
from osgt.query.aggregates.base import QuerySpec
from osgt.query.aggregates.marks import Marks
from osgt.query.file import as_list
from osgt.query.file.aggregates import Arguments
from osgt.query.file.model import GroupsTable, QueryFile
from osgt.query.file.reading import with_parts
from osgt.query.from_sql import named_table, read_select
from osgt.query.levels import known_files
from osgt.release.measuring import Presentation
from osgt.render.published import SUFFIXES, check_writable, with_descriptions
from osgt.support.errors import ArgumentTypeError
from osgt.support.files import Target

#: The limits of [groups], and those of an aggregate: one of the two.
_GROUP_LIMITS = ("max_rows", "max_length", "max_groups", "max_rows_per_group")
_VALUE_LIMITS = ("bounds", "max_total", "max_distinct")


def build_query(
    file: QueryFile,
    ledger: Any = None,
    restrict: Callable[[Dataset], Dataset] = lambda data: data,
    opened: Dataset | None = None,
) -> Query | Publication:
    """Build the query of a file, or all of them if there are several tables.

    `restrict` takes some of its rows; `opened` is its data set if that is open already.
    """
    with _declarable():
        data = restrict(Dataset.of(file, ledger) if opened is None else opened)
        return _build_publication(file, data) if file.table else add_groups(data, file.groups, file.aggregates)


def add_groups(dataset: Dataset, groups: GroupsTable, aggregates: list[Arguments]) -> Query:
    """Ask for the groups and aggregates of a file."""
    given = groups.given()
    given.pop("by", None)
    query = dataset.group_by(*as_list(groups.by), **given)
    for aggregate in aggregates:
        arguments = aggregate.given()
        query = getattr(query, arguments.pop("kind"))(**arguments)
    return query


def add_select(file: QueryFile, text: str, bounds: Mapping[str, Sequence[float]]) -> QueryFile:
    """Add what a SELECT asks for to a file that says which data are meant. Opens the source, but reads no rows."""
    if file.tables and file.data.rows is None:
        with closing(Dataset.of(file)) as data:
            name = named_table(text, data)
        if name in file.tables:
            file = with_parts(file, {"data": {"rows": name}}, [])
    with _declarable(), closing(Dataset.of(file)) as data:
        data.dataset = file.data.dataset  # a name that FROM may have
        asked = read_select(text, data, bounds)
    where = [*as_list(file.data.where), *([] if asked.where is None else [asked.where])]
    parts: dict[str, dict[str, Any]] = {
        "data": {"derive": {**(file.data.derive or {}), **asked.derive}, "where": where},
        "groups": {"by": asked.by, "totals": asked.totals},
    }
    given = {part: {key: value for key, value in keys.items() if value} for part, keys in parts.items()}
    known = {name: file.columns[column] for name, column in asked.renamed.items() if column in file.columns}
    if known:
        typeless = {name: column.model_copy(update={"type": None}) for name, column in known.items()}
        file = file.model_copy(update={"columns": {**file.columns, **typeless}})
    return with_parts(file, given, asked.aggregates)


def add_description(file: QueryFile, columns: Sequence[str] | None) -> QueryFile:
    """Add the counts and quartiles of columns to a file that says which data are meant. Opens the source."""
    with _declarable(), closing(Dataset.of(file)) as data:
        return with_parts(file, {}, data.description(columns))


def fill_limits(file: QueryFile, queries: Mapping[str, QuerySpec]) -> QueryFile:
    """Write the limits that were chosen for the query of each table into their file, where that leaves them open."""
    if not file.table:
        return file.model_copy(update=_filled(file.groups, file.aggregates, queries[""]))
    tables = [
        table.model_copy(update=_filled(table.groups, table.aggregates, queries[table.name])) for table in file.table
    ]
    return file.model_copy(update={"table": tables})


def _filled(groups: GroupsTable, aggregates: list[Arguments], query: QuerySpec) -> dict[str, Any]:
    given, filled = groups.given(), []
    is_open = not any(name in given for name in _GROUP_LIMITS if name != "max_groups")
    limits = query.groups.limits if is_open else {}
    for arguments, aggregate in zip(aggregates, query.aggregates, strict=True):
        is_given = any(name in arguments.given() for name in _VALUE_LIMITS)
        values = {name: value for name, value in aggregate.arguments().items() if name in _VALUE_LIMITS}
        filled.append(arguments if is_given else arguments.model_copy(update=values))
    return {"groups": groups.model_copy(update=limits | given), "aggregates": filled}


def reopen_limits(file: QueryFile) -> QueryFile:
    """Leave the limits on rows and groups out of a file, so that its release chooses them.

    Counts of units keep their limit on groups that are chosen by their size: nothing else limits them.
    """
    if not file.table:
        return file.model_copy(update={"groups": _reopened(file.groups, file.aggregates)})
    tables = [table.model_copy(update={"groups": _reopened(table.groups, table.aggregates)}) for table in file.table]
    return file.model_copy(update={"table": tables})


def _reopened(groups: GroupsTable, aggregates: list[Arguments]) -> GroupsTable:
    counts_units = any(aggregate.kind == "count_units" for aggregate in aggregates)
    stays = ("max_groups",) if counts_units and groups.public_keys is None else ()
    given = groups.given().items()
    return GroupsTable.model_validate(
        {name: value for name, value in given if name in stays or name not in _GROUP_LIMITS}
    )


def add_conditions(dataset: Dataset, conditions: str | list[str] | None) -> Dataset:
    """Keep the rows that meet the conditions of a file."""
    for condition in as_list(conditions):
        dataset = dataset.where(condition)
    return dataset


def _build_publication(file: QueryFile, dataset: Dataset) -> Publication:
    if file.groups.given() or file.aggregates:
        raise ValueError(
            "groups and aggregates must be left out where there are several tables: each [[table]] has its own, "
            "under [table.groups] and [[table.aggregates]]"
        )
    names = [table.name for table in file.table]
    if len(set(names)) < len(names):
        raise ValueError(f"each [[table]] must have a name of its own, got {', '.join(names)}")
    queries = {}
    for table in file.table:
        with _named(table.name):
            queries[table.name] = add_groups(add_conditions(dataset, table.where), table.groups, table.aggregates)
    return Publication(queries).weighted({table.name: table.weight for table in file.table})


@contextmanager
def _declarable() -> Iterator[None]:
    """Say how a type is declared on the command line and in a query file."""
    try:
        yield
    except UndeclaredTypeError as error:
        option = f"--type {error.column}:{error.example}"
        key = f'{error.column} = "{error.example}" in [data.types] of a query file'
        raise ArgumentTypeError(error.message(f"{option}, or {key}"), argument=error.argument) from None


@contextmanager
def _named(table: str) -> Iterator[None]:
    """Say in which table something is wrong."""
    try:
        yield
    except UndeclaredTypeError:
        raise
    except (ValueError, TypeError) as error:
        raise type(error)(f"table {table!r}: {error}") from None


def presentation_of(file: QueryFile) -> Presentation:
    """How the tables of a query file are to be shown."""
    output = file.output
    return Presentation(output.nonnegative, output.intervals, Marks.of(output.marks), output.corrects)


@dataclass(frozen=True)
class Request:
    """A query file that is opened to be published: its query, plan, files and texts, checked. Nothing is charged."""

    file: QueryFile
    query: Query | Publication
    plan: AnyPlan
    targets: Mapping[str, Target]
    about: About
    presentation: Presentation

    @classmethod
    def of(cls, file: QueryFile, ledger: Any, targets: Mapping[str, Target]) -> Self:
        """Open data and ledger anew; refuse files that cannot be written, or cannot hold the table."""
        if file.series.given():
            raise ValueError("a query file with [series] is published by `osgt publish`, instalment by instalment")
        presentation = presentation_of(file)
        for target in targets.values():
            target.checked()
        query = build_query(file, ledger)
        try:
            plan = query.plan(**file.budget.given(), **file.plan_options())
            if file.output.out is not None:
                for own in query.tables.values():
                    check_writable(own, file.output.out)
            return cls(file, query, plan, targets, checked_texts(query.tables, file.report.texts()), presentation)
        except BaseException:
            close_data(query)
            raise

    def publish(self, observe: Observer = lambda _: None) -> Outcome:
        """Release the query into its files."""
        return publish(self.query, self.plan, self.targets, self.about, self.presentation, observe=observe)

    def close(self) -> None:
        """Close data and ledger."""
        close_data(self.query)


def files_used(file: QueryFile, query_file: Path | None = None) -> list[str]:
    """List the files and ledgers that a release reads or charges, and so never replaces."""
    groups = [file.groups, *(table.groups for table in file.table)]
    keys = [
        *(own for each in groups for own in (each.public_keys, each.per)),
        *(known for each in groups if each.totals for known in known_files(each.totals)),
    ]
    lists = [column.values for column in file.columns.values()]
    joined = [table.source for table in file.tables.values()]
    named = (file.data.file, file.data.source, file.data.ledger, *joined, *keys, *lists)
    used = [text for text in named if isinstance(text, str)]
    return used if query_file is None else [*used, glob.escape(os.fspath(query_file))]


def release_targets(file: QueryFile, target: Callable[[str, Path, tuple[str, ...]], Target]) -> dict[str, Target]:
    """The files that a release writes; `target` makes one of the key in [output], the path and its endings."""
    out, report = file.output.out, file.output.report
    files: dict[str, str | Path] = {} if report is None else {"report": report}
    if out is not None:
        files = {**out_files([table.name for table in file.table], out), **files}
    keys = {key: "report" if key == "report" else "out" for key in files}
    return with_descriptions({key: target(keys[key], Path(path), SUFFIXES[keys[key]]) for key, path in files.items()})
