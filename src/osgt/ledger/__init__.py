"""What has been spent of each data set's budget, durably."""

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError('the ledger needs SQLAlchemy: pip install "osgt[tables]"') from error

from osgt.ledger.errors import BudgetExceeded, DamagedLedgerError, LedgerError, LostAnswerError, OtherSubjectError
from osgt.ledger.events import Event
from osgt.ledger.ledger import Ledger
from osgt.ledger.records import Overview, ReleaseRecord, Spending
from osgt.ledger.reservation import Reservation
from osgt.ledger.verification import Verification

__all__ = [
    "BudgetExceeded",
    "DamagedLedgerError",
    "Event",
    "Ledger",
    "LedgerError",
    "LostAnswerError",
    "OtherSubjectError",
    "Overview",
    "ReleaseRecord",
    "Reservation",
    "Spending",
    "Verification",
]
