"""Does what stands fit into the budget? A quick upper bound first, the exact composition where that cannot tell."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from osgt.ledger.account import Account, rounded_up
from osgt.ledger.running import TooCoarseError, add, epsilon_at
from osgt.privacy.engine import Composed

#: A quick bound that is too large by more than this factor, and close, is not questioned.
_CLEARLY = 1.5

#: Slack up to which a quick bound counts as close.
_CLOSE = 0.1


@dataclass(frozen=True)
class Decision:
    """Whether an account fits its budget, with the figures that say so: upper bounds."""

    fits: bool
    delta: float  # at the declared ε
    epsilon: float  # at the declared δ
    account: Account  # with no pending charges, where their loss was composed on the way

    @property
    def worth_rebuilding(self) -> bool:
        """Whether the bound may be too large because cancelled charges are still in it."""
        return not self.fits and self.account.cancelled_inside > 0


def decide(account: Account, *, quick: bool = False) -> Decision:
    """Judge an account by the upper bound on δ at the declared ε; `quick`: never by the exact composition."""
    budget, selection = account.budget, account.selection_delta()
    left = -rounded_up(account.selection - Fraction(budget.delta))  # for the noise; never rounded up
    pure = rounded_up(account.pure) if account.unbounded == 0 else math.inf
    if account.selection > Fraction(budget.delta):
        return Decision(False, min(1.0, selection), math.inf, account)
    if account.charges == 0:
        return Decision(True, selection, 0.0, account)
    if budget.composition == "renyi":
        moment = rounded_up(account.moment)
        delta = budget.delta_of_moment(moment)
        return Decision(delta <= left, delta + selection, budget.epsilon_of_moment(moment, left), account)
    # Exactly at the largest loss δ is zero: basic composition, if it fits, needs no more.
    basic = account.unbounded == 0 and account.pure <= Fraction(budget.epsilon)
    if account.grid is None:
        return Decision(basic, selection if basic else 1.0, pure, account)
    loss, account = _composed(account)
    if loss is not None:
        delta = 0.0 if basic else loss.delta(budget.epsilon)
        epsilon = min(pure, epsilon_at(loss, left, budget.epsilon))
        clear = delta > _CLEARLY * left and loss.serves(budget.epsilon, _CLOSE)
        if delta <= left or clear or quick:
            return Decision(delta <= left, min(1.0, delta + selection), epsilon, account)
    return _exact(account, left, selection, loss)


def _composed(account: Account) -> tuple[Composed | None, Account]:
    """The loss of all that stands, and the account with it."""
    grid = account.grid
    assert grid is not None
    try:
        loss = add(account.running, (charge.profile.parts for _, charge in account.pending), grid)
    except TooCoarseError:
        return None, account
    return loss, replace(account, running=loss, pending=())


def _exact(account: Account, left: float, selection: float, loss: Composed | None) -> Decision:
    """The exact composition, where there are not too many unlike parts for it; else what the running loss says."""
    budget, profile = account.budget, account.profile()
    if profile is not None:
        delta = float(profile.delta(budget.epsilon))
        epsilon = float(profile.epsilon(left)) if left > 0 else math.inf
    elif loss is not None:
        delta, epsilon = loss.delta(budget.epsilon), epsilon_at(loss, left, budget.epsilon)
    else:
        delta, epsilon = 1.0, math.inf
    return Decision(delta <= left, min(1.0, delta + selection), epsilon, account)
