"""What a calibration chooses from: for each part of a release one noise distribution, all of one shape."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from osgt.noise import Family, Law, family_of
from osgt.noise.error import Objective, measure
from osgt.noise.parameters import real_number
from osgt.privacy import PrivacyProfile
from osgt.privacy.closed_forms import is_gaussian


@dataclass(frozen=True)
class Part:
    """Coordinates of one kind: each changes by at most `shift`, and one person changes at most `coordinates` of them.

    A part with a larger `weight` gets less noise: what is minimised is the sum over parts of weight·variance/shift²,
    or of weight·error/shift for the other objectives.
    """

    shift: float = 1
    coordinates: int = 1
    weight: float = 1.0


@dataclass(frozen=True)
class JointNoise:
    """The distributions for given parts: one number u in [0, 1] for their shape, and one for their scale.

    How the noise is shared out among the parts: let part i have the scale shift·t. If the privacy loss grows like
    Σ coordinates/t^q, the sum of weight·t^power is least where t ∝ (coordinates/weight)^(1/(power + q)). The Gaussian
    has q = 2, the Laplace next to its largest loss q = 1; between them `exponent` sets what is best, and q = 2 - u is
    taken as long as it is not set.
    """

    parts: tuple[Part, ...]
    discrete: bool
    family: Family
    power: int = 2
    exponent: float | None = None

    def relative_scales(self, u: float) -> list[float]:
        """Scales of the parts' noise against each other."""
        exponent = 1.0 / (self.power + 2.0 - u) if self.exponent is None else self.exponent
        ratios = [part.coordinates / part.weight for part in self.parts]
        typical = math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
        return [float(part.shift) * (r / typical) ** exponent for part, r in zip(self.parts, ratios, strict=True)]

    @property
    def exponents(self) -> tuple[float, float]:
        """The exponents that are best for the Gaussian and for the Laplace, between which the others lie."""
        return 1.0 / (self.power + 2.0), 1.0 / (self.power + 1.0)

    @property
    def is_uniform(self) -> bool:
        """Whether all exponents come to the same."""
        return len({part.coordinates / part.weight for part in self.parts}) == 1

    def is_bounded(self, u: float) -> bool:
        """Whether distributions of this shape have a largest privacy loss."""
        return math.isfinite(self.family.unit(u).largest_slope)

    def bounded_end(self) -> float:
        """The shape with a largest privacy loss, for budgets with δ = 0."""
        if not self.is_bounded(1.0):
            raise ValueError(
                f"delta must be above 0 for noise of the family {self.family.name!r}: its privacy loss has no limit"
            )
        return 1.0

    def is_gaussian(self, u: float) -> bool:
        """Whether shape u is the Gaussian, whose best exponent is known."""
        return is_gaussian(self.family.member(u, 1.0, discrete=False))

    def laws(self, u: float, scale: float) -> tuple[Law, ...]:
        """For each part the distribution of shape u and, on the reals, standard deviation scale·relative scale."""
        unit = self.family.unit(u)
        return tuple(
            self.family.law(unit.scaled(scale * relative), discrete=self.discrete)
            for relative in self.relative_scales(u)
        )

    def profile(self, u: float, scale: float) -> PrivacyProfile:
        """The privacy loss of all parts together."""
        pairs = zip(self.laws(u, scale), self.parts, strict=True)
        return PrivacyProfile.compose([PrivacyProfile(law, part.shift, part.coordinates) for law, part in pairs])

    def error(self, u: float, scale: float, objective: Objective) -> float:
        """Weighted sum of the errors, each in units of its part's shift."""
        error = measure(objective)
        pairs = zip(self.laws(u, scale), self.parts, strict=True)
        return math.fsum(part.weight * error(law) / part.shift**self.power for law, part in pairs)


def joint_noise(
    parts: Sequence[Part], *, discrete: bool, family: str | Family, objective: Objective = "variance"
) -> JointNoise:
    """What there is to choose from for these parts, or an error that names the argument at fault."""
    measure(objective)
    chosen = family_of(family)
    if not parts:
        raise ValueError("parts must name at least one Part, got none")
    any_law = chosen.member(0.0, 1.0, discrete=discrete)
    for part in parts:
        real_number("weight", part.weight, positive=True)
        # The profile checks shift and coordinates, in the words of their own arguments.
        PrivacyProfile(any_law, part.shift, part.coordinates)
    return JointNoise(tuple(parts), discrete, chosen, power=2 if objective == "variance" else 1)


def budget(epsilon: object, delta: object) -> tuple[float, float]:
    """Return ε and δ as floats that a calibration can work with, or say what is wrong with them."""
    loss, chance = real_number("epsilon", epsilon, positive=True), probability("delta", delta)
    if not 1e-9 <= loss <= 1e6:
        raise ValueError(f"epsilon must be between 1e-9 and 1e6, got {epsilon!r}")
    if 0 < chance < 1e-300:
        raise ValueError(f"delta must be 0, or at least 1e-300 and below 1, got {delta!r}")
    return loss, chance


def probability(name: str, value: object) -> float:
    """Return `value` as a float with 0 ≤ value < 1, or say what is wrong with it."""
    number = real_number(name, value, positive=False)
    if number >= 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {value!r}")
    return number
