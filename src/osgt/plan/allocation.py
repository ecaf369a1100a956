"""The allocation of one budget to tables: the least error of all, and for none more than with its own part of it.

Within a table the noise is shared out as for the table alone. Between tables a weight decides: the larger it is, the
less noise. A number that several tables share counts for all margins that it tells about.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from osgt.calibration import JointNoise
from osgt.plan.inputs import Noise, Planning
from osgt.plan.schemes import Scheme, is_alike
from osgt.plan.structure import Margins, Structure, adds_up
from osgt.query.groups import Level, Total
from osgt.query.measures import Measure

#: Steps toward the weights of what tables share, and the least part of its own weight that a number keeps.
_STEPS, _LEAST = 60, 1e-4


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


@dataclass(frozen=True)
class Shared:
    """A number that tables share: the levels of a set of tables in which it is measured, and its parts there."""

    margins: Margins
    #: For each measured level, by its place among all, the table and the number that is measured.
    measured: Mapping[int, tuple[int, Measure]]

    def weights(self, weights: Sequence[float], power: float) -> list[float]:
        """Weigh the variance of each measured number, given the weight of that of each estimate.

        With weights a and noise of variance a^(-2/(2 + power)) the derivatives of the error by the variances are these
        weights again: this is the noise with which the error of all is least.
        """
        result = [*weights]
        for _ in range(_STEPS):
            variances = [weight ** (-2.0 / (2.0 + power)) for weight in result]
            shares = self.margins.shares(dict(zip(self.measured, variances, strict=True)), weights)
            result = [
                max(math.sqrt(before * share), _LEAST * own)
                for before, share, own in zip(result, shares, weights, strict=True)
            ]
        return result

    def narrowed(self, variances: Sequence[float]) -> list[float]:
        """The variance of each estimate over that of its own measured number."""
        squares = self.margins.least_squares(dict(zip(self.measured, variances, strict=True)))
        return [float(after[0]) / own for after, own in zip(squares.variances_of_estimates, variances, strict=True)]


#: For each table, what its aggregates count for; nothing where all count as they do.
Factors = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Allocation:
    """Tables with one budget: the places of those that agree, and the least part of the budget of each."""

    tables: tuple[Planning, ...]
    sets: tuple[tuple[int, ...], ...]

    @cached_property
    def _margins(self) -> list[Margins]:
        return [Margins(tuple(Structure(self.tables[i].groups) for i in places)) for places in self.sets]

    def joint(self, schemes: Sequence[Scheme], factors: Factors, power: float) -> JointNoise:
        """Set up the calibration of all tables; `factors` has how many times more each aggregate counts."""
        every = zip(self.tables, schemes, factors or [()] * len(self.tables), strict=True)
        joint = together([table.joint(scheme, own) for table, scheme, own in every])
        if not self.sets:
            return joint
        weights, first = [*joint.weights], self._first(schemes)
        for shared in self.shared(schemes):
            places = [first[table] + schemes[table].measured.index(m) for table, m in shared.measured.values()]
            own = shared.weights([weights[place] for place in places], power)
            for place, weight in zip(places, own, strict=True):
                weights[place] = weight
        return replace(joint, given_weights=tuple(weights))

    def _first(self, schemes: Sequence[Scheme]) -> list[int]:
        """The place of the first part of each table."""
        return [sum(len(scheme.measured) for scheme in schemes[:i]) for i in range(len(schemes))]

    def shared(self, schemes: Sequence[Scheme]) -> Iterator[Shared]:
        """The numbers that tables share, each once."""
        for places, margins in zip(self.sets, self._margins, strict=True):
            for number in dict.fromkeys(m for i in places for m in schemes[i].measured):
                if not adds_up(number) or isinstance(number, Total):
                    continue
                measured: dict[int, tuple[int, Measure]] = {}
                for entry, (at, level) in enumerate(margins.entries):
                    table = places[at]
                    own = _on(number, level)
                    if is_alike(self.tables[table].groups, number) and own in schemes[table].measured:
                        measured[entry] = table, own
                if len({table for table, _ in measured.values()}) > 1:
                    yield Shared(margins, measured)

    def narrowed(self, noises: Sequence[Noise]) -> list[float]:
        """The error of each table that least squares over what it shares leave: a part of its error without."""
        ratios: list[dict[Measure, float]] = [{} for _ in self.tables]
        for shared in self.shared([noise.scheme for noise in noises]):
            pairs = [*shared.measured.values()]
            variances = [noises[table].laws[m].var() for table, m in pairs]
            if min(variances) > 0:
                for (table, m), ratio in zip(pairs, shared.narrowed(variances), strict=True):
                    ratios[table][m] = ratio
        return [
            _narrowed(table.joint(noise.scheme), noise, own) if own else 1.0
            for table, noise, own in zip(self.tables, noises, ratios, strict=True)
        ]


def _on(measure: Measure, level: Level | None) -> Measure:
    return measure if level is None else Total(measure, level)


def _narrowed(joint: JointNoise, noise: Noise, ratios: Mapping[Measure, float]) -> float:
    """The weighted variance of the columns of a table, with the part of each number's variance that is left."""
    laws = [(law.var(), ratios.get(measure, 1.0)) for measure, law in noise.laws.items()]
    left = whole = 0.0
    for column in joint.columns:
        for coefficient, (variance, ratio) in zip(column.coefficients, laws, strict=True):
            counts = column.weight * (float(coefficient) / column.unit) ** 2 * variance
            left, whole = left + counts * ratio, whole + counts
    return left / whole if whole else 1.0
