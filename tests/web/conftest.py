"""A browser for the tests of the planner."""

import planner_page
import pytest


@pytest.fixture(scope="module")  # Playwright keeps a loop running that other tests cannot do with
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if planner_page.CHROMIUM is None:
        pytest.skip("there is no chromium on the PATH: apt-get install chromium")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=planner_page.CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()
