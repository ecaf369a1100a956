"""When the answer to a commit is lost: find out what stands, and never write it twice."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from osgt.ledger.errors import DamagedLedgerError, LedgerError, LostAnswerError

if TYPE_CHECKING:
    from osgt.ledger.reservation import Reservation

Result = TypeVar("Result")

#: Seconds before each look at what stands: a server that starts again needs some.
PAUSES = (0.0, 0.5, 1.5, 4.0)

#: Times that something is written before we give up, if it is known each time that it does not stand.
_WRITES = 2


def written_once(
    write: Callable[[], Result | None], find: Callable[[], Result | None], *, lost: LostAnswerError | None = None
) -> Result | None:
    """Write something so that it stands once, also if answers are lost on the way.

    `find` looks for it, where no earlier attempt can still be under way (under the lock of the data set). `lost` is
    that of an earlier call whose end is not known. Raises LostAnswerError if it cannot be found out what stands.
    """
    for _ in range(_WRITES):
        if lost is not None:
            found = _found(find, lost)
            if found is not None:
                return found
        try:
            return write()
        except LostAnswerError as error:
            lost = error
    assert lost is not None
    found = _found(find, lost)
    if found is None:
        raise lost.otherwise or lost
    return found


def _found(find: Callable[[], Result | None], lost: LostAnswerError) -> Result | None:
    for pause in PAUSES:
        time.sleep(pause)
        try:
            return find()
        except LedgerError:
            continue
    raise lost


class Again:
    """A charge whose end is not known, and the right to go on with it: once, in the process that wanted it.

    Two reservations for one charge would be two releases, so nobody else ever gets this right.
    """

    def __init__(self, reserve: Callable[[LostAnswerError], "Reservation"]) -> None:
        self._reserve: Callable[[LostAnswerError], Reservation] | None = reserve
        self._process = os.getpid()
        self._lock = threading.Lock()

    def __call__(self, lost: LostAnswerError) -> "Reservation":
        with self._lock:
            reserve, self._reserve = self._reserve, None
        if reserve is None or os.getpid() != self._process:
            raise ValueError(
                "one charge is for one release: this one was asked for again before, or by another process. Make a new "
                "reservation"
            )
        return reserve(lost)


@contextmanager
def nothing_charged() -> Iterator[None]:
    """Say with every error of a ledger that nothing was charged, unless that is not known."""
    try:
        yield
    except (LostAnswerError, DamagedLedgerError):
        raise
    except LedgerError as error:
        text = str(error).rstrip(".")
        raise type(error)(f"{text}. Nothing was charged, and nothing may be released.") from error
