"""What notebooks show: every object in HTML that holds no foreign markup, a short repr, and pictures on axes."""

import json
import re
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pytest

from html_pages import HOSTILE
from osgt import Dataset, DiscreteOSGT, Ledger, Mechanism, PrivacyProfile, Publication
from osgt.ledger import Verification
from osgt.render.cards import Card, CardTable, Cell, curve

mpl.use("Agg")

WORST = HOSTILE[0]


def made(folder, name):
    """One of each, about data whose names are hostile."""
    ledger = Ledger(folder / "budget.db")
    ledger.open(name, epsilon=8, delta=1e-4)
    generator = np.random.default_rng(7)
    columns = {
        "user": np.arange(4000) % 900,
        name: generator.choice([name, "Rome"], 4000),
        "v": generator.normal(size=4000),
    }
    data = Dataset(pa.table(columns), "user", ledger=ledger, dataset=name).where("v < 100")
    open_query = data.group_by(name, public_keys=[name, "Rome"]).count(name="n").mean("v")
    query = data.group_by(name, public_keys=[name, "Rome"], max_rows=5).count(name="n").mean("v", (-3, 3))
    release = query.release(epsilon=1, delta=1e-8)
    return {
        "dataset": data,
        "open query": open_query,
        "query": query,
        "plan": query.plan(epsilon=1, delta=1e-8),
        "preview": query.preview(),
        "release": release,
        "mechanism": Mechanism(1, 1e-6, coordinates=4),
        "given noise": Mechanism.of(DiscreteOSGT(15, 25), 1, 4),
        "profile": PrivacyProfile(DiscreteOSGT(15, 25), coordinates=8),
        "pure": PrivacyProfile(DiscreteOSGT.laplace(2)),
        "ledger": ledger,
        "spending": ledger.spent(name),
        "overview": ledger.overview(name),
        "verification": ledger.verify(),
        "damaged": Verification((WORST,), 3, {}, "x", entries_ok=False),
    }


OBJECTS = [
    "dataset",
    "open query",
    "query",
    "plan",
    "preview",
    "release",
    "mechanism",
    "given noise",
    "profile",
    "pure",
    "ledger",
    "spending",
    "overview",
    "verification",
    "damaged",
]
PLOTTED = ["plan", "release", "profile", "pure", "spending", "overview"]


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    found = made(tmp_path_factory.mktemp("cards"), WORST)
    assert list(found) == ["dataset", "open query", *OBJECTS[2:]]
    yield found
    found["ledger"].close()


@pytest.mark.parametrize("name", OBJECTS)
def test_html(objects, name):
    html = objects[name]._repr_html_()
    assert html.startswith('<div class="osgt">')
    assert html.count("<div") == html.count("</div>")
    text = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    tags = set(re.findall(r"<([a-zA-Z!/][\w-]*)", text))
    allowed = {
        "div",
        "p",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "small",
        "svg",
        "line",
        "text",
        "path",
    }
    assert {tag.strip("/") for tag in tags} <= allowed
    assert " on" not in re.sub(r">[^<]*<", "><", text)  # no handlers among the attributes


@pytest.mark.parametrize("name", OBJECTS)
def test_reprs_are_short(objects, name):
    assert len(repr(objects[name])) <= 330
    assert "\n" not in repr(objects[name])


def test_what_they_say(objects):
    assert "NOT PRIVATE" in objects["preview"]._repr_html_()
    assert 'class="osgt-alarm"' in objects["preview"]._repr_html_()
    assert 'class="osgt-alarm"' not in objects["release"]._repr_html_()
    assert 'class="osgt-alarm"' in objects["damaged"]._repr_html_()
    assert "is protected with ε = 1" in objects["release"]._repr_html_()
    assert "chosen privately" in objects["open query"]._repr_html_()
    assert "with Gaussian" in objects["plan"]._repr_html_()
    assert "δ falls from" in objects["profile"]._repr_html_()
    assert "4 coordinates" not in objects["mechanism"]._repr_html_()
    assert "with ε = 1 and δ = 1e-06" in objects["mechanism"]._repr_html_()
    assert "differentially private" not in objects["given noise"]._repr_html_()


def test_a_release_shows_its_first_and_last_rows_and_its_numbers():
    rows = pa.table({"user": np.arange(3000), "k": np.arange(3000) % 25})
    query = Dataset(rows, "user").group_by("k", max_groups=1, max_rows_per_group=1, public_keys=range(25))
    release = query.count().release(1, 1e-6)
    html = release._repr_html_()
    assert html.count("<tr") == 1 + 12 + 1 + 4
    assert "… stands for 9 more rows." in html
    first = release.rows(1)[0]
    assert f"{first['count']} <small>{first['count_low']} to {first['count_high']}</small>" in html
    assert repr(release).startswith("Release(count by k; 25 rows; epsilon=1, delta=1e-06")  # a warning by chance
    title, heads, row, *rest = [line for line in str(release).splitlines() if line]
    assert title == "25 rows, each number with its 95 % interval"
    assert heads.split() == ["k", "count"]
    assert row.split(maxsplit=1) == ["0", f"{first['count']} ({first['count_low']} to {first['count_high']})"]
    assert len(heads) == len(row)
    assert "… stands for 9 more rows." in rest
    assert "Promise: every user is protected with ε = 1, δ = 1e-06 in total." in rest


def test_printed_texts_cannot_write_to_the_terminal():
    """Keys of the data are shown with their control characters escaped."""
    rows = pa.table({"user": np.arange(3000), "k": ["a\x1b[2J"] * 3000})
    release = Dataset(rows, "user").group_by("k", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)
    assert "\x1b" not in str(release)
    assert "a" in str(release)


def test_totals_quantiles_and_several_tables():
    rows = pa.table({"user": np.arange(900), "k": np.arange(900) % 3, "v": np.arange(900) % 10})
    groups = {"max_groups": 1, "max_rows_per_group": 1, "public_keys": [0, 1, 2]}
    data = Dataset(rows, "user")
    tables = Publication(
        counts=data.group_by("k", totals="rollup", **groups).count(),
        medians=data.group_by("k", **groups).median("v", (0, 10)),
    )
    made = tables.release(1, 1e-6)
    html = made._repr_html_()
    assert html.count("<table class=") == 2
    assert "for 2 tables together" in html
    assert "counts: 4 rows" in html
    # By chance a wide interval adds a warning behind this.
    assert repr(made).startswith("PublicationRelease(counts, medians; epsilon=1, delta=1e-06")
    plan = data.group_by("k", **groups).median("v", (0, 10)).plan(1, 1e-6)
    assert "percentile" in repr(plan)
    assert plan.plot().has_data()
    mpl.pyplot.close("all")


def test_a_data_set_shows_no_data():
    secret = "the one and only"
    data = Dataset(pa.table({"user": [1, 2], "name": [secret, "x"]}), "user")
    assert secret not in data._repr_html_() + repr(data)


def test_curves_stay_in_their_box():
    found = curve([(0.0, 5.0), (1.0, -99.0)], [(0.0, "0"), (1.0, "1")], [(0.0, "a"), (-12.0, "b")], "words")
    assert found.path == "M48.0 8.0L312.0 124.0"


def test_a_card_escapes_everything():
    cell = [[Cell(text, text) for text in HOSTILE[:3]]]
    table = CardTable(HOSTILE[:3], cell, caption=WORST)
    html = Card(WORST, WORST, WORST, [WORST], [(WORST, WORST)], [table], None, [WORST], WORST).html()
    assert "<script" not in html
    assert "<img" not in html


@pytest.mark.parametrize("name", PLOTTED)
def test_pictures(objects, name):
    from matplotlib import pyplot  # noqa: PLC0415

    figure, given = pyplot.subplots()
    plot = objects[name].plot
    assert (plot(axes=given)) is given
    new = plot()
    assert new.figure is not figure
    for axes in (given, new):
        axes.figure.canvas.draw()  # a name like $x$ is no formula
        assert axes.has_data()
    pyplot.close("all")


def test_a_release_draws_what_is_asked(objects):
    from matplotlib import pyplot  # noqa: PLC0415

    assert "mean v" in objects["release"].plot("v_mean").get_xlabel()
    with pytest.raises(ValueError, match=r"column must be one of n, v_mean, got 'w'"):
        objects["release"].plot("w")
    rows = pa.table({"user": np.arange(300), "day": np.arange(300) % 3})
    query = Dataset(rows, "user").group_by("day", max_groups=1, max_rows_per_group=1, public_keys=[0, 1, 2])
    axes = query.count().release(1, 1e-6).plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("day", "count")
    whole = Dataset(rows, "user").group_by(max_rows_per_group=1).count().release(1, 1e-6).plot()
    assert [text.get_text() for text in whole.get_yticklabels()] == ["all rows"]
    pyplot.close("all")


@pytest.mark.parametrize(("missing", "expected"), [("jinja2", [None, None]), ("matplotlib", None)])
def test_without_the_extras(missing, expected):
    """Objects work; a notebook shows their repr, and a picture says what to install."""
    program = f"""
import json, sys
sys.modules[{missing!r}] = None
from osgt import DiscreteOSGT, Mechanism, PrivacyProfile
mechanism = Mechanism(1, 1e-6)
assert repr(mechanism).startswith("Mechanism(epsilon=1, delta=1e-06, shift=1")
if {missing!r} == "jinja2":
    print(json.dumps([mechanism._repr_html_(), mechanism.profile._repr_html_()]))
else:
    try:
        mechanism.profile.plot()
    except ImportError as error:
        assert 'pip install "osgt[plots]"' in str(error)
        print("null")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == expected
