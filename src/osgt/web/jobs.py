"""Work that outlasts a request, and work that must not.

Jobs run in the background, are charged and read the data: releases, each begun once. A page that offers to publish
carries a key of its own. Whatever arrives twice with the same key (a double click, a page that is loaded again) is the
same job, so nothing is charged twice by accident.

What is computed for a page ends when it takes too long, and when the browser is gone. Plans of hundreds of columns take
hours. A thread cannot be ended from outside, but Python can raise an exception in it: between any two of its steps, so
that no loop has to ask whether to go on. What is charged never runs in there.
"""

import ctypes
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from osgt.web.entries import Entries

Result = TypeVar("Result")

#: Seconds that a page may take.
SECONDS = 60.0

#: Seconds until a thread is told once more: an exception in a finaliser is lost.
_AGAIN = 1.0


class StoppedError(BaseException):
    """The work was ended from outside; not an `Exception`, so that nobody takes it for a fault of the work."""


def patiently(gone: threading.Event, work: Callable[[], Result]) -> Result:
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
                done = next((old for old, each in self._jobs.items() if not each.is_running), None)
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
