"""Rows that PostgreSQL reads once, whatever its planner does: a view may give others every time."""

from engines import new_name
from osgt import Dataset
from osgt.data.engines.query import compile_query, fetch
from osgt.query.measures import Rows
from osgt.release.measuring import exact_sums

ROWS, KEYS = 30, 59


def test_a_row_that_is_a_unit_is_in_one_group(engine_of):
    """Keys with a null are looked for in a loop, which reads the view for each of them where nothing is kept."""
    engine, name = engine_of("postgres"), new_name()
    engine.execute(
        f"CREATE VIEW {name} AS SELECT CAST(floor(random() * {KEYS}) AS int) AS key FROM generate_series(1, {ROWS})"
    )
    table = engine.table(name)
    query = Dataset(table, "row").group_by("key", public_keys=[*range(KEYS), None])
    connection = table.connection
    connection.execute("SET enable_material = off")
    try:
        ready = compile_query(exact_sums(query, [Rows()], 1))
        counted = [sum(fetch(ready)["sum_0_0"].to_pylist()) for _ in range(8)]
    finally:
        connection.execute("RESET enable_material")
    assert counted == [ROWS] * 8
