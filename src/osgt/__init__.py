"""Publish statistics about people with the least noise that a privacy budget allows."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from osgt.calibration import calibrate, compare
from osgt.mechanism import Mechanism
from osgt.noise import OSGT, DiscreteOSGT
from osgt.privacy import PrivacyProfile

if TYPE_CHECKING:
    from osgt.ledger import Ledger
    from osgt.tables import Dataset

__all__ = ["OSGT", "Dataset", "DiscreteOSGT", "Ledger", "Mechanism", "PrivacyProfile", "calibrate", "compare"]

#: Names that need the extra "tables": imported when they are first asked for.
_FROM_ROOMS = {"Dataset": "osgt.tables", "Ledger": "osgt.ledger"}


def __getattr__(name: str) -> Any:
    if name not in _FROM_ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM_ROOMS[name]), name)
