"""How units and keys are carried: in forms in which they are told apart, and leave the engine, whatever they hold.

Every row has its keys turned into this form before groups are formed, so that hashing, grouping and showing agree. What
the type of the released column cannot hold (infinite dates, NaN, numbers of too many digits) is null from there on. The
keys that are shown, and no others, are turned back.

Text is carried as its bytes. Under a collation 'Rome' and 'rome' may be one group, but they are two to the hash that
chooses groups: a unit would count twice. And which of the spellings a release shows would depend on single rows.
"""

import uuid
from collections.abc import Callable
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.limits import DECIMAL_DIGITS
from osgt.tables.functions import function

#: PostgreSQL counts days and microseconds from the year 2000, Arrow from 1970.
_DAYS_TO_2000, _MICROSECONDS_TO_2000 = 10_957, 946_684_800_000_000

#: PostgreSQL's last year is beyond what 64 bits of microseconds from 1970 hold.
_AFTER_LAST_TIMESTAMP = "294247-01-01"


def unit_of(engine: str, column: ir.Value) -> ir.Value:
    """The form of a unit on this engine: units never leave it, so that only text needs one."""
    return BYTES[engine](column) if column.type().is_string() else column


def carried(engine: str, column: ir.Value) -> ir.Value:
    """The form of a key on this engine."""
    return BYTES[engine](column) if column.type().is_string() else CARRIED[engine](column)


def _postgres_bytes(column: ir.Value) -> ir.Value:
    text = function("text", column, returns=dt.string)  # of citext, char(n) and enumerations
    # A database without an encoding holds any bytes: these cannot be converted, and need not be.
    name = function("getdatabaseencoding", returns=dt.string)
    encoding = (name == "SQL_ASCII").ifelse("SQL_ASCII", "UTF8")
    return function("convert_to", text, encoding, returns=dt.binary)


#: The bytes of text, for each engine.
BYTES: dict[str, Callable[[ir.Value], ir.Value]] = {
    "duckdb": lambda column: function("encode", column, returns=dt.binary),
    "pyspark": lambda column: column.cast("binary"),
    "postgres": _postgres_bytes,
}


def _on_duckdb(column: ir.Value) -> ir.Value:
    dtype = column.type()
    if dtype.is_date() or dtype.is_timestamp():
        return _where(function("isfinite", column, returns=dt.boolean), column)
    if dtype.is_decimal() and dtype.scale == 0 and dtype.precision == DECIMAL_DIGITS:
        # Ibis takes HUGEINT for decimals of 38 digits, but some of its numbers have 39.
        return column.cast("string").try_cast(dtype)
    return column


def _on_postgres(column: ir.Value) -> ir.Value:
    """Python cannot read every date and number of PostgreSQL, but the bytes in which they are stored."""
    dtype = column.type()
    if dtype.is_date():
        finite = function("isfinite", column, returns=dt.boolean)
        return _where(finite, function("date_send", column, returns=dt.binary))
    if dtype.is_timestamp():
        send = "timestamp_send" if dtype.timezone is None else "timestamptz_send"
        finite = function("isfinite", column, returns=dt.boolean)
        early = column < ibis.literal(_AFTER_LAST_TIMESTAMP).cast(dtype)
        return _where(finite & early, function(send, column, returns=dt.binary))
    if dtype.is_uuid():
        return function("uuid_send", column, returns=dt.binary)
    if dtype.is_decimal():
        return _where(column != ibis.literal("NaN").cast(dtype), column)
    return column


#: Keys other than text, for each engine.
CARRIED: dict[str, Callable[[ir.Value], ir.Value]] = {
    "duckdb": _on_duckdb,
    "pyspark": lambda column: column,
    "postgres": _on_postgres,
}


def _where(condition: Any, value: ir.Value) -> ir.Value:
    """The value where the condition holds, and null elsewhere."""
    return condition.ifelse(value, ibis.null(value.type()))


def shown(keys: pa.ChunkedArray, dtype: dt.DataType) -> pa.Array:
    """Carried keys as they are shown, in the type of their column."""
    array, released = keys.combine_chunks(), dtype.to_pyarrow()
    if pa.types.is_timestamp(array.type) and array.type.tz is not None and dtype.timezone is None:
        return array.cast(pa.timestamp("us", "UTC"))  # Spark's times with a zone: to Ibis they have none
    if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)) or dtype.is_binary():
        return array.cast(released)
    if dtype.is_string():
        return _text(array)
    if dtype.is_uuid():
        return pa.array([None if key is None else str(uuid.UUID(bytes=key)) for key in array.to_pylist()], released)
    present = array.is_valid().to_numpy(zero_copy_only=False)
    if dtype.is_date():
        return pa.array(_numbers(array, present, ">i4") + _DAYS_TO_2000, pa.int32(), mask=~present).cast(released)
    microseconds = _numbers(array, present, ">i8") + _MICROSECONDS_TO_2000
    return pa.array(microseconds, pa.timestamp("us"), mask=~present).cast(released)


def _text(array: pa.Array) -> pa.Array:
    """Text from its bytes; bytes that are no text are shown as \\xff."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if key is None else key.decode("utf-8", "backslashreplace") for key in array.to_pylist()]
        return pa.array(texts, pa.string())


def _numbers(array: pa.Array, present: NDArray[np.bool_], form: str) -> NDArray[np.int64]:
    """Big-endian integers from their bytes; 0 where there are none."""
    numbers = np.zeros(len(array), dtype=np.int64)
    numbers[present] = np.frombuffer(b"".join(array.drop_null().to_pylist()), dtype=form)
    return numbers
