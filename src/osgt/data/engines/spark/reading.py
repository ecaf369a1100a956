"""CSV files as a view of Spark, with columns of text in their declared types."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from osgt.data.engines.engine import Engine
from osgt.data.engines.source import Options, Source, check_names, source_of_texts
from osgt.data.engines.spark.sessions import table_of_frame
from osgt.data.sql import Table
from osgt.data.text_files import CleanFiles, TextForm, header_of
from osgt.data.types import LONGEST, TEXT, Type, parse_types
from osgt.sampling.entropy import token
from osgt.support.errors import ArgumentError
from osgt.support.servers import shown

#: Spark's names for declared types, where they differ.
_NAMES = {"int64": "bigint", "float64": "double", "timestamp": "timestamp_ntz"}

#: The most fields of a row; each takes some bytes of memory while a file is read.
_MOST_FIELDS = 1 << 22


def text_files_as_view(
    engine: Engine, session: Any, name: str, paths: Sequence[Path], suffix: str, options: Options
) -> Source:
    """The files as a view; without `paths` Spark finds them, reads the names itself and checks each file's."""
    form = TextForm.of(options, suffix)
    writing, clean = options.writing, None
    if paths:
        names = header_of(paths, form)
        check_names(names)
        declared = parse_types(options.types, names, writing)
        clean = _clean(session, paths, form)
        frame = _frame(session, [str(path) for path in clean.paths], names, form)
    else:
        _check_elsewhere(session, name, form)
        frame = _frame(session, [name], None, form)
        declared = parse_types(options.types, list(frame.columns), writing)

    def view(columns: dict[str, Any]) -> Table:
        return table_of_frame(engine, frame.select(*(value.alias(name) for name, value in columns.items())))

    return source_of_texts(frame.columns, declared, _value, view, has_fields=True, files=clean)


def _clean(session: Any, paths: Sequence[Path], form: TextForm) -> CleanFiles:
    """The files, or copies of them on this machine, which those of a cluster do not see."""
    clean = CleanFiles(paths, form.encoding, one_line_end=True)
    if clean.copied and not session.sparkContext.master.startswith("local"):
        raise ArgumentError(
            f"source: {str(clean.copied[0])!r} must be read through a copy on this machine, which Spark on a cluster "
            "cannot see: it is not UTF-8 throughout, has a zero byte or a carriage return without a line feed, or its "
            "lines end now with a carriage return and now without; mend the file, or leave out engine and master",
            argument="source",
        )
    return clean


def _check_elsewhere(session: Any, name: str, form: TextForm) -> None:
    """Raise if files that Spark alone can read would have to be read through a copy."""
    if form.encoding != "utf-8":
        raise ArgumentError(
            f"encoding is for CSV files on this machine, got {form.encoding!r}; save the file in UTF-8",
            argument="encoding",
        )
    lines = session.read.option("lineSep", "\n").text(name)
    # The last line of a file may end with a carriage return alone: to Spark it is the end of that row too.
    wrong, ends = lines["value"].rlike(r"\r[\s\S]|\x00"), lines["value"].endswith("\r")
    if not lines.where(wrong).isEmpty() or lines.where(~wrong).select(ends).distinct().count() > 1:
        raise ArgumentError(
            f"source: a file of {shown(name)!r} has a zero byte or a carriage return without a line feed, or its lines "
            "end now with a carriage return and now without, which only files on this machine may do: mend the file",
            argument="source",
        )


def _frame(session: Any, paths: Sequence[str], names: Sequence[str] | None, form: TextForm) -> Any:
    """A DataFrame of text."""
    # Without a quote Spark takes the character 0 for one, which no file has.
    options = {
        "header": "true",
        "sep": form.delimiter,
        "quote": form.quote,
        "escape": form.quote or "\0",
        "encoding": "UTF-8",
        "mode": "PERMISSIVE",
        "multiLine": "true",
        # What stands for a field without text, so that it is told from "": nobody can have written it.
        "nullValue": token(32),
        "emptyValue": "",
        "columnNameOfCorruptRecord": f"osgt_{token(8)}",
        "enforceSchema": "false" if names is None else "true",
        # A row with more fields would be an error.
        "maxColumns": str(_MOST_FIELDS),
    }
    reader = session.read.options(**options)
    if names is not None:
        from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - an extra

        reader = reader.schema(StructType([StructField(name, StringType()) for name in names]))
    return reader.csv([_escape_pattern(path) for path in paths] if names is not None else list(paths))


def _escape_pattern(path: str) -> str:
    """A path in which Spark sees no pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _value(column: str, dtype: Type) -> Any:
    """A column of text in its declared type."""
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    text = functions.col("`" + column.replace("`", "``") + "`")
    if dtype == TEXT:
        return text
    text = functions.when(functions.length(text) <= LONGEST, text)
    kind = _NAMES.get(dtype.name, dtype.name)
    parts = [
        functions.lit(part) if isinstance(part, str) else functions.regexp_extract(text, dtype.whole, part)
        for part in dtype.parts
    ]
    read = functions.concat(*parts) if len(parts) > 1 else parts[0]
    return (functions.replace(read, functions.lit(","), functions.lit(".")) if dtype.comma else read).try_cast(kind)
