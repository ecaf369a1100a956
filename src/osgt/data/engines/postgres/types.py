"""Types of PostgreSQL: those of the columns of a query, and those for columns of Arrow."""

import re
from typing import Any

import pyarrow as pa

from osgt.data.expressions.tokens import by_name
from osgt.data.types import ColumnType

#: Kinds of types, by their names in the catalogue.
KINDS = by_name(
    {
        "boolean": "bool",
        "integer": "int2 int4 int8",
        "decimal": "numeric",
        "float": "float4 float8",
        "text": "text varchar bpchar name",
        "binary": "bytea",
        "date": "date",
        "timestamp": "timestamp timestamptz",
        "clock": "time",
        "interval": "interval",
        "uuid": "uuid",
    }
)

_BITS = {"int2": 16, "int4": 32, "float4": 32}

#: By names of types in Arrow; decimals and timestamps are told apart by more than that.
_NAMES = {
    "bool": "boolean",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "string": "text",
    "binary": "bytea",
    "date32[day]": "date",
}

_TYPES = """
    SELECT typname::pg_catalog.text, typtype = 'e', typnamespace = 'pg_catalog'::pg_catalog.regnamespace,
        pg_catalog.format_type(oid, modifier)
    FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.oid[]), pg_catalog.unnest(%s::pg_catalog.int4[]))
        WITH ORDINALITY AS asked(oid, modifier, place)
    JOIN pg_catalog.pg_type USING (oid) ORDER BY place
"""


def column_types(cursor: Any) -> list[tuple[str, ColumnType]]:
    """The names and types of the columns of a query that a cursor has run; another one is run there."""
    names, result = [column.name for column in cursor.description], cursor.pgresult
    # Lengths of text are left out: a cast to char would cut it off.
    sized = [result.fmod(i) if column.type_code == _NUMERIC else -1 for i, column in enumerate(cursor.description)]
    cursor.execute(_TYPES, [[column.type_code for column in cursor.description], sized])
    return [(name, _type(*told)) for name, told in zip(names, cursor.fetchall(), strict=True)]


#: The number of the type numeric in the catalogue.
_NUMERIC = 1700


def _type(name: str, is_enumeration: bool, own: bool, written: str) -> ColumnType:
    """The type; those that were added to the database have operators of their own, except enumerations."""
    if is_enumeration:
        return ColumnType("text", "text")  # a cast to itself would be an error for other texts
    if not own or name not in KINDS:
        return ColumnType("text" if name == "citext" else "other", written, added=True)
    if digits := re.fullmatch(r"numeric\((\d+),(-?\d+)\)", written):
        precision, scale = int(digits[1]), int(digits[2])
        # The scale may be negative, or larger than the precision.
        return ColumnType("decimal", written, digits=(max(precision, scale, precision - scale), max(scale, 0)))
    return ColumnType(KINDS[name], name, _BITS.get(name, 64), zone=name == "timestamptz")


def name_for(dtype: pa.DataType) -> str:
    """The name of the type for a column of Arrow."""
    if pa.types.is_decimal(dtype):
        return "numeric"
    if pa.types.is_timestamp(dtype):
        return "timestamptz" if dtype.tz else "timestamp"
    return _NAMES[str(dtype)]
