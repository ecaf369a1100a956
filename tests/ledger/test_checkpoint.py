"""Checkpoints: a new process goes on from what its user's processes have checked, and decides as if it had read all."""

import os
import random
import re
import stat

import pytest
from charges import gaussian, laplace, osgt
from test_ledger_chain import at, content_of, tamper, written_anew

from osgt import Ledger
from osgt.ledger import BudgetExceeded, DamagedLedgerError, checkpoint
from osgt.ledger.chain import canonical
from osgt.ledger.schema import entries

CHARGES = [laplace(0.05), gaussian(60), osgt(60, 90, 4), laplace(0.03, 1e-9)]


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """A checkpoint after a few entries."""
    monkeypatch.setattr(checkpoint, "EVERY", 6)


@pytest.fixture
def path(tmp_path):
    """A ledger with ten charges, of which some are settled and one is cancelled, and with its checkpoint."""
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6, unit="passenger")
        for i in range(10):
            reservation = ledger.reserve("flights", CHARGES[i % 4], query=f"q{i}", unit="passenger")
            if i % 3 == 0:
                reservation.settle("hash")
            if i == 4:
                reservation.cancel()
    return path


def begun_at(ledger):
    return ledger._accounts.now("flights").begins_at


def files(tmp_path):
    return list((tmp_path / "state" / "osgt" / "ledgers").iterdir())


def read_from_the_first_on(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "load", lambda *_: None)
        with Ledger(path) as ledger:
            account = ledger._accounts.now("flights")
            assert account.is_whole
            return account.state, account.owners, account.releases, account.changes, ledger.spent("flights")


def test_an_account_from_a_checkpoint_is_that_from_the_first_entry(path, monkeypatch):
    with Ledger(path) as ledger:
        assert begun_at(ledger) > 1
        account = ledger._accounts.now("flights")
        found = account.state, account.owners, account.releases, account.changes, ledger.spent("flights")
    assert found == read_from_the_first_on(path, monkeypatch)


def test_any_history_that_every_process_reads_from_a_checkpoint(tmp_path, monkeypatch):
    """Each step is made by a new process; what all of them have written is verified from the first entry on."""
    chosen = random.Random(5)
    path, open_ = tmp_path / "budget.db", []
    with Ledger(path) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
    begun = set()
    for i in range(40):
        with Ledger(path) as ledger:
            step = chosen.choice(["charge", "charge", "charge", "settle", "note", "cancel", "budget", "tables"])
            if step == "charge":
                open_.append(ledger.reserve("flights", chosen.choice(CHARGES), query="q").sequence)
            elif step == "cancel":
                ledger.reserve("flights", chosen.choice(CHARGES), query="q").cancel()
            elif step == "settle" and open_:
                assert ledger.settle("flights", open_.pop(chosen.randrange(len(open_))), output="there")
            elif step == "note" and open_:
                ledger.note("flights", open_[0], "text")
            elif step == "budget":
                ledger.change_budget("flights", epsilon=3 + i / 100, delta=1e-6, reason="r")
            elif step == "tables":
                ledger.change_tables("flights", add=[f"table{i}"])
            begun.add(begun_at(ledger))
            found = ledger._accounts.now("flights").state, ledger.spent("flights")
        expected = read_from_the_first_on(path, monkeypatch)
        assert found == (expected[0], expected[-1])
    assert len(begun) > 3
    with Ledger(path) as ledger:
        assert ledger.verify().ok


def test_an_older_charge_can_be_settled_once_and_noted(path):
    with Ledger(path) as ledger:
        assert begun_at(ledger) > 4
        assert ledger.settle("flights", 4, output="there")
        assert not ledger.settle("flights", 4, output="there")
        ledger.note("flights", 2, "text")
    with Ledger(path) as ledger, pytest.raises(ValueError, match="is not a release"):
        ledger.settle("flights", 3)
    with Ledger(path) as ledger:
        assert ledger.verify().ok


def test_a_charge_from_before_the_checkpoint_is_cancelled_by_its_owner(path, monkeypatch):
    """Its process has had it open all the time, and others have moved on."""
    with Ledger(path) as owner, Ledger(path) as third:
        mine = owner.reserve("flights", laplace(0.5), query="q", unit="passenger")
        with Ledger(path) as other:
            for _ in range(8):
                other.reserve("flights", laplace(0.01), query="q", unit="passenger")
        assert begun_at(third) > mine.sequence
        before = third.spent("flights").share
        mine.cancel()
        assert third.spent("flights").share < before
        assert third._accounts.now("flights").is_whole
    with Ledger(path) as ledger:
        assert ledger.verify().ok
        assert ledger._accounts.now("flights").state == read_from_the_first_on(path, monkeypatch)[0]


def test_what_was_spent_before_counts(path):
    with Ledger(path) as ledger:
        assert begun_at(ledger) > 1
        with pytest.raises(BudgetExceeded):
            ledger.reserve("flights", laplace(2.9), query="q", unit="passenger")


@pytest.mark.parametrize("damage", ["hash", "garbage", "format", "version", "rights", "name"])
def test_a_checkpoint_that_is_not_sound_is_not_used(path, tmp_path, damage):
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    with Ledger(path) as ledger:
        assert begun_at(ledger) > 1
        used = ledger._accounts.now("flights")._start
    match damage:
        case "hash":
            file.write_text(text.replace(used.hash, used.hash[::-1]))
        case "garbage":
            file.write_text("{")
        case "format":
            file.write_text(text.replace('"format": 2', '"format": 0'))
        case "version":
            file.write_text(re.sub(r'"version": "[^"]*"', '"version": "0.0.1"', text))
        case "rights":
            file.chmod(0o666)
        case "name":
            file.write_text(text.replace('"name": "flights"', '"name": "trains"'))
    with Ledger(path) as ledger:
        assert begun_at(ledger) == 0


def test_no_folder_for_state_is_no_harm(path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    with Ledger(path) as ledger:
        assert begun_at(ledger) == 0
        ledger.reserve("flights", laplace(0.01), query="q", unit="passenger")


def test_a_forged_entry_after_the_checkpoint_is_found(path):
    with Ledger(path) as ledger:
        ledger.reserve("flights", laplace(0.1), query="q", unit="passenger")
        last = ledger.verify().heads["flights"]["sequence"]

        def forge(values):
            if values["sequence"] == last:
                values["state"]["mu"] *= 1.01

        written_anew(ledger, forge)
    with Ledger(path) as ledger:
        with pytest.raises(DamagedLedgerError, match="was forged"):
            ledger.reserve("flights", laplace(0.1), query="q", unit="passenger")
        assert not ledger.verify().ok


def test_a_chain_that_was_written_anew_is_read_from_the_first_entry_on(path):
    def forge(values):
        if values["sequence"] == 4:
            values["state"]["mu"] *= 1.01

    with Ledger(path) as ledger:
        written_anew(ledger, forge)
    with Ledger(path) as ledger, pytest.raises(DamagedLedgerError, match="entry 4 was forged"):
        ledger.reserve("flights", laplace(0.1), query="q", unit="passenger")


def test_damage_before_the_checkpoint_decides_nothing_and_is_found_by_verify(path):
    with Ledger(path) as ledger:
        values = {**content_of(ledger, 4), "query": "another"}
        tamper(ledger, entries.update().where(at(4)).values(content=canonical(values)))
    with Ledger(path) as ledger:
        ledger.reserve("flights", laplace(0.1), query="q", unit="passenger")
        assert "entry 4 was edited" in ledger.verify().problems[0]


def test_plans_have_no_checkpoints(tmp_path):
    with Ledger(tmp_path / "plan.db") as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6, composition="planned")
        for _ in range(8):
            ledger.reserve("flights", gaussian(60), query="q")
    with Ledger(tmp_path / "plan.db") as ledger:
        assert begun_at(ledger) == 0


def test_no_home_is_no_harm(path, monkeypatch):
    """As in a container that runs under a number without a name."""
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda text: text)
    with Ledger(path) as ledger:
        assert begun_at(ledger) == 0
        for _ in range(8):
            ledger.reserve("flights", laplace(0.01), query="q", unit="passenger")


def test_a_relative_folder_for_state_is_ignored(path, tmp_path, monkeypatch):
    """So says the XDG specification; it would be another one for each working directory."""
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with Ledger(path) as ledger:
        assert begun_at(ledger) == 0
    assert list((tmp_path / "home" / ".local" / "state" / "osgt" / "ledgers").iterdir())


def test_on_both_databases(location):
    with Ledger(location) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        for _ in range(8):
            ledger.reserve("flights", laplace(0.01), query="q")
    with Ledger(location) as ledger:
        assert begun_at(ledger) > 1
        ledger.reserve("flights", laplace(0.01), query="q").settle("hash")
        assert ledger.spent("flights").releases == 9
        assert ledger.verify().ok
