"""Whole audits of queries: the noise of a plan, the choice of groups, canaries in a release, and what is written.

False-alarm rates are 1e-9 each; the planted faults are the power checks.
"""

import dataclasses
import hashlib
import json
import zlib

import numpy as np
import pyarrow as pa
import pytest

from osgt import Dataset, DiscreteOSGT, Mechanism, Publication, audit
from osgt.auditing.canaries import canaries
from osgt.auditing.curve import curve
from osgt.auditing.independence import salts
from osgt.auditing.plan_noise import Chosen, WorstCase, at_threshold, choice, draw_of_limits, spent_by
from osgt.auditing.result import Budget
from osgt.auditing.stage import salted_sql
from osgt.data.engines.duckdb import DuckDB
from osgt.limits import choice as choosing
from osgt.limits import contribution
from osgt.limits.contribution import fresh_salt
from osgt.release import measuring

FALSE_ALARM = 1e-9
RIDES = pa.table({"user": [1, 1, 2], "city": ["Bern", "Rome", "Rome"], "fare": [3.5, 8.0, 2.0]})


@pytest.fixture(scope="module")
def query():
    return (
        Dataset(RIDES, "user").group_by("city", max_groups=1, max_rows_per_group=2).count().sum("fare", bounds=(0, 10))
    )


@pytest.fixture(scope="module")
def plan(query):
    return query.plan(6, 1e-6, measure_left_out=True)


def with_laws(plan, factor):
    """The plan with noise on a smaller scale than it says."""
    laws = {
        measure: DiscreteOSGT.from_rates(law.slope / factor, law.curvature / factor**2)
        for measure, law in plan.laws.items()
    }
    return dataclasses.replace(plan, noise=dataclasses.replace(plan.noise, laws=laws))


def noise_of(plan, used):
    """The curve of the noise that is `used`, against that of the plan."""
    promised, real = (WorstCase.of([each], each.noise_delta) for each in (plan, used))
    return curve(
        real.outputs, 0, 1, promised.claim, Budget(400_000, false_alarm=FALSE_ALARM), loss=promised.loss(), name="noise"
    )


def with_lower_threshold(plan, rows):
    """The plan with a threshold that is lower by so many rows."""
    threshold = plan.selection.threshold - rows * plan.groups.full_worth
    return dataclasses.replace(plan, selection=dataclasses.replace(plan.selection, threshold=threshold))


def judged_choice(plan, **options):
    return choice([Chosen.of(plan)], spent_by([plan], plan.choice), plan.delta, **options)


def test_all_noise_of_a_plan(plan):
    check = noise_of(plan, plan)
    assert check.passed, str(check)
    assert check.details["proved_share_of_epsilon"] > 0.8
    assert not noise_of(plan, with_laws(plan, 0.95)).passed


def test_the_choice_of_groups(plan):
    check = judged_choice(plan, false_alarm=FALSE_ALARM)
    assert check.passed, str(check)
    assert check.details["delta_spent"] <= plan.delta


def test_a_threshold_two_rows_too_low(plan):
    check = judged_choice(with_lower_threshold(plan, rows=2), false_alarm=FALSE_ALARM)
    assert "noise and choice take" in str(check)


def test_a_release_that_shows_more_than_its_threshold(plan, monkeypatch):
    """The plan is right, the software is not."""
    honest = measuring.noisy_numbers
    monkeypatch.setattr(
        measuring, "noisy_numbers", lambda given, exact: honest(with_lower_threshold(given, rows=5), exact)
    )
    assert "groups of one unit were shown" in str(judged_choice(plan, false_alarm=FALSE_ALARM))


def judged_at_threshold(plan, draws=200_000):
    return at_threshold(Chosen.of(plan), Budget(draws, false_alarm=FALSE_ALARM))


def two_draws(published=lambda counts, threshold: counts):
    """A release that chooses groups by one draw and publishes another."""
    honest = measuring.noisy_numbers

    def planted(plan, exact):
        shown, noisy = honest(plan, exact)
        law, counts = plan.laws[plan.selector], exact[plan.selector][shown]
        noisy[plan.selector] = published(counts + np.asarray(law.sample(counts.shape)), plan.selection.threshold)
        return shown, noisy

    return planted


class TestAtTheThreshold:
    """A group at the threshold, with a unit and without: whether it is shown, and its count."""

    @pytest.mark.parametrize("limits", [(1, 1), (3, 5)], ids=str)
    def test_honest(self, limits):
        groups, rows = limits
        query = Dataset(RIDES, "user").group_by("city", max_groups=groups, max_rows_per_group=rows).count()
        plan = query.plan(1, 1e-6, measure_left_out=False)
        check = judged_at_threshold(plan)
        assert check.passed, str(check)
        assert check.details["proved_share_of_epsilon"] > 0.7

    def test_two_draws(self, plan, monkeypatch):
        """Counts below the threshold are shown: that is certain, whatever was drawn."""
        monkeypatch.setattr(measuring, "noisy_numbers", two_draws())
        assert "another draw than the one that is published" in str(judged_at_threshold(plan))

    def test_two_draws_that_no_count_gives_away(self, plan, monkeypatch):
        """The second draw is raised to the threshold: it takes both tables to see that there are two."""
        monkeypatch.setattr(measuring, "noisy_numbers", two_draws(np.maximum))
        check = judged_at_threshold(plan)
        assert not check.passed
        assert "draws on the data" in str(check)

    def test_no_noise_in_the_choice(self, plan, monkeypatch):
        """Whether a group is shown follows from its exact count."""
        honest = measuring.noisy_numbers

        def planted(given, exact):
            kept = exact[given.selector][:, 0] > given.selection.threshold
            shown, noisy = honest(with_lower_threshold(given, rows=10**6), exact)
            return shown & kept, {measure: numbers[kept] for measure, numbers in noisy.items()}

        monkeypatch.setattr(measuring, "noisy_numbers", planted)
        assert not judged_at_threshold(plan).passed


@pytest.fixture(scope="module")
def units():
    """A query that is prepared in a tenth of a second, and its plan."""
    query = Dataset(RIDES, "user").group_by("city", max_groups=1).count_units()
    return query, query.plan(1, 1e-6, measure_left_out=False)


class TestSalts:
    """Salts as they stand in the queries that are prepared for an engine, and as they are drawn."""

    def judged(self, units):
        return salts([salted_sql(measuring.prepare, *units)], fresh_salt, false_alarm=FALSE_ALARM)

    def test_honest(self, units):
        check = self.judged(units)
        assert check.passed, str(check)
        assert check.details["prepared"] >= 4

    def test_no_groups(self):
        assert salts([], fresh_salt, false_alarm=FALSE_ALARM).passed

    @pytest.mark.parametrize(
        ("made", "words"),
        [
            (lambda honest: 1234567, "came before"),
            (lambda honest: honest & 0xFFFF, "bits, such as bit"),
            (lambda honest: (honest & 0x3FFFFFFF) << 20, "bits, such as bit"),
            (lambda honest: -honest, "more than 62 bits"),
        ],
        ids=["constant", "few bits", "a few more", "negative"],
    )
    def test_of_releases(self, units, made, words, monkeypatch):
        """What `prepare` makes is looked at, not only what draws salts."""
        honest = measuring.fresh_salt
        monkeypatch.setattr(measuring, "fresh_salt", lambda: made(honest()))
        check = self.judged(units)
        assert words in str(check)
        assert "prepared releases" in str(check)

    def test_that_follow_from_the_query(self, units, monkeypatch):
        honest = measuring.prepare

        def planted(asked, planned, salt=None):
            made = zlib.crc32(repr(asked.to_dict()).encode()) * 0x9E3779B9 % 2**62
            return honest(asked, planned, made if salt is None else salt)

        monkeypatch.setattr(measuring, "prepare", planted)
        assert "came before" in str(self.judged(units))

    def test_that_are_not_used(self, units, monkeypatch):
        honest = DuckDB.hashed
        monkeypatch.setattr(DuckDB, "hashed", lambda self, salt, columns: honest(self, 5, columns))
        assert "does not use the salt" in str(self.judged(units))

    @pytest.mark.parametrize(
        ("made", "words"),
        [
            # Eight bytes that follow from two: every bit is even, and yet there are few salts.
            (lambda text: hashlib.sha256(text[:4].encode()).hexdigest()[:16], "came before"),
            (lambda text: f"{int(text, 16) | 32:016x}", "bit 3 is not even"),
        ],
        ids=["few", "one bit"],
    )
    def test_random_bytes(self, units, made, words, monkeypatch):
        honest = contribution.token
        monkeypatch.setattr(contribution, "token", lambda size: made(honest(size)))
        assert words in str(self.judged(units))


class TestDrawOfLimits:
    """The draw of a limit, with a unit that the smaller one cuts and without it."""

    @pytest.fixture(params=["add_remove", "change_one"])
    def judged(self, request):
        return lambda: draw_of_limits(request.param, Budget(4000, false_alarm=FALSE_ALARM))

    def test_honest(self, judged):
        check = judged()
        assert check.passed, str(check)
        assert check.details["proved_share_of_epsilon"] > 0.5

    def test_half_the_noise(self, judged, monkeypatch):
        honest = choosing.permute_and_flip
        monkeypatch.setattr(
            choosing, "permute_and_flip", lambda costs, source: honest([2 * cost for cost in costs], source)
        )
        check = judged()
        assert not check.passed
        assert check.name == "choice of limits"

    def test_no_noise(self, judged, monkeypatch):
        monkeypatch.setattr(choosing, "permute_and_flip", lambda costs, source: int(np.argmin(costs)))
        assert not judged().passed


def test_the_budget_of_a_choice_is_counted():
    plan = Dataset(RIDES, "user").group_by("city", public_keys=["Bern", "Rome"]).count().plan(1, 1e-6)
    assert plan.choice is not None
    assert spent_by([plan], plan.choice) <= plan.delta
    twice = dataclasses.replace(plan.choice, epsilon_of_a_draw=2 * plan.choice.epsilon_of_a_draw)
    assert spent_by([plan], twice) > plan.delta


def test_canaries(query, plan):
    check = canaries([(query, plan)], false_alarm=FALSE_ALARM)
    assert check.passed, str(check)
    assert check.details["canaries"] >= 100
    assert 1 < check.details["epsilon_at_least"] < plan.epsilon


def test_canaries_without_noise_enough(query, monkeypatch):
    """Promised are ε = 0.5 and noise for it; the release draws noise on a tenth of that scale."""
    plan = query.plan(0.5, 1e-6)
    honest = measuring.noisy_numbers
    monkeypatch.setattr(measuring, "noisy_numbers", lambda given, exact: honest(with_laws(given, 0.1), exact))
    check = canaries([(query, plan)], false_alarm=FALSE_ALARM)
    assert check is not None
    assert "follows from the plan" in str(check)


def many_groups(neighbours):
    data = Dataset(RIDES, "user", neighbours=neighbours)
    keys = [f"c{i}" for i in range(400)]
    return data.group_by("city", max_groups=1, max_rows_per_group=1, public_keys=keys).count()


class TestCanariesInManyGroups:
    """The same of units that are exchanged, and of two tables at once; the noise of one of them is too small."""

    @pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
    def test_honest_and_not(self, neighbours, monkeypatch):
        query = many_groups(neighbours)
        plan = query.plan(1, 1e-6, measure_left_out=False)
        check = canaries([(query, plan)], false_alarm=FALSE_ALARM)
        assert check.passed, str(check)
        assert check.details["canaries"] >= 200
        honest = measuring.noisy_numbers
        monkeypatch.setattr(measuring, "noisy_numbers", lambda given, exact: honest(with_laws(given, 0.05), exact))
        assert not canaries([(query, plan)], false_alarm=FALSE_ALARM).passed

    def test_two_tables(self, monkeypatch):
        """Each by itself would keep less than what is promised for both."""
        data = Dataset(RIDES, "user")
        limits = {"max_groups": 1, "max_rows_per_group": 1}
        cities = data.group_by("city", **limits, public_keys=[f"c{i}" for i in range(250)]).count()
        fares = data.where("fare > 0").group_by("city", **limits, public_keys=[f"c{i}" for i in range(250)]).count()
        tables = Publication(cities=cities, fares=fares)
        plan = tables.plan(1, 1e-6, measure_left_out=False)
        both = list(zip((block.query for block in tables.blocks), plan.blocks, strict=True))
        check = canaries(both, false_alarm=FALSE_ALARM)
        assert check.passed, str(check)
        honest = measuring.noisy_numbers

        def planted(given, exact):
            return honest(with_laws(given, 0.05) if given is plan.blocks[1] else given, exact)

        monkeypatch.setattr(measuring, "noisy_numbers", planted)
        assert not canaries(both, false_alarm=FALSE_ALARM).passed


def test_a_whole_audit(tmp_path):
    query = Dataset(RIDES, "user").group_by("city", max_groups=2, public_keys=["Bern", "Rome"]).count_units()
    told = []
    result = audit(query, 1, 1e-6, draws=50_000, false_alarm=FALSE_ALARM, progress=lambda what, done: told.append(what))
    assert result.passed, str(result)
    assert result.false_alarm <= FALSE_ALARM
    assert [check.name for check in result.checks] == ["replay", "δ", "salts", "sampler", "independence", "noise"]
    assert told
    assert json.loads(json.dumps(result.to_dict()))["passed"]
    assert "evidence, not a proof" in str(result)


def test_a_drawn_quantile_is_refused():
    query = Dataset(RIDES, "user").group_by("city", max_rows=2, public_keys=["Bern", "Rome"])
    with pytest.raises(ValueError, match="a quantile is drawn"):
        audit(query.median("fare", (0, 50), interval="none"), 1, 1e-6)


def test_the_page(tmp_path):
    path = tmp_path / "audit.html"
    result = audit(Mechanism(1, 1e-6), draws=5000)
    result.report(path)
    page = path.read_text(encoding="utf-8")
    assert "No evidence against the promise" in page
    assert page.count("<svg") >= 2
    assert "<script" not in page
    with pytest.raises(FileExistsError):
        result.report(path)
    result.report(path, overwrite=True)
