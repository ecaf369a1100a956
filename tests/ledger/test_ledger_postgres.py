"""PostgreSQL: users with the least rights, and an end to all waiting when a client or the server freezes."""

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from charges import laplace
from osgt import Ledger
from osgt.ledger import BudgetExceeded, LedgerError
from osgt.ledger.store import postgres

#: A client that locks a data set and freezes; when it is thawed it says what became of its transaction.
FROZEN = textwrap.dedent(
    """
    import os, signal, sys
    from osgt import Ledger
    from osgt.ledger.store import chain, postgres
    postgres.IDLE = 1.0

    def freeze(connection):
        chain.find(connection, "flights", lock=True)
        print("locked", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        connection.exec_driver_sql("SELECT 1")

    try:
        Ledger(sys.argv[1])._database.write(freeze)
    except Exception as error:
        print(type(error).__name__, flush=True)
    """
)


@pytest.fixture
def as_role(postgres_database):
    """A new user of the server with the rights of `Ledger.grants`: gives the ledger as this user sees it."""
    name, made = 'O\'Neil "x"', []

    def connect(*, charge):
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'analyst'").format(sql.Identifier(name)))
            connection.execute(Ledger.grants(name, charge=charge))
        made.append(name)
        return Ledger(f"postgresql://O'Neil%20%22x%22:analyst@{postgres_database.split('@')[1]}")

    yield connect
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        for role in made:
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


@pytest.fixture
def opened(postgres_database):
    with Ledger(postgres_database) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        yield ledger


class TestRights:
    def test_an_analyst_charges_but_does_not_rule(self, opened, as_role, postgres_database):
        with as_role(charge=True) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)  # is there
            ledger.reserve("flights", laplace(0.1), query="q", actor="ann").settle("hash")
            ledger.reserve("flights", laplace(0.1), query="q").cancel()
            with pytest.raises(BudgetExceeded):
                ledger.reserve("flights", laplace(5), query="q")
            for act in (
                lambda: ledger.open("trains", epsilon=1, delta=1e-6),
                lambda: ledger.change_budget("flights", epsilon=9, delta=1e-6, reason="more"),
                lambda: ledger.change_tables("flights", add=["x"]),
                lambda: ledger.record_loss("flights", reason="none"),
            ):
                with pytest.raises(LedgerError, match=r"this user may not change it.*permission denied"):
                    act()
            assert ledger.verify().ok
            first = ledger.history("flights")[0]
            assert (first.actor, first.session_user) == ("ann", 'O\'Neil "x"')
        assert opened.spent("flights").budget_epsilon == 3
        url = f"postgresql://O'Neil%20%22x%22:analyst@{postgres_database.split('@')[1]}"
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in (
                "UPDATE osgt_datasets SET name = 'planes'",
                "UPDATE osgt_datasets SET head_sequence = 1",
                "UPDATE osgt_schema SET version = 2",
                "DELETE FROM osgt_entries",
                "INSERT INTO osgt_entries SELECT dataset, sequence + 100, kind, refers_to, content, hash, hash "
                "FROM osgt_entries WHERE sequence = 1",
                "INSERT INTO osgt_datasets VALUES (2, 'trains', 0, '')",
                "ALTER TABLE osgt_entries DISABLE TRIGGER ALL",
                "DROP TRIGGER osgt_entries_follow ON osgt_entries",
            ):
                with pytest.raises(psycopg.Error):
                    connection.execute(statement)
        assert opened.verify().ok

    def test_a_user_cannot_charge_in_the_name_of_another(self, opened, as_role, monkeypatch):
        from osgt.ledger.store import chain  # noqa: PLC0415

        canonical = chain.canonical
        monkeypatch.setattr(chain, "canonical", lambda values: canonical({**values, "session_user": "postgres"}))
        with as_role(charge=True) as ledger, pytest.raises(LedgerError, match="names the user who adds it"):
            ledger.reserve("flights", laplace(0.1), query="q")

    def test_a_reader_shows_and_verifies(self, opened, as_role):
        opened.reserve("flights", laplace(0.1), query="q")
        with as_role(charge=False) as ledger:
            assert ledger.verify(opened.verify().heads).ok
            assert len(ledger.history("flights")) == ledger.spent("flights").releases == 1
            with pytest.raises(LedgerError, match="this user may not change it"):
                ledger.reserve("flights", laplace(0.1), query="q")


class TestFrozen:
    @staticmethod
    def signalled(processes, number):
        """Signal processes, of which some may have ended."""
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def test_a_client_that_freezes_loses_its_lock(self, opened, postgres_database):
        command = [sys.executable, "-c", FROZEN, postgres_database]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout.readline() == "locked\n"
            opened.reserve("flights", laplace(0.1), query="q")
            os.kill(client.pid, signal.SIGCONT)
            assert client.stdout.readline() == "LedgerError\n"
        assert opened.spent("flights").releases == 1

    def test_waiting_for_a_lock_ends(self, opened, postgres_database, monkeypatch):
        monkeypatch.setattr(postgres, "LOCK", 0.5)
        with psycopg.connect(postgres_database) as other:
            other.execute("SELECT * FROM osgt_datasets FOR UPDATE")
            with pytest.raises(LedgerError, match="did not answer in time: another client holds this data set"):
                opened.reserve("flights", laplace(0.1), query="q")
        opened.reserve("flights", laplace(0.1), query="q")

    def test_a_server_that_freezes(self, opened, postgres_database, monkeypatch):
        opened.close()
        opened.spent("flights")  # a connection waits in the pool
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            own = connection.info.backend_pid
            postmaster = int(Path(f"/proc/{own}/stat").read_text().split(")")[1].split()[1])
            query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            frozen = [postmaster, *(pid for (pid,) in connection.execute(query).fetchall())]
        try:
            self.signalled(frozen, signal.SIGSTOP)
            # So short only while nobody answers: before and after, a busy machine may take longer.
            with monkeypatch.context() as patch:
                patch.setattr(postgres, "ANSWER", 1.0)
                patch.setattr(postgres, "CONNECT", 2.0)
                for ledger in (opened, Ledger(postgres_database)):
                    with pytest.raises(LedgerError, match="cannot be reached, or stopped answering"):
                        ledger.reserve("flights", laplace(0.1), query="q")
        finally:
            self.signalled(frozen, signal.SIGCONT)
        opened.reserve("flights", laplace(0.1), query="q")
        assert opened.verify().ok
