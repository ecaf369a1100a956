"""Spark with several executors: the sums of any engine, and right answers or clear errors where executors are lost.

What a lost executor held is computed again, perhaps from other rows (`osgt.data.engines.spark.reading`).
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from py4j.protocol import Py4JError
from pyspark import InheritableThread

from engines import ROW, UNIT
from lost_executors import PEOPLE
from osgt import Dataset
from osgt.data.engines.spark.reading import RUNS, _known_jobs, _knows_all, in_one_piece

MAX_GROUPS = 3


@pytest.fixture
def towns(tmp_path):
    """How many towns everybody is in; the rows are in a file."""
    rng = random.Random(5)
    towns = {person: rng.sample(range(40), rng.choice([1, 2, 3, 5, 9])) for person in range(1500)}
    rows = [(person, f"t{town}") for person in towns for town in towns[person] for _ in range(rng.choice([1, 2, 4]))]
    rng.shuffle(rows)
    people, names = zip(*rows, strict=True)
    table = pa.table({UNIT: people, "town": names, ROW: range(len(rows))})
    pa.parquet.write_table(table, tmp_path / "people.parquet", row_group_size=3000)
    return [len(found) for found in towns.values()]


def on_a_cluster(folder, *parts):
    """What the parts of `lost_executors` say, in a process of their own: it has one Spark application."""
    script = Path(__file__).parents[1] / "helpers" / "lost_executors.py"
    environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, script, folder, *parts]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_released(found):
    """It was disturbed, the answer is of one piece, and the charge is settled."""
    assert found["disturbed"]
    assert not found["computed_again"][-1]
    assert (found["released"], found["charges"], found["status"], found["verified"]) == (True, 1, "settled", True)


def check_refused(found):
    """Nothing was released, the message says so, and the charge stands."""
    assert found["disturbed"]
    assert found["error"].startswith("Nothing was released: reading the data failed after the budget was charged")
    assert (found["released"], found["charges"], found["status"], found["verified"]) == (False, 1, "reserved", True)


def test_sums_are_those_of_duckdb(towns, tmp_path):
    assert on_a_cluster(tmp_path, "same_sums") == [{"same": True, "groups": 40}]


@pytest.mark.long
def test_executors_are_lost_and_the_application_is_stopped(towns, tmp_path):
    summing, bounding, everything, stopped = on_a_cluster(
        tmp_path, "lost_while_summing", "lost_while_bounding", "all_lost", "stopped"
    )
    for found in (bounding, everything):
        check_released(found)
    assert everything["computed_again"][0]  # the one executor that is lost may have held nothing that was needed
    if summing["released"]:
        check_released(summing)
        # Everybody counts once, wherever they were when their row was computed again.
        assert summing["kept"] == [PEOPLE]
    else:
        check_refused(summing)  # from 4.1 on Spark itself may see that a stage gives other rows the second time
    for found in (bounding, everything):
        assert sum(min(number, MAX_GROUPS) for number in towns) in found["kept"]
    check_refused(stopped)


@pytest.mark.long
def test_nobody_looks_and_the_application_is_killed(towns, tmp_path):
    """The power check: answers of two pieces count some people twice, or not at all."""
    *unguarded, killed = on_a_cluster(tmp_path, *["unguarded"] * 3, "killed")
    assert all(found["disturbed"] for found in unguarded)
    check_refused(killed)
    if not any(found["released"] for found in unguarded):
        pytest.skip("this Spark sees by itself that a stage gives other rows the second time")
    assert any(found["kept"] != [PEOPLE] for found in unguarded if found["released"])


def test_what_is_computed_again_is_noticed(spark):
    """What a shuffle has left is forgotten between two jobs, as when its executor is lost there."""
    try:
        tracker = spark.sparkContext._jsc.sc().env().mapOutputTracker()
    except Py4JError:
        pytest.skip("this Spark does not show what its shuffles have left")
    runs = []

    def work(*, lost):
        rows = spark.sparkContext.parallelize(range(9), 2).map(lambda n: (n % 3, n)).groupByKey()
        before = set(_shuffles(tracker))
        first = rows.count()
        if lost:
            (shuffle,) = set(_shuffles(tracker)) - before
            tracker.unregisterAllMapAndMergeOutput(shuffle)
        runs.append(rows.count() == first)
        return runs

    assert in_one_piece(spark, lambda: work(lost=False)) == [True]
    runs.clear()
    assert in_one_piece(spark, lambda: work(lost=not runs)) == [True, True]
    runs.clear()
    with pytest.raises(RuntimeError, match=f"in none of {RUNS} runs of the query was it sure"):
        in_one_piece(spark, lambda: work(lost=True))
    assert len(runs) == RUNS
    assert not spark.sparkContext.getJobTags()


def test_what_nobody_knows_may_have_been_computed_again(spark):
    """Jobs that Spark has forgotten, or that the tag has not reached, say nothing; nor do stages."""
    context, runs = spark.sparkContext, []

    def untagged():
        tags = context.getJobTags()
        context.clearJobTags()
        runs.append(context.parallelize(range(9), 2).count())
        for tag in tags:
            context.addJobTag(tag)

    with pytest.raises(RuntimeError, match=f"in none of {RUNS} runs"):
        in_one_piece(spark, untagged)
    assert len(runs) == RUNS

    def forgotten(*, stage):
        before = max(_known_jobs(context._jsc.sc()), default=-1)
        rows = context.parallelize(range(9), 2).map(lambda n: (n % 3, n)).groupByKey()
        runs.append((rows.count(), rows.count()))
        if stage is not None:
            _forget(context, _stages(context, before)[stage])
        return runs

    for stage in range(4):  # the third one is skipped
        runs.clear()
        found = in_one_piece(spark, lambda stage=stage: forgotten(stage=None if runs else stage))
        assert found == [(3, 3), (3, 3)]


def test_jobs_that_run_at_once_may_share_what_they_compute(spark, tmp_path):
    """As the two sides of a join do, where the same frame is on both."""
    runs, both_run = [], tmp_path / "both run"
    tracker = spark.sparkContext.statusTracker()

    def waiting(number):
        while not both_run.exists():
            time.sleep(0.01)
        return number % 2, number

    def work():
        before = max(_known_jobs(spark.sparkContext._jsc.sc()), default=-1)
        rows = spark.sparkContext.parallelize(range(4), 2).map(waiting).groupByKey()
        threads = [InheritableThread(target=each.count) for each in (rows.keys(), rows.values())]
        for thread in threads:
            thread.start()
        while len(tracker.getActiveJobsIds()) < len(threads):
            time.sleep(0.01)
        both_run.touch()
        for thread in threads:
            thread.join()
        runs.append(_stages(spark.sparkContext, before))
        return runs

    [stages] = in_one_piece(spark, work)
    assert len(set(stages)) < len(stages)


@pytest.mark.parametrize(
    ("known", "before", "all_known"),
    [
        *[(set(), -1, True), ({0, 1}, -1, True), ({4, 5, 6}, 4, True), ({4}, 4, True), ({5, 6}, 4, True)],
        *[({1}, -1, False), ({4, 6}, 4, False), ({3, 4, 6, 7}, 4, False)],
    ],
)
def test_jobs_that_are_forgotten_are_noticed(known, before, all_known):
    """Jobs have numbers in a row. Spark forgets those that ended first, and says nothing about them."""
    assert _knows_all(known, before) == all_known


def _stages(context, before):
    """The numbers of the stages of all jobs after that one, job by job."""
    tracker = context.statusTracker()
    later = sorted(job for job in _known_jobs(context._jsc.sc()) if job > before)
    return [stage for job in later for stage in sorted(tracker.getJobInfo(job).stageIds)]


def _forget(context, stage):
    """Let Spark forget the first attempt at a stage, as when there are too many."""
    key = context._gateway.new_array(context._jvm.int, 2)
    key[0], key[1] = stage, 0
    kind = context._jvm.java.lang.Class.forName("org.apache.spark.status.StageDataWrapper")
    context._jsc.sc().statusStore().store().delete(kind, key)


def _shuffles(tracker):
    """The numbers of the shuffles that Spark knows."""
    return [int(number) for number in tracker.shuffleStatuses().keys().mkString(",").split(",") if number]


#: A session that is given to us, and a release from a table that has been opened before.
SILENT = """
import json, sys
from pyspark.sql import SparkSession
from osgt import Dataset, Ledger
from osgt.data.engines import engine_named

folder, options = sys.argv[1], json.loads(sys.argv[2])
session = SparkSession.builder.master("local[1]").config(map=options).getOrCreate()
session.createDataFrame([(1, "a")], "person int, town string").createTempView("people")
with Ledger(f"{folder}/budget.db") as ledger:
    ledger.open("people", epsilon=5, delta=1e-5)
    table = engine_named("spark").named(session, "people")
    data = Dataset(table, "person", ledger=ledger, dataset="people")
    for attempt in (
        lambda: Dataset(session, "person", table="people"),
        lambda: data.group_by("town", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6),
    ):
        try:
            attempt()
        except ValueError as error:
            print(error)
    print(len(ledger.overview("people").releases))
"""


@pytest.mark.parametrize(
    ("environment", "options", "words"),
    [
        ({"PYSPARK_PIN_THREAD": "false"}, {}, "with PYSPARK_PIN_THREAD=false Spark does not tell"),
        ({}, {"spark.ui.retainedStages": "99"}, "spark.ui.retainedStages must be at least 100"),
    ],
)
def test_what_tells_nothing_is_refused_before_the_charge(tmp_path, environment, options, words):
    quiet = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    done = subprocess.run(
        [sys.executable, "-c", SILENT, tmp_path, json.dumps(quiet | options)],
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")} | environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *told, charged = done.stdout.splitlines()
    assert len(told) == 2
    assert all(words in text for text in told)
    assert charged == "0"


def test_sessions_that_tell_nothing_are_refused():
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(TypeError, match="a server of Spark Connect does not tell"):
        Dataset(session, "person", table="people")
