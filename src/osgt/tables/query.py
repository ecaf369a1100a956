"""Query: groups, bounds and aggregates, built step by step; nothing is read until `release`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from osgt.calibration import Part
from osgt.noise import Family, family_of
from osgt.noise.error import Objective
from osgt.noise.parameters import real_number
from osgt.pages.numbers import counted, with_article
from osgt.tables.about import About, ReportTexts
from osgt.tables.aggregates import Aggregate, Column, Methods
from osgt.tables.bounds.curve import Aim
from osgt.tables.joint_planning import JointPlanning
from osgt.tables.left_out_measures import left_out_measures
from osgt.tables.plan import Asked, Plan, epsilon_for, make_plans
from osgt.tables.planning import Planning

if TYPE_CHECKING:
    from osgt.tables.bounds.suggestion import Suggestion
    from osgt.tables.preview import Preview
    from osgt.tables.release import Release


@dataclass(frozen=True, eq=False)
class Query(Methods):
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

    #: Plans that were made, since a release plans as well, and what is the same for every budget.
    _planned: dict[Any, Plan] = field(default_factory=dict, init=False, repr=False)
    _plannings: dict[Any, Planning] = field(default_factory=dict, init=False, repr=False)

    def plan(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        interval: float | None = None,
        column: str | None = None,
        confidence: float = 0.95,
        objective: Objective = "interval",
        family: str | Family = "osgt",
        charged: bool | None = None,
        measure_left_out: bool = True,
    ) -> Plan:
        """The noise, the intervals and what would be charged at a budget. Reads no data.

        Parameters
        ----------
        epsilon, delta
            The budget of the release, in total.
        interval
            Instead of `epsilon`: the half-width that the noise interval of `column` may have (the first count or sum
            if no column is named). The plan then has the ε that it takes.
        objective
            What to make small: "interval", the half-widths that are shown; or, as for `calibrate`, "variance",
            "mean_abs", ("quantile", p) or ("max", n). Of several columns the sum of weight·(error/shift)².
        family
            The noise family to choose from.
        charged
            Whether a ledger is charged, which takes a part of δ where groups are chosen by their size; if the data set
            has one, unless told otherwise.
        measure_left_out
            Whether the release measures what its bounds leave out, for 2 % of the variance. It does not where they can
            leave out nothing.
        """
        if delta is None:
            raise ValueError("delta must be given: far below one over the number of units")
        if (epsilon is None) == (interval is None):
            raise ValueError("give one of epsilon (the budget) and interval (the half-width that you can accept)")

        asked = self.asked(confidence, objective, family, measure_left_out=measure_left_out)
        apart = self.dataset.ledger is not None if charged is None else charged

        def plan_at(budget: float) -> Plan:
            key = budget, delta, confidence, objective, asked.planning.family.name, apart, measure_left_out
            if key not in self._planned:
                [self._planned[key]] = make_plans([asked], budget, delta, charged=apart)
            return self._planned[key]

        if epsilon is None:
            target = real_number("interval", interval, positive=True)
            first = plan_at(1.0)  # refuses what is wrong with the rest
            chosen = _chosen(first.columns, column)
            width = first.columns[chosen].half_width or target  # about inversely proportional to ε
            epsilon = epsilon_for(target, lambda at: plan_at(at).columns[chosen].excess(target), width / target)
        return plan_at(epsilon)

    def asked(self, confidence: float, objective: Objective, family: str | Family, *, measure_left_out: bool) -> Asked:
        """What a plan is made for."""
        left_out = left_out_measures(self.groups, self.aggregates) if measure_left_out else None
        return Asked(self.planning(confidence, objective, family), tuple(self.cuts()), left_out)

    def planning(
        self, confidence: float = 0.95, objective: Objective = "interval", family: str | Family = "osgt"
    ) -> Planning:
        """All that decides about the noise but the budget."""
        key = confidence, objective, family_of(family)
        if key not in self._plannings:
            schema = self.dataset.table.schema()
            columns = {column for each in self.aggregates for measure in each.measures for column in measure.columns}
            # Floats without nulls may still be NaN, which counts as missing.
            complete = {name for name in columns if not (schema[name].nullable or schema[name].is_floating())}
            self._plannings[key] = Planning(
                self.groups,
                self.dataset.neighbours,
                self.aggregates,
                frozenset(complete),
                objective,
                confidence,
                family_of(family),
            )
        return self._plannings[key]

    def release(
        self,
        epsilon: float,
        delta: float,
        *,
        confidence: float = 0.95,
        nonnegative: bool = False,
        objective: Objective = "interval",
        family: str | Family = "osgt",
        measure_left_out: bool = True,
    ) -> "Release":
        """Read the data and add the planned noise, once; `objective`, `family`, `measure_left_out` as for `plan`.

        The budget is charged first if the data set has a ledger. `nonnegative=True` shows negative counts as 0, and
        sums of values that cannot be negative, which makes small groups too large on average. With totals the other
        groups of the same total are lowered for that, so that totals stay. The intervals are those before that step,
        cut off at 0.
        """
        from osgt.tables.release import make_release  # noqa: PLC0415 - it uses this class

        plan = self.plan(
            epsilon,
            delta,
            confidence=confidence,
            objective=objective,
            family=family,
            measure_left_out=measure_left_out,
        )
        return make_release(self, plan, nonnegative=nonnegative)

    def check_release(self, plan: Plan) -> None:
        """Refuse all that a release of this plan would refuse now, the ledger included. Reads and charges nothing."""
        from osgt.tables.release import check_release  # noqa: PLC0415 - it uses this class

        check_release(self, plan)

    def suggest_bounds(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        release_epsilon: float | None = None,
        release_delta: float | None = None,
        aim: Aim = "error",
        confidence: float = 0.95,
    ) -> "Suggestion":
        """Recommend the bounds that are not given, from noisy histograms over units. Private, and charged.

        Parameters
        ----------
        epsilon, delta
            The budget of the suggestion, which is charged beside that of the release. A tenth of the release's budget,
            or less, is enough; δ is of use only where groups are not public.
        release_epsilon, release_delta
            The budget that the release will have; ten times that of the suggestion if not given.
        aim
            What the bounds are for: "error", the least root mean square error; or "coverage", the least among bounds
            that cut off so little that noise intervals also hold the numbers that nothing was cut off from: in nine of
            ten groups no more than half a standard deviation of the noise, as far as the histograms tell.
        """
        return self._open().suggest_bounds(  # type: ignore[no-any-return]
            epsilon,
            delta,
            release_epsilon=release_epsilon,
            release_delta=release_delta,
            aim=aim,
            confidence=confidence,
        )

    def preview(self) -> "Preview":
        """What bounds cut off, exactly and so **not private**: for whoever may see the data and chooses bounds.

        Bounds that are not given yet can be left out: there is a line for each of many choices.
        """
        return self._open().preview()  # type: ignore[no-any-return]

    @property
    def tables(self) -> "dict[str, Query]":
        """The queries of all tables: this one, without a name."""
        return {"": self}

    def about(self, texts: ReportTexts) -> About:
        """The texts of a report on this query, checked."""
        return About.of([self], texts)

    @property
    def shows_all(self) -> bool:
        """Whether no group is chosen by its size."""
        return self.groups.shows_all

    def rough_parts(self, epsilon: float, delta: float) -> tuple[Part, ...]:
        """What a unit moves, weighted as the noise is shared out, by a formula instead of a calibration."""
        return JointPlanning((self.planning(),)).rough_parts(epsilon, delta)

    def to_dict(self) -> dict[str, Any]:
        """The query in plain values, as in a query file."""
        groups: dict[str, Any] = {"by": list(self.groups.by)}
        if self.groups.by and not self.groups.each_row:
            groups["max_groups"] = self.groups.max_groups
        if self.groups.max_rows is not None and not self.groups.each_row:
            groups["max_rows_per_group"] = self.groups.max_rows
        groups["public_keys"] = None if self.groups.public is None else self.groups.public.num_rows
        if self.groups.levels:
            groups["totals"] = [level.to_dict() for level in self.groups.levels]
        return {
            "data": self.dataset.to_dict(),
            "groups": groups,
            "aggregates": [aggregate.to_dict() for aggregate in self.aggregates],
        }

    def __repr__(self) -> str:
        from osgt.tables.cards import query_line  # noqa: PLC0415 - it uses this class

        return query_line(self, "Query")

    def _repr_html_(self) -> str:
        from osgt.tables.cards import query_card  # noqa: PLC0415 - it uses this class

        return query_card(self).html()

    def with_aggregate(self, aggregate: Aggregate) -> Self:
        """The same query with one more aggregate; refuses names that are taken and bounds that are too wide."""
        if self.groups.max_rows is None and any(not measure.per_unit for measure in aggregate.measures):
            return self._open().with_aggregate(aggregate)  # type: ignore[no-any-return]
        taken = set(self.groups.by) | {
            name + suffix for a in self.aggregates for name in a.names for suffix in ("", "_low", "_high")
        }
        for name in aggregate.names:
            for column in (name, f"{name}_low", f"{name}_high"):
                if column in taken:
                    raise ValueError(
                        f"name: there is a column {column!r} already; leave one out, or give it another name"
                    )
        query = replace(self, aggregates=(*self.aggregates, aggregate))
        query.planning().checked()
        return query

    def without_bounds(self, kind: str, arguments: Mapping[str, Any]) -> Any:
        """A query with one more aggregate, whose bounds are open."""
        return self._open().without_bounds(kind, arguments)

    def _open(self) -> Any:
        """The same query for one whose bounds are not all given."""
        from osgt.tables.bounds.open_query import OpenQuery  # noqa: PLC0415 - it uses this class

        return OpenQuery.of(self, max_groups=self.groups.max_groups, max_rows=self.groups.max_rows)

    def cuts(self) -> list[str]:
        """What each bound can cut off, in words."""
        unit, cuts = self.dataset.privacy_unit, []
        one = with_article(unit)
        if self.dataset.filters:
            cuts.append("rows that where(…) leaves out are ignored")
        if (most := self.groups.max_groups) and self.groups.by and not self.groups.each_row:
            cuts.append(
                f"max_groups = {most:,}: {one} in more than {counted(most, 'group')} is counted in {most:,} of them, "
                "chosen at random; where that is common, counts and sums come out too small"
            )
        if self.groups.max_rows is not None and not self.groups.each_row:
            cuts.append(
                f"max_rows_per_group = {self.groups.max_rows:,}: {one} with more than "
                f"{counted(self.groups.max_rows, 'row')} in a group is counted with {self.groups.max_rows:,} of them, "
                "chosen at random"
            )
        cuts += [limits.words for aggregate in self.aggregates for limits in aggregate.limits]
        if self.groups.public is not None:
            cuts.append("public_keys: rows with other keys are ignored")
        elif self.groups.by:
            cuts.append("groups below the threshold are mostly left out, with all that is in them")
        if not self.groups.each_row:
            cuts.append(f"rows without {one} are ignored")
        return list(dict.fromkeys(cuts))


def _chosen(columns: Sequence[Column], name: str | None) -> int:
    """The place of the column whose interval is asked for; if none is named, the first that has one for all groups."""
    known = {column.name: i for i, column in enumerate(columns) if column.noise is not None}
    chosen = next(iter(known), None) if name is None else name
    if chosen not in known:
        raise ValueError(
            f"column must name a count or a sum for plan(interval=…), one of {list(known)}; got {name!r}: the "
            "interval of a mean, a proportion or a quantile depends on the group"
        )
    return known[chosen]
