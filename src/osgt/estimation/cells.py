"""Noise in cells: its probabilities on equal cells, and what estimates and their risk need of these.

A number is known up to the cell that it is in. Cells of one step are exact; where the noise is wide, a cell is a small
part of its standard deviation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from osgt.estimation.sums import NoiseSum, many_terms
from osgt.noise.error import reach_of, rounded
from osgt.support.numeric import Floats, Integers

#: Cells of a standard deviation, and how far cells are looked at, in standard deviations.
_CELLS_OF_STD, _FAR = 32.0, 14.0

#: Probability beyond which the far end of a noise is left out: one number in 10¹² is treated as less extreme.
_TAIL = 1e-12

#: Parts of a cell in which the terms of a sum are convolved.
_FINE = 16

#: Frequencies at which the characteristic function is below the first are left out, those above the second kept whole.
#: Rounding errors of a Fourier transform are 1e-15.
_NONE, _WHOLE = 1e-11, 1e-9


def cell_width(noises: Sequence[NoiseSum]) -> int:
    """The width of cells that is fine enough for each of some noises, in steps."""
    return max(1, math.floor(min(noise.std() for noise in noises) / _CELLS_OF_STD))


@dataclass(frozen=True, eq=False)
class CellNoise:
    """Symmetric noise on cells: `masses` are the probabilities of the cells from -reach to reach.

    Examples
    --------
    >>> CellNoise(np.array([0.25, 0.5, 0.25])).var
    0.5
    """

    masses: Floats

    @classmethod
    def of(cls, noise: NoiseSum, width: int) -> "CellNoise":
        """The noise of a number that is rounded to the nearest cell."""
        terms = [(abs(float(c)), law, n) for c, law, n in many_terms(noise) if c and n]
        if len(terms) == 1 and terms[0][2] == 1:
            [(c, law, _)] = terms
            half = rounded(c, law, c * reach_of(law, _TAIL), float(width))
        else:
            half = _convolved(terms, noise.std(), width)
        half = np.maximum(half, 0.0)
        whole = np.concatenate([half[:0:-1], half])
        return cls(whole / whole.sum())

    @property
    def reach(self) -> int:
        """The last cell."""
        return len(self.masses) // 2

    @cached_property
    def places(self) -> Integers:
        """The cells, from the first to the last."""
        return np.arange(-self.reach, self.reach + 1)

    @cached_property
    def var(self) -> float:
        """The variance, in cells."""
        return float(self.places**2 @ self.masses)

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        """The sums of the probabilities, and of cells times probabilities, up to each cell."""
        with_zero = np.concatenate([[0.0], self.masses])
        return np.cumsum(with_zero), np.cumsum(with_zero * np.concatenate([[0], self.places]))

    def between(self, first: Integers, last: Integers) -> tuple[Floats, Floats]:
        """P[first ≤ X ≤ last], and E[X; first ≤ X ≤ last]; 0 where last is below first."""
        after, before = self._index(np.maximum(last, first - 1)), self._index(first - 1)
        probabilities, means = self._sums
        return probabilities[after] - probabilities[before], means[after] - means[before]

    def _index(self, cells: Integers) -> NDArray[np.intp]:
        return np.clip(cells + self.reach + 1, 0, len(self.masses))

    def product_with_noise(self, steps: Floats) -> tuple[Floats, float]:
        """Estimate E[X·δ(θ + X)] without bias from θ + X alone, for a function δ on consecutive cells.

        `steps` has δ(z + 1) - δ(z) for these cells; δ is level below the first and rises by 1 a cell above the last.
        Gives h on the cells with E[h(θ + X)] = E[X·δ(θ + X)] for every θ, up to a bias of at most the second number.

        By summation by parts E[X·δ(θ + X)] = Σ P₁(x)·steps(θ + x) with P₁(x) = Σ_{u > x} u·p(u). If κ has P₁ = p * κ,
        that is E[Σ κ(v)·steps(θ + X + v)]. The transform of κ is that of P₁ over that of p, which is positive
        everywhere; frequencies at which it is too small for floats are left out, and the bias of that is computed.
        """
        size = scipy.fft.next_fast_len(len(steps) + 8 * self.reach + 2)
        circle = self._on_circle(self.masses, -self.reach, size)
        # P₁ at -reach - 1 … reach; that at -reach - 1 is the mean, 0.
        tails = -self._sums[1]
        of_tails = scipy.fft.fft(self._on_circle(tails, -self.reach - 1, size))
        of_noise = scipy.fft.fft(circle).real
        share = np.clip(np.log(np.maximum(of_noise, _NONE) / _NONE) / math.log(_WHOLE / _NONE), 0.0, 1.0)
        taper = share**2 * (3.0 - 2.0 * share)
        kernel = np.where(taper > 0, of_tails * taper / np.where(taper > 0, of_noise, 1.0), 0.0)
        # Level before, rising after: half of what is left of the circle each.
        before = (size - len(steps)) // 2
        around = np.concatenate([np.zeros(before), steps, np.ones(size - len(steps) - before)])
        products = scipy.fft.ifft(scipy.fft.fft(around) * np.conj(kernel)).real[before : before + len(steps)]
        left_out = np.abs(scipy.fft.ifft(of_tails - kernel * of_noise)).sum()
        return products, float(left_out * np.abs(around).max())

    @staticmethod
    def _on_circle(values: Floats, first: int, size: int) -> Floats:
        circle = np.zeros(size)
        circle[np.arange(first, first + len(values)) % size] = values
        return circle


def _convolved(terms: Sequence[tuple[float, object, int]], std: float, width: int) -> Floats:
    """Probabilities of the cells 0, 1, … of a sum of several noises, each rounded to a fine part of a cell."""
    step = width / _FINE
    last = math.ceil(_FAR * std / step)
    size = scipy.fft.next_fast_len(2 * last + 2, real=True)
    transform = np.ones(size // 2 + 1)
    for c, law, n in terms:
        masses = rounded(c, law, min(c * reach_of(law, _TAIL), last * step), step)[: last + 1]  # type: ignore[arg-type]
        circle = np.zeros(size)
        circle[: len(masses)] = masses
        circle[size - len(masses) + 1 :] = masses[:0:-1]
        transform = transform * scipy.fft.rfft(circle).real ** n
    fine = scipy.fft.irfft(transform, size)[: last + 1]
    places = np.rint(np.arange(len(fine)) * (step / width)).astype(np.int64)
    cells = np.asarray(np.bincount(places, fine), dtype=np.float64)
    cells[0] += fine[1:][places[1:] == 0].sum()  # what is rounded to 0 comes from both sides
    return cells
