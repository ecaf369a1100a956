"""What the two distributions have in common: how they are made, named, compared and stored."""

import copy
import dataclasses
import math
import pickle
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osgt import OSGT, DiscreteOSGT

both = pytest.mark.parametrize("family", [OSGT, DiscreteOSGT])


def example_laws(family):
    return [family(3, 40**0.5), family.gaussian(2.5), family.laplace(0.7), family.from_rates(1e-3, 1e-9)]


every_law = pytest.mark.parametrize("law", example_laws(OSGT) + example_laws(DiscreteOSGT), ids=repr)


@both
class TestConstructors:
    def test_properties(self, family):
        law = family(m=3.0, sigma=2.0)
        assert (law.slope, law.curvature) == (0.75, 0.25)
        assert (law.m, law.sigma, law.shape) == (3.0, 2.0, 1.5)

    def test_gaussian_end(self, family):
        law = family.gaussian(sigma=2.0)
        assert law == family(0, 2) == family.from_rates(0, 0.25)
        assert (law.m, law.sigma, law.shape) == (0.0, 2.0, 0.0)

    def test_laplace_end(self, family):
        law = family.laplace(scale=4.0)
        assert law == family.from_rates(0.25, 0)
        assert (law.m, law.sigma, law.shape) == (math.inf, math.inf, math.inf)

    def test_from_rates(self, family):
        assert family.from_rates(slope=0.75, curvature=0.25) == family(3, 2)

    @pytest.mark.parametrize("three", [3, 3.0, Fraction(3), np.float64(3), np.float32(3), np.int64(3), np.uint8(3)])
    def test_real_numbers_of_any_kind(self, family, three):
        assert family(three, three) == family(3.0, 3.0)
        assert family.from_rates(three, three) == family.from_rates(3.0, 3.0)
        assert family.gaussian(three) == family.gaussian(3.0)
        assert family.laplace(three) == family.laplace(3.0)
        assert type(family(three, three).slope) is type(family.laplace(three).slope) is float

    @settings(derandomize=True)
    @given(m=st.floats(0, 1e12), sigma=st.floats(1e-6, 1e12))
    def test_m_and_sigma_come_back(self, family, m, sigma):
        law = family(m, sigma)
        assert law.m == pytest.approx(m, rel=1e-15, abs=1e-300)
        assert law.sigma == pytest.approx(sigma, rel=1e-15)
        assert law.shape == pytest.approx(m / sigma, rel=1e-15, abs=1e-300)


OUT_OF_RANGE = [-1, -1e-300, math.nan, math.inf, -math.inf, Fraction(-1, 2), np.float64("nan"), 10**400]
NOT_REAL = ["1", None, True, np.True_, 1 + 0j, b"1", [1.0], np.array([1.0]), np.array(1.0), Decimal(1)]
CALLS = {
    "m": lambda family, value: family(value, 1.0),
    "sigma": lambda family, value: family(1.0, value),
    "slope": lambda family, value: family.from_rates(value, 1.0),
    "curvature": lambda family, value: family.from_rates(1.0, value),
    "scale": lambda family, value: family.laplace(value),
}


@both
class TestBadParameters:
    """Each message names the parameter, the range that is allowed and the value that came."""

    @pytest.mark.parametrize("name", CALLS)
    @pytest.mark.parametrize("value", OUT_OF_RANGE, ids=lambda value: repr(value)[:20])
    def test_out_of_range(self, family, name, value):
        with pytest.raises(ValueError, match=rf"^{name} must be .*[≥>] 0") as error:
            CALLS[name](family, value)
        assert repr(value) in str(error.value)

    @pytest.mark.parametrize("name", CALLS)
    @pytest.mark.parametrize("value", NOT_REAL, ids=repr)
    def test_not_a_real_number(self, family, name, value):
        with pytest.raises(TypeError, match=rf"^{name} must be .*[≥>] 0") as error:
            CALLS[name](family, value)
        assert repr(value) in str(error.value)
        assert type(value).__name__ in str(error.value)

    @pytest.mark.parametrize("name", ["sigma", "scale"])
    def test_zero_scale(self, family, name):
        with pytest.raises(ValueError, match=rf"^{name} must be .*> 0, got 0"):
            CALLS[name](family, 0)

    def test_the_gaussian_names_sigma(self, family):
        with pytest.raises(ValueError, match=r"^sigma must be .*> 0, got -2"):
            family.gaussian(-2)

    @pytest.mark.parametrize("sigma", [1e-200, 1e-155, 1e155, 1e200])
    def test_sigma_whose_square_is_no_float(self, family, sigma):
        with pytest.raises(ValueError, match=rf"^sigma must be such that .* got {re.escape(repr(sigma))}"):
            family(1.0, sigma)

    @pytest.mark.parametrize("scale", [1e-310, 5e-324])
    def test_scale_whose_inverse_is_no_float(self, family, scale):
        with pytest.raises(ValueError, match=rf"^scale must be such that .* got {re.escape(repr(scale))}"):
            family.laplace(scale)

    def test_m_too_large_for_its_sigma(self, family):
        with pytest.raises(ValueError, match=r"\bm\b.*sigma") as error:
            family(1e300, 1e-100)
        assert "1e+300" in str(error.value)
        assert "1e-100" in str(error.value)

    def test_both_rates_zero(self, family):
        with pytest.raises(ValueError, match=r"slope and curvature are both zero.*> 0"):
            family.from_rates(0, 0)

    def test_missing_parameters(self, family):
        with pytest.raises(TypeError, match="sigma"):
            family(1)


class TestValues:
    @every_law
    @pytest.mark.parametrize("name", ["slope", "curvature", "m", "sigma"])
    def test_frozen(self, law, name):
        with pytest.raises(AttributeError):
            setattr(law, name, 1.0)

    @every_law
    def test_equal_by_value(self, law):
        twin = type(law).from_rates(law.slope, law.curvature)
        assert twin == law
        assert hash(twin) == hash(law)
        assert law != type(law).from_rates(2 * law.slope, 2 * law.curvature)

    def test_a_real_law_is_no_integer_law(self):
        assert OSGT(3, 2) != DiscreteOSGT(3, 2)
        assert len({OSGT(3, 2), DiscreteOSGT(3, 2), OSGT(3.0, 2.0)}) == 2

    @every_law
    @pytest.mark.parametrize(
        "duplicate",
        [copy.copy, copy.deepcopy, lambda law: pickle.loads(pickle.dumps(law))],
        ids=["copy", "deepcopy", "pickle"],
    )
    def test_copies(self, law, duplicate):
        law.var()  # with or without numbers it has kept
        twin = duplicate(law)
        assert type(twin) is type(law)
        assert twin == law
        assert twin.var() == law.var()

    @every_law
    def test_fields_are_the_two_rates(self, law):
        assert dataclasses.asdict(law) == {"potential": {"slope": law.slope, "curvature": law.curvature}}

    @pytest.mark.parametrize(
        ("law", "text"),
        [
            (OSGT(3, 2), "OSGT(m=3, sigma=2)"),
            (OSGT.gaussian(2.5), "OSGT.gaussian(sigma=2.5)"),
            (OSGT.laplace(0.5), "OSGT.laplace(scale=0.5)"),
            (DiscreteOSGT(3, 2), "DiscreteOSGT(m=3, sigma=2)"),
            (DiscreteOSGT.gaussian(2.5), "DiscreteOSGT.gaussian(sigma=2.5)"),
            (DiscreteOSGT.laplace(0.5), "DiscreteOSGT.laplace(scale=0.5)"),
        ],
    )
    def test_repr(self, law, text):
        assert repr(law) == text

    @every_law
    def test_repr_can_be_read_back(self, law):
        twin = eval(repr(law), {"OSGT": OSGT, "DiscreteOSGT": DiscreteOSGT})
        assert (twin.slope, twin.curvature) == pytest.approx((law.slope, law.curvature), rel=1e-8)
