"""The addresses of the page and what each does: parse, call, render."""

import re
import secrets
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from osgt.query.file.model import DataFile
from osgt.query.file.reading import is_data_file, query_file_of, read_data_file
from osgt.query.file.text import python_code
from osgt.support.errors import USER_ERRORS, argument_of
from osgt.support.files import words_of
from osgt.support.locations import names_server
from osgt.web import jobs, pages
from osgt.web.cache import Opened
from osgt.web.checking import SERVERS, Checked, Wanted, check, sentence
from osgt.web.entries import Entries, number
from osgt.web.form import (
    data_file_text,
    fields_of,
    normalised,
    plain_of,
    query_text,
    with_defaults,
    without_leftovers,
    without_passwords,
)
from osgt.web.gate import GONE, Gate, check_descriptors
from osgt.web.jobs import Job, Jobs, StoppedError

#: Pages of others (the report, the ledger's) run nothing and load nothing, and are kept apart from this server.
_APART = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox allow-downloads allow-popups"
)

#: What a page has beside the query file, and does not come back to.
_PASSING = ("once", "page", "do", "query", "charge", "preview.confirm")


#: Pages whose entries are kept.
_MOST_PAGES = 20


def _answered(handler: Callable[["Web", Request], Response]) -> Callable[["Web", Request], Response]:
    """Wrap a handler so that it answers in words where it took too long, or where nobody waits for it any more."""

    @wraps(handler)
    def answer(web: "Web", request: Request) -> Response:
        try:
            return handler(web, request)
        except StoppedError:
            words = f"This takes longer than {jobs.SECONDS:.0f} seconds, and was ended. Nothing was charged."
            return PlainTextResponse(f"{words} Use fewer numbers or groups, or `osgt plan` in the terminal.\n", 422)

    return answer


class Web:
    """The application: its state is what is open, what is running, and what was last entered on each page."""

    def __init__(self, port: int, start: dict[str, Any], new_link: Callable[[str], None] = lambda path: None) -> None:
        self.opened, self.jobs = Opened(), Jobs()
        self._start = fields_of(with_defaults(start))
        # Kept here and not by the browser: a URL may have a password in it, and browsers write what they keep to disk.
        self._turn = threading.Lock()
        self._entered: OrderedDict[str, Entries] = OrderedDict()
        routes = [
            Route("/", self.planner, methods=["GET", "POST"]),
            Route("/keep", self.keep, methods=["POST"]),
            Route("/publish", self.publish, methods=["POST"]),
            Route("/jobs/{key}", self.job),
            Route("/jobs/{key}/files/{number:int}", self.file),
            Route("/ledger", self.ledger, methods=["POST"]),
            Route("/query.toml", self.query_file, methods=["POST"]),
            Route("/data.toml", self.data_file, methods=["POST"]),
            Route("/release.py", self.program, methods=["POST"]),
            Route("/help", lambda request: HTMLResponse(pages.help_page(self.gate.root))),
            Route("/style.css", lambda request: Response(pages.style(), media_type="text/css")),
            Route("/script.js", lambda request: Response(pages.script(), media_type="text/javascript")),
        ]
        self.gate = Gate(Starlette(routes=routes), port, new_link)

    # Starlette runs functions that are not asynchronous in threads of their own: planning takes a while.

    @_answered
    def planner(self, request: Request) -> Response:
        """The page, empty, as it was started, as it was left, or as its fields say."""
        if request.method != "POST":
            page = request.query_params.get("page", "")
            entered = self._entered.get(page)
            shown = self._start if entered is None else entered.updated({"page": [page]})
            return _patiently(request, lambda: self._planner(shown))
        entries = self._received(request)
        if entries.one("do") == "preview":
            return self._previewed(entries, request)
        return _patiently(request, lambda: self._acted(entries))

    def _acted(self, entries: Entries) -> Response:
        """The page after one of its buttons, or after an entry."""
        action = entries.one("do")
        if action == "load":
            return self._loaded(entries)
        if is_data_file(entries.one("data.source")):
            return self._with_data_file(entries)
        if action == "connect":
            data = plain_of(normalised(entries))[0].get("data", {})
            for location in filter(None, map(data.get, SERVERS)):
                self.opened.connect(location)
        if action.startswith("remove:"):
            entries = entries.without(action.removeprefix("remove:"))
            self._remember(entries)
        return self._planner(entries)

    def keep(self, request: Request) -> Response:
        """Remember what stands in the fields, for who loads the page again."""
        self._received(request)
        return Response(status_code=204)

    def _received(self, request: Request) -> Entries:
        entries = _entries(request)
        self._remember(entries)
        return entries

    def _remember(self, entries: Entries) -> None:
        page = _token(entries, "page")
        if not page:
            return
        with self._turn:
            self._entered[page] = entries.without(*_PASSING)
            self._entered.move_to_end(page)
            while len(self._entered) > _MOST_PAGES:
                self._entered.popitem(last=False)

    @_answered
    def publish(self, request: Request) -> Response:
        """Check all that can be checked, then charge and publish in the background."""
        with self.jobs.turn:
            return self._publish(self._received(request), request)

    def _publish(self, entries: Entries, request: Request) -> Response:
        key = _token(entries, "once")
        if self.jobs.has_begun(key):
            return self._to_job(key)  # the same page was sent twice
        checked = _patiently(request, lambda: self._checked(entries))
        if checked.plan is not None and entries.one("charge") != checked.charge:
            words = (
                f"This would charge {checked.charge}, which the page has not shown before. If that is right, publish."
            )
            checked.problems.setdefault("publish", words)
        if not (checked.is_ready and key):
            return self._page(entries, checked, notice="Not published, and nothing was charged.", notice_is_bad=True)
        try:
            check_descriptors()
            ready = jobs.prepare(jobs.with_files(checked.file))
        except USER_ERRORS as error:
            return self._refused(entries, checked, error)
        begun = Job(key, jobs.title(ready), entries.without(*_PASSING))
        self.jobs.begin(begun, lambda job: jobs.release(ready, job))
        return self._to_job(key)

    def _to_job(self, key: str) -> Response:
        return RedirectResponse(f"{self.gate.root}/jobs/{quote(key, safe='')}", 303)

    def job(self, request: Request) -> Response:
        """Show how far a job is, or what became of it."""
        running = self.jobs.get(request.path_params["key"])
        if running is None:
            return PlainTextResponse("There is no such job.\n", 404)
        return HTMLResponse(pages.job(running, token=self.gate.form_token, root=self.gate.root))

    def file(self, request: Request) -> Response:
        """A file that a job has written."""
        running = self.jobs.get(request.path_params["key"])
        result = None if running is None else running.result
        number = request.path_params["number"]
        if result is None or number >= len(result.files):
            return PlainTextResponse("There is no such file.\n", 404)
        path: Path = result.files[number]
        if not path.is_file():
            return PlainTextResponse(f"{path} is not there any more.\n", 404)
        if path.suffix.lower() == ".html":
            return HTMLResponse(path.read_text(encoding="utf-8"), headers={"content-security-policy": _APART})
        return FileResponse(path, filename=path.name)

    def ledger(self, request: Request) -> Response:
        """The page of the ledger that is named: budgets, spending over time, releases, what is left."""
        from osgt.render.ledger import page  # noqa: PLC0415 - most pages have none

        location = _entries(request).one("data.ledger")
        try:
            if not location:
                raise ValueError("Give the ledger first.")
            if names_server(location) and not self.opened.may_connect(location):
                raise ValueError("Connect to the server first.")
            ledger = self.opened.ledger(location)
            overviews = [ledger.overview(name) for name in ledger.datasets()]
            content = page(ledger.name, overviews, ledger.verify(), datetime.now(UTC))
        except USER_ERRORS as error:
            return PlainTextResponse(f"{words_of(error)}\n", 400)
        return HTMLResponse(content, headers={"content-security-policy": _APART})

    @_answered
    def query_file(self, request: Request) -> Response:
        """The entries as a query file."""
        plain = _patiently(request, lambda: self._checked(_entries(request))).plain
        return _download("query.toml", query_text(plain)[0])

    @_answered
    def data_file(self, request: Request) -> Response:
        """The entries about the data as a data file."""
        plain = _patiently(request, lambda: self._checked(_entries(request))).plain
        return _download("data.toml", data_file_text(plain))

    @_answered
    def program(self, request: Request) -> Response:
        """The entries as a program."""
        plain = _patiently(request, lambda: self._checked(_entries(request))).plain
        return _download("release.py", python_code(without_passwords(plain)))

    def _checked(self, entries: Entries) -> Checked:
        plain, problems = plain_of(normalised(entries))
        wanted = None
        if entries.one("budget.by") == "interval":
            interval = number(entries, "budget.interval", problems)
            wanted = Wanted(interval, entries.raw("budget.column") or None)
        return check(plain, problems, self.opened, wanted)

    def _planner(self, entries: Entries) -> Response:
        return self._page(entries, self._checked(entries))

    def _page(self, entries: Entries, checked: Checked, **more: Any) -> Response:
        shown = normalised(entries.without(*_PASSING))
        if checked.epsilon is not None:
            shown = shown.updated({"budget.epsilon": [f"{checked.epsilon:.15g}"]})
        if "query" in checked.problems:
            shown = shown.updated({"query": [entries.raw("query")]})
        bad = more.get("notice_is_bad", False)
        tokens = {"once": secrets.token_urlsafe(16), "page": _token(entries, "page") or secrets.token_urlsafe(16)}
        content = pages.planner(shown, checked, token=self.gate.form_token, root=self.gate.root, **tokens, **more)
        return HTMLResponse(content, status_code=422 if bad else 200)

    def _refused(self, entries: Entries, checked: Checked, error: BaseException) -> Response:
        place = argument_of(error)
        if place in ("output.out", "output.report"):
            checked.problems[place] = sentence(words_of(error), place)
        return self._page(entries, checked, notice=jobs.refusal(error), notice_is_bad=True)

    def _loaded(self, entries: Entries) -> Response:
        """The page for a query file in place of all entries; if it is not one, the page as it was."""
        text = entries.raw("query")
        try:
            if not text.strip():
                raise ValueError("choose a file, or paste its text here")
            file = query_file_of(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            checked = self._checked(entries)
            checked.problems["query"] = f"This is not a query file: {error}"
            return self._page(entries, checked, opened="file")
        return self._begun_with(file, entries, "The query file is loaded.")

    def _with_data_file(self, entries: Entries) -> Response:
        """The page for the data file that is named as the data; if it is not one, the page as it was."""
        try:
            file = read_data_file(entries.one("data.source"))
        except USER_ERRORS as error:
            checked = Checked(
                {}, {"data.source": sentence(words_of(error), "file")}, ["the data: a file or a database"]
            )
            return self._page(entries, checked)
        return self._begun_with(file, entries, "The data file is loaded.")

    def _begun_with(self, file: DataFile, entries: Entries, notice: str) -> Response:
        loaded = fields_of(with_defaults(file.given())).updated({"page": [entries.one("page")]})
        self._remember(loaded)
        return self._page(loaded, self._checked(loaded), notice=notice, opened="table")

    def _previewed(self, entries: Entries, request: Request) -> Response:
        """The page with exact figures, if somebody has said that they may see them."""
        checked = _patiently(request, lambda: self._checked(entries))
        if not entries.one("preview.confirm"):
            checked.problems["preview.confirm"] = "Tick this first."
        elif checked.query is not None and not checked.problems and "privacy_unit" in checked.plain["data"]:
            try:
                shown = jobs.preview(checked.file)
            except USER_ERRORS as error:
                checked.problems["preview.confirm"] = words_of(error)
            else:
                return self._page(entries, checked, preview_cards=pages.preview_cards(shown))
        else:
            checked.problems.setdefault("preview.confirm", "Complete the data and the table first.")
        return self._page(entries, checked)


def _patiently(request: Request, work: Callable[[], jobs.Answer]) -> jobs.Answer:
    return jobs.patiently(request.scope[GONE], work)


def _entries(request: Request) -> Entries:
    """The fields of the form, which the gate has read."""
    return without_leftovers(Entries.of_pairs(request.scope["osgt.fields"]))


def _token(entries: Entries, name: str) -> str:
    """A token of the page, as it was made here; "" for anything else."""
    token_given = entries.one(name)
    return token_given if re.fullmatch(r"[\w-]{22}", token_given, re.ASCII) else ""


def _download(name: str, content: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return PlainTextResponse(content, headers=headers)
