"""A share that was measured with noise: its interval, and how it is told."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import scipy

from osgt.noise import IntegerDistribution
from osgt.noise.error import Combination
from osgt.support.numeric import Integers
from osgt.support.text import rounded_percent

#: Intervals as wide as this say nothing.
_VAGUE = 0.5

#: Shares above this are worth a warning.
MUCH = 0.05

#: Shares below this are next to nothing.
_LITTLE = 0.01


@dataclass(frozen=True)
class Share:
    """A share between 0 and 1, and its noise interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, noisy: Integers, law: IntegerDistribution, confidence: float) -> "Share":
        """The share of the first of two numbers in their sum, both with this noise.

        The interval is Fieller's: all θ for which part - θ·whole could be 0 without noise.
        """
        part, whole = float(noisy[0, 0]), float(noisy[0].sum())
        low, high = _fieller(part, whole, _half_width(law, confidence) ** 2)
        value = min(max(part / whole if whole > 0 else 0.0, low), high)
        return cls(value, low, high)

    def __str__(self) -> str:
        return f"{rounded_percent(self.value)} ({self.interval})"

    @property
    def interval(self) -> str:
        """The interval in words: "3 to 8 %"."""
        return f"{rounded_percent(self.low).removesuffix(' %')} to {rounded_percent(self.high)}"

    @property
    def is_vague(self) -> bool:
        """Whether the interval says nothing: it is wide, and nothing need have been left out."""
        return self.high - self.low >= _VAGUE and self.low <= MUCH

    @property
    def is_small(self) -> bool:
        """Whether it is certainly small, and probably next to nothing."""
        return self.value < _LITTLE and self.high <= MUCH

    def sentence(self, words: str) -> str:
        """Say which share it is, if the interval says anything."""
        if self.is_vague:
            return f"The noise is too large to say how many {words.removeprefix('of the ')} ({self.interval})."
        return f"About {self} {words}."

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return {"share": self.value, "low": self.low, "high": self.high}


def _half_width(law: IntegerDistribution, confidence: float) -> float:
    """At least h for which a sum of such noises, each times a number c, is within h·√Σc² with this confidence.

    A sum is nearer to the normal distribution than its terms: the larger of both serves, whatever the numbers are.
    """
    alone = Combination(((1.0, law),))
    return max(alone.half_width(confidence), alone.std() * float(scipy.special.ndtri((1.0 + confidence) / 2)))


def _fieller(part: float, whole: float, square: float) -> tuple[float, float]:
    """The ends of the θ in [0, 1] with (part - θ·whole)² ≤ square·((1 - θ)² + θ²)."""
    a, b, c = whole**2 - 2.0 * square, part * whole - square, part**2 - square
    if a <= 0.0 or whole <= 0.0:
        return 0.0, 1.0  # the whole may be anything
    root = math.sqrt(max(b * b - a * c, 0.0))
    return min(max((b - root) / a, 0.0), 1.0), min(max((b + root) / a, 0.0), 1.0)


def at_most(share: float) -> str:
    """A bound on a share in words."""
    text = rounded_percent(share)
    return text.replace("<", "less than") if text.startswith("<") else f"at most {text}"


def in_brief(shares: Sequence[tuple[Share, str]]) -> list[str]:
    """Tell shares in a few words each, and small ones together."""
    if shares and all(share.is_vague for share, _ in shares):
        return ["the noise is too large to say how much"]
    small = [share for share, _ in shares if share.is_small]
    reason = "any other reason" if len(small) < len(shares) else "any reason"
    return [
        f"{share.interval if share.is_vague else share} {words}{' (too noisy to say)' if share.is_vague else ''}"
        for share, words in shares
        if not share.is_small
    ] + ([f"{at_most(max(share.high for share in small))} for {reason}"] if small else [])
