"""What has been spent of each data set's budget, durably."""

from importlib.util import find_spec

from osgt.extras import missing

if find_spec("sqlalchemy") is None:
    raise missing("the ledger", "SQLAlchemy", "tables")

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
