"""A release as an Excel file: the table on one sheet, and on another the statement and what each column is.

Text stays text, whatever it begins with: in this format a cell of text is never a formula, and what could become one
when somebody edits it is marked as text for the spreadsheet. Numbers that a spreadsheet would round, and times that it
does not know, are written as text too.
"""

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import xlsxwriter

from osgt.facts import wording
from osgt.facts.plan_wording import ColumnNote, notes, publishing_facts
from osgt.facts.statement import Statement
from osgt.query.about import About
from osgt.query.groups import value_words
from osgt.support.text import FORMULA

#: Digits of a number that a spreadsheet keeps, and characters of a cell.
_DIGITS, _LONGEST = 15, 32_767

#: Thousandths of a second in a day, and in a second so many of each unit of time.
_DAY, _PARTS = 86_400_000, {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

#: From 1 March 1900 on all spreadsheets count days alike, up to the end of 9999; in thousandths of a second since 1970.
_FIRST, _END = -25_508 * _DAY, 2_932_897 * _DAY

#: The least and the largest width of a column of the table, and the widths of the notes, in characters.
_NARROW, _WIDE, _NOTE_WIDTHS = 10, 40, (28, 28, 16, 80)

_FORMATS: dict[str, dict[str, Any]] = {
    "text": {},
    "whole": {"num_format": "#,##0"},
    "date": {"num_format": "yyyy-mm-dd"},
    "time": {"num_format": "yyyy-mm-dd hh:mm:ss"},
    "head": {"bold": True, "text_wrap": True, "bottom": 1},
    "title": {"bold": True, "font_size": 14},
    "wrapped": {"text_wrap": True, "valign": "top"},
}


def write_excel(table: pa.Table, statement: Statement, about: About, path: Path) -> None:
    """Write the two sheets."""
    told = notes(statement.to_dict(), about)
    workbook = xlsxwriter.Workbook(path, {"in_memory": True})
    _write_table(_Sheet(workbook, "Table"), table, told, about)
    _write_notes(_Sheet(workbook, "Notes"), statement, about, told)
    workbook.set_properties({"title": about.title or "", "company": about.publisher or ""})
    workbook.close()


class _Sheet:
    """A sheet of which the rows are written in order."""

    def __init__(self, workbook: Any, name: str) -> None:
        self.sheet = workbook.add_worksheet(name)
        self.row = 0
        # Text that may begin like a formula is marked as text.
        self._formats = {
            (name, marked): workbook.add_format({**form, "quote_prefix": marked})
            for name, form in _FORMATS.items()
            for marked in (False, True)
        }

    def write(self, cells: Iterable[Any], form: str = "text") -> None:
        """The next row: texts in one format, other values in that of their type."""
        for at, value in enumerate(cells):
            self.cell(at, value, form)
        self.row += 1

    def cell(self, at: int, value: Any, form: str) -> None:
        """Write one cell of this row, in the type that a spreadsheet has for it."""
        place = self.row, at
        if value is None:
            return
        if isinstance(value, bool):
            self.sheet.write_boolean(*place, value)
        elif isinstance(value, int | float | Decimal) and _is_kept(value):
            self.sheet.write_number(*place, value, self._formats[form, False])
        elif isinstance(value, datetime.datetime):
            self.sheet.write_datetime(*place, value, self._formats[form, False])
        else:
            text = str(value)
            if len(text) > _LONGEST:
                raise ValueError(f"out: an Excel file holds texts of {_LONGEST:,} characters; write a Parquet file")
            self.sheet.write_string(*place, text, self._formats[form, bool(re.match(FORMULA, text))])


def _is_kept(number: float | Decimal) -> bool:
    """Whether a spreadsheet keeps a number as it is."""
    if not math.isfinite(number):
        return False
    return isinstance(number, float) or len(Decimal(number).as_tuple().digits) <= _DIGITS


def _write_table(sheet: _Sheet, table: pa.Table, told: list[ColumnNote], about: About) -> None:
    sheet.sheet.freeze_panes(1, sum(note.is_key for note in told))
    for at, name in enumerate(table.column_names):
        sheet.sheet.set_column(at, at, min(max(len(name) + 2, _NARROW), _WIDE))
    sheet.write(table.column_names, "head")
    forms = [_form(field.type, note) for field, note in zip(table.schema, told, strict=True)]
    for batch in table.to_batches(max_chunksize=10_000):
        named = zip(batch.schema.names, batch.columns, strict=True)
        for row in zip(*(_label(_cells(column), about.values.get(name)) for name, column in named), strict=True):
            for at, (value, form) in enumerate(zip(row, forms, strict=True)):
                sheet.cell(at, value, form)
            sheet.row += 1


def _form(dtype: pa.DataType, note: ColumnNote) -> str:
    """The format of a column. A key may be a year or a number of a place: no commas in it."""
    if pa.types.is_date(dtype):
        return "date"
    if pa.types.is_timestamp(dtype):
        return "time"
    return "whole" if pa.types.is_integer(dtype) and not note.is_key else "text"


def _cells(column: pa.Array) -> list[Any]:
    """Values for cells: times as such where a spreadsheet can hold them, else as text."""
    dtype = column.type
    if not pa.types.is_temporal(dtype):
        result: list[Any] = column.to_pylist()
        return result
    texts = column.cast(pa.string()).to_pylist()
    if pa.types.is_date32(dtype):
        thousandths = [None if day is None else (day * _DAY, 0) for day in column.cast(pa.int32()).to_pylist()]
    elif pa.types.is_date64(dtype) or (pa.types.is_timestamp(dtype) and dtype.tz is None):
        parts = _PARTS["ms" if pa.types.is_date64(dtype) else dtype.unit]
        thousandths = [None if n is None else divmod(n * 1000, parts) for n in column.cast(pa.int64()).to_pylist()]
    else:
        return list(texts)
    return [_moment(moment, text) for moment, text in zip(thousandths, texts, strict=True)]


def _label(cells: list[Any], labels: Mapping[str, str] | None) -> list[Any]:
    """The cells of a key with the labels of its values."""
    if labels is None:
        return cells
    return [cell if cell is None else labels.get(value_words(cell), cell) for cell in cells]


def _moment(thousandths: tuple[int, int] | None, text: str | None) -> datetime.datetime | str | None:
    """The moment so many thousandths of a second after 1970; the text if a spreadsheet cannot hold it exactly."""
    if thousandths is None or thousandths[1] or not _FIRST <= thousandths[0] < _END:
        return text
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=thousandths[0])


def _write_notes(sheet: _Sheet, statement: Statement, about: About, told: list[ColumnNote]) -> None:
    values = statement.to_dict()
    for at, width in enumerate(_NOTE_WIDTHS):
        sheet.sheet.set_column(at, at, width)
    sheet.write([about.title or "About this table"], "title")
    facts = [
        *([("Subtitle", about.subtitle)] if about.subtitle else []),
        *publishing_facts(about),
        ("Made on", values["date"][:10]),
        ("Software", values["software"]),
        ("Privacy loss ε, in total", values["epsilon"]),
        ("Probability δ, in total", values["delta"]),
        ("Protects", about.label(values["privacy"]["unit"])),
        ("Noise intervals", wording.interval(values["confidence"])),
    ]
    for fact in facts:
        sheet.write(fact)
    sheet.row += 1
    sheet.write(["What is promised, and how the table was made"], "title")
    for sentence in _sentences(statement.words):
        sheet.sheet.merge_range(sheet.row, 0, sheet.row, len(_NOTE_WIDTHS) - 1, "")
        sheet.sheet.set_row(sheet.row, 15 * math.ceil(len(sentence) / (0.9 * sum(_NOTE_WIDTHS))))
        sheet.write([sentence], "wrapped")
    sheet.row += 1
    sheet.write(["Columns"], "title")
    sheet.write(["Name", "Label", "Unit", "What it is"], "head")
    for note in told:
        sheet.write([note.name, note.label, note.unit, note.words], "wrapped")
    if about.values:
        sheet.row += 1
        sheet.write(["Values that are shown by a label"], "title")
        sheet.write(["Column", "Label", "Value"], "head")
        for key, labels in about.values.items():
            for value, label in labels.items():
                sheet.write([key, label, value], "wrapped")


def _sentences(words: str) -> list[str]:
    """The sentences of a statement: a full stop and a capital letter end one."""
    return re.split(r"(?<=\.) (?=[A-Z])", words)
