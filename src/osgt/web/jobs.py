"""Releases from the page, which outlast a request, and work that must not.

All that can be refused is refused before anything is charged.

Jobs run in the background, are charged and read the data: releases, each begun once. A page that offers to publish
carries a key of its own. Whatever arrives twice with the same key (a double click, a page that is loaded again) is the
same job, so nothing is charged twice by accident.

What is computed for a page ends when it takes too long, and when the browser is gone. Plans of hundreds of columns take
hours. A thread cannot be ended from outside, but Python can raise an exception in it: between any two of its steps, so
that no loop has to ask whether to go on. What is charged never runs in there.
"""

import ctypes
import itertools
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from osgt.api.publish import UnwrittenError, close_data
from osgt.api.query_file import Request, build_query, files_used, fill_limits, release_targets
from osgt.ledger.errors import LostAnswerError
from osgt.query.file.model import QueryFile
from osgt.query.file.reading import with_parts
from osgt.release.choice import TooFewUnitsError
from osgt.release.measuring import NothingReleasedError
from osgt.support.errors import USER_ERRORS
from osgt.support.files import Target, words_of
from osgt.support.locations import names_server
from osgt.web.entries import Entries

if TYPE_CHECKING:
    from osgt.api.release import AnyRelease

Answer = TypeVar("Answer")

#: Seconds that a page may take.
SECONDS = 60.0

#: Seconds until a thread is told once more: an exception in a finaliser is lost.
_AGAIN = 1.0


class StoppedError(BaseException):
    """The work was ended from outside; not an `Exception`, so that nobody takes it for a fault of the work."""


def patiently(gone: threading.Event, work: Callable[[], Answer]) -> Answer:
    """Do some work; StoppedError is raised in it after some time, or once `gone` is set, as it must be in the end."""
    thread, turn, is_over = threading.get_ident(), threading.Lock(), False

    def watch() -> None:
        gone.wait(SECONDS)
        while not is_over:
            with turn:
                if not is_over:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(StoppedError))
            time.sleep(_AGAIN)

    try:
        threading.Thread(target=watch, name="osgt patience", daemon=True).start()
        return work()
    finally:
        is_over = True  # from here on nothing new is raised; what was raised at this very moment arrives in here
        is_stopped = is_settled = False
        while not is_settled:
            try:
                with turn:
                    pass
                for _ in range(2):
                    pass
                is_settled = True
            except StoppedError:
                is_stopped = True
        if is_stopped:
            raise StoppedError


#: Finished jobs that can still be looked at.
_MOST = 50


@dataclass
class Job:
    """One release, and what became of it."""

    key: str
    title: str
    #: What the page goes back to.
    entries: Entries
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    result: Any = None
    #: Asks the engine how far it is, in percent.
    ask: Callable[[], float | None] = lambda: None
    thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether it is still at work."""
        return self.ended is None

    @property
    def progress(self) -> float | None:
        """The progress of the engine, in percent; None if it does not say, or has just finished."""
        try:
            return self.ask()
        except Exception:
            return None

    @property
    def seconds(self) -> float:
        """The seconds that it has taken so far, or took."""
        return (self.ended or time.monotonic()) - self.began


class Jobs:
    """The jobs of this start of the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._begun: set[str] = set()
        #: Held by who looks whether a job has begun, checks what it would do, and begins it. Without it, the second of
        #: two clicks would be told that nothing was charged, while the first is at work.
        self.turn = threading.Lock()

    def has_begun(self, key: str) -> bool:
        """Whether there was a job with this key, even if it is forgotten by now."""
        with self._lock:
            return key in self._begun

    def get(self, key: str) -> Job | None:
        """The job with this key; None if there is none."""
        with self._lock:
            return self._jobs.get(key)

    def begin(self, job: Job, run: Callable[[Job], Any]) -> None:
        """Run something in the background; its key must be new."""
        with self._lock:
            if job.key in self._begun:
                raise ValueError(f"job {job.key!r} has begun before")
            self._begun.add(job.key)
            self._jobs[job.key] = job
            while len(self._jobs) > _MOST:
                done = next((old for old, other in self._jobs.items() if not other.is_running), None)
                if done is None:
                    break
                del self._jobs[done]

        def work() -> None:
            try:
                job.result = run(job)
            finally:
                job.ended = time.monotonic()

        # A daemon: whoever ends the server a second time does not want to wait.
        job.thread = threading.Thread(target=work, name="osgt release", daemon=True)
        job.thread.start()

    def running(self) -> list[Job]:
        """The jobs that are at work."""
        with self._lock:
            return [job for job in self._jobs.values() if job.is_running]


@dataclass(frozen=True)
class Result:
    """The result of a job: a release with its files, or why there is none.

    `outcome` is "done", "refused" (nothing was charged), "nothing" (charged, or perhaps, and nothing came out) or
    "left" (the tables are made, and the words say what is left to do).
    """

    outcome: str
    words: str = ""
    made: "AnyRelease | None" = None
    files: tuple[Path, ...] = ()
    #: The query file with the limits that the release has chosen; None if all were given.
    limited: QueryFile | None = None
    warnings: tuple[str, ...] = field(default=())


def title(request: Request) -> str:
    """The charge, and the ledger that it goes to, in words."""
    data, budget = request.query.dataset, request.file.budget
    to = "no ledger" if data.ledger is None else f"{data.dataset!r} in {data.ledger.name}"
    return f"ε = {budget.epsilon:.15g}, δ = {budget.delta:.15g}, charged to {to}"


def default_files(source: str) -> tuple[str, str]:
    """The names of the table and the report, if none are given: after the data, and not those of files that exist."""
    stem = "table" if names_server(source) else re.sub(r"\W+", "-", Path(source).stem).strip("-") or "table"
    tries = (f"{stem}-published{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    name = next(name for name in tries if not any(map(os.path.lexists, (f"{name}.csv", f"{name}.html"))))
    return f"{name}.csv", f"{name}.html"


def with_files(file: QueryFile) -> QueryFile:
    """Make a copy that has names for the table and the report."""
    usual = dict(zip(("out", "report"), default_files(file.data.source), strict=True))
    return with_parts(file, {"output": {**usual, **file.output.given()}}, [])


def prepare(file: QueryFile) -> Request:
    """Refuse what a release would refuse: an error in words. Opens data and ledger anew; reads and charges nothing."""
    used = tuple(files_used(file))
    targets = release_targets(
        file,
        lambda key, path, suffixes: Target(
            path, suffixes, apart=used, name=f"output.{key}", option="another name, or removing it first,"
        ),
    )
    request = Request.of(file, file.data.ledger, targets)
    try:
        request.query.check_release(request.plan)
    except BaseException:
        request.close()
        raise
    return request


def release(request: Request, job: Job) -> Result:
    """Charge, read, add noise, write and settle; what becomes of it, truthfully."""
    data = request.query.dataset
    job.ask = lambda: data.engine.progress(data.table.connection)
    try:
        published = request.publish()
    except UnwrittenError as error:
        return Result("left" if error.is_kept else "nothing", str(error))
    except (NothingReleasedError, TooFewUnitsError, LostAnswerError) as error:
        return Result("nothing", words_of(error))
    except USER_ERRORS as error:
        return Result("refused", refusal(error))
    finally:
        request.close()
    made, words = published.release, published.left_to_do
    warnings = tuple(made.data_warnings)
    limited = None
    if request.plan.choice is not None:
        limited = fill_limits(request.file, {name: table.query for name, table in made.tables.items()})
    return Result("done" if words is None else "left", words or "", made, published.files, limited, warnings)


def preview(file: QueryFile) -> Any:
    """Exact figures on what limits cut off. Opens the data anew, as all that reads them does."""
    query = build_query(file)
    try:
        return query.preview()
    finally:
        close_data(query)


def refusal(error: BaseException) -> str:
    """Compose the message of a refusal, where nothing was charged."""
    words = words_of(error)
    if not words.lower().startswith("refused"):
        words = f"refused, nothing was charged: {words}"
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "?", "!")) else ".")
