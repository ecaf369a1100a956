"""How long does a private table take? Count and sum by 10⁴ groups, beside the plain aggregation on the same engine.

The plain aggregation tells for each user and group how many rows there are and what they add up to: work that any
release with a bound for each user has to do, in the engine's own SQL. Claims, for releases with
`measure_left_out=False`, in multiples of its time: at most 1.35 on DuckDB (20M rows), 1.8 with 10⁶ groups there, 1.3 on
Spark (20M rows). Adding noise to 10⁶ groups takes at most 2 % of the query. A release that tells what its bounds left
out, as releases do unless told not to, stands beside them; so does PostgreSQL (5M rows) for several values of
`work_mem`.

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
from tables_engines import BOUNDS, MAX_GROUPS, MAX_ROWS, Running, duckdb_with, in_turns, postgres_with, spark_with

MANY = 1_000_000
WORK_MEM = ["4MB", "64MB", "256MB", "1GB"]

#: The rows of each engine's table, and the most that a release may take there in multiples of the plain aggregation.
ROWS = {"duckdb": 20_000_000, "spark": 20_000_000, "postgres": 5_000_000}
BARS = {"duckdb": 1.35, "duckdb, 1,000,000 groups": 1.8, "spark": 1.3}

BOUNDED = """
    with ranked as (
        select *, random() as shuffled,
               dense_rank() over (partition by user order by hash(hash(user, grp, {salt})), grp) as group_rank
        from rows
        qualify group_rank <= {max_groups}
    ), kept as (
        select * from ranked
        qualify row_number() over (partition by user, grp order by shuffled) <= {max_rows}
    )
    select grp, count(*), sum(floor(least(greatest(value, {low}), {high}) * 1024 + 0.5)::bigint)
    from kept group by grp
"""

Times = dict[str, dict[str, float]]


def bounded_by_hand(running: Running) -> None:
    low, high = BOUNDS
    running.sql(BOUNDED.format(salt=time.time_ns(), max_groups=MAX_GROUPS, max_rows=MAX_ROWS, low=low, high=high))


def contenders(running: Running) -> dict[str, object]:
    return {
        "plain aggregation": running.plain,
        "release": running.released,
        "release, telling what was left out": lambda: running.released(measure_left_out=True),
    }


def on_duckdb(rows: int, rounds: int) -> dict[str, Times]:
    with duckdb_with(table_path(rows)) as running:
        works = contenders(running) | {
            "release, public keys": lambda: running.released(keys_path()),
            "bounded, SQL by hand, no noise": lambda: bounded_by_hand(running),
        }
        found = {"duckdb": in_turns(running, works, rounds)}
    with duckdb_with(table_path(rows, MANY)) as running:
        works = {
            "plain aggregation": running.plain,
            "release": running.released,
            "release, public keys": lambda: running.released(keys_path(MANY)),
        }
        noise = _seconds_of_noise()
        times = in_turns(running, works, rounds)
        times["release, public keys"]["noise"] = sum(noise) / rounds / 2
    return found | {f"duckdb, {MANY:,} groups": times}


def on_spark(rows: int, rounds: int) -> dict[str, Times]:
    with spark_with(table_path(rows)) as running:
        return {"spark": in_turns(running, contenders(running), rounds, warm_up=1)}


def on_postgres(rows: int, rounds: int, sizes: list[str]) -> dict[str, Times]:
    with postgres_with(table_path(rows)) as server:
        sessions = {size: server(size) for size in sizes}
        return {
            f"postgres, work_mem = {size}": in_turns(running, contenders(running), rounds)
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
    plain = times["plain aggregation"]
    print_table(
        f"{engine}: count, sum of {rows:,} rows by {GROUPS if 'groups' not in engine else MANY:,} groups; "
        f"max_groups {MAX_GROUPS}, max_rows_per_group {MAX_ROWS}",
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
            if name not in BARS:
                continue
            for key, by in {"seconds": "time", "processor": "processor time"}.items():
                ratio = times["release"][key] / times["plain aggregation"][key]
                claim(f"{name}: {by}, × plain aggregation", ratio, BARS[name], "{:.2f}".format)
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
