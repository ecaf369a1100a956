"""A release as an Excel file: a sheet for each table, crossed if it has two keys, and one with notes about all.

Text stays text, whatever it begins with: in this format a cell of text is never a formula, and what could become one
when somebody edits it is marked as text for the spreadsheet. Numbers that a spreadsheet would round, and times that it
does not know, are written as text too.
"""

import datetime
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xlsxwriter

from osgt.facts import wording
from osgt.facts.plan_wording import ColumnNote, notes, publishing_facts
from osgt.facts.statement import Statement
from osgt.query.about import About
from osgt.query.aggregates.marks import MARK
from osgt.query.groups import SUMMED_OVER, key_words, value_words
from osgt.render.cross import Cross, cross_of
from osgt.render.table import ENDS
from osgt.support.text import FORMULA, columns_wide, last_place

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


#: Characters of the name of a sheet, and those that it cannot have; what is added to that of a cross table.
_NAME, _FORBIDDEN, _CROSSED = 31, re.compile(r"[\[\]:*?/\\]|^'|'$"), " (cross)"

#: The mark of the cells with the statement for programs, which is in parts: a cell holds 32,767 characters.
_STATEMENT, _CELL = "osgt statement: ", 30_000

#: Rows that the width of a column is chosen by.
_MEASURED = 1000


def write_excel(
    tables: Mapping[str, tuple[pa.Table, Statement]], statement: Statement, about: About, path: Path
) -> None:
    """Write a workbook: a sheet for each table, another for each with two keys, and one with the notes about all."""
    workbook = xlsxwriter.Workbook(path, {"in_memory": True})
    told = {name: notes(own.to_dict(), about) for name, (_, own) in tables.items()}
    taken = {"notes"}
    for name, (table, _) in tables.items():
        _write_table(_Sheet(workbook, sheet_name(name or "Table", taken)), table, told[name], about)
        keys = [note.name for note in told[name] if note.is_key]
        cross = cross_of(table, keys, about)
        if cross is not None:
            _write_cross(
                _Sheet(workbook, sheet_name(name or "Table", taken, _CROSSED)), table, cross, told[name], about
            )
    _write_notes(_Sheet(workbook, "Notes"), statement, about, told)
    workbook.set_properties({"title": about.title or "", "company": about.publisher or ""})
    workbook.close()


def sheet_name(name: str, taken: set[str], end: str = "") -> str:
    """A name for a sheet that no other has, whatever the capital letters, in the characters that there may be."""
    plain, number = _FORBIDDEN.sub("_", name), 1
    while True:
        tail = end if number == 1 else f"{end} {number}"
        result = plain[: _NAME - len(tail)] + tail
        if result.casefold() not in taken:
            taken.add(result.casefold())
            return result
        number += 1


class _Sheet:
    """A sheet of which the rows are written in order."""

    def __init__(self, workbook: Any, name: str) -> None:
        self.sheet = workbook.add_worksheet(name)
        self.row = 0
        self._workbook = workbook
        self._formats: dict[tuple[str, bool], Any] = {}

    def _format(self, form: str, *, marked: bool = False) -> Any:
        """A format by its name, or that of a number; text that may begin like a formula is marked as text."""
        if (form, marked) not in self._formats:
            own = _FORMATS.get(form, {"num_format": form})
            self._formats[form, marked] = self._workbook.add_format({**own, "quote_prefix": marked})
        return self._formats[form, marked]

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
            self.sheet.write_number(*place, value, self._format(form))
        elif isinstance(value, datetime.datetime):
            self.sheet.write_datetime(*place, value, self._format(form))
        else:
            text = str(value)
            if len(text) > _LONGEST:
                raise ValueError(f"out: an Excel file holds texts of {_LONGEST:,} characters; write a Parquet file")
            self.sheet.write_string(*place, text, self._format(form, marked=bool(re.match(FORMULA, text))))


def _is_kept(number: float | Decimal) -> bool:
    """Whether a spreadsheet keeps a number as it is."""
    if not math.isfinite(number):
        return False
    return isinstance(number, float) or len(Decimal(number).as_tuple().digits) <= _DIGITS


def _write_table(sheet: _Sheet, table: pa.Table, told: list[ColumnNote], about: About) -> None:
    """A row for each group, with filters; totals by their name."""
    keys = [note.name for note in told if note.is_key]
    sheet.sheet.freeze_panes(1, len(keys))
    sheet.sheet.autofilter(0, 0, table.num_rows, table.num_columns - 1)
    forms = _forms(table, told)
    columns = [_words(table, name, about) if name in keys else _cells(table[name].combine_chunks()) for name in forms]
    for at, (name, cells) in enumerate(zip(forms, columns, strict=True)):
        sheet.sheet.set_column(at, at, _width(name, cells))
    sheet.write(forms, "head")
    for row in zip(*columns, strict=True):
        for at, (value, form) in enumerate(zip(row, forms.values(), strict=True)):
            sheet.cell(at, value, form)
        sheet.row += 1


def _write_cross(sheet: _Sheet, table: pa.Table, cross: Cross, told: list[ColumnNote], about: About) -> None:
    """A cross table for each column of numbers: first the numbers, then the ends of their intervals and marks."""
    forms = _forms(table, told)
    numbers = [note for note in told if note.name not in (*cross.keys, SUMMED_OVER)]
    ends = [note for note in numbers if note.name.endswith((*ENDS[1:], MARK))]
    sheet.sheet.freeze_panes(0, 1)
    sheet.sheet.set_column(0, 0, _width(about.label(cross.keys[0]), [*cross.sides]))
    sheet.sheet.set_column(1, len(cross.heads), _NARROW)
    for note in sorted(numbers, key=lambda note: note in ends):
        cells = _cells(table[note.name].combine_chunks())
        sheet.write([f"{note.label} ({note.unit})" if note.unit else note.label], "title")
        sheet.write([f"{about.label(cross.keys[0])} \\ {about.label(cross.keys[1])}", *cross.heads], "head")
        for side, places in zip(cross.sides, cross.places, strict=True):
            sheet.cell(0, side, "text")
            for at, place in enumerate(places):
                sheet.cell(1 + at, None if place is None else cells[place], forms[note.name])
            sheet.row += 1
        sheet.row += 1


def _width(name: str, cells: Sequence[Any]) -> int:
    """The width of a column, for its name and what it holds."""
    longest = max((columns_wide(str(cell)) for cell in cells[:_MEASURED] if isinstance(cell, str)), default=0)
    return min(max(columns_wide(name) + 4, longest + 2, _NARROW), _WIDE)


def _words(table: pa.Table, key: str, about: About) -> list[Any]:
    """The cells of a key: values by their labels, totals by that name."""
    cells = _label(_cells(table[key].combine_chunks()), about.values.get(key))
    if SUMMED_OVER not in table.column_names:
        return cells
    over = table[SUMMED_OVER].to_pylist()
    total = [None if keys is None else key_words({key: None, SUMMED_OVER: keys}, key, missing="") for keys in over]
    return [words or None if cell is None else cell for cell, words in zip(cells, total, strict=True)]


def _forms(table: pa.Table, told: list[ColumnNote]) -> dict[str, str]:
    """The format of each column by its name: numbers with decimals are shown with those that the noise leaves."""
    forms = {field.name: _form(field.type, note) for field, note in zip(table.schema, told, strict=True)}
    for name in table.column_names:
        ends = [name + end for end in ENDS]
        if set(ends) <= set(table.column_names) and pa.types.is_floating(table.schema.field(name).type):
            low, high = (np.array(table[end].to_pylist(), dtype=float) for end in ends[1:])
            lengths = (high - low)[np.isfinite(high - low)]
            place = last_place(float(np.median(lengths)) / 2) if len(lengths) else None
            decimals = 0 if place is None else min(max(0, -place), _DIGITS)
            forms |= dict.fromkeys(ends, "#,##0" + ("." + "0" * decimals if decimals else ""))
    return forms


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


def _write_notes(sheet: _Sheet, statement: Statement, about: About, told: Mapping[str, list[ColumnNote]]) -> None:
    several = len(told) > 1
    for at, width in enumerate(_NOTE_WIDTHS):
        sheet.sheet.set_column(at, at, width)
    sheet.write([about.title or ("About these tables" if several else "About this table")], "title")
    for fact in _facts(statement, about):
        sheet.write(fact)
    sheet.row += 1
    sheet.write([f"What is promised, and how the {'tables were' if several else 'table was'} made"], "title")
    for sentence in (one for line in statement.words.splitlines() for one in _sentences(line)):
        sheet.sheet.merge_range(sheet.row, 0, sheet.row, len(_NOTE_WIDTHS) - 1, "")
        sheet.sheet.set_row(sheet.row, 15 * math.ceil(len(sentence) / (0.9 * sum(_NOTE_WIDTHS))))
        sheet.write([sentence], "wrapped")
    for name, columns in told.items():
        title = f"Columns of {about.labels.get(name, name)}" if name else "Columns"
        _write_list(
            sheet,
            title,
            ["Name", "Label", "Unit", "What it is"],
            [[note.name, note.label, note.unit, note.words] for note in columns],
        )
    if about.values:
        shown = [[key, label, value] for key, labels in about.values.items() for value, label in labels.items()]
        _write_list(sheet, "Values that are shown by a label", ["Column", "Label", "Value"], shown)
    _write_statement(sheet, statement.to_dict())


def _facts(statement: Statement, about: About) -> list[tuple[str, Any]]:
    """Who publishes the tables, and the figures of their promise."""
    values = statement.to_dict()
    return [
        *([("Subtitle", about.subtitle)] if about.subtitle else []),
        *publishing_facts(about),
        ("Made on", values["date"][:10]),
        ("Software", values["software"]),
        ("Privacy loss ε, in total", values["epsilon"]),
        ("Probability δ, in total", values["delta"]),
        ("Protects", f"each {values['privacy']['noun'][0]} ({values['privacy']['unit_in_words']})"),
        ("Noise intervals", wording.interval(values["confidence"])),
    ]


def _write_list(sheet: _Sheet, title: str, head: list[str], rows: list[list[Any]]) -> None:
    """Write rows under a title, with an empty row above."""
    sheet.row += 1
    sheet.write([title], "title")
    sheet.write(head, "head")
    for row in rows:
        sheet.write(row, "wrapped")


def _write_statement(sheet: _Sheet, values: Mapping[str, Any]) -> None:
    """Write all values of a statement, as programs read them."""
    sheet.row += 1
    sheet.write(["For programs: all values of the statement, which `osgt check` recomputes the promise from"], "title")
    text = json.dumps(values, ensure_ascii=False)
    # Written as JSON escapes: what XML cannot hold, and what would begin one of a spreadsheet's own (_x0041_).
    text = re.sub("_(?=x)|[\ud800-\udfff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", text)
    for start in range(0, len(text), _CELL):
        sheet.write([f"{_STATEMENT}{text[start : start + _CELL]}"])


def _sentences(words: str) -> list[str]:
    """The sentences of a statement: a full stop and a capital letter end one."""
    return re.split(r"(?<=\.) (?=[A-Z])", words)
