"""`osgt ledger` as people type it."""

import json
import sqlite3

import pytest
from typer.testing import CliRunner

from charges import laplace, osgt
from osgt import Ledger
from osgt.cli import app
from osgt.facts.ledger_wording import rounded_up


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return lambda *arguments: CliRunner().invoke(app, ["ledger", *(str(a) for a in arguments)])


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        for i in range(5):
            ledger.reserve("flights", osgt(30 + i, 40), query=f"[b]by month[/b] {i}", actor="ann").settle("hash")
    return path


def test_open_and_change(run, tmp_path):
    path = tmp_path / "new.db"
    result = run("open", path, "flights", "--epsilon", 3, "--delta", "1e-6")
    assert result.exit_code == 0
    assert "ε = 3, δ = 1e-06" in result.stdout
    assert run("open", path, "flights", "--epsilon", 3, "--delta", "1e-6").exit_code == 0
    other = run("open", path, "flights", "--epsilon", 4, "--delta", "1e-6")
    assert other.exit_code == 2
    assert "osgt ledger budget" in other.stderr
    assert run("budget", path, "flights", "--epsilon", 4, "--delta", "1e-6").exit_code == 2
    changed = run("budget", path, "flights", "--epsilon", 4, "--delta", "1e-6", "--reason", "agreed")
    assert changed.exit_code == 0
    assert json.loads(run("export", path).stdout)["datasets"][0]["entries"][-1]["reason"] == "agreed"


def test_show(run, path):
    result = run("show", path)
    assert result.exit_code == 0
    for text in ("flights", "Budgets", "[b]by month[/b] 4", "ann", "settled", "▁"):
        assert text in result.stdout
    few = run("show", path, "flights", "--last", 2).stdout
    assert "2 of 5 releases" in few
    assert "by month[/b] 2" not in few


def test_show_as_json(run, path):
    (answer,) = json.loads(run("show", path, "--json").stdout)
    assert answer["releases"] == 5
    assert 0 < answer["epsilon"] < 3
    assert 0 < answer["share"] < 1
    assert [release["status"] for release in answer["history"]] == ["settled"] * 5
    assert answer["history"][0]["charge"]["parts"][0]["noise"]["family"] == "osgt"


def test_the_picture_of_spending_rises(run, tmp_path):
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        for _ in range(6):
            ledger.reserve("flights", laplace(0.5), query="q")
    bars = [character for character in run("show", tmp_path / "budget.db").stdout if character in "▁▂▃▄▅▆▇█"]
    assert len(bars) == 6
    assert bars == sorted(bars)
    assert bars[0] < bars[-1]


def test_a_picture_in_a_file(run, path, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "spending.png"
    assert run("show", path, "--plot", picture).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    wrong = run("show", path, "--plot", tmp_path / "spending.xyz")
    assert wrong.exit_code == 2
    assert "--plot must end in .png, .svg or .pdf" in wrong.stderr


@pytest.mark.parametrize(("command", "name"), [("export --out", "today.json"), ("show --plot", "today.svg")])
def test_files_are_not_replaced_unless_told_and_the_ledger_never(run, path, tmp_path, command, name):
    pytest.importorskip("matplotlib")
    command, option = command.split()
    target = tmp_path / name
    target.write_text("precious")
    refused = run(command, path, option, target)
    assert refused.exit_code == 2
    assert "--overwrite" in refused.stderr
    assert target.read_text() == "precious"
    assert run(command, path, option, target, "--overwrite").exit_code == 0
    assert target.read_text() != "precious"
    before = path.read_bytes()
    path.with_suffix(".svg").symlink_to(path)
    for ledger in (path, path.with_suffix(".svg")):
        assert run(command, path, option, ledger, "--overwrite").exit_code == 2
    assert path.read_bytes() == before


def test_the_data_set_need_not_be_named(run, path, tmp_path):
    """Where the ledger has one alone, or a data file names it with its ledger."""
    named = run("remaining", path, "flights").stdout
    assert run("remaining", path).stdout == named
    with Ledger(path) as ledger:
        ledger.open("trains", epsilon=1, delta=1e-6)
    several = run("remaining", path)
    assert several.exit_code == 2
    assert "DATASET must be given: the ledger has the budgets of 'flights' and 'trains'" in several.stderr
    data = tmp_path / "data.toml"
    text = '[data]\nsource = "a.csv"\nprivacy_unit = "p"\nledger = "budget.db"\ndataset = "flights"\n'
    data.write_text(text)
    assert run("remaining", data).stdout == named
    assert run("show", data).stdout == run("show", path).stdout
    data.write_text(text.replace('ledger = "budget.db"\ndataset = "flights"\n', ""))
    assert f"{data} names no ledger" in run("remaining", data).stderr


def test_remaining(run, path):
    assert "fits with ε up to" in run("remaining", path, "flights", "--coordinates", 4).stdout
    answer = json.loads(run("remaining", path, "flights", "--json").stdout)
    assert 0 < answer["epsilon"] < 3


def test_verify_and_export(run, path, tmp_path):
    assert "All is well: 11 entries of 1 data set." in run("verify", path).stdout
    assert run("export", path, "--out", tmp_path / "today.json").exit_code == 0
    assert run("verify", path, "--heads", tmp_path / "today.json").exit_code == 0
    assert json.loads(run("verify", path, "--json").stdout)["ok"]
    connection = sqlite3.connect(path)
    (body,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'osgt_entries_no_update'").fetchone()
    connection.execute("DROP TRIGGER osgt_entries_no_update")
    connection.execute("UPDATE osgt_entries SET content = replace(content, 'ann', 'bob') WHERE sequence = 4")
    connection.execute(body)
    connection.commit()
    connection.close()
    result = run("verify", path)
    assert result.exit_code == 1
    assert "entry 4 was edited" in result.stderr
    answer = run("verify", path, "--json")
    assert answer.exit_code == 1
    assert "entry 4" in json.loads(answer.stdout)["problems"][0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{}", "these are no heads"),
        ("[1, 2]", "these are no heads"),
        ('{"flights": {"epsilon": 3}}', "these are no heads"),
        ("not JSON", "is not JSON"),
        ("\xff", "is not JSON"),
        (None, "there is no file"),
    ],
)
def test_wrong_heads_are_told_from_a_wrong_ledger(run, path, tmp_path, content, told):
    file = tmp_path / "heads.json"
    if content is not None:
        file.write_text(content, encoding="latin-1")
    result = run("verify", path, "--heads", file)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "Traceback" not in result.output


def test_a_shortened_and_a_rewritten_ledger(run, path, tmp_path):
    heads = tmp_path / "heads.json"
    heads.write_text(run("verify", path, "--json").stdout)
    shorter = tmp_path / "shorter.db"
    with Ledger(shorter) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
    result = run("verify", shorter, "--heads", heads)
    assert result.exit_code == 1
    assert "cut off: it ends at 1, and there were 11" in result.stderr
    with Ledger(shorter) as ledger:
        for _ in range(12):
            ledger.reserve("flights", osgt(30, 40), query="q")
    result = run("verify", shorter, "--heads", heads)
    assert result.exit_code == 1
    assert "written anew" in result.stderr


def test_a_file_that_is_damaged(run, path):
    path.write_bytes(path.read_bytes()[:5000])
    result = run("verify", path)
    assert result.exit_code == 1
    assert "Traceback" not in result.output


def test_tables_of_the_same_people(run, tmp_path):
    path = tmp_path / "new.db"
    options = ["--epsilon", 3, "--delta", "1e-6", "--unit", "person", "--table", "visits", "--table", "bills:payer"]
    assert run("open", path, "health", *options).exit_code == 0
    added = run("table", path, "health", "--add", "prescriptions")
    assert added.exit_code == 0
    assert "visits, bills, prescriptions" in added.stdout
    again = run("table", path, "health", "--add", "visits")
    assert again.exit_code == 2
    assert "has the table 'visits' already" in again.stderr
    assert run("table", path, "health").exit_code == 2
    assert run("table", path, "health", "--changed", "visits", "--reason", "a new column").exit_code == 0
    assert run("table", path, "health", "--changed", "unknown").exit_code == 2


def test_backup_and_restore(run, path, tmp_path):
    copy, heads = tmp_path / "copy.db", tmp_path / "heads.json"
    assert "11 entries" in run("backup", path, copy).stdout
    assert run("backup", path, copy).exit_code == 2
    with Ledger(path) as ledger:
        ledger.reserve("flights", osgt(30, 40), query="after the backup")
    heads.write_text(run("verify", path, "--json").stdout)
    missing = run("restore", path, copy, "--reason", "for a test")
    assert missing.exit_code == 2
    assert "--charges-unknown" in missing.stderr
    result = run("restore", path, copy, "--reason", "for a test", "--heads", heads)
    assert result.exit_code == 0
    assert "flights: charges were lost, so its budget counts as spent (the backup ends at entry 11" in result.stdout
    assert run("verify", path).exit_code == 0


def test_grants(run):
    assert 'GRANT INSERT ON osgt_entries TO "ann";' in run("grants", "ann").stdout
    assert "INSERT" not in run("grants", "ann", "--read").stdout


def test_control_codes_do_not_reach_the_terminal(run, path):
    with Ledger(path) as ledger:
        ledger.reserve("flights", osgt(30, 40), query="\x1b]0;evil\x07 \x1b[2J\u202ereversed")
    assert not {"\x1b", "\x07", "\u202e"} & set(run("show", path).stdout)


@pytest.mark.parametrize("act", ["show", "verify", "export"])
def test_no_ledger_there(run, tmp_path, act):
    result = run(act, tmp_path / "none.db")
    assert result.exit_code == 2
    assert "there is no ledger at" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "act",
    [
        "open",
        "budget",
        "table",
        "remaining",
        "verify",
        "export",
        "show",
        "report",
        "backup",
        "restore",
        "lost",
        "grants",
    ],
)
def test_every_help_has_an_example(run, act):
    result = run(act, "--help")
    assert result.exit_code == 0
    assert f"Example: osgt ledger {act}" in result.stdout


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (2.2250738585072014e-308, "2.226e-308"), (1.23401, "1.235"), (0.3, "0.3"), (float("inf"), "∞")],
)
def test_figures_are_never_rounded_down(value, text):
    assert rounded_up(value) == text
