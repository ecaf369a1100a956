"""Known totals: public numbers with which all estimates agree, against a dense constrained least squares."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy import stats
from typer.testing import CliRunner

from osgt import Dataset, Publication
from osgt.api.query_file import files_used
from osgt.auditing.replay import replay
from osgt.auditing.stage import ReleasePlay, Stage
from osgt.check import main as check
from osgt.cli import app
from osgt.plan.known import reach
from osgt.plan.structure import Margins, Structure
from osgt.query.file.reading import read_query_file
from osgt.query.file.text import query_file_text
from osgt.query.groups import SUMMED_OVER, Groups
from osgt.query.levels import levels_of
from osgt.release.measuring import Presentation, exact_numbers, noisy_table, prepare, with_noise

CITIES, MONTHS, KINDS = ["Bern", "Oslo", "Rome"], [1, 2, 3, 4], ["x", "y"]
PRODUCT = {"city": CITIES, "month": MONTHS}

#: A tree in which groups have different numbers of others in them.
BUSHY = [("Bern", 1), ("Oslo", 2), ("Bern", 3), ("Rome", 1), ("Rome", 2), ("Rome", 4), ("Rome", 7), ("Bern", 9)]


def table_of(keys):
    if isinstance(keys, dict):
        grid = np.meshgrid(*(np.arange(len(values)) for values in keys.values()), indexing="ij")
        named = zip(keys.items(), grid, strict=True)
        return pa.table({name: pa.array(values).take(pa.array(at.ravel())) for (name, values), at in named})
    return pa.table(list(zip(*keys, strict=True)), names=["city", "month"])


def structure_of(keys, totals):
    public = table_of(keys)
    return Structure(Groups(tuple(public.column_names), public, levels_of(totals, public.column_names, public)))


def sums(level, cells):
    """The matrix that adds up cells for a level."""
    if level is None:
        return np.eye(cells)
    result = np.zeros((level.size, cells))
    result[level.places, np.arange(cells)] = 1
    return result


def least_squares(structure, variances):
    return Margins((structure,)).least_squares({i: variances[level] for i, level in enumerate(structure.levels)})


def dense(structure, variances):
    """The matrix from all measured and known numbers, level by level, to the estimates of the cells, by its equations.

    Minimise Σ (sum - measured)²/variance where sums that are known are those: with a Lagrange multiplier for each.
    """
    cells = structure.sizes[-1]
    every = {level: sums(level, cells) for level in structure.levels}
    known = [level for level in structure.levels if variances.get(level) == 0]
    rest = [level for level in structure.levels if variances.get(level)]
    normal = sum(every[level].T @ every[level] / variances[level] for level in rest)
    fixed = np.vstack([every[level] for level in known])
    zeros = np.zeros((len(fixed), len(fixed)))
    system = np.block([[normal, fixed.T], [fixed, zeros]])
    right = []
    for level in structure.levels:
        size = len(every[level])
        above = every[level].T / variances[level] if level in rest else np.zeros((cells, size))
        below = np.zeros((len(fixed), size))
        if level in known:
            start = sum(len(every[each]) for each in known[: known.index(level)])
            below[start : start + size] = np.eye(size)
        right.append(np.vstack([above, below]))
    return every, np.linalg.lstsq(system, np.hstack(right), rcond=None)[0][:cells]


SHAPES = [
    pytest.param(PRODUCT, ["city"], [()], id="one"),
    pytest.param(PRODUCT, ["month"], [("city",), ()], id="crossing a measured one"),
    pytest.param(PRODUCT, ["city", "month"], [()], id="two that cross"),
    pytest.param(
        {**PRODUCT, "kind": KINDS}, [("city", "month"), ("kind",)], [("city",), ("kind", "month")], id="three"
    ),
    pytest.param({**PRODUCT, "kind": KINDS}, [("city", "month"), ("city", "kind")], [("kind",), ()], id="overlapping"),
    pytest.param(BUSHY, ["city"], [()], id="tree"),
    pytest.param(BUSHY, [()], [("city",)], id="tree, from its root"),
    pytest.param(BUSHY, [(), ("city",)], [], id="tree, twice"),
]


def consistent(structure, known, cells):
    """Levels with the sums of some cells as known totals."""
    return {level: (sums(level, len(cells)) @ cells).astype(np.int64) for level in structure.levels if level in known}


class TestLeastSquares:
    @pytest.mark.parametrize(("keys", "known", "others"), SHAPES)
    def test_as_the_equations_say(self, keys, known, others):
        rng = np.random.default_rng(3)
        structure = structure_of(keys, [*known, *others])
        names = [(each,) if isinstance(each, str) else each for each in known]
        variances = {level: rng.uniform(1, 9) for level in structure.levels}
        variances |= {
            level: 0.0 for level in structure.levels if level is not None and set(level.by) in map(set, names)
        }
        every, solution = dense(structure, variances)
        true = rng.integers(0, 99, structure.sizes[-1])
        values = [every[level] @ true for level in structure.levels]
        noisy = [
            each + rng.normal(0, np.sqrt(variances[level]), len(each))
            for level, each in zip(structure.levels, values, strict=True)
        ]
        squares = least_squares(structure, variances)
        estimates = squares.estimates([each[:, None] for each in noisy])
        expected = solution @ np.concatenate(noisy)
        noise = np.concatenate([np.full(len(each), variances[level]) for level, each in every.items()])
        for at, level in enumerate(structure.levels):
            assert estimates[at][:, 0] == pytest.approx(every[level] @ expected, rel=1e-9, abs=1e-9)
            spread = ((every[level] @ solution) ** 2) @ noise
            assert squares.variances_of_estimates[at] == pytest.approx(spread, rel=1e-9, abs=1e-9)
            asked = [None] * len(structure.levels)
            asked[at] = np.eye(structure.sizes[at])[:, :1]
            weights = np.concatenate([each[:, 0] for each in squares.weights(asked)])
            assert weights[noise > 0] == pytest.approx((every[level] @ solution)[0][noise > 0], abs=1e-9)
            if variances[level] == 0:
                assert estimates[at][:, 0] == pytest.approx(values[at], rel=1e-12)

    @pytest.mark.parametrize(("keys", "known", "others"), SHAPES)
    def test_what_limits_cut_off_moves_estimates_no_farther(self, keys, known, others):
        """The exact bounds are Σ of the positive and of the negative responses; where levels cross, ours are larger."""
        rng = np.random.default_rng(4)
        structure = structure_of(keys, [*known, *others])
        names = [{each} if isinstance(each, str) else set(each) for each in known]
        fixed = [level for level in structure.levels if level is not None and set(level.by) in names]
        variances = {level: 0.0 if level in fixed else rng.uniform(1, 9) for level in structure.levels}
        every, solution = dense(structure, variances)
        measured = np.vstack([every[level] * (variances[level] > 0) for level in structure.levels])
        missing = rng.uniform(0, 5, structure.sizes[-1])
        found = reach(structure, least_squares(structure, variances), [level.by for level in fixed], missing)
        crosses = not all(a <= b or b <= a for a in names for b in names)
        for level, (above, below) in zip(structure.levels, found, strict=True):
            response = every[level] @ solution @ measured  # of estimates to each cell that is measured
            small, large = np.maximum(response, 0) @ missing, np.maximum(-response, 0) @ missing
            assert np.all(below >= small - 1e-9)
            assert np.all(above >= large - 1e-9)
            if not crosses:
                assert below == pytest.approx(small, abs=1e-9)
                assert above == pytest.approx(large, abs=1e-9)


ROWS = 4000


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "city": rng.choice(CITIES, ROWS, p=[0.7, 0.2, 0.1]),
            "month": rng.choice(MONTHS, ROWS),
            "pay": rng.integers(0, 9, ROWS),
        }
    )


def numbers(table, *by):
    counts = table.group_by(list(by)).aggregate([([], "count_all")]).to_pylist()
    return {tuple(row[name] for name in by): row["count_all"] for row in counts}


def grouped(people, totals, **more):
    options = {"max_rows": 1, "public_keys": PRODUCT} | more
    return Dataset(people, "id").group_by("city", "month", totals=totals, **options)


def width(plan):
    return plan.columns[0].half_width


class TestReleases:
    @pytest.mark.parametrize("nonnegative", [False, True])
    @pytest.mark.parametrize("by", [["city"], ["month"], [], ["city", "month"]], ids=str)
    def test_all_numbers_add_up_to_them(self, people, by, nonnegative):
        totals = {(name,): numbers(people, name) for name in by} or {(): ROWS}
        for epsilon in (0.02, 0.5, 20):
            query = grouped(people, totals).count().sum("pay", (0, 8)).mean("pay", (0, 8))
            if nonnegative and len(by) == 2:
                with pytest.raises(ValueError, match="nonnegative must be left out where known totals cross"):
                    query.release(epsilon, 1e-6, nonnegative=True)
                continue
            rows = query.release(epsilon, 1e-6, nonnegative=nonnegative).to_arrow().to_pylist()
            cells = [row for row in rows if row[SUMMED_OVER] is None]
            assert len(cells) == 12
            if nonnegative:
                assert min(row["count"] for row in cells) >= 0
            for row in rows:
                inside = [each for each in cells if all(row[key] in (None, each[key]) for key in PRODUCT)]
                assert row["count"] == sum(each["count"] for each in inside)
                if row[SUMMED_OVER] is not None:
                    key = tuple(row[name] for name in ("city", "month") if row[name] is not None)
                    known = totals[()] if () in totals else totals[("city",) if row["city"] else ("month",)][key]
                    assert row["count"] == row["count_low"] == row["count_high"] == known

    def test_a_tree_and_levels_that_follow(self, people):
        """Known cities say what there is in all; the tree has groups of different sizes."""
        keys = [key for key in BUSHY if key[1] in MONTHS]
        inside = people.filter(
            pa.array(
                [
                    (a, b) in keys
                    for a, b in zip(
                        *map(pa.Array.to_pylist, [people["city"].combine_chunks(), people["month"].combine_chunks()]),
                        strict=True,
                    )
                ]
            )
        )
        query = grouped(people, {"city": numbers(inside, "city"), (): None}, public_keys=keys).count()
        rows = query.release(0.1, 1e-6).to_arrow().to_pylist()
        assert rows[-1]["count"] == rows[-1]["count_low"] == rows[-1]["count_high"] == inside.num_rows
        assert sum(row["count"] for row in rows if row[SUMMED_OVER] is None) == inside.num_rows

    def test_sex_by_canton_is_29_percent_narrower(self):
        """Two groups in each known total: half of the variance remains."""
        cantons, data = [str(i) for i in range(26)], pa.table({"id": [1], "sex": ["f"], "canton": ["0"]})
        keys = {"sex": ["f", "m"], "canton": cantons}
        options = {"max_rows": 1, "public_keys": keys}
        known = {"canton": dict.fromkeys(cantons, 1000)}
        plans = [
            Dataset(data, "id").group_by("sex", "canton", totals=totals, **options).count().plan(1, 1e-6)
            for totals in (known, None)
        ]
        assert plans[0].columns[0].std / plans[1].columns[0].std == pytest.approx(0.5**0.5, rel=1e-6)
        assert len(plans[0].laws) == 1  # nothing else is measured
        assert plans[0].charge == plans[1].charge

    def test_which_levels_are_measured_beside_known_ones(self, people):
        plan = grouped(people, {(): ROWS, "city": None}).count().plan(1, 1e-6)
        assert not any("in all" in measure.words for measure in plan.laws)
        plain = grouped(people, None).count().plan(1, 1e-6)
        assert plan.charge.to_dict().keys() == plain.charge.to_dict().keys()
        assert [columns[0].is_known for columns in plan.totals.values()] == [False, True]
        assert "count in all   public" in str(plan)

    def test_units_and_other_numbers(self, people):
        """Where a unit is in one group, units can be known; other numbers are as they would be."""
        query = grouped(people, [{"by": ["city"], "known": numbers(people, "city"), "column": "people"}], max_groups=1)
        release = query.count(name="rows").count_units(name="people").sum("pay", (0, 8)).release(5, 1e-6)
        rows = [row for row in release.to_arrow().to_pylist() if row[SUMMED_OVER]]
        assert [row["people"] for row in rows] == [numbers(people, "city")[(city,)] for city in CITIES]
        assert "totals of people by city are public" in str(release.statement)

    def test_means_use_them(self, people):
        """With 16 groups in all and next to no noise, means of known totals are those of the data."""
        query = grouped(people, {"city": numbers(people, "city")}).count().mean("pay", (0, 8))
        rows = query.release(1e5, 1e-6).to_arrow().to_pylist()
        pay = people.group_by("city").aggregate([("pay", "mean")]).to_pylist()
        expected = {row["city"]: row["pay_mean"] for row in pay}
        for row in rows:
            if row[SUMMED_OVER]:
                assert row["pay_mean"] == pytest.approx(expected[row["city"]], abs=1e-2)


class TestCoverage:
    """Intervals hold the true numbers as often as they say; false alarms below 1e-9."""

    RUNS = 200

    def missed(self, people, truth, known, intervals):
        """How often the interval of each group missed: read once, with fresh noise each time."""
        query = Dataset(people, "id").group_by("city", "month", max_rows=1, public_keys=PRODUCT, totals=known).count()
        plan = query.plan(0.3, 1e-6, confidence=0.8)
        exact = exact_numbers(query, plan, prepare(query, plan))
        missed = np.zeros(12, int)
        for _ in range(self.RUNS):
            shown = noisy_table(query, plan, with_noise(query, plan, exact), Presentation(intervals=intervals))
            cells = [row for row in shown.to_pylist() if row[SUMMED_OVER] is None]
            true = np.array([truth.get((row["city"], row["month"]), 0) for row in cells])
            low, high = (np.array([row[f"count_{end}"] for row in cells]) for end in ("low", "high"))
            missed += (true < low) | (true > high)
        return missed

    def test_where_nothing_is_cut_off(self, people):
        most = stats.binom.isf(1e-9 / 12, self.RUNS, 0.2)
        known = {"city": numbers(people, "city")}
        assert np.all(self.missed(people, numbers(people, "city", "month"), known, "noise") <= most)

    def test_where_rows_are_cut_off(self, people):
        """Rows of one city are many to a person: a third of them is cut off, and the known total counts them."""
        heavy = people.append_column(
            "who", pa.array([i // 3 if city == "Bern" else i for i, city in enumerate(people["city"].to_pylist())])
        )
        heavy = heavy.drop_columns(["id"]).rename_columns(["city", "month", "pay", "id"])
        truth, most = numbers(heavy, "city", "month"), stats.binom.isf(1e-9 / 12, self.RUNS, 0.2)
        known = {"month": numbers(heavy, "month")}
        assert np.all(self.missed(heavy, truth, known, "truth") <= most)
        assert np.any(self.missed(heavy, truth, known, "noise") > most)  # they would not without


class TestRefused:
    @pytest.mark.parametrize(
        ("totals", "words"),
        [
            ({"city": {"Bern": 5, "Oslo": 4}}, "must have a number for Rome"),
            ({"city": {"Bern": 5, "Oslo": 4, "Rome": 1, "Ulm": 2}}, "has Ulm, which is not among the public keys"),
            ({"city": {"Bern": -5, "Oslo": 4, "Rome": 1}}, "must be a number from 0 on for Bern, got -5"),
            ({"city": {"Bern": 5.5, "Oslo": 4, "Rome": 1}}, "must be whole numbers, got 5.5"),
            ({"city": {"Bern": "many", "Oslo": "few", "Rome": "1"}}, "must be a number from 0 on for Bern"),
            ({(): 10, "city": {"Bern": 5, "Oslo": 4, "Rome": 2}}, "contradict each other: those by city come to 11"),
            ({"month": {1: 1, 2: 1, 3: 1, 4: 1}, "city": {"Bern": 5, "Oslo": 4, "Rome": 2}}, "contradict each other"),
            ({(): 10**12}, "must be at most"),
            ({"city": 5}, "dict from keys to numbers"),
            ({"city": "nowhere.csv"}, "there is no file"),
            ([{"by": "city", "known": {"Bern": 1, "Oslo": 1, "Rome": 1}, "weight": 2}], "has no weight"),
            ([{"by": [], "known": 5, "column": "pay_sum"}], "about 'pay_sum', and the query asks for 'count'"),
            ([{"by": [], "column": "count"}], "column names the count"),
        ],
    )
    def test_clear_errors_before_the_charge(self, people, totals, words):
        with pytest.raises((ValueError, TypeError, FileNotFoundError), match="totals: .*" + words) as caught:
            grouped(people, totals).count().sum("pay", (0, 8)).plan(1, 1e-6)
        assert caught.value.argument == "totals"

    def test_counts_that_do_not_add_up_or_are_several(self, people):
        with pytest.raises(ValueError, match="do not add up"):
            grouped(people, {(): 5}, max_groups=2).count_units().plan(1, 1e-6)
        with pytest.raises(ValueError, match=r"one of the counts 'a' and 'b'; say which, as in .*\"column\": 'a'"):
            grouped(people, {(): 5}, max_rows=3).count(name="a").count_units(name="b").plan(1, 1e-6)
        with pytest.raises(ValueError, match="the query asks for no count"):
            grouped(people, {(): 5}).sum("pay", (0, 8)).plan(1, 1e-6)
        with pytest.raises(ValueError, match="need public_keys"):
            grouped(people, {(): 5}, public_keys=None)


class TestDoors:
    def test_files_frames_and_statements(self, people, tmp_path, capsys):
        known = numbers(people, "city")
        table = pa.table({"city": [key for (key,) in known], "residents": [*known.values()]})
        pyarrow.csv.write_csv(table, tmp_path / "cities.csv")
        pyarrow.parquet.write_table(table, tmp_path / "cities.parquet")
        given = [known, table, table.to_pandas(), tmp_path / "cities.csv", str(tmp_path / "cities.parquet")]
        levels = [grouped(people, {"city": each}).groups.levels for each in given]
        assert all(level == levels[0] for level in levels)
        assert levels[0][0].known.numbers == tuple(known[(city,)] for city in CITIES)
        release = grouped(people, {"city": tmp_path / "cities.csv"}).count().release(1, 1e-6)
        assert any(str(file).endswith("cities.csv") for file in release.query.dataset.files)
        assert release.statement.to_dict()["query"]["groups"]["totals"] == [{"by": ["city"], "known": True}]
        release.write(out=tmp_path / "out.parquet")
        assert check([str(tmp_path / "out.parquet")]) == 0
        assert "known totals, which have no noise, were public" in capsys.readouterr().out

    def test_a_publication(self, people):
        data = Dataset(people, "id")
        of_cities = data.group_by("city", max_rows=1, public_keys=CITIES, totals={(): ROWS}).count()
        of_both = data.group_by(
            "city", "month", max_rows=1, public_keys=PRODUCT, totals={"city": numbers(people, "city")}
        ).count()
        release = Publication(of_cities=of_cities, of_both=of_both).release(1, 1e-6)
        assert release["of_cities"].to_pandas()["count"].iloc[-1] == ROWS
        rows = release["of_both"].to_arrow().to_pylist()
        known = [(row["city"],) for row in rows if row[SUMMED_OVER]]
        assert [row["count"] for row in rows if row[SUMMED_OVER]] == [numbers(people, "city")[key] for key in known]

    def test_an_audit_plays_them(self, people):
        """No number moves farther than its noise is made for; distinct units of crossing levels are among them."""
        query = grouped(
            people, [{"by": "city", "known": numbers(people, "city"), "column": "count"}, "month"], max_rows=3
        )
        query = query.count().count_units()
        result = replay(Stage(query), ReleasePlay(query.plan(1, 1e-6)), real=False)
        assert result.findings == ()
        parts = {measure.words: part for measure, part in query.plan(1, 1e-6).parts.items()}
        assert (parts["distinct units by city"].shift, parts["distinct units by city"].coordinates) == (1, 3)
        # A limit on the length of what rows add is none on units.
        parts = grouped(people, "cube", max_rows=None, max_length=3).count().count_units().plan(1, 1e-6).parts
        assert {measure.words: part.euclidean for measure, part in parts.items()}["distinct units by city"] is False

    def test_a_query_file_and_the_command_line(self, people, tmp_path, monkeypatch, capsys):
        pyarrow.parquet.write_table(people, tmp_path / "people.parquet")
        known = numbers(people, "city")
        table = pa.table({"city": [key for (key,) in known], "residents": [*known.values()]})
        pyarrow.csv.write_csv(table, tmp_path / "cities.csv")
        text = """
            [data]
            source = "people.parquet"
            privacy_unit = "id"
            [groups]
            by = ["city", "month"]
            max_rows = 1
            totals = [{by = "city", known = "cities.csv"}, {by = [], known = 4000}]
            [groups.public_keys]
            city = ["Bern", "Oslo", "Rome"]
            month = [1, 2, 3, 4]
            [[aggregates]]
            kind = "count"
            [budget]
            epsilon = 1
            delta = 1e-6
            [output]
            out = "table.csv"
        """
        (tmp_path / "query.toml").write_text(text)
        run = CliRunner().invoke(app, ["release", "--query", str(tmp_path / "query.toml")])
        assert run.exit_code == 0, run.output
        rows = pyarrow.csv.read_csv(tmp_path / "table.csv").to_pylist()
        assert rows[-1]["count"] == ROWS
        monkeypatch.chdir(tmp_path)
        options = (
            "--by city --by month --keys city=Bern,Oslo,Rome --keys month=1,2,3,4 --max-rows 1 --count --epsilon 1"
        )
        more = ["--delta", "1e-6", "--totals", "city=cities.csv", "--totals", "()=4000", "--out", "again.csv"]
        run = CliRunner().invoke(app, ["release", "people.parquet", "--unit", "id", *options.split(), *more])
        assert run.exit_code == 0, run.output
        again = pyarrow.csv.read_csv(tmp_path / "again.csv").to_pylist()
        assert [row["count"] for row in again if row[SUMMED_OVER]] == [row["count"] for row in rows if row[SUMMED_OVER]]
        file = read_query_file(tmp_path / "query.toml")
        assert [Path(each).name for each in files_used(file)] == ["people.parquet", "cities.csv"]
        written = query_file_text(file.given(), tmp_path)
        assert 'known = "cities.csv"' in written
