"""Conditions that try to see more than one row, to run something, or to fail for one row: refused, or harmless."""

import contextlib
import datetime
import re

import duckdb
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from engines import ROW, UNIT, rows_of
from osgt import Dataset
from osgt.data.engines import engine_named
from osgt.data.engines.spark.where import spark_string
from spies import SpyLedger
from stands import STANDS
from stands.postgres import postgres_table

#: One person's value, which no condition may tell: the subqueries below are true if and only if it is there.
SECRET = 1000

TABLE = pa.table(
    {
        UNIT: ["a", "b", "c", "d"],
        ROW: pa.array(range(4), pa.int64()),
        "c": ["1", "\\", "a\\b", "x"],
        "i": pa.array([1, 2, 3, SECRET], pa.int64()),
        "d": [datetime.date(2020, 1, day) for day in (1, 2, 3, 4)],
        "n": pa.array([datetime.datetime(2020, 1, 1)] * 4, pa.timestamp("ns")),  # times until 2262 on DuckDB
    }
)


@pytest.fixture(scope="module", params=STANDS)
def data(request, engine_of):
    engine = engine_of(request.param)
    return engine, engine.put(TABLE)


def kept(dataset):
    rows = dataset.rows()
    return sorted(rows_of(rows, ROW)[ROW].to_pylist())


def attacks(table):
    """Texts that are true for all rows if the secret can be seen, each by another trick of quoting."""
    query = f"{SECRET} = (SELECT max(i) FROM {table})"
    return [
        rf"c = E'\\' OR c = ' OR {query}) --'",
        rf"c = E'\\' OR c = ' OR {query} --'",
        rf"c = '\' OR {query} --'",
        rf"c = '\\' OR {query} OR c = '\'",
        rf"c = E'\' OR c = ' OR {query} --'",
        rf"c = U&'\005c' OR {query}",
        rf"c = U&'\0027 OR {query} --'",
        rf"c = U&'!0027 OR {query} --' UESCAPE '!'",
        f"c = $$x$$ OR {query}",
        f"c = $a$ $$ $a$ OR {query} --$$",
        f"c = $a$'$a$ OR {query} --'",
        f"c = 'a''' OR {query} --'",
        f"c = 'a' 'b' OR {query}",
        f"c = 'a'\n'b' OR {query}",
        f"c = X'27' OR {query}",
        f"c = B'1' OR {query}",
        f"c = N'x' OR {query}",
        f"c = r'\\' OR {query} --'",
        f"c = R'\\' OR c = ' OR {query} --'",
        f'c = "x\' OR {query} --"',
        f'c = "x"" OR {query} --"',
        f"c = `x` OR {query}",
        f"c = 'x' /* /* */ OR {query} --*/",
        f"c = 'x' /* ' */ OR {query} /* ' */",
        f"c = 'x' -- \\\nOR {query}",
        f"c = 'x' --\rOR {query}",
        f"c = 'x' # '\nOR {query}",
        f"c = \u2019x\u2019 OR {query}",
        f"c = 'x'\u00a0OR {query}",
        f"c = 'x\0' OR {query}",
        f"c = '\\0' OR {query}",
        f"c = '${{x}}' OR {query}",
        f"c = 'x' OR {query}",
        f"c = 'x') OR ({query}",
        f"c = 'x' OR EXISTS (FROM {table} WHERE i = {SECRET})",
        f"c = 'x' OR {SECRET} IN (TABLE {table})",
        f"c = 'x' OR {SECRET} = ANY (SELECT i FROM {table})",
        f"c = 'x' OR {SECRET} IN (VALUES (1))",
        f"c IN (FROM {table} SELECT c)",
        f"CASE WHEN {query} THEN TRUE END",
        f"coalesce(({query}), TRUE)",
        f"i = ARRAY(SELECT i FROM {table})[1]",
        f"i + ({query})::int > 0",
    ]


#: Functions and names that know more than a row, change something or look something up.
FORBIDDEN = [
    "query_to_xml('select 1', true, false, '') IS NOT NULL",
    "pg_sleep(1) IS NULL",
    "nextval('s') > 0",
    "lastval() > 0",
    "setval('s', 1) > 0",
    "current_setting('search_path') = 'x'",
    "set_config('a.b', '1', false) = '1'",
    "getvariable('x') = 1",
    "getenv('HOME') = 'x'",
    "current_user = 'x'",
    "current_user() = 'x'",
    "session_user = 'x'",
    "version() = 'x'",
    "txid_current() > 0",
    "pg_read_file('/etc/passwd') = 'x'",
    "read_text('/etc/passwd') = 'x'",
    "read_csv('x') = 1",
    "lo_import('/etc/passwd') > 0",
    "dblink('x', 'select 1') = 1",
    "java_method('java.lang.System', 'exit', 1) = 1",
    "reflect('java.lang.System', 'exit', 1) = 1",
    "input_file_name() = 'x'",
    "spark_partition_id() = 0",
    "monotonically_increasing_id() < 3",
    "uuid() = 'x'",
    "rand() < 0.5",
    "random() < 0.5",
    "gen_random_uuid() IS NULL",
    "clock_timestamp() > now()",
    "'people'::regclass IS NOT NULL",
    "CAST('people' AS regclass) = 1",
    "'x'::regproc IS NULL",
    "c::xml IS NULL",
    "c::json IS NULL",
    "list_transform([1, 2], x -> x + 1)[1] = 2",
    "transform(array(1), x -> x)[0] = 1",
    "[x FOR x IN [1, 2]][1] = 1",
    "{'a': 1}.a = 1",
    "struct_pack(a := 1).a = 1",
    "COLUMNS(*) = 1",
    "COLUMNS('c') = '1'",
    "*COLUMNS(*) IS NULL",
    "#1 = 1",
    "$1 = 1",
    "? = 1",
    ":x = 1",
    "@x = 1",
    "@@version = 1",
    "TABLE people",
    "people IS NOT NULL",
    "t.* IS NOT NULL",
    "* IS NULL",
    "ctid = '(0,1)'",
    "xmin = 1",
    "rowid = 1",
    "tableoid > 0",
    "_metadata.file_name = 'x'",
    "(c, i) IN (('1', 1))",
    "ROW(c, i) IS NULL",
    "c COLLATE \"C\" = '1'",
    "c OPERATOR(pg_catalog.=) '1'",
    "pg_catalog.lower(c) = '1'",
    "system.main.lower(c) = '1'",
    "lower(c) FILTER (WHERE TRUE) = '1'",
    "lower(DISTINCT c) = '1'",
    "lower(c) OVER () = '1'",
    "max(i) OVER () = 1000",
    "max(i) = 1000",
    "lag(i) OVER (ORDER BY i) = 1",
    "i = ALL (ARRAY[1])",
    "c LIKE ANY ('1')",
    "c LIKE c",
    "c SIMILAR TO '1'",
    "i > 1; SELECT 1",
    "i > 1 UNION SELECT 1",
    "i = \u0661",
    "i = 1\u0661",
    "\uff33ELECT",
    "CAST(c AS varchar(\u0661)) = '1'",
    "repeat(c, 1000000000) = c",
    "lpad(c, 1000000000, 'x') = c",
    "(" * 200 + "TRUE" + ")" * 200,
    " OR ".join(["i = 1"] * 1000),
]


def test_no_quoting_trick_runs_a_subquery(data):
    _engine, dataset = data
    refused = 0
    for text in attacks(dataset.table.text):
        try:
            found = kept(dataset.where(text))
        except ValueError:
            refused += 1
        else:
            # It was a string: no row is kept that the engine would not keep for what stands outside it.
            assert set(found) <= {1, 3}, text
    assert refused > 30


def test_what_looks_beyond_the_row_is_refused(data):
    _engine, dataset = data
    for text in FORBIDDEN:
        with pytest.raises((ValueError, TypeError), match="where"):
            dataset.where(text)


def test_strings_are_read_as_the_engine_reads_them(data):
    """Each condition selects what the engine itself selects with it."""
    engine, dataset = data
    row = f"{engine.quote}{ROW}{engine.quote}"
    for text in engine.strings:
        query = f"SELECT {row} FROM {dataset.table.text} WHERE {text} ORDER BY 1"
        ((own,),) = engine.raw(dataset, query)
        assert kept(dataset.where(text)) == [own], text


def test_backslashes_under_other_settings(data):
    """What a setting decides is read under that setting, or refused."""
    engine, dataset = data
    connection = dataset.table.connection
    if engine.name == "postgres":
        connection.execute("SET standard_conforming_strings = off")
        try:
            with pytest.raises(ValueError, match="standard_conforming_strings"):
                dataset.where(r"c = '\\'")
            assert kept(dataset.where(r"c = E'\\'")) == [1]
        finally:
            connection.execute("SET standard_conforming_strings = on")
    elif engine.name == "spark":
        for name, text in (
            ("spark.sql.parser.escapedStringLiterals", r"c = '\\'"),
            ("spark.sql.ansi.doubleQuotedIdentifiers", 'c = "x"'),
        ):
            before = dataset.where(text)
            connection.conf.set(name, "true")
            try:
                with pytest.raises(ValueError, match=r"where: .*(two things|mean names)"):
                    dataset.where(text)
                assert kept(before) == [1 if "\\" in text else 3]  # written in a way that no setting changes
            finally:
                connection.conf.unset(name)


def test_every_escape_of_spark_means_what_spark_says(engine_of):
    """Three octal digits up to 177, and each ASCII character behind a backslash."""
    session = engine_of("spark").put(TABLE).table.connection
    escapes = [f"{code:03o}" for code in range(1, 0o1000)] + [chr(code) for code in range(33, 127)]
    literals = [f"'\\{escape}.'" for escape in escapes if escape not in "uU"]
    [row] = session.sql(f"SELECT {', '.join(literals)}").collect()
    read = spark_string(backslashes=True, double_quotes=True)
    assert [read(literal, 0) for literal in literals] == [
        (value, len(t)) for value, t in zip(row, literals, strict=True)
    ]


def test_only_booleans_are_conditions(data):
    _engine, dataset = data
    for condition in (
        "c",
        "i",
        "d",
        "i + 1",
        "NULL",
        "'true'",
        "1",
        "NOT i",
        "i AND TRUE",
        "c OR TRUE",
    ):
        with pytest.raises((ValueError, TypeError), match="where"):
            dataset.where(condition)


# Functions of the user's own


def refused_before_the_charge(dataset, match):
    ledger = SpyLedger()
    dataset.ledger, dataset.dataset = ledger, "d"
    with pytest.raises(ValueError, match=match):
        dataset.group_by("c", max_groups=1, max_rows_per_group=1).count().release(epsilon=1, delta=1e-6)
    assert ledger.calls == []


@pytest.mark.parametrize(
    "macro",
    [
        "abs(x)",
        '"+"(a, b)',
        '"~~"(a, b)',
        "hash(a, b)",
        "encode(x)",
        "floor(x)",
        "count(x)",
        "TEMP lower(x)",
        "row_number()",
    ],
)
def test_macros_of_duckdb(macro):
    connection = duckdb.connect()
    connection.register("incoming", TABLE)
    connection.execute("CREATE TABLE w AS FROM incoming")
    temporary = "TEMP " if macro.startswith("TEMP ") else ""
    connection.execute(f"CREATE {temporary}MACRO {macro.removeprefix('TEMP ')} AS (SELECT max(i) FROM w)")
    name = re.escape(re.sub(r'"|\(.*|TEMP ', "", macro))
    refused_before_the_charge(Dataset(connection, UNIT, table="w"), name)


def test_a_macro_in_a_condition_of_duckdb():
    """Conditions name the catalogue: the macro is not even looked at."""
    connection = duckdb.connect()
    connection.register("incoming", TABLE)
    connection.execute("CREATE TABLE w AS FROM incoming")
    connection.execute("CREATE MACRO abs(x) AS (SELECT max(i) FROM w)")
    assert kept(Dataset(connection, UNIT, table="w").where("abs(i) = 1000")) == [3]


OWN = [
    ("CREATE FUNCTION public.sum(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'", "sum"),
    ("CREATE FUNCTION public.hashint8extended(int, int) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'", "hashint8"),
    ("CREATE FUNCTION public.convert_to(text, text) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'", "convert_to"),
    (
        "CREATE FUNCTION public.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
        "CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.same)",
        "=",
    ),
    (
        "CREATE FUNCTION public.to_flag(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
        "CREATE CAST (bigint AS boolean) WITH FUNCTION public.to_flag(bigint)",
        "bigint AS boolean",
    ),
    # For types of the user's own as well: what they do for a column is for their maker to say.
    (
        "CREATE TYPE public.mood AS ENUM ('x');"
        "CREATE FUNCTION public.text(public.mood) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'",
        "text",
    ),
    (
        "CREATE DOMAIN public.word AS text;"
        "CREATE FUNCTION public.same(public.word, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
        "CREATE OPERATOR public.= (LEFTARG = public.word, RIGHTARG = text, FUNCTION = public.same)",
        "=",
    ),
    (
        "CREATE TYPE public.mood AS ENUM ('x');"
        "CREATE FUNCTION public.named(public.mood) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';"
        "CREATE CAST (public.mood AS text) WITH FUNCTION public.named(public.mood)",
        "mood AS text",
    ),
]


@pytest.mark.parametrize(("statement", "name"), OWN)
def test_functions_operators_and_casts_of_postgres(postgres_database, engine_of, statement, name):
    table = postgres_table(postgres_database, TABLE)
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(sql.SQL(statement))
    dataset = Dataset(postgres_database, UNIT, table=table)
    refused_before_the_charge(dataset, re.escape(name))
    dataset.close()


def test_overloads_in_a_condition_of_postgres(postgres_database):
    """Conditions name the schema: neither the overload nor the operator is looked at, wherever the path leads first."""
    table = postgres_table(postgres_database, TABLE)
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(
            f"CREATE FUNCTION public.lower(bigint) RETURNS text LANGUAGE sql AS 'SELECT max(i)::text FROM {table}';"
            f"CREATE FUNCTION public.upper(text) RETURNS text LANGUAGE sql AS 'SELECT max(i)::text FROM {table}';"
            "CREATE FUNCTION public.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
            "CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.same);"
            "CREATE OPERATOR public.~~ (LEFTARG = text, RIGHTARG = text, FUNCTION = public.same)"
        )
    first = f"{postgres_database}?options=-csearch_path%3Dpublic,pg_catalog"
    dataset = Dataset(first, UNIT, table=f"public.{table}")
    with pytest.raises((ValueError, TypeError), match="where"):
        dataset.where("lower(i) = '1000'")
    assert kept(dataset.where("c = 'x'")) == [3]
    assert kept(dataset.where("c LIKE 'x%' AND upper(c) = 'X'")) == [3]
    dataset.close()


def test_functions_of_spark(engine_of):
    engine = engine_of("spark")
    dataset = engine.put(TABLE)
    session = dataset.table.connection
    new = session.newSession()
    with contextlib.suppress(Exception):  # from 4.1 on Spark looks for its own functions first by itself
        new.conf.set("spark.sql.functionResolution.sessionOrder", "first")
    new.udf.register("xxhash64", lambda *values: 1)
    replaced = engine_named("spark").replaced
    assert replaced(new, ["xxhash64", "abs"]) == ["xxhash64"]
    assert replaced(session, ["xxhash64", "abs"]) == []


# Values that allow no answer


def test_values_that_allow_no_answer_count_as_missing(data):
    engine, dataset = data
    for text, expected in engine.failing.items():
        assert kept(dataset.where(text)) == expected, text


def test_what_would_fail_for_some_rows_is_refused(data):
    engine, dataset = data
    for text in engine.refused:
        with pytest.raises((ValueError, TypeError), match="where"):
            dataset.where(text)


STRANGE = [
    "d > '2020-01-01'",
    "d + 1 > '2020-01-01'",
    "d - DATE '2020-01-01' > 0",
    "d + INTERVAL '1' MONTH > '2020-01-01'",
    "EXTRACT(year FROM d) > 2000",
    "date_trunc('month', d) > '2020-01-01'",
    "t > '2020-01-01'",
    "EXTRACT(hour FROM t) >= 0",
    "t - TIMESTAMP '2020-01-01' > INTERVAL '0' DAY",
    "CAST(t AS date) > '2020-01-01'",
    "n > 1.5",
    "n * n > 1",
    "n / 3 > 0",
    "CAST(n AS integer) > 0",
    "CAST(n AS double precision) > 0",
    "n = f",
    "f * f > 0",
    "f / f > 0",
    "f + f > 0",
    "abs(n) > 0",
    "CAST(f AS bigint) > 0",
    "round(n, 2) > 0",
    "sqrt(n) > 0",
    "CAST(n AS numeric(5, 2)) > 0",
    "ln(f) > 0",
    "exp(f) > 0",
    "exp(n) > 0",
    "to_char(d, 'YYYY') > '2000'",
    "floor(f) > 0",
    "n % 7 > 0",
    "coalesce(d, t) > '2020-01-01'",
    "greatest(d, t, CAST(t AS timestamp)) > '2020-01-01'",
    "CASE WHEN n > 0 THEN d ELSE t END > '2020-01-01'",
    "CASE WHEN n > 0 THEN f ELSE n END > 0",
    "nullif(d, t) IS NULL",
]


@pytest.mark.parametrize(
    "text",
    STRANGE,
)
def test_the_strangest_values_of_postgres(strange, text):
    """Infinite dates, years BC and beyond 9999, NaN, infinite and endless numbers: no condition fails."""
    kept(strange.where(text))


@pytest.fixture(scope="module")
def strange(postgres_tables):
    with psycopg.connect(postgres_tables, autocommit=True) as connection:
        connection.execute('CREATE TABLE strange (person text, "row" int, d date, t timestamptz, n numeric, f float8)')
        dates = ["infinity", "-infinity", "4713-01-01 BC", "5874897-12-31", "2020-06-01", "0001-01-01", "300000-01-01"]
        times = [
            "infinity",
            "-infinity",
            "4713-01-01 BC",
            "294276-12-31 23:59:59",
            "2020-06-01",
            "0001-01-01",
            "2020-01-01",
        ]
        numbers = ["NaN", "Infinity", "-Infinity", "1e2000", "1e-2000", "0", "-1e300"]
        floats = ["NaN", "Infinity", "-Infinity", "1.7e308", "4.9e-324", "0", "-1e200"]
        for row in enumerate(zip(dates, times, numbers, floats, strict=True)):
            connection.execute("INSERT INTO strange VALUES ('p', %s, %s, %s, %s, %s)", (row[0], *row[1]))
    dataset = Dataset(postgres_tables, UNIT, table="strange")
    yield dataset
    dataset.close()
