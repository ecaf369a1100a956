"""Quick to start: what a bare import and the help load, and that nothing is missing all the same."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import osgt
from osgt.cli import _COMMANDS, _LEDGER_COMMANDS, LazyCommand, app

PUBLIC = {
    "OSGT",
    "Dataset",
    "DiscreteOSGT",
    "Ledger",
    "Mechanism",
    "OsgtWarning",
    "PrivacyProfile",
    "Publication",
    "audit",
    "calibrate",
    "calibrate_delta",
    "calibrate_epsilon",
    "compare",
    "cut",
    "month",
    "publish",
    "quarter",
    "recode",
    "start",
    "weekday",
    "year",
}

#: Packages that take long to import, and that neither names nor help need.
HEAVY = {
    *("numpy", "scipy", "flint", "cryptography", "pyarrow", "pandas", "matplotlib", "jinja2"),
    *("duckdb", "psycopg", "pyspark", "sqlalchemy", "ibis"),
}

#: Every command, and those of the ledger.
COMMANDS = [*_COMMANDS, *(f"ledger {name}" for name in _LEDGER_COMMANDS)]

LOADED = "import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules))))"

#: Runs commands one after the other; after each, its exit code, whether its module was loaded, and heavy packages.
IN_TURN = """
import json, sys
from osgt.cli import app

for command in json.loads(sys.argv[1]):
    try:
        app(command)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    heavy = [name for name in json.loads(sys.argv[2]) if name in sys.modules]
    print("\\nAFTER " + json.dumps([code, "osgt.cli.shared" in sys.modules, heavy]))
"""


def python(*arguments, **environment):
    source = {"PYTHONPATH": str(Path(osgt.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | source | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def modules_after(code):
    result = python("-c", f"{LOADED}\n{code}")
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


class TestImport:
    def test_a_bare_import_loads_nothing_else(self):
        before, after = modules_after(""), modules_after("import osgt")
        assert {name for name in after - before if name.startswith("osgt")} == {"osgt"}
        assert len(after - before) < 40
        assert not HEAVY & after

    @pytest.mark.parametrize("name", sorted(PUBLIC))
    def test_each_name_is_there_when_used(self, name):
        assert getattr(osgt, name).__name__ == name

    def test_the_power_of_the_check(self):
        assert HEAVY & modules_after("from osgt import OSGT") == {"numpy", "scipy", "flint"}

    def test_a_data_set_loads_neither_engines_nor_what_pages_and_query_files_need(self):
        loaded = modules_after("from osgt import Dataset")
        assert HEAVY & loaded == {"numpy", "scipy", "flint", "pyarrow"}
        assert not {"pydantic", "pyarrow.compute", "scipy.special", "osgt.ledger.ledger"} & loaded

    def test_names(self):
        assert set(osgt.__all__) == PUBLIC | {"__version__"}
        assert set(dir(osgt)) == PUBLIC | {"__version__"}
        with pytest.raises(AttributeError, match="no attribute 'Cauchy'"):
            osgt.Cauchy  # noqa: B018

    def test_everything_at_once(self):
        result = python("-c", f"from osgt import *\nprint(len({{{', '.join(sorted(PUBLIC))}}}))")
        assert result.stdout == f"{len(PUBLIC)}\n", result.stderr

    def test_version(self):
        assert osgt.__version__ == version("osgt")


class TestCommand:
    @pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["ledger", "--help"], []])
    def test_help_loads_no_more_than_it_needs(self, arguments):
        loaded = modules_after(f"from osgt.cli import app\ntry:\n    app({arguments})\nexcept SystemExit:\n    pass")
        assert {name for name in loaded if name.startswith("osgt")} <= {"osgt", "osgt.cli"}
        assert not HEAVY & loaded

    def modules_after_command(self, *arguments):
        return modules_after(
            f"from osgt.cli import app\ntry:\n    app({list(arguments)})\nexcept SystemExit:\n    pass"
        )

    def loaded_in_turn(self, *commands):
        """Run commands one after the other in one process: exit code and heavy packages loaded so far, after each."""
        result = python("-c", IN_TURN, json.dumps(commands), json.dumps(sorted(HEAVY)))
        assert result.returncode == 0, result.stderr
        told = [line.removeprefix("AFTER ") for line in result.stdout.splitlines() if line.startswith("AFTER ")]
        assert len(told) == len(commands)
        return {" ".join(command): json.loads(line) for command, line in zip(commands, told, strict=True)}

    def test_help_of_a_command_loads_no_heavy_package(self):
        after = self.loaded_in_turn(*([*command.split(), "--help"] for command in COMMANDS))
        assert {command: told for command, told in after.items() if told != [0, True, []]} == {}

    def test_a_refusal_loads_no_heavy_package(self):
        refused = [
            ["release"],
            ["release", "visits.csv"],
            ["release", "visits.csv", "--unit", "patient"],
            ["release", "visits.csv", "--unit", "patient", "--sum", "cost:low:high"],
            ["release", "--query", "no such file.toml"],
            ["plan", "--epsilon", "1"],
            ["preview"],
            ["limits"],
            ["ledger", "open"],
        ]
        after = self.loaded_in_turn(*refused)
        assert {command: told for command, told in after.items() if told[0] == 0 or told[1:] != [True, []]} == {}

    def test_the_power_of_that_check(self, tmp_path):
        query = tmp_path / "query.toml"
        query.write_text('[data]\nsource = "no such file.csv"\nprivacy_unit = "a"\n[[aggregates]]\nkind = "count"\n')
        assert {"numpy", "pyarrow"} <= self.modules_after_command("preview", "--query", str(query))

    def test_as_a_module(self):
        result = python("-m", "osgt", "--version")
        assert result.stdout == f"osgt {version('osgt')}\n"
        assert "Usage: osgt " in python("-m", "osgt", "--help").stdout

    def commands(self):
        root = typer.main.get_command(app)
        groups = [root, root.commands["ledger"]]
        return [command for group in groups for command in group.commands.values() if isinstance(command, LazyCommand)]

    def test_every_command_can_be_loaded_and_its_help_is_its_own(self):
        found = self.commands()
        assert len(found) >= 19
        for command in found:
            assert command.help == cleandoc(command.function().__doc__)

    def test_help_shows_them(self):
        for arguments, names in ([], ["plan", "release", "ledger"]), (["ledger"], ["verify", "open", "show"]):
            result = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
            assert result.exit_code == 0
            for name in names:
                assert name in result.stdout
        assert "Check every entry" in result.stdout

    def test_a_wrong_name(self):
        result = CliRunner().invoke(app, ["plam"], env={"COLUMNS": "200", "NO_COLOR": "1"})
        assert result.exit_code == 2
        assert "No such command 'plam'" in result.output

    @pytest.mark.parametrize(
        ("typed", "completed"),
        [
            ("osgt rel", "release"),
            ("osgt ledger ver", "verify"),
            ("osgt noise --col", "--column"),
            ("osgt ledger show --si", "--since"),
        ],
    )
    def test_completion(self, typed, completed):
        words = typed.split()
        result = python("-m", "osgt", _OSGT_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(len(words) - 1))
        assert result.stdout.split() == [completed], result.stderr

    def test_completion_can_be_installed(self):
        assert "_OSGT_COMPLETE=complete_bash" in python("-m", "osgt", _OSGT_COMPLETE="source_bash").stdout
        assert "--install-completion" in python("-m", "osgt", "--help").stdout
