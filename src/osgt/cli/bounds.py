"""`osgt bounds`: which bounds a table should have, from private histograms. Charged like a release.

`osgt preview` shows what bounds cut off, exactly. Not private.
"""

import glob
import json
import os
import shlex
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osgt.cli import outcome
from osgt.cli.options import BUDGET, OUTPUT, Asked, takes_a_table
from osgt.cli.release import ledger_of
from osgt.cli.shared import (
    PICTURES,
    QueryPath,
    check_matplotlib,
    clear_errors,
    command_target,
    progress,
    say,
    terminal,
    warn,
)
from osgt.render.pictures import new_figure
from osgt.support.files import Target, written_together
from osgt.support.text import printable

if TYPE_CHECKING:
    from osgt.api.preview import Preview, PublicationPreview
    from osgt.api.suggestion.suggestion import Suggestion
    from osgt.query.file.model import QueryFile


@takes_a_table
def bounds(
    asked: Asked,
    query: QueryPath = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="ε of the suggestion: a tenth of the release's, or less, is enough.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="δ of the suggestion (0 if not given): of use only where groups are not public.",
            show_default=False,
            rich_help_panel=BUDGET,
        ),
    ] = 0.0,
    release_epsilon: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="ε that the release will have: that of the query file, or 10 times --epsilon.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    release_delta: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="δ that the release will have: that of the query file, 10 times --delta, or a hundredth of the "
            "ledger's; if there is none, --save leaves it open.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    aim: Annotated[
        str,
        typer.Option(
            metavar="AIM",
            help="What the bounds are for: error (the least error), or coverage (noise intervals that also hold the "
            "values from which nothing was left out).",
            rich_help_panel=BUDGET,
        ),
    ] = "error",
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the query file with the recommended bounds: .toml.", rich_help_panel=OUTPUT
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a picture of the curve: .png, .svg or .pdf.", rich_help_panel=OUTPUT),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for a program to read.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Recommend bounds for a table, from private histograms over units. Charged like a release; bounds given stay.

    Example: osgt bounds --query query.toml --epsilon 0.1 --save bounded.toml

    Exit codes: 0 the suggestion is out; 2 refused, and nothing was charged; 3 nothing came out, and the budget was
    charged or may have been.
    """
    with clear_errors():
        if epsilon is None:
            raise ValueError("--epsilon must be given: the budget of the suggestion, a tenth of the release's or less")
        file = asked.query_file(query, reads=True, budget={"epsilon": release_epsilon, "delta": release_delta})
        targets = _targets(file, query, save, plot, overwrite=overwrite)
        for target in targets.values():
            target.checked()
        if plot is not None:
            check_matplotlib()
        found = _suggested(file, targets, epsilon, delta, aim)
        warn(found.recommendation.cautions)
        if as_json:
            typer.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        else:
            print_suggestion(found)
            for what, path in (("Query file", save), ("Picture", plot)):
                if path is not None:
                    typer.echo(f"{what}: {path}")


def _targets(
    file: "QueryFile", query: Path | None, save: Path | None, plot: Path | None, *, overwrite: bool
) -> dict[str, Target]:
    """The files that are written; --overwrite replaces no data, only a query file."""
    read = [file.data.source, file.data.ledger, file.groups.public_keys]
    apart = [text for text in read if isinstance(text, str)]
    if query is not None and plot is not None:
        apart.append(glob.escape(os.fspath(query)))
    wanted = {"save": (save, (".toml",)), "plot": (plot, PICTURES)}
    return {
        name: command_target(f"--{name}", path, overwrite=overwrite, suffixes=suffixes, apart=apart)
        for name, (path, suffixes) in wanted.items()
        if path is not None
    }


def _suggested(file: "QueryFile", targets: dict[str, Target], epsilon: float, delta: float, aim: str) -> "Suggestion":
    budget = file.budget
    from osgt.api.query_file import build_single_query  # noqa: PLC0415 - the extra "tables"

    query: Any = build_single_query(file, ledger_of(file))
    show = None
    if query.dataset.ledger is not None:
        show = shlex.join(["osgt", "ledger", "show", query.dataset.ledger.name, str(query.dataset.dataset)])
    with closing(query.dataset), written_together(targets) as places:
        with outcome.charging(show), progress(query, f"histograms over {query.dataset.privacy_unit}"):
            found: Suggestion = query.suggest_bounds(
                epsilon,
                delta,
                release_epsilon=budget.epsilon,
                release_delta=budget.delta,
                aim=aim,
                confidence=file.output.confidence,
            )
        if "save" in places:
            places["save"].write_text(_text(file, found, Path(targets["save"].path).parent), encoding="utf-8")
        if "plot" in places:
            figure = new_figure(7, 4.2)
            found.plot(figure.subplots())
            figure.savefig(places["plot"], format=Path(targets["plot"].path).suffix[1:].lower())
    return found


def _text(file: "QueryFile", found: "Suggestion", folder: Path) -> str:
    from osgt.query.file.text import query_file_text  # noqa: PLC0415 - the extra "tables"

    return query_file_text(found.filled(file.given()), folder)


def print_suggestion(found: "Suggestion") -> None:
    """The recommendation, the tables, how sure it is and the statement."""
    from osgt.api.suggestion.words import groups_table, recommended, rows_table, values_in_words  # noqa: PLC0415 - the extra "tables"

    console = terminal()
    console.print(recommended(found), highlight=False, soft_wrap=True, style="bold", markup=False)
    for outcomes, table in ((found.choices, groups_table), (found.row_choices, rows_table)):
        if len(outcomes) < 2:
            continue
        head, rows = table(found)
        shown = Table(title=None)
        for name in head:
            shown.add_column(name, justify="right", overflow="fold")
        for row, each in zip(rows, outcomes, strict=True):
            shown.add_row(*row, style="bold" if each.recommended else None)
        console.print(shown)
    for line in (*values_in_words(found), found.sure, found.unseen, *found.notes, found.statement):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


@takes_a_table
def preview(
    asked: Asked,
    query: QueryPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Show what bounds cut off: those that are given, and others. NOT PRIVATE: for whoever may see the data.

    Example: osgt preview --query query.toml
    """
    with clear_errors():
        from osgt.api.query_file import build_query  # noqa: PLC0415 - the extra "tables"

        found = build_query(asked.query_file(query, reads=True))
        with closing(found.dataset), progress(found, "counting what the bounds cut off"):
            shown = found.preview()
        if as_json:
            typer.echo(json.dumps(shown.to_dict(), indent=2, ensure_ascii=False))
        else:
            _print(shown)


def _print(shown: "Preview | PublicationPreview") -> None:
    from osgt.api.preview import WARNING  # noqa: PLC0415 - the extra "tables"

    console = terminal()
    console.print(WARNING, style="bold")
    for name, each in shown.tables.items():
        if name:
            console.print(f"{escape(printable(name))}:", style="bold")
        _print_one(console, each)


def _print_one(console: Console, shown: "Preview") -> None:
    for line in shown.lines():
        say(console, line)
    for head, rows in shown.curves():
        table = Table(title=None)
        for name in head:
            table.add_column(escape(printable(name)), justify="right", overflow="fold")
        for row in rows:
            table.add_row(*row, style="bold" if row[0].endswith("*") else None)
        console.print(table)
