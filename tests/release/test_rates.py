"""Rates: counts and sums divided by public numbers, in every place where a table is shown."""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from osgt import Dataset, Publication
from osgt.check import main as check
from osgt.cli import app
from osgt.query.groups import SUMMED_OVER

ROWS = 3000
PER = {("Bern", 1): 5000, ("Bern", 2): 4000, ("Oslo", 1): 900, ("Oslo", 2): 0}
KEYS = {"city": ["Bern", "Oslo"], "month": [1, 2]}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(2)
    columns = {"id": np.arange(ROWS), "city": rng.choice(KEYS["city"], ROWS), "month": rng.choice([1, 2], ROWS)}
    return pa.table({**columns, "pay": rng.integers(0, 9, ROWS)})


def asked(people, **more):
    options = {"max_rows": 1, "public_keys": KEYS, "per": PER} | more
    return Dataset(people, "id").group_by("city", "month", **options).count().sum("pay", (0, 8)).mean("pay", (0, 8))


@pytest.mark.parametrize("totals", [None, "rollup", "cube", {"city": {"Bern": 1500, "Oslo": 1500}}], ids=str)
@pytest.mark.parametrize("marks", [False, True])
def test_every_rate_is_its_number_divided(people, totals, marks):
    release = asked(people, totals=totals, per_how_many=1000).release(1, 1e-6, marks=marks)
    rows = release.to_arrow().to_pylist()
    names = release.to_arrow().column_names
    assert len(rows) == {"None": 4, "rollup": 7, "cube": 9}.get(str(totals), 6)
    assert not any(name.startswith("pay_mean_rate") for name in names)
    for name in ("count", "pay_sum"):
        before = names.index(f"{name}_rate") - 1
        assert names[before] == (f"{name}_mark" if marks else f"{name}_high")
        for row in rows:
            of = sum(
                n for (city, month), n in PER.items() if row["city"] in (None, city) and row["month"] in (None, month)
            )
            for end in ("", "_low", "_high"):
                expected = None if of == 0 else pytest.approx(row[name + end] * 1000 / of)
                assert row[f"{name}_rate{end}"] == expected
    assert "count_rate and pay_sum_rate and their intervals" in str(release.statement)


def test_files_and_one_group(people, tmp_path):
    table = pa.table({"city": [c for c, _ in PER], "month": [m for _, m in PER], "n": [*PER.values()]})
    pyarrow.csv.write_csv(table, tmp_path / "n.csv")
    for per in (table, table.to_pandas(), tmp_path / "n.csv"):
        assert asked(people, per=per).groups.rates.numbers == tuple(PER.values())
    mixed = dict(zip(PER, (Decimal("5000.5"), 4000, np.float32(0.5), np.int16(0)), strict=True))
    assert asked(people, per=mixed).groups.rates.numbers == (5000.5, 4000, 0.5, 0)
    [row] = Dataset(people, "id").group_by(max_rows=1, per=9_000).count().release(5, 1e-6).to_arrow().to_pylist()
    assert row["count_rate"] == pytest.approx(row["count"] * 100_000 / 9_000)


def test_rates_cost_nothing_and_tables_share_what_is_measured(people):
    data = Dataset(people, "id")
    with_rates, without = (
        data.group_by("city", "month", max_rows=1, public_keys=KEYS, per=per).count() for per in (PER, None)
    )
    assert with_rates.plan(1, 1e-6).charge == without.plan(1, 1e-6).charge
    both = Publication(a=with_rates, b=without)
    assert len(both.plan(1, 1e-6).blocks) == 1
    release = both.release(1, 1e-6)
    assert "count_rate" in release["a"].to_arrow().column_names
    assert "count_rate" not in release["b"].to_arrow().column_names


@pytest.mark.parametrize(
    ("more", "argument", "words"),
    [
        ({"per": {("Bern", 1): 5}}, "per", "must have a number for Bern, 2; Oslo, 1; Oslo, 2"),
        ({"per": {**PER, ("Oslo", 2): -1}}, "per", "from 0 on for Oslo, 2, got -1"),
        ({"per": {**PER, ("Bern", 2): "4000"}}, "per", "from 0 on for Bern, 2, got '4000'"),
        ({"per": {**PER, ("Bern", 2): True}}, "per", "from 0 on for Bern, 2, got True"),
        ({"totals": {"city": {"Bern": 1500, "Oslo": "1500"}}}, "totals", "from 0 on for Oslo, got '1500'"),
        ({"per_how_many": 0}, "per_how_many", "≥ 1"),
        ({"per": None, "per_how_many": 10}, "per_how_many", "give per"),
        ({"public_keys": None}, "per", "needs public_keys"),
    ],
)
def test_what_is_refused(people, more, argument, words):
    with pytest.raises(ValueError, match=words) as caught:
        asked(people, **more)
    assert caught.value.argument == argument


def test_a_column_of_that_name_is_refused(people):
    with pytest.raises(ValueError, match="there is a column 'count_rate' already"):
        asked(people).sum("pay", (0, 8), name="count_rate")


def test_all_files_have_them_and_can_be_checked(people, tmp_path):
    pyarrow.parquet.write_table(people, tmp_path / "people.parquet")
    table = pa.table({"city": [c for c, _ in PER], "month": [m for _, m in PER], "n": [*PER.values()]})
    pyarrow.csv.write_csv(table, tmp_path / "n.csv")
    text = """
        [data]
        source = "people.parquet"
        privacy_unit = "id"
        [groups]
        by = ["city", "month"]
        max_rows = 1
        totals = "rollup"
        per = "n.csv"
        per_how_many = 1000
        public_keys = {city = ["Bern", "Oslo"], month = [1, 2]}
        [[aggregates]]
        kind = "count"
        [budget]
        epsilon = 1
        delta = 1e-6
        [report.labels]
        count_rate = "Visits per thousand"
    """
    (tmp_path / "query.toml").write_text(text)
    for out in ("table.csv", "table.xlsx", "table.parquet"):
        files = ["--out", str(tmp_path / out), "--report", str(tmp_path / f"{out}.html")]
        run = CliRunner().invoke(app, ["release", "--query", str(tmp_path / "query.toml"), *files])
        assert run.exit_code == 0, run.output
        assert check([str(tmp_path / out)]) == 0
        assert "Visits per thousand" in Path(tmp_path / f"{out}.html").read_text()
    described = json.loads((tmp_path / "table.csv-metadata.json").read_text())
    columns = {column["name"]: column for column in described["tableSchema"]["columns"]}
    assert "per 1,000 of the public number" in json.dumps(columns["count_rate"])
    rows = pyarrow.csv.read_csv(tmp_path / "table.csv").to_pylist()
    assert rows[-1]["count_rate"] == pytest.approx(rows[-1]["count"] * 1000 / 9900)
    assert rows[-1][SUMMED_OVER] == "city, month"


def test_the_command_line(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pyarrow.parquet.write_table(people, "people.parquet")
    Path("n.csv").write_text("city,n\nBern,5000\nOslo,4000\n")
    options = "--by city --keys city=Bern,Oslo --max-rows 1 --count --epsilon 1 --delta 1e-6 --per n.csv"
    more = ["--unit", "id", "--per-how-many", "1000", "--out", "out.csv"]
    run = CliRunner().invoke(app, ["release", "people.parquet", *options.split(), *more])
    assert run.exit_code == 0, run.output
    rows = pyarrow.csv.read_csv("out.csv").to_pylist()
    assert [row["count_rate"] for row in rows] == [
        pytest.approx(rows[0]["count"] / 5),
        pytest.approx(rows[1]["count"] / 4),
    ]
