"""Units and columns on the command line: `--unit`, `--unit-row`."""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from osgt.cli import app

ROWS = pa.table(
    {
        "house": [i // 4 for i in range(40)],
        "person": [i % 4 for i in range(40)],
        "town": ["Bern", "Rome"] * 20,
    }
)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(ROWS, path)
    return path


def planned(run, *arguments):
    result = run("plan", *arguments, "--epsilon", 1, "--delta", "1e-6", "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def released(run, *arguments):
    result = run("release", *arguments, "--epsilon", 5, "--delta", "1e-4", "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_every_row_is_a_unit(run, rows):
    found = released(run, rows, "--unit-row", "--by", "town", "--count")
    assert found["query"]["data"]["privacy_unit"] == "row"
    assert found["query"]["groups"] == {"by": ["town"], "public_keys": None}
    refused = run("plan", rows, "--unit-row", "--by", "town", "--count", "--max-groups", 2, "--epsilon", 1)
    assert refused.exit_code == 2
    assert "max_groups must be left out where every row is a unit" in refused.stderr


def test_several_columns_name_the_unit(run, rows):
    limits = ["--max-groups", 1, "--max-rows-per-group", 1]
    found = released(run, rows, "--unit", "house", "--unit", "person", "--by", "town", "--count", *limits)
    assert found["query"]["data"]["privacy_unit"] == ["house", "person"]
    assert "for every house + person" in found["statement"]


def test_one_or_the_other(run, rows):
    refused = run("plan", rows, "--unit", "house", "--unit-row", "--count", "--epsilon", 1, "--delta", 0)
    assert refused.exit_code == 2
    assert "give --unit or --unit-row, not both" in refused.stderr


def test_a_query_file_says_the_same(run, rows):
    file = rows.with_name("query.toml")
    for unit in ('"row"', '["house", "person"]'):
        limits = "" if unit == '"row"' else "max_groups = 1\nmax_rows_per_group = 1\n"
        file.write_text(
            f'[data]\nsource = "rows.parquet"\nprivacy_unit = {unit}\n[groups]\nby = "town"\n{limits}\n'
            '[[aggregates]]\nkind = "count"\n'
        )
        assert released(run, "--query", file)["query"]["data"]["privacy_unit"] == json.loads(unit)
    assert planned(run, "--query", file, "--unit", "house")["epsilon"] == 1
