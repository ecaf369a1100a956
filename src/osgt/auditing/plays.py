"""What is played again on neighbouring tables: the release of a query, and the histograms of a suggestion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.moves import ByGroup
from osgt.auditing.replay import Allowed, Played
from osgt.auditing.stage import keys_of, plain_sql
from osgt.tables.bounds.budget import NoisePlan
from osgt.tables.bounds.measuring import Layout
from osgt.tables.bounds.suggesting import exact_histograms, prepared_histograms
from osgt.tables.measures import Measure
from osgt.tables.measuring import exact_numbers, prepared, with_noise
from osgt.tables.plan import Plan
from osgt.tables.release import finished
from osgt.tables.totals import Total, UnitsAt

#: What a statement may say about the data: when it was made, how many groups it shows, and what is measured with noise.
_MAY_DIFFER = ("date", "groups_shown", "left_out", "warnings")


@dataclass(frozen=True, eq=False)
class ReleasePlay:
    """A release by its plan: the numbers of each measure, and of what the bounds leave out."""

    plan: Plan

    @property
    def allowed(self) -> Mapping[str, Allowed]:
        """How far one unit may move the numbers."""
        found = {
            measure.words: Allowed(part, in_groups=not (part.also or measure.for_table))
            for measure, part in self.plan.parts.items()
        }
        return found | {_left_out(name): Allowed(part) for name, (_, part) in self.plan.noise.beside.items()}

    def played(self, query: Any, salt: int, order: str) -> Played:
        """What comes out of the query."""
        plan, form = self.plan, {}
        ready = prepared(query, plan, salt, order)
        form["SQL text"] = plain_sql(ready)
        exact = exact_numbers(query, plan, ready)
        names = keys_of(exact.keys)
        numbers = {measure.words: _by_place(measure, names, each) for measure, each in exact.numbers.items()}
        release = finished(query, plan, with_noise(query, plan, exact), nonnegative=False)
        form["aggregates and their grids"] = repr(query.aggregates)
        form["noise"] = repr([*query.planning().complete, query.planning().neighbours, query.planning().errors])
        form["columns and types"] = str(release.table.schema)
        statement = {k: v for k, v in release.statement.to_dict().items() if k not in _MAY_DIFFER}
        if release.left_out is not None:
            del statement["statement"]  # its words tell what is measured with noise
        form["statement"] = repr(statement)
        return Played(numbers | {_left_out(name): _at_once(each) for name, each in exact.left_out.items()}, form)


@dataclass(frozen=True, eq=False)
class SuggestionPlay:
    """The histograms that bounds are recommended from."""

    layout: Layout
    plan: NoisePlan

    @property
    def allowed(self) -> Mapping[str, Allowed]:
        """How far one unit may move the histograms."""
        return {_histogram(name): Allowed(part) for name, part in self.plan.parts.items()}

    def played(self, query: Any, salt: int, order: str) -> Played:
        """What comes out of the query."""
        ready = prepared_histograms(query, self.layout, salt, order)
        exact = exact_histograms(query, self.layout, ready)
        every = {"groups": exact.groups, "rows": exact.rows}
        every |= {f"values of {name}": numbers for name, numbers in exact.values.items()}
        found = {_histogram(name): _at_once(numbers) for name, numbers in every.items() if numbers is not None}
        if exact.sizes is not None:
            found[_histogram("sizes")] = _in_order(exact.sizes, public=query.groups.public is not None)
        return Played(found, {"SQL text": plain_sql(ready), "query": repr((query.asked, query.given))})


def _left_out(name: str) -> str:
    return f"what is left out ({name})"


def _histogram(name: str) -> str:
    return f"histogram of {name}"


def _at_once(numbers: NDArray[np.int64]) -> ByGroup:
    """Numbers among which a unit moves one, or parts of several together."""
    return {(): numbers.ravel()}


def _in_order(sizes: NDArray[np.int64], *, public: bool) -> ByGroup:
    """The sizes of groups; of those that are not public, from the largest on, since nobody knows which is which."""
    ordered = sizes if public else np.sort(sizes)[::-1]
    return {(i,): ordered[i : i + 1] for i in range(len(ordered))}


def _by_place(measure: Measure, names: Sequence[Any], numbers: Any) -> ByGroup:
    """The numbers of a measure by what moves apart: groups; distinct units of a level; all other totals of it together.

    All that a unit adds may fall on one of a level's totals, or on several: its part is for one.
    """
    if not measure.for_table:
        return dict(zip(names, numbers, strict=True))
    if isinstance(measure, Total) and isinstance(measure.base, UnitsAt):
        return dict(enumerate(numbers))
    return _at_once(numbers)
