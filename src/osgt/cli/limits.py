"""`osgt limits`: choose the limits of a table privately, by themselves. Charged like a release.

`osgt preview` shows what limits cut off, exactly. Not private.
"""

import json
import shlex
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osgt.cli.options import BUDGET, OUTPUT, Asked, TableAsJson, takes_a_table
from osgt.cli.release import charging, ledger_of
from osgt.cli.shared import (
    AsJson,
    QueryPath,
    clear_errors,
    option,
    progress,
    saved,
    say,
    switch,
    terminal,
)
from osgt.facts import wording
from osgt.support.text import printable

if TYPE_CHECKING:
    from osgt.api.limits import Preview, PublicationPreview
    from osgt.api.publication import Publication
    from osgt.api.query import Query
    from osgt.query.aggregates.base import OpenLimit
    from osgt.query.file.model import QueryFile

_REOPEN = (
    "Choose nothing, read nothing and charge nothing: write the query file (--save) without max_rows, "
    "max_groups and max_rows_per_group, so that its release chooses limits. Counts of units keep max_groups "
    "where groups are chosen by their size."
)


@takes_a_table
def limits(
    asked: Asked,
    query: QueryPath = None,
    epsilon: Annotated[
        float | None,
        option(
            "NUMBER", "ε of the choice: a tenth of the release's is enough, unless there are few people.", panel=BUDGET
        ),
    ] = None,
    release_epsilon: Annotated[
        float | None,
        option("NUMBER", "ε that the release will have: that of the query file, or 10 times --epsilon.", panel=BUDGET),
    ] = None,
    release_delta: Annotated[
        float | None,
        option("NUMBER", "δ that the release will have: that of the query file, or 1e-8.", panel=BUDGET),
    ] = None,
    reopen: Annotated[bool, switch("--reopen", _REOPEN, panel=OUTPUT)] = False,
    save: Annotated[Path | None, option("FILE", "Write the query file with the limits: .toml.", panel=OUTPUT)] = None,
    overwrite: Annotated[bool, switch("--overwrite", "Replace the query file if it exists.", panel=OUTPUT)] = False,
    as_json: TableAsJson = False,
) -> None:
    """Choose open limits privately, by themselves. Costs budget like a release. Limits you set are kept.

    `osgt release` chooses open limits itself, within its own budget: this is for limits that are to be seen first, or
    used by several releases.

    Example: osgt limits --query query.toml --epsilon 0.1 --save limited.toml

    Exit codes: 0 the limits are chosen; 2 refused, and nothing was charged; 3 nothing came out, and the budget was
    charged or may have been.
    """
    with clear_errors():
        if reopen:
            _reopen(asked, query, save, overwrite=overwrite)
            return
        if epsilon is None:
            raise ValueError("--epsilon must be given: the budget of the choice, a tenth of the release's or less")
        file = asked.query_file(query, reads=True, budget={"epsilon": release_epsilon, "delta": release_delta})
        shown = _choose(file, epsilon, save, overwrite=overwrite)
        if as_json:
            typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
            return
        _print_limits(shown)
        if save is not None:
            typer.echo(f"Query file: {save}")


def _reopen(asked: Asked, query: Path | None, save: Path | None, *, overwrite: bool) -> None:
    """Write the query file without limits on rows and groups."""
    if save is None:
        raise ValueError("--save must be given: the query file to write")
    from osgt.api.query_file import files_used, reopen_limits  # noqa: PLC0415 - the extra "tables"

    file = reopen_limits(asked.query_file(query))
    with saved("--save", file, save, apart=files_used(file), overwrite=overwrite):
        pass
    typer.echo(f"Query file: {save}")


def _choose(file: "QueryFile", epsilon: float, save: Path | None, *, overwrite: bool) -> dict[str, Any]:
    """Choose and charge; the query file is written as a whole or not at all."""
    from osgt.api.query_file import build_query, files_used, fill_limits  # noqa: PLC0415 - the extra "tables"

    query = build_query(file, ledger_of(file))
    data = query.dataset
    ledger = None if data.ledger is None else data.ledger.name
    show = None if ledger is None else shlex.join(["osgt", "ledger", "show", ledger, str(data.dataset)])
    budget = {"release_epsilon": file.budget.epsilon, "release_delta": file.budget.delta}
    options = {name: value for name, value in budget.items() if value is not None}
    with closing(data), saved("--save", file, save, apart=files_used(file), overwrite=overwrite) as replace:
        with charging(show), progress(query, f"rows of each {data.unit.noun}"):
            chosen = query.choose_limits(epsilon, **options)
        replace(fill_limits(file, chosen.tables))
        return {
            "limits": _sizes(query, chosen),
            "meaning": list(dict.fromkeys(note for own in chosen.tables.values() for note in own.limit_notes())),
            "epsilon": epsilon,
            "delta": 0.0,
            "ledger": ledger,
            "dataset": data.dataset,
        }


def _sizes(query: "Query | Publication", chosen: "Query | Publication") -> dict[str, Any]:
    """The limits that were chosen, by their names."""
    return {
        limit.words: _size(chosen.tables[name], limit)
        for name, table in query.tables.items()
        for limit in table.open_limits
    }


def _size(query: "Query", limit: "OpenLimit") -> Any:
    if limit.column is None:
        return getattr(query.groups, limit.argument)
    arguments = [aggregate.arguments() for aggregate in query.aggregates]
    return next(
        given[limit.argument] for given in arguments if given.get("column") == limit.column and limit.argument in given
    )


def _print_limits(shown: dict[str, Any]) -> None:
    console = terminal()
    for name, size in shown["limits"].items():
        words = f"{size:,}" if not isinstance(size, list) else f"{size[0]:,} to {size[1]:,}"
        console.print(printable(f"{name} = {words}"), style="bold", markup=False, soft_wrap=True)
    for note in shown["meaning"]:
        say(console, f"  {note}")
    to = "no ledger" if shown["ledger"] is None else f"{shown['dataset']!r} in {shown['ledger']}"
    say(console, f"Charged for the choice: {wording.budget(shown['epsilon'], shown['delta'])} to {to}.")


@takes_a_table
def preview(
    asked: Asked,
    query: QueryPath = None,
    as_json: AsJson = False,
) -> None:
    """Show what limits cut off: those that are given, and others. NOT PRIVATE: for whoever may see the data.

    Example: osgt preview --query query.toml
    """
    with clear_errors():
        file = asked.query_file(query, reads=True)
        from osgt.api.query_file import build_query  # noqa: PLC0415 - the extra "tables"

        built = build_query(file)
        with closing(built.dataset), progress(built, "counting what limits cut off"):
            shown = built.preview()
        if as_json:
            typer.echo(json.dumps(shown.to_dict(), indent=2, ensure_ascii=False))
        else:
            _print_preview(shown)


def _print_preview(shown: "Preview | PublicationPreview") -> None:
    from osgt.api.limits import WARNING  # noqa: PLC0415 - the extra "tables"

    console = terminal()
    console.print(WARNING, style="bold")
    for name, table in shown.tables.items():
        if name:
            console.print(f"{escape(printable(name))}:", style="bold")
        _print_curves(console, table)


def _print_curves(console: Console, shown: "Preview") -> None:
    for line in shown.lines():
        say(console, line)
    for head, rows in shown.curves():
        table = Table(title=None)
        for name in head:
            table.add_column(escape(printable(name)), justify="right", overflow="fold")
        for row in rows:
            table.add_row(*row, style="bold" if row[0].endswith("*") else None)
        console.print(table)
