"""`osgt bounds`: options or a query file in; a recommendation, a query file and a picture out."""

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

#: What is recommended follows from noisy histograms.
pytestmark = pytest.mark.usefixtures("quiet_noise")


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
        '[data]\nsource = "v.parquet"\nprivacy_unit = "patient"\n'
        '[groups]\nby = "ward"\npublic_keys = [0, 1, 2, 3, 4]\nmax_rows_per_group = 6\n'
        '[[aggregates]]\nkind = "count"\n[[aggregates]]\nkind = "sum"\ncolumn = "days"\n'
        "[budget]\nepsilon = 2\ndelta = 1e-6\n"
        '[report]\ntitle = "Days in bed"\n[report.labels]\ndays_sum = "Days"\n'
    )
    return tmp_path


def test_a_query_file_with_open_bounds_is_completed_and_released(folder):
    saved = folder / "bounded.toml"
    result = run(
        "bounds", "--query", folder / "query.toml", "--epsilon", 2, "--save", saved, "--plot", folder / "c.svg"
    )
    assert result.exit_code == 0, result.stderr
    assert "Recommended: max_groups =" in result.stdout
    assert "These bounds were chosen from histograms" in result.stdout
    assert "What lies beyond what is seen is unknown" in result.stdout
    assert " 0 %" not in result.stdout
    found = tomllib.loads(saved.read_text())
    assert found["groups"]["max_rows_per_group"] == 6
    assert found["groups"]["max_groups"] in (4, 5)
    assert found["data"]["source"] == "v.parquet"
    assert found["report"] == {"title": "Days in bed", "labels": {"days_sum": "Days"}}
    low, high = found["aggregates"][1]["bounds"]
    assert low == 0
    assert 20 <= high <= 40
    assert (folder / "c.svg").stat().st_size > 1000
    assert run("release", "--query", saved).exit_code == 0


def test_what_is_open_is_not_released_and_the_message_says_what_helps(folder):
    result = run("release", "--query", folder / "query.toml")
    assert result.exit_code == 2
    assert "max_groups must be given" in result.stderr
    assert "osgt bounds" in result.stderr


def test_options_and_json(folder):
    result = run(
        *("bounds", folder / "v.parquet", "--unit", "patient", "--by", "ward", "--count-units"),
        *("--epsilon", 1, "--delta", 1e-7, "--release-epsilon", 3, "--release-delta", 1e-6, "--json"),
    )
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert 1 <= answer["recommended"]["max_groups"] <= 7
    assert answer["release"] == {"epsilon": 3, "delta": 1e-6}
    assert (answer["epsilon"], answer["delta"]) == (1, 1e-7)


def test_it_is_charged_and_refused_by_the_ledger(folder):
    path = folder / "ledger.db"
    Ledger(path).open("visits", epsilon=1, delta=1e-6)
    ask = ("bounds", "--query", folder / "query.toml", "--ledger", path, "--dataset", "visits")
    assert run(*ask, "--epsilon", 0.5).exit_code == 0
    shown = run("ledger", "show", path, "visits")
    assert "bounds: count, sum(days) by ward" in " ".join(shown.stdout.split())
    refused = run(*ask, "--epsilon", 0.9)
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "--epsilon must be given"),
        (("--epsilon", 0), "epsilon"),
        (("--epsilon", 1, "--save", "query.json"), ".toml"),
        (("--epsilon", 1, "--save", "no/such/folder/q.toml"), "folder"),
    ],
)
def test_what_is_wrong_is_refused(folder, more, message):
    result = run("bounds", "--query", folder / "query.toml", *more)
    assert result.exit_code == 2
    assert message in result.stderr


class TestDeltaOfTheRelease:
    """It comes from the user or the ledger, and is never 0 by accident."""

    @pytest.fixture
    def without_delta(self, folder):
        text = (folder / "query.toml").read_text().replace("[budget]\nepsilon = 2\ndelta = 1e-6\n", "")
        (folder / "query.toml").write_text(text)
        return folder

    def saved(self, folder, *more):
        result = run(
            *("bounds", "--query", folder / "query.toml", "--epsilon", 0.2, "--save", folder / "q.toml", "--overwrite"),
            *more,
        )
        assert result.exit_code == 0, result.stderr
        return tomllib.loads((folder / "q.toml").read_text())["budget"], " ".join(result.stdout.split())

    def test_nobody_names_one(self, without_delta):
        budget, told = self.saved(without_delta)
        assert budget == {"epsilon": 2}
        assert "No δ was named for the release" in told
        refused = run("release", "--query", without_delta / "q.toml")
        assert refused.exit_code == 2
        assert "delta must be given" in refused.stderr
        assert run("release", "--query", without_delta / "q.toml", "--delta", 1e-8).exit_code == 0

    @pytest.mark.parametrize(("delta", "expected"), [(1e-6, 1e-8), (0, 0)])
    def test_the_ledger_names_one(self, without_delta, delta, expected):
        path = without_delta / "ledger.db"
        Ledger(path).open("visits", epsilon=5, delta=delta)
        budget, told = self.saved(without_delta, "--ledger", path, "--dataset", "visits")
        assert budget == {"epsilon": 2, "delta": pytest.approx(expected)}
        assert "No δ was named" not in told

    @pytest.mark.parametrize(
        ("more", "expected"),
        [(("--delta", 1e-9), 1e-8), (("--release-delta", 1e-7), 1e-7), (("--release-delta", 0), 0)],
    )
    def test_the_user_names_one(self, without_delta, more, expected):
        assert self.saved(without_delta, *more)[0] == {"epsilon": 2, "delta": pytest.approx(expected)}

    def test_a_release_with_zero_says_what_that_costs(self, without_delta):
        self.saved(without_delta, "--release-delta", 0)
        for command in (("plan",), ("release", "--dry-run"), ("release",)):
            result = run(*command, "--query", without_delta / "q.toml", "--epsilon", 0.5)
            assert result.exit_code == 0, result.stderr
            assert "δ = 0 makes intervals up to" in " ".join(result.output.split())
