"""`osgt sql` and `osgt describe`: a question in SQL, and all columns on one page, published as by `osgt release`."""

import json
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli.options import BUDGET, Asked, takes_data
from osgt.cli.release import AsJson, DryRun, OverwriteFiles, SaveQuery, release_file
from osgt.cli.shared import clear_errors, print_plan, say, terminal

if TYPE_CHECKING:
    from osgt.query.file.model import QueryFile


@takes_data
def sql(
    asked: Asked,
    select: Annotated[str, typer.Argument(metavar="SELECT", help="The question: a SELECT with aggregates.")],
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN:LOW:HIGH",
            help="The least and the largest value that counts, of a column or of the result with this name after AS. "
            "Quantiles need it; otherwise chosen privately. May be repeated.",
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Show the plan and the SQL that would run; read no data and charge nothing.",
            rich_help_panel=BUDGET,
        ),
    ] = False,
    dry: DryRun = False,
    save_query: SaveQuery = None,
    overwrite: OverwriteFiles = False,
    as_json: AsJson = False,
) -> None:
    """Publish the private answer to a question in SQL: COUNT, SUM, AVG, MEDIAN, … with WHERE and GROUP BY.

    Example: osgt sql data.toml "SELECT department, COUNT(*), AVG(cost) FROM visits WHERE emergency GROUP BY department"

    SOURCE is a data file, which says whom the rows are about, or the data with the options of `osgt release`. What
    cannot be answered privately is refused with the way to ask it. Exit codes are those of `osgt release`.
    """
    with clear_errors():
        file = asked.query_file(None, reads=not (dry or plan))
        from osgt.api.query_file import add_select  # noqa: PLC0415 - the extra "tables"

        file = add_select(file, select, dict(_read_bounds(text) for text in bounds or []))
        if plan:
            _show_plan(file)
            return
        release_file(file, None, dry=dry, save_query=save_query, overwrite=overwrite, as_json=as_json)


def _read_bounds(text: str) -> tuple[str, tuple[float, float]]:
    column, *ends = text.rsplit(":", 2)
    try:
        low, high = (float(end) if "." in end or "e" in end.lower() else int(end) for end in ends)
    except ValueError:
        raise ValueError(f"--bounds must be COLUMN:LOW:HIGH, as in cost:0:5000, got {text!r}") from None
    return column, (low, high)


def _show_plan(file: "QueryFile") -> None:
    from osgt.api.query_file import build_query  # noqa: PLC0415 - the extra "tables"

    query = build_query(file)
    with closing(query.dataset):
        made = query.plan(**file.budget.given(), **file.plan_options())
        text = query.sql(made)
    print_plan(terminal(), made)
    say(terminal(), text)


@takes_data
def describe(
    asked: Asked,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Only this column. May be repeated; all columns if left out."),
    ] = None,
    dry: DryRun = False,
    save_query: SaveQuery = None,
    overwrite: OverwriteFiles = False,
    as_json: AsJson = False,
) -> None:
    """Describe all columns on one page: values, missing ones and quartiles, private and for one budget.

    Example: osgt describe data.toml --epsilon 1

    Columns of numbers need a plausible range, which the data file says. Exit codes are those of `osgt release`.
    """
    with clear_errors():
        file = asked.query_file(None, reads=not dry)
        from osgt.api.query_file import add_description  # noqa: PLC0415 - the extra "tables"

        file = add_description(file, column)
        release_file(
            file, None, dry=dry, save_query=save_query, overwrite=overwrite, as_json=as_json, text=_description
        )


def _description(made: Any, file: "QueryFile", about: object, *, as_json: bool) -> str:
    """Compose the text that is printed of a description."""
    from osgt.api.post_processing import describe_columns  # noqa: PLC0415 - the extra "tables"

    found = describe_columns(made)
    if not as_json:
        return f"{found}\n"
    plain = {"description": found.table.to_pylist(), **made.statement.to_dict()}
    return json.dumps(plain, indent=2, default=str, ensure_ascii=False) + "\n"
