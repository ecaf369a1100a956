"""Disjoint parts of the people: the rows of one part, by a rule that looks at all rows of a unit.

A row is in the first part whose condition holds for it. A unit counts in the first parts in which it has rows, in the
order in which parts are declared, and its rows in others are left out. That follows from the unit's own rows in the
whole table, whatever a release asks for, so that no unit counts in more parts than it may.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from osgt.data.expressions.expression import Expression, check_condition, holds
from osgt.data.sql import Join, Table, Value
from osgt.data.unit import PrivacyUnit
from osgt.support.errors import ArgumentError


@dataclass(frozen=True)
class Part:
    """One of several disjoint parts of the people, and how they are told apart."""

    name: str
    parts: tuple[tuple[str, str], ...]
    most: int
    conditions: tuple[Expression, ...] = field(compare=False)
    #: If the parts are the periods of a series: whether it is remembered who was counted.
    remembered: bool | None = None
    #: The units that may count, in its only column; None: all whom the rule lets in.
    counting: Table | None = field(default=None, compare=False)

    @property
    def place(self) -> int:
        """Its place among the parts."""
        return [name for name, _ in self.parts].index(self.name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as the arguments of `Ledger.reserve`."""
        return {"part": self.name, "parts": dict(self.parts), "max_parts": self.most}


def parts_of(table: Table, parts: Mapping[str, Any], most: int) -> list[Part]:
    """The parts that conditions on the rows of a table make, checked as those of `where` are."""
    if not isinstance(parts, Mapping) or len(parts) < 2:
        raise ArgumentError(
            "parts must be a dict from two names or more to conditions, as in {'north': \"region = 'north'\", …}",
            argument="parts",
        )
    if type(most) is not int or most < 1:
        raise ArgumentError(f"max_parts must be a whole number of at least 1, got {most!r}", argument="max_parts")
    if any(not isinstance(name, str) or not name for name in parts):
        raise ArgumentError(f"parts: names must be texts, got {list(parts)}", argument="parts")
    conditions = tuple(check_condition(table, condition) for condition in parts.values())
    pairs = tuple((name, str(condition)) for name, condition in parts.items())
    return [Part(name, pairs, most, conditions) for name in parts]


def rows_of_part(table: Table, unit: PrivacyUnit, part: Part) -> Table:
    """The rows of a part, of the units that count there."""
    engine = table.engine
    number, rank = unused(table, "row_part"), unused(table, "part_rank")
    cases = " ".join(f"WHEN {holds(one, table).sql} THEN {place}" for place, one in enumerate(part.conditions))
    numbered = table.select(
        "rows_with_parts",
        "Every row with the number of its part, the first whose condition holds.",
        {number: Value(f"CASE {cases} END", engine.int64, engine)},
        where=unit.named(table),
        keeps_all=True,
    )
    wanted = [numbered[number].equals(part.place)]
    chosen = numbered
    if not unit.each_row:
        ranks = Value("dense_rank()", engine.int64, engine)
        chosen = numbered.select(
            "ranked_parts",
            "The parts in which a unit has rows, from the first: by all its rows, whatever is asked about them.",
            {rank: ranks.over([unit.value(engine, numbered)], [numbered[number]])},
            where=[numbered[number].not_null()],
            keeps_all=True,
        )
        wanted.append(chosen[rank] <= part.most)
    joins = []
    if part.counting is not None:
        [column] = part.counting.columns
        joins = [Join(part.counting, unit.value(engine, chosen).equals(part.counting[column]))]
    return chosen.select(
        "rows_of_part",
        f"The rows of this part, of units for which it is among the first {part.most}.",
        {name: chosen[name] for name in table.columns},
        joins=joins,
        where=wanted,
    )


def units_of(table: Table, unit: PrivacyUnit) -> Table:
    """The units that have rows in a table, each once, in the form in which they are compared."""
    column = unused(table, "counted_unit")
    rows = table.select("unit_rows", "Whom each row is about.", {column: unit.value(table.engine, table)})
    return rows.select("units", "Every unit once.", {}, group_by=[column])


def unused(table: Table, base: str) -> str:
    """A name that no column of a table has."""
    taken = {name.lower() for name in table.columns}
    return next(name for number in range(len(taken) + 1) if (name := f"{base}_{number}") not in taken)
