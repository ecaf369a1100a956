"""Text that names units and groups is told apart byte by byte, whatever collation a column has.

Under a collation 'Rome' and 'rome' may be one group, but they are two to the hash that chooses groups: a unit would
count twice. And which of the spellings a release shows would depend on single rows.
"""

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from osgt.tables.functions import function


def as_bytes(engine: str, column: ir.Value) -> ir.Value:
    """The bytes of a column of text; other columns as they are."""
    if not column.type().is_string():
        return column
    if engine == "duckdb":
        return function("encode", column, returns=dt.binary)
    if engine == "postgres":
        text = function("text", column, returns=dt.string)  # of citext, char(n) and enumerations
        return function("convert_to", text, ibis.literal("UTF8"), returns=dt.binary)
    return column.cast("binary")


def as_text(engine: str, column: ir.Value) -> ir.Value:
    """The text that `as_bytes` made these bytes of."""
    if engine == "duckdb":
        return function("decode", column, returns=dt.string)
    if engine == "postgres":
        return function("convert_from", column, ibis.literal("UTF8"), returns=dt.string)
    return column.cast("string")
