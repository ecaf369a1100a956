"""What can go wrong with a ledger. Whatever it is: nothing may be released."""


class BudgetExceeded(ValueError):  # noqa: N818 - it reads better where it is caught
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


class OtherSubjectError(ValueError):
    """A release was refused: it is about other people, another table or another relation than the budget. Nothing
    was charged."""


class LedgerError(OSError):
    """The ledger cannot be read or written."""


class NoLedgerError(LedgerError):
    """There is no ledger yet."""


class LostAnswerError(LedgerError):
    """The database did not say whether it has committed: what was written may stand, or not."""


class DamagedLedgerError(LedgerError):
    """The ledger's rows are not what was once written to them."""
