"""The commands as people type them."""

import csv
import io
import json

import pytest
import typer
from typer.testing import CliRunner

from osgt import PrivacyProfile
from osgt.cli import app
from osgt.noise import read

PLAN = ["plan", "--delta", "1e-6", "--coordinates", "8"]
NOISE = ["--column", "people", "--epsilon", "1", "--delta", "1e-6", "--coordinates", "2"]


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return lambda *arguments, **options: CliRunner().invoke(app, [str(a) for a in arguments], **options)


class TestPlan:
    def test_table(self, run):
        result = run(*PLAN, "--epsilon", 1, "--cells", 500)
        assert result.exit_code == 0
        for part in ("gaussian", "laplace (pure)", "osgt", "largest of 500", "Use DiscreteOSGT", "any of 500 cells"):
            assert part in result.stdout

    def test_json(self, run):
        result = run(*PLAN, "--epsilon", 1, "--json")
        answer = json.loads(result.stdout)
        best = answer["noises"][-1]
        assert best["name"] == "osgt"
        law = read(best["noise"])
        assert PrivacyProfile(law, 1, 8).delta(1.0) <= 1e-6
        # The named error is exceeded by any of the cells with at most the chance given, and the one below by more.
        for chance, error in answer["any_cell_off_by_more"].items():
            assert 1 - (1 - 2 * law.sf(error)) ** 10_000 <= float(chance)
            assert 1 - (1 - 2 * law.sf(error - 1)) ** 10_000 > float(chance)

    def test_what_zero_costs(self, run):
        """As a plan with a usual δ says; nothing where it costs nothing."""
        widths = [
            json.loads(run("plan", "--epsilon", 1, "--delta", delta, "--coordinates", 40, "--json").stdout)
            for delta in (0, 1e-8)
        ]
        pure, usual = (each["noises"][-1]["interval_95"] for each in widths)
        words = f"δ = 0 makes intervals up to {pure / usual:.3g} times as wide as δ = 1e-08 would"
        assert words in run("plan", "--epsilon", 1, "--delta", 0, "--coordinates", 40).stderr
        assert run("plan", "--epsilon", 1, "--delta", 0, "--coordinates", 1).stderr == ""

    def test_by_error(self, run):
        answer = json.loads(run(*PLAN, "--error", 10, "--json").stdout)
        assert answer["noises"][-1]["interval_95"] <= 10
        assert 1 < answer["epsilon"] < 4

    def test_picture(self, run, tmp_path):
        pytest.importorskip("matplotlib")
        path = tmp_path / "plan.png"
        result = run("plan", "--epsilon", 1, "--delta", "1e-6", "--coordinates", 4, "--plot", path)
        assert result.exit_code == 0
        assert path.read_bytes().startswith(b"\x89PNG")
        path.write_text("precious")
        again = run("plan", "--epsilon", 1, "--delta", "1e-6", "--coordinates", 4, "--plot", path)
        assert again.exit_code == 2
        assert "--overwrite" in again.stderr
        assert path.read_text() == "precious"
        bad = run("plan", "--epsilon", 1, "--delta", "1e-6", "--coordinates", 4, "--plot", tmp_path / "plan.xyz")
        assert bad.exit_code == 2
        assert "--plot must end in .png, .svg or .pdf" in bad.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "one of --epsilon"),
            (["--epsilon", 1, "--error", 5], "one of --epsilon"),
            (["--epsilon", -1], "epsilon must be"),
            (["--epsilon", 1, "--objective", "best"], "objective must be"),
            (["--epsilon", 1, "--objective", "quantile:x"], "objective must be"),
            (["--epsilon", 1, "--shift", 0], "shift must be"),
        ],
    )
    def test_wrong_input(self, run, arguments, message):
        result = run(*PLAN, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert "Traceback" not in result.output

    def test_help(self, run):
        assert "--coordinates" in run("plan", "--help").stdout
        assert "Publish statistics" in run("--help").stdout


def commands(command, *path):
    """Every command and group, as it is typed."""
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, *path, name)


@pytest.mark.parametrize("path", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_help_shows_metavars_and_no_types_of_python(run, path):
    result = run(*path, "--help")
    assert result.exit_code == 0
    for word in ("<str>", "<int>", "<float>", "<bool>", "<path>", "<file>", "list[", "TEXT...", "range>"):
        assert word not in result.stdout


class TestNoise:
    TABLE = 'city,people\n"Böblingen, Süd",120\nNarvik,0\n'

    def test_file_to_file(self, run, tmp_path):
        source, out = tmp_path / "in.csv", tmp_path / "out.csv"
        source.write_text(self.TABLE, encoding="utf-8")
        result = run("noise", source, *NOISE, "--interval", 0.95, "--out", out)
        assert result.exit_code == 0
        rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
        assert [row["city"] for row in rows] == ["Böblingen, Süd", "Narvik"]
        for row, true in zip(rows, (120, 0), strict=True):
            assert abs(int(row["people"]) - true) < 200
            assert int(row["people_low"]) < int(row["people"]) < int(row["people_high"])
        assert "ε = 1" in result.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]

    def test_standard_input_and_output(self, run):
        result = run("noise", "-", *NOISE, input=self.TABLE)
        assert result.stdout.startswith("city,people\n")
        assert len(result.stdout.splitlines()) == 3

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ("", "no column 'people'"),
            ("city,count\na,1\n", "the file has 'city' and 'count'"),
            ("city,people\na,1\nb,1.5\n", "line 3: what is in column 'people' is not an integer"),
            ("city,people\na,\n", "line 2: what is in column"),
            ("city,people\na,1,2\n", "line 2 has 3 fields"),
            ("city,people\n\na,x\n", "line 3: what is in column"),
            ('city,people\n"a\nb",1\n"c\n",x\n', "line 4: what is in column"),
            ('city,people\n"a,1\n', "line 2: quotes must enclose"),
            ('city,people\n"a"b,1\n', "line 2: quotes must enclose"),
            ("people,people\n1,2\n", "2 columns 'people'"),
            ("city,people\na,99999999999999999999\n", "within ±2⁶²"),
        ],
    )
    def test_nothing_is_written_if_a_value_is_bad(self, run, tmp_path, table, message):
        source, out = tmp_path / "in.csv", tmp_path / "out.csv"
        source.write_text(table, encoding="utf-8")
        result = run("noise", source, *NOISE, "--out", out)
        assert result.exit_code == 2
        assert message in result.stderr
        assert not out.exists()
        assert result.stdout == ""

    def test_missing_file_and_folder(self, run, tmp_path):
        assert "No such file" in run("noise", tmp_path / "none.csv", *NOISE).stderr
        source = tmp_path / "in.csv"
        source.write_text(self.TABLE, encoding="utf-8")
        assert run("noise", source, *NOISE, "--out", tmp_path / "none" / "out.csv").exit_code == 2

    @pytest.mark.parametrize(
        "table",
        [
            'id,"people",note\r\n"007",5,"a ""b"""\r\n1.50,"6",\r\n',
            '\ufeffid,people,note\n +1,7,=1+1\n\n\'2,8,"x\ny"',
            "people\n1\n2",
            "people\r1\r2\r",
        ],
    )
    def test_the_rest_stays_byte_for_byte(self, run, tmp_path, table):
        """With noise that is practically always zero, the file comes out as it went in."""
        source, out = tmp_path / "in.csv", tmp_path / "out.csv"
        source.write_bytes(table.encode())
        budget = ["--column", "people", "--epsilon", "1000", "--delta", "0", "--coordinates", "1"]
        assert run("noise", source, *budget, "--out", out).exit_code == 0
        assert out.read_bytes().decode() == table.replace('"6"', "6")

    def test_values_are_of_the_kind_that_was_said(self, run):
        """Whole numbers are written as floats where floats were said; the file decides nothing."""
        table = "people\n3\n3.5\n"
        refused = run("noise", "-", *NOISE, input=table)
        assert refused.exit_code == 2
        for text in (table, "people\n3\n4\n"):
            result = run("noise", "-", *NOISE, "--values", "floats", "--shift", "0.5", "--interval", 0.9, input=text)
            header, *rows = csv.reader(io.StringIO(result.stdout))
            assert header == ["people", "people_low", "people_high"]
            numbers = [[float(field) * 2**14 for field in row] for row in rows]
            assert all("." in row[0] for row in rows)
            assert all(number.is_integer() for row in numbers for number in row)
        assert run("noise", "-", *NOISE, "--values", "float", input=table).exit_code == 2
        assert "for integers" in run("noise", "-", *NOISE, "--shift", "0.5", input=table).stderr

    def test_other_encodings(self, run, tmp_path):
        source = tmp_path / "in.csv"
        source.write_bytes("city,people\nZürich,1\n".encode("latin-1"))
        result = run("noise", source, *NOISE)
        assert "must be text in UTF-8" in result.stderr
        assert "xfc" not in result.stderr

    def test_files_are_not_replaced_unless_told_and_the_source_never(self, run, tmp_path):
        source, out = tmp_path / "in.csv", tmp_path / "out.csv"
        source.write_text(self.TABLE, encoding="utf-8")
        out.write_text("precious")
        refused = run("noise", source, *NOISE, "--out", out)
        assert refused.exit_code == 2
        assert "--overwrite" in refused.stderr
        assert out.read_text() == "precious"
        assert run("noise", source, *NOISE, "--out", out, "--overwrite").exit_code == 0
        assert out.read_text().startswith("city,people")
        (tmp_path / "symbolic.csv").symlink_to(source)
        (tmp_path / "hard.csv").hardlink_to(source)
        for name in ("in.csv", "symbolic.csv", "hard.csv"):
            result = run("noise", source, *NOISE, "--out", tmp_path / name, "--overwrite")
            assert result.exit_code == 2
            assert "never replaced" in result.stderr
            assert source.read_text(encoding="utf-8") == self.TABLE

    def test_no_rows(self, run):
        assert run("noise", "-", *NOISE, input="city,people\n").stdout == "city,people\n"
