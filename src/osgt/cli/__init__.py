"""The commands: parse, call, print."""

from typing import Annotated

import typer

from osgt.cli.command import lazy_group

#: Where each command is. They are imported when they run.
_COMMANDS = {
    "start": "start:start",
    "plan": "plan:plan",
    "sql": "sql:sql",
    "release": "release:release",
    "publish": "release:publish",
    "limits": "limits:limits",
    "preview": "limits:preview",
    "statement": "documents:statement",
    "check": "audit:check",
    "audit": "audit:audit",
    "web": "web:web",
    "schema": "documents:schema",
    "noise": "noise:noise",
    "paper": "documents:paper",
}
_LEDGER_COMMANDS = {
    "open": "ledger:open_",
    "show": "ledger_upkeep:show",
    "remaining": "plan:remaining",
    "report": "ledger_upkeep:report",
    "settle": "ledger:settle",
    "note": "ledger:note",
    "void": "ledger_upkeep:void",
    "budget": "ledger:budget",
    "table": "ledger:table",
    "verify": "ledger_upkeep:verify",
    "export": "ledger_upkeep:export",
    "backup": "ledger_upkeep:backup",
    "restore": "ledger_upkeep:restore",
    "lost": "ledger_upkeep:lost",
    "grants": "ledger_upkeep:grants",
}


def _show_version(asked: bool) -> None:
    if asked:
        from osgt import __version__  # noqa: PLC0415 - takes a while

        typer.echo(f"osgt {__version__}")
        raise typer.Exit


# The values of variables, which a traceback could show, may be data.
app = typer.Typer(name="osgt", cls=lazy_group(_COMMANDS), no_args_is_help=True, pretty_exceptions_show_locals=False)
ledger = typer.Typer(name="ledger", cls=lazy_group(_LEDGER_COMMANDS), no_args_is_help=True)
app.add_typer(ledger)


@app.callback()
def _osgt(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Publish statistics about people with the least noise that a privacy budget allows."""


@ledger.callback()
def _ledger() -> None:
    """Budgets of data sets, and what has been spent of them."""


__all__ = ["app"]
