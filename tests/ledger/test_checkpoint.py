"""Checkpoints: a new process goes on from what its user's processes have checked, and decides as if it had read all."""

import os
import random
import re
import stat
from dataclasses import replace
from importlib.metadata import version

import pytest
from test_ledger_chain import at, content_of, tamper, written_anew

from charges import gaussian, laplace, osgt
from osgt import Ledger
from osgt.ledger import BudgetExceeded, DamagedLedgerError
from osgt.ledger.store import checkpoint
from osgt.ledger.store.chain import canonical
from osgt.ledger.store.schema import entries

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
    return list((tmp_path / "state" / "osgt" / "ledgers").glob("*.json"))


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


def sealed(file, content):
    """A text with the checksum that belongs to it in this file."""
    return checkpoint._checksum(file, content.encode()) + b"\n" + content.encode()


@pytest.mark.parametrize("damage", ["format", "version", "rights", "name", "another data set"])
def test_a_checkpoint_that_is_not_sound_is_not_used(path, tmp_path, damage):
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text().partition("\n")[2]
    with Ledger(path) as ledger:
        assert begun_at(ledger) > 1
    match damage:
        case "format":
            file.write_bytes(sealed(file, text.replace('"format": 3', '"format": 0')))
        case "version":
            file.write_bytes(sealed(file, text.replace(f'"version": "{version("osgt")}"', '"version": "0.0.1"')))
        case "rights":
            file.chmod(0o666)
        case "name":
            file.write_bytes(sealed(file, text.replace('"name": "flights"', '"name": "trains"')))
        case "another data set":
            file.write_bytes(sealed(file.with_name("2.json"), text))
    with Ledger(path) as ledger:
        assert begun_at(ledger) == 0


def divided_by_zero(text):
    return re.sub(r'"sequence": [0-9]+', '"sequence": "1/0"', text.replace('"pure": "', '"pure": "1/0", "unused": "'))


#: What may be in a file, and whether it has a checksum that fits, which nobody but this user can give it.
ODD = {
    "a flipped digit": (lambda text: text.translate(str.maketrans("12", "21")), False),
    "cut off": (lambda text: text[:-10], False),
    "empty": (lambda _: "", False),
    "no JSON": (lambda _: "{", True),
    "null": (lambda _: "null", True),
    "1/0": (divided_by_zero, True),
    "Infinity": (lambda text: re.sub(r'"sequence": [0-9]+', '"sequence": Infinity', text), True),
    "deep": (lambda _: "[" * 200_000, True),
    "huge": (lambda text: text + " " * 2**23, True),
}


@pytest.mark.parametrize("suffix", ["json", "head"])
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_file_is_thrown_away(path, tmp_path, odd, suffix):
    """The ledger is whole, and nobody is told anything else."""
    file = next((tmp_path / "state" / "osgt" / "ledgers").glob(f"*.{suffix}"))
    change, is_sealed = ODD[odd]
    checksum, _, text = file.read_text().partition("\n")
    changed = change(text)
    assert changed != text
    file.write_bytes(sealed(file, changed) if is_sealed else f"{checksum}\n{changed}".encode())
    with Ledger(path) as ledger:
        assert suffix == "head" or begun_at(ledger) == 0
        ledger.reserve("flights", laplace(0.01), query="q", unit="passenger")
    with Ledger(path) as ledger:
        assert ledger.verify().ok
        ledger.reserve("flights", laplace(0.01), query="q", unit="passenger")


@pytest.mark.parametrize("suffix", ["json", "head"])
@pytest.mark.parametrize("odd", ["pipe", "folder", "link", "link to itself", "device"])
def test_what_is_no_file_is_not_opened(path, tmp_path, odd, suffix):
    file = next((tmp_path / "state" / "osgt" / "ledgers").glob(f"*.{suffix}"))
    file.rename(tmp_path / "elsewhere")
    match odd:
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "link":
            file.symlink_to(tmp_path / "elsewhere")
        case "link to itself":
            file.symlink_to(file)
        case "device":
            file.symlink_to("/dev/zero")
    with Ledger(path) as ledger:
        assert suffix == "head" or begun_at(ledger) == 0
        ledger.reserve("flights", laplace(0.01), query="q", unit="passenger")


def forged_checkpoint(path):
    """Leave a checkpoint of the last entry with a residue that was made up, and a checksum that fits."""
    with Ledger(path) as ledger:
        account = ledger._accounts.now("flights")
        made = account.checkpoint()
        forged = replace(made, state=replace(made.state, mu=made.state.mu * 0.5))
        place = ledger._accounts._places["flights"]
    checkpoint.save(*place, forged)
    return forged


def test_a_forged_checkpoint_does_not_make_a_damaged_ledger(path, monkeypatch):
    """What follows contradicts it: the chain is read from the first entry on before anybody is told of damage."""
    monkeypatch.setattr(checkpoint, "EVERY", 1000)
    forged = forged_checkpoint(path)
    with monkeypatch.context() as patch, Ledger(path) as ledger:
        patch.setattr(checkpoint, "load", lambda *_: None)
        ledger.reserve("flights", gaussian(60), query="q", unit="passenger")
    with Ledger(path) as ledger:
        assert checkpoint.load(*place_of(ledger)) == forged
        assert begun_at(ledger) == 0
        ledger.reserve("flights", gaussian(60), query="q", unit="passenger")
        assert ledger.verify().ok


def test_a_forged_checkpoint_that_is_contradicted_later(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 1000)
    with Ledger(path) as other:
        other.spent("flights")
        forged_checkpoint(path)
        with Ledger(path) as ledger:
            assert begun_at(ledger) > 1
            other.reserve("flights", gaussian(60), query="q", unit="passenger")
            ledger.reserve("flights", gaussian(60), query="q", unit="passenger")
            assert begun_at(ledger) == 0
            assert ledger.verify().ok


def place_of(ledger):
    ledger.spent("flights")
    return ledger._accounts._places["flights"]


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
