"""Query: groups, bounds and aggregates, built step by step; nothing is read until `release`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, cast

from osgt.api.limits import Preview, choose_alone, make_preview
from osgt.api.publish import AnyQuery, check_release, make_release, sql_of
from osgt.api.release import Release, checked_texts
from osgt.calibration import Part
from osgt.facts import series_wording, wording
from osgt.limits.left_out import left_out_measures
from osgt.limits.misfits import declared_columns
from osgt.noise import Family, family_of
from osgt.noise.error import Objective
from osgt.plan.choice import LimitChoice, choice_of, draws_of
from osgt.plan.inputs import Planning
from osgt.plan.joint import JointPlanning, epsilon_for, make_plans
from osgt.plan.known import known_totals
from osgt.plan.plan import AnyPlan, Asked, Plan
from osgt.privacy.filters.budget import USUAL_DELTA
from osgt.query.about import About, ReportTexts
from osgt.query.aggregates import Aggregate, Column, Methods, method_names
from osgt.query.aggregates.base import (
    Limit,
    OpenLimit,
    counts_units,
    open_limits,
    rate_names,
    with_any_limits,
    with_limits,
)
from osgt.query.aggregates.marks import Marks
from osgt.release.measuring import Presentation
from osgt.render.table_cards import query_card, query_line
from osgt.support.errors import ASKING, ArgumentError, Familiar, guided, warn_caller, warn_caller_after_charge
from osgt.support.numeric import positive, real_number
from osgt.support.text import with_article


class Releasing(Familiar):
    """The methods that a query of one table and one of several have alike."""

    def sql(self, plan: AnyPlan | None = None) -> str:
        """The SQL that a release sends to the engine, with a comment for each step. It has no data in it.

        Which sums are asked for depends on the plan; without one, that of ε = 1 and a usual δ is taken. Limits that are
        still to be chosen stand as some number, and so does the salt by which the groups of a unit are chosen.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from osgt import Dataset
        >>> visits = pa.table({"patient": ["a", "b"], "ward": ["x", "y"]})
        >>> query = Dataset(visits, privacy_unit="patient").group_by("ward", max_rows=2, public_keys=["x", "y"]).count()
        >>> print(query.sql().splitlines()[0])
        -- Statement 1 of 1: The sums that noise is added to.
        """
        query = cast(AnyQuery, self)
        return sql_of(query, query.plan(1, USUAL_DELTA) if plan is None else plan)

    def check_release(self, plan: AnyPlan) -> None:
        """Refuse all that a release of this plan would refuse now, the ledger included. Reads and charges nothing."""
        check_release(cast(AnyQuery, self), plan)

    def about(self, texts: ReportTexts) -> About:
        """The texts of a report on all tables, checked: labels and units are of what they publish."""
        return checked_texts(cast(AnyQuery, self).tables, texts)


@dataclass(frozen=True, eq=False)
class Query(Releasing, Methods):
    """A request for a private table. Every method returns a new query; `plan` and `release` end the chain.

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

    _called, _advice = "a query", ASKING
    _for_users = "plan release choose_limits preview open_limits sql dataset to_dict"

    #: Plans that were made, since a release plans as well, and what is the same for every budget.
    _planned: dict[Any, Plan] = field(default_factory=dict, init=False, repr=False)
    _plannings: dict[Any, Planning] = field(default_factory=dict, init=False, repr=False)
    #: Warnings that Python has shown.
    _told: set[str] = field(default_factory=set, init=False, repr=False)

    @guided
    def plan(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        interval: float | None = None,
        relative_error: float | None = None,
        group_size: float | None = None,
        column: str | None = None,
        confidence: float = 0.95,
        objective: Objective = "interval",
        family: str | Family = "osgt",
        measure_left_out: bool = True,
    ) -> Plan:
        """The noise, the intervals and what would be charged at a budget. Reads no data.

        Parameters
        ----------
        epsilon, delta
            The budget of the release, in total; that of the data file if it is not given, and the data set has one.
        interval
            Instead of `epsilon`: the half-width that the noise interval of `column` may have (the first count or sum
            if no column is named). The plan then has the ε that it takes.
        relative_error, group_size
            Instead of `epsilon`: the half-width that the noise interval of a count may have, as a part of the count in
            a group of this size. `relative_error=0.1, group_size=500` is `interval=50`.
        objective
            What to make small: "interval", the half-widths that are shown; or, as for `calibrate`, "variance",
            "mean_abs", ("quantile", p) or ("max", n). Of several columns the sum of weight·(error/shift)².
        family
            The noise family to choose from.
        measure_left_out
            Whether the release measures what its limits cut off, for a small part of ε. It does not where they can cut
            off nothing.
        """
        interval = _interval_of(relative_error, group_size, interval)
        budget = self.dataset.budget
        delta = budget.get("delta") if delta is None else delta
        epsilon = budget.get("epsilon") if epsilon is None and interval is None else epsilon
        if epsilon is None and interval is None and delta is None:
            raise ArgumentError("epsilon must be given, and delta: the budget", argument="epsilon")
        if delta is None:
            raise ArgumentError("delta must be given: far below one over the number of units", argument="delta")
        if (epsilon is None) == (interval is None):
            raise ValueError(
                "give one of epsilon (the budget) and interval (the half-width that you can accept), or relative_error "
                "and group_size in place of interval"
            )
        epsilon = None if epsilon is None else positive("epsilon", epsilon)

        asked = self._gather_with_any_limits(confidence, objective, family, measure_left_out=measure_left_out)

        def plan_at(epsilon: float) -> Plan:
            key = epsilon, delta, confidence, objective, asked.planning.family.name, measure_left_out
            if key not in self._planned:
                [self._planned[key]] = make_plans([asked], epsilon, delta, self.choice(epsilon))
            return self._planned[key]

        if epsilon is None:
            target = real_number("interval", interval, positive=True)
            if self.open_limits:
                raise ArgumentError(
                    "interval: how wide it is depends on limits that are open. Give epsilon, or "
                    + " and ".join(limit.words for limit in self.open_limits),
                    argument="interval",
                )
            first = plan_at(1.0)  # refuses what is wrong with the rest
            chosen = _chosen(first.columns, column, counts=relative_error is not None)
            width = first.columns[chosen].half_width or target  # about inversely proportional to ε
            epsilon = epsilon_for(target, lambda at: plan_at(at).columns[chosen].excess(target), width / target)
        found = plan_at(epsilon)
        warn_caller(found.warnings, self._told)
        return found

    def gather_input(
        self, confidence: float, objective: Objective, family: str | Family, *, measure_left_out: bool
    ) -> Asked:
        """Gather the input of a plan."""
        if self.groups.levels:
            known_totals(self.groups, self.aggregates, complete=True)
        left_out = left_out_measures(self.groups, self.aggregates, declared_columns(self)) if measure_left_out else None
        return Asked(self.planning(confidence, objective, family), tuple(self.limit_notes()), left_out)

    def _gather_with_any_limits(self, *arguments: Any, measure_left_out: bool) -> Asked:
        """Gather the input of a plan; limits stand in for those that are open."""
        asked = with_any_limits(self).gather_input(*arguments, measure_left_out=measure_left_out)
        return replace(asked, limit_notes=tuple(self.limit_notes()), open_limits=self.open_limits)

    def planning(
        self, confidence: float = 0.95, objective: Objective = "interval", family: str | Family = "osgt"
    ) -> Planning:
        """Gather everything that decides about the noise, except for the budget."""
        key = confidence, objective, family_of(family)
        if key not in self._plannings:
            types = self.dataset.table.columns
            columns = {column for each in self.aggregates for measure in each.measures for column in measure.columns}
            # Floats without nulls may still be NaN, which counts as missing.
            complete = {name for name in columns if not (types[name].nullable or types[name].kind == "float")}
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

    @guided
    def release(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        confidence: float = 0.95,
        nonnegative: bool = False,
        intervals: Literal["truth", "noise"] = "truth",
        marks: bool | Sequence[float] = False,
        corrects: int | None = None,
        objective: Objective = "interval",
        family: str | Family = "osgt",
        measure_left_out: bool = True,
    ) -> Release:
        """Read the data and add the planned noise, once; `objective`, `family`, `measure_left_out` as for `plan`.

        The budget is that of the data file if it is not given, and the data set has one. It is charged first if the
        data set has a ledger. `nonnegative=True` shows negative counts as 0, and
        sums of values that cannot be negative; the other groups are lowered alike for that, so that the sum of the
        column and all totals stay. Small groups come out too large on average, and large ones too small. The intervals
        are those before that step, cut off at 0. Upper ends of counts allow for what the limits cut off, so that
        intervals hold the true numbers; with `intervals="noise"` they allow for the noise alone.

        `marks=True` puts a quality mark beside each number, in a column `…_mark`: by the standard deviation of its
        noise over the number, "good" up to 16.6 %, "use with caution" up to 33.3 %, "too uncertain" above. Other
        thresholds: `marks=[0.1, 0.25]`. Marks cost no budget.

        `corrects=7` says that this release corrects that of entry 7 in the ledger, which stays charged.

        Limits that are not given are chosen privately first, within the same budget.
        """
        presentation = Presentation(nonnegative, intervals, Marks.of(marks), corrects)
        plan = self.plan(
            epsilon,
            delta,
            confidence=confidence,
            objective=objective,
            family=family,
            measure_left_out=measure_left_out,
        )
        warn_caller(plan.warnings, self._told)  # `plan` was called from here, and left it to this method
        release = make_release(self, plan, presentation).tables[""]
        warn_caller_after_charge(release.data_warnings)
        return release

    def choice(self, epsilon: float) -> LimitChoice | None:
        """The choice of limits that a release at this ε begins with; None if all are given."""
        return choice_of(draws_of([self]), epsilon, self.dataset.units)

    @guided
    def choose_limits(
        self, epsilon: float, *, release_epsilon: float | None = None, release_delta: float = USUAL_DELTA
    ) -> "Query":
        """Choose the limits that are open, by themselves: the query with all its limits, for any number of releases.

        A release that finds limits open chooses them itself, within its own budget. This is for whoever wants to see
        them first, or to use them more than once. It is private and is charged to the ledger, with δ = 0.

        Parameters
        ----------
        epsilon
            The ε of the choice.
        release_epsilon, release_delta
            The budget of the release that follows: with less noise, larger limits are better. If not given, ten times
            `epsilon`, and a δ that is usual.
        """

        def plan_of(budget: float, choice: LimitChoice) -> Plan:
            asked = self._gather_with_any_limits(0.95, "interval", "osgt", measure_left_out=True)
            [plan] = make_plans([asked], budget, release_delta)
            return replace(plan, choice=choice)

        return self.with_limits(choose_alone(self, epsilon, release_epsilon, plan_of))

    def with_limits(self, limits: Mapping[OpenLimit, Limit]) -> "Query":
        """Give the query limits that were chosen for those that are open."""
        return with_limits(self, limits)

    def renew(self, plan: AnyPlan) -> Plan:
        """Make the plan of this query out of that of the query whose limits were open."""
        [own] = plan.blocks
        measured = own.left_out is not None
        return own.with_limits(
            self.gather_input(own.confidence, own.objective, own.planning.family, measure_left_out=measured)
        )

    def preview(self) -> Preview:
        """Preview what limits cut off, exactly and so **not private**: for whoever may see the data.

        Limits need not be given: there is a line for each of many choices.
        """
        if not self.aggregates:
            raise ValueError("the query must ask for something, such as a count, a sum or a mean")
        return make_preview(self)

    @property
    def open_limits(self) -> tuple[OpenLimit, ...]:
        """The limits that are not given, and that a release has to choose first."""
        return open_limits(self)

    @property
    def tables(self) -> "dict[str, Query]":
        """The queries of all tables: this one, without a name."""
        return {"": self}

    @property
    def computed(self) -> "tuple[Query, ...]":
        """The queries that the engine computes: this one."""
        return (self,)

    @property
    def shows_all(self) -> bool:
        """Whether no group is chosen by its size."""
        return self.groups.shows_all

    def rough_parts(self, epsilon: float, delta: float) -> tuple[Part, ...]:
        """List the parts that a unit moves, weighted as the noise is shared out, by a formula and no calibration."""
        return JointPlanning((with_any_limits(self).planning(),)).rough_parts(epsilon, delta)

    def __repr__(self) -> str:
        return query_line(self)

    def __str__(self) -> str:
        """Say what is asked for, and which limits are open."""
        return query_card(self).text()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *method_names()})

    def _repr_html_(self) -> str:
        return query_card(self).html()

    def with_aggregate(self, aggregate: Aggregate) -> Self:
        """Add one more aggregate; refuse names that are taken and bounds that are too wide."""
        taken = set(self.groups.by) | {
            name + suffix for a in self.aggregates for name in a.names for suffix in ("", "_low", "_high", "_mark")
        }
        taken |= {rate + suffix for rate in rate_names(self).values() for suffix in ("", "_low", "_high")}
        for name in aggregate.names:
            for column in (name, f"{name}_low", f"{name}_high", f"{name}_mark"):
                if column in taken:
                    raise ArgumentError(
                        f"name: there is a column {column!r} already; leave one out, or give it another name",
                        argument="name",
                    )
        query = replace(self, aggregates=(*self.aggregates, aggregate))
        self._check_groups(aggregate)
        with_any_limits(query).planning().checked()
        return query

    def _check_groups(self, aggregate: Aggregate) -> None:
        """Raise where units are counted, or lengths limited, in groups of which a unit may be in any number."""
        groups = self.groups
        unlimited = not groups.shows_all and groups.max_groups is None and not groups.each_row
        if unlimited and (groups.max_length is not None or any(measure.per_unit for measure in aggregate.measures)):
            raise ArgumentError(
                f"max_groups must be given for {aggregate.kind} where groups are chosen by their size; or give "
                "public_keys",
                argument="max_groups",
            )

    def limit_notes(self) -> list[str]:
        """Say what each bound can cut off."""
        unit = self.dataset.unit.noun
        cuts: list[str] = []
        one = with_article(unit)
        if not self.groups.each_row and (self.groups.limits or not self.open_limits):
            cuts += map(wording.as_clause, wording.limits(self.groups, counts_units=counts_units(self.aggregates)))
        for aggregate in self.aggregates:
            if aggregate.open_limit is None:
                cuts += [limits.words for limits in aggregate.limits]
                cuts += self._own_limit_notes(aggregate)
        if self.groups.public is not None:
            cuts.append("public_keys: rows with other keys are ignored")
        elif self.groups.by:
            cuts.append("groups below the threshold are mostly left out, with all that is in them")
        if not self.groups.each_row:
            cuts.append(f"rows without {one} are ignored")
        if self.dataset.part is not None:
            cuts += map(wording.as_clause, series_wording.of_part(self.dataset))
        return list(dict.fromkeys(cuts))

    def _own_limit_notes(self, aggregate: Aggregate) -> list[str]:
        """Say what a limit on the total of a unit, or on its different values, cuts off, if there is one."""
        arguments = aggregate.arguments()
        if "max_distinct" in arguments and not self.groups.each_row:
            limit = wording.distinct_limit(self.groups.noun, arguments["column"], arguments["max_distinct"])
            return [wording.as_clause(limit)]
        if "max_total" not in arguments:
            return []
        total = arguments["max_total"]
        most, column = total[-1] if isinstance(total, list) else total, arguments["column"]
        each_row = self.groups.each_row
        return [wording.as_clause(wording.total_limit(self.groups.noun, column, f"{most:,}", each_row=each_row))]


def _interval_of(relative_error: float | None, group_size: float | None, interval: float | None) -> float | None:
    """The half-width that is asked for: as it is given, or as a part of a count of a size."""
    if relative_error is None and group_size is None:
        return interval
    for name, value in (("relative_error", relative_error), ("group_size", group_size)):
        if value is None:
            raise ArgumentError(
                f"{name} must be given: relative_error is a part of the count of a group of group_size",
                argument=name,
            )
    if interval is not None:
        raise ArgumentError(
            "interval must be left out with relative_error and group_size, which say the same", argument="interval"
        )
    part = real_number("relative_error", relative_error, positive=True)
    return part * real_number("group_size", group_size, positive=True)


def _chosen(columns: Sequence[Column], name: str | None, *, counts: bool) -> int:
    """The place of the column whose interval is asked for: without a name, the first with one for all groups.

    With `counts`, it must be a count.
    """
    known = {
        column.name: i
        for i, column in enumerate(columns)
        if column.noise is not None and (column.is_count or not counts)
    }
    chosen = next(iter(known), None) if name is None else name
    if chosen in known:
        return known[chosen]
    if counts:
        raise ArgumentError(
            f"column must name a count for plan(relative_error=…), one of {list(known)}; got {chosen!r}. How large a "
            "sum, a mean or a quantile is does not follow from the size of its group: for a sum, give interval, the "
            "half-width that you can accept",
            argument="column",
        )
    raise ArgumentError(
        f"column must name a count or a sum for plan(interval=…), one of {list(known)}; got {name!r}: the "
        "interval of a mean, a proportion or a quantile depends on the group",
        argument="column",
    )
