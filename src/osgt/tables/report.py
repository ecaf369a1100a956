"""The report: one page to hand to a director or to put on a web site. It needs nothing else and runs no script.

In short what the numbers are, how exact they are and what is promised; then pictures, the table, and folds with all
the rest.
"""

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from osgt.pages.numbers import counted, day, listed
from osgt.pages.pictures import Dots, Lines
from osgt.pages.rendering import render
from osgt.tables.about import About, default_title
from osgt.tables.report_details import compared, guidelines, names_of_noises, parameters
from osgt.tables.report_downloads import Downloads, downloads
from osgt.tables.report_pictures import pictures
from osgt.tables.report_summary import left_out, promise, shows
from osgt.tables.report_table import ShownTable, table_of
from osgt.tables.statement import Statement

if TYPE_CHECKING:
    from osgt.tables.release import Release

#: Pictures that stand open; those of further columns are in a fold.
_OPEN = 3


@dataclass(frozen=True)
class Section:
    """What a page shows of one table."""

    name: str
    title: str
    pictures: list[Dots | Lines]
    more_pictures: list[Dots | Lines]
    table: ShownTable
    whole_table: str
    downloads: Downloads
    cuts: tuple[str, ...]
    parameters: list[tuple[str, str]]

    @classmethod
    def of(cls, release: "Release", about: About, title: str, beside: str | None, name: str = "table") -> "Section":
        """The section of a table under a title. Files that can be saved have the name of the table."""
        drawn = pictures(release, about)
        offered = downloads(release, about, beside, name)
        return cls(
            name=name,
            title=title,
            pictures=drawn[:_OPEN],
            more_pictures=drawn[_OPEN:],
            table=table_of(release, about),
            whole_table=_whole_table(release, bool(offered.tables or beside)),
            downloads=offered,
            cuts=release.plan.cuts,
            parameters=parameters(release, about),
        )


def page(release: "Release", about: About, beside: str | None = None) -> str:
    """The page as text. `beside` is the name of the file with the table, if it lies in the same folder."""
    title = about.title or default_title(release.query, about)
    return render(
        "report.html",
        title=title,
        subtitle=about.subtitle,
        facts=facts(release.statement, about),
        warnings=release.plan.warnings,
        shows=shows(release, about),
        left_out=left_out(release, about),
        promise=promise(release, about),
        section=Section.of(release, about, title, beside),
        statement=str(release.statement),
        compared={
            "names": names_of_noises(release.plan),
            "tables": [(None, compared(release.plan, about))],
            "gains": release.plan.gains_in_words(),
        },
        guidelines=guidelines(release.plan.choice_in_words() if release.plan.selector else None),
        software=release.statement.to_dict()["software"],
    )


def facts(statement: Statement, about: About) -> list[tuple[str, str]]:
    """Who published what and when; what nobody has told is left out."""
    made = datetime.datetime.fromisoformat(statement.to_dict()["date"])
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
