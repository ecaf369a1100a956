"""The errors of a ledger, and what those of its database mean.

Without a reservation, whatever the reason: nothing may be released.
"""

from collections.abc import Callable
from typing import Any

from osgt.support.errors import OsgtError
from osgt.support.locations import wrong_method


class BudgetExceeded(OsgtError, ValueError):  # noqa: N818 - it reads better where it is caught
    """A release was refused: with it the budget of the data set would be exceeded. Nothing was charged.

    Attributes
    ----------
    dataset : str
        Name of the data set.
    noise_factor : float or None
        The same release with noise so many times as large would fit; None if none would.
    """

    def __init__(self, message: str, *, dataset: str, noise_factor: float | None) -> None:
        super().__init__(message)
        self.dataset = dataset
        self.noise_factor = noise_factor


class OtherSubjectError(OsgtError, ValueError):
    """A release was refused: it is about other people, another table or another relation than the budget. Nothing
    was charged."""


class LedgerError(OsgtError, OSError):
    """The ledger cannot be read or written."""


class NoLedgerError(LedgerError):
    """There is no ledger yet."""


class LostAnswerError(LedgerError):
    """The database did not say whether it has committed: what was written may stand, or not.

    Attributes
    ----------
    otherwise : LedgerError or None
        What the error is if nothing stands.
    """

    def __init__(
        self,
        message: str,
        *,
        otherwise: LedgerError | None = None,
        resume: "Callable[[LostAnswerError], Any] | None" = None,
    ) -> None:
        super().__init__(message)
        self.otherwise = otherwise
        self._resume = resume

    def reserve(self) -> Any:
        """Go on with the charge if it stands, and charge it now if not: never twice. Returns the reservation.

        Only for an error of `Ledger.reserve`, once, in the process that got it. To give the release up, cancel what
        this returns.
        """
        if self._resume is None:
            raise ValueError("this was not an answer to a charge: nothing can be reserved with it")
        return self._resume(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return LostAnswerError, (str(self),)  # elsewhere it only tells


class DamagedLedgerError(LedgerError):
    """The ledger's rows are not what was once written to them."""


#: Signs of a cause in the message of a database, the error that it is, and what to do.
_CAUSES: list[tuple[tuple[str, ...], type[LedgerError], str]] = [
    (
        ("readonly database", "read-only", "permission denied"),
        LedgerError,
        "the ledger {name} cannot be written: this user may not change it, or its folder (in which SQLite keeps files "
        "beside it). Grant that (PostgreSQL: `osgt ledger grants`), or name another ledger.",
    ),
    (
        ("unable to open database file",),
        LedgerError,
        "the ledger {name} cannot be opened: its folder does not exist, or this user may not use the folder or the "
        "file. Make the folder, grant that, or name another path.",
    ),
    (
        ("disk is full", "no space left", "could not extend file", "disk i/o error"),
        LedgerError,
        "the ledger {name} cannot be written: the disk is full, or fails. Make room and try again; what was charged "
        "before still stands.",
    ),
    (
        ("not a database", "malformed", "corrupt", "invalid page", "encrypted"),
        DamagedLedgerError,
        "{name} is not a database, or is damaged. Check the path; if it is right, restore the ledger from a backup "
        "(`osgt ledger restore`) and run `osgt ledger verify`.",
    ),
    (
        ("database is locked", "database table is locked"),
        LedgerError,
        "the ledger {name} was in use by others for {patience} seconds. Try again; a program that has a query on it "
        "open (a viewer of SQLite files) keeps others waiting. If nobody uses it, the file may be on a network drive, "
        "which SQLite cannot share: use PostgreSQL there.",
    ),
    (
        ("lock timeout", "idle-in-transaction timeout", "statement timeout"),
        LedgerError,
        "the ledger {name} did not answer in time: another client holds this data set for more than {lock:g} seconds, "
        "or the server is overloaded. Try again.",
    ),
    (
        ("never changed", "moves on to its next entry", "follows the last one", "names the user"),
        LedgerError,
        "entries of the ledger {name} are never changed or deleted, and each follows the last one.",
    ),
    (
        ("connection", "could not translate host", "authentication", "does not exist"),
        LedgerError,
        "the ledger {name} cannot be reached, or stopped answering. Check the address, the user and the password, and "
        "that the server runs.",
    ),
]


def explain(ledger: str, message: str, *, patience: float, lock: float) -> LedgerError:
    """Explain what a database says to whoever wanted to charge a release; the seconds are those that were waited."""
    said = f"(The database says: {message})"
    method = wrong_method(message.lower())
    if method is not None:
        return LedgerError(f"the ledger {ledger} cannot be reached: {method}. {said}")
    for signs, kind, advice in _CAUSES:
        if any(sign in message.lower() for sign in signs):
            return kind(f"{advice.format(name=ledger, patience=patience, lock=lock)} {said}")
    return LedgerError(f"the ledger {ledger} cannot be used. {said}")
