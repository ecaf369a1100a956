"""DuckDB in memory."""

import duckdb

from engines import new_name
from made_conditions import Maker
from osgt import Dataset
from osgt.data.engines import engine_named
from stands import Stand

HUGE = "170141183460469231731687303715884105727"


class DuckDBMaker(Maker):
    like_escape = ""
    types = {"text": ["VARCHAR"], "integer": ["int", "BIGINT"], "float": ["double"]}

    def matched(self, pattern):
        return self.one(f"c ~ {pattern}", f"k !~ {pattern}", f"regexp_matches(c, {pattern})")


class TestedEngine(Stand):
    name = "duckdb"
    set_zone = "SET TimeZone = '{}'"
    reads_files = True
    maker = DuckDBMaker
    conditions = (260, 50)
    hostile_dates = ("DATE", ["DATE '20000-01-01'", "DATE 'infinity'", "NULL"])
    hostile_keys = {
        "DATE": ("DATE '2024-02-29'", {"DATE 'infinity'": True, "DATE '-infinity'": True, "DATE '5881580-07-10'": False,
                                       "DATE '5877642-06-25 (BC)'": False}),
        "TIMESTAMP": ("TIMESTAMP '2024-02-29 12:00:00'", {"TIMESTAMP 'infinity'": True, "TIMESTAMP '-infinity'": True,
                                                          "TIMESTAMP '290000-01-01 00:00:00'": False}),
        "TIMESTAMPTZ": ("TIMESTAMPTZ '2024-02-29 12:00:00+00'", {"TIMESTAMPTZ 'infinity'": True,
                                                                 "TIMESTAMPTZ '294000-01-01 00:00:00+00'": False}),
        "TIMESTAMP_S": ("TIMESTAMP_S '2024-02-29 12:00:00'", {"'infinity'::TIMESTAMP_S": True,
                                                              "'290000-01-01'::TIMESTAMP_S": False}),
        "TIMESTAMP_NS": ("TIMESTAMP_NS '2024-02-29 12:00:00'", {"'infinity'::TIMESTAMP_NS": True}),
        "HUGEINT": ("7", {"170141183460469231731687303715884105727": True,
                          "99999999999999999999999999999999999999": False}),
        "UBIGINT": ("7", {"18446744073709551615": False}),
        "DECIMAL(38, 10)": ("7", {"9999999999999999999999999999.9999999999": False}),
        "VARCHAR": ("'Rome'", {"chr(0) || 'x'": False, "repeat('x', 100000)": False, "'\\xff'": False}),
        "BLOB": ("'ab'::BLOB", {"'\\xff\\x00'::BLOB": False}),
        "UUID": ("'00000000-0000-0000-0000-000000000001'", {"'ffffffff-ffff-ffff-ffff-ffffffffffff'": False}),
        "BOOLEAN": ("true", {"false": False}),
    }  # fmt: skip
    hostile_numbers = {
        "HUGEINT": [HUGE, f"-{HUGE}", "10000000000000000000000000000000000000"],
        "DECIMAL(38, 0)": ["99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"],
        "UBIGINT": ["18446744073709551615", "0"],
        "DOUBLE": ["'NaN'", "'Infinity'", "1.7976931348623157e308", "5e-324", "-1.7976931348623157e308"],
        "FLOAT": ["'NaN'", "3.4028235e38", "1e-45"],
    }
    strings = [r"c ~ E'\\d'", r"c = E'a\\b'", r"c = E'\061'", r"c = E'\x31'", r"c = $$\$$", r"c LIKE E'a\\b'"]
    failing = {
        "CAST(c AS integer) = 1": [0],
        "c::bigint IS NULL": [1, 2, 3],
        "CAST(c AS date) IS NULL AND i > 1": [1, 2, 3],
        "10 // (i - 1) = 10": [1],
        "i * 9223372036854775807 > 0": [0],
        "i + 9223372036854775000 > 0": [0, 1, 2],
        # Before 2.0 DuckDB compares before it casts, where it can.
        "CAST(i * 100 AS smallint) > 0": [0, 1, 2] if duckdb.__version__ >= "2" else [0, 1, 2, 3],
        "CAST(i * 100 AS smallint) IS NULL": [3],
        "sqrt(2 - i) >= 0": [0, 1, 2, 3] if duckdb.__version__ >= "2" else [0, 1],  # NaN there, above all numbers
        "ln(i - 1) >= 0": [1, 2, 3],
        "strptime(c, '%d') = TIMESTAMP '1900-01-01'": [0],
        "n < CAST(d + INTERVAL '500 years' AS timestamp)": [],
        "n IN (CAST(d + INTERVAL '500 years' AS timestamp))": [],
        "n BETWEEN d AND CAST(d + INTERVAL '500 years' AS timestamp)": [],
        "n < CAST(d + INTERVAL '1 year' AS timestamp)": [0, 1, 2, 3],
        "length(repeat(repeat(repeat(repeat(c, 1000), 1000), 1000), 1000)) > 0": [],
        "length(repeat(c, 1000)) = 1000": [0, 1, 3],
        f"length(replace(replace(c, 'x', '{'y' * 999}'), 'y', '{'z' * 9999}')) > 0": [],
        f"length(regexp_replace(repeat(c, 1000), 'x', '{'y' * 9999}', 'g')) > 0": [],
        "length(replace(repeat(c, 300), 'x', repeat(c, 300))) > 0 AND c = 'x'": [3],
        "length(replace(repeat(c, 300), 'x', repeat(c || 'y', 300))) > 0 AND c = 'x'": [],
        "d + INTERVAL '1' DAY > DATE '2020-01-04'": [3],
    }
    refused = [
        "c ~ c",
        "c ~ '('",
        "regexp_matches(c, c)",
        "c = 1",
    ]

    def __init__(self, request):
        self.connection = duckdb.connect()

    def store(self, table):
        name = new_name()
        self.connection.register("incoming", table)
        self.connection.execute(f"CREATE TABLE {name} AS FROM incoming")
        self.connection.unregister("incoming")
        return self.table(name)

    def execute(self, statement):
        self.connection.execute(statement)

    def table(self, name):
        return engine_named("duckdb").named(self.connection, name)

    def flickering(self, groups):
        name, rows = new_name(), f"SELECT 1 AS person, i % {groups} AS key, 1 AS value FROM range(4 * {groups}) r(i)"
        self.execute(f"CREATE VIEW {name} AS SELECT * FROM ({rows}) everyone WHERE random() < 0.5")
        return Dataset(self.table(name), "person")

    def raw(self, dataset, query):
        return dataset.table.connection.execute(query).fetchall()
