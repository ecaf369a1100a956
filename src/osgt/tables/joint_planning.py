"""Joint planning: the noise with the least error for one table or several that have one budget.

Each table measures what is best for it. One calibration then sets the noise of all that is measured. The same is done
for each end of the family by itself, and the best of all is used: over all columns of all tables the error is never
larger than with Gaussian or Laplace noise planned as well as that. An end that is not used is estimated, not proved.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from osgt.calibration import JointNoise, Part, calibrate_joint
from osgt.calibration.compare import end_of_family, names_of_ends
from osgt.calibration.scale import ScaleSearch
from osgt.noise import Law
from osgt.tables.planning import Noise, Planning
from osgt.tables.schemes import Scheme

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
            """That for schemes which come to the same is shared."""
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
        """What a unit moves in the schemes that look best, weighted as the noise is shared out."""
        joint = self._joint([table.rough_scheme(epsilon, delta) for table in self.tables])
        return tuple(replace(part, weight=weight) for part, weight in zip(joint.parts, joint.weights, strict=True))

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
