"""The reference of the command line knows every command and option."""

import typer

from osgt.cli import _COMMANDS, _LEDGER_COMMANDS, app
from osgt.cli.command_reference import PAGE, main, reference


def test_every_command_has_a_section():
    headings = [line[4:-1] for line in reference().splitlines() if line.startswith("## ")]
    assert headings == [f"osgt {name}" for name in _COMMANDS] + [f"osgt ledger {name}" for name in _LEDGER_COMMANDS]


def test_every_option_has_a_row():
    root = typer.main.get_command(app)
    context = root.commands["release"].make_context("release", [], resilient_parsing=True)
    options = [each for each in context.command.get_params(context) if each.param_type_name == "option"]
    section = reference().split("## `osgt release`")[1].split("\n## ")[0]
    assert len(options) > 20
    for option in options:
        assert option.name == "help" or f"| `{option.opts[0]}" in section


def test_a_file_is_written(tmp_path):
    main(str(tmp_path))
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == reference()
