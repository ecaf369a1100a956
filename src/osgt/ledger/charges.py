"""Charges as they stand in a chain: read from their entries, and all of them together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from osgt.ledger.filter_state import FilterState
from osgt.ledger.shares import Shares
from osgt.ledger.subject import Subject
from osgt.privacy import Charge, NoisyPart, PrivacyProfile

#: Different noises up to which what stands is composed exactly, only to be told.
_EXACT_PARTS = 32

#: Charges that were read last, by what is stored: many are equal.
_CHARGES: dict[str, Charge] = {}
_MOST_CHARGES = 4096


@dataclass(frozen=True)
class Charged:
    """A charge of the chain."""

    charge: Charge
    subject: Subject
    token_hash: str
    before: FilterState | None  # the state that it was added to
    after: FilterState | None  # the state that it left, and the shares by which that was decided
    shares: Shares | None


def stored_charge(plain: dict[str, Any]) -> Charge:
    """The charge that an entry holds. Many entries hold the same."""
    text = repr(plain)
    charge = _CHARGES.get(text)
    if charge is None:
        charge = Charge.from_dict(plain)
        if len(_CHARGES) >= _MOST_CHARGES:
            _CHARGES.clear()
        _CHARGES[text] = charge
    return charge


def profile_of(charges: Iterable[Charge]) -> PrivacyProfile | None:
    """All these charges, as a profile; None if there are too many different parts, or no charges."""
    counts: dict[tuple[Any, float], int] = {}
    for charge in charges:
        for part in charge.profile.parts:
            counts[part.noise, part.shift] = counts.get((part.noise, part.shift), 0) + part.coordinates
        if len(counts) > _EXACT_PARTS:
            return None
    if not counts:
        return None
    return PrivacyProfile.of(NoisyPart(noise, shift, n) for (noise, shift), n in counts.items())
