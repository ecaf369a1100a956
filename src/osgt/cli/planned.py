"""What `osgt plan` and `osgt release --dry-run` print: the noise intervals of each column, and the plan in words."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osgt.cli.shared import say
from osgt.shown_text import printable

if TYPE_CHECKING:
    from osgt.tables.plan import Plan
    from osgt.tables.publication_plan import PublicationPlan


def print_plan(console: Console, found: "Plan | PublicationPlan") -> None:
    """The plan of a table, or of several."""
    from osgt.tables.plan import Plan  # noqa: PLC0415 - the extra "tables"

    tables = {"": found} if isinstance(found, Plan) else found.tables
    first = ["column"] if isinstance(found, Plan) else ["table", "column"]
    table = Table(title=f"{100 * found.confidence:.10g} % noise intervals", title_justify="left")
    for name in (*first, "used", *found.gains):
        table.add_column(name, justify="left" if name in first else "right")
    for title, one in tables.items():
        for i, column in enumerate(one.columns):
            others = [columns[i].width_in_words() for columns in one.alternatives.values()]
            named = [escape(printable(text)) for text in (title if i == 0 else "", column.name)]
            table.add_row(*named[-len(first) :], column.width_in_words(), *others)
        for level, columns in one.totals.items():
            for column in columns:
                named = ["", escape(printable(f"{column.name} {level.words}"))]
                table.add_row(*named[-len(first) :], column.width_in_words())
    console.print(table)
    say(console, found)
