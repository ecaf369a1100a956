"""Joint planning: the noise with the least error for one table or several that have one budget.

Each table measures what is best for it. One calibration then sets the noise of all that is measured. The same is done
for each end of the family by itself, and the best of all is used: over all columns of all tables the error is never
larger than with Gaussian or Laplace noise planned as well as that. An end that is not used is estimated, not proved.

What limits cut off is measured beside the groups, for a small part of the budget.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from osgt.calibration import JointNoise, Part, calibrate_joint
from osgt.calibration.compare import end_of_family, names_of_ends
from osgt.calibration.scale import ScaleSearch
from osgt.limits.rule import share_for_cut_off
from osgt.noise import DiscreteOSGT, Distribution, IntegerDistribution, on_integers, scaled
from osgt.plan.inputs import Noise, Planning, profile_of_all
from osgt.plan.schemes import Scheme
from osgt.privacy.estimate import Estimate
from osgt.support.search import least_that_fits

#: The noise of each table, in order.
Noises = tuple[Noise, ...]


@dataclass(frozen=True)
class JointPlanning:
    """Tables that are released together, all with the same objective, confidence and family."""

    tables: tuple[Planning, ...]

    def best(self, epsilon: float, delta: float) -> tuple[Noises, dict[str, Noises]]:
        """The noise with the least error, of all shapes; and that of each end of the family."""
        family, objective = self.tables[0].family, self.tables[0].objective
        searches: dict[Any, ScaleSearch] = {}

        def search(schemes: Sequence[Scheme]) -> ScaleSearch:
            """Share one search among the schemes that come to the same."""
            key = tuple((scheme.key, scheme.measured) for scheme in schemes)
            if key not in searches:
                searches[key] = ScaleSearch(self._joint(schemes), epsilon, delta)
            return searches[key]

        def end(name: str, *, proved: bool) -> Noises:
            """The noise with the least error at one end of the family, with schemes of its own."""
            return self._noises(own[name], end_of_family(name, search(own[name]), objective, proved=proved))

        schemes = [table.scheme(epsilon, delta) for table in self.tables]
        names = names_of_ends(family, delta, self._joint(schemes).parts)
        own = {name: [table.scheme_at(name) for table in self.tables] for name in names}
        best = self._noises(schemes, calibrate_joint(search(schemes), objective))
        ends = {name: end(name, proved=False) for name in own}
        for name, noises in ends.items():
            if self._as_shown(noises) < self._as_shown(best):
                ends[name] = end(name, proved=True)
                best = min(best, ends[name], key=self._as_shown)
        return best, ends

    def rough_parts(self, epsilon: float, delta: float) -> tuple[Part, ...]:
        """List the parts that a unit moves in the schemes that look best, weighted as the noise is shared out."""
        joint = self._joint([table.rough_scheme(epsilon, delta) for table in self.tables])
        return tuple(replace(part, weight=weight) for part, weight in zip(joint.parts, joint.weights, strict=True))

    def _joint(self, schemes: Sequence[Scheme]) -> JointNoise:
        return together([table.joint(scheme) for table, scheme in zip(self.tables, schemes, strict=True)])

    def _noises(self, schemes: Sequence[Scheme], laws: Sequence[Distribution]) -> Noises:
        """Give each table its own part of the distributions."""
        left = iter(laws)
        return tuple(
            table.noise(scheme, [next(left) for _ in scheme.measured])
            for table, scheme in zip(self.tables, schemes, strict=True)
        )

    def _as_shown(self, noises: Noises) -> tuple[float, float]:
        each = [table.as_shown(noise) for table, noise in zip(self.tables, noises, strict=True)]
        return math.fsum(shown for shown, _ in each), math.fsum(error for _, error in each)


def together(joints: Sequence[JointNoise]) -> JointNoise:
    """Join the parts and the columns of tables: a column of one has none of the parts of the others.

    Within a table the noise is shared out as for the table alone. Between tables it is so that the error of all is
    least: if that of a table is A·c² and its privacy loss L/c² with noise that is c times as large, Σ A·c² is least for
    a limit on Σ L/c² where c⁴ ∝ L/A, which is what weights that are A/L times as large come to.
    """
    if len(joints) == 1:
        return joints[0]
    columns, weights, before = [], [], 0
    whole = sum(len(joint.parts) for joint in joints)
    for joint in joints:
        after = whole - before - len(joint.parts)
        for column in joint.columns:
            padded = (Fraction(0),) * before + tuple(column.coefficients) + (Fraction(0),) * after
            columns.append(replace(column, coefficients=padded))
        before += len(joint.parts)
        error, loss = joint.error_and_loss()
        weights += [weight * error / loss for weight in joint.weights]
    parts = tuple(part for joint in joints for part in joint.parts)
    return replace(joints[0], parts=parts, columns=tuple(columns), given_weights=tuple(weights))


#: The logarithm of the noise is found to this.
_CLOSE = 0.005


def cut_off_share(tables: Iterable[Planning]) -> float:
    """The part of ε for measuring what limits cut off: more where intervals allow for it."""
    return max(
        share_for_cut_off(
            table.groups.public_group_count,
            moves_intervals=any(aggregate.counted(table.groups) is not None for aggregate in table.aggregates),
        )
        for table in tables
    )


def with_left_out(
    noises: Noises,
    ends: Mapping[str, Noises],
    parts: Sequence[Mapping[str, Part]],
    epsilon: float,
    delta: float,
    share: float,
) -> tuple[Noises, dict[str, Noises]]:
    """Add Laplace noise for further parts to the noise of tables, and make that smaller as far as both keep (ε, δ).

    The Laplace noise is ε'-differentially private, ε' being the `share` of ε, and the noise of the tables was
    calibrated for the rest: together they keep (ε, δ), and composed exactly there is some to spare.
    """
    tables = _Shrinking(noises, parts, epsilon, delta, share)
    if delta > 0:
        least = least_that_fits(
            tables.seems_to_fit, 0.0, step=_CLOSE, accuracy=_CLOSE, lowest=-tables.most, largest=0.0
        )
        factor = 0.0 if least is None else least
        while not tables.fits(factor):
            factor += _CLOSE
        tables.factor = factor
    scale = math.exp(tables.factor)
    return tables.at(tables.factor), {name: tuple(_scale(noise, scale) for noise in end) for name, end in ends.items()}


@dataclass
class _Shrinking:
    """The noise of tables, which is made smaller, beside Laplace noise for further parts."""

    noises: Noises
    parts: Sequence[Mapping[str, Part]]
    epsilon: float
    delta: float
    #: The part of ε for the further parts.
    share: float
    #: The logarithm of what the noise is multiplied by.
    factor: float = 0.0
    #: Where the last search for a saddle point ended; the next one begins there.
    tilt: float = 1.0

    @property
    def most(self) -> float:
        """The most that the logarithm may fall by: what the part of ε would make of Laplace noise."""
        return -math.log1p(-self.share)

    def at(self, factor: float) -> Noises:
        """The noises, made smaller by this, with that of the further parts."""
        return tuple(
            replace(_scale(noise, math.exp(factor)), extra_noise=extra)
            for noise, extra in zip(self.noises, self.extra, strict=True)
        )

    @cached_property
    def extra(self) -> list[dict[str, tuple[IntegerDistribution, Part]]]:
        """The Laplace noise of the further parts: the part of ε is shared out among them by their weights."""
        every = [part for own in self.parts for part in own.values()]
        whole = math.fsum(part.weight for part in every)

        def law(part: Part) -> IntegerDistribution:
            epsilon = self.share * self.epsilon * part.weight / whole * (1.0 - 1e-9)  # sums of these are rounded
            return DiscreteOSGT.laplace(part.equivalent(1.0) * part.shift / epsilon)

        return [{name: (law(part), part) for name, part in own.items()} for own in self.parts]

    def fits(self, factor: float) -> bool:
        """Whether all of it keeps (ε, δ): proved."""
        return float(profile_of_all(self.at(factor)).delta(self.epsilon, slack=1e-3)) <= self.delta

    def seems_to_fit(self, factor: float) -> bool:
        """Whether all of it keeps (ε, δ), by an estimate."""
        estimate = Estimate(*profile_of_all(self.at(factor)).pairs(), math.log(self.delta), self.tilt)
        fits = estimate.log_delta(self.epsilon) <= math.log(self.delta)
        self.tilt = estimate.tilt
        return fits


def _scale(noise: Noise, factor: float) -> Noise:
    """Make noise so many times as large."""
    laws = {measure: on_integers(scaled(law, factor)) for measure, law in noise.laws.items()}
    return replace(noise, laws=laws, error=noise.error * factor**2)
