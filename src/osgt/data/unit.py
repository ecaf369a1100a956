"""The privacy unit: whom a row is about. A column names it, several columns do together, or it is the row itself."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from osgt.data.engines.engine import Engine
from osgt.data.noun import ROW, TOGETHER, Noun
from osgt.data.sql import Table, Value
from osgt.data.types import ColumnType
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.numeric import DECIMAL_DIGITS


@dataclass(frozen=True)
class PrivacyUnit:
    """The columns that name the unit, none where every row is a unit of its own; and the word for it."""

    columns: tuple[str, ...]
    noun: Noun

    @classmethod
    def of(cls, given: object, known: Sequence[str], noun: object = None) -> "PrivacyUnit":
        """The unit that a column, a list of columns or "row" stands for in a table with these columns."""
        columns = cls._columns(given, known)
        return cls(columns, Noun.from_columns(columns) if noun is None else Noun.of(noun))

    @classmethod
    def _columns(cls, given: object, known: Sequence[str]) -> tuple[str, ...]:
        """The columns that name the unit."""
        if given == ROW:
            taken = [name for name in known if name.lower() == ROW]
            if taken:
                raise ArgumentError(
                    f'privacy_unit: "row" says that every row is a unit of its own, and the table has a column '
                    f'{taken[0]!r}. If that column names the unit, write ["{taken[0]}"] (--unit {taken[0]} on the '
                    "command line); otherwise rename it",
                    argument="privacy_unit",
                )
            return ()
        columns = (given,) if isinstance(given, str) or not isinstance(given, Sequence) else tuple(given)
        if not columns:
            raise ArgumentError(
                'privacy_unit must name at least one column, or be "row" where every row is a unit',
                argument="privacy_unit",
            )
        for column in columns:
            if not isinstance(column, str):
                raise ArgumentTypeError(
                    f"privacy_unit must be the name of a column, got {column!r}", argument="privacy_unit"
                )
        if len(set(map(str, columns))) < len(columns):
            raise ArgumentError(
                f"privacy_unit: each column once, got {', '.join(map(str, columns))}", argument="privacy_unit"
            )
        return columns

    @property
    def each_row(self) -> bool:
        """Whether every row is a unit of its own."""
        return not self.columns

    @property
    def name(self) -> str:
        """The name for ledgers and sentences, which no other unit has; the order of columns makes no difference."""
        if self.each_row:
            return ROW
        several = len(self.columns) > 1
        return TOGETHER.join(_quote(name) if _unclear(name, several=several) else name for name in sorted(self.columns))

    @property
    def in_words(self) -> str:
        """The columns that name the unit, in words; if there are none, every row is a unit."""
        if self.each_row:
            return "every row is one"
        columns = " and ".join(self.columns)
        return f"column {columns}" if len(self.columns) == 1 else f"columns {columns} together"

    @property
    def plain(self) -> str | list[str]:
        """The unit as in a query file."""
        if len(self.columns) == 1 and self.columns[0] != ROW:
            return self.columns[0]
        return list(self.columns) or ROW

    def named(self, table: Table | Mapping[str, Value]) -> list[Value]:
        """List the tests for rows with a unit: none of its columns is null."""
        return [table[name].not_null() for name in self.columns]

    def value(self, engine: Engine, table: Table | Mapping[str, Value]) -> Value:
        """The value that tells units apart; null where there is no unit. Rows are numbered, in any order."""
        if self.each_row:
            return Value("row_number() OVER (ORDER BY NULL)", engine.int64, engine)
        return engine.units([table[name] for name in self.columns])


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _unclear(name: str, *, several: bool) -> bool:
    """Whether a column could be taken for something else: for the row itself, or for several columns."""
    return name.startswith('"') or TOGETHER in name or (name == ROW and not several)


def check_key_type(engine: Engine, argument: str, name: str, dtype: ColumnType) -> None:
    """Raise unless equal values of this type are equal to everybody, and can be shown where they name a group."""
    if argument == "group_by" and dtype.kind == "decimal" and dtype.digits is None:
        raise ArgumentTypeError(
            f"group_by: column {name!r} must have a precision to be shown, as numeric(20, 2) has", argument="group_by"
        )
    if argument == "group_by" and dtype.digits is not None and dtype.digits[0] > DECIMAL_DIGITS:
        raise ArgumentTypeError(
            f"group_by: column {name!r} must have at most {DECIMAL_DIGITS} digits to be shown, got {dtype}",
            argument="group_by",
        )
    if not engine.can_be_key(dtype):
        raise ArgumentTypeError(
            f"{argument}: column {name!r} of type {dtype} cannot tell groups or units apart; "
            "use whole numbers, text, dates or decimals",
            argument=argument,
        )
