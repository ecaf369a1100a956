"""Searches end on the side that was verified, whatever the place where something turns true."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osgt.support.numeric import bracket, first_that_fits, grow, least_that_fits, root_within

places = st.floats(-1e3, 1e3)


class TestGrow:
    @given(st.floats(1e-6, 1e6), st.floats(1e-3, 1e9), st.sampled_from([1.25, 2.0, 8.0]))
    def test_the_first_that_is_not_short(self, start, level, factor):
        result = grow(start, lambda value: value < level, factor)
        assert result >= level
        assert result == start or result / factor < level * (1 + 1e-12)

    def test_nothing_moves_where_the_start_will_do(self):
        assert grow(3.0, lambda _: False) == 3.0


class TestFirstThatFits:
    @given(st.integers(-50, 50), st.integers(0, 60), st.integers(-60, 120))
    def test_the_first_of_all(self, low, size, threshold):
        result = first_that_fits(lambda number: number >= threshold, low, low + size)
        assert result == next((number for number in range(low, low + size) if number >= threshold), low + size)


class TestBracket:
    @given(places, places, st.floats(1e-3, 10.0))
    def test_the_sign_changes_between(self, place, start, step):
        low, high = bracket(lambda x: x - place, start, step)
        assert low <= place < high
        assert start in (low, high) or high - low <= 2 * (abs(start - place) + step)

    @pytest.mark.parametrize(("place", "end"), [(-80.0, -50.0), (80.0, 50.0)])
    def test_an_end_where_it_changes_beyond(self, place, end):
        assert bracket(lambda x: x - place, 0.0, 1.0, lowest=-50.0, largest=50.0) == (end, end)


class TestLeastThatFits:
    @given(places, places, st.floats(1e-3, 10.0), st.floats(1e-9, 1.0))
    def test_a_neighbour_does_not_fit(self, threshold, start, step, accuracy):
        tried = {}

        def fits(value):
            tried[value] = value >= threshold
            return tried[value]

        result = least_that_fits(fits, start, step=step, accuracy=accuracy)
        assert tried[result]
        assert max(value for value, fitted in tried.items() if not fitted) >= result - accuracy * (1 + 1e-12)

    def test_beyond_the_limits(self):
        assert least_that_fits(lambda _: False, 0.0, step=1.0, accuracy=0.1, largest=50.0) is None
        tried = []
        result = least_that_fits(lambda x: tried.append(x) or True, 0.0, step=1.0, accuracy=0.1, lowest=-50.0)
        assert result == min(tried) == -50.0

    @given(st.floats(-50.0, 0.0), st.floats(1e-3, 10.0), st.floats(1e-3, 1.0))
    def test_near_a_limit_the_search_is_as_accurate(self, threshold, step, accuracy):
        """Steps that would lead beyond the limit end at it."""
        result = least_that_fits(lambda x: x >= threshold, 0.0, step=step, accuracy=accuracy, lowest=-50.0)
        assert threshold <= result <= threshold + accuracy * (1 + 1e-12)

    def test_a_number_that_fits_is_never_guessed(self):
        """Where larger numbers do not always fit, the result still does."""
        fits = lambda x: math.sin(40 * x) > 0.3 and x > 1  # noqa: E731
        result = least_that_fits(fits, 1.15, step=0.01, accuracy=1e-6)
        assert result is not None
        assert fits(result)


class TestRootWithin:
    @given(places, st.sampled_from([1e-2, 1e-6, 1e-12]), st.sampled_from([-1.0, 1.0]))
    def test_the_excess_is_met(self, root, xtol, sign):
        def excess(x):
            return sign * math.atan(x - root)

        result = root_within(excess, root - 7, root + 4, inward=lambda x: x - sign * xtol, xtol=xtol)
        assert excess(result) <= 0
        assert abs(result - root) <= 4 * xtol + 1e-12 * abs(root)

    def test_the_power_of_the_check(self):
        """Without a step inward the root is often on the wrong side."""
        wrong = 0
        for n in range(40):
            missed = []
            root_within(
                lambda x, n=n: math.exp(x) - 2 - n,
                0.0,
                9.0,
                inward=lambda x, m=missed: m.append(x) or x - 1e-3,
                xtol=1e-3,
            )
            wrong += bool(missed)
        assert wrong > 5

    def test_ends_without_a_change_of_sign(self):
        with pytest.raises(ValueError, match="sign"):
            root_within(lambda _: 1.0, 0.0, 1.0, inward=lambda x: x, xtol=1e-3)
