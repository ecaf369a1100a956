"""What a caller hands over is left as it was: settings, time zone, views. Conditions and keys use its time zone."""

import datetime as dt
import gc

import duckdb
import pyarrow as pa
import pytest
from engines import sums

from osgt import Dataset
from osgt.tables.measures import Rows, Units

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
        assert sums(query, [Units(), Rows()], order=None) == {(0,): [[1], [1]]}
        released = night.group_by("moment", max_groups=1, max_rows_per_group=1, public_keys=INSTANTS).count()
        assert released.release(1, 1e-6).to_arrow()["moment"].to_pylist() == INSTANTS
        del data, night, query, released
    gc.collect()
    assert state(berlin) == before


def test_files_are_read_in_a_session_of_their_own(spark, engine_of, tmp_path):
    engine_of("spark")
    pa.csv.write_csv(pa.table({"person": ["a"], "value": [1]}), tmp_path / "x.csv")
    pa.parquet.write_table(pa.table({"person": ["a"], "value": [1]}), tmp_path / "x.parquet")
    before = state(spark)
    for name in ("x.csv", "x.parquet"):
        data = Dataset(tmp_path / name, "person", engine="spark")
        assert sums(data.group_by(max_rows_per_group=1), [Units()], order=None) == {(): [[1]]}
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
    assert sums(query, [Units()], order=None) == {(0,): [[1]]}
    assert settings() == before
