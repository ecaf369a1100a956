"""Engine: what an engine must say about itself so that tables can be opened, bounded and released there."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from osgt.data.engines.source import Options, Source, not_a_source
from osgt.data.expressions.dialect import Dialect
from osgt.data.sql import ATOM, LOOSE, Table, Value
from osgt.data.types import ColumnType
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.numeric import DECIMAL_DIGITS

#: A lock for each connection that is in use.
_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


class Engine(ABC):
    """An engine. It has no state: its connections are those of the engine's own driver, and come with each call.

    What has a body here holds for most engines; the rest is for each engine to say. An engine imports the libraries
    that it needs when they are used.
    """

    #: What it is called by programs: `engine="…"`, `--engine …`, and the name of its entry point.
    name: ClassVar[str]
    #: What it is called by people.
    title: ClassVar[str]
    #: What it opens, for messages: "a path, …".
    takes: ClassVar[str]
    #: How conditions (`where`) are read and written, with the functions that see one row alone.
    dialect: ClassVar[type[Dialect]]
    #: Whether a step that others use twice is computed once.
    computes_once: ClassVar[bool] = False
    #: Whether several queries can run on a connection at a time; otherwise a second one would end the first.
    runs_several: ClassVar[bool] = False
    #: Whether it can be told where to run: `master="…"`, `--master …`.
    has_master: ClassVar[bool] = False
    #: The oldest versions of the engine and its driver that it works with: those that the package asks for.
    oldest: ClassVar[Mapping[str, str]]
    #: The name of its back end in Ibis, of which tables are taken as sources.
    ibis_name: ClassVar[str] = ""

    # The types of values that we compute
    boolean: ClassVar[ColumnType] = ColumnType("boolean", "BOOLEAN")
    int64: ClassVar[ColumnType] = ColumnType("integer", "BIGINT")
    float64: ClassVar[ColumnType] = ColumnType("float", "DOUBLE")
    binary: ClassVar[ColumnType] = ColumnType("binary", "BLOB")
    text: ClassVar[ColumnType] = ColumnType("text", "VARCHAR")

    # Spelling

    def quote(self, name: str) -> str:
        """A name in quotes."""
        return '"' + name.replace('"', '""') + '"'

    def whole(self, number: int) -> Value:
        """An integer of 64 bits."""
        return Value(f"{number if number >= 0 else f'({number})'}::{self.int64.name}", self.int64, self)

    @abstractmethod
    def real(self, number: float) -> Value:
        """A float of 64 bits, exactly this one."""

    def literal(self, value: Any) -> Value:
        """A constant: a whole number of 64 bits, a float, a truth value or null."""
        if isinstance(value, bool):
            return Value("TRUE" if value else "FALSE", self.boolean, self)
        if value is None:
            return Value("NULL", ColumnType("null", "NULL"), self)
        return self.real(value) if isinstance(value, float) else self.whole(value)

    def plain(self, number: Any, beside: ColumnType) -> Value:
        """A constant beside a value of some type: whole numbers are as wide as that, and need not say it."""
        if beside.kind == "float":
            return self.real(float(number))
        if isinstance(number, int) and not isinstance(number, bool):
            return Value(str(number), beside, self, ATOM if number >= 0 else LOOSE)
        return self.literal(number)

    def call(self, name: str, *arguments: Any, returns: ColumnType) -> Value:
        """A call of a function; plain numbers are of the type of the first argument."""
        values = [
            argument if isinstance(argument, Value) else self.plain(argument, arguments[0].dtype)
            for argument in arguments
        ]
        return Value(f"{name}({', '.join(value.sql for value in values)})", returns, self)

    def stores(self, uses: int, *, once: bool) -> bool:
        """Whether a step is stored: so many others use it, and it may have to be computed `once`."""
        return self.computes_once and uses > 1

    # Sources

    @abstractmethod
    def opens(self, source: Any) -> bool:
        """Whether a source belongs to this engine, where none is named. Nothing is opened."""

    @abstractmethod
    def opened(self, source: Any, options: Options) -> Source:
        """The table that a source stands for. Raises `refused` where it is none for this engine."""

    def beside(self, connection: Any, source: Any, options: Options) -> Source:
        """A further source on a connection, to be joined: a table of its database, or what can be read there."""
        if source is None:
            with self.turn(connection):
                return Source(self.named(connection, options.table))
        result = Source(source) if isinstance(source, Table) else self.opened(source, options)
        if result.table.connection is not connection:
            raise ArgumentError(
                "source: both tables must be in one database or session; name the other one with table alone",
                argument="source",
            )
        return result

    def refused(self, source: Any) -> Exception:
        """The error for a source that this engine does not open."""
        return not_a_source(source, f"{self.takes} for engine {self.name}")

    def is_path(self, source: str) -> bool:
        """Whether this text names files, rather than a database or a table."""
        return "://" not in source

    def files(self, connection: Any) -> list[str]:
        """The files that the connection reads from, other than the source itself: none may be written to."""
        return []

    def close(self, connection: Any) -> None:
        """Close a connection that was opened for a path or a URL."""
        connection.close()

    @abstractmethod
    def versions(self, connection: Any) -> dict[str, str]:
        """The versions of the engine and its driver, by the names in `oldest`."""

    @abstractmethod
    def describe(self, connection: Any, query: str) -> list[tuple[str, ColumnType]]:
        """The names and types of the columns of a query, none of whose rows is read."""

    @abstractmethod
    def run(self, connection: Any, query: str) -> list[Any]:
        """The rows of a small query about constants, or about the engine itself."""

    @abstractmethod
    def small_table(self, connection: Any, table: pa.Table) -> Table:
        """A small Arrow table (public keys) among the tables of the connection, for as long as somebody uses it."""

    def stored(self, connection: Any, name: str, keeps: Any = None) -> Table:
        """A table of the engine by its name in SQL."""
        columns = dict(self.describe(connection, f"SELECT * FROM {name}"))
        return Table(self, connection, columns, name, keeps=keeps)

    def named(self, connection: Any, table: str | None) -> Table:
        """A table of a database: its name, perhaps with its schema before it."""
        if table is None:
            raise ArgumentError("table must be given: the name of the table in the database", argument="table")
        name = self.find_table(connection, table.split("."))
        if name is None:
            raise ArgumentError(f"table: there is no table {table!r} in the database", argument="table")
        return self.stored(connection, name)

    @abstractmethod
    def find_table(self, connection: Any, names: list[str]) -> str | None:
        """The name in SQL of a table, which no step of a query can have; None if there is none."""

    def handed_over(self, connection: Any, query: str, keeps: Any = None) -> Table:
        """The rows of a query that somebody hands over as a source."""
        columns = dict(self.describe(connection, query))
        return Table(self, connection, columns, query, is_query=True, keeps=keeps)

    def ibis_table(self, table: Any) -> Table:
        """The rows of an Ibis table on this engine: its SQL is taken."""
        backend = table.get_backend()
        backend.to_pyarrow(table.limit(0))  # tables in memory that it is made of become known to the engine
        return self.handed_over(backend.con, str(backend.compile(table)), table)

    # Columns

    def unusable(self, dtype: ColumnType) -> str | None:
        """Explain why a column of this type cannot be used, if so."""
        return None

    def public_key(self, column: Value, dtype: ColumnType) -> Value:
        """A column of a `small_table` of public keys, in the type of the column that these are keys of."""
        return column.cast(dtype)

    def can_be_key(self, dtype: ColumnType) -> bool:
        """Whether equal values are equal to everybody: floats are not, and nested values need not be."""
        return dtype.kind in ("integer", "text", "boolean", "decimal", "date", "timestamp", "uuid", "binary")

    def check_key_type(self, argument: str, name: str, dtype: ColumnType) -> None:
        """Raise unless equal values of this type are equal to everybody, and can be shown where they name a group."""
        if argument == "group_by" and dtype.kind == "decimal" and dtype.digits is None:
            raise ArgumentTypeError(
                f"group_by: column {name!r} must have a precision to be shown, as numeric(20, 2) has",
                argument="group_by",
            )
        if argument == "group_by" and dtype.digits is not None and dtype.digits[0] > DECIMAL_DIGITS:
            raise ArgumentTypeError(
                f"group_by: column {name!r} must have at most {DECIMAL_DIGITS} digits to be shown, got {dtype}",
                argument="group_by",
            )
        if not self.can_be_key(dtype):
            raise ArgumentTypeError(
                f"{argument}: column {name!r} of type {dtype} cannot tell groups or units apart; "
                "use whole numbers, text, dates or decimals",
                argument=argument,
            )

    @abstractmethod
    def text_bytes(self, column: Value) -> Value:
        """The bytes of text in UTF-8."""

    def unit(self, column: Value) -> Value:
        """The form in which units are told apart: they never leave the engine, so only text needs one (`carried`)."""
        return self.text_bytes(column) if column.dtype.kind == "text" else column

    def units(self, columns: Sequence[Value]) -> Value:
        """Combine the columns that name a unit into one value: ("a", "bc") is not ("ab", "c"). Null if one is.

        Where there are none, every row is a unit: rows are numbered, in any order.
        """
        if not columns:
            return Value("row_number() OVER (ORDER BY NULL)", self.int64, self)
        if len(columns) == 1:
            return self.unit(columns[0])
        together = self.record([self.unit(column) for column in columns])
        there = reduce(and_, (column.not_null() for column in columns))
        return there.then(together)  # a null with a type would convert times within the record on Spark

    @abstractmethod
    def record(self, columns: Sequence[Value]) -> Value:
        """Several values, none of them null, as one; equal where all of them are."""

    def carried(self, column: Value) -> Value:
        """The form of a key in which it is told apart, and leaves the engine, whatever it holds.

        Every row has its keys turned into this form before groups are formed, so that hashing, grouping and showing
        agree. What the type of the released column cannot hold (infinite dates, NaN, numbers of too many digits) is
        null from there on. The keys that are shown, and no others, are turned back by `shown`.

        Text is carried as its bytes. Under a collation 'Rome' and 'rome' may be one group, but they are two to the hash
        that chooses groups: a unit would count twice. And which of the spellings a release shows would depend on single
        rows.
        """
        return self.text_bytes(column) if column.dtype.kind == "text" else self.carried_plain(column)

    def carried_plain(self, column: Value) -> Value:
        """The carried form of a key other than text."""
        return column

    def shown(self, keys: pa.Array, dtype: ColumnType) -> pa.Array:
        """Carried keys as they are shown, in the type of their column."""
        binary = pa.types.is_binary(keys.type) or pa.types.is_large_binary(keys.type)
        return _text(keys) if binary and dtype.kind == "text" else keys.cast(dtype.arrow)

    # Numbers

    @abstractmethod
    def hashed(self, salt: int, columns: Sequence[Value]) -> Value:
        """A number that depends on salt and columns as if drawn at random. Values that are equal have one hash."""

    @abstractmethod
    def total(self, numbers: Value, over: Sequence[Value] = ()) -> Value:
        """The sum of 64-bit integers as a number of any size: exact however many there are.

        It is that of all rows of a group; or, for each row, of those that share the values `over`.
        """

    @abstractmethod
    def quotient(self, numerator: Value, denominator: Value) -> Value:
        """A quotient of integers of 64 bits, the denominator above 0, rounded toward 0."""

    @abstractmethod
    def decimal_steps(self, column: Value, step: Fraction, low: int, high: int) -> Value:
        """⌊value/step + ½⌋ of decimals, exactly, at least where it is between `low` and `high`; `step` is 10ⁿ.

        Beyond these it is beyond these, or at them. No value of the column is an error.
        """

    def decimal_float(self, column: Value) -> Value:
        """A decimal as a float. No value of the column is an error."""
        return column.cast(self.float64)

    @abstractmethod
    def shifted(self, column: Value, bits: int) -> Value:
        """⌊column/2ⁿ⌋ for integers of 64 bits; it is within those with a sign."""

    def is_nan(self, column: Value) -> Value:
        """Test for NaN."""
        return self.call("isnan", column, returns=self.boolean)

    def present(self, column: Value) -> Value:
        """Test for a value: not null, and not NaN."""
        if column.dtype.kind == "float":
            return column.not_null() & ~self.is_nan(column)
        return column.not_null()

    @abstractmethod
    def matches(self, text: Value, pattern: str) -> Value:
        """Test whether a regular expression is found in a text."""

    # Queries

    @contextmanager
    def turn(self, connection: Any) -> Iterator[None]:
        """Have the connection to oneself: threads that release from one data set take turns."""
        if self.runs_several:
            yield
            return
        with _LOCKS_LOCK:
            lock = _LOCKS.setdefault(connection, threading.RLock())
        with lock:
            yield

    @abstractmethod
    def replaced(self, connection: Any, names: list[str]) -> list[str]:
        """List the functions, operators and casts used by a query that are another's in place of the engine's.

        Conditions are written with full names where the engine has them. The rest of a release's query has bare names,
        so these must mean what they say.

        Parameters
        ----------
        names
            What may be the names of functions in the query.
        """

    def rehearse(self, connection: Any, sql: str, schema: pa.Schema) -> None:
        """Run the query without asking for a row of it, as `fetch` would: planned, run and turned into Arrow."""
        self.fetch(connection, asking_for_nothing(sql), schema)

    @abstractmethod
    def fetch(self, connection: Any, sql: str, schema: pa.Schema) -> pa.Table:
        """The rows of a query as Arrow."""

    def progress(self, connection: Any) -> float | None:
        """The percentage of the running query that is done, asked from another thread; None if nobody knows."""
        return None


def asking_for_nothing(sql: str) -> str:
    """A query for no row of another one, so that none of its tables is read."""
    return f"SELECT * FROM (\n{sql}\n) AS rehearsal LIMIT 0"


def _text(array: pa.Array) -> pa.Array:
    """Text from its bytes; bytes that are no text are shown as \\xff."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if key is None else key.decode("utf-8", "backslashreplace") for key in array.to_pylist()]
        return pa.array(texts, pa.string())


# Exact decimals

#: More than the bounds of a column can have.
_MANY_DIGITS = 2000


def least_beyond(digits: tuple[int, int]) -> Fraction:
    """The least number that is too large for decimals of so many digits, of which some are behind the point."""
    return Fraction(10) ** (digits[0] - digits[1])


def digits_of(step: Fraction) -> int:
    """The digits behind the point of a power of ten; negative before it."""
    return len(str(step.denominator)) - len(str(step.numerator))


def decimal(engine: Engine, number: Fraction, dtype: ColumnType) -> Value:
    """A number with finitely many digits, as a decimal of the engine."""
    with localcontext(Context(prec=_MANY_DIGITS, traps=[Inexact])):
        digits = f"{Decimal(number.numerator) / number.denominator:f}"
    return Value(f"CAST('{digits}' AS {dtype.name})", dtype, engine)
