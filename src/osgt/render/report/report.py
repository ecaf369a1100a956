"""The report: one page to hand to a director or to put on a web site. It needs nothing else and runs no script.

In short what the numbers are, how exact they are and what is promised; then pictures, the table, and folds with all
the rest. Several tables have one page and one promise, and a section each.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from osgt.facts import wording
from osgt.facts.plan_wording import choice, gains
from osgt.facts.released import Released, ReleasedTable
from osgt.facts.statement import Statement, hold_truth
from osgt.limits.left_out import NOTHING
from osgt.query.about import About, default_title
from osgt.render.pictures import Dots, Lines
from osgt.render.rendering import render
from osgt.render.report.details import (
    Downloads,
    compared,
    downloads,
    guidelines,
    names_of_noises,
    parameters,
    statement_file,
)
from osgt.render.report.summary import (
    data_warnings,
    groups_in,
    left_out,
    mostly_noise,
    promise,
    shown_in,
    shows,
    warnings_in,
)
from osgt.render.report.table import ShownTable, pictures, table_of
from osgt.support.numbers import counted, day, listed

#: Pictures that stand open; those of further columns are in a fold.
_OPEN = 3


@dataclass(frozen=True)
class Section:
    """The section of a page about one table."""

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
    def of(cls, release: ReleasedTable, about: About, title: str, beside: str | None, name: str = "table") -> "Section":
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
            cuts=release.plan.limit_notes,
            parameters=parameters(release, about),
        )


def page(release: ReleasedTable, about: About, beside: str | None = None) -> str:
    """The page as text. `beside` is the name of the file with the table, if it lies in the same folder."""
    title = about.title or default_title(release.query, about)
    return render(
        "report.html",
        **_common(release, about, {"": None}),
        title=title,
        warnings=warnings_in(release, about),
        shows=shows(release, about),
        left_out=left_out(release, about),
        section=Section.of(release, about, title, beside),
    )


def _common(release: Released, about: About, titles: Mapping[str, str | None]) -> dict[str, Any]:
    """The parts of a page that are the same for one table and for several."""
    plan, values = release.plan, release.statement.to_dict()
    choices = [chosen for table in plan.tables.values() if (chosen := choice(table)) is not None]
    return {
        "subtitle": about.subtitle,
        "facts": facts(release.statement, about),
        "promise": promise(release, about),
        "statement": str(release.statement),
        "compared": {
            "names": names_of_noises(plan),
            "tables": [(titles[name], compared(table, about)) for name, table in plan.tables.items()],
            "gains": gains(plan),
        },
        "guidelines": guidelines(choices[0] if choices else None),
        "software": values["software"],
    }


def facts(statement: Statement, about: About) -> list[tuple[str, str]]:
    """List the publisher, the date and other facts; what nobody has told is left out."""
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


def _whole_table(release: ReleasedTable, offered: bool) -> str:
    """Tell where the rest of a large table is."""
    if offered:
        return "The whole table is in the files below."
    columns = listed([name for aggregate in release.plan.aggregates for name in aggregate.names])
    return f"The whole table ({counted(len(release), 'row')}: {columns}) was too large for this page."


def publication_page(release: Released, about: About, beside: Mapping[str, str]) -> str:
    """The page as text. `beside` has the names of the files of tables that lie in the same folder."""
    titles = {
        name: about.labels.get(name) or default_title(table.query, about) for name, table in release.tables.items()
    }
    warned = [(titles[name], text) for name, table in release.tables.items() for text in data_warnings(table, about)]
    return render(
        "publication.html",
        **_common(release, about, titles),
        title=about.title or f"{len(release.tables)} tables",
        warnings=[*release.plan.warnings, *(f"{title}: {text}" for title, text in warned)],
        noise=[
            f"This page has {counted(len(release.tables), 'table')}.",
            "Random noise was added to every number; the list has the limits that it is usually within.",
            *wording.intervals(
                release.plan.confidence,
                hold_truth=hold_truth(release.tables.values(), release.statement.values["intervals"]),
            ),
        ],
        exact={name: _exact(table, about, own=name in about.labels) for name, table in release.tables.items()},
        lost=_lost(release, about),
        left_out={name: _left_out(table, about) for name, table in release.tables.items()},
        sections=[
            Section.of(table, about, titles[name], beside.get(name), name) for name, table in release.tables.items()
        ],
        statement_file=statement_file(release.statement),
        cuts={name: [f"{cut}." for cut in table.limit_notes] for name, table in release.plan.tables.items()},
    )


def _exact(table: ReleasedTable, about: About, *, own: bool) -> list[str]:
    """Describe how exact a table is; what it shows as well, if its title is one of its own."""
    what, exact = shown_in(table, about)
    return [f"{what if own else groups_in(table)}; {exact}.", *mostly_noise(table, about)]


def _lost(release: Released, about: About) -> str:
    if any(told is not None for told in (table.left_out for table in release.tables.values())):
        return wording.measured_limits(about.label(release.dataset.privacy_unit))
    return wording.NOT_MEASURED


def _left_out(table: ReleasedTable, about: About) -> list[str]:
    told = left_out(table, about)
    return told[1:] if told[0] != NOTHING else told
