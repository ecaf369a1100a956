"""Queries that cannot be released: refused before the charge, in Python and on the command line."""

import contextlib
import datetime as dt
import tomllib
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from engines import column_type
from osgt import Dataset, Ledger
from osgt.cli import app
from osgt.data.engines import engine_named
from osgt.query.values import grid_of
from osgt.release.measuring import NothingReleasedError
from osgt.support.numeric import LARGEST_SHIFT

PRICE = {"epsilon": 1, "delta": 1e-6}
SMALL = {"epsilon": 1e-9, "delta": 1e-20}


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "budget.db") as opened:
        opened.open("rides", epsilon=1000, delta=1e-2)
        yield opened
        assert opened.history("rides") == [], "something was charged"
        assert sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".csv", ".html")) == []


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("refused") / "rows.parquet"
    size = 30
    table = pa.table({
        "user": range(size), "city": ["Rome"] * size, "rides": range(size), "fare": [1.5] * size,
        "tip": pa.array([Decimal("1.50")] * size, pa.decimal128(9, 2)), "blob": [b"\xff"] * size,
        "tiny": pa.array([Decimal("1e-38")] * size, pa.decimal128(38, 38)), "clock": [dt.time(12)] * size,
        "huge": pa.array([Decimal(10**37)] * size, pa.decimal128(38, 0)),
    })  # fmt: skip
    pyarrow.parquet.write_table(table, path)
    return path


#: Arguments of `group_by`, the aggregates with theirs, the budget, and a part of the message.
IMPOSSIBLE = {
    "one unit has too many rows": (
        {"max_rows_per_group": LARGEST_SHIFT + 1}, [("count",)], PRICE, "max_rows_per_group"),
    "noise that cannot be drawn": ({}, [("sum", "rides", (0, 2**31 - 1))], SMALL, "more noise than can be drawn"),
    "noise of a sum of squares": ({}, [("variance", "rides", (0, 8000))], SMALL, "more noise than can be drawn"),
    "an epsilon of almost nothing": ({}, [("count",)], PRICE | {"epsilon": 1e-300}, "epsilon"),
    "bounds of integers": ({}, [("sum", "rides", (-(10**45), 10**45))], PRICE, "bounds of 'rides'"),
    "bounds of decimals": ({}, [("sum", "tip", (-(10**45), 10**45))], PRICE, "bounds of 'tip'"),
    "bounds of many digits": ({}, [("sum", "huge", (0, 10**37))], PRICE, "bounds of 'huge'"),
    "bounds of floats": ({}, [("sum", "fare", (-(10**300), 10**300))], PRICE, "bounds of 'fare'"),
    "squares that are no floats": ({}, [("variance", "fare", (-1e200, 1e200))], PRICE, "bounds of 'fare'"),
    "squares that vanish": ({}, [("variance", "fare", (0, 1e-200))], PRICE, "bounds of 'fare'"),
    "a decimal far below its type": ({}, [("sum", "tiny", (-5, 5))], PRICE, "bounds of 'tiny'"),
    "a time as key": ({"by": "clock"}, [("count",)], PRICE, "clock"),
    "a float as key": ({"by": "fare"}, [("count",)], PRICE, "fare"),
    "a confidence of 1": ({}, [("count",)], PRICE | {"confidence": 1}, "confidence"),
}  # fmt: skip


def asked(data, groups, aggregates):
    options = {"max_groups": 1, "max_rows_per_group": 1, "by": "city"} | groups
    query = data.group_by(options.pop("by"), **options)
    for kind, *arguments in aggregates:
        query = getattr(query, kind)(*arguments)
    return query


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_queries(ledger, rows, name):
    groups, aggregates, budget, message = IMPOSSIBLE[name]
    data = Dataset(str(rows), "user", ledger=ledger, dataset="rides")
    with pytest.raises((ValueError, TypeError), match=message):
        asked(data, groups, aggregates).release(**budget)
    data.close()


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_queries_on_the_command_line(ledger, rows, name, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    groups, aggregates, budget, message = IMPOSSIBLE[name]
    options = {"max_groups": 1, "max_rows_per_group": 1, "by": "city"} | groups | budget
    arguments = [str(part) for key, value in options.items() for part in (f"--{key.replace('_', '-')}", value)]
    for kind, *rest in aggregates:
        arguments += [f"--{kind}", *(f"{column}:{low}:{high}" for column, (low, high) in [rest] if rest)] if rest else [
            f"--{kind}"]  # fmt: skip
    files = ["--out", tmp_path / "out.csv", "--report", tmp_path / "out.html"]
    charge = ["--ledger", tmp_path / "budget.db", "--dataset", "rides"]
    command = ["release", rows, "--unit", "user", *arguments, *files, *charge]
    result = CliRunner().invoke(app, [str(part) for part in command])
    assert result.exit_code == 2, result.output
    named = message.replace("max_rows_per_group", "--max-rows-per-group")
    assert named in result.stderr.replace("\n", " ")


def test_binary_keys_and_csv(ledger, rows, tmp_path):
    arguments = ["--unit", "user", "--by", "blob", "--count", "--max-groups", 1, "--max-rows-per-group", 1]
    charge = ["--ledger", tmp_path / "budget.db", "--dataset", "rides", "--epsilon", 1, "--delta", 1e-6]
    command = ["release", rows, *arguments, *charge, "--out", tmp_path / "out.csv"]
    result = CliRunner().invoke(app, [str(part) for part in command])
    assert result.exit_code == 2
    assert "binary column 'blob'" in result.stderr
    release = Dataset(str(rows), "user").group_by("blob", max_groups=1, max_rows_per_group=1).count().release(9, 1e-4)
    with pytest.raises(TypeError, match="binary column 'blob'"):
        release.to_csv(tmp_path / "out.csv")
    release.to_parquet(tmp_path / "out.parquet")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("money", "money"),
        ("numeric(500, 400)", "at most 38 digits"),
        ("numeric", "precision"),
        ("interval", "interval"),
    ],
)
def test_keys_of_postgres(ledger, postgres_tables, column, message):
    with psycopg.connect(postgres_tables, autocommit=True) as connection:
        name = f"t_{abs(hash(column))}"
        connection.execute(f"CREATE TABLE {name} (person bigint, key {column})")
    data = Dataset(postgres_tables, "person", table=name, ledger=ledger, dataset="rides")
    with pytest.raises(TypeError, match=message):
        data.group_by("key", max_groups=1, max_rows_per_group=1).count().release(**PRICE)
    if column == "money":
        with pytest.raises(TypeError, match="column: column 'key' is of type money"):
            data.group_by(max_rows_per_group=1).sum("key", (0, 1))
        with pytest.raises(TypeError, match="privacy_unit: column 'key' is of type money"):
            Dataset(postgres_tables, "key", table=name)
    data.close()


def test_what_duckdb_postgres_and_spark_do_not_understand(ledger, engine_of, postgres_tables):
    """A table that is gone, a permission that is missing: the engine says so before the charge."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE gone AS SELECT 1 AS person, 2 AS key")
    sources = [(connection, connection.execute)]
    postgres = psycopg.connect(postgres_tables, autocommit=True)
    postgres.execute("CREATE TABLE gone AS SELECT 1 AS person, 2 AS key")
    sources.append((postgres_tables, postgres.execute))
    for source, execute in sources:
        data = Dataset(source, "person", table="gone", ledger=ledger, dataset="rides")
        query = data.group_by("key", max_groups=1, max_rows_per_group=1, public_keys=[1, 2]).count()
        execute("DROP TABLE gone")
        with pytest.raises(ValueError, match="nothing was charged"):
            query.release(**PRICE)
    postgres.close()
    spark = engine_of("spark").store(pa.table({"person": [1], "key": [2]}))
    query = Dataset(spark, "person", ledger=ledger, dataset="rides").group_by("key", max_groups=1, max_rows_per_group=1)
    spark.connection.catalog.dropTempView(spark.text.strip("`"))
    with pytest.raises(ValueError, match="nothing was charged"):
        query.count().release(**PRICE)


def test_a_driver_that_gives_no_rows_is_noticed_before_the_charge(ledger, monkeypatch):
    """As one of another version might: the query is rehearsed on no rows."""

    def fail(engine, connection, sql, schema):
        raise AttributeError("no such method")

    data = Dataset(pa.table({"person": [1], "key": [2]}), "person", ledger=ledger, dataset="rides")
    query = data.group_by("key", max_rows=1, public_keys=[1, 2]).count()
    monkeypatch.setattr(type(data.engine), "fetch", fail)
    with pytest.raises(ValueError, match="the engine cannot run this query, nothing was charged: no such method"):
        query.release(**PRICE)
    assert ledger.spent("rides").releases == 0


def test_an_engine_that_is_too_old_is_refused_before_the_charge(ledger, monkeypatch):
    data = Dataset(pa.table({"person": [1], "key": [2]}), "person", ledger=ledger, dataset="rides")
    query = data.group_by("key", max_rows=1, public_keys=[1, 2]).count()
    for version, is_refused in {
        "v1.4.9": True,
        "v1.5.1": True,
        "1.5.2": False,
        "v1.5.2-dev12": False,
        "v2.0.1": False,
    }.items():
        monkeypatch.setattr(type(data.engine), "versions", lambda engine, connection, told=version: {"DuckDB": told})
        with contextlib.ExitStack() as refused:
            if is_refused:
                words = rf"DuckDB {version} is too old: osgt needs 1.5.2 or newer, and nothing was charged"
                refused.enter_context(pytest.raises(ValueError, match=words))
            query.check_release(query.plan(**PRICE))
    assert ledger.spent("rides").releases == 0


def test_the_oldest_versions_are_those_that_the_package_asks_for():
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = {line.replace("[binary]", "") for extra in ("tables", "spark", "postgres") for line in extras[extra]}
    for engine, package in (("duckdb", "DuckDB"), ("spark", "PySpark"), ("postgres", "psycopg")):
        assert f"{package.lower()}>={engine_named(engine).oldest[package]}" in asked


def test_a_rehearsal_reads_no_row(postgres_tables):
    """Of views that fail at their first row: that is noticed when rows are read, and not before."""
    broken = "SELECT 1 AS person, CAST(CAST(number AS varchar) || 'x' AS integer) AS key FROM numbers"
    connection = duckdb.connect()
    postgres = psycopg.connect(postgres_tables, autocommit=True)
    for source, execute in ((connection, connection.execute), (postgres_tables, postgres.execute)):
        execute("CREATE TABLE numbers AS SELECT 1 AS number")
        execute(f"CREATE VIEW broken AS {broken}")
        query = Dataset(source, "person", table="broken").group_by("key", max_rows=1, public_keys=[1, 2]).count()
        query.check_release(query.plan(**PRICE))
        with pytest.raises(NothingReleasedError):
            query.release(**PRICE)
    postgres.close()


LARGEST = 2**61 + 2**62

#: The widest and the narrowest bounds that each kind of column takes.
ENDS = {
    "int64": [(0, 1), (-(2**63), 2**63), (0, 10**28)],
    "float64": [(0, 1e-270), (-1e270, 1e270)],
    "decimal(38, 0)": [(0, 1), (0, 2 * 10**28)],
    "decimal(38, 38)": [(0, 1), (Decimal("1e-38"), Decimal("2e-38"))],
    "decimal(38, 9)": [(0, Decimal("1e-9")), (0, 2 * 10**28)],
}


@pytest.mark.parametrize("dtype", ENDS)
def test_what_is_not_refused_can_be_shown(dtype):
    """The largest sums there are, with the largest noise, at the ends of what bounds may be: all columns come out."""
    for bounds in ENDS[dtype]:
        grid_of("v", column_type(dtype), bounds)
        data = Dataset(pa.table({"person": [1], "v": pa.nulls(1, column_type(dtype).arrow)}), "person")
        query = data.group_by(max_rows_per_group=1).sum("v", bounds).mean("v", bounds)
        plan = query.plan(1, 1e-6)
        noisy = plan.noisy({m: np.array([[LARGEST], [-LARGEST], [0]]) for m in plan.parts}, nonnegative=False)
        for aggregate in plan.aggregates:
            for name, column in aggregate.columns(noisy).items():
                # Nothing is known of the mean of a group without rows.
                assert column.null_count == (name == "v_mean")
                assert all(abs(float(number)) < float("inf") for number in column.drop_null().to_pylist())


class TestWarnings:
    @pytest.mark.parametrize(
        ("budget", "word"),
        [
            ((11, 1e-6), "ε = 11 is very large"),
            ((1, 2e-3), "δ = 0.002 is very large"),
            ((1e-5, 1e-5), "probably be empty"),
        ],
    )
    def test_in_plan_statement_and_command(self, rows, budget, word, tmp_path):
        query = Dataset(str(rows), "user").group_by("city", max_groups=1, max_rows_per_group=1).count()
        plan = query.plan(*budget)
        (warning,) = plan.warnings
        assert word in warning
        assert f"Warning: {warning}" in str(plan)
        assert plan.to_dict()["warnings"] == [warning]
        statement = query.release(*budget).statement
        assert f"Warning: {warning}" in str(statement)
        assert statement.to_dict()["warnings"][0] == warning  # another one, about the noise, may follow
        toml = tmp_path / "query.toml"
        toml.write_text(
            f'[data]\nsource = "{rows}"\nprivacy_unit = "user"\n[groups]\nby = ["city"]\nmax_groups = 1\n'
            f'max_rows_per_group = 1\n[[aggregates]]\nkind = "count"\n[budget]\nepsilon = {budget[0]}\n'
            f"delta = {budget[1]}\n"
        )
        for command in (("release",), ("release", "--json"), ("plan", "--json")):
            result = CliRunner(env={"COLUMNS": "400"}).invoke(app, [*command, "--query", str(toml)])
            assert result.exit_code == 0, result.output
            assert f"Warning: {warning}" in result.stderr.replace("groups.", "")  # the keys of the file
        if "empty" not in word:
            command = ["plan", "--epsilon", budget[0], "--delta", budget[1], "--coordinates", 1]
            assert word in CliRunner(env={"COLUMNS": "400"}).invoke(app, [str(part) for part in command]).stderr

    def test_none_as_a_rule(self, rows):
        query = Dataset(str(rows), "user").group_by("city", max_groups=1, max_rows_per_group=1).count()
        for budget in ((10, 1e-3), (1, 1e-6), (0.01, 1e-9)):
            assert query.plan(*budget).warnings == ()
