"""Reading from an engine: a query is compiled once, checked before the charge, and run with new random numbers.

Two tables may come in one answer, so that what both are made from is computed once.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from osgt.data.engines import engine_on
from osgt.data.engines.engine import Engine
from osgt.sampling.entropy import token

#: What may be the name of a function in a query.
_CALLED = re.compile(r'"?([A-Za-z_]\w*)"?\s*\(')


#: What engines begin their errors with: "Invalid Input Error: ", "[TABLE_NOT_FOUND] ".
_KIND = re.compile(r"^(?:[A-Z]\w*(?: [A-Z]\w*)* Error: |\[[A-Z_.0-9]+\] )+")


@dataclass(frozen=True)
class EngineQuery:
    """A query in the SQL of its engine. The expression keeps the tables that were made for it.

    `beside` is another query for the same release, about other rows of the same data.
    """

    expression: ir.Table
    engine: Engine
    backend: Any
    sql: str
    beside: "EngineQuery | None" = None


def compile_query(expression: ir.Table) -> EngineQuery:
    """The query for its engine. Raises ValueError if the engine has no form for it."""
    backend = expression.get_backend()
    engine = engine_on(backend)
    with engine.turn(backend):
        try:
            return EngineQuery(expression, engine, backend, engine.compiled(backend, expression))
        except Exception as error:  # each engine has errors of its own
            raise _not_understood(error) from error


def check_query(query: EngineQuery) -> None:
    """Raise if the engine would run something else, or has no plan. No row is read.

    Something else: a user's function in place of a built-in one could do anything. No plan: for want of a function, a
    permission, a table, a cast.
    """
    with query.engine.turn(query.backend):
        check_functions(query)
        try:
            query.engine.understand(query.backend, query.sql)
        except Exception as error:
            raise _not_understood(error) from error


def check_functions(query: EngineQuery) -> None:
    """Raise if a function or operator in this query might be another than the engine's own."""
    names = sorted({name.lower() for name in _CALLED.findall(query.sql)})
    replaced = query.engine.replaced(query.backend, names)
    if replaced:
        raise ValueError(
            "the database has a function, operator or cast of its own in place of a built-in one: "
            f"{', '.join(replaced)}; drop it, or use a connection that does not see it"
        )


def fetch(query: EngineQuery) -> pa.Table:
    """The rows of a query, as Arrow."""
    with query.engine.turn(query.backend):
        query.engine.seed(query.backend, (int(token(8), 16) >> 11) * 2.0**-53)
        return query.engine.fetched(query.backend, query.sql, query.expression.schema())


def first_line(error: BaseException) -> str:
    """The first line of an engine's error, without the kind of error; what follows may quote rows and settings."""
    line = (str(error).strip().splitlines() or ["it gives no reason"])[0]
    return _KIND.sub("", line)


def _not_understood(error: Exception) -> ValueError:
    return ValueError(f"the engine cannot run this query, nothing was charged: {first_line(error)}")


# Two tables in one answer


@dataclass(frozen=True)
class Grouped:
    """A table of sums: the columns of some rows by which it is grouped, integers, and how these are added up."""

    by: Mapping[str, Any]
    numbers: Mapping[str, Any]
    total: Callable[[Any], Any]

    def table(self, rows: ir.Table) -> ir.Table:
        """The sums of these rows, one row for each group; if there are no groups, one row."""
        rows = rows.select(**self.by, **self.numbers)
        sums = {name: self.total(rows[name]) for name in self.numbers}
        return rows.group_by(list(self.by)).agg(**sums) if self.by else rows.agg(**sums)


#: How the columns of the second table begin; the first of them is never null in its rows.
_SECOND = "told_"


def union_tables(first: ir.Table, second: ir.Table) -> ir.Table:
    """The rows of both tables, with the columns of both; those of the other table are null."""
    theirs = _prefix_names({name: second[name] for name in second.columns})
    without = {name: ibis.null(column.type()) for name, column in theirs.items()}
    ours = {name: ibis.null(first[name].type()) for name in first.columns}
    return ibis.union(first.mutate(**without), second.select(**ours, **theirs))


def duplicate_rows(rows: ir.Table, in_second: ir.BooleanValue) -> ir.Table:
    """The rows once for the first table ("side" 0), and those where `in_second` holds for the second too (1)."""
    rows = rows.mutate(sides=in_second.ifelse(ibis.array([0, 1]), ibis.array([0])))
    return rows.mutate(side=rows["sides"].unnest()).drop("sides")


def in_one_pass(rows: ir.Table, first: Grouped, second: Grouped) -> ir.Table:
    """Compute `together` of tables of sums in one pass, where an engine would compute twice what both are made from.

    The rows are `doubled`, and grouped by the columns of both tables, of which those of the other table are null.
    """
    ours = rows["side"] == 0
    # Nulls without a type: to Ibis a time with a zone and one without are one type on Spark, which would convert them.
    here = {name: ours.ifelse(column, None) for name, column in first.by.items()}
    here |= {name: ours.ifelse(column, 0) for name, column in first.numbers.items()}
    there = {name: ours.ifelse(None, column) for name, column in second.by.items()}
    there |= {name: ours.ifelse(0, column) for name, column in second.numbers.items()}
    rows = rows.select(**here, **_prefix_names(there))
    sums = {name: first.total(rows[name]) for name in first.numbers}
    sums |= {name: second.total(rows[name]) for name in _prefix_names(second.numbers)}
    return rows.group_by([*first.by, *_prefix_names(second.by)]).agg(**sums)


def _prefix_names(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{_SECOND}{name}": column for name, column in columns.items()}


def split_tables(answer: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The two tables."""
    names = [name for name in answer.column_names if name.startswith(_SECOND)]
    of_first = pc.is_null(answer[names[0]])
    first, second = answer.filter(of_first).drop_columns(names), answer.filter(pc.invert(of_first)).select(names)
    return first, second.rename_columns([name.removeprefix(_SECOND) for name in names])
