"""The error that bounds lead to: what they cut off, and the noise that they need.

The error of a number in a table, relative to its mean over the groups, is κ·(share cut off)² + (noise/mean)²: what is
cut off falls on the groups in proportion to their sizes, whose mean square is κ times the square of their mean.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from osgt.support.arrays import Floats

Bounds = tuple[float, float]

#: What bounds are recommended for: the least error, or noise intervals that hold what nothing was cut off from.
Aim = Literal["error", "coverage"]

#: For coverage, what is cut off a number is at most this part of its noise: a 95 % interval then holds it in 92 %.
_STRAIN = 0.5

#: Small and large groups: those that nine of ten groups are larger, or smaller, than.
_NINE_OF_TEN = 1.2816

#: Groups of unknown size are taken to be so many standard deviations of the noise large: just enough to be published.
_BARELY_SHOWN = 12.0


@dataclass(frozen=True)
class Wanted:
    """An aggregate of the query: `kind` as in a query file, and its bounds where they were given."""

    kind: str
    weight: float
    column: str | None = None
    bounds: Bounds | None = None

    @property
    def needs_rows(self) -> bool:
        """Whether rows count, and not units alone."""
        return self.kind != "count_units"

    @property
    def needs_bounds(self) -> bool:
        """Whether its values are clipped."""
        return self.kind in ("sum", "mean", "variance")


@dataclass(frozen=True)
class Choice:
    """One choice of all bounds."""

    max_groups: int
    max_rows: int
    bounds: Mapping[str, Bounds]


@dataclass(frozen=True, eq=False)
class Weighted:
    """Values and how much of the data has them; the weights sum up to 1."""

    places: Floats
    weights: Floats

    @classmethod
    def of(cls, places: Floats, counts: Floats) -> "Weighted":
        """Make weights of counts that are not negative; all at the first place if there are none."""
        total = float(counts.sum())
        return cls(places, counts / total if total > 0 else np.eye(len(places))[0])

    def mean(self, values: Floats) -> float:
        """The mean of a function, given at the places."""
        return float(values @ self.weights)


@dataclass(frozen=True, eq=False)
class Model:
    """The data as far as histograms tell.

    Parameters
    ----------
    units
        How many there are.
    groups_of_units
        Groups for each unit.
    rows_of_groups
        At the same places: mean number of rows of such a unit in one of its groups.
    rows
        Rows of a unit in a group, over all pairs of these.
    values
        For each column its values.
    groups, share, skew
        The number of groups that the table shows, the part of the pairs that is in them, and their skew; None if no
        group could be measured.
    noise
        For `max_groups` the standard deviation of the planned noise on a number that moves by 1.
    most_lost
        For `max_groups` and `max_rows` the share of rows that they may cut off as far as the noise of the histograms
        lets one tell; of (unit, group) pairs where there is no limit of rows.
    """

    units: float
    groups_of_units: Weighted
    rows_of_groups: Floats
    rows: Weighted
    values: Mapping[str, Weighted]
    groups: int | None
    share: float
    skew: float
    noise: Callable[[int], float]
    most_lost: Callable[[int, int | None], float] | None = None

    def pairs_lost(self, max_groups: int) -> float:
        """The share of (unit, group) pairs that are left out."""
        at = self.groups_of_units
        return at.mean(np.maximum(at.places - max_groups, 0.0)) / max(at.mean(at.places), 1e-300)

    def rows_lost(self, max_groups: int, max_rows: int) -> float:
        """The share of rows that are left out, by either bound."""
        return 1.0 - (1.0 - self.rows_lost_to_groups(max_groups)) * (1.0 - self.rows_beyond(max_rows))

    def rows_lost_to_groups(self, max_groups: int) -> float:
        """The share of rows in groups that are left out."""
        at = self.groups_of_units
        lost = at.mean(np.maximum(at.places - max_groups, 0.0) * self.rows_of_groups)
        return lost / max(at.mean(at.places * self.rows_of_groups), 1e-300)

    def rows_beyond(self, max_rows: int) -> float:
        """The share of rows that are too many in their group."""
        at = self.rows
        return at.mean(np.maximum(at.places - max_rows, 0.0)) / max(at.mean(at.places), 1e-300)

    def mean_pairs(self, max_groups: int) -> float:
        """Mean number of units in a group that the table shows."""
        if self.groups is None:
            return _BARELY_SHOWN * self.noise(max_groups)
        pairs = self.units * self.groups_of_units.mean(self.groups_of_units.places)
        return max(pairs * self.share / max(self.groups, 1), 1.0)

    @cached_property
    def rows_per_pair(self) -> float:
        """Mean number of rows of a unit in a group."""
        at = self.groups_of_units
        return max(at.mean(at.places * self.rows_of_groups) / max(at.mean(at.places), 1e-300), 1.0)

    def size(self, wanted: Wanted, max_groups: int) -> float:
        """The mean over the groups of what is published: units, rows, or the sum of a column's absolute values."""
        size = self.mean_pairs(max_groups) * (self.rows_per_pair if wanted.needs_rows else 1.0)
        if wanted.kind == "sum" and wanted.column is not None:
            at = self.values[wanted.column]
            size *= at.mean(np.abs(at.places))
        return max(size, 1e-300)

    def lost(self, wanted: Wanted, choice: Choice) -> float:
        """The share of a number that the bounds cut off. Rows left out at random are no loss to means."""
        if wanted.kind == "count_units":
            return self.pairs_lost(choice.max_groups)
        if wanted.kind in ("mean", "variance"):
            return 0.0
        lost = self.rows_lost(choice.max_groups, choice.max_rows)
        if wanted.kind == "sum" and wanted.column is not None:
            at, (low, high) = self.values[wanted.column], choice.bounds[wanted.column]
            clipped = at.mean(np.abs(at.places - np.clip(at.places, low, high)))
            lost = 1.0 - (1.0 - lost) * (1.0 - clipped / max(at.mean(np.abs(at.places)), 1e-300))
        return lost

    def noise_of(self, wanted: Wanted, choice: Choice) -> float:
        """The standard deviation of the noise: of means and variances in a group of mean size."""
        unit = self.noise(choice.max_groups)
        if wanted.kind == "count_units":
            return unit
        unit *= choice.max_rows
        if not wanted.needs_bounds or wanted.column is None:
            return unit
        low, high = choice.bounds[wanted.column]
        if wanted.kind == "sum":
            return unit * max(abs(low), abs(high))
        kept = 1.0 - self.rows_lost(choice.max_groups, choice.max_rows)
        count = max(self.mean_pairs(choice.max_groups) * self.rows_per_pair * kept, 1.0)
        return unit * ((high - low) / 2) ** (1 if wanted.kind == "mean" else 2) / count

    def error(self, wanted: Wanted, choice: Choice) -> float:
        """The square of the relative error: of means and variances relative to the spread of the values."""
        if wanted.kind not in ("mean", "variance") or wanted.column is None:
            size = self.size(wanted, choice.max_groups)
            return self.skew * self.lost(wanted, choice) ** 2 + (self.noise_of(wanted, choice) / size) ** 2
        at, (low, high) = self.values[wanted.column], choice.bounds[wanted.column]
        spread = max(_spread(at), 1e-300)
        clipped = at.mean(np.abs(at.places - np.clip(at.places, low, high)))
        power = 1 if wanted.kind == "mean" else 2
        return (clipped / spread) ** 2 + (self.noise_of(wanted, choice) / spread**power) ** 2

    def strain(self, wanted: Wanted, choice: Choice) -> float:
        """Compute what is cut off a number in a large group, in standard deviations of its noise.

        While it is small, noise intervals hold the numbers that nothing was cut off from nearly as often as they say.
        """
        noise = max(self.noise_of(wanted, choice), 1e-300)
        if wanted.kind in ("mean", "variance") and wanted.column is not None:
            at, (low, high) = self.values[wanted.column], choice.bounds[wanted.column]
            power = 1 if wanted.kind == "mean" else 2
            return abs(at.mean(np.clip(at.places, low, high) ** power - at.places**power)) / noise
        lost = self.lost(wanted, choice)
        if self.most_lost is not None:
            lost = max(lost, self.most_lost(choice.max_groups, choice.max_rows if wanted.needs_rows else None))
        return lost * self.sizes(wanted, choice.max_groups)[-1] / noise

    def sizes(self, wanted: Wanted, max_groups: int) -> tuple[float, float, float]:
        """Estimate the numbers of a small, a typical and a large group, by a log-normal distribution with this skew."""
        mean, spread = self.size(wanted, max_groups), math.sqrt(math.log(max(self.skew, 1.0)))
        small, typical, large = (
            mean * math.exp(-0.5 * spread**2 + z * spread) for z in (-_NINE_OF_TEN, 0.0, _NINE_OF_TEN)
        )
        return small, typical, large

    def total_error(self, wanted: Iterable[Wanted], choice: Choice) -> float:
        """Add up the weighted errors of all that is wanted."""
        return math.fsum(each.weight * self.error(each, choice) for each in wanted)


def _spread(at: Weighted) -> float:
    """The standard deviation of the values within their middle 98 %."""
    cumulated = np.cumsum(at.weights)
    low, high = (at.places[min(int(np.searchsorted(cumulated, q)), len(at.places) - 1)] for q in (0.01, 0.99))
    values = np.clip(at.places, low, high)
    return math.sqrt(max(at.mean(values**2) - at.mean(values) ** 2, 0.0)) or max(abs(low), abs(high))


def best(
    model: Model,
    wanted: Sequence[Wanted],
    start: Choice,
    max_groups: Sequence[int],
    max_rows: Sequence[int],
    bounds: Mapping[str, Sequence[Bounds]],
    aim: Aim = "error",
    rounds: int = 4,
) -> Choice:
    """The choice of least error: the limits of groups and of rows, and the bounds of each column, in turn."""

    def least(wanted: Sequence[Wanted], choices: Sequence[Choice]) -> Choice:
        if aim == "coverage":
            strains = [max(model.strain(each, choice) for each in wanted) for choice in choices]
            most = max(_STRAIN, min(strains))
            choices = [choice for choice, strain in zip(choices, strains, strict=True) if strain <= most]
        return choices[0] if len(choices) == 1 else min(choices, key=lambda choice: model.total_error(wanted, choice))

    choice = start
    for _ in range(rounds):
        before = choice
        choice = least(wanted, [replace(choice, max_groups=limit) for limit in max_groups])
        choice = least(wanted, [replace(choice, max_rows=limit) for limit in max_rows])
        for column, candidates in bounds.items():
            own = [each for each in wanted if each.column == column]
            tried = [replace(choice, bounds={**choice.bounds, column: pair}) for pair in candidates]
            choice = least(own, tried)
        if choice == before:
            break
    return choice
