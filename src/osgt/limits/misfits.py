"""The flaws found in reading CSV files: values that do not fit their types, and bytes that are no text.

In a release such values count as missing, whatever they are and however many. They are counted exactly for previews and
for the steward's terminal alone; a release counts those of rows with a unit, with noise (`left_out`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir

from osgt.data.rows import PrivateRows
from osgt.limits.worth import UNIT
from osgt.query.aggregates.base import QuerySpec
from osgt.support.numbers import counted

#: Numbers with a decimal comma, and with a decimal point.
_COMMA, _POINT = (rf"^\s*[+-]?[0-9]*{sign}[0-9]+\s*$" for sign in ("[,]", "[.]"))

#: Days, months and years in another order than that of ISO 8601.
_DAY = r"^\s*[0-9]{1,2}[./-] ?[0-9]{1,2}[./-] ?[0-9]{4}"

#: What stands for bytes that are no text.
_UNDECODED = "\ufffd"


@dataclass(frozen=True)
class Misfits:
    """The number of values of a column that do not fit its declared type.

    Among them are numbers with a decimal comma (or a point, if a comma is declared), and dates in another order.
    """

    number: int
    dtype: str
    example: str
    commas: int = 0
    points: int = 0
    dates: int = 0

    def words(self, column: str) -> str:
        """Say how many there are, how such values are written, and what may help."""
        do = "does" if self.number == 1 else "do"
        text = (
            f"{counted(self.number, 'value')} of {column} {do} not fit the declared type {self.dtype} (written as "
            f"{self.example}) and count as missing in a release."
        )
        for number, what, remedy in (
            (self.commas, "a decimal comma", 'if all have one, give decimal as ","'),
            (self.points, "a decimal point", 'if all have one, give decimal as "."'),
            (self.dates, "day, month and year in another order", 'give date_format, as "%d.%m.%Y" or "%m/%d/%Y"'),
        ):
            if number:
                text += f" {number:,} of them {'has' if number == 1 else 'have'} {what}: {remedy}."
        return text


@dataclass(frozen=True)
class LineEnds:
    """The number of fields of a column with line ends in them, and the number of lines of the longest."""

    number: int
    longest: int

    def words(self, column: str) -> str:
        """Say how many there are, and what they may come from."""
        have = "has" if self.number == 1 else "have"
        return (
            f"{counted(self.number, 'field')} of {column} {have} line ends inside quotes, the longest {self.longest:,} "
            "lines. If people do not write that much, a quote is never closed, and the rows after it are lost: where "
            'quotes are part of the text, give quote as "none".'
        )


def misfits(dataset: PrivateRows) -> Mapping[str, Misfits]:
    """Count the values that do not fit, for each declared column that has any."""
    texts = dataset.texts
    if texts is None:
        return {}
    counts, declared = {}, {}
    for name in _declared(dataset):
        place, dtype = dataset.stored.columns.index(name), dataset.declared_types[name]
        wrong = _is_wrong(texts, place)
        counts[f"number_{place}"] = texts.count(where=wrong)
        for kind, pattern in _kinds(dtype).items():
            counts[f"{kind}_{place}"] = texts.count(where=wrong & texts[f"text_{place}"].re_search(pattern))
        declared[place] = (name, dtype)
    [found] = dataset.table.get_backend().to_pyarrow(texts.agg(**counts)).to_pylist()
    return {
        name: Misfits(
            found[f"number_{place}"],
            dtype,
            dataset.source.examples[name],
            **{kind: found[f"{kind}_{place}"] for kind in _kinds(dtype)},
        )
        for place, (name, dtype) in declared.items()
        if found[f"number_{place}"]
    }


def _kinds(dtype: str) -> dict[str, str]:
    """Choose the patterns of values that do not fit, by what they look like."""
    if dtype in ("date", "timestamp"):
        return {"dates": _DAY}
    return {"commas": _COMMA, "points": _POINT} if dtype.startswith(("int64", "float64", "decimal")) else {}


def _declared(dataset: PrivateRows) -> list[str]:
    """The columns with a declared type that not every text fits."""
    return [name for name, dtype in dataset.declared_types.items() if dtype != "string"]


def _is_wrong(texts: ir.Table, place: int) -> ir.BooleanValue:
    """Whether there is a text that does not fit."""
    wrong: ir.BooleanValue = texts[f"text_{place}"].re_search(r"[^ \t\r\n]") & texts[f"value_{place}"].isnull()
    return wrong.fill_null(False)


def declared_columns(query: QuerySpec) -> tuple[str, ...]:
    """The columns with such a type that a query uses: for keys, values, conditions and what is derived for these.

    Rows in which the privacy unit does not fit have no unit, and are ignored.
    """
    dataset = query.dataset
    left = [
        *query.groups.by,
        *(name for each in query.aggregates for measure in each.measures for name in measure.reads),
        *(name for condition in dataset.filters for name in condition.columns),
    ]
    used: set[str] = set()
    while left:
        name = left.pop()
        if name not in used:
            used.add(name)
            left += dataset.derived[name].columns if name in dataset.derived else ()
    return tuple(name for name in _declared(dataset) if name in used and name not in dataset.unit.columns)


def fitting_rows(dataset: PrivateRows, columns: Sequence[str]) -> ir.Table:
    """Select all rows, whatever the conditions: their unit, and whether each column has a value that fits, or not.

    Conditions and public keys may leave out rows just because a value does not fit.
    """
    texts, names = dataset.texts, dataset.stored.columns
    places = {name: names.index(name) for name in (*dataset.unit.columns, *columns)}
    rows = dataset.stored if texts is None else texts
    values = {name: rows[name if texts is None else f"value_{place}"] for name, place in places.items()}
    found: dict[str, Any] = {}
    if not dataset.unit.each_row:
        found[UNIT] = dataset.unit.value(dataset.engine, values)
    for i, name in enumerate(columns):
        found[f"wrong_{i}"] = ibis.literal(False) if texts is None else _is_wrong(texts, places[name])
        found[f"fits_{i}"] = values[name].notnull()
    return rows.select(**found)


def undecoded(dataset: PrivateRows) -> int:
    """Count the rows of CSV files with bytes that are no text in their encoding, in any field."""
    fields = dataset.source.fields
    if fields is None:
        return 0
    wrong = fields[fields.columns[0]].contains(_UNDECODED).fill_null(False)
    for name in fields.columns[1:]:
        wrong = wrong | fields[name].contains(_UNDECODED).fill_null(False)
    return int(dataset.table.get_backend().to_pyarrow(fields.count(where=wrong)).as_py())


def line_ends(dataset: PrivateRows) -> Mapping[str, LineEnds]:
    """Count the fields with line ends in them, for each column of CSV files that has any."""
    fields = dataset.source.fields
    if fields is None:
        return {}
    counts: dict[str, Any] = {}
    for place, name in enumerate(fields.columns):
        ends = fields[name].length() - fields[name].replace("\n", "").length()
        counts |= {f"number_{place}": fields.count(where=ends > 0), f"longest_{place}": ends.max()}
    [found] = dataset.table.get_backend().to_pyarrow(fields.agg(**counts)).to_pylist()
    return {
        name: LineEnds(found[f"number_{place}"], int(found[f"longest_{place}"]) + 1)
        for place, name in enumerate(dataset.stored.columns)
        if found[f"number_{place}"]
    }


def without_unit(dataset: PrivateRows) -> tuple[int, int]:
    """Count the rows of CSV files without a unit that can be read, and all rows."""
    table = dataset.stored
    counts = table.agg(missing=table.count(where=dataset.unit.missing(table)), rows=table.count())
    [found] = table.get_backend().to_pyarrow(counts).to_pylist()
    return int(found["missing"]), int(found["rows"])
