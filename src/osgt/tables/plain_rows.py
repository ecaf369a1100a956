"""Rows of a table in plain values of Python."""

from typing import Any

import pyarrow as pa


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in plain values; dates as text, since Python knows no years beyond 9999."""
    for i, field in enumerate(table.schema):
        if pa.types.is_temporal(field.type):
            table = table.set_column(i, field.name, table[i].cast(pa.string()))
    found: list[dict[str, Any]] = table.to_pylist()
    return found
