"""Draw the bin of a quantile by the exponential mechanism, exactly.

The cost of a bin is how far it is from holding the quantile: the steps of rank by which its lower edge lies above, or
its upper one below. A bin is drawn with probability ∝ exp(-a·cost/(2·max(p, 1 - p))), a being the slope of the Laplace
noise that is charged. docs/quantiles.md#one-quantile-without-an-interval proves that this loses no more.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from osgt.noise import DiscreteOSGT, IntegerDistribution
from osgt.query.quantiles import QuantileDraw
from osgt.sampling.entropy import ByteSource, system_entropy
from osgt.sampling.reference import bernoulli_exp, uniform_below
from osgt.support.numeric import Integers


def costs_of_bins(counts: list[int], level: Fraction) -> list[int]:
    """Compute the cost of each bin, in parts of a step: as many parts as the level has in its denominator."""
    below, total = [0], sum(counts)
    for number in counts:
        below.append(below[-1] + number)
    ranks = [level.denominator * rank - level.numerator * total for rank in below]
    return [max(lower, -upper, 0) for lower, upper in pairwise(ranks)]


def draw_bins(
    asked: QuantileDraw, counts: Integers, noise: IntegerDistribution, source: ByteSource = system_entropy
) -> Integers:
    """Draw the bin of each group, one row for each, from the exact counts of its bins and the noise it stands for."""
    if not isinstance(noise, DiscreteOSGT) or noise.curvature:
        raise TypeError(f"a quantile is drawn in place of Laplace noise alone, got {noise!r}")
    level, slope = asked.share, Fraction(noise.slope)
    rate = slope / (2 * max(level.numerator, level.denominator - level.numerator))
    drawn = [_draw(costs_of_bins(own, level), rate, source) for own in counts.tolist()]
    return np.array(drawn, dtype=np.int64)[:, None]


def _draw(costs: list[int], rate: Fraction, source: ByteSource) -> int:
    """Return i with probability ∝ exp(-rate·cost): uniform proposals are kept with exp(-rate·(cost - least))."""
    least = min(costs)
    while True:
        i = uniform_below(len(costs), source)
        if bernoulli_exp(rate * (costs[i] - least), source):
            return i
