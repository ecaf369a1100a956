"""The commands: parse, call, print."""

import typer

from osgt.cli.help import Command, Group
from osgt.cli.ledger import budget, grants, ledger, open_, remaining, table
from osgt.cli.ledger_report import report
from osgt.cli.ledger_settle import note, settle
from osgt.cli.ledger_show import show
from osgt.cli.ledger_upkeep import backup, export, restore, verify
from osgt.cli.noise import noise
from osgt.cli.paper import paper
from osgt.cli.plan import plan
from osgt.cli.preview import preview
from osgt.cli.release import release
from osgt.cli.schema import schema

app = typer.Typer(
    name="osgt",
    cls=Group,
    help="Publish statistics about people with the least noise that a privacy budget allows.",
    no_args_is_help=True,
    add_completion=False,
)
for command in (plan, release, preview, schema, noise, paper):
    app.command(cls=Command)(command)
ledger.command("open", cls=Command)(open_)
for command in (show, remaining, report, settle, note, budget, table, verify, export, backup, restore, grants):
    ledger.command(cls=Command)(command)
app.add_typer(ledger, cls=Group)

__all__ = ["app"]
