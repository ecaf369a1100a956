"""`osgt bounds`: which bounds a table should have, from private histograms. Charged like a release."""

import glob
import json
import os
import shlex
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from osgt.cli import outcome
from osgt.cli.pictures import PICTURES, check_matplotlib
from osgt.cli.progress import progress
from osgt.cli.release import ledger_of
from osgt.cli.release_options import BUDGET, OUTPUT
from osgt.cli.shared import QueryPath, clear_errors, command_target, terminal, warn
from osgt.cli.table_options import Asked, takes_a_table
from osgt.files import Target, written_together
from osgt.pages.plots import new_figure

if TYPE_CHECKING:
    from osgt.tables.bounds.suggestion import Suggestion
    from osgt.tables.query_file import QueryFile


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
            help="δ that the release will have: that of the query file, or 10 times --delta.",
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
        file = asked.query_file(query, budget={"epsilon": release_epsilon, "delta": release_delta})
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
    query: Any = file.query(ledger_of(file))
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
    from osgt.tables.file_text import query_file_text  # noqa: PLC0415 - the extra "tables"

    return query_file_text(found.filled(file.given()), folder)


def print_suggestion(found: "Suggestion") -> None:
    """The recommendation, the tables, how sure it is and the statement."""
    from osgt.tables.bounds.words import groups_table, recommended, rows_table  # noqa: PLC0415 - the extra "tables"

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
    for name, share in found.values_beyond.items():
        low, high = found.bounds[name]
        words = f"About {share} of the values of {name} are outside {low:,.10g} to {high:,.10g}."
        console.print(words, highlight=False, soft_wrap=True, markup=False)
    for line in (found.sure, found.statement):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
