"""One entry of somebody who may charge can end a data set for everybody. The owner's way out: it is declared void."""

import hashlib
import json

import pytest
from typer.testing import CliRunner

from charges import gaussian, laplace, osgt
from osgt import Ledger
from osgt.cli import app
from osgt.ledger import BudgetExceeded, DamagedLedgerError
from osgt.ledger.store import chain, checkpoint
from osgt.ledger.store.chain import Entry
from osgt.ledger.store.schema import entries


def appended(ledger, kind, values, *, refers_to=None):
    """Add an entry as a manipulated client can; its number."""
    return ledger._database.write(
        lambda c: chain.append(c, chain.find(c, "flights", lock=True), kind, values, actor="eve", refers_to=refers_to)
    ).sequence


def inserted(ledger, *, head=True, **values):
    """Add an entry with a number in it that Python does not read, with or without moving the head."""

    def write(connection):
        at = chain.find(connection, "flights")
        sequence = at.sequence + 1
        plain = {
            "number": 1, "dataset": "flights", "sequence": sequence, "kind": "note", "refers_to": None,
            "session_user": connection.info.get("osgt_user") or "eve", **values,
        }  # fmt: skip
        content = f'{{"digits": {"9" * 5000}, {json.dumps(plain)[1:]}'
        digest = hashlib.sha256(f"{at.hash}\n{content}".encode()).hexdigest()
        entry = Entry(1, sequence, "note", None, content, at.hash, digest)
        connection.execute(entries.insert().values(vars(entry)))
        if head:
            chain.move_head(connection, entry)
        return sequence

    return ledger._database.write(write)


def charge_of(ledger, sequence):
    """What the entry of a charge says."""
    found = ledger._accounts.fetch("flights").entries[sequence - 1].values
    own = ("query", "title", "epsilon", "delta", "charge", "subject", "token_hash", "state", "share")
    return {name: found[name] for name in own}


def state_at_the_opening(ledger):
    return ledger._accounts.fetch("flights").entries[0].values["state"]


#: Entries that nobody can go on from: each adds one after two releases, and gives its number.
POISONS = {
    "a charge that says nothing": lambda ledger: appended(ledger, "charge", {}),
    "a charge without a query": lambda ledger: appended(ledger, "charge", charge_of(ledger, 2) | {"query": None}),
    "a charge that costs nothing": lambda ledger: appended(
        ledger, "charge", charge_of(ledger, 2) | {"state": state_at_the_opening(ledger)}
    ),
    "a cancellation by another": lambda ledger: appended(
        ledger, "cancel", {"token": "x", "state": state_at_the_opening(ledger)}, refers_to=2
    ),
    "a second settlement": lambda ledger: appended(ledger, "settle", {}, refers_to=3),
    "a note about nothing": lambda ledger: appended(ledger, "note", {"text": "x"}, refers_to=77),
    "digits without an end": inserted,
}


@pytest.fixture
def filled(ledger):
    """A ledger with two releases, of which the second is settled at entry 4."""
    ledger.reserve("flights", laplace(0.5), query="q", title="first")
    ledger.reserve("flights", gaussian(8), query="q", title="second").settle("hash")
    return ledger


def works(ledger, share):
    """All that people do with a ledger, at a share of its budget that is used."""
    assert ledger.verify().ok
    assert ledger.spent("flights").share == pytest.approx(share, rel=1e-9)
    assert ledger.overview("flights").spending.share == pytest.approx(share, rel=1e-9)
    assert [one.status for one in ledger.history("flights") if one.status != "void"] == ["reserved", "settled"]
    json.dumps(ledger.export())


@pytest.mark.parametrize("poison", POISONS)
def test_an_entry_that_nobody_can_go_on_from(filled, location, poison):
    share = filled.spent("flights").share
    with Ledger(location) as other:
        other.spent("flights")  # it has read the chain
        number = POISONS[poison](filled)
        for one in (other, Ledger(location)):
            with pytest.raises(DamagedLedgerError, match=rf"entry {number} .*`osgt ledger void`"):
                one.reserve("flights", laplace(0.1), query="q")
            assert f"entry {number} " in one.verify().problems[0]
        with Ledger(location) as owner:
            owner.void("flights", [number], reason="it was eve", actor="owner")
        for one in (other, filled, Ledger(location)):
            works(one, share)
        event = other.events("flights")[-1]
        assert (event.voided, event.reason, event.actor, event.epsilon) == ((number,), "it was eve", "owner", 3)
        assert event.text == f"declared void, since nothing was released: entry {number}"
        other.reserve("flights", laplace(0.1), query="q").settle("hash")
        assert Ledger(location).spent("flights").releases == 3


def test_several_at_once_and_no_fewer(filled, location):
    share = filled.spent("flights").share
    for poison in ("a charge that costs nothing", "a note about nothing", "digits without an end"):
        POISONS[poison](filled)
    with Ledger(location) as owner:
        with pytest.raises(DamagedLedgerError, match="entry 6 is a note about 77"):
            owner.void("flights", [5], reason="it was eve")
        assert "entry 5 was forged" in owner.verify().problems[0]
        owner.void("flights", [5, 6, 7], reason="it was eve")
        works(owner, share)


@pytest.mark.parametrize("composition", ["adaptive", "planned"])
@pytest.mark.parametrize("every", [2, 1000])
def test_a_charge_that_leaves_nothing(location, monkeypatch, composition, every):
    monkeypatch.setattr(checkpoint, "EVERY", every)
    with Ledger(location) as ledger, Ledger(location) as owner:
        ledger.open("flights", epsilon=3, delta=1e-6, composition=composition)
        ledger.reserve("flights", laplace(0.5), query="q")
        ledger.reserve("flights", gaussian(8), query="q").settle("hash")
        share = ledger.spent("flights").share
        reservation = ledger.reserve("flights", laplace(1.7), query="q", unit="nobody")
        assert owner.spent("flights").share > share
        ledger.note("flights", reservation.sequence, "who was that?")
        with pytest.raises(BudgetExceeded):
            owner.reserve("flights", laplace(1.4), query="q")
        owner.change_budget("flights", epsilon=3.1, delta=1e-6, reason="before it was known")
        owner.void("flights", [reservation.sequence], reason="asked her")
        owner.change_budget("flights", epsilon=3, delta=1e-6, reason="as before")
        for one in (ledger, owner, Ledger(location)):
            works(one, share)
            assert one.history("flights")[-1].status == "void"
            assert one.spent("flights").releases == 2
        with pytest.raises(ValueError, match=r"released nothing\. If it did, tell the owner"):
            reservation.settle("hash")
        owner.reserve("flights", laplace(1.4), query="q", unit="passenger")
        assert ledger.verify().ok


def test_a_charge_that_does_not_fit_a_plan(location):
    with Ledger(location) as ledger, Ledger(location) as other:
        ledger.open("flights", epsilon=3, delta=1e-6, composition="planned")
        ledger.reserve("flights", laplace(0.5), query="q")
        ledger.reserve("flights", gaussian(8), query="q").settle("hash")
        share = other.spent("flights").share
        big = charge_of(ledger, 2) | {"charge": laplace(5).to_dict()}
        number = appended(ledger, "charge", big)
        for one in (other, Ledger(location)):
            with pytest.raises(DamagedLedgerError, match="exceed the budget"):
                one.spent("flights")
        with Ledger(location) as owner:
            owner.void("flights", [number], reason="it was eve")
        for one in (ledger, other, Ledger(location)):
            works(one, share)


def test_a_residue_that_only_a_proof_finds_out_with_honest_charges_after_it(location):
    with Ledger(location) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        ledger.reserve("flights", laplace(0.5), query="q")
        ledger.reserve("flights", gaussian(8), query="q").settle("hash")
        share = ledger.spent("flights").share
        forged = charge_of(ledger, ledger.reserve("flights", osgt(30, 40), query="q").sequence)
        ledger.void("flights", [5], reason="the pattern of the next one")
        assert ledger.spent("flights").share == pytest.approx(share, rel=1e-9)
        with Ledger(location) as eve:
            state = forged["state"]
            number = appended(eve, "charge", forged | {"state": {**state, "mu": state["mu"] * (1 + 1e-6)}})
        later = ledger.reserve("flights", gaussian(20), query="q")  # its process has read the chain before
        ledger.change_budget("flights", epsilon=3, delta=1e-6, reason="the same")
        assert f"entry {number} was forged" in ledger.verify().problems[0]
        with Ledger(location) as owner:
            owner.void("flights", [number], reason="it was eve")
            assert owner.verify().ok
            assert [one.status for one in owner.history("flights")] == [
                "reserved", "settled", "void", "void", "reserved",
            ]  # fmt: skip
            owner.void("flights", [later.sequence], reason="nothing came of it")
            assert owner.spent("flights").share == pytest.approx(share, rel=1e-9)
            assert owner.verify().ok


def test_an_entry_without_the_head(filled, location):
    share = filled.spent("flights").share
    if not filled._database.is_sqlite:  # as it was once: now the server refuses it
        filled._database.write(
            lambda connection: connection.exec_driver_sql("ALTER TABLE osgt_entries DISABLE TRIGGER osgt_entries_end")
        )
    number = inserted(filled, head=False)
    with pytest.raises(DamagedLedgerError, match=r"cannot be read|entries end at 5"):
        Ledger(location).reserve("flights", laplace(0.1), query="q")
    with Ledger(location) as owner:
        owner.void("flights", [number], reason="it was eve")
        if not filled._database.is_sqlite:
            filled._database.write(
                lambda connection: connection.exec_driver_sql(
                    "ALTER TABLE osgt_entries ENABLE TRIGGER osgt_entries_end"
                )
            )
        works(owner, share)


def test_what_is_refused(filled):
    before = filled.verify().heads
    for numbers, error, words in (
        ([], ValueError, "numbers of entries"),
        ([2.0], ValueError, "numbers of entries"),
        ([9], ValueError, "has no entry 9; its last one is 4"),
        ([1], ValueError, r"entry 1 .* is the owner's own \(open\)"),
        ([3], ValueError, r"entry 3 .* was settled.*--although-settled"),
    ):
        with pytest.raises(error, match=words):
            filled.void("flights", numbers, reason="why")
    with pytest.raises(ValueError, match="reason must say how it is known"):
        filled.void("flights", [2], reason=" ")
    assert filled.verify().heads == before
    filled.void("flights", [3], reason="why", although_settled=True)
    with pytest.raises(ValueError, match=r"entry 3 .* was declared void before"):
        filled.void("flights", [3], reason="why", although_settled=True)
    with pytest.raises(ValueError, match=r"entry 5 .* is the owner's own \(budget\)"):
        filled.void("flights", [5], reason="why")
    assert [one.status for one in filled.history("flights")] == ["reserved", "void"]
    assert filled.verify().ok


def test_a_forged_declaration_is_not_believed(filled, location):
    """Also on SQLite, where everybody who may write the file counts as its owner, it must be added up right."""
    budget = filled._accounts.fetch("flights").entries[0].values["budget"]
    told = {"budget": budget, "reason": "", "after_outputs": False, "state": state_at_the_opening(filled)}
    number = appended(filled, "budget", {**told, "void": [2]})
    with pytest.raises(DamagedLedgerError, match=f"entry {number} was forged"):
        Ledger(location).spent("flights")
    assert f"entry {number} was forged" in filled.verify().problems[0]


@pytest.mark.parametrize("named", [[1], [4], [99], ["2"], [True], 7])
def test_a_declaration_of_what_cannot_be_void(filled, location, named):
    budget = filled._accounts.fetch("flights").entries[0].values["budget"]
    told = {"budget": budget, "reason": "", "after_outputs": False, "state": charge_of(filled, 3)["state"]}
    number = 5
    appended(filled, "budget", {**told, "void": [number] if named == [4] else named})
    with pytest.raises(DamagedLedgerError, match=f"entry {number} "):
        Ledger(location).spent("flights")
    assert f"entry {number} " in filled.verify().problems[0]


def test_on_the_command_line(filled, location):
    number = POISONS["a charge that says nothing"](filled)
    run = CliRunner().invoke
    told = run(app, ["ledger", "void", location, "flights", "3", str(number), "--reason", "it was eve"])
    assert (told.exit_code, "--although-settled" in " ".join(told.stderr.split())) == (2, True)
    told = run(app, ["ledger", "void", location, "flights", "2", str(number), "--reason", "it was eve"])
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith(f"flights: void from now on: 2, {number}. ")
    shown = run(app, ["ledger", "show", location, "flights"])
    assert shown.exit_code == 0, shown.output
    assert "void" in shown.stdout
    told = run(app, ["ledger", "settle", location, "flights", "2"])
    assert (told.exit_code, "was declared void by the owner" in " ".join(told.stderr.split())) == (2, True)
