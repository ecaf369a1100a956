"""The report of several tables: one page, one promise, and a section for each table."""

from typing import TYPE_CHECKING

from osgt.pages.numbers import counted
from osgt.pages.rendering import render
from osgt.tables.about import About, default_title
from osgt.tables.report import Section, facts
from osgt.tables.report_details import compared, guidelines, names_of_noises
from osgt.tables.report_downloads import statement_file
from osgt.tables.report_summary import (
    NOTHING,
    about_intervals,
    groups_in,
    left_out,
    measured_in_words,
    promise,
    shown_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.release import Release


def page(release: "PublicationRelease", about: About, beside: "Mapping[str, str]") -> str:
    """The page as text. `beside` has the names of the files of tables that lie in the same folder."""
    titles = {
        name: about.labels.get(name) or default_title(table.query, about) for name, table in release.tables.items()
    }
    plan = release.plan
    choices = [table.choice_in_words() for table in plan.tables.values() if table.selector is not None]
    return render(
        "publication.html",
        title=about.title or f"{len(release)} tables",
        subtitle=about.subtitle,
        facts=facts(release.statement, about),
        warnings=plan.warnings,
        noise=[
            f"This page has {counted(len(release), 'table')}.",
            "Random noise was added to every number; the list has the limits that it is usually within.",
            *about_intervals(plan.confidence),
        ],
        exact={name: _exact(table, about, own=name in about.labels) for name, table in release.tables.items()},
        lost=_lost(release, about),
        left_out={name: _left_out(table, about) for name, table in release.tables.items()},
        promise=promise(release, about),
        sections=[
            Section.of(table, about, titles[name], beside.get(name), name) for name, table in release.tables.items()
        ],
        statement=str(release.statement),
        statement_file=statement_file(release.statement),
        cuts={name: [f"{cut}." for cut in table.cuts] for name, table in plan.tables.items()},
        compared={
            "names": names_of_noises(plan),
            "tables": [(titles[name], compared(table, about)) for name, table in plan.tables.items()],
            "gains": plan.gains_in_words(),
        },
        guidelines=guidelines(choices[0] if choices else None),
        software=release.statement.to_dict()["software"],
    )


def _exact(table: "Release", about: About, *, own: bool) -> list[str]:
    """How exact a table is; what it shows as well, if its title is one of its own."""
    what, exact = shown_in(table, about)
    return [f"{what if own else groups_in(table)}; {exact}."]


def _lost(release: "PublicationRelease", about: About) -> str:
    if any(told is not None for told in release.left_out.values()):
        return measured_in_words(about.label(release.query.dataset.privacy_unit))
    return "How much the limits left out was not measured. They work like this:"


def _left_out(table: "Release", about: About) -> list[str]:
    told = left_out(table, about)
    return told[1:] if told[0] != NOTHING else told
