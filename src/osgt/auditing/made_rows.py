"""Rows that try what can go wrong: values of every type at its ends, beyond its bounds, missing or strange.

All values are text, which every engine casts to the type of its column: drivers disagree about NaN, null and infinity,
text they leave alone. Nothing here is left to chance.
"""

import datetime
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from osgt.data.types import ColumnType

#: A row: text for each column, None where nothing is there.
Row = dict[str, str | None]

#: Kinds of columns whose values can be handed over as text.
_KINDS = ("text", "boolean", "integer", "float", "decimal", "date", "timestamp", "uuid")

#: Values that have been taken for something else, or are at the ends of what there is.
_STRANGE = {
    "text": [
        "",
        " ",
        "Rome",
        "rome",
        "Rom'e",
        'R"ome',
        "Zürich",
        "Zu\u0308rich",
        "'; DROP TABLE t; --",
        "null",
        "NaN",
    ],
    "boolean": ["true", "false"],
    "float": ["NaN", "Infinity", "-Infinity", "0", "-0.0", "5e-324", "-1.7976931348623157e308", "1.5"],
    "date": ["1970-01-01", "0001-01-01", "9999-12-31", "2024-02-29"],
    "timestamp": ["1970-01-01 00:00:00", "2024-02-29 23:59:59.999999", "1900-01-01 00:00:00"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
}

#: Literals in expressions.
_QUOTED, _NUMBER, _DAY = (
    re.compile(r"'((?:[^']|'')*)'"),
    re.compile(r"(?<![\w.])\d+(?:\.\d+)?"),
    re.compile(r"\d{4}-\d\d-\d\d"),
)


def text_of(value: Any) -> str | None:
    """A value that came from an engine, as text that an engine reads back as the same value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return str(value)


def can_be_written(dtype: ColumnType) -> bool:
    """Whether values of this type can be handed over as text."""
    return dtype.kind in _KINDS


def strange(dtype: ColumnType) -> list[str | None]:
    """Values of a type at its ends, and missing ones where there may be any."""
    numbers = ["0", "1", *(f"{end:f}" for end in _range(dtype))]
    result = numbers if dtype.kind in ("integer", "decimal") else _STRANGE[dtype.kind]
    return [*result, *(["x" * 3000] if dtype.kind == "text" else []), *([None] if dtype.nullable else [])]


def ordinary(dtype: ColumnType) -> str | None:
    """A value of a type that is nothing special."""
    return strange(dtype)[0]


def constants(dtype: ColumnType, text: str) -> list[str]:
    """Values of a type that an expression names, and numbers beside them: there it may change."""
    texts = [quoted.replace("''", "'") for quoted in _QUOTED.findall(text)]
    if dtype.kind == "text":
        return texts
    if dtype.kind in ("date", "timestamp"):
        return [day for day in texts if _DAY.match(day)]
    if not dtype.is_number:
        return []
    least, most = _range(dtype)
    beside = (Decimal(number) + step for number in _NUMBER.findall(_QUOTED.sub("", text)) for step in (0, -1, 1))
    fitting = (number for number in beside if least <= number <= most and (dtype.kind != "integer" or number % 1 == 0))
    return [f"{number:f}" for number in fitting]


def numbered(dtype: ColumnType, number: int) -> str | None:
    """The value of a type that has this number, different for different numbers; None where there are not so many."""
    kind = dtype.kind
    if kind in ("integer", "decimal"):
        # From the large end: small numbers are those that people use.
        value = int(_range(dtype)[1]) - 7 - number
        return str(value) if value > 1 else None
    day = datetime.date(1800, 1, 1) + datetime.timedelta(days=number)
    return {
        "text": f"osgt {number}",
        "boolean": ("true", "false")[number] if number < 2 else None,
        "date": day.isoformat(),
        "timestamp": f"{day.isoformat()} 12:00:00",
        "uuid": f"0059a7d1-0000-4000-8000-{number:012x}",
    }.get(kind)


def ends(dtype: ColumnType, bounds: Sequence[float]) -> tuple[list[str], list[str]]:
    """Values at and far beyond the low ends of some bounds, and as many at the high ends."""
    if dtype.kind == "boolean":
        return ["false"], ["true"]
    least, most = _range(dtype)

    def inside(number: float) -> str:
        exact = min(max(Decimal(number), least), most)
        return str(int(exact)) if dtype.kind == "integer" else f"{exact:f}"

    beyond = ("-Infinity", "Infinity") if dtype.kind == "float" else (f"{least:f}", f"{most:f}")
    return [inside(min(bounds, default=0)), beyond[0]], [inside(max(bounds, default=1)), beyond[1]]


def _range(dtype: ColumnType) -> tuple[Decimal, Decimal]:
    """The least and the largest number of a type; of floats, numbers that are large."""
    if dtype.kind == "integer":
        return Decimal(dtype.bounds[0]), Decimal(dtype.bounds[1])
    if dtype.kind == "decimal":
        precision, scale = dtype.digits or (18, 0)
        digits = "9" * precision
        largest = Decimal(f"{digits[scale:] or '0'}.{digits[:scale]}")
        return largest.copy_negate(), largest
    return Decimal("-1e300"), Decimal("1e300")


def key_rows(pools: Mapping[str, Sequence[str | None]], most: int) -> list[Row]:
    """Up to `most` different combinations of keys, each column changing from one to the next."""
    if not pools:
        return [{}]
    names = list(pools)
    return [dict(zip(names, keys, strict=True)) for keys in _spread([pools[name] for name in names], most)]


def _spread(pools: Sequence[Sequence[str | None]], most: int) -> Iterator[tuple[str | None, ...]]:
    """Combinations, first along the diagonal, so that few of them show every value."""
    longest = max(len(pool) for pool in pools)
    diagonal = (tuple(pool[i % len(pool)] for pool in pools) for i in range(longest))
    every = itertools.chain(diagonal, itertools.product(*pools))
    return itertools.islice(dict.fromkeys(itertools.islice(every, 4 * most)), most)
