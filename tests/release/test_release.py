"""Releases: the planned noise and nothing else, honest columns, whole files, and a ledger that is asked first."""

import csv
import datetime
import hashlib
import json
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy import stats

from goodness import FALSE_ALARM, chi_square, five_percent_wider, moments
from osgt import Dataset, Ledger
from osgt.api import publish
from osgt.estimation.intervals import PARTS_OF_ONE
from osgt.ledger.headroom import scale_noise
from osgt.plan.plan import Plan
from osgt.privacy import Charge
from osgt.query.measures import Centred, CentredSum, ClippedSum, Rows, Units
from osgt.release.measuring import NothingReleasedError, noisy_numbers
from plain_tables import STEPS
from spies import READ, SpyLedger, people, watch_reading

GROUPS = 60_000

#: |correlation|·√n beyond this has a probability of about 1e-9.
FAR = stats.norm.isf(FALSE_ALARM / 2)


def rides():
    """A few rides of a few people in two cities."""
    return pa.table(
        {
            "user": [1, 1, 2, 3, 3, 4],
            "city": ["Rome", "Bern", "Rome", "Rome", "Bern", "Bern"],
            "rides": [1, 2, 3, 4, 5, 6],
            "fare": [1.5, 2.5, 3.25, 4.0, 5.0, 6.0],
            "tip": pa.array(
                [Decimal("0.10"), Decimal("0.20"), None, Decimal("1.00"), Decimal("2.50"), Decimal("0.05")]
            ),
        }
    )


def small_query(**options):
    data = Dataset(rides(), "user", **options)
    return data.group_by("city", max_groups=2, max_rows_per_group=1, public_keys=["Rome", "Bern", "Oslo"])


@pytest.fixture(scope="module")
def release():
    """One release of every kind of column."""
    query = small_query().count().sum("rides", (0, 9)).sum("fare", (0, 9)).sum("tip", (0, 9)).mean("fare", (0, 9))
    return query.variance("rides", (0, 9)).histogram("rides", [0, 3, 9]).release(1, 1e-6, intervals="noise")


class TestNoise:
    @pytest.fixture(scope="class")
    @staticmethod
    def noise():
        """What a release adds, in steps: for two releases of the same data, a column for each number."""
        n = GROUPS
        rows = pa.table(
            {
                "user": np.arange(n),
                "city": np.arange(n),
                "rides": np.arange(n) % 7,
                "fare": (np.arange(n) % 5) * 0.25,
            }
        )
        # A unit has one row where two are allowed, which is worth half of its steps.
        worth = STEPS // 2
        # As many groups as make the tests sharp, and one without rows for every group with.
        keys = pa.table({"city": np.arange(2 * n)})
        query = Dataset(rows, "user").group_by("city", max_groups=1, max_rows_per_group=2, public_keys=keys)
        query = query.count().count_units().sum("rides", (0, 9)).sum("fare", (0, 4)).histogram("rides", [0, 4, 9])
        exact = {
            "count": np.ones(n),
            "count_units": np.ones(n),
            "rides_sum": np.arange(n) % 7,
            "fare_sum": (np.arange(n) % 5) * 0.25,
            "rides_0_to_4": np.arange(n) % 7 < 4,
            "rides_4_to_9": np.arange(n) % 7 >= 4,
        }
        measured = []
        with pytest.MonkeyPatch.context() as patch:
            whole = Plan.noisy
            patch.setattr(Plan, "noisy", lambda plan, values, **o: measured.append(values) or whole(plan, values, **o))
            releases = [query.release(2, 1e-6) for _ in range(2)]
        plan = releases[0].plan
        asked = {name: aggregate for aggregate in plan.aggregates for name in aggregate.names}
        truths = {}
        for name, truth in exact.items():
            step = 2.0**-19 if name == "fare_sum" else 1
            measure, column = asked[name].measures[0], np.concatenate([truth, np.zeros(n)]) / step
            truths.setdefault(measure, []).append(column.astype(np.int64))
            for values, release in zip(measured, releases, strict=True):
                # Floats lie on their grid; what is shown is the nearest whole number, up or down if there are two, of
                # the nearest number of parts of one.
                parts, place = plan.noise.scheme.combined[measure], asked[name].names.index(name)
                total = sum(float(part) * values[each][:, place] for each, part in parts.items())
                assert np.all(
                    np.abs(release.to_arrow()[name].to_numpy() / step - total) <= 0.5 + 0.5 / PARTS_OF_ONE + 1e-6
                )

        def added(measure):
            """What was to be measured, without noise."""
            if isinstance(measure, Centred):
                return [measure.times * added(measure.base)[0] - measure.by * added(measure.on)[0]]
            if isinstance(measure, CentredSum):
                summed, present = added(ClippedSum(measure.column, measure.grid))[0], np.repeat([1, 0], n)
                return [2 * summed - (measure.grid.low + measure.grid.high) * present]
            return truths[measure] if measure in truths else [np.repeat([1, 0], n)]

        def in_steps(measure, numbers):
            """The numbers as they are summed: of weighted rows in steps, rounded toward 0."""
            if not plan.groups.is_weighted(measure):
                return numbers
            return np.sign(numbers) * (worth * np.abs(numbers) // measure.largest)

        found = [
            {
                (measure.words, i): numbers[:, i] - in_steps(measure, truth)
                for measure, numbers in values.items()
                for i, truth in enumerate(added(measure))
            }
            for values in measured
        ]
        return {(measure.words, i): plan.laws[measure] for measure in plan.laws for i in range(2)}, found

    def test_the_planned_distribution(self, noise):
        """In groups with rows and in those without; a scale that is 5 % off is rejected."""
        laws, releases = noise
        assert len(releases[0]) == 6
        for name, draws in releases[0].items():
            law = laws[name]
            for part in (draws[:GROUPS], draws[GROUPS:]):
                assert moments(part, law) > FALSE_ALARM
                assert moments(part, five_percent_wider(law)) < FALSE_ALARM
            assert chi_square(draws, law) > FALSE_ALARM

    def test_independent_columns_and_groups_and_fresh_every_time(self, noise):
        _, (first, second) = noise

        def far_apart(x, y):
            return abs(np.corrcoef(x, y)[0, 1]) * np.sqrt(len(x)) < FAR

        names = list(first)
        for i, name in enumerate(names):
            draws = first[name].astype(float)
            assert far_apart(draws, second[name])
            assert far_apart(draws[:-1], draws[1:])
            assert far_apart(draws[:GROUPS], draws[GROUPS:])
            assert all(far_apart(draws, first[other]) for other in names[:i])
            assert all(far_apart(np.abs(draws), np.abs(first[other])) for other in names[:i])
        # Power: a tenth of shared noise is seen.
        one, other = (each[names[0]].astype(float) for each in (first, second))
        assert not far_apart(one, other + 0.1 * one)

    def test_the_measures_behind_means_and_variances(self):
        """Counts of values, centred sums and squares are never shown; their noise is looked at where it is added."""
        query = people().group_by(max_rows_per_group=1).mean("rides", (0, 8)).variance("rides", (0, 8))
        plan = query.plan(2, 1e-6)
        exact = {measure: np.full((GROUPS, 1), 1000) for measure in plan.parts}
        shown, noisy = noisy_numbers(plan, exact)
        assert shown.all()
        assert len(noisy) == 3
        for measure, values in noisy.items():
            draws = values[:, 0] - 1000
            assert moments(draws, plan.laws[measure]) > FALSE_ALARM
            assert moments(draws, five_percent_wider(plan.laws[measure])) < FALSE_ALARM
            assert chi_square(draws, plan.laws[measure]) > FALSE_ALARM


class TestColumns:
    def test_names(self, release):
        names = [
            "count",
            "rides_sum",
            "fare_sum",
            "tip_sum",
            "fare_mean",
            "rides_variance",
            "rides_0_to_3",
            "rides_3_to_9",
        ]
        expected = [name + suffix for name in names for suffix in ("", "_low", "_high")]
        assert release.to_arrow().column_names == ["city", *expected]

    def test_names_of_ones_own(self):
        query = small_query().count(name="n").sum("rides", (0, 9), name="total").histogram("rides", [0, 5], name="h")
        names = query.release(1, 1e-6).to_arrow().column_names
        assert names == [
            "city",
            "n",
            "n_low",
            "n_high",
            "total",
            "total_low",
            "total_high",
            "h_0_to_5",
            "h_0_to_5_low",
            "h_0_to_5_high",
        ]

    def test_kinds(self, release):
        schema = release.to_arrow().schema
        for name in ("count", "rides_sum", "rides_0_to_3"):
            assert all(schema.field(name + suffix).type == pa.int64() for suffix in ("", "_low", "_high"))
        assert schema.field("tip_sum").type == pa.decimal128(38, 2)
        for name in ("fare_sum", "fare_mean", "rides_variance"):
            assert schema.field(name).type == pa.float64()
        assert schema.field("city").type == pa.string()

    def test_floats_are_on_their_grid(self, release):
        step = 9 / 2**21
        power = 2.0 ** np.ceil(np.log2(step))
        steps = release.to_arrow()["fare_sum"].to_numpy() / power
        assert np.all(steps == np.round(steps))

    def test_decimals_with_all_their_digits(self):
        """A noise of next to nothing leaves the exact sum of cents."""
        release = small_query().sum("tip", (0, 9)).release(1e6, 0)
        assert release.to_arrow()["tip_sum"].to_pylist() == [Decimal("1.10"), Decimal("2.75"), Decimal("0.00")]

    def test_integers_between_bounds_too_far_for_single_steps(self):
        data = Dataset(pa.table({"user": [1, 2], "n": [2**62, -(2**62)]}), "user")
        release = data.group_by(max_rows_per_group=1).sum("n", (-(2**62), 2**62)).release(1e5, 0)
        found = release.to_arrow()["n_sum"][0].as_py()
        assert found % 2**31 == 0
        assert abs(found) < 2**62 / 1000

    def test_values_lie_between_their_ends(self, release):
        table = release.to_arrow()
        for aggregate in release.plan.aggregates:
            for name in aggregate.names:
                ends = zip(table[f"{name}_low"], table[name], table[f"{name}_high"], strict=True)
                known = [[each.as_py() for each in row] for row in ends if row[1].is_valid]
                assert all(low <= value <= high for low, value, high in known)

    def test_half_widths_as_planned(self, release):
        table, plan = release.to_arrow(), release.plan
        for column in plan.columns:
            if column.half_width is not None:
                for low, high in zip(table[f"{column.name}_low"], table[f"{column.name}_high"], strict=True):
                    # Ends are whole numbers of steps, rounded inward; of weighted rows, which may count as a part of
                    # one, outward.
                    width, step = float(high.as_py() - low.as_py()), float(column.step)
                    less, more = (2, 0) if column.name == "count" else (0, 2)
                    assert 2 * column.half_width - less * step < width * (1 + 1e-9)
                    assert width <= (2 * column.half_width + more * step) * (1 + 1e-9)

    def test_confidence(self):
        narrow, wide = (small_query().count().release(1, 1e-6, confidence=c) for c in (0.5, 0.999))
        assert narrow.plan.columns[0].half_width < wide.plan.columns[0].half_width
        assert narrow.statement.to_dict()["confidence"] == 0.5
        assert "probability of at least 50 %" in str(narrow.statement)

    def test_public_keys_keep_their_order(self, release):
        assert release.to_arrow()["city"].to_pylist() == ["Rome", "Bern", "Oslo"]
        assert len(release) == 3

    def test_chosen_keys_are_sorted(self):
        """Not in the order of the engine, which could tell in what order rows were read."""
        n = 200
        names = [f"city {i:02}" for i in np.random.default_rng().permutation(40)]
        rows = pa.table(
            {
                "user": np.arange(n * 40),
                "city": np.tile(names, n),
                "month": np.tile(np.arange(40) % 3, n),
            }
        )
        query = Dataset(rows, "user").group_by("month", "city", max_groups=1, max_rows_per_group=1).count()
        table = query.release(1, 1e-6).to_arrow()
        found = list(zip(table["month"].to_pylist(), table["city"].to_pylist(), strict=True))
        assert len(found) == 40
        assert found == sorted(found)

    def test_null_is_a_group_and_comes_last(self):
        rows = pa.table({"user": np.arange(600), "city": [None, "b", "a"] * 200})
        release = Dataset(rows, "user").group_by("city", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)
        assert release.to_arrow()["city"].to_pylist() == ["a", "b", None]

    def test_dates_that_python_does_not_know(self, tmp_path):
        """Written, shown and reported all the same: a key must not make a release fail that was paid for."""
        days = pa.array([6_585_000, 18_262] * 300, pa.int32()).cast(pa.date32())  # the year 19999, and 2020
        rows = pa.table({"user": np.arange(600), "day": days})
        release = Dataset(rows, "user").group_by("day", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)
        release.write(out=tmp_path / "out.csv", report=tmp_path / "out.html")
        assert release.rows(5)[0]["day"] == "2020-01-01"
        assert "2020-01-01" in (tmp_path / "out.html").read_text(encoding="utf-8")

    def test_two_outputs_are_two_files(self, tmp_path):
        rows = pa.table({"user": np.arange(600)})
        release = Dataset(rows, "user").group_by(max_rows_per_group=1).count().release(1, 1e-6)
        (tmp_path / "link.html").symlink_to(tmp_path / "same.csv")
        with pytest.raises(ValueError, match="out and report must be different files"):
            release.write(out=tmp_path / "same.csv", report=tmp_path / "link.html")
        assert [path.name for path in tmp_path.iterdir()] == ["link.html"]

    def test_no_row_is_left_to_chance(self):
        """All rows of a unit count, each as a part of its limit; a seed that the connection has makes no difference."""
        connection = duckdb.connect()
        connection.execute("create table t as select 1 as user, i as x from range(1000) r(i)")
        query = Dataset(connection, "user", table="t").group_by(max_rows_per_group=1).sum("x", (0, 999))
        for seed in (0.5, 0.5, 0.25):
            connection.execute(f"select setseed({seed})")
            # The mean of all rows is 499.5, and the noise has a standard deviation of about 0.014.
            assert query.release(1e5, 0).to_arrow()["x_sum"][0].as_py() in (499, 500)

    @pytest.mark.parametrize(
        "keys",
        [
            [True, False],
            [datetime.date(2020, 1, 1), datetime.date(1960, 1, 1)],
            [datetime.datetime(2020, 1, 1, 12), datetime.datetime(1960, 1, 1, 13)],
            [Decimal("2.50"), Decimal("-1.25")],
            [b"\x01", b"\x00"],
            [2**63 - 1, -(2**63)],
        ],
        ids=lambda keys: type(keys[0]).__name__,
    )
    def test_keys_of_every_kind(self, keys, tmp_path):
        """Sorted, kept as they are, and written to both kinds of file; bytes that are no text to one of them."""
        rows = pa.table({"user": np.arange(600), "key": keys * 300})
        data = Dataset(rows, "user")
        release = data.group_by("key", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)
        assert release.to_arrow()["key"].to_pylist() == sorted(keys)
        release.to_parquet(tmp_path / "out.parquet")
        assert pyarrow.parquet.read_table(tmp_path / "out.parquet")["key"].to_pylist() == sorted(keys)
        if isinstance(keys[0], bytes):
            with pytest.raises(TypeError, match="binary column 'key'"):
                release.to_csv(tmp_path / "out.csv")
        else:
            release.to_csv(tmp_path / "out.csv")
            assert len((tmp_path / "out.csv").read_bytes().splitlines()) >= 3
        public = data.group_by("key", max_groups=1, max_rows_per_group=1, public_keys=keys).count().release(1, 1e-6)
        assert public.to_arrow()["key"].to_pylist() == keys
        assert abs(public.to_arrow()["count"][0].as_py() - 300) < 200

    def test_clamp(self):
        """Negative counts, their ends and sums that cannot be negative are shown as 0; others stay."""
        keys = {"city": [f"nowhere {i}" for i in range(300)]}
        query = Dataset(rides(), "user").group_by("city", max_groups=1, max_rows_per_group=1, public_keys=keys)
        query = query.count().sum("rides", (0, 9)).sum("fare", (-5, 5))
        plain, clamped = (query.release(1, 1e-6, nonnegative=nonnegative).to_arrow() for nonnegative in (False, True))
        for name in ("count", "rides_sum", "fare_sum"):
            assert min(plain[name].to_pylist()) < 0
        for name in ("count", "count_low", "count_high", "rides_sum", "rides_sum_low"):
            assert min(clamped[name].to_pylist()) == 0
        assert min(clamped["fare_sum"].to_pylist()) < 0
        assert "Negative numbers are shown as 0" in str(query.release(1, 1e-6, nonnegative=True).statement)

    def test_without_negative_counts_the_sum_is_still_that_of_the_data(self):
        """Most groups are empty: with 0 in place of what is below it, they would add up to many times the truth."""
        names, people = [f"town {i}" for i in range(4000)], 20_000
        towns = np.random.default_rng(1).integers(0, 400, people)
        table = pa.table({"person": range(people), "town": [names[i] for i in towns], "age": [40] * people})
        query = Dataset(table, "person").group_by("town", max_groups=1, max_rows_per_group=1, public_keys=names)
        release = query.count().sum("age", (0, 100)).release(0.1, 1e-6, nonnegative=True)
        found = release.to_pandas()
        for name, truth in (("count", people), ("age_sum", 40 * people)):
            noise = next(column.noise.std() for column in release.plan.columns if column.name == name)
            assert found[name].min() == 0
            assert abs(found[name].sum() - truth) < 6 * noise * len(names) ** 0.5

    def test_no_groups(self):
        release = Dataset(rides(), "user").group_by(max_rows_per_group=2).count().count_units().release(1e4, 0)
        [row] = release.to_arrow().to_pylist()
        assert (row["count"], row["count_units"]) == (6, 4)
        assert (row["count_units_low"], row["count_units_high"]) == (4, 4)
        # Ends of weighted rows are rounded outward, and so is what the upper one allows for rows that are cut off.
        assert 5 <= row["count_low"] <= 6 <= row["count_high"] <= 8
        assert len(row) == 6

    @pytest.mark.parametrize("by", [[], ["city"]])
    def test_no_rows(self, by):
        """One number is one number, of however few; and no group has enough units."""
        data = Dataset(rides().slice(0, 0), "user")
        release = data.group_by(*by, max_groups=1, max_rows_per_group=2).count().mean("fare", (0, 9)).release(1, 1e-6)
        assert len(release) == (0 if by else 1)
        assert release.to_arrow().schema.field("count").type == pa.int64()

    def test_where_comes_before_the_bounds(self):
        query = Dataset(rides(), "user").where("rides > 2").where("rides < 6")
        release = query.group_by(max_rows_per_group=5).count().release(1e4, 0)
        assert release.to_arrow()["count"].to_pylist() == [3]
        assert len(release.statement.to_dict()["query"]["data"]["where"]) == 2


WRITERS = [("to_csv", ".csv"), ("to_parquet", ".parquet"), ("to_excel", ".xlsx"), ("report", ".html")]


class TestFiles:
    def test_parquet_holds_the_statement(self, release, tmp_path):
        path = tmp_path / "out.parquet"
        release.to_parquet(path)
        table = pyarrow.parquet.read_table(path)
        assert table.equals(release.to_arrow())
        assert json.loads(table.schema.metadata[b"osgt"]) == release.statement.to_dict()

    def test_csv(self, release, tmp_path):
        path = tmp_path / "out.csv"
        release.to_csv(str(path))
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == release.to_arrow().column_names
        for row, expected in zip(rows, release.to_arrow().to_pylist(), strict=True):
            assert int(row["count"]) == expected["count"]
            assert Decimal(row["tip_sum"]) == expected["tip_sum"]
            assert (float(row["fare_mean"]) if row["fare_mean"] else None) == expected["fare_mean"]

    def test_pandas(self, release):
        frame = release.to_pandas()
        assert list(frame.columns) == release.to_arrow().column_names
        assert frame["count"].dtype == np.int64

    @pytest.mark.parametrize(("write", "suffix"), WRITERS)
    def test_a_failure_leaves_what_was_there(self, release, tmp_path, monkeypatch, write, suffix):
        path = tmp_path / f"out{suffix}"
        path.write_text("the old file")

        def broken(*_args, **_kwargs):
            raise OSError("disk full")

        monkeypatch.setattr(pyarrow.csv, "write_csv", broken)
        monkeypatch.setattr(pyarrow.parquet, "write_table", broken)
        monkeypatch.setattr("osgt.render.excel.write_excel", broken)
        monkeypatch.setattr("osgt.api.release.page", broken)
        with pytest.raises(OSError, match="disk full"):
            getattr(release, write)(path, overwrite=True)
        assert path.read_text() == "the old file"
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize(("write", "suffix"), WRITERS)
    def test_nowhere_to_write(self, release, tmp_path, write, suffix):
        (tmp_path / f"folder{suffix}").mkdir()
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            getattr(release, write)(tmp_path / "missing" / f"out{suffix}")
        with pytest.raises(IsADirectoryError, match="is a folder"):
            getattr(release, write)(tmp_path / f"folder{suffix}")
        assert [path.name for path in tmp_path.iterdir()] == [f"folder{suffix}"]

    @pytest.mark.parametrize(("write", "suffix"), WRITERS)
    def test_a_file_is_replaced_only_if_told(self, release, tmp_path, write, suffix):
        path = tmp_path / f"out{suffix}"
        path.write_text("precious")
        with pytest.raises(FileExistsError, match="overwrite=True replaces it"):
            getattr(release, write)(path)
        with pytest.raises(FileExistsError, match="overwrite=True replaces it"):
            release.write(**{"report" if write == "report" else "out": path})
        assert path.read_text() == "precious"
        getattr(release, write)(path, overwrite=True)
        assert path.read_bytes() != b"precious"

    @pytest.mark.parametrize(
        ("write", "name", "suffix"),
        [
            ("to_csv", "out.parquet", ".csv"),
            ("to_parquet", "out.csv", ".parquet"),
            ("to_parquet", "out", ".parquet"),
            ("report", "out.pdf", ".html"),
        ],
    )
    def test_the_name_says_what_is_in_the_file(self, release, tmp_path, write, name, suffix):
        with pytest.raises(ValueError, match=f"path must end in {suffix}, got"):
            getattr(release, write)(tmp_path / name)
        with pytest.raises(ValueError, match=r"report must end in \.html"):
            release.write(report=tmp_path / "out.csv")
        with pytest.raises(ValueError, match=r"out must end in \.parquet, \.csv or \.xlsx"):
            release.write(out=tmp_path / "out.pdf")
        assert list(tmp_path.iterdir()) == []

    def test_what_is_read_or_charged_is_never_replaced(self, tmp_path):
        """Whatever the source is called: a path, a glob, a database that is open, a file of keys, a ledger."""
        rows, keys, base = tmp_path / "rows.parquet", tmp_path / "keys.csv", tmp_path / "base.parquet"
        pyarrow.parquet.write_table(rides(), rows)
        keys.write_text("city\nRome\n")
        connection = duckdb.connect(base)
        connection.execute(f"CREATE TABLE t AS SELECT * FROM '{rows}'")
        bounds = {"max_groups": 1, "max_rows_per_group": 1}
        with Ledger(tmp_path / "budget.csv") as ledger:
            ledger.open("rides", epsilon=100, delta=1e-3)
            datasets = [
                Dataset(rows, "user", ledger=ledger, dataset="rides"),
                Dataset(tmp_path / "r*.parquet", "user"),
                Dataset(connection, "user", table="t"),
            ]
            queries = [data.group_by("city", **bounds, public_keys=keys).count() for data in datasets]
            releases = [query.release(1, 1e-6) for query in queries]
            before = {path.name: path.read_bytes() for path in (rows, keys, base, tmp_path / "budget.csv")}
            for release, name in [
                (releases[0], "rows.parquet"),
                (releases[0], "keys.csv"),
                (releases[0], "budget.csv"),
                (releases[1], "rows.parquet"),
                (releases[1], "result.parquet"),  # the next reading of the glob would find it
                (releases[2], "base.parquet"),
            ]:
                with pytest.raises(ValueError, match="never replaced"):
                    release.write(out=tmp_path / name, overwrite=True)
            assert {name: (tmp_path / name).read_bytes() for name in before} == before
        connection.close()

    def test_both_files_or_neither(self, release, tmp_path):
        release.write(out=tmp_path / "a.csv", report=tmp_path / "a.html")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.csv-metadata.json", "a.html"]
        with pytest.raises(FileNotFoundError):
            release.write(out=tmp_path / "b.parquet", report=tmp_path / "missing" / "b.html")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.csv-metadata.json", "a.html"]


class TestStatement:
    def test_the_guarantee_can_be_recomputed(self, release):
        plain = json.loads(json.dumps(release.statement.to_dict(), allow_nan=False))
        charge = Charge.from_dict(plain["privacy"]["charge"])
        assert charge.delta(plain["epsilon"]) <= plain["delta"]
        assert charge.epsilon(plain["delta"]) <= plain["epsilon"] * (1 + 1e-4)  # up to the slack of many unlike parts
        parts = [(m["noise"], move) for m in plain["privacy"]["measures"] for move in m["moved_by_one_unit"]]
        pairs = [(noise, move["shift"]) for noise, move in parts]
        assert all((p["noise"], p["shift"]) in pairs for p in plain["privacy"]["charge"]["parts"])
        coordinates = sum(move["coordinates"] for _, move in parts)
        assert sum(p["coordinates"] for p in plain["privacy"]["charge"]["parts"]) == coordinates

    def test_the_guarantee_with_chosen_groups(self):
        data = Dataset(rides(), "user", neighbours="change_one")
        statement = data.group_by("city", max_groups=2, max_rows_per_group=1).count().release(1, 1e-6).statement
        plain = json.loads(json.dumps(statement.to_dict()))
        privacy = plain["privacy"]
        assert Charge.from_dict(privacy["charge"]).delta(1.0) <= 1e-6
        assert privacy["selection_delta"] > 0
        assert privacy["noise_delta"] + privacy["selection_delta"] == pytest.approx(1e-6, rel=1e-12)
        assert privacy["neighbours"] == "change_one"
        for number in (privacy["threshold"], privacy["shown_size"]):
            assert f"{number:,}" in str(statement)
        assert "Replacing all rows of one user" in str(statement)
        # One row of a unit in a group: the count is what groups are chosen by.
        assert "too large on average" in str(statement)
        other = data.group_by("city", max_groups=2, max_rows_per_group=2).histogram("fare", [0, 9]).release(1, 1e-6)
        assert "too large on average" not in str(other.statement)

    def test_what_it_says(self, release):
        plain, words = release.statement.to_dict(), str(release.statement)
        assert plain["statement"] == words
        for part in ("ε = 1", "δ = 1e-06", "every user", "more than 2 groups", "at most 1 row in a", "not charged"):
            assert part in words, part
        assert plain["software"] == f"osgt {version('osgt')}"
        written = datetime.datetime.fromisoformat(plain["date"])
        assert abs(datetime.datetime.now(datetime.UTC) - written) < datetime.timedelta(hours=1)
        assert plain["groups_shown"] == 3
        assert plain["query"]["groups"]["max_groups"] == 2
        assert [a["kind"] for a in plain["query"]["aggregates"]][:2] == ["count", "sum"]

    def test_every_number_can_be_recomputed(self, release):
        """From what was measured and the coefficients, in words that name no class."""
        privacy = release.statement.to_dict()["privacy"]
        measures = [each["measure"] for each in privacy["measures"]]
        assert len(measures) == len(set(measures)) == len(release.plan.parts) + len(release.plan.noise.extra_noise)
        assert set(privacy["numbers"]) >= {"units", "sum of rides in steps of 1", "values of fare"}
        for combined in privacy["numbers"].values():
            assert all(any(f"({name})" in part for name in measures) for part in combined.split(" + "))
        assert "Clipped" not in json.dumps(privacy)

    def test_no_password_in_it(self, tmp_path):
        path = tmp_path / "rides.parquet"
        pyarrow.parquet.write_table(rides(), path)
        for source in (path, str(path)):
            assert Dataset(source, "user").to_dict()["source"] == str(path)

    def test_pure(self):
        plain = small_query().count().release(1, 0).statement.to_dict()
        assert plain["privacy"]["definition"] == "pure differential privacy"
        assert Charge.from_dict(plain["privacy"]["charge"]).epsilon(0.0) <= 1


class TestLedger:
    @pytest.fixture
    def ledger(self, monkeypatch):
        spy = SpyLedger()
        watch_reading(monkeypatch, spy.calls)
        return spy

    def test_the_order(self, ledger, tmp_path):
        release = small_query(ledger=ledger, dataset="rides").count().release(1, 1e-6)
        assert ledger.names == ["reserve", "reading", "read"]
        _, dataset, charge, query = ledger.calls[0]
        assert dataset == "rides"
        assert charge == release.plan.charge
        assert json.loads(query)["data"]["privacy_unit"] == "user"
        release.to_csv(tmp_path / "out.csv")
        assert ledger.names == ["reserve", "reading", "read", "settle"]
        digest = hashlib.sha256(json.dumps(release.statement.to_dict(), sort_keys=True).encode()).hexdigest()
        assert ledger.calls[-1] == ("settle", digest)
        release.to_parquet(tmp_path / "out.parquet")
        release.report(tmp_path / "out.html")
        assert ledger.names.count("settle") == 1
        assert release.statement.to_dict()["ledger"] == {"dataset": "rides", "reservation": "7"}
        assert "'rides', entry 7" in str(release.statement)

    def test_what_is_not_written_is_not_settled(self, ledger, tmp_path):
        release = small_query(ledger=ledger, dataset="rides").count().release(1, 1e-6)
        with pytest.raises(FileNotFoundError):
            release.to_csv(tmp_path / "missing" / "out.csv")
        assert ledger.names == ["reserve", "reading", "read"]

    @pytest.mark.parametrize("step", ["reserve", "reading"])
    def test_a_refusal_reads_nothing(self, ledger, step):
        ledger.failing = (step,)
        with pytest.raises(RuntimeError, match=f"{step} failed"):
            small_query(ledger=ledger, dataset="rides").count().release(1, 1e-6)
        assert "read" not in ledger.names

    def test_without_a_version_for_the_statement_nothing_is_charged(self, ledger, monkeypatch):
        def missing(name):
            raise PackageNotFoundError(name)

        monkeypatch.setattr(publish, "version", missing)
        publish._own_version.cache_clear()
        with pytest.raises(PackageNotFoundError):
            small_query(ledger=ledger, dataset="rides").count().release(1, 1e-6)
        assert ledger.names == []

    def test_planning_and_previewing_charge_nothing(self, ledger):
        query = small_query(ledger=ledger, dataset="rides").count()
        query.plan(1, 1e-6)
        query.preview()
        assert not {"reserve", "reading", "settle", "cancel"} & set(ledger.names)

    def test_after_reading_the_charge_stands(self):
        """The engine fails in the middle: nothing comes back, and nothing is given back."""
        spy = SpyLedger()
        query = people(ledger=spy, dataset="people").group_by("city", max_groups=2, max_rows_per_group=1).count()
        with pytest.raises(NothingReleasedError, match="The charge to the ledger stands") as caught:
            query.release(1, 1e-6)
        assert READ not in str(caught.value)
        assert READ in str(caught.value.__cause__)
        assert spy.names == ["reserve", "reading"]

    def test_the_message_is_always_the_same(self):
        """It depends neither on the rows nor on the engine's error, and says what became of the charge."""
        texts = set()
        for columns in (("city",), ("month",), ()):
            query = people().group_by(*columns, max_groups=1, max_rows_per_group=1).count()
            with pytest.raises(NothingReleasedError) as caught:
                query.release(1, 1e-6)
            texts.add(str(caught.value))
        (text,) = texts
        assert "ledger" not in text

    def test_the_class_of_the_error_is_named_unless_data_could_have_named_it(self, monkeypatch):
        class LocalError(Exception):
            pass

        LocalError.__name__ = "Local_4711"
        for error, words in (
            (MemoryError("row 4711"), "charged (MemoryError). "),
            (LocalError("row 4711"), "charged. "),
        ):

            def fail(*_args, error=error):
                raise error

            monkeypatch.setattr("osgt.release.measuring._exact", fail)
            with pytest.raises(NothingReleasedError) as caught:
                small_query().count().release(1, 1e-6)
            assert words in str(caught.value)
            assert "4711" not in str(caught.value)

    @pytest.mark.parametrize("broken", ["osgt.release.measuring._exact", "osgt.release.measuring.noisy_numbers"])
    def test_without_noise_there_is_no_release(self, ledger, monkeypatch, broken):
        def fail(*_args, **_kwargs):
            raise RuntimeError("no entropy")

        monkeypatch.setattr(broken, fail)
        with pytest.raises(NothingReleasedError, match="Nothing was released"):
            small_query(ledger=ledger, dataset="rides").count().release(1, 1e-6)
        assert ledger.names[:3] == ["reserve", "reading", "read"]
        assert set(ledger.names[3:]) <= {"read"}

    def test_the_charge_is_all_of_the_budget(self, ledger):
        """With noise that is 1 % smaller, it would be more."""
        small_query(ledger=ledger, dataset="rides").count().mean("fare", (0, 9)).release(1, 1e-6)
        charge = ledger.calls[0][2]
        assert charge.delta(1.0) <= 1e-6 < scale_noise(charge, 0.99).delta(1.0)


def test_shared_noise_where_rows_are_units():
    """With one row of a unit in a group, the count is the number of units: one number with one noise."""
    query = small_query().count().count_units()
    release = query.release(1, 1e-6)
    assert list(release.plan.parts) == [Units()]
    assert Rows() not in release.plan.parts
    assert release.to_arrow()["count"].equals(release.to_arrow()["count_units"])
