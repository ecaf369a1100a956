"""May one more release be published, whatever the analyst saw before choosing it? A union of privacy filters.

What has been charged is summed up in a state of constant size, and each charge is judged by that state alone:

1. *basic*: the sum of the largest losses is at most ε (noise at the Laplace end only; takes next to no share of δ);
2. *few*: the first few releases, each at an (ε, δ) of its own, add up to at most (ε, δ₀) (see `few`);
3. *Rényi*: the sum of the Rényi divergences of one order, fixed at opening, converts to (ε, δ₂);
4. *Gaussian residue*: a number μ; whatever may still follow, as a whole, is dominated by Gauss(μ) (see `residue`).

A release is allowed if one of the filters that have been alive throughout stays alive with it, and if the selection δ
of all releases stays within its quota δ_s. Then, for every analyst, who may choose each query and its budget after
seeing all earlier answers, all releases together are (ε, δ)-differentially private. docs/filter.md has the proof.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from osgt.ledger import few, renyi_order, residue
from osgt.ledger.filter_state import FilterState
from osgt.ledger.rounding import rounded_up
from osgt.ledger.shares import Shares
from osgt.privacy import Charge

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


def replay(shares: Shares, charges: Iterable[Charge]) -> FilterState:
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
    """How much of a budget is used.

    `share` is that of the filter that has most left (1: nothing fits any more). `epsilon` is an ε at which all that
    stands is proved, at the δ of the budget, whatever was seen in between; it is at most the ε of the budget, and while
    little is spent it can be far above what an exact composition of the same releases would give.
    """

    share: float
    epsilon: float
    selection: float  # Σ selection δ, rounded up


def spent(state: FilterState, shares: Shares) -> Spent:
    """What to tell people about a state."""
    selection = rounded_up(state.selection)
    if state == FilterState.start(shares):
        return Spent(0.0, 0.0, selection)
    used, reached = [1.0], [shares.epsilon]
    if state.unbounded == 0:
        used.append(float(state.pure / Fraction(shares.epsilon)))
        reached.append(rounded_up(state.pure))
    if state.few is not None:
        used.append(float(state.few / Fraction(shares.epsilon)))
        reached.append(rounded_up(state.few))
    if shares.renyi > 0:
        limit = renyi_order.limit(shares.epsilon, shares.renyi, shares.order)
        divergence = rounded_up(state.renyi)
        used.append(divergence / limit)
        reached.append(renyi_order.epsilon(divergence, shares.renyi, shares.order))
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
    return few.fits(state.few, charge, _largest_loss(charge), _few_limits(shares), state.count)


def how_many(state: FilterState, shares: Shares, charge: Charge, most: int = 10_000) -> int:
    """How many more charges like this one would be allowed, one after the other; never more than `most`."""
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
    return state.renyi <= Fraction(renyi_order.limit(shares.epsilon, shares.renyi, shares.order))


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
    return few.added(state.few, charge, _largest_loss(charge), _few_limits(shares), state.count)


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
    """What a charge adds to the sums: its largest loss, its Rényi divergence and its selection δ."""
    divergence = renyi_order.divergence(charge.profile.parts, order)
    return _largest_loss(charge), Fraction(divergence), Fraction(charge.selection_delta)


def _largest_loss(charge: Charge) -> Fraction | None:
    return charge.profile._pure_loss()
