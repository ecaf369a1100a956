"""Publish statistics about people with the least noise that a privacy budget allows."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from osgt.calibrate import calibrate, compare
from osgt.mechanism import Mechanism
from osgt.noise import OSGT, DiscreteOSGT
from osgt.privacy import PrivacyProfile

if TYPE_CHECKING:
    from osgt.tables import Dataset

__all__ = ["OSGT", "Dataset", "DiscreteOSGT", "Mechanism", "PrivacyProfile", "calibrate", "compare"]

#: Names that need the extra "tables", imported when they are first used.
_TABLES = {"Dataset": "osgt.tables"}


def __getattr__(name: str) -> Any:
    if name not in _TABLES:
        raise AttributeError(f"module 'osgt' has no attribute {name!r}")
    try:
        return getattr(import_module(_TABLES[name]), name)
    except ImportError as error:
        raise ImportError(f'osgt.{name} needs further packages: pip install "osgt[tables]" ({error})') from error
