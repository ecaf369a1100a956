"""Draws against each other: what is honest passes, and noise that is made of other noise is found wherever it is.

False-alarm rates are 1e-9 each. Faults are planted in the release, in the mechanism, in the sampler and in the bytes
that it is fed with; each is the power check of what finds it.
"""

import dataclasses
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from osgt import Dataset, DiscreteOSGT, Mechanism, Publication, audit
from osgt.auditing.independence import _gained, _of_copies, _of_table, _run, independence
from osgt.auditing.plan_noise import WorstCase
from osgt.release import measuring
from osgt.sampling import fast
from osgt.sampling.entropy import SystemEntropy

FALSE_ALARM = 1e-9
RIDES = pa.table({"user": [1, 1, 2], "city": ["Bern", "Rome", "Rome"], "fare": [3.5, 8.0, 2.0]})
LAWS = [DiscreteOSGT.gaussian(0.4), DiscreteOSGT.laplace(1.0), DiscreteOSGT(15, 630**0.5), DiscreteOSGT.laplace(5e6)]


def grouped():
    return Dataset(RIDES, "user").group_by("city", max_groups=1, max_rows_per_group=2)


@pytest.fixture(scope="module")
def release():
    """The noise of releases of a count and a sum, with what is left out."""
    plan = grouped().count().sum("fare", bounds=(0, 10)).plan(1, 1e-6, measure_left_out=True)
    return WorstCase.of([plan], plan.noise_delta).drawn


@pytest.fixture(scope="module")
def counts():
    """The noise of releases of a count alone."""
    plan = grouped().count().plan(1, 1e-6, measure_left_out=False)
    return WorstCase.of([plan], plan.noise_delta).drawn


def judged(release):
    return independence(release, false_alarm=FALSE_ALARM)


def of_law(law):
    return lambda groups: [(law, np.asarray(law.sample((groups, 2))))]


class TestHonest:
    @pytest.mark.parametrize("law", LAWS, ids=repr)
    def test_distributions(self, law):
        check = judged(of_law(law))
        assert check.passed, str(check)
        assert check.false_alarm == FALSE_ALARM

    def test_a_release(self, release):
        check = judged(release)
        assert check.passed, str(check)
        assert check.details["columns"] >= 4

    def test_many_numbers_in_a_group(self):
        query = grouped().histogram("fare", edges=list(range(1500)))
        plan = query.plan(1, 1e-6, measure_left_out=False)
        check = judged(WorstCase.of([plan], plan.noise_delta).drawn)
        assert check.passed, str(check)

    def test_a_publication_and_limits_that_are_chosen(self):
        query = grouped()
        tables = Publication(cities=query.count(), fares=query.sum("fare", bounds=(0, 10)))
        plan = tables.plan(1, 1e-6)
        assert judged(WorstCase.of(plan.blocks, plan.noise_delta).drawn).passed
        plan = Dataset(RIDES, "user").group_by("city").count().mean("fare").plan(1, 1e-6)
        assert plan.choice is not None
        assert judged(WorstCase.of([plan], plan.noise_delta).drawn).passed

    def test_ten_audits(self):
        """No alarm at a false-alarm rate of 1e-6: but for a chance of 1e-5."""
        mechanisms = [Mechanism(1, 1e-6), Mechanism(0.5, 0), Mechanism(2, 1e-8, shift=0.3)]
        failed = [r for i in range(10) if not (r := audit(mechanisms[i % 3], draws=5000)).passed]
        assert failed == []

    @pytest.mark.long
    def test_false_alarms_where_they_are_frequent_enough_to_count(self):
        """At 20 %: of 200 at most binomial(200, 0.2) fail, more than 75 with a probability below 1e-8."""
        failed = sum(not independence(of_law(LAWS[i % 4]), false_alarm=0.2).passed for i in range(200))
        print(f"{failed} of 200 honest releases failed at a false-alarm rate of 20 %")
        assert failed <= 75


class TestEvidence:
    """The mean of E over all that honest draws can be is 1, added up: also where pairs overlap."""

    LAW = DiscreteOSGT.gaussian(0.4)
    VALUES = np.arange(-2, 3)

    @pytest.mark.parametrize("lag", [1, 2])
    def test_copies(self, lag):
        total = 0.0
        for stream in itertools.product(self.VALUES, repeat=5):
            draws = np.array(stream)
            logs = self.LAW.logpmf(draws)
            total += math.exp(logs.sum() + _of_copies(draws[:-lag], draws[lag:], _gained(-logs)[:, lag:]))
        assert total == pytest.approx(1, rel=1e-9)

    def test_cells_by_an_earlier_cell(self):
        p = np.array([0.2, 0.5, 0.3])
        total = 0.0
        for cells in itertools.product(range(3), repeat=7):
            table = np.zeros((3, 3), dtype=np.int64)
            np.add.at(table, (cells[:-1], cells[1:]), 1)
            total += math.exp(np.log(p[list(cells)]).sum() + _of_table(table, p))
        assert total == pytest.approx(1, rel=5e-3)

    def test_runs_by_chance(self):
        """At a false-alarm rate of 10 %: in 400 streams more than 80 runs have a probability below 1e-8."""
        rng = np.random.default_rng()
        law = DiscreteOSGT.laplace(1.0)
        runs = sum(_run(np.asarray(law.sample(int(rng.integers(900, 1000)))), law, 0.1) is not None for _ in range(400))
        assert runs <= 80


def noise_from(monkeypatch, made):
    """Plant what becomes of the noise of numbers that are released together."""
    honest = Mechanism._noisy

    def planted(self, steps):
        noise = honest(self, np.zeros_like(steps))
        return steps + made(noise)

    monkeypatch.setattr(Mechanism, "_noisy", planted)


def put(noise, there, values):
    noise = noise.copy()
    noise[there] = values
    return noise


class TestGroups:
    """Noise of a group that is made of another group's."""

    def test_the_same_in_two_groups(self, release, monkeypatch):
        noise_from(monkeypatch, lambda noise: put(noise, 17, noise[3]) if len(noise) > 17 else noise)
        assert "place" in str(judged(release))

    @pytest.mark.parametrize("lag", [1, 7, 512])
    def test_the_same_some_groups_later(self, release, lag, monkeypatch):
        """In one of four groups, or of so many that only large releases have one."""

        def made(noise):
            copied = np.flatnonzero(np.arange(len(noise)) % 4 == 3)
            copied = copied[copied >= lag]
            return put(noise, copied, noise[copied - lag])

        noise_from(monkeypatch, made)
        check = judged(release)
        assert "follow from" in str(check)

    @pytest.mark.parametrize(
        "sign", [lambda size: -1, lambda size: np.random.default_rng().choice([-1, 1], size=(size, 1))]
    )
    def test_the_other_sign_or_any(self, release, sign, monkeypatch):
        """Every other group has the noise of the one before, but for its sign."""

        def made(noise):
            before = noise[: len(noise) // 2 * 2 : 2]
            return put(noise, slice(1, 2 * len(before), 2), sign(len(before)) * before)

        noise_from(monkeypatch, made)
        assert not judged(release).passed

    def test_the_same_for_all(self, release, monkeypatch):
        noise_from(monkeypatch, lambda noise: np.broadcast_to(noise[:1], noise.shape))
        assert not judged(release).passed

    def test_the_same_in_every_release(self, counts, monkeypatch):
        """As with a seed that follows from the query."""
        kept = {}
        noise_from(monkeypatch, lambda noise: kept.setdefault(noise.shape, noise))
        assert "come again" in str(judged(counts))


class TestColumns:
    """Noise of a column that is made of another column's."""

    def test_all_columns_on_their_own_scale(self, release, monkeypatch):
        """A uniform number for each group, from which follows the noise of all its columns."""
        honest, rng = measuring.noisy_numbers, np.random.default_rng()

        def planted(plan, exact):
            uniform = rng.uniform(1e-9, 1 - 1e-9, size=(max(map(len, exact.values())), 1))
            shown, noisy = honest(plan, exact)
            for measure, numbers in exact.items():
                noisy[measure] = numbers + np.asarray(plan.laws[measure].ppf(uniform)).astype(np.int64)
            return shown, noisy

        monkeypatch.setattr(measuring, "noisy_numbers", planted)
        assert "column 2 follows from column 1" in str(judged(release))

    @pytest.mark.parametrize("part", [1.0, 0.1])
    def test_two_with_one_distribution(self, part, monkeypatch):
        """All of the noise of one column, or a tenth of it, is that of the other."""
        query = grouped().sum("fare", bounds=(0, 10)).count()
        plan = query.plan(1, 1e-6, measure_left_out=False)
        count, fare = plan.parts
        same = dataclasses.replace(plan.noise, laws=dict.fromkeys(plan.laws, plan.laws[fare]))
        plan = dataclasses.replace(plan, noise=same)
        honest, rng = measuring.noisy_numbers, np.random.default_rng()

        def planted(given, exact):
            shown, noisy = honest(given, exact)
            copied = rng.random(len(exact[count])) < part
            noisy[fare] = np.where(copied[:, None], exact[fare] + noisy[count] - exact[count], noisy[fare])
            return shown, noisy

        drawn = WorstCase.of([plan], plan.noise_delta).drawn
        assert judged(drawn).passed
        monkeypatch.setattr(measuring, "noisy_numbers", planted)
        assert not judged(drawn).passed

    def test_signs_that_agree_too_often(self, monkeypatch):
        """In 10 of 100 groups one column takes the sign of the other: a correlation of the signs of 10 %."""
        rng, law = np.random.default_rng(), LAWS[3]

        def made(noise):
            agree = rng.random(len(noise)) < 0.1
            return put(noise, (agree, 1), np.abs(noise[agree, 1]) * np.sign(noise[agree, 0]))

        mechanism = Mechanism.of(law, coordinates=2)
        noise_from(monkeypatch, made)
        check = judged(lambda groups: [(law, mechanism.release(np.zeros((groups, 2), dtype=np.int64)))])
        assert "column 2 follows from column 1" in str(check)


class TestSampler:
    """Draws that are handed out again."""

    @pytest.fixture(autouse=True)
    def _samplers_of_their_own(self):
        fast.sampler_for.cache_clear()
        yield
        fast.sampler_for.cache_clear()

    @pytest.mark.parametrize(
        "again", [lambda half: half, lambda half: half[::-1], lambda half: -half], ids=["same", "backwards", "signs"]
    )
    def test_a_pool_that_is_handed_out_twice(self, counts, again, monkeypatch):
        honest = fast.draw

        def planted(sampler, count):
            half = honest(sampler, count // 2)
            return np.concatenate([half, again(half)]) if count == fast._POOL else honest(sampler, count)

        monkeypatch.setattr(fast, "draw", planted)
        check = judged(counts)
        assert "come again" in str(check)

    def test_large_releases_alone(self, counts, monkeypatch):
        honest = fast.draw
        monkeypatch.setattr(
            fast,
            "draw",
            lambda sampler, count: (
                np.resize(honest(sampler, 3000), count) if count > fast._POOL else honest(sampler, count)
            ),
        )
        assert "come again" in str(judged(counts))

    def test_a_stream_of_bytes_that_begins_anew(self, release, monkeypatch):
        """The same key and counter for every block of bytes: a cipher that is never keyed afresh."""
        kept = np.random.default_rng().integers(0, 256, 1 << 22, dtype=np.uint8)
        monkeypatch.setattr(SystemEntropy, "read", lambda self, count: kept[:count].copy())
        assert not judged(release).passed

    def test_a_mechanism(self, monkeypatch):
        """The audit of a mechanism sees it too."""
        noise_from(monkeypatch, lambda noise: put(noise, slice(1, None, 2), noise[: len(noise) // 2 * 2 : 2]))
        result = audit(Mechanism(1, 1e-6), draws=10_000, false_alarm=FALSE_ALARM)
        assert "independence" in {check.name for check in result.checks if not check.passed}
