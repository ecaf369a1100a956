"""`osgt release`, `osgt plan --query` and `osgt preview`, as people type them."""

import json
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from osgt.cli import app
from osgt.privacy import Charge

ROWS = pa.table(
    {
        "user": [i % 50 for i in range(400)],
        "city": [["Bern", "Rome", "O'slo; --"][i % 3] for i in range(400)],
        "fare": [float(i % 90) for i in range(400)],
    }
)
BOUNDS = ["--max-groups", 3, "--max-rows-per-group", 2]
BUDGET = ["--epsilon", 5, "--delta", "1e-4"]
QUERY = """
[data]
source = "rows.parquet"
privacy_unit = "user"
where = "fare >= 0"

[groups]
by = ["city"]
max_groups = 3
max_rows_per_group = 2

[groups.public_keys]
city = ["Bern", "Rome"]

[[aggregates]]
kind = "count"
weight = 2

[[aggregates]]
kind = "mean"
column = "fare"
bounds = [0, 100]

[budget]
epsilon = 5
delta = 1e-4

[output]
out = "release.csv"
report = "release.html"
"""


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


@pytest.fixture
def query(rows):
    path = rows.with_name("query.toml")
    path.write_text(QUERY, encoding="utf-8")
    return path


def released(run, rows, *more):
    return run("release", rows, "--unit", "user", "--by", "city", "--count", *BOUNDS, *BUDGET, *more)


class TestRelease:
    def test_table_report_and_statement(self, run, rows, tmp_path):
        out, report = tmp_path / "out.parquet", tmp_path / "out.html"
        result = released(run, rows, "--sum", "fare:0:100", "--count-units", "--out", out, "--report", report)
        assert result.exit_code == 0, result.stderr
        table = pyarrow.parquet.read_table(out)
        names = ["count", "count_units", "fare_sum"]
        assert table.column_names == ["city", *(n + end for n in names for end in ("", "_low", "_high"))]
        assert table["city"].to_pylist() == ["Bern", "O'slo; --", "Rome"]
        statement = json.loads(table.schema.metadata[b"osgt"])
        assert Charge.from_dict(statement["privacy"]["charge"]).profile.delta(5) <= 1e-4
        assert "ε = 5, δ = 0.0001 in total" in result.stdout
        assert "Ledger: none was charged" in result.stdout
        page = report.read_text(encoding="utf-8")
        HTMLParser().feed(page)
        assert "O&#39;slo" in page
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "out.parquet", "rows.parquet"]

    def test_csv_and_json(self, run, rows, tmp_path):
        out = tmp_path / "out.csv"
        result = released(run, rows, "--histogram", "fare:0:30:60:90", "--out", out, "--json", "--nonnegative")
        answer = json.loads(result.stdout)
        assert answer["epsilon"] == 5
        assert answer["nonnegative"] is True
        assert pyarrow.csv.read_csv(out).num_rows == len(answer["table"]) == 3
        assert "fare_60_to_90_high" in answer["table"][0]

    def test_a_csv_file_gets_its_description(self, run, rows, tmp_path):
        out, beside = tmp_path / "out.csv", tmp_path / "out.csv-metadata.json"
        beside.write_text("precious")
        result = released(run, rows, "--out", out)
        assert result.exit_code == 2
        assert "out.csv-metadata.json' exists; --overwrite replaces it" in result.stderr
        assert not out.exists()
        result = released(run, rows, "--out", out, "--title", "Rides", "--overwrite")
        assert result.exit_code == 0, result.stderr
        assert str(beside) in result.stdout
        assert json.loads(beside.read_text(encoding="utf-8"))["dc:title"] == "Rides"
        assert run("statement", out).stdout.startswith("Rides\n")

    def test_an_excel_file(self, run, rows, tmp_path):
        openpyxl = pytest.importorskip("openpyxl")
        out = tmp_path / "out.xlsx"
        result = released(run, rows, "--out", out)
        assert result.exit_code == 0, result.stderr
        book = openpyxl.load_workbook(out)
        assert book.sheetnames == ["Table", "Notes"]
        assert [cell.value for cell in book["Table"]["A"]] == ["city", "Bern", "O'slo; --", "Rome"]

    def test_types_of_csv_columns_are_declared(self, run, tmp_path):
        """On the command line or in the file; without one, the message says how to declare it in both."""
        rows = tmp_path / "rows.csv"
        pyarrow.csv.write_csv(ROWS, rows)
        fares = ["--sum", "fare:0:90"]
        refused = released(run, rows, *fares)
        assert refused.exit_code == 2
        assert "column 'fare' must be declared" in refused.stderr
        assert '--type fare:float64, or fare = "float64" in [data.types]' in refused.stderr
        assert "Dataset" not in refused.stderr
        made = json.loads(
            released(run, rows, *fares, "--type", "fare:float64", "--type", "user:int64", "--json").stdout
        )
        assert made["query"]["data"]["types"] == {"fare": "float64", "user": "int64"}
        query = tmp_path / "query.toml"
        text = QUERY.replace("rows.parquet", "rows.csv").replace(
            "[groups]", '[data.types]\nfare = "decimal(9, 2)"\n\n[groups]', 1
        )
        query.write_text(text.replace("fare >= 0", "city <> 'x'"))
        planned = run("plan", "--query", query)
        assert planned.exit_code == 0, planned.stderr
        made = run("release", "--query", query, "--json")
        assert json.loads(made.stdout)["query"]["data"]["types"] == {"fare": "decimal(9, 2)"}
        for wrong, said in (
            ("fare", "must be COLUMN:TYPE"),
            (":int64", "must be COLUMN:TYPE"),
            ("fare:number", "int64"),
        ):
            result = released(run, rows, *fares, "--type", wrong)
            assert result.exit_code == 2
            assert said in result.stderr
        (tmp_path / "other.csv").write_text(rows.read_text().replace(",", ";"))
        options = ["--type", "fare:float64", "--delimiter", ";"]
        assert released(run, tmp_path / "other.csv", *fares, *options).exit_code == 0

    def test_how_a_csv_file_is_written(self, run, tmp_path):
        """By options and by a query file; what cannot be read is told on the terminal, and is in no file."""
        rows = tmp_path / "rows.csv"
        lines = [f"Zoë {i};Zürich;1,5;31.12.2024\ryes" for i in range(500)] + [";Zürich;1,5;31.12.2024"] * 7
        rows.write_bytes("\n".join(["user;city;fare;day", *lines]).encode("cp1252"))
        options = ["--type", "fare:float64", "--sum", "fare:0:2", "--where", "city = 'Zürich'", "--out"]
        written = ["--delimiter", ";", "--encoding", "cp1252", "--decimal", ",", "--quote", "none"]
        written += ["--date-format", "%d.%m.%Y"]
        query, out = tmp_path / "query.toml", tmp_path / "out.csv"
        made = released(run, rows, *options, out, *written, "--save-query", query)
        assert made.exit_code == 0, made.stderr
        assert "Zürich" in out.read_text(encoding="utf-8")
        assert 'encoding = "cp1252"' in query.read_text(encoding="utf-8")
        again = run("release", "--query", query, "--overwrite", "--json")
        assert json.loads(again.stdout)["table"][0]["fare_sum"] > 600
        for result in (made, again):
            assert "counts them (NOT PRIVATE)" in " ".join(result.stderr.split())
            assert "NOT PRIVATE, for you alone: 7 of 507 rows have no unit that can be read" in result.stderr
            assert "NOT PRIVATE" not in result.stdout
        for path in tmp_path.glob("out.csv*"):
            assert "can be read" not in path.read_text(encoding="utf-8")
        dry = run("release", "--query", query, "--overwrite", "--dry-run")
        assert "osgt preview" in dry.stderr
        assert "507" not in dry.stderr
        assert "osgt preview" not in run("plan", "--query", query).stderr

    def test_the_texts_of_the_report(self, run, rows, tmp_path):
        query = tmp_path / "query.toml"
        query.write_text(
            QUERY + '\n[report]\ntitle = "Rides"\npublisher = "Office"\n\n[report.labels]\ncity = "Town"\n'
        )
        assert run("release", "--query", query).exit_code == 0
        page = (tmp_path / "release.html").read_text(encoding="utf-8")
        for part in ("<title>Rides</title>", "Office", "Town"):
            assert part in page
        assert run("release", "--query", query, "--overwrite", "--title", "Trips & more").exit_code == 0
        assert "<title>Trips &amp; more</title>" in (tmp_path / "release.html").read_text(encoding="utf-8")

    def test_a_label_of_nothing_is_refused_before_anything_is_read(self, run, rows, tmp_path):
        query = tmp_path / "query.toml"
        query.write_text(QUERY + '\n[report.labels]\ntown = "Town"\n')
        result = run("release", "--query", query)
        assert result.exit_code == 2
        assert "labels: there is no key or column 'town'; the table has 'city'" in result.stderr
        assert not (tmp_path / "release.html").exists()

    def test_keys_like_formulas_are_marked_and_the_command_says_so(self, run, tmp_path):
        rows = tmp_path / "rows.parquet"
        cities = pa.array(["=1+1" if city == "Rome" else city for city in ROWS["city"].to_pylist()])
        pyarrow.parquet.write_table(ROWS.set_column(1, "city", cities), rows)
        result = released(run, rows, "--out", tmp_path / "out.csv")
        assert "begins with an apostrophe" in result.stdout
        assert '"\'=1+1"' in (tmp_path / "out.csv").read_text()
        assert "apostrophe" not in released(run, rows, "--out", tmp_path / "out.parquet").stdout

    def test_files_are_not_replaced_unless_told(self, run, rows, tmp_path):
        out = tmp_path / "out.csv"
        out.write_text("precious")
        refused = released(run, rows, "--out", out)
        assert refused.exit_code == 2
        assert "--overwrite" in refused.stderr
        assert out.read_text() == "precious"
        assert released(run, rows, "--out", out, "--overwrite").exit_code == 0
        assert out.read_text().startswith('"city"')

    def test_what_is_read_is_never_replaced(self, run, rows, tmp_path):
        before = rows.read_bytes()
        result = released(run, rows, "--out", rows, "--overwrite")
        assert result.exit_code == 2
        assert "never replaced" in result.stderr
        keys = tmp_path / "keys.csv"
        keys.write_text("city\nRome\n")
        result = released(run, rows, "--public-keys", keys, "--out", keys, "--overwrite")
        assert result.exit_code == 2
        assert keys.read_text() == "city\nRome\n"
        (tmp_path / "hard.parquet").hardlink_to(rows)
        assert released(run, rows, "--out", tmp_path / "hard.parquet", "--overwrite").exit_code == 2
        query = tmp_path / "query.csv"
        query.write_text(QUERY)
        result = run("release", "--query", query, "--out", query, "--overwrite")
        assert result.exit_code == 2
        assert "never replaced" in result.stderr
        assert query.read_text() == QUERY
        assert rows.read_bytes() == before

    def test_what_cannot_be_written_is_not_charged(self, run, rows, tmp_path):
        from osgt import Ledger  # noqa: PLC0415 - only here

        with Ledger(tmp_path / "budget.db") as ledger:
            ledger.open("rides", epsilon=20, delta=1e-3)
            charge = ["--ledger", tmp_path / "budget.db", "--dataset", "rides"]
            assert released(run, rows, *charge, "--out", "/proc/x.csv").exit_code == 2
            assert ledger.history("rides") == []

    def test_what_cannot_be_read_is_said_in_a_line(self, run, tmp_path):
        latin, fake = b"user,Stra\xdfe\n1,Rome\n", b"user,city\n1,Rome\n"
        for name, content, said in (
            ("latin.csv", latin, "must hold the names of the columns, in UTF-8"),
            ("fake.parquet", fake, "cannot be read"),
        ):
            path = tmp_path / name
            path.write_bytes(content)
            result = released(run, path)
            assert result.exit_code == 2
            assert said in result.stderr
            assert len(result.stderr.strip().splitlines()) == 1

    def test_nothing_to_show(self, run, rows):
        result = released(run, rows, "--epsilon", 0.01, "--delta", "1e-9")
        assert result.exit_code == 0
        assert "No group reached the threshold" in result.stdout

    def test_variance_and_mean_and_filter(self, run, rows):
        more = ["--mean", "fare:0:100", "--variance", "fare:0:100", "--where", "fare < 50", "--where", "city <> 'Rome'"]
        answer = json.loads(released(run, rows, *more, "--json", "--confidence", 0.9).stdout)
        assert [row["city"] for row in answer["table"]] == ["Bern", "O'slo; --"]
        assert answer["query"]["data"]["where"] == ["fare < 50", "city <> 'Rome'"]
        assert answer["confidence"] == 0.9

    def test_public_keys_from_a_file(self, run, rows, tmp_path):
        keys = tmp_path / "keys.csv"
        keys.write_text("city\nRome\nParis\n")
        answer = json.loads(released(run, rows, "--public-keys", keys, "--json").stdout)
        assert [row["city"] for row in answer["table"]] == ["Rome", "Paris"]

    def test_public_keys_as_an_option(self, run, rows, tmp_path):
        """In the types of the columns; what is saved says the same again."""
        saved = tmp_path / "query.toml"
        derived = ["--derive", "cheap=fare < 10", "--by", "cheap", "--keys", "city=Rome,Paris", "--keys", "cheap=true"]
        answer = json.loads(released(run, rows, *derived, "--json", "--save-query", saved).stdout)
        assert [(row["city"], row["cheap"]) for row in answer["table"]] == [("Rome", True), ("Paris", True)]
        again = json.loads(run("release", "--query", saved, "--json").stdout)
        assert [(row["city"], row["cheap"]) for row in again["table"]] == [("Rome", True), ("Paris", True)]

    def test_no_groups(self, run, rows):
        arguments = ["--unit", "user", "--count", "--max-rows-per-group", 2, *BUDGET, "--json"]
        answer = json.loads(run("release", rows, *arguments).stdout)
        assert len(answer["table"]) == 1
        assert abs(answer["table"][0]["count"] - 100) < 40

    def test_a_table_of_postgres(self, run, postgres_database):
        import psycopg  # noqa: PLC0415 - only here

        with psycopg.connect(postgres_database) as connection:
            connection.execute("create table rides (rider int, city text)")
            connection.execute("insert into rides select i % 60, 'Bern' from generate_series(1, 300) i")
        arguments = ["--engine", "postgres", "--url", postgres_database, "--table", "rides", "--unit", "rider"]
        result = run("release", *arguments, "--by", "city", "--count", *BOUNDS, *BUDGET, "--json")
        assert result.exit_code == 0, result.stderr
        answer = json.loads(result.stdout)
        assert abs(answer["table"][0]["count"] - 120) < 60
        assert "@" not in answer["query"]["data"]["source"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (["--sum", "fare:100:0"], "bounds of 'fare'"),
            (["--sum", "fare", "--units", 50], "max_total of fare: with about 50 units"),
            (["--sum", "fare:0"], "max_total of 'fare' must be above 0"),
            (["--max-rows", 5], "both limit the rows of a unit"),
            (["--sum", "fare:0:ten"], "'ten' is not a number"),
            (["--sum", "fee:0:1"], "no column 'fee'"),
            (["--by", "town"], "no column 'town'"),
            (["--epsilon", 0], "epsilon"),
            (["--delta", 1], "delta"),
            (["--where", "fare > (select avg(fare) from rows)"], "one row alone"),
            (["--where", "fare >"], "where"),
            (["--engine", "oracle"], "engine"),
            (["--out", "out.xls"], "out must end in"),
            (["--out", "no/such/folder/out.csv"], "no folder"),
            (["--max-groups", 0], "--max-groups"),
            (["--ledger", "budget.db"], "dataset must be given"),
            (["--dataset", "rides"], "--ledger must be given"),
            (["--confidence", 1], "confidence"),
        ],
    )
    def test_what_is_wrong_is_named(self, run, rows, change, message, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        result = released(run, rows, *change)
        assert result.exit_code == 2
        assert message in result.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]

    @pytest.mark.parametrize("left_out", ["--unit", "--epsilon", "--delta"])
    def test_what_is_left_out_is_named(self, run, rows, left_out):
        given = ["--unit", "user", "--by", "city", *BOUNDS, *BUDGET]
        place = given.index(left_out)
        result = run("release", rows, "--count", *given[:place], *given[place + 2 :])
        assert result.exit_code == 2
        assert left_out.strip("-").replace("-", "_") in result.stderr.replace("-", "_")

    def test_no_source(self, run):
        result = run("release", "--unit", "user", "--count")
        assert result.exit_code == 2
        assert "SOURCE" in result.stderr
        assert "no file" in run("release", "missing.parquet", "--unit", "user", "--count", *BOUNDS, *BUDGET).stderr


class TestTotals:
    def test_with_keys_that_are_chosen(self, run, rows):
        result = released(run, rows, "--count-units", "--totals", "()")
        assert result.exit_code == 0, result.stderr
        assert "Total" in result.stdout
        assert "other groups" in result.stdout
        assert "not counted" in result.stdout  # units of the other groups

    def test_in_a_query_file(self, run, query):
        text = query.read_text(encoding="utf-8").replace("[groups]", '[groups]\ntotals = "rollup"')
        query.write_text(text, encoding="utf-8")
        answer = json.loads(run("release", "--query", query, "--json").stdout)
        counts = [row["count"] for row in answer["table"]]
        assert answer["table"][-1]["summed_over"] == "city"
        assert counts[-1] == sum(counts[:-1])
        planned = json.loads(run("plan", "--query", query, "--json").stdout)
        assert [each["by"] for each in planned["totals"]] == [[]]

    @pytest.mark.parametrize(("level", "words"), [("country", "not among the columns"), ("city", "all the keys")])
    def test_levels_that_do_not_exist(self, run, rows, level, words):
        result = released(run, rows, "--totals", level)
        assert result.exit_code == 2
        assert words in result.stderr


class TestQueryFile:
    def test_the_whole_release(self, run, query):
        result = run("release", "--query", query)
        assert result.exit_code == 0, result.stderr
        table = pyarrow.csv.read_csv(query.with_name("release.csv"))
        assert table["city"].to_pylist() == ["Bern", "Rome"]
        assert query.with_name("release.html").exists()

    def test_options_stand_in_for_what_the_file_says(self, run, query):
        answer = json.loads(run("release", "--query", query, "--epsilon", 3, "--count-units", "--json").stdout)
        assert answer["epsilon"] == 3
        assert [aggregate["kind"] for aggregate in answer["query"]["aggregates"]] == ["count_units"]

    def test_plan_reads_no_data(self, run, query, monkeypatch):
        # A plan knows columns and types; the rows themselves cannot be read here.
        data = query.with_name("rows.parquet")
        shutil.copy(data, query.with_name("whole.parquet"))
        corrupt = bytearray(data.read_bytes())
        footer = int.from_bytes(corrupt[-8:-4], "little") + 8
        corrupt[4:-footer] = b"\0" * (len(corrupt) - footer - 4)
        data.write_bytes(corrupt)
        result = run("plan", "--query", query)
        assert result.exit_code == 0, result.stderr
        assert "No data was read" in result.stdout
        assert "narrower than with Laplace noise" in result.stdout
        answer = json.loads(run("plan", "--query", query, "--json").stdout)
        assert Charge.from_dict(answer["charge"]).profile.delta(5) <= 1e-4
        assert run("release", "--query", query).exit_code != 0

    def test_plan_by_error(self, run, query):
        answer = json.loads(run("plan", "--query", query, "--error", 10, "--json").stdout)
        assert answer["columns"][0]["half_width"] <= 10
        assert answer["epsilon"] == pytest.approx(float(f"{answer['epsilon']:.5g}"))

    def test_preview_is_marked(self, run, query):
        result = run("preview", "--query", query)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("NOT PRIVATE")
        assert "400 in the table" in result.stdout
        assert "cut off by max_groups = 3" in result.stdout
        # One word of a command is exchanged: what a release takes is no error here.
        more = ["--epsilon", 1, "--out", "never.parquet", "--no-measure-left-out", "--nonnegative"]
        assert run("preview", "--query", query, *more).stdout == result.stdout

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("max_groups", "max_group", "[groups] has no 'max_group' (did you mean 'max_groups'?)"),
            ("max_groups = 3", "max_groups = '3'", "groups.max_groups must be a whole number, got '3'"),
            ("[budget]", "[bugdet]", "the query file has no 'bugdet' (did you mean 'budget'?)"),
            ('kind = "mean"', 'kind = "mode"', "kind of aggregate 2 must be one of count, count_units,"),
            ("bounds = [0, 100]", "bounds = [100, 0]", "bounds of 'fare'"),
            ('column = "fare"', "", "column of aggregate 2 (mean) must be given: the column of numbers"),
            ("epsilon = 5", "epsilon = 'much'", "budget.epsilon must be a number, got 'much'"),
            ('privacy_unit = "user"', "", "data.privacy_unit must be given: the column that names the person"),
            ("[data]", "[data", "not TOML"),
            ('source = "rows.parquet"', 'source = "other.parquet"', "no file"),
            ('city = ["Bern", "Rome"]', "city = [1, 'Rome']", "public_keys"),
        ],
    )
    def test_what_is_wrong_is_named(self, run, query, old, new, message):
        text = QUERY.replace(old, new)
        assert text != QUERY
        query.write_text(text, encoding="utf-8")
        for command in ("plan", "release"):
            result = run(command, "--query", query)
            assert result.exit_code == 2, result.stdout
            assert message in result.stderr
        assert not query.with_name("release.csv").exists()

    def test_no_such_file(self, run):
        assert "no file" in run("release", "--query", "missing.toml").stderr
        assert "--cells" in run("plan", "--query", "missing.toml", "--cells", 3).stderr

    def test_all_three_commands_take_the_same_options(self, run, rows, query):
        """A table that is typed and the same in a file have one plan and one preview; options go before the file."""
        typed = [rows, "--unit", "user", "--where", "fare >= 0", "--by", "city", *BOUNDS, "--mean", "fare:0:100"]
        plan = json.loads(run("plan", *typed, *BUDGET, "--json").stdout)
        assert [column["name"] for column in plan["columns"]] == ["fare_mean"]
        from_file = json.loads(
            run("plan", "--query", query, "--mean", "fare:0:100", "--max-groups", 2, "--json").stdout
        )
        assert [column["name"] for column in from_file["columns"]] == ["fare_mean"]
        assert (plan["max_groups"], from_file["max_groups"]) == (3, 2)
        previews = [json.loads(run("preview", *given, "--json").stdout) for given in (typed, ["--query", query])]
        for each in previews:
            assert [(bounds["column"], bounds["number"]) for bounds in each["outside"]] == [("fare", 0)]
            assert [cut["limit"] for cut in each["limits"]["max_groups"] if cut["given"]] == [3]


def test_a_ledger_is_charged_and_refuses(run, query, tmp_path):
    from osgt import Ledger  # noqa: PLC0415 - only here

    budget = tmp_path / "budget.db"
    with Ledger(budget) as ledger:
        ledger.open("rides", epsilon=6, delta=1e-3)
    charge = ["--ledger", budget, "--dataset", "rides", "--overwrite"]
    first = run("release", "--query", query, *charge)
    assert first.exit_code == 0, first.stderr
    assert "Ledger: charged to 'rides', entry 2." in first.stdout
    query.with_name("release.csv").unlink()
    second = run("release", "--query", query, *charge)
    assert second.exit_code == 2
    assert "rides" in second.stderr
    assert not query.with_name("release.csv").exists()


def test_the_command_line_as_a_program_of_its_own(rows, tmp_path):
    """Nothing but the table goes to standard output: progress and errors go elsewhere."""
    arguments = ["release", rows, "--unit", "user", "--by", "city", "--count", *BOUNDS, *BUDGET, "--json"]
    command = [str(Path(sys.executable).with_name("osgt")), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=dict(os.environ), check=True)
    assert json.loads(result.stdout)["table"]


def test_names_and_keys_are_shown_as_they_are(run, tmp_path):
    """What stands in brackets is no instruction, what stands between colons no picture, and no code ends up in red."""
    name, keys = "[/b]:a:", [":smile:", "\x1b[31m[/red]"]
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(pa.table({"person": list(range(600)), name: keys * 300}), path)
    bounds = ["--by", name, "--count", "--max-groups", 1, "--max-rows-per-group", 1]
    budget = ["--epsilon", 1, "--delta", 1e-6]
    result = run("release", path, "--unit", "person", *bounds, *budget, "--out", tmp_path / "[y]out.csv")
    assert result.exit_code == 0, result.stderr
    for text in (name, ":smile:", "�[31m[/red]", "[y]out.csv"):
        assert text in result.stdout
    assert "\x1b[31m" not in result.stdout
    for command in (["plan", *budget], ["preview"]):
        result = run(*command, path, "--unit", "person", *bounds, "--where", f"\"{name}\" <> '[/c]:b:'")
        assert result.exit_code == 0, result.stderr
    result = run("release", path, "--unit", "person", *bounds, *budget, "--sum", "x:a:b")
    assert "got 'x:a:b'" in result.stderr
