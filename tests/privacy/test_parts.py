"""Disjoint parts: what one unit, or two that are exchanged, can lose, against convolutions of single losses."""

import itertools
import json
import random

import numpy as np
import pytest
from filter_oracles import atoms, law_on_grid

from charges import gaussian, laplace
from osgt.privacy import Charge
from osgt.privacy.filters import parts as rules
from osgt.privacy.filters.budget import Partition, shares_for
from osgt.privacy.filters.parts import PartStates
from osgt.privacy.filters.union import FilterState
from osgt.support.errors import ArgumentError

EPSILON, DELTA = 1.0, 1e-6
SHARES = shares_for(EPSILON, DELTA)
STEP = 1 / 512

#: Small and large releases. Losses at the Laplace end are multiples of the step, so that sums of them are exact.
MENU = (laplace(0.25), laplace(0.0625), gaussian(10.0), gaussian(40.0))


def partition(most=1, neighbours="add_remove", count=4):
    return Partition.of({f"p{i}": f"x = {i}" for i in range(count)}, most, neighbours)


def about(charge, part):
    return Charge(charge.profile, charge.selection_delta, part)


def reached(charges, direction):
    """δ at ε of these releases together, by adding up their losses on a grid: too large with "up", else too small."""
    first, total = 0, np.ones(1)
    for charge in charges:
        [part] = charge.profile.parts
        start, masses = law_on_grid(*atoms(part.noise), STEP, direction)
        first, total = first + start, np.convolve(total, masses)
    losses = STEP * (first + np.arange(len(total)))
    return float(np.sum(total * np.maximum(-np.expm1(np.minimum(EPSILON - losses, 0.0)), 0.0)))


def accepted(partition, seed, tries=60):
    """The charges that a random analyst gets through, who asks about parts and about everybody."""
    chosen, states, result = random.Random(seed), PartStates.start(partition, SHARES), []
    for _ in range(tries):
        charge = about(chosen.choice(MENU), chosen.choice([*partition.names, *partition.names, None]))
        moved = states.try_charge(charge)
        if moved is not None:
            assert rules.follows(states, charge, moved)
            assert rules.plausible(states, charge, moved)
            states = moved
            result.append(charge)
    return states, result


def moved_by(charges, parts):
    """The releases that differ between neighbours whose unit, or units, are in these parts."""
    return [charge for charge in charges if charge.part is None or charge.part in parts]


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
@pytest.mark.parametrize("seed", range(4))
def test_nobody_loses_more_than_the_budget(most, neighbours, seed):
    """Whatever parts one unit is in, and the one that it is exchanged for."""
    made = partition(most, neighbours)
    states, charges = accepted(made, seed)
    units = [set(one) for size in range(most + 1) for one in itertools.combinations(made.names, size)]
    pairs = [(one, set()) for one in units] if neighbours == "add_remove" else itertools.product(units, units)
    worst = max(reached(moved_by(charges, one | other), "up") for one, other in pairs)
    assert worst <= DELTA
    assert states.share > 0.8


@pytest.mark.parametrize(("most", "neighbours"), [(1, "change_one"), (2, "add_remove")])
def test_adding_up_fewer_parts_would_not_do(most, neighbours):
    """The power of the test above: charged as if neighbours differed in one part alone, two parts exceed the budget."""
    _, charges = accepted(partition(1, "add_remove"), 1)
    assert partition(most, neighbours).together == 2
    pairs = itertools.combinations(partition().names, 2)
    assert max(reached(moved_by(charges, set(pair)), "down") for pair in pairs) > 10 * DELTA


@pytest.mark.parametrize("seed", range(5))
def test_each_set_of_parts_has_the_state_of_its_own_charges(seed):
    """So that what others are asked about changes nothing, and each state is a filter as without parts."""
    made = partition(1, "change_one")
    states, charges = accepted(made, seed, 25)
    assert len(states.states) == made.sums
    for one in itertools.combinations(range(4), 2):
        alone = FilterState.start(SHARES)
        for charge in moved_by(charges, {made.names[i] for i in one}):
            alone = alone.try_charge(Charge(charge.profile))
        assert states.at(one) == alone
    again = PartStates.from_dict(json.loads(json.dumps(states.to_dict())), made, SHARES)
    assert again == states
    assert rules.is_same(rules.add_all(made, SHARES, charges), states)
    assert rules.possible_sum(states, charges, made)


def test_a_year_costs_what_a_month_costs():
    made = Partition.of({str(i): f"month = {i}" for i in range(1, 13)}, 1, "add_remove")
    states = PartStates.start(made, SHARES)
    one = FilterState.start(SHARES)
    most = one.how_many(gaussian(10.0))
    for name in made.names:
        assert states.how_many(about(gaussian(10.0), name)) == most
        for _ in range(most):
            states = states.try_charge(about(gaussian(10.0), name))
            assert states is not None
        assert states.try_charge(about(gaussian(10.0), name)) is None
        assert not states.fits(about(gaussian(10.0), name))
    assert states.try_charge(gaussian(10.0)) is None
    assert len(json.dumps(states.to_dict())) < 1000


@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
def test_a_cancelled_charge_goes_back_in_its_parts_alone(neighbours):
    made = partition(1, neighbours)
    before = PartStates.start(made, SHARES).try_charge(about(laplace(0.03), "p0")).try_charge(gaussian(40.0))
    after = before.try_charge(about(laplace(0.02), "p1"))
    undone = rules.without_charge(after, about(laplace(0.02), "p1"), before)
    assert all(undone.at(one) == before.at(one) for one in undone.states)
    assert rules.follows_cancellation(after, about(laplace(0.02), "p1"), before, undone)
    kept = rules.without_charge(after, about(laplace(0.02), "p1"), None)
    assert kept.at((1,)).mu == after.at((1,)).mu < before.at((1,)).mu
    assert kept.at((0,)) == before.at((0,))


def tampered(states, change):
    plain = states.to_dict()
    change(plain)
    return PartStates.from_dict(plain, states.partition, SHARES)


class TestForgedStates:
    """A state in which one of the sums is better than it can be is found, by the proof and by the quick look."""

    @pytest.fixture
    def step(self):
        made = partition(1, "change_one")
        before = PartStates.start(made, SHARES)
        for charge in (about(laplace(0.1), "p0"), about(gaussian(20.0), "p1"), gaussian(40.0)):
            before = before.try_charge(charge)
        charge = about(laplace(0.2), "p1")
        return before, charge, before.try_charge(charge)

    def judged(self, before, charge, after):
        return [judge(before, charge, after) for judge in (rules.follows, rules.plausible)]

    def test_the_honest_one_follows(self, step):
        assert self.judged(*step) == [True, True]

    @pytest.mark.parametrize("place", range(4))
    def test_one_sum_that_stays_behind_or_runs_ahead(self, step, place):
        before, charge, after = step
        one = list(after.states)[place]
        other = next(
            state for state in set(after.states.values()) | set(before.states.values()) if state != after.at(one)
        )
        assert self.judged(before, charge, PartStates(after.partition, {**after.states, one: other})) == [False, False]

    def test_sums_that_are_missing_or_too_many(self, step):
        before, charge, after = step
        fewer = {one: state for one, state in after.states.items() if one != (0, 1)}
        assert self.judged(before, charge, PartStates(after.partition, fewer)) == [False, False]
        more = {**after.states, (2,): after.at(())}
        assert self.judged(before, charge, PartStates(after.partition, more)) == [False, False]
        assert self.judged(before, charge, after.at(())) == [False, False]

    @pytest.mark.parametrize("charged", [[0], [1, 0], [0, 0], [0, 9], [-1, 0]])
    def test_sets_that_cannot_be(self, step, charged):
        with pytest.raises(ValueError, match=r"parts that there are not|zip\(\)"):
            tampered(step[2], lambda plain: plain.update(charged=charged))


@pytest.mark.parametrize(
    ("parts", "most", "neighbours", "message"),
    [
        ({"a": "x = 1"}, 1, "add_remove", "two or more"),
        (["a", "b"], 1, "add_remove", "must be a dict"),
        ({"a": "x = 1", "b": " "}, 1, "add_remove", "must be a dict"),
        ({"a": "x = 1", "b": "x = 2"}, 0, "add_remove", "max_parts"),
        ({"a": "x = 1", "b": "x = 2"}, True, "add_remove", "max_parts"),
        ({str(i): f"x = {i}" for i in range(100)}, 1, "change_one", "5,051 sums.*at most 2,000"),
    ],
)
def test_what_cannot_be_a_partition(parts, most, neighbours, message):
    with pytest.raises(ArgumentError, match=message):
        Partition.of(parts, most, neighbours)


def test_a_charge_keeps_its_part():
    charge = about(laplace(0.2), "p1")
    assert Charge.from_dict(json.loads(json.dumps(charge.to_dict()))) == charge
    assert Charge.compose([charge, charge]).part == "p1"
    assert Charge.compose([charge, about(laplace(0.2), "p2")]).part is None
    assert Charge.compose([charge, laplace(0.2)]).part is None
    assert "part" not in laplace(0.2).to_dict()
