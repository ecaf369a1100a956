"""Families of noise distributions: which there are, for a shape and a scale, and how one is written down and read back.

A family is known by its name to charges, statements and ledgers. Another one joins by `register`, or, so that programs
that do not know of it can read what was written, by an entry point of the group "osgt.noise_families" whose name is
that of the family.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from typing import Any

from osgt.noise.integer import IntegerDistribution, RoundedGaussian, RoundedPotential
from osgt.noise.potential import Potential, RealDistribution
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.numeric import positive

#: A noise distribution, on the reals or on the integers.
Distribution = RealDistribution | IntegerDistribution

ENTRY_POINTS = "osgt.noise_families"


@dataclass(frozen=True)
class End:
    """One end of a family: its name, and when it is better than the other one, in words."""

    name: str
    better_with: str


@dataclass(frozen=True)
class Family:
    """Distributions by shape and scale.

    The shape is a number u from 0 to 1. Error and privacy loss change smoothly with it, and 0 and 1 are the ends with
    which the others are compared.

    Parameters
    ----------
    name
        Under which the family is registered and its distributions are written down; a lower-case word.
    potential
        The class of its potentials, called with their parameters by name when one is read back.
    unit
        For a shape the potential whose distribution on the reals has the standard deviation 1.
    ends
        The ends at u = 0 and at u = 1. If only one of them has a bounded privacy loss it is the latter.
    real, integer
        From a potential to its distribution, where the family has classes of its own.
    """

    name: str
    potential: Callable[..., Potential]
    unit: Callable[[float], Potential]
    ends: tuple[End, End]
    real: Callable[[Any], RealDistribution] = RealDistribution
    integer: Callable[[Any], IntegerDistribution] = IntegerDistribution

    def distribution(self, potential: Potential, *, discrete: bool) -> Distribution:
        """The distribution with a potential of this family, on the integers or on the reals."""
        return self.integer(potential) if discrete else self.real(potential)

    def member(self, u: float, scale: float, *, discrete: bool) -> Distribution:
        """The distribution of shape u that has, on the reals, the standard deviation `scale`."""
        return self.distribution(self.unit(u).scaled(scale), discrete=discrete)


_registered: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Make a family known under its name, and return it."""
    if not isinstance(family, Family):
        raise ArgumentTypeError(
            f"family must be a Family, got {family!r} of type {type(family).__name__}", argument="family"
        )
    if not (family.name.isidentifier() and family.name == family.name.lower()):
        raise ValueError(f"the name of a family must be a lower-case word, got {family.name!r}")
    if len({family.name, *(end.name for end in family.ends)}) < 3:
        raise ValueError(f"the family {family.name!r} and its two ends must have different names")
    if _registered.setdefault(family.name, family) != family:
        raise ValueError(f"there is another noise family {family.name!r} already: give this one another name")
    return family


def registered() -> tuple[str, ...]:
    """The names of the families that are registered or installed."""
    return tuple(sorted({*_registered, *(point.name for point in entry_points(group=ENTRY_POINTS))}))


def family_of(family: "str | Family") -> Family:
    """The family with this name; a family itself is registered."""
    if isinstance(family, Family):
        return register(family)
    if not isinstance(family, str):
        raise ArgumentTypeError(
            f"family must be the name of a noise family or a Family, got {family!r}", argument="family"
        )
    if family not in _registered:
        for point in entry_points(group=ENTRY_POINTS, name=family):
            try:
                register(point.load())
            except Exception as error:
                raise ImportError(
                    f"the noise family {family!r} cannot be loaded from {point.value}: {error}"
                ) from error
    if family not in _registered:
        raise ValueError(
            f"there is no noise family {family!r}; known are {', '.join(registered())}. Install the package that "
            "brings it, or call osgt.noise.register"
        )
    return _registered[family]


def scaled(noise: Distribution, factor: float, *, discrete: bool | None = None) -> Distribution:
    """The distribution with noise `factor` times as large; on the same line, unless `discrete` says otherwise."""
    return _distribution(noise.potential.scaled(factor), discrete=noise.discrete if discrete is None else discrete)


def _distribution(potential: Potential, *, discrete: bool) -> Distribution:
    """The distribution with a potential of any family, or with that of a rounded Gaussian, which is of none."""
    if not isinstance(potential, RoundedPotential):
        return family_of(potential.family).distribution(potential, discrete=discrete)
    if not discrete:
        raise ArgumentTypeError("a rounded Gaussian is noise on the integers", argument="discrete")
    return RoundedGaussian.of(potential)


def on_integers(noise: Distribution) -> IntegerDistribution:
    """The distribution itself, which must be on the integers: only such noise is drawn."""
    if not isinstance(noise, IntegerDistribution):
        raise TypeError(f"only noise on the integers can be drawn exactly, got {noise!r}")
    return noise


def written(noise: Distribution) -> dict[str, Any]:
    """The distribution in plain values, for JSON: floats are read back exactly."""
    potential: Any = noise.potential
    parameters = {field.name: getattr(potential, field.name) for field in fields(potential)}
    return {"family": potential.family, "discrete": noise.discrete, **parameters}


def read(plain: Mapping[str, Any]) -> Distribution:
    """The distribution that `written` wrote."""
    if not isinstance(plain, Mapping):
        raise TypeError(f"this is no noise distribution that was written down: {plain!r}")
    parameters = dict(plain)
    name, discrete = parameters.pop("family"), parameters.pop("discrete")
    if not isinstance(discrete, bool):
        raise TypeError(f"discrete must be true or false, got {discrete!r}")
    potential = RoundedPotential if name == RoundedPotential.family else family_of(name).potential
    return _distribution(potential(**parameters), discrete=discrete)


#: What the margins of the accounting leave room for.
_LARGEST_TAIL_ERROR = 1e-13


def check_noise(noise: object) -> None:
    """Raise unless `noise` is a noise distribution that the accounting can work with."""
    if not isinstance(noise, Distribution):
        raise TypeError(
            "noise must be a noise distribution (an OSGT, a DiscreteOSGT or one of another family), got "
            f"{noise!r} of type {type(noise).__name__}"
        )
    if not 0 < noise.potential.tail_error <= _LARGEST_TAIL_ERROR:
        raise ValueError(f"tail_error of the family {noise.potential.family!r} must be at most {_LARGEST_TAIL_ERROR:g}")


def check_shift(noise: Distribution, value: object) -> float:
    """A shift > 0: an integer where the noise is on the integers."""
    number = positive("shift", value)
    if noise.discrete and (number != math.floor(number) or number > 2**53):
        raise ArgumentError(
            f"shift must be an integer from 1 to 2**53 for noise on the integers, got {value!r}", argument="shift"
        )
    return number
