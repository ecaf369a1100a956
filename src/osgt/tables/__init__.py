"""Private tables: a data set, a query on it, its plan and its release."""

from osgt.tables.dataset import Dataset

__all__ = ["Dataset"]
