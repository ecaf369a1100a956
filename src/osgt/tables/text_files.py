"""CSV files: every column is text, and nothing about them is guessed but their names, which stand in the first line.

Every engine that reads them does so by the same rules (docs/tables.md), under which no row is an error.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

#: The delimiter for each ending, where none is given.
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def checked_delimiter(delimiter: object, suffix: str) -> str:
    """The delimiter of a file with this suffix, or the one that was given."""
    if delimiter is None:
        return DELIMITERS[suffix]
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        raise ValueError(f'delimiter must be one character, as ";" or "\\t", got {delimiter!r}')
    return delimiter


def header_of(paths: Sequence[Path], delimiter: str) -> list[str]:
    """The names of the columns, which all files must have in the same order."""
    headers = [_header(path, delimiter) for path in paths]
    for path, header in zip(paths, headers, strict=True):
        if header != headers[0]:
            raise ValueError(
                f"source: the files must have the same columns in the same order; {str(path)!r} has others than "
                f"{str(paths[0])!r}"
            )
    return headers[0]


def _header(path: Path, delimiter: str) -> list[str]:
    wrong = ValueError(f"source: the first line of {str(path)!r} must hold the names of the columns, in UTF-8")
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            # What follows the first line may be anything.
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
            names = next(csv.reader(text, delimiter=delimiter, quotechar='"', strict=True), [])
            "".join(names).encode()
    except (OSError, UnicodeEncodeError, csv.Error):
        raise wrong from None
    if not any(names):
        raise wrong
    return [name or f"column_{i}" for i, name in enumerate(names, start=1)]
