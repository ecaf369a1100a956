"""`osgt paper` as people type it, on coarse grids."""

import json
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from osgt.cli import app
from osgt.paper import report
from osgt.paper.report import Number

NAMES = [*(f"figure-{i}" for i in range(1, 7)), "conjecture", "experiment"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("paper") / "new" / "folder"


@pytest.fixture(scope="module")
def results(folder):
    return report.recompute(folder, fine=False)


@pytest.fixture
def run(monkeypatch):
    """The command; with `given` it prints those results instead of computing its own."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")

    def invoke(*arguments, given=None):
        def recompute(out, *, full, overwrite, stage):
            stage("a part", 2)(2)
            return given

        if given is not None:
            monkeypatch.setattr("osgt.paper.recompute", recompute)
        return CliRunner().invoke(app, ["paper", *map(str, arguments)])

    return invoke


def test_files(results, folder):
    written = sorted(path.name for path in folder.iterdir())
    assert written == sorted([f"{n}{s}" for n in NAMES for s in (".png", ".svg")] + ["numbers.md", "results.json"])
    assert sorted(path.name for path in results.files) == written
    answer = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert answer["as_expected"] is True
    assert answer["experiment"]["noise_values"] == 8 * answer["experiment"]["applications"]
    mapped = answer["conjecture"]
    assert len(mapped["coordinates"]) == len(mapped["log10_ratio_by_coordinates_and_epsilon"])


def test_table(run, results, tmp_path):
    result = run("--out", tmp_path, given=results)
    assert result.exit_code == 0, result.output
    for words in ("27.7047", "1.44e-14", "17 of 19 agree", "agrees with the theory", "Laplace gives δ = 0"):
        assert words in result.stdout


def test_json_alone_on_standard_output(run, results, tmp_path):
    result = run("--out", tmp_path, "--json", given=results)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["as_expected"] is True


def test_exit_code_tells_a_number_that_does_not_agree(run, results, tmp_path):
    wrong = replace(results, numbers=[*results.numbers, Number("Fig. 3", "V(3, 40)", "27.7047", 27.8)])
    result = run("--out", tmp_path, "--json", given=wrong)
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["numbers"][-1]["verdict"] == "differs: no reason known"
    assert answer["as_expected"] is False
    assert "1 without one" in run("--out", tmp_path, given=wrong).stdout


def test_exit_code_tells_an_experiment_that_contradicts(run, results, tmp_path):
    # The same outcomes, held against noise that is twice as large.
    tally = results.measurement.on_data
    moved = replace(tally, law=type(tally.law).from_rates(tally.law.slope / 2, tally.law.curvature / 4))
    result = run("--out", tmp_path, given=replace(results, measurement=replace(results.measurement, on_data=moved)))
    assert result.exit_code == 1
    assert "contradicts the theory" in result.stdout


def test_out_must_be_a_folder(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "must be a folder" in result.stderr


def test_without_matplotlib_the_error_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("--out", tmp_path / "folder")
    assert result.exit_code == 2
    assert "needs Matplotlib: pip install" in result.stderr
    assert not (tmp_path / "folder").exists()
    with pytest.raises(ImportError, match=r"osgt\[plots\]"):
        report.recompute(tmp_path / "folder")


def test_full_is_a_billion_applications():
    assert 2 * report.FULL[0] >= 10**9


def test_an_earlier_run_is_replaced_only_if_told(run, tmp_path):
    (tmp_path / "figure-3.svg").write_text("precious")
    refused = run("--out", tmp_path)
    assert refused.exit_code == 2
    assert "--overwrite replaces them" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["figure-3.svg"]
