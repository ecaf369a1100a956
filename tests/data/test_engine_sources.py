"""Every way to hand data over: the same table, the same numbers."""

import math

import made_tables
import plain_tables
from engines import ROW, UNIT, choose_pairs_by, steps
from osgt import Dataset


def test_every_source_gives_the_same(source):
    rng = made_tables.same_every_time(8)
    table = made_tables.batch_of([made_tables.made_rows(rng) for _ in range(4)])
    # Without what CSV and pandas cannot say: empty text beside null, infinities, null among whole numbers.
    rows = [row for row in table.to_pylist() if row["town"] not in (None, "", "null")]
    for place, row in enumerate(rows):
        row[ROW] = place
        row.update({name: row[name] or 0 for name in ("number", "small", "whole")})
        row["real"] = None if row["real"] is None or not math.isfinite(row["real"]) else row["real"]
    table = made_tables.table_of(rows, table.schema)
    handed, arguments = source(table)
    dataset = Dataset(handed, UNIT, **arguments)
    measures = made_tables.made_measures(dataset)
    by = ("table", "town")
    query = dataset.group_by(*by, max_groups=20, max_rows_per_group=2)
    limits = plain_tables.Limits(max_groups=20, max_rows_per_group=2)
    choose_pairs = choose_pairs_by(query)
    expected = plain_tables.weighted_sums(rows, UNIT, by, limits, measures, choose_pairs=choose_pairs)
    assert plain_tables.differences(steps(query, measures), expected, measures) == []
