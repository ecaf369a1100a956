"""The report: one page to hand to a director or to put on a web site. It needs nothing else and runs no script.

Pictures and the table come first; then in short how accurate the numbers are and what is promised, and folds with all
the rest: files to save, every parameter, the noise compared, and guidelines. Several tables have one page and one
promise, and a section each.
"""

import datetime
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import pyarrow as pa

from osgt.facts import wording
from osgt.facts.plan_wording import (
    accuracy,
    aggregate_in_words,
    choice,
    gains,
    published_groups,
    publishing_facts,
    totals,
    width,
)
from osgt.facts.statement import Released, ReleasedTable, Statement
from osgt.noise import written
from osgt.plan.plan import AnyPlan, Plan
from osgt.query.about import About, default_title
from osgt.render.csvw import has_escaped_text, write_csv
from osgt.render.page import Dots, Lines, data_uri, render
from osgt.render.pictures import pictures
from osgt.render.published import write_parquet
from osgt.render.summary import points, warnings_in
from osgt.render.table import ShownTable, column_names, table_of
from osgt.support.text import counted, day, factor, listed, percent

#: Pictures that stand open; those of further columns are in a fold.
_OPEN = 3


@dataclass(frozen=True)
class Section:
    """The section of a page about one table."""

    title: str
    pictures: list[Dots | Lines]
    more_pictures: list[Dots | Lines]
    table: ShownTable
    whole_table: str
    downloads: "Downloads"
    cuts: tuple[str, ...]
    parameters: list[tuple[str, str]]

    @classmethod
    def of(cls, release: ReleasedTable, about: About, title: str, beside: str | None, name: str) -> "Section":
        """The section of a table under a title. Files that can be saved have the name of the table."""
        drawn = pictures(release, about)
        offered = downloads(release, about, beside, name or "table")
        return cls(
            title=title,
            pictures=drawn[:_OPEN],
            more_pictures=drawn[_OPEN:],
            table=table_of(release, about),
            whole_table=_whole_table(release, bool(offered.tables or beside)),
            downloads=offered,
            cuts=release.plan.limit_notes,
            parameters=parameters(release, about),
        )


def page(release: Released, about: About, beside: Mapping[str, str]) -> str:
    """The page as text. `beside` has the names of the files of tables that lie in the same folder."""
    plan, tables, values = release.plan, release.tables, release.statement.to_dict()
    titles = {name: about.labels.get(name) or default_title(table.query, about) for name, table in tables.items()}
    if "" in tables:
        titles[""] = about.title or titles[""]
    choices = [text for table in plan.tables.values() for text in choice(table)]
    return render(
        "report.html",
        title=about.title or titles.get("") or f"{len(tables)} tables",
        subtitle=about.subtitle,
        facts=[*publishing_facts(about), ("Made on", day(datetime.datetime.fromisoformat(values["date"])))],
        warnings=warnings_in(release, about, titles),
        points=points(release, about, titles),
        several="" not in tables,
        sections=[Section.of(table, about, titles[name], beside.get(name), name) for name, table in tables.items()],
        statement_file=statement_file(release.statement),
        checker_file=checker_file(),
        statement=str(release.statement),
        sql=next(iter(tables.values())).sql,
        compared={
            "names": names_of_noises(plan),
            "tables": [(name and titles[name], compare_noises(table, about)) for name, table in plan.tables.items()],
            "gains": gains(plan),
        },
        guidelines=guidelines(choices[0] if choices else None),
        software=values["software"],
    )


def _whole_table(release: ReleasedTable, offered: bool) -> str:
    """Tell where the rest of a large table is."""
    if offered:
        return "The whole table is in the files below."
    columns = listed(column_names(release))
    return f"The whole table ({counted(len(release), 'row')}: {columns}) was too large for this page."


def parameters(release: ReleasedTable, about: About) -> list[tuple[str, str]]:
    """Every parameter in words."""
    return [
        *_promise(release, about),
        *_contribution(release, about),
        *_noise_of_columns(release.plan, about),
        *_circumstances(release),
    ]


def _promise(release: ReleasedTable, about: About) -> list[tuple[str, str]]:
    """The budget, and to whom it is promised."""
    plan, data = release.plan, release.query.dataset
    return [
        ("Privacy loss ε, in total", f"{plan.epsilon:.15g}; a factor of at most {factor(plan.epsilon)}"),
        ("Probability δ, in total", f"{plan.delta:.15g}"),
        ("Who is protected", f"each {data.unit.noun} ({data.unit.in_words})"),
        ("What is compared", release.query.groups.neighbouring(plan.neighbours)),
    ]


def _contribution(release: ReleasedTable, about: About) -> list[tuple[str, str]]:
    """The groups, and how much of one unit counts in them."""
    plan, groups = release.plan, release.query.groups
    keys = listed([f"{about.label(key)} (column {key})" for key in groups.by])
    published = " ".join([*published_groups(plan), *choice(plan)])
    rows = [
        ("Groups by", keys or "none: all rows together"),
        ("Which groups are published", published or "all rows are one group"),
        *(("Totals", text) for text in totals(plan)),
    ]
    rows += [(wording.LIMITS[name], f"{limit:,}") for name, limit in groups.limits.items()]
    plain = release.query.dataset.to_dict()
    rows += [(f"Column {name}, of each row", text) for name, text in plain["derive"].items()]
    return rows + [("Only rows with", text) for text in plain["where"]]


def _noise_of_columns(plan: Plan, about: About) -> list[tuple[str, str]]:
    """The columns, their noise, and the numbers that were measured for them."""
    rows = [(f"Column {listed(aggregate.names)}", aggregate_in_words(aggregate)) for aggregate in plan.aggregates]
    rows += [(f"Noise of {about.label(column.name)}", accuracy(column)) for column in plan.columns]
    for level, columns in plan.totals.items():
        rows += [(f"Noise of {about.label(column.name)} {level.words}", accuracy(column)) for column in columns]
    rows += [(f"Measured: {measure.words}", wording.noise(written(law))) for measure, law in plan.laws.items()]
    return rows + [
        (f"Measured, for what was left out: {name}", wording.noise(written(law)))
        for name, (law, _) in plan.noise.extra_noise.items()
    ]


def _circumstances(release: ReleasedTable) -> list[tuple[str, str]]:
    values = release.statement.to_dict()
    return [
        ("Made as small as possible", values["objective"].replace("_", " ")),
        ("Probability of each interval", f"at least {percent(release.plan.confidence)}"),
        ("Negative numbers", "shown as 0" if values["nonnegative"] else "shown as they are"),
        *([("Quality marks", wording.thresholds_of_marks(*values["marks"].values()))] if "marks" in values else []),
        ("Ledger", "charged" if values["ledger"] else "none"),
        ("Groups in the table", f"{len(release.without_totals()):,}"),
        ("Time", values["date"].replace("T", " ").replace("+00:00", " UTC")),
        ("Software", values["software"]),
    ]


def names_of_noises(plan: AnyPlan) -> list[str]:
    """The noises that a comparison has beside the one that is used."""
    return [name.capitalize() for name in plan.gains]


def compare_noises(plan: Plan, about: About) -> list[tuple[str, list[str]]]:
    """The columns with the noise used and the two ends of the family beside it."""
    alternatives = list(plan.alternatives.values())
    return [
        (about.heading(column.name), [width(used) for used in (column, *(columns[i] for columns in alternatives))])
        for i, column in enumerate(plan.columns)
    ]


def guidelines(choice: str | None) -> list[tuple[str, str]]:
    """The questions of NIST SP 800-226 and where a page answers them; what it cannot answer is said as well.

    `choice` tells what the choice of groups has to do with δ; None if groups are not chosen.
    """
    chosen = choice or "Groups were not chosen by their size."
    return [
        ("Privacy parameters ε and δ", f"“In short”, third point; parameters. Stated in total. {chosen}"),
        ("Unit of privacy", "“In short”, third point; parameters: who is protected, and what is compared."),
        ("Several releases", "“In short”, third point: whether a ledger adds up all releases."),
        ("Algorithms: counts, sums and means", "Parameters: what was asked for, and the noise of each column."),
        ("Bounds on what one contributes", "“In short”, second point; parameters: groups, rows and limits of a value."),
        ("Utility and accuracy", "“In short”, first point; intervals in pictures and table; the noise compared."),
        ("Bias", "“In short”, second point; how it was made: what limits, thresholds and zeros for negatives do."),
        ("Implementation", "How it was made: whole numbers, an exact sampler, randomness of the operating system."),
        ("Trust and threat model", "Central model: the publisher holds the data, and only this table is published."),
        ("Security and collection of the data", "Not part of this page: please ask the publisher."),
    ]


#: Most rows and bytes of a file inside the page: larger ones would make it slow to open.
_ROWS, _BYTES = 50_000, 2_000_000

_CSV, _PARQUET, _JSON = "text/csv;charset=utf-8", "application/vnd.apache.parquet", "application/json"
#: A file that browsers save and never open in place.
_ANY_FILE = "application/octet-stream"


@dataclass(frozen=True)
class Download:
    """A file that a link in the page saves: its name, what it is and its content as a data URI."""

    name: str
    title: str
    address: str


@dataclass(frozen=True)
class Downloads:
    """The files that can be saved from a page, and the name of the file that lies beside it."""

    tables: tuple[Download, ...]
    statement: Download
    beside: str | None
    #: The sentence on text that is no formula, where there is such.
    escaped: str | None


def downloads(release: ReleasedTable, about: About, beside: str | None, name: str = "table") -> Downloads:
    """Collect the files that a page offers; those of the table have a name."""
    result = []
    if len(release) <= _ROWS:
        parquet, csv = io.BytesIO(), io.BytesIO()
        write_parquet(release.table, release.statement, about, parquet)
        try:
            write_csv(release.table, csv)
            result.append(_download(f"{name}.csv", "CSV, for spreadsheets", _CSV, csv))
        except pa.ArrowException:  # CSV cannot hold every type of a key
            pass
        result.append(_download(f"{name}.parquet", "Parquet, for programs", _PARQUET, parquet))
    tables = tuple(file for file in result if file is not None)
    escaped = any(file.name.endswith(".csv") for file in tables) and has_escaped_text(release.table)
    return Downloads(tables, statement_file(release.statement), beside, wording.ESCAPED if escaped else None)


def statement_file(statement: Statement) -> Download:
    """The statement for programs."""
    words = json.dumps(statement.to_dict(), indent=2, ensure_ascii=False)
    return Download("statement.json", "JSON", data_uri(_JSON, words.encode()))


@cache
def checker_file() -> Download:
    """The page that recomputes the promise of a file, in any browser."""
    return Download("check.html", "HTML", data_uri(_ANY_FILE, (files("osgt") / "check.html").read_bytes()))


def _download(name: str, title: str, kind: str, file: io.BytesIO) -> Download | None:
    content = file.getvalue()
    if len(content) > _BYTES:
        return None
    size = f"{len(content) / 1000:,.0f} kB" if len(content) >= 1000 else f"{len(content):,} bytes"
    return Download(name, f"{title} ({size})", data_uri(kind, content))
