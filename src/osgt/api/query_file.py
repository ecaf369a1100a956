"""The query that a query file describes, on its data, and its release. Opens the source, but reads no rows."""

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from osgt.api.dataset import Dataset
from osgt.api.publication import Publication
from osgt.api.publish import Observer, Outcome, close_data, publish
from osgt.api.query import Query
from osgt.api.release import checked_texts, table_files
from osgt.data.types import UndeclaredTypeError
from osgt.plan.plan import AnyPlan
from osgt.query.about import About
from osgt.query.aggregates import AGGREGATES
from osgt.query.aggregates.kinds import Arguments
from osgt.query.file.model import GroupsTable, QueryFile
from osgt.render.published import SUFFIXES, check_writable, out_key, with_descriptions
from osgt.support.errors import ArgumentTypeError
from osgt.support.files import Target

#: Keys of [data] that are no arguments of `Dataset`.
_APART = ("derive", "where", "ledger", "dataset")


def build_query(file: QueryFile, ledger: Any = None) -> Query | Publication:
    """Build the query of a file, or all of them if there are several tables."""
    with _declarable():
        return _build_publication(file, ledger) if file.table else _build_one(file, ledger)


def build_single_query(file: QueryFile, ledger: Any = None) -> Query:
    """Build the query of a file that has one table."""
    if file.table:
        raise ValueError("this is for one table: give a query file with [groups] and [[aggregates]], no [[table]]")
    with _declarable():
        return _build_one(file, ledger)


def add_groups(dataset: Dataset, groups: GroupsTable, aggregates: list[Arguments]) -> Query:
    """Ask for the groups and aggregates of a file."""
    given = groups.given()
    given.pop("by", None)
    query = dataset.group_by(*listed(groups.by), **given)
    for aggregate in aggregates:
        arguments = aggregate.given()
        query = AGGREGATES[arguments.pop("kind")].method(query, **arguments)
    return query


def add_conditions(dataset: Dataset, conditions: str | list[str] | None) -> Dataset:
    """Keep the rows that meet the conditions of a file."""
    for condition in listed(conditions):
        dataset = dataset.where(condition)
    return dataset


def listed(texts: str | list[str] | None) -> list[str]:
    """List the texts of a key that may hold one, several or none."""
    return [texts] if isinstance(texts, str) else texts or []


def _open_dataset(file: QueryFile, ledger: Any) -> Dataset:
    data = {name: value for name, value in file.data.given().items() if name not in _APART}
    if ledger is not None:
        data |= {"ledger": ledger, "dataset": file.data.dataset}
    dataset = Dataset(data.pop("source"), data.pop("privacy_unit"), **data)
    return add_conditions(dataset.derive(file.data.derive or {}), file.data.where)


def _build_one(file: QueryFile, ledger: Any) -> Query:
    return add_groups(_open_dataset(file, ledger), file.groups, file.aggregates)


def _build_publication(file: QueryFile, ledger: Any) -> Publication:
    if file.groups.given() or file.aggregates:
        raise ValueError(
            "groups and aggregates must be left out where there are several tables: each [[table]] has its own, "
            "under [table.groups] and [[table.aggregates]]"
        )
    names = [table.name for table in file.table]
    if len(set(names)) < len(names):
        raise ValueError(f"each [[table]] must have a name of its own, got {', '.join(names)}")
    dataset = _open_dataset(file, ledger)
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


@dataclass(frozen=True)
class Request:
    """A query file that is opened to be published: its query, plan, files and texts, checked. Nothing is charged."""

    file: QueryFile
    query: Query | Publication
    plan: AnyPlan
    targets: Mapping[str, Target]
    about: About

    @classmethod
    def of(cls, file: QueryFile, ledger: Any, targets: Mapping[str, Target]) -> Self:
        """Open data and ledger anew; refuse files that cannot be written, or cannot hold the table."""
        for target in targets.values():
            target.checked()
        query = build_query(file, ledger)
        try:
            plan = query.plan(**file.budget.given(), **file.plan_options())
            if file.output.out is not None:
                for own in query.tables.values():
                    check_writable(own, file.output.out)
            return cls(file, query, plan, targets, checked_texts(query.tables, file.report.texts()))
        except BaseException:
            close_data(query)
            raise

    def publish(self, observe: Observer = lambda _: None) -> Outcome:
        """Release the query into its files."""
        nonnegative = self.file.output.nonnegative
        return publish(self.query, self.plan, self.targets, self.about, nonnegative=nonnegative, observe=observe)

    def close(self) -> None:
        """Close data and ledger."""
        close_data(self.query)


def files_used(file: QueryFile, query_file: Path | None = None) -> list[str]:
    """List the files and ledgers that a release reads or charges, and so never replaces."""
    keys = [file.groups.public_keys, *(table.groups.public_keys for table in file.table)]
    used = [text for text in (file.data.source, file.data.ledger, *keys) if isinstance(text, str)]
    return used if query_file is None else [*used, glob.escape(os.fspath(query_file))]


def release_targets(file: QueryFile, target: Callable[[str, Path, tuple[str, ...]], Target]) -> dict[str, Target]:
    """The files that a release writes; `target` makes one of the key in [output], the path and its endings."""
    out, report = file.output.out, file.output.report
    files: dict[str, str | Path] = {} if report is None else {"report": report}
    if out is not None:
        names = [table.name for table in file.table]
        tables = {out_key(name): path for name, path in table_files(names, out).items()} if names else {"out": out}
        files = {**tables, **files}
    keys = {key: "report" if key == "report" else "out" for key in files}
    return with_descriptions({key: target(keys[key], Path(path), SUFFIXES[keys[key]]) for key, path in files.items()})
