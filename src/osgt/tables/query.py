"""Query: groups, bounds and aggregates, built step by step; nothing is read until `release`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from osgt.noise.parameters import real_number
from osgt.tables.aggregates import Aggregate, Mean, Number, Variance, checked_edges
from osgt.tables.groups import Groups
from osgt.tables.measures import Bins, ClippedSum, Measure, Rows, Units, Values
from osgt.tables.plan import Plan, epsilon_for, make_plan, measured_parts
from osgt.tables.values import grid_of

if TYPE_CHECKING:
    from osgt.tables.dataset import Dataset
    from osgt.tables.preview import Preview
    from osgt.tables.release import Release


@dataclass(frozen=True, eq=False)
class Query:
    """What is to be released. Every method returns a new query; `plan` and `release` end the chain.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from osgt import Dataset
    >>> rides = pa.table({"user": [1, 1, 2], "city": ["Bern", "Rome", "Rome"], "fare": [12.5, 8.0, 30.0]})
    >>> data = Dataset(rides, privacy_unit="user")
    >>> query = data.group_by("city", max_groups=2, max_rows_per_group=1, public_keys=["Bern", "Rome"]).count()
    >>> release = query.sum("fare", bounds=(0, 50)).release(epsilon=1, delta=1e-6)
    >>> release.to_arrow().column_names
    ['city', 'count', 'count_low', 'count_high', 'fare_sum', 'fare_sum_low', 'fare_sum_high']
    """

    dataset: "Dataset"
    groups: Groups
    aggregates: tuple[Aggregate, ...] = ()

    def count(self, *, name: str = "count", weight: float = 1) -> "Query":
        """The number of rows, at most `max_rows_per_group` of each unit."""
        return self._with_number("count", Rows(), _name(name, "count"), weight)

    def count_units(self, *, name: str = "count_units", weight: float = 1) -> "Query":
        """The number of privacy units."""
        return self._with_number("count_units", Units(), _name(name, "count_units"), weight)

    def sum(
        self, column: str, bounds: Sequence[float] | None = None, *, name: str | None = None, weight: float = 1
    ) -> "Query":
        """The sum of a column, each value clipped to `bounds`. Missing values and NaN add nothing."""
        grid = grid_of(column, self.dataset.number_type_of(column), bounds)
        return self._with_number("sum", ClippedSum(column, grid), _name(name, f"{column}_sum"), weight)

    def mean(
        self,
        column: str,
        bounds: Sequence[float] | None = None,
        *,
        missing: str = "skip",
        name: str | None = None,
        weight: float = 1,
    ) -> "Query":
        """The mean of a column, each value clipped to `bounds`.

        Missing values are left out (`missing="skip"`), for which the values are counted with noise of their own, or
        count as the middle of the bounds (`missing="centre"`), for which the count of rows serves.
        """
        if missing not in ("skip", "centre"):
            raise ValueError(f'missing must be "skip" or "centre", got {missing!r}')
        grid = grid_of(column, self.dataset.number_type_of(column), bounds, centred=True)
        count = Values(column) if missing == "skip" else self.groups.same(Rows())
        return self._with(Mean(_name(name, f"{column}_mean"), _weight(weight), column, grid, count))

    def variance(
        self, column: str, bounds: Sequence[float] | None = None, *, name: str | None = None, weight: float = 1
    ) -> "Query":
        """The variance of a column, each value clipped to `bounds`; missing values are left out."""
        grid = grid_of(column, self.dataset.number_type_of(column), bounds, squares=True)
        return self._with(Variance(_name(name, f"{column}_variance"), _weight(weight), column, grid))

    def histogram(self, column: str, edges: Sequence[float], *, name: str | None = None, weight: float = 1) -> "Query":
        """The number of rows between each two neighbouring edges: columns `…_bin_1`, `…_bin_2` and so on.

        A bin holds its lower edge, the last one both. Values outside the edges and missing ones are in no bin. All
        bins of a group together cost as much as one count.
        """
        dtype = self.dataset.number_type_of(column)
        if not dtype.is_numeric() or dtype.is_boolean():
            raise TypeError(f"column {column!r} must hold numbers, got {dtype}")
        return self._with_number(
            "histogram", Bins(column, checked_edges(column, edges)), _name(name, f"{column}_bin"), weight
        )

    def plan(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        interval: float | None = None,
        column: str | None = None,
        confidence: float = 0.95,
    ) -> Plan:
        """The noise, the intervals and what would be charged at a budget. Reads no data.

        Parameters
        ----------
        epsilon, delta
            The budget of the release, in total.
        interval
            Instead of `epsilon`: the half-width that the noise interval of `column` may have (the first count or sum
            if no column is named). The plan then has the ε that it takes.
        """
        if delta is None:
            raise ValueError("delta must be given: far below one over the number of units")
        if (epsilon is None) == (interval is None):
            raise ValueError("give one of epsilon (the budget) and interval (the half-width that you can accept)")

        def plan_at(budget: float) -> Plan:
            return make_plan(
                self.groups, self.aggregates, self.dataset.neighbours, budget, delta, confidence, self._cuts()
            )

        if epsilon is None:
            target = real_number("interval", interval, positive=True)
            plan_at(1.0)  # refuses what is wrong with the rest
            epsilon = epsilon_for(target, self._excess(plan_at, target, column, confidence))
        return plan_at(epsilon)

    def release(self, epsilon: float, delta: float, *, confidence: float = 0.95, clamp: bool = False) -> "Release":
        """Read the data and add the planned noise, once.

        The budget is charged first if the data set has a ledger. `clamp=True` shows negative counts as 0 (and sums of
        values that cannot be negative), which biases small groups upward.
        """
        from osgt.tables.release import make_release  # noqa: PLC0415 - it uses this class

        return make_release(self, self.plan(epsilon, delta, confidence=confidence), clamp=clamp)

    def preview(self) -> "Preview":
        """What the bounds cut off, exactly and so **not private**: for whoever may see the data and chooses bounds."""
        from osgt.tables.preview import make_preview  # noqa: PLC0415 - it uses this class

        return make_preview(self)

    def to_dict(self) -> dict[str, Any]:
        """The query in plain values, as in a query file."""
        groups: dict[str, Any] = {"by": list(self.groups.by)}
        if self.groups.by:
            groups["max_groups"] = self.groups.max_groups
        if self.groups.max_rows is not None:
            groups["max_rows_per_group"] = self.groups.max_rows
        groups["public_keys"] = None if self.groups.public is None else self.groups.public.num_rows
        return {
            "data": self.dataset.to_dict(),
            "groups": groups,
            "aggregates": [aggregate.to_dict() for aggregate in self.aggregates],
        }

    def _with_number(self, kind: str, measure: Measure, name: str, weight: float) -> "Query":
        return self._with(Number(name, _weight(weight), self.groups.same(measure), kind))

    def _with(self, aggregate: Aggregate) -> "Query":
        if self.groups.max_rows is None and any(not measure.per_unit for measure in aggregate.measures):
            raise ValueError(
                "max_rows_per_group must be given: the most rows of one unit that may count in a group "
                "(only count_units() can do without)"
            )
        taken = set(self.groups.by) | {
            name + suffix for a in self.aggregates for name in a.names for suffix in ("", "_low", "_high")
        }
        for name in aggregate.names:
            for column in (name, f"{name}_low", f"{name}_high"):
                if column in taken:
                    raise ValueError(f"name: there is a column {column!r} already; give the aggregate another name=")
        query = replace(self, aggregates=(*self.aggregates, aggregate))
        measured_parts(query.groups, query.aggregates, query.dataset.neighbours)  # refuses what is too large
        return query

    def _excess(
        self, plan_at: Callable[[float], Plan], target: float, column: str | None, confidence: float
    ) -> Callable[[float], float]:
        """For ε the log-chance that the noise of a column exceeds the target, less that which the interval allows."""
        numbers = {name: each for each in self.aggregates if isinstance(each, Number) for name in each.names}
        chosen = next(iter(numbers), None) if column is None else column
        if chosen not in numbers:
            raise ValueError(
                f"column must name a count or a sum for plan(interval=…), one of {list(numbers)}; got {column!r}: the "
                "interval of a mean depends on the size of the group"
            )
        number = numbers[chosen]
        steps = math.floor(Fraction(target) / number.grid.step)
        allowed = math.log((1.0 - confidence) / 2)
        return lambda budget: float(plan_at(budget).laws[number.measure].logsf(steps)) - allowed

    def _cuts(self) -> list[str]:
        """What each bound can cut off, in words."""
        unit, cuts = self.dataset.privacy_unit, []
        if self.dataset.filters:
            cuts.append("rows that where(…) leaves out count nowhere")
        if self.groups.by:
            cuts.append(
                f"max_groups = {self.groups.max_groups:,}: of a {unit} in more groups than that, the others are left "
                "out, chosen at random; counts and sums come out too small where that is common"
            )
        if self.groups.max_rows is not None:
            cuts.append(
                f"max_rows_per_group = {self.groups.max_rows:,}: of a {unit} with more rows in a group than that, the "
                "others are left out, chosen at random"
            )
        for aggregate in self.aggregates:
            plain = aggregate.to_dict()
            if "bounds" in plain:
                low, high = plain["bounds"]
                cuts.append(
                    f"bounds of {plain['column']}: values below {low:,} count as {low:,}, values above {high:,} as "
                    f"{high:,}"
                )
            if "edges" in plain:
                first, last = plain["edges"][0], plain["edges"][-1]
                cuts.append(f"edges of {plain['column']}: values below {first:,} or above {last:,} are in no bin")
        if self.groups.public is not None:
            cuts.append("public_keys: rows with other keys count nowhere")
        elif self.groups.by:
            cuts.append("groups below the threshold are mostly left out, with all that is in them")
        cuts.append(f"rows without a {unit} count nowhere")
        return list(dict.fromkeys(cuts))


def _name(name: object, default: str) -> str:
    if name is not None and not (isinstance(name, str) and name):
        raise TypeError(f"name must be the name of a column, got {name!r}")
    return default if name is None else name


def _weight(weight: object) -> float:
    return real_number("weight", weight, positive=True)
