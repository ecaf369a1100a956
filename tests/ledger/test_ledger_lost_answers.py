"""Commits whose answer is lost: what stands is found out, nothing is charged twice, and what is not known is said."""

import pickle
import shutil
import sqlite3

import pytest

from charges import laplace
from osgt import Ledger
from osgt.ledger import DamagedLedgerError, LedgerError, LostAnswerError, accounts
from proxy import proxy_for


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(accounts, "PAUSES", (0.0, 0.1, 0.1))


@pytest.fixture
def proxy(postgres_database):
    with Ledger(postgres_database) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
    with proxy_for(postgres_database) as made:
        yield made


class Commits:
    """The COMMITs of an SQLite ledger: real ones, after or before which an error comes."""

    def __init__(self, ledger):
        ledger.spent("flights")
        self._dialect = ledger._database.engine().dialect
        self._commit = self._dialect.do_commit
        self._dialect.do_commit = self
        self.cut, self.cuts = "answer", 0
        self._changes = 0

    def __call__(self, connection):
        wrote = connection.total_changes > self._changes
        self._changes = connection.total_changes
        if not self.cuts or not wrote:
            return self._commit(connection)
        self.cuts -= 1
        if self.cut == "answer":
            self._commit(connection)
        raise sqlite3.OperationalError("disk I/O error")


@pytest.fixture(params=["sqlite", "postgresql"])
def faulty(request):
    """A ledger, and what can cut its next commits."""
    if request.param == "sqlite":
        ledger = request.getfixturevalue("sqlite_ledger")
        yield ledger, Commits(ledger)
        return
    proxy = request.getfixturevalue("proxy")
    with Ledger(proxy.url) as ledger:
        yield ledger, proxy


@pytest.mark.parametrize("cut", ["answer", "question"])
def test_a_charge_stands_once(faulty, cut):
    ledger, fault = faulty
    ledger.reserve("flights", laplace(0.1), query="before")
    fault.cut, fault.cuts = cut, 1
    reservation = ledger.reserve("flights", laplace(0.2), query="q")
    assert fault.cuts == 0
    assert [release.query for release in ledger.history("flights")] == ["before", "q"]
    assert ledger.history("flights")[1].sequence == reservation.sequence
    assert ledger.spent("flights").epsilon == pytest.approx(0.3, rel=1e-3)
    reservation.cancel()  # its owner is known
    ledger.reserve("flights", laplace(0.2), query="after").settle("hash")
    assert ledger.verify().ok


def test_a_charge_that_was_found_is_missed_in_an_older_copy(sqlite_ledger, tmp_path):
    """Its answer was lost, and the release went on: this user has seen it."""
    commits, path = Commits(sqlite_ledger), sqlite_ledger.name
    shutil.copy(path, tmp_path / "old.db")
    commits.cuts = 1
    sqlite_ledger.reserve("flights", laplace(0.1), query="q").reading()
    assert commits.cuts == 0
    sqlite_ledger.close()
    shutil.copy(tmp_path / "old.db", path)
    with Ledger(path) as other, pytest.raises(DamagedLedgerError):
        other.reserve("flights", laplace(0.1), query="q")


@pytest.mark.parametrize("cut", ["answer", "question"])
def test_ends_are_recorded_once(faulty, cut):
    ledger, fault = faulty
    first, second = (ledger.reserve("flights", laplace(0.1), query="q") for _ in range(2))
    fault.cut, fault.cuts = cut, 1
    first.settle("hash", output="a.csv", output_hashes=["abc"])
    fault.cuts = 1
    second.cancel()
    assert fault.cuts == 0
    assert [release.status for release in ledger.history("flights")] == ["settled", "cancelled"]
    assert ledger.verify().entries == 5
    assert ledger.verify().ok


def test_what_was_not_written_is_said(faulty):
    ledger, fault = faulty
    fault.cut, fault.cuts = "question", 2  # neither this attempt nor the next
    with pytest.raises(LedgerError, match=r"Nothing was charged, and nothing may be released") as error:
        ledger.reserve("flights", laplace(0.1), query="q")
    assert not isinstance(error.value, LostAnswerError)
    assert ledger.history("flights") == []


@pytest.mark.parametrize("cut", ["answer", "question"])
class TestNobodyKnows:
    """The server is gone with the answer, and does not come back in time."""

    @pytest.fixture
    def unknown(self, proxy, cut):
        with Ledger(proxy.url) as ledger:
            ledger.spent("flights")
            proxy.cut, proxy.cuts, proxy.down_after_cut = cut, 1, True
            with pytest.raises(LostAnswerError) as error:
                ledger.reserve("flights", laplace(0.2), query="q")
            assert "The charge may stand: see `osgt ledger show " in str(error.value)
            assert "nothing may be released" in str(error.value)
            yield ledger, error.value, proxy

    def test_going_on_later(self, unknown):
        ledger, error, proxy = unknown
        with pytest.raises(LostAnswerError) as later:
            error.reserve()  # still away
        proxy.down = False
        reservation = later.value.reserve()
        assert [release.sequence for release in ledger.history("flights")] == [reservation.sequence]
        reservation.reading()
        reservation.settle("hash")
        assert ledger.verify().ok
        for used in (error, later.value):  # a second reservation for the same charge would be a second release
            with pytest.raises(ValueError, match="one charge is for one release"):
                used.reserve()
        assert len(ledger.history("flights")) == 1

    def test_giving_up(self, unknown):
        ledger, error, proxy = unknown
        proxy.down = False
        error.reserve().cancel()
        assert ledger.spent("flights").releases == 0

    def test_elsewhere_it_only_tells(self, unknown):
        copy = pickle.loads(pickle.dumps(unknown[1]))
        assert str(copy) == str(unknown[1])
        with pytest.raises(ValueError, match="nothing can be reserved"):
            copy.reserve()


def test_a_file_that_is_moved_away_during_the_commit(sqlite_ledger):
    commits = Commits(sqlite_ledger)
    path = sqlite_ledger._database.path
    commit = commits._commit

    def moving(connection):
        commit(connection)
        if path.exists() and connection.total_changes:
            path.rename(path.with_name("moved.db"))

    commits._commit = moving
    with pytest.raises(LostAnswerError, match=r"was removed .*may stand in the file that was there.*may stand: see"):
        sqlite_ledger.reserve("flights", laplace(0.1), query="q")
    with Ledger(path.with_name("moved.db")) as moved:
        assert len(moved.history("flights")) == 1
