"""Scores: numbers that are large where an output speaks for the data and small where it speaks for the neighbour.

An event is "the score is at least t". Where the privacy loss is known it is the best score (Neyman and Pearson).
Otherwise scores are learned from draws that are not judged afterwards; a bad one costs power and never validity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.evidence import Floats, Integers

Score = Callable[[NDArray[np.generic]], Floats]

#: Cells of each number's values in a learned score.
_CELLS = 32

#: Places of the lowest bit that are told apart, around the place of the lowest bit of 1.
_BITS = 80


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A score and the thresholds that are looked at, in rising order."""

    name: str
    score: Score
    levels: Floats

    @classmethod
    def of(cls, name: str, score: Score, outputs: Sequence[NDArray[np.generic]]) -> "Thresholds | None":
        """Thresholds all over the range of a score, and far out in its tails; None if it tells nothing apart."""
        values = np.concatenate([score(each) for each in outputs])
        least = 8.0 / len(values)
        tails = 2.0 ** -np.arange(1.0, max(1.0, -np.log2(least)) + 1)
        shares = np.unique(np.concatenate([np.linspace(0.04, 0.96, 24), tails, 1.0 - tails]))
        levels = np.unique(np.quantile(values, shares, method="higher"))
        levels = levels[levels > values.min()]
        return cls(name, score, levels) if len(levels) else None

    @property
    def events(self) -> list[str]:
        """Every event in words."""
        return [f"{self.name} reaches {level:.6g}" for level in self.levels]

    def hits(self, outputs: NDArray[np.generic]) -> Integers:
        """How many outputs reach each threshold."""
        places = np.searchsorted(self.levels, self.score(outputs), side="right")
        counts = np.bincount(places, minlength=len(self.levels) + 1)
        return np.cumsum(counts[::-1])[::-1][1:].astype(np.int64)


def learned(first: NDArray[np.generic], second: NDArray[np.generic]) -> list[Thresholds]:
    """Scores from outputs on the data (`first`) and on the neighbour, each of shape (draws, numbers)."""
    both = [first, second]
    made = [
        Thresholds.of("the weighted sum of the numbers", _linear(first, second), both),
        Thresholds.of("the score of the values", _by_cells(first, second, _value_cells(first, second)), both),
        Thresholds.of("the score of the lowest bits", _by_cells(first, second, lowest_bits), both),
    ]
    return [each for each in made if each is not None]


def _finite(outputs: NDArray[np.generic]) -> Floats:
    floats = outputs.astype(np.float64)
    return np.where(np.isfinite(floats), floats, 0.0)


def _linear(first: NDArray[np.generic], second: NDArray[np.generic]) -> Score:
    """Σ (difference of the means / variance)·number."""
    one, other = _finite(first), _finite(second)
    middle = np.median(np.concatenate([one, other]), axis=0)
    spread = np.maximum(np.var(one - middle, axis=0) + np.var(other - middle, axis=0), 1e-300)
    weights = (one.mean(axis=0) - other.mean(axis=0)) / spread
    return lambda outputs: np.asarray((_finite(outputs) - middle) @ weights)


def _value_cells(first: NDArray[np.generic], second: NDArray[np.generic]) -> Callable[[NDArray[np.generic]], Integers]:
    """The cell of each number by its value; numbers that are none have cells of their own."""
    pooled = np.concatenate([first, second]).astype(np.float64)
    shares = np.linspace(0.0, 1.0, _CELLS + 1)[1:-1]
    edges = [
        np.unique(np.quantile(column[np.isfinite(column)], shares)) if np.isfinite(column).any() else np.zeros(1)
        for column in pooled.T
    ]

    def cells(outputs: NDArray[np.generic]) -> Integers:
        floats = outputs.astype(np.float64)
        found = np.stack(
            [np.searchsorted(edge, column, side="right") for edge, column in zip(edges, floats.T, strict=True)], axis=1
        )
        found = np.where(np.isposinf(floats), _CELLS, found)
        found = np.where(np.isneginf(floats), _CELLS + 1, found)
        return np.where(np.isnan(floats), _CELLS + 2, found).astype(np.int64)

    return cells


def lowest_bits(outputs: NDArray[np.generic]) -> Integers:
    """The place of the lowest bit of each number: noise that is made of floats gives data away there (Mironov 2012)."""
    mantissa, exponent = np.frexp(_finite(outputs))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2(np.maximum((whole & -whole).astype(np.float64), 1.0)).astype(np.int64)
    place = exponent.astype(np.int64) - 53 + lowest
    return np.where(whole == 0, _BITS, np.clip(place + 60, 0, _BITS - 1))


def _by_cells(
    first: NDArray[np.generic], second: NDArray[np.generic], cells: Callable[[NDArray[np.generic]], Integers]
) -> Score:
    """Σ log of how much more often a number's cell was hit by the data than by the neighbour."""
    one, other = cells(first), cells(second)
    size = int(max(one.max(initial=0), other.max(initial=0), _BITS, _CELLS + 2)) + 1
    ratios = []
    for i in range(one.shape[1]):
        a, b = (np.bincount(each[:, i], minlength=size) + 0.5 for each in (one, other))
        ratios.append(np.log(a / a.sum()) - np.log(b / b.sum()))

    def score(outputs: NDArray[np.generic]) -> Floats:
        found = cells(outputs)
        return np.asarray(sum(ratio[found[:, i]] for i, ratio in enumerate(ratios)))

    return score
