"""`osgt web` as people use it: the server in a process of its own, and its page in a real browser."""

import contextlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_SECONDS = 180


class Server:
    """A server in a folder; `said` has what it has printed."""

    def __init__(self, folder, *arguments):
        self.folder, self.said, self._links = Path(folder), [], queue.Queue()
        command = [sys.executable, "-m", "osgt", "web", "--no-browser", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        line = ""
        # A link may be broken over lines where the terminal is narrow: it is read up to the blank behind it.
        for text in self.process.stdout:
            self.said.append(text)
            line += text
            found = re.search(r"http://[\d.]+:\d+/\S*token=[\w-]{43}", line)
            if found:
                self._links.put(found[0])
                line = ""
        self._links.put(None)

    def link(self):
        """The next link: each is told when the one before was used."""
        found = self._links.get(timeout=_SECONDS)
        assert found is not None, "".join(self.said)
        return found

    def unused(self, link):
        """Give a link back that nobody has used."""
        self._links.put(link)

    def end(self, number=signal.SIGINT, meanwhile=lambda: None):
        """Send it a signal and wait: what it returned."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        meanwhile()
        try:
            return self.process.wait(_SECONDS)
        finally:
            self._reader.join(_SECONDS)
            self.process.stdout.close()


@contextlib.contextmanager
def served(folder, *arguments):
    """A server, ended as by Ctrl-C."""
    server = Server(folder, *arguments)
    try:
        yield server
    finally:
        server.end()


class Planner:
    """The planner in a browser of its own: what it says, and what it has asked for."""

    def __init__(self, browser, link, **options):
        self.context = browser.new_context(accept_downloads=True, **options)
        self.context.set_default_timeout(2 * _SECONDS * 1000)  # the machine may be busy
        self.page = self.context.new_page()
        self.told, self.asked, self.bodies = [], [], []
        self.context.on("page", self._watched)
        self._watched(self.page)
        self.page.goto(link)
        self.page.wait_for_selector("#planner")
        self.page.wait_for_load_state("load")
        self.root = self.page.url.partition("?")[0].removesuffix("/")
        self.origin = "/".join(self.root.split("/")[:3])

    def _watched(self, page):
        page.on("console", lambda message: self.told.append(message.text))
        page.on("pageerror", lambda error: self.told.append(str(error)))
        page.on("dialog", lambda dialog: (self.told.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.asked.append(request.url))

    def close(self):
        self.context.close()

    def field(self, name):
        """The fields of a name, in order."""
        return self.page.locator(f"css=#planner :is(input, select, textarea)[name={quoted(name)}]")

    def reach(self, field):
        """Open the folds that a field is in."""
        field.evaluate("each => { while ((each = each.parentElement.closest('details'))) each.open = true; }")
        return field

    def updates(self):
        return self.page.evaluate("Number(document.body.dataset.updates || 0)")

    @contextlib.contextmanager
    def updating(self):
        """Wait until the page has answered to what happens inside."""
        before = self.updates()
        yield
        until(lambda: self.updates() > before)

    def type(self, name, value):
        """Type into a field, and leave it."""
        field = self.reach(self.field(name))
        with self.updating():
            field.fill(value)
            if field.get_attribute("data-refresh") is not None:
                field.press("Tab")

    def choose(self, name, value, at=0):
        """Choose from a list."""
        field = self.reach(self.field(name).nth(at))
        with self.updating():
            field.select_option(value)

    def tick(self, selector):
        field = self.reach(self.page.locator(selector))
        with self.updating():
            field.check()

    def unfold(self):
        """Open all folds: also of steps, of which the page itself opens one at a time."""
        script = "all => all.forEach(each => { each.removeAttribute('name'); each.open = true; })"
        self.page.eval_on_selector_all("details", script)

    def load(self, text):
        """Load a query file in place of all entries."""
        self.reach(self.field("query")).fill(text)
        with self.updating():
            self.page.click("button[value=load]")

    def words(self, selector="#main"):
        return " ".join(self.page.inner_text(selector).split())

    def query_file(self):
        return self.page.text_content("#query-file")

    def problem(self, name):
        """What is told at a field, if the field says that this is about it."""
        field = self.field(name).first
        if field.get_attribute("aria-invalid") != "true":
            return None
        told = field.get_attribute("aria-describedby").split()[-1]
        return self.page.text_content(f"#{told}").strip()

    def intervals(self):
        """The rows of the plan's table: the column, and its intervals with each noise."""
        rows = self.page.locator("#numbers .card tbody tr").all()
        return [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]

    def publish(self, out, report, *, finished=True):
        """Name the files and publish, and wait for what becomes of it."""
        self.reach(self.field("output.out")).fill(out)
        self.field("output.report").fill(report)
        until(lambda: out in self.query_file() and report in self.query_file())
        self.page.click("button.main")
        if finished:
            self.finished()

    def finished(self):
        """Wait for the end of a job, or for the words why there is none."""
        self.page.wait_for_selector("#notice.wrong, #main > form:not(#planner) button", timeout=2 * _SECONDS * 1000)

    def download(self, selector):
        button = self.reach(self.page.locator(selector).first)
        with self.page.expect_download() as saving:
            button.click()
        return Path(saving.value.path()).read_bytes()


def until(is_true, seconds=2 * _SECONDS):
    """Wait for something; the policy of the page keeps the browser from doing that itself."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)  # each look is work for the browser


def quoted(text):
    """A string of CSS."""
    return '"' + "".join(f"\\{ord(c):x} " if not c.isalnum() else c for c in text) + '"'
