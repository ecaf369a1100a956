"""Private tables: a data set, a query on it, its plan and its release. Ibis and Arrow are imported when needed."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from osgt.extras import missing

if TYPE_CHECKING:
    from osgt.tables.dataset import Dataset
    from osgt.tables.derived import cut, month, quarter, recode, weekday, year
    from osgt.tables.publication import Publication

__all__ = ["Dataset", "Publication", "cut", "month", "quarter", "recode", "weekday", "year"]

#: Where each name is: engines can be listed without any of them.
_HOMES = {"Dataset": "dataset", "Publication": "publication"}
_HOMES |= dict.fromkeys(("cut", "month", "quarter", "recode", "weekday", "year"), "derived")

for _name in ("ibis", "pyarrow"):
    if find_spec(_name) is None:
        raise missing("this work on tables", _name, "tables")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
