"""Publication: several tables about the same people, released together from one budget."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from osgt.api.limits import PublicationPreview, choose_alone
from osgt.api.publish import make_release
from osgt.api.query import Query, Releasing
from osgt.api.release import PublicationRelease, check_table_name, table_named
from osgt.calibration import Part
from osgt.noise import Family
from osgt.noise.error import Objective
from osgt.plan.choice import LimitChoice, choice_of, draws_of
from osgt.plan.joint import JointPlanning, make_plans
from osgt.plan.plan import AnyPlan, Asked, Plan, linked
from osgt.plan.publication import PublicationPlan
from osgt.plan.schemes import is_alike
from osgt.plan.structure import agree
from osgt.privacy.filters.budget import USUAL_DELTA
from osgt.query.aggregates.base import Limit, OpenLimit, with_any_limits
from osgt.query.aggregates.marks import Marks
from osgt.query.groups import Groups
from osgt.release.measuring import Presentation
from osgt.render.table_cards import several_card
from osgt.support.errors import SEVERAL, ArgumentError, ArgumentTypeError, guided, warn_caller, warn_caller_after_charge
from osgt.support.numeric import positive, real_number
from osgt.support.text import unknown

#: What tables on the same data may differ in.
_OF_TABLES = ("derive", "where")


@dataclass(frozen=True, eq=False)
class Block:
    """Tables with the same rows, groups and bounds. The engine computes them together, from the same kept rows.

    What two of them ask for is measured once, and is the same number in both.
    """

    names: tuple[str, ...]
    #: All that the tables ask for. Weights of columns are 1 on average; those of a table add up to its part of them.
    query: Query
    #: The number of aggregates of each table, and its weight.
    tables: tuple[tuple[int, float], ...]

    @property
    def weight(self) -> float:
        """The weights of its tables together."""
        return math.fsum(weight for _, weight in self.tables)

    def gather_input(
        self, confidence: float, objective: Objective, family: str | Family, *, measure_left_out: bool
    ) -> Asked:
        """Gather the input of a plan; all columns of a table together count as much as its weight says."""
        query = with_any_limits(self.query)
        asked = query.gather_input(confidence, objective, family, measure_left_out=measure_left_out)
        share = self.weight / math.fsum(error.weight for error in asked.planning.errors)
        planning = asked.planning.with_share(share)
        limits = self.query.open_limits
        return replace(asked, planning=planning, open_limits=limits, tables=self.tables)


class Publication(Releasing):
    """Several tables about the same people, released together from one budget.

    One calibration sets the noise of all tables: ε is not split among them. The tables have one plan, one charge to the
    ledger, one statement and one report. Tables whose groups are margins of one another agree to the last digit.

    Parameters
    ----------
    tables
        Queries by the names of their tables: `Publication(by_city=query_1, by_month=query_2)`, or a dict. All of them
        begin with the same `Dataset`; they may differ in `where`, groups, bounds and aggregates.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from osgt import Dataset, Publication
    >>> rides = pa.table({"user": [1, 1, 2], "city": ["Bern", "Rome", "Rome"], "month": [1, 2, 2]})
    >>> data = Dataset(rides, privacy_unit="user")
    >>> cities = data.group_by("city", max_groups=2, max_rows_per_group=1, public_keys=["Bern", "Rome"]).count()
    >>> months = data.group_by("month", max_groups=2, max_rows_per_group=1, public_keys=[1, 2]).count()
    >>> release = Publication(by_city=cities, by_month=months).release(epsilon=1, delta=1e-6)
    >>> release["by_month"].to_arrow().column_names
    ['month', 'count', 'count_low', 'count_high']
    """

    _called, _advice = "a publication", SEVERAL
    _for_users = "plan release choose_limits preview sql tables weights weighted dataset to_dict"

    def __init__(self, *tables: Mapping[str, Query], **more: Query) -> None:
        if len(tables) > 1 or not all(isinstance(mapping, Mapping) for mapping in tables):
            raise ArgumentTypeError(
                "name the tables of a publication, as in Publication(by_city=query_1, by_month=query_2)",
                argument="tables",
            )
        self.tables: dict[str, Query] = {name: query for mapping in (*tables, more) for name, query in mapping.items()}
        _check(self.tables)
        self.weights: dict[str, float] = dict.fromkeys(self.tables, 1.0)
        self.dataset = next(iter(self.tables.values())).dataset
        self._planned: dict[Any, PublicationPlan] = {}
        self._told: set[str] = set()

    def weighted(self, weights: Mapping[str, float] | None = None, /, **more: float) -> "Publication":
        """Give some tables another weight than 1: a larger one means less noise there, and more elsewhere.

        All columns of a table together count for its weight.
        """
        given = {**(weights or {}), **more}
        for name, weight in given.items():
            if name not in self.tables:
                raise ValueError(f"weights: {unknown('table', str(name), [*self.tables], having='there are')}")
            real_number(f"weight of {name}", weight, positive=True)
        result = Publication(self.tables)
        result.weights = {**self.weights, **{name: float(weight) for name, weight in given.items()}}
        return result

    def _advice_on(self, name: str) -> str | None:
        return f"it is a table: publication[{name!r}]" if name in vars(self).get("tables", ()) else None

    def __getitem__(self, name: str) -> Query:
        return table_named(self.tables, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The tables, those with the same rows, groups and bounds together."""
        same: list[list[str]] = []
        for name, query in self.tables.items():
            for names in same:
                if _is_same(query, self.tables[names[0]]):
                    names.append(name)
                    break
            else:
                same.append([name])
        blocks = [self._block(names) for names in same]
        for places in _sets([block.query for block in blocks]):
            keys = [blocks[i].query.groups for i in places]
            for i in places:
                blocks[i] = replace(blocks[i], query=_with_further_keys(blocks[i].query, keys))
        return tuple(blocks)

    @cached_property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The places of blocks whose groups are margins of one another: what they share is estimated together."""
        return _sets([block.query for block in self.blocks])

    def _block(self, names: list[str]) -> Block:
        tables = [(self.tables[name], self.weights[name]) for name in names]
        own = [[error.weight for a in q.aggregates for error in a.errors(with_any_limits(q).groups)] for q, _ in tables]
        weight = math.fsum(share for _, share in tables)
        average = sum(len(weights) for weights in own) / weight
        asked = [
            replace(aggregate, weight=aggregate.weight * share * average / math.fsum(weights))
            for (query, share), weights in zip(tables, own, strict=True)
            for aggregate in query.aggregates
        ]
        parts = tuple((len(query.aggregates), share) for query, share in tables)
        return Block(tuple(names), replace(tables[0][0], aggregates=tuple(asked)), parts)

    @guided
    def plan(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        confidence: float = 0.95,
        objective: Objective = "interval",
        family: str | Family = "osgt",
        measure_left_out: bool = True,
    ) -> PublicationPlan:
        """The noise of all tables and what would be charged at a budget. Reads no data; arguments as for a query."""
        epsilon = self.dataset.budget.get("epsilon") if epsilon is None else epsilon
        delta = self.dataset.budget.get("delta") if delta is None else delta
        if epsilon is None or delta is None:
            name = "delta" if delta is None else "epsilon"
            raise ArgumentError(f"{name} must be given: the budget of all tables together", argument=name)
        epsilon = positive("epsilon", epsilon)
        key = epsilon, delta, confidence, objective, str(family), measure_left_out
        if key not in self._planned:
            asked = self._gather_input(confidence, objective, family, measure_left_out=measure_left_out)
            choice = choice_of(draws_of([block.query for block in self.blocks]), epsilon, self.dataset.units)
            plans = [replace(plan, choice=None) for plan in make_plans(asked, epsilon, delta, choice, self.sets)]
            self._planned[key] = self._plan_of_tables(plans, choice)
        result = self._planned[key]
        warn_caller(result.cautions, self._told)
        return result

    def _gather_input(
        self, confidence: float, objective: Objective, family: str | Family, *, measure_left_out: bool
    ) -> list[Asked]:
        """Gather the input of the plans of all blocks. What limits cut off of the same rows is measured once."""
        blocks = self.blocks
        asked = [b.gather_input(confidence, objective, family, measure_left_out=measure_left_out) for b in blocks]
        whole = [block.left_out for block in asked]
        for places in self.sets:
            for n, i in enumerate(places):
                before = [left_out for j in places[:n] if (left_out := whole[j]) is not None]
                if (own := whole[i]) is not None:
                    asked[i] = replace(asked[i], left_out=own.without(before))
        return asked

    def _plan_of_tables(self, plans: Sequence[Plan], choice: LimitChoice | None) -> PublicationPlan:
        """Make the plans of tables out of those of their blocks."""
        plans = linked(plans, self.sets)
        block_of = {name: i for i, block in enumerate(self.blocks) for name in block.names}
        tables = {
            name: replace(
                plans[block_of[name]],
                aggregates=query.aggregates,
                limit_notes=tuple(query.limit_notes()),
                open_limits=query.open_limits,
            )
            for name, query in self.tables.items()
        }
        return PublicationPlan(tables, tuple(plans), block_of, dict(self.weights), choice, self.sets)

    @guided
    def choose_limits(
        self, epsilon: float, *, release_epsilon: float | None = None, release_delta: float = USUAL_DELTA
    ) -> "Publication":
        """Choose the limits that are open in tables, by themselves; arguments as for a query."""

        def plan_of(budget: float, choice: LimitChoice) -> PublicationPlan:
            asked = self._gather_input(0.95, "interval", "osgt", measure_left_out=True)
            return self._plan_of_tables(make_plans(asked, budget, release_delta, sets=self.sets), choice)

        return self.with_limits(choose_alone(self, epsilon, release_epsilon, plan_of))

    def with_limits(self, limits: Mapping[OpenLimit, Limit]) -> "Publication":
        """Give the tables limits that were chosen for those that are open."""
        # Tables of a block take all its limits, also those that only another of them needs: they stay one block.
        own = {
            name: self.tables[name].with_limits({limit: limits[limit] for limit in block.query.open_limits})
            for block in self.blocks
            for name in block.names
        }
        closed = Publication({name: own[name] for name in self.tables}).weighted(self.weights)
        blocks = [
            replace(block, query=block.query.with_limits({limit: limits[limit] for limit in block.query.open_limits}))
            for block in self.blocks
        ]
        # Two blocks may have come to the same limits, and stay two.
        closed.__dict__ |= {"blocks": tuple(blocks), "sets": self.sets}
        return closed

    def renew(self, plan: AnyPlan) -> PublicationPlan:
        """Make the plan of these tables out of that of the tables whose limits were open."""
        first = plan.blocks[0]
        measured = any(own.left_out is not None for own in plan.blocks)
        asked = self._gather_input(first.confidence, first.objective, first.planning.family, measure_left_out=measured)
        plans = [own.with_limits(block) for own, block in zip(plan.blocks, asked, strict=True)]
        return self._plan_of_tables(plans, plan.choice)

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
    ) -> PublicationRelease:
        """Charge the budget once, read the data and add the planned noise to all tables; arguments as for a query."""
        presentation = Presentation(nonnegative, intervals, Marks.of(marks), corrects)
        plan = self.plan(
            epsilon,
            delta,
            confidence=confidence,
            objective=objective,
            family=family,
            measure_left_out=measure_left_out,
        )
        warn_caller(plan.cautions, self._told)  # `plan` was called from here, and left it to this method
        release = make_release(self, plan, presentation)
        assert isinstance(release, PublicationRelease)
        warn_caller_after_charge(release.data_warnings)
        return release

    def preview(self) -> PublicationPreview:
        """Preview what the bounds of each table cut off: exact, so **not private**, for whoever may see the data."""
        return PublicationPreview({name: query.preview() for name, query in self.tables.items()})

    @property
    def computed(self) -> tuple[Query, ...]:
        """The queries that the engine computes, one for each block."""
        return tuple(block.query for block in self.blocks)

    @property
    def shows_all(self) -> bool:
        """Whether no table chooses its groups by their size."""
        return all(query.shows_all for query in self.tables.values())

    def rough_parts(self, epsilon: float, delta: float) -> tuple[Part, ...]:
        """List the parts that a unit moves in all tables, weighted as the noise is shared out."""
        asked = self._gather_input(0.95, "interval", "osgt", measure_left_out=False)
        return JointPlanning(tuple(block.planning for block in asked), self.sets).rough_parts(epsilon, delta)

    def __repr__(self) -> str:
        return f"Publication({', '.join(self)})"

    def __str__(self) -> str:
        """The tables, and what each asks for."""
        return several_card(self.tables, self.weights).text()

    def _repr_html_(self) -> str:
        return several_card(self.tables, self.weights).html()

    def to_dict(self) -> dict[str, Any]:
        """The publication in plain values, as in a query file."""
        plain = {name: query.to_dict() for name, query in self.tables.items()}
        first = plain[next(iter(plain))]["data"]
        return {
            "data": {key: value for key, value in first.items() if key not in _OF_TABLES},
            "table": [
                {
                    "name": name,
                    "weight": self.weights[name],
                    **{key: table["data"][key] for key in _OF_TABLES},
                    "groups": table["groups"],
                    "aggregates": table["aggregates"],
                }
                for name, table in plain.items()
            ],
        }


def _check(tables: Mapping[str, Any]) -> None:
    """Raise unless these are complete queries about the same people, under names that files can have."""
    if not tables:
        raise ValueError("a publication must have at least one table: Publication(by_city=query)")
    seen: dict[str, str] = {}
    for name, query in tables.items():
        check_table_name(name)
        if name.casefold() in seen:
            raise ValueError(f"tables {seen[name.casefold()]!r} and {name!r} must differ in more than capital letters")
        seen[name.casefold()] = name
        if not isinstance(query, Query):
            raise TypeError(
                f"table {name!r} must be a query, as Dataset.group_by begins it, got an object of type "
                f"{type(query).__name__}"
            )
        if not query.aggregates:
            raise ValueError(f"table {name!r} must ask for something, such as a count, a sum or a mean")
    first_name, first = next(iter(tables.items()))
    for name, query in tables.items():
        if not query.dataset.is_of_same_rows(first.dataset):
            raise ValueError(
                f"tables {first_name!r} and {name!r} must be about the same people in the same data: make one "
                "Dataset(…) and begin both queries with it"
            )


def _is_same(one: Query, other: Query) -> bool:
    """Whether two queries are about the same rows, in the same groups and with the same bounds."""
    return one.groups == other.groups and one.dataset.rows().sql == other.dataset.rows().sql


def _sets(queries: Sequence[Query]) -> tuple[tuple[int, ...], ...]:
    """The places of queries that can agree: each set that has several."""
    result: list[list[int]] = []
    for i, query in enumerate(queries):
        if not _shares_numbers(query):
            continue
        for places in result:
            if all(_can_agree(query, queries[j]) for j in places):
                places.append(i)
                break
        else:
            result.append([i])
    return tuple(tuple(places) for places in result if len(places) > 1)


def _shares_numbers(query: Query) -> bool:
    """Whether any of its numbers is the same sum of rows in tables with other groups, and is not known beforehand."""
    groups = with_any_limits(query).groups
    if any(level.known is not None for level in groups.levels):
        return False
    return any(is_alike(groups, measure) for aggregate in query.aggregates for measure in aggregate.measures)


def _can_agree(one: Query, other: Query) -> bool:
    """Whether two queries are about the same rows, and their groups are margins of one set of groups."""
    own, its = (with_any_limits(query).groups for query in (one, other))
    return one.dataset.rows().sql == other.dataset.rows().sql and agree(own, its)


def _with_further_keys(query: Query, tables: Sequence[Groups]) -> Query:
    """The query of which those rows alone count whose keys are public in all of these tables."""
    others = [(groups.public[name], name) for groups in tables if groups.public is not None for name in groups.by]
    further = {name: column.unique() for column, name in others if name not in query.groups.by}
    return replace(query, groups=replace(query.groups, further=further))
