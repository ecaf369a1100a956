"""Released tables as views see them: numbers, plan, query, statement. The public classes extend them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from osgt.data.rows import PrivateRows, plain_rows
from osgt.facts.statement import NoisyTable, Statement
from osgt.plan.plan import AnyPlan
from osgt.query.groups import groups_alone


@dataclass(eq=False)
class ReleasedTable(NoisyTable):
    """A table that can be published: for each group the noisy values and their noise intervals."""

    statement: Statement

    @property
    def tables(self) -> dict[str, Self]:
        """The tables of the release: this one, without a name."""
        return {"": self}

    @property
    def dataset(self) -> PrivateRows:
        """The rows that the table is made of, which are private."""
        return self.query.dataset

    def rows(self, limit: int) -> list[dict[str, Any]]:
        """The first rows in plain values; dates as text, since Python knows no years beyond 9999."""
        return plain_rows(self.table.slice(0, limit))

    def without_totals(self) -> Self:
        """Drop the totals, so that the table has the groups alone."""
        return replace(self, table=groups_alone(self.table, self.query.groups.levels))

    def __len__(self) -> int:
        return int(self.table.num_rows)


class Released(Protocol):
    """A release of one table or of several, made from one budget."""

    @property
    def tables(self) -> Mapping[str, ReleasedTable]:
        """The tables by their names; a table alone has none."""

    @property
    def plan(self) -> AnyPlan:
        """The plan of all tables."""

    @property
    def statement(self) -> Statement:
        """The statement about all tables."""

    @property
    def dataset(self) -> PrivateRows:
        """The rows that all tables are made of, which are private."""

    @property
    def warnings(self) -> list[str]:
        """The warnings to read before the tables are relied on; empty as a rule."""
