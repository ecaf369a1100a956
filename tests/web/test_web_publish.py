"""The whole way in a real browser: from a CSV file or a database to a charged release and its report."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from planner_page import Planner, served

from osgt import Ledger

CITIES, PEOPLE = ("Bern", "Oslo", "Rome"), 3_000


def rides():
    generator = np.random.default_rng(7)
    people = np.repeat(np.arange(PEOPLE), 2)
    return pa.table(
        {
            "person": people,
            "city": generator.choice(CITIES, len(people)),
            "fare": generator.integers(1, 50, len(people)),
        }
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("publish")
    pyarrow.csv.write_csv(rides(), folder / "rides.csv")
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("rides", epsilon=8, delta=1e-5, unit="person")
        ledger.open("people", epsilon=8, delta=1e-5)
    with served(folder, "rides.csv", "--ledger", "budget.db") as running:
        yield running


@pytest.fixture
def planner(browser, server):
    made = Planner(browser, server.link())
    yield made
    assert made.told == []
    assert [url for url in made.asked if not url.startswith(f"{made.origin}/")] == []
    made.close()


def assert_near(table, rows):
    """The numbers lie near the truth: bounds cut off nothing here, so only noise is between them."""
    assert sorted(table["city"].to_pylist()) == sorted(CITIES)
    for row in table.to_pylist():
        of_city = rows.filter(pc.equal(rows["city"], row["city"]))
        truth = {"count": of_city.num_rows, "fare_mean": pc.mean(of_city["fare"]).as_py()}
        for name, value in truth.items():
            half = (row[f"{name}_high"] - row[f"{name}_low"]) / 2
            assert half > 0
            assert abs(row[name] - value) <= 10 * half


def fill(planner):
    """Everything but the data: two numbers for each city."""
    planner.tick("#unit-column")
    planner.choose("data.privacy_unit", "person")
    planner.choose("groups.by", "city")
    planner.choose("aggregates.0.kind", "count")
    planner.choose("aggregates.1.kind", "mean")
    planner.choose("aggregates.1.column", "fare")
    planner.type("groups.max_groups", "2")
    planner.type("groups.max_rows_per_group", "2")
    planner.type("aggregates.1.bounds.low", "0")
    planner.type("aggregates.1.bounds.high", "50")
    planner.type("budget.epsilon", "1.5")
    planner.type("budget.delta", "1e-7")


def check_published(planner, folder, dataset, name):
    """What stands on the page, on the disk and in the ledger."""
    words = planner.words()
    assert "Published" in words
    assert f"ε = 1.5, δ = 1e-07, charged to '{dataset}'" in words
    assert_near(pq.read_table(folder / f"{name}.parquet"), rides())
    assert planner.download("a[download]") == (folder / f"{name}.parquet").read_bytes()
    with planner.context.expect_page() as opening:
        planner.page.click("text=Open the report")
    report = opening.value
    report.wait_for_load_state()
    assert "Rome" in report.inner_text("body")
    assert planner.context.request.get(report.url).text() == (folder / f"{name}.html").read_text(encoding="utf-8")
    report.close()
    with Ledger(folder / "budget.db") as ledger:
        [entry] = ledger.overview(dataset).releases
        assert (entry.epsilon, entry.delta, entry.status) == (1.5, 1e-7, "settled")
        assert ledger.verify().ok


def test_from_a_csv_file(planner, server):
    """Nothing but the data and the ledger is chosen at first; the last step charges and publishes."""
    for name in ("budget.epsilon", "budget.delta", "groups.max_rows_per_group", "data.dataset"):
        assert planner.field(name).input_value() == ""
    assert planner.page.locator("input[type=radio][name='unit.kind']:checked").count() == 0
    planner.choose("data.types.fare", "float64")
    planner.choose("data.dataset", "rides")
    fill(planner)
    planner.publish("csv.parquet", "csv.html")
    check_published(planner, server.folder, "rides", "csv")
