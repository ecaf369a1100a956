"""The engines as the tests see them: one module for each engine that is registered, with a class `TestedEngine`.

`test_engine_*.py` runs for every one of them, with the cases that are listed here for each: a new engine is held to the
same promises once it has a module here.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa

from engines import UNIT, new_name
from made_conditions import Maker
from osgt import Dataset
from osgt.data.engines import engine_names


class Stand:
    """An engine that runs, with a connection of the tests' own."""

    name: ClassVar[str]
    #: Whether a small query takes so long that some tests make do with fewer cases.
    slow: ClassVar[bool] = False
    #: Whether it reads CSV files (`test_declared_types.py`).
    reads_files: ClassVar[bool] = False
    #: Around names.
    quote: ClassVar[str] = '"'
    #: Characters that no name of a column may hold there.
    not_in_names: ClassVar[str] = ""
    #: Sets the time zone of a connection.
    set_zone: ClassVar[str]
    #: Writes random conditions; how many that no value makes impossible, and how many others.
    maker: ClassVar[type[Maker]] = Maker
    conditions: ClassVar[tuple[int, int]] = (260, 50)

    # Cases in the engine's own SQL, of which there may be none.

    #: By type: how an ordinary key is written, and hostile ones; True for those that are shown as null.
    hostile_keys: ClassVar[Mapping[str, tuple[str, Mapping[str, bool]]]] = {}
    #: A type, and in it a date that Python has not, one that Arrow has not, and NULL.
    hostile_dates: ClassVar[tuple[str, Sequence[str]] | None] = None
    #: By type: values that no sum may stumble over.
    hostile_numbers: ClassVar[Mapping[str, Sequence[str]]] = {}
    #: Conditions on `test_engine_where_attacks.TABLE`, each true for one row, with strings in all their forms.
    strings: ClassVar[Sequence[str]] = ()
    #: Conditions on that table that fail there by themselves, and the rows that are kept: the value counts as missing.
    failing: ClassVar[Mapping[str, list[int]]] = {}
    #: Conditions on that table that depend on a value in a way that cannot be tested before.
    refused: ClassVar[Sequence[str]] = ()

    def __init__(self, request: Any) -> None:
        """Start the engine, or get what has been started from fixtures of the session."""

    def store(self, table: pa.Table) -> Any:
        """The rows on the engine, with the types that come closest there: a table of the engine."""
        raise NotImplementedError

    def put(self, table: pa.Table, unit: str = UNIT, **options: Any) -> Dataset:
        """The data set of these rows."""
        return Dataset(self.store(table), unit, **options)

    def execute(self, statement: str) -> None:
        """Run statements in the engine's own SQL, outside of the connection or on it."""
        raise NotImplementedError

    def table(self, name: str) -> Any:
        """A table or view that `execute` has made: a table of the engine."""
        raise NotImplementedError

    def made(self, columns: Mapping[str, str], rows: str) -> Dataset:
        """A table of these columns and types, made on the engine itself: values that no driver hands over can be in it.

        Rows are in SQL, as behind VALUES.
        """
        name = new_name()
        listed = ", ".join(f"{column} {dtype}" for column, dtype in columns.items())
        self.execute(f"CREATE TABLE {name} ({listed}); INSERT INTO {name} VALUES {rows}")
        return Dataset(self.table(name), UNIT)

    def flickering(self, groups: int) -> Dataset:
        """A view with up to four rows of one unit in each group, each of them there with probability ½ at a time."""
        raise NotImplementedError

    def raw(self, dataset: Dataset, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query in the engine's own SQL, on the connection of a data set."""
        raise NotImplementedError

    def close(self) -> None:
        """End what was started."""


def _stand(name: str) -> type[Stand]:
    try:
        found: type[Stand] = import_module(f"stands.{name}").TestedEngine
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"engine {name!r} is registered: add tests/tables/stands/{name}.py for it") from error
    return found


#: By name.
STANDS = {name: _stand(name) for name in engine_names()}
