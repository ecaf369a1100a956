"""Units and derived columns on the command line and in query files."""

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
    assert "--max-groups must be left out where every row is a unit" in refused.stderr


def test_several_columns_name_the_unit(run, rows):
    limits = ["--max-groups", 1, "--max-rows-per-group", 1]
    found = released(run, rows, "--unit", "house", "--unit", "person", "--by", "town", "--count", *limits)
    assert found["query"]["data"]["privacy_unit"] == ["house", "person"]
    assert "for every unit (columns house and person together)" in found["statement"]


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


def test_derived_columns(run, rows, tmp_path):
    """Bands, recoding and arithmetic, with all labels as public keys; the statement says how they were made."""
    derived = ["--derive", "band=cut(house, 0, 5, 9)", "--derive", "late = house * 4 + person"]
    asked = ["--by", "band", "--public-keys", "all", "--where", "late >= 0"]
    found = released(run, rows, "--unit-row", *derived, *asked, "--count", "--sum", "late:0:40")
    assert [row["band"] for row in found["table"]] == ["0–4", "5–9"]
    assert found["query"]["data"]["derive"] == {"band": "cut(house, 0, 5, 9)", "late": "house * 4 + person"}
    assert "band = cut(house, 0, 5, 9); late = house * 4 + person" in found["statement"]
    report = tmp_path / "page.html"
    budget = ["--epsilon", 5, "--delta", "1e-4"]
    assert run("release", rows, "--unit-row", *derived, *asked, "--count", *budget, "--report", report).exit_code == 0
    assert "cut(house, 0, 5, 9)" in report.read_text()


def test_derived_columns_in_a_query_file(run, rows):
    file = rows.with_name("query.toml")
    file.write_text(
        """
        [data]
        source = "rows.parquet"
        privacy_unit = "row"
        where = "band <> 'none'"

        [data.derive]
        band = "cut(house, 0, 'few', 5, 'many', NULL)"
        town_code = "recode(town, 'Bern', 'BE', 'RM')"

        [groups]
        by = ["band", "town_code", "number"]

        [groups.public_keys]
        band = "all"
        town_code = "all"
        number = [0, 1, 2, 3]

        [[aggregates]]
        kind = "count"
        """
    )
    found = released(run, "--query", file, "--derive", "number=person")
    assert {(row["band"], row["town_code"]) for row in found["table"]} == {
        (band, town) for band in ("few", "many") for town in ("BE", "RM")
    }
    assert len(found["table"]) == 16
    assert list(found["query"]["data"]["derive"]) == ["band", "town_code", "number"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--derive", "x"], "--derive must be NAME=SQL"),
        (["--derive", "=house"], "--derive must be NAME=SQL"),
        (["--derive", "x=house +"], "derive: x: it ends too early"),
        (["--derive", "x=(SELECT 1)"], "derive: x: did not expect 'SELECT'"),
        (["--derive", "house=person"], "derive: there is a column 'house' already"),
        (["--by", "town", "--public-keys", "all"], '"all" is for columns with public values'),
    ],
)
def test_what_is_wrong_is_named(run, rows, given, message):
    result = run("plan", rows, "--unit-row", "--count", *given, "--epsilon", 1, "--delta", 0)
    assert result.exit_code == 2
    assert message in result.stderr
