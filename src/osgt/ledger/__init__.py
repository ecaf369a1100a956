"""The ledger: a durable record of what has been spent of each data set's budget."""

from importlib.util import find_spec

from osgt.support.errors import missing

if find_spec("sqlalchemy") is None:
    raise missing("the ledger", "SQLAlchemy", "tables")

from osgt.ledger.errors import BudgetExceeded, DamagedLedgerError, LedgerError, LostAnswerError, OtherSubjectError
from osgt.ledger.history import Event, Overview, ReleaseRecord, Spending
from osgt.ledger.instalments import HandedOutError
from osgt.ledger.ledger import Ledger
from osgt.ledger.reservation import Reservation
from osgt.ledger.snapshot import Restored, Verification

__all__ = [
    "BudgetExceeded",
    "DamagedLedgerError",
    "Event",
    "HandedOutError",
    "Ledger",
    "LedgerError",
    "LostAnswerError",
    "OtherSubjectError",
    "Overview",
    "ReleaseRecord",
    "Reservation",
    "Restored",
    "Spending",
    "Verification",
]
