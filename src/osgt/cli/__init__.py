"""The commands: parse, call, print."""

import typer

from osgt.cli.ledger import ledger
from osgt.cli.ledger_settle import note, settle
from osgt.cli.noise import noise
from osgt.cli.paper import paper
from osgt.cli.plan import plan
from osgt.cli.release import preview, release

app = typer.Typer(
    name="osgt",
    help="Publish statistics about people with the least noise that a privacy budget allows.",
    no_args_is_help=True,
    add_completion=False,
)
app.command()(plan)
app.command()(release)
app.command()(preview)
app.command()(noise)
app.command()(paper)
ledger.command()(settle)
ledger.command()(note)
app.add_typer(ledger)

__all__ = ["app"]
