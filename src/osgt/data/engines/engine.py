"""Engine: what an engine must say about itself so that tables can be opened, bounded and released there."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.schema as sch
import ibis.expr.types as ir
import pyarrow as pa

from osgt.data.engines import not_a_source
from osgt.data.engines.source import Options, Source
from osgt.data.expressions.dialect import Dialect

#: A lock for each connection that is in use.
_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


class Engine(ABC):
    """An engine. It has no state: connections are Ibis back ends, and come with each call as `backend`.

    What has a body here holds for most engines; the rest is for each engine to say. An engine imports the libraries
    that it needs when they are used.
    """

    #: What it is called by programs: `engine="…"`, `--engine …`, and the name of its entry point.
    name: ClassVar[str]
    #: What it is called by people.
    title: ClassVar[str]
    #: The name of its Ibis back end.
    backend: ClassVar[str]
    #: What it opens, for messages: "a path, …".
    takes: ClassVar[str]
    #: How conditions (`where`) are read and written, with the functions that see one row alone.
    dialect: ClassVar[type[Dialect]]
    #: Whether what a query names twice is computed once, as `compiled` may see to.
    computes_once: ClassVar[bool] = False
    #: Whether it can be told where to run: `master="…"`, `--master …`.
    has_master: ClassVar[bool] = False

    # Sources

    @abstractmethod
    def opens(self, source: Any) -> bool:
        """Whether a source belongs to this engine, where none is named. Nothing is opened."""

    @abstractmethod
    def opened(self, source: Any, options: Options) -> Source:
        """The table that a source stands for. Raises `refused` where it is none for this engine."""

    def refused(self, source: Any) -> Exception:
        """The error for a source that this engine does not open."""
        return not_a_source(source, f"{self.takes} for engine {self.name}")

    def is_path(self, source: str) -> bool:
        """Whether this text names files, rather than a database or a table."""
        return "://" not in source

    def files(self, backend: Any) -> list[str]:
        """The files that the connection reads from, other than the source itself: none may be written to."""
        return []

    def close(self, backend: Any) -> None:
        """Close a connection that was opened for a path or a URL."""
        backend.disconnect()

    def small_table(self, backend: Any, table: pa.Table) -> ir.Table:
        """A small Arrow table (public keys) among the tables of the connection."""
        return ibis.memtable(table)

    # Columns

    def unusable(self, table: ir.Table, column: str) -> str | None:
        """Explain why a column cannot be used, if so. No row is read."""
        return None

    def key_schema(self, table: ir.Table) -> sch.Schema:
        """The types of a table in which public keys are given. No row is read."""
        return table.schema()

    def public_key(self, column: ir.Value, dtype: dt.DataType) -> ir.Value:
        """A column of a `small_table` of public keys, in the type of the column that these are keys of."""
        return column.cast(dtype)

    def can_be_key(self, dtype: dt.DataType) -> bool:
        """Whether equal values are equal to everybody: floats are not, and nested values need not be."""
        return bool(
            dtype.is_integer()
            or dtype.is_string()
            or dtype.is_boolean()
            or dtype.is_decimal()
            or dtype.is_date()
            or dtype.is_timestamp()
            or dtype.is_uuid()
            or dtype.is_binary()
        )

    @abstractmethod
    def text_bytes(self, column: ir.Value) -> ir.Value:
        """The bytes of text in UTF-8."""

    def unit(self, column: ir.Value) -> ir.Value:
        """The form in which units are told apart: they never leave the engine, so only text needs one (`carried`)."""
        return self.text_bytes(column) if column.type().is_string() else column

    def units(self, columns: Sequence[ir.Value]) -> ir.Value:
        """Combine the columns that name a unit into one value: ("a", "bc") is not ("ab", "c"). Null if one is."""
        if len(columns) == 1:
            return self.unit(columns[0])
        together = self.record([self.unit(column) for column in columns])
        there = reduce(and_, (column.notnull() for column in columns))
        return there.ifelse(together, None)  # a null with a type would convert times within the record on Spark

    def record(self, columns: Sequence[ir.Value]) -> ir.Value:
        """Several values, none of them null, as one; equal where all of them are."""
        return ibis.struct({f"column_{i}": column for i, column in enumerate(columns)})

    def carried(self, column: ir.Value) -> ir.Value:
        """The form of a key in which it is told apart, and leaves the engine, whatever it holds.

        Every row has its keys turned into this form before groups are formed, so that hashing, grouping and showing
        agree. What the type of the released column cannot hold (infinite dates, NaN, numbers of too many digits) is
        null from there on. The keys that are shown, and no others, are turned back by `shown`.

        Text is carried as its bytes. Under a collation 'Rome' and 'rome' may be one group, but they are two to the hash
        that chooses groups: a unit would count twice. And which of the spellings a release shows would depend on single
        rows.
        """
        return self.text_bytes(column) if column.type().is_string() else self.carried_plain(column)

    def carried_plain(self, column: ir.Value) -> ir.Value:
        """The carried form of a key other than text."""
        return column

    def shown(self, keys: pa.Array, dtype: dt.DataType) -> pa.Array:
        """Carried keys as they are shown, in the type of their column."""
        binary = pa.types.is_binary(keys.type) or pa.types.is_large_binary(keys.type)
        return _text(keys) if binary and dtype.is_string() else keys.cast(dtype.to_pyarrow())

    # Numbers

    @abstractmethod
    def hashed(self, salt: int, columns: Sequence[ir.Value]) -> ir.Value:
        """A number that depends on salt and columns as if drawn at random. Values that are equal have one hash."""

    @abstractmethod
    def total(self, numbers: Any) -> Any:
        """The sum of 64-bit integers as a decimal: exact however many there are."""

    def quotient(self, numerator: Any, denominator: Any) -> Any:
        """A quotient of integers of 64 bits, the denominator above 0, rounded toward 0; it is below 2⁵⁰.

        What is left without the remainder is a multiple of the denominator. So the quotient of floats is less than a
        half away from a whole number, which is the one sought.
        """
        whole = numerator - numerator % denominator
        return (whole.cast("float64") / denominator.cast("float64")).round().cast("int64")

    @abstractmethod
    def decimal_steps(self, column: ir.DecimalValue, step: Fraction, low: int, high: int) -> ir.IntegerValue:
        """⌊value/step + ½⌋ of decimals, exactly, at least where it is between `low` and `high`; `step` is 10ⁿ.

        Beyond these it is beyond these, or at them. No value of the column is an error.
        """

    def decimal_float(self, column: ir.DecimalValue) -> ir.FloatingValue:
        """A decimal as a float. No value of the column is an error."""
        return column.cast("float64")

    def shifted(self, column: ir.IntegerValue, bits: int) -> ir.IntegerValue:
        """⌊column/2ⁿ⌋ for integers of 64 bits; it is within those with a sign."""
        return column >> bits

    def present(self, column: ir.Value) -> ir.BooleanValue:
        """Test for a value: not null, and not NaN."""
        if column.type().is_floating():
            return column.notnull() & ~column.isnan()
        return column.notnull()

    # Queries

    def read_once(self, rows: ir.Table) -> ir.Table:
        """Rows for a join of which no side may be read twice: a loop might read one again for each row of the other."""
        return rows

    @contextmanager
    def turn(self, backend: Any) -> Iterator[None]:
        """Have the connection to oneself: threads that release from one data set take turns."""
        connection = self.single(backend)
        if connection is None:
            yield
            return
        with _LOCKS_LOCK:
            lock = _LOCKS.setdefault(connection, threading.RLock())
        with lock:
            yield

    def single(self, backend: Any) -> Any:
        """The connection, if a second query at a time would end the first; None if several can run."""
        return backend.con

    def compiled(self, backend: Any, expression: ir.Table) -> str:
        """The query in the engine's SQL. Tables in memory become tables of the engine."""
        backend._run_pre_execute_hooks(expression)
        sql: str = backend.compile(expression)
        return sql

    @abstractmethod
    def replaced(self, backend: Any, names: list[str]) -> list[str]:
        """List the functions, operators and casts used by a query that are another's in place of the engine's.

        Conditions are written with full names where the engine has them. The rest of a release's query is written by
        Ibis with bare names, so these must mean what they say.

        Parameters
        ----------
        names
            What may be the names of functions in the query.
        """

    def rehearse(self, backend: Any, sql: str, schema: sch.Schema) -> None:
        """Run the query without asking for a row of it, as `fetched` would: planned, run and turned into Arrow."""
        self.fetched(backend, asking_for_nothing(sql), schema)

    @abstractmethod
    def fetched(self, backend: Any, sql: str, schema: sch.Schema) -> pa.Table:
        """The rows of a query as Arrow."""

    def progress(self, backend: Any) -> float | None:
        """The percentage of the running query that is done, asked from another thread; None if nobody knows."""
        return None


def asking_for_nothing(sql: str) -> str:
    """A query for no row of another one, so that none of its tables is read."""
    return f"SELECT * FROM ({sql}) AS rehearsal LIMIT 0"


def _text(array: pa.Array) -> pa.Array:
    """Text from its bytes; bytes that are no text are shown as \\xff."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if key is None else key.decode("utf-8", "backslashreplace") for key in array.to_pylist()]
        return pa.array(texts, pa.string())


# Functions that have no name in Ibis


def function(name: str, *arguments: ir.Value, returns: dt.DataType) -> Any:
    """A call of a function of the engine that has no name in Ibis."""
    types = tuple(argument.type() for argument in arguments)
    call = ibis.udf.scalar.builtin(_signature(len(arguments)), name=name, signature=(types, returns))
    return call(*arguments)


def _signature(arguments: int) -> Any:
    """A function with so many parameters: their names are all that is looked at."""
    names = ", ".join(f"argument_{i}" for i in range(arguments))
    return eval(f"lambda {names}: ...")


# Exact decimals

#: More than the bounds of a column can have.
_MANY_DIGITS = 2000


def least_beyond(dtype: dt.Decimal) -> Fraction:
    """The least number that is too large for a decimal type."""
    return Fraction(10) ** int(dtype.precision - dtype.scale)


def digits_of(step: Fraction) -> int:
    """The digits behind the point of a power of ten; negative before it."""
    return len(str(step.denominator)) - len(str(step.numerator))


def decimal(number: Fraction, dtype: dt.Decimal) -> Any:
    """A number with finitely many digits, as a decimal of the engine."""
    with localcontext(Context(prec=_MANY_DIGITS, traps=[Inexact])):
        return ibis.literal(f"{Decimal(number.numerator) / number.denominator:f}").cast(dtype)


def clip(value: Any, low: Any, high: Any) -> Any:
    """The value, between two ends."""
    return ibis.least(ibis.greatest(value, low), high)
