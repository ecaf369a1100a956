"""Joint planning: the noise with the least error for one table or several that have one budget.

Each table measures what is best for it. One calibration then sets the noise of all that is measured. The same is done
for each end of the family by itself, and the best of all is used: over all columns of all tables the error is never
larger than with Gaussian or Laplace noise planned as well as that. An end that is not used is estimated, not proved.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from osgt.calibration import JointNoise, Part, calibrate_joint
from osgt.calibration.compare import end_of_family, names_of_ends
from osgt.noise import Law
from osgt.tables.planning import Noise, Planning
from osgt.tables.schemes import Scheme

#: The noise of each table, in order.
Noises = tuple[Noise, ...]


@dataclass(frozen=True)
class JointPlanning:
    """Tables that are released together, all with the same objective, confidence and family."""

    tables: tuple[Planning, ...]

    def best(self, epsilon: float, delta: float) -> tuple[Noises, dict[str, Noises]]:
        """The noise with the least error, of all shapes; and that of each end of the family."""
        family = self.tables[0].family
        best = self._calibrated(epsilon, delta)
        ends = {name: self._end(name, epsilon, delta, proved=False) for name in names_of_ends(family, delta)}
        for name, end in ends.items():
            if self._as_shown(end) < self._as_shown(best):
                ends[name] = self._end(name, epsilon, delta, proved=True)
                best = min(best, ends[name], key=self._as_shown)
        return best, ends

    def rough_parts(self, epsilon: float, delta: float) -> tuple[Part, ...]:
        """What a unit moves in the schemes that look best, weighted as the noise is shared out."""
        joint = self._joint([table.rough_scheme(epsilon, delta) for table in self.tables])
        return tuple(replace(part, weight=weight) for part, weight in zip(joint.parts, joint.weights, strict=True))

    def _calibrated(self, epsilon: float, delta: float) -> Noises:
        schemes = [table.scheme(epsilon, delta) for table in self.tables]
        laws = calibrate_joint(epsilon, delta, self._joint(schemes), self.tables[0].objective)
        return self._noises(schemes, laws)

    def _end(self, name: str, epsilon: float, delta: float, *, proved: bool) -> Noises:
        """The noise with the least error at one end of the family, with schemes of its own."""
        schemes = [table.scheme_at(name, epsilon, delta) for table in self.tables]
        joint = self._joint(schemes)
        laws = end_of_family(name, epsilon, delta, joint, self.tables[0].objective, proved=proved)
        return self._noises(schemes, laws)

    def _joint(self, schemes: Sequence[Scheme]) -> JointNoise:
        return together([table.joint(scheme) for table, scheme in zip(self.tables, schemes, strict=True)])

    def _noises(self, schemes: Sequence[Scheme], laws: Sequence[Law]) -> Noises:
        """Each table with its own part of the distributions."""
        left = iter(laws)
        return tuple(
            table.noise(scheme, [next(left) for _ in scheme.measured])
            for table, scheme in zip(self.tables, schemes, strict=True)
        )

    def _as_shown(self, noises: Noises) -> tuple[float, float]:
        each = [table.as_shown(noise) for table, noise in zip(self.tables, noises, strict=True)]
        return math.fsum(shown for shown, _ in each), math.fsum(error for _, error in each)


def together(joints: Sequence[JointNoise]) -> JointNoise:
    """All parts and all columns: a column of one table has none of the parts of the others.

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
