"""Is a release, followed by Gauss(μ'), dominated by Gauss(μ) at every ε?

With g the loss of the release, δ of g ⊗ Gauss(μ') at ε is the mean of δ of Gauss(μ') at ε - loss. It is compared with δ
of Gauss(μ) on a grid of ε from 0 on, and between the grid's points by bounds on fourth derivatives. Negative ε need not
be looked at: all noise here is symmetric, and δ(-ε) = 1 - exp(-ε) + exp(-ε)·δ(ε) holds on both sides.

Every step errs on the safe side: g is a distribution that dominates the true loss (`release_loss`); losses within a bin
are expanded to the third order and the rest is bounded; rounding errors are added. Beyond the last ε, and for the
P-mass beyond the row of g, δ itself is charged to a leftover that is set aside for it.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from osgt.ledger import gauss
from osgt.ledger.release_loss import ReleaseLoss
from osgt.noise.mills import Floats

#: The most that one release may take of μ².
MOST = 1.0 - 1.0 / 64

#: Step of ε as a share of the smaller of μ' and 10.
_STEP = 0.0125

#: The longest table.
_LONGEST = 2**17

#: Rounding errors, relative: those of `gauss.curve` and of sums of positive terms are below 1e-12.
ROUNDING = 2e-12


@dataclass(frozen=True)
class Comparison:
    """A release and a μ, with all that does not depend on the μ' that is tried."""

    mu: float
    step: float  # of ε
    count: int  # ε goes from 0 to count·step
    first_bin: int
    stride: int  # of the bins
    bins: tuple[Floats, ...]  # of losses: Σ masses·(-rest)^k/k!, k = 0 … 3, or k = 0 alone if nothing rests
    thirds: Floats  # Σ masses·|rest|³/6
    fourths: Floats  # Σ masses·rest⁴/24
    error: float
    beyond: float
    leftover: float  # δ for what lies beyond the windows, for each unit of μ²
    goal: tuple[Floats, Floats]  # δ of Gauss(μ) and its derivative at the ε
    goal_fourth: Floats
    likely: float  # about the price

    @classmethod
    def of(cls, loss: ReleaseLoss, mu: float, leftover: float) -> "Comparison | None":
        """None if the release is too large, even alone, or too large to be compared on a grid."""
        likely = 2.0 * loss.mean
        if loss.total_variation > 2.0 * float(ndtr(0.5 * mu)) - 1.0:
            return None
        least = math.sqrt(max(mu**2 - 1.5 * likely, mu**2 / 16))
        step = _STEP * min(least, 10.0)
        aligned = loss.step > 0.5 * step
        stride = math.ceil(loss.step / step) if aligned else 1
        if aligned:
            step = loss.step / stride
        target = min(0.2 * leftover * min(likely, mu**2), 0.01)
        reach = mu * (0.5 * mu - float(ndtri(target)))
        count = math.ceil(reach / step)
        if count + len(loss.masses) * stride > _LONGEST:
            return None
        where = np.arange(len(loss.masses)) + loss.start if aligned else np.round(loss.losses / step).astype(np.int64)
        rest = np.zeros(len(where)) if aligned else loss.losses - where * step
        first, size = int(where[0]), int(where[-1] - where[0]) + 1

        def binned(weights: Floats) -> Floats:
            return np.asarray(np.bincount(where - first, weights=weights, minlength=size), dtype=np.float64)

        powers = range(1 if aligned else 4)
        bins = tuple(binned(loss.masses * (-rest) ** k / math.factorial(k)) for k in powers)
        epsilon = step * np.arange(count + 1, dtype=np.float64)
        delta, slope, _, _ = gauss.curve(mu, epsilon)
        return cls(
            mu,
            step,
            count,
            first * stride,
            stride,
            bins,
            binned(loss.masses * np.abs(rest) ** 3 / 6.0),
            binned(loss.masses * rest**4 / 24.0),
            loss.error,
            loss.beyond,
            leftover,
            (delta, slope),
            gauss.fourth(mu, epsilon, step),
            likely,
        )

    def _table(self) -> Floats:
        """ε less losses, wherever one is needed; losses may be too low by `error`."""
        size = (len(self.bins[0]) - 1) * self.stride + 1
        first = 1 - size - self.first_bin
        return self.step * np.arange(first, self.count - self.first_bin + 1, dtype=np.float64) - self.error

    def _averaged(self, values: Floats, weights: Floats) -> Floats:
        """E[value at ε - loss] for each ε, of values on the table."""
        if self.stride == 1:
            return np.convolve(values, weights, mode="valid")
        result = np.empty(self.count + 1)
        for offset in range(min(self.stride, self.count + 1)):
            row = np.convolve(values[offset :: self.stride], weights, mode="valid")
            result[offset :: self.stride] = row[: len(result[offset :: self.stride])]
        return result

    def missing(self, taken: float) -> float:
        """About how much must be added to a price for it to be proved; if none, or less than none, it is proved.

        Proved is that g ⊗ Gauss(√(μ² - taken)) is dominated by Gauss(μ), up to the leftover that it may use. At the
        grid's ε both sides and their slopes are known up to small errors. Between two of them the difference is a cubic
        up to step⁴/384 times its fourth derivative, and the cubic is not below its least Bernstein coefficient.
        """
        left = math.sqrt(self.mu**2 - taken) * (1.0 + 4e-16)
        table, step = self._table(), self.step
        curves = gauss.curve(left, table)
        fourth = gauss.fourth(left, table, 1.5 * step * (1.0 + 1e-9))  # ε moves by a step, a loss in its bin by half
        averaged = self._averaged
        value = np.sum([averaged(c, w) for c, w in zip(curves, self.bins, strict=False)], axis=0)
        slope = np.sum([averaged(c, w) for c, w in zip(curves[1:], self.bins, strict=False)], axis=0)
        bend = averaged(fourth, self.bins[0])
        slope_error = np.zeros_like(bend)
        if len(self.bins) > 1:
            value = value + averaged(fourth, self.fourths)
            slope_error = averaged(fourth, self.thirds)
        goal, goal_slope = self.goal
        slope_error = slope_error + ROUNDING * (np.abs(goal_slope) + np.abs(slope))
        above = goal - value - ROUNDING * goal
        tilt = (step / 3.0) * (goal_slope - slope)
        unsure = (step / 3.0) * slope_error
        least = np.minimum(
            np.minimum(above[:-1], above[1:]),
            np.minimum((above + tilt - unsure)[:-1], (above - tilt - unsure)[1:]),
        )
        needed = step**4 / 384.0 * (bend + self.goal_fourth)[:-1] * (1.0 + 1e-9)
        allowed = self.leftover * taken * (1.0 - 1e-9)
        outside = float(value[-1]) * (1.0 + ROUNDING) + self.beyond
        # The derivative in `taken` of δ of Gauss(√(μ² - taken)) is -C/2, with C = δ'' - δ'.
        rate = np.maximum(0.5 * (averaged(curves[2], self.bins[0]) - slope), 1e-300)
        missing = float(np.max((needed - least) / rate[:-1]))
        return max(missing, (outside - allowed) / (self.leftover + float(rate[-1])))

    def proves(self, taken: float) -> bool:
        """Whether a price is proved."""
        return 0 < taken <= MOST * self.mu**2 * (1.0 + 1e-9) and self.missing(taken) <= 0
