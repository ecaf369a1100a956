"""Ledgers for the tests: the same tests on SQLite and on PostgreSQL."""

import pytest

from osgt import Ledger


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, tmp_path):
    """Where a new ledger may be made."""
    if request.param == "sqlite":
        yield str(tmp_path / "budget.db")
        return
    from postgres_server import new_schema  # noqa: PLC0415 - the others need neither server nor driver

    with new_schema(request.getfixturevalue("postgres_url")) as url:
        yield url


@pytest.fixture
def ledger(location):
    """A ledger with one data set: flights, ε = 3, δ = 1e-6."""
    with Ledger(location) as made:
        made.open("flights", epsilon=3, delta=1e-6)
        yield made


@pytest.fixture
def sqlite_ledger(tmp_path):
    """The same, on SQLite only."""
    with Ledger(tmp_path / "budget.db") as made:
        made.open("flights", epsilon=3, delta=1e-6)
        yield made


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    """A folder for state of their own, for all tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
