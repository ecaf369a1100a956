"""Mechanism: exact integers, floats on their grid, intervals that cover, and every kind of bad input."""

import math
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from osgt import OSGT, DiscreteOSGT, Mechanism, PrivacyProfile
from osgt.mechanism import _rounded


@pytest.fixture(scope="module")
def mechanism():
    return Mechanism(1.0, 1e-6, shift=1, coordinates=4)


class TestIntegers:
    @pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64, bool])
    def test_integers_stay_integers(self, mechanism, dtype):
        noisy = mechanism.release(np.array([0, 1, 1], dtype=dtype))
        assert noisy.dtype == np.int64
        assert noisy.shape == (3,)

    def test_scalars_lists_shapes_and_nothing(self, mechanism):
        assert isinstance(mechanism.release(5), np.int64)
        assert mechanism.release([1, 2]).dtype == np.int64
        assert mechanism.release(np.zeros((2, 3), dtype=int)).shape == (2, 3)
        assert mechanism.release([]).shape == (0,)
        assert mechanism.release([[], []]).shape == (2, 0)
        assert mechanism.release([]).dtype == np.int64
        assert mechanism.release(np.zeros((0, 3), dtype=int)).shape == (0, 3)

    def test_exact_beyond_2_to_53(self):
        tiny = Mechanism.of(DiscreteOSGT.laplace(0.01))  # noise that is nearly always zero
        values = [2**53 + 1, -(2**61) - 1, 2**62]
        assert tiny.release(values).tolist() == values
        assert tiny.release(np.array(values, dtype=object)).tolist() == values

    @pytest.mark.parametrize("values", [[2**62 + 1], [-(2**62) - 1], [2**64], [np.uint64(2**63)], [2**63, -1]])
    def test_too_large(self, mechanism, values):
        with pytest.raises(OverflowError, match="within ±2⁶²"):
            mechanism.release(values)

    def test_the_noise_has_the_law(self, mechanism):
        """False-alarm rate 1e-9, and 5 % more scale is rejected."""
        noise = mechanism.release(np.full(300_000, 1000)) - 1000
        for factor, accepted in ((1.0, True), (1.05, False)):
            law = DiscreteOSGT.from_rates(mechanism.noise.slope / factor, mechanism.noise.curvature / factor**2)
            score = (np.mean(noise.astype(float) ** 2) - law.var()) / (
                np.std(noise.astype(float) ** 2) / len(noise) ** 0.5
            )
            assert (abs(score) < 6.1) == accepted

    def test_the_budget_is_met(self, mechanism):
        assert mechanism.profile == PrivacyProfile(mechanism.noise, 1, 4)
        assert mechanism.profile.delta(1.0) <= 1e-6

    def test_a_larger_shift_scales_the_noise(self, mechanism):
        wider = Mechanism(1.0, 1e-6, shift=50, coordinates=4)
        assert wider.noise.std() == pytest.approx(50 * mechanism.noise.std(), rel=0.02)


@pytest.fixture(scope="module")
def floats():
    return Mechanism(1.0, 1e-6, shift=1.0, coordinates=4)


class TestKind:
    """Integers or floats is settled when a mechanism is made; no value that it is given changes the type."""

    @pytest.mark.parametrize(
        ("options", "values"),
        [
            ({}, "integers"),
            ({"shift": 3}, "integers"),
            ({"shift": np.int64(3)}, "integers"),
            ({"shift": 1.0}, "floats"),
            ({"shift": np.float32(0.5)}, "floats"),
            ({"shift": Fraction(1, 2)}, "floats"),
            ({"shift": 2, "values": "floats"}, "floats"),
            ({"shift": 2.0, "values": "integers"}, "integers"),
        ],
    )
    def test_the_shift_or_the_caller_decides(self, options, values):
        mechanism = Mechanism(1, 1e-6, **options)
        assert mechanism.values == values
        dtype = np.int64 if values == "integers" else np.float64
        for numbers in (3, [3, 4], [], np.array([3], dtype=np.int8), pandas.Series([3]), True):
            assert mechanism.release(numbers).dtype == dtype
        assert isinstance(mechanism.interval(), int if values == "integers" else float)

    @pytest.mark.parametrize(
        "values",
        [
            3.5,
            3.0,
            [3.0],
            [1, 2.5],
            [1, 2.0],
            np.array([3.0]),
            np.array([]),
            np.float32(3),
            pandas.Series([3.0]),
            polars.Series([3.0]),
            [2**60 + 1, 2**60 + 3.0],
        ],
        ids=repr,
    )
    def test_floats_are_refused_by_their_type_alone(self, mechanism, values):
        """Whether they are whole or not: otherwise the error would tell."""
        with pytest.raises((TypeError, OverflowError), match=r'values="floats"|a mixture loses digits'):
            mechanism.release(values)

    @pytest.mark.parametrize("change", [0.0, 0.25, 0.5, 1.0])
    def test_a_change_within_the_shift_shows_neither_in_type_nor_grid(self, floats, change):
        first, second = floats.release([3.0]), floats.release([3.0 + change])
        assert first.dtype == second.dtype == np.float64
        assert float(first[0] / floats.step).is_integer()
        assert float(second[0] / floats.step).is_integer()

    def test_the_grid_does_not_follow_the_values_of_integers(self, floats):
        assert floats.release([3]).dtype == floats.release([3.5]).dtype == np.float64


class TestFloats:
    def test_floats_lie_on_a_grid_that_does_not_look_at_them(self, floats):
        for values in ([0.1, 0.2], [1e6, -3e-9], [0.0]):
            noisy = floats.release(np.array(values))
            assert noisy.dtype == np.float64
            steps = noisy / floats.step
            assert np.all(steps == np.floor(steps))

    @pytest.mark.parametrize("shift", [0.1, 0.75, 1.0, 3.7, 1e-8, 12345.678, 1e-290, 1e280])
    def test_the_grid(self, shift):
        mechanism = Mechanism(1.0, 1e-6, shift=shift)
        grid = mechanism._grid
        assert math.frexp(grid.step)[0] == 0.5  # a power of two
        assert 2**13 <= grid.shift <= 2**14
        assert Fraction(shift) <= grid.shift * Fraction(grid.step) <= Fraction(shift) * Fraction(8193, 8192)
        assert PrivacyProfile(grid.noise, grid.shift, 1).delta(1.0) <= 1e-6
        assert mechanism.profile == PrivacyProfile(grid.noise, grid.shift, 1)
        assert abs(mechanism.release([0.0])[0]) < 1000 * shift

    @given(st.floats(-1e9, 1e9), st.floats(0, 1e3), st.sampled_from([2.0**-10, 2.0**-3, 1.0, 64.0]))
    def test_rounding_never_widens_a_shift(self, x, shift, step):
        """Two values at most `shift` apart, as real numbers, are at most ⌈shift/step⌉ steps apart after rounding."""
        y = x + shift
        if Fraction(y) - Fraction(x) > Fraction(shift):
            y = float(np.nextafter(y, x))
        most = math.ceil(Fraction(shift) / Fraction(step))
        first, second = _rounded(np.array([x, y]), step).tolist()
        assert 0 <= second - first <= most

    def test_halves_are_told_exactly(self):
        below_half = float(np.nextafter(0.5, 0))
        values = np.array([below_half, np.nextafter(-0.5, -1), -0.5, 0.5, 1.5, 2.5, -1.5, -1e-300])
        assert _rounded(values, 1.0).tolist() == [0, -1, 0, 1, 2, 3, -1, 0]

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_not_finite(self, floats, value):
        with pytest.raises(ValueError, match="must be finite"):
            floats.release([1.0, value])

    @pytest.mark.parametrize("shift", [1.0, 1e-290, 1e280])
    def test_too_large(self, shift):
        """The error says the true bound, and nothing warns on the way (a warning is an error in these tests)."""
        mechanism = Mechanism(1.0, 1e-6, shift=shift)
        largest = 2.0**62 * mechanism.step
        beyond = [float(np.nextafter(largest, math.inf)), -1e308]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert mechanism.release([largest, -largest]) == pytest.approx([largest, -largest], rel=1e-9)
            for value in beyond:
                with pytest.raises(OverflowError, match=re.escape(f"within ±{largest!r} at this shift")):
                    mechanism.release([value])

    def test_a_mixture_that_loses_digits(self, floats):
        assert floats.release([1, 2.5]).dtype == np.float64
        with pytest.raises(OverflowError, match="a mixture loses digits"):
            floats.release([2**60 + 1, 0.5])

    def test_integers_as_floats(self, floats):
        with pytest.raises(OverflowError, match="within ±2⁵³"):
            floats.release([2**53 + 2])
        for values in ([2**63, -1], [2**63]):
            with pytest.raises(OverflowError, match="within ±2"):
                floats.release(values)

    def test_the_noise_has_the_scale_of_the_integers(self, mechanism, floats):
        noise = floats.release(np.full(200_000, 0.25)) - 0.25
        assert noise.std() == pytest.approx(mechanism.noise.std(), rel=0.03)


class TurnsIntoAnArray:
    """What turns itself into an array of any kind, as the variables of a file do."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class TestColumns:
    def test_pandas(self, mechanism):
        assert mechanism.release(pandas.Series([1, 2, 3])).dtype == np.int64
        assert mechanism.release(pandas.Series([1, 2, 3], dtype="Int64")).dtype == np.int64
        assert mechanism.release(pandas.Series([1, 2, 3], dtype=object)).dtype == np.int64
        with pytest.raises((TypeError, ValueError)):
            mechanism.release(pandas.Series([1, None, 3], dtype="Int64"))

    @pytest.mark.parametrize(
        "values",
        [
            np.ma.array([1, 2, 3], mask=[False, True, False]),
            np.ma.array([1, 2, 3]),
            np.ma.array([1, 2, 3], mask=False)[1:2],
            [np.ma.array([1, 2], mask=[True, False]), np.ma.array([3, 4])],
            (1, np.ma.masked),
            np.array([1, np.ma.masked], dtype=object),
            TurnsIntoAnArray(np.ma.array([1, 2], mask=[True, False])),
        ],
    )
    @pytest.mark.parametrize("kind", ["integers", "floats"])
    def test_masked_arrays_are_refused_whatever_they_hold(self, kind, values):
        """NumPy takes the mask away, and what is under it would be published."""
        with pytest.raises(TypeError, match=r"^values must have no mask"):
            Mechanism(1, 1e-6, values=kind).release(values)

    @pytest.mark.parametrize("kind", ["integers", "floats"])
    @pytest.mark.parametrize(
        "values",
        [
            pandas.array([1, None], dtype="Int64"),
            pandas.array([1.5, None], dtype="Float64"),
            pandas.array([True, None], dtype="boolean"),
            pandas.Series([1.5, pandas.NA], dtype="Float64"),
            pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64"), "b": [1, 2]}),
            [pandas.array([1, None], dtype="Int64"), pandas.array([1, 2], dtype="Int64")],
            [1, pandas.NA],
        ],
    )
    def test_missing_values_of_pandas_are_refused(self, kind, values):
        with pytest.raises((TypeError, ValueError), match=r"none missing|values are floats|got NaN"):
            Mechanism(1, 1e-6, values=kind).release(values)

    def test_polars(self, mechanism):
        assert mechanism.release(polars.Series([1, 2, 3])).dtype == np.int64
        with pytest.raises((TypeError, ValueError)):
            mechanism.release(polars.Series([1, None, 3]))

    def test_any_object_with_the_array_protocol(self, mechanism):
        class Column:
            def __array__(self, dtype=None, copy=None):
                return np.array([1, 2, 3])

        assert mechanism.release(Column()).shape == (3,)


@pytest.mark.parametrize(
    "values",
    [
        "12",
        ["a", "b"],
        [1, None],
        [[1, 2], [3]],
        None,
        [1 + 2j],
        {"a": 1},
        [object()],
        np.array([1.7, 2.9], dtype=object),  # must not lose its fractions
        np.array(["12", "3"], dtype=object),
        [Decimal("2.7")],
        np.array([1.5], dtype=np.longdouble),
    ],
)
def test_what_is_not_numbers(mechanism, values):
    with pytest.raises(TypeError, match="values must be"):
        mechanism.release(values)


class TestInterval:
    @pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
    def test_coverage(self, mechanism, confidence):
        """Exact, and least: checked against the distribution and, at a false-alarm rate of 1e-9, against draws."""
        half_width = mechanism.interval(confidence)
        assert isinstance(half_width, int)
        inside = 1 - 2 * mechanism.noise.sf(half_width)
        assert inside >= confidence
        assert 1 - 2 * mechanism.noise.sf(half_width - 1) < confidence
        hits = np.abs(mechanism.release(np.zeros(4_000_000, dtype=int))) <= half_width
        assert stats.binomtest(int(hits.sum()), len(hits), inside).pvalue > 1e-9
        assert stats.binomtest(int(hits.sum()), len(hits), inside**1.2).pvalue < 1e-9  # power

    def test_floats(self, mechanism, floats):
        assert floats.interval(0.95) == pytest.approx(mechanism.interval(0.95), abs=1)
        hits = np.abs(floats.release(np.zeros(200_000))) <= floats.interval(0.95)
        assert stats.binomtest(int(hits.sum()), len(hits), 0.95).pvalue > 1e-9

    @pytest.mark.parametrize("confidence", [0, 1, -0.5, 1.5, math.nan])
    def test_bad_confidence(self, mechanism, confidence):
        with pytest.raises(ValueError, match="confidence must be"):
            mechanism.interval(confidence)


class TestOf:
    def test_integers(self):
        mechanism = Mechanism.of(DiscreteOSGT(3, 6), shift=2, coordinates=5)
        assert mechanism.profile == PrivacyProfile(DiscreteOSGT(3, 6), 2, 5)
        assert mechanism.release([1, 2]).dtype == np.int64
        with pytest.raises(TypeError, match="for integers"):
            mechanism.release([1.5])
        assert "δ = 1e-6" in mechanism.describe()

    def test_floats(self):
        mechanism = Mechanism.of(OSGT(3, 6), shift=0.3)
        assert mechanism.release([1.5]).dtype == np.float64
        assert mechanism.noise.std() * mechanism.step == pytest.approx(OSGT(3, 6).std(), rel=1e-4)
        # On the grid the shift is rounded up, so the promise is never better than that of the noise on the reals.
        assert mechanism.profile.delta(0.1) >= PrivacyProfile(OSGT(3, 6), 0.3).delta(0.1)
        assert mechanism.profile.delta(0.1) == pytest.approx(PrivacyProfile(OSGT(3, 6), 0.3).delta(0.1), rel=0.02)

    def test_bad_arguments(self):
        with pytest.raises(ValueError, match="shift"):
            Mechanism.of(DiscreteOSGT(3, 6), shift=1.5)
        with pytest.raises(ValueError, match="shift"):
            Mechanism.of(OSGT(3, 6), shift=1e-320)
        with pytest.raises(TypeError, match="noise"):
            Mechanism.of("laplace")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1e-6), "epsilon must be"),
        ((1, -1), "delta must be"),
        ((1, 1), "delta must be"),
        ((1, 1e-6, 0), "shift must be"),
        ((1, 1e-6, math.inf), "shift must be"),
        ((1, 1e-6, 1e-320), "shift must be"),
        ((1, 1e-6, 1e300), "shift must be"),
        ((1, 1e-6, 2**50 + 1), "shift must be"),
        ((1e-6, 1e-6, 2**50), "too large to be drawn"),
        ((1, 1e-6, "1"), "shift must be"),
        ((1, 1e-6, 1, 0), "coordinates must be"),
        ((1, 1e-6, 1, 1.5), "coordinates must be"),
    ],
)
def test_bad_budgets(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Mechanism(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": "float"}, 'values must be "integers" or "floats"'),
        ({"values": 1}, 'values must be "integers" or "floats"'),
        ({"shift": 1.5, "values": "integers"}, "whole number from 1"),
        ({"shift": 0.5, "values": "integers"}, "whole number from 1"),
    ],
)
def test_bad_kinds(options, message):
    with pytest.raises(ValueError, match=message):
        Mechanism(1, 1e-6, **options)


def test_the_promise_in_words(mechanism):
    words = mechanism.describe()
    for part in ("ε = 1", "δ = 1e-06", "at most 4", "95 %", f"at most {mechanism.interval(0.95)}"):
        assert part in words
