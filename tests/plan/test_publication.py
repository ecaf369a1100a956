"""Publications: one calibration, one charge and one statement for several tables; what two share is one number."""

import itertools
import json
import math
import random

import numpy as np
import pyarrow as pa
import pytest
from test_schemes import delta_of, moved_by, nobody, vertices

import losses
from osgt import Dataset, Ledger, Publication
from osgt.api.charge import statement_hash
from osgt.noise import scaled
from osgt.query.measures import CentredOnAll, UnitsInAny
from osgt.release.measuring import NothingReleasedError
from osgt.render.published import read_published
from spies import SpyLedger, people, unreadable

TOWNS, MONTHS = ["Bern", "Oslo", "Rome"], list(range(1, 7))


def trips(units=400, **options):
    rng = np.random.default_rng(5)
    rows = 5 * units
    table = pa.table(
        {
            "user": rng.integers(0, units, rows),
            "town": rng.choice(TOWNS, rows),
            "month": rng.integers(1, 7, rows),
            "fare": rng.integers(0, 60, rows),
        }
    )
    return Dataset(table, "user", **options)


def by_town(data, keys=TOWNS):
    return data.group_by("town", max_groups=3, max_rows_per_group=2, public_keys=keys)


def by_month(data, keys=MONTHS):
    return data.group_by("month", max_groups=4, max_rows_per_group=2, public_keys=keys)


class TestPlan:
    def test_one_table_is_the_plan_of_its_query(self):
        for query in (by_town(trips()).count().mean("fare", (0, 50)), by_month(trips(), None).count()):
            alone, one = query.plan(1, 1e-6), Publication(only=query).plan(1, 1e-6)
            assert one["only"].laws == alone.laws
            assert one["only"].threshold == alone.threshold
            assert one.charge == alone.charge
            assert one.gains == pytest.approx(alone.gains)

    def test_clearly_less_noise_than_two_releases_at_half_the_budget(self):
        data = trips()
        many = [str(i) for i in range(200)]
        towns = data.group_by("town", max_groups=8, max_rows_per_group=3, public_keys=many)
        months = data.group_by("month", max_groups=10, max_rows_per_group=3)
        tables = {"towns": towns.count().sum("fare", (0, 50)), "months": months.count()}
        together = Publication(tables).plan(1, 1e-6)
        # The noise is found to half a percent, where it measures what was left out as well: that is a tenth of δ.
        assert 0.9e-6 <= together.charge.delta(1) <= 1e-6
        for name, query in tables.items():
            apart = query.plan(0.5, 0.5e-6)
            for mine, other in zip(together[name].columns, apart.columns, strict=True):
                assert mine.half_width < 0.8 * other.half_width

    def test_weights_move_noise_from_one_table_to_another(self):
        data = trips()
        even = Publication(towns=by_town(data).count(), months=by_month(data).count())
        heavy = even.weighted(towns=16)
        plans = [each.plan(1, 1e-6) for each in (even, heavy)]
        towns = [plan["towns"].columns[0].half_width for plan in plans]
        months = [plan["months"].columns[0].half_width for plan in plans]
        assert towns[1] < towns[0]
        assert months[1] > months[0]
        assert plans[1].charge.delta(1) <= 1e-6

    @pytest.mark.parametrize("objective", ["interval", "variance"])
    def test_never_worse_than_the_ends_of_the_family(self, objective):
        data = trips()
        publication = Publication(towns=by_town(data).count().count_units(), months=by_month(data).count())
        plan = publication.weighted(months=3).plan(0.7, 1e-5, objective=objective)
        assert all(gain >= -1e-9 for gain in plan.gains.values())
        for name in plan.blocks[0].ends:
            laws = [law for block in plan.blocks for law in block.ends[name].laws.values()]
            assert len(laws) == sum(len(block.ends[name].parts) for block in plan.blocks)

    def test_a_tenth_of_delta_is_set_aside_for_all_tables_of_chosen_groups(self):
        data = trips()
        chosen, public = by_month(data, None).count(), by_town(data).count()
        one = Publication(a=chosen, b=public).plan(1, 1e-6)
        assert one["b"].selection is None
        several = Publication(a=chosen, b=by_town(data, None).count()).plan(1, 1e-6)
        for publication in (one, several):
            assert publication.selection_delta <= 0.1 * 1e-6 * (1 + 1e-9)
            assert publication.charge.delta(1) <= 1e-6
            # The choice in each table: all groups of a unit alone, by the noise itself.
            shown = 0.0
            for plan in publication.tables.values():
                if plan.selection is not None:
                    law, most = plan.laws[plan.selector], plan.groups.shift(plan.selector)
                    alone = float(law.sf(plan.selection.threshold - most - 1))
                    shown -= plan.groups.max_groups_per_unit * math.log1p(-alone)
            assert 0.09 * 1e-6 < -math.expm1(-shown) <= publication.selection_delta * (1 + 1e-9)

    def test_what_is_left_out_is_within_the_budget(self):
        data = trips()
        publication = Publication(towns=by_town(data).count().sum("fare", (0, 50)), months=by_month(data).count())
        plan = publication.plan(1, 1e-6, measure_left_out=True)
        assert plan.charge.delta(1) <= 1e-6
        assert all(block.noise.extra_noise for block in plan.blocks)

    def test_pure_privacy(self):
        data = trips()
        plan = Publication(a=by_town(data).count(), b=by_month(data).count()).plan(1, 0)
        assert plan.charge.profile.epsilon(0.0) <= 1
        with pytest.raises(ValueError, match="delta must be above 0 where groups are chosen"):
            Publication(a=by_town(data).count(), b=by_month(data, None).count()).plan(1, 0)

    def test_in_words_and_plain_values(self):
        data = trips()
        plan = Publication(a=by_town(data).count(), b=by_month(data, None).count()).plan(1, 1e-6)
        assert "Total cost for 2 tables together: ε = " in str(plan)
        json.dumps(plan.to_dict())
        assert list(plan.to_dict()["tables"]) == ["a", "b"]


class TestShared:
    def test_the_same_numbers_in_both(self):
        data = trips()
        publication = Publication(
            counts=by_town(data).count(),
            fares=by_town(data).count().sum("fare", (0, 50)).mean("fare", (0, 50)),
            again=by_town(data.where("month < 9")).count(),
        )
        assert [block.names for block in publication.blocks] == [("counts", "fares"), ("again",)]
        plan = publication.plan(1, 1e-6)
        assert plan["counts"].laws == plan["fares"].laws
        release = publication.release(1, 1e-6)
        counts, fares, again = (release[name].to_arrow() for name in ("counts", "fares", "again"))
        for column in ("count", "count_low", "count_high"):
            assert counts[column] == fares[column]
        assert counts["count"] != again["count"]  # other noise, other rows kept
        assert "What the tables counts and fares have in common is the same number" in str(release.statement)

    def test_totals_of_all_rows(self):
        data = trips()
        total = data.group_by(max_rows_per_group=5)
        publication = Publication(a=total.count(), b=total.count().sum("fare", (0, 50)), c=by_town(data).count())
        release = publication.release(1, 1e-6)
        assert release["a"].to_arrow()["count"] == release["b"].to_arrow()["count"]

    def test_totals_of_tables_with_the_same_groups(self):
        keys = {"town": TOWNS, "month": MONTHS}
        cells = trips().group_by("town", "month", max_groups=3, max_rows_per_group=2, public_keys=keys, totals="rollup")
        release = Publication(a=cells.count(), b=cells.sum("fare", (0, 50)).count()).release(1, 1e-6)
        assert release["a"].to_arrow()["count"] == release["b"].to_arrow()["count"]
        assert release["a"].to_arrow()["count_high"] == release["b"].to_arrow()["count_high"]
        assert len(release["a"]) == 3 * 6 + 3 + 1
        assert release.plan.charge.delta(1) <= 1e-6

    def test_shared_numbers_are_measured_once(self):
        data = trips()
        once = Publication(a=by_town(data).count(), b=by_town(data).count()).plan(1, 1e-6)
        alone = by_town(data).count().plan(1, 1e-6)
        assert once["a"].columns[0].std == pytest.approx(alone.columns[0].std)

    @pytest.mark.parametrize(
        "other",
        [
            lambda data: data.group_by("town", max_groups=2, max_rows_per_group=2, public_keys=TOWNS),
            lambda data: data.group_by("town", max_groups=3, max_rows_per_group=1, public_keys=TOWNS),
            lambda data: by_town(data, TOWNS[:2]),
            lambda data: by_town(data, None),
            lambda data: by_town(data.where("fare > 3")),
            lambda data: by_town(data.derive(dear="fare > 30")),
        ],
    )
    def test_other_bounds_keys_or_rows_are_other_numbers(self, other):
        data = trips()
        publication = Publication(a=by_town(data).count(), b=other(data).count())
        assert len(publication.blocks) == 2
        assert [set(table) >= {"derive", "where"} for table in publication.to_dict()["table"]] == [True, True]


def random_publication(rng, data):
    """Up to three tables with up to two aggregates each."""
    tables = {}
    for i in range(rng.randint(2, 3)):
        max_groups, max_rows = rng.randint(1, 4), rng.randint(1, 3)
        keys = [str(i) for i in range(max_groups + rng.choice([0, 2, 20]))]
        where = rng.choice([data, data.where("rides > 2")])
        query = where.group_by("city", max_groups=max_groups, max_rows_per_group=max_rows, public_keys=keys)
        ways = [
            lambda q: q.count(),
            lambda q: q.count_units(),
            lambda q: q.sum("rides", (0, 6)),
            lambda q: q.mean("small", (-2, 5)),
        ]
        for ask in rng.sample(ways, rng.randint(1, 2)):
            query = ask(query)
        tables[f"t{i}"] = query
    return Publication(tables).weighted({name: rng.choice([1, 1, 4]) for name in tables})


def changes_by(plan, moved):
    """(law, shift) for every number that one unit, who counts in each block in some way, moves."""
    return [
        (block.laws[measure], abs(number))
        for block, each in zip(plan.blocks, moved, strict=True)
        for measure, groups in each.items()
        for group in groups
        for number in group
        if number
    ]


def exchanged(one, other, *, apart):
    """One unit goes and another comes: into other groups, if there are so many, or into the same."""
    negative = [[-number for number in group] for group in other]
    if apart:
        return [*one, *negative]
    pairs = itertools.zip_longest(one, negative, fillvalue=[0] * len((one or other)[0]))
    return [[a + b for a, b in zip(x, y, strict=True)] for x, y in pairs]


class TestPrivacy:
    """Not our accounting: the losses of what one unit can do in all tables at once, convolved."""

    @pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.long) for s in range(6, 24))])
    def test_no_unit_moves_the_publication_beyond_its_budget(self, seed):
        rng = random.Random(seed)
        neighbours = "change_one" if seed % 3 == 2 else "add_remove"
        plan = random_publication(rng, nobody(neighbours=neighbours)).plan(rng.choice([0.7, 2.0]), 1e-4)
        ways = [list(vertices(rng, block, 6)) for block in plan.blocks]
        for each in zip(*ways, strict=True):
            moved = [
                moved_by(block, unit, block.groups.public_group_count or 0)
                for block, unit in zip(plan.blocks, each, strict=True)
            ]
            if neighbours == "change_one":
                others = [next(vertices(rng, block, 1)) for block in plan.blocks]
                back = [
                    moved_by(b, unit, b.groups.public_group_count or 0)
                    for b, unit in zip(plan.blocks, others, strict=True)
                ]
                moved = [
                    {m: exchanged(groups, other[m], apart=apart) for m, groups in one.items()}
                    for one, other, block in zip(moved, back, plan.blocks, strict=True)
                    for apart in [
                        block.groups.public_group_count >= 2 * block.groups.max_groups_per_unit and rng.random() < 0.5
                    ]
                ]
            changes = changes_by(plan, moved)
            if changes:
                assert delta_of(changes, plan.epsilon) <= plan.delta * (1 + 1e-6)

    def test_the_check_has_power(self):
        """The worst that a unit can do in all tables takes nearly all of δ; noise that is 5 % smaller is found out."""
        data = people()
        keys = [str(i) for i in range(40)]
        tables = {
            "one": data.group_by("city", max_groups=3, max_rows_per_group=2, public_keys=keys).count(),
            "two": data.group_by("city", max_groups=5, max_rows_per_group=1, public_keys=keys).sum("rides", (0, 6)),
        }
        plan = Publication(tables).plan(1, 1e-4, measure_left_out=False)
        assert not any(isinstance(m, CentredOnAll | UnitsInAny) for block in plan.blocks for m in block.parts)
        moved = [
            moved_by(block, [[{"rides": 6, "small": 0}] * limits.max_rows_per_group] * limits.max_groups_per_unit, 40)
            for block in plan.blocks
            for limits in [block.groups]
        ]
        changes = changes_by(plan, moved)
        assert 0.5 * plan.delta <= delta_of(changes, plan.epsilon) <= plan.delta * (1 + 1e-6)
        smaller = [(scaled(law, 0.95), number) for law, number in changes]
        assert delta_of(smaller, plan.epsilon) > plan.delta

    def test_several_tables_of_chosen_groups(self):
        """By brute force over how many groups of each table are a unit's alone: noise and choice are within δ."""
        data = people()
        tables = {
            "one": data.group_by("city", max_groups=2, max_rows_per_group=1).count(),
            "two": data.group_by("month", max_groups=3, max_rows_per_group=1).count_units(),
        }
        self.within(Publication(tables).plan(1, 1e-4))
        public = data.group_by("city", max_groups=2, max_rows_per_group=1, public_keys=list("abcdefghijklmnopqrstuvw"))
        plan = Publication(one=tables["one"], two=public.count()).plan(1, 1e-4, measure_left_out=False)
        assert self.within(plan) > 0.5 * plan.delta
        with pytest.raises(AssertionError):
            self.within(plan, smaller=0.95)

    @staticmethod
    def within(plan, smaller=1.0):
        laws = [next(iter(block.laws.values())) for block in plan.blocks]
        laws = [scaled(law, smaller) for law in laws]
        most = [block.groups.max_groups_per_unit for block in plan.blocks]
        worst = 0.0
        ranges = [range(n + 1) if b.threshold is not None else range(1) for n, b in zip(most, plan.blocks, strict=True)]
        for alone in [(i, j) for i in ranges[0] for j in ranges[1]]:
            hidden = math.prod(
                (1.0 - float(law.sf(block.threshold - 2))) ** j
                for law, block, j in zip(laws, plan.blocks, alone, strict=True)
                if block.threshold is not None
            )
            changes = [(law, 1, n - j) for law, n, j in zip(laws, most, alone, strict=True) if n > j]
            # H_{a/Q}(P', P'') with a = e^ε, and the other direction by symmetry of the noise.
            shared = losses.delta_of(changes, plan.epsilon - math.log(hidden), up=False) if changes else 0.0
            worst = max(worst, 1.0 - hidden + hidden * shared)
        assert worst <= plan.delta * (1 + 1e-6)
        return worst


class TestRelease:
    def test_every_table(self, tmp_path):
        data = trips()
        publication = Publication(
            towns=by_town(data).count().mean("fare", (0, 50)), months=by_month(data, None).count()
        )
        release = publication.release(20_000, 1e-6, measure_left_out=True)
        assert list(release) == ["towns", "months"]
        assert len(release["towns"]) == 3
        assert release.tables["months"].to_pandas()["month"].tolist() == MONTHS
        own = release["towns"].statement
        assert str(own) == str(release.statement)
        assert own.to_dict()["publication"] == release.statement.to_dict()
        assert statement_hash(own.to_dict()) == statement_hash(release.statement.to_dict())
        assert release.left_out["months"].rows is not None
        assert set(release.left_out["towns"].values) == {"fare"}
        values = release.statement.to_dict()
        assert (values["epsilon"], values["delta"]) == (20_000, 1e-6)
        assert list(values["tables"]) == ["towns", "months"]
        json.dumps(values)

    def test_files(self, tmp_path):
        data = trips()
        publication = Publication(towns=by_town(data).count(), months=by_month(data).count())
        release = publication.release(5, 1e-6)
        release.write(tmp_path / "{table}.csv", report=tmp_path / "all.html", title="Trips", labels={"towns": "Towns"})
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "all.html",
            "months.csv",
            "months.csv-metadata.json",
            "towns.csv",
            "towns.csv-metadata.json",
        ]
        page = (tmp_path / "all.html").read_text()
        assert "Towns" in page
        assert "months.csv" in page
        release.write(tmp_path)
        for file in ("towns.parquet", "towns.csv"):
            found = read_published(tmp_path / file).statement.to_dict()
            assert found["publication"] == release.statement.to_dict()
            assert found["table"] == "towns"

    def test_all_files_or_none(self, tmp_path):
        data = trips()
        release = Publication(towns=by_town(data).count(), months=by_month(data).count()).release(5, 1e-6)
        (tmp_path / "months.csv").write_text("mine")
        with pytest.raises(FileExistsError, match="months"):
            release.write(tmp_path / "{table}.csv", report=tmp_path / "all.html")
        assert [path.name for path in tmp_path.iterdir()] == ["months.csv"]
        release.write(tmp_path / "{table}.csv", report=tmp_path / "all.html", overwrite=True)
        assert (tmp_path / "months.csv").read_text() != "mine"

    @pytest.mark.parametrize("out", ["tables.csv", "x.parquet"])
    def test_files_without_the_name_of_the_table(self, tmp_path, out):
        release = Publication(towns=by_town(trips()).count()).release(5, 1e-6)
        with pytest.raises(ValueError, match=r"out must have \{table\} where the name of a table goes"):
            release.write(tmp_path / out)


class TestLedger:
    def opened(self, folder, epsilon=3):
        ledger = Ledger(folder / "budget.db")
        ledger.open("trips", epsilon=epsilon, delta=1e-6)
        return ledger

    def test_one_entry_is_charged_and_settled(self, tmp_path):
        with self.opened(tmp_path) as ledger:
            data = trips(ledger=ledger, dataset="trips")
            publication = Publication(towns=by_town(data).count(), months=by_month(data, None).count())
            release = publication.release(1, 1e-7)
            [entry] = ledger.history("trips")
            assert entry.status == "reserved"
            assert (entry.epsilon, entry.delta) == (1, 1e-7)
            assert entry.title == "towns: count by town; months: count by month"
            assert release.plan.charge.to_dict() == entry.stored_charge
            release["towns"].to_csv(tmp_path / "towns.csv")
            release["months"].to_csv(tmp_path / "months.csv")
            release.write(tmp_path)
            [entry] = ledger.history("trips")
            assert entry.status == "settled"
            assert "towns.csv" in entry.output
            assert release.statement.to_dict()["ledger"]["reservation"] == str(entry.sequence)
            assert ledger.remaining("trips", query=publication, delta=1e-7) > 0.5

    def test_all_files_are_told_to_the_ledger(self, tmp_path):
        with self.opened(tmp_path) as ledger:
            data = trips(ledger=ledger, dataset="trips")
            release = Publication(towns=by_town(data).count(), months=by_month(data).count()).release(1, 1e-7)
            release.write(tmp_path, report=tmp_path / "all.html")
            [entry] = ledger.history("trips")
            assert len(entry.output_hashes) == 3

    def test_a_budget_that_is_too_small_refuses_all_tables(self, tmp_path):
        with self.opened(tmp_path, epsilon=0.5) as ledger:
            data = trips(ledger=ledger, dataset="trips")
            with pytest.raises(Exception, match="nothing was charged"):
                Publication(towns=by_town(data).count(), months=by_month(data).count()).release(1, 1e-7)
            assert list(ledger.history("trips")) == []

    def test_refused_before_the_charge(self):
        """An engine that cannot run the second table's query: nothing is charged, and nothing read."""
        ledger = SpyLedger()
        data = Dataset(unreadable(), "unit", table="people", ledger=ledger, dataset="people")
        good = data.group_by("city", max_groups=1, max_rows_per_group=1, public_keys=["a"]).count()
        data.table.connection.execute("DROP VIEW people")
        with pytest.raises(ValueError, match="nothing was charged"):
            Publication(a=good, b=data.group_by(max_rows_per_group=1).count()).release(1, 1e-6)
        assert ledger.calls == []

    def test_a_failure_while_reading_releases_nothing_and_is_charged(self):
        ledger = SpyLedger()
        data = Dataset(unreadable(), "unit", table="people", ledger=ledger, dataset="people")
        tables = {
            "a": data.group_by("city", max_groups=1, max_rows_per_group=1, public_keys=["a"]).count(),
            "b": data.group_by(max_rows_per_group=1).count(),
        }
        with pytest.raises(NothingReleasedError, match="The charge to the ledger stands"):
            Publication(tables).release(1, 1e-6)
        assert ledger.names == ["reserve", "reading"]


def test_what_a_notebook_shows():
    """Every object in a line without data, and as a piece of HTML that names the tables."""
    data = trips()
    publication = Publication(towns=by_town(data).count(), months=by_month(data, None).count())
    release = publication.release(5, 1e-6)
    assert repr(publication) == "Publication(towns, months)"
    assert repr(release.plan) == "PublicationPlan(epsilon=5, delta=1e-06; towns, months)"
    assert repr(release).startswith("PublicationRelease(towns, months; epsilon=5, delta=1e-06")  # warnings by chance
    assert "NOT PRIVATE" in repr(publication.preview())
    for each in (publication, release.plan, release, publication.preview()):
        assert "towns" in each._repr_html_()
        assert "<script" not in each._repr_html_()


class TestRefused:
    def test_other_data(self):
        with pytest.raises(ValueError, match="tables 'a' and 'b' must be about the same people in the same data"):
            Publication(a=by_town(trips()).count(), b=by_town(trips()).count())

    @pytest.mark.parametrize(
        ("tables", "message"),
        [
            ({}, "at least one table"),
            ({"a/b": 1}, "the name of a table must be letters, digits"),
            ({"": 1}, "the name of a table must be letters, digits"),
            ({"a": 1}, "table 'a' must be a query"),
        ],
    )
    def test_names_and_queries(self, tables, message):
        with pytest.raises((ValueError, TypeError), match=message):
            Publication(tables)

    def test_names_that_differ_in_capitals_alone(self):
        data = trips()
        with pytest.raises(ValueError, match="must differ in more than capital letters"):
            Publication(Towns=by_town(data).count(), towns=by_month(data).count())

    def test_nothing_asked(self):
        with pytest.raises(ValueError, match="table 'a' must ask for something"):
            Publication(a=by_town(trips()))

    def test_weights(self):
        publication = Publication(a=by_town(trips()).count())
        with pytest.raises(ValueError, match="weights: there is no table 'b'; there are 'a'"):
            publication.weighted(b=2)
        with pytest.raises(ValueError, match="weight of a must be"):
            publication.weighted(a=0)
