"""A public partition of people: releases about disjoint parts are charged as the largest of them.

A release *about a part* depends on the rows of that part's units alone. A unit belongs to at most `most` parts, so that
one unit more or less moves the releases about these and the ones about everybody, and no others; for the relation that
exchanges one unit for another, those about the parts of both. So there is a state of the filters for every set of up to
`together` parts: it takes the charges of its parts and the charges without a part, and a release is allowed if every
state that it belongs to allows it. docs/filter.md has the proof.

A part without a charge of its own has the state of the charges without a part, so states are made when they are needed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

from osgt.privacy import Charge
from osgt.privacy.filters import union
from osgt.privacy.filters.budget import Partition, Shares
from osgt.privacy.filters.union import FilterState

#: The places of parts whose charges are added up in one state, ascending.
Set = tuple[int, ...]


@dataclass(frozen=True)
class PartStates:
    """The states of the filters of a budget with parts, by the set of parts that each adds up.

    The sets are those of up to `together` parts that have been charged.
    """

    partition: Partition
    states: Mapping[Set, FilterState]

    @classmethod
    def start(cls, partition: Partition, shares: Shares) -> "PartStates":
        """Make the state in which nothing is charged yet."""
        return cls(partition, {(): FilterState.start(shares)})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: equal states are written once, and sets follow from the parts that were charged."""
        different = list(dict.fromkeys(self.states.values()))
        places = {state: place for place, state in enumerate(different)}
        return {
            "charged": list(self.charged),
            "states": [state.to_dict() for state in different],
            "of": [places[self.states[one]] for one in self._sets(self.charged)],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], partition: Partition, shares: Shares) -> "PartStates":
        """The states that `to_dict` wrote."""
        different = [FilterState.from_dict(state, shares) for state in plain["states"]]
        charged = tuple(int(place) for place in plain["charged"])
        if charged != tuple(sorted(set(charged) & set(range(len(partition.parts))))):
            raise ValueError("the state names parts that there are not")
        sets = list(cls(partition, {})._sets(charged))
        return cls(partition, dict(zip(sets, (different[int(place)] for place in plain["of"]), strict=True)))

    def _sets(self, charged: Iterable[int]) -> Iterator[Set]:
        """All sets of up to `together` of these parts."""
        charged = sorted(charged)
        for size in range(min(self.partition.together, len(charged)) + 1):
            yield from combinations(charged, size)

    @property
    def charged(self) -> Set:
        """The parts that have been charged by themselves."""
        return tuple(sorted({place for one in self.states for place in one}))

    @property
    def shares(self) -> Shares:
        """The budget, and how its δ is divided: the same for every state."""
        return self.states[()].shares

    def at(self, sets: Set) -> FilterState:
        """The state of a set of parts, also of parts that have no charge of their own."""
        return self.states[tuple(place for place in sets if place in self.charged)]

    def touched(self, part: str | None) -> dict[Set, FilterState]:
        """The states to which a charge is added, by their sets; of a part that is charged for the first time, new."""
        if part is None:
            return dict(self.states)
        place, charged = self.partition.place(part), self.charged
        sets = self._sets({*charged, place})
        return {one: self.at(one) for one in sets if place in one}

    def only(self, part: str | None) -> "PartStates":
        """The states that a charge about this part is added to, as a whole."""
        return PartStates(self.partition, {(): self.states[()], **self.touched(part)}) if part else self

    def move_states(self, part: str | None, move: Callable[[FilterState], FilterState | None]) -> "PartStates | None":
        """The states after those of a part were moved, equal ones once; None if one cannot be."""
        moved: dict[FilterState, FilterState | None] = {}
        touched = self.touched(part)
        for state in touched.values():
            if state not in moved:
                moved[state] = move(state)
                if moved[state] is None:
                    return None
        after = {one: moved[state] for one, state in touched.items()}
        return PartStates(self.partition, {**self.states, **after})  # type: ignore[dict-item]

    # As of one state

    def try_charge(self, charge: Charge) -> "PartStates | None":
        """The states with one more charge; None if the release is refused."""
        plain = replace(charge, part=None)
        return self.move_states(charge.part, lambda state: state.try_charge(plain))

    def fits(self, charge: Charge) -> bool:
        """Whether one more charge would be allowed; in doubt not."""
        plain = replace(charge, part=None)
        return all(state.fits(plain) for state in set(self.touched(charge.part).values()))

    def how_many(self, charge: Charge, most: int = 10_000) -> int:
        """Count how many more charges like this one would be allowed, one after the other; never more than `most`."""
        plain = replace(charge, part=None)
        return min(state.how_many(plain, most) for state in set(self.touched(charge.part).values()))

    @property
    def share(self) -> float:
        """The share of the budget that is used, of those of whom most is."""
        return max(state.share for state in self._different)

    def figures(self) -> tuple[float, float]:
        """The ε and δ that are proved for everybody."""
        each = [state.figures() for state in self._different]
        return max(epsilon for epsilon, _ in each), max(delta for _, delta in each)

    @property
    def selection(self) -> Fraction:
        """The largest Σ selection δ."""
        return max(state.selection for state in self._different)

    @property
    def quota(self) -> float:
        """The most that Σ selection δ may come to."""
        return self.shares.selection

    @property
    def mu(self) -> float | None:
        """The least that is left to a Gaussian residue; None if one has died."""
        left = [state.mu for state in self._different]
        return None if None in left else min(mu for mu in left if mu is not None)

    @property
    def _different(self) -> set[FilterState]:
        return set(self.states.values())


#: The state of an adaptive budget.
States = FilterState | PartStates


def start(partition: Partition | None, shares: Shares) -> States:
    """The state of a budget to which nothing is charged yet."""
    return FilterState.start(shares) if partition is None else PartStates.start(partition, shares)


def read(plain: Mapping[str, Any], partition: Partition | None, shares: Shares) -> States:
    """The state that `to_dict` wrote."""
    if partition is None:
        return FilterState.from_dict(plain, shares)
    return PartStates.from_dict(plain, partition, shares)


def add_all(partition: Partition | None, shares: Shares, charges: Iterable[Charge]) -> States:
    """The state after all these charges, whether or not they would have been allowed."""
    if partition is None:
        return union.add_all(shares, charges)
    states = PartStates.start(partition, shares)
    for charge in charges:
        plain = replace(charge, part=None)
        states = states.move_states(charge.part, lambda state, one=plain: union.add(state, one)) or states  # type: ignore[misc]
    return states


def without_charge(states: States, charge: Charge, before: States | None) -> States:
    """The state without a charge of which nothing was read; `before` as in `FilterState.without_charge`."""
    if isinstance(states, FilterState):
        return states.without_charge(charge, before if isinstance(before, FilterState) else None)
    plain, earlier = replace(charge, part=None), before if isinstance(before, PartStates) else None
    after = {
        one: state.without_charge(plain, None if earlier is None else earlier.at(one))
        for one, state in states.touched(charge.part).items()
    }
    return PartStates(states.partition, {**states.states, **after})


def begins(states: States) -> bool:
    """Whether a state is what an honest ledger writes when it opens a budget."""
    if isinstance(states, FilterState):
        return union.begins(states)
    return list(states.states) == [()] and union.begins(states.states[()])


def follows(before: States, charge: Charge, after: States) -> bool:
    """Whether a state is what an honest ledger writes when it allows a charge, proved anew."""
    return _each_follows(before, charge, after, union.follows)


def plausible(before: States, charge: Charge, after: States) -> bool:
    """Whether a state can be what an honest ledger writes when it allows a charge."""
    return _each_follows(before, charge, after, union.plausible)


def _each_follows(
    before: States, charge: Charge, after: States, judge: Callable[[FilterState, Charge, FilterState], bool]
) -> bool:
    """Whether each state that a charge touches follows, and every other one stays."""
    if isinstance(before, FilterState) or isinstance(after, FilterState):
        return before.__class__ is after.__class__ and judge(before, charge, after)  # type: ignore[arg-type]
    plain, touched = replace(charge, part=None), before.touched(charge.part)
    if after.states.keys() != before.states.keys() | touched.keys():
        return False
    judged = {(state, after.states[one]) for one, state in touched.items()}
    stays = all(after.states[one] == state for one, state in before.states.items() if one not in touched)
    return stays and all(judge(old, plain, new) for old, new in judged)


def follows_cancellation(states: States, charge: Charge, before: States | None, after: States) -> bool:
    """Whether a state is what an honest ledger writes when it cancels a charge."""
    if isinstance(states, FilterState):
        old = before if isinstance(before, FilterState) else None
        return isinstance(after, FilterState) and union.follows_cancellation(states, charge, old, after)
    if not isinstance(after, PartStates) or after.states.keys() != states.states.keys():
        return False
    plain, touched = replace(charge, part=None), states.touched(charge.part)
    earlier = before if isinstance(before, PartStates) else None
    return all(
        union.follows_cancellation(state, plain, None if earlier is None else earlier.at(one), after.states[one])
        if one in touched
        else after.states[one] == state
        for one, state in states.states.items()
    )


def is_same(states: States, expected: States) -> bool:
    """Whether a state is the expected one, but for the last digits of another machine."""
    return _each_is(states, expected, union.is_same)


def possible_sum(states: States, charges: list[Charge], partition: Partition | None) -> bool:
    """Whether a state can be the one with these charges, whether or not they fit."""
    if isinstance(states, FilterState):
        return partition is None and union.possible_sum(FilterState.start(states.shares), charges, states)
    own = {None if charge.part is None else states.partition.place(charge.part) for charge in charges} - {None}
    if partition != states.partition or not own <= set(states.charged):
        return False
    return all(
        union.possible_sum(
            FilterState.start(states.shares),
            [
                replace(charge, part=None)
                for charge in charges
                if charge.part is None or states.partition.place(charge.part) in one
            ],
            state,
        )
        for one, state in states.states.items()
    )


def _each_is(states: States, expected: States, same: Callable[[FilterState, FilterState], bool]) -> bool:
    if isinstance(states, FilterState) or isinstance(expected, FilterState):
        return states.__class__ is expected.__class__ and same(states, expected)  # type: ignore[arg-type]
    sets = states.states.keys() | expected.states.keys()
    return expected.states.keys() <= states.states.keys() and all(same(states.states[i], expected.at(i)) for i in sets)
