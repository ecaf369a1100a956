"""A budget: what the releases of a data set may give away in all, and how they are added up."""

import math
from dataclasses import dataclass
from typing import Any

from osgt.noise.parameters import real_number
from osgt.privacy import Charge, renyi
from osgt.privacy.conversion import log_delta

#: How releases are added up: by exact composition, or by the Rényi divergence of one order (a privacy filter).
COMPOSITIONS = ("exact", "renyi")

#: Rényi divergences are computed to far better than this, relative.
_MOMENT_MARGIN = 1e-9


@dataclass(frozen=True)
class Budget:
    """(ε, δ) and the composition.

    `rate` is the Rényi order less one, where the composition is "renyi": fixed when the data set is opened, since the
    proof wants it chosen before anything is released.
    """

    epsilon: float
    delta: float
    composition: str = "exact"
    rate: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"epsilon": self.epsilon, "delta": self.delta, "composition": self.composition, "rate": self.rate}

    def moment(self, charge: Charge) -> float:
        """log E[exp(rate·loss)] of a release: what it takes out of a Rényi budget, rounded up."""
        if self.rate is None:
            return 0.0
        parts = charge.profile.parts
        total = math.fsum(p.coordinates * renyi.log_moment(p.noise, p.shift, self.rate) for p in parts)
        return total * (1.0 + _MOMENT_MARGIN)

    def delta_of_moment(self, moment: float) -> float:
        """δ at the budget's ε for releases with this sum of moments."""
        assert self.rate is not None
        exponent = log_delta(moment, self.rate, self.epsilon)
        return min(math.exp(min(exponent, 0.0)) * (1.0 + _MOMENT_MARGIN), 1.0)

    def epsilon_of_moment(self, moment: float, delta: float) -> float:
        """ε at δ for releases with this sum of moments."""
        assert self.rate is not None
        if delta <= 0:
            return math.inf
        return max(log_delta(moment, self.rate, 0.0) - math.log(delta), 0.0) / self.rate * (1.0 + _MOMENT_MARGIN)


def new_budget(epsilon: object, delta: object, composition: str = "exact") -> Budget:
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
    if composition == "renyi":
        if chance == 0:
            raise ValueError('delta must be above 0 for composition="renyi": Rényi divergence proves no pure privacy')
        return Budget(loss, chance, composition, _best_rate(loss, chance))
    return Budget(loss, chance)


def _best_rate(epsilon: float, delta: float) -> float:
    """The order, less one, at which the budget allows most Gaussian noise: moments are rate·(1 + rate)·μ²/2 there."""

    def affordable(rate: float) -> float:
        # δ of the conversion is exp(moment - …): the largest moment with which it is still at most δ.
        return (math.log(delta) - log_delta(0.0, rate, epsilon)) / (rate * (1.0 + rate))

    return max((math.exp(0.02 * i) for i in range(-700, 1200)), key=affordable)
