"""Reading from an engine: a query is compiled once, and checked before the charge."""

import re
from dataclasses import dataclass

import pyarrow as pa

from osgt.data.engines.engine import Engine
from osgt.data.sql import Table

#: What may be the name of a function in a query.
_CALLED = re.compile(r'"?([A-Za-z_]\w*)"?\s*\(')


#: What engines begin their errors with: "Invalid Input Error: ", "[TABLE_NOT_FOUND] ".
_KIND = re.compile(r"^(?:[A-Z]\w*(?: [A-Z]\w*)* Error: |\[[A-Z_.0-9]+\] )+")


@dataclass(frozen=True)
class EngineQuery:
    """A query in the SQL of its engine.

    `beside` is another query for the same release, about other rows of the same data.
    """

    table: Table
    sql: str
    beside: "EngineQuery | None" = None
    #: The salt that it was made with.
    salt: int = 0

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        return self.table.engine

    @property
    def readable(self) -> list[str]:
        """The statements that run, for people: with 0 in place of the salt, which is for nobody to see."""
        others = [] if self.beside is None else self.beside.readable
        return [self.sql.replace(str(self.salt), "0") if self.salt else self.sql, *others]

    @property
    def schema(self) -> pa.Schema:
        """The names and types of its columns in Arrow."""
        return pa.schema([(name, dtype.arrow) for name, dtype in self.table.columns.items()])


def compile_query(table: Table) -> EngineQuery:
    """The query for its engine."""
    return EngineQuery(table, table.sql)


def check_query(query: EngineQuery) -> None:
    """Raise if the engine would run something else, or cannot run it. No row is read.

    Something else: a user's function in place of a built-in one could do anything. It is rehearsed on no rows: what
    fails for want of a function, a permission, a table or a cast, or in a driver of another version, fails here.
    """
    with query.engine.turn(query.table.connection):
        check_versions(query)
        check_functions(query)
        try:
            query.engine.rehearse(query.table.connection, query.sql, query.schema)
        except Exception as error:
            raise _not_understood(error) from error


def check_versions(query: EngineQuery) -> None:
    """Raise if the engine or its driver is older than what the package works with."""
    oldest = query.engine.oldest
    for name, version in query.engine.versions(query.table.connection).items():
        if _numbers(version) < _numbers(oldest[name]):
            raise ValueError(
                f"{name} {version} is too old: osgt needs {oldest[name]} or newer, and nothing was charged; upgrade it"
            )


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with."""
    return tuple(map(int, re.findall(r"\d+", version.partition("-")[0])[:3]))


def check_functions(query: EngineQuery) -> None:
    """Raise if a function or operator in this query might be another than the engine's own."""
    names = sorted({name.lower() for name in _CALLED.findall(query.sql)})
    replaced = query.engine.replaced(query.table.connection, names)
    if replaced:
        raise ValueError(
            "the database has a function, operator or cast of its own in place of a built-in one: "
            f"{', '.join(replaced)}; drop it, or use a connection that does not see it"
        )


def fetch(query: EngineQuery) -> pa.Table:
    """The rows of a query, as Arrow."""
    with query.engine.turn(query.table.connection):
        return query.engine.fetch(query.table.connection, query.sql, query.schema)


def first_line(error: BaseException) -> str:
    """The first line of an engine's error, without the kind of error; what follows may quote rows and settings."""
    line = (str(error).strip().splitlines() or ["it gives no reason"])[0]
    return _KIND.sub("", line)


def _not_understood(error: Exception) -> ValueError:
    return ValueError(f"the engine cannot run this query, nothing was charged: {first_line(error)}")
