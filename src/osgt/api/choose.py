"""The private choice of limits by itself: charged like a release, and the limits can be used by every later one."""

import hashlib
import json
from collections.abc import Callable
from typing import NamedTuple

from osgt.api.charge import charge, title_of
from osgt.api.publish import AnyQuery, choose_for, prepare_draws
from osgt.noise.arguments import real_number
from osgt.plan.choice import LimitChoice, draws_of
from osgt.plan.plan import AnyPlan
from osgt.privacy import Charge
from osgt.query.open_limits import Limit, OpenLimit
from osgt.release.limits import TooFewUnitsError
from osgt.release.measuring import NothingReleasedError
from osgt.support.errors import ArgumentError, warn_caller_after_charge
from osgt.support.files import words_of

#: The release that follows has so many times the ε of the choice, if nothing is said.
USUAL_RELEASE = 10.0

#: Where nobody says how many units there are, this part of ε counts them first.
_COUNTING_SHARE = 0.1


class _Cost(NamedTuple):
    """The charge of a choice, which is pure: it has no δ."""

    charge: Charge
    epsilon: float
    delta: float = 0.0


def choose_alone(
    query: AnyQuery,
    epsilon: float,
    release_epsilon: float | None,
    plan_of: Callable[[float, LimitChoice], AnyPlan],
) -> dict[OpenLimit, Limit]:
    """Choose the open limits of a query for a release that is to follow, and charge that.

    `plan_of` plans that release, at its ε and with this choice. All that can be refused is refused before the charge.
    """
    own = real_number("epsilon", epsilon, positive=True)
    later = USUAL_RELEASE * own
    if release_epsilon is not None:
        later = real_number("release_epsilon", release_epsilon, positive=True)
    plan = plan_of(later, _choice_alone(query, own, later))
    assert plan.choice is not None
    draws = prepare_draws(query, plan)
    titles = [f"{name}: {title_of(table)}" if name else title_of(table) for name, table in query.tables.items()]
    title = f"limits: {'; '.join(titles)}"
    reservation = charge(query.dataset, _Cost(plan.choice.charge, own), title, query.to_dict())
    try:
        limits = choose_for(query, plan, draws)
    except TooFewUnitsError:
        raise
    except Exception as error:
        raise NothingReleasedError(error, charged=reservation is not None) from error
    if reservation is not None:
        chosen = json.dumps({limit.words: str(size) for limit, size in limits.items()}, sort_keys=True)
        try:
            reservation.settle(hashlib.sha256(chosen.encode()).hexdigest(), output="limits of a query")
        except OSError as error:
            warn_caller_after_charge(
                [f"The limits are chosen, but the ledger could not be told: {words_of(error)}. The charge stands."]
            )
    return limits


def _choice_alone(query: AnyQuery, epsilon: float, release_epsilon: float) -> LimitChoice:
    """The choice at an ε of its own; refused where nothing is open, or where too few units are known to be there."""
    draws, units = draws_of(query.computed), query.dataset.units
    if not draws:
        raise ValueError("there is nothing to choose: all limits that the query needs are given")
    counting = _COUNTING_SHARE * epsilon if units is None else 0.0
    choice = LimitChoice(draws, epsilon + release_epsilon, (epsilon - counting) / len(draws), counting)
    if units is not None and units < choice.units_needed:
        names = " and ".join(draw.limit.words for draw in draws)
        enough = epsilon * choice.units_needed / units
        raise ArgumentError(
            f"epsilon = {epsilon:.15g} is too little to choose {names} privately with about {units:,} units: give at "
            f"least {float(f'{1.005 * enough:.2e}'):g}, or the limits themselves",
            argument="epsilon",
        )
    return choice
