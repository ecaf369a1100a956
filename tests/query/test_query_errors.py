"""Everything that can be wrong with a query: the error names the argument, and nothing is read, reserved or written."""

import datetime
import math
from decimal import Decimal

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

from osgt import Dataset
from osgt.release.measuring import NothingReleasedError
from spies import READ, SpyLedger, people

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def ledger():
    spy = SpyLedger()
    yield spy
    assert spy.calls == []


@pytest.fixture
def data(ledger):
    """Rows that cannot be read, with a ledger that must not be touched."""
    return people(ledger=ledger, dataset="people")


@pytest.fixture
def groups(data):
    return data.group_by("city", max_groups=3, max_rows_per_group=2)


def test_the_rows_really_cannot_be_read():
    """The other tests mean something: a query without a mistake runs into the error."""
    spy = SpyLedger()
    data = people(ledger=spy, dataset="people")
    query = data.group_by("city", max_groups=3, max_rows_per_group=2).count()
    with pytest.raises(NothingReleasedError) as caught:
        query.release(**BUDGET)
    assert READ in str(caught.value.__cause__)
    with pytest.raises(duckdb.InvalidInputException, match=READ):
        query.preview()
    assert spy.names == ["reserve", "reading"]


class TestColumns:
    @pytest.mark.parametrize("method", ["sum", "mean", "variance"])
    def test_no_such_column(self, groups, method):
        with pytest.raises(
            ValueError, match=r"there is no column 'fair' \(did you mean 'fare'\?\); the table has 'unit'"
        ):
            getattr(groups, method)("fair", bounds=(0, 1))

    def test_no_such_column_in_a_histogram(self, groups):
        with pytest.raises(ValueError, match="column: there is no column 'fair'"):
            groups.histogram("fair", edges=[0, 1])

    @pytest.mark.parametrize("method", ["sum", "mean", "variance"])
    @pytest.mark.parametrize("column", ["city", "tags"])
    def test_no_numbers(self, groups, method, column):
        with pytest.raises(TypeError, match=f"column '{column}' must hold numbers"):
            getattr(groups, method)(column, bounds=(0, 1))

    @pytest.mark.parametrize("column", ["city", "tags", "member"])
    def test_no_numbers_in_a_histogram(self, groups, column):
        with pytest.raises(TypeError, match=f"column '{column}' must hold numbers"):
            groups.histogram(column, edges=[0, 1])

    @pytest.mark.parametrize("column", [None, 3, ("fare",)])
    def test_not_a_name(self, groups, column):
        with pytest.raises(TypeError, match="column must be the name of a column"):
            groups.sum(column, bounds=(0, 1))

    def test_missing_is_skip_or_centre(self, groups):
        with pytest.raises(ValueError, match="missing must be"):
            groups.mean("fare", bounds=(0, 1), missing="zero")


class TestBounds:
    @pytest.mark.parametrize("method", ["sum", "mean", "variance"])
    @pytest.mark.parametrize(
        ("bounds", "error", "message"),
        [
            ((1, 0), ValueError, "the lower one and then the upper one, got 1 and 0"),
            ((1, 1), ValueError, "the lower one and then the upper one"),
            ((math.nan, 1), ValueError, "finite"),
            ((0, math.inf), ValueError, "finite"),
            ((Decimal("-Infinity"), 0), ValueError, "finite"),
            (("0", "1"), TypeError, "two numbers"),
            ((0,), TypeError, "two numbers"),
            ((0, 1, 2), TypeError, "two numbers"),
            (5, TypeError, "two numbers"),
            ("05", TypeError, "two numbers"),
            ((False, True), TypeError, "two numbers"),
            ((0, 10**400), ValueError, "too far"),
            ((0, 1e300), ValueError, "too far"),
        ],
        ids=repr,
    )
    def test_bounds(self, groups, method, bounds, error, message):
        with pytest.raises(error, match=f"bounds of 'fare' .*{message}"):
            getattr(groups, method)("fare", bounds=bounds)

    def test_whole_numbers_need_two_between_the_bounds(self, groups):
        with pytest.raises(ValueError, match="bounds of 'rides' must leave room for two whole numbers"):
            groups.sum("rides", bounds=(0.2, 1.7))

    @pytest.mark.parametrize("method", ["mean", "variance"])
    def test_bounds_that_floats_cannot_tell_apart(self, groups, method):
        with pytest.raises(ValueError, match="bounds of 'fare' are too close to each other"):
            getattr(groups, method)("fare", bounds=(1e18, 1e18 + 256))

    @pytest.mark.parametrize("total", [0, -5, math.nan, math.inf, "5", True])
    def test_total(self, groups, total):
        with pytest.raises((ValueError, TypeError), match="max_total of 'fare' must be"):
            groups.sum("fare", max_total=total)

    def test_bounds_and_a_total(self, groups):
        with pytest.raises(ValueError, match="bounds and max_total both limit a sum"):
            groups.sum("fare", bounds=(0, 1), max_total=5)


class TestEdges:
    @pytest.mark.parametrize(
        ("edges", "error"),
        [
            ([3, 1, 2], ValueError),
            ([1, 1], ValueError),
            ([1], ValueError),
            ([], ValueError),
            ([0, math.nan], ValueError),
            ([0, math.inf], ValueError),
            (["a", "b"], TypeError),
            ([False, True], TypeError),
            ("abc", TypeError),
            (7, TypeError),
            (None, TypeError),
        ],
        ids=repr,
    )
    def test_edges(self, groups, edges, error):
        with pytest.raises(error, match="edges of 'fare' must be"):
            groups.histogram("fare", edges)


class TestGroups:
    def test_the_unit(self, ledger):
        con = people().table.connection
        for unit, error, message in (
            ("user", ValueError, "privacy_unit: there is no column 'user'"),
            (None, TypeError, "privacy_unit must be the name of a column"),
            ("fare", TypeError, "privacy_unit: column 'fare' of type float64"),
            ("tags", TypeError, "privacy_unit: column 'tags'"),
        ):
            with pytest.raises(error, match=message):
                Dataset(con, unit, table="people", ledger=ledger, dataset="people")

    @pytest.mark.parametrize(
        ("columns", "error", "message"),
        [
            (("town",), ValueError, "group_by: there is no column 'town'"),
            (("fare",), TypeError, "group_by: column 'fare' of type float64"),
            (("tags",), TypeError, "group_by: column 'tags'"),
            ((5,), TypeError, "group_by must be the name of a column"),
            (("city", "city"), ValueError, "group_by: each column once"),
        ],
    )
    def test_keys(self, data, columns, error, message):
        with pytest.raises(error, match=message):
            data.group_by(*columns, max_groups=3, max_rows_per_group=2)

    @pytest.mark.parametrize("bad", [0, -1, True, 2.0, "2", math.nan])
    def test_bounds_are_whole_numbers_from_1(self, data, bad):
        with pytest.raises((ValueError, TypeError), match="max_groups must be an integer ≥ 1"):
            data.group_by("city", max_groups=bad, max_rows_per_group=2)
        with pytest.raises((ValueError, TypeError), match="max_rows_per_group must be an integer ≥ 1"):
            data.group_by("city", max_groups=2, max_rows_per_group=bad)
        with pytest.raises((ValueError, TypeError), match="max_rows must be an integer ≥ 1"):
            data.group_by("city", max_rows=bad)

    def test_limits_are_at_most_a_million(self, data):
        for name in ("max_rows", "max_groups", "max_rows_per_group"):
            with pytest.raises(ValueError, match=f"{name} must be at most 1,048,576"):
                data.group_by("city", **{name: 10**9})

    def test_rows_are_limited_once(self, data):
        with pytest.raises(ValueError, match="max_rows and max_rows_per_group both limit the rows of a unit"):
            data.group_by("city", max_rows=3, max_rows_per_group=2)

    @pytest.mark.parametrize(
        "ask",
        [
            lambda q: q.count(),
            lambda q: q.sum("fare", bounds=(0, 1)),
            lambda q: q.mean("fare", bounds=(0, 1)),
            lambda q: q.variance("fare", bounds=(0, 1)),
            lambda q: q.histogram("fare", edges=[0, 1]),
            lambda q: q.sum("fare"),
            lambda q: q.mean("fare"),
        ],
    )
    def test_too_few_units_to_choose_limits(self, ledger, ask):
        data = people(ledger=ledger, dataset="people", units=20)
        for columns in (("city",), ()):
            query = ask(data.group_by(*columns, max_groups=1).count_units())
            for act in (query.plan, query.release):
                with pytest.raises(ValueError, match=r"with about 20 units, ε = 1 is too little .*; give max_"):
                    act(epsilon=1, delta=1e-6)
            with pytest.raises(ValueError, match=r"epsilon = 1 is too little to choose .* with about 20 units"):
                query.choose_limits(1)

    def test_nothing_to_choose(self, groups):
        with pytest.raises(ValueError, match="all limits that the query needs are given"):
            groups.count().choose_limits(1)

    @pytest.mark.parametrize("bad", [0, -1, math.nan, "1", True])
    def test_the_budget_of_a_choice(self, data, bad):
        query = data.group_by("city").count()
        with pytest.raises((ValueError, TypeError), match="epsilon must be"):
            query.choose_limits(bad)
        with pytest.raises((ValueError, TypeError), match="release_epsilon must be"):
            query.choose_limits(1, release_epsilon=bad)

    def test_an_interval_with_open_limits(self, data):
        with pytest.raises(ValueError, match="interval: how wide it is depends on limits that are open"):
            data.group_by("city").count().plan(interval=5, delta=1e-6)

    def test_without_groups_there_is_nothing_to_bound(self, data):
        with pytest.raises(ValueError, match="max_groups must be left out"):
            data.group_by(max_groups=2, max_rows_per_group=1)
        with pytest.raises(ValueError, match="public_keys must be left out"):
            data.group_by(max_rows_per_group=1, public_keys=["a"])


class TestPublicKeys:
    @pytest.mark.parametrize(
        ("keys", "error", "message"),
        [
            (5, TypeError, "must be a list, a dict of lists, a frame or the path"),
            (iter(["a"]), TypeError, "must be a list"),
            ([], ValueError, "at least one key"),
            (["a", "b", "a"], ValueError, "each key once"),
            ([("a", 1)], ValueError, "tuples of 1 values"),
            (["a", 5], TypeError, "one type in each column"),
            ([2**70], TypeError, "one type in each column"),
            ([datetime.date(2020, 1, 1), "a"], TypeError, "one type in each column"),
            ({"town": ["a"]}, ValueError, "a list for each key"),
            ({"city": "a,b,a"}, ValueError, "each key once"),
            ({"city": 7}, TypeError, "a list for 'city'"),
            (pa.table({"town": ["a"]}), ValueError, "must have the columns of the keys"),
            (pa.table({"city": ["a"], "more": [1]}), ValueError, "must have the columns of the keys"),
            (pa.table({"city": [["a"]]}), ValueError, "column 'city' must hold text"),
        ],
        ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
    )
    def test_public_keys(self, data, keys, error, message):
        with pytest.raises(error, match=f"public_keys.*{message}"):
            data.group_by("city", max_groups=3, max_rows_per_group=2, public_keys=keys)

    @pytest.mark.parametrize(
        ("column", "keys", "words"),
        [
            ("month", ["January"], "whole numbers"),
            ("month", ["1"], "whole numbers"),
            ("month", [1.5], "whole numbers"),
            ("month", [1.0], "whole numbers"),
            ("month", [True], "whole numbers"),
            ("month", [2**40], "whole numbers"),
            ("city", [1, 2], "text"),
            ("city", [1.0], "text"),
            ("city", [True], "text"),
            ("city", [datetime.date(2020, 1, 1)], "text"),
            ("city", [b"Rome"], "text"),
            ("member", [1, 0], "truth values"),
            ("member", ["true"], "truth values"),
            ("tip", [1.5], r"values of type decimal\(9, 2\)"),
            ("tip", ["1.5"], r"values of type decimal\(9, 2\)"),
            ("tip", [Decimal("1.555")], r"values of type decimal\(9, 2\)"),
        ],
        ids=repr,
    )
    def test_values_of_another_type(self, data, column, keys, words):
        """None is turned into something else: 1 is not "1", and no group would be the one that was meant."""
        for given in (keys, {column: keys}, pa.table({column: keys}), polars.DataFrame({column: keys})):
            with pytest.raises(ValueError, match=f"public_keys: column '{column}' must hold {words}"):
                data.group_by(column, max_groups=3, max_rows_per_group=2, public_keys=given)

    def test_a_text_with_commas_is_read_in_the_types_of_the_data(self, data):
        def keys_of(column, text):
            return data.group_by(column, max_groups=3, public_keys={column: text}).groups.public[column].to_pylist()

        assert keys_of("city", "Rome") == ["Rome"]
        assert keys_of("city", 'Rome, "Bern, West",1') == ["Rome", "Bern, West", "1"]
        assert keys_of("month", "1,2, 3") == [1, 2, 3]
        assert keys_of("member", "true,false") == [True, False]
        assert keys_of("tip", "1.5,2") == [Decimal("1.50"), Decimal("2.00")]
        for text in ("1,x", "1.5", "1,,2"):
            with pytest.raises(ValueError, match="public_keys: column 'month' must hold whole numbers"):
                keys_of("month", text)

    def test_a_file_is_read_in_the_types_of_the_data(self, data, tmp_path):
        keys = tmp_path / "keys.csv"
        keys.write_text("month\n1\n2\n")
        public = data.group_by("month", max_groups=3, public_keys=keys).groups.public
        assert public.to_pylist() == [{"month": 1}, {"month": 2}]
        keys.write_text('city\n1\n01\n\n""\n')
        public = data.group_by("city", max_groups=3, public_keys=keys).groups.public
        assert public["city"].to_pylist() == ["1", "01", ""]
        for text in ("month\n1\nx\n", "month\n1.5\n", "month\n99999999999\n"):
            keys.write_text(text)
            with pytest.raises(ValueError, match="public_keys: column 'month' must hold whole numbers"):
                data.group_by("month", max_groups=3, public_keys=keys)

    def test_no_such_file(self, data, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"public_keys: there is no file .*keys\.csv"):
            data.group_by("city", max_groups=3, max_rows_per_group=2, public_keys=tmp_path / "keys.csv")

    def test_duplicates_are_found_after_the_cast(self, data, tmp_path):
        keys = tmp_path / "keys.csv"
        keys.write_text("month\n1\n01\n")
        with pytest.raises(ValueError, match="each key once"):
            data.group_by("month", max_groups=3, max_rows_per_group=2, public_keys=keys)


class TestNames:
    def test_a_name_is_taken_once(self, groups):
        with pytest.raises(ValueError, match="name: there is a column 'count' already"):
            groups.count().count()
        with pytest.raises(ValueError, match="name: there is a column 'city' already"):
            groups.count(name="city")
        with pytest.raises(ValueError, match="name: there is a column 'count_low' already"):
            groups.count().sum("fare", bounds=(0, 1), name="count_low")
        with pytest.raises(ValueError, match="name: there is a column 'x_low' already"):
            groups.count(name="x_low").count_units(name="x")
        with pytest.raises(ValueError, match="name: there is a column 'fare_1_to_2' already"):
            groups.count(name="fare_1_to_2").histogram("fare", edges=[0, 1, 2])

    @pytest.mark.parametrize("name", [5, "", b"count", True])
    def test_a_name_is_text(self, groups, name):
        with pytest.raises(TypeError, match="name must be the name of a column"):
            groups.count(name=name)
        with pytest.raises(TypeError, match="name must be the name of a column"):
            groups.sum("fare", bounds=(0, 1), name=name)

    @pytest.mark.parametrize("weight", [0, -1, math.nan, math.inf, "2", True, None])
    def test_weights_are_positive(self, groups, weight):
        with pytest.raises((ValueError, TypeError), match="weight must be a finite number > 0"):
            groups.count(weight=weight)


class TestBudget:
    @pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "1", True, 1e-12, 1e9])
    def test_epsilon(self, groups, epsilon):
        for act in (groups.count().plan, groups.count().release):
            with pytest.raises((ValueError, TypeError), match="epsilon must be"):
                act(epsilon, 1e-6)

    @pytest.mark.parametrize("delta", [-1e-9, 1, 1.05, 2, math.nan, math.inf, "1e-6", True, 1e-310])
    def test_delta(self, groups, delta):
        """1.05 is less than one after the share of the selection is taken off, and still no probability."""
        for act in (groups.count().plan, groups.count().release):
            with pytest.raises((ValueError, TypeError), match="delta must be"):
                act(1, delta)

    def test_pure_privacy_cannot_choose_groups(self, groups):
        for act in (groups.count().plan, groups.count().release):
            with pytest.raises(ValueError, match=r"delta must be above 0 .* public_keys"):
                act(1, 0)

    def test_no_budget(self, groups):
        with pytest.raises(ValueError, match="delta must be given"):
            groups.count().plan(1)
        for arguments in ({}, {"epsilon": 1, "interval": 5}):
            with pytest.raises(ValueError, match=r"one of epsilon .* and interval"):
                groups.count().plan(delta=1e-6, **arguments)

    @pytest.mark.parametrize("confidence", [-0.1, 0, 1, 1.5, math.nan, "0.95", True])
    def test_confidence(self, groups, confidence):
        with pytest.raises((ValueError, TypeError), match="confidence must be"):
            groups.count().plan(1, 1e-6, confidence=confidence)
        with pytest.raises((ValueError, TypeError), match="confidence must be"):
            groups.count().release(1, 1e-6, confidence=confidence)

    @pytest.mark.parametrize("interval", [0, -5, math.nan, "5"])
    def test_interval(self, groups, interval):
        with pytest.raises((ValueError, TypeError), match="interval must be"):
            groups.count().plan(interval=interval, delta=1e-6)

    def test_the_interval_is_of_a_count_or_a_sum(self, groups):
        query = groups.count().mean("fare", bounds=(0, 1))
        for column in ("fare_mean", "fare"):
            with pytest.raises(ValueError, match=r"column must name a count or a sum .*\['count'\]"):
                query.plan(interval=5, delta=1e-6, column=column)

    def test_nothing_asked_for(self, groups):
        for act in (lambda: groups.plan(1, 1e-6), lambda: groups.release(1, 1e-6), groups.preview):
            with pytest.raises(ValueError, match="the query must ask for something"):
                act()


class TestConditions:
    @pytest.mark.parametrize(
        ("condition", "error"),
        [
            ("fare >", ValueError),
            ("", ValueError),
            ("fair > 3", ValueError),
            ("SELECT 1", ValueError),
            ("fare > 3; DROP VIEW people", ValueError),
            ("fare > (SELECT 1)", ValueError),
            ("unit IN (SELECT unit FROM people)", ValueError),
            ("fare > avg(fare)", ValueError),
            ("row_number() OVER () < 5", ValueError),
            (lambda t: t.fare, TypeError),
            (5, TypeError),
            (None, TypeError),
        ],
        ids=lambda value: value if isinstance(value, str) else None,
    )
    def test_where(self, data, condition, error):
        with pytest.raises(error, match="where: "):
            data.where(condition)

    def test_conditions_on_one_row_are_fine(self, data):
        assert "fare" in data.where("fare > 3 AND city LIKE 'B%'").filters[0].text

    def test_columns_of_a_frame_are_no_condition_and_are_not_printed(self, data):
        secret = pd.Series([987654321, 1])
        for condition in (secret > 3, secret, pa.array([987654321])):
            with pytest.raises(TypeError, match="where: it must be SQL in quotes") as error:
                data.where(condition)
            assert "987654321" not in str(error.value)


class TestSources:
    @pytest.mark.parametrize("source", [None, 5, [1, 2], {"unit": [1]}, object(), b"people.parquet"])
    def test_wrong_types(self, source):
        with pytest.raises(TypeError, match="source must be a path"):
            Dataset(source, "unit")

    @pytest.mark.parametrize("name", ["missing.parquet", "missing.csv", "miss*.parquet", "missing.duckdb"])
    def test_missing_files(self, tmp_path, name):
        with pytest.raises(FileNotFoundError, match="source: there is no"):
            Dataset(str(tmp_path / name), "unit")
        with pytest.raises(FileNotFoundError, match="source: there is no"):
            Dataset(tmp_path / name, "unit")

    @pytest.mark.parametrize("name", ["people.txt", "people", "https://example.org/people.parquet"])
    def test_what_is_no_table(self, name):
        with pytest.raises(ValueError, match="source must be a"):
            Dataset(name, "unit")

    def test_engines(self):
        with pytest.raises(ValueError, match="engine must be duckdb, postgres or spark, got 'oracle'"):
            Dataset("people.parquet", "unit", engine="oracle")
        with pytest.raises(ValueError, match="source must be a URL postgresql"):
            Dataset("people.parquet", "unit", engine="postgres")
        with pytest.raises(
            ValueError, match=r"source must be a path .* for engine duckdb; got 'postgresql://localhost"
        ):
            Dataset("postgresql://localhost/people", "unit", engine="duckdb")

    def test_tables_of_databases(self, tmp_path):
        connection = people().table.connection
        with pytest.raises(ValueError, match="table must be given"):
            Dataset(connection, "unit")
        with pytest.raises(ValueError, match="table: there is no table 'persons'"):
            Dataset(connection, "unit", table="persons")
        path = tmp_path / "people.parquet"
        pyarrow.parquet.write_table(pa.table({"unit": [1]}), path)
        with pytest.raises(ValueError, match="table is for databases"):
            Dataset(str(path), "unit", table="people")

    def test_neighbours(self):
        with pytest.raises(ValueError, match=r"neighbours must be one of \['add_remove', 'change_one'\]"):
            people(neighbours="replace")


class TestLedger:
    def test_ledger_and_dataset_go_together(self):
        with pytest.raises(ValueError, match=r"ledger and dataset .* must be given together"):
            people(ledger=SpyLedger())
        with pytest.raises(ValueError, match=r"ledger and dataset .* must be given together"):
            people(dataset="people")

    def test_what_is_no_ledger(self):
        with pytest.raises(TypeError, match="ledger must be a Ledger"):
            people(ledger=["budget.db"], dataset="people")
