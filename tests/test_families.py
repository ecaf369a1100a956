"""Another noise family, from calibration to the ledger, without a change to the package: `quartic.py` beside this."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import mpmath
import numpy as np
import pyarrow as pa
import pytest

import osgt
from goodness import FALSE_ALARM, chi_square, moments
from osgt import Dataset, DiscreteOSGT, Ledger, Mechanism, PrivacyProfile, calibrate, compare
from osgt.calibration import Part, calibrate_delta, calibrate_epsilon, calibrate_parts
from osgt.ledger import BudgetExceeded
from osgt.noise import (
    OSGT_FAMILY,
    IntegerDistribution,
    RealDistribution,
    family_of,
    read,
    register,
    registered,
    scaled,
    written,
)
from osgt.privacy import Charge
from quartic import QUARTIC, QuarticPotential

HERE = Path(__file__).parent
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)

#: Rows of 300 people, each in one city.
ROWS = pa.table({"person": list(range(300)), "city": ["Bern", "Rome", "Riga"] * 100})

BETWEEN = IntegerDistribution(QuarticPotential(0.5, 1e-3))
LAWS = [BETWEEN, IntegerDistribution(QuarticPotential(0.0, 0.01)), IntegerDistribution(QuarticPotential(0.7, 0.0))]


@dataclass(frozen=True)
class CoshPotential(QuarticPotential):
    """Steeper than any power; only what the test below needs."""

    slope: float
    quartic: float = 0.0
    family: ClassVar[str] = "cosh"
    largest_slope: ClassVar[float] = np.inf

    def __call__(self, y):
        return np.cosh(self.slope * y) - 1.0

    def rise(self, y, d):
        return 2.0 * np.sinh(self.slope * (y + 0.5 * d)) * np.sinh(0.5 * self.slope * d)

    def derivatives(self, y):
        odd, even = np.sinh(self.slope * y), np.cosh(self.slope * y)
        return [self.slope**n * (odd if n % 2 else even) for n in range(1, 25)]

    def scaled(self, factor):
        return CoshPotential(self.slope / factor)

    def _integral(self, y, power):
        half = 5.0 / self.slope  # cosh(10) is beyond exp(9)
        t = half * (1 + NODES)
        return half * (np.exp(-self.rise(np.asarray(y)[..., np.newaxis], t)) * t**power) @ WEIGHTS


COSH = replace(QUARTIC, name="cosh", potential=CoshPotential, unit=lambda u: CoshPotential(1.0 + u))


@pytest.fixture(scope="module", autouse=True)
def quartic():
    register(COSH)
    return register(QUARTIC)


def losses(law, shift=1, reach=400):
    """All losses of one coordinate and the logarithms of their probabilities, from the formula of the potential."""
    slope, quartic = law.potential.slope, law.potential.quartic

    def potential(y):
        return slope * np.abs(y) + quartic * np.abs(y) ** 4.0

    w = np.arange(-reach, reach + 1.0)
    return potential(w + shift) - potential(w), -potential(w) - np.logaddexp.reduce(-potential(w))


def delta_by_sum(law, epsilon, coordinates):
    """δ(ε) as the sum over all outcomes."""
    loss, log_mass = losses(law)
    keep = log_mass > -90
    loss, mass = loss[keep], np.exp(log_mass[keep])
    total, masses = np.zeros(1), np.ones(1)
    for _ in range(coordinates):
        total, masses = np.add.outer(total, loss).ravel(), np.multiply.outer(masses, mass).ravel()
    return float(np.sum(masses * np.maximum(-np.expm1(epsilon - total), 0.0)))


class TestRegister:
    def test_by_name_or_by_itself(self):
        assert family_of("quartic") is family_of(QUARTIC) is QUARTIC
        assert family_of("osgt") is OSGT_FAMILY
        assert {"osgt", "quartic"} <= set(registered())
        assert register(QUARTIC) is QUARTIC

    def test_one_name_means_one_family(self):
        with pytest.raises(ValueError, match="another noise family 'quartic'"):
            register(replace(QUARTIC, unit=lambda u: QuarticPotential(1.0, u)))

    def test_unknown_families_are_named_and_how_to_get_them(self):
        with pytest.raises(ValueError, match=r"no noise family 'cauchy'; known are .*osgt.*Install the package"):
            calibrate(1, 1e-6, family="cauchy")
        with pytest.raises(TypeError, match="family must be"):
            calibrate(1, 1e-6, family=3)

    def test_one_that_cannot_be_loaded_is_named(self, monkeypatch):
        point = EntryPoint("broken", "no_such_module:BROKEN", "osgt.noise_families")
        monkeypatch.setattr("osgt.noise.family.entry_points", lambda **_: [point])
        with pytest.raises(ImportError, match="the noise family 'broken' cannot be loaded from no_such_module:BROKEN"):
            family_of("broken")

    @pytest.mark.parametrize("name", ["", "Two words", "UPPER", "fourth power", "laplace"])
    def test_names_that_cannot_be_told_apart(self, name):
        with pytest.raises(ValueError, match="name"):
            register(replace(QUARTIC, name=name))

    @pytest.mark.parametrize(
        "law", [*LAWS, RealDistribution(BETWEEN.potential), DiscreteOSGT(3, 5), osgt.OSGT.laplace(2)]
    )
    def test_written_and_read(self, law):
        again = read(json.loads(json.dumps(written(law))))
        assert again == law
        assert type(again) is type(law)

    @pytest.mark.parametrize("change", [{"slope": -1.0}, {"quartic": "1"}, {"discrete": 1}, {"scale": 1.0}])
    def test_nonsense_is_not_read(self, change):
        with pytest.raises((TypeError, ValueError)):
            read(written(BETWEEN) | change)

    @pytest.mark.parametrize("law", LAWS)
    def test_scaled(self, law):
        wide = scaled(law, 50.0)
        assert wide.std() == pytest.approx(50 * scaled(law, 1.0, discrete=False).std(), rel=1e-3)
        assert scaled(law, 2.0, discrete=False).var() == pytest.approx(
            4 * RealDistribution(law.potential).var(), rel=1e-12
        )


class TestAccounting:
    @pytest.mark.parametrize("law", LAWS, ids=repr)
    @pytest.mark.parametrize("coordinates", [1, 2, 3])
    def test_delta_is_the_sum_over_all_outcomes(self, law, coordinates):
        profile = PrivacyProfile(law, 1, coordinates)
        for epsilon in (0.1, 0.9, 1.7):
            exact = delta_by_sum(law, epsilon, coordinates)
            assert exact * (1 - 1e-12) <= profile.delta(epsilon) <= exact * (1 + 2e-4) + 1e-15

    @pytest.mark.parametrize("law", LAWS, ids=repr)
    @pytest.mark.parametrize("alpha", [1.01, 2.0, 8.0, 60.0])
    def test_renyi_is_the_sum_over_all_outcomes(self, law, alpha):
        loss, log_mass = losses(law)
        exact = np.logaddexp.reduce(log_mass + (alpha - 1) * loss) / (alpha - 1)
        assert exact * (1 - 1e-9) <= PrivacyProfile(law).renyi(alpha) <= exact * (1 + 1e-9)

    @pytest.mark.parametrize("line", [IntegerDistribution, RealDistribution])
    @pytest.mark.parametrize(("slope", "quartic", "alpha"), [(1.0, 1e-10, 3e4), (2.0, 1e-9, 3e3)])
    def test_a_second_peak_of_the_moment_is_found(self, line, slope, quartic, alpha):
        """Far out the loss grows again: there exp((α - 1)·loss) has most of its mean, beyond a valley."""
        s = alpha - 1

        def exponent(w):
            return s * slope + quartic * (s * (w + 1.0) ** 4 - alpha * w**4) - slope * w

        # Terms on the integers; on the reals they are so wide that the sum is the integral.
        w = np.arange(0.0, 2e5)
        values = exponent(w)
        assert np.argmax(values) > np.argmin(values[:2000]) > 0
        assert values[:2000].min() < values[0] - 60
        normaliser = np.log(np.sum(np.exp(-slope * w - quartic * w**4)) * 2 - 1)
        if line is RealDistribution:
            normaliser = float(
                mpmath.log(2 * mpmath.quad(lambda y: mpmath.exp(-slope * y - quartic * y**4), [0, 9, 60]))
            )
        exact = (np.logaddexp.reduce(values) - normaliser) / s
        found = PrivacyProfile(line(QuarticPotential(slope, quartic))).renyi(alpha)
        assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-6)

    def test_a_moment_without_limit_is_infinite(self):
        """Under U = cosh(rate·y) - 1 the loss grows as fast as U: other bounds must serve such noise."""
        law = IntegerDistribution(CoshPotential(0.3))
        profile = PrivacyProfile(law)
        assert profile.renyi(30.0) == np.inf
        assert profile.delta_from_renyi(0.5) == 1.0
        y = np.arange(-60.0, 61.0)
        mass = np.exp(1 - np.cosh(0.3 * y))
        loss = np.cosh(0.3 * (y + 1)) - np.cosh(0.3 * y)
        exact = np.sum(mass * -np.expm1(np.minimum(0.5 - loss, 0.0))) / np.sum(mass)
        assert exact * (1 - 1e-12) <= profile.delta(0.5) <= exact * (1 + 1e-9)

    def test_on_the_reals(self):
        law = RealDistribution(QuarticPotential(0.4, 2e-3))
        with mpmath.workdps(30):
            z = mpmath.quad(lambda y: mpmath.exp(-(mpmath.mpf(0.4) * y + mpmath.mpf(2e-3) * y**4)), [0, 2, 5, 12, 20])
            tail = mpmath.quad(lambda y: mpmath.exp(-(mpmath.mpf(0.4) * y + mpmath.mpf(2e-3) * y**4)), [3, 5, 12, 20])
            second = mpmath.quad(
                lambda y: (0.4 + 8e-3 * y**3) ** 2 * mpmath.exp(-(0.4 * y + 2e-3 * y**4)), [0, 2, 5, 12, 20]
            )
        assert law.sf(3.0) == pytest.approx(float(tail / z / 2), rel=1e-12)
        assert law.isf(float(tail / z / 2)) == pytest.approx(3.0, rel=1e-12)
        assert law.fisher_information() == pytest.approx(float(second / z), rel=1e-10)

    def test_the_laplace_end_is_that_of_osgt(self):
        ours, theirs = PrivacyProfile(LAWS[2], 2, 5), PrivacyProfile(DiscreteOSGT.from_rates(0.7, 0.0), 2, 5)
        assert ours.epsilon(0) == theirs.epsilon(0) == 7.0
        assert ours.delta(3.0) == pytest.approx(theirs.delta(3.0), rel=1e-9)

    def test_euclidean_bounds_hold_for_single_changes(self):
        bound = PrivacyProfile.l2(BETWEEN, 3, 4)
        assert bound.renyi(4.0) >= PrivacyProfile(BETWEEN, 3).renyi(4.0) * (1 - 1e-12)
        assert bound.delta(2.0) >= PrivacyProfile(BETWEEN, 1, 4).delta(2.0)

    def test_what_only_osgt_has_is_refused(self):
        with pytest.raises(TypeError, match="about OSGT noise"):
            PrivacyProfile(BETWEEN).zcdp(2.0)

    def test_inexact_tails_are_refused(self):
        class Rough(QuarticPotential):
            tail_error = 1e-9

        with pytest.raises(ValueError, match="tail_error"):
            PrivacyProfile(IntegerDistribution(Rough(1.0, 1.0)))


class TestCalibration:
    def test_the_budget_is_used_and_kept(self):
        noise = calibrate(2, 1e-2, coordinates=3, family="quartic")
        assert min(noise.potential.slope, noise.potential.quartic) > 0
        assert 0.99e-2 < delta_by_sum(noise, 2.0, 3) <= 1e-2

    def test_no_other_member_is_better(self):
        best = calibrate(2, 1e-2, coordinates=2, family=QUARTIC)
        for u in np.linspace(0, 1, 11):
            # The least scale of this shape, by bisection on sums over all outcomes.
            low, high = 0.2 * best.std(), 5 * best.std()
            for _ in range(30):
                middle = (low + high) / 2
                law = QUARTIC.member(float(u), middle, discrete=True)
                low, high = (low, middle) if delta_by_sum(law, 2.0, 2) <= 1e-2 else (middle, high)
            assert best.var() <= QUARTIC.member(float(u), high, discrete=True).var() * 1.004

    def test_parts(self):
        small, large = calibrate_parts(2, 1e-2, [Part(1, 2), Part(10, 2)], family="quartic")
        assert large.std() == pytest.approx(10 * small.std(), rel=0.01)
        assert (PrivacyProfile(small, 1, 2) + PrivacyProfile(large, 10, 2)).delta(2.0) <= 1e-2

    def test_pure_privacy_is_its_laplace_end(self):
        noise = calibrate(1, 0, coordinates=2, family="quartic")
        assert noise.potential == pytest.approx(QuarticPotential(0.5, 0.0))

    def test_pure_privacy_needs_a_bounded_loss(self):
        ends = QUARTIC.ends
        steep = replace(QUARTIC, name="steep", unit=lambda u: QuarticPotential(u, 1.0), ends=ends)
        with pytest.raises(ValueError, match="delta must be above 0 for noise of the family 'steep'"):
            calibrate(1, 0, family=steep)

    def test_reverse_questions(self):
        forward = calibrate(2, 1e-2, coordinates=2, family="quartic")
        back = calibrate_epsilon(1e-2, target_std=forward.std(), coordinates=2, family="quartic")
        assert back.epsilon == pytest.approx(2, rel=2e-3)
        assert calibrate_delta(2, target_std=forward.std(), coordinates=2, family="quartic").delta <= 1.01e-2

    def test_comparison_with_its_own_ends(self):
        found = compare(2, 1e-2, coordinates=3, family="quartic")
        assert [row.name for row in found] == ["fourth power", "laplace", "laplace (pure)", "quartic"]
        assert found["quartic"].std <= min(row.std for row in found)
        assert found.better_end in found.reason.lower()


class TestMechanism:
    def test_draws_follow_the_distribution(self):
        law = calibrate(2, 1e-2, coordinates=3, family="quartic")
        draws = law.sample(200_000)
        wider = scaled(law, 1.05)
        for p_value in (chi_square, moments):
            assert p_value(draws, law) > FALSE_ALARM
        assert moments(draws, wider) < FALSE_ALARM

    @pytest.mark.parametrize("scale", [30.0, 3000.0])
    def test_draws_of_large_noise(self, scale):
        law = QUARTIC.member(0.4, scale, discrete=True)
        draws = law.sample(200_000)
        assert chi_square(draws, law) > FALSE_ALARM
        assert moments(draws, scaled(law, 1.05)) < FALSE_ALARM

    def test_mechanism(self):
        mechanism = Mechanism(2, 1e-2, coordinates=3, family="quartic")
        assert mechanism.release([1, 2, 3]).dtype == np.int64
        assert mechanism.profile.delta(2.0) <= 1e-2
        assert "QuarticPotential" in mechanism.describe()

    def test_noise_of_ones_own_on_the_grid_of_floats(self):
        law = RealDistribution(QuarticPotential(0.5, 1e-3))
        mechanism = Mechanism.of(law, shift=1.0)
        assert mechanism.noise.std() * mechanism.step == pytest.approx(law.std(), rel=1e-3)
        assert mechanism.noise.potential == law.potential.scaled(1 / mechanism.step)


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    return tmp_path_factory.mktemp("families") / "ledger.db"


@pytest.fixture(scope="module")
def release(location):
    with Ledger(location) as ledger:
        ledger.open("people", epsilon=6, delta=0.1)
        data = Dataset(ROWS, privacy_unit="person", ledger=ledger, dataset="people")
        query = data.group_by("city", max_groups=1, max_rows_per_group=2, public_keys=["Bern", "Rome", "Riga"])
        return query.count().count_units().release(epsilon=2, delta=1e-2, family="quartic")


class TestTables:
    def test_the_release_has_this_noise(self, release):
        assert {law.potential.family for law in release.plan.laws.values()} == {"quartic"}
        assert set(release.plan.gains) == {"fourth power", "laplace", "laplace (pure)"}
        columns = release.to_arrow()
        assert np.all(np.abs(columns["count"].to_numpy() - 100) < 60 * release.plan.columns[0].std)

    def test_the_statement_can_be_recomputed(self, release):
        plain = json.loads(json.dumps(release.statement.to_dict(), allow_nan=False))
        charge = Charge.from_dict(plain["privacy"]["charge"])
        assert charge == release.plan.charge
        assert charge.delta(plain["epsilon"]) <= plain["delta"]
        families = {measure["measure"]: measure["noise"]["family"] for measure in plain["privacy"]["measures"]}
        # What limits cut off is measured with Laplace noise, whatever the family.
        left_out = dict.fromkeys(("what is left out: rows", "what is left out: units"), "osgt")
        assert families == {"rows": "quartic", "units": "quartic"} | left_out

    def test_a_filter_that_cannot_serve_it_leaves_it_to_the_others(self, tmp_path):
        charge = Charge(PrivacyProfile(IntegerDistribution(CoshPotential(0.01))))
        with Ledger(tmp_path / "ledger.db") as ledger:
            ledger.open("people", epsilon=1, delta=1e-3)
            ledger.reserve("people", charge, query="little")
            assert ledger.spent("people").epsilon >= charge.epsilon(1e-3) * (1 - 1e-6)
            too_much = Charge(PrivacyProfile(IntegerDistribution(CoshPotential(2.0))))
            with pytest.raises(BudgetExceeded):
                ledger.reserve("people", too_much, query="much")
            assert len(ledger.history("people")) == 1

    def test_it_is_charged_and_verified(self, release, location):
        with Ledger(location) as ledger:
            (entry,) = ledger.history("people")
            assert entry.charge == release.plan.charge
            assert ledger.verify().ok
            # Every filter has an upper bound for such noise: composition holds beside other noise, too.
            spent = ledger.spent("people").epsilon
            assert entry.charge.epsilon(0.1) <= spent * (1 + 1e-6)
            assert spent <= 2.5
            with pytest.raises(BudgetExceeded):
                ledger.reserve(
                    "people", Charge(PrivacyProfile(IntegerDistribution(QuarticPotential(8.0, 1.0)))), query="too much"
                )
            ledger.reserve("people", Charge(PrivacyProfile(DiscreteOSGT(30, 30))), query="a little")
            assert ledger.verify().ok

    @staticmethod
    def run(location, folder=None):
        paths = [str(Path(osgt.__file__).parents[1]), *([str(folder)] if folder else [])]
        command = [sys.executable, "-m", "osgt", "ledger", "verify", str(location)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def test_programs_that_do_not_know_it_say_so(self, release, location):
        result = self.run(location)
        assert result.returncode != 0
        assert "no noise family 'quartic'" in result.stderr + result.stdout
        assert "Traceback" not in result.stderr

    def test_programs_that_have_it_installed_read_it(self, release, location, tmp_path):
        shutil.copy(HERE / "helpers" / "quartic.py", tmp_path)
        installed = tmp_path / "quartic-1.0.dist-info"
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: quartic\nVersion: 1.0\n")
        (installed / "entry_points.txt").write_text("[osgt.noise_families]\nquartic = quartic:QUARTIC\n")
        result = self.run(location, tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr
