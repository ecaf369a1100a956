"""The reference of the command line knows every command and option."""

import re

import typer
from rich.text import Text

from osgt.cli import _COMMANDS, _LEDGER_COMMANDS, app
from osgt.cli.documents import PAGE, main, reference


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


def all_commands():
    root = typer.main.get_command(app)
    for path in [[name] for name in _COMMANDS] + [["ledger", name] for name in _LEDGER_COMMANDS]:
        group, context = root, typer.Context(root, info_name="osgt")
        for name in path[:-1]:
            group = group.commands[name]
            context = typer.Context(group, info_name=name, parent=context)
        yield group.commands[path[-1]].make_context(path[-1], [], parent=context, resilient_parsing=True)


def test_help_is_shown_as_it_is_written():
    """No word of it is taken for an instruction of the terminal, and every option says something in a sentence."""
    contexts = list(all_commands())
    assert len(contexts) > 20
    for context in contexts:
        texts = [context.command.help, *(each.help for each in context.command.get_params(context))]
        for text in texts:
            assert Text.from_markup(text).plain == text
            assert "  " not in text
            assert not re.search(r" \.(?![a-z])", text)  # but .csv
            assert text[:1].isupper() or text.split()[0] in ("ε", "δ", "adaptive", "integers")
            assert text.rstrip().endswith((".", "”")) or "Example" in text or ": osgt" in text, text
