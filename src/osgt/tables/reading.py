"""Reading from an engine: one query at a time on a connection, with new random numbers, every row read once."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import ibis.expr.types as ir
import pyarrow as pa
from sqlglot import exp

from osgt.sampling.entropy import token

#: A lock for each connection that is in use.
_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


@contextmanager
def turn(backend: Any) -> Iterator[None]:
    """Have the connection to oneself: threads that release from one data set take turns.

    A connection to DuckDB or PostgreSQL runs one query at a time, on all cores if it can; a second one would end the
    first. Spark runs several by itself.
    """
    if backend.name == "pyspark":
        yield
        return
    with _LOCKS_LOCK:
        lock = _LOCKS.setdefault(backend.con, threading.RLock())
    with lock:
        yield


def fetched(expression: ir.Table) -> pa.Table:
    """The rows of a query, as Arrow."""
    backend = expression.get_backend()
    with turn(backend):
        _seed_anew(backend)
        return _READERS[backend.name](backend, expression)


def _seed_anew(backend: Any) -> None:
    """Give the engine's random numbers a new beginning that nobody knows.

    They choose rows where a unit has too many, one number after the other: known numbers would let one unit's rows
    decide about another's. Spark seeds every query by itself.
    """
    query = f"SELECT setseed({(int(token(8), 16) >> 11) * 2.0**-53!r})"
    if backend.name == "duckdb":
        backend.con.execute(query)
    elif backend.name == "postgres":
        with backend.con.cursor() as cursor:
            cursor.execute(query)


def _from_duckdb(backend: Any, expression: ir.Table) -> pa.Table:
    backend._run_pre_execute_hooks(expression)
    query = backend.compiler.to_sqlglot(expression)
    uses = Counter(table.name for table in query.find_all(exp.Table))
    for part in query.find_all(exp.CTE):
        if uses[part.alias] > 1:
            # Otherwise it is for the engine to decide whether it reads twice, and rows might differ between the times.
            part.set("materialized", True)
    found: pa.Table = backend.con.sql(query.sql(dialect=backend.dialect)).to_arrow_table()
    return found.cast(expression.schema().to_pyarrow())


def _from_spark(backend: Any, expression: ir.Table) -> pa.Table:
    # Ibis goes through pandas here, where whole numbers beside a null become floats and large ones run together.
    backend._run_pre_execute_hooks(expression)
    found: pa.Table = backend.raw_sql(backend.compile(expression)).toArrow()
    return found


def _from_postgres(backend: Any, expression: ir.Table) -> pa.Table:
    found: pa.Table = backend.to_pyarrow(expression)
    return found


_READERS = {"duckdb": _from_duckdb, "pyspark": _from_spark, "postgres": _from_postgres}


def first_line(error: BaseException) -> str:
    """What an engine says went wrong; what follows may quote rows and settings."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
