"""`osgt limits`: options or a query file in; limits, a charge and a query file out. Releases with open limits."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osgt import Ledger
from osgt.cli import app

PATIENTS = 1500


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(3)
    patient = np.repeat(np.arange(PATIENTS), 6)
    ward = rng.integers(0, 5, len(patient))
    pq.write_table(
        pa.table({"patient": patient, "ward": ward, "days": rng.integers(0, 30, len(patient))}), tmp_path / "v.parquet"
    )
    (tmp_path / "query.toml").write_text(
        f'[data]\nsource = "v.parquet"\nprivacy_unit = "patient"\nunits = {PATIENTS}\n'
        '[groups]\nby = "ward"\npublic_keys = [0, 1, 2, 3, 4]\n'
        '[[aggregates]]\nkind = "count"\n[[aggregates]]\nkind = "sum"\ncolumn = "days"\n'
        "[budget]\nepsilon = 2\ndelta = 1e-6\n"
        '[report]\ntitle = "Days in bed"\n[report.labels]\ndays_sum = "Days"\n'
    )
    return tmp_path


def limits_in(path):
    found = tomllib.loads(path.read_text())
    total = found["aggregates"][1]["max_total"]
    return found["groups"]["max_rows"], total[1] if isinstance(total, list) else total


def are_near(max_rows, max_total):
    """Whether limits are not far from what patients have: six rows, and at most 174 days.

    A limit that is f times too large is drawn with a chance of about f⁻⁴, one that cuts most patients below e⁻¹⁰⁰: the
    chance to be outside is below 1e-12.
    """
    return 6 <= max_rows <= 10_000 and 40 <= max_total <= 10**7


def test_a_query_file_with_open_limits_is_completed_and_released(folder):
    saved = folder / "limited.toml"
    result = run("limits", "--query", folder / "query.toml", "--epsilon", 2, "--save", saved)
    assert result.exit_code == 0, result.stderr
    assert "max_rows = " in result.stdout
    assert "max_total of days = " in result.stdout
    assert "counts as at most" in result.stdout
    assert "Charged for the choice: ε = 2, δ = 0 to no ledger." in result.stdout
    assert are_near(*limits_in(saved))
    found = tomllib.loads(saved.read_text())
    assert found["data"]["source"] == "v.parquet"
    assert found["report"] == {"title": "Days in bed", "labels": {"days_sum": "Days"}}
    assert "chosen privately" not in run("release", "--query", saved).stdout
    refused = run("limits", "--query", saved, "--epsilon", 2)
    assert refused.exit_code == 2
    assert "nothing to choose" in refused.stderr


def test_a_release_chooses_limits_and_saves_them(folder):
    saved = folder / "again.toml"
    result = run("release", "--query", folder / "query.toml", "--save-query", saved)
    assert result.exit_code == 0, result.stderr
    assert "(max_rows and max_total of days chosen privately)" in " ".join(result.stdout.split())
    assert are_near(*limits_in(saved))
    dry = run("release", "--query", folder / "query.toml", "--dry-run", "--save-query", folder / "dry.toml")
    assert dry.exit_code == 0, dry.stderr
    assert "max_rows" not in (folder / "dry.toml").read_text()


def test_json_and_options(folder):
    result = run(
        *("limits", folder / "v.parquet", "--unit", "patient", "--by", "ward", "--count", "--sum", "days:0:30"),
        *("--epsilon", 1, "--json"),
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert list(found["limits"]) == ["max_rows"]
    assert (found["epsilon"], found["delta"], found["ledger"]) == (1.0, 0.0, None)


def test_it_is_charged(folder):
    path = folder / "budget.db"
    with Ledger(path) as ledger:
        ledger.open("visits", epsilon=1, delta=1e-6, unit="patient")
    ask = ("limits", "--query", folder / "query.toml", "--ledger", path, "--dataset", "visits")
    assert run(*ask, "--epsilon", 0.5).exit_code == 0
    with Ledger(path) as ledger:
        [entry] = ledger.history("visits")
        assert (entry.epsilon, entry.delta, entry.title) == (0.5, 0.0, "limits: count, sum(days) by ward")
        assert entry.status == "settled"
    refused = run(*ask, "--epsilon", 0.9, "--save", folder / "no.toml")
    assert refused.exit_code == 2
    assert not (folder / "no.toml").exists()


@pytest.mark.parametrize("before", ["max_groups = 3\nmax_rows_per_group = 2\n", "max_rows = 7\n", ""])
def test_limits_are_left_out_by_one_command(folder, before):
    path, saved = folder / "old.toml", folder / "new.toml"
    text = (folder / "query.toml").read_text()
    path.write_text(text.replace('by = "ward"\n', f'by = "ward"\n{before}'))
    result = run("limits", "--query", path, "--reopen", "--save", saved)
    assert result.exit_code == 0, result.stderr
    assert tomllib.loads(saved.read_text()) == tomllib.loads(text)
    without = run("limits", "--query", path, "--reopen")
    assert without.exit_code == 2
    assert "--save must be given" in without.stderr


def test_counts_of_units_keep_the_limit_that_they_need(folder):
    path, saved = folder / "old.toml", folder / "new.toml"
    for keys, kept in (("", {"max_groups": 3}), ("public_keys = [0, 1]\n", {})):
        path.write_text(
            '[data]\nsource = "v.parquet"\nprivacy_unit = "patient"\n'
            f'[groups]\nby = "ward"\nmax_groups = 3\nmax_rows_per_group = 2\n{keys}'
            '[[aggregates]]\nkind = "count"\n[[aggregates]]\nkind = "count_units"\n'
        )
        assert run("limits", "--query", path, "--reopen", "--save", saved, "--overwrite").exit_code == 0
        groups = tomllib.loads(saved.read_text())["groups"]
        assert {name: size for name, size in groups.items() if name.startswith("max_")} == kept
        planned = run("plan", "--query", saved, "--epsilon", 2, "--delta", 1e-6)
        assert planned.exit_code == 0, planned.stderr


def test_limits_of_several_tables_are_left_out_and_chosen(folder):
    path, reopened, saved = (folder / name for name in ("tables.toml", "open.toml", "limited.toml"))
    table = '[[table]]\nname = "{}"\n[table.groups]\nby = "ward"\nmax_groups = 3\nmax_rows_per_group = 2\n'
    path.write_text(
        f'[data]\nsource = "v.parquet"\nprivacy_unit = "patient"\nunits = {PATIENTS}\n'
        + table.format("visits")
        + '[[table.aggregates]]\nkind = "count"\n'
        + table.format("days")
        + '[[table.aggregates]]\nkind = "sum"\ncolumn = "days"\nbounds = [0, 30]\n'
    )
    assert run("limits", "--query", path, "--reopen", "--save", reopened).exit_code == 0
    assert [table["groups"] for table in tomllib.loads(reopened.read_text())["table"]] == [{"by": "ward"}] * 2
    result = run("limits", "--query", reopened, "--epsilon", 2, "--save", saved)
    assert result.exit_code == 0, result.stderr
    found = tomllib.loads(saved.read_text())["table"]
    assert found[0]["groups"]["max_rows"] == found[1]["groups"]["max_rows"] >= 1


def test_a_plan_shows_what_limits_would_mean(folder):
    result = run("plan", "--query", folder / "query.toml")
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "max_rows and max_total of days are not given: the release chooses them privately, with ε = " in words
    assert "1 3 10 30 100" in words
    found = json.loads(run("plan", "--query", folder / "query.toml", "--json").stdout)
    assert found["open_limits"] == ["max_rows", "max_total of days"]
    widths = [found["at_limits"][size]["columns"][0]["half_width"] for size in ("1", "10", "100")]
    assert widths == pytest.approx([widths[0], 10 * widths[0], 100 * widths[0]], rel=0.01)
    options = ["--max-rows", 10, "--count", "--json"]
    given = json.loads(run("plan", "--query", folder / "query.toml", *options).stdout)
    assert given["max_rows"] == 10
    assert given["choice_of_limits"] is None


class TestTooFewPeople:
    def test_who_are_known_to_be_few_are_not_charged(self, folder):
        for command in ("plan", "release"):
            result = run(command, "--query", folder / "query.toml", "--units", 50)
            assert result.exit_code == 2
            assert "with about 50 units, ε = 2 is too little" in result.stderr
        result = run("limits", "--query", folder / "query.toml", "--units", 50, "--epsilon", 1)
        assert result.exit_code == 2
        assert "too little to choose" in result.stderr

    @pytest.mark.parametrize("command", ["release", "limits"])
    def test_who_turn_out_to_be_few_are_charged_for(self, folder, command):
        """At ε = 0.01 the count of units has noise of thousands, and a million units would be needed."""
        path = folder / "budget.db"
        with Ledger(path) as ledger:
            ledger.open("visits", epsilon=1, delta=1e-6, unit="patient")
        options = ["--by", "ward", "--count", "--epsilon", 0.001, "--delta", 1e-8]
        options = options if command == "release" else options[:-2]
        charged = ["--ledger", path, "--dataset", "visits"]
        result = run(command, folder / "v.parquet", "--unit", "patient", *options, *charged)
        assert result.exit_code == 3
        assert "too few units to choose limits privately" in result.stderr
        assert "--max-rows" in result.stderr
        with Ledger(path) as ledger:
            assert len(ledger.history("visits")) == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "--epsilon must be given"),
        (["--epsilon", 0], "--epsilon must be"),
        (["--epsilon", 1, "--release-epsilon", -1], "epsilon must be"),
        (["--epsilon", 1, "--sum", "days:x"], "--sum must be COLUMN"),
        (["--epsilon", 1, "--sum", "days:0"], "max_total of 'days' must be above 0"),
        (["--epsilon", 1, "--max-rows", 2, "--max-rows-per-group", 3], "both limit the rows"),
        (["--epsilon", 1, "--save", "limits.txt"], ".toml"),
        (["--epsilon", 1, "--units", 0], "--units must be"),
    ],
)
def test_what_is_wrong_is_named(folder, more, message):
    result = run("limits", "--query", folder / "query.toml", *more)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_password_of_a_database_is_not_saved(folder):
    url = "postgresql://me:secret@nowhere.invalid/db"
    result = run("limits", "--query", folder / "query.toml", "--url", url, "--reopen", "--save", folder / "q.toml")
    assert result.exit_code == 2
    assert "secret" not in result.stderr
    assert "--save would write the user and password" in result.stderr
