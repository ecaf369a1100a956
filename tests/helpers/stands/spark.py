"""Spark on this machine, with one thread."""

import pyarrow as pa

from engines import UNIT, new_name
from made_conditions import Maker
from osgt import Dataset
from osgt.data.engines import engine_named
from stands import Stand


class SparkMaker(Maker):
    quote = "`"
    types = {"text": ["STRING"], "integer": ["INT"], "float": ["DOUBLE"]}

    def value(self):
        return super().value().replace("${", "$ {")

    def string(self, value=None):
        value = self.value() if value is None else value
        quote = self.one("'", "'", '"')
        if quote not in value and self.random.random() < 0.2:
            return self.one("r", "R") + quote + value + quote
        return quote + "".join(self.character(c, quote) for c in value) + quote

    def character(self, character, quote):
        if character in (quote, "\\"):
            return f"\\{character}"
        if self.random.random() < 0.15 and ord(character) < 65536:
            code = ord(character)
            ways = [f"\\u{code:04x}", f"\\U{code:08X}"]
            if code < 256:
                ways.append(f"\\{code:03o}")
            return self.random.choice(ways)
        return character

    def part(self, text):
        return f"substr({text}, 2, 2)"

    def matched(self, pattern):
        return self.one(f"c RLIKE {pattern}", f"NOT k rlike {pattern}", f"regexp_like(c, {pattern})")


class TestedEngine(Stand):
    name = "spark"
    set_zone = "SET TIME ZONE '{}'"
    reads_files = True
    slow = True
    quote = "`"
    not_in_names = "`\\"
    maker = SparkMaker
    conditions = (120, 4)
    hostile_keys = {
        "DATE": ("DATE '2024-02-29'", {"date_add(DATE '9999-12-31', 1000000000)": False,
                                       "date_add(DATE '0001-01-01', -1000000000)": False}),
        "TIMESTAMP": ("TIMESTAMP '2024-02-29 12:00:00'", {"timestamp_micros(9223372036854775807)": False,
                                                          "timestamp_micros(-9223372036854775807)": False}),
        "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ '2024-02-29 12:00:00'", {"TIMESTAMP_NTZ '+290000-01-01 00:00:00'": False}),
        "DECIMAL(38, 10)": ("7", {"9999999999999999999999999999.9999999999": False}),
        "STRING": ("'Rome'", {"'x\\0'": False, "cast(unhex('ff') AS STRING)": False}),
        "BINARY": ("unhex('00')", {"unhex('ff')": False}),
        "BIGINT": ("7", {"-9223372036854775808": False}),
    }  # fmt: skip
    hostile_numbers = {
        "DECIMAL(38, 0)": ["99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"],
        "DECIMAL(38, 38)": ["0.99999999999999999999999999999999999999", "-0.99999999999999999999999999999999999999"],
        "DOUBLE": ["DOUBLE('NaN')", "DOUBLE('Infinity')", "1.7976931348623157e308D", "4.9e-324D"],
        "BIGINT": ["9223372036854775807", "-9223372036854775808"],
    }
    strings = [r"c RLIKE '\\d'", r"c = 'a\\b'", r"c = '\u0031'", r"c = '\061'", r"c = r'\'", r"c LIKE 'a\\\\b'"]
    failing = {
        "CAST(c AS int) = 1": [0],
        "c::bigint IS NULL": [1, 2, 3],
        "to_date(c) IS NULL AND i > 1": [1, 2, 3],
        "10 / (i - 1) = 10": [1],
        "i % (i - 1) = 0": [1],
        "i * 9223372036854775807 > 0": [0],
        "CAST(i * 100 AS smallint) > 0": [0, 1, 2],
        "abs(i) = 1": [0],
        "length(repeat(repeat(repeat(repeat(c, 1000), 1000), 1000), 1000)) > 0": [],
        "length(repeat(c, 1000)) = 1000": [0, 1, 3],
        "length(replace(repeat(c, 300), 'x', repeat(c, 300))) > 0 AND c = 'x'": [3],
        "length(replace(repeat(c, 300), 'x', repeat(c || 'y', 300))) > 0 AND c = 'x'": [],
        f"length(regexp_replace(repeat(c, 1000), 'x', '{'y' * 9999}')) > 0": [],
        "d + INTERVAL '1' DAY > DATE '2020-01-04'": [3],
        "c RLIKE '^(a|x){1,10}(b)?$'": [3],
        r"c RLIKE '^[\\w()*]*\\\\+(b*)$'": [1, 2],
    }
    refused = [
        "c = 1",
        "i = '1'",
        "c RLIKE c",
        "c RLIKE '('",
        "c RLIKE '(a|b)*c'",
        "regexp_like(c, '^(?:a)+$')",
        "regexp_replace(c, '((a|b){2}x){3}', 'x') = 'x'",
        "regexp_extract(c, '(a){2,}', 1) = 'x'",
        "c RLIKE '[a[b]]'",
        "c RLIKE '^.{2,90000}c'",
        "c RLIKE '(a){2}{3}'",
        "c RLIKE '\\\\X*'",
        "c RLIKE '(?x) ( a ) *'",
        "c LIKE 'a\\\\'",
        "regexp_extract(c, '(a)', 2) = 'a'",
        "i DIV 0 = 1",
    ]

    def __init__(self, request):
        self.session = request.getfixturevalue("spark")

    def store(self, table):
        name = new_name()
        spark_frame(self.session, table).createOrReplaceTempView(name)
        return self.table(name)

    def execute(self, statement):
        self.session.sql(statement)

    def table(self, name):
        return engine_named("spark").named(self.session, name)

    def made(self, columns, rows):
        name = new_name()
        cast = ", ".join(f"CAST(col{i} AS {dtype}) AS {column}" for i, (column, dtype) in enumerate(columns.items(), 1))
        self.execute(f"CREATE TEMPORARY VIEW {name} AS SELECT {cast} FROM VALUES {rows}")
        return Dataset(self.session, UNIT, table=name)

    def flickering(self, groups):
        session = self.session.newSession()
        session.conf.set("spark.sql.exchange.reuse", "false")  # it would read once what a query names twice
        name, rows = new_name(), f"SELECT 1 AS person, id % {groups} AS key, 1 AS value FROM range(4 * {groups})"
        session.sql(f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM ({rows}) WHERE rand() < 0.5")
        return Dataset(session, "person", table=name)

    def raw(self, dataset, query):
        return [tuple(row) for row in dataset.table.connection.sql(query).collect()]


def spark_session():
    """A small session: one thread, one partition, no web page, no log."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - starting Java takes a while

    session = (
        SparkSession.builder.master("local[1]")
        .appName("osgt tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        # The tables are small: compiling a query would take longer than running it.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def spark_frame(session, table):
    """The rows as a Spark frame. Spark has no unsigned integers: each becomes the next larger type."""
    larger = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}
    fields = [pa.field(f.name, larger.get(f.type, f.type)) for f in table.schema]
    frame = session.createDataFrame(table.cast(pa.schema(fields)))
    for field in fields:
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            frame = frame.withColumn(field.name, frame[field.name].cast("timestamp_ntz"))
    return frame
