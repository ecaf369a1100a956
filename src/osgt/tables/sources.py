"""Sources: whatever holds the rows, as a table of its engine. Only names and types are looked at here, no rows."""

import os
from typing import Any

import ibis.expr.types as ir

from osgt.locations import shown, without_secrets
from osgt.tables.engines import engine_for, engine_named, engine_on
from osgt.tables.engines.engine import Engine
from osgt.tables.engines.registry import mark
from osgt.tables.engines.source import Options, Source, suffix_of
from osgt.tables.reading import first_line
from osgt.tables.text_files import DELIMITERS


def source_of(source: Any, options: Options) -> Source:
    """The table that `source` stands for: an Ibis table, or what an engine opens (`Engine.takes`)."""
    named = None if options.engine is None else engine_named(options.engine)
    if isinstance(source, ir.Table) and source._find_backends()[0]:
        engine = engine_on(source.get_backend())
        if named is not None and named.name != engine.name:
            raise ValueError(f"engine must be {engine.name} for this table, got {named.name!r}")
        found = Source(source)
    else:
        engine = engine_for(source) if named is None else named
        is_text = isinstance(source, str | os.PathLike)
        found = _opened(engine, os.fspath(source), options) if is_text else engine.opened(source, options)
        mark(found.table.get_backend(), engine)
    if options.master is not None and not engine.has_master:
        raise ValueError(f"master must be left out for {engine.title}, which runs where it is")
    if options.types and not found.declarable:
        raise ValueError("types is for CSV files and for frames; this source has types of its own: cast them there")
    if options.delimiter is not None and not _is_text_file(source):
        raise ValueError("delimiter is for CSV files")
    return found


def _is_text_file(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and suffix_of(os.fspath(source)) in DELIMITERS


def _opened(engine: Engine, name: str, options: Options) -> Source:
    """What a path or a URL names. Errors of engines and drivers may quote it, and so a password."""
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


def files_of(source: object, table: ir.Table) -> tuple[str, ...]:
    """The files that are read, as paths or globs: none of them may be written to."""
    named = [os.fspath(source)] if isinstance(source, str | os.PathLike) else []
    backend = table.get_backend()
    return (*named, *engine_on(backend).files(backend))
