"""Quality marks: coefficients of variation that follow from the noise, beside every number and wherever it is shown."""

import json
import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osgt import Dataset, Ledger, Publication
from osgt.cli import app
from osgt.estimation.intervals import std_of_interval
from osgt.query.aggregates.marks import CAUTION, GOOD, UNCERTAIN, Marks
from osgt.query.groups import SUMMED_OVER
from osgt.query.measures import CentredSum, Rows, Values

WORDS = [GOOD, CAUTION, UNCERTAIN]
TOWNS = {"Bern": 4_000, "Rome": 900, "Oslo": 220, "Riga": 90, "Nowhere": 0}


def rides():
    """Towns of very different sizes, each row about another person; fares are from 0 to 40."""
    towns = [town for town, size in TOWNS.items() for _ in range(size)]
    rng = np.random.default_rng(5)
    fares = np.round(rng.uniform(0, 40, len(towns)), 2)
    return pa.table({"user": range(len(towns)), "town": towns, "fare": fares})


def by_town(totals=None, **options):
    return Dataset(rides(), "user", **options).group_by("town", max_rows=2, public_keys=list(TOWNS), totals=totals)


def mark_of(variation, good=0.166, caution=0.333):
    """The mark of a coefficient of variation, said in another way than in the software."""
    if not math.isfinite(variation):
        return UNCERTAIN
    return WORDS[int(variation > good) + int(variation > caution)]


def enumerated_std(law):
    """The standard deviation of a distribution on whole numbers: a sum over every number, or over even distances."""
    apart = max(1, int(law.std() / 1000))
    far = apart * np.arange(-50_000, 50_001)
    masses = apart * law.pmf(far)
    assert masses.sum() == pytest.approx(1, abs=1e-5)
    return math.sqrt(float(np.sum(masses * far.astype(float) ** 2)))


class TestMarks:
    def test_counts_and_sums_go_by_their_known_noise(self):
        """The noise is enumerated from the distribution that the plan names."""
        query = by_town().count().sum("fare", bounds=(0, 40))
        release = query.release(1, 1e-8, marks=[0.01, 0.05])
        rows, centred = (
            enumerated_std(law) * float(release.plan.groups.step(measure)) for measure, law in release.plan.laws.items()
        )
        middle = 20  # sums are measured around the middle of the bounds, and as much for each row is added
        stds = {"count": rows, "fare_sum": math.hypot(centred * float(query.aggregates[1].grid.step), middle * rows)}
        for name, std in stds.items():
            expected = [mark_of(std / abs(value) if value else math.inf, 0.01, 0.05) for value in release[name]]
            assert release[name + "_mark"].tolist() == expected
        assert {*release["count_mark"]} == {*WORDS}  # towns are large and small enough for all of them

    def test_levels_of_totals_have_noise_of_their_own(self):
        release = by_town([{"by": [], "weight": 9}]).count().release(0.2, 1e-8, marks=[0.01, 0.02])
        rows = list(release)
        [total] = release.plan.totals.values()
        assert total[0].std < 0.8 * release.plan.columns[0].std
        for row in rows:
            std = (release.plan.columns if row[SUMMED_OVER] is None else total)[0].std
            assert row["count_mark"] == mark_of(std / abs(row["count"]) if row["count"] else math.inf, 0.01, 0.02)

    def test_the_rest_of_chosen_groups_has_a_mark_where_it_has_an_interval(self):
        data = Dataset(rides(), "user")
        query = data.group_by("town", max_groups=2, max_rows_per_group=1, totals=[[]]).count_units()
        *groups, other, total = list(query.release(1, 1e-6, marks=True))
        assert groups
        assert (other["count_units_low"] is None) == (other["count_units_mark"] is None)
        assert total["count_units_mark"] == GOOD

    @pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
    @pytest.mark.parametrize("budget", [(1, 1e-8), (0.1, 1e-3), (1, 0)])
    def test_the_noise_of_a_mean_is_never_taken_as_smaller_than_it_is(self, budget, confidence):
        """In a large group the noise of a mean is that of its sum over its size."""
        query = by_town().mean("fare", bounds=(0, 40))
        plan = query.plan(*budget, confidence=confidence)
        [mean] = plan.aggregates
        total = next(measure for measure in plan.laws if isinstance(measure, CentredSum))
        assert set(plan.laws) <= {total, Values("fare"), Rows()}
        size, half = max(plan.columns[0].by_size.items())
        unit = float(mean.grid.step) / 2
        exact = enumerated_std(plan.laws[total]) * float(plan.groups.step(total)) * unit / size
        [derived] = std_of_interval(np.zeros(1), np.full(1, -half), np.full(1, half), confidence)
        assert 0.99 <= derived / exact <= (1.1 if confidence == 0.95 else 1.5)

    def test_the_longer_side_counts(self):
        """An interval that ends at a bound would make the noise look small."""
        assert std_of_interval(np.array([1.0]), np.array([0.9]), np.array([3.0]), 0.95) == pytest.approx(
            [2 / 1.959964], rel=1e-5
        )

    def test_what_is_unknown_or_zero_is_too_uncertain(self):
        marks = Marks()
        values = np.array([100.0, -100.0, 0.0, np.nan, 50.0, 20.0])
        assert marks.marks(values, 10.0).to_pylist() == [GOOD, GOOD, UNCERTAIN, UNCERTAIN, CAUTION, UNCERTAIN]
        assert marks.marks(np.array([1000.0, 166.0]), np.array([166.0, 0.0])).to_pylist() == [GOOD, GOOD]

    def test_every_number_of_every_aggregate_has_one(self, quiet_noise):
        query = by_town().count().histogram("fare", [0, 20, 40]).mean("fare", (0, 40)).variance("fare", (0, 40))
        query = query.quantile("fare", [0.25, 0.75], (0, 40)).proportion("fare > 10")
        release = query.release(20, 1e-8, marks=True)
        names = [name for aggregate in release.plan.aggregates for name in aggregate.names]
        assert len(names) == 8
        columns = [name + end for name in names for end in ("", "_low", "_high", "_mark")]
        assert release.table.column_names == ["town", *columns]
        assert [column["name"] for column in release.statement.values["columns"]] == release.table.column_names
        for name in names:
            assert release[f"{name}_mark"][0] == GOOD  # Bern, with an ε of 20
            assert release[f"{name}_mark"][-1] == UNCERTAIN  # nobody is there

    def test_a_number_in_several_tables(self):
        query = by_town().count()
        release = Publication(one=query, two=query.mean("fare", (0, 40))).release(1, 1e-8, marks=[0.1, 0.2])
        assert {"count_mark", "fare_mean_mark"} <= set(release["two"].table.column_names)
        assert release.statement.values["marks"] == {GOOD: 0.1, CAUTION: 0.2}
        assert str(release.statement).count("good up to 10 %, use with caution up to 20 %") == 1

    def test_nothing_is_said_unless_asked(self, tmp_path):
        release = by_town().count().release(1, 1e-8)
        release.report(tmp_path / "r.html")
        assert release.table.column_names == ["town", "count", "count_low", "count_high"]
        assert "marks" not in release.statement.values
        for text in (str(release), str(release.statement), (tmp_path / "r.html").read_text(encoding="utf-8")):
            assert not re.search("caution|uality mark", text)


class TestWrong:
    @pytest.mark.parametrize(
        "marks",
        [[0.3, 0.1], [0.1, 0.1], [0, 0.2], [16.6, 33.3], [0.1], [0.1, 0.2, 0.3], "yes", [True, 0.3], [0.1, math.nan]],
    )
    def test_thresholds(self, marks, tmp_path):
        with Ledger(tmp_path / "budget.db") as ledger:
            ledger.open("rides", epsilon=3, delta=1e-6, unit="user")
            query = by_town(ledger=ledger, dataset="rides").count()
            with pytest.raises(ValueError, match=r"marks must be true, or two ascending shares"):
                query.release(1, 1e-8, marks=marks)
            assert ledger.history("rides") == []

    def test_a_name_that_a_mark_has(self):
        with pytest.raises(ValueError, match="there is a column 'count_mark' already"):
            by_town().count().sum("fare", bounds=(0, 40), name="count_mark").count(name="count")


QUERY = """
[data]
source = "rides.parquet"
privacy_unit = "user"

[groups]
by = "town"
max_rows = 2
public_keys = ["Bern", "Rome", "Oslo", "Riga", "Nowhere"]

[[aggregates]]
kind = "count"

[budget]
epsilon = 1
delta = 1e-8

[output]
out = "table.csv"
report = "table.html"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(rides(), "rides.parquet")
    (tmp_path / "query.toml").write_text(QUERY + "marks = true\n", encoding="utf-8")
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


class TestDoors:
    def test_the_query_file_and_what_is_written(self, folder, quiet_noise):
        done = run("release", "--query", "query.toml")
        assert done.exit_code == 0, done.output
        marks = pyarrow.csv.read_csv("table.csv")["count_mark"].to_pylist()
        assert (marks[0], marks[-1]) == (GOOD, UNCERTAIN)
        assert "‡" in done.output
        assert "‡ too uncertain: over 33.3 %." in done.output
        plain = json.loads((folder / "table.csv-metadata.json").read_text(encoding="utf-8"))
        told = {column["name"]: column for column in plain["tableSchema"]["columns"]}["count_mark"]
        assert told["datatype"] == "string"
        assert "good up to 16.6 %, use with caution up to 33.3 %, too uncertain above" in told["dc:description"]
        assert "schema:unitText" not in told
        page = (folder / "table.html").read_text(encoding="utf-8")
        assert "‡ too uncertain: over 33.3 %" in page
        assert '<span class="hidden"> too uncertain</span>' in page
        assert "† marks unreliable numbers" not in page
        assert "Quality marks" in page

    def test_the_option_stands_in_for_the_file(self, folder):
        done = run("release", "--query", "query.toml", "--marks", "0.2,0.4", "--out", "t.parquet", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["marks"] == {GOOD: 0.2, CAUTION: 0.4}
        assert set(pq.read_table("t.parquet")["count_mark"].to_pylist()) <= set(WORDS)
        done = run("release", "--query", "query.toml", "--marks", "no", "--out", "u.parquet", "--report", "u.html")
        assert done.exit_code == 0, done.output
        assert "count_mark" not in pq.read_table("u.parquet").column_names

    @pytest.mark.parametrize(
        ("words", "message"), [("16,33", "two ascending shares"), ("often", "--marks must be yes")]
    )
    def test_what_is_wrong_is_refused_before_anything_is_read(self, folder, words, message):
        for more in ((), ("--dry-run",)):
            done = run("release", "--query", "query.toml", "--marks", words, *more)
            assert done.exit_code == 2
            assert message in done.output
            assert not (folder / "table.csv").exists()

    def test_excel_has_the_marks_and_a_note(self, folder):
        openpyxl = pytest.importorskip("openpyxl")
        by_town().count().release(1, 1e-8, marks=True).to_excel("t.xlsx")
        book = openpyxl.load_workbook("t.xlsx")
        head, *rows = [[cell.value for cell in row] for row in book["Table"].iter_rows()]
        assert {row[head.index("count_mark")] for row in rows} <= set(WORDS)
        notes = [[cell.value for cell in row if cell.value is not None] for row in book["Notes"].iter_rows()]
        [note] = [row for row in notes if row and row[0] == "count_mark"]
        assert note[1] == "count, quality mark"
        assert "good up to 16.6 %" in note[-1]


def test_no_sign_and_no_legend_without_an_uncertain_number(quiet_noise):
    keys = ["Bern", "Rome"]
    query = Dataset(rides(), "user").group_by("town", max_rows=2, public_keys=keys).count()
    text = str(query.release(5, 1e-6, marks=True))
    assert not re.search("[†‡]|caution", text)


class TestPlanCommand:
    def test_the_relative_error_of_a_group(self, folder):
        words = ("plan", "--query", "query.toml", "--relative-error", 0.1, "--group-size", 500, "--json")
        done = run(*words)
        assert done.exit_code == 0, done.output
        plan = json.loads(done.stdout)
        assert 45 < plan["columns"][0]["half_width"] <= 50
        assert plan["epsilon"] == by_town().count().plan(interval=50, delta=1e-8).epsilon

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--query", "query.toml", "--relative-error", 0.1), "together with --group-size"),
            (("--query", "query.toml", "--group-size", 10), "together with --group-size"),
            (("--query", "query.toml", "--relative-error", 0.1, "--group-size", 9, "--epsilon", 1), "give one of"),
            (("--query", "query.toml", "--relative-error", 0.1, "--group-size", 9, "--error", 1), "give --error alone"),
            (("--relative-error", 0.1, "--group-size", 9, "--delta", 1e-8, "--coordinates", 2), "are for a table"),
        ],
    )
    def test_what_is_wrong(self, folder, words, message):
        done = run("plan", *words)
        assert done.exit_code == 2
        assert message in " ".join(done.output.split())
