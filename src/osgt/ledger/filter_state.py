"""All that the filters need to know of what was charged: seven numbers, whatever the length of the history."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from osgt.ledger import residue
from osgt.ledger.shares import Shares
from osgt.noise.parameters import real_number


@dataclass(frozen=True)
class FilterState:
    """All that the filters need to know of what was charged."""

    pure: Fraction  # Σ largest losses, of the charges that have one
    unbounded: int  # number of the charges that have none
    few: Fraction | None  # Σ ε of the first few releases, each rounded up; None: this filter has died
    count: int  # number of the releases in `few`
    renyi: Fraction  # Σ Rényi divergences, each rounded up
    mu: float | None  # what is left to the Gaussian residue, rounded down; None: this filter has died
    selection: Fraction  # Σ selection δ

    @classmethod
    def start(cls, shares: Shares) -> "FilterState":
        """Nothing charged yet."""
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
