"""`osgt sql`: a private table from a question in SQL. It is published as by `osgt release`."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

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
