"""Tables for the engine tests: rows with everything in them that can go wrong, and measures that look at all of it."""

import decimal
import math
import random

import pyarrow as pa

from osgt.data.expressions.expression import check_condition
from osgt.query.aggregates.proportion import Balance
from osgt.query.measures import (
    Bins,
    Centred,
    CentredSum,
    ClippedSum,
    Distinct,
    LimitedSum,
    Rows,
    Squares,
    Units,
    Values,
)
from osgt.query.quantiles import Leaves
from osgt.query.values import grid_of

SCHEMA = pa.schema(
    [
        ("person", pa.string()),
        ("town", pa.string()),
        ("number", pa.int64()),
        ("row", pa.int64()),
        ("small", pa.int8()),
        ("whole", pa.int64()),
        ("real", pa.float64()),
        ("price", pa.decimal128(12, 2)),
        ("flag", pa.bool_()),
    ]
)

TOWNS = [None, "", " ", "Rome", "rome", "Rom'e", 'R"ome', "Zürich", "Zu\u0308rich", "'; DROP TABLE people; --", "null"]
NUMBERS = [None, 0, 1, -1, 2**63 - 1, -(2**63)]
SMALL = [None, -128, -1, 0, 1, 127]
WHOLE = [None, 0, 1, -1, 7, 500, -500, 1001, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
REAL = [
    None, math.nan, math.inf, -math.inf, 0.0, -0.0, 0.25, 0.5, -0.5, 1.0, 1.5, 2.0, 2.5, 9.999, -1.5, 1e300, -1e300,
    1.7976931348623157e308, 5e-324, -5e-324, 1e-300,
]  # fmt: skip
PRICE = [None, *map(decimal.Decimal, ("0.00", "0.01", "-0.01", "9.99", "10.00", "9999999999.99", "-9999999999.99"))]
FLAG = [None, False, True]


def people(table):
    """The rows as dictionaries."""
    return table.to_pylist()


def table_of(rows, schema=SCHEMA):
    return pa.Table.from_pylist(rows, schema=schema)


def made_row(rng, person, row):
    values = {"town": TOWNS, "number": NUMBERS, "small": SMALL, "whole": WHOLE, "real": REAL, "price": PRICE}
    return {"person": person, "row": row, "flag": rng.choice(FLAG)} | {n: rng.choice(v) for n, v in values.items()}


def made_rows(rng, people=5, most=12):
    """Rows of a few people: some with one, some with many, some twice the same, some of nobody."""
    rows = []
    for i in range(people):
        person = None if rng.random() < 0.1 else f"p{i}"
        for _ in range(rng.choice([1, 2, most])):
            again = rows and rng.random() < 0.3
            # Rows that are alike but for their number, and rows in the group of the row before.
            row = dict(rows[-1]) if again else made_row(rng, person, 0)
            if not again and rows and rng.random() < 0.4:
                row |= {"town": rows[-1]["town"], "number": rows[-1]["number"]}
            rows.append(row | {"person": person, "row": len(rows)})
    rng.shuffle(rows)
    return rows


def made_measures(dataset):
    """Every kind of measure, on grids that bind and that do not, above, below and around zero."""

    def grid(column, bounds, **options):
        return grid_of(column, dataset.type_of("column", column), bounds, **options)

    def limited(column, limit):
        return limited_sum(dataset, column, limit)

    return [
        Units(),
        Rows(),
        Values("real"),
        Values("price"),
        ClippedSum("small", grid("small", (-200, 200))),
        ClippedSum("whole", grid("whole", (-1000, 1000))),
        ClippedSum("whole", grid("whole", (3, 2**40))),
        ClippedSum("real", grid("real", (-1.5, 10))),
        ClippedSum("real", grid("real", (2, 3))),
        ClippedSum("real", grid("real", (-1e270, 1e270))),
        ClippedSum("price", grid("price", (-5, 10))),
        ClippedSum("flag", grid("flag", (0, 1))),
        limited("whole", 1000),
        limited("whole", 2**62),
        limited("small", 100),
        limited("real", 2.5),
        limited("real", 1e270),
        limited("price", 20),
        limited("price", 10**11),
        Distinct("small", 1),
        Distinct("whole", 3),
        Distinct("whole", 7, in_steps=True),
        Distinct("real", 2),
        Distinct("price", 2**20),
        Distinct("flag", 1, in_steps=True),
        Distinct("town", 2),
        CentredSum("whole", grid("whole", (-10, 1000))),
        CentredSum("real", grid("real", (0, 10))),
        Squares("real", grid("real", (-2, 2), squares=True)),
        Squares("whole", grid("whole", (400, 600), squares=True)),
        Centred(Values("real"), Rows(), 2, 1),
        Centred(ClippedSum("whole", grid("whole", (-10, 1000))), Rows(), 1, 495),
        Centred(ClippedSum("real", grid("real", (2, 3))), Rows(), 2, 2**21 + 2**20),
        Centred(ClippedSum("price", grid("price", (-5, 10))), Rows(), 1, 250),
        Centred(ClippedSum("flag", grid("flag", (0, 1))), Rows(), 2, 1),
        Bins("real", (-1, 0, 0.5, 2)),
        Bins("whole", (-500, 0, 7, 2**60)),
        Bins("price", (0, 0.01, 10)),
        Leaves("real", grid("real", (-1.5, 10), centred=True), 7),
        Leaves("whole", grid("whole", (-2, 3)), 16),
        Leaves("whole", grid("whole", (-1000, 2**40)), 5),
        Leaves("price", grid("price", (-5, 10)), 4),
        Balance(check_condition(dataset.table, "small > 0")),
    ]


def limited_sum(dataset, column, limit):
    """The sum of a column of which a unit adds at most a limit."""
    return LimitedSum(column, grid_of(column, dataset.type_of("column", column), (-limit, limit)))


def batch_of(tables):
    """Many tables as one: the number of its table is a key of every row, and people are told apart by it."""
    rows = []
    for i, table in enumerate(tables):
        for row in table:
            person = None if row["person"] is None else f"{i} {row['person']}"
            rows.append(row | {"table": i, "person": person})
    return pa.Table.from_pylist(rows, schema=SCHEMA.append(pa.field("table", pa.int64())))


def same_every_time(seed):
    return random.Random(seed)
