"""Copies, backups and files that are replaced: no committed charge is lost without a word."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from charges import laplace
from osgt import Ledger
from osgt.ledger import BudgetExceeded, DamagedLedgerError, LedgerError

#: A process that goes on charging until it is stopped, and says each charge when it stands.
CHARGER = textwrap.dedent(
    """
    import sys
    sys.path.insert(0, sys.argv[2])
    from charges import laplace
    from osgt import Ledger
    ledger = Ledger(sys.argv[1])
    while True:
        print(ledger.reserve("flights", laplace(0.001), query="q").sequence, flush=True)
    """
)


def charge(ledger, epsilon=0.1):
    return ledger.reserve("flights", laplace(epsilon), query="q")


class TestCopies:
    def test_a_copy_of_the_file_alone_has_every_charge(self, sqlite_ledger, tmp_path):
        for count in range(1, 6):
            charge(sqlite_ledger)
            copy = tmp_path / f"copy-{count}.db"
            shutil.copy(tmp_path / "budget.db", copy)  # while it is open
            with Ledger(copy) as other:
                assert len(other.history("flights")) == count
                assert other.verify().ok
        assert {path.name for path in tmp_path.glob("budget*")} == {
            "budget.db",
            "budget.db-lock",
            "budget.db-lock-next",
        }

    @pytest.mark.parametrize("earlier", [3, 40])
    def test_a_copy_in_the_middle_of_a_commit_is_found_or_has_every_entry_up_to_one(self, tmp_path, earlier):
        """`cp` reads some pages before the commit has written them, and the others after."""
        path, copy = tmp_path / "budget.db", tmp_path / "copy.db"
        with Ledger(path) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)
            for _ in range(earlier):
                charge(ledger, 0.01)
            old = path.read_bytes()
            charge(ledger, 0.01)
        new, size = path.read_bytes(), 4096
        found = 0
        assert len(old) % size == len(new) % size == 0
        changed = [at for at in range(0, len(new), size) if old[at : at + size] != new[at : at + size]]
        assert len(changed) >= 3
        for cut in changed[1:]:
            for torn in (old[:cut] + new[cut:], new[:cut] + old[cut:]):
                copy.write_bytes(torn)
                with Ledger(copy) as other:
                    try:
                        verified = other.verify()
                    except LedgerError:
                        found += 1
                        continue
                    found += not verified.ok
                    if verified.ok:
                        assert verified.heads["flights"]["sequence"] in (earlier + 1, earlier + 2)
                        assert len(other.history("flights")) == verified.heads["flights"]["sequence"] - 1
        assert found >= len(changed) - 1

    def test_after_a_kill(self, tmp_path):
        path = tmp_path / "budget.db"
        with Ledger(path) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)
        command = [sys.executable, "-c", CHARGER, path, Path(__file__).parents[1] / "helpers"]
        for round_ in range(3):
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                for _ in range(4 + round_):
                    last = int(process.stdout.readline())
                process.send_signal(signal.SIGKILL)
                said = [int(line) for line in process.stdout.read().split()]
            last = max([last, *said])
            # A journal is there only if it died while it wrote; a copy without it could be torn, and would say so.
            copy = tmp_path / f"copy-{round_}.db"
            shutil.copy(path, copy)
            if Path(f"{path}-journal").exists():
                shutil.copy(f"{path}-journal", f"{copy}-journal")
            with Ledger(copy) as other:
                assert other.history("flights")[-1].sequence >= last
                assert other.verify().ok


class TestReplacedFiles:
    def test_a_file_that_is_replaced_under_a_process(self, sqlite_ledger, tmp_path):
        path = tmp_path / "budget.db"
        charge(sqlite_ledger)
        shutil.copy(path, tmp_path / "old.db")
        charge(sqlite_ledger)
        os.replace(tmp_path / "old.db", path)
        for act in (lambda: charge(sqlite_ledger), lambda: sqlite_ledger.spent("flights")):
            with pytest.raises(LedgerError, match="was replaced while this process used it"):
                act()
        sqlite_ledger.close()  # somebody looked into it
        assert sqlite_ledger.spent("flights").releases == 1

    def test_a_file_that_is_removed(self, sqlite_ledger, tmp_path):
        charge(sqlite_ledger)
        (tmp_path / "budget.db").unlink()
        with pytest.raises(LedgerError, match="was removed while this process used it"):
            charge(sqlite_ledger)
        with pytest.raises(LedgerError, match="was removed"):
            sqlite_ledger.open("trains", epsilon=1, delta=1e-6)
        assert not (tmp_path / "budget.db").exists()

    def test_replaced_during_the_charge(self, sqlite_ledger, tmp_path, monkeypatch):
        """The charge goes to a file that nobody will look at again: there is no reservation."""
        from osgt.ledger.store import chain  # noqa: PLC0415

        path, append = tmp_path / "budget.db", chain.append
        shutil.copy(path, tmp_path / "old.db")

        def replaced(*arguments, **options):
            os.replace(tmp_path / "old.db", path)
            return append(*arguments, **options)

        monkeypatch.setattr(chain, "append", replaced)
        with pytest.raises(LedgerError):
            charge(sqlite_ledger)
        with Ledger(path) as other:
            assert other.history("flights") == []


@pytest.fixture
def saved(sqlite_ledger, tmp_path):
    """A ledger with a backup, and a charge after it."""
    sqlite_ledger.open("trains", epsilon=1, delta=1e-6)
    charge(sqlite_ledger)
    sqlite_ledger.backup(tmp_path / "backup.db")
    return sqlite_ledger


class TestBackups:
    def test_a_backup_is_complete_and_replaces_nothing(self, saved, tmp_path):
        with Ledger(tmp_path / "backup.db") as backup:
            assert backup.verify().heads == saved.verify().heads
        with pytest.raises(FileExistsError, match="a backup never replaces one"):
            saved.backup(tmp_path / "backup.db")
        assert not list(tmp_path.glob(".backup*"))

    def test_nothing_was_lost(self, saved, tmp_path):
        heads = saved.verify().heads
        restored = saved.restore(tmp_path / "backup.db", heads=heads, reason="the disk failed")
        assert (restored.spent, restored.remarks) == ({}, ())
        charge(saved)
        assert saved.verify(heads).ok
        last = saved.export()["datasets"][1]["entries"][-1]
        assert (last["kind"], last["charges_unknown"], last["reason"]) == ("restore", False, "the disk failed")

    def test_what_was_charged_after_the_backup_counts_as_all(self, saved, tmp_path):
        charge(saved)
        heads = json.loads(json.dumps(saved.export()))
        assert list(saved.restore(tmp_path / "backup.db", heads=heads, reason="the disk failed").spent) == ["flights"]
        with pytest.raises(BudgetExceeded, match="all of it, since charges were lost"):
            charge(saved, 1e-9)
        saved.reserve("trains", laplace(0.1), query="nothing was lost here")
        saved.change_budget("flights", epsilon=30, delta=1e-6, reason="a change does not bring them back")
        with pytest.raises(BudgetExceeded):
            charge(saved, 1e-9)
        assert saved.spent("flights").share == 1
        assert saved.verify().ok
        assert len(list(tmp_path.glob("budget.db.replaced-*"))) == 1

    def test_nobody_knows_what_was_charged(self, saved, tmp_path):
        (tmp_path / "budget.db").unlink()
        saved.close()
        restored = saved.restore(tmp_path / "backup.db", charges_unknown=True, reason="the machine is gone")
        assert list(restored.spent) == ["flights", "trains"]
        assert saved.remaining("trains") == 0

    def test_wrong_heads(self, saved, tmp_path):
        heads = saved.verify().heads
        first = saved.export()["datasets"][0]["entries"][0]["hash"]
        (tmp_path / "budget.db").unlink()
        saved.close()
        for wrong, message in [
            ({"planes": heads["flights"]}, "the backup has no data set 'planes'"),
            ({"flights": {"sequence": 1, "hash": first}}, "older than the backup"),
            ({"flights": {**heads["flights"], "sequence": 1}}, "not of the ledger"),
            ({"flights": {**heads["flights"], "hash": "0" * 64}}, "not of the ledger"),
            ({}, "these are no heads"),
        ]:
            with pytest.raises(ValueError, match=message):
                saved.restore(tmp_path / "backup.db", heads=wrong, reason="x")
        with pytest.raises(ValueError, match="give heads"):
            saved.restore(tmp_path / "backup.db", reason="x")
        restored = saved.restore(tmp_path / "backup.db", heads={"flights": heads["flights"]}, reason="x")
        assert restored.spent == {"trains": "the heads that were given do not name it"}

    def test_a_backup_that_was_tampered_with(self, saved, tmp_path):
        with sqlite3.connect(tmp_path / "backup.db") as connection:
            connection.execute("DROP TRIGGER osgt_entries_no_update")
            connection.execute("UPDATE osgt_entries SET content = replace(content, '\"q\"', '\"x\"')")
        connection.close()
        with pytest.raises(DamagedLedgerError, match="cannot be used"):
            saved.restore(tmp_path / "backup.db", charges_unknown=True, reason="x")

    def test_restoring_puts_the_guards_back(self, saved, tmp_path):
        with sqlite3.connect(tmp_path / "backup.db") as connection:
            connection.execute("DROP TRIGGER osgt_entries_no_update")
        connection.close()
        saved.restore(tmp_path / "backup.db", heads=saved.verify().heads, reason="x")
        assert saved.verify().ok


def heads_of(path):
    with Ledger(path) as ledger:
        return ledger.verify().heads


class TestWhatIsReplaced:
    """The ledger in whose place a backup is put is asked, too: nothing that it knows is forgotten without a word."""

    @pytest.fixture(autouse=True)
    def another_user(self, saved, tmp_path, monkeypatch):
        """Whoever restores has not made the charges."""
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of the keeper"))

    def test_heads_from_before_the_last_charges(self, saved, tmp_path):
        heads = saved.verify().heads  # as old as the backup
        for _ in range(16):
            charge(saved, 0.01)
        restored = saved.restore(tmp_path / "backup.db", heads=heads, reason="x")
        assert restored.spent == {
            "flights": "the backup ends at entry 2, and the ledger that it replaces went on to entry 18"
        }
        with pytest.raises(BudgetExceeded, match="all of it, since charges were lost"):
            charge(saved, 1e-9)
        event = saved.events("flights")[-1]
        assert event.text == "restored from a backup: charges were lost, so the budget counts as spent"
        assert saved.verify().ok

    def test_heads_that_are_older_than_backup_and_ledger(self, saved, tmp_path):
        """The ledger itself is later than they are, and says that nothing is missing."""
        heads = saved.verify().heads
        charge(saved)
        saved.backup(tmp_path / "later.db")
        assert saved.restore(tmp_path / "later.db", heads=heads, reason="x").spent == {}
        charge(saved)

    def test_a_data_set_that_the_backup_does_not_know(self, saved, tmp_path):
        heads = saved.verify().heads
        saved.open("planes", epsilon=1, delta=1e-6)
        with pytest.raises(ValueError, match="the backup has no data set 'planes': use a later one"):
            saved.restore(tmp_path / "backup.db", heads=heads, reason="x")
        restored = saved.restore(tmp_path / "backup.db", charges_unknown=True, reason="x")
        assert restored.remarks == ("the backup has no data set 'planes': do not open it again with a new budget",)

    def test_a_ledger_that_was_rolled_back(self, saved, tmp_path):
        """The backup is later, and has what stood in its place: nothing is lost."""
        shutil.copy(tmp_path / "budget.db", tmp_path / "old.db")
        charge(saved)
        saved.backup(tmp_path / "later.db")
        os.replace(tmp_path / "old.db", tmp_path / "budget.db")
        saved.close()
        assert saved.restore(tmp_path / "later.db", heads=heads_of(tmp_path / "later.db"), reason="x").spent == {}
        assert len(saved.history("flights")) == 2

    def test_a_ledger_that_was_rolled_back_and_charged(self, saved, tmp_path):
        """Neither the backup nor what stood in its place has all charges."""
        shutil.copy(tmp_path / "budget.db", tmp_path / "old.db")
        charge(saved)
        charge(saved)
        saved.backup(tmp_path / "later.db")
        os.replace(tmp_path / "old.db", tmp_path / "budget.db")
        saved.close()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(tmp_path / "state of a colleague"))
            charge(saved)
        restored = saved.restore(tmp_path / "later.db", heads=heads_of(tmp_path / "later.db"), reason="x")
        assert restored.spent == {"flights": "the ledger that it replaces has another entry 3"}

    def test_a_ledger_that_is_damaged(self, saved, tmp_path):
        """Its entries prove nothing, but how many there are is believed where that is careful."""
        heads = saved.verify().heads
        charge(saved)
        with sqlite3.connect(tmp_path / "budget.db") as connection:
            connection.execute("DROP TRIGGER osgt_entries_no_update")
            connection.execute("UPDATE osgt_entries SET content = '{}' WHERE sequence = 1")
        connection.close()
        restored = saved.restore(tmp_path / "backup.db", heads=heads, reason="x")
        assert list(restored.spent) == ["flights"]
        assert "the ledger that it replaces went on to entry 3" in restored.spent["flights"]
        assert "was damaged" in restored.remarks[0]
        assert saved.verify().ok

    def test_a_ledger_that_is_damaged_where_nothing_is_missing(self, saved, tmp_path):
        heads = saved.verify().heads
        with sqlite3.connect(tmp_path / "budget.db") as connection:
            connection.execute("DROP TRIGGER osgt_entries_no_update")
            connection.execute("UPDATE osgt_entries SET hash = 'x', content = '{}' WHERE sequence = 2")
        connection.close()
        assert saved.restore(tmp_path / "backup.db", heads=heads, reason="x").spent == {}

    @pytest.mark.parametrize("content", [b"", b"nonsense" * 1000])
    def test_a_file_that_cannot_be_read(self, saved, tmp_path, content):
        heads = saved.verify().heads
        saved.close()
        (tmp_path / "budget.db").write_bytes(content)
        restored = saved.restore(tmp_path / "backup.db", heads=heads, reason="x")
        assert restored.spent == {}
        assert "could not be read" in restored.remarks[0]
        (kept,) = tmp_path.glob("budget.db.replaced-*")
        assert kept.read_bytes() == content

    @pytest.mark.parametrize("how", ["heads", "charges unknown"])
    def test_another_ledger_is_not_replaced(self, saved, tmp_path, how):
        heads = saved.verify().heads
        with Ledger(tmp_path / "other.db") as other:
            other.open("flights", epsilon=3, delta=1e-6)
            charge(other)
            before = (tmp_path / "other.db").read_bytes()
            options = {"heads": heads} if how == "heads" else {"charges_unknown": True}
            with pytest.raises(ValueError, match="is another ledger than that of the backup"):
                other.restore(tmp_path / "backup.db", **options, reason="x")
        assert (tmp_path / "other.db").read_bytes() == before
        assert not list(tmp_path.glob(".other*"))

    def test_what_the_keeper_has_charged(self, saved, tmp_path):
        """The file is gone and the heads are old: but the keeper's own processes have seen more."""
        heads = saved.verify().heads
        charge(saved)
        (tmp_path / "budget.db").unlink()
        saved.close()
        restored = saved.restore(tmp_path / "backup.db", heads=heads, reason="x")
        assert restored.spent == {"flights": "the backup ends at entry 2, and your processes have seen another entry 3"}

    def test_a_charge_while_it_is_replaced(self, saved, tmp_path):
        """A process that charges all the time: each charge that it was told of stands, or counts as lost."""
        heads = saved.verify().heads
        command = [sys.executable, "-c", CHARGER, tmp_path / "budget.db", Path(__file__).parents[1] / "helpers"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            first = int(process.stdout.readline())
            restored = saved.restore(tmp_path / "backup.db", heads=heads, reason="x")
            told = [first, *map(int, process.stdout.read().split())]  # it ends: the file was replaced
        assert process.returncode == 1
        (kept,) = tmp_path.glob("budget.db.replaced-*")
        assert len(heads_of(kept)) == 2
        assert f"went on to entry {told[-1]}" in restored.spent["flights"]
