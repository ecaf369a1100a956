"""The errors of a ledger. Without a reservation, whatever the reason: nothing may be released."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from osgt.support.errors import OsgtError

if TYPE_CHECKING:
    from osgt.ledger.reservation import Reservation


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
        resume: "Callable[[LostAnswerError], Reservation] | None" = None,
    ) -> None:
        super().__init__(message)
        self.otherwise = otherwise
        self._resume = resume

    def reserve(self) -> "Reservation":
        """Go on with the charge if it stands, and charge it now if not: never twice.

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
