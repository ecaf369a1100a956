"""Reading from an engine: a query is compiled once, and checked before the charge."""

import re
from dataclasses import dataclass
from typing import Any

import ibis.expr.types as ir
import pyarrow as pa

from osgt.data.engines import engine_on
from osgt.data.engines.engine import Engine

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
    """Raise if the engine would run something else, or cannot run it. No row is read.

    Something else: a user's function in place of a built-in one could do anything. It is rehearsed on no rows: what
    fails for want of a function, a permission, a table or a cast, or in a driver of another version, fails here.
    """
    with query.engine.turn(query.backend):
        check_functions(query)
        try:
            query.engine.rehearse(query.backend, query.sql, query.expression.schema())
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
        return query.engine.fetched(query.backend, query.sql, query.expression.schema())


def first_line(error: BaseException) -> str:
    """The first line of an engine's error, without the kind of error; what follows may quote rows and settings."""
    line = (str(error).strip().splitlines() or ["it gives no reason"])[0]
    return _KIND.sub("", line)


def _not_understood(error: Exception) -> ValueError:
    return ValueError(f"the engine cannot run this query, nothing was charged: {first_line(error)}")
