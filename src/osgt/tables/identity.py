"""Which table is it? A name and a fingerprint of its columns, by which a ledger tells tables apart. No data."""

import hashlib
import json
import os
from pathlib import Path

import ibis.expr.datatypes as dt
import ibis.expr.schema as sch

#: Kinds of columns: an engine may say int32 where another says int64 for the same file.
_KINDS = ("boolean", "integer", "floating", "decimal", "string", "binary", "date", "timestamp", "time", "uuid")

#: Schemas that an engine looks into by itself.
_DEFAULT_SCHEMAS = ("public.", "main.", "default.")


def identity(source: object, table: str | None, schema: sch.Schema, origin: str) -> dict[str, str | None]:
    """The table in plain values, as `Ledger.reserve` takes it."""
    return {"name": name_of(source, table), "schema": fingerprint(schema), "source": origin}


def name_of(source: object, table: str | None) -> str | None:
    """The table's name in its database, or the file's name without folder and ending; None for frames in memory."""
    if table is not None:
        for prefix in _DEFAULT_SCHEMAS:
            table = table.removeprefix(prefix)
        return table
    if not isinstance(source, str | os.PathLike):
        return None
    path = Path(os.fspath(source))
    name = path.name.split(".")[0] or path.name
    if any(character in name for character in "*?["):
        return path.parent.name or name
    return name


def fingerprint(schema: sch.Schema) -> str:
    """A short hash over the names and kinds of the columns, in any order."""
    columns = sorted((name, _kind(dtype)) for name, dtype in schema.items())
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16]


def _kind(dtype: dt.DataType) -> str:
    return next((kind for kind in _KINDS if getattr(dtype, f"is_{kind}")()), "other")
