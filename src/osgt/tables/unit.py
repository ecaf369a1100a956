"""The privacy unit: whom a row is about. A column names it, several columns do together, or it is the row itself."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import ibis
import ibis.expr.types as ir

from osgt.tables.engines.engine import Engine

#: What says that every row is a unit of its own.
ROW = "row"

#: What stands between the columns of a unit.
_TOGETHER = " + "


@dataclass(frozen=True)
class PrivacyUnit:
    """The columns that name the unit; none where every row is a unit of its own."""

    columns: tuple[str, ...]

    @classmethod
    def of(cls, given: object, known: Sequence[str]) -> "PrivacyUnit":
        """The unit that a column, a list of columns or "row" stands for in a table with these columns."""
        if given == ROW:
            taken = [name for name in known if name.lower() == ROW]
            if taken:
                raise ValueError(
                    f'privacy_unit: "row" says that every row is a unit of its own, and the table has a column '
                    f'{taken[0]!r}. If that column names the unit, write ["{taken[0]}"] (--unit {taken[0]} on the '
                    "command line); otherwise rename it"
                )
            return cls(())
        columns = (given,) if isinstance(given, str) or not isinstance(given, Sequence) else tuple(given)
        if not columns:
            raise ValueError('privacy_unit must name at least one column, or be "row" where every row is a unit')
        if len(set(map(str, columns))) < len(columns):
            raise ValueError(f"privacy_unit: each column once, got {', '.join(map(str, columns))}")
        return cls(columns)

    @property
    def each_row(self) -> bool:
        """Whether every row is a unit of its own."""
        return not self.columns

    @property
    def name(self) -> str:
        """One name for ledgers and sentences, which no other unit has; the order of columns makes no difference."""
        if self.each_row:
            return ROW
        several = len(self.columns) > 1
        return _TOGETHER.join(
            _quoted(name) if _unclear(name, several=several) else name for name in sorted(self.columns)
        )

    @property
    def in_words(self) -> str:
        """What names the unit."""
        if self.each_row:
            return "every row is one"
        columns = " and ".join(self.columns)
        return f"column {columns}" if len(self.columns) == 1 else f"columns {columns} together"

    @property
    def plain(self) -> str | list[str]:
        """As in a query file."""
        if len(self.columns) == 1 and self.columns[0] != ROW:
            return self.columns[0]
        return list(self.columns) or ROW

    def missing(self, table: ir.Table) -> ir.BooleanValue:
        """Whether a row has no unit: any of its columns is null."""
        return reduce(or_, (table[name].isnull() for name in self.columns), ibis.literal(False))

    def value(self, engine: Engine, table: ir.Table) -> Any:
        """What tells units apart; null where there is none. Rows are numbered, in any order."""
        if self.each_row:
            return ibis.row_number()
        return engine.units([table[name] for name in self.columns])


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _unclear(name: str, *, several: bool) -> bool:
    """Whether a column could be taken for something else: for the row itself, or for several columns."""
    return name.startswith('"') or _TOGETHER in name or (name == ROW and not several)
