"""`osgt sql`: the same release as `osgt release`, from a question in SQL."""

import json
import random
import tomllib

import pytest
from typer.testing import CliRunner

from osgt import Ledger
from osgt.cli import app

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def visits(tmp_path):
    """A CSV file, and a data file about it."""
    chosen = random.Random(3)
    lines = [f"p{i % 4000},{chosen.choice('xyz')},{chosen.randrange(100)},{chosen.random() < 0.5}" for i in range(9000)]
    (tmp_path / "visits.csv").write_text("\n".join(["patient,ward,cost,urgent", *lines, ""]))
    (tmp_path / "data.toml").write_text(
        '[data]\nsource = "visits.csv"\nprivacy_unit = "patient"\nunits = 4000\n'
        '[columns.cost]\ntype = "int64"\nrange = [0, 100]\n[columns.urgent]\ntype = "boolean"\n'
        '[columns.ward]\nvalues = ["x", "y", "z"]\n[budget]\nepsilon = 1\ndelta = 1e-6\n'
    )
    return tmp_path


def run(*arguments):
    return CliRunner(env={"COLUMNS": "300"}).invoke(app, ["sql", *map(str, arguments)])


def test_a_data_file_and_a_question(visits):
    text = "SELECT ward, COUNT(*), AVG(cost), MEDIAN(cost) AS middle FROM visits WHERE urgent GROUP BY ward"
    result = run(visits / "data.toml", text, "--json")
    assert result.exit_code == 0, result.output
    table = json.loads(result.stdout)["table"]
    assert [row["ward"] for row in table] == ["x", "y", "z"]
    assert {"count", "cost_mean", "middle", "middle_low"} <= set(table[0])


def test_a_key_under_another_name_keeps_its_public_values(visits):
    result = run(visits / "data.toml", "SELECT ward AS place, COUNT(*) AS n FROM visits GROUP BY place", "--json")
    assert result.exit_code == 0, result.output
    assert [row["place"] for row in json.loads(result.stdout)["table"]] == ["x", "y", "z"]


def test_a_source_with_options(visits):
    out = visits / "out.csv"
    options = ["--unit", "patient", "--type", "cost:int64", "--max-rows", 4, "--out", out, *BUDGET]
    result = run(visits / "visits.csv", "SELECT AVG(cost) AS m FROM visits", *options, "--bounds", "m:0:100")
    assert result.exit_code == 0, result.output
    assert out.read_text().splitlines()[0] == '"m","m_low","m_high"'


def test_the_charge_and_the_name_of_the_ledger(visits):
    with Ledger(visits / "budget.db") as ledger:
        ledger.open("hospital", epsilon=3, delta=1e-5)
    charged = ["--ledger", visits / "budget.db", "--dataset", "hospital"]
    result = run(visits / "data.toml", "SELECT COUNT(*) FROM hospital", *charged)
    assert result.exit_code == 0, result.output
    result = run(visits / "data.toml", "SELECT MAX(cost) FROM hospital", *charged)
    assert result.exit_code == 2
    with Ledger(visits / "budget.db") as ledger:
        assert len(ledger.history("hospital")) == 1


def test_the_plan_and_the_sql(visits):
    result = run(visits / "data.toml", "SELECT ward, COUNT(*) FROM visits WHERE cost > 3 GROUP BY ward", "--plan")
    assert result.exit_code == 0, result.output
    assert "Total cost: ε = 1" in result.stdout
    assert "-- Statement 1 of" in result.stdout
    assert '("cost" > 3)' in result.stdout
    assert "NOT PRIVATE" not in result.stderr


def test_a_dry_run_and_the_query_file(visits):
    saved = visits / "query.toml"
    text = "SELECT ward, SUM(cost * 2) AS twice FROM visits WHERE urgent GROUP BY ROLLUP (ward)"
    result = run(visits / "data.toml", text, "--dry-run", "--save-query", saved)
    assert result.exit_code == 0, result.output
    assert "This was a dry run" in result.stdout
    query = tomllib.loads(saved.read_text())
    assert query["data"]["where"] == ["urgent"]
    assert query["data"]["derive"] == {"cost_2": "cost * 2"}
    assert query["groups"]["totals"] == [[]]
    again = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["release", "--query", str(saved), "--dry-run"])
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["SELECT * FROM visits"], "rows are never published"),
        (["SELECT MEDIAN(cost * 2) FROM visits"], "--bounds must be given for MEDIAN(cost * 2)"),
        (["SELECT AVG(cost) FROM visits", "--bounds", "cost:1"], "--bounds must be COLUMN:LOW:HIGH"),
        (["SELECT AVG(cost) FROM visits", "--bounds", "cots:0:1"], "did you mean 'cost'?"),
        (["SELECT COUNT(*) FROM patients"], "these data are 'visits'"),
        (["SELECT COUNT(*) FROM visits", "--by", "ward"], "No such option: --by"),
        (["SELECT COUNT(*) FROM visits", "--count"], "No such option: --count"),
        ([], "Missing argument 'SELECT'. As in: osgt sql data.toml"),
        (["SELECT ward, COUNT(*) FROM visits GROUP BY ward", "--keys", "ward=w"], "'w' is not among the values"),
    ],
)  # fmt: skip
def test_what_is_refused(visits, options, message):
    result = run(visits / "data.toml", *options)
    assert result.exit_code == 2
    assert message in result.stderr
