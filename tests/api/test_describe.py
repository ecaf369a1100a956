"""`describe`: values, missing ones and quartiles of all columns, from one release."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osgt import Dataset, Ledger
from osgt.cli import app
from osgt.release.numbers import PublishedTable
from osgt.support.errors import OsgtError

SIZE = 4_000

pytestmark = pytest.mark.filterwarnings("ignore::osgt.support.errors.OsgtWarning")


@pytest.fixture(scope="module")
def people():
    """Columns with missing values of every kind: null in one, NaN in another, null in a text."""
    order = np.arange(SIZE)
    ages = np.where(order % 4 == 0, 0, order % 100)
    return pa.table(
        {
            "id": order,
            "age": pa.array(ages, mask=order % 4 == 0),
            "wage": np.where(order % 5 == 0, np.nan, order % 101 + 0.5),
            "town": pa.array(np.array(["Basel", "Bern"])[order % 2], mask=order % 8 == 0),
        }
    )


RANGES = {"age": {"range": (0, 120)}, "wage": {"range": (0, 150)}}


def test_all_columns_on_one_page(people, quiet_noise):
    data = Dataset(people, privacy_unit="id", columns=RANGES)
    result = data.describe(epsilon=1, delta=1e-8, max_rows=1)
    table = result.to_pandas().set_index("column")
    assert list(table.index) == ["age", "wage", "town"]
    missing = {"age": SIZE // 4, "wage": SIZE // 5, "town": SIZE // 8}
    for name, number in missing.items():
        assert table["missing_low"][name] <= number <= table["missing_high"][name]
        assert table["values_low"][name] <= SIZE - number <= table["values_high"][name]
    for quartile, share in (("q25", 0.25), ("median", 0.5), ("q75", 0.75)):
        for name in ("age", "wage"):
            true = np.nanquantile(people[name].to_pandas(), share)
            assert table[f"{quartile}_low"][name] <= true <= table[f"{quartile}_high"][name]
            assert table[f"{quartile}_high"][name] - table[f"{quartile}_low"][name] < 30
        assert np.isnan(table[quartile]["town"])
    assert result.release.plan.epsilon == 1
    words = str(result)
    assert "Rows: " in words
    assert result.release.statement.words in words
    assert "<table" in result._repr_html_()


def test_the_noise_of_missing_ones_is_that_of_the_difference(people):
    """Against the sum over all numbers that were measured, each with its own coefficient."""
    data = Dataset(people, privacy_unit="id", columns=RANGES)
    release = data.describe(epsilon=1, delta=1e-8, max_rows=1).release
    published, scheme = PublishedTable(release.table, release.plan), release.plan.noise.scheme
    rows, values = published.column("count"), published.column("age_values")
    parts = [scheme.combined[column.aggregate.measure] for column in (rows, values)]
    variance = sum(
        float(parts[0].get(measure, 0) - parts[1].get(measure, 0)) ** 2 * law.var()
        for measure, law in release.plan.laws.items()
    )
    assert rows.difference_noise(values).var() == pytest.approx(variance)
    assert variance > 0


def test_one_charge_for_all(people, tmp_path):
    path = tmp_path / "ledger.db"
    with Ledger(path) as ledger:
        ledger.open("people", epsilon=2, delta=1e-6, unit="id")
    data = Dataset(people, privacy_unit="id", columns=RANGES, ledger=path, dataset="people")
    data.describe(epsilon=1, delta=1e-8)
    data.close()
    with Ledger(path) as ledger:
        assert len(ledger.history("people")) == 1


def test_numbers_need_a_range(people):
    data = Dataset(people, privacy_unit="id")
    with pytest.raises(OsgtError, match=r"'age' and 'wage' have not"):
        data.describe(epsilon=1, delta=1e-8)
    with pytest.raises(OsgtError, match=r"'wage' has not"):
        data.describe(epsilon=1, delta=1e-8, columns=["town", "wage"])
    assert list(data.describe(epsilon=1, delta=1e-8, columns=["town"], max_rows=1)["column"]) == ["town"]
    with pytest.raises(OsgtError, match="no column"):
        data.describe(epsilon=1, delta=1e-8, columns=["twon"])


@pytest.mark.parametrize("columns", [[], "town"])
def test_what_names_no_columns_is_refused_before_the_charge(people, tmp_path, columns):
    path = tmp_path / "ledger.db"
    with Ledger(path) as ledger:
        ledger.open("people", epsilon=2, delta=1e-6, unit="id")
    data = Dataset(people, privacy_unit="id", columns=RANGES, ledger=path, dataset="people")
    with pytest.raises(OsgtError, match="columns must be a list of columns"):
        data.describe(epsilon=1, delta=1e-8, columns=columns, max_rows=1)
    data.close()
    with Ledger(path) as ledger:
        assert ledger.history("people") == []


def test_the_number_of_missing_ones_is_within_its_interval(people):
    """Of columns without any, half the differences are below 0: a chance of 2⁻³⁰ that none of them is."""
    full = pa.table({"id": people["id"], **{f"c{i}": people["id"] for i in range(30)}})
    ranges = {f"c{i}": {"range": (0, SIZE)} for i in range(30)}
    table = Dataset(full, privacy_unit="id", columns=ranges).describe(epsilon=1, delta=1e-8, max_rows=1, bins=2)
    for row in table.to_pandas().to_dict("records"):
        assert row["missing_low"] <= row["missing"] <= row["missing_high"]


def test_nan_in_a_parquet_file_is_missing(people, tmp_path, quiet_noise):
    """PyArrow leaves NaN out of the statistics of a file, from which engines may conclude that there is none."""
    pq.write_table(people, tmp_path / "people.parquet")
    data = Dataset(str(tmp_path / "people.parquet"), privacy_unit="id")
    query = data.group_by(max_rows=1).count_values("wage").mean("wage", bounds=(0, 150))
    row = query.release(epsilon=1, delta=1e-8).to_pandas().iloc[0]
    assert row["wage_values_low"] <= SIZE - SIZE // 5 <= row["wage_values_high"]
    assert row["wage_mean_low"] <= np.nanmean(people["wage"].to_numpy()) <= row["wage_mean_high"]


def test_the_command(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(people, "people.parquet")
    text = '[data]\nsource = "people.parquet"\nprivacy_unit = "id"\n'
    ranges = "".join(f"[columns.{name}]\nrange = [0, 150]\n" for name in ("age", "wage"))
    (tmp_path / "data.toml").write_text(text + ranges, encoding="utf-8")
    arguments = ["--epsilon", "1", "--delta", "1e-8", "--max-rows", "1"]
    shown = CliRunner().invoke(app, ["describe", "data.toml", *arguments])
    assert shown.exit_code == 0, shown.output
    assert [line.split()[0] for line in shown.output.splitlines()[2:6]] == ["column", "age", "wage", "town"]
    plain = CliRunner().invoke(app, ["describe", "data.toml", *arguments, "--column", "town", "--json"])
    told = json.loads(plain.output)
    assert [row["column"] for row in told["description"]] == ["town"]
    assert told["epsilon"] == 1
    refused = CliRunner().invoke(app, ["describe", "people.parquet", "--unit", "id", *arguments])
    assert refused.exit_code == 2
    assert "'age' and 'wage' have not" in refused.output
