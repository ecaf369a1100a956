"""The client for R: data frames in, data frames with intervals and the statement out. Runs in R, as a user would."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[1] / "r"

#: Budgets with which noise is almost surely 0, so that numbers can be compared with the truth.
EXACT = "epsilon = 20000, delta = 1e-9, max_rows = 3, no_measure_left_out = TRUE, intervals = 'noise'"

PREPARE = """
options(osgt.command = Sys.getenv("OSGT"), warn = 2, width = 100)
library(osgt)
visits <- data.frame(
  patient = c("a", "a", "b", "c", "d", NA),
  ward = c("North", "South", "North", 'East, "old"', "North", "South"),
  cost = c(10.25, 20.5, NA, 0.1 + 0.2, 5, 7),
  nights = c(1L, 2L, NA, 4L, 5L, 6L),
  emergency = c(TRUE, FALSE, TRUE, NA, TRUE, TRUE),
  admitted = as.Date(c("2024-01-01", "2024-01-02", "2024-02-01", NA, "2024-02-03", "2024-02-04")),
  stringsAsFactors = FALSE
)
visits$ward_factor <- factor(visits$ward)
visits$seen <- as.POSIXct("2024-03-01 12:30:15", tz = "UTC") + seq_len(6)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The client, installed as a package of R."""
    if shutil.which("Rscript") is None:
        pytest.skip("needs R: apt-get install r-base-core r-cran-jsonlite (`make test` does on Debian)")
    folder = tmp_path_factory.mktemp("library")
    source = folder / "source"
    shutil.copytree(CLIENT, source)
    run = subprocess.run(["R", "CMD", "INSTALL", "-l", folder, source], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture
def in_r(library, tmp_path, monkeypatch):
    """Run statements in R and return the last line, read as JSON."""
    monkeypatch.setenv("R_LIBS", str(library))
    monkeypatch.setenv("OSGT", str(Path(sys.executable).with_name("osgt")))

    def run(statements):
        script = tmp_path / "script.R"
        script.write_text(PREPARE + statements, encoding="utf-8")
        done = subprocess.run(["Rscript", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1]), done

    return run


def test_a_data_frame_in_and_a_data_frame_out(in_r):
    result, _ = in_r(f"""
r <- osgt_release(visits, unit = "patient", by = "ward", keys = "ward=North,South,West", count = TRUE,
                  sum = "nights:100", {EXACT})
stopifnot(is.data.frame(r), identical(attr(r, "promise")$epsilon, 20000L) || attr(r, "promise")$epsilon == 20000)
cat(jsonlite::toJSON(list(rows = as.data.frame(unclass(r)), words = osgt_statement(r)), auto_unbox = TRUE))
""")
    rows = {row["ward"]: row for row in result["rows"]}
    assert {ward: row["count"] for ward, row in rows.items()} == {"North": 3, "South": 1, "West": 0}
    assert {ward: round(row["nights_sum"]) for ward, row in rows.items()} == {"North": 6, "South": 2, "West": 0}
    assert all(row["count_low"] <= row["count"] <= row["count_high"] for row in result["rows"])
    assert "is (ε, δ)-differentially private with ε = 2000" in result["words"]


#: By condition, how many rows of `visits` meet it: two that one row meets in every column, and one of many rows.
CONDITIONS = {
    # 0.1 + 0.2 is larger than 0.3, and every digit arrives.
    "ward = 'East, \"old\"' AND cost > 0.3 AND cost < 0.3000001 AND nights = 4 AND emergency IS NULL"
    " AND admitted IS NULL AND seen = TIMESTAMP '2024-03-01 12:30:19'": 1,
    "ward_factor = 'North' AND cost IS NULL AND nights IS NULL AND emergency AND admitted = DATE '2024-02-01'": 1,
    "nights <= 2 AND ward_factor <> '' AND admitted < DATE '2024-02-01' AND cost > 10": 2,
}


def test_values_of_all_classes_arrive(in_r):
    conditions = ", ".join(json.dumps(condition) for condition in CONDITIONS)  # R reads these strings as JSON does
    result, _ = in_r(f"""
counts <- vapply(c({conditions}), function(condition) {{
  query <- paste("SELECT COUNT(*) AS n FROM visits WHERE", condition)
  osgt_sql(visits, query, unit = "patient", {EXACT})$n
}}, 0)
cat(jsonlite::toJSON(as.list(counts), auto_unbox = TRUE))
""")
    assert result == CONDITIONS


def test_a_query_file_of_several_tables(in_r, tmp_path):
    with (tmp_path / "visits.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("patient", "ward"), *((f"p{i}", "NS"[i % 2]) for i in range(50))])
    (tmp_path / "query.toml").write_text(
        """
[data]
source = "visits.csv"
privacy_unit = "patient"
[[table]]
name = "by_ward"
[table.groups]
by = "ward"
max_rows = 1
public_keys = ["N", "S"]
[[table.aggregates]]
kind = "count"
[[table]]
name = "in_all"
[table.groups]
max_rows = 1
[[table.aggregates]]
kind = "count"
[budget]
epsilon = 2000
delta = 1e-9
""",
        encoding="utf-8",
    )
    result, _ = in_r("""
tables <- osgt_release(query = "query.toml", epsilon = 2000)
cat(jsonlite::toJSON(list(names(tables), tables$by_ward$count, tables$in_all$count, osgt_statement(tables$in_all))))
""")
    names, by_ward, in_all, [words] = result
    assert (names, by_ward, in_all) == (["by_ward", "in_all"], [25, 25], [50])
    assert words.startswith("This publication of 2 tables")


def test_a_table_without_rows_keeps_its_columns(in_r):
    result, _ = in_r("""
r <- osgt_release(visits, unit = "patient", by = "ward", count = TRUE, max_rows = 1, epsilon = 1, delta = 1e-9)
stopifnot(is.data.frame(r))
cat(jsonlite::toJSON(list(nrow(r), names(r))))
""")
    assert result == [[0], ["ward", "count", "count_low", "count_high"]]


def test_refusals_are_errors_with_their_code(in_r):
    result, done = in_r("""
caught <- tryCatch(osgt_release(visits, unit = "patience", by = "ward", count = TRUE, epsilon = 1, delta = 1e-8),
                   osgt_error = function(error) error)
unnamed <- tryCatch(osgt_release(visits, "patient", epsilon = 1), error = conditionMessage)
complex <- tryCatch(osgt_release(data.frame(x = 1i), unit = "x", count = TRUE, epsilon = 1), error = conditionMessage)
options(osgt.command = "/nowhere/osgt")
missing <- tryCatch(osgt_plan(epsilon = 1, delta = 1e-8, coordinates = 8), error = conditionMessage)
left <- list.files(tempdir(), pattern = "^osgt-")
cat(jsonlite::toJSON(list(caught$code, conditionMessage(caught), unnamed, complex, missing, left)))
""")
    [code], [message], [unnamed], [complex_], [missing], left = result
    assert code == 2
    assert "patience" in message
    assert not message.startswith("Error")
    assert "by = " in unnamed
    assert "complex" in complex_
    assert "install it" in missing
    assert left == [], "files with data stay behind"
    assert "a,a" not in done.stdout + done.stderr


def test_the_plan_reads_no_data_and_print_shows_the_table(in_r):
    result, done = in_r(f"""
p <- osgt_plan(visits, unit = "patient", by = "ward", keys = "ward=North,South", count = TRUE, epsilon = 1,
               delta = 1e-8, max_rows = 2)
r <- osgt_release(visits, unit = "patient", by = "ward", keys = "ward=North,South", count = TRUE, {EXACT})
print(r)
cat(jsonlite::toJSON(p$epsilon))
""")
    assert result == [1]
    assert "count_low" in done.stdout
    assert "This release is" in done.stdout


def test_versions_agree():
    from osgt import __version__  # noqa: PLC0415

    assert f"\nVersion: {__version__}\n" in (CLIENT / "DESCRIPTION").read_text(encoding="utf-8")
