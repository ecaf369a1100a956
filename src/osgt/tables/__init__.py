"""Private tables: a data set, a query on it, its plan and its release. Ibis and Arrow are imported when needed."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osgt.tables.dataset import Dataset

__all__ = ["Dataset"]

for _name in ("ibis", "pyarrow"):
    if find_spec(_name) is None:
        raise ImportError(f"tables need more packages: pip install 'osgt[tables]' (there is no {_name})")


def __getattr__(name: str) -> Any:
    if name != "Dataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from osgt.tables.dataset import Dataset  # noqa: PLC0415 - engines can be listed without

    return Dataset
