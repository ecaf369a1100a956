"""PostgreSQL leaves groups alone that come after the last one that is kept, where a condition lets it."""

import pytest
import sqlglot

import made_tables
from osgt.data.engines.postgres import with_limits
from osgt.data.reading import compile_query
from osgt.query.measures import Rows
from osgt.release.exact_sums import exact_sums

RANKED = 'SELECT "a" FROM (SELECT "a", DENSE_RANK() OVER (ORDER BY "a") - 1 AS "rank" FROM "t") AS "s" WHERE {}'


@pytest.mark.parametrize(
    ("condition", "limited"),
    [
        ('"s"."rank" < 10', '"s"."rank from 1" <= 10'),
        ('"s"."rank" < 10 AND "s"."a" < 5', '"s"."rank from 1" <= 10 AND "s"."a" < 5'),
        ('"s"."rank" < "s"."a"', '"s"."rank" < "s"."a"'),
        ('"s"."rank" > 10', '"s"."rank" > 10'),
        ('"s"."rank" < 2.5', '"s"."rank" < 2.5'),
    ],
)
def test_conditions_on_ranks_are_about_ranks_from_1_on(condition, limited):
    query = with_limits(sqlglot.parse_one(RANKED.format(condition), dialect="postgres")).sql(dialect="postgres")
    assert query.endswith(f"WHERE {limited}")
    assert query.count('DENSE_RANK() OVER (ORDER BY "a") AS "rank from 1"') == 1


@pytest.mark.parametrize(
    "derived",
    ['AVG("a") OVER () - "a"', 'SUM("a") OVER () - 1', 'DENSE_RANK() OVER (ORDER BY "a") - 2', "1 - RANK() OVER ()"],
)
def test_other_differences_are_left_alone(derived):
    """As in a table that a caller has derived with Ibis."""
    query = f'SELECT * FROM (SELECT {derived} AS "rank" FROM "t") AS "s" WHERE "s"."rank" < 10'
    assert with_limits(sqlglot.parse_one(query, dialect="postgres")).sql(dialect="postgres") == query


def test_the_planner_knows_when_to_stop(engine_of):
    engine = engine_of("postgres")
    rows = made_tables.made_rows(made_tables.same_every_time(3))
    query = engine.put(made_tables.table_of(rows)).group_by("town", max_groups=2, max_rows_per_group=1)
    ready = compile_query(exact_sums(query, [Rows()], 1))
    plan = "\n".join(line for (line,) in engine.raw(query.dataset, f"EXPLAIN {ready.sql}"))
    assert "Run Condition: (dense_rank() OVER (?) <= 2)" in plan
