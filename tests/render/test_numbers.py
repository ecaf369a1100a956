"""Numbers on pages: rounded by their noise and never the wrong way."""

import math
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osgt.support.text import (
    at_most_sure,
    counted,
    day,
    factor,
    half_width,
    listed,
    misses,
    one_in,
    percent,
    with_article,
    with_interval,
)


def number(text):
    return Decimal(text.replace(",", ""))


@given(st.integers(-(2**62), 2**62), st.integers(0, 2**40), st.integers(0, 2**40))
def test_whole_numbers_lose_little_and_intervals_only_grow(value, below, above):
    shown = with_interval(value, value - below, value + above)
    half = Decimal(below + above) / 2
    assert abs(number(shown.value) - value) <= half / 10
    assert value - below - half / 5 <= number(shown.low) <= value - below
    assert value + above <= number(shown.high) <= value + above + half / 5


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e9))
def test_so_do_floats(value, half):
    low, high = value - half, value + half
    shown = with_interval(value, low, high)
    # All digits are shown where floats can no longer tell the ends apart.
    assert number(shown.low) <= Decimal(repr(low))
    assert number(shown.high) >= Decimal(repr(high))
    assert abs(number(shown.value) - Decimal(repr(value))) <= Decimal(half) / 8 + Decimal(math.ulp(value))


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        ((1002, 857, 1147), ("1,002", "857", "1,147")),
        ((123456, 118644, 128268), ("123,460", "118,640", "128,270")),
        ((-0.004, -1.0, 1.0), ("0.0", "-1.0", "1.0")),
        ((12.3456, 9.1, 15.6), ("12.3", "9.1", "15.6")),
        ((5, 5, 5), ("5", "5", "5")),
        ((Decimal("10.25"), Decimal("8.00"), Decimal("12.50")), ("10.2", "8.0", "12.5")),
        ((1002.0, 1002.0, 1002.0), ("1,002", "1,002", "1,002")),
        ((1e22, None, None), ("10,000,000,000,000,000,000,000", "–", "–")),
        ((None, 3, 29), ("not enough data", "3", "29")),
        ((None, None, None), ("not counted", "–", "–")),
        ((math.nan, 0.0, 1.0), ("–", "0.0", "1.0")),
    ],
)
def test_examples(numbers, texts):
    shown = with_interval(*numbers)
    assert (shown.value, shown.low, shown.high) == texts


@given(st.floats(1e-6, 14))
def test_the_factor_is_never_too_small(epsilon):
    shown = number(factor(epsilon).partition(" ")[0])
    exact = Decimal(epsilon).exp()
    assert exact <= shown <= 1 + (exact - 1) * Decimal("1.11")


def test_the_factor_in_words():
    assert factor(2) == "7.4 (e^ε with ε = 2)"
    assert factor(0.5) == "1.65 (e^ε with ε = 0.5)"
    assert factor(20) == "e^ε with ε = 20"


def test_words():
    assert misses(0.95) == "Of 100 intervals, at most about 5 miss."
    assert misses(0.99) == "Of 100 intervals, at most about 1 misses."
    assert misses(0.5) == "Of 100 intervals, at most about 50 miss."
    assert misses(0.9999) == "Of 10,000 intervals, at most about 1 misses."
    assert percent(0.95) == "95 %"
    assert half_width(24.0) == "±24"
    assert half_width(4812345.0) == "±4,820,000"  # never too narrow
    assert half_width(0.012345) == "±0.0124"
    assert day(datetime(2026, 11, 6, tzinfo=UTC)) == "6 November 2026"
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert counted(1, "entry", "entries") == "1 entry"
    assert counted(2000, "entry", "entries") == "2,000 entries"


def test_articles():
    assert [with_article(noun) for noun in ("person", "aircraft", "user", "Einwohner")] == [
        "a person",
        "an aircraft",
        "a user",
        "an Einwohner",
    ]


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (1e-8, "1 in 100 million"),
        (1e-6, "1 in 1 million"),
        (3e-7, "1 in 3.33 million"),
        (1e-12, "1 in 1 trillion"),
        (1e-5, "1 in 100,000"),
        (0.5, "1 in 2"),
        (2e-10, "1 in 5 billion"),
    ],
)
def test_small_probabilities_in_words(probability, words):
    assert one_in(probability) == words


def test_small_probabilities_are_not_rounded_down():
    sizes = {"trillion": 1e12, "billion": 1e9, "million": 1e6}
    for probability in np.exp(np.linspace(np.log(1e-15), np.log(0.9), 500)):
        number, _, word = one_in(float(probability)).removeprefix("1 in ").partition(" ")
        assert 1 / (float(number.replace(",", "")) * sizes.get(word, 1)) >= probability * (1 - 1e-8)


def test_how_sure_somebody_can_be():
    for epsilon in (0.01, 0.5, 1.0, math.log(3), 4.0, 6.0):
        exact = 100 / (1 + math.exp(-epsilon))
        assert exact <= float(at_most_sure(epsilon).removesuffix(" %")) <= exact + 0.11
    assert at_most_sure(1) == "73.2 %"
    assert at_most_sure(12) is None
