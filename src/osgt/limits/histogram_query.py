"""The query for the histograms of a suggestion: exact whole numbers, one unit in one place of each histogram.

Every unit is looked at through one of its groups, drawn by a salted hash, and one of its rows there. What it adds
depends on its own rows, the salt and the random numbers alone.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from osgt.data.engines import engine_on
from osgt.limits.bounding import UNIT, saturated
from osgt.limits.histogram import SCALE
from osgt.query.keys import KEY
from osgt.query.values import as_float, present
from osgt.support.arrays import Integers

#: Bits of SCALE.
_BITS = SCALE.bit_length() - 1

#: Numbers that come with each row of the answer.
_NUMBERS = 4


@dataclass(frozen=True)
class Layout:
    """The histograms that are asked for; None where there is no use for one.

    `group_edges` are the edges of groups for each unit. `rows` are those by which rows are told apart, and the fewer
    ones of groups beside them. `values` has the edges of each column.
    """

    group_edges: tuple[int, ...] | None
    rows: tuple[tuple[int, ...], tuple[int, ...]] | None
    values: Mapping[str, tuple[float, ...]]
    sizes: bool


def histograms(
    rows: ir.Table,
    keys: Sequence[str],
    values: Mapping[str, str],
    layout: Layout,
    salt: int,
    order: str | None = None,
) -> ir.Table:
    """The numbers of all histograms: `kind` says of which one, `a` and `b` where, and `n0` to `n3` how many.

    `order` is a column of the rows by which one of a unit's is taken, random if not given.
    """
    units = _units(rows, list(keys), values, salt, order)
    parts = []
    if layout.group_edges is not None:
        parts.append(_one(units, 0, *placed(units["groups"], layout.group_edges)))
    if layout.rows is not None:
        group_edges, row_edges = layout.rows
        parts.append(_two(units, placed(units["groups"], group_edges), placed(units["size"], row_edges)))
    if layout.sizes:
        sized = units.group_by(list(keys)).agg(number=units.count())
        place = sized[KEY] if list(keys) == [KEY] else ibis.literal(-1)
        parts.append(_answer(sized, 2, place, ibis.literal(0), [sized["number"]]))
    for i, (name, edges) in enumerate(layout.values.items()):
        column = values[name]
        there = units.filter(present(units[column]))
        parts.append(_one(there, 3 + i, *placed(as_float(there[column]), edges)))
    return parts[0] if len(parts) == 1 else ibis.union(*parts)


def _units(rows: ir.Table, keys: list[str], values: Mapping[str, str], salt: int, order: str | None) -> ir.Table:
    """Make one row for each unit: the number of its groups, one of these, its rows there, and a value from there."""
    rows = rows.filter(rows[UNIT].notnull())
    if values:
        rows = rows.mutate(shuffled=ibis.random() if order is None else rows[order])
    drawn = {column: rows[column].argmin(rows["shuffled"], where=present(rows[column])) for column in values.values()}
    pairs = rows.group_by([UNIT, *keys]).agg(size=rows.count(), **drawn)
    if not keys:
        return pairs.mutate(groups=ibis.literal(1, type="int64"))
    hashed = engine_on(rows.get_backend()).hashed(salt, [pairs[name] for name in (UNIT, *keys)])
    pairs = pairs.mutate(choice=hashed)
    by_choice = {"group_by": UNIT, "order_by": ["choice", *keys]}
    pairs = pairs.mutate(place=ibis.row_number().over(**by_choice), groups=pairs.count().over(group_by=UNIT))
    # Not `drop`: Ibis may write a query again wherever the rest of it is used.
    kept = [name for name in pairs.columns if name not in ("choice", "place")]
    return pairs.filter(pairs["place"] == 0).select(kept)


def placed(number: Any, edges: Sequence[float]) -> tuple[Any, Any]:
    """The edge below a number, and the part of SCALE that counts at the one above: the rest counts below.

    Whatever the engine's arithmetic makes of it, the part is between 0 and SCALE.
    """
    number = as_float(number)
    limited = ibis.least(ibis.greatest(number, float(edges[0])), float(edges[-1]))
    parts = [(limited - float(low)) * (SCALE / (float(high) - float(low))) for low, high in itertools.pairwise(edges)]
    upper = _by_edge(number, edges, parts)
    return _by_edge(number, edges, list(range(len(parts)))), ibis.least(
        ibis.greatest(upper.floor().cast("int64"), 0), SCALE
    )


def _by_edge(number: Any, edges: Sequence[float], answers: Sequence[Any]) -> Any:
    """The answer for the edges between which a number is; the last one also beyond them."""
    *before, last = answers
    if not before:
        return last if isinstance(last, ir.Value) else ibis.literal(last)
    return ibis.cases(*((number < float(edges[i + 1]), answer) for i, answer in enumerate(before)), else_=last)


def _one(units: ir.Table, kind: int, below: Any, upper: Any) -> ir.Table:
    """The histogram of one number of each unit."""
    table = units.select(a=below.cast("int64"), n0=SCALE - upper, n1=upper)
    return _summed(table, kind, ["a"], ["n0", "n1"])


def _two(units: ir.Table, first: tuple[Any, Any], second: tuple[Any, Any]) -> ir.Table:
    """The histogram of two numbers of each unit: all four parts together are at most SCALE."""
    shifted = engine_on(units.get_backend()).shifted
    (a, right), (b, upper) = first, second
    products = {
        "n0": shifted((SCALE - right) * (SCALE - upper), _BITS),
        "n1": shifted((SCALE - right) * upper, _BITS),
        "n2": shifted(right * (SCALE - upper), _BITS),
        "n3": shifted(right * upper, _BITS),
    }
    table = units.select(a=a.cast("int64"), b=b.cast("int64"), **products)
    return _summed(table, 1, ["a", "b"], list(products))


def _summed(table: ir.Table, kind: int, by: list[str], names: list[str]) -> ir.Table:
    total = engine_on(table.get_backend()).total
    summed = table.group_by(by).agg(**{name: saturated(total(table[name].cast("int64"))) for name in names})
    second = summed["b"] if "b" in by else ibis.literal(0)
    return _answer(summed, kind, summed["a"], second, [summed[name] for name in names])


def _answer(table: ir.Table, kind: int, a: Any, b: Any, numbers: Sequence[Any]) -> ir.Table:
    every = [*numbers, *[ibis.literal(0)] * (_NUMBERS - len(numbers))]
    columns = {"kind": ibis.literal(kind), "a": a, "b": b} | {f"n{i}": number for i, number in enumerate(every)}
    return table.select(**{name: column.cast("int64") for name, column in columns.items()})


@dataclass(frozen=True, eq=False)
class Exact:
    """The exact numbers of all histograms. They never leave the process."""

    groups: Integers | None
    rows: Integers | None
    values: Mapping[str, Integers]
    sizes: Integers | None


def exact_numbers(answer: pa.Table, layout: Layout, known: int | None) -> Exact:
    """The numbers in their places; where groups are public, with a zero for those that nobody is in."""
    columns = {
        name: np.asarray(answer[name].cast(pa.int64()).to_numpy(), dtype=np.int64) for name in answer.column_names
    }

    def rows_of(kind: int) -> dict[str, Integers]:
        chosen = columns["kind"] == kind
        return {name: column[chosen] for name, column in columns.items()}

    groups = None if layout.group_edges is None else _line(rows_of(0), len(layout.group_edges))
    rows = None
    if layout.rows is not None:
        rows, found = np.zeros([len(edges) for edges in layout.rows], dtype=np.int64), rows_of(1)
        for i, (right, upper) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
            np.add.at(rows, (found["a"] + right, found["b"] + upper), found[f"n{i}"])
    sizes = None
    if layout.sizes:
        found = rows_of(2)
        sizes = found["n0"]
        if known is not None:
            sizes = np.zeros(known, dtype=np.int64)
            sizes[found["a"]] = found["n0"]
    values = {name: _line(rows_of(3 + i), len(edges)) for i, (name, edges) in enumerate(layout.values.items())}
    return Exact(groups, rows, values, sizes)


def _line(found: dict[str, Integers], length: int) -> Integers:
    numbers = np.zeros(length, dtype=np.int64)
    np.add.at(numbers, found["a"], found["n0"])
    np.add.at(numbers, found["a"] + 1, found["n1"])
    return numbers
