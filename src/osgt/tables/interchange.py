"""A table as other libraries take it: Arrow, pandas, polars, and all that know the Arrow PyCapsule interface."""

from typing import Any

import pyarrow as pa


class Interchange:
    """What an object with an Arrow table can be turned into.

    `pl.DataFrame(release)`, `pa.table(release)` and `SELECT … FROM release` in DuckDB read it as it is.
    """

    table: pa.Table

    def to_arrow(self) -> pa.Table:
        """The table as a pyarrow table."""
        return self.table

    def to_pandas(self) -> Any:
        """The table as a pandas frame."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """The table as a polars frame."""
        try:
            import polars  # noqa: PLC0415 - nothing else needs it
        except ImportError:
            raise ImportError("to_polars needs polars: pip install polars") from None
        return polars.DataFrame(self)

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)
