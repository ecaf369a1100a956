"""Sources: whatever holds the rows, as a table of its engine. Only names and types are looked at here, no rows.

Which table is it? A name and a fingerprint of its columns, by which a ledger tells tables apart. No data.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osgt.data.engines import engine_for, engine_named, engine_of_ibis
from osgt.data.engines.engine import Engine
from osgt.data.engines.source import Options, Source, suffix_of
from osgt.data.reading import first_line
from osgt.data.sql import Table
from osgt.data.text_files import DELIMITERS
from osgt.data.types import ColumnType
from osgt.support.errors import ArgumentError
from osgt.support.servers import shown, without_secrets


def source_of(source: Any, options: Options) -> Source:
    """The table that `source` stands for: an Ibis table, or what an engine opens (`Engine.takes`)."""
    named = None if options.engine is None else engine_named(options.engine)
    if isinstance(source, Table) or _is_of_ibis(source):
        engine = source.engine if isinstance(source, Table) else engine_of_ibis(source.get_backend().name)
        if named is not None and named.name != engine.name:
            raise ArgumentError(f"engine must be {engine.name} for this table, got {named.name!r}", argument="engine")
        result = Source(source if isinstance(source, Table) else engine.ibis_table(source))
    else:
        engine = engine_for(source) if named is None else named
        is_text = isinstance(source, str | os.PathLike)
        result = _open(engine, os.fspath(source), options) if is_text else engine.opened(source, options)
    _check_options(source, result, engine, options)
    return result


def _check_options(source: Any, result: Source, engine: Engine, options: Options) -> None:
    """Raise if an option makes no sense for the source."""
    if options.master is not None and not engine.has_master:
        raise ArgumentError(f"master must be left out for {engine.title}, which runs where it is", argument="master")
    if options.types and not result.declarable:
        raise ArgumentError(
            "types is for CSV files and for frames; this source has types of its own: cast them there", argument="types"
        )
    for name in ("delimiter", "quote", "encoding", "decimal", "date_format"):
        if getattr(options, name) is not None and not _is_text_file(source):
            raise ArgumentError(f"{name} is for CSV files", argument=name)


def _is_of_ibis(source: Any) -> bool:
    """Whether it is an Ibis table, told by where it comes from: Ibis need not be installed."""
    return type(source).__module__.startswith("ibis.expr.types") and hasattr(source, "get_backend")


def _is_text_file(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and suffix_of(os.fspath(source)) in DELIMITERS


def _open(engine: Engine, name: str, options: Options) -> Source:
    """Open the source that a path or a URL names. Errors of engines and drivers may quote it, and so a password."""
    message = ""
    try:
        return engine.opened(name, options)
    except (ValueError, TypeError, OSError, ImportError) as error:
        if without_secrets(str(error), name) == str(error):
            raise
        message = without_secrets(str(error), name)
    except Exception as error:  # each engine has errors of its own
        message = without_secrets(first_line(error), name)
    raise ValueError(f"source {shown(name)!r} cannot be read: {message}")


def origin(source: object, table: str | None = None) -> str:
    """A name for a source that gives no password away."""
    if isinstance(source, str | os.PathLike):
        text = shown(os.fspath(source))
    else:
        text = f"{type(source).__module__.partition('.')[0]} {type(source).__name__}"
    return text if table is None else f"{text}, table {table}"


def files_of(source: object, table: Table) -> tuple[str, ...]:
    """The files that are read, as paths or globs: none of them may be written to."""
    named = [os.fspath(source)] if isinstance(source, str | os.PathLike) else []
    return (*named, *table.engine.files(table.connection))


#: The names of kinds in fingerprints, where they have others: ledgers keep these.
_KINDS = {"text": "string", "float": "floating", "clock": "time", "interval": "other", "null": "other"}

#: Schemas that an engine looks into by itself.
_DEFAULT_SCHEMAS = ("public.", "main.", "default.")


def identity(
    source: object, table: str | None, columns: Mapping[str, ColumnType], types: Mapping[str, str], origin: str
) -> dict[str, Any]:
    """The table in plain values, as `Ledger.reserve` takes it: `types` are those that are declared for its texts."""
    kinds = {name: "text" if name in types else dtype.kind for name, dtype in columns.items()}
    return {"name": name_of(source, table), "schema": fingerprint(kinds), "source": origin, "types": dict(types)}


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


def fingerprint(kinds: Mapping[str, str]) -> str:
    """A short hash over the names and kinds of the columns, in any order.

    Kinds, not types: an engine may say int32 where another says int64 for the same file.
    """
    named = sorted((name, _KINDS.get(kind, kind)) for name, kind in kinds.items())
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16]
