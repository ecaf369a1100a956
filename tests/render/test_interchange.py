"""A release in other libraries: they read it through Arrow's PyCapsule interface."""

import sys

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from osgt import Dataset


@pytest.fixture(scope="module")
def release():
    rows = pa.table({"user": range(900), "town": ["Bern", "Rome", None] * 300})
    query = Dataset(rows, "user").group_by("town", max_groups=1, max_rows_per_group=1)
    return query.count().release(1, 1e-6)


def test_polars(release):
    for frame in (release.to_polars(), pl.DataFrame(release)):
        assert frame.to_dict(as_series=False) == release.to_arrow().to_pydict()
        assert frame.schema["count"] == pl.Int64


def test_pyarrow(release):
    assert pa.table(release) == release.to_arrow()
    assert pa.schema(release) == release.to_arrow().schema
    asked = pa.schema([("town", pa.large_string()), *list(release.table.schema)[1:]])
    assert pa.RecordBatchReader.from_stream(release, schema=asked).schema == asked


def test_duckdb(release):
    found = duckdb.sql("SELECT town, count FROM release").fetchall()
    assert dict(found) == dict(zip(*release.to_arrow().select(["town", "count"]).to_pydict().values(), strict=True))


def test_without_polars(release, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        release.to_polars()
