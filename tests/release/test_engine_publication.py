"""Publications on every engine: the numbers of all tables, what one unit moves in them, and one charge."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines import ROW, UNIT, fetched_queries
from osgt import Publication
from osgt.release.measuring import exact_numbers, prepare

TOWNS, MONTHS = ["a", "b", "c"], [1, 2, 3, 4]


def made_rows(units=80):
    rng = np.random.default_rng(8)
    rows = 6 * units
    return pa.table(
        {
            UNIT: [f"p{i}" for i in rng.integers(0, units, rows)],
            "town": rng.choice(TOWNS, rows).tolist(),
            "month": pa.array(rng.integers(1, 5, rows), pa.int64()),
            "fare": pa.array(rng.integers(0, 20, rows), pa.int64()),
            ROW: pa.array(range(rows), pa.int64()),
        }
    )


def publication(data, rows=20, groups=4):
    """Limits that leave nothing out, unless they are smaller, so that all numbers are known."""
    towns = data.group_by("town", max_groups=min(groups, 3), max_rows_per_group=rows, public_keys=TOWNS)
    return Publication(
        towns=towns.count().sum("fare", (0, 20)),
        units=towns.count().count_units(),
        months=data.where("fare > 4").group_by("month", max_groups=groups, max_rows_per_group=rows).count(),
        total=data.group_by(max_rows_per_group=rows).count(),
    )


def test_exact_numbers(engine):
    """At an ε so large that there is no noise to speak of, all tables have the exact numbers."""
    table = made_rows()
    frame = table.to_pandas()
    data = engine.put(table)
    with fetched_queries() as queries:
        release = publication(data).release(500_000, 1e-6)
    assert len(queries) == 3  # towns and units together
    towns = release["towns"].to_pandas().set_index("town")
    assert towns["count"].to_dict() == frame.groupby("town").size().to_dict()
    assert towns["fare_sum"].to_dict() == frame.groupby("town")["fare"].sum().to_dict()
    units = release["units"].to_pandas().set_index("town")
    assert units["count"].to_dict() == towns["count"].to_dict()
    assert units["count_units"].to_dict() == frame.groupby("town")[UNIT].nunique().to_dict()
    months = release["months"].to_pandas().set_index("month")
    assert months["count"].to_dict() == frame[frame["fare"] > 4].groupby("month").size().to_dict()
    assert release["total"].to_pandas()["count"].tolist() == [len(frame)]


def numbers(data, plan_of):
    """For each block the exact numbers of each measure, by group, with the same salt and order of rows."""
    asked = publication(data, rows=2, groups=2)
    plan = plan_of(asked)
    found = []
    for block, one in zip(asked.blocks, plan.blocks, strict=True):
        exact = exact_numbers(block.query, one, prepare(block.query, one, 7))
        groups = [tuple(row.values()) for row in exact.keys.to_pylist()] or [()]
        found.append({m: dict(zip(groups, each.tolist(), strict=False)) for m, each in exact.numbers.items()})
    return plan, found


def test_one_unit_moves_no_number_further_than_its_noise_is_made_for(engine):
    table = made_rows(units=12)
    plan, everyone = numbers(engine.put(table), lambda asked: asked.plan(1, 1e-6))
    for unit in ("p1", "p7"):
        without = table.filter(pc.not_equal(table[UNIT], unit))
        _, others = numbers(engine.put(without), lambda _: plan)
        for one, more, less in zip(plan.blocks, everyone, others, strict=True):
            for measure, part in one.parts.items():
                keys = more[measure].keys() | less[measure].keys()
                zero = [0] * measure.numbers
                pairs = [(more[measure].get(key, zero), less[measure].get(key, zero)) for key in keys]
                moved = sorted((max(abs(np.subtract(*pair))) for pair in pairs), reverse=True)
                most = sorted((shift for shift, n in part.moves for _ in range(n)), reverse=True)
                assert sum(far > 0 for far in moved) <= len(most)
                assert all(far <= limit for far, limit in zip(moved, most, strict=False))
