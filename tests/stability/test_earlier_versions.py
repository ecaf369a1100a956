"""Files that released versions wrote, read by this one. `write_files.py` writes those of a new version."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from osgt import Ledger
from osgt.api.query_file import build_query
from osgt.query.file.reading import read_query_file
from osgt.render.published import read_published

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/facts.json"))

pytestmark = pytest.mark.parametrize("version", FOLDERS, ids=lambda folder: folder.name)


@pytest.fixture
def files(version, tmp_path):
    """A copy of the files of a version: nothing may be written beside them."""
    return Path(shutil.copytree(version, tmp_path / version.name))


@pytest.fixture
def facts(version):
    return json.loads((version / "facts.json").read_text(encoding="utf-8"))


def osgt(folder, *words):
    command = [Path(sys.executable).with_name("osgt"), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


PUBLISHED = ["wards.parquet", "nights.parquet", "wards.csv", "nights.csv", "sums.parquet"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_promise_of_a_published_file_is_read(files, name):
    published = read_published(files / name)
    values = published.statement.to_dict()
    assert (values["epsilon"], values["delta"]) == (2, 1e-6)
    assert "(ε, δ)-differentially private with ε = 2 and δ = 1e-06" in published.statement.words
    assert values["columns"][0]["role"] == "key"
    done = osgt(files, "statement", name)
    assert done.returncode == 0, done.stderr
    assert "ε = 2" in done.stdout


def test_the_promise_of_a_published_file_is_recomputed(files):
    done = osgt(files, "check", *PUBLISHED, "tables.xlsx", "--ledger", "export.json")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_ledger_is_verified_added_up_and_charged(files, facts):
    with Ledger(files / "budget.db") as ledger:
        assert ledger.verify().ok
        assert len(ledger.history("visits")) == facts["releases"]
        # What was charged is added up anew: better accounting may find less, never more.
        assert ledger.spent("visits").epsilon <= facts["epsilon_spent"] * (1 + 1e-9)
    done = osgt(files, "release", "--query", "query.toml", "--out", "again-{table}.parquet")
    assert done.returncode == 0, done.stderr
    with Ledger(files / "budget.db") as ledger:
        assert len(ledger.history("visits")) == facts["releases"] + 1


def test_an_export_is_taken_as_heads(files):
    done = osgt(files, "ledger", "verify", "budget.db", "--heads", "export.json")
    assert done.returncode == 0, done.stderr + done.stdout


def test_query_and_data_files_mean_what_they_meant(files, monkeypatch):
    monkeypatch.chdir(files)
    query = build_query(read_query_file("query.toml"))
    assert list(query.tables) == ["wards", "nights"]
    assert query.tables["wards"].groups.most_rows == 4
    assert query.tables["nights"].groups.max_groups == 3
    query.dataset.close()
