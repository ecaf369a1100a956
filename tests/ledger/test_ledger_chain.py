"""An edited, removed or reordered entry is found, and a stored account that was tampered with is not used."""

import json

import pytest
import sqlalchemy as sa
from charges import gaussian, laplace, osgt

from osgt import Ledger
from osgt.ledger import DamagedLedgerError, LedgerError
from osgt.ledger.account import digest
from osgt.ledger.chain import canonical, hash_of
from osgt.ledger.schema import datasets, entries, states


@pytest.fixture
def filled(ledger):
    """A ledger with two data sets and thirty entries."""
    ledger.open("trains", epsilon=1, delta=1e-6)
    for i in range(12):
        reservation = ledger.reserve("flights", osgt(30 + i, 40), query=f"flights {i}")
        if i % 3 == 0:
            reservation.cancel()
        else:
            reservation.settle("hash")
    ledger.reserve("trains", gaussian(100), query="trains").settle("hash")
    assert ledger.verify().ok
    return ledger


def tamper(ledger, *statements):
    """Change the tables behind the ledger's back, with the database's guards taken down."""
    with ledger._database.engine().begin() as connection:
        if connection.dialect.name == "sqlite":
            for act in ("UPDATE", "DELETE"):
                connection.exec_driver_sql(f"DROP TRIGGER osgt_entries_no_{act}")
        else:
            connection.exec_driver_sql("ALTER TABLE osgt_entries DISABLE TRIGGER ALL")
        for statement in statements:
            connection.execute(statement)


def at(sequence, dataset=1):
    return (entries.c.dataset == dataset) & (entries.c.sequence == sequence)


def content_of(ledger, sequence):
    with ledger._database.engine().connect() as connection:
        return json.loads(connection.execute(sa.select(entries.c.content).where(at(sequence))).scalar_one())


@pytest.mark.parametrize("field", ["query", "actor", "time", "charge", "software", "statement_hash"])
def test_an_edited_field(filled, field):
    values = content_of(filled, 3 if field == "statement_hash" else 4)
    values[field] = {"parts": []} if field == "charge" else "something else"
    tamper(filled, entries.update().where(at(4)).values(content=canonical(values)))
    found = filled.verify()
    assert not found.ok
    assert "data set 'flights': entry 4 was edited" in found.problems[0]


def test_an_edited_field_with_its_hash(filled):
    """Whoever knows how the hash is made breaks the link to the next entry instead."""
    values = content_of(filled, 4)
    values["query"] = "something else"
    content = canonical(values)
    with filled._database.engine().connect() as connection:
        previous = connection.execute(sa.select(entries.c.previous_hash).where(at(4))).scalar_one()
    tamper(filled, entries.update().where(at(4)).values(content=content, hash=hash_of(previous, content)))
    assert "entry 5 does not follow" in filled.verify().problems[0]


@pytest.mark.parametrize("column", ["kind", "refers_to", "previous_hash", "hash"])
def test_an_edited_column(filled, column):
    value = {"kind": "settle", "refers_to": 2, "previous_hash": "0" * 64, "hash": "0" * 64}[column]
    tamper(filled, entries.update().where(at(4)).values(**{column: value}))
    assert "entry 4" in filled.verify().problems[0]


@pytest.mark.parametrize("sequence", [1, 2, 7, 24, 25])
def test_a_removed_entry(filled, sequence):
    tamper(filled, entries.delete().where(at(sequence)))
    assert not filled.verify().ok


def test_reordered_entries(filled):
    tamper(
        filled,
        *(entries.update().where(at(old)).values(sequence=new) for old, new in ((4, 1000), (6, 4), (1000, 6))),
    )
    assert "entry 4 " in filled.verify().problems[0]


def test_a_data_set_that_is_gone(filled):
    heads = filled.verify().heads
    gone = [states.delete().where(states.c.dataset == 1), entries.delete().where(entries.c.dataset == 1)]
    tamper(filled, *gone, datasets.delete().where(datasets.c.number == 1))
    assert "a data set is missing" in filled.verify().problems[0]
    assert "data set 'flights' is gone" in " ".join(filled.verify(heads).problems)


def test_a_shortened_chain(filled):
    """Head and account can be set back together with the entries: only a head that was kept elsewhere tells."""
    heads = json.loads(json.dumps(filled.export()))
    with filled._database.engine().connect() as connection:
        earlier = connection.execute(sa.select(entries.c.hash).where(at(20))).scalar_one()
    tamper(
        filled,
        entries.delete().where((entries.c.dataset == 1) & (entries.c.sequence > 20)),
        datasets.update().where(datasets.c.number == 1).values(head_sequence=20, head_hash=earlier),
        states.delete(),
    )
    assert filled.verify().ok
    assert "its last entries are missing; there were 25" in filled.verify(heads).problems[0]
    filled.verify(heads["heads"])
    for _ in range(8):
        filled.reserve("flights", osgt(30, 40), query="q")
    assert "written anew" in filled.verify(heads).problems[0]


def test_a_cancellation_by_someone_else(filled):
    """It would take the secret of the reservation, which never leaves the process."""
    filled.reserve("flights", osgt(30, 40), query="q")
    filled._end("flights", 26, None, "cancel", {"token": "guessed"})
    assert "entry 27 cancels charge 26, but not by its owner" in filled.verify().problems[0]


def test_a_charge_notices_a_break_near_the_end(filled):
    tamper(filled, entries.delete().where(at(25)))
    with pytest.raises(DamagedLedgerError, match="damaged at data set 'flights'"):
        filled.reserve("flights", osgt(30, 40), query="q")
    filled.reserve("trains", gaussian(100), query="other chains go on")


@pytest.mark.parametrize("change", [{"body": b"{}\n"}, {"digest": "0" * 64}, {"hash": "0" * 64}, {"sequence": 3}])
def test_a_tampered_account_is_found_and_not_used(filled, change):
    spent = filled.spent("flights")
    tamper(filled, states.update().where(states.c.dataset == 1).values(**change))
    assert filled.verify().problems
    assert filled.spent("flights").epsilon == pytest.approx(spent.epsilon, rel=1e-6)
    filled.reserve("flights", osgt(30, 40), query="q")  # builds it anew
    assert filled.verify().ok


def test_an_account_with_other_counts_is_found(filled):
    """Its digest has no key, so it can be made to fit; what it counts is compared with the entries."""
    rows = filled._database.read(lambda c: c.execute(sa.select(states).where(states.c.dataset == 1)).all())
    stored = rows[-1]
    header, _, masses = stored.body.partition(b"\n")
    plain = json.loads(header)
    plain["parts"][0]["coordinates"] += 1
    body = canonical(plain).encode() + b"\n" + masses
    change = {"body": body, "digest": digest(body, stored.hash)}
    tamper(filled, states.update().where(states.c.sequence == stored.sequence, states.c.dataset == 1).values(**change))
    assert "not the sum of the entries: ['parts']" in filled.verify().problems[0]


def test_the_database_itself_refuses_to_change_entries(filled):
    for statement in (entries.update().values(kind="x"), entries.delete()):
        with pytest.raises(LedgerError, match="never changed"):
            filled._database.write(lambda connection, s=statement: connection.execute(s))
    assert filled.verify().ok


def test_an_export_holds_all_and_no_secret(filled):
    exported = json.loads(json.dumps(filled.export()))
    flights, trains = exported["datasets"]
    assert (len(flights["entries"]), len(trains["entries"])) == (25, 3)
    assert exported["heads"]["flights"] == {"sequence": 25, "hash": flights["entries"][-1]["hash"]}
    assert {entry["kind"] for entry in flights["entries"]} == {"open", "charge", "settle", "cancel"}
    for entry in flights["entries"]:
        assert {"time", "actor", "software", "previous_hash", "hash"} <= set(entry)


def test_clocks_do_not_matter(tmp_path, monkeypatch):
    """Times that run backwards change neither order nor verification."""
    from osgt.ledger import book  # noqa: PLC0415

    class Backwards:
        year = 2030

        @classmethod
        def now(cls, zone):
            cls.year -= 1
            return __import__("datetime").datetime(cls.year, 1, 1, tzinfo=zone)

    monkeypatch.setattr(book, "datetime", Backwards)
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        for i in range(5):
            ledger.reserve("flights", laplace(0.1), query=str(i))
        assert [release.query for release in ledger.history("flights")] == list("01234")
        assert [release.time[:4] for release in ledger.history("flights")] == ["2028", "2027", "2026", "2025", "2024"]
        assert ledger.verify().ok
