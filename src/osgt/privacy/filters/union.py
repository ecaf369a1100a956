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

from osgt.noise.arguments import real_number
from osgt.privacy import Charge
from osgt.privacy.filters import costs, residue
from osgt.privacy.filters.budget import Shares
from osgt.privacy.filters.costs import largest_loss
from osgt.privacy.profile import float_above


@dataclass(frozen=True)
class FilterState:
    """The state of the filters: all that they need to know of what was charged."""

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
        return cls(Fraction(0), 0, few_sum, 0, Fraction(0), first, Fraction(0))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: all are read back exactly."""
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
    def from_dict(cls, plain: Mapping[str, Any]) -> "FilterState":
        """The state that `to_dict` wrote."""
        mu = plain["mu"]
        return cls(
            _fraction(plain["pure"]),
            int(plain["unbounded"]),
            None if plain["few"] is None else _fraction(plain["few"]),
            int(plain["count"]),
            _fraction(plain["renyi"]),
            None if mu is None else real_number("mu", mu, positive=False),
            _fraction(plain["selection"]),
        )


@lru_cache(maxsize=4096)
def _fraction(text: str) -> Fraction:
    return Fraction(text)


#: Recomputed on another machine, sums may differ in their last digits. Their margins exceed this.
_TOLERANCE = Fraction(1, 10**10)


def charged(state: FilterState, shares: Shares, charge: Charge) -> FilterState | None:
    """The state with one more charge; None if the release is refused."""
    selection = state.selection + Fraction(charge.selection_delta)
    if selection > Fraction(shares.selection):
        return None
    moved = _with(state, shares, charge)
    return moved if alive(moved, shares) else None


def cancelled(state: FilterState, shares: Shares, charge: Charge, before: FilterState | None) -> FilterState:
    """The state without a charge of which nothing was read.

    Sums go back exactly. What the residue and the first few releases take depends on the order of the charges, and with
    charges in between, whose answers may have led to the cancellation, nothing is proved about them: there they keep
    the cancelled charge.

    Parameters
    ----------
    before
        The state just before the charge, if every charge since is cancelled too and the budget was not changed; else
        None.
    """
    sums = _moved(state, shares, charge, -1)
    return sums if before is None else replace(sums, mu=before.mu, few=before.few, count=before.count)


def add_all(shares: Shares, charges: Iterable[Charge]) -> FilterState:
    """The state after all these charges, whether or not they would have been allowed (for a budget that is changed)."""
    state = FilterState.start(shares)
    for charge in charges:
        state = _with(state, shares, charge)
    return state


def begins(shares: Shares, state: FilterState) -> bool:
    """Whether `state` is what an honest ledger writes when it opens a budget with these shares."""
    sums = replace(FilterState.start(shares), mu=state.mu)
    return state == sums and residue.is_valid_start(state.mu, shares.epsilon, shares.gaussian)


def follows(before: FilterState, shares: Shares, charge: Charge, after: FilterState) -> bool:
    """Whether `after` is what an honest ledger writes when it allows the charge in the state `before`.

    Sums must be right to the last digit, but for the rounding of Rényi divergences. Of the residue any μ will do that
    is proved here to be valid, so that other machines may have found another one.
    """
    expected = _moved(before, shares, charge, +1)
    return (
        all(getattr(expected, name) == getattr(after, name) for name in ("pure", "unbounded", "selection"))
        and expected.selection <= Fraction(shares.selection)
        and _is_near(after.renyi, expected.renyi, before.renyi)
        and _few_follows(before, shares, charge, after)
        and _residue_follows(before, shares, charge, after)
        and alive(after, shares)
    )


def follows_cancellation(
    state: FilterState, shares: Shares, charge: Charge, before: FilterState | None, after: FilterState
) -> bool:
    """Whether `after` is what an honest ledger writes when it cancels the charge in the state `state`."""
    expected = cancelled(state, shares, charge, before)
    same = replace(after, renyi=expected.renyi) == expected
    return same and abs(after.renyi - expected.renyi) <= _TOLERANCE * (state.renyi - expected.renyi)


def _few_follows(before: FilterState, shares: Shares, charge: Charge, after: FilterState) -> bool:
    if after.few is None:
        return True
    total = _few_after(before, shares, charge)
    if total is None or before.few is None:
        return False
    return after.count == before.count + 1 and _is_near(after.few, total, before.few)


def _residue_follows(before: FilterState, shares: Shares, charge: Charge, after: FilterState) -> bool:
    if after.mu is None:
        return True
    parts = charge.profile.parts
    return before.mu is not None and residue.is_valid(before.mu, after.mu, parts, shares.epsilon, shares.gaussian)


def _is_near(told: Fraction, expected: Fraction, before: Fraction) -> bool:
    """Whether a sum has moved as expected, up to the last digits of another machine."""
    return abs(told - expected) <= _TOLERANCE * (expected - before)


@dataclass(frozen=True)
class Spent:
    """The spending of a budget: how much of it is used.

    `share` is that of the filter that has most left (1: nothing fits any more). `epsilon` is the least ε', at the δ of
    the budget, that the sums prove for every analyst: had she stopped before it would exceed ε', whatever she saw, her
    releases would be (ε', δ)-differentially private (docs/filter.md). It is at most the ε of the budget unless that was
    lowered; infinite where nothing is proved.
    """

    share: float
    epsilon: float
    selection: float  # Σ selection δ, rounded up


def spent(state: FilterState, shares: Shares) -> Spent:
    """Compute the figures that people are told about a state."""
    selection = float_above(state.selection)
    if state == FilterState.start(shares):
        return Spent(0.0, 0.0, selection)
    used, reached = [1.0], [shares.epsilon if alive(state, shares) else math.inf]
    if state.unbounded == 0:
        used.append(float(state.pure / Fraction(shares.epsilon)))
        reached.append(float_above(state.pure))
    if state.few is not None:
        used.append(float(state.few / Fraction(shares.epsilon)))
        reached.append(float_above(state.few))
    if shares.renyi > 0:
        limit = costs.renyi_limit(shares.epsilon, shares.renyi, shares.order)
        divergence = float_above(state.renyi)
        used.append(divergence / limit)
        reached.append(costs.renyi_epsilon(divergence, shares.renyi, shares.order))
    if state.mu is not None:
        start = residue.start(shares.epsilon, shares.gaussian)
        assert start is not None
        used.append((start - state.mu) * (start + state.mu) / start**2)
    return Spent(max(min(used), 0.0), min(reached), selection)


def fits(state: FilterState, shares: Shares, charge: Charge) -> bool:
    """Whether one more charge would be allowed: as `charged` decides, the quickest filters first; in doubt not."""
    sums = _moved(state, shares, charge, +1)
    if sums.selection > Fraction(shares.selection):
        return False
    if alive(replace(sums, few=None, mu=None), shares):
        return True
    parts = charge.profile.parts
    if state.mu is not None and residue.after(state.mu, parts, shares.epsilon, shares.gaussian) is not None:
        return True
    if state.few is None:
        return False
    return costs.can_add(state.few, charge, _few_limits(shares), state.count)


def how_many(state: FilterState, shares: Shares, charge: Charge, most: int = 10_000) -> int:
    """Count how many more charges like this one would be allowed, one after the other; never more than `most`."""
    count = 0
    while count < most and (moved := charged(state, shares, charge)) is not None:
        state, count = moved, count + 1
    return count


def alive(state: FilterState, shares: Shares) -> bool:
    """Whether one filter at least allows what stands. Filters that depend on the order are None once they have died."""
    if state.few is not None or state.mu is not None:
        return True
    basic = state.unbounded == 0 and state.pure <= Fraction(shares.epsilon) + Fraction(shares.basic)
    return basic or _renyi_alive(state, shares)


def _renyi_alive(state: FilterState, shares: Shares) -> bool:
    if shares.renyi <= 0:
        return False
    return state.renyi <= Fraction(costs.renyi_limit(shares.epsilon, shares.renyi, shares.order))


def _with(state: FilterState, shares: Shares, charge: Charge) -> FilterState:
    """The state with one more charge, whether or not a filter is alive then."""
    mu = None if state.mu is None else residue.after(state.mu, charge.profile.parts, shares.epsilon, shares.gaussian)
    return replace(sums_after(state, shares, charge), mu=mu)


def sums_after(state: FilterState, shares: Shares, charge: Charge) -> FilterState:
    """The state with one more charge in all sums, and the residue as it was."""
    moved = _moved(state, shares, charge, +1)
    if state.few is None:
        return moved
    total = _few_after(state, shares, charge)
    return replace(moved, few=total, count=state.count + (total is not None))


def _few_after(state: FilterState, shares: Shares, charge: Charge) -> Fraction | None:
    """Σ ε of the first few releases with one more; None if that is more than ε."""
    if state.few is None:
        return None
    return costs.add_release(state.few, charge, _few_limits(shares), state.count)


def _few_limits(shares: Shares) -> tuple[float, float, float]:
    return shares.epsilon, shares.few, residue.TAIL * shares.gaussian


def _moved(state: FilterState, shares: Shares, charge: Charge, sign: int) -> FilterState:
    """The state with the sums moved by one charge."""
    loss, divergence, chance = _amounts(charge, shares.order)
    return FilterState(
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


def plausible(before: FilterState, shares: Shares, charge: Charge, after: FilterState) -> bool:
    """Whether `after` can be the state that an honest ledger writes when it allows the charge in the state `before`."""
    if after.selection > Fraction(shares.selection) or not alive(after, shares):
        return False
    return possible_sum(before, shares, [charge], after)


def possible_sum(before: FilterState, shares: Shares, charges: Iterable[Charge], after: FilterState) -> bool:
    """Whether `after` can be the state with these charges, whether or not they fit."""
    sums = before
    for charge in charges:
        sums = sums_after(sums, shares, charge)
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
    lost = float(2 * (sums.renyi - before.renyi)) / (1.0 + shares.order) * (1.0 - _ROUNDING)
    return after.mu**2 <= (before.mu**2 - lost) * (1.0 + _ROUNDING)
