"""The commands: parse, call, print."""

import typer

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

__all__ = ["app"]
