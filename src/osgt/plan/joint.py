"""Joint planning: the noise with the least error for one table or several that have one budget.

Each table measures what is best for it. One calibration then sets the noise of all that is measured. The same is done
for each end of the family by itself, and the best of all is used: over all columns of all tables the error is never
larger than with Gaussian or Laplace noise planned as well as that. An end that is not used is estimated, not proved.

What limits leave out is measured beside the groups, for a small part of the budget: the columns get a little more noise
for it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from osgt.calibration import JointNoise, Part, calibrate_joint
from osgt.calibration.compare import end_of_family, names_of_ends
from osgt.calibration.scale import ScaleSearch
from osgt.noise import Distribution, IntegerDistribution, on_integers, scaled
from osgt.plan.inputs import Noise, Planning, profile_of_all
from osgt.plan.schemes import Scheme
from osgt.privacy.estimate import Estimate
from osgt.support.arrays import can_be_drawn
from osgt.support.search import least_that_fits

#: The noise of each table, in order.
Noises = tuple[Noise, ...]


@dataclass(frozen=True)
class JointPlanning:
    """Tables that are released together, all with the same objective, confidence and family."""

    tables: tuple[Planning, ...]

    def best(self, epsilon: float, delta: float, *, proved: bool = True) -> tuple[Noises, dict[str, Noises]]:
        """The noise with the least error, of all shapes; and that of each end of the family.

        Where more is to be measured, what is best need not be `proved` to meet the budget: all of it will be.
        """
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

        own = {name: [table.scheme_at(name) for table in self.tables] for name in names_of_ends(family, delta)}
        schemes = [table.scheme(epsilon, delta) for table in self.tables]
        best = self._noises(schemes, calibrate_joint(search(schemes), objective, proved=proved))
        ends = {name: end(name, proved=False) for name in own}
        for name, noises in ends.items():
            if self._as_shown(noises) < self._as_shown(best):
                ends[name] = end(name, proved=proved)
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


#: How much larger the variance of every column gets by measuring what is left out.
LEFT_OUT_SHARE = 0.02

#: The logarithm of the noise is found to this.
_CLOSE = 0.02

#: The largest logarithm that is tried.
_LARGEST = math.log(1e9)


def with_left_out(
    noises: Noises, ends: Mapping[str, Noises], parts: Sequence[Mapping[str, Part]], epsilon: float, delta: float
) -> tuple[Noises, dict[str, Noises]] | None:
    """Enlarge the noise of tables a little, and find the least noise for other parts with which all of it is (ε, δ).

    Each table has a mapping of such parts, which may be empty. None if that would be more noise than can be drawn.
    """
    search = _ExtraNoise(tuple(_larger(noise) for noise in noises), parts, epsilon, delta)
    # Proved where it matters, which is nearly always at the first place that the estimate leads to.
    least = least_that_fits(
        search.seems_to_fit if delta > 0 else search.fits,
        search.start,
        step=2.0 * _CLOSE,
        accuracy=_CLOSE,
        largest=_LARGEST,
    )
    while least is not None and not search.fits(least):
        least = least + _CLOSE if least < _LARGEST else None
    if least is None:
        return None
    shared = search.at(least)
    if not all(can_be_drawn(law.potential) for noise in shared for law, _ in noise.extra_noise.values()):
        return None
    return shared, {name: tuple(_larger(noise) for noise in end) for name, end in ends.items()}


@dataclass
class _ExtraNoise:
    """The noise of tables, with noise for further parts that is to be as small as the budget allows."""

    noises: Noises
    parts: Sequence[Mapping[str, Part]]
    epsilon: float
    delta: float
    #: Where the last search for a saddle point ended; the next one begins there.
    tilt: float = 1.0

    def at(self, log_factor: float) -> Noises:
        """The noises with that of the further parts, given the logarithm of its size."""
        factor = math.exp(log_factor) / self._model[1]

        def law(part: Part) -> IntegerDistribution:
            return on_integers(scaled(self._model[0], factor * part.shift / math.sqrt(part.weight)))

        return tuple(
            replace(noise, extra_noise={name: (law(part), part) for name, part in own.items()})
            for noise, own in zip(self.noises, self.parts, strict=True)
        )

    @cached_property
    def _model(self) -> tuple[IntegerDistribution, float]:
        """The noise with the largest shift, and that shift."""
        pairs = ((law, noise.parts[measure].shift) for noise in self.noises for measure, law in noise.laws.items())
        return max(pairs, key=lambda pair: pair[1])

    @property
    def start(self) -> float:
        """The logarithm of the size that would do with Gaussian noise, where what is free is Σ moved²/variance."""
        free = LEFT_OUT_SHARE * math.fsum(_cost(law, part) for noise in self.noises for law, part in noise.pairs)
        extra = [pair for noise in self.at(0.0) for pair in noise.extra_noise.values()]
        return 0.5 * math.log(math.fsum(_cost(law, part) for law, part in extra) / free)

    def fits(self, log_factor: float) -> bool:
        """Whether all of it keeps (ε, δ): proved."""
        profile = profile_of_all(self.at(log_factor))
        if self.delta == 0:
            return float(profile.epsilon(0.0)) <= self.epsilon
        return float(profile.delta(self.epsilon, slack=1e-3)) <= self.delta

    def seems_to_fit(self, log_factor: float) -> bool:
        """Whether all of it keeps (ε, δ), by an estimate."""
        estimate = Estimate(*profile_of_all(self.at(log_factor)).pairs(), math.log(self.delta), self.tilt)
        fits = estimate.log_delta(self.epsilon) <= math.log(self.delta)
        self.tilt = estimate.tilt
        return fits


def _larger(noise: Noise) -> Noise:
    factor = math.sqrt(1.0 + LEFT_OUT_SHARE)
    laws = {measure: on_integers(scaled(law, factor)) for measure, law in noise.laws.items()}
    return replace(noise, laws=laws, error=noise.error * (1.0 + LEFT_OUT_SHARE))


def _cost(law: IntegerDistribution, part: Part) -> float:
    return part.equivalent(2.0) * float(part.shift) ** 2 / law.potential.moments()[1]
