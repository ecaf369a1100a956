"""A published table with its statement: as other libraries take it, and in files, which are read again.

Parquet holds everything as it is, the statement among its metadata.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from osgt.facts.statement import Statement
from osgt.query.about import About
from osgt.query.aggregates.base import QuerySpec
from osgt.render import csvw
from osgt.render.csvw import write_csv
from osgt.support.errors import missing
from osgt.support.files import Target

#: What the names of the files must end in.
SUFFIXES = {"out": (".parquet", ".csv", ".xlsx"), "report": (".html",)}

#: Rows of a sheet of a spreadsheet, the one with the names among them.
SHEET_ROWS = 2**20

_NAMES = {".csv": "a CSV file", ".xlsx": "an Excel file"}

#: What every statement has: a file without is not one of these.
_REQUIRED = ("statement", "epsilon", "delta", "query", "columns", "privacy", "date", "software")


class Interchange:
    """The conversions of an object with an Arrow table.

    `pl.DataFrame(release)`, `pa.table(release)` and `SELECT … FROM release` in DuckDB read it as it is.
    """

    table: pa.Table

    def to_arrow(self) -> pa.Table:
        """The table as a pyarrow table."""
        return self.table

    def to_polars(self) -> Any:
        """The table as a polars frame."""
        try:
            import polars  # noqa: PLC0415 - nothing else needs it
        except ImportError:
            raise ImportError("to_polars needs polars: pip install polars") from None
        return polars.DataFrame(self)

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def out_key(table: str) -> str:
    """The key of a table's file among those that are written together; the only table has no name."""
    return f"table {table}" if table else "out"


def used_files(query: QuerySpec) -> tuple[str, ...]:
    """The files that a query reads or charges: a release never replaces them."""
    name = getattr(query.dataset.ledger, "name", None)
    return query.dataset.files if name is None else (*query.dataset.files, name)


def check_writable(query: QuerySpec, path: str | Path) -> None:
    """Raise if the table of a query cannot be written to a file of this kind."""
    suffix = Path(path).suffix.lower()
    if suffix not in _NAMES:
        return
    for name in query.groups.by:
        if query.dataset.table.columns[name].kind == "binary":
            raise TypeError(f"out: {_NAMES[suffix]} cannot hold the binary column {name!r}; write a Parquet file")
    if suffix == ".xlsx":
        if find_spec("xlsxwriter") is None:
            raise missing("an Excel file", "XlsxWriter", "excel")
        check_sheet(query.groups.public_group_count or 0)


def check_sheet(rows: int) -> None:
    """Raise if so many groups do not fit on a sheet."""
    if rows >= SHEET_ROWS:
        raise ValueError(f"out: an Excel file holds {SHEET_ROWS - 1:,} groups, got {rows:,}; write a Parquet file")


def write_workbook(
    tables: Mapping[str, tuple[pa.Table, Statement]], statement: Statement, about: About, path: Path
) -> None:
    """Write tables into one Excel file; the only table has no name."""
    from osgt.render.excel import write_excel  # noqa: PLC0415 - an extra

    write_excel(tables, statement, about, path)


def write_parquet(table: pa.Table, statement: Statement, about: About, path: Path | IO[bytes]) -> None:
    """Write Parquet with the statement and the texts in its metadata."""
    said = {b"osgt": json.dumps(statement.to_dict()).encode(), b"osgt.texts": about.to_json().encode()}
    metadata = {**(table.schema.metadata or {}), **said}
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while

    pq.write_table(table.replace_schema_metadata(metadata), path)


@dataclass(frozen=True)
class Published:
    """The content of a file of a release.

    Of a CSV file only its description was read, and `table` is None; else there is no `description`.
    """

    statement: Statement
    about: About = About()  # noqa: RUF009 - it cannot be changed
    table: pa.Table | None = None
    description: str | None = None

    def write(self, name: str, targets: Mapping[str, Target], places: Mapping[str, Path]) -> None:
        """Write the table into the places of a target and of what belongs beside it."""
        assert self.table is not None
        path, place = Path(targets[name].path), places[name]
        suffix = path.suffix.lower()
        if suffix == ".csv":
            write_csv(self.table, place)
            places[_beside(name)].write_text(self.metadata(path.name), encoding="utf-8")
        elif suffix == ".xlsx":
            check_sheet(self.table.num_rows)
            write_workbook({"": (self.table, self.statement)}, self.statement, self.about, place)
        else:
            write_parquet(self.table, self.statement, self.about, place)

    def metadata(self, csv_name: str) -> str:
        """The description of a CSV file of the table, which lies beside it."""
        assert self.table is not None
        plain = csvw.metadata(self.table, self.statement, self.about, csv_name)
        return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _beside(name: str) -> str:
    return f"{name}, its description"


def with_descriptions(targets: Mapping[str, Target]) -> dict[str, Target]:
    """The files to write, and for each CSV file the one with its description: all are written together or none is."""
    result: dict[str, Target] = {}
    for name, target in targets.items():
        result[name] = target
        if Path(target.path).suffix.lower() == ".csv":
            beside = Path(target.path).with_name(Path(target.path).name + csvw.SUFFIX)
            result[_beside(name)] = replace(target, path=beside, suffixes=())
    return result


def read_published(path: Path) -> Published:
    """Read a Parquet file, or the description beside a CSV file; a ValueError in words if it is neither."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    name = path.name.lower()
    if name.endswith(csvw.SUFFIX):
        return _read_description(path)
    if name.endswith(".csv"):
        beside = path.with_name(path.name + csvw.SUFFIX)
        if not beside.is_file():
            raise ValueError(f"{str(path)!r} has no statement: there is no file {beside.name!r} beside it")
        return _read_description(beside)
    if name.endswith(".parquet"):
        return _read_parquet(path)
    raise ValueError(
        f"{str(path)!r} holds no statement for programs: give a .parquet or .csv file that `osgt release` has written"
    )


def _read_parquet(path: Path) -> Published:
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError):
        raise ValueError(f"{str(path)!r} is not a Parquet file, or not a whole one") from None
    said = table.schema.metadata or {}
    return replace(_parse_statement(path, said.get(b"osgt"), said.get(b"osgt.texts", b"{}")), table=table)


def _read_description(path: Path) -> Published:
    try:
        text = path.read_text(encoding="utf-8")
        plain = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"{str(path)!r} is not JSON") from None
    return replace(_parse_statement(path, *csvw.statement_in(plain)), description=text)


def _parse_statement(path: Path, statement: Any, texts: Any) -> Published:
    """The statement and the texts, which are JSON; an error in words if they are not what a release writes."""
    if statement is None:
        raise ValueError(f"{str(path)!r} holds no statement: it was not written by `osgt release`")
    try:
        plain, about = json.loads(statement), About.from_json(texts)
        absent = [name for name in _REQUIRED if name not in plain]
    except (ValueError, TypeError, RecursionError):
        absent = ["all of it"]
    if absent:
        raise ValueError(
            f"the statement in {str(path)!r} is not whole (missing: {', '.join(absent)}): the file was changed, or "
            "another version of osgt wrote it"
        )
    return Published(Statement.from_dict(plain), about)
