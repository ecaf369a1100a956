"""The share of rows for which a condition holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from osgt.data.expressions.expression import Expression, check_condition, holds
from osgt.data.sql import Table, Value
from osgt.estimation.intervals import ratio_interval
from osgt.query.aggregates.base import Aggregate, Error, Noisy, QuerySpec, check_name, check_weight
from osgt.query.groups import Groups
from osgt.query.measures import Measure, Place, Rows


@dataclass(frozen=True)
class Balance(Measure):
    """The rows for which a condition holds, less all others: half as far to move as the number of either.

    A condition that is neither true nor false for a row does not hold.
    """

    condition: Expression

    low = -1

    @property
    def words(self) -> str:
        return f"rows with {self.condition.text}, less all other rows"

    @property
    def reads(self) -> tuple[str, ...]:
        return self.condition.columns

    def derived(self, rows: Table) -> Value:
        return holds(self.condition, rows).then(1, -1)

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        return [rows[self]]


@dataclass(frozen=True)
class Proportion(Aggregate):
    """The share of the rows of a group for which a condition holds; a row of a heavy unit counts less."""

    kind = "proportion"

    balance: Balance
    count: Measure

    @property
    def measures(self) -> tuple[Measure, ...]:
        return self.count, self.balance

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        """The noise of balance - ratio·count, for a share of a quarter or of three quarters."""
        return (Error({self.balance: 1.0, self.count: 0.5}, float(groups.max_contribution(self.balance)), self.weight),)

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        count, balance = (noisy.number(measure) for measure in self.measures)
        low, high = ratio_interval(balance, count, 1, noisy.confidence)
        value = np.clip(balance.floats / np.maximum(count.floats, 1), low, high)
        unknown = (low <= -1.0) & (high >= 1.0)
        return self.with_interval(*((1.0 + array) / 2 for array in (value, low, high)), unknown=unknown)

    def arguments(self) -> dict[str, Any]:
        return {"condition": self.balance.condition.text}


class ProportionMethod(QuerySpec):
    """`query.proportion(…)`."""

    def proportion(self, condition: Any, *, name: str = "proportion", weight: float = 1) -> Self:
        """The share of the rows for which a condition holds, written as for `where`: between 0 and 1.

        A row of a unit with more than its limit counts less. With a limit of one row it is about the share of units.
        """
        balance = Balance(check_condition(self.dataset.table, condition, "condition"))
        rows = self.groups.canonical(Rows())
        return self.with_aggregate(Proportion(check_name(name, "proportion"), check_weight(weight), balance, rows))
