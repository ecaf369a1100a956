"""How does the time of a release grow with the rows? Count and sum by 10⁴ groups, with `max_rows` given.

On DuckDB 2M, 20M and 200M rows of a Parquet file, with at most 4 GiB of memory for the engine; on Spark with two
threads 2M, 20M and 60M. Users grow with the rows (20 rows each). The slope is the power of the rows that the time grows
with from one size to the next: 1 where twice the rows take twice the time.

Every size has a process of its own. A release of the smallest table comes first and does not count: modules are loaded,
and Java compiles what it runs. The start of Spark is not measured; the memory is that of all processes together.
"""

import argparse
import json
import math
import sys
from pathlib import Path

from measure import print_table, run_apart, say_if_busy
from tables_data import BUILD, GROUPS, keys_path, table_path
from tables_engines import duckdb_with, in_turns, spark_with

SIZES = {"duckdb": [2_000_000, 20_000_000, 200_000_000], "spark": [2_000_000, 20_000_000, 60_000_000]}
MEMORY = "4GiB"


def measured(engine: str, rows: int, rounds: int) -> dict[str, float]:
    def opened(rows: int):
        return spark_with(table_path(rows)) if engine == "spark" else duckdb_with(table_path(rows), MEMORY)

    with opened(SIZES[engine][0]) as running:
        running.released(keys_path(), measure_left_out=True)
    with opened(rows) as running:
        works = {"release": lambda: running.released(keys_path(), measure_left_out=True)}
        return in_turns(running, works, rounds)["release"]


def main(engines: list[str], sizes: list[int] | None, rounds: int) -> None:
    say_if_busy()
    for engine in engines:
        lines, before = [], None
        for rows in sizes or SIZES[engine]:
            assert table_path(rows).exists()
            assert keys_path().exists()
            command = [sys.executable, Path(__file__), "--engine", engine, "--rows", str(rows)]
            try:
                run = run_apart([*command, "--rounds", str(rounds), "--run"], cwd=BUILD / "scratch")
            except RuntimeError as reason:
                print(f"{engine} does not run: {reason}")
                break
            cells = [f"{rows:,}", f"{run['seconds']:.1f}", f"{run['processor']:.1f}", f"{run['gib']:.2f}"]
            lines.append(cells + [_slope(before, rows, run, key) for key in ("seconds", "processor")])
            before = rows, run
        limit = f", memory_limit {MEMORY}" if engine == "duckdb" else ""
        print_table(
            f"{engine}{limit}: count, sum by {GROUPS:,} groups, telling what was cut off",
            ["rows", "seconds", "processor seconds", "GiB", "slope of seconds", "of processor seconds"],
            lines,
        )


def _slope(before, rows, run, key):
    """The power of the rows that a number grows with."""
    if before is None:
        return ""
    fewer, least = before
    return f"{math.log(run[key] / least[key]) / math.log(rows / fewer):.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rows", type=int, nargs="+", help="default: 2, 20 and 200 million on DuckDB, 60 on Spark")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(measured(options.engine[0], options.rows[0], options.rounds)))
    else:
        main(options.engine, options.rows, options.rounds)
