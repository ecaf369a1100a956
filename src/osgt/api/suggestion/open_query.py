"""A query of which some bounds are still open: it can be completed, or a suggestion for them made."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

from osgt.api.query import Query
from osgt.limits.curve import Bounds, Wanted
from osgt.limits.recommendation import Open
from osgt.query.aggregates import Aggregate, Methods
from osgt.query.aggregates.base import Limits
from osgt.render.table_cards import StillOpen, query_card, query_line

if TYPE_CHECKING:
    from osgt.api.preview import Preview
    from osgt.api.suggestion.suggestion import Suggestion

#: What each open bound is, for messages.
_MEANINGS = {
    "max_groups": "the most groups that one unit may count in",
    "max_rows_per_group": "the most rows of one unit that may count in a group (only count_units() can do without)",
}


@dataclass(frozen=True, eq=False)
class OpenQuery(Methods):
    """A query whose bounds are not all given. `groups` has stand-ins for those that are open.

    Parameters
    ----------
    asked
        The aggregates in plain values, as in a query file; without bounds where these are open.
    given
        The limits that were given: "max_groups" and "max_rows_per_group".
    """

    asked: tuple[Mapping[str, Any], ...] = ()
    given: Mapping[str, int | None] | None = None

    @classmethod
    def of(cls, query: Query, *, max_groups: int | None, max_rows: int | None) -> "OpenQuery":
        """Make an open query of a query and the limits that were given."""
        groups = query.groups
        # With two rows, rows are not taken for units.
        stand_in = replace(groups, max_groups=max_groups or 1, max_rows=max_rows or 2)
        asked = tuple(aggregate.to_dict() for aggregate in query.aggregates)
        given = {"max_groups": max_groups, "max_rows_per_group": max_rows}
        return cls(query.dataset, stand_in, query.aggregates, asked, given)

    def __repr__(self) -> str:
        return query_line(self, "OpenQuery", self._still_open())

    def _repr_html_(self) -> str:
        return query_card(self, self._still_open()).html()

    def _still_open(self) -> StillOpen:
        pairs = enumerate(zip(self.aggregates, self.asked, strict=True))
        unbounded = [i for i, (own, plain) in pairs if "bounds" in own.arguments() and "bounds" not in plain]
        return StillOpen(self.given or {}, unbounded, self.missing)

    def with_aggregate(self, aggregate: Aggregate) -> Self:
        """Add one more aggregate, all of whose bounds are given."""
        stand_in = replace(Query(self.dataset, self.groups), aggregates=self.aggregates).with_aggregate(aggregate)
        return replace(self, aggregates=stand_in.aggregates, asked=(*self.asked, aggregate.to_dict()))

    def without_bounds(self, kind: str, arguments: Mapping[str, Any]) -> Self:
        """Add one more aggregate, whose bounds are open."""
        plain = {"kind": kind, **{name: value for name, value in arguments.items() if value is not None}}
        probe = getattr(Query(self.dataset, self.groups, self.aggregates), kind)
        stand_in = probe(bounds=(0, 1), **{name: value for name, value in plain.items() if name != "kind"})
        return replace(self, aggregates=stand_in.aggregates, asked=(*self.asked, plain))

    @property
    def wanted(self) -> Open:
        """The input of a suggestion: the aggregates, and the bounds that were given."""
        limits = dict(self.given or {})
        wanted = tuple(
            Wanted(each["kind"], float(each.get("weight", 1)), each.get("column"), _pair(each.get("bounds")))
            for each in self.asked
        )
        bounds: dict[str, Bounds | None] = {}
        for each in wanted:
            if each.needs_bounds and each.column is not None:
                bounds[each.column] = bounds.get(each.column) or each.bounds
        rows = any(each.needs_rows for each in wanted)
        return Open(
            wanted,
            limits.get("max_groups") if self.groups.by else 1,
            limits.get("max_rows_per_group") if rows else 1,
            bounds,
            grouped=bool(self.groups.by),
        )

    @property
    def given_limits(self) -> list[Limits]:
        """The values that the bounds which were given cut off."""
        settled = [
            aggregate
            for aggregate, plain in zip(self.aggregates, self.asked, strict=True)
            if "bounds" in plain or "bounds" not in aggregate.arguments()
        ]
        return [limits for aggregate in settled for limits in aggregate.limits]

    @property
    def missing(self) -> list[str]:
        """The bounds that are open, in words."""
        wanted = self.wanted
        found = []
        if wanted.max_groups is None:
            found.append(f"max_groups must be given: {_MEANINGS['max_groups']}")
        if wanted.max_rows is None:
            found.append(f"max_rows_per_group must be given: {_MEANINGS['max_rows_per_group']}")
        found += [
            f"bounds must be given for column {each.column!r}: the least and the largest value that a row may count as"
            for each in wanted.wanted
            if each.needs_bounds and each.bounds is None
        ]
        return found

    def completed(self, max_groups: int, max_rows: int, bounds: Mapping[str, Bounds]) -> Query:
        """The query with these bounds where none were given."""
        limits = dict(self.given or {})
        rows = limits.get("max_rows_per_group") or (max_rows if self.wanted.needs_rows else None)
        limit = (limits.get("max_groups") or max_groups) if self.groups.by else 1
        query = Query(self.dataset, replace(self.groups, max_groups=limit, max_rows=rows))
        for each in self.asked:
            arguments = {name: value for name, value in each.items() if name != "kind"}
            if "bounds" not in arguments and each.get("column") in bounds:
                arguments["bounds"] = bounds[each["column"]]
            query = getattr(query, each["kind"])(**arguments)
        return query

    def suggest_bounds(self, epsilon: float, delta: float = 0.0, **options: Any) -> "Suggestion":
        """See `Query.suggest_bounds`."""
        from osgt.api.suggestion.histograms import suggest  # noqa: PLC0415 - it uses this class

        return suggest(self, epsilon, delta, **options)

    def plan(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse, since not all bounds are given."""
        self.refuse()

    def refuse(self, where: str = "") -> NoReturn:
        """Say what is missing."""
        if not self.missing:
            raise ValueError(f"{where}the query must ask for something, such as a count, a sum or a mean")
        raise ValueError(f"{where}{self.missing[0]}. `suggest_bounds` in Python, or `osgt bounds`, recommends one")

    release = to_dict = plan

    def preview(self) -> "Preview":
        """See `Query.preview`; bounds need not be given."""
        from osgt.api.preview import make_preview  # noqa: PLC0415 - it uses this class

        if not self.asked:
            raise ValueError("the query must ask for something, such as a count, a sum or a mean")
        return make_preview(self)


def _pair(bounds: Any) -> Bounds | None:
    return None if bounds is None else (float(bounds[0]), float(bounds[1]))
