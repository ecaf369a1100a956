"""The views of one release: every number that a view shows is the same in each view that shows it."""

import html
import json
import re
from dataclasses import dataclass

import openpyxl
import pyarrow as pa
import pytest

from osgt import Dataset, Ledger, Publication
from osgt.query.about import About
from osgt.render.csvw import metadata
from osgt.render.excel import write_excel
from osgt.render.registry import registry_yaml
from osgt.render.report import page
from osgt.render.summary import brief
from osgt.support.text import factor, half_width

WARDS = ["Cardiology", "Emergency", "Oncology", "Surgery"]

#: How numbers are written, with commas and powers of ten.
NUMBER = r"([\d,]+(?:\.\d+)?(?:e-?\d+)?)"


def visits():
    """4,000 visits of 1,500 patients, who go to several wards."""
    rows = range(4000)
    return pa.table(
        {
            "patient": [row * 7919 % 1500 for row in rows],
            "ward": [WARDS[row * 31 % 11 % 4] for row in rows],
            "site": ["Bern", "Basel"] * 2000,
            "cost": [float(row * 37 % 600) for row in rows],
        }
    )


def grouped(by="ward", *, rows=2, keys=WARDS, unit="patient", data=None, **more):
    limits = {} if unit == "row" else {"max_groups": 2, "max_rows_per_group": rows}
    options = {"neighbours": more.pop("neighbours", "add_remove")}
    data = data or Dataset(visits(), unit, **options)
    return data.group_by(by, public_keys=keys, **limits, **more)


#: Queries by name, with ε and δ.
QUERIES = {
    "count": lambda: (grouped().count(), 1, 1e-6),
    "count, chosen groups": lambda: (grouped("site", keys=None).count(), 1, 1e-6),
    "units, chosen groups": lambda: (grouped("site", rows=None, keys=None).count_units(), 0.7, 1e-7),
    "count without δ": lambda: (grouped().count(), 1, 0),
    "sum": lambda: (grouped().sum("cost", bounds=(0, 400)), 2, 1e-8),
    "mean": lambda: (grouped().mean("cost", bounds=(0, 400)), 1, 1e-6),
    "mean, chosen groups": lambda: (grouped("site", keys=None).mean("cost", bounds=(0, 400)), 3, 1e-6),
    "mean and count without δ": lambda: (grouped().count().mean("cost", bounds=(0, 400)), 0.25, 0),
    "totals": lambda: (grouped(totals="rollup").count(), 1, 1e-6),
    "totals, chosen groups": lambda: (grouped("site", keys=None, totals="rollup").count(), 1, 1e-6),
    "median": lambda: (grouped().median("cost", bounds=(0, 400), bins=16), 1, 1e-6),
    "replaced units": lambda: (grouped(neighbours="change_one").count(), 1, 1e-6),
    "replaced units, chosen groups": lambda: (grouped("site", keys=None, neighbours="change_one").count(), 1, 1e-6),
    "replaced units without δ": lambda: (grouped(neighbours="change_one").count(), 1, 0),
    "rows": lambda: (grouped(unit="row").count(), 1, 1e-6),
    "replaced rows": lambda: (grouped(unit="row", neighbours="change_one").count(), 1, 0),
    "all rows": lambda: (Dataset(visits(), "patient").group_by(max_rows_per_group=3).count(), 1, 1e-6),
    "units of all rows": lambda: (Dataset(visits(), "patient").group_by().count_units(), 20, 1e-9),
}


#: Those that measure what the limits left out.
MEASURED = {"count", "count, chosen groups", "count without δ", "mean", "replaced units", "all rows"}


@dataclass
class Seen:
    """What was published, and what each view says of it."""

    plan: object
    release: object
    tables: dict
    views: dict


def words(markup):
    """The text of a page or card, without files, style and drawings."""
    text = re.sub(r'(?s)<(style|svg).*?</\1>|href="[^"]*"|<[^>]+>', " ", markup)
    return " ".join(html.unescape(text).replace("\u00a0", " ").split())


def sheet(release, folder):
    path = folder / "table.xlsx"
    write_excel(
        {name: (table.table, table.statement) for name, table in release.tables.items()},
        release.statement,
        About(),
        path,
    )
    rows = [[cell for cell in row if cell is not None] for row in openpyxl.load_workbook(path)["Notes"].values]
    # A name and a number beside it are read as one text.
    return (
        " ".join(" = ".join(map(str, row)) for row in rows)
        .replace("Privacy loss ε, in total", "ε")
        .replace("Probability δ, in total", "δ")
    )


def files(release, folder):
    """The views that a file of one table has."""
    plain = metadata(release.table, release.statement, About(), "table.csv")
    few = {each["schema:name"]: each["schema:value"] for each in plain["schema:additionalProperty"]}
    registry = registry_yaml(release.statement, About())
    found = re.findall(r"(epsilon|delta): ([\d.e-]+)", registry)
    return {
        "CSVW": f"ε = {few['epsilon']}, δ = {few['delta']} {plain['dc:description']}",
        "CSVW, for programs": " ".join(
            f"{symbol} = {json.loads(plain['notes'][0]['schema:text'])[name]}"
            for symbol, name in (("ε", "epsilon"), ("δ", "delta"))
        ),
        "Excel": sheet(release, folder),
        "registry": registry
        + " ".join(f"{'ε' if name == 'epsilon' else 'δ'} = {float(value):.15g}" for name, value in found),
    }


def seen(query, epsilon, delta, folder, *, measured=True):
    release = query.release(epsilon, delta, measure_left_out=measured)
    plan = release.plan
    views = {
        "terminal": str(plan),
        "plan's card": words(plan._repr_html_()),
        "statement": str(release.statement),
        "card": words(release._repr_html_()),
        "report": words(page(release, About(), {})),
        **files(release, folder),
    }
    return Seen(plan, release, {"": release}, views)


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """What each query says."""
    folder = tmp_path_factory.mktemp("views")
    result = {name: seen(*make(), folder, measured=name in MEASURED) for name, make in QUERIES.items()}
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("visits", epsilon=9, delta=1e-4)
        data = Dataset(visits(), "patient", ledger=ledger, dataset="visits")
        result["charged"] = seen(grouped(data=data).count(), 1, 1e-6, folder)
        result["charged, chosen groups"] = seen(grouped("site", keys=None, data=data).count(), 1, 1e-6, folder)
    data = Dataset(visits(), "patient")
    tables = Publication(wards=grouped(data=data).count(), sites=grouped("site", keys=None, data=data).count())
    release = tables.release(1, 1e-6)
    plan = release.plan
    views = {
        "terminal": str(plan),
        "plan's card": words(plan._repr_html_()),
        "statement": str(release.statement),
        "card": words(release._repr_html_()),
        "report": words(page(release, About(), {})),
        **{f"{name}, {view}": text for name in release.tables for view, text in files(release[name], folder).items()},
    }
    result["publication"] = Seen(plan, release, dict(release.tables), views)
    return result


NAMES = [*QUERIES, "charged", "charged, chosen groups", "publication"]


def numbers(pattern, text):
    return {float(number.replace(",", "")) for number in re.findall(pattern, text)}


@pytest.mark.parametrize("name", NAMES)
def test_the_budget(every, name):
    """ε and δ; where the choice of groups is charged apart, its part of δ is told as such."""
    plan = every[name].plan
    for view, text in every[name].views.items():
        assert numbers(rf"ε = {NUMBER}", text) in ({plan.epsilon}, set() if view == "card" else None), view
        told = re.sub(r"noise of δ = 0|δ = [\d.e-]+ of the total", "", text)
        if plan.delta > 0:
            assert numbers(rf"δ = {NUMBER}", told) == {plan.delta}, view
        else:
            assert numbers(rf"δ = {NUMBER}", told) <= {0.0}, view
            assert "except with" not in text, view
            assert "exception" not in text, view


@pytest.mark.parametrize("name", NAMES)
def test_the_promise(every, name):
    """The same sentence in every view of a release, with the same factor."""
    plan, promises = every[name].plan, {}
    for view, text in every[name].views.items():
        found = set(
            re.findall(
                r"[A-Z]\w+ (?:or removing )?(?:all rows of )?one \w+[^.]*? changes the prob.*?[.](?= |$|\")", text
            )
        )
        factors = set(re.findall(r"by at most a factor of (.*? \(e\^ε with ε = [^)]*\)|e\^ε with ε = [\d.]+\d)", text))
        if found:
            promises[view] = found
            assert factors == {factor(plan.epsilon)}, view
    assert {"statement", "report"} <= set(promises)
    for line in brief(every[name].release):
        assert line in every[name].views["card"].replace("&#39;", "'"), line
    assert len({sentence for found in promises.values() for sentence in found}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_threshold(every, name):
    """The size from which on groups are published; files of one table quote the statement on all of them."""
    plans = [release.plan for release in every[name].tables.values()]
    expected = {(f"{plan.threshold:,}", f"{plan.shown_size:,}") for plan in plans if plan.threshold is not None}
    pattern = rf"noisy number(?: of [\w ]+|, counting each \w+ once,) is at least {NUMBER}\. A group of {NUMBER} is"
    for view, text in every[name].views.items():
        found = set(re.findall(pattern, text))
        assert found <= expected, view
        if view in ("terminal", "plan's card", "statement", "report"):
            assert found == expected, view


@pytest.mark.parametrize("name", NAMES)
def test_half_widths(every, name):
    """The noise of each column whose intervals are equally wide in all groups."""
    for release in every[name].tables.values():
        for column in release.plan.columns:
            if column.half_width is not None:
                shown = half_width(column.half_width, whole=column.is_count)
                for view in ("terminal", "plan's card", "report"):
                    assert re.search(rf"{re.escape(shown)}(?![\d.,]*\d)", every[name].views[view]), view


@pytest.mark.parametrize("name", NAMES)
def test_what_was_left_out(every, name):
    """The shares that limits left out, with their intervals."""
    for release in every[name].tables.values():
        for sentence in [] if release.left_out is None else release.left_out.sentences:
            for view in ("statement", "report"):
                assert sentence in every[name].views[view], view


@pytest.mark.parametrize("name", NAMES)
def test_the_ledger(every, name):
    """Whether a ledger was charged, and which entry it is."""
    entry = every[name].release.statement.to_dict()["ledger"]
    for view in ("statement", "report", *(view for view in every[name].views if view.endswith(("Excel", "registry")))):
        text = every[name].views[view]
        if entry is None:
            assert "was not charged to a ledger" in text, view
        else:
            assert f"was charged to a ledger (data set 'visits', entry {entry['reservation']})" in text, view


def test_views_that_differ_are_found(every):
    """A planted difference of each kind fails."""
    charged = every["charged, chosen groups"]
    for check, old, new in (
        (test_the_budget, "ε = 1", "ε = 2"),
        (test_the_promise, "factor of 2.8", "factor of 2.7"),
        (test_the_threshold, "is at least ", "is at least 1"),
        (test_the_ledger, "entry ", "entry 9"),
    ):
        views = charged.views | {"statement": charged.views["statement"].replace(old, new)}
        with pytest.raises(AssertionError):
            check({"planted": Seen(charged.plan, charged.release, charged.tables, views)}, "planted")
