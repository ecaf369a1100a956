"""What `osgt release` prints: the first rows of the table, the statement, and where the files are."""

import json
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osgt.cli.shared import say, terminal
from osgt.pages.numbers import with_interval
from osgt.shown_text import printable

if TYPE_CHECKING:
    from osgt.tables.about import About
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.query_file import QueryFile
    from osgt.tables.release import Release

#: Most rows that are printed.
_PRINTED = 20


def release_text(made: "Release | PublicationRelease", file: "QueryFile", *, as_json: bool) -> str:
    """What is printed of a release."""
    if as_json:
        rows = {name: table.rows(len(table)) for name, table in made.tables.items()}
        plain = {"table": rows.get("", rows), **made.statement.to_dict()}
        return json.dumps(plain, indent=2, default=str, ensure_ascii=False) + "\n"
    console = terminal()
    with console.capture() as captured:
        _show(console, made, file)
    return captured.get()


def _show(console: Console, made: "Release | PublicationRelease", file: "QueryFile") -> None:
    from osgt.tables.csvw import SUFFIX  # noqa: PLC0415 - the extra "tables"
    from osgt.tables.output import has_escaped_text  # noqa: PLC0415 - the extra "tables"

    output, about = file.output, made.query.about(file.report.texts())
    for name, table in made.tables.items():
        if name:
            say(console, f"{name}:")
        _show_table(console, table, about)
    say(console, made.statement)
    for what, path in (("Table" if "" in made.tables else "Tables", output.out), ("Report", output.report)):
        if path is not None:
            say(console, f"{what}: {path}")
    if not (output.out or "").lower().endswith(".csv"):
        return
    say(console, f"Columns and the statement, for programs: {output.out}{SUFFIX}")
    if any(has_escaped_text(each.table) for each in made.tables.values()):
        console.print(
            "In the table, text that a spreadsheet could take for a formula begins with an apostrophe (').",
            highlight=False,
            soft_wrap=True,
        )


def _show_table(console: Console, made: "Release", about: "About") -> None:
    console.print(_table(made, about))
    if len(made) == 0:
        console.print(
            f"No group reached the threshold of {made.plan.threshold:,} {made.plan.chosen_by}: use coarser groups, "
            "public keys or a larger ε.",
            highlight=False,
            soft_wrap=True,
        )
    if len(made) > _PRINTED:
        console.print(f"… and {len(made) - _PRINTED:,} more rows.", highlight=False)


def _table(made: "Release", about: "About") -> Table:
    """The first rows for the terminal, with no more digits than the noise leaves."""
    keys = made.query.groups.by
    names = [name for aggregate in made.plan.aggregates for name in aggregate.names]
    levels = made.query.groups.levels
    what = "rows with totals" if levels else "groups"
    shown = Table(
        title=f"{len(made):,} {what}, {100 * made.plan.confidence:.10g} % noise intervals", title_justify="left"
    )
    for key in keys:
        shown.add_column(escape(printable(about.labels.get(key, key))), overflow="fold")
    for name in names:
        shown.add_column(
            escape(printable(about.labels.get(name, name))), justify="right", overflow="fold"
        )  # a number that is cut off is another number
    for row in made.rows(_PRINTED):
        cells = [escape(printable(about.key_words(row, key, missing="(null)"))) for key in keys]
        for name in names:
            number = with_interval(*(row[name + suffix] for suffix in ("", "_low", "_high")))
            cells.append(f"[bold]{number.value}[/]" + (f" [dim]({number.interval})[/]" if number.interval else ""))
        shown.add_row(*cells)
    return shown
