"""An edited, removed, reordered or made-up entry is found, and lets no charge through."""

import contextlib
import json
import sqlite3
from fractions import Fraction

import pytest
import sqlalchemy as sa

from charges import gaussian, laplace, osgt
from osgt import Ledger
from osgt.ledger import BudgetExceeded, DamagedLedgerError, LedgerError
from osgt.ledger.reservation import end_charge
from osgt.ledger.store import chain, schema
from osgt.ledger.store.chain import canonical, hash_of
from osgt.ledger.store.schema import datasets, entries


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
    """Change the tables behind the ledger's back, with the database's guards taken down and put up again."""
    with ledger._database.engine().begin() as connection:
        on_sqlite = connection.dialect.name == "sqlite"
        for name in schema._SQLITE_GUARDS if on_sqlite else ():
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
        for table in () if on_sqlite else ("osgt_entries", "osgt_datasets"):
            connection.exec_driver_sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        for statement in statements:
            connection.execute(statement)
        if on_sqlite:
            schema.restore_guards(connection)
        for table in () if on_sqlite else ("osgt_entries", "osgt_datasets"):
            connection.exec_driver_sql(f"ALTER TABLE {table} ENABLE TRIGGER ALL")


def written_anew(ledger, change, dataset=1):
    """The chain from the first changed entry on, with all hashes and the head made to fit: what a forger can do."""
    with ledger._database.engine().connect() as connection:
        rows = connection.execute(
            sa.select(entries).where(entries.c.dataset == dataset).order_by(entries.c.sequence)
        ).all()
    previous, statements = rows[0].previous_hash, []
    for row in rows:
        values = json.loads(row.content)
        change(values)
        content = canonical(values)
        hash_ = hash_of(previous, content)
        statements.append(
            entries.update()
            .where(at(row.sequence, dataset))
            .values(content=content, previous_hash=previous, hash=hash_)
        )
        previous = hash_
    statements.append(datasets.update().where(datasets.c.number == dataset).values(head_hash=previous))
    tamper(ledger, *statements)


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


@pytest.mark.parametrize(
    ("field", "part"),
    [
        *((field, Fraction(1, 10**5)) for field in ("pure", "few", "renyi", "selection")),
        *((field, Fraction(1, 100)) for field in ("mu", "share")),  # whose last digits are another machine's own
    ],
)
def test_a_price_that_is_a_little_too_low(sqlite_ledger, field, part):
    """The last charge says that it has taken 1 % less out of the budget than it has."""
    for _ in range(3):
        sqlite_ledger.reserve("flights", laplace(0.2, 1e-9), query="q")
    assert sqlite_ledger.verify().ok
    states = {sequence: content_of(sqlite_ledger, sequence) for sequence in (3, 4)}

    def forge(values):
        if values["sequence"] == 4:
            before, after = (
                Fraction((states[sequence] if field == "share" else states[sequence]["state"])[field])
                for sequence in (3, 4)
            )
            cheaper = after - part * (after - before)
            assert cheaper != after
            if field == "share":
                values["share"] = float(cheaper)
            else:
                values["state"][field] = float(cheaper) if field == "mu" else str(cheaper)

    written_anew(sqlite_ledger, forge)
    assert "entry 4 was forged" in sqlite_ledger.verify().problems[0]


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
    tamper(filled, entries.delete().where(entries.c.dataset == 1), datasets.delete().where(datasets.c.number == 1))
    assert "a data set is missing" in filled.verify().problems[0]
    assert "data set 'flights' is gone" in " ".join(filled.verify(heads).problems)


def test_a_shortened_chain(filled, tmp_path, monkeypatch):
    """Head and account can be set back together with the entries: only a head that was kept elsewhere tells."""
    heads = json.loads(json.dumps(filled.export()))
    with filled._database.engine().connect() as connection:
        earlier = connection.execute(sa.select(entries.c.hash).where(at(20))).scalar_one()
    tamper(
        filled,
        entries.delete().where((entries.c.dataset == 1) & (entries.c.sequence > 20)),
        datasets.update().where(datasets.c.number == 1).values(head_sequence=20, head_hash=earlier),
    )
    assert filled.verify().ok
    for known in (heads, heads["heads"]):
        assert "cut off: it ends at 20, and there were 25" in filled.verify(known).problems[0]
    with pytest.raises(DamagedLedgerError, match="there were 25 entries, and its head says 20: the last ones were"):
        filled.reserve("flights", osgt(300, 400), query="this process has seen them")
    filled.close()
    with pytest.raises(DamagedLedgerError, match="your processes have seen entry 25"):
        filled.reserve("flights", osgt(300, 400), query="this user has seen them")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another user"))
    for _ in range(8):
        filled.reserve("flights", osgt(300, 400), query="q")
    assert "written anew" in filled.verify(heads).problems[0]


def test_a_cancellation_by_someone_else(filled):
    """It would take the secret of the reservation, which never leaves the process."""
    filled.reserve("flights", osgt(30, 40), query="q")
    with pytest.raises(ValueError, match="can be cancelled by its owner only"):
        end_charge(filled._accounts, "flights", 26, None, "cancel", {"token": "guessed"})
    assert filled.verify().ok

    values = {"token": "guessed", "state": content_of(filled, 26)["state"]}

    def forge(connection):
        head = chain.find(connection, "flights", lock=True)
        chain.append(connection, head, "cancel", values, actor=None, refers_to=26)

    filled._database.write(forge)
    assert "entry 27 cancels charge 26, but not by its owner" in filled.verify().problems[0]


def test_a_charge_notices_a_break_near_the_end(filled):
    tamper(filled, entries.delete().where(at(25)))
    filled.close()
    with pytest.raises(DamagedLedgerError, match="damaged at data set 'flights'"):
        filled.reserve("flights", osgt(30, 40), query="q")
    filled.reserve("trains", gaussian(100), query="other chains go on")


class TestForgedStates:
    """The state after a charge stands in its entry, and a forger can make the hashes fit; nothing is believed."""

    def spend(self, ledger, charge):
        """Charge until nothing fits."""
        with pytest.raises(BudgetExceeded):  # noqa: PT012
            while True:
                ledger.reserve("flights", charge, query="q")

    @pytest.mark.parametrize(
        "charge", [laplace(0.5), gaussian(4), osgt(20, 15, 3, 1e-9)], ids=["laplace", "gaussian", "osgt"]
    )
    def test_a_fresh_state_lets_nothing_through(self, ledger, charge):
        fresh = ledger.reserve("flights", charge, query="q")
        first = json.loads(canonical(content_of(ledger, fresh.sequence)))["state"]
        self.spend(ledger, charge)
        last = ledger.verify().heads["flights"]["sequence"]

        def forge(values):
            if values["sequence"] == last:
                values["state"] = first

        written_anew(ledger, forge)
        assert f"entry {last} was forged" in ledger.verify().problems[0]
        for process in (ledger, Ledger(ledger._database.url.render_as_string(False))):
            with process, pytest.raises(DamagedLedgerError, match="damaged at data set 'flights'"):
                process.reserve("flights", charge, query="q")

    def test_a_residue_that_is_a_little_too_large_is_found(self, ledger):
        for _ in range(5):
            ledger.reserve("flights", osgt(30, 40), query="q")

        def forge(values):
            if values["kind"] == "charge":
                values["state"]["mu"] *= 1 + 1e-7 * (values["sequence"] - 1)

        written_anew(ledger, forge)
        assert "was forged" in ledger.verify().problems[0]

    @pytest.mark.parametrize("name", ["pure", "renyi", "selection", "unbounded"])
    def test_every_sum_is_added_up_again(self, ledger, name):
        for charge in (laplace(0.1, 1e-9), gaussian(40), laplace(0.2, 1e-9)):
            ledger.reserve("flights", charge, query="q")

        def forge(values):
            if values["sequence"] == 4:
                values["state"][name] = 0 if name == "unbounded" else "0"

        written_anew(ledger, forge)
        assert "entry 4 was forged" in ledger.verify().problems[0]
        ledger.close()
        with pytest.raises(DamagedLedgerError, match="entry 4 was forged"):
            ledger.spent("flights")

    def test_a_charge_that_does_not_fit_is_found(self, ledger):
        """Someone raises the budget in the opening entry only, or writes the charges of a larger one."""
        ledger.open("other", epsilon=30, delta=1e-6)
        for _ in range(9):
            ledger.reserve("other", laplace(1.0), query="q")

        def forge(values):
            if values["kind"] == "open":
                values["budget"]["epsilon"] = values["budget"]["shares"]["epsilon"] = 3

        written_anew(ledger, forge, dataset=2)
        assert "data set 'other': entry" in ledger.verify().problems[0]

    def test_planned_charges_that_do_not_fit_are_found(self, ledger):
        ledger.open("plan", epsilon=30, delta=1e-6, composition="planned")
        for _ in range(9):
            ledger.reserve("plan", laplace(1.0), query="q")

        def forge(values):
            if values["kind"] == "open":
                values["budget"]["epsilon"] = 3

        written_anew(ledger, forge, dataset=2)
        assert "exceed the budget of their time" in ledger.verify().problems[0]
        ledger.close()
        with pytest.raises(DamagedLedgerError, match="exceed the budget"):
            ledger.reserve("plan", laplace(0.001), query="q")

    def test_shares_that_add_up_to_more_than_delta(self, ledger):
        def forge(values):
            if values["kind"] == "open":
                values["budget"]["shares"]["gaussian"] *= 2

        written_anew(ledger, forge)
        assert "entry 1 cannot be read" in ledger.verify().problems[0]

    @pytest.mark.parametrize(
        "change",
        [
            {"coordinates": 10**400},
            {"coordinates": 2**53 + 1},
            {"shift": 10**400},
            {"noise": {"family": "unheard_of", "discrete": True, "slope": 1.0, "curvature": 0.0}},
            {"noise": {"family": "osgt", "discrete": True, "slope": 10**400, "curvature": 0.0}},
            {"noise": {"family": "osgt", "discrete": True, "slope": 1.0}},
            {"noise": []},
        ],
    )
    def test_a_charge_of_nonsense(self, ledger, change):
        ledger.reserve("flights", laplace(0.1), query="q")

        def forge(values):
            if values["kind"] == "charge":
                values["charge"]["parts"][0].update(change)

        written_anew(ledger, forge)
        assert "entry 2 cannot be read" in ledger.verify().problems[0]
        ledger.close()
        with pytest.raises(DamagedLedgerError, match="entry 2 cannot be read"):
            ledger.reserve("flights", laplace(0.1), query="q")

    def test_a_budget_that_begins_with_more(self, ledger):
        def forge(values):
            if values["kind"] == "open":
                values["state"]["mu"] *= 1.01

        written_anew(ledger, forge)
        assert "entry 1 was forged" in ledger.verify().problems[0]


def test_a_missing_trigger_is_told_from_a_wrong_entry(filled):
    with filled._database.engine().begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER osgt_entries_no_update")
            connection.exec_driver_sql("DROP TRIGGER osgt_datasets_move_on")
            connection.exec_driver_sql(
                "CREATE TRIGGER osgt_datasets_move_on BEFORE UPDATE ON osgt_datasets WHEN 0 BEGIN SELECT 1; END"
            )
            expected = ["osgt_entries_no_update", "osgt_datasets_move_on"]
        else:
            connection.exec_driver_sql("ALTER TABLE osgt_entries DISABLE TRIGGER osgt_entries_no_change")
            connection.exec_driver_sql(
                "CREATE OR REPLACE FUNCTION osgt_datasets_move_on() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RETURN NEW; END $$"
            )
            expected = ["osgt_entries_no_change", "osgt_datasets_move_on"]
    found = filled.verify()
    assert [problem.split()[2] for problem in found.problems] == expected
    assert found.entries_ok


def test_a_damaged_index_is_told_from_a_missing_entry(sqlite_ledger, tmp_path):
    for _ in range(5):
        sqlite_ledger.reserve("flights", laplace(0.1), query="q")
    path = tmp_path / "budget.db"
    sqlite_ledger.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_osgt_entries_1'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    body = bytearray(path.read_bytes())
    start = (page - 1) * size
    cell = int.from_bytes(body[start + 8 + 2 * 3 : start + 8 + 2 * 3 + 2], "big")  # the fourth entry
    body[start + cell + 1 + body[start + cell + 1] + 1] ^= 64  # its sequence number
    path.write_bytes(body)
    found = sqlite_ledger.verify()
    assert found.entries_ok
    assert all(problem.startswith("the file is damaged") for problem in found.problems)
    assert "index sqlite_autoindex_osgt_entries_1" in " ".join(found.problems)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [],
        "x",
        3,
        None,
        {"heads": {}},
        {"flights": 3},
        {"flights": {"sequence": "1", "hash": "x"}},
        {"a": {"hash": 1}},
    ],
)
def test_what_are_no_heads(sqlite_ledger, wrong):
    if wrong is None:
        assert sqlite_ledger.verify(wrong).ok
        return
    with pytest.raises(ValueError, match="these are no heads of a ledger"):
        sqlite_ledger.verify(wrong)


def test_the_chain_of_another_ledger(filled, tmp_path):
    """The first entry follows the name of its ledger."""
    tamper(filled, schema.schema.update().values(ledger="0" * 32))
    assert "data set 'flights': entry 1 does not follow" in filled.verify().problems[0]


def test_the_database_itself_refuses_to_change_entries(filled):
    back = datasets.update().values(head_sequence=datasets.c.head_sequence - 1)
    renamed = datasets.update().where(datasets.c.number == 2).values(name="planes")
    gap = entries.insert().values(dataset=1, sequence=99, kind="x", content="{}", previous_hash="x", hash="x")
    for statement in (entries.update().values(kind="x"), entries.delete(), back, renamed, datasets.delete(), gap):
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
    from osgt.ledger.store import chain  # noqa: PLC0415

    class Backwards:
        year = 2030

        @classmethod
        def now(cls, zone):
            cls.year -= 1
            return __import__("datetime").datetime(cls.year, 1, 1, tzinfo=zone)

    monkeypatch.setattr(chain, "datetime", Backwards)
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        for i in range(5):
            ledger.reserve("flights", laplace(0.1), query=str(i))
        assert [release.query for release in ledger.history("flights")] == list("01234")
        assert [release.time[:4] for release in ledger.history("flights")] == ["2028", "2027", "2026", "2025", "2024"]
        assert ledger.verify().ok
