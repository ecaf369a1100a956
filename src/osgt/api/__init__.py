"""The public classes of private tables: from a data set to its release and report."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osgt.api.data_file import start
    from osgt.api.dataset import Dataset
    from osgt.api.publication import Publication
    from osgt.data.derived import cut, month, quarter, recode, weekday, year

__all__ = ["Dataset", "Publication", "cut", "month", "quarter", "recode", "start", "weekday", "year"]

#: Where each name is: engines can be listed without any of them.
_HOMES = {"Dataset": "api.dataset", "Publication": "api.publication", "start": "api.data_file"}
_HOMES |= dict.fromkeys(("cut", "month", "quarter", "recode", "weekday", "year"), "data.derived")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"osgt.{_HOMES[name]}"), name)
