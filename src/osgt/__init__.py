"""Publish statistics about people with the least noise that a privacy budget allows."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osgt.api import Dataset, Publication, cut, month, quarter, recode, start, weekday, year
    from osgt.api.series import publish
    from osgt.auditing.audit import audit
    from osgt.calibration import calibrate, calibrate_delta, calibrate_epsilon, compare
    from osgt.ledger import Ledger
    from osgt.mechanism import Mechanism
    from osgt.noise import OSGT, DiscreteOSGT
    from osgt.privacy import PrivacyProfile
    from osgt.support.errors import OsgtWarning

    __version__: str

__all__ = [
    "OSGT",
    "Dataset",
    "DiscreteOSGT",
    "Ledger",
    "Mechanism",
    "OsgtWarning",
    "PrivacyProfile",
    "Publication",
    "__version__",
    "audit",
    "calibrate",
    "calibrate_delta",
    "calibrate_epsilon",
    "compare",
    "cut",
    "month",
    "publish",
    "quarter",
    "recode",
    "start",
    "weekday",
    "year",
]

#: Where each name is: imported when it is first used, so that a bare `import osgt` takes no time.
_HOMES = {
    "OSGT": "noise",
    "Dataset": "api",
    "DiscreteOSGT": "noise",
    "Ledger": "ledger",
    "Mechanism": "mechanism",
    "OsgtWarning": "support.errors",
    "PrivacyProfile": "privacy",
    "Publication": "api",
    "audit": "auditing",
    "calibrate": "calibration",
    "calibrate_delta": "calibration",
    "calibrate_epsilon": "calibration",
    "compare": "calibration",
    "cut": "api",
    "month": "api",
    "publish": "api.series",
    "quarter": "api",
    "recode": "api",
    "start": "api",
    "weekday": "api",
    "year": "api",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - takes a while

        return version(__name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_advice(name)}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def _advice(name: str) -> str:
    """The name that was probably meant; nothing for the names that Python itself asks for."""
    if name.startswith("_"):
        return ""
    from osgt.support.errors import PACKAGE  # noqa: PLC0415 - only where a name is wrong
    from osgt.support.text import nearest  # noqa: PLC0415 - only where a name is wrong

    return f": {PACKAGE[name]}" if name in PACKAGE else nearest(name, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
