"""Data files: say once what is known about the data, and open the budget of all their releases."""

import csv
import datetime
import io
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from osgt.api.dataset import Dataset
from osgt.data.columns import list_values
from osgt.data.engines.query import compile_query, fetch
from osgt.data.engines.source import Options
from osgt.data.office_files import office_labels, office_lines
from osgt.data.text_files import DELIMITERS, TextForm
from osgt.data.types import Writing, parse_type
from osgt.query.file.reading import SUFFIX, data_file_of
from osgt.query.file.text import query_file_text
from osgt.support.errors import ArgumentError
from osgt.support.files import Target, written
from osgt.support.locations import is_office, suffix_of
from osgt.support.numeric import positive, real_number

#: The most values of a column that are worth a list.
MOST_VALUES = 50

#: Bytes and rows of a file that are looked at for offers.
_BYTES, _ROWS = 1 << 20, 1_000

#: Types in the order in which they are offered, and forms of dates.
_TYPES = ("int64", "float64", "boolean", "date", "timestamp")
_DATE_FORMATS = (None, "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")

#: Columns that probably name a person.
_PERSON = re.compile(
    r"(patient|person|people|user|customer|client|member|household|pupil|student|employee|insured|citizen|subject)",
    re.IGNORECASE,
)

#: The whole budget that is offered, in releases.
_RELEASES, _WHOLE_DELTA = 3, 100


def usual_delta(units: int | None) -> float:
    """A δ far below one over the number of units: a thousandth of the power of ten below it; 1e-8 if unknown."""
    return 1e-8 if units is None else min(1e-6, 10.0 ** -(math.ceil(math.log10(max(units, 1))) + 3))


def whole_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """The budget of all releases that is offered where that of one is known."""
    return _RELEASES * epsilon, _WHOLE_DELTA * delta


def start(
    source: str | os.PathLike[str],
    privacy_unit: str | Sequence[str],
    *,
    noun: str | Sequence[str] | None = None,
    units: int | None = None,
    types: Mapping[str, str] | None = None,
    keys: Mapping[str, Any] | None = None,
    ranges: Mapping[str, Sequence[float]] | None = None,
    epsilon: float = 1.0,
    delta: float | None = None,
    ledger: str | os.PathLike[str] | None = "ledger.db",
    dataset: str | None = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    out: str | os.PathLike[str] = "data.toml",
    overwrite: bool = False,
    **form: str | None,
) -> Dataset:
    """Write a data file, open the budget of its releases in a ledger if that is new, and open the data set.

    No row is read: everything is what you say. `osgt start` on the command line asks for it, with offers.

    Parameters
    ----------
    source, privacy_unit, noun, units, types
        As for `Dataset`. The source is a file or the URL of a database.
    keys
        Public values of columns that tables are grouped by, as `values` in `Dataset(columns=…)`.
    ranges
        The least and the largest plausible value of columns of numbers.
    epsilon, delta
        The usual budget of a release. δ is far below one over the number of units if it is not given.
    ledger, dataset, total_epsilon, total_delta
        The ledger (None: none), the name of the data set there (that of the file, if not given), and the budget of all
        releases together: that of three releases, if not given.
    out, overwrite
        The data file to write, and whether to replace one that is there.
    form
        How a file is read: `table`, `delimiter`, `quote`, `encoding`, `decimal`, `date_format`.
    """
    location, place = os.fspath(source), Path(out)
    delta = usual_delta(units) if delta is None else delta
    given = zip((total_epsilon, total_delta), whole_budget(epsilon, delta), strict=True)
    total_epsilon, total_delta = (usual if own is None else own for own, usual in given)
    unit = privacy_unit if isinstance(privacy_unit, str) else list(privacy_unit)
    _check_budgets((epsilon, delta), None if ledger is None else (total_epsilon, total_delta))
    _check_keys(keys or {}, unit)
    data = {"source": location, "privacy_unit": unit, "noun": noun, "units": units, **form}
    if ledger is not None:
        data |= {"ledger": os.fspath(ledger), "dataset": dataset or _name(location)}
    plain = {
        "data": _without_none(data),
        "columns": _columns(types or {}, keys or {}, ranges or {}),
        "budget": {"epsilon": epsilon, "delta": delta},
    }
    file = data_file_of(plain if plain["columns"] else {"data": plain["data"], "budget": plain["budget"]})
    target = Target(place, (SUFFIX,), overwrite, (location, str(data.get("ledger", location))), "out")
    target.checked()
    checked = Dataset.of(file)
    with written(target) as temporary:
        temporary.write_text(query_file_text(file.given(), place.parent), encoding="utf-8")
        if ledger is not None:
            _open_budget(checked, os.fspath(ledger), str(data["dataset"]), total_epsilon, total_delta)
    checked.close()
    return Dataset.from_file(place)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _check_budgets(own: tuple[float, float], whole: tuple[float, float] | None) -> None:
    """Raise unless one release, and all together, can have these budgets."""
    _check_budget("", *own)
    if whole is None:
        return
    _check_budget("total_", *whole)
    if whole[0] < own[0] or whole[1] < own[1]:
        raise ArgumentError(
            f"total_epsilon and total_delta must be at least ε = {own[0]:g} and δ = {own[1]:g}, or not even one "
            f"release fits; got {whole[0]:g} and {whole[1]:g}",
            argument="total_epsilon",
        )


def _check_keys(keys: Mapping[str, Any], unit: str | list[str]) -> None:
    """Raise if the keys are the privacy unit."""
    if (isinstance(unit, str) and unit in keys) or [*keys] == unit:
        raise ArgumentError(
            f"keys: {unit!r} is the privacy unit: a group would be one unit, which a release never shows",
            argument="keys",
        )


def _check_budget(prefix: str, epsilon: float, delta: float) -> None:
    """Raise unless ε and δ can be a budget."""
    positive(f"{prefix}epsilon", epsilon)
    if not 0 <= real_number(f"{prefix}delta", delta, positive=False) < 1:
        raise ArgumentError(f"{prefix}delta must be from 0 to below 1, got {delta!r}", argument=f"{prefix}delta")


def _columns(
    types: Mapping[str, str], keys: Mapping[str, Any], ranges: Mapping[str, Sequence[float]]
) -> dict[str, dict[str, Any]]:
    """Gather what is said of columns, in plain values."""
    columns: dict[str, dict[str, Any]] = {name: {"type": dtype} for name, dtype in types.items() if dtype != "string"}
    for name, values in keys.items():
        plain = os.fspath(values) if isinstance(values, os.PathLike) else values
        listed = None if isinstance(plain, str | Mapping) else list_values(plain, "keys")
        columns.setdefault(name, {})["values"] = plain if listed is None else listed
    for name, ends in ranges.items():
        columns.setdefault(name, {})["range"] = list(ends)
    return columns


def _name(location: str) -> str:
    return Path(location).name.split(".")[0] or "data"


def _open_budget(data: Dataset, location: str, name: str, epsilon: float, delta: float) -> None:
    """Open the budget of a data set, unless it has one."""
    from osgt.ledger import Ledger  # noqa: PLC0415 - takes a while
    from osgt.ledger.errors import NoLedgerError  # noqa: PLC0415 - takes a while

    with Ledger(location) as book:
        try:
            known = book.datasets()
        except NoLedgerError:
            known = []
        if name not in known:
            table = data.identity["name"]
            tables = None if table is None else [str(table)]
            book.open(
                name, epsilon=epsilon, delta=delta, unit=data.privacy_unit, neighbours=data.neighbours, tables=tables
            )


# Offers


@dataclass(frozen=True)
class Offers:
    """Suggestions from the header and the first rows of a file. For whoever may see the data: not private.

    `few` are the columns with few different values in the first rows, and `labels` the labels of codes that a file of a
    statistics program has.
    """

    columns: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    few: tuple[str, ...] = ()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def privacy_unit(self) -> str | None:
        """The column that probably says whom a row is about."""
        named = [name for name in self.columns if _PERSON.search(name)]
        return next(iter(sorted(named, key=lambda name: not name.lower().endswith("id"))), None)


def make_offers(source: str, given: Mapping[str, str | None]) -> Offers:
    """Look at the header and the first rows of a CSV or office file; of others, at the names of columns alone."""
    if is_office(source) and Path(source).is_file():
        return _office_offers(Path(source), given.get("table"))
    if suffix_of(source) not in DELIMITERS or not Path(source).is_file():
        data = Dataset(source, "row", **_without_none(given))
        data.close()
        return Offers(tuple(data.table.columns))
    TextForm.of(Options(**given), suffix_of(source))  # refuses what no file can have
    with open(source, "rb") as stream:
        start_of_file = stream.read(_BYTES)
    text, encoding = _decoded(start_of_file, given.get("encoding"))
    lines = text.splitlines(keepends=True)[: _ROWS + 1]
    if len(start_of_file) == _BYTES:
        lines = lines[:-1]
    usual = DELIMITERS[suffix_of(source)]
    head = lines[0] if lines else ""
    delimiter = given.get("delimiter") or max((usual, *";\t|,"), key=head.count)
    try:
        header, *rows = [*csv.reader(io.StringIO("".join(lines)), delimiter=delimiter)] or [[]]
    except csv.Error:
        what = "is no text with a separator between fields; name it by its format, as visits.parquet or visits.xlsx"
        raise ArgumentError(f"source: {source!r} {what}", argument="source") from None
    _check_rows(source, header, rows)
    samples = _samples(header, rows)
    writing = _writing(samples.values(), given)
    types = {name: _offered(values, writing) for name, values in samples.items()}
    form = {
        "delimiter": delimiter if delimiter != usual else None,
        "encoding": encoding,
        "decimal": writing.decimal if writing.decimal != "." else None,
        "date_format": writing.date_format,
    }
    return Offers(tuple(samples), types, _without_none(form), _few(samples, types))


def _office_offers(path: Path, sheet: str | None) -> Offers:
    """Look at the first rows of a spreadsheet or a file of SPSS, Stata or SAS, and at its labels of codes."""
    header, *rows = [*office_lines(path, sheet, _ROWS)] or [[]]
    _check_rows(path, header, rows)
    samples = _samples(header, rows)
    types = {name: _offered(values, Writing()) for name, values in samples.items()}
    return Offers(tuple(samples), types, few=_few(samples, types), labels=office_labels(path))


def _check_rows(source: str | os.PathLike[str], header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Raise if there are names of columns and nothing below them: no type could be offered."""
    if any(header) and not any(any(row) for row in rows):
        raise ArgumentError(
            f"source: {os.fspath(source)!r} has no rows, only the names of columns; give the file with the data",
            argument="source",
        )


def _samples(header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """The values of each column in the first rows, without blanks around them."""
    names = [name or f"column_{i}" for i, name in enumerate(header, start=1)]
    return {name: [row[i].strip() for row in rows if i < len(row)] for i, name in enumerate(names)}


def _few(samples: Mapping[str, Sequence[str]], types: Mapping[str, str]) -> tuple[str, ...]:
    """The columns with few different values in the first rows."""
    return tuple(
        name
        for name, values in samples.items()
        if types[name] in ("string", "boolean", "int64") and 1 < len(set(values) - {""}) <= MOST_VALUES
    )


def _decoded(start_of_file: bytes, encoding: str | None) -> tuple[str, str | None]:
    """The text, and the encoding if it is not UTF-8."""
    if encoding is not None:
        return start_of_file.decode(encoding, "replace"), encoding
    try:
        # A character may be cut in two at the end.
        return start_of_file.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        if error.start > len(start_of_file) - 4 and len(start_of_file) == _BYTES:
            return start_of_file[: error.start].decode("utf-8-sig"), None
    if start_of_file[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return start_of_file.decode("utf-16", "replace"), "utf-16"
    return start_of_file.decode("cp1252", "replace"), "cp1252"


def _writing(samples: Iterable[Sequence[str]], given: Mapping[str, str | None]) -> Writing:
    """The form of numbers and dates with which most columns are more than text."""
    decimals = [given["decimal"]] if given.get("decimal") else [".", ","]
    dates = [given["date_format"]] if given.get("date_format") else _DATE_FORMATS
    forms = [Writing.of(decimal, date) for decimal in decimals for date in dates]
    columns = list(samples)
    return max(forms, key=lambda form: sum(_offered(values, form) != "string" for values in columns))


def _offered(values: Sequence[str], writing: Writing) -> str:
    """The type of which all values are; text if they are of none, or would lose leading zeros."""
    there = [value for value in values if value]
    if not there or any(re.fullmatch("0[0-9]+", value) for value in there):
        return "string"
    for name in _TYPES:
        pattern = writing.apply(parse_type("", name)).pattern
        if all(re.fullmatch(pattern, value) for value in there) and _are_dates(there, name, writing.date_format):
            has_point = any(writing.decimal in value for value in there)
            return "float64" if name == "int64" and has_point else name
    return "string"


def _are_dates(values: Sequence[str], name: str, date_format: str | None) -> bool:
    """Whether values can be dates of a form in which days and months might be exchanged; True for other types."""
    if name not in ("date", "timestamp") or date_format is None:
        return True
    try:
        return all(datetime.datetime.strptime(re.split("[ T]", value)[0], date_format) for value in values)
    except ValueError:
        return False


def values_in_data(data: Dataset, column: str) -> list[Any] | None:
    """All values of a column in the data, sorted; None if they are too many for a list. Not private!"""
    table = data.stored
    answer = fetch(
        compile_query(table.select("values", "The values of a column.", {}, group_by=[column], limit=MOST_VALUES + 2))
    )
    values = [value for value in answer[column].to_pylist() if value is not None]
    return sorted(values) if len(values) <= MOST_VALUES else None
