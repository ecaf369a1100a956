"""Mechanism: calibrated noise added to numbers, and how far off it leaves them."""

import math
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.calibrate import calibrate
from osgt.limits import LARGEST_SHIFT, LARGEST_VALUE, SMALLEST_FLOAT_SHIFT
from osgt.noise import OSGT, DiscreteOSGT
from osgt.noise.error import Objective
from osgt.noise.parameters import real_number
from osgt.privacy import PrivacyProfile

#: The grid of floats has between 2¹³ and 2¹⁴ steps to a shift: rounding the shift up to whole steps costs < 1/8000.
_STEPS_PER_SHIFT_BITS = 14


@dataclass(frozen=True)
class Grid:
    """Numbers that are whole multiples of `step`, a power of two; shift and noise are counted in steps."""

    step: float
    shift: int
    noise: DiscreteOSGT


class Mechanism:
    """Adds the noise of least error that the budget (ε, δ) allows.

    Integers stay integers, exactly. Floats are rounded to a grid whose step is a power of two and depends on the shift
    alone, never on the values; the shift is counted in whole steps of it, so that the rounding is accounted for.

    Parameters
    ----------
    epsilon, delta
        The budget of one release.
    shift
        The most by which one person can change a value.
    coordinates
        The most values that one person can change. If a person changes more, the promise is that of
        `PrivacyProfile(mechanism.noise, shift, more)` and no longer the budget.
    objective
        What to minimise, as for `calibrate`.

    Examples
    --------
    >>> mechanism = Mechanism(1, 1e-6, coordinates=4)
    >>> noisy = mechanism.release([120, 75, 0])
    >>> noisy.dtype
    dtype('int64')
    >>> mechanism.interval(0.95)
    12
    """

    def __init__(
        self, epsilon: float, delta: float, shift: float = 1, coordinates: int = 1, *, objective: Objective = "variance"
    ) -> None:
        self.epsilon: float | None = real_number("epsilon", epsilon, positive=True)
        self.delta: float | None = real_number("delta", delta, positive=False)
        self.shift = _shift(shift)
        self.coordinates = coordinates
        self._objective = objective
        self._given: OSGT | None = None
        whole = self.shift == int(self.shift)
        self._integers = Grid(1.0, int(self.shift), self._calibrated(int(self.shift))) if whole else None
        self._main = self._integers or self._floats

    @classmethod
    def of(cls, noise: OSGT | DiscreteOSGT, shift: float = 1, coordinates: int = 1) -> "Mechanism":
        """The mechanism that adds a law of your choice: `DiscreteOSGT` to integers, `OSGT` (on a grid) to floats."""
        PrivacyProfile(noise, shift, coordinates)  # checks the arguments
        mechanism = cls.__new__(cls)
        mechanism.epsilon = mechanism.delta = None
        mechanism.shift, mechanism.coordinates = _shift(shift), coordinates
        mechanism._given = noise if isinstance(noise, OSGT) else None
        mechanism._integers = Grid(1.0, int(shift), noise) if isinstance(noise, DiscreteOSGT) else None
        mechanism._main = mechanism._integers or mechanism._floats
        return mechanism

    @property
    def noise(self) -> DiscreteOSGT:
        """The law of the noise, in units of 1 for an integer shift and in steps of the grid of floats otherwise."""
        return self._main.noise

    @property
    def profile(self) -> PrivacyProfile:
        """What a release gives away."""
        return PrivacyProfile(self._main.noise, self._main.shift, self.coordinates)

    def release(self, values: Any) -> Any:
        """The values with fresh, exact noise: int64 for integers, float64 (on the grid) for floats, of the same shape.

        Takes whatever NumPy makes an array of: a number, a list, an array, a column of pandas or polars. Nothing is
        released, and nothing drawn, if a value is missing, not finite or too large: the error says which.
        """
        array = _numbers(values)
        if self._integers is not None and array.dtype.kind != "f":
            return self._noisy(self._integers, _whole(array))[()]
        grid = self._floats
        return (self._noisy(grid, _rounded(array, grid.step)) * grid.step)[()]

    def interval(self, confidence: float = 0.95, *, floats: bool | None = None) -> float:
        """The least half-width h with P[|noise| ≤ h] ≥ confidence, exactly: an integer for integers.

        It covers the noise; sampling, clipping and the rounding of floats to the grid (at most half a step) are not
        noise. `floats` chooses between the two where the mechanism takes both: integers by default.
        """
        confidence = real_number("confidence", confidence, positive=True)
        if confidence >= 1:
            raise ValueError(f"confidence must be above 0 and below 1, got {confidence!r}")
        grid = self._floats if floats else self._main
        half_width = float(grid.noise.isf((1.0 - confidence) / 2))
        return int(half_width) if grid is self._integers else half_width * grid.step

    def describe(self) -> str:
        """The promise in plain words."""
        grid, people = self._main, f"changes at most {self.coordinates:,} of the values, each by at most {self.shift:g}"
        if self.epsilon is not None:
            promise = f"(ε, δ)-differential privacy with ε = {self.epsilon:.15g} and δ = {self.delta:.15g}"
        else:
            # All digits: rounding must not promise less loss than there is.
            promise = f"(ε, δ)-differential privacy with ε = {float(self.profile.epsilon(1e-6))!r} at δ = 1e-6"
        unit = "" if grid is self._integers else f", in steps of {grid.step:g}"
        return (
            f"One release has {promise}, for every person who {people}. "
            f"The noise is {grid.noise!r}{unit}: symmetric around zero with a standard deviation of "
            f"{grid.noise.std() * grid.step:.4g}; 95 % of the values are off by at most {self.interval(0.95):g}, "
            f"99.9999 % by at most {self.interval(0.999999):g}. Errors of sampling, clipping or recording come on top. "
            "Every further release about the same people adds to what is given away."
        )

    @cached_property
    def _floats(self) -> Grid:
        """The grid for floats: between 2¹³ and 2¹⁴ steps to a shift."""
        if self._integers is not None and self.epsilon is None:
            raise TypeError("this mechanism adds a law on the integers: give it integers, or make it of an OSGT law")
        step = math.ldexp(1.0, math.frexp(self.shift)[1] - _STEPS_PER_SHIFT_BITS)
        shift = math.ceil(self.shift / step)  # the division by a power of two is exact
        if self._given is not None:
            law = self._given
            return Grid(step, shift, DiscreteOSGT.from_rates(law.slope * step, law.curvature * step * step))
        return Grid(step, shift, self._calibrated(shift))

    def _calibrated(self, shift: int) -> DiscreteOSGT:
        assert self.epsilon is not None
        assert self.delta is not None
        law = calibrate(self.epsilon, self.delta, shift=shift, coordinates=self.coordinates, objective=self._objective)
        assert isinstance(law, DiscreteOSGT)
        return law

    @staticmethod
    def _noisy(grid: Grid, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        noise = np.asarray(grid.noise.sample(steps.shape), dtype=np.int64)
        if noise.size and max(int(noise.max()), -int(noise.min())) >= LARGEST_VALUE:
            raise OverflowError("the noise does not fit into 62 bits: it is too large for 64-bit integers")
        return np.asarray(steps + noise)


def _shift(shift: object) -> float:
    number = real_number("shift", shift, positive=True)
    if not SMALLEST_FLOAT_SHIFT <= number <= LARGEST_SHIFT:
        raise ValueError(f"shift must be between {SMALLEST_FLOAT_SHIFT:g} and {LARGEST_SHIFT:g}, got {shift!r}")
    return number


def _numbers(values: Any) -> NDArray[Any]:
    """The values as an array of integers or floats."""
    try:
        array = np.asarray(values)
        if array.dtype == object:
            if not all(isinstance(value, Integral) for value in array.flat):
                raise TypeError  # fractions, strings and missing values must not become integers by the way
            array = array.astype(np.int64)
    except OverflowError:
        raise OverflowError("values must be integers within ±2⁶², got a larger one") from None
    except (TypeError, ValueError):
        raise TypeError(
            f"values must be numbers, all of one kind and none missing, got {type(values).__name__}"
        ) from None
    if array.dtype.kind == "f" and not hasattr(values, "dtype"):
        if array.size == 0:
            return array.astype(np.int64)  # an empty list says nothing about its kind
        given = np.asarray(values, dtype=object).flat
        if np.any(np.abs(array) > 2**53) and any(isinstance(value, Integral) for value in given):
            raise OverflowError("values beyond ±2⁵³ must be all integers or all floats: a mixture loses digits")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(f"values must be integers or floats of at most 64 bits, got {array.dtype}")
    return array


def _whole(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.size and max(int(array.max()), -int(array.min())) > LARGEST_VALUE:
        raise OverflowError("values must be integers within ±2⁶², got a larger one")
    return array.astype(np.int64)


def _rounded(array: NDArray[Any], step: float) -> NDArray[np.int64]:
    """The nearest whole number of steps, halves upward.

    Rounding this way commutes with whole steps and never swaps two values, so values that are at most n steps apart
    stay so. Halves must be told exactly for that: the fraction is compared with ½, not ½ added to the value.
    """
    if array.dtype.kind != "f" and array.size and max(int(array.max()), -int(array.min())) > 2**53:
        raise OverflowError(
            "values must be integers within ±2⁵³ where the shift is not a whole number, got a larger one"
        )
    steps = array.astype(np.float64) / step  # exact: a power of two
    if not np.all(np.isfinite(steps)):
        raise ValueError("values must be finite, got NaN or infinity: decide what they stand for before the release")
    if np.any(np.abs(steps) > LARGEST_VALUE):
        raise OverflowError(f"values must be within ±{LARGEST_VALUE * step:g} at this shift, got a larger one")
    floor = np.floor(steps)
    return np.asarray(floor.astype(np.int64) + (steps - floor >= 0.5))
