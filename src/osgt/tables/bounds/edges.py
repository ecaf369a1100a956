"""Geometric bins, and units that count in them by parts.

A unit with the value x between two edges counts in both, the more the nearer: a function that is linear between the
edges then has the same total over the bins as over the units, without any rounding to bins. All parts of a unit
together are SCALE, in whole numbers. Moving one number by SCALE reveals at least as much as moving several by SCALE in
all (docs/dominance.md), so a histogram is one number that one unit moves by SCALE.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: A unit as a whole number: its parts are exact to one in so many.
SCALE = 1 << 24

#: Numbers that people would choose; each is at most 1.5 times the one before.
_DIGITS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)

#: As close as makes a difference to the error.
_FINE_DIGITS = (1.0, 1.2, 1.5, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0)

#: Limits that a table shows, around the one that was chosen.
_SHOWN = 9

#: More rows or groups than that count as so many: a unit with a million rows is one of its own kind.
MOST_COUNTED = 1_000_000

#: Values beyond count as this, and nearer to zero lie between zero and that.
LARGEST_VALUE = 1e12
SMALLEST_VALUE = 1e-3


def count_edges(most: int = MOST_COUNTED, factor: float = 1.0) -> tuple[int, ...]:
    """Whole numbers from 1 to `most`, each at most 1.5 times the one before, or double it where there is none between.

    With a factor, those are left out that are closer than this to the one before.
    """
    decades = range(len(str(most)))
    candidates = [
        int(digit * 10**decade) for decade in decades for digit in _DIGITS if (digit * 10**decade).is_integer()
    ]
    edges = [1]
    for edge in candidates:
        if factor * edges[-1] <= edge < most and edge > edges[-1]:
            edges.append(edge)
    return (*edges, max(most, 2)) if edges[-1] < max(most, 2) else tuple(edges)


def limits_up_to(most: int) -> list[int]:
    """Whole numbers from 1 to `most` that people would choose as a limit, closer to each other than the edges."""
    decades = range(len(str(most)))
    numbers = (digit * 10**decade for decade in decades for digit in _FINE_DIGITS)
    return sorted({int(number) for number in numbers if number.is_integer() and number < most} | {most})


def limits_around(limits: Sequence[int], chosen: int | None) -> list[int]:
    """Up to nine limits with the chosen one among them, spread over all of them and close to it."""
    if len(limits) <= _SHOWN:
        return list(limits)
    if chosen is None:
        return [limits[round(place)] for place in np.linspace(0, len(limits) - 1, _SHOWN)]
    at = limits.index(chosen) if chosen in limits else 0
    steps = (-9, -6, -3, -1, 0, 1, 3, 6, 9)
    places = {min(max(at + step, 0), len(limits) - 1) for step in steps}
    return [limits[place] for place in sorted(places)]


def value_edges(smallest: float = SMALLEST_VALUE, largest: float = LARGEST_VALUE) -> tuple[float, ...]:
    """Numbers from -largest to largest: zero, and from ±smallest on each at most 1.5 times the one before."""
    exponents = range(round(np.log10(smallest)), round(np.log10(largest)) + 1)
    sizes = [float(f"{digit}e{exponent}") for exponent in exponents for digit in _DIGITS]
    positive = [size for size in sizes if smallest <= size <= largest]
    return (*(-size for size in reversed(positive)), 0.0, *positive)


def parts(values: ArrayLike, edges: tuple[float, ...]) -> NDArray[np.int64]:
    """For each edge what all the values together count there: the same as the engines make."""
    edge = np.asarray(edges, dtype=np.float64)
    clipped = np.clip(np.asarray(values, dtype=np.float64), edge[0], edge[-1])
    below = np.clip(np.searchsorted(edge, clipped, side="right") - 1, 0, len(edge) - 2)
    upper = np.floor((clipped - edge[below]) / (edge[below + 1] - edge[below]) * SCALE).astype(np.int64)
    counts = np.zeros(len(edge), dtype=np.int64)
    np.add.at(counts, below, SCALE - upper)
    np.add.at(counts, below + 1, upper)
    return counts
