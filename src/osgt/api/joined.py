"""The tables of a data file: the one that has the privacy unit, and those whose rows belong to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from osgt.data.engines.source import Options
from osgt.data.rows import PrivateRows, name_of
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.text import unknown

if TYPE_CHECKING:
    from osgt.query.file.model import DataFile, JoinedTable

#: The arguments of `Dataset.join` that a table of a data file may have.
_FORM = ("source", "table", "delimiter", "quote", "encoding", "decimal", "date_format")


class Step(NamedTuple):
    """A table that is joined, under its name in the data file, and the columns on which it is."""

    name: str
    given: "JoinedTable"
    on: list[str]

    @property
    def form(self) -> dict[str, Any]:
        """Where the table is and how it is read."""
        return {key: getattr(self.given, key) for key in _FORM if getattr(self.given, key) is not None}

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say which table of the file cannot be joined."""
        try:
            yield
        except (ArgumentError, ArgumentTypeError) as error:
            raise type(error)(f"tables.{self.name}: {error}", argument="tables") from None


def steps_to(file: "DataFile") -> list[Step]:
    """The joins from the table with the privacy unit to the one whose rows are asked about, in their order."""
    name, steps = file.data.rows, list[Step]()
    first = [
        known_as for known_as in (name_of(file.data.source, file.data.table), file.data.dataset) if known_as is not None
    ]
    if name is not None and name not in file.tables and name not in first:
        raise ArgumentError(
            f"rows: {unknown('table', name, [*first[:1], *file.tables], having='there are')}", argument="rows"
        )
    joins = {other: _read_joins(other, table.joins) for other, table in file.tables.items()}
    for other, (onto, _) in joins.items():
        if onto not in file.tables and onto not in first:
            known = [table for table in (*first[:1], *file.tables) if table != other]
            raise ArgumentError(
                f"tables.{other}.joins: {unknown('table', onto, known, having='there are')}", argument="tables"
            )
    while name in joins:
        if name in [step.name for step in steps]:
            raise ArgumentError(f"tables.{name}.joins: the tables belong to one another in a circle", argument="tables")
        onto, on = joins[name]
        steps.insert(0, Step(name, file.tables[name], on))
        name = onto
    return steps


def _read_joins(name: str, text: str) -> tuple[str, list[str]]:
    """Read "patients on patient_id": the table, and the columns."""
    onto, _, columns = text.partition(" on ")
    on = [column.strip() for column in columns.split(",")]
    if not onto.strip() or not all(on):
        raise ArgumentError(
            f'tables.{name}.joins must be a table and the column that both have, as "patients on patient_id", '
            f"got {text!r}",
            argument="tables",
        )
    return onto.strip(), on


def columns_by_table(file: "DataFile", first: PrivateRows, steps: list[Step]) -> list[set[str]]:
    """The names of the columns of the first table and of each that is joined; refuses what is said of no column."""
    names = [set(first.table.columns), *(_names(first, step) for step in steps)]
    asked = set(file.given().get("columns", {})) - set(file.data.derive or {})
    if asked.difference(*names):
        joined = [step.name for step in steps]
        others = [_names(first, Step(name, table, [])) for name, table in file.tables.items() if name not in joined]
        every = set().union(*names, *others)
        for name in sorted(asked - every):
            raise ArgumentError(f"columns: {unknown('column', name, sorted(every))}", argument="columns")
    return names


def _names(first: PrivateRows, step: Step) -> set[str]:
    """The columns of a table on the connection of another one. No row is read."""
    source = step.given.source
    if source is not None and "://" in source:
        raise ArgumentError(
            f"tables.{step.name}.source must be a file; name a table of the same database with table alone",
            argument="tables",
        )
    if source is None and step.given.table is None:
        raise ArgumentError(
            f"tables.{step.name} must have a source (a file) or a table of the database", argument="tables"
        )
    options = Options(**{key: value for key, value in step.form.items() if key != "source"})
    return set(first.engine.beside(first.table.connection, source, options).table.columns)
