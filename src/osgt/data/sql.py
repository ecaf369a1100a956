"""SQL in named steps: values of a row with their types, tables, and the statement that is made of them.

A table is one of the engine's, or a step: a SELECT with a name and a comment. A statement is its last step behind those
that it is made of, each a common table expression. The engine supplies the spelling.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from osgt.data.types import ColumnType

if TYPE_CHECKING:
    from osgt.data.engines.engine import Engine

#: How tightly the outermost operator of a value binds: looser ones are put in brackets inside of tighter ones.
LOOSE, _AND, _NOT, _COMPARED, _ADDED, _MULTIPLIED, ATOM = range(7)

#: Names of our own columns that are words of no engine, and such as end with a number. All others are quoted.
_PLAIN_NAMES = frozenset(
    ("unit", "key", "worth", "choice", "number", "number_from_zero", "group_rank", "group_rows", "place_in_group",
     "unit_rows", "counted_rows", "cut_rows", "kept_rows", "cut_units", "kept_units", "heavy_unit")
)  # fmt: skip
_NUMBERED_NAME = re.compile(r"[a-z]+(?:_[a-z]+)*(?:_[0-9]+)+")


@dataclass(frozen=True)
class Value:
    """A value of each row, or of each group of rows: its text in the engine's SQL, and its type."""

    sql: str
    dtype: ColumnType
    engine: "Engine"
    binding: int = ATOM

    # Arithmetic and comparisons, with other values or with plain numbers

    def _operand(self, other: Any, binding: int) -> str:
        """Write the other side of an operator: a number is as wide as the value beside it."""
        value = other if isinstance(other, Value) else self.engine.plain(other, self.dtype)
        return value.within(binding)

    @property
    def operand(self) -> str:
        """The text as a part of any operator."""
        return self.within(_MULTIPLIED)

    def within(self, binding: int) -> str:
        """The text as a part of an operator that binds so tightly."""
        return self.sql if self.binding > binding else f"({self.sql})"

    def _calculate(self, operator: str, other: Any, binding: int, *, swapped: bool = False) -> "Value":
        left, right = self.within(binding - 1), self._operand(other, binding)
        if swapped:
            left, right = self._operand(other, binding - 1), self.within(binding)
        types = [self.dtype, other.dtype if isinstance(other, Value) else self.dtype]
        dtype = next((dtype for dtype in types if dtype.kind in ("float", "decimal")), self.engine.int64)
        return Value(f"{left} {operator} {right}", dtype, self.engine, binding)

    def __add__(self, other: Any) -> "Value":
        return self._calculate("+", other, _ADDED)

    def __sub__(self, other: Any) -> "Value":
        return self._calculate("-", other, _ADDED)

    def __rsub__(self, other: Any) -> "Value":
        return self._calculate("-", other, _ADDED, swapped=True)

    def __mul__(self, other: Any) -> "Value":
        return self._calculate("*", other, _MULTIPLIED)

    def __truediv__(self, other: Any) -> "Value":
        return self._calculate("/", other, _MULTIPLIED)

    def compare(self, operator: str, other: Any) -> "Value":
        """Compare with another value; null where one of them is."""
        text = f"{self.within(_COMPARED)} {operator} {self._operand(other, _COMPARED)}"
        return Value(text, self.engine.boolean, self.engine, _COMPARED)

    def equals(self, other: Any) -> "Value":
        """Test for equality."""
        return self.compare("=", other)

    def __lt__(self, other: Any) -> "Value":
        return self.compare("<", other)

    def __le__(self, other: Any) -> "Value":
        return self.compare("<=", other)

    def __gt__(self, other: Any) -> "Value":
        return self.compare(">", other)

    def __ge__(self, other: Any) -> "Value":
        return self.compare(">=", other)

    # Truth values

    @property
    def is_true(self) -> bool:
        """Whether it is the constant TRUE."""
        return self.sql == "TRUE"

    def __and__(self, other: "Value") -> "Value":
        if self.is_true or other.is_true:
            return other if self.is_true else self
        return Value(f"{self.within(_AND - 1)} AND {other.within(_AND - 1)}", self.dtype, self.engine, _AND)

    def __or__(self, other: "Value") -> "Value":
        sides = [side.sql if side.binding == LOOSE else side.within(_AND) for side in (self, other)]
        return Value(" OR ".join(sides), self.dtype, self.engine, LOOSE)

    def __invert__(self) -> "Value":
        return Value(f"NOT {self.within(_NOT)}", self.dtype, self.engine, _NOT)

    def then(self, value: Any, otherwise: Any = None) -> "Value":
        """Choose the value where this condition holds, and the other one, or null, elsewhere."""
        values = [side if isinstance(side, Value) else self.engine.literal(side) for side in (value, otherwise)]
        if self.is_true:
            return values[0]
        dtype = next(branch.dtype for branch in values if branch.dtype.kind != "null")
        other = "" if otherwise is None else f" ELSE {values[1].sql}"
        return Value(f"CASE WHEN {self.sql} THEN {values[0].sql}{other} END", dtype, self.engine)

    # Other forms of one value

    def is_null(self) -> "Value":
        """Test for null."""
        return Value(f"{self.within(_COMPARED)} IS NULL", self.engine.boolean, self.engine, _COMPARED)

    def not_null(self) -> "Value":
        """Test for a value."""
        return Value(f"{self.within(_COMPARED)} IS NOT NULL", self.engine.boolean, self.engine, _COMPARED)

    def or_else(self, other: Any) -> "Value":
        """Put another value in place of null."""
        return self.engine.call("coalesce", self, other, returns=self.dtype)

    def at_least(self, other: Any) -> "Value":
        """The larger of two values."""
        return self.engine.call("greatest", self, other, returns=self.dtype)

    def at_most(self, other: Any) -> "Value":
        """The smaller of two values."""
        return self.engine.call("least", self, other, returns=self.dtype)

    def between(self, low: Any, high: Any) -> "Value":
        """Test for a value from low to high."""
        ends = f"{self._operand(low, _COMPARED)} AND {self._operand(high, _COMPARED)}"
        return Value(f"{self.within(_COMPARED)} BETWEEN {ends}", self.engine.boolean, self.engine, _COMPARED)

    def cast(self, dtype: ColumnType) -> "Value":
        """Cast to a type."""
        return Value(f"CAST({self.sql} AS {dtype.name})", dtype, self.engine)

    def abs(self) -> "Value":
        """The absolute value."""
        return self.engine.call("abs", self, returns=self.dtype)

    def floor(self) -> "Value":
        """The largest whole number below, as a number of the same kind."""
        return self.engine.call("floor", self, returns=self.dtype)

    # Of several rows

    def sum(self) -> "Value":
        """The sum over rows; null if there are none."""
        return self.engine.call("sum", self, returns=self.dtype)

    def min(self) -> "Value":
        """The least value of rows."""
        return self.engine.call("min", self, returns=self.dtype)

    def max(self) -> "Value":
        """The largest value of rows."""
        return self.engine.call("max", self, returns=self.dtype)

    def where(self, condition: "Value") -> "Value":
        """An aggregate over the rows for which a condition holds."""
        return Value(f"{self.sql} FILTER (WHERE {condition.sql})", self.dtype, self.engine)

    def over(self, partition: Sequence["Value"], order: Sequence["Value"] = (), frame: str = "") -> "Value":
        """An aggregate or a rank over the rows that share some values, in an order; without both, the aggregate."""
        if not partition and not order:
            return self
        parts = [f"PARTITION BY {', '.join(column.sql for column in partition)}"] if partition else []
        parts += [f"ORDER BY {', '.join(column.sql for column in order)}"] if order else []
        return Value(f"{self.sql} OVER ({' '.join([*parts, *([frame] if frame else [])])})", self.dtype, self.engine)


@dataclass(frozen=True, eq=False)
class Join:
    """A table beside another one: the rows of both for which a condition holds, or all of the first one."""

    table: "Table"
    on: Value
    kind: Literal["JOIN", "LEFT JOIN"] = "JOIN"


@dataclass(frozen=True, eq=False)
class Step:
    """A SELECT with a name and a comment for people."""

    name: str
    comment: str
    columns: Mapping[str, Value]
    source: "Table"
    joins: tuple[Join, ...] = ()
    where: tuple[Value, ...] = ()
    group_by: tuple[Value, ...] = ()
    order_by: tuple[str, ...] = ()
    limit: int | None = None
    #: Whether all columns of the source stand before these.
    keeps_all: bool = False
    #: Whether its rows must not be computed twice, as for each row of a table that it is joined to.
    once: bool = False

    @property
    def tables(self) -> list["Table"]:
        """The tables that it is made of."""
        return [self.source, *(join.table for join in self.joins)]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows on an engine: a table or a query that is there (`text`), or a step that is made of others."""

    engine: "Engine"
    connection: Any
    columns: Mapping[str, ColumnType]
    #: What stands behind FROM: a name, with its schema if there is one; or a whole query.
    text: str = ""
    step: Step | None = None
    is_query: bool = False
    #: What must live as long as somebody uses the table.
    keeps: Any = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Value:
        return Value(quoted(self.engine, name), self.columns[name], self.engine)

    def select(
        self,
        name: str,
        comment: str,
        columns: Mapping[str, Value],
        *,
        joins: Sequence[Join] = (),
        where: Sequence[Value] = (),
        group_by: Sequence[str] = (),
        order_by: Sequence[str] = (),
        limit: int | None = None,
        keeps_all: bool = False,
        once: bool = False,
    ) -> "Table":
        """Make a step of these rows; with `group_by` there is one row for each group, and its columns come first."""
        groups = {column: self[column] for column in group_by}
        step = Step(
            name,
            comment,
            {**groups, **columns},
            self,
            tuple(joins),
            tuple(where),
            tuple(groups.values()),
            tuple(order_by),
            limit,
            keeps_all,
            once,
        )
        before = self.columns if keeps_all else {}
        types = {**before, **{column: value.dtype for column, value in step.columns.items()}}
        return Table(self.engine, self.connection, types, step=step)

    def count(self) -> Value:
        """The number of rows."""
        return self.engine.call("count", Value("*", self.engine.int64, self.engine), returns=self.engine.int64)

    @property
    def sql(self) -> str:
        """The statement for these rows."""
        return _Statement(self).text

    @property
    def names(self) -> set[str]:
        """The names of the engine's own tables that it is made of."""
        return {table.text for table in _tables(self) if table.step is None and not table.is_query}


def quoted(engine: "Engine", name: str) -> str:
    """A name in SQL: our own as they are, those of users in quotes."""
    return name if name in _PLAIN_NAMES or _NUMBERED_NAME.fullmatch(name) else engine.quote(name)


def _tables(table: Table) -> Iterator[Table]:
    """Iterate over the tables that a table is made of, each behind those that it needs, and once."""
    met: set[int] = set()

    def visit(each: Table) -> Iterator[Table]:
        if id(each) in met:
            return
        met.add(id(each))
        for part in each.step.tables if each.step is not None else ():
            yield from visit(part)
        yield each

    yield from visit(table)


class _Statement:
    """The text of a statement: its steps have names that no table has."""

    def __init__(self, table: Table) -> None:
        self.engine = table.engine
        tables = [part for part in _tables(table) if part.step is not None or part.is_query]
        self.uses = Counter(id(part) for one in tables if one.step is not None for part in one.step.tables)
        own = [part.text for part in _tables(table) if part.step is None]
        taken = {word.lower() for text in own for word in re.findall(r"\w+", text)}
        self.known = _name_steps(tables, taken)
        *before, last = tables or [table]
        parts = [self._part(part) for part in before]
        start = "WITH\n" + ",\n".join(parts) + "\n" if parts else ""
        comment = "" if last.step is None else f"-- {last.step.comment}\n"
        self.text = start + comment + self._select(last, "")

    def _part(self, table: Table) -> str:
        kept = self.engine.stores(self.uses[id(table)], once=table.step is not None and table.step.once)
        comment = _SOURCE if table.step is None else table.step.comment
        name = self.known[id(table)]
        return f"-- {comment}\n{name} AS {'MATERIALIZED ' if kept else ''}(\n{self._select(table, '  ')}\n)"

    def _select(self, table: Table, indent: str) -> str:
        """Write a SELECT. Lines are indented one by one: names and constants may have line ends of their own."""
        step = table.step
        if step is None:
            return indent + (table.text if table.is_query else f"SELECT * FROM {table.text}")
        columns = ["*"] if step.keeps_all else []
        columns += [_named(self.engine, name, value) for name, value in step.columns.items()]
        lines = ["SELECT", *(f"  {column}," for column in columns[:-1]), f"  {columns[-1]}"]
        lines.append(f"FROM {self._from(step.source)}")
        lines += [f"{join.kind} {self._from(join.table)} ON {join.on.sql}" for join in step.joins]
        for word, value in zip(itertools.chain(["WHERE"], itertools.repeat("  AND")), step.where, strict=False):
            lines.append(f"{word} {value.within(_AND - 1)}")
        if step.group_by:
            lines.append(f"GROUP BY {', '.join(value.sql for value in step.group_by)}")
        if step.order_by:
            lines.append(f"ORDER BY {', '.join(step.order_by)}")
        if step.limit is not None:
            lines.append(f"LIMIT {step.limit}")
        return "\n".join(indent + line for line in lines)

    def _from(self, table: Table) -> str:
        return self.known.get(id(table), table.text)


def _name_steps(tables: Sequence[Table], taken: set[str]) -> dict[int, str]:
    """A name for each step, by its identity, that neither a table nor another step has."""
    result: dict[int, str] = {}
    for table in tables:
        base = "source" if table.step is None else table.step.name
        name = next(name for name in _numbered(base) if name.lower() not in taken)
        taken.add(name.lower())
        result[id(table)] = name
    return result


#: The comment of a query that was handed over.
_SOURCE = "The query that was handed over."


def _named(engine: "Engine", name: str, value: Value) -> str:
    column = quoted(engine, name)
    return column if value.sql == column else f"{value.sql} AS {column}"


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in itertools.count(2))
