"""Whose budget it is: the people, what neighbouring data are, and the tables that are about them.

Releases add up only if they protect the same units under the same relation. Both are declared when a budget is opened,
or else taken from the first release that says them; from then on every release must agree. The same holds for tables:
several tables share a budget only if somebody says so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from osgt.ledger.errors import OtherSubjectError
from osgt.ledger.texts import name_of, optional_name, optional_text

NEIGHBOURS = ("add_remove", "change_one")


@dataclass(frozen=True)
class Table:
    """A table: its name, the column that names the unit in it, and a fingerprint of its columns' names and types.

    What is not known is None. `source` says where it was read and is only told: files move.
    """

    name: str | None
    unit: str | None = None
    schema: str | None = None
    source: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Plain values, for JSON."""
        return {"name": self.name, "unit": self.unit, "schema": self.schema, "source": self.source}

    @classmethod
    def of(cls, value: object, argument: str = "table") -> "Table":
        """The table that a name, `name:column` or plain values stand for."""
        if isinstance(value, Table):
            return value
        if isinstance(value, Mapping):
            unknown = set(value) - {"name", "unit", "schema", "source"}
            if unknown:
                raise ValueError(f"{argument} must have name, unit, schema and source, got {sorted(unknown)} as well")
            return cls(
                optional_name(value.get("name"), argument),
                optional_name(value.get("unit"), argument),
                optional_name(value.get("schema"), argument),
                optional_text(value.get("source"), argument),
            )
        name, colon, unit = name_of(value, argument).partition(":")
        return cls(name_of(name, argument), name_of(unit, argument) if colon else None)

    def matches(self, other: "Table") -> bool:
        """Whether both can be the same table."""
        return all(
            mine is None or theirs is None or mine == theirs
            for mine, theirs in ((self.name, other.name), (self.schema, other.schema))
        )


@dataclass(frozen=True)
class Subject:
    """What a release is about. What it does not say is None."""

    unit: str | None = None
    neighbours: str | None = None
    table: Table | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        table = None if self.table is None else self.table.to_dict()
        return {"unit": self.unit, "neighbours": self.neighbours, "table": table}

    @classmethod
    def of(cls, unit: object, neighbours: object, table: object) -> "Subject":
        """The subject with these values, or an error that says what is wrong with them."""
        return cls(
            optional_name(unit, "unit"), _relation(neighbours), None if table is None else Table.of(table, "table")
        )


@dataclass(frozen=True)
class Owners:
    """Whose budget it is, as far as that was declared, or told by releases (`declared` is False then)."""

    unit: str | None = None
    neighbours: str | None = None
    tables: tuple[Table, ...] = ()
    declared: bool = False
    tables_declared: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "unit": self.unit,
            "neighbours": self.neighbours,
            "tables": [table.to_dict() for table in self.tables],
        }

    @classmethod
    def of(cls, unit: object, neighbours: object, tables: object) -> "Owners":
        """What is declared when a budget is opened, or an error that says what is wrong with it."""
        found = tables_of(tables)
        if unit is None and (neighbours is not None or found):
            raise ValueError("unit must be given with neighbours or tables: whom the budget protects")
        relation = _relation(neighbours) or (None if unit is None else NEIGHBOURS[0])
        return cls(optional_name(unit, "unit"), relation, found, unit is not None, bool(found))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Owners":
        """What `to_dict` wrote into the opening of a budget."""
        return cls.of(plain["unit"], plain["neighbours"], plain["tables"])

    def with_tables(self, plain: Iterable[Mapping[str, Any]]) -> "Owners":
        """The same people with these tables."""
        return replace(self, tables=tables_of(plain), tables_declared=True)

    def bound(self, subject: Subject) -> "Owners":
        """With what a release has said that was not known before."""
        unit, neighbours = self.unit or subject.unit, self.neighbours or subject.neighbours
        tables, table = self.tables, subject.table
        if table is not None:
            at = self._place(table)
            if at is None:
                tables = (*tables, table)
            elif tables[at].schema is None and table.schema is not None:
                known = replace(tables[at], schema=table.schema, source=table.source)
                tables = (*tables[:at], known, *tables[at + 1 :])
        if (unit, neighbours, tables) == (self.unit, self.neighbours, self.tables):
            return self
        return replace(self, unit=unit, neighbours=neighbours, tables=tables)

    def check(self, dataset: str, subject: Subject) -> None:
        """Refuse a release that is about someone or something else."""
        if self.declared and subject.unit is None:
            raise OtherSubjectError(
                f"refused, nothing was charged: the budget of {dataset!r} protects {self.unit!r}, and this release "
                f"does not say whom it is about. Give unit={self.unit!r} if it is about them"
            )
        self._check_table(dataset, subject)
        expected = self.column(subject.table) if subject.table is not None else self.unit
        if expected is not None and subject.unit not in (None, expected, self.unit):
            raise OtherSubjectError(
                f"refused, nothing was charged: the budget of {dataset!r} protects {self.unit!r}, and this release "
                f"protects {subject.unit!r}. What protects one does not protect the other: open a budget for "
                f"{subject.unit!r} (osgt ledger open). If both name the same people, say so: osgt ledger table … "
                f"--add NAME:{subject.unit}"
            )
        if None not in (self.neighbours, subject.neighbours) and self.neighbours != subject.neighbours:
            raise OtherSubjectError(
                f"refused, nothing was charged: the budget of {dataset!r} is for the neighbour relation "
                f"{self.neighbours!r}, and this release is planned for {subject.neighbours!r}. Use "
                f"neighbours={self.neighbours!r}, or open a budget for the other relation (osgt ledger open)"
            )

    def column(self, table: Table) -> str | None:
        """The column that names the unit in a table."""
        at = self._place(table)
        return (self.tables[at].unit if at is not None else None) or self.unit

    def _place(self, table: Table) -> int | None:
        named = [i for i, known in enumerate(self.tables) if known.name == table.name and known.matches(table)]
        alike = [i for i, known in enumerate(self.tables) if known.matches(table)]
        return next(iter(named or alike), None)

    def _check_table(self, dataset: str, subject: Subject) -> None:
        table = subject.table
        if table is None or (not self.tables and not self.tables_declared) or self._place(table) is not None:
            return
        shown = table.name or "a frame in memory"
        if any(known.name == table.name for known in self.tables):
            raise OtherSubjectError(
                f"refused, nothing was charged: the columns of {shown!r} have other names or types than in earlier "
                f"releases charged to {dataset!r}. If it is the same table with new columns, say so: osgt ledger table "
                f"… --changed {table.name}. If it is another table, open a budget for it"
            )
        known = ", ".join(repr(one.name or "a frame in memory") for one in self.tables)
        raise OtherSubjectError(
            f"refused, nothing was charged: the budget of {dataset!r} is for {known}, and this release reads "
            f"{shown!r}. If that table is about the same people, say so: osgt ledger table … --add "
            f"{table.name or 'NAME'}. Otherwise open a budget for it (osgt ledger open)"
        )


def tables_of(tables: object) -> tuple[Table, ...]:
    """Tables from names, `name:column`, plain values or a mapping from names to columns."""
    if tables is None:
        return ()
    if isinstance(tables, str) or not isinstance(tables, Iterable):
        raise TypeError(f"tables must be a list of names, got {tables!r}")
    if isinstance(tables, Mapping):
        tables = [{"name": name, "unit": unit} for name, unit in tables.items()]
    found = tuple(Table.of(table, "tables") for table in tables)
    names = [table.name for table in found]
    if len(set(names)) < len(names):
        raise ValueError(f"tables: each table once, got {names}")
    return found


def _relation(value: object) -> str | None:
    if value is not None and value not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, got {value!r}")
    return None if value is None else str(value)
