"""Tables with two keys as rows × columns, with totals as margins."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from osgt.data.rows import plain_rows
from osgt.query.about import About
from osgt.query.groups import OTHER, SUMMED_OVER
from osgt.support.errors import ArgumentError
from osgt.support.text import unknown

#: What stands for a total, for a key that is missing, and for one without text.
TOTAL, MISSING, EMPTY = "Total", "(none)", "(empty)"

#: Most columns of a cross table in a page or on a sheet.
MOST_COLUMNS = 60


#: The part of the numbers of a cross table that must be there: else a list is shorter, and easier to read.
_FULL = 0.6


@dataclass(frozen=True)
class Cross:
    """A cross table: its keys, their values in words, and the place of the row of the table for each two of them.

    There is no place where a group is not published. Totals are last.
    """

    keys: tuple[str, str]
    sides: tuple[str, ...]
    heads: tuple[str, ...]
    places: tuple[tuple[int | None, ...], ...]

    def turned(self) -> "Cross":
        """Turn the table, so that its second key is down the side."""
        return Cross(self.keys[::-1], self.heads, self.sides, tuple(zip(*self.places, strict=True)))


def cross_of(table: pa.Table, keys: Sequence[str], about: About) -> Cross | None:
    """The cross table of a release; None unless it has two keys, of which the second has several values but not many.

    Where many groups are not published there is none either.
    """
    if len(keys) != 2:
        return None
    rows = _key_rows(table, keys)
    places: dict[tuple[Any, Any], int] = {}
    for place, row in enumerate(rows):
        places[_value(row, keys[0]), _value(row, keys[1])] = place
    sides, heads = (_in_order([pair[i] for pair in places], [pair[1 - i] for pair in places]) for i in (0, 1))
    if not 2 <= len(heads) <= MOST_COLUMNS or len(places) < max(len(rows), _FULL * len(sides) * len(heads)):
        return None
    return Cross(
        (keys[0], keys[1]),
        tuple(_words(value, keys[0], about) for value in sides),
        tuple(_words(value, keys[1], about) for value in heads),
        tuple(tuple(places.get((side, head)) for head in heads) for side in sides),
    )


def _key_rows(table: pa.Table, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The keys of the rows, and what a row is summed over."""
    return plain_rows(table.select([name for name in (*keys, SUMMED_OVER) if name in table.column_names]))


def _value(row: Mapping[str, Any], key: str) -> tuple[int, Any]:
    """A key of a row: 0 and its value; 1 where it is missing, 2 for groups that are not shown, 3 for a total."""
    over = row.get(SUMMED_OVER)
    if row[key] is not None:
        return 0, row[key]
    if over == OTHER:
        return (2, None) if _is_first(row, key) else (3, None)
    return (3, None) if over is not None and key in over.split(", ") else (1, None)


def _is_first(row: Mapping[str, Any], key: str) -> bool:
    return next(iter(row)) == key


def _in_order(values: Sequence[tuple[int, Any]], others: Sequence[Any]) -> list[tuple[int, Any]]:
    """The values once each: sorted if they are so beside each value of the other key, else as they come first."""
    beside: dict[Any, list[tuple[int, Any]]] = {}
    for value, other in zip(values, others, strict=True):
        beside.setdefault(other, []).append(value)
    every = list(dict.fromkeys(values))
    if all(one < two for some in beside.values() for one, two in itertools.pairwise(some)):
        return sorted(every)
    return sorted(every, key=lambda value: value[0])


def _words(value: tuple[int, Any], key: str, about: About) -> str:
    kind, own = value
    return about.key_words({key: own}, key, missing="") or EMPTY if kind == 0 else (MISSING, OTHER, TOTAL)[kind - 1]


def pivoted(table: pa.Table, keys: Sequence[str], wide: str) -> Any:
    """A frame of pandas with a column for each number and each value of a key, and the other keys down the side."""
    pd: Any = import_module("pandas")  # nothing else needs it
    if wide not in keys:
        raise ArgumentError(f"wide: {unknown('key', str(wide), list(keys), having='the keys are')}", argument="wide")
    sides = [key for key in keys if key != wide]
    rows = _key_rows(table, (*sides, wide))
    frame = table.to_pandas()
    at_side, at_head = [tuple(_value(row, key) for key in sides) for row in rows], [_value(row, wide) for row in rows]
    places, heads = _numbered(list(dict.fromkeys(at_side))), _numbered(_in_order(at_head, at_side))
    codes = [list(map(places.__getitem__, at_side)), list(map(heads.__getitem__, at_head))]
    numbers = frame.drop(columns=[*keys, SUMMED_OVER], errors="ignore")
    result = numbers.set_axis(pd.MultiIndex.from_arrays(codes), axis="index").unstack()
    head_of = dict(zip(codes[1], _labels(table, rows, wide), strict=True))
    result.columns = pd.MultiIndex.from_tuples([(n, head_of[i]) for n, i in result.columns], names=[None, wide])
    labels = [dict(zip(codes[0], _labels(table, rows, key), strict=True)) for key in sides]
    if len(sides) == 1:
        result.index = pd.Index([labels[0][i] for i in result.index], name=sides[0])
    elif sides:
        tuples = [tuple(label[i] for label in labels) for i in result.index]
        result.index = pd.MultiIndex.from_tuples(tuples, names=sides)
    return result


def _numbered(values: Sequence[Any]) -> dict[Any, int]:
    """The place of each value."""
    return {value: i for i, value in enumerate(values)}


def _labels(table: pa.Table, rows: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """A key of all rows as it is in a frame, with words for totals and for groups that are not shown."""
    own = table[key].to_pandas(integer_object_nulls=True)
    words = {2: OTHER, 3: TOTAL}
    return [words.get(_value(row, key)[0], value) for row, value in zip(rows, own, strict=True)]
