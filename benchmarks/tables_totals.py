"""The noise of totals, and the time that a million groups with their totals take.

Claim: totals that are measured in the calibration of their table and estimated together with the groups have a part of
the noise of totals that are added up from the groups, for which the groups get more noise; and less than releases for
each level with shares of the budget. A million groups take seconds.

Standard deviations of one count, at ε = 1 and δ = 1e-8. "added up": one release of the groups, with all of the budget.
"apart": a release for each level, with equal shares of ε and δ.
"""

import time

import duckdb
import numpy as np
import pyarrow as pa

from measure import best_time, print_table, say_if_busy
from osgt import Dataset

EPSILON, DELTA = 1.0, 1e-8

ROWS, CANTONS, COMMUNES, AGES = 2_000_000, 26, 1000, 40


def nobody() -> Dataset:
    """A table without rows: plans read none."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (person BIGINT, region INTEGER, month INTEGER, sort INTEGER)")
    return Dataset(connection, "person", table="t")


def noise(by: dict[str, int], totals: str, most: int) -> list[list[str]]:
    """For each level the standard deviations, by how it is made."""
    data, keys = nobody(), {name: list(range(number)) for name, number in by.items()}
    bounds = {"max_groups": most, "max_rows_per_group": 1}
    plan = (
        data.group_by(*by, **bounds, public_keys=keys, totals=totals)
        .count()
        .plan(EPSILON, DELTA, measure_left_out=False)
    )
    alone = data.group_by(*by, **bounds, public_keys=keys).count().plan(EPSILON, DELTA, measure_left_out=False)
    levels = {(): plan.columns, **plan.totals}
    rows = []
    for level, columns in levels.items():
        kept = {name: keys[name] for name in (level.by if level else by)}
        cells = int(np.prod([n for name, n in by.items() if name not in kept]))
        # A person's groups may be in as many of a level, or in one: to keep the same rows, both must be allowed.
        limits = bounds if level == () else {"max_rows_per_group": most} | ({"max_groups": most} if kept else {})
        one = data.group_by(*kept, **limits, **({"public_keys": kept} if kept else {})).count()
        apart = one.plan(EPSILON / len(levels), DELTA / len(levels), measure_left_out=False).columns[0].std
        added = alone.columns[0].std * np.sqrt(cells)
        used = columns[0].std
        name = " × ".join(kept) or "all"
        rows.append([name, f"{used:.1f}", f"{added:.1f} ({added / used:.2f} ×)", f"{apart:.1f} ({apart / used:.2f} ×)"])
    return rows


def seconds() -> tuple[float, float]:
    """A roll-up of a million groups: the release, and the plain aggregation of DuckDB."""
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "person": np.arange(ROWS),
            "canton": rng.integers(0, CANTONS, ROWS),
            "commune": rng.integers(0, COMMUNES, ROWS),
            "age": rng.integers(0, AGES, ROWS),
        }
    )
    keys = {"canton": range(CANTONS), "commune": range(COMMUNES), "age": range(AGES)}
    query = Dataset(table, "person").group_by(
        *keys, max_groups=1, max_rows_per_group=1, public_keys=keys, totals="rollup"
    )
    query = query.count()
    start = time.perf_counter()
    query.release(EPSILON, DELTA)
    ours = time.perf_counter() - start
    connection = duckdb.connect()
    connection.register("t", table)
    plain = best_time(
        lambda: connection.execute(
            "SELECT canton, commune, age, count(DISTINCT person) FROM t GROUP BY ROLLUP (canton, commune, age)"
        ).to_arrow_table(),
        3,
    )
    return ours, plain


def main() -> None:
    """Print both."""
    say_if_busy()
    titles = ["level", "osgt", "added up", "apart"]
    cases = {
        "roll-up of 16 × 25, in one group each": ({"region": 16, "month": 25}, "rollup", 1),
        "roll-up of 16 × 12, in up to four groups each": ({"region": 16, "month": 12}, "rollup", 4),
        "cube of 3 × 12 × 104, in one group each": ({"region": 3, "month": 12, "sort": 104}, "cube", 1),
    }
    for title, case in cases.items():
        print_table(title, titles, noise(*case))
    ours, plain = seconds()
    print(
        f"{CANTONS * COMMUNES * AGES:,} groups with their totals: {ours:.1f} s; DuckDB's own roll-up of the same rows, "
        f"without noise, {plain:.1f} s: ratio {ours / plain:.1f}"
    )


if __name__ == "__main__":
    main()
