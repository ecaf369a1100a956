"""Stand-ins that tell what was done to them: rows that cannot be read, and a ledger that writes down every call."""

import duckdb

from osgt import Dataset
from osgt.data.engines.duckdb import DuckDB

#: What any attempt to read a row ends in.
READ = "a row was read"


def unreadable():
    """A DuckDB connection with a table "people" of known columns, each of whose values is an error."""
    connection = duckdb.connect()
    types = {
        "unit": "BIGINT",
        "city": "VARCHAR",
        "month": "INTEGER",
        "fare": "DOUBLE",
        "tip": "DECIMAL(9, 2)",
        "rides": "BIGINT",
        "member": "BOOLEAN",
        "tags": "VARCHAR[]",
    }
    columns = ", ".join(f"CAST(error('{READ}') AS {kind}) AS {name}" for name, kind in types.items())
    connection.execute(f"CREATE VIEW people AS SELECT {columns} FROM range(3)")
    return connection


def people(**options):
    """The table that cannot be read, as a data set."""
    return Dataset(unreadable(), "unit", table="people", **options)


class SpyReservation:
    """A reservation that says what is done to it."""

    sequence = 7

    def __init__(self, calls, failing):
        self.calls, self.failing = calls, failing

    def _called(self, name, *rest):
        self.calls.append((name, *rest))
        if name in self.failing:
            raise RuntimeError(f"{name} failed")

    def reading(self):
        self._called("reading")

    def settle(self, digest, output=None, output_hashes=()):
        self._called("settle", digest)

    def cancel(self):
        self._called("cancel")


class SpyLedger:
    """A ledger that says what is done to it, and fails where it is told to."""

    def __init__(self, failing=()):
        self.calls, self.failing = [], failing

    @property
    def names(self):
        return [name for name, *_ in self.calls]

    def reserve(self, dataset, charge, *, query, **told):
        self.calls.append(("reserve", dataset, charge, query))
        if "reserve" in self.failing:
            raise RuntimeError("reserve failed")
        return SpyReservation(self.calls, self.failing)


def watch_reading(monkeypatch, calls):
    """Write "read" into `calls` whenever DuckDB is asked for the rows of a release; a rehearsal asks for none."""
    original = DuckDB.fetch

    def noted(*arguments):
        if not arguments[2].endswith("LIMIT 0"):
            calls.append(("read",))
        return original(*arguments)

    monkeypatch.setattr(DuckDB, "fetch", noted)
