"""SQL in named steps: brackets where they are needed, names that shadow nothing, comments, and nothing of the data."""

import itertools
import re

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import UNIT, sums
from osgt import Dataset, Publication
from osgt.data.engines import engine_named
from osgt.data.sql import Value
from osgt.query.measures import Rows

DUCKDB = engine_named("duckdb")

#: Operators as Python has them, and as a value in SQL has them. Truth values and numbers are told apart by the makers.
NUMBERS = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "number -": (lambda a, b: 7 - a, lambda a, b: 7 - a),
    "least": (min, lambda a, b: a.at_most(b)),
    "greatest": (max, lambda a, b: a.at_least(b)),
}
TESTS = {
    "<": (lambda a, b: a < b, lambda a, b: a < b),
    "<=": (lambda a, b: a <= b, lambda a, b: a <= b),
    "=": (lambda a, b: a == b, lambda a, b: a.equals(b)),
    "between": (lambda a, b: b <= a <= b + 3, lambda a, b: a.between(b, b + 3)),
}
LOGIC = {
    "and": (lambda a, b: a and b, lambda a, b: a & b),
    "or": (lambda a, b: a or b, lambda a, b: a | b),
    "and not": (lambda a, b: a and not b, lambda a, b: a & ~b),
}


def _numbers():
    leaves = st.one_of(
        st.integers(-9, 9).map(lambda n: (n, DUCKDB.whole(n))),
        st.integers(0, 9).map(lambda n: (n, Value(str(n), DUCKDB.int64, DUCKDB))),
    )
    return st.recursive(leaves, lambda inner: _applied(NUMBERS, inner) | _chosen(inner), max_leaves=8)


def _applied(operators, inner):
    pairs = st.tuples(st.sampled_from(sorted(operators)), inner, inner)
    return pairs.map(lambda made: tuple(f(a, b) for f, a, b in zip(operators[made[0]], made[1], made[2], strict=True)))


def _chosen(inner):
    return st.tuples(_applied(TESTS, inner), inner, inner).map(
        lambda made: (made[1][0] if made[0][0] else made[2][0], made[0][1].then(made[1][1], made[2][1]))
    )


def _truths():
    return st.recursive(_applied(TESTS, _numbers()), lambda inner: _applied(LOGIC, inner), max_leaves=6)


@given(st.lists(_numbers() | _truths(), min_size=1, max_size=20))
def test_brackets_are_where_they_are_needed(made):
    """Values that are put together by operators mean in SQL what they mean in Python."""
    connection = _connection()
    [row] = connection.execute(f"SELECT {', '.join(value.sql for _, value in made)}").fetchall()
    assert list(row) == [expected for expected, _ in made]


def _connection(known=[]):  # noqa: B006 - one for all examples
    if not known:
        known.append(DUCKDB.connect())
    return known[0]


NAMES = ["private_rows", "Private_Rows", "unit_totals", "weighted_rows", "public_keys", "contributions", "exact_sums"]


@pytest.mark.parametrize("name", NAMES)
def test_no_step_shadows_a_table(name):
    """Whatever the table is called: steps get other names."""
    connection = duckdb.connect()
    connection.execute(f'CREATE TABLE "{name}" AS SELECT range AS person, range % 2 AS town FROM range(10)')
    query = Dataset(connection, UNIT, table=name).group_by("town", max_rows=1, public_keys=[0, 1]).count()
    assert query.release(1e6, 1e-6).to_arrow()["count"].to_pylist() == [5, 5]
    steps = re.findall(r"^(\w+) AS (?:MATERIALIZED )?\($", query.sql(), re.MULTILINE)
    assert len({step.lower() for step in [*steps, name]}) == len(steps) + 1


@pytest.mark.on_slow_engines("name", ["source"])
@pytest.mark.parametrize("name", ["source", *NAMES])
def test_no_step_shadows_a_table_of_a_query_that_is_handed_over(engine, name):
    stored = engine.put(pa.table({UNIT: range(10), "town": [0, 1] * 5})).table
    quoted = engine.quote + name + engine.quote
    query = f"WITH {quoted} AS (SELECT * FROM {stored.text}) SELECT * FROM {quoted}"
    source = stored.engine.handed_over(stored.connection, query, stored)
    counted = Dataset(source, UNIT).group_by("town", max_rows=1, public_keys=[0, 1])
    assert sums(counted, [Rows()]) == {(0,): [[5]], (1,): [[5]]}


OWN_NAMES = [
    "unit",
    "key",
    "worth",
    "key_0",
    "value_0",
    "unit_rows",
    "choice",
    "group_rank",
    "place_in_group",
    "sum_0_0",
]


def test_columns_with_names_of_our_own():
    """A user's column may be called as one of ours, or in other letters."""
    for upper, name in itertools.product((False, True), OWN_NAMES):
        column = name.upper() if upper else name
        table = pa.table({"person": range(8), column: [0, 1] * 4, "v": [3] * 8})
        groups = Dataset(table, "person").where(f"{column} >= 0").group_by(column, max_groups=1, max_rows_per_group=1)
        released = groups.count().sum(column, (0, 1)).sum("v", (0, 3)).release(1e6, 1e-3)
        assert released.to_arrow()["count"].to_pylist() == [4, 4], column
        assert released.to_arrow()[f"{column}_sum"].to_pylist() == [0, 4], column


def test_line_ends_in_names_and_constants(engine):
    """They stay as they are, however deep the step is that they stand in."""
    if "\n" in engine.not_in_names:
        pytest.skip("no names with line ends there")
    table = pa.table({UNIT: range(6), "two\nlines": ["a\nb", "a\n  b", "ab"] * 2, "n": [1] * 6})
    quoted = f"{engine.quote}two\nlines{engine.quote}"
    data = engine.put(table).derive(kept=f"CASE WHEN {quoted} = 'a\nb' THEN 'x\n  y' ELSE 'z' END")
    for condition in (f"{quoted} = 'a\nb'", f"{quoted} <> 'a\n  b' AND kept = 'x\n  y'"):
        assert sums(data.where(condition).group_by("kept", max_rows=1), [Rows()]) == {("x\n  y",): [[2]]}


class TestShown:
    TABLE = pa.table({"person": [4711, 4712, 4711], "town": ["Atlantis", "Utopia", "Utopia"], "v": [815.25, 1.0, 2.0]})

    def query(self):
        data = Dataset(self.TABLE, "person").derive(big="v > 10").where("v < 900")
        return data.group_by("town", "big", max_groups=2, max_rows_per_group=1).count().count_units().mean("v", (0, 9))

    def test_every_step_has_a_comment_and_no_data(self):
        text = self.query().sql()
        lines = text.splitlines()
        steps = [i for i, line in enumerate(lines) if re.match(r"\w+ AS (?:MATERIALIZED )?\($", line)]
        assert len(steps) >= 4
        assert all(lines[i - 1].startswith("-- ") for i in steps)
        for secret in ("4711", "Atlantis", "815"):
            assert secret not in text

    def test_it_is_what_runs(self):
        """The statement of a release is that of the query at its plan, but for the salt."""
        query = self.query()
        released = query.release(1, 1e-3)
        assert released.sql == query.sql(query.plan(1, 1e-3))
        [statement] = released.sql.split(";\n\n")
        answer = query.dataset.table.connection.execute(statement.rstrip(";")).fetchall()
        assert {row[0] for row in answer} == {b"Utopia", b"Atlantis"}

    def test_a_publication_has_all_statements(self):
        data = Dataset(self.TABLE, "person")
        towns = data.group_by("town", max_rows=1, public_keys=["Utopia"]).count()
        text = Publication(towns=towns, all=data.group_by(max_rows=1).sum("v", (0, 5))).sql()
        assert "-- Statement 2 of 2: The sums that noise is added to." in text

    def test_open_limits_have_statements_of_their_own(self):
        data = Dataset(self.TABLE, "person", units=10_000)
        text = data.group_by("town", public_keys=["Utopia"]).count().sum("v").sql()
        assert [line for line in text.splitlines() if line.startswith("-- Statement")] == [
            "-- Statement 1 of 3: The choice of max_rows.",
            "-- Statement 2 of 3: The choice of max_total of v.",
            "-- Statement 3 of 3: The sums that noise is added to.",
        ]
