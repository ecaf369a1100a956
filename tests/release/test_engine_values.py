"""Values that are no ordinary numbers, and types of every width: the same on every engine, and what the docs say."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

import plain_tables
from engines import ROW, UNIT, steps, sums
from osgt import Dataset
from osgt.query.measures import Bins, CentredSum, ClippedSum, Rows, Squares, Units, Values
from osgt.query.values import grid_of


def grid(dataset, column, bounds, **options):
    return grid_of(column, dataset.type_of("column", column), bounds, **options)


def test_null_nan_and_infinity(engine):
    """Null and NaN add nothing and are no values; infinities are clipped; the row counts in any case."""
    values = [None, math.nan, math.inf, -math.inf, 1.0, -0.0, 5e-324, 1e308]
    table = pa.table({UNIT: range(8), ROW: range(8), "key": range(8), "v": pa.array(values, pa.float64())})
    dataset = engine.put(table)
    query = dataset.group_by("key", max_groups=1, max_rows_per_group=1)
    fine, wide = grid(dataset, "v", (-2, 4)), grid(dataset, "v", (-1e9, 1e9))
    squares = grid(dataset, "v", (-2, 4), squares=True)
    measures = [
        Rows(), Units(), Values("v"), ClippedSum("v", fine), ClippedSum("v", wide), CentredSum("v", fine),
        Squares("v", squares),
        Bins("v", (-1, 0, 1, 2)),
    ]  # fmt: skip
    found = sums(query, measures)
    top, square = fine.width, squares.width**2
    one = round(1 / fine.step)
    assert found == {
        (0,): [[1], [1], [0], [0], [0], [0], [0], [0, 0, 0]],
        (1,): [[1], [1], [0], [0], [0], [0], [0], [0, 0, 0]],
        (2,): [[1], [1], [1], [fine.high], [wide.high], [top], [square], [0, 0, 0]],
        (3,): [[1], [1], [1], [fine.low], [wide.low], [-top], [square], [0, 0, 0]],
        (4,): [[1], [1], [1], [one], [0], [0], [-square], [0, 0, 1]],
        (5,): [[1], [1], [1], [0], [0], [-2 * one], found[(5,)][6], [0, 1, 0]],
        (6,): [[1], [1], [1], [0], [0], [-2 * one], found[(5,)][6], [0, 1, 0]],
        (7,): [[1], [1], [1], [fine.high], [wide.high], [top], [square], [0, 0, 0]],
    }
    assert -square <= found[(5,)][6][0] <= square


EXTREMES = {
    "int8": (pa.int8(), [-128, 127, None, 0], (-1000, 1000)),
    "int16": (pa.int16(), [-(2**15), 2**15 - 1, None, 5], (-(2**20), 2**20)),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1, None, 5], (-100, 2**31)),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1, None, 5], (-7, 2**31 - 1)),
    "int64_all": (pa.int64(), [-(2**63), 2**63 - 1, None, 2**62], (-(2**63), 2**63)),
    "uint8": (pa.uint8(), [0, 255, None, 5], (-1, 300)),
    "uint32": (pa.uint32(), [0, 2**32 - 1, None, 5], (-1, 2**31)),
    "uint64": (pa.uint64(), [0, 2**64 - 1, None, 5], (-10, 100)),
    "uint64_all": (pa.uint64(), [0, 2**64 - 1, None, 2**63], (0, 2**64)),
    "float32": (pa.float32(), [0.5, math.inf, None, -3.4e38], (-1, 1)),
    "float64": (pa.float64(), [0.1, -1.7e308, None, 5e-324], (-0.3, 0.7)),
    "tiny": (pa.float64(), [1e-200, -1.0, None, 5e-324], (0, 1e-190)),
    "decimal": (pa.decimal128(5, 2), [Decimal("999.99"), Decimal("-0.01"), None, Decimal("0.07")], (-1, 1)),
    "decimal_all": (
        pa.decimal128(38, 0),
        [Decimal(10**38 - 1), Decimal(1 - 10**38), None, Decimal(7)],
        (-(10**37), 10**37),
    ),
    "boolean": (pa.bool_(), [True, False, None, True], (0, 1)),
}


def test_value_columns_of_every_type(engine):
    """One query over all of them: the sums of each row are those of the reference, at both ends of every type."""
    columns = {name: pa.array(values, dtype) for name, (dtype, values, _) in EXTREMES.items()}
    table = pa.table({UNIT: range(4), ROW: range(4), "key": range(4), **columns})
    dataset = engine.put(table)
    measures = []
    for name, (_, _, bounds) in EXTREMES.items():
        measures += [CentredSum(name, grid(dataset, name, bounds, centred=True)), Values(name)]
        if name != "decimal_all":  # sums of it would have too many digits
            measures.append(ClippedSum(name, grid(dataset, name, bounds)))
        if name != "tiny":  # its squares are no floats
            measures.append(Squares(name, grid(dataset, name, bounds, squares=True)))
        if name != "boolean":
            low, high = bounds
            measures.append(Bins(name, (float(low), 0.5 * low + 0.5 * high, float(high))))
    query = dataset.group_by("key", max_groups=1, max_rows_per_group=1)
    limits = plain_tables.Limits(max_groups=1, max_rows_per_group=1)
    expected = plain_tables.weighted_sums(table.to_pylist(), UNIT, ("key",), limits, measures)
    assert plain_tables.differences(steps(query, measures), expected, measures) == []


@pytest.mark.parametrize("bounds", [(2**62, 2**62 + 10), (1e17, 1e17 + 1), (-(10**30), -(10**30) + 1000)])
def test_bounds_too_far_from_zero_for_squares_are_refused(bounds):
    """Their steps would not fit into 64 bits, or two of them would be one number to the engine."""
    table = pa.table({UNIT: [1], "v": [1.0]})
    with pytest.raises(ValueError, match="bounds of 'v'"):
        Dataset(table, UNIT).group_by(max_rows_per_group=1).variance("v", bounds)


TEXTS = [
    "a", "A", " a", "", None, "Straße", "Strasse", "日本", "🙂", "'; --", 'a"b', "\\", "%", "x" * 5000, "a\nb", "a\tb",
]  # fmt: skip
DAYS = [dt.date(1, 1, 1), dt.date(9999, 12, 31), None, *(dt.date(2024, 2, day) for day in range(17, 30))]
#: Around the hours in which clocks are put forward and back.
INSTANTS = [
    dt.datetime(2024, 3, 31, 1, 59, 59, 999999, dt.UTC),
    dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC),
    None,
    *(dt.datetime(2024, 10, 27, hour, tzinfo=dt.UTC) for hour in range(13)),
]
PRICES = [None, *map(Decimal, ("0.00", "0.01", "-99999.99")), *map(Decimal, range(1, 13))]

KEYS = {
    "text": pa.array(TEXTS, pa.string()),
    "int64": pa.array([2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, None, *range(11)], pa.int64()),
    "decimal": pa.array(PRICES, pa.decimal128(7, 2)),
    "boolean": pa.array([True, False, None] + [True] * 13, pa.bool_()),
    "date": pa.array(DAYS, pa.date32()),
    "instant": pa.array(INSTANTS, pa.timestamp("us", "UTC")),
    "clock": pa.array([None if i is None else i.replace(tzinfo=None) for i in INSTANTS], pa.timestamp("us")),
}


def test_keys_of_every_type(engine):
    """Each key is a group of its own, null too, and comes back as it was; text is told apart byte by byte."""
    rows = len(KEYS["text"])
    table = pa.table({UNIT: range(rows), ROW: range(rows), **KEYS})
    query = engine.put(table).group_by(*KEYS, max_groups=1, max_rows_per_group=1)
    found = sums(query, [Rows(), Units()])
    expected = {tuple(row[name] for name in KEYS): [[1], [1]] for row in table.to_pylist()}
    assert found == expected


def test_units_of_every_type(engine):
    """A unit of any type that may name one is one unit in all its rows; no unit, no row."""
    rows = len(KEYS["text"])
    table = pa.concat_tables([pa.table({ROW: range(i * rows, (i + 1) * rows), **KEYS}) for i in range(2)])
    names = ["text", "decimal", "instant"] if engine.slow else list(KEYS)
    for name in names:
        there = {value for value in KEYS[name].to_pylist() if value is not None}
        query = engine.put(table, unit=name).group_by(max_rows_per_group=1)
        assert sums(query, [Units(), Rows()]) == {(): [[len(there)], [len(there)]]}, name
