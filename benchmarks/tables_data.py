"""The table that the benchmarks of table releases share, skewed as real ones are; run by itself, it describes it.

A row is a user, a group and a value. Users' activity and groups' popularity follow power laws: a few users are in every
group, most are in fewer than ten. At 20M rows: 0.99M users, 10⁴ groups, 16.2M distinct (user, group) pairs, 28 % of the
users in more than 10 groups. A file is made once and kept in build/tables/.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from measure import print_table

BUILD = Path(__file__).resolve().parent.parent / "build" / "tables"
GROUPS = 10_000
ROWS_A_USER = 20
CHUNK = 1_000_000


def table_path(rows: int, groups: int = GROUPS) -> Path:
    """A Parquet file of that many rows: user, grp, value."""
    return _written(f"rows-{rows}-groups-{groups}.parquet", _skewed(rows, groups))


def keys_path(groups: int = GROUPS) -> Path:
    """A Parquet file with every key: grp."""
    return _written(f"keys-{groups}.parquet", [{"grp": np.arange(groups)}])


def equal_groups_path(groups: int, users: int) -> Path:
    """Every group has one row of each of that many users of its own, so its exact count is known and nothing is cut."""
    user = np.arange(groups * users)
    columns = {"user": user, "grp": user % groups, "value": np.full(len(user), 50.0)}
    return _written(f"equal-{groups}-{users}.parquet", [columns])


def _skewed(rows, groups):
    generator = np.random.default_rng(20)
    for start in range(0, rows, CHUNK):
        size = min(CHUNK, rows - start)
        yield {
            "user": _shuffled(generator.random(size) ** 5.75, rows // ROWS_A_USER),
            "grp": _shuffled(generator.random(size) ** 1.75, groups),
            "value": generator.gamma(2.0, 15.0, size),
        }


def _shuffled(place, count):
    """Numbers below `count` for places in [0, 1), in an order that does not tell which are frequent."""
    return (place * count).astype(np.int64) * 7919 % count


def _written(name, chunks):
    path = BUILD / name
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        writer = None
        for chunk in chunks:
            table = pa.table(chunk)
            writer = writer or pq.ParquetWriter(unfinished, table.schema)
            writer.write_table(table)
        writer.close()
        unfinished.rename(path)
    return path


def describe(rows: int) -> None:
    import duckdb  # noqa: PLC0415

    users, pairs, share = duckdb.sql(f"""
        with pairs as (select user, grp from '{table_path(rows)}' group by all),
             users as (select user, count(*) as n from pairs group by user)
        select count(*), sum(n), avg((n > 10)::int) from users
    """).fetchone()
    cells = [f"{rows:,}", f"{users:,}", f"{GROUPS:,}", f"{pairs:,}", f"{share:.1%}"]
    print_table("The table", ["rows", "users", "groups", "(user, group) pairs", "users in > 10 groups"], [cells])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    describe(parser.parse_args().rows)
