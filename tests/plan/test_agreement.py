"""Tables that are margins of one another: one estimate, the same digits in all; and no table pays for another."""

import itertools
import json
import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv, parquet
from scipy import stats

from osgt import Dataset, Publication
from osgt.check import check, read
from osgt.plan.agreement import SharedNumbers
from osgt.plan.joint import JointPlanning
from osgt.query.measures import Rows

VALUES = {"age": [30, 10, 20, 40], "sex": ["f", "m"], "town": list("vwxyz"), "work": [True, False, None]}


def made_rows(units=900):
    rng, rows = np.random.default_rng(8), 2 * units
    columns = {name: pa.array([own[i] for i in rng.integers(0, len(own), rows)]) for name, own in VALUES.items()}
    return pa.table({"id": np.arange(rows) // 2, **columns, "fare": rng.integers(0, 60, rows)})


ROWS = made_rows()


def survey():
    return Dataset(ROWS, "id")


def by(data, *names, reverse=False, **options):
    """A table by some keys; `reverse` gives their values in another order."""
    keys = {name: VALUES[name][::-1] if reverse else VALUES[name] for name in names}
    return data.group_by(*names, max_rows=2, **({"public_keys": keys} if names else {}), **options)


def every_pair(data, ask=lambda query: query.count()):
    sets = [names for n in (1, 2) for names in itertools.combinations(VALUES, n)]
    return {"_".join(names): ask(by(data, *names, reverse=len(names) == 1)) for names in sets}


def margins_of(table, by, column):
    """The sums of a column over every set of its keys, as a dict by these keys and their values."""
    frame = table.filter(pc.is_null(table["summed_over"])) if "summed_over" in table.column_names else table
    rows = frame.to_pylist()
    result = {}
    for n in range(len(by) + 1):
        for names in itertools.combinations(sorted(by), n):
            for row in rows:
                key = names, tuple(row[name] for name in names)
                result[key] = result.get(key, 0) + row[column]
    return result


def check_agreement(tables, column):
    """Every margin that several tables have is the same number in each of them. Returns how many were compared."""
    known, compared = {}, 0
    for table, keys in tables:
        for key, number in margins_of(table, keys, column).items():
            compared += key in known
            assert known.setdefault(key, number) == number, key
    return compared


def dense(plan):
    """All cells, which of them each measured number of the set is the sum of, and the variance of its noise."""
    blocks = [block for places in plan.sets for block in (plan.blocks[i] for i in places)]
    names = list(dict.fromkeys(name for block in blocks for name in block.groups.by))
    cells = list(itertools.product(*(VALUES[name] for name in names)))
    rows, variances = [], []
    for block in blocks:
        public = (
            [()] if block.groups.public is None else list(zip(*block.groups.public.to_pydict().values(), strict=True))
        )
        at = [names.index(name) for name in block.groups.by]
        rows += [[float(all(cell[i] == v for i, v in zip(at, key, strict=True))) for cell in cells] for key in public]
        variances += [block.laws[Rows()].var()] * len(public)
    return np.array(rows), np.array(variances)


class TestEstimates:
    @pytest.fixture
    def plan(self):
        data = survey()
        return Publication(every_pair(data), total=by(data).count()).plan(1, 1e-6)

    def shared(self, plan, rng):
        measured = [
            rng.integers(0, 10**9, (block.groups.public_group_count, 1))
            for block in (plan.blocks[i] for i in plan.sets[0])
        ]
        noise = plan.blocks[0].shared[0].noise
        return SharedNumbers(noise, tuple({Rows(): numbers} for numbers in measured), nonnegative=False), measured

    def test_are_generalised_least_squares(self, plan):
        """Against the normal equations over all cells, which the software never lists."""
        numbers, measured = self.shared(plan, np.random.default_rng(1))
        matrix, variances = dense(plan)
        weighted = matrix / variances[:, None]
        exact = (
            matrix @ np.linalg.lstsq(weighted.T @ matrix, weighted.T @ np.concatenate(measured)[:, 0], rcond=None)[0]
        )
        own = [each[:, 0] + numbers.corrections(Rows(), i)[-1][:, 0] for i, each in enumerate(measured)]
        np.testing.assert_allclose(np.concatenate(own), exact, rtol=1e-9)

    def test_have_the_noise_that_is_told(self, plan):
        matrix, variances = dense(plan)
        covariance = matrix @ np.linalg.pinv((matrix / variances[:, None]).T @ matrix, hermitian=True) @ matrix.T
        sizes = [block.groups.public_group_count for block in plan.blocks]
        parts = np.split(np.diag(covariance), np.cumsum(sizes)[:-1])
        for block, exact in zip(plan.blocks, parts, strict=True):
            step = float(block.groups.step(Rows()))
            [column] = block.columns
            assert column.std == pytest.approx(step * np.sqrt(exact[0]), rel=1e-6)
            assert np.ptp(exact) <= 1e-6 * exact[0]

    def test_a_table_alone_is_as_it_was(self):
        data = survey()
        alone, one = by(data, "age").count().plan(1, 1e-6), Publication(age=by(data, "age").count()).plan(1, 1e-6)
        assert one.agreeing == []
        assert one["age"].laws == alone.laws
        assert one["age"].columns[0].std == alone.columns[0].std


class TestAgreement:
    @pytest.mark.parametrize("epsilon", [0.1, 50.0])
    def test_every_margin_in_every_file(self, tmp_path, epsilon):
        """Counts, sums and bins of one-way and two-way tables, one with its own totals, in Parquet and in CSV."""

        def ask(query):
            return query.count().sum("fare", max_total=(0, 50)).histogram("fare", [0, 30, 60])

        data = survey()
        tables = every_pair(data, ask) | {
            "total": ask(by(data)),
            "three": ask(by(data, "sex", "work", "age", totals="cube")),
        }
        release = Publication(tables).release(epsilon, 1e-6)
        assert release.plan.agreeing == [[*tables]]
        release.write(tmp_path / "{table}.parquet")
        release.write(tmp_path / "{table}.csv")
        names = [n for n in release["total"].to_arrow().column_names if not n.endswith(("_low", "_high"))]
        assert len(names) == 4
        by_table = {name: query.groups.by for name, query in tables.items()}
        for column in names:
            stored = [(parquet.read_table(tmp_path / f"{name}.parquet"), keys) for name, keys in by_table.items()]
            assert check_agreement(stored, column) > 50
            texts = [
                (csv.read_csv(tmp_path / f"{name}.csv"), keys) for name, keys in by_table.items() if "work" not in keys
            ]
            assert check_agreement(texts, column) > 20
        cube = release["three"].to_arrow().to_pylist()
        whole = {(row["sex"], row["work"], row["age"]): row for row in cube if row["summed_over"] is None}
        for row in release["sex"].to_arrow().to_pylist():
            assert row["count"] == sum(each["count"] for (sex, _, _), each in whole.items() if sex == row["sex"])
            [total] = [each for each in cube if each["summed_over"] == "work, age" and each["sex"] == row["sex"]]
            assert {name: total[name] for name in row} == row  # the ends of the intervals as well

    def test_other_noise_is_found_out(self):
        """The comparison sees it where tables do not agree: those with other limits have numbers of their own."""
        data = survey()
        tables = {
            "a": by(data, "age").count(),
            "b": data.group_by("age", max_rows=3, public_keys=VALUES["age"]).count(),
        }
        release = Publication(tables).release(0.2, 1e-6)
        assert release.plan.agreeing == []
        with pytest.raises(AssertionError):
            check_agreement([(each.to_arrow(), ("age",)) for each in release.tables.values()], "count")

    def test_the_same_rows_count_in_all(self, quiet_noise):
        """Rows whose town is not public are in no table, also not in one that is not by town; others lose none."""
        data = survey()
        short = {"sex": VALUES["sex"], "town": ["v", "w"]}
        tables = {
            "sex": by(data, "sex").count(),
            "total": by(data).count(),
            "both": data.group_by("sex", "town", max_rows=2, public_keys=short).count(),
        }
        release = Publication(tables).release(10_000, 1e-6, intervals="noise", measure_left_out=False)
        town = ROWS["town"].to_pylist()
        exact = sum(each in ("v", "w") for each in town)
        assert release["total"].to_arrow()["count"].to_pylist() == [exact]
        assert "Rows with a key that is not public in one of these tables are ignored in all." in str(release.statement)
        alone = by(data).count().release(10_000, 1e-6, measure_left_out=False)
        assert alone.to_arrow()["count"].to_pylist() == [len(town)]

    def test_missing_keys_are_keys(self, quiet_noise):
        data = survey()
        tables = {
            "work": by(data, "work").count(),
            "both": by(data, "sex", "work").count(),
            "sex": by(data, "sex").count(),
        }
        release = Publication(tables).release(10_000, 1e-6, measure_left_out=False)
        exact = {value: ROWS["work"].to_pylist().count(value) for value in VALUES["work"]}
        assert {row["work"]: row["count"] for row in release["work"].to_arrow().to_pylist()} == exact

    def test_what_limits_cut_off_is_measured_once(self):
        publication = Publication(every_pair(survey()))
        plan = publication.plan(1, 1e-6)
        assert sum("rows" in block.noise.extra_noise for block in plan.blocks) == 1
        release = publication.release(1, 1e-6)
        assert len({str(table.left_out.rows) for table in release.tables.values()}) == 1
        assert plan.charge.delta(1) <= 1e-6

    def test_open_limits_are_chosen_and_kept(self):
        data = survey()
        tables = {name: data.group_by(name, public_keys=VALUES[name]).count().sum("fare") for name in ("age", "sex")}
        tables["both"] = (
            data.group_by("age", "sex", public_keys={n: VALUES[n] for n in ("age", "sex")}).count().sum("fare")
        )
        release = Publication(tables).release(3, 1e-6)
        stored = [(release[name].to_arrow(), query.groups.by) for name, query in tables.items()]
        assert check_agreement(stored, "count") > 5
        assert check_agreement(stored, "fare_sum") > 5

    @pytest.mark.parametrize(
        ("one", "other", "agree"),
        [
            ({"max_rows": 2}, {"max_rows": 2}, True),
            ({"max_rows": 2}, {"max_rows": 3}, False),
            ({}, {}, True),
            ({"max_groups": 2, "max_rows_per_group": 1}, {"max_groups": 2, "max_rows_per_group": 1}, False),
            ({"max_length": 2}, {"max_length": 2}, False),
        ],
    )
    def test_which_limits_allow_it(self, one, other, agree):
        data = survey()
        tables = [
            data.group_by("age", public_keys=VALUES["age"], **one).count(),
            data.group_by("sex", public_keys=VALUES["sex"], **other).count(),
        ]
        assert bool(Publication(a=tables[0], b=tables[1]).sets) == agree
        assert not Publication(
            a=tables[0], b=data.where("fare > 3").group_by("sex", public_keys=VALUES["sex"], **other).count()
        ).sets
        fewer = data.group_by("age", "sex", public_keys={"age": [10, 20], "sex": VALUES["sex"]}, **other).count()
        assert not Publication(a=tables[0], b=fewer).sets

    def test_rows_as_units_agree(self):
        data = Dataset(ROWS, "row")
        tables = {
            "_".join(n): data.group_by(*n, public_keys={k: VALUES[k] for k in n}).count()
            for n in (("age",), ("age", "sex"))
        }
        release = Publication(tables).release(0.5, 1e-6)
        assert check_agreement([(release[n].to_arrow(), q.groups.by) for n, q in tables.items()], "count") >= 4

    def test_the_promise_is_recomputed_from_the_file(self, tmp_path):
        release = Publication(every_pair(survey())).release(1, 1e-6)
        release.write(tmp_path / "{table}.parquet")
        result = check(*read(tmp_path / "age.parquet"))
        assert not result.problems
        assert result.delta <= 1e-6
        assert json.loads(json.dumps(release.statement.to_dict()))["agreeing"] == [[*every_pair(survey())]]


class TestCoverage:
    """Intervals of tables that agree hold the exact numbers as often as they say. False alarms: below 1e-9."""

    RUNS = 250

    def misses(self, smaller=1.0):
        plan = Publication(every_pair(survey())).plan(1, 1e-6, confidence=0.8, measure_left_out=False)
        noise, missed = plan.blocks[0].shared[0].noise, np.zeros(len(plan), int)
        for _ in range(self.RUNS):
            measured = []
            for block in plan.blocks:
                size = block.groups.public_group_count
                exact = np.full((size, 1), int(1200 // size / block.groups.step(Rows())))
                measured.append({Rows(): exact + block.laws[Rows()].sample(exact.shape)})
            numbers = SharedNumbers(noise, tuple(measured), nonnegative=False)
            for i, block in enumerate(plan.blocks):
                [rows] = block.levels.rows(numbers, 0.8)[-1]
                columns = block.aggregates[0].columns(rows.added)
                low, high = (columns[f"count_{end}"].to_pylist()[0] for end in ("low", "high"))
                middle, half = (low + high) / 2, (high - low) / 2 * smaller
                missed[i] += abs(middle - 1200 // block.groups.public_group_count) > half
        return missed

    def test_intervals_hold_as_often_as_they_say(self):
        assert np.all(self.misses() <= stats.binom.isf(1e-10, self.RUNS, 0.2))

    def test_they_would_not_if_they_were_shorter(self):
        assert np.all(self.misses(smaller=0.4) > stats.binom.isf(1e-10, self.RUNS, 0.2))


class TestLessNoise:
    def tables(self):
        sizes = {"age": 8, "sex": 2, "canton": 26, "work": 5, "marital": 4}
        table = pa.table({"id": [1], **{name: [0] for name in sizes}})
        data = Dataset(table, "id")
        return {
            "_".join(n): data.group_by(*n, max_rows=2, public_keys={k: list(range(sizes[k])) for k in n}).count()
            for r in (1, 2)
            for n in itertools.combinations(sizes, r)
        }

    def test_fifteen_tables_of_five_keys(self):
        """Against the same tables that do not know of each other: 0.68 to 0.83 times the standard deviation."""
        tables = self.tables()
        plan = Publication(tables).plan(1, 1e-8, measure_left_out=False)
        apart = Publication(tables)
        apart.__dict__["sets"] = ()
        before = apart.plan(1, 1e-8, measure_left_out=False)
        ratios = [plan[name].columns[0].std / before[name].columns[0].std for name in tables]
        assert min(ratios) > 0.66
        assert max(ratios) < 0.84
        assert np.mean(np.square(ratios)) < 0.6
        assert plan.charge.delta(1) <= 1e-8

    def test_the_allocation_is_the_best_there_is(self):
        """No other split of the privacy loss between one-way and two-way tables makes the sum of variances smaller."""
        tables = self.tables()
        asked = [block.planning for block in Publication(tables).plan(1, 1e-8, measure_left_out=False).blocks]
        joint = JointPlanning(tuple(asked), (tuple(range(15)),))
        [shared] = joint._allocation.shared([block.scheme(1, 1e-8) for block in asked])
        weights = shared.weights([1.0] * 15, 2.0)

        def error(variances):
            """Σ variances of all estimates, times the loss of Gaussian noise with these variances."""
            own = [r * v for r, v in zip(shared.narrowed(variances), variances, strict=True)]
            return sum(own) * sum(1 / v for v in variances)

        best = [weight**-0.5 for weight in weights]
        least = error(best)
        rng = np.random.default_rng(2)
        for _ in range(200):
            other = [v * f for v, f in zip(best, np.exp(rng.normal(0, 0.3, 15)), strict=True)]
            assert error(other) >= least * (1 - 1e-4)
        assert least < 0.99 * error([1.0] * 15)
        assert 1.0 <= least / self.residual_planner() <= 1.005

    @staticmethod
    def residual_planner():
        """The least sum of variances with any Gaussian noise, also correlated (Xiao et al. 2023, closed form)."""
        sizes = {"age": 8, "sex": 2, "canton": 26, "work": 5, "marital": 4}
        tables = [frozenset(n) for r in (1, 2) for n in itertools.combinations(sizes, r)]
        total = 0.0
        for part in {frozenset(some) for n in tables for r in range(3) for some in itertools.combinations(n, r)}:
            differing = math.prod(1 - 1 / sizes[name] for name in part)
            means = [math.prod(sizes[name] ** -2 for name in names - part) for names in tables if part <= names]
            total += differing * math.sqrt(sum(means))
        return total**2


def random_table(rng, data):
    names = rng.choice([(), ("age",), ("town",), ("age", "town")])
    keys = {"age": list(range(3)), "town": list(range(40))}
    box = {"max_groups": rng.choice([1, 4, 20]), "max_rows_per_group": rng.choice([1, 3, 10])}
    limits = rng.choice([{"max_rows": rng.choice([1, 5, 50])}, box if names else {"max_rows_per_group": 3}])
    query = data.group_by(*names, **limits, **({"public_keys": {n: keys[n] for n in names}} if names else {}))
    ways = [
        query.count,
        lambda: query.sum("fare", bounds=(0, 100)),
        lambda: query.count().mean("fare", bounds=(0, 50)),
        lambda: query.histogram("fare", edges=[0, 10, 20, 90]),
    ]
    return rng.choice(ways)()


class TestNoTablePaysForAnother:
    """No table is wider than alone with its equal part of the budget, or with what its weight says if that is less."""

    def wider(self, publication, epsilon, delta):
        plan = publication.plan(epsilon, delta, measure_left_out=False)
        assert plan.charge.delta(epsilon) <= delta * (1 + 1e-9)
        whole, result = sum(publication.weights.values()), 0.0
        for name, query in publication.tables.items():
            part = min(1 / len(publication), publication.weights[name] / whole)
            alone = query.plan(part * epsilon, part * delta, measure_left_out=False)
            pairs = zip(plan[name].columns, alone.columns, strict=True)
            result = max([result, *((mine.width - 1.0) / other.width for mine, other in pairs if other.width > 20)])
        return result

    @pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.long) for s in range(6, 40))])
    def test_random_tables(self, seed):
        rng = random.Random(seed)
        table = pa.table({"id": [1], "age": [0], "town": [0], "fare": [1.0]})
        data = Dataset(table, "id")
        tables = {f"t{i}": random_table(rng, data.where(f"fare > {i}")) for i in range(rng.choice([2, 3]))}
        weights = {name: rng.choice([1, 1, 4]) for name in tables}
        publication = Publication(tables).weighted(weights)
        assert self.wider(publication, rng.choice([0.3, 1, 3]), rng.choice([1e-8, 1e-6, 0])) <= 1.02

    @pytest.mark.parametrize("delta", [0, 1e-6])
    def test_without_the_guarantee_one_would(self, delta):
        """The power of the test: shared out so that the error of all is least, people are counted half as well."""
        data = Dataset(pa.table({"id": [1], "town": [0], "fare": [1.0]}), "id")
        keys = list(range(4))
        publication = Publication(
            towns=data.group_by("town", max_groups=4, max_rows_per_group=30, public_keys=keys).count(),
            fares=data.group_by("town", max_groups=1, max_rows_per_group=1, public_keys=keys).sum("fare", (0, 5000)),
            people=data.group_by(max_rows=500).count(),
        )
        plan = publication.plan(1, delta, measure_left_out=False)
        asked = tuple(block.planning for block in plan.blocks)
        noises, _ = JointPlanning(asked).best(1, delta)
        free = noises[2].laws[Rows()].std()
        assert free > 1.15 * plan["people"].laws[Rows()].std()
        assert self.wider(publication, 1, delta) <= 1.02


@pytest.mark.parametrize("bins", [2, 3])
def test_a_median_of_few_bins_beside_the_number_of_its_values(bins):
    """Of two bins the number of all values says nothing about the median: it is not measured for that."""
    data = survey()
    towns = by(data, "town").median("fare", (0, 60), bins=bins)
    both = Publication(towns=towns, all=by(data, "town", "sex").count_values("fare"))
    assert sum(len(block.parts) for block in both.plan(1, 1e-6).blocks) == {2: 2, 3: 3}[bins]
