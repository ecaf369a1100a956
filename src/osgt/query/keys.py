"""Keys: which groups a release shows. Public ones are all shown; others only if they are large enough."""

import csv
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from osgt.data.columns import convert, list_values
from osgt.data.engines.source import interval_texts, is_interval
from osgt.data.types import ColumnType
from osgt.support.errors import ArgumentError, ArgumentTypeError, about
from osgt.support.text import names_in_words, nearest

#: The column that numbers the public keys.
KEY = "key"


def public_table(keys: Any, by: Sequence[str], types: Mapping[str, ColumnType]) -> pa.Table:
    """The public keys as a table with the columns `by`, in the types of the source.

    Parameters
    ----------
    keys
        A list of keys (tuples if there are several columns), a dict with a list for each column (every combination of
        them), a pandas, polars or pyarrow frame, or the path of a CSV or Parquet file. `list_values` says what may
        stand in place of a list.
    """
    table = _as_table(keys, by)
    if set(table.column_names) != set(by):
        raise ArgumentError(
            f"public_keys must have the columns of the keys alone, {names_in_words(by)}; got "
            f"{names_in_words(table.column_names)}",
            argument="public_keys",
        )
    is_text = is_text_file(keys)  # whose fields are read in the types of the source
    table = pa.table([_convert(table, name, types, read=is_text) for name in by], names=list(by))
    if table.num_rows == 0:
        raise ArgumentError("public_keys must hold at least one key, got none", argument="public_keys")
    if table.group_by(list(by)).aggregate([]).num_rows < table.num_rows:
        raise ArgumentError("public_keys must hold each key once", argument="public_keys")
    return table


def check_among(public: pa.Table, known: Mapping[str, Sequence[Any] | None]) -> None:
    """Raise if a key is not among the values that its column is known to have: the group would be noise alone."""
    for name, values in known.items():
        texts = dict.fromkeys(str(value) for value in values or ())
        for key in [] if values is None else public[name].unique().to_pylist():
            if key is not None and str(key) not in texts:
                hint = nearest(str(key), [*texts])
                raise ArgumentError(
                    f"public_keys: {str(key)!r} is not among the values that column {name!r} has by its "
                    f"description{hint}; they are {names_in_words([*texts])}",
                    argument="public_keys",
                )


def _convert(table: pa.Table, name: str, types: Mapping[str, ColumnType], *, read: bool) -> pa.Array:
    what = f"public_keys: column {name!r}"
    return convert(table[name], what, types[name], read=read, argument="public_keys")


def is_text_file(keys: Any) -> bool:
    """Whether it is the path of a CSV file."""
    return isinstance(keys, str | os.PathLike) and Path(keys).suffix.lower() == ".csv"


def read_frame(given: Any, by: Sequence[str], argument: str) -> pa.Table | None:
    """A frame, or the file at a path, as a table of Arrow; in CSV the keys `by` stay text. None if it is neither."""
    if isinstance(given, str | os.PathLike):
        return _read_file(Path(given), by, argument)
    if isinstance(given, pa.Table):
        return given
    library = type(given).__module__.partition(".")[0] if type(given).__name__ == "DataFrame" else ""
    if library == "pandas":
        return pa.Table.from_pandas(_with_texts(given.reset_index(drop=True)), preserve_index=False)
    return given.to_arrow() if library == "polars" else None


def _as_table(keys: Any, by: Sequence[str]) -> pa.Table:
    """The keys as they are given, in a table of Arrow."""
    frame = read_frame(keys, by, "public_keys")
    if frame is not None:
        return frame
    if isinstance(keys, Mapping):
        return _all_combinations(keys, by)
    rows = list_values(keys, "public_keys")
    if rows is None:
        raise ArgumentTypeError(
            f"public_keys must be a list, a dict of lists, a frame or the path of a file, got {type(keys).__name__}",
            argument="public_keys",
        )
    return table_of_tuples([key if isinstance(key, tuple | list) else (key,) for key in rows], by)


def _read_file(path: Path, by: Sequence[str], argument: str) -> pa.Table:
    """A Parquet or CSV file. In CSV a field without text is the empty text if it is quoted; else it is missing."""
    if not path.is_file():
        raise about(argument, FileNotFoundError(f"{argument}: there is no file {str(path)!r}"))
    from pyarrow.parquet import read_table  # noqa: PLC0415 - takes a while

    is_text = is_text_file(path)
    options = {"strings_can_be_null": True, "null_values": [""], "quoted_strings_can_be_null": False}
    texts = pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in by}, **options)
    try:
        if is_text:
            return pyarrow.csv.read_csv(path, convert_options=texts)
        return read_table(path)
    except pa.ArrowInvalid:
        kind = "CSV in UTF-8, with the names of the columns in the first line" if is_text else "Parquet"
        raise ArgumentError(f"{argument}: {str(path)!r} cannot be read; it must be {kind}", argument=argument) from None


def _all_combinations(keys: Mapping[Any, Any], by: Sequence[str]) -> pa.Table:
    """All combinations of the values of each key."""
    if set(keys) != set(by):
        raise ArgumentError(
            f"public_keys must have a list for each key, {names_in_words(by)}; got {names_in_words([*keys])}",
            argument="public_keys",
        )
    lists = {name: list_values(values, "public_keys") for name, values in keys.items()}
    for name, values in lists.items():
        if values is None:
            raise ArgumentTypeError(
                f"public_keys must have a list for {name!r}, got a value of type {type(keys[name]).__name__}",
                argument="public_keys",
            )
    return table_of_tuples(list(itertools.product(*(lists[name] or [] for name in by))), by)


def read_keys(text: str, name: str, dtype: ColumnType) -> list[Any]:
    """The keys of a column that are written with commas between them, and with quotes around those that have one."""
    [texts] = list(csv.reader([text], skipinitialspace=True)) or [[]]
    table = pa.table({name: pa.array([text.strip() for text in texts], pa.string())})
    return list(_convert(table, name, {name: dtype}, read=True).to_pylist())


def _with_texts(frame: Any) -> Any:
    """A frame of pandas with text in place of intervals."""
    types = {name: getattr(getattr(dtype, "categories", None), "dtype", dtype) for name, dtype in frame.dtypes.items()}
    texts = {str(name): interval_texts(frame[name]) for name, dtype in types.items() if is_interval(dtype)}
    return frame.assign(**texts)


def table_of_tuples(keys: Sequence[Any], by: Sequence[str], argument: str = "public_keys") -> pa.Table:
    """Keys that are given as tuples, in a table of Arrow."""
    if any(len(key) != len(by) for key in keys):
        raise ArgumentError(
            f"{argument} must be tuples of {len(by)} values, one for each of {list(by)}", argument=argument
        )
    try:
        return pa.table([pa.array([key[i] for key in keys]) for i in range(len(by))], names=list(by))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ArgumentTypeError(
            f"{argument} must hold values of one type in each column: {error}", argument=argument
        ) from None
