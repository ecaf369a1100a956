"""PostgreSQL: a database on a server of the tests' own."""

import psycopg
import pyarrow as pa
from psycopg import sql

from engines import new_name
from made_conditions import Maker
from osgt import Dataset
from osgt.data.engines import engine_named
from stands import Stand


class PostgresMaker(Maker):
    unicode_escapes = True
    types = {"text": ["text"], "integer": ["integer", "bigint"], "float": ["double precision"]}

    def matched(self, pattern):
        return self.one(f"c ~ {pattern}", f"k !~* {pattern}", f"regexp_replace(c, {pattern}, 'x') = 'x'")


class TestedEngine(Stand):
    name = "postgres"
    set_zone = "SELECT set_config('TimeZone', '{}', false)"
    maker = PostgresMaker
    hostile_dates = ("date", ["'20000-01-01'", "'infinity'", "NULL"])
    hostile_keys = {
        "date": ("'2024-02-29'", {"'infinity'": True, "'-infinity'": True, "'4713-01-01 BC'": False,
                                  "'5874897-12-31'": False, "'10000-01-01'": False}),
        "timestamp": ("'2024-02-29 12:00'", {"'infinity'": True, "'-infinity'": True, "'4713-01-01 BC'": False,
                                             "'294276-12-31 23:59:59.999999'": True, "'294246-12-31'": False}),
        "timestamptz": ("'2024-02-29 12:00+00'", {"'infinity'": True, "'0044-03-15 12:00+00 BC'": False,
                                                  "'9999-12-31 23:59:59.999999-12'": False}),
        "timestamp(3)": ("'2024-02-29 12:00'", {"'infinity'": True, "'10000-01-01'": False}),
        "numeric(9, 2)": ("7", {"'NaN'": True, "-9999999.99": False}),
        "numeric(38, 37)": ("7", {"'NaN'": True, "9.9999999999999999999999999999999999999": False}),
        "uuid": ("'00000000-0000-0000-0000-000000000001'", {"'ffffffff-ffff-ffff-ffff-ffffffffffff'": False}),
        "bytea": ("'ab'", {r"'\xff00'": False}),
        "text": ("'Rome'", {"repeat('x', 100000)": False, "U&'\\+01F600'": False}),
        "bigint": ("7", {"-9223372036854775808": False}),
    }  # fmt: skip
    hostile_numbers = {
        "numeric": ["'NaN'", "'Infinity'", "'-Infinity'", "1e131071", "1e-16383", "-1e131071"],
        "numeric(500, 400)": ["'NaN'", "1e99", "1e-400"],
        "numeric(9, 2)": ["'NaN'", "9999999.99"],
        "double precision": ["'NaN'", "'Infinity'", "1.7976931348623157e308", "5e-324"],
        "bigint": ["9223372036854775807", "-9223372036854775808"],
    }
    strings = [
        r"c ~ E'\\d'",
        r"c = E'a\\b'",
        r"c = E'\u0031'",
        r"c = E'\061'",
        r"c = $$\$$",
        r"c LIKE E'a\\\\b'",
    ]
    failing = {
        "CAST(c AS integer) = 1": [0],
        "c::bigint IS NULL": [1, 2, 3],
        "CAST(c AS numeric) > 0 OR i = 2": [0, 1],
        "CAST(c AS double precision) > 0": [0],
        "10 / (i - 1) = 10": [1],
        "i % (i - 1) = 0": [1],
        "i * 9223372036854775807 > 0": [0],
        "i + 9223372036854775000 > 0": [0, 1, 2],
        "i * 1e131069 > 0 OR i = 2": [1],
        "i * 1e900 > 0": [0, 1, 2, 3],
        "CAST(i * 100 AS smallint) > 0": [0, 1, 2],
        "sqrt(2 - i) >= 0": [0, 1],
        "ln(i - 1) >= 0": [1, 2, 3],
        "exp(i) > 0": [0, 1, 2],
        "d + INTERVAL '1' DAY > DATE '2020-01-04'": [3],
        "substring(c, 1, 1) = 'a'": [2],
        "CASE WHEN i > 0 THEN CAST(c || 'e400' AS numeric) ELSE CAST(1 AS float8) END > 0": [],
        "length(repeat(repeat(repeat(repeat(c, 1000), 1000), 1000), 1000)) > 0": [],
        "length(repeat(c, 1000)) = 1000": [0, 1, 3],
        f"length(replace(replace(c, 'x', '{'y' * 999}'), 'y', '{'z' * 9999}')) > 0": [],
        f"length(regexp_replace(repeat(c, 1000), 'x', '{'y' * 9999}', 'g')) > 0": [],
        "length(replace(repeat(c, 300), 'x', repeat(c, 300))) > 0 AND c = 'x'": [3],
        "length(replace(repeat(c, 300), 'x', repeat(c || 'y', 300))) > 0 AND c = 'x'": [],
        "length(CAST(i * 1e-200 AS text) || concat(1e300, i * 1e200)) > 0": [],
        "length(CAST(i * 1e-90 AS text) || concat(i * 1e90, i)) > 180": [0, 1, 2, 3],
        "CAST(CAST('NaN' AS numeric) AS numeric(5, 2)) > i": [0, 1, 2, 3],
    }
    refused = [
        "CAST(c AS date) > '2020-01-01'",
        "c::boolean",
        "c ~ c",
        "i ^ 2 > 3",
        "split_part(c, 'a', 0) = ''",
        "c LIKE 'a\\'",
    ]

    def __init__(self, request):
        self.url = request.getfixturevalue("postgres_tables")
        self.connection = engine_named("postgres").connect(self.url)

    def store(self, table):
        return self.table(postgres_table(self.url, table))

    def execute(self, statement):
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def table(self, name):
        return engine_named("postgres").named(self.connection, name)

    def flickering(self, groups):
        series = f"generate_series(1, 4 * {groups}) i"
        name, rows = new_name(), f"SELECT 1 AS person, i % {groups} AS key, 1 AS value FROM {series}"
        self.execute(f"CREATE VIEW {name} AS SELECT * FROM ({rows}) everyone WHERE random() < 0.5")
        return Dataset(self.table(name), "person")

    def raw(self, dataset, query):
        with dataset.table.connection.cursor() as cursor:
            return cursor.execute(query).fetchall()

    def close(self):
        self.connection.close()


def postgres_table(url, table):
    """The name of a new table with these rows."""
    name = new_name()
    columns = [sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(_postgres_type(f.type))) for f in table.schema]
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), sql.SQL(", ").join(columns)))
        with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(name))) as copy:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)
    return name


def _postgres_type(dtype):
    names = {
        pa.int8(): "smallint", pa.uint8(): "smallint", pa.int16(): "smallint", pa.uint16(): "integer",
        pa.int32(): "integer", pa.uint32(): "bigint", pa.int64(): "bigint", pa.uint64(): "numeric(20, 0)",
        pa.float32(): "real", pa.float64(): "double precision", pa.bool_(): "boolean", pa.string(): "text",
        pa.large_string(): "text", pa.date32(): "date", pa.binary(): "bytea",
    }  # fmt: skip
    if pa.types.is_decimal(dtype):
        return f"numeric({dtype.precision}, {dtype.scale})"
    if pa.types.is_timestamp(dtype):
        return "timestamptz" if dtype.tz else "timestamp"
    return names[dtype]
