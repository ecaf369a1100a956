"""The engines that the benchmarks of tables run on: each has the rows as a table "rows", for SQL and for releases."""

import gc
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from measure import processor_seconds

#: The table without privacy: count and sum by group.
BARE = "select grp, count(*), sum(value) from rows group by grp"

#: How many rows there are of each user in each group, and the sum of their values.
PAIRS = """
    select count(*), sum(n), sum(total)
    from (select {user}, grp, count(*) as n, sum(value) as total from rows group by {user}, grp) pairs
"""

#: The limit on the rows of a user, the bounds of a value, and about how many users there are for each row.
MAX_ROWS, BOUNDS, USERS_PER_ROW = 50, (0, 100), 1 / 20


@dataclass(frozen=True)
class Running:
    """An engine that runs: how it answers SQL, and where a data set finds the rows."""

    sql: Callable[[str], object]
    dataset: Callable[..., Any]
    user: str = "user"
    #: Processes that work for it and are not ours.
    servers: tuple[int, ...] = ()

    def bare(self) -> None:
        """The plain GROUP BY, without privacy."""
        self.sql(BARE)

    def pairs(self) -> None:
        """The plain aggregation per (user, group)."""
        self.sql(PAIRS.format(user=self.user))

    def released(self, keys: Path, *, measure_left_out: bool = False) -> None:
        """A release with a limit that is given: count and sum by group."""
        query = self.dataset().group_by("grp", max_rows=MAX_ROWS, public_keys=keys).count().sum("value", bounds=BOUNDS)
        query.release(epsilon=1, delta=1e-8, measure_left_out=measure_left_out).to_arrow()

    def released_by_size(self) -> None:
        """A release whose groups are chosen by their size."""
        query = self.dataset().group_by("grp", max_rows=MAX_ROWS).count().sum("value", bounds=BOUNDS)
        query.release(epsilon=1, delta=1e-8, measure_left_out=False).to_arrow()

    def chosen(self, keys: Path, rows: int) -> None:
        """A release that chooses its limit first, from so many rows."""
        data = self.dataset(units=round(rows * USERS_PER_ROW))
        query = data.group_by("grp", public_keys=keys).count().sum("value", bounds=BOUNDS)
        query.release(epsilon=1, delta=1e-8).to_arrow()

    def timed(self, work: Callable[[], object]) -> dict[str, float]:
        """Seconds by the clock, and of processors: ours and those of the servers."""
        processors, clock = self._processors(), time.perf_counter()
        work()
        clock = time.perf_counter() - clock
        return {"seconds": clock, "processor": self._processors() - processors}

    def _processors(self) -> float:
        gc.collect()  # connections are closed
        time.sleep(0.3)  # and the processes that served them are gone
        return processor_seconds(os.getpid(), *self.servers)


@contextmanager
def duckdb_with(path: Path, memory: str | None = None) -> Iterator[Running]:
    """DuckDB in this process; the rows stay in their file. A data set opens it as users do, or with limited memory."""
    import duckdb  # noqa: PLC0415

    from osgt import Dataset  # noqa: PLC0415

    with duckdb.connect() as connection:
        if memory is not None:
            connection.execute(f"SET memory_limit = '{memory}'")
        connection.execute(f"CREATE VIEW rows AS FROM '{path}'")
        source = {"source": path} if memory is None else {"source": connection, "table": "rows"}
        yield Running(
            lambda text: connection.sql(text).to_arrow_table(),
            lambda **options: Dataset(**source, privacy_unit="user", **options),
        )


@contextmanager
def spark_with(path: Path) -> Iterator[Running]:
    """Spark on two threads of this machine; the rows stay in their file."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from osgt import Dataset  # noqa: PLC0415

    options = {"spark.driver.memory": "8g", "spark.log.level": "OFF", "spark.ui.enabled": "false"}
    options["spark.ui.showConsoleProgress"] = "false"
    spark = SparkSession.builder.master("local[2]").config(map=options).getOrCreate()
    spark.read.parquet(str(path)).createOrReplaceTempView("rows")
    try:
        yield Running(
            lambda text: spark.sql(text).toArrow(),
            lambda **options: Dataset(spark, privacy_unit="user", table="rows", **options),
        )
    finally:
        spark.stop()


@contextmanager
def postgres_with(path: Path) -> Iterator[Callable[[str], Running]]:
    """A PostgreSQL server of our own into which the rows are copied: a function of `work_mem`."""
    import psycopg  # noqa: PLC0415
    import pyarrow.csv  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    from osgt import Dataset  # noqa: PLC0415

    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers"))
    from postgres_server import postgres_server  # noqa: PLC0415

    with postgres_server(shared_buffers="1GB", max_wal_size="8GB") as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute('CREATE TABLE rows ("user" bigint, grp bigint, value double precision)')
            with connection.cursor().copy("COPY rows FROM STDIN WITH (FORMAT csv)") as copy:
                for batch in pq.ParquetFile(path).iter_batches(200_000):
                    text = io.BytesIO()
                    pyarrow.csv.write_csv(batch, text, pyarrow.csv.WriteOptions(include_header=False))
                    copy.write(text.getvalue())
            connection.execute("VACUUM ANALYZE rows")
            (home,) = connection.execute("SHOW data_directory").fetchone()
        server = int((Path(home) / "postmaster.pid").read_text().split()[0])

        def running(work_mem: str) -> Running:
            place = f"{url}?options={quote(f'-c work_mem={work_mem}')}"

            def sql(text: str) -> object:
                with psycopg.connect(place, autocommit=True) as connection:
                    return connection.execute(text).fetchall()

            def dataset(**options: Any) -> Any:
                return Dataset(place, privacy_unit="user", table="rows", **options)

            return Running(sql, dataset, user='"user"', servers=(server,))

        yield running


def least(runs: list[dict[str, float]]) -> dict[str, float]:
    """The least of each number."""
    return {key: min(run[key] for run in runs) for key in runs[0]}


def in_turns(
    running: Running, works: dict[str, Callable[[], object]], rounds: int, warm_up: int = 0
) -> dict[str, dict[str, float]]:
    """The least times of each work; all of them run in every round, and the first rounds do not count."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in works}
    for number in range(warm_up + rounds):
        for name, work in works.items():
            found = running.timed(work)
            if number >= warm_up:
                runs[name].append(found)
    return {name: least(found) for name, found in runs.items()}
