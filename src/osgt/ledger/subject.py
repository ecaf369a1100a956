"""The subject of a budget: the people, what neighbouring data are, and the tables that are about them.

Releases add up only if they protect the same units under the same relation. Both are declared when a budget is opened,
or else taken from the first release that says them; from then on every release must agree. The same holds for tables:
several tables share a budget only if somebody says so.

Names and other texts that people give are bounded, in one form, and free of what could deceive a reader.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from osgt.ledger.errors import OtherSubjectError
from osgt.privacy.filters.budget import Partition
from osgt.support.errors import ArgumentError, ArgumentTypeError

#: Most characters of a name, of a reason or a place, and of a query: entries are kept for ever.
LONGEST_NAME = 200
LONGEST_TEXT = 2_000
LONGEST_QUERY = 100_000

#: Control, invisible and unassigned characters, halves of pairs, and what breaks lines.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")

#: Small letters of other scripts that look like Latin ones, as small or as capital letters.
_ALIKE = str.maketrans(
    "авеёзіїјкмнорсѕтухһԁԛԝαβγεζηικμνορτυχ",
    "abee3iijkmhopcstyxhdqwabyezhikmvoptyx",
)


def name_of(value: object, argument: str = "dataset") -> str:
    """A name in its one form, or an error that says what is wrong with it."""
    # Two spellings of one name that look the same would be two budgets.
    name = unicodedata.normalize("NFC", _check_text(value, argument))
    if not name or name != name.strip() or len(name) > LONGEST_NAME:
        raise ArgumentError(
            f"{argument} must be a name of 1 to {LONGEST_NAME} characters without spaces around it, got {name[:300]!r}",
            argument=argument,
        )
    if any(map(_is_hidden, name)):
        raise ArgumentError(
            f"{argument} must not hold control or invisible characters, got {value!r}", argument=argument
        )
    return name


def optional_name(value: object, argument: str) -> str | None:
    """Check a name as `name_of` does; None stays None."""
    return None if value is None else name_of(value, argument)


def text_of(value: object, argument: str, longest: int = LONGEST_TEXT) -> str:
    """A text of bounded length, with a mark in place of each character that is not printed; lines and tabs stay."""
    text = _check_text(value, argument)
    if len(text) > longest:
        raise ArgumentError(
            f"{argument} must have at most {longest:,} characters, got {len(text):,}", argument=argument
        )
    return "".join("�" if _is_hidden(character) and character not in "\n\t" else character for character in text)


def recorded_text(value: object, argument: str, purpose: str) -> str:
    """A text that must not be empty; `purpose`: what it must say."""
    text = text_of(value, argument)
    if not text.strip():
        raise ArgumentError(f"{argument} must say {purpose}: it is recorded permanently", argument=argument)
    return text


def optional_text(value: object, argument: str, longest: int = LONGEST_TEXT) -> str | None:
    """Check a text as `text_of` does; None stays None."""
    return None if value is None else text_of(value, argument, longest)


def _check_text(value: object, argument: str) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(
            f"{argument} must be a text, got {value!r} of type {type(value).__name__}", argument=argument
        )
    return value


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN


def skeleton(name: str) -> str:
    """Reduce a name to its look: equal for names that differ in case, width or look-alike letters only."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).translate(_ALIKE).split())


NEIGHBOURS = ("add_remove", "change_one")


@dataclass(frozen=True)
class Table:
    """A table: its name, the column that names the unit in it, and a fingerprint of its columns' names and own types.

    What is not known is None. `types` are those that were declared for columns of text, such as those of a CSV file: a
    release declares what it needs. `source` says where it was read and is only told: files move.
    """

    name: str | None
    unit: str | None = None
    schema: str | None = None
    source: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return self.name or "a frame in memory"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "types": dict(self.types)}

    @classmethod
    def of(cls, value: object, argument: str = "table") -> "Table":
        """The table that a name, `name:column` or plain values stand for."""
        if isinstance(value, Table):
            return value
        if isinstance(value, Mapping):
            unknown = set(value) - {"name", "unit", "schema", "source", "types"}
            if unknown:
                raise ArgumentError(
                    f"{argument} must have name, unit, schema, source and types, got {sorted(unknown)} as well",
                    argument=argument,
                )
            name, unit, schema = (optional_name(value.get(key), argument) for key in ("name", "unit", "schema"))
            source, types = optional_text(value.get("source"), argument), value.get("types") or {}
            return cls(name, unit, schema, source, _declared_types(types, argument))
        table, colon, column = name_of(value, argument).partition(":")
        return cls(name_of(table, argument), name_of(column, argument) if colon else None)

    def matches(self, other: "Table") -> bool:
        """Whether both can be the same table: a type that only one of them declares is no difference."""
        return self.column_declared_otherwise(other) is None and all(
            mine is None or theirs is None or mine == theirs
            for mine, theirs in ((self.name, other.name), (self.schema, other.schema))
        )

    def column_declared_otherwise(self, other: "Table") -> str | None:
        """The first column for which both declare a type, and not the same; None if there is none."""
        return next((name for name, dtype in self.types.items() if other.types.get(name, dtype) != dtype), None)

    def learn(self, other: "Table") -> "Table":
        """Add what a release of the same table has said that was not known before."""
        if self.schema is None and other.schema is not None:
            return replace(self, schema=other.schema, source=other.source, types={**self.types, **other.types})
        return self if other.types.keys() <= self.types.keys() else replace(self, types={**self.types, **other.types})


@dataclass(frozen=True)
class Subject:
    """The subject of a release. What it does not say is None."""

    unit: str | None = None
    neighbours: str | None = None
    table: Table | None = None
    #: The names and conditions by which it tells parts of the people apart, in their order.
    parts: tuple[tuple[str, str], ...] | None = None
    #: The number of parts in which it lets one unit count.
    max_parts: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        table = None if self.table is None else self.table.to_dict()
        parted: dict[str, Any] = {}
        if self.parts is not None:  # a list, since their order matters
            parted = {"parts": [list(part) for part in self.parts], "max_parts": self.max_parts}
        return {"unit": self.unit, "neighbours": self.neighbours, "table": table, **parted}

    @classmethod
    def of(
        cls, unit: object, neighbours: object, table: object, parts: object = None, max_parts: object = None
    ) -> "Subject":
        """The subject with these values, or an error that says what is wrong with them."""
        known = None if table is None else Table.of(table, "table")
        pairs: Any = parts.items() if isinstance(parts, Mapping) else parts
        told = None if pairs is None else tuple((str(name), str(condition)) for name, condition in pairs)
        most = None if told is None else 1 if max_parts is None else max_parts
        if most is not None and type(most) is not int:
            raise ArgumentTypeError(f"max_parts must be a whole number, got {max_parts!r}", argument="max_parts")
        return cls(optional_name(unit, "unit"), _relation(neighbours), known, told, most)


@dataclass(frozen=True)
class Owners:
    """The owners of a budget, as far as they were declared, or told by releases (`declared` is False then)."""

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
        """Make the owners as declared when a budget is opened, or raise an error that says what is wrong with them."""
        declared = tables_of(tables)
        if unit is None and (neighbours is not None or declared):
            raise ArgumentError(
                "unit must be given with neighbours or tables: whom the budget protects", argument="unit"
            )
        relation = _relation(neighbours) or (None if unit is None else NEIGHBOURS[0])
        return cls(optional_name(unit, "unit"), relation, declared, unit is not None, bool(declared))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Owners":
        """Read what `to_dict` wrote into the opening of a budget."""
        return cls.of(plain["unit"], plain["neighbours"], plain["tables"])

    def with_tables(self, plain: Iterable[Mapping[str, Any]]) -> "Owners":
        """Replace the tables, for the same people."""
        return replace(self, tables=tables_of(plain), tables_declared=True)

    def learn(self, subject: Subject) -> "Owners":
        """Add what a release has said that was not known before."""
        unit, neighbours = self.unit or subject.unit, self.neighbours or subject.neighbours
        tables, table = self.tables, subject.table
        if table is not None:
            at = self._place(table)
            tables = (*tables, table) if at is None else (*tables[:at], tables[at].learn(table), *tables[at + 1 :])
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
                f"{subject.unit!r} (osgt ledger open). If both name the same people, say so: "
                f"osgt ledger table LEDGER {dataset} --add NAME:{subject.unit}"
            )
        if None not in (self.neighbours, subject.neighbours) and self.neighbours != subject.neighbours:
            raise OtherSubjectError(
                f"refused, nothing was charged: the budget of {dataset!r} is for the neighbour relation "
                f"{self.neighbours!r}, and this release is planned for {subject.neighbours!r}. Use "
                f"neighbours={self.neighbours!r}, or open a budget for the other relation (osgt ledger open)"
            )

    def check_part(self, dataset: str, part: str | None, subject: Subject, partition: Partition | None) -> None:
        """Refuse a release about a part of the people that was not declared, or that it tells apart otherwise."""
        if part is None:
            return
        if partition is None or part not in partition.names:
            known = "no parts" if partition is None else f"the parts {', '.join(map(repr, partition.names))}"
            raise OtherSubjectError(
                f"refused, nothing was charged: the budget of {dataset!r} was opened with {known}, and this release is "
                f"about {part!r}. Parts are declared when a budget is opened, since others could overlap them"
            )
        if (subject.parts, subject.max_parts) != (partition.parts, partition.most):
            raise OtherSubjectError(
                f"refused, nothing was charged: the budget of {dataset!r} tells its parts apart by "
                f"{_conditions(partition.parts)}, each unit in at most {partition.most}; this release does by "
                f"{_conditions(subject.parts or ())}. People could be in parts of both: use the budget's own"
            )
        if subject.table is not None and self._place(subject.table) not in (None, 0):
            raise OtherSubjectError(
                f"refused, nothing was charged: the parts of {dataset!r} are told apart in the table "
                f"{self.tables[0].shown!r}, and this release reads {subject.table.shown!r}, in which people could be "
                "in other parts. Release it about everybody, or join the tables"
            )

    def column(self, table: Table) -> str | None:
        """The column that names the unit in a table."""
        at = self._place(table)
        return (self.tables[at].unit if at is not None else None) or self.unit

    def _place(self, table: Table) -> int | None:
        alike = [i for i, known in enumerate(self.tables) if known.matches(table)]
        named = [i for i in alike if self.tables[i].name == table.name]
        return next(iter(named or alike), None)

    def _check_table(self, dataset: str, subject: Subject) -> None:
        """Refuse a table that is not known to be about the same people."""
        table = subject.table
        if table is None or (not self.tables and not self.tables_declared) or self._place(table) is not None:
            return
        same = next((known for known in self.tables if known.name == table.name), None)
        why = self._other_table(dataset, table) if same is None else _other_columns(dataset, table, same)
        raise OtherSubjectError(f"refused, nothing was charged: {why}")

    def _other_table(self, dataset: str, table: Table) -> str:
        known = ", ".join(repr(one.shown) for one in self.tables)
        return (
            f"the budget of {dataset!r} is for {known}, and this release reads {table.shown!r}. If that table is about "
            f"the same people, say so: osgt ledger table LEDGER {dataset} --add {table.name or 'NAME'}. "
            "Otherwise open a budget for it (osgt ledger open)"
        )


def _conditions(parts: Iterable[tuple[str, str]]) -> str:
    """The conditions that make parts, in words."""
    return "; ".join(f"{name}: {condition}" for name, condition in parts) or "nothing"


def _other_columns(dataset: str, table: Table, same: Table) -> str:
    """Say how the columns of a table differ from those of the table of this name that was charged before."""
    column = same.column_declared_otherwise(table)
    if column is None:
        return (
            f"the columns of {table.shown!r} have other names or types than in earlier releases charged to "
            f"{dataset!r}. If it is the same table with new columns, say so: osgt ledger table LEDGER "
            f"{dataset} --changed {table.name}. If it is another table, open a budget for it"
        )
    changed = (
        f". If the column has changed, say so: osgt ledger table LEDGER {dataset} --changed {table.name}"
        if table.name
        else ""
    )
    return (
        f"types: column {column!r} of {table.shown!r} is {table.types[column]} here, and was declared as "
        f"{same.types[column]} in an earlier release charged to {dataset!r}. Declare the same type{changed}"
    )


def tables_of(tables: object) -> tuple[Table, ...]:
    """Tables from names, `name:column`, plain values or a mapping from names to columns."""
    if tables is None:
        return ()
    if isinstance(tables, str) or not isinstance(tables, Iterable):
        raise ArgumentTypeError(f"tables must be a list of names, got {tables!r}", argument="tables")
    if isinstance(tables, Mapping):
        tables = [{"name": name, "unit": unit} for name, unit in tables.items()]
    result = tuple(Table.of(table, "tables") for table in tables)
    names = [table.name for table in result]
    if len(set(names)) < len(names):
        raise ArgumentError(f"tables: each table once, got {names}", argument="tables")
    return result


def _declared_types(types: object, argument: str) -> dict[str, str]:
    if not isinstance(types, Mapping):
        raise ArgumentTypeError(
            f"{argument}: types must be a dict from columns to types, got {types!r}", argument=argument
        )
    return {text_of(column, argument): text_of(dtype, argument) for column, dtype in types.items()}


def _relation(value: object) -> str | None:
    if value is not None and value not in NEIGHBOURS:
        raise ArgumentError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, got {value!r}", argument="neighbours")
    return None if value is None else str(value)
