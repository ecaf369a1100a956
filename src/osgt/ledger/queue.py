"""Writers of one file wait in a queue: a lock beside the file, which the kernel hands on in the order of asking.

SQLite itself lets waiting writers try again after pauses of their own, so that whoever never pauses wins. The lock here
only makes waiting fair: what keeps the ledger right are SQLite's own locks.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks alone
    fcntl = None  # type: ignore[assignment]


@contextmanager
def turn(path: str, seconds: float) -> Iterator[None]:
    """Hold the lock `path`; raise TimeoutError after so many seconds of waiting for it.

    Whoever is next holds a second lock while waiting for the first: a process that comes back at once cannot overtake.
    """
    end = time.monotonic() + seconds
    with _held(f"{path}-next", end) as release_next, _held(path, end):
        release_next()
        yield


@contextmanager
def _held(path: str, end: float) -> Iterator[Callable[[], None]]:
    """Hold a lock until the end of the block, or until the function that is given is called."""
    descriptor = _opened(path)
    if descriptor is not None and not _Waiting(descriptor).done(max(end - time.monotonic(), 0.0)):
        raise TimeoutError
    with ExitStack() as stack:
        if descriptor is not None:
            stack.callback(os.close, descriptor)
        yield stack.close


def _opened(path: str) -> int | None:
    """The lock file, which nobody needs to write to; None where there cannot be one."""
    if fcntl is None:
        return None
    try:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


class _Waiting:
    """Waiting for a lock with an end: in a thread of its own, which lets go of the lock if it comes too late."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._guard = threading.Lock()
        self._got = self._given_up = False

    def done(self, seconds: float) -> bool:
        """Whether the lock was had in time. If not, the descriptor is closed by the thread."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            pass
        except OSError:  # a file system without such locks
            return True
        thread = threading.Thread(target=self._wait, daemon=True)
        thread.start()
        try:
            thread.join(seconds)
        except BaseException:
            if not self._gave_up():
                os.close(self._descriptor)
            raise
        return not self._gave_up()

    def _gave_up(self) -> bool:
        with self._guard:
            self._given_up = not self._got
            return self._given_up

    def _wait(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._guard:
            self._got = True
            if self._given_up:
                os.close(self._descriptor)
