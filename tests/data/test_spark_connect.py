"""Spark Connect: Parquet files on a server, which must be the same before and after a query; all else is refused."""

import os
import time
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connect_server import connect_server
from engines import sums
from osgt import Dataset, Ledger
from osgt.data.engines.query import compile_query, fetch
from osgt.data.engines.spark import connect
from osgt.query.measures import Rows, Units
from osgt.release.measuring import NothingReleasedError, exact_sums

#: Rows, and people in the order in which they come.
ROWS, PEOPLE = 2_000, 90


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory):
    # Such a server would pass over what it cannot read, where a reader does not say otherwise.
    lenient = {"spark.sql.files.ignoreCorruptFiles": "true", "spark.sql.files.ignoreMissingFiles": "true"}
    with connect_server(tmp_path_factory.mktemp("server"), **lenient) as address:
        yield address


@pytest.fixture(autouse=True)
def environment_of_spark(monkeypatch):
    """Put back what PySpark writes into the environment: other tests use sessions of this process."""
    before = {name: value for name, value in os.environ.items() if name.startswith("SPARK_")}
    yield
    for name in [name for name in os.environ if name.startswith("SPARK_") and name not in before]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture
def session(spark_server):
    """A session of somebody else on the server."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    session = SparkSession.builder.remote(spark_server).create()
    yield session
    session.stop()


def write(path, rows=ROWS, town="abcde"):
    """People with 1 to 40 rows, in a file that was last changed a minute ago."""
    who = [i * i % PEOPLE for i in range(rows)]
    columns = {"person": who, "town": [town[i % 7 % len(town)] for i in range(rows)], "cost": [i % 50 for i in who]}
    pq.write_table(pa.table(columns), path)
    long_ago = time.time() - 60
    os.utime(path, (long_ago, long_ago))
    return path


def data_of(path, server, **options):
    return Dataset(str(path), "person", engine="spark", master=server, **options)


def by_town(data, **limits):
    return data.where("cost > 3").group_by("town", **(limits or {"max_groups": 3, "max_rows_per_group": 4}))


def test_sums_are_those_of_the_same_file_here(tmp_path, spark_server):
    path = write(tmp_path / "people.parquet")
    for limits in ({"max_groups": 100, "max_rows_per_group": 4}, {"max_rows": 12, "public_keys": ["a", "b", "x"]}):
        measures = [Rows(), Units()] if "max_groups" in limits else [Rows()]
        sources = Dataset(path, "person"), data_of(path, spark_server)
        here, there = (sums(by_town(data, **limits), measures) for data in sources)
        assert there == here
        assert here


def test_a_release_is_charged_once(tmp_path, spark_server):
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("people", epsilon=3, delta=1e-6)
        data = data_of(write(tmp_path / "people.parquet"), spark_server, ledger=ledger, dataset="people")
        release = by_town(data).count().release(epsilon=1, delta=1e-8)
        assert release.to_arrow().column_names[:2] == ["town", "count"]
        assert len(ledger.history("people")) == 1


def changed_meanwhile(query, path, runs):
    """The answer to a query whose file is written anew during its first runs, and how often it ran."""
    compiled, ran = compile_query(exact_sums(query, [Rows()], 1)), []

    def work():
        ran.append(1)
        answer = compiled.table.connection.sql(compiled.sql).toArrow()
        if len(ran) <= runs:
            before = path.stat().st_mtime
            write(path, ROWS + len(ran))
            os.utime(path, (before + 1, before + 1))
        return answer

    return ran, lambda: connect.with_same_files(compiled.table.connection, work)


def test_a_query_whose_file_changes_runs_again(tmp_path, spark_server):
    path = write(tmp_path / "people.parquet")
    query = by_town(data_of(path, spark_server))
    ran, run = changed_meanwhile(query, path, 2)
    answer = run()
    assert len(ran) == 3
    assert answer.num_rows == 5
    ran, run = changed_meanwhile(query, path, 0)
    run()
    assert len(ran) == 1
    ran, run = changed_meanwhile(query, path, 3)
    with pytest.raises(RuntimeError, match="in each of 3 runs of the query its files changed"):
        run()
    assert len(ran) == 3


def test_a_file_that_goes_on_changing_is_not_released(tmp_path, spark_server, monkeypatch):
    path = write(tmp_path / "people.parquet")
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("people", epsilon=3, delta=1e-6)
        data = data_of(path, spark_server, ledger=ledger, dataset="people")
        settled = connect.settled_files

        def settled_and_then_changed(session):
            files = settled(session)
            before = path.stat().st_mtime
            write(path, ROWS + 1)
            os.utime(path, (before + 1, before + 1))
            return files

        monkeypatch.setattr(connect, "settled_files", settled_and_then_changed)
        with pytest.raises(NothingReleasedError):
            by_town(data).count().release(epsilon=1, delta=1e-8)
        assert len(ledger.history("people")) == 1  # the charge stands


def test_a_file_of_the_future_is_refused_before_the_charge(tmp_path, spark_server):
    path = write(tmp_path / "people.parquet")
    tomorrow = time.time() + 86_400
    os.utime(path, (tomorrow, tomorrow))
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("people", epsilon=3, delta=1e-6)
        query = by_town(data_of(path, spark_server, ledger=ledger, dataset="people")).count()
        with pytest.raises(ValueError, match="a file was changed within the last 10 seconds, or its time"):
            query.release(epsilon=1, delta=1e-8)
        assert not ledger.overview("people").releases


def test_a_file_that_has_just_changed_is_waited_for(tmp_path, spark_server, monkeypatch):
    path = write(tmp_path / "people.parquet")
    data = data_of(path, spark_server)
    waits = []

    def slept(seconds):
        waits.append(seconds)
        long_ago = time.time() - 60
        os.utime(path, (long_ago, long_ago))

    # Not of the whole process: threads of the connection sleep, too.
    monkeypatch.setattr(connect, "time", SimpleNamespace(sleep=slept, time=time.time, monotonic=time.monotonic))
    connect.settled_files(data.table.connection)
    assert not waits
    os.utime(path)
    connect.settled_files(data.table.connection)
    assert len(waits) == 1
    assert 0 < waits[0] <= 10


def test_rows_that_others_keep_in_memory_are_not_taken(tmp_path, spark_server, session):
    path = write(tmp_path / "people.parquet")
    kept = session.read.parquet(str(path)).persist()
    assert kept.count() == ROWS
    write(path, ROWS // 2)
    assert session.read.parquet(str(path)).count() == ROWS  # the server's memory is older than the file
    sources = data_of(path, spark_server), Dataset(path, "person")
    answers = [sums(by_town(data, max_groups=100, max_rows_per_group=4), [Rows()]) for data in sources]
    kept.unpersist()
    assert answers[0] == answers[1]


def test_damaged_and_missing_files_are_not_passed_over(tmp_path, spark_server, session):
    for name in "ab":
        write(tmp_path / f"{name}.parquet")
    paths = str(tmp_path / "*.parquet")
    data, others = data_of(paths, spark_server), session.read.parquet(paths)
    whole = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    assert others.count() == ROWS  # of another reader the server drops the damaged one
    with pytest.raises(Exception, match=r"b\.parquet"):
        fetch(compile_query(exact_sums(by_town(data), [Rows()], 1)))


def test_other_sources_of_a_server_are_refused(tmp_path, spark_server, session):
    path = write(tmp_path / "people.parquet")
    frame = session.read.parquet(str(path))
    frame.createOrReplaceTempView("people")
    for attempt in (
        lambda: Dataset(frame, "person"),
        lambda: Dataset(session, "person", table="people"),
        lambda: Dataset("people", "person", engine="spark", master=spark_server),
        lambda: Dataset(str(tmp_path / "people.csv"), "person", engine="spark", master=spark_server),
    ):
        with pytest.raises((TypeError, ValueError), match="a server of Spark Connect does not tell whether rows"):
            attempt()
    with pytest.raises(FileNotFoundError, match="Spark Connect finds no file"):
        data_of(tmp_path / "nobody.parquet", spark_server)


def test_a_server_that_does_not_answer_is_named_without_its_token(tmp_path):
    with pytest.raises(
        OSError, match=r"master: there is no answer from Spark Connect at 'sc://127\.0\.0\.1:1"
    ) as caught:
        data_of(write(tmp_path / "people.parquet"), "sc://127.0.0.1:1/;token=secret")
    assert "secret" not in str(caught.value)


def test_a_server_that_the_environment_names_reads_files(tmp_path, spark_server, monkeypatch):
    path = write(tmp_path / "people.parquet")
    monkeypatch.setenv("SPARK_REMOTE", spark_server)
    data = Dataset(path, "person", engine="spark")
    assert connect.is_connected(data.table.connection)
    with pytest.raises(ValueError, match="SPARK_REMOTE in the environment makes PySpark use Spark Connect"):
        Dataset(path, "person", engine="spark", master="local[1]")
    monkeypatch.setenv("SPARK_REMOTE", "local")
    with pytest.raises(ValueError, match="SPARK_REMOTE in the environment makes PySpark use Spark Connect"):
        Dataset(path, "person", engine="spark")
