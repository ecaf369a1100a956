"""A release that corrects another: charged like any other, and named in the statement and at both entries."""

import json
import re
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osgt import Dataset, Ledger, Publication
from osgt.cli import app
from osgt.ledger import BudgetExceeded

ROWS = pa.table({"rider": [i % 40 for i in range(200)], "city": ["Bern", "Rome"] * 100})
OTHER = pa.table({"rider": [i % 50 for i in range(300)], "city": ["Bern", "Rome"] * 150})


def counted(ledger, rows=ROWS):
    data = Dataset(rows, privacy_unit="rider", ledger=ledger, dataset="rides")
    return data.group_by("city", max_rows=2, public_keys=["Bern", "Rome"]).count()


@pytest.fixture
def first(ledger, tmp_path):
    """The number of the entry of a release that is out."""
    ledger.open("rides", epsilon=1, delta=1e-6, unit="rider")
    counted(ledger).release(0.4, 1e-8).to_parquet(tmp_path / "first.parquet")
    return ledger.history("rides")[0].sequence


def test_both_are_charged_and_each_names_the_other(ledger, first, tmp_path):
    spent = ledger.spent("rides").epsilon
    release = counted(ledger, OTHER).release(0.4, 1e-8, corrects=first)
    old, new = ledger.history("rides")
    assert ledger.spent("rides").epsilon > spent
    assert new.charge.epsilon(1e-8) == pytest.approx(old.charge.epsilon(1e-8), rel=0.01)
    assert new.title == f"count by city (corrects entry {first})"
    assert old.notes == ()  # nothing is out yet
    assert release.statement.values["corrects"] == first
    assert f"corrects that of entry {first}, which is not to be used any more. Both count" in str(release.statement)
    release.to_parquet(tmp_path / "second.parquet")
    release.to_csv(tmp_path / "second.csv")
    old, new = ledger.history("rides")
    assert [note.partition(" (")[0] for note in old.notes] == [f"corrected by entry {new.sequence}"]
    assert (new.status, new.notes) == ("settled", ())
    assert ledger.verify().ok


def test_a_publication_is_noted_once(ledger, first, tmp_path):
    query = counted(ledger)
    release = Publication(one=query, two=query.count(name="again")).release(0.4, 1e-8, corrects=first)
    release.write(tmp_path / "{table}.csv")
    assert len(ledger.history("rides")[0].notes) == 1
    assert str(release.statement).count("This publication corrects that of entry") == 1


def test_a_correction_gives_nothing_back(ledger, first):
    with pytest.raises(BudgetExceeded):
        counted(ledger).release(0.9, 1e-8, corrects=first)
    assert ledger.history("rides")[0].notes == ()


@pytest.mark.parametrize("entry", [0, 1, 99, -3, "7"])
def test_only_a_release_can_be_corrected(ledger, first, entry):
    with pytest.raises(ValueError, match=f"entry {entry} of 'rides' is not a release; the latest ones: {first}"):
        counted(ledger).release(0.1, 1e-8, corrects=entry)
    assert len(ledger.history("rides")) == 1


def test_one_that_is_void_cannot(ledger, first):
    ledger.void("rides", [first], reason="a test", although_settled=True)
    with pytest.raises(ValueError, match="was declared void"):
        counted(ledger).release(0.1, 1e-8, corrects=first)


def test_without_a_ledger_there_is_no_entry():
    query = Dataset(ROWS, privacy_unit="rider").group_by("city", max_rows=2, public_keys=["Bern", "Rome"]).count()
    with pytest.raises(ValueError, match="corrects must be left out without a ledger"):
        query.release(0.1, 1e-8, corrects=2)


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        pq.write_table(ROWS, "rides.parquet")
        asked = ["rides.parquet", "--unit", "rider", "--by", "city", "--keys", "city=Bern,Rome", "--max-rows", 2]
        asked += ["--count", "--epsilon", 0.3, "--delta", 1e-8, "--ledger", "budget.db", "--dataset", "rides"]

        def run(*words):
            every = [words[0], *(asked if words[0] == "release" else []), *words[1:]]
            return CliRunner().invoke(app, [str(word) for word in every])

        words = ("open", "budget.db", "rides", "--epsilon", 1, "--delta", 1e-6, "--unit", "rider")
        assert run("ledger", *words).exit_code == 0
        return run

    def test_the_option(self, run):
        assert run("release", "--out", "a.parquet").exit_code == 0
        done = run("release", "--out", "b.parquet", "--corrects", 2)
        assert done.exit_code == 0, done.output
        with Ledger("budget.db") as ledger:
            old, new = ledger.history("rides")
        assert old.notes[0].startswith(f"corrected by entry {new.sequence} (")
        assert json.loads(pq.read_schema("b.parquet").metadata[b"osgt"])["corrects"] == 2

    @pytest.mark.parametrize("more", [(), ("--dry-run",)])
    def test_a_wrong_entry_is_refused_before_the_charge(self, run, more):
        done = run("release", "--out", "b.parquet", "--corrects", 2, *more)
        assert done.exit_code == 2
        assert "entry 2 of 'rides' is not a release" in done.output
        with Ledger("budget.db") as ledger:
            assert ledger.history("rides") == []

    def test_one_that_is_settled_later_is_noted_then(self, run, monkeypatch):
        """The ledger is away when the table is in place; the command that is told does the rest."""
        assert run("release", "--out", "a.parquet").exit_code == 0
        with monkeypatch.context() as patch:

            def away(*_, **__):
                raise OSError("it is away")

            patch.setattr("osgt.ledger.reservation.Reservation.settle", away)
            done = run("release", "--out", "b.parquet", "--corrects", 2)
        assert done.exit_code == 4, done.output
        command = shlex.split(re.search(r"`osgt (ledger settle [^`]*)`", " ".join(done.output.split()))[1])
        for _ in range(2):
            assert run(*command).exit_code == 0
            with Ledger("budget.db") as ledger:
                old, new = ledger.history("rides")
            assert new.status == "settled"
            assert [note.partition(" (")[0] for note in old.notes] == [f"corrected by entry {new.sequence}"]
