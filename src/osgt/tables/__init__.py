"""Private tables: a data set, a query on it, its plan and its release."""

try:
    import ibis as _ibis  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(f"tables need Ibis, DuckDB and pyarrow: pip install 'osgt[tables]' ({error})") from error

from osgt.tables.dataset import Dataset

__all__ = ["Dataset"]
