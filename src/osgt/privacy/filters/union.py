"""May one more release be published, whatever the analyst saw before choosing it? A union of privacy filters.

What has been charged is summed up in a state of constant size, and each charge is judged by that state alone:

1. *basic*: the sum of the largest losses is at most ε (noise at the Laplace end only; takes next to no share of δ);
2. *few*: the first few releases, each at an (ε, δ) of its own, add up to at most (ε, δ₀) (see `costs`);
3. *Rényi*: the sum of the Rényi divergences of one order, fixed at opening, converts to (ε, δ₂);
4. *Gaussian residue*: a number μ; whatever may still follow, as a whole, is dominated by Gauss(μ) (see `residue`).

A release is allowed if one of the filters that have been alive throughout stays alive with it, and if the selection δ
of all releases stays within its quota δ_s. Then, for every analyst, who may choose each query and its budget after
seeing all earlier answers, all releases together are (ε, δ)-differentially private. docs/filter.md has the proof.

`plausible` asks whether a stored state can be the one after given charges, in microseconds for a charge that was seen
before. Sums are added up again. The Gaussian residue is not computed again, but it is bounded: if g ⊗ Gauss(μ') is
dominated by Gauss(μ), then so are its Rényi divergences, and those of Gauss(μ) are α·μ²/2. Hence μ'² ≤ μ² - 2·D_α(g)/α
at every order, in particular at the order of the Rényi filter. A state that was made up can be better than the true one
only by what lies between this bound and the true residue; `follows`, which `verify` uses, leaves it nothing.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from osgt.privacy import Charge
from osgt.privacy.filters import costs, residue
from osgt.privacy.filters.budget import Shares
from osgt.privacy.filters.costs import largest_loss
from osgt.privacy.profile import float_above
from osgt.support.numeric import real_number


@dataclass(frozen=True)
class FilterState:
    """The state of the filters of a budget: all that they need to know of what was charged."""

    shares: Shares
    pure: Fraction  # Σ largest losses, of the charges that have one
    unbounded: int  # number of the charges that have none
    few: Fraction | None  # Σ ε of the first few releases, each rounded up; None: this filter has died
    count: int  # number of the releases in `few`
    renyi: Fraction  # Σ Rényi divergences, each rounded up
    mu: float | None  # what is left to the Gaussian residue, rounded down; None: this filter has died
    selection: Fraction  # Σ selection δ

    @classmethod
    def start(cls, shares: Shares) -> "FilterState":
        """Make the state in which nothing is charged yet."""
        first = residue.start(shares.epsilon, shares.gaussian)
        few_sum = Fraction(0) if shares.few > 0 else None
        return cls(shares, Fraction(0), 0, few_sum, 0, Fraction(0), first, Fraction(0))

    def to_dict(self) -> dict[str, Any]:
        """Plain values but for the shares, for JSON: all are read back exactly."""
        return {
            "pure": str(self.pure),
            "unbounded": self.unbounded,
            "few": None if self.few is None else str(self.few),
            "count": self.count,
            "renyi": str(self.renyi),
            "mu": self.mu,
            "selection": str(self.selection),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], shares: Shares) -> "FilterState":
        """The state that `to_dict` wrote."""
        mu = plain["mu"]
        return cls(
            shares,
            _fraction(plain["pure"]),
            int(plain["unbounded"]),
            None if plain["few"] is None else _fraction(plain["few"]),
            int(plain["count"]),
            _fraction(plain["renyi"]),
            None if mu is None else real_number("mu", mu, positive=False),
            _fraction(plain["selection"]),
        )

    @property
    def quota(self) -> float:
        """The most that Σ selection δ may come to."""
        return self.shares.selection

    def try_charge(self, charge: Charge) -> "FilterState | None":
        """The state with one more charge; None if the release is refused."""
        selection = self.selection + Fraction(charge.selection_delta)
        if selection > Fraction(self.shares.selection):
            return None
        moved = add(self, charge)
        return moved if alive(moved) else None

    def without_charge(self, charge: Charge, before: "FilterState | None") -> "FilterState":
        """The state without a charge of which nothing was read.

        Sums go back exactly. What the residue and the first few releases take depends on the order of the charges, and
        with charges in between, whose answers may have led to the cancellation, nothing is proved about them: there
        they keep the cancelled charge.

        Parameters
        ----------
        before
            The state just before the charge, if every charge since is cancelled too and the budget was not changed;
            else None.
        """
        sums = _move_sums(self, charge, -1)
        return sums if before is None else replace(sums, mu=before.mu, few=before.few, count=before.count)

    def fits(self, charge: Charge) -> bool:
        """Whether one more charge would be allowed, as `try_charge` decides: quickest filters first; in doubt not."""
        sums, shares = _move_sums(self, charge, +1), self.shares
        if sums.selection > Fraction(shares.selection):
            return False
        if alive(replace(sums, few=None, mu=None)):
            return True
        parts = charge.profile.parts
        if self.mu is not None and residue.after(self.mu, parts, shares.epsilon, shares.gaussian) is not None:
            return True
        return self.few is not None and costs.can_add(self.few, charge, _few_limits(shares), self.count)

    def how_many(self, charge: Charge, most: int = 10_000) -> int:
        """Count how many more charges like this one would be allowed, one after the other; never more than `most`."""
        state, count = self, 0
        while count < most and (moved := state.try_charge(charge)) is not None:
            state, count = moved, count + 1
        return count

    @property
    def share(self) -> float:
        """The share of the budget that is used, by the filter that has most left; at 1 nothing fits any more."""
        if self == FilterState.start(self.shares):
            return 0.0
        used, epsilon = [1.0], Fraction(self.shares.epsilon)
        if self.unbounded == 0:
            used.append(float(self.pure / epsilon))
        if self.few is not None:
            used.append(float(self.few / epsilon))
        if self.shares.renyi > 0:
            used.append(float_above(self.renyi) / _renyi_limit(self.shares))
        if self.mu is not None:
            start = residue.start(self.shares.epsilon, self.shares.gaussian)
            assert start is not None
            used.append((start - self.mu) * (start + self.mu) / start**2)
        return max(min(used), 0.0)

    def figures(self) -> tuple[float, float]:
        """The ε at the δ of the budget that the sums prove for every analyst, and that δ.

        It is the least ε' such that, had she stopped before the sums would exceed it, whatever she saw, her releases
        would be (ε', δ)-differentially private (docs/filter.md). It is at most the ε of the budget unless that was
        lowered. Where nothing is proved, ε is infinite and δ is 1.
        """
        shares = self.shares
        if self == FilterState.start(shares):
            return 0.0, 0.0
        reached = [shares.epsilon if alive(self) else math.inf]
        if self.unbounded == 0:
            reached.append(float_above(self.pure))
        if self.few is not None:
            reached.append(float_above(self.few))
        if shares.renyi > 0:
            reached.append(costs.renyi_epsilon(float_above(self.renyi), shares.renyi, shares.order))
        return min(reached), shares.delta if alive(self) else 1.0


@lru_cache(maxsize=4096)
def _fraction(text: str) -> Fraction:
    return Fraction(text)


#: By so much a figure of another machine may differ, relative.
LAST_DIGITS = Fraction(1, 10**6)

#: Recomputed on another machine, sums may differ in their last digits. Their margins exceed this.
_TOLERANCE = Fraction(1, 10**10)


def add_all(shares: Shares, charges: Iterable[Charge]) -> FilterState:
    """The state after all these charges, whether or not they would have been allowed (for a budget that is changed)."""
    state = FilterState.start(shares)
    for charge in charges:
        state = add(state, charge)
    return state


def begins(state: FilterState) -> bool:
    """Whether `state` is what an honest ledger writes when it opens a budget with these shares."""
    sums = replace(FilterState.start(state.shares), mu=state.mu)
    return state == sums and residue.is_valid_start(state.mu, state.shares.epsilon, state.shares.gaussian)


def follows(before: FilterState, charge: Charge, after: FilterState) -> bool:
    """Whether `after` is what an honest ledger writes when it allows the charge in the state `before`.

    Sums must be right to the last digit, but for the rounding of Rényi divergences. Of the residue any μ will do that
    is proved here to be valid, so that other machines may have found another one.
    """
    expected = _move_sums(before, charge, +1)
    return (
        all(getattr(expected, name) == getattr(after, name) for name in ("pure", "unbounded", "selection"))
        and expected.selection <= Fraction(before.shares.selection)
        and _is_near(after.renyi, expected.renyi, before.renyi)
        and _few_follows(before, charge, after)
        and _residue_follows(before, charge, after)
        and alive(after)
    )


def follows_cancellation(state: FilterState, charge: Charge, before: FilterState | None, after: FilterState) -> bool:
    """Whether `after` is what an honest ledger writes when it cancels the charge in the state `state`."""
    expected = state.without_charge(charge, before)
    same = replace(after, renyi=expected.renyi) == expected
    return same and abs(after.renyi - expected.renyi) <= _TOLERANCE * (state.renyi - expected.renyi)


def is_same(state: FilterState, expected: FilterState) -> bool:
    """Whether a state is the expected one, but for the last digits of another machine."""
    pairs = ((state.renyi, expected.renyi), (state.few, expected.few), (state.mu, expected.mu))
    for value, wanted in pairs:
        if value is None or wanted is None:
            if value is not wanted:
                return False
        elif abs(Fraction(value) - Fraction(wanted)) > LAST_DIGITS * Fraction(wanted):
            return False
    return replace(state, renyi=expected.renyi, few=expected.few, mu=expected.mu) == expected


def _few_follows(before: FilterState, charge: Charge, after: FilterState) -> bool:
    if after.few is None:
        return True
    total = _few_after(before, charge)
    if total is None or before.few is None:
        return False
    return after.count == before.count + 1 and _is_near(after.few, total, before.few)


def _residue_follows(before: FilterState, charge: Charge, after: FilterState) -> bool:
    if after.mu is None:
        return True
    parts, shares = charge.profile.parts, before.shares
    return before.mu is not None and residue.is_valid(before.mu, after.mu, parts, shares.epsilon, shares.gaussian)


def _is_near(stored: Fraction, expected: Fraction, before: Fraction) -> bool:
    """Whether a sum has moved as expected, up to the last digits of another machine."""
    return abs(stored - expected) <= _TOLERANCE * (expected - before)


def alive(state: FilterState) -> bool:
    """Whether one filter at least allows what stands. Filters that depend on the order are None once they have died."""
    shares = state.shares
    if state.few is not None or state.mu is not None:
        return True
    if state.unbounded == 0 and state.pure <= Fraction(shares.epsilon) + Fraction(shares.basic):
        return True
    return shares.renyi > 0 and state.renyi <= Fraction(_renyi_limit(shares))


def _renyi_limit(shares: Shares) -> float:
    return costs.renyi_limit(shares.epsilon, shares.renyi, shares.order)


def add(state: FilterState, charge: Charge) -> FilterState:
    """The state with one more charge, whether or not a filter is alive then."""
    parts, shares = charge.profile.parts, state.shares
    mu = None if state.mu is None else residue.after(state.mu, parts, shares.epsilon, shares.gaussian)
    return replace(_sums_after(state, charge), mu=mu)


def _sums_after(state: FilterState, charge: Charge) -> FilterState:
    """The state with one more charge in all sums, and the residue as it was."""
    moved = _move_sums(state, charge, +1)
    if state.few is None:
        return moved
    total = _few_after(state, charge)
    return replace(moved, few=total, count=state.count + (total is not None))


def _few_after(state: FilterState, charge: Charge) -> Fraction | None:
    """Σ ε of the first few releases with one more; None if that is more than ε."""
    if state.few is None:
        return None
    return costs.add_release(state.few, charge, _few_limits(state.shares), state.count)


def _few_limits(shares: Shares) -> tuple[float, float, float]:
    return shares.epsilon, shares.few, residue.TAIL * shares.gaussian


def _move_sums(state: FilterState, charge: Charge, sign: int) -> FilterState:
    """The state with the sums moved by one charge."""
    loss, divergence, chance = _amounts(charge, state.shares.order)
    return FilterState(
        shares=state.shares,
        pure=state.pure + sign * loss if loss else state.pure,
        unbounded=state.unbounded + sign * (loss is None),
        few=state.few,
        count=state.count,
        renyi=state.renyi + divergence if sign > 0 else state.renyi - divergence,
        mu=state.mu,
        selection=state.selection + sign * chance if chance else state.selection,
    )


@lru_cache(maxsize=4096)
def _amounts(charge: Charge, order: float) -> tuple[Fraction | None, Fraction, Fraction]:
    """Compute the amounts that a charge adds to the sums: largest loss, Rényi divergence and selection δ."""
    divergence = costs.renyi_divergence(charge.profile.parts, order)
    return largest_loss(charge), Fraction(divergence), Fraction(charge.selection_delta)


#: More than the rounding of divergences or of μ, relative.
_ROUNDING = 1e-8


def plausible(before: FilterState, charge: Charge, after: FilterState) -> bool:
    """Whether `after` can be the state that an honest ledger writes when it allows the charge in the state `before`."""
    if after.selection > Fraction(before.shares.selection) or not alive(after):
        return False
    return possible_sum(before, [charge], after)


def possible_sum(before: FilterState, charges: Iterable[Charge], after: FilterState) -> bool:
    """Whether `after` can be the state with these charges, whether or not they fit."""
    sums = before
    for charge in charges:
        sums = _sums_after(sums, charge)
    if (sums.pure, sums.unbounded, sums.selection) != (after.pure, after.unbounded, after.selection):
        return False
    if after.few is not None and (
        sums.few is None or after.count != sums.count or after.few < sums.few * (1 - Fraction(_ROUNDING))
    ):
        return False
    if after.renyi != sums.renyi and abs(after.renyi - sums.renyi) > Fraction(_ROUNDING) * sums.renyi:
        return False
    if after.mu is None:
        return True
    if before.mu is None or after.mu <= 0:
        return False
    lost = float(2 * (sums.renyi - before.renyi)) / (1.0 + before.shares.order) * (1.0 - _ROUNDING)
    return after.mu**2 <= (before.mu**2 - lost) * (1.0 + _ROUNDING)
