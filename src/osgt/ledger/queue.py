"""Writers of one file wait in a queue: a lock beside the file, which the kernel hands on in the order of asking.

SQLite itself lets waiting writers try again after pauses of their own, so that whoever never pauses wins. The lock here
only makes waiting fair: what keeps the ledger right are SQLite's own locks.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks alone
    fcntl = None  # type: ignore[assignment]


@contextmanager
def turn(path: str, seconds: float) -> Iterator[None]:
    """Hold the lock `path`; raise TimeoutError after so many seconds of waiting for it."""
    descriptor = _opened(path)
    if descriptor is None:
        yield
        return
    waiting = _Waiting(descriptor)
    if not waiting.done(seconds):
        raise TimeoutError
    try:
        yield
    finally:
        os.close(descriptor)


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
