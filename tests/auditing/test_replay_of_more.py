"""Replay of all that a query can be made of: derived columns, conditions, units of several columns, quantiles,
the choice of limits, and publications. Honest ones pass, and each has a planted fault that is found. Nothing is left to
chance.
"""

from dataclasses import replace

import pytest
from replays import AS_MANY, LOWER, NOBODY, OWN, REAL, RIDES, SIMILAR, STRANGE, UPPER, compared, found, furthest, rides

from engines import column_type
from osgt import Dataset, Publication, audit, cut
from osgt.auditing.curve import curve
from osgt.auditing.evidence import Claim
from osgt.auditing.neighbours import Maker
from osgt.auditing.plan_noise import WorstCase, spent_by
from osgt.auditing.result import Budget
from osgt.auditing.stage import DrawPlay, ReleasePlay, Stage, constants
from osgt.data import derived as derived_module
from osgt.data import rows
from osgt.data.engines.engine import Engine
from osgt.data.sql import Value
from osgt.data.unit import PrivacyUnit
from osgt.limits.contribution import UNIT
from osgt.plan.choice import AROUND, FROM_ZERO
from osgt.query.aggregates.base import with_any_limits
from osgt.query.quantiles import Leaves
from osgt.query.values import one_if
from osgt.release import choice as release_choice
from osgt.release import measuring


def derived():
    data = rides().derive(band=cut("fare", [0.0, 5, 20, 1000]), net="fare - tip").where("month <> 11")
    grouped = data.group_by("band", max_groups=2, max_rows_per_group=2, public_keys="all")
    return grouped.count().sum("net", bounds=(-10, 40))


def numbered(rows):
    """Rows that are units of their own."""
    others = {name: rows[name] for name in rows.columns}
    number = Value("row_number() OVER ()", rows.engine.int64, rows.engine)
    return rows.select("planted", "Planted.", others | {UNIT: number})


class TestDerivedColumns:
    def test_honest(self):
        made = compared(derived(), pairs=(UPPER, AS_MANY, STRANGE, REAL), real=True)
        assert found(made) == ""
        assert min(furthest(made).values()) > 0.9, furthest(made)

    def test_a_column_that_looks_at_other_rows(self, monkeypatch):
        honest = derived_module.sql_value
        query = derived()

        def planted(sql, table, columns, dtype):
            value = honest(sql, table, columns, dtype)
            return value - value.max().over([], [value.engine.literal(None)]) if dtype.is_number else value

        monkeypatch.setattr(derived_module, "sql_value", planted)
        assert "sum of net" in found(compared(query, pairs=(UPPER,)))

    def test_a_condition_that_looks_at_other_rows(self, monkeypatch):
        query = derived()

        def planted(condition, table):
            return Value(f"(SELECT count(*) FROM ({table.sql}) AS every) < 25", table.engine.boolean, table.engine)

        monkeypatch.setattr(rows, "holds", planted)
        assert "rows moved" in found(compared(query, pairs=(UPPER,)))


class TestMadeRows:
    def test_rows_meet_conditions_that_name_values(self):
        query = rides().where("city = 'Paris' AND month = 77").group_by("month", max_groups=2).count_units()
        stage = Stage(query)
        maker = Maker(stage)
        assert all(stage.which_count(maker.heavy(0, maker.keys)))

    def test_every_band_is_reached(self):
        keys = Maker(Stage(derived())).keys
        assert len(keys) == 3

    def test_constants(self):
        text = "city = 'It''s' AND month BETWEEN 3 AND 7.5 AND day > '2020-02-03'"
        assert constants(column_type("string"), text) == ["It's", "2020-02-03"]
        assert constants(column_type("int8"), text) == ["3", "2", "4"]
        assert constants(column_type("float64"), text) == ["3", "2", "4", "7.5", "6.5", "8.5"]
        assert constants(column_type("date"), text) == ["2020-02-03"]

    def test_what_was_not_tried_is_told(self):
        query = rides().where("tip + 2 * month = 7751").group_by("city", max_groups=1).count_units()
        result = audit(query, 1, 1e-6, draws=1000, minutes=0.001, real_rows=False, measure_left_out=False)
        assert "no pair moved units" in str(result)


class TestUnitsOfSeveralColumns:
    @staticmethod
    def query():
        names = RIDES.append_column("family", RIDES["city"])
        return Dataset(names, ["city", "family"]).group_by("month", max_groups=1, max_rows_per_group=1).count()

    def test_honest(self):
        made = compared(self.query(), pairs=(UPPER, NOBODY, SIMILAR))
        assert found(made) == ""
        assert len(made) == 5

    @pytest.mark.parametrize(
        "value",
        [
            lambda self, engine, table: engine.unit(table[self.columns[0]]),
            lambda self, engine, table: table[self.columns[0]] + table[self.columns[1]],
        ],
        ids=["the first column alone", "texts put together"],
    )
    def test_units_that_are_taken_for_one(self, value, monkeypatch):
        monkeypatch.setattr(PrivacyUnit, "value", value)
        assert "another unit" in found(compared(self.query(), pairs=(SIMILAR,)))

    def test_a_unit_without_a_part_of_its_name(self, monkeypatch):
        monkeypatch.setattr(
            Engine, "units", lambda self, columns: self.record([column.fill_null("") for column in columns])
        )
        assert "rows of nobody" in found(compared(self.query(), pairs=(NOBODY,)))


class TestQuantiles:
    @staticmethod
    def query():
        return rides().group_by("city", max_groups=1, max_rows_per_group=2).median("tip", bounds=(0, 20))

    def test_honest(self):
        made = compared(self.query(), pairs=(UPPER, STRANGE, REAL), real=True)
        assert found(made) == ""
        assert min(furthest(made).values()) == 1

    def test_a_value_in_two_bins(self, monkeypatch):
        def planted(self, rows, place):
            return [one_if(rows[self] >= int(first)) for first in self.edges[:-1]]

        query = self.query()
        monkeypatch.setattr(Leaves, "contributions", planted)
        assert "bins moved" in found(compared(query, pairs=(UPPER,)))


class TestChoiceOfLimits:
    """The histograms of units that limits are drawn from."""

    @staticmethod
    def query(**options):
        return rides(**options).group_by("city").count().sum("fare").mean("tip")

    @staticmethod
    def compare(query, argument, *pairs):
        [draw] = [draw for draw in query.choice(1).draws if draw.limit.argument == argument]
        return compared(with_any_limits(query), DrawPlay(draw, query.dataset.neighbours), pairs=pairs)

    @pytest.mark.parametrize("relation", ["add_remove", "change_one"])
    @pytest.mark.parametrize("argument", ["max_rows", "max_total", "bounds"])
    def test_honest(self, argument, relation):
        pairs = (UPPER, LOWER, STRANGE, NOBODY) if relation == "add_remove" else (UPPER, OWN, "a unit exchanged")
        made = self.compare(self.query(neighbours=relation), argument, *pairs)
        assert found(made) == ""
        kinds = {AROUND} if argument == "max_rows" else {AROUND, FROM_ZERO}
        assert furthest(made) == {f"histogram of {kind}": 1 for kind in kinds}

    @pytest.mark.parametrize("argument", ["max_rows", "max_total", "bounds"])
    def test_rows_that_are_taken_for_units(self, argument, monkeypatch):
        honest = release_choice.prepared_rows

        def planted(*arguments, **options):
            rows, keys, values = honest(*arguments, **options)
            return numbered(rows), keys, values

        monkeypatch.setattr(release_choice, "prepared_rows", planted)
        seen = found(self.compare(self.query(), argument, UPPER))
        assert "histogram of around 0 moved in 1 places by up to 324; the noise is made for 1 places and 1" in seen

    def test_bins_that_overlap(self, monkeypatch):
        honest = release_choice.pairwise
        monkeypatch.setattr(release_choice, "pairwise", lambda limits: [(0, high) for _, high in honest(limits)])
        assert "histogram of around 0 moved" in found(self.compare(self.query(), "max_rows", OWN))

    def test_rows_of_nobody(self, monkeypatch):
        monkeypatch.setattr(PrivacyUnit, "named", lambda unit, table: [])
        assert "rows of nobody: histogram" in found(self.compare(self.query(), "max_rows", NOBODY))

    def test_values_that_look_at_other_rows(self, monkeypatch):
        honest = release_choice.as_float

        def planted(column):
            return honest(column) - Value("count(*) OVER ()", column.engine.int64, column.engine)

        monkeypatch.setattr(release_choice, "as_float", planted)
        assert "histogram of around 0 moved" in found(self.compare(self.query(), "bounds", UPPER))

    def test_a_whole_audit(self):
        result = audit(rides().group_by("city").count(), 1, 1e-6, draws=5000, minutes=0.001)
        assert result.passed, str(result)
        names = [check.name for check in result.checks]
        assert names[:3] == ["replay", "replay of the choice of max_rows", "choice of groups"]
        assert "choice of limits" in names


def publication():
    data = rides()
    cities = data.group_by("city", max_groups=1, max_rows_per_group=2).count()
    months = data.where("month > 1").group_by("month", max_groups=2, max_rows_per_group=1, public_keys=[2, 3, 4])
    return Publication(by_city=cities, by_month=months.sum("tip", bounds=(0, 5)))


OPTIONS = {"draws": 20_000, "measure_left_out": False, "false_alarm": 1e-9, "real_rows": False}


def forget_limits_on_rows(monkeypatch):
    """Let rows of units with more than the limit be worth as much as others."""
    honest = measuring.unit_totals

    def planted(*given):
        [(name, (total, limit))] = honest(*given).items()
        return {name: (lambda rows, over: total(rows, over).at_most(limit), limit)}

    monkeypatch.setattr(measuring, "unit_totals", planted)


class TestPublications:
    def test_honest(self):
        result = audit(publication(), 2, 1e-6, minutes=0.001, **OPTIONS)
        assert result.passed, str(result)
        names = [check.name for check in result.checks]
        assert names[:3] == ["replay of by_city", "replay of by_month", "choice of groups"]
        assert {"at the threshold", "salts", "canaries", "independence"} <= set(names)

    def test_a_fault_of_one_table(self, monkeypatch):
        honest = measuring.weighted_sums

        def planted(rows, keys, values, measures, groups, **options):
            more = replace(groups, max_groups=3) if groups.max_groups == 2 else groups
            return honest(rows, keys, values, measures, more, **options)

        monkeypatch.setattr(measuring, "weighted_sums", planted)
        tables = publication()
        plan = tables.plan(2, 1e-6, measure_left_out=False)
        seen = {
            name: found(compared(query, ReleasePlay(plan[name]), pairs=(UPPER,)))
            for name, query in tables.tables.items()
        }
        assert seen["by_city"] == ""
        assert "groups moved, at most 2 may" in seen["by_month"]

    def test_the_whole_budget_for_each_table(self):
        tables = publication()
        plans = [block.query.plan(2, 1e-6, measure_left_out=False) for block in tables.blocks]
        assert spent_by(tables.plan(2, 1e-6, measure_left_out=False).blocks, None) <= 1e-6
        assert spent_by(plans, None) > 0.01
        worst = WorstCase.of(plans, 1e-6)
        check = curve(worst.outputs, 0, 1, Claim.of(2, 1e-6), Budget(40_000, false_alarm=1e-9), loss=worst.loss())
        assert not check.passed

    def test_tables_that_agree(self, monkeypatch):
        """Their estimates are made of all of them, and are not played: what is measured is, table by table."""
        data, keys = rides(), {"city": ["Bern", "Rome"], "month": [1, 2]}
        both = data.group_by("city", "month", max_rows=4, public_keys=keys).count()
        cities = data.group_by("city", max_rows=4, public_keys=keys["city"]).count()
        tables = Publication(both=both, cities=cities)
        assert tables.plan(2, 1e-6).agreeing
        result = audit(tables, 2, 1e-6, minutes=0.001, **OPTIONS)
        assert result.passed, str(result)
        forget_limits_on_rows(monkeypatch)
        result = audit(tables, 2, 1e-6, minutes=0.001, **OPTIONS)
        assert {"replay of both", "replay of cities"} <= {check.name for check in result.checks if not check.passed}


class TestParts:
    """Rows are made for the part of the people that a release is about."""

    def query(self):
        parts = rides().parts({"far": "city = 'Reykjavik'", "near": "city <> 'Reykjavik'"})
        return parts["far"].group_by("month", max_rows=2, public_keys=[1, 2]).count()

    def test_honest(self):
        made = compared(self.query(), pairs=(UPPER,))
        assert found(made) == ""
        assert min(furthest(made).values()) > 0.9, furthest(made)

    def test_rows_that_count_twice(self, monkeypatch):
        forget_limits_on_rows(monkeypatch)
        assert "moved" in found(compared(self.query(), pairs=(UPPER,)))
