"""A budget: what the releases of a data set may add up to, and how they are added up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from osgt.ledger.shares import SELECTION_SHARE, Shares, shares_for
from osgt.noise.parameters import real_number

#: How releases are added up: by filters, which hold for every analyst, or by exact composition of a fixed plan.
COMPOSITIONS = ("adaptive", "planned")


@dataclass(frozen=True)
class Budget:
    """(ε, δ), the composition, and for the adaptive one how δ is divided: fixed when the data set is opened."""

    epsilon: float
    delta: float
    composition: str
    selection_share: float | None
    shares: Shares | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "composition": self.composition,
            "selection_share": self.selection_share,
            "shares": None if self.shares is None else self.shares.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Budget":
        """The budget that `to_dict` wrote, or a ValueError if it is none."""
        try:
            made = new_budget(plain["epsilon"], plain["delta"], plain["composition"], plain["selection_share"])
            shares = None if plain["shares"] is None else Shares.from_dict(plain["shares"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a stored budget: {error!r}") from None
        if (shares is None) != (made.shares is None):
            raise ValueError("the shares of δ do not suit the composition")
        if shares is not None and (shares.epsilon, shares.delta) != (made.epsilon, made.delta):
            raise ValueError("the shares of δ are those of another budget")
        return cls(made.epsilon, made.delta, made.composition, made.selection_share, shares)


def new_budget(
    epsilon: object, delta: object, composition: str = "adaptive", selection_share: float | None = None
) -> Budget:
    """The budget with these figures, or an error that says what is wrong with them."""
    loss, chance = real_number("epsilon", epsilon, positive=True), real_number("delta", delta, positive=False)
    if chance >= 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta!r}")
    if not 1e-9 <= loss <= 1e6:
        raise ValueError(f"epsilon must be between 1e-9 and 1e6, got {epsilon!r}")
    if 0 < chance < 1e-290:
        raise ValueError(f"delta must be 0 or at least 1e-290, got {delta!r}")
    if composition not in COMPOSITIONS:
        raise ValueError(f"composition must be one of {', '.join(COMPOSITIONS)}, got {composition!r}")
    if composition == "planned":
        if selection_share is not None:
            raise ValueError('selection_share is for composition="adaptive": planned releases share δ as they come')
        return Budget(loss, chance, composition, None, None)
    share = (
        SELECTION_SHARE if selection_share is None else real_number("selection_share", selection_share, positive=False)
    )
    return Budget(loss, chance, composition, share, shares_for(loss, chance, share))
