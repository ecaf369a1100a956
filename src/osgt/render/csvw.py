"""CSV that is safe to open in a spreadsheet, and beside it CSV on the Web (W3C): what the file holds and promises.

A spreadsheet takes text that begins with `=`, `+`, `-` or `@` for a formula, also after characters that it skips. In
CSV such text gets an apostrophe before it, and so does text that begins with an apostrophe. A program that reads the
file gets the exact text back when it removes one apostrophe from the beginning of every name and text that has one.
Numbers are never changed, but for those that are none: NaN, INF and -INF, as in XML Schema.

The vocabulary of the description is the "Metadata Vocabulary for Tabular Data". Names outside of it are those of
Dublin Core (`dc:`) and schema.org (`schema:`), whose prefixes it knows. The whole statement is in a note, as JSON in
text: the vocabulary gives names like `@id` inside objects a meaning, and the statement quotes names of columns.
"""

import json
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv

from osgt.facts.plan_wording import ColumnNote, notes
from osgt.facts.statement import Statement
from osgt.query.about import About
from osgt.support.text import FORMULA

#: What comes after the name of the CSV file.
SUFFIX = "-metadata.json"

#: The names of the notes that hold the statement and the texts of the report.
_STATEMENT, _TEXTS = "osgt statement", "osgt texts"

_ESCAPED = (
    " An apostrophe at the beginning of a name or text is not part of it: it is there so that no spreadsheet takes the "
    "text for a formula."
)

_WHOLE = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "unsignedByte",
    pa.uint16(): "unsignedShort",
    pa.uint32(): "unsignedInt",
    pa.uint64(): "unsignedLong",
}

#: Digits of a second that Arrow writes for each unit of time.
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def write_csv(table: pa.Table, path: Path | IO[bytes]) -> None:
    """Write CSV for spreadsheets."""
    pyarrow.csv.write_csv(pa.table([_as_text(column) for column in table.columns], names=csv_names(table)), path)


def csv_names(table: pa.Table) -> list[str]:
    """The names of the columns as CSV has them."""
    result: list[str] = _escape(_names(table)).to_pylist()
    return result


def has_escaped_text(table: pa.Table) -> bool:
    """Whether CSV of this table holds text with an apostrophe before it."""
    import pyarrow.compute as pc  # noqa: PLC0415 - takes a while

    texts = [_names(table), *(column for column in table.columns if _is_text(column.type))]
    return any(pc.any(pc.match_substring_regex(text.cast(pa.string()), FORMULA)).as_py() for text in texts)


def _names(table: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([table.column_names], pa.string())


def _is_text(dtype: pa.DataType) -> bool:
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    return dtype in (pa.string(), pa.large_string(), pa.string_view())


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as it is written: text that is no formula; numbers as they are, unless some are not finite."""
    import pyarrow.compute as pc  # noqa: PLC0415 - takes a while

    if _is_text(column.type):
        return _escape(column)
    if not pa.types.is_floating(column.type) or not pc.any(pc.invert(pc.is_finite(column))).as_py():
        return column
    return pc.replace_substring(pc.utf8_upper(column.cast(pa.string())), "NAN", "NaN")


def _escape(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc  # noqa: PLC0415 - takes a while

    texts = column.cast(pa.string())
    return pc.if_else(pc.match_substring_regex(texts, FORMULA), pc.binary_join_element_wise("'", texts, ""), texts)


def metadata(table: pa.Table, statement: Statement, about: About, csv_name: str) -> dict[str, Any]:
    """The description of a CSV file that lies beside it under this name."""
    values = statement.to_dict()
    result = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": quote(csv_name),
        "dc:title": about.title,
        "dc:alternative": about.subtitle,
        "dc:description": statement.words,
        "dc:publisher": None if about.publisher is None else {"schema:name": about.publisher},
        "schema:contactPoint": about.contact,
        "dc:temporal": about.period,
        "dc:source": about.source,
        "dc:license": about.licence,
        "dc:created": {"@value": values["date"], "@type": "xsd:dateTime"},
        "schema:additionalProperty": _promise(values),
        "dialect": {"encoding": "utf-8", "header": True, "delimiter": ",", "quoteChar": '"', "doubleQuote": True},
        "tableSchema": _schema(table, notes(values, about)),
        "notes": [
            {"schema:name": name, "schema:encodingFormat": "application/json", "schema:text": text}
            for name, text in ((_STATEMENT, json.dumps(values)), (_TEXTS, about.to_json()))
        ],
    }
    return {name: value for name, value in result.items() if value is not None}


def statement_in(plain: Any) -> tuple[Any, Any]:
    """The statement and the texts of a report in such a description, as JSON; None where there is none."""
    notes = plain.get("notes") if isinstance(plain, dict) else None
    texts = {}
    for note in notes if isinstance(notes, list) else []:
        if isinstance(note, dict):
            texts[str(note.get("schema:name"))] = note.get("schema:text")
    return texts.get(_STATEMENT), texts.get(_TEXTS)


def _promise(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The promise in a few numbers and words."""
    privacy = values["privacy"]
    told = {
        "privacy definition": privacy["definition"],
        "epsilon": values["epsilon"],
        "delta": values["delta"],
        "privacy unit": privacy["unit"],
        "neighbouring tables": privacy["neighbouring"],
        "confidence of the intervals": values["confidence"],
        "software": values["software"],
    }
    return [{"@type": "schema:PropertyValue", "schema:name": name, "schema:value": told[name]} for name in told]


def _schema(table: pa.Table, told: list[ColumnNote]) -> dict[str, Any]:
    columns = [
        _column(table.select([note.name]), header, note) for header, note in zip(csv_names(table), told, strict=True)
    ]
    keys = [column["name"] for column, note in zip(columns, told, strict=True) if note.is_key]
    # An empty field is missing here, so that keys tell rows apart only if none is empty.
    whole = all(_is_full(table[note.name]) for note in told if note.is_key)
    return {"columns": columns, **({"primaryKey": keys} if keys and whole else {})}


def _column(alone: pa.Table, header: str, note: ColumnNote) -> dict[str, Any]:
    titles = list(dict.fromkeys([header, note.label]))
    result = {
        "name": _variable(note.name),
        "titles": titles if len(titles) > 1 else header,
        "dc:description": note.words + (_ESCAPED if has_escaped_text(alone) else ""),
        "datatype": datatype(alone.schema[0].type),
        "schema:unitText": note.unit,
    }
    return {name: value for name, value in result.items() if value is not None}


def _variable(name: str) -> str:
    """A name as URI templates take it: letters, digits and underscores, not in front; the rest in percent codes."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else _percent(c) for c in name)
    return f"%5F{plain[1:]}" if plain.startswith("_") else plain


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def datatype(dtype: pa.DataType) -> str | dict[str, str]:
    """The datatype of a column as Arrow writes it in CSV."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    if pa.types.is_timestamp(dtype):
        zone = "" if dtype.tz is None else "XX"
        return {"base": "dateTime", "format": f"yyyy-MM-dd {_clock(dtype)}{zone}"}
    if pa.types.is_time(dtype):
        return {"base": "time", "format": _clock(dtype)}
    if pa.types.is_decimal(dtype):
        # Beyond these scales Arrow writes powers of ten, which only this type allows.
        return "decimal" if 0 <= dtype.scale <= 6 else "number"
    kinds = {pa.types.is_floating: "double", pa.types.is_boolean: "boolean", pa.types.is_date: "date"}
    return _WHOLE.get(dtype) or next((name for holds, name in kinds.items() if holds(dtype)), "string")


def _clock(dtype: pa.DataType) -> str:
    digits = _DIGITS[dtype.unit]
    return "HH:mm:ss" + (f".{'S' * digits}" if digits else "")


def _is_full(column: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc  # noqa: PLC0415 - takes a while

    if column.null_count:
        return False
    texts = column.cast(pa.string()) if datatype(column.type) == "string" else None
    return texts is None or not pc.any(pc.equal(texts, "")).as_py()
