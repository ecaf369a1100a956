"""The ε that an accepted error needs, against a search through all numbers of two digits."""

import math

import pytest

from osgt.web.checking import accepted_epsilon

ROUND = [float(f"{digits}e{power}") for power in range(-6, 2) for digits in range(10, 100)]

WIDTHS = {
    "in proportion": lambda epsilon: 10 / epsilon,
    "slower": lambda epsilon: 10 / epsilon**0.6,
    "faster": lambda epsilon: 1e-3 / epsilon**2,
    "not below 0.1": lambda epsilon: 10 / epsilon + 0.1,
    "whole numbers": lambda epsilon: math.ceil(10 / epsilon),
    "whole numbers and 0": lambda epsilon: math.floor(10 / epsilon),
    "a step": lambda epsilon: 100 if epsilon < 3 else 0,
}


class Plans:
    """Plans with one column, whose half-width is a function of ε."""

    def __init__(self, width):
        self.width, self.asked = width, set()

    def __call__(self, epsilon):
        self.asked.add(epsilon)
        column = type("Column", (), {"name": "count", "noise": 1, "half_width": self.width(epsilon)})
        return type("Plan", (), {"columns": [column]})


@pytest.mark.parametrize("name", WIDTHS)
def test_it_is_the_least_of_all_round_numbers(name):
    width = WIDTHS[name]
    for target in (0.01, 0.37, 0.5, 1.0, 1.5, 3.0, 123.0, 1e5):
        least = next((epsilon for epsilon in [*ROUND, 1000.0] if width(epsilon) <= target), None)
        for guess in (1e-9, 1e-3, 1.0, 50.0, math.inf):
            plans = Plans(width)
            if least in (None, ROUND[0]):
                with pytest.raises(ValueError, match="too small" if least is None else "wide enough"):
                    accepted_epsilon(plans, target, None, guess)
            else:
                assert accepted_epsilon(plans, target, None, guess) == least
            assert len(plans.asked) <= 17
