"""A ledger that was put back to an earlier state: whoever charged it since notices, and nobody else is disturbed."""

import os
import re
import shutil
import stat
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from test_ledger_lost_answers import Commits
from typer.testing import CliRunner

from charges import laplace
from osgt import Ledger
from osgt.cli import app
from osgt.ledger import BudgetExceeded, DamagedLedgerError, LedgerError, accounts
from osgt.ledger.store import checkpoint
from osgt.ledger.store.chain import Head

GONE = "has forgotten charges"


def charge(location, epsilon=0.01, times=1):
    """Charges, each by a new process, as far as the ledger can tell."""
    for _ in range(times):
        with Ledger(location) as ledger:
            reservation = ledger.reserve("flights", laplace(epsilon), query="q")
    return reservation


def place(location):
    with Ledger(location) as ledger:
        ledger.spent("flights")
        return ledger._accounts._places["flights"]


@pytest.fixture
def path(tmp_path):
    """A ledger with a few charges, of which there is a copy in old.db."""
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
    charge(path, times=3)
    shutil.copy(path, tmp_path / "old.db")
    return path


@pytest.fixture
def rolled_back(path, tmp_path):
    """The same with the copy in its place, after two more charges."""
    charge(path, times=2)
    shutil.copy(path, tmp_path / "later.db")
    shutil.copy(tmp_path / "old.db", path)
    return path


def as_another_user(monkeypatch, folder):
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))


class TestFound:
    def test_a_file_that_was_copied_back(self, rolled_back):
        before = rolled_back.read_bytes()
        with pytest.raises(DamagedLedgerError, match=GONE) as error:
            charge(rolled_back)
        told = str(error.value)
        assert "your processes have seen entry 6 of data set 'flights', and it ends at entry 4" in told
        assert "Nothing was charged, and nothing may be released" in told
        assert f"osgt ledger restore {rolled_back} " in told
        assert f"osgt ledger lost {rolled_back} flights " in told
        assert rolled_back.read_bytes() == before

    def test_more_is_never_released_than_fits(self, path, tmp_path):
        """ε = 0.3 fits about nine times."""
        granted = 0
        with suppress(BudgetExceeded, DamagedLedgerError):
            for _ in range(20):
                charge(path, 0.3)
                granted += 1
                if granted % 4 == 0:
                    shutil.copy(tmp_path / "old.db", path)
        assert granted == 4

    def test_asking_before_the_data_are_read(self, rolled_back):
        with Ledger(rolled_back) as ledger, pytest.raises(DamagedLedgerError, match=GONE):
            ledger.check("flights", laplace(0.01))

    def test_a_change_of_the_budget(self, rolled_back):
        with Ledger(rolled_back) as ledger, pytest.raises(DamagedLedgerError, match=GONE):
            ledger.change_budget("flights", epsilon=4, delta=1e-6, reason="r")

    def test_by_a_process_that_had_it_open(self, path, tmp_path):
        """What it has seen itself is still there; another process of this user has seen more."""
        with Ledger(path) as ledger:
            ledger.spent("flights")
            charge(path)
            path.write_bytes((tmp_path / "old.db").read_bytes())  # the same file
            with pytest.raises(DamagedLedgerError, match=GONE):
                ledger.reserve("flights", laplace(0.01), query="q")

    def test_a_copy_that_was_charged(self, path, tmp_path):
        """A fork: each of both has charges that the other does not know."""
        charge(tmp_path / "old.db", times=2)
        with pytest.raises(DamagedLedgerError, match="it ends at entry 4"):
            charge(path)

    def test_another_user_went_on_from_the_copy(self, rolled_back, tmp_path, monkeypatch):
        with monkeypatch.context() as patch:
            as_another_user(patch, tmp_path / "ann")
            charge(rolled_back, times=4)
        with pytest.raises(DamagedLedgerError, match="it has another entry in that place"):
            charge(rolled_back)

    def test_opened_anew_in_the_same_ledger(self, path, tmp_path):
        """The copy is from before the data set was opened."""
        shutil.copy(path, tmp_path / "before.db")
        with Ledger(path) as ledger:
            ledger.open("trains", epsilon=1, delta=1e-6)
            ledger.reserve("trains", laplace(0.9), query="q")
        shutil.copy(tmp_path / "before.db", path)
        with Ledger(path) as ledger:
            ledger.open("trains", epsilon=1, delta=1e-6)
            with pytest.raises(DamagedLedgerError, match="seen entry 2 of data set 'trains'"):
                ledger.reserve("trains", laplace(0.9), query="q")

    def test_a_plan(self, tmp_path):
        path = tmp_path / "plan.db"
        with Ledger(path) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6, composition="planned")
            shutil.copy(path, tmp_path / "old.db")
        charge(path)
        shutil.copy(tmp_path / "old.db", path)
        with pytest.raises(DamagedLedgerError, match=GONE):
            charge(path)

    def test_a_checkpoint_that_was_made_by_reading(self, path, tmp_path, monkeypatch):
        """Others have charged; this user has only looked, at a chain long enough for a checkpoint."""
        with monkeypatch.context() as patch:
            as_another_user(patch, tmp_path / "ann")
            charge(path, times=4)
        monkeypatch.setattr(checkpoint, "EVERY", 5)
        with Ledger(path) as ledger:
            ledger.spent("flights")
        shutil.copy(tmp_path / "old.db", path)
        with pytest.raises(DamagedLedgerError, match="have seen entry 8"):
            charge(path)

    def test_on_postgresql(self, postgres_database):
        """A server that was put back to an earlier state."""
        with Ledger(postgres_database) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)
        charge(postgres_database)
        with psycopg.connect(postgres_database) as connection:
            old = connection.execute("SELECT * FROM osgt_datasets").fetchone()
        charge(postgres_database, times=2)
        with psycopg.connect(postgres_database) as connection:
            for table in ("osgt_entries", "osgt_datasets"):
                connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            connection.execute("DELETE FROM osgt_entries WHERE sequence > %s", [old[2]])
            connection.execute("UPDATE osgt_datasets SET head_sequence = %s, head_hash = %s", old[2:])
            for table in ("osgt_entries", "osgt_datasets"):
                connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
        with pytest.raises(DamagedLedgerError, match="restore it with the tools of the server") as error:
            charge(postgres_database)
        assert "osgt ledger lost " in str(error.value)
        with Ledger(postgres_database) as ledger:
            assert ledger.verify().ok
            ledger.record_loss("flights", reason="the server failed over")
            with pytest.raises(BudgetExceeded, match="all of it, since charges were lost"):
                ledger.reserve("flights", laplace(0.01), query="q")
            assert ledger.verify().ok


class TestWayOut:
    def test_the_later_state_is_restored(self, rolled_back, tmp_path):
        heads = tmp_path / "heads.json"
        run = CliRunner().invoke
        heads.write_text(run(app, ["ledger", "verify", str(tmp_path / "later.db"), "--json"]).stdout)
        command = ["restore", rolled_back, tmp_path / "later.db", "--heads", heads, "--reason", "it was rolled back"]
        result = run(app, ["ledger", *map(str, command)])
        assert result.exit_code == 0, result.output
        assert "lost" not in result.stdout
        charge(rolled_back)
        with Ledger(rolled_back) as ledger:
            assert ledger.spent("flights").releases == 6
            assert ledger.verify().ok

    def test_the_owner_records_the_loss(self, rolled_back):
        run = CliRunner().invoke
        result = run(app, ["ledger", "lost", str(rolled_back), "flights", "--reason", "restored from tape"])
        assert result.exit_code == 0, result.output
        assert "flights: charges were lost, so its budget counts as spent" in result.stdout
        with pytest.raises(BudgetExceeded, match="all of it, since charges were lost"):
            charge(rolled_back)
        with Ledger(rolled_back) as ledger:
            event = ledger.events("flights")[-1]
            assert (event.text, event.reason) == (
                "charges were lost, so the budget counts as spent",
                "restored from tape",
            )
            assert ledger.spent("flights").share == 1
            ledger.note("flights", 2, "what is recorded can still be remarked upon")
            assert ledger.verify().ok

    def test_a_reason_is_needed(self, rolled_back):
        with Ledger(rolled_back) as ledger, pytest.raises(ValueError, match="reason must say why"):
            ledger.record_loss("flights", reason=" ")

    def test_what_was_restored_with_a_loss_says_so_and_not_that_it_was_rolled_back(self, path, tmp_path):
        with Ledger(path) as ledger:
            ledger.backup(tmp_path / "backup.db")
        charge(path, times=2)
        with Ledger(path) as ledger:
            ledger.restore(tmp_path / "backup.db", heads=ledger.verify().heads, reason="x")
        with pytest.raises(BudgetExceeded, match="all of it, since charges were lost"):
            charge(path)

    def test_a_restored_ledger_that_is_put_back(self, path, tmp_path):
        """Whoever restored by mistake finds what was there under another name, and goes on with it."""
        with Ledger(path) as ledger:
            ledger.backup(tmp_path / "backup.db")
        charge(path, times=2)
        with Ledger(path) as ledger:
            ledger.restore(tmp_path / "backup.db", heads=ledger.verify().heads, reason="a mistake")
            ledger.spent("flights")
        (kept,) = tmp_path.glob("budget.db.replaced-*")
        os.replace(kept, path)
        charge(path)


class TestNoFalseAlarm:
    def test_a_new_ledger_in_the_same_place(self, path):
        path.unlink()
        with Ledger(path) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)
        charge(path)

    def test_a_file_that_was_moved(self, path, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        moved = path.rename(tmp_path / "elsewhere" / "ledger.db")
        charge(moved)

    def test_a_copy_that_took_its_place(self, path, tmp_path):
        """The copy has all charges: as after a move to another disk."""
        os.replace(tmp_path / "old.db", path)
        charge(path)

    def test_copies_are_read(self, rolled_back, tmp_path):
        """Whoever looks at an older copy, or checks a backup, is not disturbed."""
        for file in (rolled_back, tmp_path / "old.db"):
            with Ledger(file) as ledger:
                assert ledger.spent("flights").releases == 3
                assert len(ledger.history("flights")) == 3
                assert ledger.remaining("flights") > 0
                assert ledger.overview("flights").spending.releases == 3
                assert ledger.verify().ok
        charge(tmp_path / "later.db")

    def test_two_users(self, path, tmp_path, monkeypatch):
        for user in ("ann", "bob", "ann", "bob"):
            as_another_user(monkeypatch, tmp_path / user)
            charge(path, times=2)

    def test_on_both_databases(self, location):
        with Ledger(location) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)
        for _ in range(3):
            charge(location).settle("hash")
            charge(location).cancel()

    def test_a_commit_that_never_was(self, sqlite_ledger, monkeypatch, tmp_path):
        """What was not committed has not been seen."""
        monkeypatch.setattr(accounts, "PAUSES", (0.0,))
        charge(tmp_path / "budget.db")
        commits = Commits(sqlite_ledger)
        commits.cut, commits.cuts = "question", 2
        with pytest.raises(LedgerError, match="Nothing was charged"):
            sqlite_ledger.reserve("flights", laplace(0.1), query="q")
        assert checkpoint.last_seen(*place(tmp_path / "budget.db")).sequence == 2
        charge(tmp_path / "budget.db")

    @pytest.mark.parametrize("cut", ["question", "answer"])
    def test_an_answer_that_was_lost(self, sqlite_ledger, monkeypatch, tmp_path, cut):
        monkeypatch.setattr(accounts, "PAUSES", (0.0,))
        commits = Commits(sqlite_ledger)
        commits.cut, commits.cuts = cut, 1
        sqlite_ledger.reserve("flights", laplace(0.1), query="q")
        charge(tmp_path / "budget.db")

    def test_processes_and_threads_of_one_user(self, path, tmp_path):
        """All charge and ask at once: none of them takes what another has just written for something that is gone."""
        program = textwrap.dedent(
            """
            import sys
            sys.path.insert(0, sys.argv[2])
            from charges import laplace
            from osgt import Ledger
            for _ in range(15):
                with Ledger(sys.argv[1]) as ledger:
                    ledger.check("flights", laplace(0.001))
                    ledger.reserve("flights", laplace(0.001), query="q")
            """
        )
        command = [sys.executable, "-c", program, path, Path(__file__).parents[1] / "helpers"]
        workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        with Ledger(path) as ledger:
            threads = [
                threading.Thread(
                    target=lambda: [ledger.reserve("flights", laplace(0.001), query="q") for _ in range(10)]
                )
                for _ in range(3)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for worker in workers:
            assert worker.communicate()[1] == ""
        with Ledger(path) as ledger:
            head = ledger.verify().heads["flights"]
        assert head["sequence"] == 4 + 30 + 30
        assert checkpoint.last_seen(*place(path)) == Head(1, "flights", head["sequence"], head["hash"])


class TestTheFile:
    def test_an_older_entry_does_not_replace_a_later_one(self, path):
        where = place(path)
        later = checkpoint.last_seen(*where)
        checkpoint.see(where[0], Head(1, "flights", 2, "x"))
        assert checkpoint.last_seen(*where) == later

    def test_only_its_user_can_read_it(self, path, tmp_path):
        (file,) = (tmp_path / "state" / "osgt" / "ledgers").glob("*.head")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_every_digit_is_covered_by_the_checksum(self, rolled_back, tmp_path):
        """A file with one flipped digit proves nothing: it is no evidence."""
        (file,) = (tmp_path / "state" / "osgt" / "ledgers").glob("*.head")
        sound = file.read_bytes()
        digits = [match.start() for match in re.finditer(rb"[0-9a-f]", sound)]
        assert len(digits) > 130
        for at in digits:
            file.write_bytes(sound[:at] + (b"0" if sound[at : at + 1] != b"0" else b"1") + sound[at + 1 :])
            assert checkpoint.last_seen(*place(rolled_back)) is None
        charge(rolled_back)

    def test_of_another_version(self, rolled_back, tmp_path, monkeypatch):
        """A later version of the software still believes it, where checkpoints are made anew."""
        monkeypatch.setattr(checkpoint, "version", lambda _: "99.0")
        with pytest.raises(DamagedLedgerError, match=GONE):
            charge(rolled_back)

    def test_where_nothing_can_be_written(self, path, tmp_path, monkeypatch):
        """A folder for state that is a file: charges go on, and rollbacks are not noticed."""
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "old.db"))
        charge(path, times=2)
        with Ledger(path) as ledger:
            assert ledger.spent("flights").releases == 5

    def test_a_process_that_was_stopped_while_it_wrote(self, path, tmp_path, monkeypatch):
        """It holds the lock of these files: others wait for a moment, and write all the same."""
        monkeypatch.setattr(checkpoint, "_PATIENCE", 0.05)
        folder = tmp_path / "state" / "osgt" / "ledgers"
        holder = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); "
        command = [sys.executable, "-c", holder + "sys.stdin.read()", folder / "lock"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "held\n"
            sequence = charge(path).sequence
            assert checkpoint.last_seen(*place(path)).sequence == sequence
            process.communicate("")
