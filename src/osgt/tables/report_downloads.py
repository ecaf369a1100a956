"""The files inside a page: the table as CSV and Parquet, and the statement for programs."""

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from osgt.pages.rendering import data_uri
from osgt.tables.about import About
from osgt.tables.output import has_escaped_text, write_csv, write_parquet
from osgt.tables.statement import Statement

if TYPE_CHECKING:
    from osgt.tables.release import Release

#: Most rows and bytes of a file inside the page: larger ones would make it slow to open.
_ROWS, _BYTES = 50_000, 2_000_000

_CSV, _PARQUET, _JSON = "text/csv;charset=utf-8", "application/vnd.apache.parquet", "application/json"


@dataclass(frozen=True)
class Download:
    """A file that a link in the page saves: its name, what it is and its content as a data URI."""

    name: str
    title: str
    address: str


@dataclass(frozen=True)
class Downloads:
    """All that can be saved from a page, and the name of the file that lies beside it."""

    tables: tuple[Download, ...]
    statement: Download
    beside: str | None
    has_escaped_text: bool


def downloads(release: "Release", about: About, beside: str | None, name: str = "table") -> Downloads:
    """What a page offers; the files of the table have a name."""
    found = []
    if len(release) <= _ROWS:
        parquet, csv = io.BytesIO(), io.BytesIO()
        write_parquet(release.table, release.statement, about, parquet)
        try:
            write_csv(release.table, csv)
            found.append(_download(f"{name}.csv", "CSV, for spreadsheets", _CSV, csv))
        except pa.ArrowException:  # CSV cannot hold every type of a key
            pass
        found.append(_download(f"{name}.parquet", "Parquet, for programs", _PARQUET, parquet))
    tables = tuple(each for each in found if each is not None)
    escaped = any(each.name.endswith(".csv") for each in tables) and has_escaped_text(release.table)
    return Downloads(tables, statement_file(release.statement), beside, escaped)


def statement_file(statement: Statement) -> Download:
    """The statement for programs."""
    words = json.dumps(statement.to_dict(), indent=2, ensure_ascii=False)
    return Download("statement.json", "JSON", data_uri(_JSON, words.encode()))


def _download(name: str, title: str, kind: str, file: io.BytesIO) -> Download | None:
    content = file.getvalue()
    if len(content) > _BYTES:
        return None
    size = f"{len(content) / 1000:,.0f} kB" if len(content) >= 1000 else f"{len(content):,} bytes"
    return Download(name, f"{title} ({size})", data_uri(kind, content))
