"""The rule for the choice of a limit: its ranges, when it refuses, and that nobody's limit runs away to the bottom."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osgt.limits.choice import MOST_FOR_CHOICE, Ladder, limits_between, rule_for, scores_below_zero, units_needed

SPAN = 2.0**20

parameters = {
    "epsilon": st.floats(0.05, 10),
    "units": st.floats(1, 1e9),
    "groups": st.integers(1, 10**6),
    "noise": st.floats(0.1, 100),
    "span": st.floats(1, 2.0**40),
    "draws": st.integers(1, 4),
    "strength": st.sampled_from([0.5, 1.0]),
    "moves_intervals": st.booleans(),
}


@given(st.fixed_dictionaries(parameters))
@settings(max_examples=300)
def test_rule_keeps_within_its_ranges(given_):
    rule = rule_for(**given_)
    needed = units_needed(given_["epsilon"], given_["span"], draws=given_["draws"], strength=given_["strength"])
    assert (rule is None) == (given_["units"] < needed) or abs(given_["units"] - needed) <= 1
    if rule is None:
        return
    assert 0.05 <= rule.choice_share <= MOST_FOR_CHOICE
    assert 0.02 <= rule.cut_off_share <= 0.15
    assert 4 <= rule.exponent <= 6
    assert rule.target >= 0
    # A limit that cuts everybody scores less than any that cuts a tenth, however far away that is.
    each = given_["strength"] * rule.choice_share * given_["epsilon"] * given_["units"] / given_["draws"]
    assert 0.9 * each - rule.exponent * math.log(given_["span"]) >= 12 * (1 - 1e-9)


def test_three_hundred_units_are_needed_at_epsilon_one():
    assert units_needed(1.0, SPAN) == 300
    assert units_needed(1.0, SPAN, draws=2) == pytest.approx(600, abs=1)
    assert units_needed(1.0, SPAN, strength=0.5) == pytest.approx(600, abs=1)
    assert rule_for(1.0, 300, 30, 1.4, SPAN) is not None
    assert rule_for(1.0, 299, 30, 1.4, SPAN) is None


def test_few_groups_are_treated_more_carefully():
    few, many = (rule_for(1.0, 10_000, groups, 1.41, SPAN) for groups in (5, 500))
    assert few.choice_share == 0.1
    assert many.choice_share == 0.05
    assert few.cut_off_share == 0.15
    assert many.cut_off_share == 0.02
    assert few.target == math.floor(0.5 * 1.41 * 5 / 0.75)


def test_intervals_that_do_not_move_need_more_caution():
    moved, fixed = (rule_for(1.0, 10_000, 30, 1.41, SPAN, moves_intervals=moves) for moves in (True, False))
    assert fixed.choice_share > moved.choice_share
    assert fixed.target < moved.target
    assert fixed.exponent < moved.exponent


def test_amounts_in_small_steps_are_not_cut_to_nothing():
    """All units have 500,000 steps: a limit of one step has the least noise, and must not win for that."""
    limits = limits_between(1, 2**30)
    ladder = Ladder("total", limits, tuple(1.41 * limit for limit in limits))
    place = next(i for i, limit in enumerate(limits) if limit >= 500_000)
    histogram = [4043 if i == place else 0 for i in range(len(limits) + 1)]

    def lead(share, exponent):
        """By how much the right limit leads the smallest one."""
        costs = scores_below_zero([ladder], [histogram], epsilon=0.3 * share, target=10**6, exponent=exponent)
        return float(costs[0] - costs[place])

    rule = rule_for(0.3, 4043, 104, 1.41 / 0.3, 2.0**30)
    assert lead(rule.choice_share, rule.exponent) >= 12
    assert lead(75 / (0.3 * 4043), 6) < -10  # so it was with the share for rows and a fixed exponent
