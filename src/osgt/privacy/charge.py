"""Charge: all that a release takes out of a budget, in a form that can be stored and read again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from osgt.noise import read, written
from osgt.noise.arguments import real_number
from osgt.privacy.profile import SLACK, NoisyPart, PrivacyProfile
from osgt.support.errors import ArgumentError

#: Part of δ that is set aside for choosing groups where a ledger adds it up apart. The threshold grows slowly as it
#: shrinks, and so does the noise with what is left.
CHOICE_SHARE = 0.1


@dataclass(frozen=True)
class Charge:
    """The privacy loss of a release: the profile of its noise, and a chance that it reveals anything at all.

    `selection_delta` is the probability with which the choice of the groups that are shown may reveal a person; it
    adds to the δ of the noise, in compositions as well.

    Examples
    --------
    >>> from osgt import DiscreteOSGT
    >>> charge = Charge(PrivacyProfile(DiscreteOSGT.gaussian(10), coordinates=4), selection_delta=1e-9)
    >>> Charge.from_dict(charge.to_dict()) == charge
    True
    """

    profile: PrivacyProfile
    selection_delta: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.profile, PrivacyProfile):
            raise TypeError(f"profile must be a PrivacyProfile, got {self.profile!r}")
        delta = real_number("selection_delta", self.selection_delta, positive=False)
        if delta >= 1:
            raise ArgumentError(
                f"selection_delta must be in [0, 1), got {self.selection_delta!r}", argument="selection_delta"
            )
        object.__setattr__(self, "selection_delta", delta)

    @classmethod
    def compose(cls, charges: Iterable["Charge"]) -> "Charge":
        """The charge of all of them together, about the same people."""
        charges = list(charges)
        total = sum(charge.selection_delta for charge in charges)
        # Each addition may have rounded down by half a unit in the last place.
        rounded_up = total * (1.0 + 2.0**-52 * len(charges)) if len(charges) > 1 else total
        return cls(PrivacyProfile.compose(charge.profile for charge in charges), min(rounded_up, 1.0 - 2.0**-53))

    def delta(self, epsilon: float, *, slack: float = SLACK) -> float:
        """Smallest δ for which (ε, δ)-differential privacy is proved."""
        return min(1.0, float(self.profile.delta(epsilon, slack=slack)) + self.selection_delta)

    def epsilon(self, delta: float, *, slack: float = SLACK) -> float:
        """Smallest ε for which (ε, δ)-differential privacy is proved: infinite if the selection alone exceeds δ."""
        left = delta - self.selection_delta
        return float(self.profile.epsilon(left, slack=slack)) if left >= 0 else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: floats are read back exactly."""
        parts = [
            {"noise": written(part.noise), "shift": part.shift, "coordinates": part.coordinates}
            for part in self.profile.parts
        ]
        return {"parts": parts, "selection_delta": self.selection_delta}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Charge":
        """The charge that `to_dict` wrote."""
        try:
            parts = [NoisyPart(read(p["noise"]), p["shift"], p["coordinates"]) for p in plain["parts"]]
            selection = plain["selection_delta"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a stored charge: {error!r} in {plain!r}") from None
        if not parts:
            raise ValueError("this is not a stored charge: it has no parts")
        return cls(PrivacyProfile.of(parts), selection)
