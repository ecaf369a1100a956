"""Levels: the totals of a table, each a set of groups that are sums of the finest ones."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.limits import LARGEST_SUM
from osgt.noise.parameters import real_number

#: The column of a release that says which keys a number is summed over.
SUMMED_OVER = "summed_over"

#: What that column says of all groups that are not shown.
OTHER = "other groups"

_EXPECTED = (
    'totals must be "rollup", "cube" or a list of levels, each a list of columns that remain, as in [["region"], []] '
    'or [{"by": ["region"], "weight": 2}]'
)


@dataclass(frozen=True)
class Level:
    """The groups with equal values of the columns `by`; with none, all rows.

    Parameters
    ----------
    weight
        More than 1: less noise here, and more elsewhere.
    places
        The place of each public group among those of this level. None if keys are not public: one number for all.
    keys
        The keys of this level's groups.
    """

    by: tuple[str, ...]
    weight: float = 1.0
    places: NDArray[np.intp] | None = field(default=None, compare=False, repr=False)
    keys: pa.Table | None = field(default=None, compare=False, repr=False)

    @property
    def size(self) -> int:
        """How many groups there are."""
        return 1 if self.keys is None else max(1, self.keys.num_rows)

    @property
    def words(self) -> str:
        """In words: "by region", "in all"."""
        return f"by {', '.join(self.by)}" if self.by else "in all"

    def summed(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the finest groups added up for this level; sums beyond ±2⁶¹ count as that."""
        places = np.zeros(len(numbers), np.intp) if self.places is None else self.places
        if np.abs(numbers.astype(np.float64)).sum() < LARGEST_SUM // 2:
            total = np.zeros((self.size, numbers.shape[1]), np.int64)
            np.add.at(total, places, numbers)
            return total
        exact = np.zeros((self.size, numbers.shape[1]), object)
        np.add.at(exact, places, numbers.astype(object))
        return np.clip(exact, -LARGEST_SUM, LARGEST_SUM).astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a query file."""
        return {"by": list(self.by), "weight": self.weight}


def levels_of(totals: Any, by: Sequence[str], public: pa.Table | None) -> tuple[Level, ...]:
    """The levels that are asked for, from the finest to the coarsest; errors name `totals`."""
    asked = {tuple(name for name in by if name in columns): weight for columns, weight in _asked(totals, by)}
    levels = sorted(asked.items(), key=lambda each: (-len(each[0]), [by.index(name) for name in each[0]]))
    if not levels:
        return ()
    if SUMMED_OVER in by:
        raise ValueError(f"totals: a key must not be named {SUMMED_OVER!r}, which says what a total is summed over")
    if public is None:
        if len(levels) > 1 or levels[0][0]:
            raise ValueError(
                "totals: groups that are chosen by their size have one total, that of all rows: totals=[()]; give "
                "public_keys for totals of some of the keys"
            )
        return (Level((), levels[0][1]),)
    if not (is_nested([columns for columns, _ in levels]) or is_product(public)):
        raise ValueError(
            "totals: levels that cross, as in a cube, need public_keys with every combination of the values: a dict "
            "with a list for each column. Levels each of which is within the one before, as in a roll-up, do not"
        )
    return tuple(Level(columns, weight, *_groups(public, columns)) for columns, weight in levels)


def _asked(totals: Any, by: Sequence[str]) -> Iterator[tuple[tuple[str, ...], float]]:
    if totals is None:
        return
    if not by:
        raise ValueError("totals must be left out where there are no columns to group by")
    if totals == "rollup":
        yield from ((tuple(by[:n]), 1.0) for n in range(len(by)))
        return
    if totals == "cube":
        yield from ((some, 1.0) for n in range(len(by)) for some in itertools.combinations(by, n))
        return
    if isinstance(totals, str | Mapping) or not isinstance(totals, Sequence):
        raise TypeError(f"{_EXPECTED}; got {totals!r}")
    met: set[frozenset[str]] = set()
    for each in totals:
        columns, weight = (each.get("by"), each.get("weight", 1)) if isinstance(each, Mapping) else (each, 1)
        columns = (columns,) if isinstance(columns, str) else columns
        if not isinstance(columns, Sequence) or (isinstance(each, Mapping) and not set(each) <= {"by", "weight"}):
            raise TypeError(f"{_EXPECTED}; got {each!r}")
        for name in columns:
            if name not in by:
                raise ValueError(f"totals: {name!r} is not among the columns to group by, {', '.join(by)}")
        if set(columns) == set(by):
            raise ValueError(f"totals: {', '.join(by)} are all the keys; a total has fewer of them")
        if frozenset(columns) in met:
            raise ValueError(f"totals: each level once, got {each!r} again")
        met.add(frozenset(columns))
        yield tuple(columns), real_number("totals: weight", weight, positive=True)


def key_words(row: Mapping[str, Any], key: str, *, missing: str) -> str:
    """A key of a released row in words: what it is, "Total" where it was summed over, or the word for none."""
    over = row.get(SUMMED_OVER)
    if row[key] is not None:
        return value_words(row[key])
    if over == OTHER:
        return OTHER
    return "Total" if over is not None and key in over.split(", ") else missing


def value_words(value: Any) -> str:
    """A value of a key as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_nested(levels: Sequence[Sequence[str]]) -> bool:
    """Whether each level is within the one before it."""
    ordered = sorted(levels, key=len)
    return all(set(few) < set(more) for few, more in itertools.pairwise(ordered))


def is_product(public: pa.Table) -> bool:
    """Whether the keys are all combinations of the values of their columns."""
    return bool(math.prod(len(np.unique(codes(column))) for column in public.columns) == public.num_rows)


def codes(column: pa.ChunkedArray) -> NDArray[np.intp]:
    """A number for each value of a key, in the order in which they come first."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.intp)


def _groups(public: pa.Table, columns: Sequence[str]) -> tuple[NDArray[np.intp], pa.Table]:
    """The place of each key in a level, in the order in which its groups come first, and the keys of the level."""
    place = np.zeros(public.num_rows, np.intp)
    for name in columns:
        place = place * (public.num_rows + 1) + codes(public[name])
        _, place = np.unique(place, return_inverse=True)
        place = np.asarray(place, np.intp)
    _, first, inverse = np.unique(place, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    keys = public.select(list(columns)).take(pa.array(first[order]))
    return np.asarray(rank[inverse], np.intp), keys if columns else pa.table({"": np.zeros(1)})
