"""Keys: which groups a release shows. Public ones are all shown; others only if they are large enough."""

import itertools
import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import ibis.expr.datatypes as dt
import ibis.expr.schema as sch
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from osgt.limits import DECIMAL_DIGITS
from osgt.near_names import names_in_words
from osgt.tables.engines.engine import Engine
from osgt.tables.frames import interval_texts, is_interval

#: The column that numbers the public keys.
KEY = "key"


def public_table(keys: Any, by: Sequence[str], schema: sch.Schema) -> pa.Table:
    """The public keys as a table with the columns `by`, in the types of the source.

    Parameters
    ----------
    keys
        A list of keys (tuples if there are several columns), a dict with a list for each column (every combination of
        them), a pandas, polars or pyarrow frame, or the path of a CSV or Parquet file. `listed` says what may stand in
        place of a list.
    """
    table = _as_table(keys, by)
    if set(table.column_names) != set(by):
        raise ValueError(
            f"public_keys must have the columns of the keys alone, {names_in_words(by)}; got "
            f"{names_in_words(table.column_names)}"
        )
    is_text = _is_text_file(keys)  # whose fields are read in the types of the source
    table = pa.table([_converted(table[name], name, schema[name], read=is_text) for name in by], names=list(by))
    if table.num_rows == 0:
        raise ValueError("public_keys must hold at least one key, got none")
    if table.group_by(list(by)).aggregate([]).num_rows < table.num_rows:
        raise ValueError("public_keys must hold each key once")
    return table


def _converted(column: pa.ChunkedArray, name: str, dtype: dt.DataType, *, read: bool) -> pa.Array:
    """The keys of a column in the type of the source. None is turned into something else: 1 is not "1", nor True."""
    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (read or _is_like(column.type, dtype)):
        raise ValueError(
            f"public_keys: column {name!r} must hold {_in_words(dtype)}, as in the data; got keys of type {column.type}"
        )
    try:
        return column.cast(dtype.to_pyarrow())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"public_keys: column {name!r} must hold {_in_words(dtype)}: {error}") from None


def _is_like(given: pa.DataType, dtype: dt.DataType) -> bool:
    """Whether keys of an Arrow type can be keys of a column: of the same kind, or without a loss."""
    kinds, zone = pa.types, getattr(given, "tz", None) is not None
    time = kinds.is_timestamp(given)
    fits = [
        (dtype.is_string() or dtype.is_uuid()) and str(given) in ("string", "large_string", "string_view"),
        dtype.is_integer() and kinds.is_integer(given),
        dtype.is_boolean() and kinds.is_boolean(given),
        dtype.is_decimal() and (kinds.is_decimal(given) or kinds.is_integer(given)),
        dtype.is_date() and kinds.is_date(given),
        dtype.is_timestamp() and dtype.timezone is None and (kinds.is_date(given) or (time and not zone)),
        dtype.is_timestamp() and dtype.timezone is not None and zone,
        dtype.is_binary() and "binary" in str(given),
    ]
    return any(fits) or bool(kinds.is_null(given))


def _in_words(dtype: dt.DataType) -> str:
    if dtype.is_timestamp():
        return "times with a zone" if dtype.timezone is not None else "times without a zone"
    kinds = {"text": dtype.is_string(), "whole numbers": dtype.is_integer(), "truth values": dtype.is_boolean()}
    return next((words for words, holds in kinds.items() if holds), f"values of type {dtype}")


def _is_text_file(keys: Any) -> bool:
    return isinstance(keys, str | os.PathLike) and Path(keys).suffix.lower() == ".csv"


def _texts(path: Path, by: Sequence[str]) -> pa.Table:
    """A CSV file of text. Quoted, a field without text is the empty text; else it is missing."""
    options = {"strings_can_be_null": True, "null_values": [""], "quoted_strings_can_be_null": False}
    texts = pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in by}, **options)
    return pyarrow.csv.read_csv(path, convert_options=texts)


def _as_table(keys: Any, by: Sequence[str]) -> pa.Table:
    if isinstance(keys, str | os.PathLike):
        path = Path(keys)
        if not path.is_file():
            raise FileNotFoundError(f"public_keys: there is no file {str(path)!r}")
        try:
            return _texts(path, by) if _is_text_file(path) else pyarrow.parquet.read_table(path)
        except pa.ArrowInvalid:
            kind = "CSV in UTF-8, with the names of the columns in the first line" if _is_text_file(path) else "Parquet"
            raise ValueError(f"public_keys: {str(path)!r} cannot be read; it must be {kind}") from None
    if isinstance(keys, pa.Table):
        return keys
    if isinstance(keys, Mapping):
        if set(keys) != set(by):
            raise ValueError(
                f"public_keys must have a list for each key, {names_in_words(by)}; got {names_in_words([*keys])}"
            )
        lists = {name: listed(values) for name, values in keys.items()}
        for name, values in lists.items():
            if values is None:
                raise TypeError(f"public_keys must have a list for {name!r}, got {keys[name]!r}")
        return _of_tuples(list(itertools.product(*(lists[name] or [] for name in by))), by)
    if type(keys).__name__ == "DataFrame":
        if type(keys).__module__.startswith("pandas"):
            return pa.Table.from_pandas(_with_texts(keys.reset_index(drop=True)), preserve_index=False)
        if type(keys).__module__.startswith("polars"):
            return keys.to_arrow()
    found = listed(keys)
    if found is None:
        raise TypeError(
            f"public_keys must be a list, a dict of lists, a frame or the path of a file, got {type(keys).__name__}"
        )
    return _of_tuples([key if isinstance(key, tuple | list) else (key,) for key in found], by)


def listed(keys: Any) -> list[Any] | None:
    """Keys as a list: of a list, range, set (sorted), NumPy array, pandas or polars Series, Index or Categorical.

    Of what is categorical in pandas the categories, and intervals (of `pandas.cut`) as text, as "(0, 18]". None if it
    is nothing of that kind.
    """
    if isinstance(keys, Set):
        try:
            return sorted(keys, key=lambda key: (key is not None, key))
        except TypeError:
            raise TypeError("public_keys: a set must hold values of one type, which can be sorted") from None
    library = type(keys).__module__.partition(".")[0]
    if library == "pandas" and hasattr(keys, "dtype"):
        return _of_pandas(keys)
    if library == "polars" and hasattr(keys, "to_arrow"):
        return list(keys.to_arrow().to_pylist())
    if isinstance(keys, np.ndarray):
        return list(keys.tolist() if keys.ndim != 1 or keys.dtype == object else pa.array(keys).to_pylist())
    return list(keys) if isinstance(keys, Sequence) and not isinstance(keys, str | bytes) else None


def _of_pandas(keys: Any) -> list[Any]:
    dtype = keys.dtype
    if hasattr(dtype, "categories"):
        return _of_pandas(dtype.categories)
    values = list(keys.tolist())
    if is_interval(dtype):
        return [*interval_texts(values)]
    return values if hasattr(keys, "levels") else list(pa.array(values, from_pandas=True).to_pylist())


def _with_texts(frame: Any) -> Any:
    """A frame of pandas with text in place of intervals."""
    types = {name: getattr(getattr(dtype, "categories", None), "dtype", dtype) for name, dtype in frame.dtypes.items()}
    texts = {str(name): interval_texts(frame[name]) for name, dtype in types.items() if is_interval(dtype)}
    return frame.assign(**texts)


def _of_tuples(keys: list[Any], by: Sequence[str]) -> pa.Table:
    if any(len(key) != len(by) for key in keys):
        raise ValueError(f"public_keys must be tuples of {len(by)} values, one for each of {list(by)}")
    try:
        return pa.table([pa.array([key[i] for key in keys]) for i in range(len(by))], names=list(by))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise TypeError(f"public_keys must hold values of one type in each column: {error}") from None


def check_key_type(engine: Engine, argument: str, name: str, dtype: dt.DataType) -> None:
    """Raise unless equal values of this type are equal to everybody, and can be shown where they name a group."""
    if argument == "group_by" and dtype.is_decimal() and dtype.precision is None:
        raise TypeError(f"group_by: column {name!r} must have a precision to be shown, as numeric(20, 2) has")
    if argument == "group_by" and dtype.is_decimal() and dtype.precision > DECIMAL_DIGITS:
        raise TypeError(f"group_by: column {name!r} must have at most {DECIMAL_DIGITS} digits to be shown, got {dtype}")
    if not engine.can_be_key(dtype):
        raise TypeError(
            f"{argument}: column {name!r} of type {dtype} cannot tell groups or units apart; "
            "use whole numbers, text, dates or decimals"
        )
