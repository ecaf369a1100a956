"""The first job of a new user, in a real browser: visits and mean costs by department, from a CSV file."""

from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest
from planner_page import Planner, served, until

from osgt import Dataset

SCREEN = {"width": 1280, "height": 800}
DEPARTMENTS = ("Cardiology", "Emergency", "Oncology")


def visits():
    random = np.random.default_rng(3)
    patients = np.repeat(np.arange(4_000), random.integers(1, 6, 4_000))
    rows = len(patients)
    return pa.table(
        {
            "visit_id": np.arange(rows),
            "patient_id": [f"P{patient:06}" for patient in patients],
            "department": random.choice(DEPARTMENTS, rows, p=(0.3, 0.5, 0.2)),
            "cost": random.gamma(2.0, 1_500.0, rows).round(2),
        }
    )


class Hands:
    """Somebody who sees one screen: whatever they act on must be there, or be reached by scrolling."""

    def __init__(self, planner):
        self.planner, self.actions, self.screens = planner, 0, 0.0

    def _done(self):
        self.actions += 1
        height = self.planner.page.evaluate("document.documentElement?.scrollHeight ?? 0")  # 0 between two pages
        self.screens = max(self.screens, height / SCREEN["height"])

    def choose(self, name, value):
        field = self.planner.field(name).last
        assert field.is_visible()
        with self.planner.updating():
            field.select_option(value)
        self._done()

    def click(self, selector):
        self.planner.page.click(selector)
        self._done()


@pytest.fixture
def folder(tmp_path):
    pyarrow.csv.write_csv(visits(), tmp_path / "visits.csv")
    return tmp_path


def test_six_actions_on_two_screens(chromium, folder):
    with served(folder, "visits.csv") as server:
        planner = Planner(chromium, server.link(), viewport=SCREEN)
        hands = Hands(planner)
        hands.choose("unit", "column:patient_id")
        hands.click("#table > summary")
        assert not planner.field("unit").first.is_visible()  # one step is open at a time
        hands.choose("groups.by", "department")
        hands.choose("aggregates.1.kind", "mean")
        hands.choose("aggregates.1.column", "cost")
        assert "Publishing charges ε = 1, δ = 1e-08 to no ledger." in planner.words("#plan")
        planner.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        button = planner.page.locator("button.main").bounding_box()
        assert 0 <= button["y"] <= SCREEN["height"] - button["height"]  # the plan stays in sight
        hands.click("button.main")
        planner.finished()
        assert planner.words().startswith("Published")
        assert planner.page.locator("#main > *").nth(1).locator("table").count() == 1  # the table comes first
        assert hands.actions == 6
        assert hands.screens <= 2
        assert planner.told == []
        planner.close()
    rows, published = visits(), pa.csv.read_csv(folder / "visits-published.csv")
    assert published["department"].to_pylist() == list(DEPARTMENTS)
    for row in published.to_pylist():
        of_department = rows.filter(pc.equal(rows["department"], row["department"]))
        truth = {"count": of_department.num_rows, "cost_mean": pc.mean(of_department["cost"]).as_py()}
        for name, value in truth.items():
            assert abs(row[name] - value) <= 0.2 * value


DATA_FILE = """
[data]
source = "visits.csv"
privacy_unit = "patient_id"
noun = "patient"
units = 4000

[columns.department]
values = ["Cardiology", "Emergency", "Oncology"]

[columns.cost]
type = "float64"
range = [0, 30000]

[budget]
epsilon = 0.8
delta = 1e-7

[report]
publisher = "Hospital"
"""


def test_four_actions_from_a_data_file(chromium, folder):
    (folder / "data.toml").write_text(DATA_FILE)
    with served(folder, "data.toml") as server:
        planner = Planner(chromium, server.link(), viewport=SCREEN)
        hands = Hands(planner)
        hands.choose("groups.by", "department")
        assert planner.page.locator(".chips li").all_text_contents() == list(DEPARTMENTS)
        hands.choose("aggregates.1.kind", "mean")
        hands.choose("aggregates.1.column", "cost")
        saved = planner.download("button[formaction$='/data.toml']")
        hands.click("button.main")
        planner.finished()
        assert "ε = 0.8, δ = 1e-07, charged to no ledger" in planner.words()
        assert hands.actions == 4
        planner.close()
    assert "Hospital" in (folder / "visits-published.html").read_text(encoding="utf-8")
    (folder / "saved.toml").write_bytes(saved)
    for name in ("data.toml", "saved.toml"):
        with closing(Dataset.from_file(folder / name)) as data:
            plan = data.group_by("department").count().mean("cost").plan(0.8, 1e-7)
            assert (data.privacy_unit, data.budget) == ("patient_id", {"epsilon": 0.8, "delta": 1e-7})
            assert plan.epsilon == 0.8


def test_loading_the_page_again_keeps_the_steps_done(chromium, folder):
    with served(folder, "visits.csv") as server:
        planner = Planner(chromium, server.link(), viewport=SCREEN)
        planner.choose("unit", "column:patient_id")
        planner.choose("groups.by", "department")
        planner.type("budget.epsilon", "0.7")
        before = planner.query_file()
        planner.page.reload()
        until(lambda: planner.query_file() == before)
        assert planner.field("groups.by").first.is_visible()  # the step that is next
        assert "ε = 0.7" in planner.words("#charge")
        # Nothing of it is kept by the browser.
        assert planner.page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]
        assert "patient" not in planner.page.url
        planner.close()
