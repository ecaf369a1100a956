"""How the δ of a budget is divided among the filters, once and for all, when the budget is opened."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from osgt.ledger import renyi_order
from osgt.ledger.rounding import rounded_down
from osgt.noise.parameters import real_number

#: Share of δ that is set aside for the choice of groups, unless said otherwise.
SELECTION_SHARE = 0.2

#: δ₁ : δ₂, Gaussian residue against Rényi.
_GAUSSIAN_SHARE = 0.8

#: Of the rest, share of the filter for the first few releases.
_FEW_SHARE = 0.05

#: Share of δ for largest losses whose decimals add up to ε and whose floats to a little more.
_ROUNDING_SHARE = 1e-5

#: The quota of selection δ is larger than its share by this, relative, for the same reason.
_SELECTION_MARGIN = 1e-9


@dataclass(frozen=True)
class Shares:
    """A budget (ε, δ) and how δ is divided, fixed when the budget is opened. The five shares add up to at most δ."""

    epsilon: float
    delta: float
    gaussian: float  # δ₁
    renyi: float  # δ₂
    selection: float  # δ_s
    few: float  # δ₀
    basic: float  # by so much largest losses may exceed ε, which is a δ of no more than that
    order: float  # of the Rényi filter: α - 1

    def to_dict(self) -> dict[str, float]:
        """Plain values, for JSON: floats are read back exactly."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Shares":
        """The shares that `to_dict` wrote; whether they add up is checked."""
        shares = cls(**{name: real_number(name, plain[name], positive=False) for name in cls.__annotations__})
        divided = (shares.gaussian, shares.renyi, shares.selection, shares.few, shares.basic)
        if sum(map(Fraction, divided)) > Fraction(shares.delta):
            raise ValueError("the shares of δ add up to more than δ")
        return shares


def shares_for(epsilon: float, delta: float, selection_share: float = SELECTION_SHARE) -> Shares:
    """The division of a budget: `selection_share` of δ for the choice of groups (0 where all keys are public).

    Of the rest a twentieth goes to the first few releases, and of what is left then four fifths to the Gaussian residue
    and one fifth to the Rényi filter.
    """
    share = real_number("selection_share", selection_share, positive=False)
    if share > 1:
        raise ValueError(f"selection_share must be between 0 and 1, got {selection_share!r}")
    selection = min(share * delta * (1.0 + _SELECTION_MARGIN), delta)
    noise = max(rounded_down(Fraction(delta) - Fraction(selection)), 0.0)
    few_share, basic = _FEW_SHARE * noise, _ROUNDING_SHARE * noise
    noise = max(rounded_down(Fraction(noise) - Fraction(few_share) - Fraction(basic)), 0.0)
    gaussian = _GAUSSIAN_SHARE * noise
    renyi = max(rounded_down(Fraction(noise) - Fraction(gaussian)), 0.0)
    order = renyi_order.best(epsilon, renyi) if renyi > 0 else 1.0
    return Shares(epsilon, delta, gaussian, renyi, selection, few_share, basic, order)
