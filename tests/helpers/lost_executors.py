"""Releases on a Spark cluster of two executors that lose some of them; run by `test_spark_executors.py`.

    python lost_executors.py FOLDER PART…

Each part prints a line of JSON. A process has one Spark application, and the last part may end it.
"""

import json
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from engines import UNIT, fetched_queries, sums
from osgt import Dataset, Ledger
from osgt.data.engines.spark import reading
from osgt.query.measures import Rows, Units
from osgt.release.measuring import NothingReleasedError

#: Tasks of a stage behind a shuffle: so many that there is time to look for its middle.
TASKS = 80

#: People in the table that changes, each with one row.
PEOPLE = 5_000


class Cluster:
    """A master and two workers in one process, and two executors in processes of their own."""

    def __init__(self, folder):
        self.folder = folder
        options = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.executor.memory": "512m",
            "spark.log.level": "OFF",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.ui.liveUpdate.period": "1ms",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.master("local-cluster[2,1,512]").config(map=options)
        self.session = builder.getOrCreate()
        self.context = self.session.sparkContext
        self.driver = self.context._gateway.proc.pid
        self.ledger = Ledger(folder / "budget.db")

    def executors(self):
        """The numbers of the processes of the executors, all of them children of the driver."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                words = (process / "cmdline").read_text().split("\0")
            except OSError:  # it has just ended
                continue
            if parent == self.driver and "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
                found.append(int(process.name))
        return sorted(found)

    @contextmanager
    def in_the_middle(self, shuffles, deed):
        """Do something once, in the middle of the stage behind that many shuffles."""
        done, over, tracker = threading.Event(), threading.Event(), self.context.statusTracker()
        self.session.conf.set("spark.sql.shuffle.partitions", TASKS)

        def look():
            seen = set()
            while not over.is_set():
                for number in tracker.getActiveStageIds():
                    stage = tracker.getStageInfo(number)
                    if stage is not None and stage.numTasks == TASKS:
                        seen.add(number)
                        if len(seen) == shuffles and stage.numCompletedTasks >= 2:
                            deed()
                            done.set()
                            return
                time.sleep(0.002)

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield done
        finally:
            over.set()
            watcher.join()

    def kill(self, executors):
        def deed():
            for process in self.executors()[:executors]:
                os.kill(process, signal.SIGKILL)

        return deed

    def changing(self):
        """A query on a table in which everyone has one row, and another town whenever it is computed."""
        town = "cast(java_method('java.lang.System', 'nanoTime') as bigint) % 64"
        frame = self.session.sql(f"SELECT id AS {UNIT}, {town} AS town FROM range(0, {PEOPLE}, 1, 4)")
        data = Dataset(frame, UNIT, ledger=self.ledger, dataset="changing")
        return data.group_by("town", max_groups=1, max_rows_per_group=1).count().count_units()

    def people(self):
        """A query on the table of the test, where many are in more towns and have more rows there than count."""
        frame = self.session.read.parquet(str(self.folder / "people.parquet"))
        data = Dataset(frame, UNIT, ledger=self.ledger, dataset="people")
        return data.group_by("town", max_groups=3, max_rows_per_group=2).count().count_units()

    def released(self, query, shuffles, deed):
        """What came of a release, and what the ledger holds of it."""
        name, runs = query.dataset.dataset, []
        charges = len(self.ledger.history(name))
        found = {"released": True}
        computed_again = reading._computed_again

        def noted(*arguments):
            runs.append(computed_again(*arguments))
            return runs[-1]

        reading._computed_again = noted
        with fetched_queries() as tables, self.in_the_middle(shuffles, deed) as done:
            try:
                release = query.release(epsilon=0.1, delta=1e-8, measure_left_out=False)
            except NothingReleasedError as error:
                found |= {"released": False, "error": str(error), "cause": type(error.__cause__).__name__}
        reading._computed_again = computed_again
        if found["released"]:
            release.to_csv(self.folder / f"{name}.csv", overwrite=True)
            table = tables[-1]
            found["kept"] = [sum(table[each].to_pylist()) for each in table.column_names if each.startswith("sum_")]
        entries = self.ledger.history(name)
        found |= {"disturbed": done.is_set(), "computed_again": runs, "charges": len(entries) - charges}
        return found | {"status": entries[-1].status, "verified": self.ledger.verify().ok}


def same_sums(cluster):
    """Exact sums beside those of DuckDB, where nothing is left to chance."""
    path, answers = cluster.folder / "people.parquet", []
    for source in (path, cluster.session.read.parquet(str(path))):
        query = Dataset(source, UNIT).group_by("town", max_groups=100, max_rows_per_group=2)
        answers.append(sums(query, [Rows(), Units()]))
    return {"same": answers[0] == answers[1], "groups": len(answers[0])}


def lost_while_summing(cluster):
    """One executor is lost while groups are summed, of a table that changes when it is computed again."""
    return cluster.released(cluster.changing(), 1, cluster.kill(1))


def unguarded(cluster):
    """The same where nobody looks whether something was computed again."""
    reading._computed_again, original = lambda *_: False, reading._computed_again
    try:
        return cluster.released(cluster.changing(), 1, cluster.kill(1))
    finally:
        reading._computed_again = original


def lost_while_bounding(cluster):
    """One executor is lost while units are bounded."""
    return cluster.released(cluster.people(), 1, cluster.kill(1))


def all_lost(cluster):
    """All executors are lost at once; the master starts others."""
    return cluster.released(cluster.people(), 2, cluster.kill(2))


def stopped(cluster):
    """The application is stopped."""
    return cluster.released(cluster.people(), 1, cluster.context._jsc.sc().stop)


def killed(cluster):
    """The process of the application is killed."""
    return cluster.released(cluster.people(), 1, lambda: os.kill(cluster.driver, signal.SIGKILL))


PARTS = [same_sums, lost_while_summing, unguarded, lost_while_bounding, all_lost, stopped, killed]


def main(folder, *names):
    cluster = Cluster(folder)
    cluster.ledger.open("people", epsilon=3, delta=1e-6)
    cluster.ledger.open("changing", epsilon=3, delta=1e-6)
    parts = {part.__name__: part for part in PARTS}
    for name in names:
        print(json.dumps(parts[name](cluster)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
