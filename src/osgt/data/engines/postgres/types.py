"""Types of PostgreSQL, and arithmetic of floats that has an answer rather than an error because of its size.

An error is a finite result beyond the largest float, and one of zero that is not zero. The tests find both from the
operands, made smaller or larger by a power of two, which changes none of their digits: so they agree with the operation
itself. Only a result above half of the smallest float by less than a rounding error is taken for zero.

No test fails for any value, nor does a part of it for any constant: PostgreSQL computes what is constant beforehand,
also behind a WHEN that no row comes to.
"""

import math
import re
import sys
from typing import Any

import pyarrow as pa

from osgt.data.expressions.syntax import by_name
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


#: The smallest and the largest float.
_LEAST, _MOST = 2.0**-1074, sys.float_info.max
#: Down to the first and from the second on a result in four bytes is zero or infinite.
_SINGLE_ZERO, _SINGLE_BEYOND = 2.0**-150, 2.0**128 - 2.0**103

#: The least and the largest number that can become a float of four bytes, and one of eight.
SINGLE = (repr(math.nextafter(_SINGLE_ZERO, 1)), repr(math.nextafter(_SINGLE_BEYOND, 0)))
DOUBLE = ("2.470328229206232721e-324", "1.797693134862315807e308")  # 2⁻¹⁰⁷⁵ and 2¹⁰²⁴ - 2⁹⁷⁰, to the inside

#: Logarithms whose exponential is a float for certain; and the power of two for operands whose result may be none.
_CERTAIN, _SHIFT = 700, 540
#: Operands of such results are below this where they are made larger, above its inverse where they are made smaller.
#: Others are cut off there, so that they stay floats.
_FAR = 2.0**100


def answers(operator: str, left: str, right: str, *, single: bool) -> str:
    """Write a test of whether +, -, * or / of two floats has an answer, both of them of four bytes if `single`."""
    a, b = f"pg_catalog.abs({left})", f"pg_catalog.abs({right})"
    if operator in "+-":
        # NaN is above all numbers.
        always = f"{a} > {_MOST} OR {b} > {_MOST}"
        return f"({always} OR {_sum_fits(operator, left, right, single=single)})"
    always = " OR ".join(f"{size} NOT BETWEEN {_LEAST} AND {_MOST}" for size in (a, b))
    by_zero = f"WHEN {b} = 0 THEN {a} = CAST('NaN' AS pg_catalog.float8) " if operator == "/" else ""
    fits = _product_fits_single(operator, a, b) if single else _product_fits(operator, a, b)
    return f"(CASE {by_zero}WHEN {always} THEN TRUE ELSE {fits} END)"


def exponential_answers(text: str, name: str) -> str:
    """Write a test of whether the exponential of a number has an answer: "numeric" in decimals, else in floats."""
    # Of decimals far below 0 it is 0, not an error; PostgreSQL gives up on those from 6000 on. Floats end a little
    # inside of the limits, so that it does not matter how a library rounds.
    finite = f"{text} <= 5000" if name == "numeric" else f"{text} BETWEEN -745 AND 709.78"
    return f"({finite} OR {text} IN ({specials(name)}))"


def specials(name: str) -> str:
    """NaN and what is infinite, of a type."""
    return ", ".join(f"CAST('{word}' AS pg_catalog.{name})" for word in ("NaN", "Infinity", "-Infinity"))


def _sum_fits(operator: str, left: str, right: str, *, single: bool) -> str:
    if single:
        return f"pg_catalog.abs({_doubles(operator, left, right)}) < {_SINGLE_BEYOND}"
    # With one sign both add up; halves of them never to more than a float. Below 1 nothing makes a sum too large.
    apart = f"pg_catalog.sign({left}) {'<>' if operator == '+' else '='} pg_catalog.sign({right})"
    one, other = (f"GREATEST(pg_catalog.abs({text}), 1) * 0.5" for text in (left, right))
    return f"{apart} OR {one} + {other} < {2.0**1023}"


def _product_fits_single(operator: str, a: str, b: str) -> str:
    result = _doubles(operator, a, b)
    return f"{result} > {_SINGLE_ZERO} AND {result} < {_SINGLE_BEYOND}"


def _product_fits(operator: str, a: str, b: str) -> str:
    """Write a test of whether * or / of absolute values fits into a float."""
    # Logarithms of numbers that have one.
    one, other = (f"pg_catalog.ln(NULLIF({text}, 0))" for text in (a, b))
    size = f"{one} {'+' if operator == '*' else '-'} {other}"
    if operator == "*":
        large, small = f"{_smaller(a)} * {_smaller(b)}", f"{_larger(a)} * {_larger(b)}"
    else:
        large, small = f"{_smaller(a)} / {_larger(b)}", f"{_larger(a)} / {_smaller(b)}"
    return (
        f"CASE pg_catalog.sign(pg_catalog.trunc(({size}) / {_CERTAIN})) "
        f"WHEN 1 THEN {large} < {2.0 ** (1024 - 2 * _SHIFT)} WHEN -1 THEN {small} > {2.0 ** (2 * _SHIFT - 1075)} "
        "ELSE TRUE END"
    )


def _smaller(text: str) -> str:
    return f"(GREATEST({text}, {1 / _FAR}) * {2.0**-_SHIFT})"


def _larger(text: str) -> str:
    return f"(LEAST({text}, {_FAR}) * {2.0**_SHIFT})"


def _doubles(operator: str, left: str, right: str) -> str:
    """The result in eight bytes: none of floats of four bytes is beyond these, or too near to a limit to tell."""
    return f"(CAST({left} AS pg_catalog.float8) {operator} CAST({right} AS pg_catalog.float8))"
