"""Warnings reach people who call from Python: once, at their own line, and never at the price of a table."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from osgt import Dataset, Ledger, OsgtWarning, Publication

TOWNS = ["a", "b", "c", "d"]


def rides(people=10_000, towns=4):
    """Everybody once in each of some towns."""
    person = np.repeat(np.arange(people), towns)
    return pa.table({"person": person, "town": np.tile(TOWNS[:towns], people), "fare": np.full(len(person), 10.0)})


@pytest.fixture
def query():
    """Half of the towns of everybody are left out."""
    data = Dataset(rides(), "person")
    return data.group_by("town", max_groups=2, max_rows_per_group=1, public_keys=TOWNS).count()


def caught(call):
    """The warnings of a call, of which the user's own line is in this file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        made = call()
    return made, [each for each in found if each.category is OsgtWarning]


#: Nothing in these tests is left to chance: an interval that is missed once in a billion times, and noise that is too
#: small to look like rows that were left out.
SURE = 1 - 1e-9
quiet = pytest.mark.usefixtures("quiet_noise")


class TestPython:
    @quiet
    def test_plan_and_release_warn_at_the_line_of_the_caller(self, query):
        plan, found = caught(lambda: query.plan(11, 1e-6))
        assert [(each.category, each.filename) for each in found] == [(OsgtWarning, __file__)]
        assert "ε = 11 is very large" in str(found[0].message)
        release, found = caught(lambda: query.release(11, 1e-6))
        # What the plan has told is not told again.
        [told] = found
        assert told.filename == __file__
        assert "of the appearances of a person in a group are missing in the numbers" in str(told.message)
        assert "a person in more than 2 groups is counted in 2 of them" in str(told.message)
        assert release.warnings == [*plan.warnings, str(told.message)]
        assert repr(plan).endswith("; 1 warning: see .warnings)")
        assert repr(release).endswith("; 2 warnings: see .warnings)")

    @quiet
    def test_a_release_alone_tells_what_its_plan_would(self, query):
        _, found = caught(lambda: query.release(11, 1e-6))
        assert [str(each.message)[:6] for each in found] == ["ε = 11", "About "]

    @quiet
    def test_nothing_is_told_where_there_is_nothing(self):
        query = Dataset(rides(towns=1), "person").group_by("town", max_groups=1, public_keys=["a"]).count_units()
        release, found = caught(lambda: query.release(1, 1e-6))
        assert found == []
        assert release.warnings == []
        assert "warning" not in repr(release)

    @quiet
    def test_as_errors_they_come_before_the_charge_or_cost_no_table(self, query, tmp_path, capfd):
        with Ledger(tmp_path / "budget.db") as ledger:
            ledger.open("rides", epsilon=20, delta=1e-5, unit="person")
            data = Dataset(rides(), "person", ledger=ledger, dataset="rides")
            towns = data.group_by("town", max_groups=2, max_rows_per_group=1, public_keys=TOWNS).count()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(OsgtWarning, match="ε = 11 is very large"):
                    towns.release(11, 1e-6)
                assert ledger.spent("rides").releases == 0
                release = towns.release(5, 1e-6)
            assert ledger.spent("rides").releases == 1
        assert len(release) == 4
        assert "OsgtWarning: About" in capfd.readouterr().err

    def test_the_audit_of_a_query_tells_nobody(self, query):
        """Code of the package that plans and releases tells warnings in its own way."""
        from osgt import audit  # noqa: PLC0415

        _, found = caught(lambda: audit(query, 11, 1e-6, minutes=0.02))
        assert found == []

    @quiet
    def test_report_and_card_have_them(self, query, tmp_path):
        release, _ = caught(lambda: query.release(11, 1e-6))
        release.report(tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text()
        box = page.split("<h2>Warning</h2>")[1].split("</section>")[0]
        assert "ε = 11 is very large" in box
        assert "a person in more than 2 groups is counted in 2 of them" in box
        assert release._repr_html_().count("Warning: ") == 2

    @quiet
    def test_so_do_those_of_several_tables(self, query, tmp_path):
        both = Publication(first=query, second=query.dataset.group_by(max_rows_per_group=1).count_units())
        release, found = caught(lambda: both.release(11, 1e-6))
        assert any("Table first: About" in str(each.message) for each in found)
        assert any("ε = 11 is very large" in str(each.message) for each in found)
        assert {each.filename for each in found} == {__file__}
        release.report(tmp_path / "r.html")
        for text in ((tmp_path / "r.html").read_text().split("<h2>Warning</h2>")[1], release._repr_html_()):
            assert "ε = 11 is very large" in text
            assert "in more than 2 groups is counted in 2 of them" in text
        assert "warnings: see .warnings" in repr(release)


class TestMostlyNoise:
    @pytest.fixture
    def release(self):
        """Three large groups, one of 20 and one without anybody, with intervals that no draw leaves."""
        sizes = {"a": 3000, "b": 2900, "c": 2800, "d": 20, "e": 0}
        towns = [town for town, size in sizes.items() for _ in range(size)]
        table = pa.table({"person": range(len(towns)), "town": towns, "fare": np.full(len(towns), 10.0)})
        query = Dataset(table, "person").group_by("town", max_groups=1, max_rows_per_group=1, public_keys=[*sizes])
        return query.count().mean("fare", (0, 100)).sum("fare", (-50, 50)).release(0.1, 1e-6, confidence=SURE)

    def test_they_are_counted_in_what_is_published(self, release, tmp_path):
        rows = release.to_arrow().to_pylist()

        def noisy(row, name):
            value, low, high = (row[name + end] for end in ("", "_low", "_high"))
            return low <= 0 <= high or high - low > abs(value)

        truth = {name: sum(noisy(row, name) for row in rows) for name in ("count", "fare_sum")}
        truth["fare_mean"] = sum(row["fare_mean"] is None for row in rows)
        assert dict(release.mostly_noise.numbers) == truth
        assert truth["count"] == 2
        assert release.statement.to_dict()["mostly_noise"] == truth
        [told] = release.mostly_noise.sentences
        assert told.startswith("Mostly noise, of 5 groups: count in 2")
        assert told in str(release.statement)
        release.report(tmp_path / "r.html", labels={"count": "Riders"})
        assert "Mostly noise, of 5 groups: Riders in 2" in (tmp_path / "r.html").read_text()
        [warning] = release.mostly_noise.warnings  # says it of the sum, and stands in place of the sentence
        assert warning in release._repr_html_()

    @quiet
    def test_most_groups_are_worth_a_warning(self):
        query = Dataset(rides(20), "person").group_by("town", max_groups=4, max_rows_per_group=1, public_keys=TOWNS)
        release, found = caught(lambda: query.count().release(0.1, 1e-6, confidence=SURE))
        assert "count is mostly noise in 4 of 4 groups" in str(found[-1].message)
        assert release.statement.to_dict()["warnings"][-1] == str(found[-1].message)

    def test_totals_are_not_groups(self):
        data = Dataset(rides(5000), "person")
        query = data.group_by("town", max_groups=4, max_rows_per_group=1, public_keys=TOWNS, totals="rollup")
        noise = query.count().release(1, 1e-6).mostly_noise
        assert (noise.groups, dict(noise.numbers), noise.sentences) == (4, {"count": 0}, [])

    def test_without_keys_and_without_noise(self):
        few = Dataset(rides(3, 1), "person").count_units()
        assert few.release(0.1, 0, confidence=SURE).mostly_noise.sentences[0].startswith("Mostly noise: count_units (")
        nobody = Dataset(rides(3, 1), "person").where("fare > 99").count_units().release(1e6, 0)
        assert nobody.mostly_noise.sentences == []
