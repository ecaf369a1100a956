"""The reverse questions, and the noises side by side."""

import json
import math

import pytest

from osgt import OSGT, DiscreteOSGT, PrivacyProfile, calibrate, compare
from osgt.calibration import calibrate_delta, calibrate_epsilon
from osgt.noise import read


class TestReverse:
    @pytest.mark.parametrize("discrete", [True, False])
    @pytest.mark.parametrize("coordinates", [1, 8])
    def test_epsilon_for_a_std_is_the_inverse_of_calibrate(self, coordinates, discrete):
        forward = calibrate(0.8, 1e-6, coordinates=coordinates, discrete=discrete)
        back = calibrate_epsilon(1e-6, target_std=forward.std(), coordinates=coordinates, discrete=discrete)
        assert back.epsilon == pytest.approx(0.8, rel=1e-3)
        assert back.noise.std() <= forward.std() * (1 + 1e-9)
        assert PrivacyProfile(back.noise, 1, coordinates).delta(back.epsilon) <= 1e-6

    @pytest.mark.parametrize("target", [0, 3, 20])
    def test_epsilon_for_an_interval(self, target):
        found = calibrate_epsilon(1e-6, target_interval=target, confidence=0.99, coordinates=4)
        assert found.noise.isf(0.005) <= target
        assert PrivacyProfile(found.noise, 1, 4).delta(found.epsilon) <= 1e-6
        # The target is used up: a slightly smaller ε needs a wider interval.
        wider = calibrate(0.9 * found.epsilon, 1e-6, coordinates=4, objective=("quantile", 0.99))
        assert wider.sf(target) > 0.005

    def test_pure_epsilon(self):
        found = calibrate_epsilon(0, target_std=DiscreteOSGT.laplace(4).std(), coordinates=2)
        assert found.noise.curvature == 0
        assert found.epsilon == pytest.approx(0.5, rel=1e-9)

    def test_delta_for_a_std(self):
        forward = calibrate(1.0, 1e-7, coordinates=6)
        back = calibrate_delta(1.0, target_std=forward.std(), coordinates=6)
        assert math.log(back.delta) == pytest.approx(math.log(1e-7), rel=5e-3)
        assert PrivacyProfile(back.noise, 1, 6).delta(1.0) <= back.delta

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "one of target_std and target_interval"),
            ({"target_std": 1, "target_interval": 1}, "one of target_std and target_interval"),
            ({"target_std": -1}, "target_std must be"),
            ({"target_interval": math.nan}, "target_interval must be"),
            ({"target_interval": 3, "confidence": 1}, "confidence must be"),
            ({"target_interval": 3, "confidence": 0}, "confidence must be"),
        ],
    )
    def test_bad_arguments(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            calibrate_epsilon(1e-6, **arguments)


class TestCompare:
    def test_rows(self):
        comparison = compare(1.0, 1e-6, coordinates=8)
        assert [row.name for row in comparison] == ["gaussian", "laplace", "laplace (pure)", "osgt"]
        assert comparison["osgt"] is comparison[3]
        assert len(comparison) == 4
        for row in comparison:
            profile = PrivacyProfile(row.noise, 1, 8)
            assert profile.delta(1.0) <= 1e-6
            assert row.std == row.noise.std()
            assert row.interval_95 == row.noise.isf(0.025)
            assert row.interval_95 < row.expected_max < 1.5 * row.interval_999999
        assert comparison["gaussian"].noise.slope == 0
        assert comparison["laplace"].noise.curvature == 0
        with pytest.raises(KeyError, match="osgt"):
            comparison["staircase"]

    def test_gains_are_those_of_the_published_map(self):
        """On the reals at ε = 1, δ = 1e-6, eight coordinates: 6.8 % against the Laplace, at m/σ = 2."""
        comparison = compare(1.0, 1e-6, coordinates=8, discrete=False)
        assert comparison["laplace"].gain == pytest.approx(0.068, abs=0.002)
        assert comparison["osgt"].noise.shape == pytest.approx(2.0, rel=0.2)
        assert comparison["osgt"].gain == 0
        assert comparison.better_end == "laplace"

    @pytest.mark.parametrize(("coordinates", "end", "word"), [(1, "laplace", "few"), (128, "gaussian", "many")])
    def test_an_end_is_named_where_it_is_best(self, coordinates, end, word):
        comparison = compare(0.5, 1e-6, coordinates=coordinates)
        assert comparison.better_end == end
        assert word in comparison.reason
        assert comparison[end].gain < 0.005

    def test_pure_privacy_has_no_gaussian(self):
        comparison = compare(1.0, 0, coordinates=3)
        assert [row.name for row in comparison] == ["laplace (pure)", "osgt"]
        assert comparison.better_end == "laplace"

    def test_plain_values(self):
        row = compare(1.0, 1e-6, coordinates=2)["osgt"].to_dict()
        assert read(row["noise"]).std() == row["std"]
        assert json.loads(json.dumps(row)) == row

    def test_on_the_reals(self):
        assert all(isinstance(row.noise, OSGT) for row in compare(1.0, 1e-6, discrete=False))
