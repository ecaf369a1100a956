"""How long does it take from a move of the slider to new numbers on the page?

Claim: at most 0.3 s in the median, in a real browser, for a table of counts and means, the noises compared and the
ledger asked. Beside it the plan alone (`query.plan` and its comparison, in this process), which is what has to be
computed: the rest is the form, the page, the network and the browser. Each ε is new, so that no plan is remembered.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import sync_playwright

from measure import print_table, say_if_busy
from osgt import Dataset, Ledger

BAR = 0.3
MOVES = 25

QUERY = """
[data]
source = "rides.parquet"
privacy_unit = "person"
ledger = "budget.db"
dataset = "rides"

[groups]
by = ["city", "month"]
max_rows = 30

[[aggregates]]
kind = "count"

[[aggregates]]
kind = "mean"
column = "fare"
bounds = [0, 60]

[budget]
epsilon = 0.05
delta = 1e-7
"""

#: Moves the slider by one step and tells how long it takes until the numbers change.
MOVE = """
(step) => new Promise((resolve) => {
  const slider = document.querySelector("input[type=range]");
  const numbers = document.getElementById("numbers");
  const start = performance.now();
  const watch = new MutationObserver(() => { watch.disconnect(); resolve(performance.now() - start); });
  watch.observe(numbers, { childList: true, subtree: true, characterData: true });
  slider.value = String(step);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})
"""


def made(folder: Path) -> None:
    """A table, a ledger and a query file."""
    random = np.random.default_rng()
    rows = 200_000
    table = {
        "person": random.integers(0, 30_000, rows),
        "city": random.choice(["Bern", "Lima", "Oslo", "Rome"], rows),
        "month": random.integers(1, 13, rows),
        "fare": random.gamma(2.0, 9.0, rows),
    }
    pq.write_table(pa.table(table), folder / "rides.parquet")
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("rides", epsilon=10, delta=1e-5, unit="person")
    (folder / "query.toml").write_text(QUERY)


def plan_seconds(folder: Path, epsilons: list[float]) -> list[float]:
    """How long the plans take without a page."""
    data = Dataset(folder / "rides.parquet", privacy_unit="person")
    query = data.group_by("city", "month", max_rows=30).count().mean("fare", bounds=(0, 60))
    times = []
    for epsilon in epsilons:
        start = time.perf_counter()
        plan = query.plan(epsilon, 1e-7)
        assert all((plan.columns, plan.alternatives, plan.gains))
        times.append(time.perf_counter() - start)
    data.close()
    return times


def page_seconds(folder: Path) -> tuple[list[float], list[float]]:
    """How long the page takes for moves of the slider, and the values of ε."""
    command = [sys.executable, "-m", "osgt", "web", "--query", "query.toml", "--no-browser"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert server.stdout is not None
        link = re.search(r"http://\S+", server.stdout.readline())
        assert link is not None
        browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(link[0])
            page.wait_for_selector("#numbers table")
            steps = page.eval_on_selector("input[type=range]", "(slider) => slider.dataset.steps").split(" ")
            times, epsilons = [], []
            for step in range(len(steps) - 1, len(steps) - 1 - MOVES, -1):
                times.append(page.evaluate(MOVE, step) / 1000)
                epsilons.append(float(steps[step]))
                page.wait_for_timeout(100)
            browser.close()
    finally:
        server.terminate()
        server.wait()
    return times, epsilons


if __name__ == "__main__":
    say_if_busy()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        made(place)
        times, epsilons = page_seconds(place)
        alone = plan_seconds(place, epsilons)
    rows = [
        ["slider to new numbers", *(f"{1e3 * f(times):.0f} ms" for f in (min, median, max))],
        ["the plan alone", *(f"{1e3 * f(alone):.0f} ms" for f in (min, median, max))],
        ["ratio", *(f"{f(times) / f(alone):.2f}" for f in (min, median, max))],
    ]
    verdict = "met" if median(times) <= BAR else "missed"
    title = f"{MOVES} moves of the slider (bar: median ≤ {1e3 * BAR:.0f} ms, {verdict})"
    print_table(title, ["what", "least", "median", "most"], rows)
