"""The report: one page to hand to a director or to put on a web site. It needs nothing else and runs no script.

In short what the numbers are, how exact they are and what is promised; then pictures, the table, and folds with all
the rest.
"""

import datetime
from typing import TYPE_CHECKING

from osgt.pages.numbers import counted, day, listed
from osgt.pages.rendering import render
from osgt.tables.about import About, default_title
from osgt.tables.report_details import compared, guidelines, parameters
from osgt.tables.report_downloads import downloads
from osgt.tables.report_pictures import pictures
from osgt.tables.report_summary import left_out, promise, shows
from osgt.tables.report_table import table_of

if TYPE_CHECKING:
    from osgt.tables.release import Release

#: Pictures that stand open; those of further columns are in a fold.
_OPEN = 3


def page(release: "Release", about: About, beside: str | None = None) -> str:
    """The page as text. `beside` is the name of the file with the table, if it lies in the same folder."""
    query = release.query
    values = release.statement.to_dict()
    drawn = pictures(release, about)
    offered = downloads(release, about, beside)
    return render(
        "report.html",
        title=about.title or default_title(query, about),
        subtitle=about.subtitle,
        facts=_facts(release, about),
        warnings=release.plan.warnings,
        shows=shows(release, about),
        left_out=left_out(release, about),
        promise=promise(release, about),
        pictures=drawn[:_OPEN],
        more_pictures=drawn[_OPEN:],
        table=table_of(release, about),
        downloads=offered,
        whole_table=_whole_table(release, bool(offered.tables or beside)),
        statement=str(release.statement),
        cuts=release.plan.cuts,
        parameters=parameters(release, about),
        compared=compared(release.plan, about),
        guidelines=guidelines(release),
        software=values["software"],
    )


def _facts(release: "Release", about: About) -> list[tuple[str, str]]:
    """Who published what and when; what nobody has told is left out."""
    made = datetime.datetime.fromisoformat(release.statement.to_dict()["date"])
    told = [
        ("Period", about.period),
        ("Publisher", about.publisher),
        ("Contact", about.contact),
        ("Source", about.source),
        ("Licence", about.licence),
        ("Made on", day(made)),
    ]
    return [(name, text) for name, text in told if text]


def _whole_table(release: "Release", offered: bool) -> str:
    """Where the rest of a large table is."""
    if offered:
        return "The whole table is in the files below."
    columns = listed([name for aggregate in release.plan.aggregates for name in aggregate.names])
    return f"The whole table ({counted(len(release), 'row')}: {columns}) was too large for this page."
