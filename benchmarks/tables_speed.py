"""How long does a private table take? Counts and sums of 20M rows by 10⁴ groups, beside queries written by hand.

Claims: a release on DuckDB takes at most 1.6 times as long as the plain aggregation per (user, group) in DuckDB's SQL,
in at most 3 GiB; adding noise to 10⁶ groups takes at most 2 % of the query.

The claims are about releases with `measure_left_out=False`. One that tells what its bounds left out, as releases do
unless told not to, aggregates once more by (user, group): it stands beside them.

Every run is a process of its own, and the contenders take turns. Times are without imports; the start of Spark is shown
apart. The least of the rounds counts, for the memory the most.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from measure import print_table, run_apart, say_if_busy
from tables_data import BUILD, GROUPS, keys_path, table_path

MAX_GROUPS, MAX_ROWS = 10, 5
BOUNDS = (0, 100)
MANY = 1_000_000

PLAIN = """
    select count(*), sum(n), sum(total)
    from (select user, grp, count(*) as n, sum(value) as total from '{path}' group by user, grp)
"""

BOUNDED = """
    with ranked as (
        select *, random() as shuffled,
               dense_rank() over (partition by user order by hash(hash(user, grp, {salt})), grp) as group_rank
        from '{path}'
        qualify group_rank <= {max_groups}
    ), kept as (
        select * from ranked
        qualify row_number() over (partition by user, grp order by shuffled) <= {max_rows}
    )
    select grp, count(*), sum(floor(least(greatest(value, {low}), {high}) * 1024 + 0.5)::bigint)
    from kept group by grp
"""


def sql(query: str, path: Path) -> dict[str, float]:
    import duckdb  # noqa: PLC0415

    low, high = BOUNDS
    text = query.format(path=path, salt=time.time_ns(), max_groups=MAX_GROUPS, max_rows=MAX_ROWS, low=low, high=high)
    begin = time.perf_counter()
    duckdb.sql(text).to_arrow_table()
    return {"seconds": time.perf_counter() - begin}


def released(source: object, keys: Path | None = None, *, measure_left_out: bool = False) -> dict[str, float]:
    import ibis  # noqa: PLC0415

    from osgt import Dataset, Mechanism  # noqa: PLC0415

    ibis.duckdb  # noqa: B018 - its modules are loaded when it is first named, and imports are not measured
    add_noise, noise = Mechanism.release, []

    def timed(*arguments):
        begin = time.perf_counter()
        values = add_noise(*arguments)
        noise.append(time.perf_counter() - begin)
        return values

    Mechanism.release = timed
    begin = time.perf_counter()
    data = Dataset(source, privacy_unit="user")
    groups = data.group_by("grp", max_groups=MAX_GROUPS, max_rows_per_group=MAX_ROWS, public_keys=keys)
    query = groups.count().sum("value", bounds=BOUNDS)
    query.release(epsilon=1, delta=1e-8, measure_left_out=measure_left_out).to_arrow()
    return {"seconds": time.perf_counter() - begin, "noise": sum(noise)}


def on_spark(path: Path) -> dict[str, float]:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    begin = time.perf_counter()
    spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", "8g").getOrCreate()
    spark.range(1).count()
    start = time.perf_counter() - begin
    return released(spark.read.parquet(str(path))) | {"start": start}


CONTENDERS: dict[str, Callable[[int], dict[str, float]]] = {
    "per (user, group), SQL by hand": lambda rows: sql(PLAIN, table_path(rows)),
    "bounded, SQL by hand, no noise": lambda rows: sql(BOUNDED, table_path(rows)),
    "osgt on DuckDB": lambda rows: released(table_path(rows)),
    "osgt on DuckDB, telling what its bounds left out": lambda rows: released(table_path(rows), measure_left_out=True),
    "osgt on DuckDB, known keys": lambda rows: released(table_path(rows), keys_path()),
    "osgt on Spark local[2]": lambda rows: on_spark(table_path(rows)),
    f"osgt on DuckDB, {MANY:,} groups": lambda rows: released(table_path(rows, MANY), keys_path(MANY)),
}


def measured(rows: int, rounds: int) -> dict[str, dict[str, float]]:
    """For each contender that runs its least times and its largest memory."""
    for path in (table_path(rows), table_path(rows, MANY), keys_path(), keys_path(MANY)):
        assert path.exists()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name in list(runs):
            command = [sys.executable, Path(__file__), "--rows", str(rows), "--run", name]
            try:
                runs[name].append(run_apart(command, cwd=BUILD / "scratch"))
            except RuntimeError as reason:
                print(f"{name} does not run: {reason}")
                del runs[name]
    return {
        name: {key: (max if key == "gib" else min)(run[key] for run in found) for key in found[0]}
        for name, found in runs.items()
    }


def main(rows: int, rounds: int) -> None:
    say_if_busy()
    found = measured(rows, rounds)
    plain = found["per (user, group), SQL by hand"]["seconds"]
    print_table(
        f"count, sum of {rows:,} rows by {GROUPS:,} groups; max_groups {MAX_GROUPS}, max_rows_per_group {MAX_ROWS}",
        ["", "seconds", "ratio", "GiB", "start s"],
        [
            [
                name,
                f"{run['seconds']:.2f}",
                f"{run['seconds'] / plain:.2f}",
                f"{run['gib']:.2f}",
                f"{run['start']:.1f}" if "start" in run else "",
            ]
            for name, run in found.items()
        ],
    )
    claims = []

    def claim(text, value, bar, shown):
        claims.append([text, shown(value), f"≤ {shown(bar)}", "met" if value <= bar else "missed"])

    for name in ("osgt on DuckDB", "osgt on DuckDB, known keys"):
        if name in found:
            claim(f"{name}: time, × per (user, group)", found[name]["seconds"] / plain, 1.6, "{:.2f}".format)
            claim(f"{name}: memory", found[name]["gib"], 3.0, "{:.2f} GiB".format)
    many = found.get(f"osgt on DuckDB, {MANY:,} groups")
    if many:
        claim(f"noise for {MANY:,} groups, part of its query", many["noise"] / many["seconds"], 0.02, "{:.2%}".format)
    print_table("Claims", ["", "measured", "bar", ""], claims)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(CONTENDERS[options.run](options.rows)))
    else:
        main(options.rows, options.rounds)
