"""`osgt statement`: words, JSON, CSV on the Web or a registry's entry from a file; wrong files get a sentence."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osgt import Dataset
from osgt.cli import app


@pytest.fixture(scope="module")
def release():
    rows = pa.table({"user": range(600), "town": ["Bern", "Rome"] * 300})
    return Dataset(rows, "user").group_by("town", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)


@pytest.fixture(params=["out.parquet", "out.csv"])
def file(request, release, tmp_path):
    path = tmp_path / request.param
    release.write(out=path, title="Trips", units={"count": "trips"})
    return path


@pytest.fixture
def run():
    return lambda *words: CliRunner().invoke(app, ["statement", *map(str, words)])


def test_in_words(run, file, release):
    found = run(file)
    assert found.exit_code == 0, found.stderr
    assert found.stdout.startswith("Trips\n")
    assert str(release.statement) in found.stdout
    assert "  count: The number of rows. Noise was added. In trips.\n" in found.stdout


def test_json(run, file, release):
    assert json.loads(run(file, "--json").stdout) == release.statement.to_dict()


def test_csvw(run, file, release, tmp_path):
    release.to_csv(tmp_path / "again.csv", title="Trips", units={"count": "trips"})
    expected = (tmp_path / "again.csv-metadata.json").read_text(encoding="utf-8").replace("again.csv", "out.csv")
    assert run(file, "--csvw").stdout == expected


def test_the_description_itself(run, release, tmp_path):
    release.to_csv(tmp_path / "out.csv")
    assert run(tmp_path / "out.csv-metadata.json").stdout.startswith(str(release.statement))


def test_registry(run, file):
    out = file.with_name("entry.yaml")
    found = run(file, "--registry", out)
    assert found.exit_code == 0, found.stderr
    assert "blanks are left for you" in found.stdout
    text = out.read_text(encoding="utf-8")
    assert 'name: "Trips"' in text
    assert run(file, "--registry", out).exit_code == 2
    assert run(file, "--registry", out, "--overwrite").exit_code == 0
    assert run(file, "--registry", file, "--overwrite").exit_code == 2
    assert out.read_text(encoding="utf-8") == text


def test_one_at_a_time(run, file):
    found = run(file, "--json", "--csvw")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "give one of --json, --csvw and --registry" in found.stderr


def wrong_files(folder):
    """Files that are none of ours, and the sentence that each gets."""
    (folder / "folder.parquet").mkdir()
    (folder / "text.parquet").write_text("no")
    pq.write_table(pa.table({"x": [1]}), folder / "other.parquet")
    pq.write_table(pa.table({"x": [1]}).replace_schema_metadata({b"osgt": b"{}"}), folder / "part.parquet")
    pq.write_table(pa.table({"x": [1]}).replace_schema_metadata({b"osgt": b"[" * 100_000}), folder / "deep.parquet")
    (folder / "alone.csv").write_text("x\n1\n")
    for name, text in {
        "binary": b"\xff\xfe\x00",
        "text": b"{",
        "list": b"[]",
        "other": b'{"notes": [1, {"schema:name": 2}]}',
        "part": b'{"notes": [{"schema:name": "osgt statement", "schema:text": 7}]}',
    }.items():
        (folder / f"{name}.csv").write_text("x\n1\n")
        (folder / f"{name}.csv-metadata.json").write_bytes(text)
    (folder / "page.html").write_text("<p>")
    return {
        "none.parquet": "there is no file",
        "folder.parquet": "there is no file",
        "text.parquet": "is not a Parquet file",
        "other.parquet": "it was not written by `osgt release`",
        "part.parquet": "is not whole (missing: statement, epsilon",
        "deep.parquet": "is not whole",
        "alone.csv": "there is no file 'alone.csv-metadata.json' beside it",
        "binary.csv": "is not JSON",
        "text.csv": "is not JSON",
        "list.csv": "it was not written by `osgt release`",
        "other.csv": "it was not written by `osgt release`",
        "part.csv": "is not whole",
        "page.html": "give a .parquet or .csv file",
    }


def test_wrong_files(run, tmp_path):
    for name, sentence in wrong_files(tmp_path).items():
        for option in ([], ["--json"], ["--csvw"], ["--registry", tmp_path / "out.yaml"]):
            found = run(tmp_path / name, *option)
            assert found.exit_code == 2, name
            assert sentence in found.stderr.replace("\n", " "), (name, found.stderr)
            assert "Traceback" not in found.stderr
            assert found.stdout == ""
    assert not (tmp_path / "out.yaml").exists()
