"""Values are rounded to their grid exactly: ⌊value/step + ½⌋, within the bounds, on every engine and for every type.

The oracle is `plain_tables.in_steps`, in fractions. Values are chosen to be hard: halves between two steps and the
values of the type next to them, bounds and their neighbours, the ends of the type, numbers that floats cannot tell
apart.
"""

import decimal
import itertools
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import plain_tables
from engines import ROW, UNIT, column_type, rows_of
from osgt.query.measures import CentredSum, ClippedSum, Squares
from osgt.query.values import grid_of

#: What is summed for each aggregate, and the options of its grid.
SUM, MEAN, VARIANCE = (ClippedSum, {}), (CentredSum, {"centred": True}), (Squares, {"squares": True})


@dataclass(frozen=True)
class Column:
    """A type with its least and largest value and the distance `last` between two values, and the bounds of a query."""

    dtype: Any
    least: Fraction
    most: Fraction
    last: Fraction
    bounds: tuple[Any, Any]
    aggregates: tuple[Any, ...] = (SUM, MEAN, VARIANCE)

    def measures(self, name, dtype):
        """What an engine sums of a column of this name, if it has this type there."""
        return [kind(name, grid_of(name, dtype, self.bounds, **options)) for kind, options in self.aggregates]

    def values(self, dtypes):
        """Values of the type, ascending: all at which rounding or clipping might go wrong, by one digit or by many."""
        places = [Fraction(0), self.least, self.most, *(Fraction(bound) for bound in self.bounds)]
        places += [Fraction(sign * 2**power) for sign in (-1, 1) for power in (31, 53, 62, 63)]
        for grid in (measure.grid for dtype in dtypes for measure in self.measures("v", dtype)):
            steps = {grid.low, grid.low + 1, grid.low + grid.width // 3, -1, 0, 2**31 - 1, grid.high - 1, grid.high}
            places += [(k + half) * grid.step for k in steps for half in (0, Fraction(1, 2), Fraction(-1, 2))]
        near = {math.floor(place / self.last) + units for place in places for units in (-1, 0, 1)}
        return [n * self.last for n in sorted(near) if self.least <= n * self.last <= self.most]


def integers(dtype, bounds):
    least, most = column_type(dtype).bounds
    return Column(dtype, Fraction(least), Fraction(most), Fraction(1), bounds)


def decimals(precision, scale, bounds, *aggregates):
    last = Fraction(1, 10**scale)
    most = (10**precision - 1) * last
    return Column(pa.decimal128(precision, scale), -most, most, last, bounds, aggregates or (SUM, MEAN, VARIANCE))


#: Sums are refused if they need not be decimals of 38 digits: of the widest columns there are means and variances only.
COLUMNS = {
    "boolean": Column(pa.bool_(), Fraction(0), Fraction(1), Fraction(1), (0, 1)),
    "int16, to its ends": integers(pa.int16(), (-(2**15), 2**15)),
    "int16, within": integers(pa.int16(), (-20_000, 13)),
    "int16, bounds below it": integers(pa.int16(), (-(2**70), -(2**16))),
    "int64, to its ends": integers(pa.int64(), (-(2**63), 2**63 - 1)),
    "int64, within": integers(pa.int64(), (-(2**31) - 1, 2**32 - 3)),
    "int64, beyond its ends": integers(pa.int64(), (-(10**25), 10**21)),
    "int64, far from zero": integers(pa.int64(), (2**62, 2**62 + 10**6 + 1)),
    "int64, bounds above it": integers(pa.int64(), (2**63 + 5, 2**70)),
    "uint64, to its end": integers(pa.uint64(), (0, 2**64 - 1)),
    "uint64, within": integers(pa.uint64(), (-5, 2**53 + 1)),
    "uint64, beyond its end": integers(pa.uint64(), (0, 10**25)),
    "uint64, bounds below it": integers(pa.uint64(), (-10, -3)),
    "decimal(5, 2)": decimals(5, 2, (Decimal("-1.015"), 1)),
    "decimal(5, 2), bounds above it": decimals(5, 2, (10**6, 10**7)),
    "decimal(5, 2), bounds below it": decimals(5, 2, (-(10**20), -(10**6))),
    "decimal(12, 2)": decimals(12, 2, (-(10**10), 10**10)),
    "decimal(12, 2), bounds between steps": decimals(12, 2, (Decimal("-99999999.985"), Decimal("7.775"))),
    "decimal(38, 10)": decimals(38, 10, (-(10**15), 10**15)),
    "decimal(38, 10), one sign": decimals(38, 10, (Decimal("0.25"), 10**12)),
    "decimal(38, 10), far": decimals(38, 10, (-(10**27), 10**27)),
    "decimal(38, 10), bounds above it": decimals(38, 10, (10**28, 10**28 + 10**20), MEAN, VARIANCE),
    "decimal(38, 0), fine": decimals(38, 0, (-3, 10**9)),
    "decimal(38, 0), coarse": decimals(38, 0, (-(10**18), 10**27)),
    "decimal(38, 0), far": decimals(38, 0, (-5 * 10**37, 49 * 10**36), MEAN, VARIANCE),
    "decimal(38, 0), half above it": decimals(38, 0, (9 * 10**37, 2 * 10**38), MEAN, VARIANCE),
    "decimal(18, 18)": decimals(18, 18, (-1, 1)),
    "decimal(38, 38)": decimals(38, 38, (0, 7)),
    "decimal(18, 18), fine": decimals(18, 18, (0, Decimal("1e-9"))),
    "decimal(18, 18), beyond its ends": decimals(18, 18, (-(10**6), 10**6)),
}


def hard_values(column):
    """For unsigned integers also those that are hard where these are decimals."""
    more = [column_type("decimal(20, 0)")] if column.dtype == pa.uint64() else []
    return column.values([column_type(column.dtype), *more])


def as_decimal(number):
    with decimal.localcontext(decimal.Context(prec=2000, traps=[decimal.Inexact])):
        return Decimal(number.numerator) / number.denominator


def wrong_steps(dataset, measures, values):
    """The values, one a row, of which an engine makes another number of steps than fractions say.

    Parameters
    ----------
    measures
        For each column a list of what is summed.
    values
        For each column a list of numbers; null in the rows after these.
    """
    table = dataset.table
    names = {f"{name} {i}": measure for name in values for i, measure in enumerate(measures[name])}
    added = {
        name: measure.contributions({measure.column: table[measure.column]}, table[ROW].equals(0))[0]
        for name, measure in names.items()
    }
    found = rows_of(table.select("added", "What rows add.", {ROW: table[ROW], **added})).sort_by(ROW).to_pydict()
    wrong = []
    for name, measure in names.items():
        rows = itertools.zip_longest(found[name], values[measure.column])
        for number, value in rows:
            (expected,) = plain_tables.numbers(measure, [{measure.column: value}], UNIT)
            if number != expected:
                wrong.append(f"{measure}: {value} gives {number}, not {expected}")
    return wrong


def test_steps_are_exact(engine):
    values = {name: hard_values(column) for name, column in COLUMNS.items()}
    rows = max(map(len, values.values())) + 1
    columns = {}
    for name, column in COLUMNS.items():
        as_typed = as_decimal if pa.types.is_decimal(column.dtype) else bool if column.dtype == pa.bool_() else int
        typed = [as_typed(value) for value in values[name]]
        columns[name] = pa.array(typed + [None] * (rows - len(typed)), column.dtype)
    dataset = engine.put(pa.table({UNIT: range(rows), ROW: range(rows), **columns}))
    measures = {name: column.measures(name, dataset.type_of("column", name)) for name, column in COLUMNS.items()}
    assert wrong_steps(dataset, measures, values) == []


def test_the_values_are_hard():
    """Most columns have ties between two steps, and values that a detour through floats would round to another step."""
    ties, astray = set(), set()
    for name, column in COLUMNS.items():
        for measure in column.measures("v", column_type(column.dtype)):
            grid = measure.grid
            for value in hard_values(column):
                if (value / grid.step).denominator == 2 and grid.low < value / grid.step < grid.high:
                    ties.add(name)
                if plain_tables.in_steps(float(value), grid) != plain_tables.in_steps(value, grid):
                    astray.add(name)
    assert len(ties) >= 16, set(COLUMNS) - ties
    assert len(astray) >= 13, set(COLUMNS) - astray
    assert sum(len(hard_values(column)) >= 50 for column in COLUMNS.values()) >= 18


#: Types that Arrow has not: of any size, of many digits, of more digits than decimals have.
TYPES_OF_ENGINES = {
    ("postgres", "numeric"): [
        Column(None, Fraction(-(10**200)), Fraction(10**200), Fraction(1, 10**200), bounds, aggregates)
        for bounds, aggregates in [
            ((-5, Decimal("7.123456789012345678901")), (SUM, MEAN, VARIANCE)),
            ((-(10**25), 10**26 + 1), (SUM, MEAN, VARIANCE)),
            ((-(10**60), 10**70), (MEAN, VARIANCE)),
            ((0, Decimal("1e-60")), (MEAN, VARIANCE)),
        ]
    ],
    ("postgres", "numeric(500, 400)"): [
        Column(None, 1 - Fraction(10**100), Fraction(10**100) - 1, Fraction(1, 10**400), (-1, Decimal("0.3")))
    ],
    ("duckdb", "HUGEINT"): [
        Column(None, Fraction(1 - 2**127), Fraction(2**127 - 1), Fraction(1), bounds, aggregates)
        for bounds, aggregates in [
            ((-5, 70_000), (SUM, MEAN, VARIANCE)),
            ((-(10**28), 10**27), (SUM, MEAN, VARIANCE)),
            ((-(10**37), 8 * 10**37), (MEAN, VARIANCE)),
        ]
    ],
}  # fmt: skip


@pytest.mark.parametrize(("engine_name", "dtype"), TYPES_OF_ENGINES, ids=str)
def test_steps_of_other_types_are_exact(engine_of, engine_name, dtype):
    columns = {f"v{i}": column for i, column in enumerate(TYPES_OF_ENGINES[engine_name, dtype])}
    ours = column_type("decimal(38, 0)" if dtype == "HUGEINT" else dtype.replace("numeric", "decimal"))
    values = {name: column.values([ours]) for name, column in columns.items()}
    assert all(len(numbers) >= 40 for numbers in values.values())
    rows = ", ".join(
        f"({row}, {row}, {', '.join('NULL' if v is None else f'{as_decimal(v):f}' for v in numbers[:-1])})"
        for row, numbers in enumerate(itertools.zip_longest(*values.values(), [None]))
    )
    dataset = engine_of(engine_name).made({UNIT: "bigint", ROW: "bigint", **dict.fromkeys(columns, dtype)}, rows)
    measures = {name: column.measures(name, dataset.type_of("column", name)) for name, column in columns.items()}
    assert measures["v0"][0].grid == columns["v0"].measures("v0", ours)[0].grid
    assert wrong_steps(dataset, measures, values) == []


@pytest.mark.parametrize(
    ("dtype", "bounds"),
    [
        ("decimal(38, 0)", (-5 * 10**37, 5 * 10**37)),
        ("decimal(38, 0)", (1 - 10**38, 0)),
        ("decimal(38, 0)", (-(10**38) - 10**37, -9 * 10**37)),
        ("decimal(38, 10)", (-(10**28) - 10**20, -(10**28))),
        ("decimal(5, 2)", (-(10**36), 0)),
        ("decimal(38, 38)", (Decimal("-0.1"), 1)),
    ],
)
def test_bounds_that_leave_no_digit_are_refused(dtype, bounds):
    """The distance between two values within the bounds would be no decimal of the engine: an error in one row."""
    with pytest.raises(ValueError, match=r"bounds of 'v' must be less than 1e\d+ apart, and the lower one above -1e"):
        grid_of("v", column_type(dtype), bounds, centred=True)
