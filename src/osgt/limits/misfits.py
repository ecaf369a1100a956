"""The flaws found in reading CSV files: values that do not fit their types, and bytes that are no text.

In a release such values count as missing, whatever they are and however many. They are counted exactly for previews and
for the steward's terminal alone; a release counts those of rows with a unit, with noise (`left_out`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

from osgt.data.engines.query import compile_query, fetch
from osgt.data.rows import PrivateRows
from osgt.data.sql import Table, Value
from osgt.limits.contribution import UNIT
from osgt.query.aggregates.base import QuerySpec
from osgt.support.text import counted

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
        place, dtype = list(dataset.stored.columns).index(name), dataset.declared_types[name]
        wrong = _is_wrong(texts, place)
        counts[f"number_{place}"] = texts.count().where(wrong)
        for kind, pattern in _kinds(dtype).items():
            counts[f"{kind}_{place}"] = texts.count().where(
                wrong & texts.engine.matches(texts[f"text_{place}"], pattern)
            )
        declared[place] = (name, dtype)
    result = ask(texts, counts)
    return {
        name: Misfits(
            result[f"number_{place}"],
            dtype,
            dataset.source.examples[name],
            **{kind: result[f"{kind}_{place}"] for kind in _kinds(dtype)},
        )
        for place, (name, dtype) in declared.items()
        if result[f"number_{place}"]
    }


def _kinds(dtype: str) -> dict[str, str]:
    """Choose the patterns of values that do not fit, by what they look like."""
    if dtype in ("date", "timestamp"):
        return {"dates": _DAY}
    return {"commas": _COMMA, "points": _POINT} if dtype.startswith(("int64", "float64", "decimal")) else {}


def _declared(dataset: PrivateRows) -> list[str]:
    """The columns with a declared type that not every text fits."""
    return [name for name, dtype in dataset.declared_types.items() if dtype != "string"]


def _is_wrong(texts: Table, place: int) -> Value:
    """Whether there is a text that does not fit; null where there is none."""
    return texts.engine.matches(texts[f"text_{place}"], r"[^ \t\r\n]") & texts[f"value_{place}"].is_null()


def ask(table: Table, numbers: Mapping[str, Value]) -> dict[str, Any]:
    """Ask for exact numbers about all rows of a table, each an aggregate. For whoever may see the data."""
    counts = table.select("counts", "Exact numbers, for whoever may see the data.", numbers)
    [answer] = fetch(compile_query(counts)).to_pylist()
    return dict(answer)


def declared_columns(query: QuerySpec) -> tuple[str, ...]:
    """The columns with such a type that a query uses: for keys, values, conditions and what is derived for these.

    Rows in which the privacy unit does not fit have no unit, and are ignored. Of a part of the people none are told:
    what did not fit was not read as rows of that part alone; nor of joined rows, which do not know their texts.
    """
    dataset = query.dataset
    if dataset.part is not None or dataset.texts is None:
        return ()
    left = [
        *query.groups.by,
        *(name for aggregate in query.aggregates for measure in aggregate.measures for name in measure.reads),
        *(name for condition in dataset.filters for name in condition.columns),
    ]
    used: set[str] = set()
    while left:
        name = left.pop()
        if name not in used:
            used.add(name)
            left += dataset.derived[name].columns if name in dataset.derived else ()
    return tuple(name for name in _declared(dataset) if name in used and name not in dataset.unit.columns)


def fitting_rows(dataset: PrivateRows, columns: Sequence[str]) -> Table:
    """Select all rows with a unit, whatever the conditions: the unit, and whether each column has a value that fits.

    Conditions and public keys may leave out rows just because a value does not fit.
    """
    texts, names = dataset.texts, list(dataset.stored.columns)
    places = {name: names.index(name) for name in (*dataset.unit.columns, *columns)}
    rows = dataset.stored if texts is None else texts
    values = {name: rows[name if texts is None else f"value_{place}"] for name, place in places.items()}
    result: dict[str, Value] = {}
    if not dataset.unit.each_row:
        result[UNIT] = dataset.unit.value(dataset.engine, values)
    for i, name in enumerate(columns):
        result[f"wrong_{i}"] = _is_wrong(rows, places[name])
        result[f"fits_{i}"] = values[name].not_null()
    comment = "All rows, whatever the conditions: whom each is about, and which values fit their types."
    return rows.select("private_rows", comment, result, where=dataset.unit.named(values))


def undecoded(dataset: PrivateRows) -> int:
    """Count the rows of CSV files with bytes that are no text in their encoding, in any field."""
    fields = dataset.source.fields
    if fields is None:
        return 0
    wrong = reduce(or_, (fields.engine.matches(fields[name], _UNDECODED).or_else(False) for name in fields.columns))
    return int(ask(fields, {"number": fields.count().where(wrong)})["number"])


def line_ends(dataset: PrivateRows) -> Mapping[str, LineEnds]:
    """Count the fields with line ends in them, for each column of CSV files that has any."""
    fields = dataset.source.fields
    if fields is None:
        return {}
    engine = fields.engine
    counts: dict[str, Value] = {}
    for place, name in enumerate(fields.columns):
        text = fields[name]
        lines = Value(f"replace({text.sql}, chr(10), '')", text.dtype, engine)
        ends = engine.call("length", text, returns=engine.int64) - engine.call("length", lines, returns=engine.int64)
        counts |= {f"number_{place}": fields.count().where(ends > 0), f"longest_{place}": ends.max()}
    result = ask(fields, counts)
    return {
        name: LineEnds(result[f"number_{place}"], int(result[f"longest_{place}"]) + 1)
        for place, name in enumerate(dataset.stored.columns)
        if result[f"number_{place}"]
    }


def without_unit(dataset: PrivateRows) -> tuple[int, int]:
    """Count the rows of CSV files without a unit that can be read, and all rows."""
    table = dataset.stored
    result = ask(table, {"missing": table.count().where(is_missing(dataset, table)), "number": table.count()})
    return int(result["missing"]), int(result["number"])


def is_missing(dataset: PrivateRows, table: Table) -> Value:
    """Test for rows of a table without a unit."""
    named = dataset.unit.named(table)
    return ~reduce(and_, named) if named else table.engine.literal(False)
