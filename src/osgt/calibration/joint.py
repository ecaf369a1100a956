"""The choices of a calibration: for each part of a release one noise distribution, all of one shape."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from osgt.noise import OSGT, Distribution, Family, RoundedGaussian, family_of
from osgt.noise.error import Coefficient, Combination, Objective, measure
from osgt.privacy import PrivacyProfile
from osgt.privacy.renyi import is_gaussian
from osgt.support.errors import ArgumentError
from osgt.support.numeric import real_number

#: Steps between an even allocation and the one that is best for all columns together.
_STEPS = 16

#: Standard deviation from which on errors may be compared on the reals.
_SMOOTH_SCALE = 4.0


@dataclass(frozen=True)
class Part:
    """Coordinates of one kind: each changes by at most `shift`, and one person changes at most `coordinates` of them.

    With the same noise a person may change others less: `also` has further pairs (shift, coordinates). A part with a
    larger `weight` gets less noise: what is minimised is the sum over parts of weight·variance/shift², or of
    weight·(error/shift)² for the other objectives, unless there are columns.

    Where `euclidean`, a coordinate is a vector, and `shift` bounds the Euclidean norm of its change: it gets Gaussian
    noise, rounded to integers where noise is discrete, whatever the shape of the others. (One person exchanged for
    another moves it by √2 times the norm of one of them, by 2 times that if contributions have both signs.)
    """

    shift: float = 1
    coordinates: int = 1
    weight: float = 1.0
    also: tuple[tuple[float, int], ...] = ()
    euclidean: bool = False

    @property
    def moves(self) -> tuple[tuple[float, int], ...]:
        """The pairs (shift, coordinates), all of them."""
        return ((self.shift, self.coordinates), *self.also)

    def equivalent(self, q: float) -> float:
        """The equivalent number of coordinates at the full shift, where the loss grows like coordinates·shift^q."""
        return math.fsum(n * (shift / self.shift) ** q for shift, n in self.moves)


@dataclass(frozen=True)
class Column:
    """A column that is shown: the sum of the parts, each times its coefficient. Its error counts in units of `unit`."""

    coefficients: tuple[Coefficient, ...]
    unit: float = 1.0
    weight: float = 1.0


@dataclass(frozen=True)
class JointNoise:
    """The distributions for given parts: one number u in [0, 1] for their shape, and one for their scale.

    What is minimised is the sum of weight·(error/unit)² over the columns. So the variance of part i counts for
    aᵢ = Σ weight·coefficient²/unit².

    How the noise is shared out among the parts: let part i have the scale shift·t. If the privacy loss grows like
    Σ coordinates/t^q, the sum of a·shift²·t² is least where t ∝ (coordinates/(a·shift²))^(1/(2 + q)). The Gaussian
    has q = 2, the Laplace next to its largest loss q = 1; between them `exponent` sets what is best, and q = 2 - u is
    taken as long as it is not set.
    """

    parts: tuple[Part, ...]
    columns: tuple[Column, ...]
    discrete: bool
    family: Family
    exponent: float | None = None
    given_weights: tuple[float, ...] | None = None

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """The weights of the variances of the parts, in units of their shifts; computed unless they are given.

        Σ weight·coefficient²·shift²/unit² over the columns has the least error in all, but a column may pay for
        another. So the weights go from those of an even allocation, where a part counts as much as its heaviest column,
        as far toward these as no column loses.
        """
        if self.given_weights is not None:
            return self.given_weights
        even = [max(c.weight for c in self.columns if c.coefficients[i]) for i in range(len(self.parts))]
        best = [
            math.fsum(c.weight * share[i] for c, share in zip(self.columns, self._shares, strict=True))
            for i in range(len(self.parts))
        ]
        limits = self._variances(even)
        for step in range(_STEPS, 0, -1):
            weights = [e ** (1 - step / _STEPS) * b ** (step / _STEPS) for e, b in zip(even, best, strict=True)]
            if all(v <= limit * (1.0 + 1e-12) for v, limit in zip(self._variances(weights), limits, strict=True)):
                return tuple(weights)
        return tuple(even)

    def error_and_loss(self) -> tuple[float, float]:
        """Weighted variance and privacy loss against each other, for Gaussian noise that is shared out by the weights.

        With noise that is c times as large they are c² times and c⁻² times that.
        """
        moved = [part.equivalent(2.0) for part in self.parts]
        scales = [(n / weight) ** 0.25 for n, weight in zip(moved, self.weights, strict=True)]
        loss = math.fsum(n / scale**2 for n, scale in zip(moved, scales, strict=True))
        error = math.fsum(
            column.weight * a * scale**2
            for column, shares in zip(self.columns, self._shares, strict=True)
            for a, scale in zip(shares, scales, strict=True)
        )
        return error, loss

    @cached_property
    def _shares(self) -> list[list[float]]:
        """For each column the variance that a part brings whose noise has its shift as standard deviation."""
        return [
            [(float(c.coefficients[i]) * part.shift / c.unit) ** 2 for i, part in enumerate(self.parts)]
            for c in self.columns
        ]

    def _variances(self, weights: Sequence[float]) -> list[float]:
        """The variances of the columns against each other, for noise that is shared out by these weights.

        For a loss like that of the Gaussian and one like that of the Laplace, with the exponents that are tried.
        """
        result = []
        for q, exponent in ((2.0, 1 / 4), (2.0, 1 / 3), (1.0, 1 / 3)):
            moved = [part.equivalent(q) for part in self.parts]
            scales = [(n / weight) ** exponent for n, weight in zip(moved, weights, strict=True)]
            loss = math.fsum(n / scale**q for n, scale in zip(moved, scales, strict=True))
            for shares in self._shares:
                variance = math.fsum(a * scale**2 for a, scale in zip(shares, scales, strict=True))
                result.append(loss ** (2.0 / q) * variance)
        return result

    def relative_scales(self, u: float) -> list[float]:
        """Scales of the parts' noise against each other."""
        exponent = self.exponent_at(u)
        ratios = [part.equivalent(2.0 - u) / weight for part, weight in zip(self.parts, self.weights, strict=True)]
        typical = math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
        return [float(part.shift) * (r / typical) ** exponent for part, r in zip(self.parts, ratios, strict=True)]

    def exponent_at(self, u: float) -> float:
        """The exponent by which noise of shape u is shared out."""
        return 1.0 / (4.0 - u) if self.exponent is None else self.exponent

    def gaussian_cost(self, u: float) -> float:
        """The square of sensitivity/σ, for Gaussian noise with the relative scales as σ."""
        pairs = zip(self.parts, self.relative_scales(u), strict=True)
        return math.fsum(part.equivalent(2.0) * (part.shift / relative) ** 2 for part, relative in pairs)

    def laplace_cost(self, u: float) -> float:
        """The sum of moves over scales, for noise with the relative scales."""
        pairs = zip(self.parts, self.relative_scales(u), strict=True)
        return math.fsum(part.equivalent(1.0) * part.shift / relative for part, relative in pairs)

    #: The exponents that are best for the Gaussian and for the Laplace, between which the others lie.
    exponents: ClassVar[tuple[float, float]] = (1 / 4, 1 / 3)

    @property
    def is_uniform(self) -> bool:
        """Whether all exponents come to the same."""
        pairs = zip(self.parts, self.weights, strict=True)
        return len({(part.coordinates / weight, part.also) for part, weight in pairs}) == 1

    def is_bounded(self, u: float) -> bool:
        """Whether distributions of this shape have a largest privacy loss."""
        return is_bounded(self.family, u) and not any(part.euclidean for part in self.parts)

    def bounded_end(self) -> float:
        """The shape with a largest privacy loss, for budgets with δ = 0."""
        if not self.is_bounded(1.0):
            raise ArgumentError(
                f"delta must be above 0 for noise of the family {self.family.name!r} on these parts: its privacy loss "
                "has no limit",
                argument="delta",
            )
        return 1.0

    def is_gaussian(self, u: float) -> bool:
        """Whether shape u is the Gaussian, whose best exponent is known."""
        return is_gaussian(self.family.member(u, 1.0, discrete=False))

    def distributions(self, u: float, scale: float, *, discrete: bool | None = None) -> tuple[Distribution, ...]:
        """For each part the distribution of shape u and, on the reals, standard deviation scale·relative scale."""
        unit, whole = self.family.unit(u), self.discrete if discrete is None else discrete
        gaussian = RoundedGaussian if whole else OSGT.gaussian
        return tuple(
            gaussian(scale * relative)
            if part.euclidean
            else self.family.distribution(unit.scaled(scale * relative), discrete=whole)
            for part, relative in zip(self.parts, self.relative_scales(u), strict=True)
        )

    def profile(self, u: float, scale: float) -> PrivacyProfile:
        """The privacy loss of all parts together."""
        return profile_of(self.distributions(u, scale), self.parts)

    def error(self, u: float, scale: float, objective: Objective) -> float:
        """Σ weight·(error/unit)² over the columns."""
        return error_of(self.distributions(u, scale), self.columns, objective)

    def rough_error(self, u: float, scale: float, objective: Objective) -> float:
        """The error, on the reals where the noise is so large that this makes no difference: it takes less time."""
        smooth = scale * min(self.relative_scales(u)) > _SMOOTH_SCALE
        return error_of(self.distributions(u, scale, discrete=self.discrete and not smooth), self.columns, objective)

    def with_exponent(self, exponent: float) -> "JointNoise":
        """Share out the noise by another exponent."""
        other = replace(self, exponent=exponent)
        other.__dict__["weights"] = self.weights  # they do not depend on it, and take their time
        return other


def is_bounded(family: Family, u: float) -> bool:
    """Whether the distributions of this shape have a largest privacy loss."""
    return math.isfinite(family.unit(u).largest_slope)


def profile_of(noises: Sequence[Distribution], parts: Sequence[Part]) -> PrivacyProfile:
    """The privacy loss of noise on all parts."""
    return PrivacyProfile.compose(
        PrivacyProfile(noise, shift, n) for noise, part in zip(noises, parts, strict=True) for shift, n in part.moves
    )


def error_of(noises: Sequence[Distribution], columns: Sequence[Column], objective: Objective) -> float:
    """Σ weight·(error/unit)² over columns; the variance is the square of its error."""
    return math.fsum(
        column.weight * (noise_of(noises, column).error(objective) / column.unit) ** 2 for column in columns
    )


def noise_of(noises: Sequence[Distribution], column: Column) -> Combination:
    """The noise of a column."""
    return Combination(tuple((c, noise) for c, noise in zip(column.coefficients, noises, strict=True) if c))


def joint_noise(
    parts: Sequence[Part],
    *,
    discrete: bool,
    family: str | Family,
    objective: Objective = "variance",
    columns: Sequence[Column] | None = None,
) -> JointNoise:
    """Set up the joint noise of these parts, or raise an error that names the argument at fault."""
    measure(objective)
    chosen = family_of(family)
    if not parts:
        raise ValueError("parts must name at least one Part, got none")
    any_law = chosen.member(0.0, 1.0, discrete=discrete)
    for part in parts:
        real_number("weight", part.weight, positive=True)
        # The profile checks shift and coordinates, in the words of their own arguments.
        profile_of([RoundedGaussian(1.0) if part.euclidean else any_law], [part])
    if columns is None:
        columns = [
            Column(tuple(Fraction(i == j) for j in range(len(parts))), float(part.shift), part.weight)
            for i, part in enumerate(parts)
        ]
    for i in range(len(parts)):
        if not any(column.coefficients[i] for column in columns):
            raise ValueError(f"columns must use every part; none uses number {i}")
    return JointNoise(tuple(parts), tuple(columns), discrete, chosen)


def budget(epsilon: object, delta: object) -> tuple[float, float]:
    """Return ε and δ as floats that a calibration can work with, or say what is wrong with them."""
    loss, chance = real_number("epsilon", epsilon, positive=True), probability("delta", delta)
    if not 1e-9 <= loss <= 1e6:
        raise ArgumentError(f"epsilon must be between 1e-9 and 1e6, got {epsilon!r}", argument="epsilon")
    if 0 < chance < 1e-300:
        raise ArgumentError(f"delta must be 0, or at least 1e-300 and below 1, got {delta!r}", argument="delta")
    return loss, chance


def probability(name: str, value: object) -> float:
    """Return `value` as a float with 0 ≤ value < 1, or say what is wrong with it."""
    number = real_number(name, value, positive=False)
    if number >= 1:
        raise ArgumentError(f"{name} must be at least 0 and below 1, got {value!r}", argument=name)
    return number
