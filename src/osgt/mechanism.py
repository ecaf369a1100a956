"""Mechanism: calibrated noise added to numbers, and how far off it leaves them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from osgt.calibration import calibrate
from osgt.noise import Distribution, Family, IntegerDistribution, on_integers, scaled
from osgt.noise.error import Objective
from osgt.privacy import PrivacyProfile
from osgt.support.errors import ArgumentError
from osgt.support.numeric import (
    LARGEST_EXACT_FLOAT,
    LARGEST_FLOAT_SHIFT,
    LARGEST_SHIFT,
    LARGEST_VALUE,
    SMALLEST_FLOAT_SHIFT,
    can_be_drawn,
    confidence_level,
    real_number,
)
from osgt.support.text import Displayed

Values = Literal["integers", "floats"]

#: The grid of floats has between 2¹³ and 2¹⁴ steps to a shift: rounding the shift up to whole steps needs < 1/8000 more
#: noise.
_STEPS_PER_SHIFT_BITS = 14


@dataclass(frozen=True)
class FloatGrid:
    """Numbers that are whole multiples of `step`, a power of two; shift and noise are counted in steps."""

    step: float
    shift: int
    noise: IntegerDistribution

    def __post_init__(self) -> None:
        if not can_be_drawn(self.noise.potential):
            raise ValueError(
                "the noise that this budget needs is too large to be drawn: count in larger units, so that the shift "
                "is smaller, or use a larger ε"
            )


class Mechanism(Displayed):
    """Adds the noise of least error that the budget (ε, δ) allows.

    A mechanism is for integers or for floats, which is settled when it is made: nothing about its results but their
    values depends on the values that it is given. Integers stay integers, exactly. Floats are rounded to a grid whose
    step is a power of two and depends on the shift alone; the shift is counted in whole steps of it, so that the
    rounding is accounted for.

    Parameters
    ----------
    epsilon, delta
        The budget of one release.
    shift
        The most by which one person can change a value.
    coordinates
        The most values that one person can change. If a person changes more, the promise is that of
        `PrivacyProfile(mechanism.noise, shift, more)` and no longer the budget.
    values
        "integers" or "floats". If not given, the type of the shift decides: 1 is for integers, 1.0 for floats.
    objective, family
        What to minimise, and the family of the noise, as for `calibrate`.

    Examples
    --------
    >>> mechanism = Mechanism(1, 1e-6, coordinates=4)
    >>> noisy = mechanism.release([120, 75, 0])
    >>> noisy.dtype
    dtype('int64')
    >>> mechanism.interval(0.95)
    12
    >>> Mechanism(1, 1e-6, shift=0.5).release([3.5, 4]).dtype
    dtype('float64')
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        shift: float = 1,
        coordinates: int = 1,
        *,
        values: Values | None = None,
        objective: Objective = "variance",
        family: str | Family = "osgt",
    ) -> None:
        self.epsilon: float | None = real_number("epsilon", epsilon, positive=True)
        self.delta: float | None = real_number("delta", delta, positive=False)
        self.values = _values_of(shift) if values is None else values
        self.shift = _shift(shift, self.values)
        self.coordinates = coordinates
        step, steps = (1.0, int(self.shift)) if self.values == "integers" else _steps(self.shift)
        noise = calibrate(
            self.epsilon, self.delta, shift=steps, coordinates=coordinates, objective=objective, family=family
        )
        self._grid = FloatGrid(step, steps, on_integers(noise))

    @classmethod
    def of(cls, noise: Distribution, shift: float = 1, coordinates: int = 1) -> "Mechanism":
        """The mechanism with noise of your choice: `DiscreteOSGT` for integers, `OSGT` (on a grid) for floats."""
        PrivacyProfile(noise, shift, coordinates)  # checks the arguments
        mechanism = cls.__new__(cls)
        mechanism.epsilon = mechanism.delta = None
        mechanism.values = "integers" if noise.discrete else "floats"
        mechanism.shift, mechanism.coordinates = _shift(shift, mechanism.values), coordinates
        step, steps = (1.0, int(shift)) if noise.discrete else _steps(mechanism.shift)
        # The step is a power of two: nothing is rounded.
        mechanism._grid = FloatGrid(step, steps, on_integers(scaled(noise, 1.0 / step, discrete=True)))
        return mechanism

    @property
    def noise(self) -> IntegerDistribution:
        """The noise distribution, in units of `step`."""
        return self._grid.noise

    @property
    def step(self) -> float:
        """The step of the grid: what is released is a multiple of it. 1 for integers, a power of two for floats."""
        return self._grid.step

    @property
    def profile(self) -> PrivacyProfile:
        """The privacy loss of a release."""
        return PrivacyProfile(self._grid.noise, self._grid.shift, self.coordinates)

    def __repr__(self) -> str:
        budget = "" if self.epsilon is None else f"epsilon={self.epsilon:g}, delta={self.delta:g}, "
        return f"Mechanism({budget}shift={self.shift:g}, coordinates={self.coordinates}, noise={self.noise!r})"

    def release(self, values: Any) -> Any:
        """The values with fresh, exact noise, in the same shape: int64 from a mechanism for integers, else float64.

        Takes whatever NumPy makes an array of: a number, a list, an array, a column of pandas or polars. A mechanism
        for integers refuses every array of floats, whatever it holds; one for floats takes both. Masked arrays are
        refused, also those in which nothing is masked.

        Nothing is released, and nothing drawn, if a value is missing, not finite or too large. Such an error tells
        something about the values: see that there are none before the release.
        """
        array = _numbers(values)
        if self.values == "integers":
            return self._noisy(_whole(array))[()]
        return (self._noisy(_rounded(array, self.step)) * self.step)[()]

    def interval(self, confidence: float = 0.95) -> float:
        """The least half-width h with P[|noise| ≤ h] ≥ confidence, exactly: an integer for integers.

        It covers the noise; sampling, clipping and the rounding of floats to the grid (at most half a step) are not
        noise.
        """
        confidence = confidence_level(confidence)
        half_width = float(self.noise.isf((1.0 - confidence) / 2))
        return int(half_width) if self.values == "integers" else half_width * self.step

    def describe(self) -> str:
        """The promise in plain words."""
        people = f"changes at most {self.coordinates:,} of the values, each by at most {self.shift:g}"
        if self.epsilon is not None:
            promise = f"(ε, δ)-differential privacy with ε = {self.epsilon:.15g} and δ = {self.delta:.15g}"
        else:
            # All digits: rounding must not promise less loss than there is.
            promise = f"(ε, δ)-differential privacy with ε = {float(self.profile.epsilon(1e-6))!r} at δ = 1e-6"
        unit = "" if self.values == "integers" else f", in steps of {self.step:g}"
        return (
            f"One release has {promise}, for every person who {people}. "
            f"The noise is {self.noise!r}{unit}: symmetric around zero with a standard deviation of "
            f"{self.noise.std() * self.step:.4g}; 95 % of the values are off by at most {self.interval(0.95):g}, "
            f"99.9999 % by at most {self.interval(0.999999):g}. Errors of sampling, clipping or recording come on top. "
            "Every further release about the same people weakens the protection."
        )

    def _noisy(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        noise = np.asarray(self.noise.sample(steps.shape), dtype=np.int64)
        if noise.size and max(int(noise.max()), -int(noise.min())) >= LARGEST_VALUE:
            raise OverflowError("the noise does not fit into 62 bits: it is too large for 64-bit integers")
        return np.asarray(steps + noise)


def _values_of(shift: object) -> Values:
    return "floats" if isinstance(shift, Real) and not isinstance(shift, Integral) else "integers"


def _shift(shift: object, values: object) -> float:
    if values not in get_args(Values):
        raise ValueError(f'values must be "integers" or "floats", got {values!r}')
    number = real_number("shift", shift, positive=True)
    if values == "integers":
        if not 1 <= number <= LARGEST_SHIFT or number != int(number):
            raise ArgumentError(
                f"shift must be a whole number from 1 to 2**50 for integers, got {shift!r}", argument="shift"
            )
    elif not SMALLEST_FLOAT_SHIFT <= number <= LARGEST_FLOAT_SHIFT:
        raise ArgumentError(
            f"shift must be between {SMALLEST_FLOAT_SHIFT:g} and {LARGEST_FLOAT_SHIFT:g} for floats, got {shift!r}",
            argument="shift",
        )
    return number


def _steps(shift: float) -> tuple[float, int]:
    """The step of the grid of floats, and the shift in steps, rounded up: between 2¹³ and 2¹⁴."""
    step = math.ldexp(1.0, math.frexp(shift)[1] - _STEPS_PER_SHIFT_BITS)
    return step, math.ceil(shift / step)  # the division by a power of two is exact


def _numbers(values: Any) -> NDArray[Any]:
    """The values as an array of integers or floats."""
    if _is_masked(values):
        raise TypeError(
            "values must have no mask, under which there are numbers that nobody should see: decide what masked values "
            "stand for, as with filled(0), or leave them out with compressed()"
        )
    try:
        array = np.asarray(values)
        if not hasattr(values, "dtype") and array.dtype.kind == "f":
            array = _untyped(values, array)
        if array.dtype == object and not all(isinstance(value, Integral) for value in array.flat):
            raise TypeError  # fractions, strings and missing values must not become integers by the way
    except (TypeError, ValueError):
        raise TypeError(
            f"values must be numbers, all of one kind and none missing, got {type(values).__name__}"
        ) from None
    if array.dtype == object:
        try:
            array = array.astype(np.int64)
        except OverflowError:
            raise OverflowError("values must be integers within ±2⁶², got a larger one") from None
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(f"values must be integers or floats of at most 64 bits, got {array.dtype}")
    return array


def _is_masked(values: Any) -> bool:
    """Whether there is a masked array, which NumPy would take the mask from: these are the values, or among them."""
    if isinstance(values, np.ma.MaskedArray):
        return True
    if isinstance(values, np.ndarray):
        return values.dtype == object and any(_is_masked(value) for value in values.flat)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | range):
        return any(_is_masked(value) for value in values)
    # Others, such as the variables of a file, turn themselves into arrays.
    return hasattr(values, "__array__") and isinstance(np.asanyarray(values), np.ma.MaskedArray)


def _untyped(values: Any, floats: NDArray[Any]) -> NDArray[Any]:
    """Resolve values that NumPy makes floats of unasked: integers that fit no type, a mixture, or nothing at all."""
    given = np.asarray(values, dtype=object)
    whole = np.array([isinstance(value, Integral) for value in given.flat], dtype=bool)
    if whole.all():
        return given
    if np.any(np.abs(floats.reshape(-1)[whole]) > LARGEST_EXACT_FLOAT):
        raise OverflowError("values beyond ±2⁵³ must be all integers or all floats: a mixture loses digits")
    return floats


def _whole(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind == "f":
        raise TypeError(
            'this mechanism is for integers, and the values are floats: make one with values="floats" (or a shift that '
            "is a float), or round the values and hand over integers"
        )
    if array.size and max(int(array.max()), -int(array.min())) > LARGEST_VALUE:
        raise OverflowError("values must be integers within ±2⁶², got a larger one")
    return array.astype(np.int64)


def _rounded(array: NDArray[Any], step: float) -> NDArray[np.int64]:
    """The nearest whole number of steps, halves upward.

    Rounding this way commutes with whole steps and never swaps two values, so values that are at most n steps apart
    stay so. Halves must be told exactly for that: the fraction is compared with ½, not ½ added to the value.
    """
    if array.dtype.kind != "f" and array.size and max(int(array.max()), -int(array.min())) > LARGEST_EXACT_FLOAT:
        raise OverflowError("values must be floats, or integers within ±2⁵³, for this mechanism; got a larger integer")
    floats = array.astype(np.float64)
    if not np.all(np.isfinite(floats)):
        raise ValueError("values must be finite, got NaN or infinity: decide what they stand for before the release")
    largest = LARGEST_VALUE * step  # exact: a power of two
    if np.any(np.abs(floats) > largest):
        raise OverflowError(f"values must be within ±{largest!r} at this shift, got a larger one")
    steps = floats / step  # exact too, but for values that are nearly zero
    floor = np.floor(steps)
    return np.asarray(floor.astype(np.int64) + (steps - floor >= 0.5))
