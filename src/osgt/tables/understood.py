"""Whether the engine understands a query: found out before anything is charged, and without reading a row."""

from collections.abc import Callable
from typing import Any

import ibis.expr.types as ir

from osgt.tables.reading import first_line, turn

#: The number of the type in PostgreSQL's catalogue.
_MONEY = 790


def check_understood(expression: ir.Table) -> None:
    """Raise if the engine has no plan for the query: for want of a function, a permission, a table, a cast."""
    backend = expression.get_backend()
    try:
        backend._run_pre_execute_hooks(expression)  # public keys become a table of the engine
        UNDERSTOOD[backend.name](backend, backend.compile(expression))
    except Exception as error:  # each engine has errors of its own
        raise ValueError(f"the engine cannot run this query, nothing was charged: {first_line(error)}") from error


def is_money(table: ir.Table, column: str) -> bool:
    """Whether a column is of PostgreSQL's type money, which Ibis takes for a decimal. No row is read."""
    backend = table.get_backend()
    if backend.name != "postgres" or not table.schema()[column].is_decimal():
        return False
    with turn(backend), backend.con.transaction(), backend.con.cursor() as cursor:
        cursor.execute(backend.compile(table.select(column).limit(0)))
        return bool(cursor.description[0].type_code == _MONEY)


def _on_duckdb(backend: Any, query: str) -> None:
    backend.con.execute(f"EXPLAIN {query}")


def _on_postgres(backend: Any, query: str) -> None:
    with backend.con.transaction(), backend.con.cursor() as cursor:
        cursor.execute(f"EXPLAIN {query}")


def _on_spark(backend: Any, query: str) -> None:
    backend.raw_sql(query)  # planned here; run when its rows are asked for


#: The engine's plan for a query in its own SQL, for each engine.
UNDERSTOOD: dict[str, Callable[[Any, str], None]] = {
    "duckdb": _on_duckdb,
    "pyspark": _on_spark,
    "postgres": _on_postgres,
}
