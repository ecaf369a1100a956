"""Whole audits of queries: the noise of a plan, the choice of groups, canaries in a release, and what is written.

False-alarm rates are 1e-9 each; the planted faults are the power checks.
"""

import dataclasses
import json

import pyarrow as pa
import pytest

from osgt import Dataset, DiscreteOSGT, Mechanism, Publication, audit
from osgt.auditing import choice as choice_module
from osgt.auditing.budget import Budget
from osgt.auditing.canaries import canaries
from osgt.auditing.choice import Chosen, choice, spent_by
from osgt.auditing.curve import curve
from osgt.auditing.plan_noise import WorstCase
from osgt.tables import measuring

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


def judged_choice(plan, **options):
    return choice([Chosen.of(plan)], spent_by([plan]), plan.delta, **options)


def test_all_noise_of_a_plan(plan):
    check = noise_of(plan, plan)
    assert check.passed, str(check)
    assert check.details["proved_share_of_epsilon"] > 0.8
    assert not noise_of(plan, with_laws(plan, 0.95)).passed


def test_the_choice_of_groups(plan):
    check = judged_choice(plan, false_alarm=FALSE_ALARM)
    assert check.passed, str(check)
    assert check.details["delta_spent"] <= plan.delta


def test_a_threshold_one_too_low(plan):
    lower = dataclasses.replace(plan.selection, threshold=plan.threshold - 1)
    check = judged_choice(dataclasses.replace(plan, selection=lower), false_alarm=FALSE_ALARM)
    assert "noise and choice take" in str(check)


def test_a_release_that_shows_more_than_its_threshold(plan, monkeypatch):
    """The plan is right, the software is not."""
    honest = measuring.noisy_numbers

    def planted(given, exact):
        lower = dataclasses.replace(given.selection, threshold=given.threshold - 5)
        return honest(dataclasses.replace(given, selection=lower), exact)

    monkeypatch.setattr(choice_module, "noisy_numbers", planted)
    assert "groups of one unit were shown" in str(judged_choice(plan, false_alarm=FALSE_ALARM))


@pytest.mark.parametrize(
    ("salt", "words"), [(lambda honest: honest() & 0xFFFF, "came before"), (lambda honest: honest() | 8, "bit 3")]
)
def test_a_biased_salt(plan, monkeypatch, salt, words):
    honest = choice_module.fresh_salt
    monkeypatch.setattr(choice_module, "fresh_salt", lambda: salt(honest))
    assert words in str(judged_choice(plan, false_alarm=FALSE_ALARM))


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
        monkeypatch.setattr(measuring, "noisy_numbers", lambda given, exact: honest(with_laws(given, 0.2), exact))
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
    assert [check.name for check in result.checks] == ["replay", "δ and salts", "sampler", "noise"]
    assert told
    assert json.loads(json.dumps(result.to_dict()))["passed"]
    assert "evidence, not a proof" in str(result)


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
