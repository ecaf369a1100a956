"""The sampler and the curve: what is honest passes, what is planted is found.

Every audit here has a false-alarm rate of 1e-9, so that honest ones fail at most that often; each planted fault is the
power check of the check that finds it.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from osgt import OSGT, DiscreteOSGT, Mechanism, PrivacyProfile, audit
from osgt.auditing.curve import curve, many, measure
from osgt.auditing.evidence import Claim
from osgt.auditing.result import Budget
from osgt.auditing.sampler import Cells, sampler

FALSE_ALARM = 1e-9
LAWS = [
    DiscreteOSGT.gaussian(0.4),
    DiscreteOSGT.laplace(1.0),
    DiscreteOSGT(15, 630**0.5),
    DiscreteOSGT.laplace(5e6),
]


def narrower(law, factor):
    return DiscreteOSGT.from_rates(law.slope / factor, law.curvature / factor**2)


def budget(draws):
    return Budget(draws, false_alarm=FALSE_ALARM)


class TestSampler:
    @pytest.mark.parametrize("law", LAWS, ids=repr)
    def test_honest(self, law):
        check = sampler(law, budget(500_000))
        assert check.passed, str(check)
        assert check.false_alarm == FALSE_ALARM

    @pytest.mark.parametrize("law", LAWS, ids=repr)
    def test_cells_have_all_the_probability(self, law):
        cells = Cells.of(law, 10**9)
        assert math.fsum(cells.probability) == pytest.approx(1, abs=1e-12)
        for p, below, edge in zip(cells.probability[1:-1], cells.edges[:-1], cells.edges[1:], strict=True):
            if edge - below < 2000:
                assert p == pytest.approx(math.fsum(law.pmf(np.arange(below + 1, edge + 1))), rel=1e-9)

    @pytest.mark.parametrize("law", LAWS, ids=repr)
    def test_a_scale_five_percent_off(self, law):
        wrong = narrower(law, 0.95)
        assert not sampler(law, budget(500_000), lambda size: np.asarray(wrong.sample(size))).passed

    def test_a_tail_that_is_cut(self):
        law = LAWS[2]
        most = int(law.isf(1e-4))
        check = sampler(law, budget(1_000_000), lambda size: np.clip(law.sample(size), -most, most))
        assert not check.passed
        assert "not as in" in str(check)

    def test_a_low_bit_that_is_not_even(self):
        law = LAWS[2]
        rng = np.random.default_rng()

        def draw(size):
            draws = np.asarray(law.sample(size))
            return np.where(rng.random(size) < 0.02, draws | 1, draws)

        assert not sampler(law, budget(500_000), draw).passed

    def test_one_value_that_comes_too_seldom(self):
        law = LAWS[2]

        def draw(size):
            draws = np.asarray(law.sample(size))
            return np.where((draws == 0) & (np.asarray(law.sample(size)) > 12), 1, draws)

        assert not sampler(law, budget(1_000_000), draw).passed


def noisy(law):
    """A vectorised mechanism for vectors of integers."""
    return lambda data, size: data + np.asarray(law.sample((size, len(data))))


class TestCurve:
    ZERO, ONE = np.zeros(4, dtype=np.int64), np.ones(4, dtype=np.int64)

    def test_honest_mechanisms(self):
        for mechanism in (Mechanism(1, 1e-6, coordinates=4), Mechanism(1, 0, shift=0.5)):
            result = audit(mechanism, draws=60_000, false_alarm=FALSE_ALARM)
            assert result.passed, str(result)
            assert result.checks[-1].details["proved_share_of_epsilon"] > 0.7
            assert 0 < result.checks[-1].details["smaller_noise_seen"] < 0.3

    @pytest.mark.parametrize("known", [True, False])
    def test_a_scale_five_percent_too_small(self, known):
        law = Mechanism(1, 1e-6, coordinates=4).noise
        wrong = narrower(law, 0.95)

        def loss(outputs):
            return (law.potential(np.abs(outputs - 1.0)) - law.potential(np.abs(outputs * 1.0))).sum(axis=1)

        result = audit(
            noisy(wrong),
            data=self.ZERO,
            neighbour=self.ONE,
            claim=PrivacyProfile(law, coordinates=4),
            loss=loss if known else None,
            vectorised=True,
            draws=700_000,
            false_alarm=FALSE_ALARM,
        )
        assert not result.passed
        [finding] = result.findings
        assert "draws on the data" in finding.what
        assert "p-value" in finding.what

    def test_laplace_noise_for_half_the_coordinates(self):
        law = Mechanism(1, 0, coordinates=2).noise
        result = audit(
            noisy(law),
            1,
            0,
            data=self.ZERO,
            neighbour=self.ONE,
            vectorised=True,
            draws=200_000,
            false_alarm=FALSE_ALARM,
        )
        assert not result.passed

    def test_float_noise_with_its_low_bits(self):
        rng = np.random.default_rng()
        result = audit(lambda x: x + rng.laplace(), 1, 0, data=0.0, neighbour=1.0, draws=4000, false_alarm=FALSE_ALARM)
        assert not result.passed
        assert "lowest bits" in result.findings[0].what
        # Rounded to a grid that is the same for both, the same noise shows nothing.
        on_grid = audit(
            lambda x, n: np.round((x + rng.laplace(scale=1.01, size=n)) * 1024) / 1024,
            1, 0, data=0.0, neighbour=1.0, draws=40_000, vectorised=True, false_alarm=FALSE_ALARM,
        )  # fmt: skip
        assert on_grid.passed, str(on_grid)

    def test_noise_that_is_cut_off(self):
        """Outputs that the neighbour cannot have: a δ of its own."""
        law = DiscreteOSGT.laplace(2.0)
        most = int(law.isf(1e-3))

        def cut(data, size):
            return data + np.clip(law.sample((size, 1)), -most, most)

        claim = PrivacyProfile(law)
        check = curve(cut, np.array([0]), np.array([1]), Claim.of(None, None, claim), budget(200_000))
        assert not check.passed

    def test_an_error_value_that_tells(self):
        rng = np.random.default_rng()

        def mechanism(data, size):
            noise = np.round(rng.laplace(scale=2, size=size))
            return np.where((data > 0) & (rng.random(size) < 0.05), np.nan, data + noise)

        result = audit(mechanism, 1, 0, data=0.0, neighbour=1.0, vectorised=True, draws=40_000, false_alarm=FALSE_ALARM)
        assert not result.passed

    def test_what_is_said_about_power_is_true(self):
        """Noise smaller by what is said to be seen is seen: in fewer than 2 of 9 runs with a chance of 1e-7."""
        law = DiscreteOSGT.gaussian(8.0)
        claim = Claim.of(None, None, PrivacyProfile(law, coordinates=2))
        zero, one = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)
        passed = curve(noisy(law), zero, one, claim, budget(50_000))
        smaller = passed.details["smaller_noise_seen"]
        assert passed.passed
        wrong = narrower(law, 1 - smaller)
        found = [not curve(noisy(wrong), zero, one, claim, budget(50_000)).passed for _ in range(9)]
        assert sum(found) >= 2

    def test_limits_hold_together(self):
        """The band of the picture contains the true curve, for Gaussian noise in closed form."""
        rng = np.random.default_rng()
        claim = Claim.of(None, None, PrivacyProfile(OSGT.gaussian(1.0)))
        mechanism = many(lambda data, size: data - rng.normal(size=size))
        measured = measure(mechanism, (1.0, 0.0), claim, budget(50_000), lambda y: y[:, 0].astype(float), "")
        levels = np.array([float(event.split()[-1]) for event in measured.events])
        error = FALSE_ALARM / (2 * len(levels))
        for counts, mean in ((measured.data, 1.0), (measured.neighbour, 0.0)):
            low, high = counts.limits(error)
            truth = norm.sf(levels - mean)
            assert np.all((low <= truth * (1 + 1e-4)) & (truth * (1 - 1e-4) <= high))

    def test_arguments(self):
        with pytest.raises(ValueError, match="data and neighbour"):
            audit(lambda x: x, 1, 0)
        with pytest.raises(ValueError, match="epsilon and delta"):
            audit(lambda x: x, data=0, neighbour=1)
        with pytest.raises(TypeError, match="a query, a Publication, a Mechanism or a function"):
            audit(3)
        with pytest.raises(ValueError, match="draws must be at least"):
            audit(Mechanism(1, 0), draws=10)
        with pytest.raises(ValueError, match="all outputs are the same"):
            audit(lambda x: 1, 1, 0, data=0, neighbour=1, draws=1000)
        with pytest.raises(ValueError, match="along the first axis"):
            audit(lambda x, n: [1, 2], 1, 0, data=0, neighbour=1, draws=1000, vectorised=True)


MECHANISMS = [Mechanism(1, 1e-6, coordinates=4), Mechanism(0.5, 0), Mechanism(2, 1e-8, shift=0.3)]


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_hundred_honest_audits(mechanism):
    """No alarm in a hundred audits of each, at a false-alarm rate of 1e-6: but for a chance of 1e-4."""
    failed = [result for _ in range(100) if not (result := audit(mechanism, draws=50_000)).passed]
    assert failed == []


@pytest.mark.long
def test_false_alarms_where_they_are_frequent_enough_to_count():
    """At 5 %: of 300 audits at most binomial(300, 0.05) fail, more than 45 with a probability below 1e-9."""
    failed = sum(not audit(MECHANISMS[i % 3], draws=10_000, false_alarm=0.05).passed for i in range(300))
    print(f"{failed} of 300 honest audits failed at a false-alarm rate of 5 %")
    assert failed <= 45


@pytest.mark.long
def test_ten_million_draws_bound_a_curve_to_one_percent():
    law = Mechanism(1, 1e-6).noise
    claim = PrivacyProfile(law)

    def loss(outputs):
        return (law.potential(np.abs(outputs - 1.0)) - law.potential(np.abs(outputs * 1.0))).sum(axis=1)

    options = {"data": np.array([0]), "neighbour": np.array([1]), "claim": claim, "loss": loss, "vectorised": True}
    honest = audit(noisy(law), draws=10_000_000, **options)
    assert honest.passed
    assert honest.checks[0].details["proved_share_of_epsilon"] > 0.98
    assert not audit(noisy(narrower(law, 0.98)), draws=20_000_000, **options).passed
