"""What a caller hands over is left as it was: settings, time zone, views. Conditions and keys use its time zone."""

import datetime as dt
import gc

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engines import numbers_by_key, sums
from osgt import Dataset
from osgt.data.engines.query import compile_query, fetch
from osgt.limits.contribution import COUNTED_ROWS
from osgt.query.measures import Rows, Units
from osgt.release.measuring import exact_sums

INSTANTS = [dt.datetime(2024, 1, 1, 23, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)]


def state(session):
    """All settings of the session, its views and where it looks for tables."""
    catalog = session.catalog
    views = sorted(tuple(row) for row in session.sql("SHOW TABLES").collect())
    return session.conf.getAll, views, catalog.currentCatalog(), catalog.currentDatabase()


@pytest.fixture
def berlin(spark):
    """A session in another time zone, with a setting that Ibis would change."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    session.conf.set("spark.sql.mapKeyDedupPolicy", "EXCEPTION")
    return session


def test_a_spark_session_is_left_as_it_was(berlin):
    frame = berlin.createDataFrame(pa.table({"person": ["a", "b"], "moment": pa.array(INSTANTS), "value": [1, 2]}))
    frame.createOrReplaceTempView("theirs")
    before = state(berlin)
    for source, options in ((frame, {}), (berlin, {"table": "theirs"})):
        data = Dataset(source, "person", **options)
        assert berlin.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
        # 23 o'clock in UTC is midnight in Berlin.
        night = data.where("hour(moment) = 0")
        query = night.group_by("moment", max_groups=1, max_rows_per_group=1, public_keys=INSTANTS)
        assert sums(query, [Units(), Rows()]) == {(0,): [[1], [1]]}
        released = night.group_by("moment", max_groups=1, max_rows_per_group=1, public_keys=INSTANTS).count()
        assert released.release(1, 1e-6).to_arrow()["moment"].to_pylist() == INSTANTS
        del data, night, query, released
    gc.collect()
    assert state(berlin) == before


def test_a_spark_frame_that_is_kept_in_memory_stays_there(spark):
    frame = spark.sql("SELECT id AS person FROM range(3)").cache()
    data = Dataset(frame, "person")
    assert sums(data.group_by(max_rows_per_group=1), [Units()]) == {(): [[3]]}
    del data
    gc.collect()
    assert frame.storageLevel.useMemory
    frame.unpersist()


#: The second hour is skipped in New York on that day: there the first two of these times would be one.
WITHOUT_ZONE = [dt.datetime(2024, 3, 10, 2, 30), dt.datetime(2024, 3, 10, 3, 30), dt.datetime(2024, 3, 10, 4)]


def test_times_without_a_zone_are_not_brought_into_that_of_a_spark_session(spark):
    """Two groups of a unit, or two units, would become one."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    moments = ", ".join(f"TIMESTAMP_NTZ '{moment}'" for moment in WITHOUT_ZONE)
    frame = session.sql(f"SELECT 'a' AS person, explode(array({moments})) AS moment")
    query = Dataset(frame, "person").group_by("moment", max_groups=2, max_rows_per_group=1).count_units().count()
    measures = [Units(), query.groups.canonical(Rows())]
    for salt in range(3):  # each chooses other groups
        found = fetch(compile_query(exact_sums(query, measures, salt)))
        found = found.filter(pc.greater(found[COUNTED_ROWS], 0))
        by_key = numbers_by_key(query, measures, found)
        assert len(by_key) == 2
        assert all((moment in WITHOUT_ZONE, *numbers) == (True, [1], [1]) for (moment,), numbers in by_key.items())
    both = Dataset(frame, ("person", "moment")).group_by(max_rows_per_group=1)
    assert sums(both, [Units()]) == {(): [[3]]}


#: A clock in New York shows the same time at the first two of these instants.
SHOWN_TWICE = [dt.datetime(2024, 11, 3, hour, 30, tzinfo=dt.UTC) for hour in (5, 6, 7)]


@pytest.mark.parametrize("plain", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_public_times_whatever_a_spark_session_takes_for_a_timestamp(spark, plain):
    """The row of one key would also be that of another one."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.timestampType", plain)
    clocks = ", ".join(f"TIMESTAMP_NTZ '{moment}'" for moment in WITHOUT_ZONE)
    instants = ", ".join(f"TIMESTAMP_LTZ '{moment}'" for moment in SHOWN_TWICE)
    pairs = f"explode(arrays_zip(array({clocks}), array({instants}))) AS pair"
    frame = session.sql(f"SELECT pair.`0` AS clock, pair.`1` AS instant FROM (SELECT {pairs})")
    data = Dataset(frame, "row").derive(same_clock="clock", same_instant="instant")
    for name, keys in {"clock": WITHOUT_ZONE, "instant": SHOWN_TWICE}.items():
        for column in (name, f"same_{name}"):
            for some in (keys, keys[1:]):
                query = data.group_by(column, public_keys=some)
                assert sums(query, [Rows()]) == {(i,): [[1]] for i in range(len(some))}, column


def test_files_are_read_in_a_spark_session_of_their_own(spark, engine_of, tmp_path):
    engine_of("spark")
    pa.csv.write_csv(pa.table({"person": ["a"], "value": [1]}), tmp_path / "x.csv")
    pa.parquet.write_table(pa.table({"person": ["a"], "value": [1]}), tmp_path / "x.parquet")
    before = state(spark)
    for name in ("x.csv", "x.parquet"):
        data = Dataset(tmp_path / name, "person", engine="spark")
        assert sums(data.group_by(max_rows_per_group=1), [Units()]) == {(): [[1]]}
        assert state(spark) == before


def test_a_duckdb_connection_is_left_as_it_was():
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'Europe/Berlin'")
    connection.register("incoming", pa.table({"person": ["a", "b"], "moment": pa.array(INSTANTS)}))
    connection.execute("CREATE TABLE people AS FROM incoming")

    def settings():
        return connection.sql("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()

    before = settings()
    data = Dataset(connection, "person", table="people")
    query = data.where("hour(moment) = 0").group_by("moment", max_groups=1, public_keys=INSTANTS)
    assert sums(query, [Units()]) == {(0,): [[1]]}
    assert settings() == before


def test_nothing_of_public_keys_is_left_in_a_callers_connection():
    """Nor of those of a release before: what was in memory goes with the next query."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits AS SELECT range AS person, range % 3 AS town FROM range(30)")
    for keys in ([0, 1, 2], [0, 1]):
        query = Dataset(connection, "person", table="visits").group_by("town", max_groups=1, public_keys=keys)
        assert query.count_units().release(epsilon=1, delta=0).to_arrow().num_rows == len(keys)
        del query
        gc.collect()
    assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("visits",)]
    views = "SELECT count(*) FROM duckdb_views() WHERE view_name LIKE 'osgt%'"
    assert connection.execute(views).fetchall()[0][0] <= 1
