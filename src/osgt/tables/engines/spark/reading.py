"""CSV files as a view of Spark, with columns of text in their declared types."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from osgt.sampling.entropy import token
from osgt.tables.engines.source import Options, Source
from osgt.tables.engines.spark.sessions import table_of_frame
from osgt.tables.frames import check_names
from osgt.tables.text_files import checked_delimiter, header_of
from osgt.tables.types import LONGEST, TEXT, Type, checked_types

#: Spark's names for declared types, where they differ.
_NAMES = {"int64": "bigint", "float64": "double", "timestamp": "timestamp_ntz"}


def text_files_as_view(connection: Any, name: str, paths: Sequence[Path], suffix: str, options: Options) -> Source:
    """The files as a view; without `paths` Spark finds them, reads the names itself and checks each file's."""
    delimiter = checked_delimiter(options.delimiter, suffix)
    if paths:
        names = header_of(paths, delimiter)
        check_names(names)
        declared = checked_types(options.types, names)
        frame = _frame(connection, [str(path) for path in paths], names, delimiter)
    else:
        frame = _frame(connection, [name], None, delimiter)
        declared = checked_types(options.types, list(frame.columns))
    table = table_of_frame(
        connection, frame.select(*(_value(each, declared.get(each, TEXT)).alias(each) for each in frame.columns))
    )
    texts = []
    for i, (each, dtype) in enumerate(declared.items()):
        if dtype != TEXT:
            texts += [_value(each, TEXT).alias(f"text_{i}"), _value(each, dtype).alias(f"value_{i}")]
    return Source(
        table,
        {each: dtype.name for each, dtype in declared.items()},
        declarable=True,
        texts=table_of_frame(connection, frame.select(*texts)) if texts else None,
    )


def _frame(connection: Any, paths: Sequence[str], names: Sequence[str] | None, delimiter: str) -> Any:
    """A DataFrame of text."""
    options = {
        "header": "true",
        "sep": delimiter,
        "quote": '"',
        "escape": '"',
        "encoding": "UTF-8",
        "mode": "PERMISSIVE",
        "multiLine": "true",
        # What stands for a field without text, so that it is told from "": nobody can have written it.
        "nullValue": token(32),
        "emptyValue": "",
        "columnNameOfCorruptRecord": f"osgt_{token(8)}",
        "enforceSchema": "false" if names is None else "true",
    }
    reader = connection._session.read.options(**options)
    if names is not None:
        from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - an extra

        reader = reader.schema(StructType([StructField(name, StringType()) for name in names]))
    return reader.csv([_quoted(path) for path in paths] if names is not None else list(paths))


def _quoted(path: str) -> str:
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
    return functions.regexp_extract(text, dtype.whole, 1).try_cast(kind)
