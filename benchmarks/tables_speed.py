"""How long does a private table take? Count and sum by 10⁴ groups, beside plain queries on the same engine.

The measure is the plain aggregation per (user, group) in the engine's own SQL: work that a release with a limit for
each user and group has to do. Claims, in multiples of its processor time: on DuckDB (20M rows) at most 0.7 with
`max_rows` given, 0.8 if what was cut off is measured as well, 1.0 if the limit is chosen; on Spark (20M rows) and
PostgreSQL (5M rows) at most 1.0 with `max_rows` given. Adding noise to 10⁶ groups takes at most 2 % of the query. The
plain GROUP BY without any privacy stands beside them, and PostgreSQL for several values of `work_mem`.

On each engine all take turns in one session, on one file or table. The least of the rounds counts. Processor seconds
are those of all processes that work for it: ours, Java's, the server's. Imports, the start of an engine and copying the
rows into PostgreSQL are not measured; the first round on Spark, where Java compiles what it runs, does not count.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from measure import print_table, run_apart, say_if_busy
from tables_data import BUILD, GROUPS, keys_path, table_path
from tables_engines import MAX_ROWS, Running, duckdb_with, in_turns, postgres_with, spark_with

MANY = 1_000_000
WORK_MEM = ["4MB", "64MB", "256MB", "1GB"]

#: The rows of each engine's table, and the most that a release may take there in multiples of the aggregation per
#: (user, group), by processor time.
ROWS = {"duckdb": 20_000_000, "spark": 20_000_000, "postgres": 5_000_000}
PAIRS, GIVEN, MEASURED, CHOSEN = "(user, group) aggregation", "max_rows given", "and the cut-off measured", "and chosen"
BARS = {
    "duckdb": {GIVEN: 0.7, MEASURED: 0.8, CHOSEN: 1.0},
    "spark": {GIVEN: 1.0},
    "postgres, work_mem = 64MB": {GIVEN: 1.0},
}

Times = dict[str, dict[str, float]]


def contenders(running: Running, rows: int, groups: int = GROUPS) -> dict[str, object]:
    keys = keys_path(groups)
    return {
        "plain GROUP BY": running.bare,
        PAIRS: running.pairs,
        GIVEN: lambda: running.released(keys),
        MEASURED: lambda: running.released(keys, measure_left_out=True),
        CHOSEN: lambda: running.chosen(keys, rows),
        "max_rows given, groups chosen by size": running.released_by_size,
    }


def on_duckdb(rows: int, rounds: int) -> dict[str, Times]:
    with duckdb_with(table_path(rows)) as running:
        found = {"duckdb": in_turns(running, contenders(running, rows), rounds)}
    with duckdb_with(table_path(rows, MANY)) as running:
        works = {PAIRS: running.pairs, GIVEN: lambda: running.released(keys_path(MANY))}
        noise = _seconds_of_noise()
        times = in_turns(running, works, rounds)
        times[GIVEN]["noise"] = sum(noise) / rounds
    return found | {f"duckdb, {MANY:,} groups": times}


def on_spark(rows: int, rounds: int) -> dict[str, Times]:
    with spark_with(table_path(rows)) as running:
        return {"spark": in_turns(running, contenders(running, rows), rounds, warm_up=1)}


def on_postgres(rows: int, rounds: int, sizes: list[str]) -> dict[str, Times]:
    with postgres_with(table_path(rows)) as server:
        sessions = {size: server(size) for size in sizes}
        return {
            f"postgres, work_mem = {size}": in_turns(running, contenders(running, rows), rounds)
            for size, running in sessions.items()
        }


def _seconds_of_noise() -> list[float]:
    """The seconds that each release spends on noise from now on."""
    from osgt import Mechanism  # noqa: PLC0415

    add_noise, seconds = Mechanism.release, []

    def timed(*arguments):
        begin = time.perf_counter()
        values = add_noise(*arguments)
        seconds.append(time.perf_counter() - begin)
        return values

    Mechanism.release = timed
    return seconds


def measured(engine: str, rows: int, rounds: int, sizes: list[str]) -> dict[str, Times]:
    if engine == "postgres":
        return on_postgres(rows, rounds, sizes)
    return (on_spark if engine == "spark" else on_duckdb)(rows, rounds)


def show(engine: str, rows: int, times: Times) -> None:
    plain = times[PAIRS]
    print_table(
        f"{engine}: count, sum of {rows:,} rows by {GROUPS if 'groups' not in engine else MANY:,} groups; "
        f"max_rows {MAX_ROWS}",
        ["", "seconds", "ratio", "processor seconds", "ratio"],
        [
            [name, *(text for key in ("seconds", "processor") for text in _shown(run[key], plain[key]))]
            for name, run in times.items()
        ],
    )


def _shown(value: float, plain: float) -> list[str]:
    return [f"{value:.2f}", f"{value / plain:.2f}"]


def main(engines: list[str], rows: int | None, rounds: int, sizes: list[str]) -> None:
    say_if_busy()
    claims = []

    def claim(text, value, bar, shown):
        claims.append([text, shown(value), f"≤ {shown(bar)}", "met" if value <= bar else "missed"])

    for engine in engines:
        number = rows or ROWS[engine]
        for path in (table_path(number), table_path(number, MANY), keys_path(), keys_path(MANY)):
            assert path.exists()
        command = [sys.executable, Path(__file__), "--engine", engine, "--rows", str(number), "--rounds", str(rounds)]
        command += ["--work-mem", *sizes]
        try:
            found = run_apart([*command, "--run"], cwd=BUILD / "scratch")
        except RuntimeError as reason:
            print(f"{engine} does not run: {reason}")
            continue
        del found["gib"]
        for name, times in found.items():
            show(name, number, times)
            for work, bar in BARS.get(name, {}).items():
                ratio = times[work]["processor"] / times[PAIRS]["processor"]
                claim(f"{name}: {work}, × {PAIRS}, processor time", ratio, bar, "{:.2f}".format)
            for run in times.values():
                if "noise" in run:
                    share = run["noise"] / run["seconds"]
                    claim(f"{name}: noise, part of the release", share, 0.02, "{:.2%}".format)
    if claims:
        print_table("Claims", ["", "measured", "bar", ""], claims)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--rows", type=int, help="default: 20,000,000, on PostgreSQL 5,000,000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work-mem", nargs="+", default=WORK_MEM, help="of PostgreSQL")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(measured(options.engine[0], options.rows, options.rounds, options.work_mem)))
    else:
        main(options.engine, options.rows, options.rounds, options.work_mem)
