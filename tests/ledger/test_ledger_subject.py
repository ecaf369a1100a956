"""Whose budget it is: releases about others, under another relation or from other tables are refused."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from charges import laplace
from osgt import Dataset, Ledger
from osgt.cli import app
from osgt.ledger import OtherSubjectError

CHARGE = laplace(0.1)


@pytest.fixture
def health(sqlite_ledger):
    """A budget for people, with two tables about them."""
    sqlite_ledger.open("health", epsilon=3, delta=1e-6, unit="person", tables=["visits", "bills:payer"])
    return sqlite_ledger


def reserve(ledger, **subject):
    return ledger.reserve("health", CHARGE, query="q", **subject)


class TestDeclared:
    def test_what_agrees_is_charged(self, health):
        reserve(health, unit="person")
        reserve(health, unit="person", neighbours="add_remove", table="visits")
        reserve(health, unit="payer", table="bills")
        reserve(health, unit="person", table={"name": "visits", "schema": "abc", "source": "/srv/visits.parquet"})
        assert [release.table for release in health.history("health")] == [None, "visits", "bills", "visits"]
        assert health.history("health")[3].source == "/srv/visits.parquet"
        assert health.verify().ok

    @pytest.mark.parametrize(
        ("subject", "message"),
        [
            ({}, "does not say whom it is about. Give unit='person'"),
            ({"unit": "trip"}, "protects 'person', and this release protects 'trip'.*osgt ledger open"),
            ({"unit": "payer", "table": "visits"}, "protects 'payer'"),
            ({"unit": "person", "neighbours": "change_one"}, "relation 'add_remove', and this release is planned for"),
            (
                {"unit": "person", "table": "flights"},
                "is for 'visits', 'bills', and this release reads 'flights'.*--add",
            ),
        ],
    )
    def test_what_differs_is_refused_with_the_way_out(self, health, subject, message):
        with pytest.raises(OtherSubjectError, match=f"nothing was charged.*{message}"):
            reserve(health, **subject)
        assert health.spent("health").releases == 0

    def test_the_columns_of_a_table_are_bound_by_its_first_release(self, health):
        visits = {"name": "visits", "schema": "abc"}
        reserve(health, unit="person", table=visits)
        changed = visits | {"schema": "def"}
        with pytest.raises(OtherSubjectError, match=r"other names or types.*--changed visits"):
            reserve(health, unit="person", table=changed)
        health.change_tables("health", changed=["visits"], reason="a column was added")
        reserve(health, unit="person", table=changed)
        with pytest.raises(OtherSubjectError):
            reserve(health, unit="person", table=visits)
        assert health.verify().ok

    def test_another_table_is_added_in_the_chain(self, health):
        health.change_tables("health", add=["labs:patient"], reason="the same people", actor="ann")
        reserve(health, unit="patient", table="labs")
        entry = health.export()["datasets"][1]["entries"][1]
        assert (entry["kind"], entry["actor"], entry["tables"][2]["name"]) == ("tables", "ann", "labs")
        with Ledger(health.name) as again:
            assert again.spent("health").tables == ("visits", "bills", "labs")

    def test_opening_again(self, health):
        health.open("health", epsilon=3, delta=1e-6)
        health.open("health", epsilon=3, delta=1e-6, unit="person", tables=["visits"])
        for wrong in ({"unit": "trip"}, {"unit": "person", "neighbours": "change_one"}):
            with pytest.raises(ValueError, match="open already for the unit 'person'"):
                health.open("health", epsilon=3, delta=1e-6, **wrong)
        with pytest.raises(ValueError, match="without the tables 'labs'"):
            health.open("health", epsilon=3, delta=1e-6, unit="person", tables=["labs"])


class TestNotDeclared:
    """A budget without a declaration: the first release that says whom it is about decides for all that say it."""

    def test_the_first_release_decides(self, sqlite_ledger):
        sqlite_ledger.reserve("flights", CHARGE, query="says nothing")
        sqlite_ledger.reserve("flights", CHARGE, query="q", unit="rider", neighbours="add_remove", table="rides")
        sqlite_ledger.reserve("flights", CHARGE, query="says nothing")
        for other in ({"unit": "trip"}, {"neighbours": "change_one"}, {"table": "zones"}):
            with pytest.raises(OtherSubjectError):
                sqlite_ledger.reserve("flights", CHARGE, query="q", **{"unit": "rider", **other})
        with Ledger(sqlite_ledger.name) as again, pytest.raises(OtherSubjectError):
            again.reserve("flights", CHARGE, query="q", unit="trip")

    def test_a_cancelled_release_decides_nothing(self, sqlite_ledger):
        sqlite_ledger.reserve("flights", CHARGE, query="q", unit="rider").cancel()
        sqlite_ledger.reserve("flights", CHARGE, query="q", unit="trip")
        assert sqlite_ledger.spent("flights").unit == "trip"


class TestTables:
    """Releases of tables say by themselves what they are about."""

    ROWS = pa.table({"rider": [1, 2], "trip": [1, 2], "city": ["Bern", "Rome"], "fare": [1.5, 2.5]})

    def query(self, ledger, source=None, unit="rider", **options):
        data = Dataset(self.ROWS if source is None else source, unit, ledger=ledger, dataset="flights", **options)
        return data.group_by("city", max_groups=1, max_rows_per_group=1, public_keys=["Bern", "Rome"]).count()

    def test_units_relations_and_tables_do_not_mix(self, sqlite_ledger):
        self.query(sqlite_ledger).release(0.1, 1e-9)
        self.query(sqlite_ledger).release(0.1, 1e-9)
        others = [
            {"unit": "trip"},
            {"neighbours": "change_one"},
            {"source": self.ROWS.drop_columns(["fare"])},
            {"source": self.ROWS.set_column(3, "fare", pa.array(["a", "b"]))},
        ]
        for other in others:
            with pytest.raises(OtherSubjectError, match="nothing was charged"):
                self.query(sqlite_ledger, **other).release(0.1, 1e-9)
        assert sqlite_ledger.spent("flights").releases == 2
        (first, _) = sqlite_ledger.history("flights")
        assert (first.unit, first.neighbours, first.title) == ("rider", "add_remove", "count by city")
        assert (first.epsilon, first.delta) == (0.1, 1e-9)

    def test_a_file_may_move_and_grow(self, sqlite_ledger, tmp_path):
        for folder, rows in (("a", self.ROWS), ("b", pa.concat_tables([self.ROWS, self.ROWS]))):
            (tmp_path / folder).mkdir()
            pyarrow.parquet.write_table(rows, tmp_path / folder / "rides.parquet")
            self.query(sqlite_ledger, tmp_path / folder / "rides.parquet").release(0.1, 1e-9)
        pyarrow.parquet.write_table(self.ROWS, tmp_path / "others.parquet")
        with pytest.raises(OtherSubjectError, match=r"reads 'others'.*--add others"):
            self.query(sqlite_ledger, tmp_path / "others.parquet").release(0.1, 1e-9)
        sqlite_ledger.change_tables("flights", add=["others"])
        self.query(sqlite_ledger, tmp_path / "others.parquet").release(0.1, 1e-9)
        assert sqlite_ledger.spent("flights").tables == ("rides", "others")


CSV = "rider,city,fare,minutes\n" + "".join(f"{i},Bern,1.5,{i}\n" for i in range(20))

QUERY = """
[data]
source = "rides.csv"
privacy_unit = "rider"
ledger = "{ledger}"
dataset = "flights"

[data.types]
{column} = "{dtype}"

[groups]
by = ["city"]
max_groups = 1
max_rows_per_group = 1

[[aggregates]]
kind = "mean"
column = "{column}"
bounds = [0, 30]

[budget]
epsilon = 0.1
delta = 1e-9
"""


class TestDeclaredTypes:
    """Each release of a CSV file declares the types of the columns that it needs."""

    @pytest.fixture(params=["file", "frame"])
    def mean(self, request, sqlite_ledger, tmp_path):
        """Release the mean of a column, from a CSV file and from a frame of Python objects."""
        (tmp_path / "rides.csv").write_text(CSV, encoding="utf-8")
        source = (
            tmp_path / "rides.csv" if request.param == "file" else pd.read_csv(tmp_path / "rides.csv", dtype=object)
        )

        def released(column, **types):
            data = Dataset(source, "rider", ledger=sqlite_ledger, dataset="flights", types={"rider": "string", **types})
            groups = data.group_by("city", max_groups=1, max_rows_per_group=1, public_keys=["Bern"])
            return groups.mean(column, bounds=(0, 30)).release(0.1, 1e-9)

        return released

    @pytest.mark.parametrize("order", [("fare", "minutes"), ("minutes", "fare")])
    def test_of_other_columns_are_no_change(self, mean, sqlite_ledger, order):
        for column in (*order, order[0]):
            mean(column, **{column: "float64"})
        mean("fare", fare="float64", minutes="float64")
        assert sqlite_ledger.spent("flights").releases == 4
        with Ledger(sqlite_ledger.name) as again:
            assert again.verify().ok
            assert again.overview("flights").spending == again.spent("flights")

    def test_another_type_of_the_same_column_is_refused(self, mean, sqlite_ledger):
        mean("minutes", minutes="float64")  # nothing is said about fare
        mean("fare", fare="float64")
        for other in ("int64", "decimal(10, 2)", "string"):
            with pytest.raises(OtherSubjectError, match=rf"column 'fare' of '.*' is {other[:5]}.* declared as float64"):
                mean("minutes", minutes="float64", fare=other)
        mean("minutes", minutes="float64")
        assert sqlite_ledger.spent("flights").releases == 3

    def test_a_cancelled_release_declares_nothing(self, sqlite_ledger):
        table = {"name": "rides", "schema": "abc", "types": {"fare": "int64"}}
        other = {**table, "types": {"fare": "float64"}}
        sqlite_ledger.reserve("flights", CHARGE, query="q", unit="rider", table=table).cancel()
        sqlite_ledger.reserve("flights", CHARGE, query="q", unit="rider", table=other)
        with pytest.raises(OtherSubjectError, match="is int64 here, and was declared as float64"):
            sqlite_ledger.reserve("flights", CHARGE, query="q", unit="rider", table=table)
        sqlite_ledger.change_tables("flights", changed=["rides"])
        sqlite_ledger.reserve("flights", CHARGE, query="q", unit="rider", table=table)

    def test_a_column_more_is_a_change_still(self, sqlite_ledger, tmp_path, mean):
        mean("fare", fare="float64")
        (tmp_path / "rides.csv").write_text(CSV.replace("minutes\n", "minutes,tip\n", 1), encoding="utf-8")
        data = Dataset(tmp_path / "rides.csv", "rider", ledger=sqlite_ledger, dataset="flights")
        with pytest.raises(OtherSubjectError):
            data.count_units().release(0.1, 0)

    @pytest.mark.parametrize("order", [("fare", "minutes"), ("minutes", "fare")])
    def test_in_query_files(self, sqlite_ledger, tmp_path, monkeypatch, order):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "rides.csv").write_text(CSV, encoding="utf-8")

        def run(column, dtype):
            text = QUERY.format(ledger=sqlite_ledger.name, column=column, dtype=dtype)
            (tmp_path / "q.toml").write_text(text, encoding="utf-8")
            return CliRunner().invoke(app, ["release", "--query", "q.toml", "--out", "out.csv", "--overwrite"])

        for column in (*order, order[0]):
            result = run(column, "float64")
            assert result.exit_code == 0, result.output
        refused = run(order[0], "int64")
        assert refused.exit_code != 0
        assert f"column '{order[0]}' of 'rides' is int64 here" in " ".join(refused.output.split())
        assert sqlite_ledger.spent("flights").releases == 3
