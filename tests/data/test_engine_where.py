"""Conditions: the same rows in SQL and as an expression on every engine, and nothing that looks beyond its own row."""

import pyarrow as pa
import pytest

from engines import ROW, UNIT, sums
from osgt import Dataset
from osgt.query.measures import Rows, Units

TABLE = pa.table(
    {
        UNIT: ["a", "a", "b", "b", "c", None],
        ROW: range(6),
        "town": ["x", "y", "x", "it's", None, "x"],
        "size": [1, 2, 3, None, 5, 6],
        "select": [True, False, True, True, None, True],
    }
)


def rows_left(dataset):
    return sums(dataset.group_by(max_rows_per_group=10), [Rows(), Units()])[()]


#: Conditions, and the rows and units that they leave.
CONDITIONS = {
    "size > 1": [[3], [3]],
    "town = 'y'": [[1], [1]],
    "town IS NULL OR size IN (1, 3)": [[3], [3]],
    "size BETWEEN 2 AND 5 AND NOT town = 'x'": [[1], [1]],
    "CASE WHEN size > 2 THEN 1 ELSE 0 END = 1": [[2], [2]],
    "town = 'it''s'": [[1], [1]],  # not in Spark's SQL, where it is 'it\\'s'
    "lower(town) LIKE 'x%'": [[2], [2]],
    "size >= 1": [[4], [3]],
}


def test_conditions(engine):
    dataset = engine.put(TABLE)
    for text, expected in list(CONDITIONS.items())[: 2 if engine.slow else None]:
        assert rows_left(dataset.where(text)) == expected, text


def test_conditions_follow_one_another(engine):
    dataset = engine.put(TABLE)
    twice = dataset.where("size > 1").where("size < 5")
    assert rows_left(twice) == [[2], [2]]
    assert rows_left(dataset) == [[5], [3]]


def test_quoted_names(engine):
    assert rows_left(engine.put(TABLE).where(f"{engine.quote}select{engine.quote}")) == [[3], [2]]


BEYOND = [
    "size > (SELECT avg(size) FROM osgt_rows)",
    "EXISTS (SELECT 1)",
    "NOT EXISTS (SELECT 1 FROM osgt_rows)",
    "size IN (SELECT size FROM osgt_rows)",
    "size = ANY (SELECT 1)",
    "size > avg(size)",
    "count(*) > 1",
    "size > max(size) OVER ()",
    "row_number() OVER (ORDER BY size) = 1",
    "rank() OVER (PARTITION BY town ORDER BY size) < 3",
    "WITH t AS (SELECT 1) SELECT * FROM t",
    "SELECT 1",
    "TRUE; DROP TABLE people",
    "TRUE; TRUE",
    "DROP TABLE people",
    "size > 1 UNION SELECT 1",
    "size > 1 GROUP BY town",
    "size > 1 ORDER BY size",
    "size > 1 LIMIT 1",
    "size > 1) OR (1 = 1",
    "",
    ";",
    "--",
    "no_such_column > 1",
    "no_such_function(size) > 1",
    "size >",
    "size = 'x",
    # Functions that see the whole table, run queries, or know a row's place.
    "stats(size) LIKE '%Max: 999%'",
    "query_to_xml('select 1', true, false, '')::text LIKE '%1%'",
    "nextval('s') < 100",
    "rowid < 100",
    "monotonically_increasing_id() < 100",
    "random() < 0.5",
    "current_query() LIKE '%'",
]


@pytest.mark.on_slow_engines("text", BEYOND[:14:3])  # parsed before the engine sees it
@pytest.mark.parametrize("text", BEYOND)
def test_refused_in_sql(engine, text):
    """With an error that names `where`; the rows are not read, and what was there before is unharmed."""
    dataset = small(engine)
    with pytest.raises(ValueError, match="where"):
        dataset.where(text)


_SMALL = {}


def small(engine):
    """The table, stored once for each engine."""
    if engine.name not in _SMALL:
        _SMALL[engine.name] = engine.put(TABLE)
    return _SMALL[engine.name]


def test_comments_do_not_hide_anything(engine):
    """What was checked is what is run: a comment takes nothing with it, neither a bracket nor a later condition."""
    dataset = small(engine)
    assert rows_left(dataset.where("size > 1 -- OR 1 = 1").where("size < 5")) == [[2], [2]]
    if not engine.slow:
        assert rows_left(dataset.where("size > 1 /* AND size > 2 */")) == [[3], [3]]


NO_CONDITIONS = ["size + 1", "town", 3, None, [], ["size > 1", "size < 3"], lambda table: table["size"] > 1]


@pytest.mark.parametrize("condition", NO_CONDITIONS, ids=range(len(NO_CONDITIONS)))
def test_what_is_no_condition_is_refused(engine_of, condition):
    dataset = small(engine_of("duckdb"))
    with pytest.raises((TypeError, ValueError), match="where"):
        dataset.where(condition)


def test_a_refused_condition_reads_nothing(tmp_path):
    """The file is gone: whatever looked at its rows would say so."""
    import pyarrow.parquet  # noqa: PLC0415

    path = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(TABLE, path)
    dataset = Dataset(str(path), UNIT)
    path.unlink()
    for text in BEYOND[:20]:
        with pytest.raises(ValueError, match="where"):
            dataset.where(text)
