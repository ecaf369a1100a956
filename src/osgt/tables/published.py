"""A published table with its statement: the files that it is written to, and read from again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from osgt.files import Target
from osgt.tables import csvw
from osgt.tables.about import About
from osgt.tables.output import write_csv, write_parquet
from osgt.tables.statement import Statement

#: What every statement has: a file without is not one of these.
_ALWAYS = ("statement", "epsilon", "delta", "query", "columns", "privacy", "date", "software")


@dataclass(frozen=True)
class Published:
    """What a file of a release holds.

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
            from osgt.tables.excel import write_excel  # noqa: PLC0415 - an extra

            write_excel(self.table, self.statement, self.about, place)
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
    found: dict[str, Target] = {}
    for name, target in targets.items():
        found[name] = target
        if Path(target.path).suffix.lower() == ".csv":
            beside = Path(target.path).with_name(Path(target.path).name + csvw.SUFFIX)
            found[_beside(name)] = replace(target, path=beside, suffixes=())
    return found


def read_published(path: Path) -> Published:
    """What a Parquet file says, or the description beside a CSV file; a ValueError in words if it is neither."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    name = path.name.lower()
    if name.endswith(csvw.SUFFIX):
        return _described(path)
    if name.endswith(".csv"):
        beside = path.with_name(path.name + csvw.SUFFIX)
        if not beside.is_file():
            raise ValueError(f"{str(path)!r} has no statement: there is no file {beside.name!r} beside it")
        return _described(beside)
    if name.endswith(".parquet"):
        return _parquet(path)
    raise ValueError(
        f"{str(path)!r} holds no statement for programs: give a .parquet or .csv file that `osgt release` has written"
    )


def _parquet(path: Path) -> Published:
    try:
        table = pyarrow.parquet.read_table(path)
    except (pa.ArrowException, OSError):
        raise ValueError(f"{str(path)!r} is not a Parquet file, or not a whole one") from None
    said = table.schema.metadata or {}
    return replace(_said(path, said.get(b"osgt"), said.get(b"osgt.texts", b"{}")), table=table)


def _described(path: Path) -> Published:
    try:
        text = path.read_text(encoding="utf-8")
        plain = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"{str(path)!r} is not JSON") from None
    return replace(_said(path, *csvw.said(plain)), description=text)


def _said(path: Path, statement: Any, texts: Any) -> Published:
    """The statement and the texts, which are JSON; an error in words if they are not what a release writes."""
    if statement is None:
        raise ValueError(f"{str(path)!r} holds no statement: it was not written by `osgt release`")
    try:
        plain, about = json.loads(statement), About.from_json(texts)
        missing = [name for name in _ALWAYS if name not in plain]
    except (ValueError, TypeError, RecursionError):
        missing = ["all of it"]
    if missing:
        raise ValueError(
            f"the statement in {str(path)!r} is not whole (missing: {', '.join(missing)}): the file was changed, or "
            "another version of osgt wrote it"
        )
    return Published(Statement.from_dict(plain), about)
