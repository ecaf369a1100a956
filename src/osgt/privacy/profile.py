"""PrivacyProfile: the privacy loss of one or many releases; Charge: all that a release takes out of a budget."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from osgt.noise import OSGT, Distribution, RealDistribution, RoundedGaussian, read, written
from osgt.noise.family import check_noise, check_shift
from osgt.privacy import composition, renyi
from osgt.privacy.dp_accounting import dp_event, privacy_loss_distribution
from osgt.privacy.loss_distribution import TINY
from osgt.privacy.pair import Pair, pair_delta, pair_delta_below, pair_epsilon, pair_of
from osgt.privacy.renyi import is_gaussian
from osgt.support import numeric
from osgt.support.errors import ArgumentError
from osgt.support.numeric import Floats, real_number
from osgt.support.text import Displayed, views

if TYPE_CHECKING:
    from osgt.privacy.l2 import EuclideanProfile


#: How far δ may be above its least value, relatively, where nothing is asked for.
SLACK = 1e-4


def before_rounding(noise: Distribution) -> Distribution:
    """The noise that is accounted for: of a rounded Gaussian the Gaussian, of which it is post-processing."""
    return OSGT.from_rates(0.0, noise.potential.curvature) if isinstance(noise, RoundedGaussian) else noise


@dataclass(frozen=True)
class NoisyPart:
    """Equal coordinates of a release: a distribution, the most by which a person moves one of them, and how many move.

    A profile is a tuple of these; they are all that needs to be stored.
    """

    noise: Distribution
    shift: float
    coordinates: int

    def __post_init__(self) -> None:
        check_noise(self.noise)
        object.__setattr__(self, "noise", before_rounding(self.noise))
        object.__setattr__(self, "shift", check_shift(self.noise, self.shift))
        object.__setattr__(self, "coordinates", numeric.count("coordinates", self.coordinates))


@dataclass(frozen=True, init=False)
class PrivacyProfile(Displayed):
    """The privacy loss of noise on `coordinates` numbers, if one person changes each of them by at most `shift`.

    All figures are upper bounds on the loss of privacy (lower bounds on errors of tests), and tight: for one coordinate
    exact, for more within `slack` (relative, in δ; docs/accounting.md names the exceptions). Smaller changes, and
    changes of fewer coordinates, lose less.
    Profiles add up: `a + b` is the profile of publishing both.

    Parameters
    ----------
    noise
        `OSGT` or `DiscreteOSGT`, or a distribution of another family; `RoundedGaussian` counts as the Gaussian.
    shift
        Largest change of one coordinate, > 0; an integer for noise on the integers. With noise that is Gaussian, or
        rounded so, it may be the largest Euclidean norm of the change of a vector, which counts as one coordinate.
    coordinates
        Number of coordinates that one person can change.

    Examples
    --------
    >>> profile = PrivacyProfile(OSGT(15, 630**0.5), coordinates=8)
    >>> f"{profile.delta(0.9):.2e}"
    '1.67e-15'
    >>> round(float(profile.epsilon(1e-10)), 2)
    0.73
    """

    parts: tuple[NoisyPart, ...]

    def __init__(self, noise: Distribution, shift: float = 1, coordinates: int = 1) -> None:
        object.__setattr__(self, "parts", (NoisyPart(noise, shift, coordinates),))

    @classmethod
    def compose(cls, profiles: Iterable["PrivacyProfile"]) -> "PrivacyProfile":
        """The profile of publishing all of them, about the same person and in any, even adaptive, order."""
        counts: dict[tuple[Distribution, float], int] = {}
        for profile in profiles:
            if not isinstance(profile, PrivacyProfile):
                raise TypeError(f"profiles must be PrivacyProfile objects, got {profile!r}")
            for part in profile.parts:
                key = (part.noise, part.shift)
                counts[key] = counts.get(key, 0) + part.coordinates
        if not counts:
            raise ValueError("profiles must hold at least one PrivacyProfile, got none")
        return cls.of(NoisyPart(noise, shift, n) for (noise, shift), n in counts.items())

    @classmethod
    def of(cls, parts: Iterable[NoisyPart]) -> "PrivacyProfile":
        """The profile with these parts, put into one order so that equal compositions are equal."""
        profile = cls.__new__(cls)
        ordered = tuple(parts)
        object.__setattr__(profile, "parts", tuple(sorted(ordered, key=_order)) if len(ordered) > 1 else ordered)
        return profile

    @staticmethod
    def l2(noise: Distribution, radius: float, dimensions: int) -> "EuclideanProfile":
        """Make the profile of a change of which only the Euclidean norm is known, to be at most `radius`."""
        from osgt.privacy.l2 import EuclideanProfile  # noqa: PLC0415 - it uses this class

        return EuclideanProfile(noise, radius, dimensions)

    def __add__(self, other: "PrivacyProfile") -> "PrivacyProfile":
        if not isinstance(other, PrivacyProfile):
            return NotImplemented
        return PrivacyProfile.compose([self, other])

    def delta(self, epsilon: ArrayLike, *, slack: float = SLACK) -> Any:
        """Smallest δ for which (ε, δ)-differential privacy is proved, for ε ≥ 0.

        Parameters
        ----------
        slack
            How far above the exact value the result may lie, relative to it, where there are several coordinates.
        """
        values = numeric.epsilons(epsilon)
        slack = numeric.slack(slack)
        pairs, counts = self.pairs()
        flat = values.ravel()
        result = np.zeros(len(flat))
        pure = self._pure_loss()
        open_ = np.array([pure is None or Fraction(float(e)) < pure for e in flat], dtype=bool)
        if np.any(open_):
            one = len(pairs) == 1 and counts[0] == 1
            at = flat[open_]
            largest = math.inf if pure is None else float_above(pure)
            result[open_] = pair_delta(pairs[0], at) if one else composition.deltas(pairs, counts, at, slack, largest)
            result[open_] = np.maximum(result[open_], TINY)
        return result.reshape(values.shape)[()]

    def delta_interval(self, epsilon: float, *, slack: float = SLACK) -> tuple[float, float]:
        """A lower and an upper bound on the least δ, both proved: the true one lies between them.

        The upper bound is `delta`. Both are within about `slack` of each other, relative to δ, where the lower one is
        computed on a grid that is long enough (docs/accounting.md).
        """
        at = float(numeric.epsilons(epsilon))
        upper = float(self.delta(at, slack=slack))
        pairs, counts = self.pairs()
        if len(pairs) == 1 and counts[0] == 1:
            lower = pair_delta_below(pairs[0], at)
        else:
            pure = self._pure_loss()
            done = pure is not None and Fraction(at) >= pure
            lower = 0.0 if done else composition.delta_below(pairs, counts, at, slack, upper)
        return min(lower, upper), upper

    def epsilon(self, delta: ArrayLike, *, slack: float = SLACK) -> Any:
        """Smallest ε for which (ε, δ)-differential privacy is proved.

        `self.delta` of it is at most δ; for more than eight unlike parts, composed only once, up to the slack.

        δ = 0 asks for pure differential privacy, which only the Laplace end of the family gives: infinite elsewhere.
        """
        values = numeric.deltas(delta)
        slack = numeric.slack(slack)
        result = np.array([self._epsilon(float(d), slack) for d in values.ravel()], dtype=np.float64)
        return result.reshape(values.shape)[()]

    def epsilon_interval(self, delta: float, *, slack: float = SLACK) -> tuple[float, float]:
        """A lower and an upper bound on the least ε, both proved: the true one lies between them.

        The upper bound is `epsilon`. At the lower one δ is proved to be larger than the one given.
        """
        allowed = float(numeric.deltas(delta))
        upper = float(self.epsilon(allowed, slack=slack))
        if allowed == 0:
            pure = self._pure_loss()
            return (upper if pure is None else -float_above(-pure)), upper
        if math.isinf(upper):  # δ is below what floats tell apart
            return self.epsilon_interval(TINY, slack=slack)[0], upper
        one = sum(part.coordinates for part in self.parts) == 1
        first = (2.0**-40 if one else 0.02 * slack) * upper
        return epsilon_below(lambda at: self.delta_interval(at, slack=slack)[0], allowed, upper, first), upper

    def _epsilon(self, delta: float, slack: float) -> float:
        pure = self._pure_loss()
        largest = math.inf if pure is None else float_above(pure)
        if delta == 0:
            return largest
        if delta < TINY:
            return min(largest, self._epsilon(TINY, slack)) if largest < math.inf else math.inf
        pairs, counts = self.pairs()
        if len(pairs) == 1 and counts[0] == 1:
            return min(pair_epsilon(pairs[0], delta), largest)
        return composition.epsilon(pairs, counts, delta, slack, largest)

    def renyi(self, alpha: ArrayLike) -> Any:
        """Rényi divergence of order α > 1, rounded up by at most 2e-12 of itself."""
        orders = numeric.orders(alpha)
        total = sum(part.coordinates * renyi.divergence(part.noise, part.shift, orders) for part in self.parts)
        return np.asarray(total * (1.0 + 2.0**-52 * (len(self.parts) + 1)))[()]

    def zcdp(self, alpha: ArrayLike) -> Any:
        """Theorem 2 of the paper: the bound α·Σ Δ²/2σ² + ζ(α) on the Rényi divergence, ζ(α) = constant/(α - 1).

        As α → 1 the bound grows without limit unless the noise is Gaussian (the divergence itself does not); as
        α → ∞ it approaches the Gaussian's α·Σ Δ²/2σ² with the family's σ, which exceeds the standard deviation. At
        the Laplace end σ is infinite and so is the constant: the bound says nothing there. For `DiscreteOSGT` the
        constant is the one that the same proof gives on the integers.
        """
        orders = numeric.orders(alpha)
        total = sum(part.coordinates * renyi.theorem_2(part.noise, part.shift, orders) for part in self.parts)
        return np.asarray(total)[()]

    def delta_from_renyi(self, epsilon: ArrayLike) -> Any:
        """δ from the Rényi divergence, the best over all orders: a valid bound, larger than `delta`."""
        values = numeric.epsilons(epsilon)
        result = [renyi.delta(self._log_moment, float(e)) for e in values.ravel()]
        return np.array(result, dtype=np.float64).reshape(values.shape)[()]

    def _log_moment(self, s: float) -> float:
        return sum(p.coordinates * renyi.log_moment(p.noise, p.shift, s) for p in self.parts)

    def tradeoff(self, type_1_error: ArrayLike) -> Any:
        """Least type II error of any test for the person's presence that has the given type I error (f-DP).

        Exact for one coordinate; for more a lower bound, from δ at many ε.
        """
        errors = numeric.probabilities("type_1_error", type_1_error)
        if len(self.parts) == 1 and self.parts[0].coordinates == 1:
            return tradeoff_of_one(self.parts[0].noise, self.parts[0].shift, errors)[()]
        return tradeoff(self, errors)[()]

    @property
    def mu(self) -> float:
        """The μ of the Gaussian-DP that the profile approaches under many compositions.

        It is √(Σ coordinates·shift²·information).

        The information is Fisher's on the reals. On the integers it is the symmetrised divergence of a unit shift,
        which approaches Fisher's as the scale grows and is 1/σ² for the discrete Gaussian.
        """
        return math.sqrt(sum(p.coordinates * p.shift**2 * renyi.information(p.noise) for p in self.parts))

    def plot(self, axes: Any = None) -> Any:
        """Draw δ against ε. Returns the axes of Matplotlib: those given, or new ones."""
        return views().plot(self, axes)

    def to_dp_accounting(self, *, interval: float = 1e-4) -> Any:
        """The profile as a pessimistic `PrivacyLossDistribution` of Google's dp-accounting library."""
        pairs = [pair_of(p.noise, p.shift) for p in self.parts]
        coordinates = [p.coordinates for p in self.parts]
        return privacy_loss_distribution(pairs, coordinates, numeric.positive("interval", interval))

    def to_dp_event(self) -> Any:
        """The profile as a `DpEvent` of Google's dp-accounting library.

        It has events for Gaussian, Laplace and discrete Laplace noise alone; `to_dp_accounting` takes every noise.
        """
        return dp_event([(p.noise, p.shift, p.coordinates) for p in self.parts])

    def pairs(self) -> tuple[list[Pair], list[int]]:
        """Pairs and how many of each. All Gaussian coordinates are one, by rotation."""
        gaussian = [(p, p.noise.curvature) for p in self.parts if is_gaussian(p.noise)]
        others = [p for p in self.parts if not is_gaussian(p.noise)]
        pairs, counts = [pair_of(p.noise, p.shift) for p in others], [p.coordinates for p in others]
        if gaussian:
            squares = [p.coordinates * Fraction(p.shift) ** 2 * Fraction(curvature) for p, curvature in gaussian]
            mu = math.sqrt(float_above(sum(squares, Fraction(0))))
            first = gaussian[0][0]
            alone = len(gaussian) == 1 and first.coordinates == 1
            pairs.append(
                pair_of(first.noise, first.shift)
                if alone
                else pair_of(OSGT.gaussian(1.0), math.nextafter(mu, math.inf))
            )
            counts.append(1)
        return pairs, counts

    def _pure_loss(self) -> Fraction | None:
        """Largest loss there can be, exactly; None where there is no such."""
        total = Fraction(0)
        for part in self.parts:
            slope = part.noise.potential.largest_slope
            if math.isinf(slope):
                return None
            total += part.coordinates * Fraction(part.shift) * Fraction(slope)
        return total

    def __repr__(self) -> str:
        texts = [f"PrivacyProfile({p.noise!r}, shift={p.shift:g}, coordinates={p.coordinates})" for p in self.parts]
        return " + ".join(texts)


def _order(part: NoisyPart) -> tuple[object, ...]:
    return (*written(part.noise).values(), part.shift)


def float_above(value: Fraction) -> float:
    """The least float that is not smaller."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def float_below(value: Fraction) -> float:
    """The largest float that is not larger."""
    return 0.0 - float_above(-value)  # of 0 it is 0, not -0


#: How often the place between an ε that is too small and one of which nothing is proved is halved.
_BISECTIONS = 4


def epsilon_below(delta_below: Callable[[float], float], delta: float, upper: float, distance: float) -> float:
    """The largest ε found, from 0 to `upper`, at which a lower bound on δ exceeds the δ given; 0 if there is none.

    The true ε is larger than that: δ falls with ε, and is at most the one given there. `distance` is how far below
    `upper` the search begins.
    """
    close = upper
    while distance < upper and delta_below(upper - distance) <= delta:
        close, distance = upper - distance, 8.0 * distance
    far = upper - distance if distance < upper else 0.0
    if far == 0.0 and delta_below(0.0) <= delta:
        return 0.0
    for _ in range(_BISECTIONS):
        middle = upper - math.sqrt((upper - far) * (upper - close)) if close < upper else 0.5 * (far + upper)
        if not far < middle < close:
            break
        far, close = (middle, close) if delta_below(middle) > delta else (far, middle)
    return far


#: Proved (ε, δ) whose lines the trade-off curve of a composition is above.
_POINTS = 200


def tradeoff_of_one(noise: Distribution, shift: float, type_1_error: Floats) -> Floats:
    """Compute the trade-off curve of one coordinate: the best test rejects above a threshold (Neyman and Pearson)."""
    threshold = np.asarray(noise.isf(type_1_error), dtype=np.float64)
    certain = type_1_error >= 1
    if isinstance(noise, RealDistribution):
        return np.where(certain, 0.0, noise.cdf(np.where(certain, 0.0, threshold) - shift))
    # On the integers the test rejects at the threshold itself with the probability that uses up the type I error.
    finite = np.isfinite(threshold)
    k = np.where(finite, threshold, 0.0)
    log_at = np.asarray(noise.logpmf(k), dtype=np.float64)
    share = np.clip((type_1_error - noise.sf(k)) / np.exp(log_at), 0.0, 1.0)
    error = noise.cdf(k - shift) - share * noise.pmf(k - shift)
    return np.where(finite, np.maximum(error, 0.0), np.where(type_1_error > 0, 0.0, 1.0))


def tradeoff(profile: "PrivacyProfile", type_1_error: Floats) -> Floats:
    """Any composition, from below: each (ε, δ) that is proved is a pair of lines below the curve."""
    smallest = float(np.min(type_1_error[type_1_error > 0], initial=1e-3))
    farthest = profile.epsilon(max(min(1e-3 * smallest, 1e-6), 1e-290))
    epsilons = farthest * np.linspace(0.0, 1.0, _POINTS)
    lines = np.column_stack([epsilons, profile.delta(epsilons)])
    alpha = type_1_error[..., np.newaxis]
    best = np.zeros(type_1_error.shape)
    for block in np.array_split(lines, max(1, math.ceil(len(lines) * alpha.size / 10**6))):
        with np.errstate(over="ignore"):
            growth, delta = np.exp(block[:, 0]), block[:, 1]  # infinite where the lines say nothing
        grown = np.where(alpha > 0, growth * np.where(alpha > 0, alpha, 1.0), 0.0)
        below = np.maximum(1.0 - delta - grown, (1.0 - delta - alpha) / growth)
        best = np.maximum(best, np.max(below, axis=-1))
    return best


#: Part of δ that is set aside for choosing groups where a ledger adds it up apart. The threshold grows slowly as it
#: shrinks, and so does the noise with what is left.
CHOICE_SHARE = 0.1


@dataclass(frozen=True)
class Charge:
    """The privacy loss of a release: the profile of its noise, and a chance that it reveals anything at all.

    `selection_delta` is the probability with which the choice of the groups that are shown may reveal a person; it
    adds to the δ of the noise, in compositions as well. `part` is the part of the people whom alone it is about
    (`osgt.privacy.filters.budget`); None if it may be about everybody.

    Examples
    --------
    >>> from osgt import DiscreteOSGT
    >>> charge = Charge(PrivacyProfile(DiscreteOSGT.gaussian(10), coordinates=4), selection_delta=1e-9)
    >>> Charge.from_dict(charge.to_dict()) == charge
    True
    """

    profile: PrivacyProfile
    selection_delta: float = 0.0
    part: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.profile, PrivacyProfile):
            raise TypeError(f"profile must be a PrivacyProfile, got {self.profile!r}")
        if not isinstance(self.part, str | None):
            raise TypeError(f"part must be the name of a part, got {self.part!r}")
        delta = real_number("selection_delta", self.selection_delta, positive=False)
        if delta >= 1:
            raise ArgumentError(
                f"selection_delta must be in [0, 1), got {self.selection_delta!r}", argument="selection_delta"
            )
        object.__setattr__(self, "selection_delta", delta)

    @classmethod
    def compose(cls, charges: Iterable["Charge"]) -> "Charge":
        """The charge of all of them together, about the same people."""
        charges = list(charges)
        total = sum(charge.selection_delta for charge in charges)
        # Each addition may have rounded down by half a unit in the last place.
        rounded_up = total * (1.0 + 2.0**-52 * len(charges)) if len(charges) > 1 else total
        parts = {charge.part for charge in charges}
        profile = PrivacyProfile.compose(charge.profile for charge in charges)
        return cls(profile, min(rounded_up, 1.0 - 2.0**-53), parts.pop() if len(parts) == 1 else None)

    def delta(self, epsilon: float, *, slack: float = SLACK) -> float:
        """Smallest δ for which (ε, δ)-differential privacy is proved."""
        return min(1.0, float(self.profile.delta(epsilon, slack=slack)) + self.selection_delta)

    def epsilon(self, delta: float, *, slack: float = SLACK) -> float:
        """Smallest ε for which (ε, δ)-differential privacy is proved: infinite if the selection alone exceeds δ."""
        left = delta - self.selection_delta
        return float(self.profile.epsilon(left, slack=slack)) if left >= 0 else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: floats are read back exactly."""
        parts = [
            {"noise": written(part.noise), "shift": part.shift, "coordinates": part.coordinates}
            for part in self.profile.parts
        ]
        about = {} if self.part is None else {"part": self.part}
        return {"parts": parts, "selection_delta": self.selection_delta, **about}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Charge":
        """The charge that `to_dict` wrote."""
        try:
            parts = [NoisyPart(read(p["noise"]), p["shift"], p["coordinates"]) for p in plain["parts"]]
            selection = plain["selection_delta"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a stored charge: {error!r} in {plain!r}") from None
        if not parts:
            raise ValueError("this is not a stored charge: it has no parts")
        return cls(PrivacyProfile.of(parts), selection, plain.get("part"))
